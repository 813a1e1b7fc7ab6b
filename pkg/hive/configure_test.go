package hive

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"hive-test/pkg/progress"
)

// formations are what a cluster is formed of: era, way to install, number of nodes. All of them with HIVE_TEST_SOAK
// (`make soak`), else some in which each era and each way is met.
func formations() []formation {
	sample := []formation{
		{"pre", "binary", 1},
		{"spx", "tarball", 3},
		{"spx", "source", 1},
		{"pre", "repo", 2},
	}
	if os.Getenv("HIVE_TEST_SOAK") == "" {
		return sample
	}
	var all []formation
	for _, era := range []string{"pre", "spx"} {
		for _, way := range []string{"binary", "tarball", "source", "repo"} {
			for _, nodes := range []int{1, 3, 5} {
				all = append(all, formation{era, way, nodes})
			}
		}
	}
	return all
}

type formation struct {
	era, way string
	nodes    int
}

func TestConfigure(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for _, tt := range formations() {
		t.Run(fmt.Sprintf("%s from %s on %d", tt.era, tt.way, tt.nodes), func(t *testing.T) {
			t.Parallel()
			l := newLocal(t, tt.nodes, Options{HealthTimeout: time.Minute})
			program := l.options.Binary
			switch tt.way {
			case "tarball":
				l.options.Binary, l.options.Tarball = "", releaseOf(t, t.TempDir(), program, "hive")
			case "source":
				l.options.Binary, l.options.SourceDir = "", gitRepo(t, program)
			case "repo":
				l.options.Binary, l.options.Repo = "", gitRepo(t, program)
			}
			for _, host := range l.hosts {
				host.settings(map[string]any{"era": tt.era})
			}
			if err := l.Configure(t.Context(), StepSelection{}); err != nil {
				t.Fatal(err)
			}
			health := l.Check(t.Context())
			if !health.Formed {
				t.Errorf("not formed: %v", health.Reasons())
			}
			for _, node := range health.Nodes {
				if node.Peers != tt.nodes-1 || node.Ready != "Ready" || node.InstanceTypes == 0 || node.Gateway != 403 {
					t.Errorf("%+v", node)
				}
			}
			if tt.way == "binary" {
				again(t, l)
			}
		})
	}
}

// Each service is killed, on each node: it is named, nothing else is, and nobody else is blamed. In the end all are
// stopped, in an order in which the daemon can still write its state.
func TestEachKilledServiceIsNamedAlone(t *testing.T) {
	soak(t)
	for era, own := range map[string]string{"pre": "hive", "spx": "spinifex"} {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			l := newLocal(t, 3, Options{HealthTimeout: time.Minute})
			for _, host := range l.hosts {
				host.settings(map[string]any{"era": era})
			}
			if err := l.Configure(t.Context(), StepSelection{}); err != nil {
				t.Fatal(err)
			}
			for _, host := range l.hosts {
				for _, name := range []string{"nats", "predastore", own, "awsgw", own + "-ui"} {
					host.kill(name)
					health := l.Check(t.Context())
					reasons := health.Reasons()
					if len(reasons) != 1 || !strings.HasPrefix(reasons[0], host.Name()+": ") ||
						!strings.Contains(
							reasons[0],
							Service{Name: name, State: ServiceDead, Detail: "its process is gone"}.problem(),
						) {
						t.Errorf("%s of %s killed: %q", name, host.Name(), reasons)
					}
					if err := errors.Join(l.Start(t.Context()), l.WaitHealthy(t.Context())); err != nil {
						t.Fatalf("%s of %s started again: %v", name, host.Name(), err)
					}
				}
			}
			if err := l.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, host := range l.hosts {
				if text := host.read("hive/logs/" + own + ".log"); strings.Contains(text, "Failed to write state") {
					t.Errorf("the daemon of %s lost NATS before it had ended:\n%s", host.Name(), text)
				}
			}
		})
	}
}

