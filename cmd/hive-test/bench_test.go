package main_test

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/progress"
	"hive-test/pkg/remote"
)

// These benchmarks compare what hive-test costs with something measured in the same run, on the same machine: ratios,
// not limits. They never fail on time. What they print is for people; `make bench` runs them.

// BenchmarkFull tells how much of a whole life is hive-test's own, for 3 and for 10 nodes that boot at once, on a
// Proxmox VE whose tasks take no time.
//
// Own is the wall time less: the steps of tofu; the wait for addresses; the steps in which hive forms a cluster (stop,
// init, join, start, health), but for the SSH overhead of their scripts; and the nodes' part of cloud-init, install and
// smoke. The nodes share the processors with hive-test here: of the time in which no processor idled, theirs is what
// they computed (SSH servers, disks, shells, hive's answers) against what the process hive-test computed. Everything
// else is own: uploading, idle waiting, reports, calls to Proxmox VE, and whatever else ran on this machine meanwhile.
func BenchmarkFull(b *testing.B) {
	e := newBench(b, "--task-duration", "0s")
	rounds := map[int]sshRound{}
	for _, n := range []int{3, 10} {
		rounds[n] = e.measureSSH(n)
	}
	spent := map[int][]account{}
	for b.Loop() {
		for range 4 {
			for _, n := range []int{3, 10} {
				spent[n] = append(spent[n], e.full(n, rounds[n]))
			}
		}
	}
	for _, n := range []int{3, 10} {
		b.Logf("full, %2d nodes, medians of %d: %s; empty script on all nodes %s, %s of it own", n, len(spent[n]), medianAccount(spent[n]),
			rounds[n].wall.Round(time.Millisecond), rounds[n].own.Round(time.Millisecond))
	}
	three, ten := medianAccount(spent[3]), medianAccount(spent[10])
	b.ReportMetric(three.own.Seconds(), "own3-s")
	b.ReportMetric(ten.own.Seconds(), "own10-s")
	b.ReportMetric(ratio(ten.own, three.own), "own10/own3")
	b.ReportMetric(ratio(ten.total, three.total), "total10/total3")
	b.Logf("own, 3 nodes: %.2f s (wanted: under 1 s); own(10)/own(3): %.2f (wanted: under 1.5); total(10)/total(3): %.2f",
		three.own.Seconds(), ratio(ten.own, three.own), ratio(ten.total, three.total))
}

// BenchmarkSecondUp compares up of an unchanged cluster with tofu's plan alone, in the same directory and environment.
func BenchmarkSecondUp(b *testing.B) {
	e := newBench(b)
	e.hiveTest("up", "same", "--sim", "--node-count=3")
	defer e.hiveTest("down", "same")
	tofu := e.tofuIn(e.path("same", "tofu"))
	plan := func() *exec.Cmd {
		return tofu("plan", "-detailed-exitcode", "-parallelism=10", "-var-file=../terraform.tfvars.json")
	}
	var ups, plans []time.Duration
	for b.Loop() {
		for range 7 {
			ups = append(ups, e.hiveTest("up", "same", "--sim"))
			plans = append(plans, e.timed(plan()))
		}
	}
	up, alone := median(ups), median(plans)
	b.ReportMetric(ratio(up, alone), "up/plan")
	b.Logf(
		"second up of 3 nodes: %s; tofu plan alone: %s; ratio %.2f (wanted: under 1.3)", up.Round(time.Millisecond),
		alone.Round(time.Millisecond), ratio(up, alone),
	)
}

