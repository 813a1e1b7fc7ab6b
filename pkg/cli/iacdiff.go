package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"hive-test/pkg/config"
	"hive-test/pkg/engine"
	"hive-test/pkg/iac"
	"hive-test/pkg/progress"
	"hive-test/pkg/report"
)

const iacDiffLong = `diff compares two tables of iac probe -o json, A before and B after: what of the provider's resources an
endpoint has gained and lost, and what fails for another reason than it did.

  lost      it worked in A, and does not in B, or was not tried there
  changed   it works in neither, and verdict or call that decides differ
  gained    it works in B, and did not in A, or was not tried there

It exits 6 if something is lost, and 0 if nothing is, whatever else differs.`

func (a *app) iacDiffCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "what an endpoint gained, lost and does otherwise, of two tables of iac probe",
		Long:  iacDiffLong,
		Example: `  hive-test iac diff before.json after.json
  hive-test iac diff before.json after.json -o md >>"$GITHUB_STEP_SUMMARY"`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usage(progress.WithHint(
					fmt.Errorf("%s takes two files, A and B", cmd.CommandPath()), usageLine(cmd)))
			}
			return nil
		},
	}
	load, form := a.settings(cmd), sheetForm(cmd.Flags())
	cmd.RunE = run(func(_ context.Context, _ *cobra.Command, args []string) error {
		settings, err := load()
		if err == nil {
			err = form.over(&settings)
		}
		if err != nil {
			return err
		}
		before, beforeErr := readProbe(args[0])
		after, afterErr := readProbe(args[1])
		if err := errors.Join(beforeErr, afterErr); err != nil {
			return usage(progress.WithHint(err, "hive-test iac probe -o json >FILE makes such a file"))
		}
		d := iac.Compare(before, after)
		if err := a.unlessUnread(a.printDifference(d, settings)); err != nil {
			return err
		}
		if d.Count(iac.Lost) > 0 {
			return engine.Error{Code: engine.ExitTest}
		}
		return nil
	})
	return cmd
}

// readProbe reads a table from a file.
func readProbe(name string) (iac.Table, error) {
	file, err := os.Open(name)
	if err != nil {
		return iac.Table{}, err
	}
	defer func() { _ = file.Close() }()
	table, err := iac.ReadTable(file)
	if err != nil {
		return table, fmt.Errorf("reading %s: %w", name, err)
	}
	return table, nil
}

// printDifference prints what differs between two tables.
func (a *app) printDifference(d iac.Difference, settings config.Settings) error {
	if structured, err := printAs(a.Stdout, settings.Output, d); structured {
		return err
	}
	sheet := func() report.Sheet { return differenceSheet(d) }
	if printed, err := a.printSheet(settings.Output, sheet); printed {
		return err
	}
	p := a.page(a.Stdout, settings)
	if settings.Output == "wide" {
		p = p.complete()
	}
	for _, line := range differenceLines(d) {
		if err := p.line(line, "  "); err != nil {
			return err
		}
	}
	if len(d.Changes) == 0 {
		return nil
	}
	var rows [][]string
	for _, c := range d.Changes {
		rows = append(rows, []string{string(c.Change), c.Resource, c.Part, cellWord(c.Before), cellWord(c.After)})
	}
	return p.table([]column{
		{name: "CHANGE", color: lossColor},
		{name: "RESOURCE"},
		{name: "PART"},
		{name: "BEFORE", least: 12},
		{name: "AFTER", least: 12},
	}, rows)
}

// differenceLines tell what was compared, and how much differs.
func differenceLines(d iac.Difference) []string {
	summary := "no difference"
	if len(d.Changes) > 0 {
		summary = fmt.Sprintf("%d lost, %d changed, %d gained", d.Count(iac.Lost), d.Count(iac.Changed), d.Count(iac.Gained))
	}
	return []string{"A: " + probedLine(d.Before), "B: " + probedLine(d.After), summary}
}

// differenceSheet is what differs for people who read it elsewhere.
func differenceSheet(d iac.Difference) report.Sheet {
	s := report.Sheet{
		Title: "What differs between two probes of an EC2 endpoint", Lines: differenceLines(d),
		Columns: []string{"Change", "Resource", "Part", "Before", "After"},
	}
	statuses := map[iac.ChangeKind]progress.Status{
		iac.Lost: progress.Failed, iac.Changed: progress.Skipped, iac.Gained: progress.Passed,
	}
	for _, c := range d.Changes {
		s.Rows = append(s.Rows, []report.SheetCell{
			{Text: string(c.Change), Status: statuses[c.Change]},
			{Text: c.Resource},
			{Text: c.Part},
			{Text: cellWord(c.Before)},
			{Text: cellWord(c.After)},
		})
	}
	return s
}

// cellWord is a cell in one line; - where there is none.
func cellWord(c *iac.Cell) string {
	if c == nil {
		return "-"
	}
	return c.String()
}

// lossColor is the color of a change.
func lossColor(change string) progress.Color {
	switch iac.ChangeKind(change) {
	case iac.Lost:
		return progress.Red
	case iac.Changed:
		return progress.Yellow
	case iac.Gained:
		return progress.Green
	}
	return ""
}
