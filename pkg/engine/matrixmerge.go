package engine

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hive-test/pkg/config"
	"hive-test/pkg/matrix"
	"hive-test/pkg/progress"
	"hive-test/pkg/state"
)

// MergeRequest is what MergeMatrix is asked for.
type MergeRequest struct {
	Settings config.Settings
	// Dirs are directories of runs of parts of one matrix, or hold some.
	Dirs []string
}

// part is a run of a part of a matrix.
type part struct {
	dir    string
	told   *progress.Matrix
	ends   map[string]progress.Event // of cells, by name
	events []progress.Event
}

// MergeMatrix makes one run of runs of parts of a matrix, as its shards are: its reports are those of a run of the whole.
// Its error is that of the first cell that failed, or says which cells no part has.
func (e *Engine) MergeMatrix(ctx context.Context, request MergeRequest) (Outcome, error) {
	parts, err := partsIn(request.Dirs)
	if err != nil {
		return Outcome{}, usage(err)
	}
	whole, err := wholeOf(parts)
	if err != nil {
		return Outcome{}, usage(err)
	}
	m := matrix.Matrix{Name: whole.Name, Grid: whole.Grid, Repeat: whole.Repeat}
	for _, axis := range whole.Axes {
		one := matrix.Axis{Name: axis.Name}
		for _, value := range axis.Values {
			one.Values = append(one.Values, matrix.ValueOf(value))
		}
		m.Axes = append(m.Axes, one)
	}
	plan := MatrixPlan{Name: whole.Name, Total: whole.Total}
	for _, cell := range whole.Cells {
		values := matrix.Combination{}
		for key, value := range cell.Values {
			values[key] = matrix.ValueOf(value)
		}
		plan.Cells = append(plan.Cells, PlannedCell{
			Cell: matrix.Cell{Name: cell.Name, Values: values, Repeat: cell.Repeat}, Label: cell.Label, Place: cell.Place,
			Size: matrix.Size{MemoryMB: cell.MemoryMB, Cores: cell.Cores, VMs: cell.VMs},
		})
	}
	of := MatrixRequest{Settings: request.Settings, Matrix: m, File: whole.File, Args: whole.Args}
	return e.onMatrix(ctx, of, plan, func(m *matrixRun) error {
		m.told.Merged = true
		if err := m.begin(); err != nil {
			return err
		}
		m.Sink.Emit(progress.Event{Kind: progress.PhaseStart, Phase: cellsPhase})
		began := time.Now()
		for cell, planned := range plan.Cells {
			if last, ended := lastOf(parts, planned.Name); ended {
				m.retell(cell, last.events)
			}
		}
		return m.conclude(ctx, began, "no part tells of its end")
	})
}

// partsIn reads the runs of matrices in directories.
func partsIn(dirs []string) ([]part, error) {
	var parts []part
	for _, dir := range dirs {
		found := len(parts)
		err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.Name() != state.EventsFile || !strings.HasSuffix(filepath.Dir(config.Absolute(path)), "-"+matrixVerb) {
				return err
			}
			if slices.ContainsFunc(parts, func(p part) bool { return p.dir == config.Absolute(filepath.Dir(path)) }) {
				return nil
			}
			one, err := readPart(path)
			if err == nil && one.told.Name != "" {
				parts = append(parts, one)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		if len(parts) == found {
			return nil, progress.WithHint(
				fmt.Errorf("%s: there is no run of a matrix in it", dir),
				"give the directories that matrix run has named, or copied with --evidence-dir")
		}
	}
	return parts, nil
}

func readPart(path string) (part, error) {
	file, err := os.Open(path)
	if err != nil {
		return part{}, err
	}
	defer func() { _ = file.Close() }()
	events, err := progress.ReadEvents(file)
	if len(events) == 0 && err != nil {
		return part{}, fmt.Errorf("%s: %w", path, err)
	}
	if (state.Run{Dir: filepath.Dir(path)}).AtWork() {
		return part{}, fmt.Errorf("%s is at work: merge it when it has come to its end", filepath.Dir(path))
	}
	told, ends := readMatrix(events)
	return part{config.Absolute(filepath.Dir(path)), told, ends, events}, nil
}

// wholeOf is the matrix that parts are of, with all its cells that they have.
func wholeOf(parts []part) (*progress.Matrix, error) {
	whole := *parts[0].told
	whole.Cells, whole.Shared, whole.Flaky = nil, "", nil
	for _, p := range parts {
		if p.told.Name != whole.Name || p.told.Total != whole.Total {
			return nil, fmt.Errorf("%s and %s are not of one matrix: %s with %s, and %s with %s", parts[0].dir, p.dir,
				whole.Name, progress.Count(whole.Total, "cell"), p.told.Name, progress.Count(p.told.Total, "cell"))
		}
		for _, cell := range p.told.Cells {
			i := slices.IndexFunc(whole.Cells, func(c progress.MatrixCell) bool { return c.Place == cell.Place })
			switch {
			case i < 0:
				whole.Cells = append(whole.Cells, cell)
			case whole.Cells[i].Name != cell.Name:
				return nil, fmt.Errorf("%s is not of the same matrix as %s: its cell %d is %s, not %s",
					p.dir, parts[0].dir, cell.Place, cell.Label, whole.Cells[i].Label)
			}
		}
	}
	slices.SortFunc(whole.Cells, func(a, b progress.MatrixCell) int { return cmp.Compare(a.Place, b.Place) })
	for i := range whole.Cells {
		whole.Cells[i].Status, whole.Cells[i].ExitCode, whole.Cells[i].Why = "", nil, ""
	}
	return &whole, nil
}

// lastOf is the part with a cell that began last, and whether it tells of the cell's end: what an earlier one tells is over.
func lastOf(parts []part, cell string) (last part, ended bool) {
	var at time.Time
	for _, p := range parts {
		has := slices.ContainsFunc(p.told.Cells, func(c progress.MatrixCell) bool { return c.Name == cell })
		if has && !p.events[0].Time.Before(at) {
			_, ended = p.ends[cell]
			last, at = p, p.events[0].Time
		}
	}
	return last, ended
}

// errMissing says that parts of a matrix do not have all its cells.
func (m *matrixRun) errMissing() error {
	missing := m.plan.Total - len(m.plan.Cells)
	if missing <= 0 || m.request.Of > 0 || len(m.request.Cells) > 0 {
		return nil
	}
	return Error{ExitUnexpected, progress.WithCode(
		fmt.Errorf("%d of %s: in none of the directories", missing, progress.Count(m.plan.Total, "cell")), "cells-missing")}
}