// A service that hangs is named, starting hive again ends it and starts it anew, and leaves the others alone.
func TestHungServiceIsStartedAnew(t *testing.T) {
	soak(t)
	t.Parallel()
	l := newLocal(t, 3, Options{HealthTimeout: time.Minute, ProbeTimeout: time.Second})
	if err := l.Configure(t.Context(), StepSelection{}); err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"nats", "hive", "awsgw", "predastore", "hive-ui"} {
		host := l.hosts[i%len(l.hosts)]
		others := host.pids(name)
		host.signal(name, syscall.SIGSTOP)
		health := l.Check(t.Context())
		hung := health.Nodes[i%len(l.hosts)]
		if health.Formed || !hung.Startable() || !strings.Contains(hung.Error, name) ||
			!strings.Contains(hung.Error, "a signal has stopped its process") {
			t.Errorf("%s of %s hangs: %q", name, host.Name(), health.Reasons())
		}
		if err := errors.Join(l.Start(t.Context()), l.WaitHealthy(t.Context())); err != nil {
			t.Fatalf("%s of %s started again: %v", name, host.Name(), err)
		}
		if now := host.pids(name); now != others {
			t.Errorf("%s of %s was started anew, and others with it:\n%s\nwas:\n%s", name, host.Name(), now, others)
		}
	}
}

// pids are the process ids of all services but one.
func (h *localHost) pids(but string) string {
	h.t.Helper()
	var all strings.Builder
	for _, name := range []string{"nats", "predastore", "hive", "awsgw", "hive-ui"} {
		if name != but {
			fmt.Fprintf(&all, "%s %s", name, h.read("hive/logs/"+name+".pid"))
		}
	}
	return all.String()
}

// signal sends a service a signal, and returns its process id.
func (h *localHost) signal(service string, signal syscall.Signal) int {
	h.t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(h.read("hive/logs/" + service + ".pid")))
	if err == nil {
		err = syscall.Kill(pid, signal)
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return pid
}

// kill ends a service at once and waits until it is gone.
func (h *localHost) kill(service string) {
	h.t.Helper()
	pid := h.signal(service, syscall.SIGKILL)
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
	}
	h.t.Fatalf("%s lives on", service)
}

// again configures a formed cluster a second time: it is restarted and not formed anew.
func again(t *testing.T, l *local) {
	t.Helper()
	before := l.hosts[0].read("hive/config/ca.pem")
	if err := l.Configure(t.Context(), StepSelection{}); err != nil {
		t.Fatal(err)
	}
	if got := l.outcome(StepInit); got != progress.Skipped {
		t.Errorf("the second init has %s", got)
	}
	if l.hosts[0].read("hive/config/ca.pem") != before {
		t.Error("the second run has formed the cluster anew")
	}
}

func (l *local) warned(text string) bool {
	for _, e := range l.events.Events() {
		if e.Kind == progress.Warning && strings.Contains(e.Message, text) {
			return true
		}
	}
	return false
}

func TestForceFormsAnew(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	l := newLocal(t, 3, Options{HealthTimeout: time.Minute})
	if err := l.Configure(t.Context(), StepSelection{}); err != nil {
		t.Fatal(err)
	}
	before := l.hosts[2].read("hive/config/ca.pem")
	l.options.Force = true
	for _, host := range l.hosts { // of another generation, which leaves its own profile behind
		host.settings(map[string]any{"era": "spx"})
	}
	own := "[mine]\naws_access_key_id = kept\n"
	if err := os.WriteFile(
		filepath.Join(l.hosts[2].home, ".aws/credentials"), []byte(own+l.hosts[2].read(".aws/credentials")), 0o600,
	); err != nil {
		t.Fatal(err)
	}
	if err := l.Configure(t.Context(), StepSelection{}); err != nil {
		t.Fatal(err)
	}
	if l.hosts[2].read("hive/config/ca.pem") == before || !l.Check(t.Context()).Formed {
		t.Error("the cluster was not formed anew")
	}
	if text := l.hosts[2].read(".aws/credentials"); !strings.HasPrefix(text, own) || strings.Contains(text, "[hive]") {
		t.Errorf("~/.aws/credentials holds\n%s", text)
	}
}

