package host

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
)

// maxAgentData is the most that the agent returns of a file or a command's output (16 MiB, as PVE's file-read and
// qemu-ga).
const maxAgentData = 16 << 20

// agent runs commands for the hypervisor, as root of the machine (kind process: as the simulator's user).
type agent struct {
	g       *guest
	mu      sync.Mutex
	running map[int]*agentProcess
}

type agentProcess struct {
	stdout, stderr bytes.Buffer
	ended          chan struct{} // closed when the process has ended and its output is complete
	status         syscall.WaitStatus
}

func (a *agent) exec(req execRequest) (int, error) {
	if len(req.Argv) == 0 {
		return 0, errors.New("guest-exec: no command")
	}
	env := a.g.baseEnv(a.g.rootAccount())
	path, err := lookPath(req.Argv[0], envValue(env, "PATH"))
	if err != nil {
		// As qemu-ga words it; PVE puts its own words before it.
		return 0,
			fmt.Errorf("guest-exec: Failed to execute child process “%s” (No such file or directory)", req.Argv[0])
	}
	s, err := newStdio()
	if err != nil {
		return 0, err
	}
	pid, end, err := a.g.procs.start(path, req.Argv, &os.ProcAttr{
		Dir: a.g.root, Env: env, Files: s.child[:], Sys: &syscall.SysProcAttr{Setsid: true},
	})
	s.closeChild()
	if err != nil {
		s.close()
		return 0, fmt.Errorf("guest-exec: %w", err)
	}
	p := &agentProcess{ended: make(chan struct{})}
	a.mu.Lock()
	a.running[pid] = p
	a.mu.Unlock()
	go p.collect(s, req.Stdin, end)
	return pid, nil
}

func (p *agentProcess) collect(s *stdio, stdin []byte, end <-chan syscall.WaitStatus) {
	var wg sync.WaitGroup
	go func() {
		_, _ = s.stdin.Write(stdin)
		_ = s.stdin.Close()
	}()
	wg.Go(func() { drain(&p.stdout, s.stdout) })
	wg.Go(func() { drain(&p.stderr, s.stderr) })
	wg.Wait()
	p.status = <-end
	s.close()
	close(p.ended)
}

// drain keeps the first maxAgentData bytes and reads the rest away, so that the process does not block.
func drain(b *bytes.Buffer, r io.Reader) {
	_, _ = io.Copy(b, io.LimitReader(r, maxAgentData))
	_, _ = io.Copy(io.Discard, r)
}

// status reports a process; its end is reported once, then the agent forgets it, as qemu-ga does.
func (a *agent) status(pid int) (ExecResult, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.running[pid]
	if p == nil {
		return ExecResult{}, ErrUnknownPID
	}
	select {
	case <-p.ended:
	default:
		return ExecResult{}, nil
	}
	delete(a.running, pid)
	r := ExecResult{Exited: true, Stdout: p.stdout.Bytes(), Stderr: p.stderr.Bytes()}
	if p.status.Signaled() {
		r.Signal = int(p.status.Signal())
	} else {
		r.ExitCode = p.status.ExitStatus()
	}
	return r, nil
}

func (a *agent) readFile(path string) ([]byte, error) {
	name := path
	if a.g.cfg.Kind == KindProcess {
		// The machine's own tree first; what it does not have is the real machine's, as for its commands.
		if _, err := os.Stat(a.g.path(path)); err == nil {
			name = a.g.path(path)
		}
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, openError(path, err)
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(io.LimitReader(f, maxAgentData))
	if err != nil {
		return nil, openError(path, err)
	}
	return b, nil
}

// openError words a failure as qemu-ga does.
func openError(path string, err error) error {
	var errno syscall.Errno
	reason := err.Error()
	if errors.As(err, &errno) {
		reason = strings.ToUpper(errno.Error()[:1]) + errno.Error()[1:]
	}
	return fmt.Errorf("failed to open file '%s' (mode: 'r'): %s", path, reason)
}
