package pve

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	idleTimeout  = 2 * time.Minute
	maxBody      = 8 << 30 // an upload's file is read past, not kept
	maxFormBody  = 8 << 20
	contentJSON  = "application/json;charset=UTF-8"
	writeTimeout = time.Minute
)

// request is what the API sees of an HTTP request.
type request struct {
	method string
	path   string // escaped, without the query
	query  url.Values
	header http.Header
	body   io.Reader
	ctype  string
}

// response is written by hand: net/http offers no way to set the reason phrase, in which PVE says what went wrong.
type response struct {
	status int
	reason string
	ctype  string
	body   []byte
	drop   bool // close the connection instead of answering
}

// apiError is a refusal. Its message is the reason phrase (first line) and the body's message.
type apiError struct {
	status  int
	message string
	errs    map[string]string
	bare    bool // no body, as 401 of the authentication and 595 have
}

func (e *apiError) Error() string { return e.message }

func failf(format string, args ...any) error {
	return &apiError{status: 500, message: fmt.Sprintf(format, args...)}
}

// inTask is a refusal as a task ends with it: one for want of a privilege begins with its status.
func inTask(err error) error {
	if e, ok := errors.AsType[*apiError](err); ok && e.status == 403 {
		return &apiError{status: e.status, message: "403 " + e.message}
	}
	return err
}

// badParam is PVE's refusal of a single parameter.
func badParam(name, format string, args ...any) error {
	return &apiError{status: 400, message: msgParams, errs: map[string]string{name: fmt.Sprintf(format, args...)}}
}

// serveTLS accepts connections until ctx is done.
func (s *Server) serveTLS(ctx context.Context, l net.Listener) {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	for {
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			s.log.Warn("accept failed", "error", err)
			sleep(ctx, 10*time.Millisecond)
			continue
		}
		s.wg.Go(func() { s.serveConn(ctx, c) })
	}
}

func (s *Server) serveConn(ctx context.Context, c net.Conn) {
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(idleTimeout))
	if t, ok := c.(*tls.Conn); ok {
		if err := t.HandshakeContext(ctx); err != nil {
			s.log.Debug("tls handshake failed", "remote", c.RemoteAddr().String(), "error", err)
			return
		}
	}
	in := bufio.NewReader(c)
	for {
		_ = c.SetReadDeadline(time.Now().Add(idleTimeout))
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		_ = c.SetReadDeadline(time.Time{})
		if !s.answer(ctx, c, req) {
			return
		}
	}
}

// answer serves one request and tells whether the connection can be used again.
func (s *Server) answer(ctx context.Context, c net.Conn, req *http.Request) bool {
	if strings.EqualFold(req.Header.Get("Expect"), "100-continue") {
		if _, err := io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
			return false
		}
	}
	r := &request{
		method: req.Method, path: req.URL.EscapedPath(), query: req.URL.Query(), header: req.Header,
		body: io.LimitReader(req.Body, maxBody), ctype: req.Header.Get("Content-Type"),
	}
	resp := s.handle(ctx, r)
	if resp.drop {
		return false
	}
	_, _ = io.Copy(io.Discard, req.Body)
	_ = req.Body.Close()
	keep := !req.Close && ctx.Err() == nil
	_ = c.SetWriteDeadline(time.Now().Add(writeTimeout))
	return writeResponse(c, resp, s.now(), keep, req.Method == http.MethodHead) == nil && keep
}