// Of the files that hive has made, none stays; of one that holds more, the rest does.
func TestPurgeLeavesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	l := newLocal(t, 2, Options{HealthTimeout: time.Minute})
	if err := l.Configure(t.Context(), StepSelection{}); err != nil {
		t.Fatal(err)
	}
	own := "[mine]\naws_access_key_id = kept\n"
	if err := os.WriteFile(
		filepath.Join(l.hosts[1].home, ".aws/credentials"), []byte(own+l.hosts[1].read(".aws/credentials")), 0o600,
	); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.Stop(t.Context()), l.Purge(t.Context())); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"hive", ".aws"} {
		if _, err := os.Lstat(filepath.Join(l.hosts[0].home, name)); err == nil {
			t.Errorf("%s is left", name)
		}
	}
	if text := l.hosts[1].read(".aws/credentials"); text != own {
		t.Errorf("~/.aws/credentials holds\n%s", text)
	}
}

func TestOneNodeThatCannotJoinIsBlamed(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	l := newLocal(t, 3, Options{FormationTimeout: time.Minute, HealthTimeout: time.Minute})
	l.hosts[1].settings(map[string]any{"fail": map[string]any{"join": map[string]any{
		"exit": 7, "stderr": "no room for Secret Key: abcdefghijk",
	}}})
	begun := time.Now()
	err := l.Configure(t.Context(), StepSelection{})
	failed, ok := errors.AsType[*StepError](err)
	if !ok {
		t.Fatalf("%v", err)
	}
	if names := strings.Join(failed.NodeNames(), " "); names != "ci-2" || failed.Step != StepJoin {
		t.Errorf("step %s blames %s", failed.Step, names)
	}
	if text := err.Error(); !strings.Contains(text, "exited with 7") || !strings.Contains(text, "no room for") ||
		strings.Contains(text, "abcdefghijk") {
		t.Errorf("the message is %q", text)
	}
	if failed.Hint() == "" {
		t.Error("there is no hint")
	}
	if took := time.Since(begun); took > 45*time.Second {
		t.Errorf("it took %s to notice", took)
	}
	// What was left half done is finished by the next run.
	l.hosts[1].settings(map[string]any{})
	if err := l.Configure(t.Context(), StepSelection{}); err != nil {
		t.Errorf("the next run: %v", err)
	}
}

// A service that ends at its start, as one does that a busy machine keeps waiting, is started again.
func TestAServiceThatEndsAtFirst(t *testing.T) {
	t.Parallel()
	for _, service := range []string{"predastore", "awsgw"} {
		t.Run(service, func(t *testing.T) {
			t.Parallel()
			l := newLocal(t, 1, Options{})
			l.hosts[0].settings(map[string]any{"fail": map[string]any{"service " + service: map[string]any{
				"stderr": "i/o timeout", "times": 2,
			}}})
			if err := l.Configure(t.Context(), StepSelection{}); err != nil {
				t.Fatal(err)
			}
			for _, again := range []string{"(start 2): i/o timeout", "(start 3): i/o timeout"} {
				if l.said(again) != 1 {
					t.Errorf("it does not say %q", again)
				}
			}
		})
	}
}

func TestFailuresOfSteps(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	failing := func(subcommand string) map[string]any {
		return map[string]any{"fail": map[string]any{subcommand: map[string]any{"exit": 3, "stderr": "boom"}}}
	}
	for _, tt := range []struct {
		name     string
		settings map[string]any
		step     string
		node     string
		want     string
	}{
		{"version", failing("version"), StepInstall, "ci-1", "boom"},
		{"mixed versions", map[string]any{"version": "v0"}, StepInstall, "", "different versions"},
		{"init", failing("init"), StepInit, "ci-1", "boom"},
		{"a gateway that ends", failing("service awsgw"), StepStart, "ci-1", "boom"},
		{"a service that ends", failing("service predastore"), StepHealth, "ci-1", "its predastore is dead: its process is gone"},
		{"never running", map[string]any{"never_running": true}, StepHealth, "ci-1", `the daemon says "starting"`},
		{"another program", map[string]any{"health_status": 404}, StepHealth, "ci-1", "/health answers 404: another program holds the port"},
		{"wrong name", map[string]any{"wrong_name": "other"}, StepHealth, "ci-1", `calls itself "other"`},
		{"gateway", map[string]any{"gateway_status": 500}, StepHealth, "ci-1", "with 500 InternalError instead of 403"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			nodes := 1
			if tt.node == "" {
				nodes = 2
			}
			l := newLocal(t, nodes, Options{HealthTimeout: 700 * time.Millisecond})
			l.hosts[0].settings(tt.settings)
			err := l.Configure(t.Context(), StepSelection{})
			failed, ok := errors.AsType[*StepError](err)
			if !ok {
				t.Fatalf("configure: %v", err)
			}
			if failed.Step != tt.step || strings.Join(failed.NodeNames(), " ") != tt.node ||
				!strings.Contains(err.Error(), tt.want) {
				t.Errorf("step %s, nodes %v: %v", failed.Step, failed.NodeNames(), err)
			}
			if l.outcome(tt.step) != progress.Failed {
				t.Errorf("the step's end says %q", l.outcome(tt.step))
			}
		})
	}
}

