package engine

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hive-test/pkg/config"
	"hive-test/pkg/progress"
	"hive-test/pkg/report"
	"hive-test/pkg/state"
)

var update = flag.Bool("update", false, "write the golden files anew")

// caseOf is a case of a suite called s.
func caseOf(name string, status progress.Status, seconds float64) report.Case {
	return report.Case{Suite: "s", Name: name, Status: status, Seconds: seconds}
}

// tested is the report of a run with cases.
func tested(cases ...report.Case) report.Report {
	return report.Report{
		Schema: report.Schema, Verb: "test", Cluster: "ci-1", Result: progress.Passed, Cases: cases,
		Flags: []string{"--suite"},
	}
}

// took are reports of runs of one case that passed after so many seconds.
func took(seconds ...float64) []report.Report {
	runs := make([]report.Report, len(seconds))
	for i, s := range seconds {
		runs[i] = tested(caseOf("x", progress.Passed, s))
	}
	return runs
}

// A case differs by what became of it, and by its time only where that is more than noise.
func TestCompareCases(t *testing.T) {
	const (
		p, f, fl  = progress.Passed, progress.Failed, progress.Flaky
		q, sk, in = progress.Quarantined, progress.Skipped, progress.Interrupted
	)
	for _, tc := range []struct {
		name          string
		before, after report.Case
		earlier       []report.Report
		want          ChangeKind
	}{
		{"passed twice", caseOf("x", p, 1), caseOf("x", p, 1), nil, ""},
		{"skipped twice", caseOf("x", sk, 0), caseOf("x", sk, 9), nil, ""},
		{"flaky twice", caseOf("x", fl, 1), caseOf("x", fl, 9), nil, ""},
		{"fails", caseOf("x", p, 1), caseOf("x", f, 1), nil, NewlyFailing},
		{"was flaky and fails", caseOf("x", fl, 1), caseOf("x", f, 1), nil, NewlyFailing},
		{"was excused and fails", caseOf("x", q, 1), caseOf("x", f, 1), nil, NewlyFailing},
		{"was skipped and fails", caseOf("x", sk, 1), caseOf("x", f, 1), nil, NewlyFailing},
		{"is cut off", caseOf("x", p, 1), caseOf("x", in, 1), nil, NewlyFailing},
		{"a status of later", caseOf("x", p, 1), caseOf("x", "odd", 1), nil, NewlyFailing},
		{"still fails", caseOf("x", f, 1), caseOf("x", f, 9), nil, StillFailing},
		{"failed and is cut off", caseOf("x", f, 1), caseOf("x", in, 1), nil, StillFailing},
		{"fixed", caseOf("x", f, 1), caseOf("x", p, 9), nil, Fixed},
		{"not flaky any more", caseOf("x", fl, 1), caseOf("x", p, 1), nil, Fixed},
		{"flaky", caseOf("x", p, 1), caseOf("x", fl, 1), nil, NowFlaky},
		{"failed and is flaky", caseOf("x", f, 1), caseOf("x", fl, 1), nil, NowFlaky},
		{"a failure is skipped, which is no mending", caseOf("x", f, 1), caseOf("x", sk, 0), nil, NowSkipped},
		{"a failure is excused, which is no mending", caseOf("x", f, 1), caseOf("x", q, 1), nil, NowExcused},
		{"runs again", caseOf("x", sk, 0), caseOf("x", p, 9), nil, NewlyRun},

		{"slower", caseOf("x", p, 2), caseOf("x", p, 3.1), nil, Slower},
		{"quicker", caseOf("x", p, 9), caseOf("x", p, 1), nil, ""},
		{"1.5 times as long is not more than that", caseOf("x", p, 4), caseOf("x", p, 6), nil, ""},
		{"five times as long, and a second at most", caseOf("x", p, 0.25), caseOf("x", p, 1.25), nil, ""},
		{"a minute longer, and not 1.5 times", caseOf("x", p, 200), caseOf("x", p, 260), nil, ""},
		{"slower than two runs say nothing of", caseOf("x", p, 2), caseOf("x", p, 4), took(5, 5), Slower},
		{"as slow as one of three was", caseOf("x", p, 2), caseOf("x", p, 4), took(2, 4, 2), ""},
		{"slower than each of three", caseOf("x", p, 2), caseOf("x", p, 4.1), took(2, 4, 2), Slower},
		{
			"of three runs one has failed it", caseOf("x", p, 2), caseOf("x", p, 4),
			append(took(9, 9), tested(caseOf("x", f, 9))), Slower,
		},
	} {
		diff := compareRuns(tested(tc.before), tested(tc.after), tc.earlier)
		var got ChangeKind
		if len(diff.Cases) > 0 {
			got = diff.Cases[0].Change
		}
		if got != tc.want || len(diff.Cases) > 1 {
			t.Errorf("%s: %v, want %q", tc.name, diff.Cases, tc.want)
		}
	}
}

