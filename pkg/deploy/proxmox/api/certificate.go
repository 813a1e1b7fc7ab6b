package api

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/url"
)

// ServerCertificate reads the certificate that the API at endpoint shows, and sends nothing. Distrusted is why this
// machine does not trust it by itself; nil: it does. Its hint says how it can come to be trusted.
func ServerCertificate(ctx context.Context, endpoint string) (fingerprint string, distrusted, err error) {
	base, err := endpointURL(endpoint)
	if err != nil {
		return "", nil, err
	}
	parsed, err := url.Parse(base)
	if err != nil {
		return "", nil, fmt.Errorf("proxmox endpoint: %w", err)
	}
	address := parsed.Host
	if parsed.Port() == "" {
		address = net.JoinHostPort(parsed.Hostname(), "443")
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true, ServerName: parsed.Hostname()}
	dialer := &tls.Dialer{Config: config, NetDialer: &net.Dialer{Timeout: dialTimeout}}
	call := &callError{method: "reading", path: "the certificate", endpoint: base, kind: ErrUnreachable}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		call.err = err
		return "", nil, call
	}
	defer func() { _ = conn.Close() }()
	chain := conn.(*tls.Conn).ConnectionState().PeerCertificates
	if len(chain) == 0 {
		call.err = fmt.Errorf("it shows no certificate")
		return "", nil, call
	}
	fingerprint = Fingerprint(chain[0])
	options := x509.VerifyOptions{DNSName: parsed.Hostname(), Intermediates: x509.NewCertPool()}
	for _, cert := range chain[1:] {
		options.Intermediates.AddCert(cert)
	}
	if _, err := chain[0].Verify(options); err != nil {
		call.kind, call.err = ErrTLS, &seenError{err: err, fingerprint: fingerprint}
		return fingerprint, call, nil
	}
	return fingerprint, nil, nil
}

// FingerprintCommand prints, on a hypervisor, the fingerprint of the certificate that its API shows.
func FingerprintCommand() string { return fingerprintCommand }

// AccessError says of an error of the first call what is to be mended: a wrong token, a wrong CA and a wrong address
// differ. It keeps the error itself.
func AccessError(err error, endpoint, tokenID string) (detail, fix string) {
	f := accessFinding(err, PreflightRequest{Endpoint: endpoint, TokenID: tokenID})
	return f.Detail, f.Fix
}
