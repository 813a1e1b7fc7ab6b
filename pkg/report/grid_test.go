package report

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hive-test/pkg/progress"
)

// matrixOf is a matrix over axes a and b, with cells whose values are "a b" and which ended with a status each.
func matrixOf(grid []string, cells ...[2]string) *progress.Matrix {
	m := &progress.Matrix{
		Name: "m", File: "m's.yaml", Grid: grid,
		Axes: []progress.MatrixAxis{{Name: "a", Values: []string{"1", "2"}}, {Name: "b", Values: []string{"x", "y"}}},
	}
	for i, cell := range cells {
		a, b, _ := strings.Cut(cell[0], " ")
		m.Cells = append(m.Cells, progress.MatrixCell{
			Name: "m-" + string(rune('p'+i)), Label: "a=" + a + ", b=" + b, Values: map[string]string{"a": a, "b": b},
			Status: progress.Status(cell[1]), RunDir: "/runs/m-" + string(rune('p'+i)) + "/20261130T010203.004Z-full",
		})
	}
	return m
}

func TestGrid(t *testing.T) {
	cells := [][2]string{{"1 x", "passed"}, {"1 y", "failed"}, {"2 x", "passed"}, {"2 x", "interrupted"}, {"3 x", "passed"}}
	for _, c := range []struct {
		grid []string
		want []string
	}{
		{nil, []string{`| a \\ b | x | y |`, "| 1 | ✓ 0.0s | ✗ 0.0s |", "| 2 | ! 0.0s, 1 of 2 passed |  |", "| 3 | ✓ 0.0s |  |"}},
		{[]string{"b", "a"}, []string{`| b \\ a | 1 | 2 | 3 |`, "| y | ✗ 0.0s |  |  |"}},
	} {
		var b strings.Builder
		mdMatrix(&b, Report{Matrix: matrixOf(c.grid, cells...)})
		for _, line := range c.want {
			if !strings.Contains(b.String(), "\n"+line+"\n") {
				t.Errorf("%v: no line %q in\n%s", c.grid, line, b.String())
			}
		}
	}
}

// Every row and column of the grid has a name.
func TestGridNamesAll(t *testing.T) {
	one := &progress.Matrix{
		Axes:  []progress.MatrixAxis{{Name: "a", Values: []string{"1", "2"}}},
		Cells: []progress.MatrixCell{{Values: map[string]string{"a": "1"}, Status: progress.Passed}},
	}
	extra := matrixOf(nil, [2]string{"1 x", "passed"})
	extra.Cells = append(extra.Cells, progress.MatrixCell{Values: map[string]string{"c": "3"}, Status: progress.Failed})
	for name, c := range map[string]struct {
		matrix *progress.Matrix
		want   string
	}{
		"one axis": {one, "| a | result |\n|---|---|\n| 1 | ✓ 0.0s |\n| 2 |  |\n"},
		"a cell without axes": {
			extra, "| a \\\\ b | x | y | (not set) |\n|---|---|---|---|\n| 1 | ✓ 0.0s |  |  |\n| 2 |  |  |  |\n| (not set) |  |  | ✗ 0.0s |\n",
		},
	} {
		r := Report{Matrix: c.matrix}
		var b strings.Builder
		mdMatrix(&b, r)
		if !strings.Contains(b.String(), c.want) {
			t.Errorf("%s: no\n%s\nin\n%s", name, c.want, b.String())
		}
		if page := string(HTML(r)); strings.Contains(page, "<th></th>") {
			t.Errorf("%s: the page has a row or column without a name", name)
		}
	}
}

// Of cells that ran several times, those whose runs differ are flaky.
func TestFlakyCells(t *testing.T) {
	plan := matrixOf(nil)
	plan.Repeat = 2
	for i, cell := range []struct {
		a, b   string
		status progress.Status
	}{
		{"1", "x", progress.Passed},
		{"1", "x", progress.Failed},
		{"1", "y", progress.Failed},
		{"1", "y", progress.Failed},
		{"2", "x", progress.Passed},
		{"2", "x", progress.Passed},
		{"2", "y", progress.Passed},
		{"2", "y", progress.Interrupted},
	} {
		plan.Cells = append(plan.Cells, progress.MatrixCell{
			Name: fmt.Sprintf("m-%d", i), Label: fmt.Sprintf("a=%s, b=%s, run %d of 2", cell.a, cell.b, i%2+1),
			Values: map[string]string{"a": cell.a, "b": cell.b}, Repeat: i%2 + 1, Status: cell.status,
		})
	}
	plan.FindFlaky()
	r := Build([]progress.Event{{Kind: progress.RunEnd, Matrix: plan}})
	want := []progress.MatrixFlaky{{Label: "a=1, b=x", Passed: 1, Failed: 1, Cells: []string{"m-0", "m-1"}}}
	if diff := cmp.Diff(want, r.Matrix.Flaky); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	files := Files(r)
	for file, wants := range map[string][]string{
		MarkdownFile: {
			"| 1 | ! 0.0s, 1 of 2 passed, flaky | ✗ 0.0s, 0 of 2 passed |", "**Flaky:** a=1, b=x: 1 passed, 1 failed.",
			"| m-1 | a=1, b=x, run 2 of 2 | ! flaky |", "| m-2 | a=1, b=y, run 1 of 2 | ✗ failed |",
		},
		HTMLFile: {
			`<td class="flaky">! 0.0s, 1 of 2 passed, flaky</td>`, `<span class="flaky">! flaky</span> a=1, b=x: 1 passed, 1 failed`,
			`<td class="flaky">! flaky</td>`,
		},
		JSONFile: {`"label": "a=1, b=x",`},
	} {
		for _, want := range wants {
			if !strings.Contains(string(files[file]), want) {
				t.Errorf("%s: no %q in\n%s", file, want, files[file])
			}
		}
	}
}

