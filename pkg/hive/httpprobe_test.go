package hive

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"hive-test/pkg/progress"
)

// What is late is asked once more before it counts as silent, where a verdict follows; what is refused, or not there,
// is not.
func TestASecondAnswer(t *testing.T) {
	late := func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	cut := func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) }
	fine := func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusTeapot) }
	nobody := func(ctx context.Context, _, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }
	refused := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, "127.0.0.1:1")
	}
	for _, tt := range []struct {
		name    string
		answers []http.HandlerFunc // in order, the last one for all that follow
		dial    func(context.Context, string, string) (net.Conn, error)
		again   bool
		asked   int32
		want    string // of the error; empty: answered
	}{
		{"late once", []http.HandlerFunc{late, fine}, nil, true, 2, ""},
		{"late once, and nobody asks again", []http.HandlerFunc{late, fine}, nil, false, 1, "no answer within 200ms"},
		{"late always", []http.HandlerFunc{late}, nil, true, 2, "no answer within 200ms, asked twice"},
		{"cut once", []http.HandlerFunc{cut, fine}, nil, true, 2, ""},
		{"nobody takes the connection", nil, nobody, true, 0, "no connection within 100ms"},
		{"refused", nil, refused, true, 0, "connection refused"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var asked, dialed atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				tt.answers[min(int(asked.Add(1)), len(tt.answers))-1](w, r)
			}))
			defer server.Close()
			options := Options{ProbeTimeout: 200 * time.Millisecond, Dial: func(
				ctx context.Context, network, addr string,
			) (net.Conn, error) {
				dialed.Add(1)
				if tt.dial != nil {
					return tt.dial(ctx, network, addr)
				}
				return new(net.Dialer).DialContext(ctx, network, addr)
			}}
			if tt.want == "" {
				options.ProbeTimeout = 2 * time.Second // the second answer is not to be late on a busy machine
			}
			probe := NewWithHosts("ci", nil, options, progress.Discard).newProber(nil)
			defer probe.close()
			probe.again = tt.again
			found, err := probe.get(t.Context(), server.URL)
			if tt.want == "" && (err != nil || found.code != http.StatusTeapot) ||
				tt.want != "" && (err == nil || !strings.HasSuffix(err.Error(), tt.want)) {
				t.Errorf("%d, %v", found.code, err)
			}
			if asked.Load() != tt.asked || tt.dial != nil && dialed.Load() != 1 {
				t.Errorf("asked %d times, dialed %d times", asked.Load(), dialed.Load())
			}
		})
	}
}
