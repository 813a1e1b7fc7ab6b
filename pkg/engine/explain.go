package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"hive-test/pkg/explain"
	"hive-test/pkg/progress"
	"hive-test/pkg/report"
	"hive-test/pkg/state"
	"hive-test/pkg/target"
)

// Explained is the shape of `explain -o json`. Failed is null where no run failed.
type Explained struct {
	Cluster string        `json:"cluster"`
	Latest  PastRun       `json:"latest"`
	Failed  *FailedRun    `json:"failed" jsonschema:"nullable"`
	Running *state.Holder `json:"running,omitempty"` // the run that is at work now
}

// PastRun is a run that has ended, or was killed.
type PastRun struct {
	RunDir   string          `json:"run_dir"`
	Verb     string          `json:"verb"`
	Result   progress.Status `json:"result"`
	ExitCode *int            `json:"exit_code" jsonschema:"nullable"` // null: it did not come to its end
	Started  time.Time       `json:"started"`
}

// FailedRun is one that failed, and why.
type FailedRun struct {
	PastRun
	Explanation *progress.Explanation `json:"explanation" jsonschema:"nullable"`
}

// Remedy returns what to do about an error that has kept a run from its begin, where it says nothing of that itself; empty: it is not
// known.
func Remedy(err error) string { return explain.Remedy(err.Error(), "NAME") }

// Explain looks through the runs of a cluster, the newest first, for one that failed. It asks no node and needs no
// cluster.
func (e *Engine) Explain(request Request) (Explained, error) {
	name, store, err := e.storeOf(request.Name, request.Settings)
	if err != nil {
		return Explained{}, err
	}
	document := Explained{Cluster: name.String()}
	runs, err := store.Runs(name)
	if err != nil {
		return document, err
	}
	if holder, life := store.Holder(name); len(runs) > 0 && life == state.Alive {
		if running, _ := readRun(runs[0]); running.ending == nil { // the newest is at work and has nothing to tell yet
			document.Running, runs = &holder, runs[1:]
		}
	}
	record, err := store.Load(name)
	gone := errors.Is(err, state.ErrNotFound)
	hosts := err == nil && !target.Makes(record) // without a record, the run has told by itself mostly
	for i, run := range runs {
		r, err := readRun(run)
		if err != nil {
			return document, err
		}
		if i == 0 {
			document.Latest = r.PastRun
		}
		x := explain.Run(r.events, os.DirFS(run.Dir), hosts)
		if r.ending != nil && r.ending.Explanation != nil { // which knew all output, and not only what is recorded
			x = r.ending.Explanation
		}
		if gone {
			x = explain.Gone(x)
		}
		if x != nil {
			document.Failed = &FailedRun{r.PastRun, x}
			break
		}
	}
	if len(runs) == 0 && document.Running == nil {
		return document, noRuns(name.String(), store)
	}
	return document, nil
}

// recordedRun is a run as its events tell it.
type recordedRun struct {
	PastRun
	events []progress.Event
	ending *progress.Event // nil: it was killed, or is at work
	report report.Report
}

// readRun reads a run's events. A line that is broken ends them: what comes before explains more than nothing.
func readRun(run state.Run) (recordedRun, error) {
	file, err := os.Open(filepath.Join(run.Dir, state.EventsFile))
	if err != nil {
		return recordedRun{}, fmt.Errorf("reading a run: %w", err)
	}
	defer func() { _ = file.Close() }()
	events, err := progress.ReadEvents(file)
	if err != nil && len(events) == 0 {
		return recordedRun{}, fmt.Errorf("reading the run in %s: %w", run.Dir, err)
	}
	r := report.Build(events)
	out := recordedRun{
		PastRun: PastRun{RunDir: run.Dir, Verb: r.Verb, Result: r.Result, Started: r.Started},
		events:  events,
		report:  r,
	}
	for i, e := range events {
		if e.Kind == progress.RunEnd {
			out.ending, out.ExitCode = &events[i], &r.ExitCode
		}
	}
	return out, nil
}
