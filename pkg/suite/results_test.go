package suite

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hive-test/pkg/progress"
)

// printing is a suite that prints a text and ends with a code.
func printing(t *testing.T, text string, then string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "printed")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return "cat " + file + "; " + then
}

// What each form says, kind and unkind: nothing that is cut off, or short of what was promised, passes.
func TestForms(t *testing.T) {
	const (
		good  = "TAP version 14\n1..2\nok 1 - one\nok 2 - two\n"
		goRun = "=== RUN   TestA\n--- PASS: TestA (0.01s)\n=== RUN   TestB\n    b_test.go:7: got 1\n--- FAIL: TestB (0.02s)\nFAIL\n"
	)
	for name, c := range map[string]struct {
		text, then string
		want       []string
	}{
		"TAP":                         {good, "true", []string{"passed one", "passed two"}},
		"TAP 13, plan at the end":     {"TAP version 13\nok 1 one\nok\n1..2\n", "true", []string{"passed one", "passed test 2"}},
		"TAP without a version":       {"building\n1..1\nok 1 - one\ndone\n", "true", []string{"passed one"}},
		"TAP that fails":              {"1..2\nok 1 a\nnot ok 2 - b\n", "true", []string{"passed a", "failed b: not ok 2"}},
		"TAP with diagnostics":        {"1..1\nnot ok 1 - b\n  ---\n  message: 'got 1'\n  at:\n    file: x.js\n    line: 12\n  ...\n", "true", []string{"failed b: got 1 (x.js:12)"}},
		"TAP with comments":           {"1..1\nnot ok 1 - b\n# got 1\n# want 2\n", "true", []string{"failed b: got 1"}},
		"TAP skip and todo":           {"1..4\nok 1 a # SKIP no KVM\nnot ok 2 b # TODO later\nok 3 c # todo done\nok 4 \\# d\n", "true", []string{"skipped a (no KVM)", "skipped b (to do: later)", "passed c", "passed # d"}},
		"TAP not ok # SKIP":           {"1..1\nnot ok 1 a # SKIP no\n", "true", []string{"failed a: not ok 1"}},
		"TAP subtests":                {"1..1\n    1..2\n    ok 1 - x\n    not ok 2 - y\nnot ok 1 - all\n", "true", []string{"passed all/x", "failed all/y: not ok 2", "failed all: not ok 1"}},
		"TAP, a subtest fails alone":  {"1..1\n    1..1\n    not ok 1 - y\nok 1 - all\n", "true", []string{"failed all/y: not ok 1", "passed all"}},
		"TAP short of its plan":       {"1..3\nok 1 a\nok 2 b\n", "true", []string{"passed a", "passed b", "failed cat: its plan promises 3 tests, and 2 came"}},
		"TAP beyond its plan":         {"1..1\nok 1 a\nok 2 b\n", "true", []string{"passed a", "passed b", "failed cat: there is a test 2, and the plan is 1..1"}},
		"TAP after its plan":          {"ok 1 a\n1..2\nok 2 b\n", "true", []string{"passed a", "passed b", "failed cat: a test follows its plan, which came last: ok 2 b"}},
		"TAP twice the same":          {"1..2\nok 1 a\nok 1 b\n", "true", []string{"passed a", "passed b", "failed cat: test 1 is there twice"}},
		"TAP with two plans":          {"1..1\nok 1 a\n1..1\n", "true", []string{"passed a", "failed cat: there is a second plan, 1..1"}},
		"TAP without a plan":          {"TAP version 13\nok 1 a\n", "true", []string{"passed a", "failed cat: its output ends without a plan: it is cut off"}},
		"TAP that bails out":          {"1..2\nok 1 a\nBail out! no node\n", "true", []string{"passed a", "failed cat: it bailed out: no node"}},
		"TAP cut off in a block":      {"1..1\nnot ok 1 a\n  ---\n  message: x\n", "true", []string{"failed a: x", "failed cat: its output ends within a YAML block: it is cut off"}},
		"TAP cut off in a subtest":    {"1..1\n    ok 1 - x\n", "true", []string{"passed x", "failed cat: its plan promises 1 tests, and 0 came; the subtest with x has not ended"}},
		"TAP that skips all":          {"1..0 # SKIP no KVM\n", "true", []string{"skipped all (no KVM)", "failed cat: no test ran"}},
		"TAP passes, command fails":   {good, "exit 3", []string{"passed one", "passed two", "failed cat: exited with 3"}},
		"TAP, more than a late plan":  {"ok 1 a\nok 2 b\n1..1\n", "true", []string{"passed a", "passed b", "failed cat: its plan promises 1 tests, and 2 came"}},
		"TAP, a subtest short":        {"1..1\n    1..3\n    ok 1 - x\nok 1 - all\n", "true", []string{"passed all/x", "passed all", "failed cat: the plan of subtest all promises 3 tests, and 1 came"}},
		"TAP, a subtest bails out":    {"1..1\n    1..3\n    ok 1 - x\n    Bail out! gone\nok 1 - all\n", "true", []string{"passed all/x", "passed all", "failed cat: the plan of subtest all promises 3 tests, and 1 came; it bailed out: gone"}},
		"TAP, words like ok":          {"1..2\nok 1 a\nok: restarted\n", "true", []string{"passed a", "failed cat: its plan promises 2 tests, and 1 came"}},
		"Go text that says FAIL":      {"=== RUN   TestA\n--- PASS: TestA (0.00s)\ntesting: race detected outside of test execution\nFAIL\n", "true", []string{"passed TestA", "failed cat: it ends with FAIL, and none of its tests says why"}},
		"Go text, the next crashes":   {"=== RUN   TestA\n--- PASS: TestA (0.00s)\nPASS\npanic: init\n", "true", []string{"passed TestA", "failed cat: its output ends without PASS or FAIL: it crashed, or its output is cut off"}},
		"Go text and TAP":             {"=== RUN   TestA\n--- PASS: TestA (0.00s)\nPASS\n1..1\nnot ok 1 b\n", "true", []string{"passed TestA", "failed b: not ok 1"}},
		"ok alone is no TAP":          {"ok 1 a\nnot ok 2 b\n", "true", []string{"passed cat"}},
		"Go text":                     {goRun, "exit 1", []string{"passed TestA", "failed TestB: b_test.go:7: got 1 (b_test.go:7)"}},
		"Go text, exit 0":             {goRun, "true", []string{"passed TestA", "failed TestB: b_test.go:7: got 1 (b_test.go:7)"}},
		"Go text with marks":          {"\x16=== RUN   TestA\n\x16--- PASS: TestA (0.00s)\nPASS\n", "true", []string{"passed TestA"}},
		"Go skip":                     {"=== RUN   TestA\n    a_test.go:2: looking\n    a_test.go:3: no KVM\n        here\n--- SKIP: TestA (0.00s)\n=== RUN   TestB\n--- PASS: TestB (0.00s)\nPASS\n", "true", []string{"skipped TestA (no KVM here)", "passed TestB"}},
		"Go subtests":                 {"=== RUN   TestA\n=== RUN   TestA/b\n--- PASS: TestA (0.00s)\n    --- SKIP: TestA/b (0.00s)\nPASS\n", "true", []string{"passed TestA", "skipped TestA/b"}},
		"Go text that crashed":        {"=== RUN   TestA\n--- PASS: TestA (0.00s)\n=== RUN   TestB\npanic: no\n", "exit 2", []string{"passed TestA", "failed TestB: it has begun and not ended\npanic: no", "failed cat: its output ends without PASS or FAIL: it crashed, or its output is cut off"}},
		"Go text cut off, exit 0":     {"=== RUN   TestA\n--- PASS: TestA (0.00s)\n", "true", []string{"passed TestA", "failed cat: its output ends without PASS or FAIL: it crashed, or its output is cut off"}},
		"Go text, none to run":        {"testing: warning: no tests to run\nPASS\n", "true", []string{"failed cat: no test ran"}},
		"killed after its last case":  {good, "kill -KILL $$", []string{"passed one", "passed two", "failed cat: ended by signal KILL"}},
		"a line without end, and TAP": {strings.Repeat("x", 3*maxText) + "\n1..1\nok 1 a\n", "true", []string{"passed a"}},
		"TAP within a long line":      {strings.Repeat("x", maxText) + "1..1\n", "true", []string{"passed cat"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, _ := external(t, printing(t, c.text, c.then))
			results, err := Run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			got := details(results.Suites[0])
			for i := range got { // what the command itself has said last is another test's
				got[i], _, _ = strings.Cut(got[i], ": TAP version")
				if strings.Contains(got[i], "exited with") || strings.Contains(got[i], "by signal") {
					head, rest, _ := strings.Cut(got[i], ": ")
					rest, _, _ = strings.Cut(rest, ": ")
					got[i] = head + ": " + rest
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			bad := strings.Contains(strings.Join(got, "\n"), "failed ")
			if results.Failed() != bad {
				t.Errorf("failed: %t, and its cases say %t", results.Failed(), bad)
			}
		})
	}
}

// details are what cases say: status, name, error, reason and place.
func details(s SuiteResult) []string {
	var all []string
	for _, c := range s.Cases {
		text := string(c.Status) + " " + c.Name
		if c.Error != "" {
			text += ": " + c.Error
		}
		if c.Reason != "" {
			text += " (" + c.Reason + ")"
		}
		if c.File != "" {
			text += " (" + c.File + ":" + strconv.Itoa(c.Line) + ")"
		}
		all = append(all, text)
	}
	return all
}

// A form that was named is not looked for elsewhere.
func TestNamedForms(t *testing.T) {
	const tap = "1..1\nok 1 a\n"
	for name, c := range map[string]struct {
		results, command string
		want             []string
	}{
		"the exit code alone":  {ByCommand, printing(t, "1..2\nnot ok 1\n", "true"), []string{"passed cat"}},
		"TAP, and none came":   {ByTAP, "true", []string{"failed true: its output ends without a plan: it is cut off"}},
		"JUnit, and none came": {ByJUnit, printing(t, tap, "true"), []string{"failed cat: its results are to be read of JUnit files, and there are none"}},
		"Go tests, none came":  {ByGoTest, printing(t, tap, "true"), []string{"failed cat: its output ends without PASS or FAIL: it crashed, or its output is cut off"}},
		"TAP, not JUnit":       {ByTAP, printing(t, tap, `echo "<testsuite><testcase name='b'/></testsuite>" >$ARTIFACTS/x.xml`), []string{"passed a"}},
	} {
		t.Run(name, func(t *testing.T) {
			o, _ := external(t, c.command)
			o.Suites[0].Results = c.results
			results, err := Run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, details(results.Suites[0])); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// What fails is run again, and what passes then is flaky: neither passed nor failed.
func TestRetries(t *testing.T) {
	again := func(first, later string) string { // prints one text at first, another one later
		return "if mkdir " + t.TempDir() + "/once 2>/dev/null; then " + first + "; else " + later + "; fi"
	}
	tap := func(lines string) string { return "printf '" + lines + "'" }
	for name, c := range map[string]struct {
		command string
		retries int
		want    []string
		flaky   int
		failed  bool
	}{
		"not allowed":          {again("exit 1", "true"), 0, []string{"failed if: exited with 1"}, 0, true},
		"the command":          {again("exit 1", "true"), 1, []string{"flaky if: exited with 1 (it failed, and passed when it was run again (attempt 2))"}, 1, false},
		"always":               {"exit 1", 2, []string{"failed exit: exited with 1"}, 0, true},
		"a case":               {again(tap(`1..2\nok 1 a\nnot ok 2 b\n`), tap(`1..2\nok 1 a\nok 2 b\n`)), 3, []string{"passed a", "flaky b: not ok 2 (it failed, and passed when it was run again (attempt 2))"}, 1, false},
		"another case":         {again(tap(`1..2\nok 1 a\nnot ok 2 b\n`), tap(`1..2\nnot ok 1 a\nok 2 b\n`)), 1, []string{"flaky a: not ok 1 (it passed, and failed when the suite was run again (attempt 2))", "flaky b: not ok 2 (it failed, and passed when it was run again (attempt 2))"}, 2, false},
		"a case that is gone":  {again(tap(`1..2\nok 1 a\nnot ok 2 b\n`), tap(`1..1\nok 1 a\n`)), 1, []string{"passed a", "failed b: not ok 2"}, 0, true},
		"one name twice":       {again(tap(`1..2\nok 1 a\nnot ok 2 a\n`), tap(`1..2\nnot ok 1 a\nnot ok 2 a\n`)), 1, []string{"flaky a: not ok 1 (it passed, and failed when the suite was run again (attempt 2))", "failed a: not ok 2"}, 1, true},
		"one name, other way":  {again(tap(`1..2\nnot ok 1 a\nok 2 a\n`), tap(`1..2\nok 1 a\nnot ok 2 a\n`)), 1, []string{"flaky a: not ok 1 (it failed, and passed when it was run again (attempt 2))", "flaky a: not ok 2 (it passed, and failed when the suite was run again (attempt 2))"}, 2, false},
		"skipped, then failed": {again(tap(`1..2\nnot ok 1 a\nok 2 b # SKIP\n`), tap(`1..2\nok 1 a\nnot ok 2 b\n`)), 1, []string{"flaky a: not ok 1 (it failed, and passed when it was run again (attempt 2))", "failed b: not ok 2"}, 1, true},
		"cut off, then whole":  {again(tap(`1..2\nok 1 a\n`), tap(`1..2\nok 1 a\nok 2 b\n`)), 1, []string{"passed a", "flaky if: its plan promises 2 tests, and 1 came (it was not so when the suite was run again (attempt 2))", "passed b"}, 1, false},
		"it crashes the again": {again(tap(`1..2\nok 1 a\nnot ok 2 b\n`), "exit 9"), 1, []string{"passed a", "failed b: not ok 2", "failed if: exited with 9"}, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			o, events := external(t, c.command)
			o.Suites[0].Retries = c.retries
			results, err := Run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, details(results.Suites[0])); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if results.Flaky() != c.flaky || results.Failed() != c.failed {
				t.Errorf("%d flaky, failed: %t", results.Flaky(), results.Failed())
			}
			if status := lastStatus(events); status != progress.Failed { // unless flaky ones are allowed
				t.Errorf("the suite %s", status)
			}
		})
	}
}

func lastStatus(m *progress.Memory) progress.Status {
	events := m.Events()
	return events[len(events)-1].Status
}

// Go tests that failed are run again alone.
func TestGoTestsThatFailedAreRunAgainAlone(t *testing.T) {
	dir := t.TempDir()
	script := `#!/bin/bash
echo "$@" >>` + dir + `/calls
case "$*" in
*-test.run*) printf '=== RUN   TestB\n--- PASS: TestB (0.00s)\nPASS\n' ;;
*) printf '=== RUN   TestA\n--- PASS: TestA (0.00s)\n=== RUN   TestB\n=== RUN   TestB/x\n--- FAIL: TestB (0.00s)\n    --- FAIL: TestB/x (0.00s)\nFAIL\n'; exit 1 ;;
esac
`
	if err := os.WriteFile(filepath.Join(dir, "suite.test"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	o, _ := external(t, dir+"/suite.test -test.v")
	o.Suites[0].Retries, o.Suites[0].Results = 1, ByGoTest
	results, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"passed TestA", "flaky TestB: failed (it failed, and passed when it was run again (attempt 2))", "failed TestB/x: failed",
	}
	if diff := cmp.Diff(want, details(results.Suites[0])); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	calls, err := os.ReadFile(filepath.Join(dir, "calls"))
	if diff := cmp.Diff("-test.v\n-test.v -test.run=^(TestB)$\n", string(calls)); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestChoosing(t *testing.T) {
	quote := func(words ...string) string { return "'" + strings.Join(words, " ") + "'" }
	for command, want := range map[string]string{
		"go test -json ./...":             "go test -json ./... -run='A' -skip='B'",
		"timeout 60 go test ./x":          "timeout 60 go test ./x -run='A' -skip='B'",
		"./e2e.test -test.v":              "./e2e.test -test.v -test.run='A' -test.skip='B'",
		"go test -json ./... | tee log":   "",
		"cd x && go test ./...":           "",
		"go test ./... -args -test.run=x": "", "go test ./... --args x": "", "go test ./... # all": "", "go test -failfast ./...": "",
		"make -C tests e2e": "", "./run.sh": "", "./run.sh -test.v": "./run.sh -test.v -test.run='A' -test.skip='B'",
	} {
		s := Spec{Command: command, Results: ByGoTest}
		if s.Chooses() != (want != "") {
			t.Errorf("%s: chooses: %t", command, s.Chooses())
		}
		if got := s.choosing("A", "B", quote); want != "" && got != want {
			t.Errorf("%s: %s", command, got)
		}
	}
	o, _ := external(t, "./e2e.test")
	o.Run = "A"
	results, err := Run(t.Context(), o)
	if err != nil || !results.Failed() || !strings.Contains(results.Suites[0].Cases[0].Error, "cannot be chosen") {
		t.Errorf("%+v %v", results, err)
	}
}

// What is in quarantine is told and does not decide, until its time is up.
func TestQuarantine(t *testing.T) {
	tap := printing(t, "1..3\nok 1 good\nnot ok 2 bad one\nnot ok 3 worse\n", "exit 1")
	day := 24 * time.Hour
	for name, c := range map[string]struct {
		list   []Quarantine
		want   []string
		failed bool
	}{
		"all": {
			[]Quarantine{{Case: "bad*", Reason: "slow disk"}, {Suite: "cat", Case: "worse", Reason: "#12", Until: time.Now().Add(3 * day)}},
			[]string{"passed good", "quarantined bad one: not ok 2 (slow disk)", "quarantined worse: not ok 3 (#12 (until " + time.Now().Add(2*day).Format(time.DateOnly) + "))"},
			false,
		},
		"one":                            {[]Quarantine{{Case: "worse", Reason: "#12"}}, []string{"passed good", "failed bad one: not ok 2", "quarantined worse: not ok 3 (#12)"}, true},
		"a pattern over all of the name": {[]Quarantine{{Case: "*o*", Reason: "x"}}, []string{"passed good", "quarantined bad one: not ok 2 (x)", "quarantined worse: not ok 3 (x)"}, false},
		"another suite":                  {[]Quarantine{{Suite: "smoke", Case: "*", Reason: "x"}}, []string{"passed good", "failed bad one: not ok 2", "failed worse: not ok 3"}, true},
		"over":                           {[]Quarantine{{Case: "*", Reason: "x", Until: time.Now().Add(-time.Minute)}}, []string{"passed good", "failed bad one: not ok 2 (its quarantine has ended: x)", "failed worse: not ok 3 (its quarantine has ended: x)"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			o, _ := external(t, tap)
			o.Quarantine = c.list
			results, err := Run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, details(results.Suites[0])); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if results.Failed() != c.failed {
				t.Errorf("failed: %t", results.Failed())
			}
		})
	}
}

// No quarantine excuses a suite that crashed, was cut off, took too long, left what cannot be read, or ran nothing.
func TestQuarantineExcusesCasesAlone(t *testing.T) {
	for name, command := range map[string]string{
		"odd code":   "printf '1..1\\nnot ok 1 a\\n'; exit 137",
		"crashed":    "echo x; kill -SEGV $$",
		"cut off":    "echo 1..2; echo ok 1",
		"too long":   "exec sleep 60",
		"unread":     "echo '<testsuite><testcase' >$ARTIFACTS/x.xml",
		"ran none":   "echo '<testsuites/>' >$ARTIFACTS/x.xml",
		"miscounted": `echo '<testsuite failures="1"><testcase name="a"/></testsuite>' >$ARTIFACTS/x.xml`,
	} {
		o, _ := external(t, command)
		o.Suites[0].Timeout = 2 * time.Second
		o.Quarantine = []Quarantine{{Case: "*", Reason: "all of it"}}
		if results, err := Run(t.Context(), o); err != nil || !results.Failed() {
			t.Errorf("%s: %v, %v", name, details(results.Suites[0]), err)
		}
	}
	const sub = "=== RUN   TestP\\n=== RUN   TestP/known\\n--- FAIL: TestP (0.00s)\\n    --- FAIL: TestP/known (0.00s)\\nFAIL\\n"
	o, _ := external(t, "printf '"+sub+"'; exit 1")
	o.Quarantine = []Quarantine{{Case: "TestP/*", Reason: "known"}}
	if results, err := Run(t.Context(), o); err != nil || results.Failed() || results.Suites[0].Cases[0].Status != progress.Quarantined {
		t.Errorf("a test decides that failed only by a subtest in quarantine: %v, %v", details(results.Suites[0]), err)
	}
	o, _ = external(t, "exit 3")
	o.Quarantine = []Quarantine{{Case: "exit", Reason: "known"}}
	if results, err := Run(t.Context(), o); err != nil || results.Failed() {
		t.Errorf("an exit code is a case as any: %v, %v", details(results.Suites[0]), err)
	}
}

// A suite that the cluster lacks something for is skipped, and fails where all are required; the others run.
func TestNeeds(t *testing.T) {
	for _, required := range []bool{false, true} {
		o, _ := external(t, "true", "false-not-run")
		o.Suites[1].Needs = Needs{KVM: true}
		o.RequireAll = required
		o.Lacks = func(_ context.Context, needs Needs) (string, error) {
			if needs != (Needs{KVM: true}) {
				return "", errors.New("other needs")
			}
			return "it needs KVM", nil
		}
		results, err := Run(t.Context(), o)
		want := "skipped false-not-run (it needs KVM)"
		if required {
			want = "failed false-not-run: not run: it needs KVM"
		}
		if err != nil || details(results.Suites[1])[0] != want || results.Failed() != required {
			t.Errorf("required %t: %v, %v", required, details(results.Suites[1]), err)
		}
		o.Suites = o.Suites[1:]
		if results, err = Run(t.Context(), o); err != nil || results.Failed() != required {
			t.Errorf("alone, required %t: failed %t, %v", required, results.Failed(), err)
		}
	}
}

// A suite has its own time, after which the next one runs.
func TestTimeoutOfASuite(t *testing.T) {
	o, _ := external(t, "exec sleep 60", "true")
	o.Suites[0].Timeout = 50 * time.Millisecond
	results, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"failed sleep: suite sleep: its time was up after 50ms"}
	if diff := cmp.Diff(want, details(results.Suites[0])); diff != "" || details(results.Suites[1])[0] != "passed true" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A suite's own directory and variables are not the next one's.
func TestOwnOfASuite(t *testing.T) {
	o, events := external(t, "echo $PWD $MINE $WORD", "echo $PWD $MINE $WORD")
	other := t.TempDir()
	o.Suites[0].Dir, o.Suites[0].Env = other, []string{"WORD=hello", "MINE"}
	if _, err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{other + " yes hello", o.Dir}, output(events)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Whatever a suite prints, nothing but its own words makes it pass.
func FuzzOutput(f *testing.F) {
	f.Add("1..1\nok 1\n")
	f.Add("TAP version 14\n    1..1\n    not ok 1 - x # TODO\nok 1 - y # SKIP\n1..1\n")
	f.Add("=== RUN   TestA\n--- PASS: TestA (0.00s)\nPASS\n")
	f.Fuzz(func(t *testing.T, text string) {
		var tests outputTests
		for rest := text; rest != ""; {
			end := strings.IndexByte(rest, '\n') + 1
			if end == 0 {
				end = len(rest)
			}
			tests.take(rest[:end])
			rest = rest[end:]
		}
		form := tests.form()
		cases := tests.finish(t.Context(), form, "suite")
		for _, c := range cases {
			if c.Name == "" || c.Status == "" {
				t.Errorf("%q: a case without a name or a status: %+v", text, c)
			}
		}
		failing := form == ByTAP && strings.Contains(text, "\nBail out!")
		if failing && !strings.Contains(strings.Join(details(SuiteResult{Cases: cases}), "\n"), "failed") {
			t.Errorf("%q bails out, and passes", text)
		}
	})
}

// Of smoke, what failed is run again alone.
func TestSmokeIsRunAgain(t *testing.T) {
	o, events := external(t)
	o.Suites = []Spec{{Command: Smoke, Retries: 1}}
	o.Run = "^(health|peers)/"
	asked := 0
	o.Health = func(context.Context) []NodeHealth {
		if asked++; asked == 1 {
			return []NodeHealth{{Node: "ci-1"}, {Node: "ci-2", Health: errors.New("no answer")}}
		}
		return []NodeHealth{{Node: "ci-1", Peers: errors.New("not asked for")}, {Node: "ci-2"}}
	}
	results, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"passed health/ci-1", "flaky health/ci-2: no answer (it failed, and passed when it was run again (attempt 2))",
		"passed peers/ci-1", "passed peers/ci-2",
	}
	if diff := cmp.Diff(want, details(results.Suites[0])); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	told := 0
	for _, e := range events.Events() {
		if e.Kind == progress.Case {
			told++
		}
	}
	if told != len(want) {
		t.Errorf("%d cases were told", told)
	}
}

// A line of 50 MB is neither kept in memory nor taken for a result; what follows it is.
func TestALineOfFiftyMegabytes(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	o, events := external(t, "head -c 50000000 /dev/zero | tr '\\0' x; echo 1..9; printf '1..1\\nok 1 - after\\n'")
	results, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"passed after"}, details(results.Suites[0])); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	kept := 0
	for _, line := range output(events) {
		kept += len(line)
	}
	if kept > 4<<20 {
		t.Errorf("%d bytes of it are kept in memory", kept)
	}
}

// What a suite's own variables hide is hidden everywhere.
func TestVariablesOfASuiteAreMasked(t *testing.T) {
	o, events := external(t, "echo $API_KEY; echo $API_KEY >$ARTIFACTS/left")
	o.Suites[0].Env = []string{"API_KEY=supersecretvalue123"}
	if _, err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadFile(filepath.Join(o.ArtifactsDir, "echo", "left"))
	if said := strings.Join(output(events), "") + string(left); err != nil || strings.Contains(said, "supersecret") {
		t.Errorf("%q, %v", said, err)
	}
}

// Cases of smoke, which are told as they end, are excused as those of other suites.
func TestQuarantineOfSmoke(t *testing.T) {
	o, _ := external(t)
	o.Suites, o.Run = []Spec{{Command: Smoke}}, "^health/"
	o.Health = func(context.Context) []NodeHealth {
		return []NodeHealth{{Node: "ci-1"}, {Node: "ci-2", Health: errors.New("no answer")}}
	}
	o.Quarantine = []Quarantine{{Suite: Smoke, Case: "health/ci-2", Reason: "#7"}}
	results, err := Run(t.Context(), o)
	if err != nil || results.Failed() {
		t.Fatalf("%+v, %v", results, err)
	}
	want := []string{"passed health/ci-1", "quarantined health/ci-2: no answer (#7)"}
	if diff := cmp.Diff(want, details(results.Suites[0])); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
