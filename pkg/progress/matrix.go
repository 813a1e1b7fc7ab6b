package progress

import (
	"maps"
	"slices"
)

// Matrix is what a matrix of clusters runs. Grid are the two axes that a table shows: rows, then columns; empty: the
// first two. Shared says what all cells that failed have in common.
type Matrix struct {
	Name string `json:"name"`
	File string `json:"file,omitempty"` // as it was named; - is standard input
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
	told.Axes, told.Cells = slices.Clone(m.Axes), slices.Clone(m.Cells)
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
