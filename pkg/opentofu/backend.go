package opentofu

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Backend is where the state of a directory is kept. The zero value is a file beside the directory.
type Backend struct {
	// Type is one of BackendTypes; empty: a local file.
	Type string
	// Config are the backend's own settings, without secrets: those go by environment.
	Config map[string]any
	// Passphrase encrypts what is kept, where OpenTofu runs, which can do so; empty: nothing is encrypted. It has at least
	// MinPassphrase characters.
	Passphrase string
}

// MinPassphrase is the shortest passphrase that OpenTofu takes (its key provider pbkdf2).
const MinPassphrase = 16

// Remote reports whether the state is kept elsewhere.
func (b Backend) Remote() bool { return b.Type != "" }

// placeholder stands for the cluster's name in a backend's settings.
const placeholder = "{name}"

// backendType is what is known of a backend: how each cluster gets a state of its own, what child processes are told by environment
// alone, and what is set where nothing is said. (Read in OpenTofu's documentation of each backend.)
type backendType struct {
	address  []string // settings of which one names the state
	secrets  []string // settings that are refused: they are secrets
	variable string   // of the environment, for the secrets
	prefixes []string // of the variables that a child gets
}

func backendTypes() map[string]backendType {
	return map[string]backendType{
		"http":       {[]string{"address"}, []string{"username", "password", "client_private_key_pem"}, "TF_HTTP_USERNAME and TF_HTTP_PASSWORD", []string{"TF_HTTP_"}},
		"s3":         {[]string{"key"}, []string{"access_key", "secret_key", "token", "sse_customer_key"}, "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", []string{"AWS_"}},
		"pg":         {[]string{"schema_name", "table_name", "index_name"}, nil, "PG_CONN_STR, or PGUSER and PGPASSWORD", []string{"PG"}},
		"gcs":        {[]string{"prefix"}, []string{"credentials", "access_token", "encryption_key"}, "GOOGLE_CREDENTIALS", []string{"GOOGLE_", "CLOUDSDK_"}},
		"azurerm":    {[]string{"key"}, []string{"access_key", "sas_token", "client_secret", "client_certificate_password"}, "ARM_ACCESS_KEY or ARM_CLIENT_SECRET", []string{"ARM_"}},
		"consul":     {[]string{"path"}, []string{"access_token", "http_auth"}, "CONSUL_HTTP_TOKEN", []string{"CONSUL_"}},
		"kubernetes": {[]string{"secret_suffix"}, []string{"password", "token", "client_key"}, "KUBE_TOKEN", []string{"KUBE_"}},
	}
}

// BackendTypes returns the backends that there are besides a local file, sorted.
func BackendTypes() []string { return slices.Sorted(maps.Keys(backendTypes())) }

// CheckBackend returns what is wrong with a backend's type and settings, as users write them, with {name} for the name of a cluster.
func CheckBackend(kind string, config map[string]any) error {
	known, ok := backendTypes()[kind]
	if !ok {
		return fmt.Errorf("there is no backend %q: use local, %s", kind, strings.Join(BackendTypes(), ", "))
	}
	for name, value := range config {
		if slices.Contains(known.secrets, name) || name == "conn_str" && hasPassword(value) {
			return fmt.Errorf("%s is a secret, which no file should hold: set %s", name, known.variable)
		}
		if name == "address" && hasPassword(value) {
			return fmt.Errorf("the address holds a password: set %s", known.variable)
		}
	}
	own := slices.ContainsFunc(known.address, func(name string) bool {
		text, _ := config[name].(string)
		return strings.Contains(text, placeholder)
	})
	if !own {
		return fmt.Errorf("%s must hold %s: two clusters would have one state otherwise", strings.Join(known.address, " or "), placeholder)
	}
	return nil
}

func hasPassword(value any) bool {
	text, _ := value.(string)
	if parsed, err := url.Parse(text); err == nil && parsed.User != nil {
		_, has := parsed.User.Password()
		return has
	}
	return strings.Contains(text, "password=")
}

// Of returns the backend for the state of that name: each has its own. What makes it lock, and stores that are not Amazon's work, is set
// where nothing else is.
func (b Backend) Of(name string) Backend {
	own := Backend{Type: b.Type, Config: replaced(b.Config, name).(map[string]any), Passphrase: b.Passphrase}
	set := func(key string, value any) {
		if _, said := own.Config[key]; !said && value != nil {
			own.Config[key] = value
		}
	}
	switch b.Type {
	case "http":
		for _, key := range []string{"lock_address", "unlock_address"} {
			set(key, own.Config["address"])
		}
		set("lock_method", "LOCK")
		set("unlock_method", "UNLOCK")
	case "s3":
		if _, dynamo := own.Config["dynamodb_table"]; !dynamo {
			set("use_lockfile", true)
		}
	}
	return own
}