// BenchmarkUp10 compares up of ten nodes with what a person would run instead: tofu's init and apply in a fresh
// directory, of the module and the variables that up has written, with its environment and parallelism. Tasks of the
// simulator take 1.5 s and VMs boot at once, as apply waits for no boot. Both sides begin without an initialised
// directory and init from the same mirror, so init counts on both. Only up claims ids, checks what could fail, looks
// whether the VMs are ours, and reads addresses and host keys. The nodes have other names each time, as Proxmox VE
// deletes snippets in its own time.
func BenchmarkUp10(b *testing.B) {
	e := newBench(b, "--task-duration", "1500ms")
	e.hiveTest("up", "warm", "--sim", "--node-count=1")
	e.hiveTest("down", "warm")
	var ups, inits, applies, alone []time.Duration
	for b.Loop() {
		for round := range 3 {
			name := fmt.Sprintf("up%d", round)
			ups = append(ups, e.hiveTest("up", name, "--sim", "--node-count=10"))
			tofu := e.tofuIn(e.copyModule(name, fmt.Sprintf("plain%d", round)))
			e.hiveTest("down", name)
			init := e.timed(tofu("init", "-backend-config=path=terraform.tfstate"))
			apply := e.timed(tofu("apply", "-auto-approve", "-parallelism=10", "-var-file=terraform.tfvars.json"))
			e.timed(tofu("destroy", "-auto-approve", "-parallelism=10", "-var-file=terraform.tfvars.json"))
			inits, applies, alone = append(inits, init), append(applies, apply), append(alone, init+apply)
		}
	}
	up, plain := median(ups), median(alone)
	b.ReportMetric(ratio(up, plain), "up/apply")
	b.Logf("up of 10 nodes, tasks of 1.5 s: %s; tofu init and apply: %s (init %s, apply %s); ratio %.3f (wanted: under 1.1)", up.Round(time.Millisecond),
		plain.Round(time.Millisecond), median(inits).Round(time.Millisecond), median(applies).Round(time.Millisecond), ratio(up, plain))
}

// BenchmarkExec20 compares exec of true on twenty simulated hosts with clush, parallel-ssh, ansible -m raw and a loop
// of ssh. All make new connections to the same servers, with the same key, the same known hosts and twenty at a time.
func BenchmarkExec20(b *testing.B) {
	e := newBench(b)
	e.compareExec(e.lab("lab", "left", "right"), nil, 7, 0.3)
}

// BenchmarkStart is the time that `hive-test version` takes, with that of a program that does nothing beside it.
func BenchmarkStart(b *testing.B) {
	version := filepath.Join(os.Getenv("HIVE_TEST_BIN_DIR"), "hive-test")
	var ours, nothing []time.Duration
	for b.Loop() {
		for range 20 {
			ours = append(ours, timed(b, exec.Command(version, "version")))
			nothing = append(nothing, timed(b, exec.Command("true")))
		}
	}
	b.ReportMetric(median(ours).Seconds()*1000, "version-ms")
	b.Logf("hive-test version: median of %d %s (wanted: under 50ms), slowest %s; the program true: %s", len(ours),
		median(ours).Round(100*time.Microsecond), slices.Max(ours).Round(100*time.Microsecond), median(nothing).Round(100*time.Microsecond))
}

// bench is a clusters directory with a running simulator whose VMs boot at once.
type bench struct {
	b         *testing.B
	dir, tofu string
	env       []string
	sim       benchSim
}

// benchSim is what the simulator says of itself beyond simEnv.
type benchSim struct {
	simEnv
	PID       int    `json:"pid"`
	HostsKind string `json:"hosts_kind"`
}

// newBench starts a simulator, with further flags for its start.
func newBench(b *testing.B, flags ...string) *bench {
	b.Helper()
	tofu := first(tofus())
	if tofu == "" {
		b.Skip("neither tofu nor terraform is there: run `make tofu`")
	}
	e := newPlainBench(b)
	e.tofu = tofu
	e.env = append(e.env, "HIVE_TEST_TOFU_BIN="+tofu)
	sim := e.program("hive-sim")
	e.timed(e.command(
		sim, append([]string{"pve", "start", "--clusters-dir", e.clusters(), "--boot-delay", "0"}, flags...)...,
	))
	b.Cleanup(func() {
		if out, err := e.command(
			sim, "pve", "stop", "--clusters-dir", e.clusters(), "--wipe",
		).CombinedOutput(); err != nil {
			b.Errorf("stopping the simulator: %v: %s", err, out)
		}
	})
	raw, err := e.command(sim, "pve", "env", "--clusters-dir", e.clusters(), "--format", "json").Output()
	e.must(err)
	e.must(json.Unmarshal(raw, &e.sim))
	return e
}

