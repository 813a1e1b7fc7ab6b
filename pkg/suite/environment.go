package suite

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// ForeignVariables are variables of the caller that would make AWS clients use other credentials or endpoints than the
// cluster's, besides the keys.
func ForeignVariables() []string {
	return []string{
		"AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN", "AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_ROLE_ARN",
		"AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI",
		"AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
	}
}

// systemBundles are where systems keep the certificates they trust, in one file.
func systemBundles() []string {
	return []string{
		"/etc/ssl/certs/ca-certificates.crt", // Debian, Alpine
		"/etc/pki/tls/certs/ca-bundle.crt",   // Fedora
		"/etc/ssl/ca-bundle.pem",             // SUSE
		"/etc/ssl/cert.pem",                  // macOS, BSD
	}
}

// environment is that of an external suite:
//
//	HIVE_ENDPOINT      https://<node 1>:9999
//	HIVE_NODES         management addresses, joined by commas
//	HIVE_NODE_NAMES    names, joined by commas
//	HIVE_CA_FILE       the cluster's CA certificate
//	ARTIFACTS          the suite's own directory; JUnit XML that it leaves there is read
//	AWS_*              access key, secret key, region, endpoints and CA of the cluster; profile files with the same
//	SSL_CERT_FILE, CURL_CA_BUNDLE, REQUESTS_CA_BUNDLE
//	                   what the system trusts, and the cluster's CA
//
// and what Options.Environment says, by hive's own names (see Upstream) too, on top of what of Options.Inherit is
// passed. What Options.SuiteEnv says comes last.
func (r *runner) environment(artifacts string) ([]string, error) {
	at := places{artifacts: artifacts, private: r.PrivateDir}
	if r.Credentials.CAPEM != "" {
		at.ca, at.bundle = filepath.Join(r.PrivateDir, "ca.pem"), filepath.Join(r.PrivateDir, "ca-bundle.pem")
	}
	if err := os.MkdirAll(at.private, 0o700); err != nil {
		return nil, fmt.Errorf("making the directory of the suite's own files: %w", err)
	}
	if err := r.certificates(at); err != nil {
		return nil, err
	}
	if err := r.profiles(at); err != nil {
		return nil, err
	}
	vars := r.variables(at, r.Environment)
	maps.Copy(vars, r.added())
	foreign := ForeignVariables()
	env := slices.DeleteFunc(r.inherited(), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		_, replaced := vars[name]
		return replaced || !passed(name) || slices.Contains(foreign, name) ||
			strings.HasPrefix(name, "AWS_ENDPOINT_URL_")
	})
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		env = append(env, name+"="+vars[name])
	}
	return env, nil
}

// places are where a suite finds its files, as it sees them; the CA's are empty where the CA is not known.
type places struct {
	artifacts string
	private   string // of the AWS profile files
	ca        string // the cluster's CA alone
	bundle    string // after what the system trusts
}

func (p places) awsConfig() string      { return p.private + "/aws-config" }
func (p places) awsCredentials() string { return p.private + "/aws-credentials" }

