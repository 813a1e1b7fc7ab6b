package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"hive-test/pkg/progress"
	"hive-test/pkg/report"
	"hive-test/pkg/state"
)

// Report makes the report of a recorded run from its events: of the latest run of a cluster, or of the one whose
// directory what names, wherever that is.
func (e *Engine) Report(request Request, what string) (report.Report, error) {
	dir, err := e.runDir(request, what)
	if err != nil {
		return report.Report{}, err
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

// runDir is the directory of the run that is meant. A word without a slash is a cluster's name first.
func (e *Engine) runDir(request Request, what string) (string, error) {
	isDir := func() bool {
		info, err := os.Stat(what)
		return err == nil && info.IsDir()
	}
	if strings.ContainsRune(what, filepath.Separator) || what == "." || what == ".." {
		if !isDir() {
			return "", Error{ExitNotFound, fmt.Errorf("%s: %w", what, fs.ErrNotExist)}
		}
		return what, nil
	}
	request.Name = what
	name, store, err := e.storeOf(what, request.Settings)
	if err == nil {
		var runs []state.Run
		if runs, err = store.Runs(name); err == nil && len(runs) > 0 {
			return runs[0].Dir, nil
		}
	}
	if isDir() {
		return what, nil
	}
	if err == nil {
		err = Error{ExitNotFound, progress.WithHint(
			fmt.Errorf("cluster %q has no run in %s", name, store.Root()), "`hive-test runs` lists the runs that are kept; a directory of one is taken as well")}
	}
	return "", errors.Join(err)
}
