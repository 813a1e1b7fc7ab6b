package main_test

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"hive-test/pkg/progress"
)

// testbed is a simulated Proxmox VE that holds other people's VMs, and two machines that use it: the one where its
// simulator is, and another that has nothing but credentials.
type testbed struct {
	*testEnv
	others    map[int]string
	still     baseline
	elsewhere string // the other machine's home
}

// baseline is what is there when no cluster is.
type baseline struct {
	pools, volumes string
	hosts, mounts  int
}

// settle is how long what was ended may take to be gone.
const settle = 15 * time.Second

func newArena(t testing.TB, flags ...string) *testbed {
	t.Helper()
	a := &testbed{testEnv: startSimulator(t, append([]string{"--task-duration", "20ms", "--boot-delay", "0s", "--auth-delay", "0s"}, flags...)...), others: map[int]string{}}
	a.elsewhere = filepath.Join(a.dir, "elsewhere")
	if err := os.MkdirAll(a.elsewhere, 0o700); err != nil {
		t.Fatal(err)
	}
	config, err := yaml.Marshal(map[string]any{
		"tofu_bin": a.tofu, "provider_mirror": cmp.Or(os.Getenv("HIVE_TEST_PROVIDER_MIRROR"), a.sim.ProviderMirror), "binary": a.sim.HiveBinary, "node_ssh_port": a.sim.NodeSSHPort,
		"proxmox": map[string]any{
			"endpoint": a.sim.Endpoint, "ca_file": a.sim.CAFile, "hypervisors": a.sim.Hypervisors,
			"ssh_username": a.sim.SSHUser, "ssh_private_key_path": a.sim.SSHPrivateKey,
		},
	})
	if err == nil {
		err = os.WriteFile(filepath.Join(a.elsewhere, "hive-test.yaml"), config, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	a.vm(101, "name=crash-1", "tags=hive-test;crash", "memory=512", "virtio0=local-lvm:1")
	a.vm(20001, "name=web", "memory=512", "description=Managed by Terraform - cluster: crash - by hand")
	for _, id := range []int{101, 20001} {
		a.others[id] = a.configOf(id)
	}
	a.still = a.look()
	return a
}

func (a *testbed) configOf(id int) string {
	a.Helper()
	return string(a.must("GET", fmt.Sprintf("/nodes/pve1/qemu/%d/config", id)))
}

// here is a command on the machine where the simulator is.
func (a *testbed) here(args ...string) *exec.Cmd {
	return a.command(a.dir, append(args, "--clusters-dir", a.clusters())...)
}

// there is a command on the machine that has only credentials.
func (a *testbed) there(args ...string) *exec.Cmd {
	return a.command(a.elsewhere, append(args, "--config", filepath.Join(a.elsewhere, "hive-test.yaml"), "--clusters-dir", filepath.Join(a.elsewhere, "clusters"))...)
}

func (a *testbed) command(home string, args ...string) *exec.Cmd {
	command := exec.Command(filepath.Join(a.bin, "hive-test"), args...)
	command.Dir = home
	tmp := filepath.Join(home, "tmp")
	if err := os.MkdirAll(tmp, 0o700); err != nil {
		a.Fatal(err)
	}
	command.Env = append(plainEnviron(), "GOGC=", "HOME="+home, "TMPDIR="+tmp, "XDG_CACHE_HOME="+filepath.Join(home, "cache"), "CI=",
		"HIVE_TEST_TOFU_BIN="+a.tofu, "PROXMOX_VE_API_TOKEN="+a.sim.Token)
	if own := os.Getenv("HIVE_TEST_PROVIDER_MIRROR"); own != "" {
		command.Env = append(command.Env, "HIVE_TEST_PROVIDER_MIRROR="+own)
	}
	return command
}

// ended is what a command that has ended left.
type ended struct {
	code           int
	stdout, stderr string
	took           time.Duration
}

func (a *testbed) run(command *exec.Cmd) ended {
	a.Helper()
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	start := time.Now()
	err := command.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		a.Fatal(err)
	} else if exit != nil && exit.ExitCode() < 0 {
		a.Fatalf("%v: %v", command.Args, err)
	}
	return ended{command.ProcessState.ExitCode(), stdout.String(), stderr.String(), time.Since(start)}
}

// look takes stock of what clusters may leave behind.
func (a *testbed) look() baseline {
	a.Helper()
	s := baseline{pools: string(a.must("GET", "/pools")), hosts: len(descendants(a.simPID())), mounts: mountsBelow(a.dir)}
	var volumes []string
	for _, h := range a.sim.Hypervisors {
		for _, storage := range []string{"local", "local-lvm"} {
			var listed struct {
				Data []struct {
					VolID string `json:"volid"`
				} `json:"data"`
			}
			if err := json.Unmarshal(a.must("GET", fmt.Sprintf("/nodes/%v/storage/%s/content", h["name"], storage)), &listed); err != nil {
				a.Fatal(err)
			}
			for _, v := range listed.Data {
				volumes = append(volumes, fmt.Sprintf("%v %s", h["name"], v.VolID))
			}
		}
	}
	slices.Sort(volumes)
	s.volumes = strings.Join(volumes, "\n")
	return s
}

func (a *testbed) simPID() int {
	raw, err := os.ReadFile(filepath.Join(a.clusters(), ".sim", "sim.json"))
	if err != nil {
		a.Fatal(err)
	}
	var state struct {
		PID int `json:"pid"`
	}
	if err := json.Unmarshal(raw, &state); err != nil {
		a.Fatal(err)
	}
	return state.PID
}

// leaks says what of any cluster is still there, a moment allowed for what is ending, and whether other people's VMs
// are as they were.
func (a *testbed) leaks() []string {
	a.Helper()
	var found []string
	for end, wait := time.Now().Add(settle), 10*time.Millisecond; ; wait = min(2*wait, 500*time.Millisecond) {
		found = a.leaksNow()
		if len(found) == 0 || time.Now().After(end) {
			return found
		}
		time.Sleep(wait)
	}
}

func (a *testbed) leaksNow() []string {
	a.Helper()
	var found []string
	var listed struct {
		Data []struct {
			VMID int    `json:"vmid"`
			Name string `json:"name"`
		} `json:"data"`
	}
	if err := json.Unmarshal(a.must("GET", "/cluster/resources?type=vm"), &listed); err != nil {
		a.Fatal(err)
	}
	present := map[int]bool{}
	for _, vm := range listed.Data {
		present[vm.VMID] = true
		if _, theirs := a.others[vm.VMID]; !theirs {
			found = append(found, fmt.Sprintf("VM %d %s", vm.VMID, vm.Name))
		}
	}
	for id, before := range a.others {
		if !present[id] {
			found = append(found, fmt.Sprintf("other people's VM %d is gone", id))
		} else if now := a.configOf(id); now != before {
			found = append(found, fmt.Sprintf("other people's VM %d was changed: %s -> %s", id, before, now))
		}
	}
	now := a.look()
	if now.pools != a.still.pools {
		found = append(found, "pools "+now.pools)
	}
	if now.volumes != a.still.volumes {
		found = append(found, "volumes "+now.volumes)
	}
	if now.hosts > a.still.hosts {
		found = append(found, fmt.Sprintf("%d processes of simulated hosts", now.hosts-a.still.hosts))
	}
	if now.mounts > a.still.mounts {
		found = append(found, fmt.Sprintf("%d mounts", now.mounts-a.still.mounts))
	}
	for _, p := range leakedProcesses(a.dir, a.simPID()) {
		found = append(found, "process "+p)
	}
	return found
}

// descendants are the ids of all processes below one.
func descendants(root int) []int {
	children := map[int][]int{}
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		var pid, parent int
		if _, err := fmt.Sscan(entry.Name(), &pid); err != nil {
			continue
		}
		stat, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "stat"))
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		if _, err := fmt.Sscanf(rest, "%s %d", new(string), &parent); err == nil {
			children[parent] = append(children[parent], pid)
		}
	}
	var all []int
	for todo := []int{root}; len(todo) > 0; todo = todo[1:] {
		all = append(all, children[todo[0]]...)
		todo = append(todo, children[todo[0]]...)
	}
	return all
}

