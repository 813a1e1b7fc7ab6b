package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
	xknownhosts "golang.org/x/crypto/ssh/knownhosts"

	"hive-test/pkg/progress"
	"hive-test/pkg/wait"
)

// connection is one SSH connection. lost is closed when it has ended; why says why, where that is known.
type connection struct {
	client *ssh.Client
	raw    net.Conn
	lost   chan struct{}

	notes   chan note     // for the guard
	crowded chan struct{} // closed by leave: the guard's session is needed for a command
	leave   func()

	unguarded chan struct{} // closed when there is no guard, or none any more

	mu  sync.Mutex
	why error
}

// dial connects and logs in within the dialer's ConnectTimeout, whatever the peer does.
func (h *Host) dial(ctx context.Context) (*connection, error) {
	d := h.dialer
	user, addr, with, err := h.login()
	if err != nil {
		return nil, err
	}
	var verdict error
	cfg, err := d.clientConfig(h.node.Name, addr, &verdict)
	if err != nil {
		return nil, err
	}
	signers, done := d.signersOf(h.jump)
	defer done()
	cfg.User, cfg.Auth = user, []ssh.AuthMethod{ssh.PublicKeys(signers...)}
	ctx, cancel := context.WithTimeout(ctx, d.cfg.ConnectTimeout)
	defer cancel()
	raw, err := dialVia(ctx, h.via, "tcp", addr)
	if err != nil {
		return nil, progress.WithCode(fmt.Errorf("connecting to its SSH server: %w", err), "host-unreachable")
	}
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	conn, channels, requests, err := ssh.NewClientConn(raw, addr, cfg)
	if !stop() || err != nil {
		_ = raw.Close()
		return nil, d.handshakeError(ctx, addr, h.refusal(user, with), verdict, err)
	}
	crowded := make(chan struct{})
	return &connection{
		client: ssh.NewClient(conn, channels, requests), raw: raw, lost: make(chan struct{}),
		notes: make(chan note, guardBacklog), crowded: crowded, leave: sync.OnceFunc(func() { close(crowded) }),
		unguarded: make(chan struct{}),
	}, nil
}

func (d *Dialer) handshakeError(ctx context.Context, addr string, refused, verdict, err error) error {
	_, revoked := errors.AsType[*xknownhosts.RevokedError](verdict)
	switch {
	case revoked:
		return fmt.Errorf("%w in %s", errRevoked, d.cfg.KnownHosts)
	case verdict != nil:
		return verdict
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("the SSH server at %s did not finish the handshake within %s: %w", addr, d.cfg.ConnectTimeout,
			context.DeadlineExceeded)
	case ctx.Err() != nil:
		return ctx.Err()
	case strings.Contains(err.Error(), "unable to authenticate"): // x/crypto has no type for it
		return fmt.Errorf("%w: %w", refused, err)
	}
	return fmt.Errorf("connecting to its SSH server at %s: %w", addr, err)
}

// watch returns when the connection has ended.
func (c *connection) watch(keepAlive time.Duration) {
	go func() {
		err := c.client.Wait()
		c.close(err)
		close(c.lost)
	}()
	c.keepAlive(keepAlive)
	<-c.lost
}

// keepAlive asks for a sign of life at every interval and gives up after three without one. A peer that has stopped
// reading blocks the question itself, hence the goroutine.
func (c *connection) keepAlive(interval time.Duration) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-c.lost:
			return
		case <-ticker.C:
		}
		answered := make(chan error, 1)
		go func() {
			_, _, err := c.client.SendRequest("keepalive@openssh.com", true, nil)
			answered <- err
		}()
		select {
		case <-c.lost:
		case <-answered:
		case <-time.After(3 * interval):
			c.close(fmt.Errorf("no sign of life for %s", 3*interval))
		}
	}
}

// close ends the connection; the first reason is kept.
func (c *connection) close(why error) {
	c.mu.Lock()
	if c.why == nil {
		c.why = why
	}
	c.mu.Unlock()
	_ = c.raw.Close() // not the client: that would wait for a peer that does not read
}

func (c *connection) alive() bool {
	select {
	case <-c.lost:
		return false
	default:
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.why == nil
	}
}

// lostError is ErrConnectionLost with its reason.
func (c *connection) lostError() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.why == nil {
		return ErrConnectionLost
	}
	return fmt.Errorf("%w: %w", ErrConnectionLost, c.why)
}

// openPatiently opens a session channel, again and again while the server has no room for one: it counts a session for
// some moments after its end.
func (c *connection) openPatiently(ctx context.Context) (s *session, err error) {
	for range (wait.Backoff{First: 5 * time.Millisecond, Max: 250 * time.Millisecond}).Tries(ctx) {
		if s, err = c.open(ctx); !c.refused(err) {
			break
		}
	}
	return s, err
}

// open opens a session channel, or gives up with ctx.
func (c *connection) open(ctx context.Context) (*session, error) {
	type opened struct {
		ch   ssh.Channel
		reqs <-chan *ssh.Request
		err  error
	}
	answer := make(chan opened, 1)
	go func() {
		ch, reqs, err := c.client.OpenChannel("session", nil)
		answer <- opened{ch, reqs, err}
	}()
	select {
	case o := <-answer:
		if o.err != nil {
			return nil, o.err
		}
		return newSession(c, o.ch, o.reqs), nil
	case <-ctx.Done():
		go func() { // the peer may still answer
			if o := <-answer; o.err == nil {
				go ssh.DiscardRequests(o.reqs)
				_ = o.ch.Close()
			}
		}()
		return nil, context.Cause(ctx)
	}
}
