package progress

import (
	"fmt"
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
	fmt.Fprintln(w, "PHASE\tRESULT\tTIME")
	for _, row := range rows {
		note := prefixedWith("\t", OneLine(row.Note))
		fmt.Fprintf(w, "%s\t%s\t%s%s\n", OneLine(row.Name), row.Status, FormatSeconds(row.Seconds), note)
	}
	_ = w.Flush()
	return b.String()
}
