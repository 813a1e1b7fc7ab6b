package progress

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Matrix is what a matrix of clusters runs. Grid are the two axes that a table shows: rows, then columns; empty: the
// first two. Shared says what all cells that failed have in common.
type Matrix struct {
	Name string `json:"name"`
	File string `json:"file,omitempty"` // as it was named; - is standard input
	// FileHash tells the content of the file from others.
	FileHash string `json:"file_hash,omitempty"`
	// Args are the words after the file by which the matrix is run again, and Chosen those that choose cells.
	Args   []string     `json:"args,omitempty"`
	Chosen []string     `json:"chosen,omitempty"`
	Merged bool         `json:"merged,omitempty"` // it was put together of parts
	Total  int          `json:"total"`            // how many cells the file has: Cells may be some of them
	Repeat int          `json:"repeat,omitempty"`
	Axes   []MatrixAxis `json:"axes"`
	Grid   []string     `json:"grid,omitempty"`
	Cells  []MatrixCell `json:"cells"`
	Shared string       `json:"shared,omitempty"`
	// Flaky are the combinations of values that have run several times and passed in some of these runs and failed in others.
	Flaky []MatrixFlaky `json:"flaky,omitempty"`
}

// MatrixFlaky is a combination of values that is flaky: how often its cells have passed and failed, and which they are.
type MatrixFlaky struct {
	Label  string   `json:"label"`
	Passed int      `json:"passed"`
	Failed int      `json:"failed"`
	Cells  []string `json:"cells"`
}

// String is what is said of it to people.
func (f MatrixFlaky) String() string {
	return fmt.Sprintf("%s: %d passed, %d failed", f.Label, f.Passed, f.Failed)
}

// FindFlaky fills in Flaky by what became of the cells.
func (m *Matrix) FindFlaky() {
	var all []MatrixFlaky
	for _, cell := range m.Cells {
		if cell.Repeat == 0 {
			continue
		}
		label := strings.TrimSuffix(cell.Label, fmt.Sprintf(", run %d of %d", cell.Repeat, m.Repeat))
		i := slices.IndexFunc(all, func(f MatrixFlaky) bool { return f.Label == label })
		if i < 0 {
			i, all = len(all), append(all, MatrixFlaky{Label: label})
		}
		all[i].Cells = append(all[i].Cells, cell.Name)
		switch cell.Status {
		case Passed:
			all[i].Passed++
		case Failed:
			all[i].Failed++
		}
	}
	m.Flaky = slices.DeleteFunc(all, func(f MatrixFlaky) bool { return f.Passed == 0 || f.Failed == 0 })
}

// IsFlaky reports whether a cell has failed, and others with its values have passed.
func (m *Matrix) IsFlaky(cell MatrixCell) bool {
	return cell.Status == Failed &&
		slices.ContainsFunc(m.Flaky, func(f MatrixFlaky) bool { return slices.Contains(f.Cells, cell.Name) })
}

// MatrixAxis is a setting with the values that it takes in turn.
type MatrixAxis struct {
	Name   string   `json:"name"`
	Values []string `json:"values"`
}

// MatrixCell is a cluster of a matrix. Status, ExitCode, Why and RunDir are those of its end. Label is what it differs in from
// others, for people.
type MatrixCell struct {
	Name     string            `json:"name"`
	Label    string            `json:"label"`
	Place    int               `json:"place"`              // among the cells of the file, from 1
	Settings string            `json:"settings,omitempty"` // tells them from others
	Values   map[string]string `json:"values"`
	Repeat   int               `json:"repeat,omitempty"`
	MemoryMB int               `json:"memory_mb"` // MiB, of all nodes
	Cores    int               `json:"cores"`     // of all nodes
	VMs      int               `json:"vms"`
	Status   Status            `json:"status,omitempty"`
	ExitCode *int              `json:"exit_code,omitempty"`
	Why      string            `json:"why,omitempty"`
	RunDir   string            `json:"run_dir,omitempty"`
}

// mapped returns a copy with every text that is no name changed by change; nil for nil.
func (m *Matrix) mapped(change func(string) string) *Matrix {
	if m == nil {
		return nil
	}
	told := *m
	told.File, told.Shared = change(m.File), change(m.Shared)
	told.Args, told.Chosen = mapAll(m.Args, change), mapAll(m.Chosen, change)
	told.Axes, told.Cells, told.Flaky = slices.Clone(m.Axes), slices.Clone(m.Cells), slices.Clone(m.Flaky)
	for i := range told.Flaky {
		told.Flaky[i].Label = change(told.Flaky[i].Label)
	}
	for i, axis := range told.Axes {
		told.Axes[i].Values = mapAll(axis.Values, change)
	}
	for i := range told.Cells {
		cell := &told.Cells[i]
		cell.Label, cell.Why, cell.RunDir = change(cell.Label), change(cell.Why), change(cell.RunDir)
		cell.Values = maps.Clone(cell.Values)
		for key, value := range cell.Values {
			cell.Values[key] = change(value)
		}
	}
	return &told
}

// Cleaned returns m with every text as Clean has it, on one line, names too. It is nil for nil.
func (m *Matrix) Cleaned() *Matrix {
	told := m.mapped(OneLine)
	if told == nil {
		return nil
	}
	told.Name, told.Grid = OneLine(m.Name), mapAll(m.Grid, OneLine)
	for i := range told.Flaky {
		told.Flaky[i].Cells = mapAll(told.Flaky[i].Cells, OneLine)
	}
	for i := range told.Axes {
		told.Axes[i].Name = OneLine(told.Axes[i].Name)
	}
	for i := range told.Cells {
		cell := &told.Cells[i]
		cell.Name, cell.Settings = OneLine(cell.Name), OneLine(cell.Settings)
		values := map[string]string{}
		for key, value := range cell.Values {
			values[OneLine(key)] = value
		}
		cell.Values = values
	}
	return told
}
