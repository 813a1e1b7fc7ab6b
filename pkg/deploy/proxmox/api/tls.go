package api

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"

	"hive-test/pkg/deploy"
)

// tlsConfig verifies the server by the system's roots, by one CA file or by the certificate's own fingerprint.
func tlsConfig(opts Options) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	switch {
	case opts.Insecure:
		config.InsecureSkipVerify = true
	case opts.Fingerprint != "":
		want, err := parseFingerprint(opts.Fingerprint)
		if err != nil {
			return nil, err
		}
		// The pin replaces the chain: PVE's own certificates are signed by a CA that only the cluster knows.
		config.InsecureSkipVerify = true
		config.VerifyConnection = func(state tls.ConnectionState) error { return checkPin(state, want) }
	case opts.CAFile != "":
		pool, err := loadCA(opts.CAFile)
		if err != nil {
			return nil, err
		}
		config.RootCAs = pool
	}
	return config, nil
}

func loadCA(path string) (*x509.CertPool, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the proxmox CA file: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("proxmox CA file %s holds no PEM certificate: copy /etc/pve/pve-root-ca.pem of a hypervisor", path)
	}
	return pool, nil
}

func parseFingerprint(s string) ([]byte, error) {
	cleaned := strings.NewReplacer(":", "", " ", "").Replace(s)
	if before, after, found := strings.Cut(cleaned, "="); found && strings.HasPrefix(strings.ToLower(before), "sha256") {
		cleaned = after // as openssl prints it
	}
	sum, err := hex.DecodeString(cleaned)
	if err != nil || len(sum) != sha256.Size {
		return nil, fmt.Errorf("proxmox fingerprint %q is not a SHA-256 in hex (64 digits, colons optional)", s)
	}
	return sum, nil
}

// Fingerprint is the SHA-256 of a certificate as openssl and PVE print it: upper-case hex with colons.
func Fingerprint(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.Raw)
	parts := make([]string, len(sum))
	for i, b := range sum {
		parts[i] = fmt.Sprintf("%02X", b)
	}
	return strings.Join(parts, ":")
}

// pinError says that the server has another certificate than the pinned one.
type pinError struct{ got string }

func (e *pinError) Error() string {
	return "the server's certificate has another fingerprint than the configured one: " + e.got
}

func checkPin(state tls.ConnectionState, want []byte) error {
	if len(state.PeerCertificates) == 0 {
		return &pinError{got: "none"}
	}
	leaf := state.PeerCertificates[0]
	sum := sha256.Sum256(leaf.Raw)
	if subtle.ConstantTimeCompare(sum[:], want) != 1 {
		return &pinError{got: Fingerprint(leaf)}
	}
	return nil
}

func isTLS(err error) bool {
	_, pin := errors.AsType[*pinError](err)
	_, verify := errors.AsType[*tls.CertificateVerificationError](err)
	_, alert := errors.AsType[tls.AlertError](err)
	return pin || verify || alert
}

// describeTLS adds what a user needs to decide: which certificate was seen and why it was not accepted.
func describeTLS(err error) error {
	verify, ok := errors.AsType[*tls.CertificateVerificationError](err)
	if !ok {
		return err
	}
	if len(verify.UnverifiedCertificates) == 0 {
		return verify
	}
	return &seenError{err: verify.Err, fingerprint: Fingerprint(verify.UnverifiedCertificates[0])}
}

// seenError is a certificate that failed verification, with its fingerprint.
type seenError struct {
	err         error
	fingerprint string
}

func (e *seenError) Error() string {
	return fmt.Sprintf("%s (the server's certificate has the SHA-256 fingerprint %s)", e.err, e.fingerprint)
}

func (e *seenError) Unwrap() error { return e.err }

// SeenFingerprint returns the fingerprint of the certificate that err is about, if it is about one that was not
// accepted.
func SeenFingerprint(err error) (string, bool) {
	if pin, ok := errors.AsType[*pinError](err); ok {
		return pin.got, true
	}
	if seen, ok := errors.AsType[*seenError](err); ok {
		return seen.fingerprint, true
	}
	return "", false
}

// How certificates come to be trusted. Not every verb has the flags.
const (
	caFix = "set proxmox.ca_file (--proxmox-ca-file, HIVE_TEST_PROXMOX_CA_FILE) to a copy of the hypervisor's " +
		"/etc/pve/pve-root-ca.pem"
	fingerprintFix = "set proxmox.fingerprint (--proxmox-fingerprint, HIVE_TEST_PROXMOX_FINGERPRINT) to "
)

