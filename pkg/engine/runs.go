package engine

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/progress"
	"hive-test/pkg/report"
	"hive-test/pkg/state"
)

// RunResult is what became of a run that is kept.
type RunResult string

// What can become of a run.
const (
	RunPassed      = RunResult(progress.Passed)
	RunFailed      = RunResult(progress.Failed)
	RunInterrupted = RunResult(progress.Interrupted) // killed ones included
	RunRunning     = RunResult("running")
	RunGathered    = RunResult("gathered") // what `logs` has got: no phases
	RunUnknown     = RunResult("unknown")  // it cannot be read: Problem says why
)

// KeptRun is a directory among the runs that are kept, as it was found.
type KeptRun struct {
	Cluster  string    `json:"cluster"`
	Run      string    `json:"run"` // the name of its directory
	RunDir   string    `json:"run_dir"`
	Verb     string    `json:"verb"`
	Result   RunResult `json:"result"`
	ExitCode *int      `json:"exit_code" jsonschema:"nullable"` // null: it has not come to its end
	Started  time.Time `json:"started,omitzero"`
	Seconds  float64   `json:"seconds"`
	Cases    RunCases  `json:"cases"`
	Bytes    int64     `json:"bytes"` // of its files
	// Problem is why nothing is known of it.
	Problem string `json:"problem,omitempty"`
}

// RunCases is how many test cases of a run ended how.
type RunCases struct {
	Passed      int `json:"passed"`
	Failed      int `json:"failed"`
	Flaky       int `json:"flaky"`
	Quarantined int `json:"quarantined"`
	Skipped     int `json:"skipped"`
	Interrupted int `json:"interrupted"`
}

// Total returns how many there are.
func (c RunCases) Total() int {
	return c.Passed + c.Failed + c.Flaky + c.Quarantined + c.Skipped + c.Interrupted
}

// Runs returns the runs that are kept of a cluster's name, or of all where the request names none, the newest first.
// What is damaged or no run is among them. No cluster needs to exist.
func (e *Engine) Runs(request Request) ([]KeptRun, error) {
	store, names, err := e.runNames(request)
	if err != nil {
		return nil, err
	}
	all := []KeptRun{}
	for _, name := range names {
		kept, err := keptRuns(store, name)
		if err != nil {
			return nil, err
		}
		all = append(all, kept...)
	}
	slices.SortStableFunc(all, newestFirst)
	if request.Name != "" && len(all) == 0 {
		return nil, noRuns(request.Name, store)
	}
	return all, nil
}

// newestFirst puts what has no time last.
func newestFirst(a, b KeptRun) int { return b.Started.Compare(a.Started) }

func noRuns(name string, store *state.Store) error {
	return Error{ExitNotFound, progress.WithHint(
		fmt.Errorf("cluster %q has no run in %s", name, store.Root()),
		"`hive-test runs` lists the runs that are kept; --clusters-dir names another directory",
	)}
}

// runNames returns the names whose runs are asked for.
func (e *Engine) runNames(request Request) (*state.Store, []string, error) {
	if request.Name != "" {
		name, store, err := e.storeOf(request.Name, request.Settings)
		return store, []string{name.String()}, err
	}
	store, err := state.Open(request.Settings.ClustersDir)
	if err != nil {
		return nil, nil, Error{ExitConfig, err}
	}
	names, err := store.RunNames()
	if err != nil {
		return nil, nil, Error{ExitConfig, err}
	}
	return store, names, nil
}

// keptRuns are the directories among the runs of a name. A name that no cluster can have is one row.
func keptRuns(store *state.Store, name string) ([]KeptRun, error) {
	parsed, err := cluster.ParseName(name)
	if err != nil {
		return []KeptRun{{
			Cluster: progress.OneLine(name), RunDir: store.RunsDir(name), Result: RunUnknown,
			Problem: "its directory is not named after a cluster", Bytes: sizeOf(store.RunsDir(name)),
		}}, nil
	}
	dirs, err := store.Kept(name)
	if err != nil {
		return nil, Error{ExitConfig, err}
	}
	kept := make([]KeptRun, len(dirs))
	for i, dir := range dirs {
		kept[i] = readKept(store, parsed, dir)
	}
	slices.SortStableFunc(kept, newestFirst)
	return kept, nil
}

