package suite

import (
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// foreign are variables of the caller that would make AWS clients use other credentials or endpoints than the cluster's.
var foreign = []string{
	"AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN", "AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_ROLE_ARN",
	"AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI",
	"AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
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
//	AWS_*              access key, secret key, region, endpoint and CA of the cluster
//	SSL_CERT_FILE, CURL_CA_BUNDLE, REQUESTS_CA_BUNDLE
//	                   what the system trusts, and the cluster's CA
//
// and what Options.Environment says, on top of Options.Inherit.
func (r *runner) environment(artifacts string) ([]string, error) {
	vars := map[string]string{
		"HIVE_ENDPOINT":         r.endpoint(),
		"ARTIFACTS":             artifacts,
		"AWS_ACCESS_KEY_ID":     r.Credentials.AccessKey,
		"AWS_SECRET_ACCESS_KEY": r.Credentials.SecretKey,
		"AWS_REGION":            r.region(),
		"AWS_DEFAULT_REGION":    r.region(),
		"AWS_ENDPOINT_URL":      r.endpoint(),
	}
	var addresses, names []string
	for _, n := range r.Nodes {
		names = append(names, n.Name)
		if n.Management.IsValid() {
			addresses = append(addresses, n.Management.String())
		}
	}
	vars["HIVE_NODES"], vars["HIVE_NODE_NAMES"] = strings.Join(addresses, ","), strings.Join(names, ",")
	if err := r.certificates(artifacts, vars); err != nil {
		return nil, err
	}
	for name, value := range r.Environment {
		if value != "" {
			vars[name] = value
		}
	}
	env := slices.DeleteFunc(r.inherited(), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		_, replaced := vars[name]
		return replaced || slices.Contains(foreign, name) || strings.HasPrefix(name, "AWS_ENDPOINT_URL_")
	})
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		env = append(env, name+"="+vars[name])
	}
	return env, nil
}

func (r *runner) inherited() []string {
	if r.Inherit != nil {
		return slices.Clone(r.Inherit)
	}
	return (&exec.Cmd{}).Environ()
}

func (r *runner) endpoint() string {
	leader := r.Nodes.Leader().Management
	if !leader.IsValid() {
		return ""
	}
	return "https://" + net.JoinHostPort(leader.String(), strconv.Itoa(r.GatewayPort))
}

func (r *runner) region() string {
	if r.Credentials.Region == "" {
		return defaultRegion
	}
	return r.Credentials.Region
}

// certificates writes the CA, alone and after what the system trusts, for clients that take one file for everything.
func (r *runner) certificates(artifacts string, vars map[string]string) error {
	ca := r.Credentials.CAPEM
	if ca == "" {
		return nil
	}
	alone := filepath.Join(artifacts, "ca.pem")
	if err := os.WriteFile(alone, []byte(ca), 0o600); err != nil {
		return fmt.Errorf("writing the cluster's CA certificate: %w", err)
	}
	together := filepath.Join(artifacts, "ca-bundle.pem")
	bundle := slices.Concat(r.systemBundle(), []byte("\n"), []byte(ca))
	if err := os.WriteFile(together, bundle, 0o600); err != nil {
		return fmt.Errorf("writing the CA certificates: %w", err)
	}
	vars["HIVE_CA_FILE"], vars["AWS_CA_BUNDLE"] = alone, alone
	for _, name := range []string{"SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE"} {
		vars[name] = together
	}
	return nil
}

func (r *runner) systemBundle() []byte {
	paths := systemBundles()
	for _, entry := range r.inherited() {
		if own, ok := strings.CutPrefix(entry, "SSL_CERT_FILE="); ok && own != "" {
			paths = append([]string{own}, paths...)
		}
	}
	for _, path := range paths {
		if text, err := os.ReadFile(path); err == nil {
			return text
		}
	}
	return nil
}
