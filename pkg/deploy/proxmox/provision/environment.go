package provision

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

	"github.com/google/renameio/v2"

	"hive-test/pkg/opentofu"
)

// environment returns what the provider is told in a working directory, where ca is the file of the CA that the API's
// certificate is compared with (empty: the system's). The provider would serialise the choice of ids through a file in
// TMPDIR: ids are chosen before, so each run may have a TMPDIR of its own.
func (p *Provisioner) environment(dir, ca string) (opentofu.Environment, error) {
	o := p.options
	env := map[string]string{"PROXMOX_VE_API_TOKEN": o.Token, "PROXMOX_VE_INSECURE": strconv.FormatBool(o.Insecure)}
	if ca != "" {
		env["SSL_CERT_FILE"] = filepath.Join(dir, "ca-bundle.pem")
		if err := writeBundle(env["SSL_CERT_FILE"], opentofu.Lookup(o.Tofu.Env, "SSL_CERT_FILE"), ca); err != nil {
			return opentofu.Environment{}, err
		}
	}
	if o.SSHUser != "" {
		env["PROXMOX_VE_SSH_USERNAME"] = o.SSHUser
	}
	if o.SSHPrivateKeyPath != "" {
		key, err := os.ReadFile(o.SSHPrivateKeyPath)
		if err != nil {
			return opentofu.Environment{}, fmt.Errorf("read the private key for the hypervisors: %w", err)
		}
		env["PROXMOX_VE_SSH_PRIVATE_KEY"], env["PROXMOX_VE_SSH_AGENT"] = string(key), "false"
	} else if socket := cmp.Or(o.SSHAgent, opentofu.Lookup(o.Tofu.Env, "SSH_AUTH_SOCK")); socket != "" {
		env["SSH_AUTH_SOCK"], env["PROXMOX_VE_SSH_AGENT"] = socket, "true"
	}
	return opentofu.Environment{Variables: env, Secrets: secrets(env)}, nil
}

// ca is the file of the CA that the API's certificate is compared with; empty: the system's.
func (p *Provisioner) ca(ctx context.Context) string {
	if p.options.FetchCA != nil {
		return p.options.FetchCA(ctx)
	}
	return p.options.CAFile
}

// secrets returns the values that must not be seen in any output.
func secrets(env map[string]string) []string {
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
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, bundle) {
		return nil
	}
	if err := renameio.WriteFile(path, bundle, 0o600); err != nil {
		return fmt.Errorf("write the certificates: %w", err)
	}
	return nil
}
