package host

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"hive-test/pkg/sim/sshd"
)

// loginPath is the PATH of a login in a Debian machine whose user may use sudo without looking for sbin.
const loginPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// ptyDrain bounds how long a terminal's last output is waited for when something still holds the terminal.
const ptyDrain = 500 * time.Millisecond

// stdio is a pipe for each standard stream: the child's ends and ours.
type stdio struct {
	child          [3]*os.File
	stdin          *os.File
	stdout, stderr *os.File
}

func newStdio() (*stdio, error) {
	s := &stdio{}
	var err error
	if s.child[0], s.stdin, err = os.Pipe(); err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	if s.stdout, s.child[1], err = os.Pipe(); err != nil {
		s.close()
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	if s.stderr, s.child[2], err = os.Pipe(); err != nil {
		s.close()
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	return s, nil
}

func (s *stdio) closeChild() {
	for _, f := range s.child {
		_ = f.Close()
	}
}

// close closes everything; closing nil or twice does nothing.
func (s *stdio) close() {
	s.closeChild()
	for _, f := range []*os.File{s.stdin, s.stdout, s.stderr} {
		_ = f.Close()
	}
}

// authorized reads the user's authorized_keys at every login, as sshd does. Only the user that cloud-init made may log
// in.
func (g *guest) authorized(user string, key ssh.PublicKey) (sshd.Login, bool) {
	if user != g.account.Name {
		return sshd.Login{}, false
	}
	keys, err := os.ReadFile(filepath.Join(g.account.Home, ".ssh/authorized_keys"))
	if err != nil {
		return sshd.Login{}, false
	}
	return sshd.Find(keys, key, time.Now())
}

// rootAccount is who the agent and cloud-init run as.
func (g *guest) rootAccount() account {
	if g.cfg.Kind == KindProcess {
		a := g.account
		a.Home = g.root
		return a
	}
	return account{Name: "root", Home: "/root", Shell: "/bin/sh"}
}

// baseEnv is the environment of a login.
func (g *guest) baseEnv(a account) []string {
	env := []string{"HOME=" + a.Home, "USER=" + a.Name, "LOGNAME=" + a.Name, "SHELL=" + a.Shell}
	if g.cfg.Kind == KindProcess {
		return append(env, "PATH="+g.path(shimDir)+":"+loginPath, "TMPDIR="+g.path("tmp"),
			rootVariable+"="+g.root, "SIM_HOST_NAME="+g.cfg.CloudInit.Hostname)
	}
	return append(env, "PATH="+loginPath)
}

// rootVariable tells processes in a machine of kind process where the machine's own files are.
const rootVariable = "SIM_HOST_ROOT"

func envValue(env []string, name string) string {
	for _, e := range slices.Backward(env) {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			return v
		}
	}
	return ""
}

// loginAttr is how a process of the machine's user is started.
func (g *guest) loginAttr(s *sshd.Session, files []*os.File) *os.ProcAttr {
	env := g.baseEnv(g.account)
	for k, v := range s.Env {
		env = append(env, k+"="+v)
	}
	if s.PTY {
		env = append(env, "TERM="+s.Term)
	}
	// A session of its own, as sshd makes one: it is also what signals of the client go to.
	sys := &syscall.SysProcAttr{Setsid: true, Setctty: s.PTY}
	if g.cfg.Kind == KindNetns {
		sys.Credential = &syscall.Credential{Uid: uint32(g.account.UID), Gid: uint32(g.account.GID)}
		for _, gid := range groupsOf(g.root, g.account) {
			sys.Credential.Groups = append(sys.Credential.Groups, uint32(gid))
		}
	}
	dir := g.account.Home
	if _, err := os.Stat(dir); err != nil {
		dir = g.root
	}
	return &os.ProcAttr{Dir: dir, Env: env, Files: files, Sys: sys}
}

// execSession runs a command or a login shell for an SSH client.
func (g *guest) execSession(ctx context.Context, s *sshd.Session) int {
	shell := g.account.Shell
	argv := []string{filepath.Base(shell), "-c", s.Command}
	if s.Command == "" {
		argv = []string{"-" + filepath.Base(shell)}
	}
	if s.PTY {
		return g.runTerminal(ctx, s, shell, argv)
	}
	return g.runPiped(ctx, s, shell, argv)
}

// sftpSession serves SFTP by a process with the user's rights.
func (g *guest) sftpSession(ctx context.Context, s *sshd.Session) int {
	exe := guestBinary
	if g.cfg.Kind == KindProcess {
		exe = g.cfg.Guest
	}
	return g.runPiped(ctx, s, exe, []string{exe, "host", "sftp"})
}

func fail(s *sshd.Session, err error) int {
	_, _ = fmt.Fprintf(s.Stderr, "%v\r\n", err)
	return 255
}

// runPiped runs a process without a terminal. It ends when the process has ended and nobody holds its output any more,
// as sshd does. A client that hangs up ends the session, not the process.
func (g *guest) runPiped(ctx context.Context, s *sshd.Session, path string, argv []string) int {
	p, err := newStdio()
	if err != nil {
		return fail(s, err)
	}
	defer p.close()
	pid, end, err := g.procs.start(path, argv, g.loginAttr(s, p.child[:]))
	p.closeChild()
	if err != nil {
		return fail(s, err)
	}
	go func() {
		_, _ = io.Copy(p.stdin, s.Stdin)
		_ = p.stdin.Close()
	}()
	var output sync.WaitGroup
	output.Go(func() { _, _ = io.Copy(s.Stdout, p.stdout) })
	output.Go(func() { _, _ = io.Copy(s.Stderr, p.stderr) })
	drained := make(chan struct{})
	go func() {
		output.Wait()
		close(drained)
	}()
	ws, ok := await(ctx, s, pid, end, nil)
	if !ok {
		return 255
	}
	select {
	case <-drained:
	case <-ctx.Done():
	}
	return report(s, ws)
}

// await delivers the client's signals and window sizes until the process ends; false means that the client left first.
func await(
	ctx context.Context, s *sshd.Session, pid int, end <-chan syscall.WaitStatus, tty *terminal,
) (syscall.WaitStatus, bool) {
	for {
		select {
		case ws := <-end:
			return ws, true
		case sig := <-s.Signals:
			if n := unix.SignalNum("SIG" + string(sig)); n != 0 {
				_ = syscall.Kill(-pid, n)
			}
		case w := <-s.Windows:
			tty.resize(w)
		case <-ctx.Done():
			return 0, false
		}
	}
}

func report(s *sshd.Session, ws syscall.WaitStatus) int {
	if ws.Signaled() {
		name := strings.TrimPrefix(unix.SignalName(ws.Signal()), "SIG")
		s.Killed(ssh.Signal(name), ws.CoreDump(), "")
	}
	return ws.ExitStatus()
}

// runTerminal runs a process on a terminal of the machine. When the client hangs up, the terminal goes away and the
// kernel sends its processes SIGHUP.
func (g *guest) runTerminal(ctx context.Context, s *sshd.Session, path string, argv []string) int {
	tty, err := openTerminal()
	if err != nil {
		return fail(s, fmt.Errorf("PTY allocation failed: %w", err))
	}
	defer func() { _ = tty.master.Close() }()
	tty.resize(s.Window)
	_ = chown(tty.slave.Name(), g.account)
	pid, end, err := g.procs.start(path, argv, g.loginAttr(s, []*os.File{tty.slave, tty.slave, tty.slave}))
	_ = tty.slave.Close()
	if err != nil {
		return fail(s, err)
	}
	go func() { _, _ = io.Copy(tty.master, s.Stdin) }()
	drained := make(chan struct{})
	go func() {
		_, _ = io.Copy(s.Stdout, tty.master)
		close(drained)
	}()
	ws, ok := await(ctx, s, pid, end, tty)
	if !ok {
		return 255
	}
	select {
	case <-drained:
	case <-ctx.Done():
	case <-time.After(ptyDrain):
	}
	return report(s, ws)
}
