package simhive

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
)

// Where root's init and join of the later era put the cluster's CA, and what only the simulator's isolated hosts have.
const (
	trustFile   = "usr/local/share/ca-certificates/spinifex-ca.crt"
	guestMarker = "/usr/lib/hive-sim/guest"
)

// hostRoot is where the simulated host keeps its files: "/" on an isolated one, empty where there is no simulated host.
// The trust store of the machine behind it is somebody's own and is never written.
func (p *program) hostRoot() string {
	if root := p.env["SIM_HOST_ROOT"]; root != "" {
		return root
	}
	if exists(guestMarker) {
		return "/"
	}
	return ""
}

// isRoot tells whether the simulated user is root: hosts without isolation have one user only, and name root to it.
func (p *program) isRoot() bool {
	if p.env["SIM_HOST_ROOT"] != "" {
		return p.env["USER"] == "root"
	}
	return os.Geteuid() == 0
}

// trust makes the node trust the cluster's CA, as only root of the later era does.
func (p *program) trust(ca []byte) error {
	root := p.hostRoot()
	if !p.settings.spx() || root == "" || !p.isRoot() {
		return nil
	}
	file := filepath.Join(root, trustFile)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("make the directory of trusted certificates: %w", err)
	}
	return writeFile(file, ca, 0o644)
}

// systemTrust is what a service trusts that was told of no CA: the system's store, which SSL_CERT_FILE replaces, and
// what root has put there.
func (p *program) systemTrust() *tls.Config {
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if root := p.hostRoot(); root != "" && p.env["SSL_CERT_FILE"] == "" {
		if ca, err := os.ReadFile(filepath.Join(root, trustFile)); err == nil {
			pool.AppendCertsFromPEM(ca)
		}
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}

// fileTrust trusts the CA of a file.
func fileTrust(file string) (*tls.Config, error) {
	ca, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("NATS TLS configuration error: failed to read CA certificate %s: %w", file, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("NATS TLS configuration error: failed to parse CA certificate from %s", file)
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, nil
}
