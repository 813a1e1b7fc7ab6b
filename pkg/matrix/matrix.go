// Package matrix is what a matrix of clusters is made of: a file of axes becomes cells, cells an order in which they fit a
// budget, and what came of them a grid. It runs nothing, asks nobody and keeps nothing.
package matrix

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"hive-test/pkg/progress"
)

// Matrix is what a file says.
type Matrix struct {
	// Name begins the names of the cells.
	Name string
	// File is what the file is called, and Lines where it names each setting first.
	File  string
	Lines map[string]int
	// Axes are in the order of the file.
	Axes []Axis
	// Exclude leaves out combinations that have all its values. Include adds its values to every combination whose values
	// of axes it does not contradict; where there is none, it is one of its own. Both as in a matrix of GitHub's.
	Exclude, Include []Combination
	// Settings are those of every cell; values of axes win over them.
	Settings map[string]Value
	// MaxParallel is how many cells run at once at most; 0: as many as the budget has room for.
	MaxParallel int
	// Budget is what all cells that run may have together; 0: any number.
	Budget Size
	// FailFast stops the matrix with the first cell that fails.
	FailFast bool
	// Repeat is how often each combination runs; 0 is once.
	Repeat int
	// Grid are the two axes that the report lays out as a table: rows, then columns. Empty: the first two.
	Grid []string
}

// Axis is a setting with the values that it takes in turn.
type Axis struct {
	Name   string
	Values []Value
}

// Size is what a cluster takes of what its hypervisors have.
type Size struct {
	MemoryMB int `json:"memory_mb,omitempty"` // MiB
	Cores    int `json:"cores,omitempty"`
	VMs      int `json:"vms,omitempty"`
}

func (s Size) plus(o Size) Size {
	return Size{s.MemoryMB + o.MemoryMB, s.Cores + o.Cores, s.VMs + o.VMs}
}

func (s Size) minus(o Size) Size {
	return Size{s.MemoryMB - o.MemoryMB, s.Cores - o.Cores, s.VMs - o.VMs}
}

// Within reports whether the size is within a budget, in which 0 is any number.
func (s Size) Within(budget Size) bool {
	fits := func(n, most int) bool { return most == 0 || n <= most }
	return fits(s.MemoryMB, budget.MemoryMB) && fits(s.Cores, budget.Cores) && fits(s.VMs, budget.VMs)
}

// share is the largest part of the budget that the size takes, of anything that is bounded.
func (s Size) share(budget Size) float64 {
	share := 0.0
	for _, part := range [][2]int{
		{s.MemoryMB, budget.MemoryMB}, {s.Cores, budget.Cores}, {s.VMs, budget.VMs},
	} {
		if part[1] > 0 {
			share = max(share, float64(part[0])/float64(part[1]))
		}
	}
	return share
}

// String is the size for people.
func (s Size) String() string {
	var parts []string
	if s.MemoryMB > 0 {
		parts = append(parts, strconv.Itoa(s.MemoryMB)+" MiB")
	}
	if s.Cores > 0 {
		parts = append(parts, progress.Count(s.Cores, "core"))
	}
	if s.VMs > 0 {
		parts = append(parts, progress.Count(s.VMs, "VM"))
	}
	return strings.Join(parts, ", ")
}

// Value is a value of a setting as the file has it: a text, a number, a boolean, or a list or mapping of such.
type Value struct {
	raw  any
	line int // of the file; 0: it is of none
}

// ValueOf returns the value of what encoding/json takes.
func ValueOf(raw any) Value { return Value{raw: raw} }

// Text is the value as settings are written in the environment: several of a list are one a line, and what holds
// mappings is JSON.
func (v Value) Text() string {
	list, is := v.raw.([]any)
	if !is {
		return v.one()
	}
	lines := make([]string, len(list))
	for i, entry := range list {
		if _, nested := entry.(map[string]any); nested {
			return v.json()
		}
		lines[i] = ValueOf(entry).one()
	}
	return strings.Join(lines, "\n")
}

func (v Value) one() string {
	switch raw := v.raw.(type) {
	case nil:
		return ""
	case string:
		return raw
	}
	return v.json()
}

func (v Value) json() string {
	raw, err := json.Marshal(v.raw)
	if err != nil { // it came of YAML, whose values JSON has, too
		return fmt.Sprint(v.raw)
	}
	return string(raw)
}

// Word is the value on one line, for people. Nothing in it acts upon a terminal.
func (v Value) Word() string {
	return progress.OneLine(strings.ReplaceAll(strings.TrimRight(v.Text(), "\n"), "\n", " + "))
}

// plain reports whether the value is neither a mapping nor holds one.
func (v Value) plain() bool {
	switch raw := v.raw.(type) {
	case map[string]any:
		return false
	case []any:
		return !slices.ContainsFunc(raw, func(entry any) bool { return !ValueOf(entry).plain() })
	}
	return true
}

// Raw is the value as encoding/json takes it.
func (v Value) Raw() any { return v.raw }

// Place is where the file has a value, FILE:LINE; empty: the value is of no file.
func (m Matrix) Place(v Value) string {
	if v.line == 0 {
		return ""
	}
	return fmt.Sprintf("%s:%d", m.File, v.line)
}