// leakedProcesses are the processes that have to do with a directory, by their working directory or environment, but
// for one and what it has started.
func leakedProcesses(dir string, but int) []string {
	var found []string
	known := append(descendants(but), but)
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, process := range processes {
		pid, _ := strconv.Atoi(filepath.Base(process))
		environ, err := os.ReadFile(filepath.Join(process, "environ"))
		where, _ := os.Readlink(filepath.Join(process, "cwd"))
		if err != nil || slices.Contains(known, pid) || !strings.Contains(string(environ)+where, dir+"/") {
			continue
		}
		line, _ := os.ReadFile(filepath.Join(process, "cmdline"))
		found = append(found, fmt.Sprintf("%d %s", pid, strings.ReplaceAll(string(line), "\x00", " ")))
	}
	return found
}

// mountsBelow counts the mounts that processes outside of simulated hosts see below a directory.
func mountsBelow(dir string) int {
	raw, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return 0
	}
	return strings.Count(string(raw), " "+dir+"/")
}

// liveRun is a run of hive-test that is under way, with what it tells.
type liveRun struct {
	a       *testbed
	command *exec.Cmd
	done    chan struct{} // closed when the process has ended
	heard   chan struct{} // closed when all is read that it and its children have told

	mu     sync.Mutex
	told   int
	phases map[string]time.Time // when each began
	fell   string               // the first that failed
	text   bytes.Buffer
	change chan struct{} // closed, and made anew, with each event
}

