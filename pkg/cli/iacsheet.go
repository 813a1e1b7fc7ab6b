package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"hive-test/pkg/config"
	"hive-test/pkg/iac"
	"hive-test/pkg/progress"
	"hive-test/pkg/report"
)

// sheetForms are the forms of what iac prints: those of everything, Markdown and a page.
func sheetForms() []string { return []string{"table", "wide", "json", "yaml", "md", "html"} }

// sheetFlag is an -o that takes sheetForms.
type sheetFlag struct{ form *string }

func sheetForm(flags *pflag.FlagSet) sheetFlag {
	return sheetFlag{flags.StringP("output", "o", "", "form of the data on stdout: "+strings.Join(sheetForms(), ", "))}
}

// over lays the flag over what the settings say.
func (f sheetFlag) over(settings *config.Settings) error {
	if settings.Output = cmp.Or(*f.form, settings.Output); !slices.Contains(sheetForms(), settings.Output) {
		return usage(fmt.Errorf("-o %s: it is not one of %s", settings.Output, strings.Join(sheetForms(), ", ")))
	}
	return nil
}

// printSheet prints a sheet as Markdown or as a page; ok is false for other forms.
func (a *app) printSheet(form string, sheet func() report.Sheet) (ok bool, err error) {
	switch form {
	case "md":
		_, err = a.Stdout.Write(sheet().Markdown())
	case "html":
		_, err = a.Stdout.Write(sheet().HTML())
	default:
		return false, nil
	}
	return true, err
}

// printProbe prints a table of verdicts, and below it the calls that have decided.
func (a *app) printProbe(table iac.Table, settings config.Settings) error {
	if structured, err := printAs(a.Stdout, settings.Output, table); structured {
		return err
	}
	sheet := func() report.Sheet { return probeSheet(table) }
	if printed, err := a.printSheet(settings.Output, sheet); printed {
		return err
	}
	columns := []column{{name: "RESOURCE"}}
	for _, phase := range iac.Phases() {
		columns = append(columns, column{name: strings.ToUpper(phase), color: verdictColor})
	}
	var rows [][]string
	for _, row := range table.Rows {
		cells := []string{row.Resource}
		for _, phase := range iac.Phases() {
			cells = append(cells, dash(string(row.Cells[phase].Verdict)))
		}
		rows = append(rows, cells)
	}
	p := a.page(a.Stdout, settings)
	if settings.Output == "wide" {
		p = p.complete()
	}
	if err := p.table(columns, rows); err != nil {
		return err
	}
	for _, reason := range reasons(table) {
		if err := p.line(progress.Clean(reason.About+": "+reason.Text), "  "); err != nil {
			return err
		}
	}
	return nil
}

// reasons are the calls that have decided, where something does not work.
func reasons(table iac.Table) (list []report.SheetNote) {
	for _, row := range table.Rows {
		for _, phase := range iac.Phases() {
			cell, there := row.Cells[phase]
			if there && cell.Verdict != iac.Works && cell.Verdict != iac.Blocked {
				list = append(list, report.SheetNote{About: row.Resource + ", " + phase, Text: cell.String()})
			}
		}
	}
	return list
}

// probeSheet is a table for people who read it elsewhere.
func probeSheet(table iac.Table) report.Sheet {
	s := report.Sheet{
		Title: "What an EC2 endpoint does for Terraform's AWS provider",
		Lines: []string{probedLine(table.Summary()) + ", by " + progress.Count(table.Calls, "call")},
		Notes: reasons(table), Columns: []string{"Resource"},
	}
	for _, phase := range iac.Phases() {
		s.Columns = append(s.Columns, strings.ToUpper(phase[:1])+phase[1:])
	}
	for _, row := range table.Rows {
		cells := []report.SheetCell{{Text: row.Resource}}
		for _, phase := range iac.Phases() {
			cell, there := row.Cells[phase]
			if !there {
				cells = append(cells, report.SheetCell{})
				continue
			}
			cells = append(cells, report.SheetCell{Text: string(cell.Verdict), Status: verdictStatus(cell.Verdict)})
		}
		s.Rows = append(s.Rows, cells)
	}
	return s
}

// probedLine tells what was probed, when, and how much of it works.
func probedLine(p iac.Probed) string {
	return fmt.Sprintf("%s, %s: %d of %s %s",
		p.Endpoint, p.Time.UTC().Format(time.DateTime+" UTC"), p.Working, progress.Count(p.Parts, "part"),
		map[bool]string{true: "works", false: "work"}[p.Working == 1])
}

// verdictStatus is the status that a part's verdict is drawn as.
func verdictStatus(v iac.Verdict) progress.Status {
	switch v {
	case iac.Works:
		return progress.Passed
	case iac.Blocked:
		return progress.Skipped
	}
	return progress.Failed
}

// verdictColor is the color of a part's verdict.
func verdictColor(cell string) progress.Color {
	switch iac.Verdict(cell) {
	case iac.Works:
		return progress.Green
	case iac.Stub, iac.WrongShape, iac.Missing, iac.Fails:
		return progress.Red
	}
	return progress.Dim
}
