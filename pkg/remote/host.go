package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"golang.org/x/crypto/ssh"

	"hive-test/pkg/cluster"
)

// maxSessions keeps below the ten sessions per connection that OpenSSH allows (MaxSessions); more wait for their turn.
const maxSessions = 8

// Host is one node over SSH. Its methods are safe for concurrent use and share one connection. Errors name the node.
type Host struct {
	dialer *Dialer
	node   cluster.Node
	slots  chan struct{}
	via    *Host             // the host that it is reached through; nil: directly
	jump   *cluster.JumpHost // what it is, where it is no node

	mu      sync.Mutex
	conn    *connection
	attempt *attempt
}

// attempt is a dial that everyone who needs the connection waits for.
type attempt struct {
	done chan struct{}
	conn *connection
	err  error
}

func (h *Host) Name() string       { return h.node.Name }
func (h *Host) Node() cluster.Node { return h.node }

func (h *Host) fail(err error) error {
	if err == nil {
		return nil
	}
	if own, ok := err.(named); ok && own.NodeName() == h.node.Name {
		return err
	}
	return &nodeError{h.node.Name, err}
}

// Connect makes the connection that the other methods use, where there is none yet. It ends with the dialer's
// ConnectTimeout at the latest. A *HostKeyError means that another machine answers.
func (h *Host) Connect(ctx context.Context) error {
	_, err := h.connect(ctx)
	return h.fail(err)
}

// connect returns the connection, dialling it where there is none. A dial goes on when ctx ends, for those who join it.
func (h *Host) connect(ctx context.Context) (*connection, error) {
	h.mu.Lock()
	if h.conn != nil && h.conn.alive() {
		defer h.mu.Unlock()
		return h.conn, nil
	}
	a := h.attempt
	if a == nil {
		a = &attempt{done: make(chan struct{})}
		if err := h.dialer.spawn(func() { h.run(a) }); err != nil {
			h.mu.Unlock()
			return nil, err
		}
		h.attempt = a
	}
	h.mu.Unlock()
	select {
	case <-a.done:
		return a.conn, a.err
	case <-ctx.Done():
		return nil, fmt.Errorf("connecting to its SSH server: %w", context.Cause(ctx))
	}
}

// run dials, hands the connection out and stays with it until it ends.
func (h *Host) run(a *attempt) {
	log := h.dialer.cfg.Log.With("node", h.node.Name)
	conn, err := h.dial(h.dialer.ctx)
	h.mu.Lock()
	a.conn, a.err = conn, err
	h.attempt = nil
	if err == nil {
		h.conn = conn
	}
	h.mu.Unlock()
	close(a.done)
	if err != nil {
		log.Debug("ssh connection failed", "error", err)
		return
	}
	log.Debug("ssh connected")
	stop := context.AfterFunc(h.dialer.ctx, func() { conn.close(ErrClosed) })
	defer stop()
	var guard sync.WaitGroup
	guard.Go(func() { conn.guard(h.dialer.cfg.ConnectTimeout, h.dialer.cfg.Grace) })
	conn.watch(h.dialer.cfg.KeepAlive)
	guard.Wait()
	log.Debug("ssh connection ended", "reason", conn.lostError())
}

// Drop ends the connection to a machine that is known to be dead, or does nothing where there is none. What still waits
// for an answer on it fails with why, and the next call connects anew.
func (h *Host) Drop(why error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.conn != nil {
		h.conn.close(why)
	}
}

// dismiss ends the guard of the connection, where there is one.
func (h *Host) dismiss() {
	h.mu.Lock()
	conn := h.conn
	h.mu.Unlock()
	if conn != nil && conn.alive() {
		conn.stop()
	}
}

// open opens a session, on a new connection where the one there is turns out to be broken.
func (h *Host) open(ctx context.Context) (*session, error) {
	select {
	case h.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for one of %d sessions: %w", maxSessions, context.Cause(ctx))
	}
	var s *session
	err := h.withConnection(ctx, func(c *connection) (err error) {
		limited, cancel := context.WithTimeout(ctx, h.dialer.cfg.ConnectTimeout)
		defer cancel()
		s, err = c.openPatiently(limited)
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			c.close(fmt.Errorf("no session was opened within %s", h.dialer.cfg.ConnectTimeout))
		}
		return err
	})
	if err != nil {
		<-h.slots
		return nil, err
	}
	s.release = func() { <-h.slots }
	return s, nil
}

// withConnection calls use, and once more with a new connection where the first is broken. Only for what has no effect
// on the node when it fails.
func (h *Host) withConnection(ctx context.Context, use func(*connection) error) error {
	for second := false; ; second = true {
		c, err := h.connect(ctx)
		if err != nil {
			return err
		}
		err = use(c)
		_, rejected := errors.AsType[*ssh.OpenChannelError](err)
		switch {
		case err == nil:
			return nil
		case rejected || ctx.Err() != nil:
			return fmt.Errorf("opening an SSH channel: %w", err)
		case second:
			c.close(err)
			return c.lostError()
		}
		c.close(err) // broken: the next connect dials
	}
}

// DialContext connects to addr as seen from the node (direct-tcpip); network is "tcp", "tcp4" or "tcp6". The connection
// returned knows no deadlines.
func (h *Host) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := h.dialFrom(ctx, network, addr)
	if err != nil {
		return nil, h.fail(fmt.Errorf("connecting from the node to %s: %w", addr, err))
	}
	return conn, nil
}

func (h *Host) dialFrom(ctx context.Context, network, addr string) (conn net.Conn, err error) {
	err = h.withConnection(ctx, func(c *connection) (err error) {
		conn, err = c.client.DialContext(ctx, network, addr)
		return err
	})
	return conn, err
}