// tlsFix says how the server at endpoint, which err is about, can come to be trusted.
func tlsFix(err error, endpoint string) string {
	if wrong, ok := errors.AsType[x509.HostnameError](err); ok {
		return nameFix(wrong.Certificate, endpoint)
	}
	fix := caFix + ", or unset it where the hypervisor has a certificate of a public CA"
	if seen, ok := SeenFingerprint(err); ok {
		fix += ", or, after comparing it with what this prints there: " + fingerprintCommand + ", " + fingerprintFix + seen
	}
	return fix
}

// fingerprintCommand prints, on a hypervisor, the fingerprint of the certificate that its API shows: one that an
// administrator or ACME has put there goes before the one that the cluster has made.
const fingerprintCommand = `cd /etc/pve/local && openssl x509 -noout -fingerprint -sha256 -in ` +
	`"$([ -e pveproxy-ssl.pem ] && echo pveproxy-ssl.pem || echo pve-ssl.pem)"`

// nameFix names endpoints that the certificate is for.
func nameFix(cert *x509.Certificate, endpoint string) string {
	parsed, err := url.Parse(endpoint)
	names := certificateNames(cert)
	if err != nil || len(names) == 0 {
		return "give the hypervisor a certificate that names it: pvecm updatecerts --force"
	}
	for i, name := range names {
		if strings.Contains(name, ":") {
			name = "[" + name + "]"
		}
		if port := parsed.Port(); port != "" {
			name += ":" + port
		}
		names[i] = "https://" + name
	}
	fix := "set proxmox.endpoint to " + names[0]
	if len(names) > 1 {
		fix += " (or to one of " + strings.Join(names[1:], " ") + ")"
	}
	return fix
}

// certificateNames are the names and addresses that a certificate is for; those of the host itself only where there are
// no others.
func certificateNames(cert *x509.Certificate) []string {
	var names, own []string
	for _, name := range cert.DNSNames {
		if name == "localhost" {
			own = append(own, name)
			continue
		}
		names = append(names, name)
	}
	for _, address := range cert.IPAddresses {
		if address.IsLoopback() {
			own = append(own, address.String())
			continue
		}
		names = append(names, address.String())
	}
	if len(names) > 0 {
		return names
	}
	return own
}

// CheckPinnedName finds out whether the certificate that is pinned names the host of the endpoint: this package does
// not need that, and the provider, which knows no fingerprints, does. Nothing is found where the certificate cannot be
// had: others say so.
func CheckPinnedName(ctx context.Context, endpoint, fingerprint string) []deploy.Finding {
	f := deploy.Finding{ID: "pve-tls-name", Title: "certificate names the endpoint", Status: deploy.Pass}
	raw, err := PinnedCertificate(ctx, endpoint, fingerprint)
	if err != nil {
		return nil
	}
	block, _ := pem.Decode(raw)
	cert, err := x509.ParseCertificate(block.Bytes)
	parsed, urlErr := url.Parse(endpoint)
	if err != nil || urlErr != nil {
		return nil
	}
	f.Detail = strings.Join(certificateNames(cert), ", ")
	if err := cert.VerifyHostname(parsed.Hostname()); err != nil {
		f.Status, f.Fix = deploy.Fail, nameFix(cert, endpoint)
		f.Detail = "the fingerprint is right, and the provider compares names, too: " + err.Error()
	}
	return []deploy.Finding{f}
}

// PinnedCertificate returns, as PEM, the certificate that the API at endpoint shows, if it is the one with this
// fingerprint: for programs that can be told a certificate to trust but no fingerprint. They still compare the host
// name.
func PinnedCertificate(ctx context.Context, endpoint, fingerprint string) ([]byte, error) {
	config, err := tlsConfig(Options{Fingerprint: fingerprint})
	if err != nil {
		return nil, err
	}
	parsed, err := url.Parse(endpoint)
	if err != nil {
		return nil, fmt.Errorf("proxmox endpoint: %w", err)
	}
	chain, err := shownCertificates(ctx, parsed, config)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate of %s: %w", addressOf(parsed), err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: chain[0].Raw}), nil // checkPin has seen it
}

// shownCertificates returns the chain that a server shows, which may be empty. Nothing is sent to it.
func shownCertificates(ctx context.Context, endpoint *url.URL, config *tls.Config) ([]*x509.Certificate, error) {
	dialer := &tls.Dialer{Config: config, NetDialer: &net.Dialer{Timeout: dialTimeout}} // of the handshake too
	conn, err := dialer.DialContext(ctx, "tcp", addressOf(endpoint))
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates, nil
}

// addressOf is where the server of an https endpoint listens.
func addressOf(endpoint *url.URL) string {
	if endpoint.Port() == "" {
		return net.JoinHostPort(endpoint.Hostname(), "443")
	}
	return endpoint.Host
}
