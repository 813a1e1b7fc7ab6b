// Package sshd is a small SSH server for the simulator's hosts and hypervisors: public keys only, many sessions on one
// connection, SFTP, direct-tcpip. It behaves as OpenSSH does with Debian's sshd_config where a client can tell: only
// LANG and LC_* are taken from the client's environment, and the eleventh session of a connection is refused.
package sshd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
)

const (
	defaultMaxSessions = 10              // MaxSessions of sshd_config(5)
	handshakeTimeout   = 2 * time.Minute // LoginGraceTime of sshd_config(5)
	defaultVersion     = "SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u7"
	maxAcceptDelay     = time.Second
)

// Config says what a server offers. HostKey, Authorized and Exec are required.
type Config struct {
	// HostKey identifies the server.
	HostKey ssh.Signer
	// Authorized reports whether key may log in as user, and what it may be used for. It may be asked several times in
	// one login, also about keys that the client does not hold.
	Authorized func(user string, key ssh.PublicKey) (Login, bool)
	// Exec runs one command, or a shell if s.Command is empty, and returns its exit status (0-255). It must return soon
	// after ctx is done, which happens when the client closes the session or hangs up, or the server ends.
	Exec func(ctx context.Context, s *Session) int
	// SFTP makes the handlers of one SFTP session. Nil, with SFTPExec nil too, refuses the subsystem.
	SFTP func(user string) (sftp.Handlers, error)
	// SFTPExec, if set, serves the SFTP subsystem on the session's raw streams instead of SFTP (for a process that runs
	// with the user's rights). The rules of Exec hold.
	SFTPExec func(ctx context.Context, s *Session) int
	// DirectTCPIP connects to addr ("host:port") for port forwarding. Nil refuses all forwarding.
	DirectTCPIP func(ctx context.Context, addr string) (net.Conn, error)
	// AcceptEnv tells whether the client may set a variable. Nil accepts LANG and LC_*, as Debian's sshd_config does.
	AcceptEnv func(name string) bool
	// MaxSessions bounds the open sessions of one connection. 0 means 10, OpenSSH's default.
	MaxSessions int
	// Version is the identification string. Empty means that of Debian 12.
	Version string
	// Log receives failed logins at debug level. Nil discards them.
	Log *slog.Logger
}

// Serve answers SSH connections on l until ctx is done or l fails, then closes l and waits until every connection and
// every Exec has ended. A ctx that is done closes all connections; Serve then returns nil. If l was closed or fails,
// running connections go on and Serve returns that error after the last one.
func Serve(ctx context.Context, l net.Listener, c Config) error {
	if c.HostKey == nil || c.Authorized == nil || c.Exec == nil {
		_ = l.Close()
		return errors.New("ssh server: HostKey, Authorized and Exec must be set")
	}
	s := &server{cfg: withDefaults(c)}
	s.ssh = s.sshConfig()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	var conns sync.WaitGroup
	err := s.accept(ctx, l, &conns)
	_ = l.Close()
	conns.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("ssh server on %s: %w", l.Addr(), err)
}

type server struct {
	cfg Config
	ssh *ssh.ServerConfig
}

func withDefaults(c Config) Config {
	if c.MaxSessions == 0 {
		c.MaxSessions = defaultMaxSessions
	}
	if c.Version == "" {
		c.Version = defaultVersion
	}
	if c.AcceptEnv == nil {
		c.AcceptEnv = func(name string) bool { return name == "LANG" || strings.HasPrefix(name, "LC_") }
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

func (s *server) sshConfig() *ssh.ServerConfig {
	sc := &ssh.ServerConfig{
		ServerVersion: s.cfg.Version,
		PublicKeyCallback: func(m ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			login, ok := s.cfg.Authorized(m.User(), key)
			if !ok {
				return nil, fmt.Errorf("key %s is not authorized for %s", ssh.FingerprintSHA256(key), m.User())
			}
			return &ssh.Permissions{ExtraData: map[any]any{loginKey{}: login}}, nil
		},
	}
	sc.AddHostKey(s.cfg.HostKey)
	return sc
}

// loginKey is where the permissions of a connection hold its Login.
type loginKey struct{}

func loginOf(conn *ssh.ServerConn) Login {
	login, _ := conn.Permissions.ExtraData[loginKey{}].(Login)
	return login
}

// accept loops until the listener fails for good. Passing failures (too many open files) are retried with back-off, as
// a daemon that ends for want of descriptors would take its host's SSH with it.
func (s *server) accept(ctx context.Context, l net.Listener, conns *sync.WaitGroup) error {
	delay := 5 * time.Millisecond
	for {
		nc, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) || delay > maxAcceptDelay {
				return err
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(delay):
			}
			delay *= 2
			continue
		}
		delay = 5 * time.Millisecond
		conns.Go(func() { s.serveConn(ctx, nc) })
	}
}

