package remote

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// session is one session channel. Unlike ssh.Session it tells the end of the command (exited) from the end of the
// channel (closed): a command that leaves something in the background which holds its output ends for us when it ends.
type session struct {
	conn    *connection
	ch      ssh.Channel
	exited  chan struct{} // closed when the command's status is known, and when the channel ends without one
	closed  chan struct{} // closed when the channel is
	release func()

	once   sync.Once
	mu     sync.Mutex
	status *exitStatus
}

var errNotReading = errors.New("the node does not read what it is sent")

type exitStatus struct {
	code   int
	signal string
}

func newSession(c *connection, ch ssh.Channel, reqs <-chan *ssh.Request) *session {
	s := &session{conn: c, ch: ch, exited: make(chan struct{}), closed: make(chan struct{}), release: func() {}}
	go s.listen(reqs)
	return s
}

// listen takes what the server says about the command until the channel ends.
func (s *session) listen(reqs <-chan *ssh.Request) {
	known := false
	for req := range reqs {
		if status := parseStatus(req); status != nil && !known {
			known = true
			s.mu.Lock()
			s.status = status
			s.mu.Unlock()
			close(s.exited)
		}
		if req.WantReply {
			_ = req.Reply(false, nil)
		}
	}
	if !known {
		close(s.exited)
	}
	close(s.closed)
}

// parseStatus reads exit-status and exit-signal (RFC 4254, 6.10).
func parseStatus(req *ssh.Request) *exitStatus {
	switch req.Type {
	case "exit-status":
		if len(req.Payload) >= 4 {
			return &exitStatus{code: int(binary.BigEndian.Uint32(req.Payload))}
		}
	case "exit-signal":
		var m struct {
			Signal     string
			CoreDumped bool
			Message    string
			Lang       string
		}
		if ssh.Unmarshal(req.Payload, &m) == nil {
			return &exitStatus{code: 128 + signalNumber(m.Signal), signal: m.Signal}
		}
	}
	return nil
}

func signalNumber(name string) int {
	numbers := map[string]int{
		"HUP": 1, "INT": 2, "QUIT": 3, "ILL": 4, "ABRT": 6, "FPE": 8, "KILL": 9,
		"USR1": 10, "SEGV": 11, "USR2": 12, "PIPE": 13, "ALRM": 14, "TERM": 15,
	}
	return numbers[name]
}

func (s *session) exit() *exitStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

// request sends a channel request and waits for the answer, or gives up with ctx. A request without payload has nil.
func (s *session) request(ctx context.Context, name string, payload any) error {
	var raw []byte
	if payload != nil {
		raw = ssh.Marshal(payload)
	}
	answer := make(chan error, 1)
	go func() {
		ok, err := s.ch.SendRequest(name, true, raw)
		if err == nil && !ok {
			err = fmt.Errorf("the SSH server refused the request %q", name)
		}
		answer <- err
	}()
	select {
	case err := <-answer:
		if errors.Is(err, io.EOF) {
			return s.conn.lostError()
		}
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *session) exec(ctx context.Context, line string) error {
	return s.request(ctx, "exec", struct{ Command string }{line})
}

func (s *session) subsystem(ctx context.Context, name string) error {
	return s.request(ctx, "subsystem", struct{ Name string }{name})
}

// copyStdin copies r to the command's standard input and closes that at its end. It is not waited for.
func (s *session) copyStdin(r io.Reader) {
	go func() {
		_, _ = io.Copy(s.ch, r)
		_ = s.ch.CloseWrite()
	}()
}

// ignoreOutput keeps a command from blocking whose output is of no use.
func (s *session) ignoreOutput() {
	go func() { _, _ = io.Copy(io.Discard, s.ch) }()
	go func() { _, _ = io.Copy(io.Discard, s.ch.Stderr()) }()
}

func (s *session) signal(name string) {
	_, _ = s.ch.SendRequest("signal", false, ssh.Marshal(struct{ Signal string }{name}))
}

func (s *session) waitExit(limit time.Duration) bool {
	select {
	case <-s.exited:
		return true
	case <-time.After(limit):
		return false
	}
}

// close gives the channel back. It never waits for long.
func (s *session) close() {
	s.once.Do(func() {
		go s.releaseSlot()
		done := make(chan struct{})
		go func() {
			_ = s.ch.Close()
			close(done)
		}()
		select {
		case <-done:
		case <-time.After(time.Second):
			s.conn.close(errNotReading)
		}
	})
}

// releaseSlot frees the session's place once the server has closed its side too, for the server counts it until then.
// One that is kept open by something in the background is not waited for.
func (s *session) releaseSlot() {
	select {
	case <-s.closed:
	case <-time.After(2 * time.Second):
	}
	s.release()
}