// Combination is values of settings.
type Combination map[string]Value

// has reports whether c has every value of o.
func (c Combination) has(o Combination) bool {
	for key, value := range o {
		if own, there := c[key]; !there || own.Text() != value.Text() {
			return false
		}
	}
	return true
}

// Cell is a cluster of a matrix.
type Cell struct {
	// Name is the cluster's. It follows from the values and the number of the repetition alone.
	Name string
	// Values are those that the cell does not share with all others.
	Values Combination
	// Settings are all that the file says for it.
	Settings Combination
	// Repeat counts from 1 where each combination runs more than once.
	Repeat int
}

// Label says for people which of the cells it is: its values, in the order of the axes.
func (m Matrix) Label(c Cell) string {
	var parts []string
	for _, key := range m.keys(c.Values) {
		parts = append(parts, key+"="+c.Values[key].Word())
	}
	if c.Repeat > 0 {
		parts = append(parts, fmt.Sprintf("run %d of %d", c.Repeat, m.Repeat))
	}
	return progress.OneLine(strings.Join(parts, ", "))
}

// keys are those of a combination: axes in their order, then the others by name.
func (m Matrix) keys(c Combination) []string {
	var keys []string
	for _, axis := range m.Axes {
		if _, has := c[axis.Name]; has {
			keys = append(keys, axis.Name)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(c)) {
		if !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// Cells returns the cells in the order of the file: the first axis changes slowest, what Include adds is last, and
// repetitions of a cell follow each other. The error says that there is none, or which cells would be the same.
func (m Matrix) Cells() ([]Cell, error) {
	combinations := m.included(m.combined())
	if n := len(combinations) * max(1, m.Repeat); n > MaxCells {
		return nil, fmt.Errorf("there are %d cells: at most %d are possible", n, MaxCells)
	}
	var cells []Cell
	taken, labels := map[string]bool{}, map[string]bool{}
	for _, c := range combinations {
		base, label := m.Name+"-"+m.hash(c), m.Label(Cell{Values: c})
		if taken[base] || labels[label] { // by which reports tell cells apart
			return nil, fmt.Errorf("two cells have the same values: %s", label)
		}
		taken[base], labels[label] = true, true
		settings := maps.Clone(Combination(m.Settings))
		if settings == nil {
			settings = Combination{}
		}
		maps.Copy(settings, c)
		if m.Repeat <= 1 {
			cells = append(cells, Cell{Name: base, Values: c, Settings: settings})
			continue
		}
		for n := 1; n <= m.Repeat; n++ {
			cells = append(cells, Cell{
				Name: base + "-" + strconv.Itoa(n), Values: c, Settings: settings, Repeat: n,
			})
		}
	}
	if len(cells) == 0 {
		return nil, fmt.Errorf("there is no cell: every combination is excluded, or an axis has no value")
	}
	return cells, nil
}

// combined are all combinations of the axes' values, but for those that are excluded.
func (m Matrix) combined() []Combination {
	if len(m.Axes) == 0 {
		return nil
	}
	all := []Combination{{}}
	for _, axis := range m.Axes {
		var next []Combination
		for _, c := range all {
			for _, value := range axis.Values {
				with := maps.Clone(c)
				with[axis.Name] = value
				next = append(next, with)
			}
		}
		all = next
	}
	return slices.DeleteFunc(all, func(c Combination) bool { return slices.ContainsFunc(m.Exclude, c.has) })
}

// included lays Include over combinations of the axes.
func (m Matrix) included(all []Combination) []Combination {
	original := make([]Combination, len(all))
	for i, c := range all {
		original[i] = maps.Clone(c)
	}
	for _, extra := range m.Include {
		added := false
		for i, c := range original {
			contradicts := func(key string) bool {
				own, there := c[key]
				return there && own.Text() != extra[key].Text()
			}
			if slices.ContainsFunc(slices.Collect(maps.Keys(extra)), contradicts) {
				continue
			}
			maps.Copy(all[i], extra)
			added = true
		}
		if !added {
			all = append(all, maps.Clone(extra))
		}
	}
	return all
}

// hash names a combination.
func (m Matrix) hash(c Combination) string {
	h := sha256.New()
	for _, key := range slices.Sorted(maps.Keys(c)) {
		fmt.Fprintf(h, "%q=%q\n", key, c[key].Text())
	}
	return hex.EncodeToString(h.Sum(nil))[:8]
}

// Shard returns the cells of part n of so many, which together have every cell once. Which they are follows from cells and
// sizes alone, so that machines with the same settings find the same: the largest are dealt out first, back and forth.
func Shard(cells []Cell, sizes []Size, n, of int) []Cell {
	order := make([]int, len(cells))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return sizes[b].VMs*(sizes[b].MemoryMB+sizes[b].Cores) - sizes[a].VMs*(sizes[a].MemoryMB+sizes[a].Cores)
	})
	var part []int
	for place, cell := range order {
		at := place % (2 * of)
		if at >= of {
			at = 2*of - 1 - at
		}
		if at == n-1 {
			part = append(part, cell)
		}
	}
	slices.Sort(part)
	chosen := make([]Cell, len(part))
	for i, cell := range part {
		chosen[i] = cells[cell]
	}
	return chosen
}
