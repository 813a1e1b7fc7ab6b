package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"slices"
	"strings"

	"hive-test/pkg/progress"
)

// Sheet is a table with what is to be said of it, for people who read it elsewhere: in a pull request, in a browser. Its
// texts may come from anywhere: none is taken for markup.
type Sheet struct {
	Title   string
	Lines   []string // below the title
	Columns []string
	Rows    [][]SheetCell
	Notes   []SheetNote // below the table
}

// SheetCell is a cell of a sheet. A status gives it a mark and a color; empty: it has none.
type SheetCell struct {
	Text   string
	Status progress.Status
}

// SheetNote is something that is said of a part of a sheet.
type SheetNote struct{ About, Text string }

//go:embed sheet.html.tmpl
var sheetSource string

var sheetTemplate = template.Must(template.New("sheet").Funcs(template.FuncMap{
	"mark":  mark,
	"text":  progress.OneLine,
	"style": func() template.CSS { return template.CSS(htmlStyle) },
}).Parse(sheetSource))

// HTML returns the sheet as one page that needs nothing else, and whose policy allows no more than the style in it.
func (s Sheet) HTML() []byte {
	var b bytes.Buffer
	// The template is fixed and its functions do not fail, nor does a buffer.
	_ = sheetTemplate.Execute(&b, struct {
		Sheet
		Policy string
	}{s, "default-src 'none'; style-src '" + hashOf(htmlStyle) + "'; img-src data:; base-uri 'none'; form-action 'none'"})
	return b.Bytes()
}

// Markdown returns the sheet as GitHub-flavoured Markdown.
func (s Sheet) Markdown() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n", mdText(s.Title))
	for _, line := range s.Lines {
		fmt.Fprintf(&b, "\n%s\n", mdText(line))
	}
	if len(s.Rows) > 0 {
		b.WriteString("\n" + mdRow(s.Columns) + mdRow(slices.Repeat([]string{"---"}, len(s.Columns))))
	}
	for _, row := range s.Rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = mdText(cell.Text)
			if cell.Status != "" {
				cells[i] = mark(cell.Status) + " " + cells[i]
			}
		}
		b.WriteString(mdRow(cells))
	}
	for i, note := range s.Notes {
		if i == 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "- **%s**: %s\n", mdText(note.About), mdText(note.Text))
	}
	return []byte(b.String())
}

func mdRow(cells []string) string { return "| " + strings.Join(cells, " | ") + " |\n" }