func TestABlockedInitOfAnEarlierRunIsStopped(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	l := newLocal(t, 3, Options{HealthTimeout: time.Minute})
	if err := l.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.Init(t.Context()); err != nil { // nobody joins, as if that run had been killed here
		t.Fatal(err)
	}
	if health := l.Check(t.Context()); health.Formed || !strings.Contains(health.Nodes[0].Error, "404") {
		t.Errorf("the formation server passes for a daemon: %+v", health.Nodes[0])
	}
	if err := l.Configure(t.Context(), StepSelection{}); err != nil {
		t.Fatal(err)
	}
}

func TestInterruption(t *testing.T) {
	t.Parallel()
	l := newLocal(t, 2, Options{})
	if err := l.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Join(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("join: %v", err)
	}
	if l.outcome(StepJoin) != progress.Interrupted {
		t.Errorf("the step's end says %q", l.outcome(StepJoin))
	}
	if _, err := l.formationProbe(t); err == nil {
		t.Error("an interrupted run leaves the formation server")
	}
}

func (l *local) formationProbe(t *testing.T) (answer, error) {
	probe := l.newProber(nil)
	defer probe.close()
	return probe.get(t.Context(), "http://"+address(l.hosts[0], ManagerPort)+"/formation/health")
}

func TestCollect(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	l := newLocal(t, 1, Options{HealthTimeout: time.Minute})
	if err := l.Configure(t.Context(), StepSelection{}); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if _, err := l.Collect(t.Context(), l.hosts[0], dir); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"logs/init.log": "initialized", "logs/hive.log": "fully initialized", "hive.toml": progress.Redacted,
		"health.txt": `"running"`,
		"routez.txt": "num_routes", "get-nodes.txt": "Ready", "version.txt": "hive",
	} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s holds %q (%v), want %q", name, text, err, want)
		}
	}
	access, err := l.Credentials(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), access.SecretAccessKey) ||
			strings.Contains(string(text), access.AccessKeyID) {
			t.Errorf("%s holds a secret", path)
		}
		if info, _ := entry.Info(); info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %s", path, info.Mode())
		}
		return err
	})
	if _, err := os.Stat(filepath.Join(dir, "secrets")); err == nil {
		t.Error("the secrets were kept")
	}
}

// A daemon writes its state through a quorum of NATS when it ends: NATS ends on no node before the slowest daemon.
func TestNATSEndsLast(t *testing.T) {
	t.Parallel()
	l := newLocal(t, 3, Options{})
	l.options.ScriptsDir = t.TempDir()
	log := filepath.Join(t.TempDir(), "log")
	script := "[ $HIVE_NODE != ci-2 ] || sleep 0.3\necho \"keep=${HIVE_STOP_KEEP:-}\" >>" + log + "\n"
	if err := os.WriteFile(filepath.Join(l.options.ScriptsDir, "stop.sh"), []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := l.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(log)
	if want := strings.Repeat("keep=nats\n", 3) + strings.Repeat("keep=\n", 3); err != nil || string(text) != want {
		t.Errorf("%v: %s", err, text)
	}
}
