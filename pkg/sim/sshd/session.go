package sshd

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
)

// Window is the size of a terminal in character cells.
type Window struct {
	Columns, Rows uint32
}

// Session is one command, shell or subsystem of a connection.
type Session struct {
	User    string
	Command string            // empty: a shell
	Env     map[string]string // what the client set and the server accepts, and SSH_CONNECTION; never nil
	Stdin   io.Reader         // ends when the client closes its side
	Stdout  io.Writer
	Stderr  io.Writer
	PTY     bool
	Term    string            // the client's TERM; empty without PTY
	Window  Window            // size at the start; zero without PTY
	Windows <-chan Window     // later sizes; sizes that nobody reads are dropped
	Signals <-chan ssh.Signal // signals sent by the client; those that nobody reads are dropped

	killed *exitSignal
}

type exitSignal struct {
	Signal     string
	CoreDumped bool
	Message    string
	Lang       string
}

// Killed makes the session end with an exit-signal instead of an exit status: the command was ended by sig. To be
// called by Exec before it returns; the status that Exec returns is then not sent.
func (s *Session) Killed(sig ssh.Signal, coreDumped bool, message string) {
	s.killed = &exitSignal{Signal: string(sig), CoreDumped: coreDumped, Message: message}
}

// session is the server's side of a Session while its requests come in.
type session struct {
	srv     *server
	ch      ssh.Channel
	s       *Session
	signals chan ssh.Signal
	windows chan Window
	login   Login
	started bool
	running sync.WaitGroup
}

func (s *server) serveSession(ctx context.Context, conn *ssh.ServerConn, nc ssh.NewChannel) {
	ch, reqs, err := nc.Accept()
	if err != nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ss := &session{
		srv: s, ch: ch, login: loginOf(conn), signals: make(chan ssh.Signal, 16), windows: make(chan Window, 4),
	}
	ss.s = &Session{
		User: conn.User(), Env: map[string]string{"SSH_CONNECTION": endpoints(conn)}, Stdin: ch, Stdout: ch,
		Stderr:  ch.Stderr(),
		Signals: ss.signals, Windows: ss.windows,
	}
	for req := range reqs {
		ss.request(ctx, req)
	}
	// The channel is closed, by either side: whatever still runs has lost its client.
	cancel()
	ss.running.Wait()
	_ = ch.Close()
}

// endpoints is SSH_CONNECTION of ssh(1): address and port of the client, then of the server.
func endpoints(conn *ssh.ServerConn) string {
	var fields []string
	for _, end := range []net.Addr{conn.RemoteAddr(), conn.LocalAddr()} {
		if host, port, err := net.SplitHostPort(end.String()); err == nil {
			fields = append(fields, host, port)
		}
	}
	return strings.Join(fields, " ")
}

func (ss *session) request(ctx context.Context, req *ssh.Request) {
	start, ok := ss.handle(req)
	if req.WantReply {
		_ = req.Reply(ok, nil)
	}
	if start != nil {
		ss.started = true
		ss.running.Go(func() { ss.run(ctx, start) })
	}
}

type runner func(ctx context.Context, s *Session) int

// handle takes one channel request (RFC 4254, 6). It returns what is to be started, after the reply.
func (ss *session) handle(req *ssh.Request) (start runner, ok bool) {
	switch req.Type {
	case "env":
		return nil, ss.setEnv(req.Payload)
	case "pty-req":
		return nil, ss.setPTY(req.Payload)
	case "window-change":
		return nil, ss.resize(req.Payload)
	case "signal":
		return nil, ss.signal(req.Payload)
	case "shell":
		if ss.started {
			return nil, false
		}
		return ss.exec(""), true
	case "exec":
		var m struct{ Command string }
		if ss.started || ssh.Unmarshal(req.Payload, &m) != nil {
			return nil, false
		}
		return ss.exec(m.Command), true
	case "subsystem":
		var m struct{ Name string }
		if ss.started || ssh.Unmarshal(req.Payload, &m) != nil || m.Name != "sftp" {
			return nil, false
		}
		if ss.login.Command != "" {
			return ss.exec(m.Name), true
		}
		return ss.sftp()
	}
	return nil, false
}

// exec is what runs command, or what the key is for.
func (ss *session) exec(command string) runner {
	ss.s.Command = command
	if ss.login.Command != "" {
		ss.s.Env["SSH_ORIGINAL_COMMAND"] = command
		ss.s.Command = ss.login.Command
	}
	return ss.srv.cfg.Exec
}

func (ss *session) setEnv(payload []byte) bool {
	var m struct{ Name, Value string }
	if ss.started || ssh.Unmarshal(payload, &m) != nil || !ss.srv.cfg.AcceptEnv(m.Name) {
		return false
	}
	ss.s.Env[m.Name] = m.Value
	return true
}

func (ss *session) setPTY(payload []byte) bool {
	var m struct {
		Term                         string
		Columns, Rows, Width, Height uint32
		Modes                        string
	}
	if ss.started || ss.login.Restricted || ssh.Unmarshal(payload, &m) != nil {
		return false
	}
	ss.s.PTY, ss.s.Term, ss.s.Window = true, m.Term, Window{Columns: m.Columns, Rows: m.Rows}
	return true
}

func (ss *session) resize(payload []byte) bool {
	var m struct{ Columns, Rows, Width, Height uint32 }
	if ssh.Unmarshal(payload, &m) != nil {
		return false
	}
	select {
	case ss.windows <- Window{Columns: m.Columns, Rows: m.Rows}:
	default:
	}
	return true
}

func (ss *session) signal(payload []byte) bool {
	var m struct{ Signal string }
	if !ss.started || ssh.Unmarshal(payload, &m) != nil {
		return false
	}
	select {
	case ss.signals <- ssh.Signal(m.Signal):
	default:
	}
	return true
}

func (ss *session) run(ctx context.Context, start runner) {
	status := start(ctx, ss.s)
	_ = ss.ch.CloseWrite()
	if ctx.Err() == nil {
		ss.sendExit(status)
	}
	_ = ss.ch.Close()
}

func (ss *session) sendExit(status int) {
	if k := ss.s.killed; k != nil {
		_, _ = ss.ch.SendRequest("exit-signal", false, ssh.Marshal(k))
		return
	}
	_, _ = ss.ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{uint32(status)}))
}

func (ss *session) sftp() (runner, bool) {
	cfg := ss.srv.cfg
	if cfg.SFTPExec != nil {
		return cfg.SFTPExec, true
	}
	if cfg.SFTP == nil {
		return nil, false
	}
	h, err := cfg.SFTP(ss.s.User)
	if err != nil {
		cfg.Log.Debug("sftp refused", "user", ss.s.User, "error", err)
		return nil, false
	}
	return func(_ context.Context, _ *Session) int {
		srv := sftp.NewRequestServer(ss.ch, h)
		defer func() { _ = srv.Close() }()
		if err := srv.Serve(); err != nil && err != io.EOF {
			cfg.Log.Debug("sftp ended", "user", ss.s.User, "error", err)
			return 1
		}
		return 0
	}, true
}
