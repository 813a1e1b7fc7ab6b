package remote

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pkg/sftp"
	"go.uber.org/goleak"
	"golang.org/x/crypto/ssh"

	"hive-test/pkg/cluster"
	"hive-test/pkg/sim/sshd"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is an SSH server of the test's own, whose commands are run by this machine's bash in a directory of its own.
type server struct {
	t     testing.TB
	addr  *net.TCPAddr
	home  string
	key   ssh.Signer
	allow func(ssh.PublicKey) bool

	mu       sync.Mutex
	commands []string
	conns    atomic.Int32
	deaf     bool              // signals are not passed on
	beyond   map[string]string // where addresses are that it alone reaches
	startUp  string            // what the login shell runs before anything else
	sftp     sftp.Handlers     // serves files in place of home's where FileList is set
	windows  chan sshd.Window  // sizes of terminals, where a test wants them
	stop     func()
}

// countingListener counts connections.
type countingListener struct {
	net.Listener
	count *atomic.Int32
}

func (l countingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.count.Add(1)
	}
	return c, err
}

func newHostKey(t testing.TB) ssh.Signer {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return signerOf(t, private)
}

func newECDSAHostKey(t testing.TB) ssh.Signer {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return signerOf(t, private)
}

func signerOf(t testing.TB, private any) ssh.Signer {
	t.Helper()
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

func newServer(t testing.TB) *server {
	t.Helper()
	s := &server{t: t, home: t.TempDir(), key: newHostKey(t), allow: func(ssh.PublicKey) bool { return true }}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.addr = l.Addr().(*net.TCPAddr)
	s.serve(l)
	t.Cleanup(func() { s.stop() })
	return s
}

// restart serves on the same port again.
func (s *server) restart() {
	s.t.Helper()
	s.stop()
	l, err := net.Listen("tcp", s.addr.String())
	if err != nil {
		s.t.Fatal(err)
	}
	s.serve(l)
}

func (s *server) serve(l net.Listener) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = sshd.Serve(ctx, countingListener{l, &s.conns}, sshd.Config{
			HostKey:    s.key,
			Authorized: func(_ string, key ssh.PublicKey) (sshd.Login, bool) { return sshd.Login{}, s.allow(key) },
			Exec:       s.exec,
			SFTPExec: func(ctx context.Context, session *sshd.Session) int {
				if out, err := exec.Command("bash", "-c", s.startUp).Output(); len(out) > 0 || err != nil {
					_, _ = session.Stdout.Write(out)
					if err != nil {
						return 1
					}
				}
				return serveSFTP(ctx, session, s.home, s.sftp)
			},
			DirectTCPIP: func(ctx context.Context, addr string) (net.Conn, error) {
				if s.beyond[addr] != "" {
					addr = s.beyond[addr]
				}
				return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
			},
		})
	}()
	s.stop = sync.OnceFunc(func() {
		cancel()
		<-done
	})
}

// stdio is one stream of two. The SFTP server may still write when it has ended, so that it is told to stop.
type stdio struct {
	io.Reader
	w      io.Writer
	mu     sync.Mutex
	closed bool
}

func (s *stdio) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, io.ErrClosedPipe
	}
	return s.w.Write(p)
}

func (s *stdio) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

func serveSFTP(_ context.Context, s *sshd.Session, dir string, other sftp.Handlers) int {
	streams := &stdio{Reader: s.Stdin, w: s.Stdout}
	defer func() { _ = streams.Close() }()
	if other.FileList != nil {
		srv := sftp.NewRequestServer(streams, other)
		_ = srv.Serve()
		return 0
	}
	srv, err := sftp.NewServer(streams, sftp.WithServerWorkingDirectory(dir))
	if err != nil {
		return 1
	}
	if err := srv.Serve(); err != nil && !errors.Is(err, io.EOF) {
		return 1
	}
	return 0
}

