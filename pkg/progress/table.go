package progress

import (
	"strings"
	"text/tabwriter"
)

// PhaseRow is one line of a phase table.
type PhaseRow struct {
	Name    string
	Status  Status
	Seconds float64
	Note    string // why it was skipped; may be empty
}

// PhaseTable returns the table of phases that ends a run: name, result, seconds, one line each, with a heading. It is
// empty without rows.
func PhaseTable(rows []PhaseRow) string {
	if len(rows) == 0 {
		return ""
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	write := func(cells ...string) {
		// A strings.Builder cannot fail.
		_, _ = w.Write([]byte(strings.Join(cells, "\t") + "\n"))
	}
	write("PHASE", "RESULT", "TIME")
	for _, row := range rows {
		cells := []string{oneLine(row.Name), string(row.Status), FormatSeconds(row.Seconds)}
		if row.Note != "" {
			cells = append(cells, oneLine(row.Note))
		}
		write(cells...)
	}
	_ = w.Flush()
	return b.String()
}
