package api

import (
	"context"
	"crypto/x509"
	"fmt"
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
	// The handshake must not fail where the certificate is not trusted, for that is what is to be told: it is verified
	// below.
	config, err := tlsConfig(Options{Insecure: true})
	if err != nil {
		return "", nil, err
	}
	call := &callError{method: "reading", path: "the certificate", endpoint: base, kind: ErrUnreachable}
	chain, err := shownCertificates(ctx, parsed, config)
	if err != nil {
		call.err = err
		return "", nil, call
	}
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
