package main_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"hive-test/pkg/remote"
)

// sshds are OpenSSH servers of this machine, started for a test, each on an address of its own and all on one port.
// Whoever runs the test may log in with the key.
type sshds struct {
	dir, user, key string
	home           string // HOME of what runs there: its .bashrc is the start-up file of their shells
	port           int
	addresses      []string
	processes      []*exec.Cmd
}

// errNoSSHD says why there are no such servers here.
var errNoSSHD = errors.New("no OpenSSH server can be run here")

// startSSHD starts a server on each address, with what they need below dir. They run until they are stopped.
func startSSHD(dir string, addresses ...string) (s *sshds, err error) {
	// Debian's sshd asks to be called by its absolute path.
	program, err := exec.LookPath("/usr/sbin/sshd")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoSSHD, err)
	}
	who, err := user.Current()
	if err != nil {
		return nil, err
	}
	s = &sshds{dir: dir, user: who.Username, addresses: addresses}
	s.key, s.home = filepath.Join(s.dir, "id"), filepath.Join(s.dir, "home")
	if err := errors.Join(os.Mkdir(s.home, 0o700), remote.GenerateKey(s.key), s.prepare(who)); err != nil {
		return nil, err
	}
	if s.port, err = freePort(addresses[0]); err != nil {
		return nil, err
	}
	for _, address := range addresses {
		if err := s.start(program, address); err != nil {
			s.stop()
			return nil, err
		}
	}
	return s, nil
}

// prepare makes what sshd wants of the system where it runs as root.
func (s *sshds) prepare(who *user.User) error {
	if who.Uid != "0" {
		return nil
	}
	return os.MkdirAll("/run/sshd", 0o755)
}

func freePort(address string) (int, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func (s *sshds) start(program, address string) error {
	dir := s.own(address)
	hostKey, config := filepath.Join(dir, "host_key"), filepath.Join(dir, "sshd_config")
	if err := errors.Join(os.MkdirAll(s.files(address), 0o700), remote.GenerateKey(hostKey)); err != nil {
		return err
	}
	text := fmt.Sprintf(`ListenAddress %s
HostKey %s
PidFile %s/pid
AuthorizedKeysFile %s.pub
StrictModes no
UsePAM no
PermitRootLogin yes
PrintLastLog no
Subsystem sftp /usr/lib/openssh/sftp-server -d %s
SetEnv HOME=%s
`, net.JoinHostPort(address, fmt.Sprint(s.port)), hostKey, dir, s.key, s.files(address), s.home)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return err
	}
	var said bytes.Buffer
	cmd := exec.Command(program, "-D", "-e", "-f", config)
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%w: %w", errNoSSHD, err)
	}
	s.processes = append(s.processes, cmd)
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		conn, err := net.Dial("tcp", net.JoinHostPort(address, fmt.Sprint(s.port)))
		if err == nil {
			return conn.Close()
		}
		if time.Now().After(end) {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			s.processes = s.processes[:len(s.processes)-1]
			return fmt.Errorf("%w: %s: %s", errNoSSHD, err, said.String())
		}
	}
}

// greetAll reads the first words of all servers at once.
func (s *sshds) greetAll() error {
	failures := make([]error, len(s.addresses))
	var all sync.WaitGroup
	for i, address := range s.addresses {
		all.Go(func() {
			conn, err := net.Dial("tcp", net.JoinHostPort(address, fmt.Sprint(s.port)))
			if err == nil {
				_, err = io.ReadFull(conn, make([]byte, len("SSH-2.0-")))
				err = errors.Join(err, conn.Close())
			}
			failures[i] = err
		})
	}
	all.Wait()
	return errors.Join(failures...)
}

func (s *sshds) own(address string) string {
	return filepath.Join(s.dir, strings.ReplaceAll(address, ":", "_"))
}

// files is where relative paths of SFTP begin on a server: they have one home directory otherwise.
func (s *sshds) files(address string) string { return filepath.Join(s.own(address), "files") }

func (s *sshds) stop() {
	for _, cmd := range s.processes {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

// startUp makes text the start-up file of all shells there; empty: none.
func (s *sshds) startUp(text string) error {
	return os.WriteFile(filepath.Join(s.home, ".bashrc"), []byte(text), 0o600)
}

// hostsFile is the servers as a hosts file, named host-1 and so on.
func (s *sshds) hostsFile() string {
	var text strings.Builder
	fmt.Fprintf(&text, "ssh_user: %s\nssh_key_path: %q\nssh_port: %d\nnodes:\n", s.user, s.key, s.port)
	for i, address := range s.addresses {
		fmt.Fprintf(&text, "  - {name: host-%d, management: %q}\n", i+1, address)
	}
	return text.String()
}

// runsBash tells whether the servers' shells read a start-up file for commands, as Debian's bash does.
func (s *sshds) runsBash() bool {
	text, err := os.ReadFile("/etc/passwd")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Split(strings.TrimSpace(line), ":"); fields[0] == s.user {
			return filepath.Base(fields[len(fields)-1]) == "bash"
		}
	}
	return false
}

// cpu is what the servers and all that they have started have computed so far.
func (s *sshds) cpu() time.Duration {
	var sum time.Duration
	for _, cmd := range s.processes {
		self, ended := cpuOf(cmd.Process.Pid)
		sum += self + ended + cpuBelow(cmd.Process.Pid)
	}
	return sum
}

// cmdOpenSSH starts OpenSSH servers for a script, writes the hosts file of them, and sets OPENSSH_PORT and
// OPENSSH_USER:
//
//	openssh hosts.yaml 127.0.2.1 127.0.2.2
//
// Their shells' start-up file is .bashrc in $OPENSSH_HOME, their key $OPENSSH_KEY, and
// the process of each in openssh-FIRST-ADDRESS/ADDRESS/pid.
func cmdOpenSSH(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: openssh HOSTS-FILE ADDRESS...")
	}
	dir := ts.MkAbs("openssh-" + strings.ReplaceAll(args[1], ":", "_"))
	ts.Check(os.Mkdir(dir, 0o700))
	servers, err := startSSHD(dir, args[1:]...)
	ts.Check(err)
	ts.Defer(servers.stop)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(servers.hostsFile()), 0o600))
	for name, value := range map[string]string{
		"OPENSSH_PORT": fmt.Sprint(servers.port), "OPENSSH_USER": servers.user, "OPENSSH_HOME": servers.home,
		"OPENSSH_KEY": servers.key,
	} {
		ts.Setenv(name, value)
	}
}

// hasOpenSSH tells whether this machine can run OpenSSH servers whose shell reads .bashrc.
func hasOpenSSH() bool {
	who, err := user.Current()
	if err != nil {
		return false
	}
	_, err = exec.LookPath("/usr/sbin/sshd")
	return err == nil && (&sshds{user: who.Username}).runsBash()
}
