package remote

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

func TestWaitReady(t *testing.T) {
	s := newServer(t)
	var ready atomic.Bool
	s.allow = func(ssh.PublicKey) bool { return ready.Load() }
	s.stop()
	h := newDialer(t, testConfig(t)).Host(s.node(1))
	var kinds []string
	note := func(kind string) {
		if !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	var stop func()
	err := h.WaitReady(t.Context(), func(err error) {
		switch {
		case errors.Is(err, ErrAuth):
			note("auth")
			ready.Store(true)
		default:
			note("refused")
			l, err := net.Listen("tcp", s.addr.String())
			if err != nil {
				t.Error(err)
				return
			}
			s.serve(l)
			stop = s.stop
		}
	})
	if err != nil || !slices.Equal(kinds, []string{"refused", "auth"}) {
		t.Errorf("got %v after %q", err, kinds)
	}
	stop()
}

func TestWaitReadyEndsWithItsContext(t *testing.T) {
	s := newServer(t)
	s.stop()
	h := newDialer(t, testConfig(t)).Host(s.node(1))
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	err := h.WaitReady(ctx, nil)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	contains(t, err, "ci-1: no command could be run over SSH within", "connection refused")
}

func TestRefusedLoginSaysWhoAndWithWhat(t *testing.T) {
	s := newServer(t)
	s.allow = func(ssh.PublicKey) bool { return false }
	cfg := testConfig(t)
	err := runTrue(t, cfg, s.node(1))
	contains(t, err, "ci-1: ", "the node refused the SSH login as user tf-user with key "+cfg.KeyPath)
}

func TestGroup(t *testing.T) {
	s := newServer(t)
	down := newServer(t)
	down.stop()
	d := newDialer(t, testConfig(t))
	nodes := []*Host{d.Host(s.node(1)), d.Host(down.node(2)), d.Host(s.node(3))}
	g := Group(nodes)
	if d.Host(s.node(1)) != nodes[0] {
		t.Error("the same node gave another host")
	}

	t.Run("errors in node order, each named once", func(t *testing.T) {
		plain := errors.New("plain")
		var order sync.Mutex
		order.Lock()
		err := g.Each(t.Context(), func(ctx context.Context, h *Host) error {
			if h.Name() == "ci-3" {
				defer order.Unlock()
				return plain
			}
			order.Lock()
			defer order.Unlock()
			_, err := h.Run(ctx, Command{Argv: []string{"sh", "-c", "echo why >&2; exit 3"}})
			return errors.Join(err)
		})
		lines := "ci-1: sh -c 'echo why >&2; exit 3' exited with 3: why\n" +
			"ci-2: starting sh -c 'echo why >&2; exit 3': connecting to its SSH server: dial tcp " +
			down.addr.String() + ": connect: connection refused\n" +
			"ci-3: plain"
		if err == nil || err.Error() != lines {
			t.Errorf("got:\n%v\nwant:\n%s", err, lines)
		}
		exit, ok := errors.AsType[*ExitError](err)
		if !ok || exit.Node != "ci-1" || !errors.Is(err, plain) {
			t.Error("the errors within are not found")
		}
	})
	t.Run("run", func(t *testing.T) {
		results, err := g.Run(t.Context(), Command{
			Argv: []string{"cat"}, Stdin: io.MultiReader(strings.NewReader("in")),
		})
		if len(results) != 3 || string(results[0].Stdout) != "in" || string(results[2].Stdout) != "in" {
			t.Errorf("got %+v", results)
		}
		contains(t, err, "ci-2: ")
		for i, name := range []string{"ci-1", "ci-2", "ci-3"} {
			if results[i].Node != name {
				t.Errorf("result %d is of %q", i, results[i].Node)
			}
		}
	})
}
