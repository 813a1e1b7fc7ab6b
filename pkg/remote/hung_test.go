package remote

import (
	"bytes"
	"context"
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"
)

// Whatever a peer does that hangs, each operation ends, by limits that are the connection's own: the caller sets none
// that would pass before the test's.
func TestHungPeersEndEveryOperation(t *testing.T) {
	t.Parallel()
	type peer struct {
		name string
		// addr makes the server; freeze, if it is not nil, is called when it was connected to.
		addr func(t *testing.T) (addr *net.TCPAddr, freeze func())
	}
	peers := []peer{
		{"accepts TCP and says nothing", func(t *testing.T) (*net.TCPAddr, func()) { return silent(t), nil }},
		{"half open after a power cut", func(t *testing.T) (*net.TCPAddr, func()) {
			p := newProxy(t, newServer(t).addr)
			return p.addr, p.freeze
		}},
		{"accepts a session and never runs anything", func(t *testing.T) (*net.TCPAddr, func()) {
			p := newProxy(t, newServer(t).addr)
			return p.addr, func() { time.AfterFunc(20*time.Millisecond, p.freeze) } // while it is asked
		}},
	}
	local, _ := randomFile(t, 4<<20)
	operations := []struct {
		name string
		do   func(context.Context, *Host) error
	}{
		{"a command", func(ctx context.Context, h *Host) error {
			_, err := h.Run(ctx, Command{Argv: []string{"sleep", "60"}})
			return err
		}},
		{"a command that is fed", func(ctx context.Context, h *Host) error {
			_, err := h.Run(ctx, Command{Argv: []string{"sleep", "60"}, Stdin: endless{}})
			return err
		}},
		{"a command on a group", func(ctx context.Context, h *Host) error {
			_, err := Group{h}.Run(ctx, Command{Argv: []string{"sleep", "60"}})
			return err
		}},
		{"an upload", func(ctx context.Context, h *Host) error {
			for { // over again, should it end before the peer hangs
				if _, err := h.Upload(
					ctx, local, "~/"+filepath.Base(t.Name())+time.Now().Format("150405.000000000"), 0o600,
				); err != nil {
					return err
				}
			}
		}},
		{"a download", func(ctx context.Context, h *Host) error {
			return h.Download(ctx, "/dev/zero", filepath.Join(filepath.Dir(local), "download"))
		}},
		{"a session for a person", func(ctx context.Context, h *Host) error {
			var out bytes.Buffer
			_, err := h.Interactive(ctx, []string{"sleep", "60"}, nil, &out, &out, false)
			return err
		}},
		{"a connection from the node", func(ctx context.Context, h *Host) error {
			for {
				conn, err := h.DialContext(ctx, "tcp", h.Node().Management.String()+":1")
				if errors.Is(err, ErrConnectionLost) || errors.Is(err, context.DeadlineExceeded) {
					return err
				}
				if err == nil {
					_ = conn.Close()
				}
			}
		}},
		{"a wait for readiness", func(ctx context.Context, h *Host) error { // it tries again as long as it may
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			for {
				if err := h.WaitReady(ctx, nil); err != nil {
					return err
				}
			}
		}},
	}
	for _, peer := range peers {
		for _, operation := range operations {
			t.Run(peer.name+", "+operation.name, func(t *testing.T) {
				t.Parallel()
				addr, freeze := peer.addr(t)
				cfg := testConfig(t)
				cfg.ConnectTimeout, cfg.KeepAlive = time.Second, 200*time.Millisecond
				h := newDialer(t, cfg).Host(nodeAt(addr, 1))
				if freeze != nil {
					if _, err := h.Run(t.Context(), Command{Argv: []string{"true"}}); err != nil {
						t.Fatal(err)
					}
					freeze()
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				wantWithin(t, 20*time.Second, func() {
					if err := operation.do(ctx, h); err == nil {
						t.Error("no error")
					}
				})
			})
		}
	}
}
