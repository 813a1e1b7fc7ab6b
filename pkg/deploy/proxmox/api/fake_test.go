package api

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

const (
	testTokenID = "hive@pve!ci"
	testSecret  = "11111111-2222-3333-4444-555555555555"
)

// fakePVE answers one request after the other from a table of handlers by "METHOD path".
type fakePVE struct {
	*httptest.Server
	mu     sync.Mutex
	routes map[string]http.HandlerFunc
}

func newFakePVE(t *testing.T) *fakePVE {
	t.Helper()
	f := &fakePVE{routes: map[string]http.HandlerFunc{}}
	f.Server = httptest.NewUnstartedServer(http.HandlerFunc(f.serve))
	f.Config.ErrorLog = log.New(io.Discard, "", 0) // refused handshakes are what some tests want
	f.StartTLS()
	t.Cleanup(f.Close)
	return f
}

func (f *fakePVE) serve(w http.ResponseWriter, r *http.Request) {
	path := r.Method + " " + r.URL.Path[len("/api2/json"):]
	f.mu.Lock()
	handler := f.routes[path]
	f.mu.Unlock()
	if r.Header.Get("Authorization") != "PVEAPIToken="+testTokenID+"="+testSecret {
		answer(w, 401, "Authentication failed!", "")
		return
	}
	if handler == nil {
		answer(w, 501, "Method '"+path+"' not implemented", "")
		return
	}
	handler(w, r)
}

func (f *fakePVE) on(route string, h http.HandlerFunc) { f.routes[route] = h }

// data answers 200 with v as PVE's data.
func (f *fakePVE) data(route string, v any) {
	f.on(route, func(w http.ResponseWriter, _ *http.Request) { writeData(w, v) })
}

func writeData(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json;charset=UTF-8")
	_ = json.NewEncoder(w).Encode(map[string]any{"data": v})
}

// answer sends a status line with a reason of its own, as PVE does.
func answer(w http.ResponseWriter, status int, reason, body string) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	defer func() { _ = conn.Close() }()
	_, _ = fmt.Fprintf(
		conn, "HTTP/1.1 %d %s\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", status, reason, len(body), body,
	)
}

func (f *fakePVE) options(t *testing.T) Options {
	t.Helper()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.Certificate().Raw})
	if err := os.WriteFile(ca, block, 0o600); err != nil {
		t.Fatal(err)
	}
	return Options{Endpoint: f.URL, Token: testTokenID + "=" + testSecret, CAFile: ca, Timeout: 5 * time.Second}
}

func (f *fakePVE) client(t *testing.T) *Client {
	t.Helper()
	return mustClient(t, f.options(t))
}

func mustClient(t *testing.T, opts Options) *Client {
	t.Helper()
	c, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}