// newPlainBench is a clusters directory without a simulator.
func newPlainBench(b *testing.B) *bench {
	b.Helper()
	e := &bench{b: b, dir: b.TempDir()}
	for _, dir := range []string{e.clusters(), filepath.Join(e.dir, "home")} {
		e.must(os.MkdirAll(dir, 0o700))
	}
	e.env = append(os.Environ(), "HOME="+filepath.Join(e.dir, "home"), "XDG_CACHE_HOME="+filepath.Join(e.dir, "cache"), "XDG_CONFIG_HOME=",
		"HIVE_TEST_CLUSTERS_DIR="+e.clusters())
	return e
}

func (e *bench) must(err error) {
	e.b.Helper()
	if err != nil {
		e.b.Fatal(err)
	}
}

func (e *bench) clusters() string { return filepath.Join(e.dir, "clusters") }
func (e *bench) program(name string) string {
	return filepath.Join(os.Getenv("HIVE_TEST_BIN_DIR"), name)
}

func (e *bench) path(elem ...string) string {
	return filepath.Join(append([]string{e.clusters()}, elem...)...)
}

func (e *bench) read(elem ...string) []byte {
	raw, err := os.ReadFile(e.path(elem...))
	e.must(err)
	return raw
}

// command runs in an empty directory of its own, so that no configuration file of the caller's counts.
func (e *bench) command(program string, args ...string) *exec.Cmd {
	command := exec.Command(program, args...)
	command.Env, command.Dir = e.env, e.dir
	return command
}

func (e *bench) timed(command *exec.Cmd) time.Duration { e.b.Helper(); return timed(e.b, command) }

func (e *bench) hiveTest(args ...string) time.Duration {
	e.b.Helper()
	return e.timed(e.command(e.program("hive-test"), args...))
}

// timed runs a command to its end, which must be a good one.
func timed(b *testing.B, command *exec.Cmd) time.Duration {
	b.Helper()
	begun := time.Now()
	out, err := command.CombinedOutput()
	took := time.Since(begun)
	if err != nil {
		b.Fatalf("%s: %v\n%s", strings.Join(command.Args, " "), err, out)
	}
	return took
}

// account is where the time of one full went.
type account struct {
	total, tofu, hive, hosts, own time.Duration
	install, installOwn           time.Duration // the step install, and what of it is in own
	// of the process hive-test alone: it does not depend on what else runs here
	cpu time.Duration
}

func (a account) String() string {
	s := time.Duration.Seconds
	return fmt.Sprintf("total %.2f s = tofu %.2f + hive %.2f + hosts %.2f + own %.2f (CPU of hive-test %.2f s; install took %.2f s, %.2f of it own)",
		s(a.total), s(a.tofu), s(a.hive), s(a.hosts), s(a.own), s(a.cpu), s(a.install), s(a.installOwn))
}

func medianAccount(all []account) account {
	by := func(field func(account) time.Duration) time.Duration {
		values := make([]time.Duration, len(all))
		for i, a := range all {
			values[i] = field(a)
		}
		return median(values)
	}
	return account{
		total:      by(func(a account) time.Duration { return a.total }),
		tofu:       by(func(a account) time.Duration { return a.tofu }),
		hive:       by(func(a account) time.Duration { return a.hive }),
		hosts:      by(func(a account) time.Duration { return a.hosts }),
		own:        by(func(a account) time.Duration { return a.own }),
		install:    by(func(a account) time.Duration { return a.install }),
		installOwn: by(func(a account) time.Duration { return a.installOwn }),
		cpu:        by(func(a account) time.Duration { return a.cpu }),
	}
}

// rounds are how many scripts one after the other each of hive's steps runs on its nodes.
func rounds(step string) int {
	return map[string]int{"stop": 1, "init": 2, "join": 2, "start": 3, "health": 1}[step]
}