// Cases of two clusters are the same ones, those that are alike are told apart, and what is worst comes first.
func TestCompareRuns(t *testing.T) {
	before, after := tested(
		caseOf("gone", progress.Passed, 1), caseOf("fixed", progress.Failed, 1),
		report.Case{Suite: "smoke", Name: "health/ci-1-2", Node: "ci-1-2", Status: progress.Passed, Seconds: 1},
		caseOf("twice", progress.Passed, 1), caseOf("twice", progress.Failed, 1),
	), tested(
		caseOf("new", progress.Passed, 1), caseOf("new-and-bad", progress.Failed, 1), caseOf("fixed", progress.Passed, 1),
		report.Case{
			Suite: "smoke", Name: "health/ci-2-2", Node: "ci-2-2", Status: progress.Failed, Seconds: 1,
			Error: "no \x1b[31manswer\nfor 5s",
		},
		caseOf("twice", progress.Passed, 1), caseOf("twice", progress.Passed, 1),
	)
	after.Cluster = "ci-2"
	before.Phases = []report.Phase{
		{Name: "up", Status: progress.Passed, Seconds: 10}, {Name: "test", Status: progress.Passed, Seconds: 2},
	}
	after.Phases = []report.Phase{
		{Name: "up", Status: progress.Passed, Seconds: 30},
		{Name: "test", Status: progress.Failed, Seconds: 2, Error: "tests failed"},
	}
	before.Settings = []progress.Setting{{Key: "node_count", Value: "2"}, {Key: "keep", Value: "never"}}
	after.Settings = []progress.Setting{{Key: "node_count", Value: "3"}, {Key: "ttl", Value: "2h0m0s"}}
	before.Nodes = []progress.Node{
		{Name: "ci-1-1", Hypervisor: "pve1", Hive: "1.4.0"}, {Name: "ci-1-2", Hypervisor: "pve2"},
	}
	after.Nodes = []progress.Node{{Name: "ci-2-1", Hypervisor: "pve1", Hive: "1.5.0"}}
	old := before
	old.Settings, old.Nodes, old.Flags = nil, nil, nil

	var text strings.Builder
	for _, diff := range []RunsDiff{compareRuns(before, after, nil), compareRuns(old, after, nil)} {
		for _, c := range append(diff.Phases, diff.Cases...) {
			fmt.Fprintf(
				&text, "%s: %s %s (%s): %s %.0fs, %s %.0fs %s\n", c.Change, c.Suite, c.Name, c.Node, c.Before, c.BeforeSeconds,
				c.After, c.AfterSeconds, c.Error,
			)
		}
		for _, v := range append(diff.Settings, diff.Versions...) {
			fmt.Fprintf(&text, "%s: %s, %s\n", v.Key, v.Before, v.After)
		}
		for _, note := range diff.Notes {
			text.WriteString(note + "\n")
		}
		text.WriteString("\n")
	}
	path := filepath.Join("testdata", "rundiff.txt")
	if *update {
		if err := errors.Join(os.MkdirAll("testdata", 0o755), os.WriteFile(path, []byte(text.String()), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// A run goes only if all that is given lets it go.
func TestPruneJudges(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	run := func(verb string, age time.Duration) KeptRun { return KeptRun{Run: state.RunName(verb, now.Add(-age))} }
	const day = 24 * time.Hour
	runs := []KeptRun{
		run("up", 20*day), {Run: "notes"}, run("logs", day), run("test", 2*day), run("full", 10*day), run("down", 30*day),
	}
	for _, tc := range []struct {
		name    string
		keep    int // -1: not given
		older   time.Duration
		exists  bool
		atWork  string // the verb of it
		removed string
	}{
		{"the newest stay, and what logs has got counts by itself", 2, 0, false, "", "up down"},
		{"more than there are", 9, 0, false, "", ""},
		{"by age alone", -1, 15 * day, false, "", "up down"},
		{"exactly as old", -1, 20 * day, false, "", "up down"},
		{"both have to let it go", 3, 5 * day, false, "", "down"},
		{"both, the other way round", 1, 25 * day, false, "", "down"},
		{"none stays of a cluster that is gone", 0, 0, false, "", "logs test full up down"},
		{"the latest run stays of one that exists, and what logs has got is none", 0, 0, true, "", "logs full up down"},
		{"the latest one counts", 2, 0, true, "", "up down"},
		{"one that is at work stays, however old", 0, 0, true, "down", "logs full up"},
		{"one that is at work is the latest", 0, 0, true, "test", "logs full up down"},
	} {
		request := PruneRequest{OlderThan: tc.older}
		if tc.keep >= 0 {
			request.Keep = &tc.keep
		}
		verbOf := func(r KeptRun) string { return strings.TrimLeft(r.Run, "0123456789.TZ-") }
		atWork := func(r KeptRun) bool { return tc.atWork != "" && verbOf(r) == tc.atWork }
		var removed []string
		for _, judged := range request.judge(runs, tc.exists, atWork, now) {
			if judged.Action == PruneRemove {
				removed = append(removed, verbOf(judged.KeptRun))
			}
			if judged.Reason == "" {
				t.Errorf("%s: %s: no reason", tc.name, judged.Run)
			}
		}
		if got := strings.Join(removed, " "); got != tc.removed {
			t.Errorf("%s: %q are removed, want %q", tc.name, got, tc.removed)
		}
	}
}

// Runs may begin and end while others are removed: none fails, and none that is at work loses its directory.
func TestPruneBesideRuns(t *testing.T) {
	dir := t.TempDir()
	store, err := state.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	e, err := Open(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		defer close(done)
		for range 200 {
			run, err := store.NewRun("a", "up", time.Now())
			if err == nil {
				err = run.Write(state.EventsFile, []byte("{}\n"))
			}
			if err == nil {
				_, err = os.Stat(run.Dir)
			}
			if err = errors.Join(err, run.Close()); err != nil {
				done <- err
				return
			}
		}
	}()
	request := PruneRequest{Request: Request{Settings: config.Settings{ClustersDir: dir}}, Keep: new(int)}
	prune := func() {
		if _, err := e.PruneRuns(request, func(*PrunePlan) (bool, error) { return true, nil }); err != nil {
			t.Error(err)
		}
	}
	for {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			prune()
			if _, err := os.Lstat(store.RunsDir("a")); !os.IsNotExist(err) {
				t.Errorf("the directory of runs is left: %v", err)
			}
			return
		default:
			prune()
		}
	}
}