// Cells that were cut off, or have not begun, count for no time.
func TestTimesOfTheGrid(t *testing.T) {
	plan := matrixOf(nil, [2]string{"1 x", "passed"}, [2]string{"1 x", "interrupted"}, [2]string{"2 x", "interrupted"}, [2]string{"2 y", "interrupted"})
	took := func(node string, status progress.Status, seconds float64) progress.Event {
		return progress.Event{Kind: progress.StepEnd, Phase: "cells", Step: "full", Node: node, Status: status, Seconds: seconds}
	}
	code := 130
	text := string(Markdown(Build([]progress.Event{
		{Kind: progress.RunStart, Matrix: plan},
		{Kind: progress.PhaseStart, Phase: "cells"},
		took("m-p", progress.Passed, 8), took("m-q", progress.Interrupted, 2), took("m-r", progress.Interrupted, 3),
		{Kind: progress.RunEnd, Status: progress.Interrupted, ExitCode: &code, Matrix: plan},
	})))
	for _, want := range []string{
		"| 1 | ! 8.0s, 1 of 2 passed |  |", "| 2 | ! interrupted | ! interrupted |",
		"| m-r | a=2, b=x | ! interrupted | 3.0s |", "| m-s | a=2, b=y | ! interrupted |  |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// The page of a matrix links the reports of its cells, and says how a cell is run again.
func TestPageOfAMatrix(t *testing.T) {
	events := []progress.Event{
		{Kind: progress.RunStart, Verb: "matrix", Cluster: "m", Matrix: matrixOf(nil, [2]string{"1 x", "passed"}, [2]string{"1 y", "failed"})},
		{Kind: progress.PhaseStart, Phase: "cells"},
		{Kind: progress.Case, Phase: "cells", Suite: "a=1, b=y", Name: "full", Status: progress.Failed, Error: "<b>"},
	}
	page := string(HTML(Build(events)))
	for _, want := range []string{
		`<a href="../../m-p/20261130T010203.004Z-full/report.html">m-p</a>`, `<td class="failed">✗ 0.0s</td>`,
		`hive-test matrix run &#39;m&#39;&#34;&#39;&#34;&#39;s.yaml&#39; --cell m-q`, "Run its cell again",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in the page", want)
		}
	}
}

// Whatever names and values of a matrix hold, nothing of it acts upon who reads the reports. Those of other machines are merged.
func TestNamesOfAMatrixAreHarmless(t *testing.T) {
	const evil = "e\u202evil\x1b[31m\u009b2J\u2066\x7f"
	hostile := &progress.Matrix{
		Name: evil, File: evil, Args: []string{evil}, Chosen: []string{evil}, Grid: []string{"a" + evil, "b" + evil}, Shared: evil,
		Axes: []progress.MatrixAxis{{Name: "a" + evil, Values: []string{evil}}, {Name: "b" + evil, Values: []string{evil}}},
		Cells: []progress.MatrixCell{{
			Name: evil, Label: evil, Settings: evil, Values: map[string]string{"a" + evil: evil, "b" + evil: evil}, Why: evil, RunDir: evil,
			Status: progress.Failed,
		}},
	}
	for file, content := range Files(Build([]progress.Event{
		{Kind: progress.RunStart, Verb: "matrix", Cluster: "m", Matrix: hostile},
		{Kind: progress.PhaseStart, Phase: "cells"},
		{Kind: progress.StepEnd, Phase: "cells", Step: "full", Node: evil, Message: evil, Status: progress.Failed},
		{Kind: progress.Case, Phase: "cells", Suite: evil, Name: evil, Status: progress.Failed, Error: evil},
	})) {
		if strings.ContainsAny(string(content), "\u202e\x1b\u009b\u2066\x7f") || strings.Contains(string(content), `\u00`) {
			t.Errorf("%s is not clean:\n%s", file, content)
		}
		if file == MarkdownFile && !strings.Contains(string(content), "| evil | ✗ 0.0s |\n") {
			t.Errorf("the grid is not found:\n%s", content)
		}
	}
}

// What became of the cells of a killed run follows from their steps.
func TestCellsOfAKilledMatrix(t *testing.T) {
	plan := matrixOf(nil, [2]string{"1 x"}, [2]string{"1 y"}, [2]string{"2 x"})
	r := Build([]progress.Event{
		{Kind: progress.RunStart, Matrix: plan},
		{Kind: progress.PhaseStart, Phase: "cells"},
		{Kind: progress.StepStart, Phase: "cells", Step: "full", Node: "m-p"},
		{Kind: progress.StepStart, Phase: "cells", Step: "full", Node: "m-q"},
		{Kind: progress.StepEnd, Phase: "cells", Step: "full", Node: "m-p", Status: progress.Passed},
	})
	var got []progress.Status
	for _, cell := range r.Matrix.Cells {
		got = append(got, cell.Status)
	}
	if diff := cmp.Diff([]progress.Status{progress.Passed, progress.Interrupted, ""}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