// full makes, forms, tests and destroys a cluster of n nodes, and tells where the time went.
func (e *bench) full(n int, round sshRound) account {
	e.b.Helper()
	name := fmt.Sprintf("full%d", n)
	command := e.command(e.program("hive-test"), "full", name, "--sim", "--node-count="+strconv.Itoa(n))
	var said strings.Builder
	command.Stdout, command.Stderr = &said, &said
	begun := time.Now()
	e.must(command.Start())
	watched := watch(command.Process.Pid, e.sim.PID)
	err := command.Wait()
	a := account{total: time.Since(begun)}
	watched.end()
	if err != nil {
		e.b.Fatalf("full of %d nodes: %v\n%s", n, err, said.String())
	}
	a.cpu = watched.last().program
	for _, s := range e.steps(name) {
		length := s.end.Sub(s.begin)
		switch {
		case strings.HasPrefix(s.name, "tofu "):
			a.tofu += length
		case s.name == "find the addresses":
			a.hosts += length
		case s.name == "cloud-init", s.name == "install", s.name == "smoke":
			theirs := watched.hosts(s.begin, s.end)
			a.hosts += theirs
			if s.name == "install" {
				a.install, a.installOwn = length, length-theirs
			}
		case rounds(s.name) > 0:
			a.hive += max(0, length-time.Duration(rounds(s.name))*round.own)
		}
	}
	a.own = a.total - a.tofu - a.hive - a.hosts
	return a
}

type span struct {
	name       string
	begin, end time.Time
}

// steps reads the steps of the last run of a cluster.
func (e *bench) steps(name string) []span {
	e.b.Helper()
	file, err := os.Open(e.path(".runs", name, "latest", "events.jsonl"))
	e.must(err)
	defer func() { _ = file.Close() }()
	var steps []span
	begun := map[string]time.Time{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event progress.Event
		e.must(json.Unmarshal(lines.Bytes(), &event))
		switch event.Kind {
		case progress.StepStart:
			begun[event.Step] = event.Time
		case progress.StepEnd:
			steps = append(steps, span{event.Step, begun[event.Step], event.Time})
		}
	}
	e.must(lines.Err())
	return steps
}

// sshRound is what an empty script on all nodes of a cluster takes, over connections that are there.
type sshRound struct {
	wall time.Duration
	own  time.Duration // without the hosts' part
}

// measureSSH makes a cluster for the purpose. It also lets the first full find everything as any later one does.
func (e *bench) measureSSH(n int) sshRound {
	e.b.Helper()
	name := fmt.Sprintf("probe%d", n)
	e.hiveTest("up", name, "--sim", "--node-count="+strconv.Itoa(n))
	defer e.hiveTest("down", name)
	var inventory cluster.Inventory
	e.must(json.Unmarshal(e.read(name, "inventory.json"), &inventory))
	dialer, err := remote.NewDialer(remote.Config{
		User: inventory.SSHUser, KeyPath: inventory.SSHKeyPath, KnownHosts: e.path(name, "known_hosts"),
	})
	e.must(err)
	defer func() { _ = dialer.Close() }()
	group := dialer.Group(inventory.Nodes)
	const times = 40
	run := func() time.Duration {
		begun := time.Now()
		_, err := group.Run(e.b.Context(), remote.Command{Script: "true"})
		e.must(err)
		return time.Since(begun)
	}
	run() // connects
	var took []time.Duration
	before := look(os.Getpid(), e.sim.PID)
	for range times {
		took = append(took, run())
	}
	theirs := share(before, look(os.Getpid(), e.sim.PID))
	wall := median(took)
	return sshRound{wall: wall, own: time.Duration(float64(wall) * (1 - theirs))}
}

// tofuIn makes commands of tofu as a person would run them in a directory that up has made, or in a copy of one, with
// the environment that hive-test gives its children.
func (e *bench) tofuIn(dir string) func(verb string, args ...string) *exec.Cmd {
	e.b.Helper()
	key, err := os.ReadFile(e.sim.SSHPrivateKey)
	e.must(err)
	env := []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, "home"), "CHECKPOINT_DISABLE=1",
		"TF_CLI_CONFIG_FILE=" + filepath.Join(dir, "cli.tfrc"), "SSL_CERT_FILE=" + filepath.Join(dir, "ca-bundle.pem"),
		"PROXMOX_VE_API_TOKEN=" + e.sim.Token, "PROXMOX_VE_INSECURE=false", "PROXMOX_VE_SSH_USERNAME=" + e.sim.SSHUser,
		"PROXMOX_VE_SSH_PRIVATE_KEY=" + string(key), "PROXMOX_VE_SSH_AGENT=false",
	}
	return func(verb string, args ...string) *exec.Cmd {
		command := exec.Command(e.tofu, append([]string{verb, "-input=false", "-no-color"}, args...)...)
		command.Dir, command.Env = dir, env
		return command
	}
}

