package report_test

import (
	"strings"
	"testing"

	"hive-test/pkg/progress"
	"hive-test/pkg/report"
)

// Nothing of a sheet's texts is markup, calls anybody or breaks a table, in either form.
func TestSheetKeepsTextsAsTexts(t *testing.T) {
	const evil = "a|b <img src=x onerror=alert(1)> [x](javascript:alert(1)) @team\n| c `d` \x1b[31mred</td>"
	s := report.Sheet{
		Title: evil, Lines: []string{evil}, Columns: []string{"What", "How"},
		Rows:  [][]report.SheetCell{{{Text: evil}, {Text: "works", Status: progress.Passed}}},
		Notes: []report.SheetNote{{About: evil, Text: evil}},
	}
	md, html := string(s.Markdown()), string(s.HTML())
	for _, part := range []string{"<img", "[x]", "@team", "\x1b", "a|b"} {
		if strings.Contains(md, part) {
			t.Errorf("Markdown has %q:\n%s", part, md)
		}
	}
	for _, part := range []string{"<img", "\x1b"} {
		if strings.Contains(html, part) {
			t.Errorf("HTML has %q:\n%s", part, html)
		}
	}
	for line := range strings.Lines(md) {
		if strings.HasPrefix(line, "|") && strings.Count(line, "|")-strings.Count(line, `\|`) != 3 {
			t.Errorf("a row has not two cells: %s", line)
		}
	}
	if !strings.Contains(md, "| ✓ works |") || !strings.Contains(html, `<td class="passed">✓ works</td>`) {
		t.Errorf("a cell has not its mark:\n%s\n%s", md, html)
	}
}
