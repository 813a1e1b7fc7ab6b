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
	"path/filepath"
	"slices"
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
	if !bytes.Contains(data, []byte(`<failure message="ci-2: gone" type="node-lost">`)) {
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
			{Kind: progress.Case, Suite: message, Name: name, Status: progress.Status(message)},
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

// junitAttributes and junitChildren are what the schemas of Jenkins's plugins have in common, children in their order.
func junitAttributes() map[string]string {
	return map[string]string{
		"testsuites": "name time tests failures errors",
		"testsuite":  "name tests failures errors skipped time timestamp hostname id package",
		"properties": "", "property": "name value", "testcase": "name classname time", "failure": "message type",
		"error": "message type", "skipped": "", "system-out": "",
	}
}

func junitChildren() map[string][]string {
	return map[string][]string{
		"": {"testsuites"}, "testsuites": {"testsuite"}, "testsuite": {"properties", "testcase"},
		"properties": {"property"},
		"testcase":   {"skipped", "error", "failure", "system-out"},
	}
}

// parseXML reads JUnit as a strict reader does.
func parseXML(t *testing.T, data []byte) {
	t.Helper()
	decoder := xml.NewDecoder(bytes.NewReader(data))
	seen, open, last := map[string]bool{}, []string{""}, []int{0}
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
			place := slices.Index(junitChildren()[parent], name)
			if place < last[len(last)-1] {
				t.Errorf("%q in %q is not taken there\n%s", name, parent, data)
			}
			last[len(last)-1] = place
			for _, a := range token.Attr {
				if !slices.Contains(strings.Fields(junitAttributes()[name]), a.Name.Local) {
					t.Errorf("the attribute %s of %s is not taken\n%s", a.Name.Local, name, data)
				}
			}
			seen[name], open, last = true, append(open, name), append(last, 0)
		case xml.EndElement:
			open, last = open[:len(open)-1], last[:len(last)-1]
		}
	}
	for _, want := range []string{"testsuites", "testsuite", "testcase"} {
		if !seen[want] {
			t.Errorf("no %s in %v", want, seen)
		}
	}
}