// copyModule copies the module and the variables of a cluster for another one, into a new directory, without anything
// that init or apply made.
func (e *bench) copyModule(cluster, other string) string {
	e.b.Helper()
	dir := filepath.Join(e.dir, other)
	e.must(os.MkdirAll(filepath.Join(dir, "home"), 0o700))
	modules, err := filepath.Glob(e.path(cluster, "tofu", "*.tf"))
	e.must(err)
	files := append(
		modules, e.path(cluster, "tofu", "cli.tfrc"), e.path(cluster, "tofu", "ca-bundle.pem"),
		e.path(cluster, "terraform.tfvars.json"),
	)
	for _, file := range files {
		raw, err := os.ReadFile(file)
		e.must(err)
		raw = bytes.ReplaceAll(raw, []byte(`"`+cluster), []byte(`"`+other))
		e.must(os.WriteFile(filepath.Join(dir, filepath.Base(file)), raw, 0o600))
	}
	return dir
}

// lab is a cluster of existing hosts.
type lab struct {
	cluster, about string
	names          []string
	config         string // ssh_config, with key and known hosts
}

// lab makes simulated clusters of ten nodes with one key, and, in a clusters directory of its own, which is that of the
// commands that follow, a cluster of existing hosts of all their nodes.
func (e *bench) lab(name string, clusters ...string) lab {
	e.b.Helper()
	key := filepath.Join(e.dir, "id_lab")
	e.must(remote.GenerateKey(key))
	hosts := &strings.Builder{}
	l := lab{cluster: name, about: "the simulator's SSH server", config: filepath.Join(e.dir, "labs", name, "ssh_config")}
	for _, of := range clusters {
		e.hiveTest(
			"up", of, "--sim", "--node-count=10", "--cpu-cores=1", "--memory-mb=1024", "--ssh-private-key-path="+key,
		)
		e.b.Cleanup(func() { e.hiveTest("down", of, "--clusters-dir", e.clusters()) })
		var inventory cluster.Inventory
		e.must(json.Unmarshal(e.read(of, "inventory.json"), &inventory))
		if hosts.Len() == 0 {
			fmt.Fprintf(
				hosts, "ssh_user: %s\nssh_key_path: %s\nssh_port: %d\nnodes:\n", inventory.SSHUser, key,
				cmp.Or(inventory.Nodes[0].SSHPort, 22),
			)
		}
		for _, node := range inventory.Nodes {
			fmt.Fprintf(hosts, "  - {name: %s, management: %s, data: %s}\n", node.Name, node.Management, node.Data)
			l.names = append(l.names, node.Name)
		}
	}
	file := filepath.Join(e.dir, "hosts.yaml")
	e.must(os.WriteFile(file, []byte(hosts.String()), 0o600))
	e.env = append(e.env, "HIVE_TEST_CLUSTERS_DIR="+filepath.Join(e.dir, "labs"))
	e.hiveTest("up", name, "--hosts-file", file)
	return l
}

// rival is a program that does the same; command is nil where it is not installed.
type rival struct {
	name    string
	command func() *exec.Cmd
	took    []time.Duration
	servers time.Duration // what the servers have computed for it, all runs together
}

// compareExec measures exec of true on all hosts of a lab against each rival, one after the other in each of the
// rounds, and returns the median of the best of them. Servers may be nil: then their part is not measured.
func (e *bench) compareExec(lab lab, servers *sshds, rounds int, wanted float64) (best time.Duration) {
	e.b.Helper()
	own := func() *exec.Cmd { return e.command(e.program("hive-test"), "exec", lab.cluster, "--", "true") }
	tools := []rival{{name: "exec", command: own}, lab.clush(e), lab.parallelSSH(e), lab.ansible(e), lab.loop(e)}
	e.race(tools, servers, rounds)
	return e.report("exec of true", lab, tools, servers != nil, wanted)
}

// race runs each of the tools that are there so many times, in turn.
func (e *bench) race(tools []rival, servers *sshds, rounds int) {
	e.b.Helper()
	for range rounds {
		for i := range tools {
			tool := &tools[i]
			if tool.command == nil {
				continue
			}
			var before time.Duration
			if servers != nil {
				before = servers.cpu()
			}
			tool.took = append(tool.took, e.timed(tool.command()))
			if servers != nil {
				tool.servers += servers.cpu() - before
			}
		}
	}
}

