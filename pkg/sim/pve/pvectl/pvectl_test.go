package pvectl

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"hive-test/pkg/sim/host"
)

// TestMain lets the test binary play hive-sim: it is copied, started in the background and becomes the init of hosts.
func TestMain(m *testing.M) {
	if host.IsGuest(os.Args) {
		os.Exit(host.Main(os.Args))
	}
	if len(os.Args) > 1 && os.Args[1] == "pve" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		os.Exit(Main(ctx, os.Args[0], os.Args[2:], Streams{Out: os.Stdout, Err: os.Stderr}))
	}
	os.Exit(m.Run())
}

type result struct {
	code     int
	out, err string
}

func hiveSim(t *testing.T, args ...string) result {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out, errOut bytes.Buffer
	code := Main(t.Context(), self, args, Streams{Out: &out, Err: &errOut})
	return result{code: code, out: out.String(), err: errOut.String()}
}

// startSim starts a simulator with plain processes as hosts in a fresh directory and stops it after the test.
func startSim(t *testing.T, flags ...string) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("simulated hosts need Linux")
	}
	dir := filepath.Join(t.TempDir(), "clusters")
	t.Cleanup(func() {
		self, _ := os.Executable()
		Main(context.Background(), self, []string{"stop", "--wipe", "--clusters-dir", dir}, Streams{
			Out: t.Output(), Err: t.Output(),
		})
	})
	r := hiveSim(t, append([]string{"start", "--clusters-dir", dir, "--hosts", "process"}, flags...)...)
	if r.code != 0 {
		if strings.Contains(r.err, "do not work here") {
			t.Skip("no simulated hosts on this machine: " + r.err)
		}
		t.Fatalf("start = %+v", r)
	}
	return dir
}

func readEnv(t *testing.T, dir string) Info {
	t.Helper()
	r := hiveSim(t, "env", "--format", "json", "--clusters-dir", dir)
	var i Info
	if err := json.Unmarshal([]byte(r.out), &i); err != nil || r.code != 0 {
		t.Fatalf("env = %+v: %v", r, err)
	}
	return i
}