func writeResponse(w io.Writer, resp *response, now time.Time, keep, head bool) error {
	reason := resp.reason
	if reason == "" {
		reason = "OK"
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\n", resp.status, strings.NewReplacer("\r", " ", "\n", " ").Replace(reason))
	fmt.Fprintf(&b, "Server: pve-api-daemon/3.0\r\nDate: %s\r\n", now.UTC().Format(http.TimeFormat))
	fmt.Fprintf(&b, "Cache-Control: max-age=0\r\nPragma: no-cache\r\nContent-Length: %d\r\n", len(resp.body))
	if resp.ctype != "" {
		fmt.Fprintf(&b, "Content-Type: %s\r\n", resp.ctype)
	}
	if keep {
		b.WriteString("Connection: Keep-Alive\r\n\r\n")
	} else {
		b.WriteString("Connection: close\r\n\r\n")
	}
	if !head {
		b.Write(resp.body)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// plainResponse has a text body and the text's first line as reason.
func plainResponse(status int, text string) *response {
	first, _, _ := strings.Cut(text, "\n")
	return &response{status: status, reason: first, body: []byte(text), ctype: "text/plain"}
}

func errorResponse(err error) *response {
	e, ok := errors.AsType[*apiError](err)
	if !ok {
		e = &apiError{status: 500, message: err.Error()}
	}
	first, _, _ := strings.Cut(e.message, "\n")
	resp := &response{status: e.status, reason: first}
	if e.bare {
		return resp
	}
	message := e.message
	if !strings.HasSuffix(message, "\n") && e.status != 501 {
		message += "\n"
	}
	body := map[string]any{"data": nil, "message": message}
	if len(e.errs) > 0 {
		body["errors"] = e.errs
	}
	resp.body, resp.ctype = mustJSON(body), contentJSON
	return resp
}

func mustJSON(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return []byte(`{"data":null}`)
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}

// params reads query and body as PVE does: both are merged, a repeated key is a list, and form values are bytes that
// are read as text.
func (r *request) params() (map[string]value, error) {
	out := map[string]value{}
	addForm(out, r.query)
	if r.method == http.MethodGet || r.method == http.MethodDelete {
		return out, nil
	}
	ctype, _, _ := strings.Cut(r.ctype, ";")
	switch strings.TrimSpace(ctype) {
	case "", "application/x-www-form-urlencoded":
		b, err := io.ReadAll(io.LimitReader(r.body, maxFormBody))
		if err != nil {
			return nil, fmt.Errorf("read the request's body: %w", err)
		}
		form, err := url.ParseQuery(string(b))
		if err != nil {
			return nil, &apiError{status: 400, message: "Bad Request", bare: true}
		}
		addForm(out, form)
	case "application/json":
		return out, r.addJSON(out)
	case "multipart/form-data":
		return out, nil // only upload reads it
	default:
		return nil, &apiError{status: 506, message: "upload 'Content-Type '" + ctype + "' not implemented"}
	}
	return out, nil
}

func addForm(out map[string]value, form url.Values) {
	for k, vs := range form {
		out[k] = value{text: strings.Join(vs, "\x00"), list: vs, isList: len(vs) > 1}
	}
}

// malformed says as Perl's parser does what is wrong with an object's first key; for all else it has many more texts.
func malformed(b []byte, err error) string {
	if rest, found := bytes.CutPrefix(b, []byte("{")); found && len(rest) > 0 && rest[0] != '"' {
		return fmt.Sprintf("'\"' expected, at character offset 1 (before \"%s\")", rest)
	}
	return fmt.Sprintf("malformed JSON string: %v", err)
}

func (r *request) addJSON(out map[string]value) error {
	b, err := io.ReadAll(io.LimitReader(r.body, maxFormBody))
	if err != nil {
		return fmt.Errorf("read the request's body: %w", err)
	}
	if len(bytes.TrimSpace(b)) == 0 {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var body any
	if err := dec.Decode(&body); err != nil {
		return failf("%s at /usr/share/perl5/PVE/APIServer/AnyEvent.pm line 917.", malformed(b, err))
	}
	object, ok := body.(map[string]any)
	if !ok {
		return failf("Not a HASH reference at /usr/share/perl5/PVE/APIServer/AnyEvent.pm line 957.")
	}
	for k, v := range object {
		if v != nil {
			out[k] = jsonValue(v)
		}
	}
	return nil
}

func jsonValue(v any) value {
	switch x := v.(type) {
	case string:
		return value{text: x, list: []string{x}, isJSON: true}
	case bool:
		text := "0"
		if x {
			text = "1"
		}
		return value{text: text, list: []string{text}, isJSON: true}
	case json.Number:
		return value{text: x.String(), list: []string{x.String()}, isJSON: true}
	case []any:
		out := value{isJSON: true, isList: true}
		for _, e := range x {
			out.list = append(out.list, jsonValue(e).text)
		}
		return out
	}
	return value{isJSON: true, isObj: true}
}

func unescape(s string) string {
	if u, err := url.PathUnescape(s); err == nil {
		return u
	}
	return s
}

// sleep waits and tells whether ctx is still alive.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// merged is a copy of two parameter sets.
func merged(a, b map[string]value) map[string]value {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}
