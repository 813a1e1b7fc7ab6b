package api

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// hung is a server that does as play says with each connection, until the test ends.
func hung(t *testing.T, play func(conn net.Conn, over <-chan struct{})) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	var work sync.WaitGroup
	work.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() {
				defer func() { _ = conn.Close() }()
				play(conn, over)
			})
		}
	})
	t.Cleanup(func() {
		close(over)
		_ = l.Close()
		work.Wait()
	})
	return "https://" + l.Addr().String()
}

// speaking is a hung server that knows TLS, reads requests, and writes the given part of an answer to each but the
// first ones, which it answers whole.
func speaking(t *testing.T, whole int, part string) string {
	t.Helper()
	cert := newFakePVE(t).TLS.Certificates
	return hung(t, func(raw net.Conn, over <-chan struct{}) {
		conn := tls.Server(raw, &tls.Config{Certificates: cert})
		stop := context.AfterFunc(t.Context(), func() { _ = raw.Close() })
		defer stop()
		requests := bufio.NewReader(conn)
		for n := 0; ; n++ {
			request, err := http.ReadRequest(requests)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, request.Body)
			if n >= whole {
				_, _ = io.WriteString(conn, part)
				<-over
				return
			}
			const body = `{"data":[]}`
			_, _ = fmt.Fprintf(
				conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body),
				body,
			)
		}
	})
}

// Whatever a peer does that hangs, each call ends in its own time, with an error that says which endpoint gave no
// answer.
func TestPeersThatHang(t *testing.T) {
	t.Parallel()
	silence := func(_ net.Conn, over <-chan struct{}) { <-over }
	const head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n"
	peers := []struct {
		name string
		url  func(t *testing.T) string
	}{
		{"accepts TCP and says nothing", func(t *testing.T) string { return hung(t, silence) }},
		{"takes the request and says nothing", func(t *testing.T) string { return speaking(t, 0, "") }},
		{"breaks off in the header", func(t *testing.T) string { return speaking(t, 0, "HTTP/1.1 200 O") }},
		{"breaks off in the body", func(t *testing.T) string { return speaking(t, 0, head+`{"data":`) }},
		{"loses power after the first answer", func(t *testing.T) string { return speaking(t, 1, "") }},
	}
	upid := "UPID:pve1:0000:0000:00000000:qmstart:100:hive@pve!ci:"
	calls := []struct {
		name string
		call func(context.Context, *Client) error
	}{
		{"GET", func(ctx context.Context, c *Client) error { _, err := c.Hypervisors(ctx); return err }},
		{"POST", func(ctx context.Context, c *Client) error {
			return c.MakePool(ctx, Pool{ID: "x", Comment: strings.Repeat("x", 1000)})
		}},
		{"POST that starts a task", func(ctx context.Context, c *Client) error { return c.Stop(ctx, "pve1", 100) }},
		{"DELETE that starts a task", func(ctx context.Context, c *Client) error { return c.Delete(ctx, "pve1", 100) }},
		{"wait for a task", func(ctx context.Context, c *Client) error {
			ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
			defer cancel()
			return c.WaitTask(ctx, upid)
		}},
	}
	for _, peer := range peers {
		for _, call := range calls {
			t.Run(peer.name+", "+call.name, func(t *testing.T) {
				t.Parallel()
				client := mustClient(t, Options{
					Endpoint: peer.url(t), Token: testTokenID + "=" + testSecret, Insecure: true,
					Timeout: 300 * time.Millisecond,
				})
				if peer.name == "loses power after the first answer" {
					if _, err := client.Hypervisors(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
				defer cancel()
				start := time.Now()
				err := call.call(ctx, client)
				if took := time.Since(start); took > 30*time.Second {
					t.Errorf("it took %s", took)
				}
				if !errors.Is(err, ErrUnreachable) && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v", err)
				}
			})
		}
	}
	t.Run("the certificate alone", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if _, err := PinnedCertificate(ctx, hung(t, silence), strings.Repeat("AB", 32)); err == nil {
			t.Error("no error")
		}
	})
}