// variables are what a suite gets to know whose files are at those places. What more says wins where it is not empty.
func (r *runner) variables(at places, more map[string]string) map[string]string {
	var addresses, names []string
	for _, n := range r.Nodes {
		names = append(names, n.Name)
		if n.Management.IsValid() {
			addresses = append(addresses, n.Management.String())
		}
	}
	profile := r.profile(at)
	vars := map[string]string{
		"HIVE_ENDPOINT":               profile.Endpoint,
		"HIVE_NODES":                  strings.Join(addresses, ","),
		"HIVE_NODE_NAMES":             strings.Join(names, ","),
		"ARTIFACTS":                   at.artifacts,
		"ARTIFACT_DIR":                at.artifacts,
		"AWS_ACCESS_KEY_ID":           profile.AccessKey,
		"AWS_SECRET_ACCESS_KEY":       profile.SecretKey,
		"AWS_PROFILE":                 cmp.Or(r.Credentials.Profile, Profiles()[0]),
		"AWS_CONFIG_FILE":             at.awsConfig(),
		"AWS_SHARED_CREDENTIALS_FILE": at.awsCredentials(),
		"AWS_REGION":                  profile.Region,
		"AWS_DEFAULT_REGION":          profile.Region,
		"AWS_ENDPOINT_URL":            profile.Endpoint,
		"AWS_ENDPOINT_URL_S3":         profile.S3Endpoint,

		"SPINIFEX_AWS_ACCESS_KEY_ID":     profile.AccessKey,
		"SPINIFEX_AWS_SECRET_ACCESS_KEY": profile.SecretKey,
	}
	if at.ca != "" {
		vars["HIVE_CA_FILE"], vars["AWS_CA_BUNDLE"] = at.ca, at.ca
		for _, name := range []string{"SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE"} {
			vars[name] = at.bundle
		}
	}
	for name, value := range more {
		if value != "" {
			vars[name] = value
		}
	}
	Upstream(vars, len(r.Nodes))
	return vars
}

func (r *runner) profile(at places) Profile {
	leader := r.Nodes.Leader().Management
	return Profile{
		Region: cmp.Or(r.Credentials.Region, DefaultRegion), Endpoint: URL(leader, r.GatewayPort),
		S3Endpoint: URL(leader, S3Port), CAFile: at.ca,
		AccessKey: r.Credentials.AccessKey, SecretKey: r.Credentials.SecretKey,
	}
}

// profiles writes the AWS profile files of one suite: it may add to them, as hive's own suites do, and the next gets
// them new.
func (r *runner) profiles(at places) error {
	profile := r.profile(at)
	for path, content := range map[string][]byte{
		at.awsConfig(): profile.Config(), at.awsCredentials(): profile.Credentials(),
	} {
		if err := writePrivate(path, content); err != nil {
			return fmt.Errorf("writing the AWS profiles: %w", err)
		}
	}
	return nil
}

// writePrivate makes a file anew that only its owner can read, whatever was there before.
func writePrivate(path string, content []byte) error {
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return err
	}
	return os.WriteFile(path, content, 0o600)
}

// added are the variables of Options.SuiteEnv: those that have no value there have the caller's.
func (r *runner) added() map[string]string {
	vars := map[string]string{}
	for _, entry := range r.SuiteEnv {
		name, value, given := strings.Cut(entry, "=")
		if !given {
			value, given = lookUp(r.inherited(), name)
		}
		if given {
			vars[name] = value
		}
	}
	return vars
}

// lookUp is what an environment has for a name: the last entry counts.
func lookUp(env []string, name string) (value string, found bool) {
	for _, entry := range slices.Backward(env) {
		if value, found := strings.CutPrefix(entry, name+"="); found {
			return value, true
		}
	}
	return "", false
}

func (r *runner) inherited() []string {
	if r.Inherit != nil {
		return slices.Clone(r.Inherit)
	}
	return (&exec.Cmd{}).Environ()
}

// certificates writes the CA, alone and after what the system trusts, for clients that take one file for everything.
func (r *runner) certificates(at places) error {
	if at.ca == "" {
		return nil
	}
	if err := writePrivate(at.ca, []byte(r.Credentials.CAPEM)); err != nil {
		return fmt.Errorf("writing the cluster's CA certificate: %w", err)
	}
	bundle := slices.Concat(r.systemBundle(), []byte("\n"), []byte(r.Credentials.CAPEM))
	if err := writePrivate(at.bundle, bundle); err != nil {
		return fmt.Errorf("writing the CA certificates: %w", err)
	}
	return nil
}

func (r *runner) systemBundle() []byte {
	paths := systemBundles()
	if own, _ := lookUp(r.inherited(), "SSL_CERT_FILE"); own != "" {
		paths = append([]string{own}, paths...)
	}
	for _, path := range paths {
		if text, err := os.ReadFile(path); err == nil {
			return text
		}
	}
	return nil
}
