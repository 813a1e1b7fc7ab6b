//go:build linux

package host

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pkg/sftp"
	"github.com/vishvananda/netlink"
	"go.uber.org/goleak"
	"golang.org/x/crypto/ssh"
)

func TestMain(m *testing.M) {
	// The test binary is every machine's init, and what the machines' sudo and cloud-init are.
	if IsGuest(os.Args) {
		os.Exit(Main(os.Args))
	}
	if dir := os.Getenv("HOST_TEST_DOOMED_DIR"); dir != "" {
		os.Exit(doomed(Kind(os.Getenv("HOST_TEST_KIND")), dir))
	}
	goleak.VerifyTestMain(m)
}

const vendorData = `#cloud-config
package_update: true
packages: [git, make]
write_files:
  - path: /etc/hive-test.conf
    content: |
      key = value
    permissions: "0640"
runcmd:
  - mkdir -p /var/lib/hive-test
  - systemctl enable --now qemu-guest-agent
  - touch /var/lib/hive-test/cloud-init-done
  - [sh, -c, "echo done > /tmp/vendor-cloud-init-done"]
`

// lab is a manager with what the tests need to reach its machines.
type lab struct {
	*Manager
	key ssh.Signer
}

func eachKind(t *testing.T, f func(t *testing.T, kind Kind)) {
	for _, kind := range []Kind{KindNetns, KindProcess} {
		t.Run(string(kind), func(t *testing.T) {
			needKind(t, kind)
			f(t, kind)
		})
	}
}

// netnsWorks tries once.
var netnsWorks = sync.OnceValue(func() error {
	_, _, err := Detect(context.Background(), string(KindNetns))
	return err
})

