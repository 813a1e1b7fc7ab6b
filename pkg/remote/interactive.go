package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/term"
)

// Interactive connects a person with a command on the node, or with a login shell where argv is empty, and returns its
// exit code (128 plus the number of a signal). With tty it asks for a terminal; where stdin is a terminal too that is
// put into raw mode meanwhile and its size is followed. There is no deadline but ctx. A Read of stdin that is under way
// at the end is not waited for. The error is for what is not the command's own failure.
func (h *Host) Interactive(
	ctx context.Context, argv []string, stdin io.Reader, stdout, stderr io.Writer, tty bool,
) (exit int, err error) {
	s, err := h.open(ctx)
	if err != nil {
		return 0, h.fail(err)
	}
	defer s.close()
	if tty {
		restore, err := s.terminal(ctx, h.dialer.cfg.Terminal, stdin)
		if err != nil {
			return 0, h.fail(err)
		}
		defer restore()
	}
	mark := newMark()
	if len(argv) > 0 {
		defer s.conn.guarded(mark, false)() // before it begins: hive-test may be killed in between
		err = s.exec(ctx, marked(Quote(argv...), mark))
	} else {
		err = s.request(ctx, "shell", nil)
	}
	if err != nil {
		return 0, h.fail(fmt.Errorf("starting the session: %w", err))
	}
	s.copyStdin(orEmpty(stdin))
	out := newOutput(DefaultKeep, nil)
	out.pass(s.ch, s.ch.Stderr(), stdout, stderr)
	cause := s.await(ctx, out, h.dialer.cfg.Grace, mark)
	status := s.exit()
	switch {
	case cause != nil:
		return 0, h.fail(cause)
	case status == nil:
		return 0, h.fail(errors.New("the session ended without an exit status"))
	}
	return status.code, nil
}

// pass copies both streams to w instead of keeping them.
func (o *output) pass(stdout, stderr io.Reader, w ...io.Writer) {
	o.read(stdout, stderr, func(i int, r io.Reader) {
		_, err := io.Copy(io.MultiWriter(w[i], writerFunc(o.seen)), r)
		if err != nil { // nobody reads it any more: keep the command from blocking
			_, _ = io.Copy(io.Discard, r)
		}
	})
}

func (o *output) seen(p []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.received += len(p)
}

// terminal asks for a pseudo terminal of the local one's size and follows that size. It is polled, which costs a system
// call now and then and leaves the process's signals to its owner.
func (s *session) terminal(ctx context.Context, name string, stdin io.Reader) (restore func(), err error) {
	columns, rows := 80, 24
	fd := -1
	if f, ok := stdin.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		fd = int(f.Fd())
		if c, r, err := term.GetSize(fd); err == nil {
			columns, rows = c, r
		}
	}
	err = s.request(ctx, "pty-req", struct {
		Term                         string
		Columns, Rows, Width, Height uint32
		Modes                        string
	}{name, uint32(columns), uint32(rows), 0, 0, terminalModes()})
	if err != nil || fd < 0 {
		return func() {}, err
	}
	state, err := term.MakeRaw(fd)
	if err != nil {
		return nil, fmt.Errorf("putting the terminal into raw mode: %w", err)
	}
	stop := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		s.followSize(fd, columns, rows, stop)
	}()
	return func() {
		close(stop)
		<-stopped
		_ = term.Restore(fd, state)
	}, nil
}

// terminalModes are opcode 1 byte, value 4 bytes, ended by 0 (RFC 4254, 8): line speeds and echo as OpenSSH sends them.
func terminalModes() string {
	mode := func(opcode byte, value uint32) string {
		return string([]byte{opcode, byte(value >> 24), byte(value >> 16), byte(value >> 8), byte(value)})
	}
	return mode(ssh.ECHO, 1) + mode(ssh.TTY_OP_ISPEED, 38400) + mode(ssh.TTY_OP_OSPEED, 38400) + "\x00"
}

func (s *session) followSize(fd, columns, rows int, stop <-chan struct{}) {
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-s.exited:
			return
		case <-ticker.C:
		}
		c, r, err := term.GetSize(fd)
		if err != nil || (c == columns && r == rows) {
			continue
		}
		columns, rows = c, r
		_, _ = s.ch.SendRequest(
			"window-change", false,
			ssh.Marshal(struct{ Columns, Rows, Width, Height uint32 }{uint32(c), uint32(r), 0, 0}),
		)
	}
}