func call(t *testing.T, i Info, method, path string) (int, string) {
	t.Helper()
	pem, err := os.ReadFile(i.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	tr := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true,
	}
	req, err := http.NewRequestWithContext(t.Context(), method, i.Endpoint+"/api2/json"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "PVEAPIToken="+i.Token)
	resp, err := (&http.Client{Transport: tr}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var b bytes.Buffer
	_, _ = b.ReadFrom(resp.Body)
	return resp.StatusCode, b.String()
}

func TestBackgroundLife(t *testing.T) {
	dir := startSim(t, "--hypervisors", "2", "--pve-version", "9.2")
	if r := hiveSim(t, "start", "--clusters-dir", dir); r.code != 0 || !strings.Contains(r.err, "already running") {
		t.Errorf("second start = %+v", r)
	}
	i := readEnv(t, dir)
	if i.Schema != 1 || len(i.Hypervisors) != 2 || i.HostsKind != "process" || i.PVEVersion != "9.2" ||
		i.NodeSSHPort == 0 {
		t.Errorf("env = %+v", i)
	}
	if code, body := call(t, i, "GET", "/cluster/resources?type=vm"); code != 200 || body != `{"data":[]}` {
		t.Errorf("resources = %d %s", code, body)
	}
	for _, file := range []string{i.HiveBinary, i.SSHPrivateKey, filepath.Join(i.ProviderMirror, "registry.opentofu.org/bpg/proxmox/0.111.1",
		runtime.GOOS+"_"+runtime.GOARCH, "terraform-provider-proxmox_v0.111.1")} {
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
	}
	if filepath.Base(i.HiveBinary) != "hive" {
		t.Errorf("hive is at %s", i.HiveBinary)
	}
	shell := hiveSim(t, "env", "--clusters-dir", dir)
	for _, want := range []string{
		"export PROXMOX_VE_ENDPOINT=" + i.Endpoint, "export PROXMOX_VE_API_TOKEN='" + i.Token + "'",
		"export HIVE_SIM_CA=" + i.CAFile,
	} {
		if !strings.Contains(shell.out, want) {
			t.Errorf("exports lack %s:\n%s", want, shell.out)
		}
	}
	if r := hiveSim(t, "status", "--clusters-dir", dir); r.code != 0 || !strings.HasPrefix(r.out, "running  pid ") ||
		strings.Contains(r.out, i.Token) {
		t.Errorf("status = %+v", r)
	}
	if r := hiveSim(t, "stop", "--clusters-dir", dir); r.code != 0 {
		t.Errorf("stop = %+v", r)
	}
	if r := hiveSim(t, "env", "--clusters-dir", dir); r.code != 1 ||
		!strings.Contains(r.err, "hive-sim pve start --clusters-dir") {
		t.Errorf("env after stop = %+v", r)
	}
	waitGone(t, i.PID)
	if r := hiveSim(t, "stop", "--wipe", "--clusters-dir", dir); r.code != 0 {
		t.Errorf("stop --wipe = %+v", r)
	}
	if left, err := os.ReadDir(filepath.Join(dir, ".sim")); err != nil || len(left) != 1 || left[0].Name() != "id" {
		t.Errorf("wiped, there is still %v, %v", left, err)
	}
	if r := hiveSim(t, "start", "--id", i.ID, "--clusters-dir", dir); r.code != 0 {
		t.Errorf("started by its id = %+v", r)
	}
	if again := readEnv(t, dir); again.ID != i.ID || again.ID == "" || again.Token == i.Token {
		t.Errorf("id %q, was %q; token %q, was %q", again.ID, i.ID, again.Token, i.Token)
	}
}

// A simulator that is asked for by its id is not made where there is another, or none.
func TestOnlyTheSimulatorThatIsMeant(t *testing.T) {
	dir := t.TempDir()
	for _, id := range []string{"any", "0b6ad1a2"} {
		if r := hiveSim(t, "start", "--id", id, "--clusters-dir", dir); r.code != 3 ||
			!strings.Contains(r.err, "another simulator") {
			t.Errorf("start --id %s = %+v", id, r)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("refusing has made %v, %v", left, err)
	}
	dir = startSim(t)
	for id, code := range map[string]int{"any": 0, readEnv(t, dir).ID: 0, "0b6ad1a2": 3} {
		if r := hiveSim(t, "start", "--id", id, "--clusters-dir", dir); r.code != code {
			t.Errorf("start --id %s = %+v, want code %d", id, r, code)
		}
	}
}

// A copy of a clusters directory is not where its simulator's VMs are, however it is started; a directory that was
// moved, or put back, is.
func TestCopiesAreNotTheSimulator(t *testing.T) {
	root := t.TempDir()
	at := func(name, id string) *options {
		return &options{clustersDir: filepath.Join(root, name), dir: filepath.Join(root, name, ".sim"), id: id}
	}
	do := func(name string, args ...string) {
		t.Helper()
		if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	check := func(o *options, want string) {
		t.Helper()
		if err := o.checkID(); want == "" && err != nil ||
			want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s by id %q: %v, want %q", o.dir, o.id, err, want)
		}
	}
	do("mkdir", "-p", at("made", "").dir)
	id, err := at("made", "").identify()
	if err != nil {
		t.Fatal(err)
	}
	do("cp", "-a", filepath.Join(root, "made"), filepath.Join(root, "copy"))
	for _, asked := range []string{id, anyID} {
		check(at("made", asked), "")
		check(at("copy", asked), "another simulator: "+at("copy", "").dir+" is a copy of "+at("made", "").dir)
	}
	check(
		at("copy", ""),
		"is a copy of another simulator, "+at("made", "").dir+": remove it with hive-sim pve stop --wipe --clusters-dir "+at("copy", "").clustersDir,
	)
	do("mv", filepath.Join(root, "made"), filepath.Join(root, "moved"))
	check(at("moved", id), "")
	check(at("copy", id), "is a copy of")
	do("mv", filepath.Join(root, "copy"), filepath.Join(root, "made")) // it was the backup
	check(at("made", id), "")
	if err := at("moved", "").removeState(); err != nil {
		t.Fatal(err)
	}
	if again, err := at("moved", "").identify(); err != nil || again != id {
		t.Errorf("wiped, it is %q, %v, want %q", again, err, id)
	}
	do("cp", "-a", filepath.Join(root, "moved"), filepath.Join(root, "copy"))
	if err := at("copy", "").removeState(); err != nil {
		t.Fatal(err)
	}
	check(at("copy", id), "has none, asked for "+id)
	check(at("copy", ""), "")
}

func TestCrashIsHealed(t *testing.T) {
	dir := startSim(t)
	first := readEnv(t, dir)
	if err := syscall.Kill(first.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waitNotRunning(t, dir)
	if r := hiveSim(t, "start", "--clusters-dir", dir, "--hosts", "process"); r.code != 0 {
		t.Fatalf("start after a crash = %+v", r)
	}
	second := readEnv(t, dir)
	if second.PID == first.PID || second.Endpoint != first.Endpoint || second.Token != first.Token {
		t.Errorf("after a crash %+v, before %+v", second, first)
	}
}

func TestEndsWhenIdle(t *testing.T) {
	dir := startSim(t, "--idle", "150ms")
	waitNotRunning(t, dir)
}

func waitNotRunning(t *testing.T, dir string) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for time.Now().Before(deadline) {
		if r := hiveSim(t, "status", "--clusters-dir", dir); r.code == 1 {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Error("still running")
}

func TestEndsWithItsDirectory(t *testing.T) {
	dir := startSim(t)
	i := readEnv(t, dir)
	for range 100 { // what the simulator writes meanwhile is in the way of a removal
		if err := os.RemoveAll(dir); err == nil {
			waitGone(t, i.PID)
			return
		}
	}
	t.Fatalf("%s cannot be removed", dir)
}

// waitGone waits until a process has ended. Its zombie counts as ended: it holds nothing.
func waitGone(t *testing.T, pid int) {
	t.Helper()
	for range 500 {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(b), ") Z ") {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("process %d does not end", pid)
}

func TestUsage(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none.json")
	for _, args := range [][]string{
		nil,
		{"bogus"},
		{"start", "--bogus"},
		{"start", "now"},
		{"start", "--hosts", "docker"},
		{"start", "--pve-version", "7"},
		{"start", "--hypervisors", "0"},
		{"env", "--format", "xml"},
		{"start", "--faults", missing},
	} {
		if r := hiveSim(t, args...); r.code != 2 || r.err == "" || r.out != "" {
			t.Errorf("%q = %+v, want 2", args, r)
		}
	}
	if r := hiveSim(t, "start", "-h"); r.code != 0 {
		t.Errorf("-h = %+v", r)
	}
}
