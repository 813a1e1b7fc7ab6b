package engine

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/matrix"
	"hive-test/pkg/progress"
	"hive-test/pkg/state"
)

// MatrixRequest is what a matrix is asked for.
type MatrixRequest struct {
	// Settings are those of the matrix itself: where it is kept, and where its reports go.
	Settings config.Settings
	Matrix   matrix.Matrix
	File     string // that the matrix was read of, for people
	Content  []byte // of that file
	// Args are the words by which the matrix is run again, after the file, and Chosen those that choose cells.
	Args, Chosen []string
	// Load returns the settings of a cell, given the values that the matrix has for it, and where its file has each.
	Load func(values, places map[string]string) (config.Settings, error)
	// Shard and Of choose part Shard of so many; Of 0 is all cells. Cells, if there are any, chooses those by name.
	Shard, Of int
	Cells     []string
	// Resume goes on with the last run of that file and those cells, where it did not come to its end.
	Resume bool
	// Abort ends the cleaning up of a matrix whose own context has ended; nil: it is done to its end.
	Abort context.Context
}

// MatrixPlan is what a matrix would run.
type MatrixPlan struct {
	Name   string
	Limits matrix.Limits
	// Cells are in the order of the file.
	Cells []PlannedCell
	// Order is the cells' places in Cells, in the order in which they are taken.
	Order []int
	// Seconds is how long all of it is expected to take.
	Seconds float64
	// Total is how many cells the file has: Cells may be a part.
	Total int
}

// PlannedCell is a cell with what is known of it beforehand.
type PlannedCell struct {
	matrix.Cell
	Label    string
	Place    int // among the cells of the file, from 1
	Settings config.Settings
	Size     matrix.Size
	// Seconds is how long it is expected to take, and Known reports whether it has run before and told so; else that is a
	// guess. Begins is when it would begin, in seconds after the first.
	Seconds, Begins float64
	Known           bool
}

// Guesses of how long a full takes where no run has told yet, in seconds.
const (
	guessBase    = 120
	guessPerNode = 60
)

// PlanMatrix returns what RunMatrix would run. All that is wrong with the cells is told at once. It changes nothing.
func (e *Engine) PlanMatrix(request MatrixRequest) (MatrixPlan, error) {
	m := request.Matrix
	cells, err := m.Cells()
	if err != nil {
		return MatrixPlan{}, usage(err)
	}
	_, store, err := e.storeOf(m.Name, request.Settings)
	if err != nil {
		return MatrixPlan{}, err
	}
	plan := MatrixPlan{Name: m.Name, Limits: matrix.Limits{MaxParallel: m.MaxParallel, Budget: m.Budget}, Total: len(cells)}
	wrong := mistakes{}
	sizes := make([]matrix.Size, len(cells))
	for i, cell := range cells {
		planned, problems := planCell(request, plan.Limits, cell)
		wrong.add(planned.Label, problems)
		sizes[i], planned.Place = planned.Size, i+1
		plan.Cells = append(plan.Cells, planned)
	}
	if err := errors.Join(append(checkKeys(m, cells), wrong.told(len(cells))...)...); err != nil {
		return plan, usage(err)
	}
	if plan.Cells, err = chosenCells(request, plan.Cells, cells, sizes); err != nil {
		return plan, usage(err)
	}
	expect(store, plan.Cells)
	jobs := make([]matrix.Job, len(plan.Cells))
	for i, cell := range plan.Cells {
		jobs[i] = matrix.Job{Size: cell.Size, Seconds: cell.Seconds}
	}
	plan.Order = matrix.Order(jobs, plan.Limits)
	schedule := matrix.Simulate(jobs, plan.Order, plan.Limits)
	plan.Seconds = schedule.Seconds
	for i := range plan.Cells {
		plan.Cells[i].Begins = schedule.Begins[i]
	}
	return plan, nil
}

