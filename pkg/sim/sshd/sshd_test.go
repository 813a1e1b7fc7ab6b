package sshd

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pkg/sftp"
	"go.uber.org/goleak"
	"golang.org/x/crypto/ssh"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newKey(t *testing.T) ssh.Signer {
	t.Helper()
	_, priv, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ssh.NewSignerFromKey(priv)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

type fixture struct {
	addr string
	user ssh.Signer
	host ssh.Signer
	keys []byte       // an authorized_keys file, beside user
	stop func() error // cancels the server and returns what Serve returned
}

func serve(t *testing.T, c Config) *fixture {
	t.Helper()
	f := &fixture{user: newKey(t), host: newKey(t)}
	c.HostKey = f.host
	c.Authorized = func(user string, key ssh.PublicKey) (Login, bool) {
		if user != "debian" {
			return Login{}, false
		}
		if bytes.Equal(key.Marshal(), f.user.PublicKey().Marshal()) {
			return Login{}, true
		}
		return Find(f.keys, key, time.Now())
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.addr = l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, l, c) }()
	f.stop = sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-done:
			return err
		case <-time.After(5 * time.Second):
			return errors.New("the server did not end")
		}
	})
	t.Cleanup(func() {
		if err := f.stop(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func (f *fixture) dial(t *testing.T, user string, key ssh.Signer) (*ssh.Client, error) {
	t.Helper()
	c, err := ssh.Dial("tcp", f.addr, &ssh.ClientConfig{
		User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(key)}, HostKeyCallback: ssh.FixedHostKey(f.host.PublicKey()),
		Timeout: 5 * time.Second,
	})
	if err == nil {
		t.Cleanup(func() { _ = c.Close() })
	}
	return c, err
}

func (f *fixture) client(t *testing.T) *ssh.Client {
	t.Helper()
	c, err := f.dial(t, "debian", f.user)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// scripted is an Exec that understands the few words the tests use.
func scripted(ctx context.Context, s *Session) int {
	verb, arg, _ := strings.Cut(s.Command, " ")
	switch verb {
	case "echo":
		_, _ = fmt.Fprint(s.Stdout, arg)
	case "fail":
		_, _ = fmt.Fprint(s.Stderr, "went wrong")
		return 7
	case "cat":
		_, _ = io.Copy(s.Stdout, s.Stdin)
	case "env":
		_, _ = fmt.Fprint(s.Stdout, s.Env[arg])
	case "killed":
		s.Killed(ssh.SIGKILL, false, "out of memory")
		return 9
	case "wait":
		_, _ = fmt.Fprint(s.Stdout, "ready")
		select {
		case sig := <-s.Signals:
			s.Killed(sig, false, "")
		case <-ctx.Done():
		}
	case "window":
		_, _ = fmt.Fprintf(s.Stdout, "%v %s %d", s.PTY, s.Term, s.Window.Columns)
		_, _ = fmt.Fprintf(s.Stdout, " %d", (<-s.Windows).Columns)
	case "":
		_, _ = fmt.Fprint(s.Stdout, "shell of "+s.User)
	}
	return 0
}

func TestExec(t *testing.T) {
	f := serve(t, Config{Exec: scripted})
	c := f.client(t)
	tests := []struct {
		command, stdin, stdout, stderr string
		status                         int
		signal                         string
	}{
		{command: "echo hello", stdout: "hello"},
		{command: "fail", stderr: "went wrong", status: 7},
		{command: "cat", stdin: strings.Repeat("x", 3<<20), stdout: strings.Repeat("x", 3<<20)},
		{command: "killed", status: 137, signal: "KILL"},
	}
	for _, tt := range tests {
		t.Run(tt.command, func(t *testing.T) {
			s, err := c.NewSession()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			var out, errOut bytes.Buffer
			s.Stdin, s.Stdout, s.Stderr = strings.NewReader(tt.stdin), &out, &errOut
			err = s.Run(tt.command)
			var exit *ssh.ExitError
			status, signal := 0, ""
			if errors.As(err, &exit) {
				status, signal = exit.ExitStatus(), exit.Signal()
			} else if err != nil {
				t.Fatal(err)
			}
			if out.String() != tt.stdout || errOut.String() != tt.stderr || status != tt.status || signal != tt.signal {
				t.Errorf("got %d bytes %q, %d, %q; want %d bytes %q, %d, %q",
					out.Len(), errOut.String(), status, signal, len(tt.stdout), tt.stderr, tt.status, tt.signal)
			}
		})
	}
}

func TestShellIsAnEmptyCommand(t *testing.T) {
	f := serve(t, Config{Exec: scripted})
	s, err := f.client(t).NewSession()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	s.Stdout = &out
	if err := s.Shell(); err != nil {
		t.Fatal(err)
	}
	if err := s.Wait(); err != nil || out.String() != "shell of debian" {
		t.Errorf("shell: %q, %v", out.String(), err)
	}
}

func TestOnlyTheAuthorizedKeyAndUserLogIn(t *testing.T) {
	f := serve(t, Config{Exec: scripted})
	if _, err := f.dial(t, "debian", newKey(t)); err == nil {
		t.Error("a foreign key logged in")
	}
	if _, err := f.dial(t, "root", f.user); err == nil {
		t.Error("the key logged in as another user")
	}
}

func TestKeysForOnePurpose(t *testing.T) {
	f := serve(t, Config{Exec: scripted, DirectTCPIP: func(ctx context.Context, addr string) (net.Conn, error) {
		return nil, errors.New("dialled")
	}})
	key := newKey(t)
	line := string(ssh.MarshalAuthorizedKey(key.PublicKey()))
	hour := func(hours int) string {
		return time.Now().Add(time.Duration(hours) * time.Hour).Format("20060102150405")
	}
	for _, refused := range []string{
		"", "# " + line, `expiry-time="` + hour(-1) + `" ` + line, `expiry-time="tomorrow" ` + line,
		"cert-authority " + line, "unknown " + line,
	} {
		f.keys = []byte(refused)
		if _, err := f.dial(t, "debian", key); err == nil {
			t.Errorf("it could log in by %q", refused)
		}
	}
	f.keys = []byte("not a key\n\n" + `restrict,expiry-time="` + hour(1) + `",command="echo \"a\" b" ` + line)
	c, err := f.dial(t, "debian", key)
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.RequestPty("xterm", 24, 80, nil); err == nil {
		t.Error("it has got a terminal")
	}
	if out, err := s.Output("fail"); err != nil || string(out) != `"a" b` {
		t.Errorf("its command: %q, %v", out, err)
	}
	if _, err := c.Dial("tcp", "127.0.0.1:1"); err == nil || !strings.Contains(err.Error(), "prohibited") {
		t.Errorf("forwarding: %v", err)
	}
	f.keys = []byte(`command="env SSH_ORIGINAL_COMMAND" ` + line)
	if c, err = f.dial(t, "debian", key); err != nil {
		t.Fatal(err)
	}
	if s, err = c.NewSession(); err != nil {
		t.Fatal(err)
	}
	if out, err := s.Output("scp -f file"); err != nil || string(out) != "scp -f file" {
		t.Errorf("the command that was asked for: %q, %v", out, err)
	}
}

func TestSignalReachesTheCommand(t *testing.T) {
	f := serve(t, Config{Exec: scripted})
	s, err := f.client(t).NewSession()
	if err != nil {
		t.Fatal(err)
	}
	out, _ := s.StdoutPipe()
	if err := s.Start("wait"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	if err := s.Signal(ssh.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var exit *ssh.ExitError
	if err := s.Wait(); !errors.As(err, &exit) || exit.Signal() != "TERM" {
		t.Errorf("wait: %v", err)
	}
}

func TestEnvironmentAsDebianAcceptsIt(t *testing.T) {
	f := serve(t, Config{Exec: scripted})
	c := f.client(t)
	for name, accepted := range map[string]bool{"LANG": true, "LC_ALL": true, "PATH": false, "HIVE_X": false} {
		s, err := c.NewSession()
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Setenv(name, "C.UTF-8"); (err == nil) != accepted {
			t.Errorf("setenv %s: %v", name, err)
		}
		out, err := s.Output("env " + name)
		if err != nil || (string(out) == "C.UTF-8") != accepted {
			t.Errorf("env %s: %q, %v", name, out, err)
		}
	}
}

func TestTerminal(t *testing.T) {
	f := serve(t, Config{Exec: scripted})
	s, err := f.client(t).NewSession()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.RequestPty("xterm", 24, 80, nil); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	s.Stdout = &out
	if err := s.Start("window"); err != nil {
		t.Fatal(err)
	}
	if err := s.WindowChange(50, 132); err != nil {
		t.Fatal(err)
	}
	if err := s.Wait(); err != nil || out.String() != "true xterm 80 132" {
		t.Errorf("got %q, %v", out.String(), err)
	}
}

func TestEleventhSessionIsRefused(t *testing.T) {
	f := serve(t, Config{Exec: scripted})
	c := f.client(t)
	for i := range 10 {
		s, err := c.NewSession()
		if err != nil {
			t.Fatalf("session %d: %v", i, err)
		}
		out, _ := s.StdoutPipe()
		if err := s.Start("wait"); err != nil {
			t.Fatal(err)
		}
		_, _ = io.ReadFull(out, make([]byte, 5))
	}
	var refused *ssh.OpenChannelError
	if _, err := c.NewSession(); !errors.As(err, &refused) {
		t.Errorf("the eleventh session: %v", err)
	}
}

func TestHangUpCancelsTheSession(t *testing.T) {
	started, ended := make(chan struct{}), make(chan struct{})
	f := serve(t, Config{Exec: func(ctx context.Context, _ *Session) int {
		close(started)
		<-ctx.Done()
		close(ended)
		return 0
	}})
	c := f.client(t)
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start("x"); err != nil {
		t.Fatal(err)
	}
	<-started
	_ = c.Close()
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		t.Error("the session outlived its client")
	}
}

func TestCancelEndsEverything(t *testing.T) {
	f := serve(t, Config{Exec: scripted})
	c := f.client(t)
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start("wait"); err != nil {
		t.Fatal(err)
	}
	if err := f.stop(); err != nil {
		t.Fatal(err)
	}
	if err := s.Wait(); err == nil {
		t.Error("the session ended without an error")
	}
	if _, err := net.Dial("tcp", f.addr); err == nil {
		t.Error("the port is still open")
	}
}

func TestSFTP(t *testing.T) {
	f := serve(t, Config{Exec: scripted, SFTP: func(user string) (sftp.Handlers, error) {
		if user != "debian" {
			return sftp.Handlers{}, errors.New("unknown user")
		}
		return sftp.InMemHandler(), nil
	}})
	c, err := sftp.NewClient(f.client(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	w, err := c.Create("/x")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = w.Write([]byte("content"))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := c.Open("/x")
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	_ = r.Close()
	if err != nil || string(got) != "content" {
		t.Errorf("read %q, %v", got, err)
	}
}

func TestSubsystemsAreRefusedUnlessOffered(t *testing.T) {
	f := serve(t, Config{Exec: scripted})
	if _, err := sftp.NewClient(f.client(t)); err == nil {
		t.Error("sftp was served though nothing offers it")
	}
}

func TestForwarding(t *testing.T) {
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = echo.Close() }()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		c, err := echo.Accept()
		if err != nil {
			return
		}
		_, _ = io.Copy(c, c)
		_ = c.Close()
	})
	var d net.Dialer
	f := serve(t, Config{Exec: scripted, DirectTCPIP: func(ctx context.Context, addr string) (net.Conn, error) {
		return d.DialContext(ctx, "tcp", addr)
	}})
	c := f.client(t)
	nc, err := c.Dial("tcp", echo.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_, _ = nc.Write([]byte("ping"))
	_ = nc.(interface{ CloseWrite() error }).CloseWrite()
	got, err := io.ReadAll(nc)
	if err != nil || string(got) != "ping" {
		t.Errorf("got %q, %v", got, err)
	}
	_ = nc.Close()
	if _, err := c.Dial("tcp", "127.0.0.1:1"); err == nil {
		t.Error("a closed port was reached")
	}

	closed := serve(t, Config{Exec: scripted})
	if _, err := closed.client(t).Dial("tcp", echo.Addr().String()); err == nil {
		t.Error("forwarding worked though it is not offered")
	}
}
