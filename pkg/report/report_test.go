package report_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"hive-test/pkg/progress"
	"hive-test/pkg/report"
)

var update = flag.Bool("update", false, "rewrite golden files")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got), rewrite with -update:\n%s", path, diff)
	}
}

// recorded reads a run that the renderers' tests recorded: a report can be made of events.jsonl alone.
func recorded(t testing.TB, name string) []progress.Event {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "progress", "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	events, err := progress.ReadEvents(f)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

func TestGoldens(t *testing.T) {
	for dir, source := range map[string]string{"failed": "events.jsonl", "cases": "events-cases.jsonl"} {
		t.Run(dir, func(t *testing.T) {
			r := report.Build(recorded(t, source))
			for name, data := range report.Files(r) {
				golden(t, filepath.Join(dir, name), data)
				if name == report.JUnitFile {
					parseXML(t, data)
				}
			}
		})
	}
}

func TestTheJSONReportHasTheDocumentedShape(t *testing.T) {
	var got map[string]any
	if err := json.Unmarshal(report.JSON(report.Build(nil)), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"schema": 1.0, "cluster": "", "verb": "", "result": "passed", "exit_code": 0.0, "run_dir": "", "seconds": 0.0,
		"phases": []any{}, "cases": []any{}, "errors": []any{}, "warnings": []any{},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAKilledRunIsInterrupted(t *testing.T) {
	events := recorded(t, "events.jsonl")
	r := report.Build(events[:17]) // killed while nodes install
	if r.Result != progress.Interrupted || r.ExitCode != 130 || r.Seconds != 21 {
		t.Errorf("got %s, exit code %d, %v s", r.Result, r.ExitCode, r.Seconds)
	}
	last := r.Phases[len(r.Phases)-1]
	if last.Name != "configure" || last.Status != progress.Interrupted || last.Steps[0].Status != progress.Interrupted {
		t.Errorf("got %+v", last)
	}
}

// onNodes is an error of several nodes.
type onNodes []progress.Reason

func (e onNodes) Error() string              { return fmt.Sprint([]progress.Reason(e)) }
func (e onNodes) Summary() string            { return "" }
func (e onNodes) Reasons() []progress.Reason { return e }

func TestAnErrorIsToldOnceWithItsNodeAndHint(t *testing.T) {
	both := onNodes{{Node: "ci-2", Cause: "409"}, {Node: "ci-3", Cause: "409"}}
	hinted := progress.WithHint(fmt.Errorf("join: %w", both), "configure --force")
	r := report.Build([]progress.Event{
		{Kind: progress.PhaseStart, Phase: "configure"},
		{Kind: progress.StepEnd, Step: "join", Node: "ci-2", Status: progress.Failed, Error: "409"},
		{Kind: progress.StepEnd, Step: "join", Node: "ci-3", Status: progress.Failed, Error: "409"},
		progress.Event{Kind: progress.StepEnd, Step: "join", Status: progress.Failed}.WithError(both),
		progress.Event{Kind: progress.PhaseEnd, Phase: "configure", Status: progress.Failed}.WithError(hinted),
		progress.Event{Kind: progress.RunEnd, Status: progress.Failed}.WithError(fmt.Errorf("configure: %w", both)),
	})
	want := []report.Problem{
		{Step: "join", Node: "ci-2", Message: "409"},
		{Step: "join", Node: "ci-3", Message: "409", Hint: "configure --force"},
	}
	if diff := cmp.Diff(want, r.Errors); diff != "" {
		t.Error(diff)
	}
	if len(r.Phases) != 1 || len(r.Phases[0].Steps) != 3 {
		t.Errorf("got %+v", r.Phases)
	}
}

func TestThePhaseThatFailedHasItsProblem(t *testing.T) {
	err := progress.WithCode(progress.WithNodes(errors.New("\x1b[31mci-2: gone"), "ci-2"), "node-lost")
	r := report.Build([]progress.Event{
		{Kind: progress.PhaseStart, Phase: "test"},
		progress.Event{Kind: progress.PhaseEnd, Phase: "test", Status: progress.Failed}.WithError(err),
	})
	want := &progress.Problem{
		Code: "node-lost", Nodes: []string{"ci-2"}, Cause: "ci-2: gone",
		Reasons: []progress.Reason{{Cause: "ci-2: gone"}},
	}
	if diff := cmp.Diff(want, r.Phases[0].Problem); diff != "" {
		t.Error(diff)
	}
	data := report.JUnit(r)
	parseXML(t, data)
	if !bytes.Contains(data, []byte(`<failure message="test: ci-2: gone" type="node-lost">`)) {
		t.Errorf("%s", data)
	}
}

func TestNumbersThatJSONLacksDoNotLoseTheReport(t *testing.T) {
	r := report.Build([]progress.Event{
		{Kind: progress.PhaseEnd, Phase: "up", Seconds: math.Inf(1)},
		{Kind: progress.RunEnd, Seconds: math.NaN()},
	})
	var got report.Report
	if err := json.Unmarshal(report.JSON(r), &got); err != nil || got.Phases[0].Name != "up" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestMarkdownKeepsMarkupOfOthersOut(t *testing.T) {
	r := report.Build([]progress.Event{
		{Kind: progress.PhaseStart, Phase: "test"},
		{Kind: progress.Case, Suite: "a|b", Name: "<img src=x> @everyone [x](y)", Status: progress.Failed, Error: "```\nbreak out\n```"},
		{Kind: progress.PhaseEnd, Phase: "test", Status: progress.Failed},
	})
	got := string(report.Markdown(r))
	for _, bad := range []string{"<img", "@everyone", "[x](y)", "| a|b"} {
		if strings.Contains(got, bad) {
			t.Errorf("%q is in\n%s", bad, got)
		}
	}
	if !strings.Contains(got, "````text\n```\nbreak out\n```\n````\n") {
		t.Errorf("the fence breaks:\n%s", got)
	}
}

func FuzzReportsAreWellFormed(f *testing.F) {
	f.Add("gateway", "boom")
	f.Add("\x1b[31mred\x1b[0m", "]]>\x00<![CDATA[")
	f.Add("\xff\xfe", "&<>\"'\uFFFE\u0085")
	f.Add("a|b\n`c`", "````\n]]>")
	f.Fuzz(func(t *testing.T, name, message string) {
		events := []progress.Event{
			{Kind: progress.RunStart, Cluster: name, Verb: name, RunDir: name},
			{Kind: progress.PhaseStart, Phase: name},
			{Kind: progress.StepStart, Phase: name, Step: name, Node: name},
			{Kind: progress.StepEnd, Phase: name, Step: name, Node: name, Status: progress.Failed, Error: message, Hint: message},
			{Kind: progress.Case, Suite: name, Name: name, Node: name, Status: progress.Failed, Error: message, Message: message},
			{Kind: progress.Case, Suite: message, Name: name, Status: progress.Skipped, Message: message},
			{Kind: progress.Case, Suite: name, Name: message, Status: progress.Flaky, Message: name, Error: message},
			{Kind: progress.Case, Suite: name, Name: message, Status: progress.Quarantined, Message: name, Error: message},
			{Kind: progress.Case, Suite: message, Name: name, Status: progress.Status(message), Output: message},
			{Kind: progress.Warning, Message: message, Hint: name},
			{Kind: progress.Note, Step: name, Message: message},
			{Kind: progress.PhaseEnd, Phase: name, Status: progress.Interrupted, Error: message},
		}
		for file, data := range report.Files(report.Build(events)) {
			if !utf8.Valid(data) || bytes.ContainsAny(data, "\x00\x1b") {
				t.Errorf("%s has bytes that no reader takes", file)
			}
			switch file {
			case report.JUnitFile:
				parseXML(t, data)
			case report.JSONFile:
				if !json.Valid(data) {
					t.Errorf("not JSON: %s", data)
				}
			case report.HTMLFile:
				if !bytes.HasSuffix(data, []byte("</html>\n")) {
					t.Errorf("the page is cut short: %s", data)
				}
			}
		}
	})
}

// Whatever suites print, the file is JUnit, and counts what ran. Other programs' readers can be given it, too: it is
// written to the directory that -samples names.
func TestJUnitOfWhateverIsPrinted(t *testing.T) {
	statuses := progress.Statuses()
	r := report.Build(oddCases(1000*len(statuses), statuses...))
	data := report.JUnit(r)
	parseXML(t, data)
	for element, want := range map[string]int{"<failure ": 1000, "<error ": 1000, "<flakyFailure ": 1000, "<skipped>": 2000} {
		if got := bytes.Count(data, []byte(element)); got != want {
			t.Errorf("%d of %s, want %d", got, element, want)
		}
	}
	if dir := *samples; dir != "" {
		if err := os.WriteFile(filepath.Join(dir, "odd.xml"), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	summary := report.GitHub(r)
	if !utf8.Valid(summary) || len(summary) > 1<<20 {
		t.Errorf("the summary of a job has %d bytes", len(summary))
	}
	for line := range strings.Lines(string(summary)) {
		if strings.HasPrefix(strings.TrimSpace(line), "::") {
			t.Errorf("the summary has a command for the runner: %q", line)
		}
	}
}

// Where a line is not known, a file stands alone.
func TestPlacesInASummary(t *testing.T) {
	summary := string(report.GitHub(report.Build([]progress.Event{
		{Kind: progress.Case, Suite: "s", Name: "a", Status: progress.Failed, Error: "x", File: "a.js"},
		{Kind: progress.Case, Suite: "s", Name: "b", Status: progress.Failed, Error: "x", File: "b.js", Line: 3},
	})))
	if !strings.Contains(summary, "s: a (a.js)<") || !strings.Contains(summary, "s: b (b.js:3)<") {
		t.Errorf("%s", summary)
	}
}

// Of the same run on another cluster a CI system must know every case again.
func TestJUnitNamesHaveNoClusterInThem(t *testing.T) {
	of := func(suite, name, node string, status progress.Status) progress.Event {
		return progress.Event{Kind: progress.Case, Suite: suite, Name: name, Node: node, Status: status}
	}
	identities := func(cluster, other string) []string {
		r := report.Build([]progress.Event{
			{Kind: progress.RunStart, Cluster: cluster, Verb: "full"},
			of("smoke", "health/"+cluster+"-10", cluster+"-10", progress.Passed),
			of("smoke", "peers", cluster+"-2", progress.Failed),
			of("run.sh", "from "+cluster+"-1 to "+cluster+"-2", "", progress.Passed),
			of("run.sh", "of "+other, "", progress.Passed),
		})
		return junitCases(t, report.JUnit(r))
	}
	want := []string{
		"hive-test.full passed", "smoke.health/node-10 passed", "smoke.peers [node-2] failed",
		"run.sh.from node-1 to node-2 passed",
	}
	for cluster, other := range map[string]string{
		"ci-1": "xci-1-1", "a": "a1 and a-1-1 and a-01", "smoke": "smoke",
	} {
		got := identities(cluster, other)
		if diff := cmp.Diff(append(slices.Clone(want), "run.sh.of "+other+" passed"), got); diff != "" {
			t.Errorf("of cluster %s (-want +got):\n%s", cluster, diff)
		}
	}
}

// Each case that fails is one failure, and what is no case's is the run's.
func TestJUnitFailures(t *testing.T) {
	phase := func(name string, status progress.Status, text string) progress.Event {
		return progress.Event{Kind: progress.PhaseEnd, Phase: name, Status: status, Error: text}
	}
	bad := progress.Event{
		Kind: progress.Case, Suite: "s", Name: "bad", Status: progress.Failed, Error: "x", Output: "asked\n",
	}
	good := progress.Event{Kind: progress.Case, Suite: "s", Name: "good", Status: progress.Passed}
	stopped := progress.Event{Kind: progress.Case, Suite: "s", Name: "slow", Status: progress.Interrupted}
	for name, c := range map[string]struct {
		events []progress.Event
		want   []string
	}{
		"passed": {
			[]progress.Event{phase("up", progress.Passed, ""), good},
			[]string{"hive-test.full passed", "s.good passed"},
		},
		"no suite": {
			[]progress.Event{phase("up", progress.Passed, "")}, []string{"hive-test.full passed"},
		},
		"a case": {
			[]progress.Event{bad, good, phase("test", progress.Failed, "1 of 2")},
			[]string{"hive-test.full passed", "s.bad failed", "s.good passed"},
		},
		"a case and down": {
			[]progress.Event{
				bad, phase("test", progress.Failed, "1 of 1"), phase("down", progress.Failed, "VM 100 is left"),
			},
			[]string{"hive-test.full failed: down: VM 100 is left", "s.bad failed"},
		},
		"test without a case": {
			[]progress.Event{phase("test", progress.Failed, "no test ran")},
			[]string{"hive-test.full failed: test: no test ran"},
		},
		"two phases": {
			[]progress.Event{phase("configure", progress.Failed, "join"), phase("down", progress.Failed, "left")},
			[]string{"hive-test.full failed: configure: join"},
		},
		"before any phase": {
			[]progress.Event{{Kind: progress.RunEnd, Status: progress.Failed, Error: "no such image"}},
			[]string{"hive-test.full failed: no such image"},
		},
		"interrupted": {
			[]progress.Event{stopped, phase("test", progress.Interrupted, "INT")},
			[]string{"hive-test.full error: test: INT", "s.slow error: interrupted"},
		},
		"killed": {
			[]progress.Event{{Kind: progress.PhaseStart, Phase: "up"}},
			[]string{"hive-test.full error: up: interrupted"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			events := append([]progress.Event{{Kind: progress.RunStart, Cluster: "ci", Verb: "full"}}, c.events...)
			data := report.JUnit(report.Build(events))
			parseXML(t, data)
			got := junitCases(t, data)
			for i := range got {
				if i >= len(c.want) || !strings.HasPrefix(c.want[i], got[i]) {
					t.Fatalf("got %q, want %q", got, c.want)
				}
				_, message, found := strings.Cut(c.want[i], ": ")
				if found && !bytes.Contains(data, []byte(`message="`+message+`"`)) {
					t.Errorf("no message %q in\n%s", message, data)
				}
			}
			if len(got) != len(c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if slices.Contains(got, "s.bad failed") && !bytes.Contains(data, []byte("<system-out>asked</system-out>")) {
				t.Errorf("the output of the case is not in\n%s", data)
			}
		})
	}
}

// junitCases are the cases as CI systems tell them apart, and how each ended.
func junitCases(t *testing.T, data []byte) []string {
	t.Helper()
	var read struct {
		Suites []struct {
			Cases []struct {
				Class   string    `xml:"classname,attr"`
				Name    string    `xml:"name,attr"`
				Failure *struct{} `xml:"failure"`
				Error   *struct{} `xml:"error"`
				Skipped *struct{} `xml:"skipped"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(data, &read); err != nil {
		t.Fatal(err)
	}
	var cases []string
	for _, s := range read.Suites {
		for _, c := range s.Cases {
			word := " passed"
			switch {
			case c.Failure != nil:
				word = " failed"
			case c.Error != nil:
				word = " error"
			case c.Skipped != nil:
				word = " skipped"
			}
			cases = append(cases, c.Class+"."+c.Name+word)
		}
	}
	return cases
}

// TestJUnitByTheSchemaOfJenkins holds what parseXML holds by the schema itself, where one is named: junit-10.xsd of
// Jenkins's xUnit plugin.
func TestJUnitByTheSchemaOfJenkins(t *testing.T) {
	schema := os.Getenv("HIVE_TEST_JUNIT_XSD")
	if schema == "" {
		t.Skip("HIVE_TEST_JUNIT_XSD names no schema, such as junit-10.xsd of Jenkins's xUnit plugin")
	}
	for _, dir := range []string{"cases", "failed"} {
		file := filepath.Join("testdata", dir, report.JUnitFile)
		out, err := exec.Command("xmllint", "--noout", "--schema", schema, file).CombinedOutput()
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
}

// junitRule is what the schemas of Jenkins's plugins have in common for one element.
type junitRule struct {
	needs, takes string   // attributes
	children     []string // in their order
}

func junitRules() map[string]junitRule {
	return map[string]junitRule{
		"":           {children: []string{"testsuites"}},
		"testsuites": {takes: "name time tests failures errors", children: []string{"testsuite"}},
		"testsuite": {
			needs: "name tests failures errors", takes: "skipped time timestamp hostname id package",
			children: []string{"properties", "testcase"},
		},
		"properties": {children: []string{"property"}},
		"property":   {needs: "name value"},
		"testcase": {
			needs: "name", takes: "classname time", children: []string{"skipped", "error", "failure", "flakyFailure", "system-out"},
		},
		"failure": {takes: "message type"}, "error": {takes: "message type"}, "flakyFailure": {needs: "type", takes: "message"}, "skipped": {}, "system-out": {},
	}
}

// junitTime is a number of seconds as those schemas take it.
var junitTime = regexp.MustCompile(`^[0-9]+\.[0-9]{3}$`)

// parseXML reads JUnit as a strict reader does.
func parseXML(t *testing.T, data []byte) {
	t.Helper()
	decoder := xml.NewDecoder(bytes.NewReader(data))
	open, last := []string{""}, []int{0}
	found := map[string]int{}     // how many elements there are of each name
	says := map[string][]string{} // what testsuites and each testsuite say of their numbers
	for {
		token, err := decoder.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("not XML: %v\n%s", err, data)
		}
		switch token := token.(type) {
		case xml.StartElement:
			name, parent := token.Name.Local, open[len(open)-1]
			place := slices.Index(junitRules()[parent].children, name)
			if place < last[len(last)-1] {
				t.Errorf("%q in %q is not taken there\n%s", name, parent, data)
			}
			last[len(last)-1] = place
			checkAttributes(t, token)
			for _, a := range token.Attr {
				if name == "testsuites" || name == "testsuite" {
					says[name+" "+a.Name.Local] = append(says[name+" "+a.Name.Local], a.Value)
				}
			}
			found[name]++
			open, last = append(open, name), append(last, 0)
		case xml.EndElement:
			open, last = open[:len(open)-1], last[:len(last)-1]
		}
	}
	for attribute, element := range map[string]string{"tests": "testcase", "failures": "failure", "errors": "error"} {
		for _, of := range []string{"testsuites", "testsuite"} {
			sum := 0
			for _, text := range says[of+" "+attribute] {
				n, err := strconv.Atoi(text)
				if err != nil {
					t.Errorf("%s of %s is %q", attribute, of, text)
				}
				sum += n
			}
			if sum != found[element] {
				t.Errorf("%s say %s=%d, and there are %d\n%s", of, attribute, sum, found[element], data)
			}
		}
	}
	if found["testsuites"] != 1 || found["testcase"] == 0 {
		t.Errorf("got %v", found)
	}
}

func checkAttributes(t *testing.T, element xml.StartElement) {
	t.Helper()
	rule, given := junitRules()[element.Name.Local], map[string]string{}
	needs := strings.Fields(rule.needs)
	for _, a := range element.Attr {
		name := a.Name.Local
		if !slices.Contains(append(strings.Fields(rule.takes), needs...), name) {
			t.Errorf("the attribute %s of %s is not taken", name, element.Name.Local)
		}
		if _, twice := given[name]; twice {
			t.Errorf("the attribute %s of %s is there twice", name, element.Name.Local)
		}
		given[name] = a.Value
	}
	for _, name := range needs {
		if _, found := given[name]; !found {
			t.Errorf("%s has no attribute %s", element.Name.Local, name)
		}
	}
	if seconds, found := given["time"]; found && !junitTime.MatchString(seconds) {
		t.Errorf("the time of %s is %q", element.Name.Local, seconds)
	}
}

func TestCasesStandInTheOrderOfTheirSuites(t *testing.T) {
	ended := func(suite, name string, place int) progress.Event {
		return progress.Event{Kind: progress.Case, Suite: suite, Name: name, Status: progress.Passed, Place: place}
	}
	built := report.Build([]progress.Event{
		ended("smoke", "gateway/ci-3", 8), ended("smoke", "health/ci-1", 0), ended("smoke", "gateway/ci-1", 6),
		ended("e2e", "b", 0), ended("e2e", "a", 0),
	})
	var names []string
	for _, c := range built.Cases {
		names = append(names, c.Name)
	}
	if want := []string{"health/ci-1", "gateway/ci-1", "gateway/ci-3", "b", "a"}; !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
}