// replaced is a value with the name in place of {name}.
func replaced(value any, name string) any {
	switch v := value.(type) {
	case string:
		return strings.ReplaceAll(v, placeholder, name)
	case map[string]any:
		out := map[string]any{}
		for key, below := range v {
			out[key] = replaced(below, name)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, below := range v {
			out[i] = replaced(below, name)
		}
		return out
	}
	return value
}

// backendFile overrides the backend of the module.
const backendFile = "backend_override.tf.json"

// block is the content of backendFile; nil: the state is a local file.
func (b Backend) block() ([]byte, error) {
	if !b.Remote() {
		return nil, nil
	}
	return json.MarshalIndent(map[string]any{
		"//":        "hive-test has made this file of the setting state: changes here are lost.",
		"terraform": map[string]any{"backend": map[string]any{b.Type: b.Config}},
	}, "", "  ")
}

// write puts the backend's block into a working directory, or takes it away.
func (b Backend) write(w workdir) error {
	block, err := b.block()
	if err != nil {
		return err
	}
	if block == nil {
		return removed(w.file(backendFile))
	}
	return replace(w.file(backendFile), append(block, '\n'))
}

// environment is what a child gets for the backend from the caller's environment, and what of it must not be seen.
func (b Backend) environment(environ []string, flavor string) (variables map[string]string, secrets []string) {
	variables = map[string]string{}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if value == "" || !slices.ContainsFunc(backendTypes()[b.Type].prefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
			continue
		}
		variables[name] = value
		if secretName(name) {
			secrets = append(secrets, value)
		}
	}
	if b.Type == "s3" {
		b.forS3(variables, environ)
	}
	if b.Passphrase != "" && flavor == OpenTofu {
		variables["TF_ENCRYPTION"] = encryption(b.Passphrase)
	}
	if b.Passphrase != "" {
		secrets = append(secrets, b.Passphrase)
	}
	return variables, secrets
}

// forS3 makes the files of Amazon's tools found, as HOME is not the user's in a child; and stores that only are like S3, such as R2, know
// none of the checksums that newer clients add.
func (b Backend) forS3(variables map[string]string, environ []string) {
	for variable, file := range map[string]string{"AWS_SHARED_CREDENTIALS_FILE": "credentials", "AWS_CONFIG_FILE": "config"} {
		path := filepath.Join(Lookup(environ, "HOME"), ".aws", file)
		if _, err := os.Stat(path); variables[variable] == "" && err == nil {
			variables[variable] = path
		}
	}
	_, elsewhere := b.Config["endpoints"]
	_, elsewhereToo := b.Config["endpoint"]
	if !elsewhere && !elsewhereToo && variables["AWS_ENDPOINT_URL"] == "" && variables["AWS_ENDPOINT_URL_S3"] == "" {
		return
	}
	for _, variable := range []string{"AWS_REQUEST_CHECKSUM_CALCULATION", "AWS_RESPONSE_CHECKSUM_VALIDATION"} {
		if variables[variable] == "" {
			variables[variable] = "when_required"
		}
	}
}

// secretName reports whether a variable of that name holds a secret.
func secretName(name string) bool {
	return slices.ContainsFunc([]string{"PASSWORD", "SECRET", "TOKEN", "_KEY", "CONN_STR", "CREDENTIALS", "SAS"}, func(part string) bool {
		return strings.Contains(name, part) && !strings.HasSuffix(name, "_FILE") && name != "AWS_ACCESS_KEY_ID"
	})
}

// encryption is OpenTofu's configuration of encryption by a passphrase, of state and plans.
func encryption(passphrase string) string {
	// As many rounds of SHA-512 as OWASP advises; each child has them to do twice, and OpenTofu's own 600,000 take most of its time.
	return "key_provider \"pbkdf2\" \"hive_test\" {\n  passphrase = " + quoteHCL(passphrase) + "\n  iterations = 210000\n}\n" +
		"method \"aes_gcm\" \"hive_test\" {\n  keys = key_provider.pbkdf2.hive_test\n}\n" +
		"state {\n  method   = method.aes_gcm.hive_test\n  enforced = true\n}\n" +
		"plan {\n  method   = method.aes_gcm.hive_test\n  enforced = true\n}\n"
}

// erroredState is where a program leaves the state that it could not write to the backend.
const erroredState = "errored.tfstate"

// errored returns the path of a state that a run could not write to the backend; empty: there is none.
func (w workdir) errored() (string, error) {
	path := w.file(erroredState)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	} else if err != nil {
		return "", err
	}
	return path, nil
}
