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
	"syscall"
	"time"
)

// slow is when a node's answer is worth a word.
const slow = 2 * time.Second

// prober makes HTTP requests to nodes. TLS is verified with the cluster's own CA, and with no other. Requests to one
// address that follow each other share a connection: a handshake costs more than all else that is asked. Connections
// end with close.
type prober struct {
	client    *http.Client
	transport *http.Transport
	again     bool // what had no answer in time, or a connection that was cut, is asked once more
}

// newProber returns a prober that trusts ca (PEM); without one it makes no TLS connection that it could believe.
func (c *Cluster) newProber(ca []byte) *prober {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	transport := &http.Transport{
		DialContext:     c.dial,
		TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
		Proxy:           nil, // nodes are reached as Options.Dial does
	}
	return &prober{
		client:    &http.Client{Transport: transport, Timeout: c.options.ProbeTimeout, CheckRedirect: noRedirect},
		transport: transport,
	}
}

// dial connects to a port of a node. A node's kernel takes connections at once, however busy its programs are: what is
// not connected to in half of the time for an answer is not there.
func (c *Cluster) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	limit := c.options.ProbeTimeout / 2
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, err := c.options.Dial(limited, network, addr)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return nil, timeoutError{limit: limit, connecting: true}
	}
	return conn, err
}

func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// newProberFrom returns a prober that connects from a node.
func (c *Cluster) newProberFrom(host Host) *prober {
	p := c.newProber(nil)
	p.transport.DialContext = host.DialContext
	return p
}

func (p *prober) close() { p.transport.CloseIdleConnections() }

// answer is a response that was read to its end (1 MiB at most).
type answer struct {
	code int
	body []byte
	took time.Duration
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
	found, err := p.once(request)
	if err == nil || !p.again || !unsure(err) || request.Context().Err() != nil {
		return found, err
	}
	second := request.Clone(request.Context())
	if request.GetBody != nil {
		if second.Body, err = request.GetBody(); err != nil {
			return answer{}, err
		}
	}
	found, err = p.once(second)
	if timeout, ok := errors.AsType[timeoutError](err); ok {
		timeout.twice = true
		return found, timeout
	}
	return found, err
}

// unsure reports whether the same question may have an answer a moment later: it took too long, or the connection was
// cut. A connection that was refused, or that nobody took in time, is sure.
func unsure(err error) bool {
	timeout, late := errors.AsType[timeoutError](err)
	return late && !timeout.connecting || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET)
}

func (p *prober) once(request *http.Request) (answer, error) {
	begun := time.Now()
	response, err := p.client.Do(request)
	if err != nil {
		return answer{}, p.short(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return answer{}, p.short(err)
	}
	return answer{response.StatusCode, body, time.Since(begun)}, nil
}

// getEither asks over HTTP, and over HTTPS where the server wants that, and tells which it was.
func (p *prober) getEither(ctx context.Context, address string) (answer, string, error) {
	plain, err := p.get(ctx, "http://"+address)
	switch {
	case err == nil && !plain.wantsTLS():
		return plain, "http", nil
	case err != nil && !errors.Is(err, io.EOF) && !strings.Contains(err.Error(), "malformed HTTP"):
		return answer{}, "", err
	}
	// Some TLS servers answer plain text with an alert, or close the connection.
	secure, err := p.get(ctx, "https://"+address)
	return secure, "https", err
}

// timeoutError says that nothing was answered in time.
type timeoutError struct {
	limit      time.Duration
	connecting bool // it did not even take the connection
	twice      bool
}

func (e timeoutError) Error() string {
	switch {
	case e.connecting:
		return "no connection within " + e.limit.String()
	case e.twice:
		return "no answer within " + e.limit.String() + ", asked twice"
	}
	return "no answer within " + e.limit.String()
}

func isTimeout(err error) bool {
	_, ok := errors.AsType[timeoutError](err)
	return ok
}

// short drops the request's method and URL from an error: what was asked is said elsewhere.
func (p *prober) short(err error) error {
	if timeout, ok := errors.AsType[timeoutError](err); ok {
		return timeout
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return timeoutError{limit: p.client.Timeout}
	}
	for unwrapped := errors.Unwrap(err); unwrapped != nil; unwrapped = errors.Unwrap(unwrapped) {
		if strings.HasPrefix(err.Error(), "Get ") || strings.HasPrefix(err.Error(), "Post ") {
			return unwrapped
		}
	}
	return err
}