// planCell finds out what a cell is, and what is wrong with it.
func planCell(request MatrixRequest, limits matrix.Limits, cell matrix.Cell) (PlannedCell, []error) {
	planned := PlannedCell{Cell: cell, Label: request.Matrix.Label(cell)}
	values, places := map[string]string{}, map[string]string{}
	for key, value := range cell.Settings {
		if ofCells(key) != nil { // which is told once, and not for each cell
			continue
		}
		values[key], places[key] = value.Text(), request.Matrix.Place(value)
	}
	if err := looksSecret(values["suite_env"]); err != nil {
		return planned, []error{fmt.Errorf("%s: suite_env: %w", cmp.Or(places["suite_env"], "settings"), err)}
	}
	settings, err := request.Load(values, places)
	if several, are := errors.AsType[*config.Error](err); are {
		return planned, several.Problems
	}
	if err != nil {
		return planned, []error{err}
	}
	settings.JUnit = "" // the matrix has one
	planned.Settings = settings
	spec := settings.Spec()
	planned.Size = matrix.Size{
		MemoryMB: spec.MemoryMB * spec.NodeCount, Cores: spec.CPUCores * spec.NodeCount, VMs: spec.NodeCount,
	}
	_, suites := specs(settings)
	problems := append(placement.ValidateSpec(spec), suites, checkHive(settings, settings.Hive.Layout))
	if settings.HostsFile != "" {
		problems = append(problems, errors.New("hosts_file: the hosts of a file are there once, and each cell needs a cluster of its own"))
	}
	if _, err := cluster.ParseName(cell.Name); err != nil {
		problems = append(problems, err)
	}
	if !planned.Size.Within(limits.Budget) {
		problems = append(problems, fmt.Errorf("it takes %s, and the budget is %s", planned.Size, limits.Budget))
	}
	return planned, problems
}

// mistakes are what is wrong with cells. What is wrong with several is told once, with how many these are.
type mistakes []mistake

type mistake struct {
	err   error
	cells []string // their labels
}

// add adds what is wrong with a cell.
func (m *mistakes) add(label string, problems []error) {
	for _, err := range problems {
		if err == nil {
			continue
		}
		i := slices.IndexFunc(*m, func(o mistake) bool { return o.err.Error() == err.Error() })
		if i < 0 {
			i = len(*m)
			*m = append(*m, mistake{err: err})
		}
		(*m)[i].cells = append((*m)[i].cells, label)
	}
}

// told is each mistake, with the cells that it is in, of so many.
func (m mistakes) told(of int) []error {
	const most = 3 // cells that are named
	var all []error
	for _, o := range m {
		where := "cell " + o.cells[0]
		switch n := len(o.cells); {
		case n == of && n > 1:
			where = fmt.Sprintf("all %d cells", of)
		case n > most:
			where = fmt.Sprintf("%d of %d cells (%s; and %d more)", n, of, strings.Join(o.cells[:most], "; "), n-most)
		case n > 1:
			where = fmt.Sprintf("%d of %d cells (%s)", n, of, strings.Join(o.cells, "; "))
		}
		all = append(all, fmt.Errorf("%s: %w", where, o.err))
	}
	return all
}

// checkKeys says which keys are those of no setting that cells can have, each once.
func checkKeys(m matrix.Matrix, cells []matrix.Cell) []error {
	wrong := map[string]error{}
	for _, cell := range cells {
		for key := range cell.Settings {
			if _, told := wrong[key]; !told {
				wrong[key] = ofCells(key)
			}
		}
	}
	var problems []error
	byLine := func(a, b string) int { return cmp.Or(cmp.Compare(m.Lines[a], m.Lines[b]), cmp.Compare(a, b)) }
	for _, key := range slices.SortedFunc(maps.Keys(wrong), byLine) {
		err := wrong[key]
		if line, known := m.Lines[key]; known && err != nil {
			err = fmt.Errorf("%s:%d: %w", m.File, line, err)
		}
		problems = append(problems, err)
	}
	return problems
}

// ofCells says why a key is none of a setting that cells can have.
func ofCells(key string) error {
	for _, row := range config.Table() {
		switch {
		case row.Key != key:
		case row.Secret:
			return fmt.Errorf("%s: it is secret, and what the file says stands in plans and reports: give it by the environment",
				key)
		case row.Global() || key == "evidence_dir" || key == "junit":
			return fmt.Errorf("%s: it is of the run as a whole: give it by its flag", key)
		}
	}
	return config.CheckKey(key)
}

// looksSecret says which variable of suites, a line each, most likely holds a secret.
func looksSecret(variables string) error {
	for entry := range strings.Lines(variables) {
		if name, value, given := strings.Cut(strings.TrimSpace(entry), "="); given && probablySecret(name, value) {
			return fmt.Errorf("%s looks secret, and what the file says stands in plans and reports: give its name alone, and "+
				"the value by the environment", name)
		}
	}
	return nil
}

