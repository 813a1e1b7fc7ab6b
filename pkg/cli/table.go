package cli

import (
	"cmp"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/mattn/go-runewidth"
	"golang.org/x/term"

	"hive-test/pkg/config"
	"hive-test/pkg/progress"
)

// column is one column of a table: how it stands, and what becomes of it where the terminal is too narrow for all.
type column struct {
	name string
	// right says that its cells are numbers: they stand at the right.
	right bool
	// least is how many cells of the screen it may be shortened to; 0: it is never shortened.
	least int
	// drop says which columns are left out, those with the lowest number first, where shortening is not enough; 0: never.
	drop int
	// color returns the color of a cell; nil: it has none.
	color func(cell string) progress.Color
}

// page is where text for people goes. The zero width is that of a file or a pipe: nothing is shortened or left out there.
type page struct {
	io.Writer
	width int // cells in a line
	color bool
}

// page returns w as a page, with its width and colors if it is a terminal.
func (a *app) page(w io.Writer, settings config.Settings) page {
	p := page{Writer: w}
	file, ok := w.(*os.File)
	if !ok || !isTerminal(w) {
		return p
	}
	if width, _, err := term.GetSize(int(file.Fd())); err == nil {
		p.width = width
	}
	p.color = !settings.NoColor && a.Getenv("NO_COLOR") == "" && a.Getenv("TERM") != "dumb"
	return p
}

// height returns how many lines a terminal shows; 0: it is none, or that is not known.
func (a *app) height(w io.Writer) int {
	file, ok := w.(*os.File)
	if !ok {
		return 0
	}
	_, height, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0
	}
	return height
}

// complete returns the page for -o wide, which leaves nothing out.
func (p page) complete() page {
	p.width = 0
	return p
}

// paint returns text in a color, where the page has colors.
func (p page) paint(color progress.Color, text string) string {
	if !p.color {
		return text
	}
	return color.Paint(text)
}

// line writes text as one line, or as several where the page is too narrow: those after the first are indented.
func (p page) line(text, indent string) error {
	return p.marked("", text, indent)
}

// marked is line with something before it that may have colors.
func (p page) marked(mark, text, indent string) error {
	_, err := io.WriteString(p, progress.Wrap(mark+progress.Disarm(oneLine(text)), p.width, indent)+"\n")
	return err
}

const gap = "  " // between columns

// table writes rows under the names of columns. A cell may come from a node: it is a piece of one line of text, and
// nothing else. Where the page is too narrow, columns are shortened, and if that is not enough, some are left out.
func (p page) table(columns []column, rows [][]string) error {
	cells := [][]string{make([]string, len(columns))}
	for i, c := range columns {
		cells[0][i] = c.name
	}
	for _, row := range rows {
		clean := make([]string, len(columns))
		for i := range row {
			clean[i] = oneLine(row[i])
		}
		cells = append(cells, clean)
	}
	widths := fitColumns(columns, natural(cells), p.width)
	var text strings.Builder
	for i, row := range cells {
		text.WriteString(progress.Disarm(p.row(columns, widths, row, i == 0)) + "\n")
	}
	_, err := io.WriteString(p, text.String())
	return err
}

// row is one line of a table.
func (p page) row(columns []column, widths []int, row []string, head bool) string {
	var line strings.Builder
	pending := 0 // blanks that follow if something else does
	for i, c := range columns {
		if widths[i] == 0 {
			continue
		}
		cell := runewidth.Truncate(row[i], widths[i], "…")
		blanks := widths[i] - runewidth.StringWidth(cell)
		if c.right {
			pending += blanks
			blanks = 0
		}
		if cell != "" {
			line.WriteString(strings.Repeat(" ", pending))
			pending = 0
			if c.color != nil && !head {
				cell = p.paint(c.color(row[i]), cell)
			}
			line.WriteString(cell)
		}
		pending += blanks + len(gap)
	}
	return line.String()
}

// natural returns how wide the cells of each column are.
func natural(rows [][]string) []int {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], runewidth.StringWidth(cell))
		}
	}
	return widths
}

// fitColumns returns how wide each column is on a page; 0: it is left out. A page of width 0 has room for all.
func fitColumns(columns []column, natural []int, page int) []int {
	widths := slices.Clone(natural)
	if page <= 0 {
		return widths
	}
	for _, i := range dropOrder(columns) {
		if lineWidth(shortest(columns, widths)) <= page {
			break
		}
		widths[i] = 0
	}
	// The widest gives first, so that no column is shortened while another has far more.
	least := shortest(columns, widths)
	for lineWidth(widths) > page {
		widest := -1
		for i := range widths {
			if widths[i] > least[i] && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return cutLast(widths, page)
		}
		widths[widest]--
	}
	return widths
}

// dropOrder returns the columns that may be left out, in their order.
func dropOrder(columns []column) []int {
	var order []int
	for i, c := range columns {
		if c.drop > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(columns[a].drop, columns[b].drop) })
	return order
}

// shortest returns how wide the columns are when each is shortened as far as it may be.
func shortest(columns []column, widths []int) []int {
	least := slices.Clone(widths)
	for i, c := range columns {
		if c.least > 0 {
			least[i] = min(widths[i], c.least)
		}
	}
	return least
}

// cutLast shortens the columns on the right of a page that is too narrow for what none may give up.
func cutLast(widths []int, page int) []int {
	for i := len(widths) - 1; i > 0 && lineWidth(widths) > page; i-- {
		widths[i] = max(0, widths[i]-(lineWidth(widths)-page))
	}
	widths[0] = min(widths[0], page)
	return widths
}

// lineWidth is how wide columns are side by side.
func lineWidth(widths []int) int {
	sum, shown := 0, 0
	for _, width := range widths {
		if width > 0 {
			sum += width
			shown++
		}
	}
	return sum + max(0, shown-1)*len(gap)
}
