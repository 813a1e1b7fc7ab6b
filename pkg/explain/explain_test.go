package explain_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"hive-test/pkg/explain"
	"hive-test/pkg/progress"
)

func event(kind progress.Kind, phase string) progress.Event {
	return progress.Event{Kind: kind, Phase: phase, Cluster: "ci", Verb: "full"}
}

// joinFailed are the events of a run whose node 2 could not join.
func joinFailed() []progress.Event {
	text := "joining the other nodes failed on ci-2\n  ci-2: join.sh exited with 1\n    | Joining 10.0.0.1:4432\n    | Error: Failed to join cluster: unauthorized: invalid join token"
	problem := &progress.Problem{
		Nodes: []string{"ci-2"}, Context: []string{"joining the other nodes failed"},
		Cause: "ci-2: join.sh exited with 1",
		Reasons: []progress.Reason{{
			Node: "ci-2", Cause: "join.sh exited with 1",
			Lines: []string{"Joining 10.0.0.1:4432", "Error: Failed to join cluster: unauthorized: invalid join token"},
		}},
	}
	start, stepStart, step := event(
		progress.PhaseStart, "configure",
	), event(progress.StepStart, "configure"), event(progress.StepEnd, "configure")
	stepStart.Step, step.Step, step.Status = "join", "join", progress.Failed
	step.Error, step.Hint, step.Problem = text, "configure again", problem
	end := event(progress.PhaseEnd, "configure")
	end.Status, end.Error, end.Hint, end.Problem = progress.Failed, text, "configure again", problem
	down := event(progress.PhaseEnd, "down")
	down.Status = progress.Passed
	run := event(progress.RunEnd, "")
	run.Status = progress.Failed
	return []progress.Event{
		event(progress.RunStart, ""), start, stepStart, step, end, event(progress.PhaseStart, "down"), down, run,
	}
}

