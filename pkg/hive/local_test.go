package hive

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"hive-test/pkg/cluster"
	"hive-test/pkg/progress"
	"hive-test/pkg/remote"
	simhive "hive-test/pkg/sim/hive"
)

// TestMain lets the test binary be the simulated hive that is installed on local hosts.
func TestMain(m *testing.M) {
	if name := filepath.Base(os.Args[0]); name == "hive" || name == "hive.uploaded" {
		os.Exit(simhive.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	goleak.VerifyTestMain(m)
}

// localHost is a node on this machine: a home directory and an address. It runs what a remote host would run.
type localHost struct {
	t         *testing.T
	node      cluster.Node
	home      string
	downloads atomic.Int32
	// how often SSH is refused before the node is ready
	unready int
	port    string                                                            // of its SSH server, if it has one
	dial    func(ctx context.Context, network, addr string) (net.Conn, error) // nil: as it is
}

func (h *localHost) Name() string       { return h.node.Name }
func (h *localHost) Node() cluster.Node { return h.node }

func (h *localHost) Run(ctx context.Context, c remote.Command) (remote.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	exports, err := remote.Exports(c.Env)
	if err != nil {
		return remote.Result{}, err
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "bash", append([]string{"-c", `eval "$(cat)"`, c.Name}, c.Args...)...)
	cmd.Env = []string{
		"HOME=" + h.home, "HIVE_ROOT=" + filepath.Join(h.home, "root"), "GORACE=atexit_sleep_ms=0",
		"PATH=" + filepath.Join(h.home, "fake") + ":" + os.Getenv("PATH"),
		"TMPDIR=" + filepath.Join(h.home, "tmp"), // hive writes pid files there
	}
	if h.port != "" {
		cmd.Env = append(cmd.Env, "SSH_CONNECTION=127.0.0.1 1 127.0.0.1 "+h.port, "USER=admin")
	}
	cmd.Dir = h.home
	cmd.Stdin = strings.NewReader("{\n" + exports + c.Script + "\n}\n")
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	err = cmd.Run()
	result := remote.Result{
		Node: h.Name(), ExitCode: cmd.ProcessState.ExitCode(), Stdout: stdout.Bytes(), Stderr: stderr.Bytes(),
	}
	if c.OnLine != nil {
		for line := range strings.Lines(stdout.String()) {
			c.OnLine("stdout", strings.TrimRight(line, "\n"))
		}
	}
	if ctx.Err() != nil {
		return result, &remote.UnfinishedError{Node: h.Name(), Command: c.Name, Result: result, Cause: ctx.Err()}
	}
	if _, ok := errors.AsType[*exec.ExitError](err); ok {
		return result, &remote.ExitError{Node: h.Name(), Command: c.Name, Result: result}
	}
	return result, err
}

func (h *localHost) Upload(_ context.Context, localPath, remotePath string, mode fs.FileMode) (bool, error) {
	target := filepath.Join(h.home, strings.TrimPrefix(remotePath, "~/"))
	if a, err := os.Stat(target); err == nil {
		if b, err := os.Stat(localPath); err == nil && os.SameFile(a, b) {
			return false, nil
		}
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return false, err
	}
	os.Remove(target)
	if err := os.Link(localPath, target); err == nil {
		return true, nil
	}
	return true, copyFile(localPath, target, mode)
}

func (h *localHost) Download(_ context.Context, remotePath, localPath string) error {
	h.downloads.Add(1)
	return copyFile(filepath.Join(h.home, strings.TrimPrefix(remotePath, "~/")), localPath, 0o600)
}

func copyFile(from, to string, mode fs.FileMode) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Close())
}

func (h *localHost) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	if h.dial != nil {
		return h.dial(ctx, network, addr)
	}
	return (&net.Dialer{}).DialContext(ctx, network, addr)
}

func (h *localHost) WaitReady(ctx context.Context, report func(error)) error {
	for ; h.unready > 0; h.unready-- {
		report(errors.New("connection refused"))
	}
	return ctx.Err()
}

// settings writes the simulated hive's settings for this node.
func (h *localHost) settings(s map[string]any) {
	h.t.Helper()
	data, err := json.Marshal(s)
	if err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(h.home, ".hive-sim.json"), data, 0o600); err != nil {
		h.t.Fatal(err)
	}
}

func (h *localHost) read(name string) string {
	h.t.Helper()
	text, err := os.ReadFile(filepath.Join(h.home, name))
	if err != nil {
		h.t.Fatal(err)
	}
	return string(text)
}

func (h *localHost) write(name, text string) {
	h.t.Helper()
	path := filepath.Join(h.home, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// local is a cluster of local hosts with everything that it reported.
type local struct {
	*Cluster
	hosts  []*localHost
	events *progress.Memory
}

// simulatedHive is the program that is installed: the one that was built beside these tests, or else the test binary,
// which starts more slowly.
func simulatedHive(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("HIVE_TEST_BIN_DIR"); dir != "" {
		return filepath.Join(dir, "hive-sim-hive")
	}
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return executable
}

// newLocal makes n hosts. Their hive is stopped at the end of the test.
func newLocal(t *testing.T, n int, options Options) *local {
	t.Helper()
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("node scripts need setsid, which this machine does not have")
	}
	sum := fnv.New32a()
	sum.Write([]byte(t.Name())) // tests run at the same time, each on addresses of its own
	network := [2]byte{byte(130 + os.Getpid()%60), byte(sum.Sum32() % 251)}
	l := &local{events: &progress.Memory{}}
	var hosts []Host
	for i := range n {
		ip := netip.AddrFrom4([4]byte{127, network[0], network[1], byte(i + 1)})
		home := t.TempDir()
		if err := os.Mkdir(filepath.Join(home, "tmp"), 0o700); err != nil {
			t.Fatal(err)
		}
		host := &localHost{t: t, home: home, node: cluster.Node{
			Name: fmt.Sprintf("ci-%d", i+1), Index: i + 1, Management: ip,
		}}
		l.hosts = append(l.hosts, host)
		hosts = append(hosts, host)
	}
	probe, err := net.Listen("tcp", l.hosts[0].node.Management.String()+":0")
	if err != nil {
		t.Skipf("this system has no address %s on its loopback interface: %v", l.hosts[0].node.Management, err)
	}
	probe.Close()
	options.Binary = simulatedHive(t)
	options.SkipCloudInit = true
	l.Cluster = NewWithHosts("ci", hosts, options, l.events)
	t.Cleanup(func() {
		l.Cluster.options.ScriptsDir = ""
		if err := l.Stop(context.Background()); err != nil {
			t.Errorf("stopping hive after the test: %v", err)
		}
	})
	return l
}

// outcome is how the step ended last.
func (l *local) outcome(step string) progress.Status {
	var status progress.Status
	for _, e := range l.events.Events() {
		if e.Kind == progress.StepEnd && e.Step == step {
			status = e.Status
		}
	}
	return status
}

// soak leaves out a test that takes minutes, unless all is to be tried.
func soak(t *testing.T) {
	t.Helper()
	if os.Getenv("HIVE_TEST_SOAK") == "" {
		t.Skip("takes minutes: make soak runs it")
	}
}
