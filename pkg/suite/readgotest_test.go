package suite

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"hive-test/pkg/progress"
)

func recorded(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "gotest", name+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The files are what `go test -json` has printed of packages that are good, bad, broken, ...
func TestGoTestEvents(t *testing.T) {
	const at = "example.net/tiny/"
	for name, want := range map[string][]Case{
		"good": {
			{Name: at + "good/TestOne/a_b", Status: progress.Passed},
			{Name: at + "good/TestOne/c/d", Status: progress.Passed},
			{Name: at + "good/TestOne", Status: progress.Passed},
			{Name: at + "good/TestLater", Status: progress.Skipped, Reason: "not now"},
		},
		"bad": {
			{Name: at + "bad/TestTable/right", Status: progress.Passed},
			{Name: at + "bad/TestTable/wrong", Status: progress.Failed, Error: "asked node 2\n    bad_test.go:12: got 1, want 2", Output: "=== RUN   TestTable/wrong\nasked node 2\n    bad_test.go:12: got 1, want 2\n--- FAIL: TestTable/wrong (0.00s)\n"},
			{
				Name: at + "bad/TestTable", Status: progress.Failed, Error: "failed",
				Output: "=== RUN   TestTable\n--- FAIL: TestTable (0.00s)\n",
			},
			{Name: at + "bad/TestFine", Status: progress.Passed},
		},
		"broken": {{
			Name: at + "broken", Status: progress.Failed,
			Error: "# example.net/tiny/broken [example.net/tiny/broken.test]\nbroken/broken_test.go:5:32: " +
				"undefined: undefined",
			Output: "# example.net/tiny/broken [example.net/tiny/broken.test]\nbroken/broken_test.go:5:32: " +
				"undefined: undefined\nFAIL\texample.net/tiny/broken [build failed]\n",
		}},
		"ends": {{
			Name: at + "ends", Status: progress.Failed, Seconds: 0.006,
			Error:  "the cluster is not there\nFAIL\texample.net/tiny/ends\t0.005s",
			Output: "the cluster is not there\nFAIL\texample.net/tiny/ends\t0.005s\n",
		}},
		"none": nil,
	} {
		t.Run(name, func(t *testing.T) {
			var g goTests
			for line := range strings.Lines(recorded(t, name)) {
				g.take(
					"make: something else\n  " + line + "{\"Action\": 3}\n{not json \"Action\"\n{\"Type\":\"container\",\"Action\":\"fail\"}\n",
				)
			}
			if diff := cmp.Diff(want, g.finish(t.Context()), shown()); diff != "" {
				t.Errorf("cases (-want +got):\n%s", diff)
			}
		})
	}
}

func TestGoTestThatPanicsOrIsCutOff(t *testing.T) {
	var g goTests
	g.take(recorded(t, "dies"))
	cases := g.finish(t.Context())
	if len(cases) != 3 || cases[0].Failed() || !cases[1].Failed() ||
		!strings.Contains(cases[1].Error, "panic: no such node") ||
		!strings.HasPrefix(cases[2].Error, "it ended before all of its tests had run") || !cases[2].whole {
		t.Errorf("got %+v", cases)
	}
	begun, _, _ := strings.Cut(recorded(t, "bad"), `"Action":"pass"`)
	g = goTests{}
	g.take(begun + "\n")
	var names []string
	for _, c := range g.finish(t.Context()) {
		if !c.Failed() || !strings.HasPrefix(c.Error, "it has begun and not ended") {
			t.Errorf("got %+v", c)
		}
		names = append(names, filepath.Base(c.Name))
	}
	if diff := cmp.Diff([]string{"bad", "TestTable", "right"}, names); diff != "" {
		t.Errorf("cases (-want +got):\n%s", diff)
	}
}

func TestGoTestTimesAndBareEvents(t *testing.T) {
	var g goTests
	g.take(
		`{"Action":"pass","Test":"TestX","Elapsed":1.5}` + "\n" + `{"Action":"output","Test":"TestY","Output":"` + strings.Repeat("line\\n", 5000) + `last\n"}` + "\n" + `{"Action":"fail","Test":"TestY"}` + "\n",
	)
	cases := g.finish(t.Context())
	if len(cases) != 2 || cases[0].Name != "TestX" || cases[0].Seconds != 1.5 {
		t.Fatalf("got %+v", cases)
	}
	if text := cases[1].Error; len(text) > caseOutput || !strings.HasSuffix(text, "\nlast") ||
		!strings.HasPrefix(text, "line") {
		t.Errorf("%d bytes are kept: %.40q", len(text), text)
	}
}

func TestGoTestSuites(t *testing.T) {
	dir, err := filepath.Abs(filepath.Join("testdata", "gotest"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, command string
		cases         []string
	}{
		{"exit 0 with a failure", "echo begin; cat bad.jsonl; exit 0", []string{"passed right", "failed wrong", "failed TestTable", "passed TestFine"}},
		{"exit 1 and no failure", "cat good.jsonl; exit 1", []string{"passed a_b", "passed d", "passed TestOne", "skipped TestLater", "failed cat"}},
		{"passes", "cat good.jsonl", []string{"passed a_b", "passed d", "passed TestOne", "skipped TestLater"}},
		{"JUnit wins", `cat bad.jsonl; echo '<testsuite><testcase name="ok"/></testsuite>' >$ARTIFACTS/r.xml`, []string{"passed ok"}},
		{"no tests", "cat none.jsonl", []string{"failed cat"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o, _ := external(t, c.command)
			o.Dir = dir
			results, err := Run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			var cases []string
			for _, k := range results.Suites[0].Cases {
				cases = append(cases, string(k.Status)+" "+filepath.Base(k.Name))
			}
			if diff := cmp.Diff(c.cases, cases, shown()); diff != "" {
				t.Errorf("cases (-want +got):\n%s", diff)
			}
			if failed := strings.Contains(strings.Join(cases, " "), "failed"); results.Failed() != failed {
				t.Errorf("failed: %v", results.Failed())
			}
		})
	}
}

// What chooses a case alone is told of each that did not pass, where the suite can choose.
func TestWhatChoosesACase(t *testing.T) {
	const text = "=== RUN   TestA\n--- PASS: TestA (0.00s)\n=== RUN   TestB\n=== RUN   TestB/x=1.5/(y)\n--- FAIL: TestB (0.00s)\n" +
		"    --- FAIL: TestB/x=1.5/(y) (0.00s)\n=== RUN   TestC_hush-hush\nFAIL\n"
	dir := t.TempDir()
	for name, content := range map[string]string{"text": text, "own.test": "#!/bin/sh\ncat text; exit 1\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	whole, err := filepath.Abs(filepath.Join("testdata", "gotest", "bad.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		spec Spec
		want []string
	}{
		{Spec{Command: "./own.test -test.v", Results: ByGoTest}, []string{"TestB: ^TestB$", `TestB/x=1.5/(y): ^TestB$/^x=1\.5$/^\(y\)$`}},
		{Spec{Command: "./own.test -test.v"}, nil},
		{Spec{Command: "./own.test -test.v | cat", Results: ByGoTest}, nil},
		{Spec{Command: "go() { :; } ; cat " + whole, Results: ByGoTest}, nil},
		{Spec{Command: "env -- sh -c \"cat " + whole + "\" -test.v", Results: ByGoTest}, []string{"wrong: ^TestTable$/^wrong$", "TestTable: ^TestTable$"}},
	} {
		o, events := external(t)
		o.Suites, o.Dir, o.Secrets = []Spec{c.spec}, dir, []string{"hush-hush"}
		if _, err := Run(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range events.Events() {
			if e.Kind == progress.Case && e.Run != "" {
				got = append(got, strings.TrimPrefix(e.Name, "example.net/tiny/bad/TestTable/")+": "+e.Run)
			}
		}
		for i := range got {
			got[i] = strings.TrimPrefix(got[i], "example.net/tiny/bad/")
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.spec.Command, diff)
		}
	}
}

// shown compares what cases tell.
func shown() cmp.Option { return cmpopts.IgnoreUnexported(Case{}) }