// report prints the first tool's time and what it is of each other one's, and returns the best of those.
func (e *bench) report(what string, lab lab, tools []rival, servers bool, wanted float64) (best time.Duration) {
	e.b.Helper()
	line := func(tool rival) string {
		took := median(tool.took)
		text := fmt.Sprintf("%s: %s", tool.name, took.Round(time.Millisecond))
		if !servers {
			return text
		}
		each := tool.servers / time.Duration(len(tool.took))
		return fmt.Sprintf(
			"%s, %.0f%% of the processors' time in it the servers' (%s)", text, 100*ratio(each, took*processors()),
			each.Round(time.Millisecond),
		)
	}
	e.b.Logf("%s on %d hosts with %s; %s", what, len(lab.names), lab.about, line(tools[0]))
	var name string
	for _, tool := range tools[1:] {
		if tool.command == nil {
			e.b.Logf("%s is not installed here: not compared", tool.name)
			continue
		}
		e.b.Logf("%s; ratio %.3f", line(tool), ratio(median(tools[0].took), median(tool.took)))
		if took := median(tool.took); best == 0 || took < best {
			best, name = took, tool.name
		}
	}
	if best == 0 {
		e.b.Logf("nothing to compare with is installed")
		return 0
	}
	e.b.ReportMetric(ratio(median(tools[0].took), best), strings.ReplaceAll(what, " ", "-")+"-"+lab.cluster+"/best")
	e.b.Logf("ratio to the best, %s: %.3f (wanted: under %g)", name, ratio(median(tools[0].took), best), wanted)
	return best
}

// installed is a rival that exists where its program does.
func installed(name, program string, command func() *exec.Cmd) rival {
	if _, err := exec.LookPath(program); err != nil {
		return rival{name: name}
	}
	return rival{name: name, command: command}
}

func (l lab) clush(e *bench) rival {
	return installed("clush", "clush", func() *exec.Cmd {
		return e.command("clush", "-S", "-f", "20", "-o", "-F "+l.config, "-w", strings.Join(l.names, ","), "true")
	})
}

func (l lab) parallelSSH(e *bench) rival {
	hosts := l.list(e)
	return installed("parallel-ssh", "parallel-ssh", func() *exec.Cmd {
		return e.command("parallel-ssh", "-h", hosts, "-p", "20", "-x", "-F "+l.config, "true")
	})
}

// loop is what a person would write into a shell.
func (l lab) loop(e *bench) rival {
	return installed("ssh loop", "ssh", func() *exec.Cmd {
		script := `config=$1; shift; for host; do ssh -F "$config" "$host" true & pids="$pids $!"; done; for pid in $pids; do wait $pid || exit; done`
		return e.command("bash", append([]string{"-c", script, "bash", l.config}, l.names...)...)
	})
}

// list is a file with the names of the hosts.
func (l lab) list(e *bench) string {
	e.b.Helper()
	file := filepath.Join(e.dir, l.cluster+".list")
	e.must(os.WriteFile(file, []byte(strings.Join(l.names, "\n")+"\n"), 0o600))
	return file
}

func (l lab) ansible(e *bench) rival {
	inventory, config := l.list(e), filepath.Join(e.dir, "ansible.cfg")
	e.must(os.WriteFile(config, nil, 0o600))
	return installed("ansible", "ansible", func() *exec.Cmd {
		command := e.command("ansible", "all", "-i", inventory, "-f", "20", "-m", "raw", "-a", "true")
		// No connection outlives a run, as none does of the others'.
		command.Env = append(command.Env, "ANSIBLE_CONFIG="+config, "ANSIBLE_HOST_KEY_CHECKING=True", "ANSIBLE_SSH_USETTY=False",
			"ANSIBLE_LOCALHOST_WARNING=False", "ANSIBLE_SSH_ARGS=-o ControlMaster=no -F "+l.config, "LC_ALL=C.UTF-8")
		return command
	})
}

func ratio(a, b time.Duration) float64 { return a.Seconds() / b.Seconds() }

func median(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}