func needKind(t *testing.T, kind Kind) {
	t.Helper()
	if kind == KindNetns && os.Geteuid() != 0 {
		t.Skip("hosts of kind netns need root")
	}
	if kind == KindNetns {
		err := netnsWorks()
		if err != nil &&
			(strings.Contains(err.Error(), "not permitted") || strings.Contains(err.Error(), "invalid argument")) {
			t.Skipf("hosts of kind netns do not work here: %v", err)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func newLab(t *testing.T, kind Kind, change ...func(*Options)) *lab {
	t.Helper()
	opt := Options{Kind: kind, Dir: filepath.Join(t.TempDir(), "hosts")}
	for _, c := range change {
		c(&opt)
	}
	m, err := NewManager(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return &lab{Manager: m, key: newKey(t)}
}

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

func (l *lab) spec(id string) Spec {
	var n int
	_, _ = fmt.Sscan(id, &n)
	return Spec{
		ID: id, Agent: true,
		NICs: []NIC{
			{MAC: fmt.Sprintf("BC:24:11:00:%02X:%02X", n/256%256, n%256), Bridge: "vmbr0"},
			{MAC: fmt.Sprintf("BC:24:11:01:%02X:%02X", n/256%256, n%256), Bridge: "vmbr1"},
		},
		CloudInit: CloudInit{
			Hostname: "node-" + id, User: "ubuntu", VendorData: []byte(vendorData),
			SSHKeys: []string{string(bytes.TrimSpace(ssh.MarshalAuthorizedKey(l.key.PublicKey())))},
		},
	}
}

func (l *lab) start(t *testing.T, spec Spec) {
	t.Helper()
	if err := l.Start(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
}

// poll repeats f with back-off until it returns nil.
func poll(t *testing.T, f func() error) {
	t.Helper()
	deadline := time.Now().Add(15 * time.Second)
	for wait := 2 * time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(wait)
	}
}

// addresses waits for the agent and returns the IPv4 address of every interface.
func (l *lab) addresses(t *testing.T, id string) map[string]netip.Addr {
	t.Helper()
	addrs := map[string]netip.Addr{}
	poll(t, func() error {
		list, err := l.Interfaces(t.Context(), id)
		for _, i := range list {
			for _, a := range i.Addresses {
				if a.Addr().Is4() {
					addrs[i.Name] = a.Addr()
				}
			}
		}
		return err
	})
	return addrs
}

func (l *lab) dial(t *testing.T, id, user string, key ssh.Signer) (*ssh.Client, ssh.PublicKey, error) {
	t.Helper()
	addr := netip.AddrPortFrom(l.addresses(t, id)["eth0"], uint16(l.SSHPort())).String()
	var host ssh.PublicKey
	c, err := ssh.Dial("tcp", addr, &ssh.ClientConfig{
		User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(key)}, Timeout: 5 * time.Second,
		HostKeyCallback: func(_ string, _ net.Addr, k ssh.PublicKey) error { host = k; return nil },
	})
	if err == nil {
		t.Cleanup(func() { _ = c.Close() })
	}
	return c, host, err
}

func (l *lab) client(t *testing.T, id string) *ssh.Client {
	t.Helper()
	c, _, err := l.dial(t, id, "ubuntu", l.key)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// sh runs a command over SSH and returns its output and status.
func sh(t *testing.T, c *ssh.Client, command string) (string, int) {
	t.Helper()
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	out, err := s.CombinedOutput(command)
	var exit *ssh.ExitError
	if errors.As(err, &exit) {
		return string(out), exit.ExitStatus()
	}
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	return string(out), 0
}

// agentRun runs a command through the agent.
func (l *lab) agentRun(t *testing.T, id, stdin string, argv ...string) ExecResult {
	t.Helper()
	pid, err := l.Exec(t.Context(), id, argv, []byte(stdin))
	if err != nil {
		t.Fatal(err)
	}
	var r ExecResult
	poll(t, func() error {
		if r, err = l.ExecStatus(t.Context(), id, pid); err != nil {
			t.Fatal(err)
		}
		if !r.Exited {
			return fmt.Errorf("%q has not ended", argv)
		}
		return nil
	})
	if _, err := l.ExecStatus(t.Context(), id, pid); !errors.Is(err, ErrUnknownPID) {
		t.Errorf("a second report of %q: %v", argv, err)
	}
	return r
}

func TestConformance(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	eachKind(t, func(t *testing.T, kind Kind) {
		l := newLab(t, kind)
		l.start(t, l.spec("101"))
		l.start(t, l.spec("102"))
		c := l.client(t, "101")
		if out, status := sh(t, c, "cloud-init status --wait"); status != 0 || !strings.Contains(out, "status: done") {
			log, _ := l.ReadFile(t.Context(), "101", "/var/log/cloud-init-output.log")
			t.Fatalf("cloud-init: %d %s\n%s", status, out, log)
		}
		tests := []struct {
			name string
			run  func(t *testing.T)
		}{
			{"commands", func(t *testing.T) { testCommands(t, l, c) }},
			{"interfaces", func(t *testing.T) { testInterfaces(t, l) }},
			{"agent commands", func(t *testing.T) { testAgent(t, l) }},
			{"cloud-init", func(t *testing.T) { testCloudInit(t, l, c) }},
			{"sudo", func(t *testing.T) { testSudo(t, l, c) }},
			{"sftp", func(t *testing.T) { testSFTP(t, l, c) }},
			{"signals", func(t *testing.T) { testSignals(t, c) }},
			{"terminal", func(t *testing.T) { testTerminal(t, c) }},
			{"a terminal's processes end with the client", func(t *testing.T) { testTerminalHangUp(t, l) }},
			{"background processes outlive the client", func(t *testing.T) { testHangUp(t, l) }},
			{"forwarding", func(t *testing.T) { testForwarding(t, l, c) }},
			{"login", func(t *testing.T) { testLogin(t, l) }},
			{"other addresses", func(t *testing.T) { testRenumber(t, l) }},
			{"power", func(t *testing.T) { testPower(t, l) }},
			{"restart", func(t *testing.T) { testRestart(t, l) }},
			{"clone", func(t *testing.T) { testClone(t, l) }},
			{"snapshot", func(t *testing.T) { testSnapshot(t, l) }},
			{"refusals", func(t *testing.T) { testRefusals(t, l) }},
			{"remove", func(t *testing.T) { testRemove(t, l) }},
		}
		for _, tt := range tests {
			t.Run(tt.name, tt.run)
		}
	})
}

// testRenumber moves a machine while it runs and one that is off; the address that is left is free for others.
func testRenumber(t *testing.T, l *lab) {
	l.start(t, l.spec("105"))
	before := l.addresses(t, "105")
	_, key, err := l.dial(t, "105", "ubuntu", l.key)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Renumber(t.Context(), "105"); err != nil {
		t.Fatal(err)
	}
	now := l.addresses(t, "105")
	for _, nic := range []string{"eth0", "eth1"} {
		if now[nic] == before[nic] || !now[nic].IsValid() {
			t.Errorf("%s has %s, and had %s before", nic, now[nic], before[nic])
		}
	}
	if _, still, err := l.dial(t, "105", "ubuntu", l.key); err != nil || !bytes.Equal(still.Marshal(), key.Marshal()) {
		t.Errorf("at its new address: host key %v, error %v", still, err)
	}
	old := netip.AddrPortFrom(before["eth0"], uint16(l.SSHPort())).String()
	poll(t, func() error { // a listener is gone some moments after it was closed
		c, err := net.DialTimeout("tcp", old, 500*time.Millisecond)
		if err != nil {
			return nil
		}
		_ = c.Close()
		return fmt.Errorf("something answers at the old address %s", old)
	})
	l.start(t, l.spec("106"))
	if got := l.addresses(t, "106")["eth0"]; got != before["eth0"] {
		t.Errorf("the next machine has %s, not the address that became free, %s", got, before["eth0"])
	}
	if err := l.Stop(t.Context(), "105"); err != nil {
		t.Fatal(err)
	}
	if err := l.Renumber(t.Context(), "105"); err != nil {
		t.Fatal(err)
	}
	l.start(t, l.spec("105"))
	if got := l.addresses(t, "105")["eth0"]; got == now["eth0"] {
		t.Errorf("a machine that was off has %s again", got)
	}
	for _, id := range []string{"105", "106"} {
		if err := l.Remove(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
}

func testCommands(t *testing.T, l *lab, c *ssh.Client) {
	tests := []struct {
		command, want string
		status        int
	}{
		{"hostname", "node-101\n", 0},
		{"echo $USER", "ubuntu\n", 0},
		{"exit 7", "", 7},
		{"echo err >&2; false", "err\n", 1},
		{"kill -9 $$", "", 137},
		{"pwd | grep -c /home/ubuntu", "1\n", 0},
		{"printf '%s' \"a  b\"", "a  b", 0},
	}
	if l.Kind() == KindNetns {
		tests = append(tests, []struct {
			command, want string
			status        int
		}{
			{"id -un", "ubuntu\n", 0},
			{"cat /etc/hostname", "node-101\n", 0},
			{"cat /proc/1/comm >/dev/null; ls /proc | grep -c '^1$'", "1\n", 0},
			{"touch /etc/x 2>/dev/null", "", 1},
			{"grep -c . " + l.opt.Dir + "/leases.json 2>/dev/null", "", 2},
			{"echo $PATH", loginPath + "\n", 0},
			{"echo x > /dev/null && head -c 2 /dev/zero | wc -c", "2\n", 0},
		}...)
	}
	for _, tt := range tests {
		if out, status := sh(t, c, tt.command); out != tt.want || status != tt.status {
			t.Errorf("%s: got %q, %d; want %q, %d", tt.command, out, status, tt.want, tt.status)
		}
	}
}

func testInterfaces(t *testing.T, l *lab) {
	seen := map[netip.Addr]bool{}
	for _, id := range []string{"101", "102"} {
		list, err := l.Interfaces(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, i := range list {
			names = append(names, i.Name)
		}
		if diff := cmp.Diff([]string{"lo", "eth0", "eth1"}, names); diff != "" {
			t.Errorf("interfaces (-want +got):\n%s", diff)
		}
		for n, bridge := range []string{"vmbr0", "vmbr1"} {
			i := list[n+1]
			if want := strings.ToLower(l.spec(id).NICs[n].MAC); i.MAC != want {
				t.Errorf("%s of %s has MAC %s, want %s", i.Name, id, i.MAC, want)
			}
			a := i.Addresses[0]
			if !l.Networks()[bridge].Contains(a.Addr()) || a.Bits() != 24 || seen[a.Addr()] {
				t.Errorf("%s of %s has address %s, not one of its own in %s", i.Name, id, a, l.Networks()[bridge])
			}
			seen[a.Addr()] = true
		}
	}
}

func testAgent(t *testing.T, l *lab) {
	r := l.agentRun(t, "101", "input", "sh", "-c", "cat; echo problem >&2; exit 3")
	if r.ExitCode != 3 || string(r.Stdout) != "input" || string(r.Stderr) != "problem\n" {
		t.Errorf("exec: %+v", r)
	}
	if r := l.agentRun(t, "101", "", "sh", "-c", "kill -TERM $$"); r.Signal != int(syscall.SIGTERM) {
		t.Errorf("killed command: %+v", r)
	}
	if _, err := l.Exec(t.Context(), "101", []string{"no-such-command"}, nil); err == nil {
		t.Error("a command that does not exist was started")
	}
	if b, err := l.ReadFile(t.Context(), "101", "/etc/hostname"); err != nil || string(b) != "node-101\n" {
		t.Errorf("read file: %q, %v", b, err)
	}
	if _, err := l.ReadFile(t.Context(), "101", "/no/such"); err == nil ||
		!strings.Contains(err.Error(), "No such file or directory") {
		t.Errorf("read a file that does not exist: %v", err)
	}
	if l.Kind() == KindNetns {
		if r := l.agentRun(t, "101", "", "id", "-u"); string(r.Stdout) != "0\n" {
			t.Errorf("the agent is not root: %s", r.Stdout)
		}
	}
}

func testCloudInit(t *testing.T, l *lab, c *ssh.Client) {
	files := map[string]string{
		"/var/lib/hive-test/cloud-init-done": "", "/tmp/vendor-cloud-init-done": "done\n",
		"/etc/hive-test.conf": "key = value\n",
	}
	for path, want := range files {
		if b, err := l.ReadFile(t.Context(), "101", path); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v", path, b, err)
		}
	}
	b, err := l.ReadFile(t.Context(), "101", "/run/cloud-init/result.json")
	var r cloudResult
	if err != nil || json.Unmarshal(b, &r) != nil || r.V1.Errors == nil || len(r.V1.Errors) != 0 ||
		r.V1.DataSource == "" {
		t.Errorf("result.json: %s, %v", b, err)
	}
	log, err := l.ReadFile(t.Context(), "101", "/var/log/cloud-init-output.log")
	if err != nil || !strings.Contains(string(log), "not run, this is a simulated host (\"systemctl\"") {
		t.Errorf("log: %s, %v", log, err)
	}
	if out, _ := sh(t, c, "cloud-init status --long"); !strings.Contains(out, "DataSourceNoCloud") {
		t.Errorf("status --long: %s", out)
	}
}

func testSudo(t *testing.T, l *lab, c *ssh.Client) {
	tests := []struct {
		command, want string
		status        int
	}{
		{"sudo -n true", "", 0},
		{"sudo -n sh -c 'exit 4'", "", 4},
		{"sudo -n -- A=b sh -c 'echo $A'", "b\n", 0},
		{"X=y sudo -nE sh -c 'echo $X'", "y\n", 0},
		{"X=y sudo -n sh -c 'echo $X$SUDO_USER'", "ubuntu\n", 0},
		{"sudo -n no-such-command", "sudo: no-such-command: command not found\n", 1},
		{"sudo", "sudo: usage: sudo [-EHn] [-u user] [VAR=value] [-i | -s] [command [arg ...]]\n", 1},
	}
	if l.Kind() == KindNetns {
		tests = append(tests, []struct {
			command, want string
			status        int
		}{
			{"sudo -n id -un", "root\n", 0},
			{"sudo -n sh -c 'echo $HOME $PATH'", "/root " + loginPath + "\n", 0},
			{"sudo -n -u nobody id -un", "nobody\n", 0},
			{"sudo -n -u nobody sudo -n id", "sudo: a password is required\n", 1},
			{"sudo -n touch /etc/written && test -O /etc/hostname; ls -l /etc/written | cut -d' ' -f3", "root\n", 0},
			{"sudo -n mknod /tmp/disk b 254 0 2>/dev/null", "", 1},
			{"sudo -n tee /proc/sys/kernel/hostname < /dev/null 2>/dev/null", "", 1},
			{"/usr/lib/hive-sim/guest host init", "init: not started by a simulator: file file+net control: fcntl: bad file descriptor\n", 1},
		}...)
	}
	for _, tt := range tests {
		out, status := sh(t, c, tt.command)
		if out != tt.want || status != tt.status {
			t.Errorf("%s: got %q, %d; want %q, %d", tt.command, out, status, tt.want, tt.status)
		}
	}
}

func testSFTP(t *testing.T, l *lab, c *ssh.Client) {
	s, err := sftp.NewClient(c)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	f, err := s.Create("uploaded")
	if err != nil {
		t.Fatal(err)
	}
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	if _, err := f.ReadFrom(bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Chmod(0o755), f.Close()); err != nil {
		t.Fatal(err)
	}
	if out, _ := sh(
		t, c, "wc -c < uploaded; test -x uploaded && test -O uploaded && echo mine",
	); out != "1048576\nmine\n" {
		t.Errorf("uploaded file: %s", out)
	}
	if l.Kind() == KindNetns {
		if _, err := s.Create("/etc/shadow2"); !errors.Is(err, os.ErrPermission) {
			t.Errorf("upload to /etc: %v", err)
		}
	}
}

func testSignals(t *testing.T, c *ssh.Client) {
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	out, _ := s.StdoutPipe()
	if err := s.Start("echo ready; exec sleep 100"); err != nil {
		t.Fatal(err)
	}
	_, _ = io.ReadFull(out, make([]byte, 6))
	if err := s.Signal(ssh.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var exit *ssh.ExitError
	if err := s.Wait(); !errors.As(err, &exit) || exit.Signal() != "TERM" {
		t.Errorf("a terminated command: %v", err)
	}
}

func testTerminal(t *testing.T, c *ssh.Client) {
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if err := s.RequestPty("xterm", 40, 123, nil); err != nil {
		t.Fatal(err)
	}
	out, err := s.Output("test -t 0 && stty size && echo $TERM")
	if err != nil || string(out) != "40 123\r\nxterm\r\n" {
		t.Errorf("terminal: %q, %v", out, err)
	}
}

func testHangUp(t *testing.T, l *lab) {
	c := l.client(t, "101")
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	out, _ := s.StdoutPipe()
	if err := s.Start("nohup sleep 300 >/dev/null 2>&1 & echo $!; exec sleep 299"); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Fscan(out, &pid); err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	c = l.client(t, "101")
	if _, status := sh(t, c, fmt.Sprintf("kill -0 %d", pid)); status != 0 {
		t.Error("a background process ended with its client")
	}
}

func testTerminalHangUp(t *testing.T, l *lab) {
	c := l.client(t, "101")
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.RequestPty("xterm", 24, 80, nil); err != nil {
		t.Fatal(err)
	}
	out, _ := s.StdoutPipe()
	if err := s.Start("echo $$; exec sleep 300"); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Fscan(out, &pid); err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	c = l.client(t, "101")
	poll(t, func() error {
		if _, status := sh(t, c, fmt.Sprintf("kill -0 %d 2>/dev/null", pid)); status == 0 {
			return errors.New("a process on a terminal outlives its client")
		}
		return nil
	})
}

func testForwarding(t *testing.T, l *lab, c *ssh.Client) {
	// From inside 101 to the SSH server of 102, on the data network.
	target := l.addresses(t, "102")["eth1"]
	if l.Kind() == KindProcess {
		target = l.addresses(t, "102")["eth0"] // where the server listens
	}
	nc, err := c.Dial("tcp", netip.AddrPortFrom(target, uint16(l.SSHPort())).String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = nc.Close() }()
	banner := make([]byte, 8)
	if _, err := io.ReadFull(nc, banner); err != nil || string(banner) != "SSH-2.0-" {
		t.Errorf("banner %q, %v", banner, err)
	}
}

func testLogin(t *testing.T, l *lab) {
	for _, user := range []string{"root", "debian", ""} {
		if _, _, err := l.dial(t, "101", user, l.key); err == nil {
			t.Errorf("%q logged in", user)
		}
	}
	if _, _, err := l.dial(t, "101", "ubuntu", newKey(t)); err == nil {
		t.Error("a foreign key logged in")
	}
}

func testPower(t *testing.T, l *lab) {
	if err := l.Start(t.Context(), l.spec("102")); err == nil {
		t.Error("a running machine was started")
	}
	pids := l.processes("102")
	if len(pids) == 0 {
		t.Error("a running machine has no process")
	}
	if l.Booted("102").IsZero() || l.State("102") != Running {
		t.Errorf("running: %v %v", l.State("102"), l.Booted("102"))
	}
	if err := l.Shutdown(t.Context(), "102"); err != nil {
		t.Fatal(err)
	}
	l.expectOff(t, "102")
	l.start(t, l.spec("102"))
	l.addresses(t, "102")
	l.agentRun(t, "102", "", "sh", "-c", "trap '' TERM; setsid sleep 1000 >/dev/null 2>&1 & exit 0")
	for range 2 {
		if err := l.Stop(t.Context(), "102"); err != nil {
			t.Fatal(err)
		}
		l.expectOff(t, "102")
	}
}

// processes lists processes whose init was started for that machine: it and its descendants.
func (l *lab) processes(id string) []int {
	var pids []int
	for _, pid := range descendants(os.Getpid()) {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if string(b) == "hive-sim\x00host\x00init\x00"+id+"\x00" {
			pids = append(pids, pid)
			pids = append(pids, descendants(pid)...)
		}
	}
	return pids
}

func (l *lab) expectOff(t *testing.T, id string) {
	t.Helper()
	if l.State(id) != Stopped || !l.Booted(id).IsZero() {
		t.Errorf("machine %s is %s, booted %v", id, l.State(id), l.Booted(id))
	}
	if _, err := l.Interfaces(t.Context(), id); !errors.Is(err, ErrAgentNotRunning) {
		t.Errorf("the agent of a stopped machine: %v", err)
	}
	if pids := l.processes(id); len(pids) > 0 {
		t.Errorf("processes %v outlive machine %s", pids, id)
	}
	if mounts := mountsBelow(t, l.dir(id)); len(mounts) > 0 {
		t.Errorf("mounts outlive machine %s: %v", id, mounts)
	}
	if l.fabric != nil {
		for n := range 2 {
			if _, err := l.fabric.inside.LinkByName(tapName(id, n)); err == nil {
				t.Errorf("interface %s outlives machine %s", tapName(id, n), id)
			}
		}
	}
}

func mountsBelow(t *testing.T, dir string) []string {
	t.Helper()
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for line := range strings.Lines(string(b)) {
		if strings.Contains(line, dir) {
			found = append(found, line)
		}
	}
	return found
}

func testRestart(t *testing.T, l *lab) {
	before := l.addresses(t, "101")
	_, key, err := l.dial(t, "101", "ubuntu", l.key)
	if err != nil {
		t.Fatal(err)
	}
	c := l.client(t, "101")
	sh(t, c, "echo kept > kept; rm .bashrc; rm -f uploaded")
	if err := l.Stop(t.Context(), "101"); err != nil {
		t.Fatal(err)
	}
	l.start(t, l.spec("101"))
	if diff := cmp.Diff(
		before, l.addresses(t, "101"), cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
	); diff != "" {
		t.Errorf("addresses changed (-before +after):\n%s", diff)
	}
	_, again, err := l.dial(t, "101", "ubuntu", l.key)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(key.Marshal(), again.Marshal()) {
		t.Error("the host key changed")
	}
	if out, _ := sh(
		t, l.client(t, "101"), "cat kept; ls .bashrc 2>/dev/null; cloud-init status --wait",
	); !strings.HasPrefix(out, "kept\n") ||
		strings.Contains(out, ".bashrc") || !strings.Contains(out, "done") {
		t.Errorf("the disk after a restart: %s", out)
	}
}

func testClone(t *testing.T, l *lab) {
	if err := l.Clone(t.Context(), "101", "103"); err == nil {
		t.Error("a running machine was cloned")
	}
	_, key, err := l.dial(t, "101", "ubuntu", l.key)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Stop(t.Context(), "101"); err != nil {
		t.Fatal(err)
	}
	if err := l.Clone(t.Context(), "101", "103"); err != nil {
		t.Fatal(err)
	}
	if err := l.Clone(t.Context(), "101", "103"); err == nil {
		t.Error("a machine was cloned over another")
	}
	if err := l.Clone(t.Context(), "7", "104"); err != nil {
		t.Errorf("clone of a machine that never ran: %v", err)
	}
	l.start(t, l.spec("103"))
	c, cloneKey, err := l.dial(t, "103", "ubuntu", l.key)
	if err != nil {
		t.Fatal(err)
	}
	if out, _ := sh(
		t, c, "cat kept; ls .bashrc 2>/dev/null; hostname; cloud-init status --wait | tail -n 1",
	); out != "kept\nnode-103\nstatus: done\n" {
		t.Errorf("the clone's disk: %q", out)
	}
	if bytes.Equal(key.Marshal(), cloneKey.Marshal()) {
		t.Error("the clone has its source's host key")
	}
}

// testSnapshot copies the disk of a machine at work, which works on, and brings it back: with its host key, at its
// addresses. A process that was stopped before is stopped still.
func testSnapshot(t *testing.T, l *lab) {
	ctx := t.Context()
	l.start(t, l.spec("106"))
	before := l.addresses(t, "106")
	c, key, err := l.dial(t, "106", "ubuntu", l.key)
	if err != nil {
		t.Fatal(err)
	}
	// both lines of a pair are written before the next pair is begun: a copy of one moment lacks one line at most
	sh(t, c, "echo then >mark; (while :; do echo a >>one; echo b >>two; done) </dev/null >/dev/null 2>&1 & echo $! >writer")
	sh(t, c, "sleep 1000 </dev/null >/dev/null 2>&1 & echo $! >stopped")
	sh(t, c, "kill -STOP $(cat stopped)") // not before it has let go of the session's output
	poll(t, func() error {
		if out, _ := sh(t, c, "test -s two && echo yes"); out != "yes\n" {
			return errors.New("nothing is written")
		}
		return nil
	})
	poll(t, func() error {
		if out, _ := sh(t, c, "cut -d' ' -f3 /proc/$(cat stopped)/stat"); out != "T\n" {
			return errors.New("a process that was told to stop has not had the time for it")
		}
		return nil
	})
	if err := l.Snapshot(ctx, "106", "106-snap"); err != nil {
		t.Fatal(err)
	}
	if err := l.Snapshot(ctx, "106", "106-snap"); err == nil {
		t.Error("a snapshot was made over another")
	}
	if out, _ := sh(t, c, "cut -d' ' -f3 /proc/$(cat stopped)/stat"); out != "T\n" {
		t.Errorf("a process that was stopped is %q after the snapshot", out)
	}
	poll(t, func() error {
		if out, _ := sh(t, c, "n=$(wc -l <two); sleep 0.01; [ $(wc -l <two) -gt $n ] && echo more"); out != "more\n" {
			return errors.New("the writer does not go on")
		}
		return nil
	})
	sh(t, c, "kill -KILL $(cat writer) $(cat stopped); rm mark; echo late >late")
	if err := l.Rollback(ctx, "nothing", "106"); err == nil {
		t.Error("a machine was rolled back to nothing")
	}
	if err := l.Rollback(ctx, "106-snap", "106"); err != nil {
		t.Fatal(err)
	}
	l.expectOff(t, "106")
	resumed := l.spec("106")
	resumed.Resumed = true
	l.start(t, resumed)
	if now := l.addresses(t, "106"); !maps.Equal(now, before) {
		t.Errorf("after the rollback it has %v, and had %v", now, before)
	}
	c, again, err := l.dial(t, "106", "ubuntu", l.key)
	if err != nil || !bytes.Equal(key.Marshal(), again.Marshal()) {
		t.Fatalf("after the rollback: host key %v, error %v", again, err)
	}
	out, _ := sh(t, c, "cat mark; ls late 2>/dev/null; n=$(($(wc -l <one) - $(wc -l <two))); [ $n = 0 ] || [ $n = 1 ] && echo whole")
	if out != "then\nwhole\n" {
		t.Errorf("the disk after the rollback: %q", out)
	}
}

func testRefusals(t *testing.T, l *lab) {
	tests := map[string]func(*Spec){
		"machine id":                     func(s *Spec) { s.ID = "../x" },
		"bridge 'vmbr9' does not exist":  func(s *Spec) { s.NICs[0].Bridge = "vmbr9" },
		"is not in":                      func(s *Spec) { s.NICs[0].Address = netip.MustParsePrefix("192.0.2.7/24") },
		"user name \"a:b\" is not valid": func(s *Spec) { s.CloudInit.User = "a:b" },
	}
	for want, change := range tests {
		s := l.spec("150")
		change(&s)
		if err := l.Start(t.Context(), s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if err := l.Stop(t.Context(), "unknown"); err != nil {
		t.Error(err)
	}
}

func testRemove(t *testing.T, l *lab) {
	l.start(t, l.spec("102"))
	had := l.addresses(t, "102")["eth0"]
	for _, id := range []string{"101", "102", "103", "104", "105"} {
		if err := l.Remove(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		l.expectOff(t, id)
		if _, err := os.Lstat(l.dir(id)); !os.IsNotExist(err) {
			t.Errorf("files of machine %s are left: %v", id, err)
		}
	}
	l.start(t, l.spec("110"))
	if got := l.addresses(t, "110")["eth0"]; got.Compare(had) > 0 {
		t.Errorf("the addresses were not released: %s, then %s", had, got)
	}
}

func TestBootOrder(t *testing.T) {
	eachKind(t, func(t *testing.T, kind Kind) {
		l := newLab(t, kind, func(o *Options) { o.BootDelay = 2 * time.Second })
		l.start(t, l.spec("101"))
		if _, err := l.Interfaces(t.Context(), "101"); !errors.Is(err, ErrAgentNotRunning) {
			t.Errorf("the agent answers at once: %v", err)
		}
		l.addresses(t, "101")
		// done, on a slow machine
		if r := l.agentRun(t, "101", "", "cloud-init", "status"); !slices.Contains(
			[]string{"status: running\n", "status: done\n"}, string(r.Stdout),
		) ||
			r.ExitCode != 0 {
			t.Errorf("cloud-init when the agent is up: %s %d", r.Stdout, r.ExitCode)
		}
		if out, status := sh(t, l.client(t, "101"), "cloud-init status --wait"); status != 0 ||
			!strings.Contains(out, "status: done") {
			t.Errorf("cloud-init at last: %s %d", out, status)
		}
	})
}

func TestVendorDataMistakesAreReported(t *testing.T) {
	kind := KindProcess
	tests := map[string]string{
		"header":   "packages: [x]\n",
		"key":      "#cloud-config\nrun_cmd: [x]\n",
		"type":     "#cloud-config\nruncmd: yes\n",
		"path":     "#cloud-config\nwrite_files: [{path: x, content: y}]\n",
		"encoding": "#cloud-config\nwrite_files: [{path: /x, content: y, encoding: gz+b64}]\n",
	}
	l := newLab(t, kind)
	i := 200
	for name, data := range tests {
		i++
		id := fmt.Sprint(i)
		s := l.spec(id)
		s.CloudInit.VendorData = []byte(data)
		l.start(t, s)
		l.addresses(t, id)
		if r := l.agentRun(t, id, "", "cloud-init", "status", "--wait", "--long"); r.ExitCode != 1 ||
			!strings.Contains(string(r.Stdout), "status: error") {
			t.Errorf("%s: %d %s", name, r.ExitCode, r.Stdout)
		}
	}
}

func TestManyAtOnce(t *testing.T) {
	eachKind(t, func(t *testing.T, kind Kind) {
		l := newLab(t, kind)
		began := time.Now()
		errs := make([]error, 10)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() { errs[i] = l.Start(t.Context(), l.spec(fmt.Sprint(20001+i))) })
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		seen := map[netip.Addr]bool{}
		for i := range errs {
			a := l.addresses(t, fmt.Sprint(20001+i))["eth0"]
			if seen[a] {
				t.Errorf("address %s was given twice", a)
			}
			seen[a] = true
		}
		t.Logf("10 machines up after %v", time.Since(began))
		began = time.Now()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		t.Logf("10 machines down after %v", time.Since(began))
		if pids := l.processes("20001"); len(pids) > 0 {
			t.Errorf("processes are left: %v", pids)
		}
		expectNoInterfaces(t, l.opt.Dir)
	})
}

func expectNoInterfaces(t *testing.T, dir string) {
	t.Helper()
	tag, _ := dirTag(dir)
	for _, name := range uplinks(tag) {
		if _, err := netlink.LinkByName(name); err == nil {
			t.Errorf("interface %s is left", name)
		}
	}
}

// doomed is a simulator that the test kills.
func doomed(kind Kind, dir string) int {
	m, err := NewManager(context.Background(), Options{Kind: kind, Dir: dir})
	if err == nil {
		err = m.Start(context.Background(), Spec{
			ID: "101", Agent: true, NICs: []NIC{{MAC: "BC:24:11:00:00:01", Bridge: "vmbr0"}},
		})
	}
	for err == nil {
		if _, err = m.Exec(context.Background(), "101", []string{"sleep", "1000"}, nil); err == nil {
			break
		}
		if errors.Is(err, ErrAgentNotRunning) {
			err = nil
			time.Sleep(5 * time.Millisecond)
		}
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("up")
	select {}
}

func TestKilledSimulatorLeavesNothing(t *testing.T) {
	eachKind(t, func(t *testing.T, kind Kind) {
		dir := filepath.Join(t.TempDir(), "hosts")
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), "HOST_TEST_DOOMED_DIR="+dir, "HOST_TEST_KIND="+string(kind))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		line := make([]byte, 300)
		n, _ := out.Read(line)
		below := descendants(cmd.Process.Pid)
		if string(line[:n]) != "up\n" || len(below) < 2 {
			t.Fatalf("the simulator did not come up: %s %v", line[:n], below)
		}
		if _, err := NewManager(t.Context(), Options{Kind: kind, Dir: dir}); err == nil {
			t.Error("two simulators share a directory")
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		poll(t, func() error {
			for _, pid := range below {
				if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil &&
					!strings.Contains(string(b), ") Z ") {
					return fmt.Errorf("process %d is left: %s", pid, b)
				}
			}
			return nil
		})
		poll(t, func() error {
			tag, _ := dirTag(dir)
			if _, err := netlink.LinkByName(tag + "m"); err == nil {
				return errors.New("an interface is left")
			}
			return nil
		})
		m, err := NewManager(t.Context(), Options{Kind: kind, Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = m.Close() }()
		if err := m.Start(t.Context(), Spec{ID: "101"}); err != nil {
			t.Errorf("start after a crash: %v", err)
		}
	})
}

func TestDetect(t *testing.T) {
	kind, reason, err := Detect(t.Context(), "auto")
	if err != nil || reason == "" {
		t.Fatalf("auto: %q %q %v", kind, reason, err)
	}
	if os.Geteuid() != 0 && kind != KindProcess {
		t.Errorf("auto chose %s without root", kind)
	}
	if _, _, err := Detect(t.Context(), "qemu"); err == nil {
		t.Error("an unknown kind was found")
	}
	if k, _, err := Detect(t.Context(), "process"); err != nil || k != KindProcess {
		t.Errorf("process: %s %v", k, err)
	}
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "hive-sim-probe-*")); len(left) > 0 {
		t.Logf("directories of trials, ours or another's: %v", left)
	}
}

func TestStaticAddress(t *testing.T) {
	eachKind(t, func(t *testing.T, kind Kind) {
		l := newLab(t, kind)
		a := l.Networks()["vmbr0"].Addr().As4()
		a[3] = 5
		s := l.spec("101")
		s.NICs[0].Address = netip.PrefixFrom(netip.AddrFrom4(a), 24)
		l.start(t, s)
		if got := l.addresses(t, "101")["eth0"]; got != netip.AddrFrom4(a) {
			t.Errorf("got %s", got)
		}
		if out, _ := sh(t, l.client(t, "101"), "hostname"); out != "node-101\n" {
			t.Errorf("hostname: %s", out)
		}
	})
}

func TestMachineWithoutAgent(t *testing.T) {
	eachKind(t, func(t *testing.T, kind Kind) {
		l := newLab(t, kind)
		s := l.spec("101")
		s.Agent = false
		l.start(t, s)
		addr := netip.AddrPortFrom(l.leases.data.Leases[s.NICs[0].MAC+" vmbr0"].Address, uint16(l.SSHPort()))
		poll(t, func() error {
			c, err := net.Dial("tcp", addr.String())
			if err == nil {
				_ = c.Close()
			}
			return err
		})
		if _, err := l.Interfaces(t.Context(), "101"); !errors.Is(err, ErrAgentNotRunning) {
			t.Errorf("interfaces: %v", err)
		}
		if err := l.Shutdown(t.Context(), "101"); err != nil {
			t.Errorf("shutdown: %v", err)
		}
	})
}

func TestShutdownAsksFirst(t *testing.T) {
	eachKind(t, func(t *testing.T, kind Kind) {
		l := newLab(t, kind)
		l.start(t, l.spec("101"))
		l.addresses(t, "101")
		if _, err := l.Exec(t.Context(), "101", []string{
			"sh", "-c",
			`trap 'echo asked > "${SIM_HOST_ROOT}/var/tmp-asked"; exit' TERM; touch "${SIM_HOST_ROOT}/var/tmp-ready"; while :; do sleep 0.02; done`,
		}, nil); err != nil {
			t.Fatal(err)
		}
		poll(t, func() error { _, err := l.ReadFile(t.Context(), "101", "/var/tmp-ready"); return err })
		if err := l.Shutdown(t.Context(), "101"); err != nil {
			t.Fatal(err)
		}
		l.expectOff(t, "101")
		if b, err := os.ReadFile(filepath.Join(l.dir("101"), "upper/var/tmp-asked")); err != nil ||
			string(b) != "asked\n" {
			t.Errorf("the process was not asked: %q, %v", b, err)
		}
	})
}

func TestPowerCutWhileBooting(t *testing.T) {
	eachKind(t, func(t *testing.T, kind Kind) {
		l := newLab(t, kind, func(o *Options) { o.BootDelay = time.Hour })
		l.start(t, l.spec("101"))
		l.start(t, l.spec("102"))
		if err := errors.Join(l.Stop(t.Context(), "101"), l.Shutdown(t.Context(), "102")); err != nil {
			t.Fatal(err)
		}
		l.expectOff(t, "101")
		l.expectOff(t, "102")
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if err := l.Start(t.Context(), l.spec("103")); !errors.Is(err, errClosed) {
			t.Errorf("start after close: %v", err)
		}
	})
}

func TestParseSudo(t *testing.T) {
	tests := []struct {
		args []string
		want sudoCommand
		fail bool
	}{
		{args: []string{"-n", "true"}, want: sudoCommand{user: "root", argv: []string{"true"}}},
		{
			args: []string{"-nEH", "-u", "hive", "--", "A=1", "cmd", "-x"},
			want: sudoCommand{user: "hive", keepEnv: true, env: []string{"A=1"}, argv: []string{"cmd", "-x"}},
		},
		{args: []string{"-uhive", "id"}, want: sudoCommand{user: "hive", argv: []string{"id"}}},
		{args: []string{"--user=hive", "--non-interactive", "id"}, want: sudoCommand{user: "hive", argv: []string{"id"}}},
		{args: []string{"-i"}, want: sudoCommand{user: "root", login: true, argv: []string{}}},
		{args: []string{"-v"}, want: sudoCommand{user: "root", quiet: true, argv: []string{}}},
		{args: []string{"/x=y"}, want: sudoCommand{user: "root", argv: []string{"/x=y"}}},
		{args: []string{"-Z", "true"}, fail: true},
		{args: []string{"--chroot", "true"}, fail: true},
		{args: []string{"-u"}, fail: true},
		{args: nil, fail: true},
	}
	for _, tt := range tests {
		got, err := parseSudo(tt.args)
		if tt.fail {
			if err == nil {
				t.Errorf("%q was taken: %+v", tt.args, got)
			}
			continue
		}
		if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(sudoCommand{})); err != nil || diff != "" {
			t.Errorf("%q: %v (-want +got):\n%s", tt.args, err, diff)
		}
	}
}

func TestTwoManagersShareNoNetwork(t *testing.T) {
	eachKind(t, func(t *testing.T, kind Kind) {
		a, b := newLab(t, kind), newLab(t, kind)
		if a.Networks()["vmbr0"] == b.Networks()["vmbr0"] {
			t.Errorf("both have %s", a.Networks()["vmbr0"])
		}
	})
}