// exec runs a command as a login shell would; a signal from the client goes to its process group.
func (s *server) exec(ctx context.Context, session *sshd.Session) int {
	s.mu.Lock()
	s.commands = append(s.commands, session.Command)
	s.mu.Unlock()
	if s.windows != nil && session.PTY {
		s.windows <- session.Window
	}
	line := session.Command
	if s.startUp != "" {
		line = s.startUp + "\n" + line
	}
	cmd := exec.Command("bash", "-c", line)
	cmd.Dir = s.home
	cmd.Env = []string{"HOME=" + s.home, "PATH=" + os.Getenv("PATH"), "TERM=" + session.Term}
	cmd.Stdin = nil
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return 126
	}
	stdout, stderr := session.Stdout, session.Stderr
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.WaitDelay = 2 * time.Second // a background process may hold the output
	if err := cmd.Start(); err != nil {
		return 127
	}
	go func() {
		_, _ = io.Copy(stdin, session.Stdin)
		_ = stdin.Close()
	}()
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		for {
			select {
			case <-ended:
				return
			case <-ctx.Done():
				_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
				return
			case w := <-session.Windows:
				if s.windows != nil {
					s.windows <- w
				}
			case sig := <-session.Signals:
				if s.deaf {
					continue
				}
				number := map[ssh.Signal]syscall.Signal{ssh.SIGTERM: syscall.SIGTERM, ssh.SIGKILL: syscall.SIGKILL}[sig]
				_ = syscall.Kill(-cmd.Process.Pid, number)
			}
		}
	}()
	_ = cmd.Wait()
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		session.Killed(
			map[syscall.Signal]ssh.Signal{syscall.SIGTERM: ssh.SIGTERM, syscall.SIGKILL: ssh.SIGKILL}[status.Signal()],
			false, "",
		)
		return 0
	}
	return status.ExitStatus()
}

func (s *server) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.commands)
}

func (s *server) node(index int) cluster.Node {
	return nodeAt(s.addr, index)
}

func nodeAt(addr *net.TCPAddr, index int) cluster.Node {
	return cluster.Node{
		Name: cluster.Name("ci").Node(index), Index: index,
		Management: netip.MustParseAddr(addr.IP.String()), SSHPort: addr.Port,
	}
}

// testConfig has a key of its own and short times.
func testConfig(t testing.TB) Config {
	t.Helper()
	dir := t.TempDir()
	key := filepath.Join(dir, "id_ed25519")
	if err := GenerateKey(key); err != nil {
		t.Fatal(err)
	}
	return Config{
		User: "tf-user", KeyPath: key, KnownHosts: filepath.Join(dir, "known_hosts"),
		ConnectTimeout: 3 * time.Second, Grace: time.Second,
	}
}

func newDialer(t testing.TB, cfg Config) *Dialer {
	t.Helper()
	d, err := NewDialer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
	})
	return d
}

// connected is a server and a host that is it.
func connected(t *testing.T) (*server, *Host) {
	t.Helper()
	s := newServer(t)
	return s, newDialer(t, testConfig(t)).Host(s.node(1))
}

// silent accepts connections and never says a word.
func silent(t *testing.T) *net.TCPAddr {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var conns []net.Conn
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns = append(conns, c)
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
		for _, c := range conns {
			_ = c.Close()
		}
	})
	return l.Addr().(*net.TCPAddr)
}

// proxy passes bytes to a server until it is told to freeze: then it reads and writes nothing more, as a half-open
// connection does.
type proxy struct {
	addr   *net.TCPAddr
	frozen chan struct{}
	freeze func()
}

func newProxy(t *testing.T, target *net.TCPAddr) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{addr: l.Addr().(*net.TCPAddr), frozen: make(chan struct{})}
	p.freeze = sync.OnceFunc(func() { close(p.frozen) })
	var work sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	work.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", target.String())
			if err != nil {
				_ = in.Close()
				continue
			}
			mu.Lock()
			conns = append(conns, in, out)
			mu.Unlock()
			work.Go(func() { p.pass(out, in) })
			work.Go(func() { p.pass(in, out) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for _, c := range conns {
			_ = c.Close()
		}
		mu.Unlock()
		p.freeze()
		work.Wait()
	})
	return p
}

func (p *proxy) pass(to, from net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		select {
		case <-p.frozen:
			return
		default:
		}
		if err != nil {
			_ = to.Close()
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

func wantWithin(t *testing.T, limit time.Duration, f func()) {
	t.Helper()
	start := time.Now()
	f()
	if took := time.Since(start); took > limit {
		t.Errorf("it took %s, more than %s", took, limit)
	}
}

func contains(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the message %q does not say %q", err, part)
		}
	}
}

func randomFile(t testing.TB, size int) (string, []byte) {
	t.Helper()
	content := make([]byte, size)
	_, _ = rand.Read(content)
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path, bytes.Clone(content)
}
