package api

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// maxBody bounds an answer. The largest are a guest's file (16 MiB at most) and listings of big clusters.
const maxBody = 64 << 20

// dialTimeout bounds a TCP connect, and a TLS handshake after it.
const dialTimeout = 10 * time.Second

// transport hands every answer that is not a success to its caller as an *APIError, because go-proxmox lets 404, 595
// and others pass as success and drops PVE's text of 401, 403 and 500. It never lets the token's secret into a text.
type transport struct {
	next   *http.Transport
	secret string
	log    *slog.Logger
	clock  clock
}

// clock compares the API's clock with this machine's.
type clock struct {
	mu    sync.Mutex
	skew  time.Duration
	known bool
}

// note takes the time of an answer that was asked for at sent. Of several it keeps the smallest difference: a Date has
// whole seconds only, and answers take their time.
func (c *clock) note(date string, sent, received time.Time) {
	at, err := http.ParseTime(date)
	if err != nil {
		return
	}
	// The server wrote at..at+1s at some moment between sent and received.
	var skew time.Duration
	switch {
	case at.After(received):
		skew = at.Sub(received)
	case at.Add(time.Second).Before(sent):
		skew = at.Add(time.Second).Sub(sent)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known || skew.Abs() < c.skew.Abs() {
		c.skew, c.known = skew, true
	}
}

func (c *clock) read() (skew time.Duration, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.skew, c.known
}

func newTransport(config *tls.Config, secret string, log *slog.Logger) *transport {
	return &transport{secret: secret, log: log, next: &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext,
		TLSClientConfig:     config,
		TLSHandshakeTimeout: dialTimeout,
		MaxIdleConnsPerHost: 128, // as many as are used at a time
		IdleConnTimeout:     30 * time.Second,
	}}
}

// RoundTrip sends req. A status of 300 or above and a body that is not JSON come back as errors.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	sent := time.Now()
	resp, err := t.next.RoundTrip(req)
	if err != nil {
		t.tell(req, sent, 0, err)
		return nil, err
	}
	t.clock.note(resp.Header.Get("Date"), sent, time.Now())
	body, err := readAndClose(resp.Body)
	t.tell(req, sent, resp.StatusCode, err)
	if err != nil {
		return nil, fmt.Errorf("reading the answer: %w", err)
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		return nil, t.apiError(req, resp, body)
	}
	if trimmed := bytes.TrimSpace(body); len(trimmed) == 0 || trimmed[0] != '{' {
		return nil, &notPVEError{contentType: resp.Header.Get("Content-Type")}
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

// tell logs one request: neither its query nor any body, which may hold secrets.
func (t *transport) tell(req *http.Request, sent time.Time, status int, err error) {
	attrs := []slog.Attr{
		slog.String("method", req.Method), slog.String("path", strings.TrimPrefix(req.URL.Path, "/api2/json")),
		slog.Int("status", status), slog.Int64("ms", time.Since(sent).Milliseconds()),
	}
	if err != nil {
		attrs = append(attrs, slog.String("error", t.redact(err.Error())))
	}
	t.log.LogAttrs(req.Context(), slog.LevelDebug, "pve request", attrs...)
}

// CloseIdleConnections lets http.Client drop idle connections through this wrapper.
func (t *transport) CloseIdleConnections() { t.next.CloseIdleConnections() }

func readAndClose(body io.ReadCloser) ([]byte, error) {
	defer func() { _ = body.Close() }()
	data, err := io.ReadAll(io.LimitReader(body, maxBody+1))
	if err == nil && len(data) > maxBody {
		return nil, fmt.Errorf("more than %d MiB", maxBody>>20)
	}
	return data, err
}

// apiError reads PVE's error shape: {"data":null,"message":"text\n","errors":{param:text}}. Before pve-http-server
// 5.2 there is no message, and 401, 595 and 596 have no body at all: then the reason phrase is all there is.
func (t *transport) apiError(req *http.Request, resp *http.Response, body []byte) *APIError {
	var payload struct {
		Message string         `json:"message"`
		Errors  map[string]any `json:"errors"`
	}
	_ = json.Unmarshal(body, &payload) // an error page of a proxy is not JSON: the reason phrase stays
	reason := strings.TrimSpace(payload.Message)
	if reason == "" {
		reason = strings.TrimSpace(strings.TrimPrefix(resp.Status, fmt.Sprint(resp.StatusCode)))
	}
	wordless := resp.StatusCode == http.StatusInternalServerError &&
		(reason == "" || reason == http.StatusText(resp.StatusCode))
	if reason == "" {
		reason = http.StatusText(resp.StatusCode)
	}
	e := &APIError{
		Wordless: wordless,
		Status:   resp.StatusCode,
		Reason:   t.redact(reason),
		Method:   req.Method,
		Path:     strings.TrimPrefix(req.URL.Path, "/api2/json"),
	}
	for name, text := range payload.Errors {
		if e.Errors == nil {
			e.Errors = map[string]string{}
		}
		e.Errors[name] = t.redact(strings.TrimSpace(fmt.Sprint(text)))
	}
	return e
}

func (t *transport) redact(s string) string { return strings.ReplaceAll(s, t.secret, "***") }