func (s *server) serveConn(ctx context.Context, nc net.Conn) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = nc.Close() })
	defer stop()
	defer func() { _ = nc.Close() }()
	_ = nc.SetDeadline(time.Now().Add(handshakeTimeout))
	conn, chans, reqs, err := ssh.NewServerConn(nc, s.ssh)
	if err != nil {
		s.cfg.Log.Debug("ssh login failed", "remote", nc.RemoteAddr().String(), "error", err)
		return
	}
	_ = nc.SetDeadline(time.Time{})
	var wg sync.WaitGroup
	wg.Go(func() { ssh.DiscardRequests(reqs) })
	s.serveChannels(ctx, conn, chans, &wg)
	cancel()
	wg.Wait()
}

func (s *server) serveChannels(
	ctx context.Context, conn *ssh.ServerConn, chans <-chan ssh.NewChannel, wg *sync.WaitGroup,
) {
	slots := make(chan struct{}, s.cfg.MaxSessions)
	for nc := range chans {
		switch nc.ChannelType() {
		case "session":
			select {
			case slots <- struct{}{}:
			default:
				// OpenSSH's answer to more than MaxSessions.
				_ = nc.Reject(ssh.ConnectionFailed, "open failed")
				continue
			}
			wg.Go(func() {
				defer func() { <-slots }()
				s.serveSession(ctx, conn, nc)
			})
		case "direct-tcpip":
			if loginOf(conn).Restricted {
				_ = nc.Reject(ssh.Prohibited, "administratively prohibited: open failed")
				continue
			}
			wg.Go(func() { s.forward(ctx, nc) })
		default:
			_ = nc.Reject(ssh.UnknownChannelType, "unknown channel type")
		}
	}
}

// forward serves one direct-tcpip channel (RFC 4254, 7.2).
func (s *server) forward(ctx context.Context, nc ssh.NewChannel) {
	if s.cfg.DirectTCPIP == nil {
		_ = nc.Reject(ssh.Prohibited, "administratively prohibited: open failed")
		return
	}
	var m struct {
		Host       string
		Port       uint32
		OriginHost string
		OriginPort uint32
	}
	if err := ssh.Unmarshal(nc.ExtraData(), &m); err != nil || m.Port > 65535 {
		_ = nc.Reject(ssh.ConnectionFailed, "malformed request")
		return
	}
	target, err := s.cfg.DirectTCPIP(ctx, net.JoinHostPort(m.Host, fmt.Sprint(m.Port)))
	if err != nil {
		_ = nc.Reject(ssh.ConnectionFailed, err.Error())
		return
	}
	defer func() { _ = target.Close() }()
	ch, reqs, err := nc.Accept()
	if err != nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = target.Close() })
	defer stop()
	var wg sync.WaitGroup
	wg.Go(func() {
		ssh.DiscardRequests(reqs)
		cancel() // the client closed the channel
	})
	wg.Go(func() {
		_, _ = io.Copy(target, ch)
		if cw, ok := target.(interface{ CloseWrite() error }); ok {
			_ = cw.CloseWrite()
		}
	})
	_, _ = io.Copy(ch, target)
	_ = ch.CloseWrite()
	_ = ch.Close()
	_ = target.Close()
	wg.Wait()
}
