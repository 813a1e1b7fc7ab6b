package opentofu

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"hive-test/pkg/process"
)

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// passedOn returns the caller's variables that a child gets as they are. Everything else, TF_VAR_* and TF_CLI_ARGS*
// above all, stays outside: a plan depends on what is written in the cluster's directory and on nothing else. The
// provider would serialise the choice of ids through a file in TMPDIR: ids are chosen before, so each run may have a
// TMPDIR of its own.
func passedOn() []string {
	return []string{
		"PATH", "TMPDIR", "LANG", "LC_ALL", "TZ",
		"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
		"SSL_CERT_FILE", "SSL_CERT_DIR", "GODEBUG",
	}
}

// environment returns the whole environment of a child.
func (p *Provisioner) environment(ctx context.Context, w workdir, b Binary) (map[string]string, error) {
	env := map[string]string{
		"PATH":               defaultPath,
		"HOME":               w.home(), // the provider pins the hypervisors' host keys in $HOME/.ssh/known_hosts
		"CHECKPOINT_DISABLE": "1",
		ownerVariable:        p.options.OwnerID,
		runVariable:          process.Self().String(),
	}
	for _, key := range passedOn() {
		if value := lookup(p.options.Env, key); value != "" {
			env[key] = value
		}
	}
	if err := p.setInstallation(env, w, b); err != nil {
		return nil, err
	}
	if ca := p.ca(ctx); ca != "" {
		if err := writeBundle(w.caBundle(), env["SSL_CERT_FILE"], ca); err != nil {
			return nil, err
		}
		env["SSL_CERT_FILE"] = w.caBundle()
	}
	return env, p.setCredentials(env)
}

// ca is the file of the CA that the API's certificate is compared with; empty: the system's.
func (p *Provisioner) ca(ctx context.Context) string {
	if p.options.FetchCA != nil {
		return p.options.FetchCA(ctx)
	}
	return p.options.CAFile
}

// setCredentials puts into env what the provider needs to log in. The environment is the only way a secret takes.
func (p *Provisioner) setCredentials(env map[string]string) error {
	o := p.options
	env["PROXMOX_VE_API_TOKEN"] = o.Token
	env["PROXMOX_VE_INSECURE"] = strconv.FormatBool(o.Insecure)
	if o.SSHUser != "" {
		env["PROXMOX_VE_SSH_USERNAME"] = o.SSHUser
	}
	if o.SSHPrivateKeyPath != "" {
		key, err := os.ReadFile(o.SSHPrivateKeyPath)
		if err != nil {
			return fmt.Errorf("read the private key for the hypervisors: %w", err)
		}
		env["PROXMOX_VE_SSH_PRIVATE_KEY"] = string(key)
		env["PROXMOX_VE_SSH_AGENT"] = "false"
		return nil
	}
	if socket := cmp.Or(o.SSHAgent, lookup(o.Env, "SSH_AUTH_SOCK")); socket != "" {
		env["SSH_AUTH_SOCK"] = socket
		env["PROXMOX_VE_SSH_AGENT"] = "true"
	}
	return nil
}

// secrets returns the values that must not be seen in any output.
func (p *Provisioner) secrets(env map[string]string) []string {
	var list []string
	if token := env["PROXMOX_VE_API_TOKEN"]; token != "" {
		list = append(list, token)
		if _, secret, ok := strings.Cut(token, "="); ok && secret != "" {
			list = append(list, secret)
		}
	}
	for line := range strings.SplitSeq(env["PROXMOX_VE_SSH_PRIVATE_KEY"], "\n") {
		if line = strings.TrimSpace(line); len(line) >= 16 && !strings.HasPrefix(line, "-----") {
			list = append(list, line)
		}
	}
	return list
}

