package report

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"hive-test/pkg/progress"
)

// grid is the cells of a matrix over two of its axes.
type grid struct {
	Corner  string // what rows and columns are
	Columns []string
	Rows    []gridRow
}

type gridRow struct {
	Name  string
	Spots []gridSpot
}

// gridSpot is the cells that have the values of a row and a column.
type gridSpot struct {
	Status  progress.Status // the worst; empty: there is no cell
	Passed  int
	Cells   []progress.MatrixCell
	Flaky   bool    // some of the cells have failed where others with the same values have passed
	Ended   int     // how many cells have come to their end
	Seconds float64 // of those together
}

// Text is what became of the cells, in few words.
func (s gridSpot) Text() string {
	if len(s.Cells) == 0 {
		return ""
	}
	text := mark(s.Status) + " " + string(s.Status)
	if s.Ended > 0 { // what was cut off, or has not begun, tells nothing of how long a cell takes
		text = mark(s.Status) + " " + progress.FormatSeconds(s.Seconds/float64(s.Ended))
	}
	if len(s.Cells) > 1 {
		text += fmt.Sprintf(", %d of %d passed", s.Passed, len(s.Cells))
	}
	if s.Flaky {
		text += ", flaky"
	}
	return text
}

// gridOf lays the cells out; nil where they have no values to do it by.
func gridOf(r Report) *grid {
	if r.Matrix == nil {
		return nil
	}
	rows, columns := gridAxes(r.Matrix)
	if rows == "" {
		return nil
	}
	seconds := cellSeconds(r)
	g := &grid{Corner: rows + " \\ " + columns}
	across := gridValues(r.Matrix, columns)
	for _, column := range across {
		g.Columns = append(g.Columns, cmp.Or(column, unsetValue))
	}
	if columns == "" {
		g.Corner, g.Columns = rows, []string{"result"}
	}
	for _, name := range gridValues(r.Matrix, rows) {
		row := gridRow{Name: cmp.Or(name, unsetValue)}
		for _, column := range across {
			spot := gridSpot{}
			for _, cell := range r.Matrix.Cells {
				if cell.Values[rows] == name && cell.Values[columns] == column {
					spot.add(cell, statusOf(r.Matrix, cell), seconds[cell.Name])
				}
			}
			row.Spots = append(row.Spots, spot)
		}
		g.Rows = append(g.Rows, row)
	}
	return g
}

// statusOf is what became of a cell, as reports show it.
func statusOf(m *progress.Matrix, cell progress.MatrixCell) progress.Status {
	if m.IsFlaky(cell) {
		return progress.Flaky
	}
	return cmp.Or(cell.Status, progress.Interrupted)
}

func (s *gridSpot) add(cell progress.MatrixCell, status progress.Status, seconds float64) {
	if s.Status == "" || order(status) < order(s.Status) {
		s.Status = status
	}
	if status == progress.Passed {
		s.Passed++
	}
	s.Flaky = s.Flaky || status == progress.Flaky
	if status != progress.Interrupted {
		s.Ended, s.Seconds = s.Ended+1, s.Seconds+seconds
	}
	s.Cells = append(s.Cells, cell)
}

// gridAxes are the axes of rows and columns; columns is empty where there is one axis only.
func gridAxes(m *progress.Matrix) (rows, columns string) {
	names := m.Grid
	for _, axis := range m.Axes {
		if len(m.Grid) == 0 {
			names = append(names, axis.Name)
		}
	}
	names = append(slices.Clone(names), "", "")
	return names[0], names[1]
}

// unsetValue is what the row or column of cells is called to which the matrix gives no value of an axis.
const unsetValue = "(not set)"

// gridValues are the values of an axis, and those that cells have besides; one that cells do not have is empty.
func gridValues(m *progress.Matrix, axis string) []string {
	var values []string
	for _, a := range m.Axes {
		if a.Name == axis {
			values = append(values, a.Values...)
		}
	}
	for _, cell := range m.Cells {
		if value := cell.Values[axis]; !slices.Contains(values, value) {
			values = append(values, value)
		}
	}
	return values
}

// cellSeconds are the times that cells took, by name.
func cellSeconds(r Report) map[string]float64 {
	seconds := map[string]float64{}
	for _, p := range r.Phases {
		for _, s := range p.Steps {
			if s.Node != "" && s.Status != progress.Skipped {
				seconds[s.Node] = s.Seconds
			}
		}
	}
	return seconds
}

// judgeCells fills in what became of cells where the run did not come to its end, from their steps.
func (b *builder) judgeCells() {
	if b.Matrix == nil || b.ended {
		return
	}
	for i := range b.Matrix.Cells {
		cell := &b.Matrix.Cells[i]
		for _, p := range b.Phases {
			for _, s := range p.Steps {
				if s.Node == cell.Name && s.Status != progress.Skipped {
					cell.Status, cell.Why = s.Status, s.Error
				}
			}
		}
	}
	b.Matrix.FindFlaky()
}

// cellRow is a cell as lists show it.
type cellRow struct {
	progress.MatrixCell
	Time string // that it took; empty: it has not begun
	Link link   // its own report
}

func cellRows(r Report) []cellRow {
	if r.Matrix == nil {
		return nil
	}
	seconds := cellSeconds(r)
	rows := make([]cellRow, len(r.Matrix.Cells))
	for i, cell := range r.Matrix.Cells {
		cell.Status = statusOf(r.Matrix, cell)
		rows[i] = cellRow{MatrixCell: cell}
		if took, begun := seconds[cell.Name]; begun || cell.Status != progress.Interrupted {
			rows[i].Time = progress.FormatSeconds(took)
		}
		if run := path.Base(cell.RunDir); cell.RunDir != "" {
			// the directories of all runs are beside each other, also where they were copied to
			if below := relative(cell.Name + "/" + run + "/" + HTMLFile); below != "" {
				rows[i].Link = link{cell.Name, "../../" + strings.TrimPrefix(below, "./")}
			}
		}
	}
	return rows
}

// mdMatrix is the grid, what those that failed have in common, and all cells.
func mdMatrix(b *strings.Builder, r Report) {
	if r.Matrix == nil {
		return
	}
	b.WriteString("\n## Cells\n")
	if g := gridOf(r); g != nil {
		fmt.Fprintf(b, "\n| %s |", mdText(g.Corner))
		for _, column := range g.Columns {
			fmt.Fprintf(b, " %s |", mdText(column))
		}
		b.WriteString("\n|---|" + strings.Repeat("---|", len(g.Columns)) + "\n")
		for _, row := range g.Rows {
			fmt.Fprintf(b, "| %s |", mdText(row.Name))
			for _, spot := range row.Spots {
				fmt.Fprintf(b, " %s |", mdText(spot.Text()))
			}
			b.WriteString("\n")
		}
	}
	if r.Matrix.Shared != "" {
		fmt.Fprintf(b, "\n%s.\n", mdText(r.Matrix.Shared))
	}
	for _, f := range r.Matrix.Flaky {
		fmt.Fprintf(b, "\n**Flaky:** %s.\n", mdText(f.String()))
	}
	b.WriteString("\n| Cell | Values | Result | Time | Why |\n|---|---|---|---:|---|\n")
	for _, c := range cellRows(r) {
		fmt.Fprintf(b, "| %s | %s | %s %s | %s | %s |\n", mdText(c.Name), mdText(c.Label), mark(c.Status),
			mdText(string(c.Status)), c.Time, mdText(c.Why))
	}
}
