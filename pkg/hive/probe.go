package hive

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// Limits of one request of a probe. A gateway waits up to 3 seconds for nodes that are silent before it answers, and reads what it
// verifies a signature with from other nodes.
const (
	probeTimeout = 4 * time.Second
	apiTimeout   = 10 * time.Second
)

// prober makes HTTP requests to nodes. TLS is verified with the cluster's own CA, and with no other. Requests to one address that
// follow each other share a connection: a handshake costs more than all else that is asked. Connections end with close.
type prober struct {
	client    *http.Client
	transport *http.Transport
}

// newProber returns a prober that trusts ca (PEM); without one it makes no TLS connection that it could believe.
func (c *Cluster) newProber(ca []byte) *prober {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	transport := &http.Transport{
		DialContext:     c.options.Dial,
		TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
		Proxy:           nil, // nodes are reached as Options.Dial does
	}
	return &prober{client: &http.Client{Transport: transport, Timeout: probeTimeout, CheckRedirect: noRedirect}, transport: transport}
}

func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// patient returns a prober that waits longer and shares the connections.
func (p *prober) patient(limit time.Duration) *prober {
	client := *p.client
	client.Timeout = limit
	return &prober{client: &client, transport: p.transport}
}

// through makes the prober connect from a node.
func (p *prober) through(host Host) { p.transport.DialContext = host.DialContext }

func (p *prober) close() { p.transport.CloseIdleConnections() }

// answer is a response that was read to its end (1 MiB at most).
type answer struct {
	code int
	body []byte
}

// wantsTLS tells that a TLS server has been asked in plain text.
func (a answer) wantsTLS() bool {
	return a.code == http.StatusBadRequest && strings.Contains(string(a.body), "HTTPS server")
}

func (p *prober) get(ctx context.Context, url string) (answer, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return answer{}, err
	}
	return p.do(request)
}

func (p *prober) do(request *http.Request) (answer, error) {
	response, err := p.client.Do(request)
	if err != nil {
		return answer{}, p.short(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return answer{}, p.short(err)
	}
	return answer{response.StatusCode, body}, nil
}

// getEither asks over HTTP, and over HTTPS where the server wants that, and tells which it was.
func (p *prober) getEither(ctx context.Context, address string) (answer, string, error) {
	plain, err := p.get(ctx, "http://"+address)
	if err == nil && !plain.wantsTLS() {
		return plain, "http", nil
	}
	if err != nil && !isProtocolError(err) {
		return answer{}, "", err
	}
	secure, err := p.get(ctx, "https://"+address)
	return secure, "https", err
}

// isProtocolError tells that something answers that is no HTTP server: some TLS servers answer plain text with an alert, or
// close the connection.
func isProtocolError(err error) bool {
	return errors.Is(err, io.EOF) || strings.Contains(err.Error(), "malformed HTTP")
}

func isNameMismatch(err error) bool {
	_, ok := errors.AsType[x509.HostnameError](err)
	return ok
}

// timeoutError says that nothing was answered in time.
type timeoutError struct{ limit time.Duration }

func (e timeoutError) Error() string { return "no answer within " + e.limit.String() }

func isTimeout(err error) bool {
	_, ok := errors.AsType[timeoutError](err)
	return ok
}

// short drops the request's method and URL from an error: what was asked is said elsewhere.
func (p *prober) short(err error) error {
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return timeoutError{p.client.Timeout}
	}
	for unwrapped := errors.Unwrap(err); unwrapped != nil; unwrapped = errors.Unwrap(unwrapped) {
		if strings.HasPrefix(err.Error(), "Get ") || strings.HasPrefix(err.Error(), "Post ") {
			return unwrapped
		}
	}
	return err
}