func TestTheStepTheNodeAndItsLogAreNamed(t *testing.T) {
	want := &progress.Explanation{
		Phase: "configure", Step: "join", Node: "ci-2", Where: "configure, step join on ci-2",
		What:      "joining the other nodes failed: join.sh exited with 1",
		Lines:     []string{"Joining 10.0.0.1:4432", "Error: Failed to join cluster: unauthorized: invalid join token"},
		From:      "the log on ci-2",
		Signature: "join-token",
		Next:      "read nodes/ and report.md in the run's directory; --keep on-failure keeps the nodes for a look",
	}
	got := explain.Run(joinFailed(), nil, false)
	if got == nil || got.Cause == "" {
		t.Fatalf("got %+v", got)
	}
	got.Cause = ""
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Events of a release whose events had no problem tell less, and what failed still.
func TestEventsWithoutProblems(t *testing.T) {
	events := joinFailed()
	for i := range events {
		events[i].Problem = nil
	}
	want := &progress.Explanation{
		Phase: "configure", Step: "join", Where: "configure, step join", What: "joining the other nodes failed on ci-2",
		Signature: "join-token",
		Next:      "read nodes/ and report.md in the run's directory; --keep on-failure keeps the nodes for a look",
	}
	got := explain.Run(events, nil, false)
	got.Cause = ""
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestWhatFailsOnSeveralNodes(t *testing.T) {
	events := joinFailed()
	for i := range events {
		if p := events[i].Problem; p != nil {
			both := *p
			both.Nodes = []string{"ci-2", "ci-3"}
			both.Reasons = append(slices.Clone(p.Reasons), progress.Reason{Node: "ci-3", Cause: "other"})
			events[i].Problem = &both
		}
	}
	got := explain.Run(events, nil, false)
	const want = "configure, step join: joining the other nodes failed on ci-2, ci-3; ci-2: join.sh exited with 1"
	if got.Headline() != want || got.From != "the log on ci-2" {
		t.Errorf("got %s from %s, want %s", got.Headline(), got.From, want)
	}
}

// What ends a phase is told with what it was at, and an error that names its node is not told where it was again.
func TestContextsAndNodes(t *testing.T) {
	locked := progress.WithNodes(errors.New("tofu apply failed: ci-1: VM is locked"), "ci-1")
	for _, c := range []struct {
		err  error
		want string
	}{
		{locked, "up, step create: tofu apply failed: ci-1: VM is locked"},
		{fmt.Errorf("create: %w", locked), "up, step create: tofu apply failed: ci-1: VM is locked"},
		{fmt.Errorf("timed out after 5m: create: %w", progress.ErrTimeUp), "up, step create: timed out after 5m: create"},
		{progress.ErrTimeUp, "up, step create: timed out"},
	} {
		step, end, run := event(progress.StepEnd, "up"), event(progress.PhaseEnd, "up"), event(progress.RunEnd, "")
		step.Step, step.Status, end.Status, run.Status = "create", progress.Failed, progress.Failed, progress.Failed
		got := explain.Run(
			[]progress.Event{event(progress.PhaseStart, "up"), step, end.WithError(c.err), run}, nil, false,
		)
		if got.Headline() != c.want {
			t.Errorf("got %q, want %q", got.Headline(), c.want)
		}
	}
}

func TestCasesThatFailedAreCounted(t *testing.T) {
	output, fine, wrong := event(progress.Output, "test"), event(progress.Case, "test"), event(progress.Case, "test")
	output.Suite, output.Message = "e2e", "begun\n\nthe reason\n"
	fine.Suite = "e2e"
	fine.Status, wrong.Status, wrong.Suite, wrong.Name, wrong.Error = progress.Passed, progress.Failed, "e2e", "e2e", "exited with 3: the reason"
	end, run := event(progress.PhaseEnd, "test"), event(progress.RunEnd, "")
	end.Status, end.Error, run.Status = progress.Failed, "tests failed: 1 of 2, first e2e: e2e", progress.Failed
	got := explain.Run([]progress.Event{event(progress.PhaseStart, "test"), output, fine, wrong, end, run}, nil, false)
	if got == nil || got.What != "1 of 2 cases failed, first e2e: exited with 3: the reason" ||
		got.Signature != "" {
		t.Errorf("got %+v", got)
	}
	if diff := cmp.Diff([]string{"begun", "the reason"}, got.Lines); diff != "" {
		t.Error(diff)
	}
}

// suiteEnded are the events of a suite whose cases have these errors, each by its name; the first that failed is named.
func suiteEnded(suite string, first string, cases ...progress.Event) []progress.Event {
	for i := range cases {
		cases[i].Kind, cases[i].Phase, cases[i].Suite = progress.Case, "test", suite
	}
	end := event(progress.StepEnd, "test")
	end.Suite, end.Step, end.Name, end.Status = suite, suite, first, progress.Passed
	if first != "" {
		end.Status, end.Error = progress.Failed, "some failed"
	}
	return append(cases, end)
}

// testFailed are the events of a run of test.
func testFailed(during ...[]progress.Event) []progress.Event {
	begin, end, run := event(progress.RunStart, ""), event(progress.PhaseEnd, "test"), event(progress.RunEnd, "")
	begin.RunDir = "runs/1"
	end.Status, end.Error, run.Status = progress.Failed, "tests failed", progress.Failed
	return slices.Concat(
		[]progress.Event{begin, event(progress.PhaseStart, "test")}, slices.Concat(during...), []progress.Event{end, run},
	)
}

func caseOf(node, name, err string) progress.Event {
	e := progress.Event{Node: node, Name: name, Error: err, Status: progress.Passed}
	if err != "" {
		e.Status = progress.Failed
	}
	return e
}

func TestWhatTheRunHasObservedIsTheCause(t *testing.T) {
	seen := func(kind progress.Kind, name, node, message, err string) []progress.Event {
		return []progress.Event{{Kind: kind, Phase: "test", Name: name, Node: node, Message: message, Error: err}}
	}
	lost := seen(progress.Warning, progress.NodeLost, "ci-4", "ci-4 is lost since 15:22:58", "its VM is stopped")
	back := seen(progress.Info, progress.NodeBack, "ci-4", "ci-4 is back after 3s", "")
	dead := seen(progress.Warning, progress.ServiceDead, "ci-3", "its daemon (hive) is dead: its process is gone", "")
	refused := seen(progress.Warning, progress.ServiceDead, "ci-3", "hive's daemon on ci-3 does not answer", "connection refused")
	away := seen(progress.Warning, progress.NodeLost, "ci-4", "ci-4 is lost", "its VM runs, but neither hive's daemon nor its SSH server answer: refused")
	peers := caseOf("ci-1", "peers/ci-1", "it sees 5 of 6 peers")
	smoke := func(more ...progress.Event) []progress.Event {
		return suiteEnded("smoke", "peers/ci-1", append([]progress.Event{peers}, more...)...)
	}
	const routes = "the node does not see all others"
	for name, c := range map[string]struct {
		events      []progress.Event
		hosts       bool
		cause, next string // how they begin
	}{
		"a VM":                  {testFailed(lost, smoke()), false, "ci-4: its VM is stopped", "hive-test up ci"},
		"a VM of a case":        {testFailed(smoke(caseOf("ci-4", "health/ci-4", "its VM is gone"))), false, "ci-4: its VM is gone", "hive-test up ci"},
		"a service":             {testFailed(dead, smoke()), false, "ci-3: its daemon (hive) is dead: its process is gone", "hive-test configure ci --from start"},
		"a silent daemon":       {testFailed(refused, smoke()), false, "ci-3: hive's daemon does not answer: connection refused", "hive-test configure ci --from start"},
		"both":                  {testFailed(dead, lost, smoke()), false, "ci-3: its daemon (hive) is dead: its process is gone; ci-4: its VM is stopped", "hive-test up ci"},
		"a host":                {testFailed(lost, smoke()), true, "ci-4: its VM is stopped", "see whether the host runs"},
		"it runs":               {testFailed(away, smoke()), false, "ci-4: its VM runs, but neither", "read runs/1/nodes/ci-4/pve/agent.txt"},
		"back before it failed": {testFailed(lost, back, smoke()), false, routes, "compare runs/1/nodes/*/routez.txt, and the addresses in runs/1/nodes/*/hive.toml"},
		"in a later suite":      {testFailed(smoke(), lost, suiteEnded("late", "late", caseOf("", "late", "exited with 1"))), false, routes, "compare runs/1"},
	} {
		t.Run(name, func(t *testing.T) {
			got := explain.Run(c.events, nil, c.hosts)
			if got == nil || !strings.HasPrefix(got.Cause, c.cause) || !strings.HasPrefix(got.Next, c.next) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// A VM that is paused for want of space runs, as far as the loss monitor sees.
func TestTheStateOfAVMTellsMoreThanItsSilence(t *testing.T) {
	lost := event(progress.Warning, "test")
	lost.Name, lost.Node = progress.NodeLost, "ci-2"
	lost.Error = "its VM runs, but neither hive's daemon nor its SSH server answer"
	files := fstest.MapFS{"nodes/ci-2/pve/status.txt": {Data: []byte("qmpstatus: io-error\n")}}
	got := explain.Run(testFailed([]progress.Event{lost},
		suiteEnded("smoke", "peers/ci-1", caseOf("ci-1", "peers/ci-1", "it sees 1 of 2 peers"))), files, false)
	if got.Signature != "vm-io-error" || got.From != "runs/1/nodes/ci-2/pve/status.txt" {
		t.Errorf("got %+v", got)
	}
}

// The first case that failed is the one that the error of the run names, whichever was told first.
func TestTheFirstCaseIsThatOfTheResults(t *testing.T) {
	got := explain.Run(testFailed(suiteEnded("smoke", "health/ci-4",
		caseOf("ci-1", "peers/ci-1", "it sees 5 of 6 peers"), caseOf("ci-1", "health/ci-1", ""),
		caseOf("ci-4", "health/ci-4", "the daemon does not answer"),
	)), nil, false)
	const want = "test, step smoke: 2 of 3 cases failed, first smoke: health/ci-4: the daemon does not answer"
	if got.Headline() != want || got.Node != "ci-4" {
		t.Errorf("got %s on %s", got.Headline(), got.Node)
	}
}

func TestEachSuiteThatFailedIsNamed(t *testing.T) {
	files := fstest.MapFS{"suites/bad.sh/output.log": {}, "suites/ok.sh/output.log": {}}
	output := event(progress.Output, "test")
	output.Suite, output.Message = "ok.sh", "the reason"
	suites := [][]progress.Event{
		{output},
		suiteEnded("ok.sh", "mine.b", caseOf("", "mine.a", ""), caseOf("", "mine.b", "b broke"), caseOf("", "mine.c", "")),
		suiteEnded("fine.sh", "", caseOf("", "fine.sh", "")),
		suiteEnded("bad.sh", "bad.sh", caseOf("", "bad.sh", "exited with 1")),
	}
	got := explain.Run(testFailed(suites...), files, false)
	want := []string{
		"ok.sh: 1 of 3 cases failed, first mine.b: b broke (runs/1/suites/ok.sh/output.log)",
		"bad.sh: 1 of 1 case failed: exited with 1 (runs/1/suites/bad.sh/output.log)",
	}
	if diff := cmp.Diff(want, got.Suites); diff != "" || got.Headline() != "test: 2 suites failed" {
		t.Errorf("got %s\n%s", got.Headline(), diff)
	}
	if got.From != "runs/1/suites/ok.sh/output.log" {
		t.Errorf("got lines from %s", got.From)
	}
	for i := range 5 {
		name := fmt.Sprint("more", i)
		suites = append(suites, suiteEnded(name, name, caseOf("", name, "exited with 2")))
	}
	got = explain.Run(testFailed(suites...), files, false)
	if len(got.Suites) != 6 || got.Suites[5] != "and 2 more" {
		t.Errorf("got %q", got.Suites)
	}
	alone := explain.Run(testFailed(suites[0], suites[1]), files, false)
	const headline = "test, step ok.sh: 1 of 3 cases failed, first ok.sh: mine.b: b broke"
	if alone.Headline() != headline || len(alone.Suites) > 0 || alone.From != "runs/1/suites/ok.sh/output.log" {
		t.Errorf("got %+v", alone)
	}
}

func TestTheLogsOfTheNodesAreSearchedLast(t *testing.T) {
	events := joinFailed()
	for i := range events {
		events[i].Error = strings.NewReplacer("invalid join token", "gone").Replace(events[i].Error)
		if events[i].Problem != nil {
			events[i].Problem.Reasons[0].Lines = nil
		}
	}
	files := fstest.MapFS{
		"nodes/ci-1/system/journal": {Data: []byte("quiet\n")},
		"nodes/ci-2/system/journal": {Data: []byte("first\nkernel: Out of memory: Killed process 7 (hive)\nlast\n")},
	}
	got := explain.Run(events, files, false)
	if got.Signature != "out-of-memory" || got.From != "nodes/ci-2/system/journal" ||
		got.Lines[0] != "kernel: Out of memory: Killed process 7 (hive)" {
		t.Errorf("got %+v", got)
	}
}

// Proxmox VE says of a start that fails only that QEMU has ended; its task's log says why.
func TestWhatATaskLogAloneTells(t *testing.T) {
	type task struct {
		Status string   `json:"status"`
		Log    []string `json:"log"`
	}
	const quit, warned = "start failed: QEMU exited with code 1", "WARNINGS: 1"
	for name, c := range map[string]struct {
		text, status, log string
		what, signature   string
	}{
		"QEMU's own words": {
			"tofu apply failed: ci-1: " + quit, quit, "kvm: -chardev socket,id=serial0: Invalid parameter 'x'",
			"tofu apply failed: ci-1: " + quit + ": kvm: -chardev socket,id=serial0: Invalid parameter 'x'", "",
		},
		"a bridge": {
			"tofu apply failed: " + quit, quit,
			"bridge 'vmbr9' does not exist\nkvm: -netdev type=tap,id=net0: network script /usr/libexec/qemu-server/pve-bridge failed with status 512",
			"tofu apply failed: " + quit + ": bridge 'vmbr9' does not exist; kvm: -netdev type=tap,id=net0: network script /usr/libexec/qemu-server/pve-bridge failed with status 512",
			"bridge-missing",
		},
		"an image that cannot be copied": {
			"copy failed: exit code 1", "copy failed: exit code 1",
			"qemu-img: error while writing at byte 0: No space left on device",
			"copy failed: exit code 1: qemu-img: error while writing at byte 0: No space left on device",
			"storage-full",
		},
		"warnings of EFI": {
			"task failed: " + warned, warned,
			"kvm: something\nWARN: EFI disk without 'ms-cert=2023k' option, suggesting that not all UEFI 2023",
			"task failed: " + warned + ": WARN: EFI disk without 'ms-cert=2023k' option, suggesting that not all UEFI 2023",
			"efi-certificates",
		},
		"other warnings": {"task failed: " + warned, warned, "kvm: nothing", "task failed: " + warned, "task-warnings"},
		"in the error itself": {
			"task qmstart of VM 20000 on pve1 failed: " + quit + "\n  kvm: -device x: own words", "other",
			"kvm: of the list",
			"task qmstart of VM 20000 on pve1 failed: " + quit + ": kvm: -device x: own words", "",
		},
		"in the provider's error": {
			"VM start: failed to complete with exit code: " + quit + "\ntask log:\n  generating cloud-init ISO\n  kvm: -device x: own words\n  TASK ERROR: " + quit,
			"other", "",
			"VM start: failed to complete with exit code: " + quit + ": kvm: -device x: own words", "",
		},
		"an end that tells": {
			"VM is locked (backup)", "VM is locked (backup)", "kvm: unheard", "VM is locked (backup)", "vm-locked",
		},
	} {
		t.Run(name, func(t *testing.T) {
			end, run := event(progress.PhaseEnd, "up"), event(progress.RunEnd, "")
			end.Status, end.Error, run.Status = progress.Failed, c.text, progress.Failed
			log := "generating cloud-init ISO\nkvm: warning: host doesn't support requested feature: CPUID.01H:ECX.vmx [bit 5]\n" +
				c.log + "\nTASK ERROR: " + c.status
			tasks, err := json.Marshal([]task{
				{"OK", []string{"TASK OK"}}, {c.status, strings.Split(log, "\n")}, {c.status, []string{"kvm: of another time"}},
			})
			if err != nil {
				t.Fatal(err)
			}
			files := fstest.MapFS{"nodes/ci-1/pve/tasks.json": {Data: tasks}}
			got := explain.Run([]progress.Event{event(progress.PhaseStart, "up"), end, run}, files, false)
			if got.What != c.what || got.Signature != c.signature {
				t.Errorf("got  %q, %s\nwant %q, %s", got.What, got.Signature, c.what, c.signature)
			}
		})
	}
}

func TestAVMThatCannotWriteIsNamed(t *testing.T) {
	end, run := event(progress.PhaseEnd, "test"), event(progress.RunEnd, "")
	end.Status, end.Error, run.Status = progress.Failed, "a node was lost: ci-2 since 12:00:00, for longer than 2m (--lost-after): its VM runs, but neither hive's daemon nor its SSH server answer", progress.Failed
	files := fstest.MapFS{"nodes/ci-2/pve/status.txt": {Data: []byte(
		"name: ci-2\nqmpstatus: io-error\nstatus: running\n",
	)}}
	got := explain.Run([]progress.Event{event(progress.PhaseStart, "test"), end, run}, files, false)
	if got.Signature != "vm-io-error" || !strings.HasSuffix(got.What, ": ci-2 has qmpstatus: io-error") {
		t.Errorf("got %+v", got)
	}
}

func TestAdviceSaysWhatCouldNotBeGot(t *testing.T) {
	end, run := event(progress.PhaseEnd, "test"), event(progress.RunEnd, "")
	end.Status, end.Error, run.Status = progress.Failed, "ci-2: its VM is stopped", progress.Failed
	for _, row := range []struct {
		files fstest.MapFS
		want  bool
	}{
		{fstest.MapFS{}, true},
		{fstest.MapFS{"nodes/ci-1/system/journal": {}}, true},
		{fstest.MapFS{"nodes/ci-2/pve/tasks.txt": {}}, false},
	} {
		got := explain.Run([]progress.Event{event(progress.PhaseStart, "test"), end, run}, row.files, false)
		if got.Signature != "node-lost" ||
			strings.Contains(got.Next, "(nodes/*/pve/tasks.txt could not be got: index.json says why)") != row.want {
			t.Errorf("%v: %s: %s", row.files, got.Signature, got.Next)
		}
	}
}

// A slow answer of a healthy node is nobody's want of memory.
func TestHealthyNodesExplainNothing(t *testing.T) {
	for _, system := range []string{"debian12", "debian13"} {
		files := fstest.MapFS{}
		entries, err := os.ReadDir(filepath.Join("testdata", "healthy", system))
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			raw, err := os.ReadFile(filepath.Join("testdata", "healthy", system, entry.Name()))
			if err != nil {
				t.Fatal(err)
			}
			files["nodes/ci-1/system/"+entry.Name()] = &fstest.MapFile{Data: raw}
		}
		end, run := event(progress.PhaseEnd, "test"), event(progress.RunEnd, "")
		end.Status, end.Error, run.Status = progress.Failed, "tests failed: 1 of 2, first smoke: regions/ci-1", progress.Failed
		if got := explain.Run(
			[]progress.Event{event(progress.PhaseStart, "test"), end, run}, files, false,
		); got.Signature != "" ||
			got.Cause != "" {
			t.Errorf("%s: got %+v", system, got)
		}
	}
}

func TestARunThatPassedNeedsNoExplanation(t *testing.T) {
	end, run := event(progress.PhaseEnd, "up"), event(progress.RunEnd, "")
	end.Status, run.Status = progress.Passed, progress.Passed
	if got := explain.Run([]progress.Event{event(progress.PhaseStart, "up"), end, run}, nil, false); got != nil {
		t.Errorf("got %+v", got)
	}
	if got := explain.Run(nil, nil, false); got != nil {
		t.Errorf("got %+v", got)
	}
}

func TestAKilledRunSaysWhereItWas(t *testing.T) {
	got := explain.Run(joinFailed()[:3], nil, false)
	if got == nil || got.Phase != "configure" || got.Step != "join" ||
		!strings.Contains(got.Next, "hive-test down ci") {
		t.Errorf("got %+v", got)
	}
}

// Where the suite can choose, the first case that failed can be run alone.
func TestACaseThatCanBeChosenIsRunAgain(t *testing.T) {
	begin, failed := event(progress.StepStart, "test"), event(progress.Case, "test")
	begin.Suite, begin.Asked = "go", "go test -json ./x"
	failed.Suite, failed.Name, failed.Status, failed.Run = "go", "x/TestA/it's", progress.Failed, "^TestA$/^it's$"
	end, run := event(progress.PhaseEnd, "test"), event(progress.RunEnd, "")
	end.Status, end.Error, run.Status = progress.Failed, "tests failed", progress.Failed
	const look = "look at the nodes: hive-test ssh ci, hive-test logs ci; hive-test down ci removes the cluster"
	for expression, want := range map[string]string{
		failed.Run: `hive-test test ci --suite 'go test -json ./x' --run '^TestA$/^it'"'"'s$' runs it alone; ` + look, "": look,
	} {
		failed.Run = expression
		if got := explain.Run([]progress.Event{event(progress.PhaseStart, "test"), begin, failed, end, run}, nil, false); got.Next != want {
			t.Errorf("%q: got %s", expression, got.Next)
		}
	}
}

// The lines that explain are those of the case that failed first, and not what the suite printed last.
func TestLinesAreOfTheCaseThatFailed(t *testing.T) {
	failed, said := event(progress.Case, "test"), event(progress.Output, "test")
	failed.Suite, failed.Name, failed.Status = "go", "x/TestA", progress.Failed
	failed.Output = "=== RUN   TestA\n\x1b[31mstarting\x1b[0m\n    a_test.go:7: no answer\n--- FAIL: TestA (0.00s)\n"
	said.Suite, said.Message = "go", `{"Action":"pass","Package":"x"}`
	end, run := event(progress.PhaseEnd, "test"), event(progress.RunEnd, "")
	end.Status, end.Error, run.Status = progress.Failed, "tests failed", progress.Failed
	got := explain.Run([]progress.Event{event(progress.PhaseStart, "test"), failed, said, end, run}, nil, false)
	if diff := cmp.Diff([]string{"starting", "a_test.go:7: no answer"}, got.Lines); diff != "" || got.From != "the output of go" {
		t.Errorf("from %s (-want +got):\n%s", got.From, diff)
	}
}

func TestAnInterruptionIsNoRiddle(t *testing.T) {
	events := joinFailed()
	for i := range events {
		if events[i].Status == progress.Failed {
			events[i].Status, events[i].Error = progress.Interrupted, "interrupted by interrupt"
		}
	}
	got := explain.Run(events, nil, false)
	if got == nil || got.Signature != "" || len(got.Lines) > 0 || got.Cause != "" {
		t.Errorf("got %+v", got)
	}
}

// The runs that the renderers' tests recorded are explained too.
func TestWhatIsDestroyedWhileCleaningUpIsNotToBeLookedAt(t *testing.T) {
	for status, want := range map[progress.Status]string{
		progress.Passed: "run it again", progress.Failed: "down ci removes",
	} {
		t.Run(string(status), func(t *testing.T) {
			up, end, run := event(progress.PhaseEnd, "up"), event(progress.StepEnd, "down"), event(progress.RunEnd, "")
			up.Status, up.Error, end.Status, run.Status = progress.Interrupted, "interrupted", status, progress.Interrupted
			got := explain.Run(
				[]progress.Event{event(progress.PhaseStart, "up"), up, event(progress.StepStart, "down"), end, run},
				nil, false,
			)
			if got == nil || !strings.Contains(got.Next, want) {
				t.Errorf("got %+v, want next %q", got, want)
			}
		})
	}
}

// Before a step of down ends, the VMs may be there, whatever has ended well before it.
func TestAnInterruptedDownGoesOn(t *testing.T) {
	step := func(kind progress.Kind, name string) progress.Event {
		e := event(kind, "down")
		e.Verb, e.Step, e.Status = "down", name, map[bool]progress.Status{true: progress.Passed}[kind == progress.StepEnd]
		return e
	}
	end := step(progress.PhaseEnd, "")
	end.Status, end.Error = progress.Interrupted, "interrupted by interrupt"
	checked := []progress.Event{step(progress.StepStart, "check"), step(progress.StepEnd, "check")}
	destroying := append(slices.Clone(checked), step(progress.StepStart, "destroy"))
	for name, events := range map[string][]progress.Event{
		"between steps": append(slices.Clone(checked), end), "in a step": append(slices.Clone(destroying), end),
		"killed in a step": destroying,
	} {
		if got := explain.Run(events, nil, false); got == nil || got.Next != "hive-test down ci goes on" {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

func TestRecordedRuns(t *testing.T) {
	f, err := os.Open(filepath.Join("..", "progress", "testdata", "events.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	events, err := progress.ReadEvents(f)
	if err != nil {
		t.Fatal(err)
	}
	got := explain.Run(events, nil, false)
	if got == nil || got.Node != "ci-123-2" || got.Step != "install" || got.Signature != "node-disk-full" {
		t.Errorf("got %+v", got)
	}
}

// What the logs of nodes say is no log of a task of Proxmox VE, even where it speaks of an exit code.
func TestReasonsOfNodesAreNoTaskLog(t *testing.T) {
	failed := progress.Event{
		Kind: progress.PhaseEnd, Phase: "configure", Status: progress.Failed,
		Error: "installing failed on ci-1, ci-2\n  ci-1: install.sh exited with 1\n    | make failed with exit code 2\n" +
			"  ci-2: the disk is full",
		Problem: &progress.Problem{
			Nodes: []string{"ci-1", "ci-2"}, Context: []string{"installing failed"}, Cause: "ci-1: install.sh exited with 1",
			Reasons: []progress.Reason{
				{Node: "ci-1", Cause: "install.sh exited with 1", Lines: []string{"make failed with exit code 2"}},
				{Node: "ci-2", Cause: "the disk is full"},
			},
		},
	}
	end := progress.Event{Kind: progress.RunEnd, Status: progress.Failed}
	if got := explain.Run([]progress.Event{failed, end}, nil, false); strings.Contains(got.What, "exited with 1: ") {
		t.Errorf("got %q", got.What)
	}
}

func TestAdviceNeedsNoClusterThatIsGone(t *testing.T) {
	for next, want := range map[string]string{
		"": "",
		"look at the nodes: hive-test ssh ci, hive-test logs ci; hive-test down ci removes the cluster": "the cluster is gone since",
		"read runs/1/nodes/*/logs/init.log; hive-test configure --clusters-dir x ci":                    "read runs/1/nodes/*/logs/init.log; the cluster is gone since",
		"read runs/1/nodes/*/logs/init.log":                                                             "read runs/1/nodes/*/logs/init.log",
		"hive-test up ci":                                                                               "the cluster is gone since",
	} {
		got := explain.Gone(&progress.Explanation{Phase: "test", Next: next})
		if got.Next != want {
			t.Errorf("%q: got %q, want %q", next, got.Next, want)
		}
	}
	const again = "hive-test up ci --storage fast"
	if got := explain.Gone(&progress.Explanation{Phase: "up", Next: again}); got.Next != again {
		t.Errorf("got %q, want %q", got.Next, again)
	}
	if got := explain.Gone(nil); got != nil {
		t.Errorf("got %+v", got)
	}
}