// setInstallation says where providers come from: the mirror if there is one, and nothing else then; otherwise what the
// user has configured for tofu, with a shared cache.
func (p *Provisioner) setInstallation(env map[string]string, w workdir, b Binary) error {
	config := ""
	switch own := p.userConfig(b); {
	case p.options.ProviderMirror != "":
		mirror, err := filepath.Abs(p.options.ProviderMirror)
		if err != nil {
			return fmt.Errorf("provider mirror: %w", err)
		}
		config = fmt.Sprintf("provider_installation {\n  filesystem_mirror {\n    path = %s\n  }\n}\n", quoteHCL(mirror))
	case own != "":
		env["TF_CLI_CONFIG_FILE"] = own
		if raw, err := os.ReadFile(own); err == nil && bytes.Contains(raw, []byte("plugin_cache_dir")) {
			return nil
		}
	}
	if _, ok := env["TF_CLI_CONFIG_FILE"]; !ok {
		if err := replace(w.cliConfig(), []byte(config)); err != nil {
			return fmt.Errorf("write the CLI configuration: %w", err)
		}
		env["TF_CLI_CONFIG_FILE"] = w.cliConfig()
	}
	if cache := p.pluginCache(b); cache != "" {
		if err := os.MkdirAll(cache, 0o755); err != nil {
			return fmt.Errorf("make the provider cache: %w", err)
		}
		env["TF_PLUGIN_CACHE_DIR"] = cache
	}
	return nil
}

// pluginCache returns the shared directory of unpacked providers, or nothing where a mirror makes it needless: a mirror
// is linked to, not copied.
func (p *Provisioner) pluginCache(b Binary) string {
	if p.options.ProviderMirror != "" {
		return ""
	}
	if own := lookup(p.options.Env, "TF_PLUGIN_CACHE_DIR"); own != "" {
		return own
	}
	if p.options.CacheDir == "" {
		return ""
	}
	return filepath.Join(p.options.CacheDir, "providers")
}

// userConfig returns the user's own CLI configuration file, or nothing. HOME is not the user's in a child, so the
// programs would not find it themselves. A variable that names a missing file counts as not set.
func (p *Provisioner) userConfig(b Binary) string {
	paths := []string{lookup(p.options.Env, "TF_CLI_CONFIG_FILE")}
	if home := lookup(p.options.Env, "HOME"); home != "" {
		if b.Flavor == OpenTofu {
			paths = append(paths, filepath.Join(home, ".tofurc"))
			if xdg := lookup(p.options.Env, "XDG_CONFIG_HOME"); xdg != "" {
				paths = append(paths, filepath.Join(xdg, "opentofu", "tofurc"))
			}
		}
		paths = append(paths, filepath.Join(home, ".terraformrc"))
	}
	for _, path := range paths {
		if info, err := os.Stat(path); path != "" && err == nil && info.Mode().IsRegular() {
			return path
		}
	}
	return ""
}

// quoteHCL quotes text as an HCL string.
func quoteHCL(s string) string {
	return strings.NewReplacer("${", "$${", "%{", "%%{").Replace(strconv.Quote(s))
}

// systemBundles returns where systems keep their trusted certificates, as one file.
func systemBundles() []string {
	return []string{
		"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
		"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem",
	}
}

// writeBundle writes the system's certificates and those of file into path. The provider has no setting for a CA; it
// trusts what SSL_CERT_FILE holds (except on macOS, where Go asks the keychain only).
func writeBundle(path, system, file string) error {
	own, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read the CA of Proxmox VE: %w", err)
	}
	if !bytes.Contains(own, []byte("-----BEGIN CERTIFICATE-----")) {
		return fmt.Errorf("the CA file %s holds no certificate in PEM form", file)
	}
	bundle := append(bytes.TrimSpace(own), '\n')
	candidates := systemBundles()
	if system != "" {
		candidates = slices.Insert(candidates, 0, system)
	}
	for _, candidate := range candidates {
		roots, err := os.ReadFile(candidate)
		if err == nil {
			bundle = append(bundle, roots...)
			break
		}
		if !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("read the system's certificates: %w", err)
		}
	}
	if err := replace(path, bundle); err != nil {
		return fmt.Errorf("write the certificates: %w", err)
	}
	return nil
}
