package engine

import (
	"fmt"
	"os"
	"path/filepath"

	"hive-test/pkg/cluster"
	"hive-test/pkg/progress"
	"hive-test/pkg/report"
	"hive-test/pkg/state"
)

// Report makes the report of a recorded run from its events: of the latest run of a cluster, or of the one whose
// directory or name what is, wherever that is.
func (e *Engine) Report(request Request, what string) (report.Report, error) {
	store, err := state.Open(request.Settings.ClustersDir)
	if err != nil {
		return report.Report{}, Error{ExitConfig, err}
	}
	dir, err := reportedRun(store, what)
	if err != nil {
		return report.Report{}, err
	}
	if (state.Run{Dir: dir}).AtWork() {
		progress.Warnf(e.Events, "the run is at work: what it has not done yet counts as interrupted")
	}
	file, err := os.Open(filepath.Join(dir, state.EventsFile))
	if err != nil {
		return report.Report{}, Error{ExitNotFound, progress.WithHint(
			fmt.Errorf("%s is no directory of a run: %w", dir, err), "name a cluster, or a directory of clusters/.runs/NAME")}
	}
	defer func() { _ = file.Close() }()
	r, err := report.Read(file)
	if err != nil {
		if r.Started.IsZero() { // there is no event before that
			return report.Report{}, fmt.Errorf("reading the run in %s: %w", dir, err)
		}
		progress.Warnf(e.Events, "the report is of what comes before: %v", err)
	}
	return r, nil
}

// reportedRun is the directory of the run that is meant: the latest of the cluster of that name, or as findRun has it.
func reportedRun(store *state.Store, what string) (string, error) {
	if _, err := cluster.ParseName(what); err != nil {
		return findRun(store, what, "")
	}
	dir, err := findRun(store, LatestRun, what)
	if err == nil {
		return dir, nil
	}
	if other, otherErr := findRun(store, what, ""); otherErr == nil {
		return other, nil
	}
	return "", err
}