// fingerprint tells the settings of a cell from others that lead to another cluster, or other tests.
func fingerprint(settings config.Settings) string {
	h := sha256.New()
	for _, v := range settings.Values() {
		if ofCells(v.Key) == nil && v.Key != "keep" && v.Key != "wait" {
			fmt.Fprintf(h, "%s=%q\n", v.Key, v.Value)
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}

// chosenCells are those that the request names, or all.
func chosenCells(
	request MatrixRequest, planned []PlannedCell, cells []matrix.Cell, sizes []matrix.Size,
) ([]PlannedCell, error) {
	named := func(names []string) []PlannedCell {
		return slices.DeleteFunc(slices.Clone(planned), func(c PlannedCell) bool { return !slices.Contains(names, c.Name) })
	}
	if request.Of > 0 {
		var names []string
		for _, cell := range matrix.Shard(cells, sizes, request.Shard, request.Of) {
			names = append(names, cell.Name)
		}
		return named(names), nil
	}
	if len(request.Cells) == 0 {
		return planned, nil
	}
	for _, name := range request.Cells {
		if !slices.ContainsFunc(cells, func(c matrix.Cell) bool { return c.Name == name }) {
			return nil, progress.WithHint(
				fmt.Errorf("there is no cell %s", name), "`hive-test matrix plan FILE` lists the cells")
		}
	}
	return named(request.Cells), nil
}

// expect fills in how long each cell will take: as long as it took when it passed last, or else a guess that is right
// for those of which that is known.
func expect(store *state.Store, cells []PlannedCell) {
	guess := func(c PlannedCell) float64 { return guessBase + guessPerNode*float64(c.Size.VMs) }
	known, guessed := 0.0, 0.0
	for i := range cells {
		c := &cells[i]
		for _, past := range pastReports(store, cluster.Name(c.Name)) {
			if past.Verb == "full" && past.Result == progress.Passed {
				c.Seconds, c.Known = past.Seconds, true
				known, guessed = known+past.Seconds, guessed+guess(*c)
				break
			}
		}
	}
	scale := 1.0
	if guessed > 0 {
		scale = known / guessed
	}
	for i := range cells {
		if !cells[i].Known {
			cells[i].Seconds = guess(cells[i]) * scale
		}
	}
}

// matrixOf is a plan as events tell it.
func matrixOf(request MatrixRequest, plan MatrixPlan) *progress.Matrix {
	m, file := request.Matrix, request.File
	told := &progress.Matrix{Name: m.Name, File: file, Total: plan.Total, Repeat: m.Repeat, Grid: m.Grid, Args: request.Args, Chosen: request.Chosen}
	if len(request.Content) > 0 {
		sum := sha256.Sum256(request.Content)
		told.FileHash = hex.EncodeToString(sum[:])[:12]
	}
	for _, axis := range m.Axes {
		words := make([]string, len(axis.Values))
		for i, value := range axis.Values {
			words[i] = value.Word()
		}
		told.Axes = append(told.Axes, progress.MatrixAxis{Name: axis.Name, Values: words})
	}
	for _, cell := range plan.Cells {
		values := map[string]string{}
		for key, value := range cell.Values {
			values[key] = value.Word()
		}
		told.Cells = append(told.Cells, progress.MatrixCell{
			Name: cell.Name, Label: cell.Label, Place: cell.Place, Settings: fingerprint(cell.Settings), Values: values, Repeat: cell.Repeat,
			MemoryMB: cell.Size.MemoryMB, Cores: cell.Size.Cores, VMs: cell.Size.VMs,
		})
	}
	return told
}

// names are those of the cells.
func (p MatrixPlan) names() []string {
	names := make([]string, len(p.Cells))
	for i, cell := range p.Cells {
		names[i] = cell.Name
	}
	return names
}

// checkSame says how the cells of a plan differ from those of an earlier run of it; nil: they are the same.
func (p MatrixPlan) checkSame(before *progress.Matrix) error {
	now := p.names()
	var then []string
	for _, cell := range before.Cells {
		then = append(then, cell.Name)
	}
	missing := func(of, from []string) []string {
		return slices.DeleteFunc(slices.Clone(of), func(name string) bool { return slices.Contains(from, name) })
	}
	added, gone := missing(now, then), missing(then, now)
	var other []string
	for _, cell := range before.Cells {
		for _, planned := range p.Cells {
			if planned.Name == cell.Name && fingerprint(planned.Settings) != cell.Settings {
				other = append(other, cell.Name)
			}
		}
	}
	if len(added)+len(gone)+len(other) == 0 {
		return nil
	}
	var parts []string
	for _, part := range []struct {
		what  string
		names []string
	}{{"new", added}, {"gone", gone}, {"with other settings", other}} {
		if len(part.names) > 0 {
			parts = append(parts, part.what+": "+strings.Join(part.names, ", "))
		}
	}
	return progress.WithHint(
		fmt.Errorf("the cells are not those of the run to go on with: %s", strings.Join(parts, "; ")),
		"give the same file and flags; without --resume, all cells run anew")
}