// start starts a command that tells its events on standard error.
func (a *testbed) start(command *exec.Cmd) *liveRun {
	a.Helper()
	r := &liveRun{a: a, command: command, done: make(chan struct{}), heard: make(chan struct{}), phases: map[string]time.Time{}, change: make(chan struct{})}
	r.command.Args = append(r.command.Args, "--log-format", "json", "-v")
	read, write, err := os.Pipe()
	if err != nil {
		a.Fatal(err)
	}
	r.command.Stderr = write
	if err := r.command.Start(); err != nil {
		a.Fatal(err)
	}
	_ = write.Close()
	go func() { // until the last process that has the pipe is gone, or the arena's patience
		r.read(read)
		_ = read.Close()
		close(r.heard)
	}()
	go func() {
		_ = r.command.Wait()
		close(r.done)
	}()
	return r
}

func (r *liveRun) read(from io.Reader) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		r.tell(lines.Bytes())
	}
}

func (r *liveRun) tell(line []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.text.Write(line)
	r.text.WriteByte('\n')
	var e progress.Event
	if json.Unmarshal(line, &e) != nil {
		return
	}
	switch {
	case e.Kind == progress.PhaseStart:
		r.phases[e.Phase] = e.Time
	case e.Kind == progress.PhaseEnd && (e.Status == progress.Failed || e.Status == progress.Interrupted) && r.fell == "":
		r.fell = e.Phase
	}
	if e.Kind != progress.Output {
		r.told++
		close(r.change)
		r.change = make(chan struct{})
	}
}

// until waits until something is so; false if the run ends first. It is looked at with each event, while r.mu is held.
func (r *liveRun) until(so func() bool) bool {
	for {
		r.mu.Lock()
		reached, change := so(), r.change
		r.mu.Unlock()
		if reached {
			return true
		}
		select {
		case <-r.done:
			return false
		case <-change:
		}
	}
}

func (r *liveRun) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.told
}

// log is the end of what was told.
func (r *liveRun) log() string {
	text := r.whole()
	return text[max(0, len(text)-20000):]
}

func (r *liveRun) whole() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

// failed is the first phase that failed, or nothing.
func (r *liveRun) failed() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fell
}

// wait waits for the end, however bad, and returns the exit code; -1 if a signal ended it.
func (r *liveRun) wait() int {
	select {
	case <-r.done:
	case <-time.After(3 * time.Minute):
		r.a.Errorf("a run hangs after it was ended:\n%s", r.log())
		_ = r.command.Process.Kill()
		<-r.done
	}
	select {
	case <-r.heard:
	case <-time.After(time.Second): // a child lives on
	}
	return r.command.ProcessState.ExitCode()
}