// readKept reads what a run has left.
func readKept(store *state.Store, name cluster.Name, run state.Run) KeptRun {
	base := filepath.Base(run.Dir)
	verb, began, named := state.ParseRunName(base)
	r, ended, err := loadRun(run.Dir)
	if err == nil && !named {
		err = errors.New("its directory is not named as that of a run")
	}
	kept := KeptRun{Result: RunUnknown}
	if err == nil {
		kept = keptOf(r, ended)
	}
	kept.Cluster, kept.Run, kept.RunDir, kept.Bytes = name.String(), progress.OneLine(base), run.Dir, sizeOf(run.Dir)
	kept.Verb, kept.Started = cmp.Or(kept.Verb, progress.OneLine(verb)), cmp.Or(kept.Started, began)
	switch {
	case named && !ended && store.AtWork(name, run):
		kept.Result, kept.Seconds = RunRunning, max(0, time.Since(kept.Started).Seconds())
	case err == nil:
	case named && verb == "logs":
		kept.Result = RunGathered
	default:
		kept.Problem = progress.OneLine(err.Error())
	}
	return kept
}

// keptOf is what a report tells of its run. One that did not come to its end has no exit code.
func keptOf(r report.Report, ended bool) KeptRun {
	kept := KeptRun{
		Verb: progress.OneLine(r.Verb), Result: RunResult(r.Result), Started: r.Started, Seconds: max(0, r.Seconds),
	}
	switch kept.Result {
	case RunPassed, RunFailed, RunInterrupted:
	default:
		kept.Result, kept.Problem = RunUnknown, fmt.Sprintf("its report tells no result that is known: %q", r.Result)
	}
	if ended {
		kept.ExitCode = &r.ExitCode
	} else if kept.Result == RunPassed { // what it had done, and not itself
		kept.Result = RunInterrupted
	}
	for _, c := range r.Cases {
		*kept.Cases.of(c.Status)++
	}
	return kept
}

func (c *RunCases) of(status progress.Status) *int {
	switch status {
	case progress.Passed:
		return &c.Passed
	case progress.Flaky:
		return &c.Flaky
	case progress.Quarantined:
		return &c.Quarantined
	case progress.Skipped:
		return &c.Skipped
	case progress.Interrupted:
		return &c.Interrupted
	}
	return &c.Failed
}

// loadRun reads a run from its report or, where that is missing or damaged, from its events. Ended says that it came to
// its end.
func loadRun(dir string) (r report.Report, ended bool, err error) {
	err = regular(filepath.Join(dir, report.JSONFile))
	if err == nil {
		r, err = readReport(state.Run{Dir: dir})
	}
	switch {
	case err == nil && r.Schema > report.Schema:
		return r, false, fmt.Errorf("its report has schema %d, and this program reads %d", r.Schema, report.Schema)
	case err == nil && r.Verb != "":
		return r, true, nil
	}
	err = regular(filepath.Join(dir, state.EventsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return r, false, errors.New("it holds neither a report nor events of a run")
	}
	if err != nil {
		return r, false, err
	}
	run, err := readRun(state.Run{Dir: dir})
	if err != nil {
		return r, false, err
	}
	if r = run.report; r.Verb == "" {
		return r, false, errors.New("its events are not those of a run")
	}
	return r, run.ending != nil, nil
}

// regular refuses what is no plain file: reading a pipe would never end.
func regular(path string) error {
	info, err := os.Lstat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a file", path)
	}
	return err
}

// sizeOf returns how many bytes the files below a directory have; what cannot be read has none.
func sizeOf(dir string) int64 {
	var total int64
	_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return nil
		}
		if info, err := entry.Info(); err == nil {
			total += info.Size()
		}
		return nil
	})
	return total
}
