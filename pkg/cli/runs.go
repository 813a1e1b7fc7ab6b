package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
	"hive-test/pkg/engine"
	"hive-test/pkg/progress"
	"hive-test/pkg/remote"
)

func (a *app) runsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "runs [NAME]",
		Short: "the runs that are kept, what differs between two of them, and which of them may go",
		Long: `runs lists what runs have left below the clusters directory, the newest first: of one cluster, or of all,
those that are gone included. A run that is at work is running, and one that was killed is interrupted, as its events
tell; what logs has gathered is listed, too. CASES are those that passed, of all. A directory that cannot be read is told below the table.

A cluster that is called diff or prune is listed by hive-test runs -- diff.`,
		Example: `  hive-test runs
  hive-test runs dev1 -o wide
  hive-test runs diff previous latest dev1
  hive-test runs prune --keep 20 --older-than 30d`,
		Args: nameOrNone,
	}
	load := a.settings(cmd)
	cmd.RunE = run(func(ctx context.Context, _ *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		return a.listRuns(ctx, strings.Join(args, ""), settings)
	})
	cmd.AddCommand(a.runsDiffCommand(), a.runsPruneCommand())
	return cmd
}

// runsJSON is the shape of `runs -o json`.
type runsJSON struct {
	Schema int              `json:"schema"`
	Runs   []engine.KeptRun `json:"runs"`
}

func (a *app) listRuns(ctx context.Context, name string, settings config.Settings) error {
	e, err := engine.Open(ctx, engine.Options{})
	if err != nil {
		return err
	}
	runs, err := e.Runs(a.request(name, settings))
	if err != nil {
		return err
	}
	document := runsJSON{outputSchema, runs}
	if structured, err := printAs(a.Stdout, settings.Output, document); structured {
		return err
	}
	if len(runs) == 0 {
		fmt.Fprintf(a.Stderr, "no runs in %s\n", filepath.Join(settings.ClustersDir, ".runs"))
		return nil
	}
	return document.print(a.page(a.Stdout, settings), settings.Output == "wide")
}

// runsColumns are those of the list of runs. On a narrow terminal STARTED goes first, which RUN tells, too, then VERB,
// which it also does, SIZE, CODE.
func runsColumns() []column {
	return []column{
		{name: "CLUSTER", least: 8},
		{name: "RUN"},
		{name: "VERB", drop: 2},
		{name: "RESULT", color: runColor},
		{name: "CODE", right: true, drop: 4},
		{name: "STARTED", drop: 1},
		{name: "TOOK", right: true},
		{name: "CASES", right: true},
		{name: "SIZE", right: true, drop: 3},
	}
}

// wideRunsColumns follow with -o wide.
func wideRunsColumns() []column {
	return []column{
		{name: "FAILED", right: true},
		{name: "FLAKY", right: true},
		{name: "SKIPPED", right: true},
		{name: "DIRECTORY"},
	}
}

func runColor(result string) progress.Color {
	if result == string(engine.RunRunning) {
		return progress.Yellow
	}
	return stateColor(result)
}

// print writes the table for people.
func (d runsJSON) print(p page, wide bool) error {
	columns := runsColumns()
	if wide {
		p, columns = p.complete(), append(columns, wideRunsColumns()...)
	}
	var rows [][]string
	var total int64
	names := map[string]bool{}
	for _, r := range d.Runs {
		total += r.Bytes
		names[r.Cluster] = true
		rows = append(rows, []string{
			r.Cluster, dash(r.Run), dash(r.Verb), string(r.Result), codeWord(r.ExitCode), startedWord(r.Started),
			tookWord(r), casesWord(r.Cases), sizeWord(r.Bytes),
			strconv.Itoa(r.Cases.Failed + r.Cases.Interrupted), strconv.Itoa(r.Cases.Flaky),
			strconv.Itoa(r.Cases.Skipped + r.Cases.Quarantined), r.RunDir,
		}[:len(columns)])
	}
	if err := p.table(columns, rows); err != nil {
		return err
	}
	for _, r := range d.Runs {
		if r.Problem == "" {
			continue
		}
		if err := p.line("  - "+r.RunDir+": "+r.Problem, "    "); err != nil {
			return err
		}
	}
	return p.line(fmt.Sprintf(
		"%s of %s, %s", progress.Count(len(d.Runs), "run"), progress.Count(len(names), "cluster"), sizeWord(total),
	), "  ")
}

func codeWord(code *int) string {
	if code == nil {
		return "-"
	}
	return strconv.Itoa(*code)
}

func startedWord(at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return at.Local().Format(time.DateTime)
}

func tookWord(r engine.KeptRun) string {
	if r.Result == engine.RunUnknown || r.Result == engine.RunGathered {
		return "-"
	}
	return progress.FormatSeconds(r.Seconds)
}

func casesWord(c engine.RunCases) string {
	if c.Total() == 0 {
		return "-"
	}
	return fmt.Sprintf("%d/%d", c.Passed, c.Total())
}

// sizeWord writes a number of bytes for people: 512 B, 1.5 KiB, 20.0 MiB.
func sizeWord(bytes int64) string {
	if bytes < 1<<10 {
		return fmt.Sprintf("%d B", bytes)
	}
	size := float64(bytes)
	for _, unit := range []string{"KiB", "MiB", "GiB"} {
		if size /= 1 << 10; size < 1023.95 || unit == "GiB" {
			return fmt.Sprintf("%.1f %s", size, unit)
		}
	}
	return ""
}

const runsDiffLong = `diff compares two runs from what they left: A came before, B after. Each is the directory
of a run, or the name of one or its beginning, or latest or previous; NAME is the cluster that names are of, which may be left out where only one has
such a run.

Shown are the cases and phases that fail newly or still, are flaky now, are slower, fixed, new, gone or skipped; and
settings, versions of hive, nodes and hypervisors that differ. Nodes are called node-1, node-2, ..., so that runs of two
clusters can be compared. Slower is what took more than 1.5 times as long and more than a second longer, and longer
than in each of the up to 20 earlier runs of that verb that passed, where at least 3 of them tell. Whatever differs, the
exit code is 0.`

func (a *app) runsDiffCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "diff A B [NAME]",
		Short: "what differs between two runs: cases, times, settings, versions",
		Long:  runsDiffLong,
		Example: `  hive-test runs diff previous latest dev1
  hive-test runs diff 20261105T0930 20261106T0930 dev1
  hive-test runs diff clusters/.runs/ci-7/latest clusters/.runs/ci-8/latest`,
		Args: twoRuns,
	}
	load := a.settings(cmd)
	cmd.RunE = run(func(ctx context.Context, _ *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		e, err := engine.Open(ctx, engine.Options{})
		if err != nil {
			return err
		}
		diff, err := e.DiffRuns(engine.DiffRequest{
			Request: a.request(strings.Join(args[2:], ""), settings), Before: args[0], After: args[1],
		})
		if err != nil {
			return err
		}
		document := runsDiffJSON{outputSchema, diff}
		if structured, err := printAs(a.Stdout, settings.Output, document); structured {
			return err
		}
		return document.print(a.page(a.Stdout, settings), settings.Output == "wide")
	})
	return cmd
}

// twoRuns takes two runs, and the name of a cluster.
func twoRuns(cmd *cobra.Command, args []string) error {
	if len(args) < 2 || len(args) > 3 {
		return usage(progress.WithHint(
			fmt.Errorf("%s takes two runs, and may take the name of a cluster", cmd.CommandPath()), usageLine(cmd),
		))
	}
	for _, name := range args[2:] {
		if _, err := cluster.ParseName(name); err != nil {
			return usage(err)
		}
	}
	return nil
}

// runsDiffJSON is the shape of `runs diff -o json`.
type runsDiffJSON struct {
	Schema int `json:"schema"`
	engine.RunsDiff
}

// diffColumns are those of what differs. On a narrow terminal the columns are shortened, and none is left out.
func diffColumns() []column {
	return []column{
		{name: "CHANGE", color: changeColor},
		{name: "WHAT", least: 24},
		{name: "BEFORE", least: 12},
		{name: "AFTER", least: 12},
	}
}

func changeColor(change string) progress.Color {
	switch change {
	case changeWord(engine.NewlyFailing), changeWord(engine.StillFailing):
		return progress.Red
	case changeWord(engine.NowFlaky), changeWord(engine.Slower), changeWord(engine.GoneCase):
		return progress.Yellow
	case changeWord(engine.Fixed):
		return progress.Green
	}
	return ""
}

func changeWord(kind engine.ChangeKind) string { return strings.ReplaceAll(string(kind), "_", " ") }

// print writes what differs for people.
func (d runsDiffJSON) print(p page, wide bool) error {
	if wide {
		p = p.complete()
	}
	lines := []string{"before: " + keptLine(d.Before), "after:  " + keptLine(d.After)}
	for _, line := range lines {
		if err := p.line(line, "  "); err != nil {
			return err
		}
	}
	var rows [][]string
	for _, change := range d.Phases {
		rows = append(rows, changeRow(change, "phase "+change.Name))
	}
	for _, change := range d.Cases {
		rows = append(rows, changeRow(change, caseWord(change)))
	}
	for _, v := range d.Settings {
		rows = append(rows, []string{"setting", v.Key, givenWord(v.Before), givenWord(v.After)})
	}
	for _, v := range d.Versions {
		rows = append(rows, []string{"version", v.Key, v.Before, v.After})
	}
	if len(rows) == 0 {
		if err := p.line("no difference", "  "); err != nil {
			return err
		}
	} else if err := p.table(diffColumns(), rows); err != nil {
		return err
	}
	for _, note := range append(d.failures(), d.Notes...) {
		if err := p.line("  - "+note, "    "); err != nil {
			return err
		}
	}
	return nil
}

// failures are the errors of what fails newly.
func (d runsDiffJSON) failures() []string {
	var lines []string
	for _, change := range d.Cases {
		if change.Error != "" && (change.Change == engine.NewlyFailing || change.Change == engine.NewCase) {
			lines = append(lines, caseWord(change)+": "+change.Error)
		}
	}
	return lines
}

func keptLine(r engine.KeptRun) string {
	result := string(r.Result)
	if r.ExitCode != nil {
		result += fmt.Sprintf(" (exit code %d)", *r.ExitCode)
	}
	return fmt.Sprintf(
		"%s of %s, %s, %s, %s, %s", r.Verb, dash(r.Cluster), startedWord(r.Started), result,
		progress.FormatSeconds(r.Seconds), remote.Quote(shortPath(r.RunDir)),
	)
}

// shortPath is a path as it is shown: from the working directory on, where it is below that.
func shortPath(path string) string {
	here, err := os.Getwd()
	if err != nil {
		return path
	}
	if below, err := filepath.Rel(here, path); err == nil && filepath.IsLocal(below) {
		return below
	}
	return path
}

func changeRow(change engine.RunChange, what string) []string {
	before, after := statusWord(change.Before), statusWord(change.After)
	if change.Change == engine.Slower {
		before, after = progress.FormatSeconds(change.BeforeSeconds), progress.FormatSeconds(change.AfterSeconds)
		if change.UsualSeconds > 0 {
			after += fmt.Sprintf(" (%s at most)", progress.FormatSeconds(change.UsualSeconds))
		}
	}
	return []string{changeWord(change.Change), what, before, after}
}

func statusWord(status progress.Status) string { return dash(string(status)) }

// givenWord is the value of a setting, which may not have been given.
func givenWord(value string) string { return dash(value) }

// caseWord is a case as reports call it.
func caseWord(c engine.RunChange) string {
	word := c.Suite + ": " + c.Name
	if c.Node != "" && !strings.HasSuffix(c.Name, c.Node) {
		word += " (" + c.Node + ")"
	}
	return word
}

const runsPruneLong = `prune removes what runs have left, evidence and reports, of the runs that need not be kept.
Of --keep and --older-than at least one is given, and a run goes only if each that is given lets it go: with both, those that began longer ago, but
for the newest of each cluster. It shows them, asks on a terminal, and needs --yes elsewhere.

A run that is at work always stays, and so does the latest run of a cluster that exists. What is not named as a run is
left alone. A removal that was cut off leaves nothing that is taken for a run, and the next prune finishes it.`

// runsPruneFlags are those that are no settings.
type runsPruneFlags struct {
	dryRun, yes bool
	keep        int
	olderThan   *time.Duration
}

func (a *app) runsPruneCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "prune [NAME]",
		Short: "remove runs that need not be kept",
		Long:  runsPruneLong,
		Example: `  hive-test runs prune --keep 20                    # show them, and ask
  hive-test runs prune --keep 20 --older-than 30d --yes
  hive-test runs prune dev1 --older-than 1w --dry-run`,
		Args: nameOrNone,
	}
	load := a.settings(cmd)
	var flags runsPruneFlags
	cmd.Flags().IntVar(&flags.keep, "keep", 0, "keep the newest `number` of runs of each cluster")
	flags.olderThan = config.DurationFlag(
		cmd.Flags(), "older-than", "remove only runs that began longer ago, like 30d",
	)
	cmd.Flags().BoolVar(&flags.dryRun, "dry-run", false, "remove nothing: the default without a terminal")
	cmd.Flags().BoolVar(&flags.yes, "yes", false, "remove without asking")
	cmd.RunE = run(func(ctx context.Context, cmd *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		if flags.dryRun && flags.yes {
			return usage(errors.New("--dry-run removes nothing, and --yes removes without asking: give one of them"))
		}
		request := engine.PruneRequest{
			Request: a.request(strings.Join(args, ""), settings), OlderThan: *flags.olderThan,
		}
		if cmd.Flags().Changed("keep") {
			request.Keep = &flags.keep
		}
		return a.pruneRuns(ctx, request, settings, flags)
	})
	return cmd
}

// runsPruneJSON is the shape of `runs prune -o json`.
type runsPruneJSON struct {
	Schema int  `json:"schema"`
	DryRun bool `json:"dry_run"`
	*engine.PrunePlan
}

func (a *app) pruneRuns(
	ctx context.Context, request engine.PruneRequest, settings config.Settings, flags runsPruneFlags,
) error {
	e, err := engine.Open(ctx, engine.Options{})
	if err != nil {
		return err
	}
	var unasked error
	refused := false
	plan, err := e.PruneRuns(request, func(plan *engine.PrunePlan) (bool, error) {
		switch {
		case flags.yes || flags.dryRun:
		case plan.Something():
			flags.dryRun, unasked = a.askToPrune(plan, settings)
			refused = flags.dryRun && a.onTerminal()
		default:
			flags.dryRun = true
		}
		return !flags.dryRun, unasked
	})
	if plan == nil || unasked != nil {
		return err
	}
	if refused && settings.Output == "table" { // they were shown with the question
		fmt.Fprintln(a.Stderr, "nothing was removed")
		return err
	}
	document := runsPruneJSON{outputSchema, flags.dryRun, plan}
	if structured, printErr := printAs(a.Stdout, settings.Output, document); structured {
		return errors.Join(err, printErr)
	}
	return errors.Join(err, document.print(a.page(a.Stdout, settings), settings.Output == "wide"))
}

// askToPrune shows what would be removed and asks whether it shall be. Where nobody can answer, nothing is removed.
func (a *app) askToPrune(plan *engine.PrunePlan, settings config.Settings) (dryRun bool, err error) {
	if !a.onTerminal() {
		fmt.Fprintln(a.Stderr, "not a terminal: pass --yes to remove them")
		return true, nil
	}
	document := runsPruneJSON{outputSchema, true, plan}
	if err := document.print(a.page(a.Stderr, settings), false); err != nil {
		return true, err
	}
	agreed, err := a.agrees("remove them?")
	return !agreed, err
}

// pruneColumns are those of runs that are removed. On a narrow terminal SIZE goes first, then RESULT.
func pruneColumns() []column {
	return []column{
		{name: "CLUSTER", least: 8},
		{name: "RUN"},
		{name: "RESULT", drop: 2},
		{name: "SIZE", right: true, drop: 1},
		{name: "ACTION", color: pruneColor},
		{name: "REASON", least: 16},
	}
}

func pruneColor(action string) progress.Color {
	switch engine.PruneAction(action) {
	case engine.PruneRemoved:
		return progress.Green
	case engine.PruneFailed:
		return progress.Red
	case engine.PruneRemove:
		return progress.Yellow
	}
	return ""
}

// print writes the table for people: of runs that stay only with all.
func (d runsPruneJSON) print(p page, all bool) error {
	if all {
		p = p.complete()
	}
	var rows [][]string
	counts, bytes := map[engine.PruneAction]int{}, map[engine.PruneAction]int64{}
	for _, r := range d.Runs {
		counts[r.Action]++
		bytes[r.Action] += r.Bytes
		if all || r.Action != engine.PruneKeep {
			rows = append(rows, []string{
				r.Cluster, dash(r.Run), string(r.Result), sizeWord(r.Bytes), string(r.Action), r.Reason,
			})
		}
	}
	if len(rows) > 0 {
		if err := p.table(pruneColumns(), rows); err != nil {
			return err
		}
	}
	verdict := fmt.Sprintf(
		"%s removed (%s), %d failed", progress.Count(counts[engine.PruneRemoved], "run"),
		sizeWord(bytes[engine.PruneRemoved]), counts[engine.PruneFailed],
	)
	if d.DryRun {
		verdict = fmt.Sprintf(
			"%s would be removed (%s)", progress.Count(counts[engine.PruneRemove], "run"),
			sizeWord(bytes[engine.PruneRemove]),
		)
	}
	verdict += fmt.Sprintf(", %d left alone", counts[engine.PruneKeep])
	if half := len(d.HalfRemoved); half > 0 {
		verdict += ", " + progress.Count(half, "removal") + " that was cut off earlier"
		verdict += map[bool]string{true: " would be finished", false: " finished"}[d.DryRun]
	}
	return p.line(verdict, "  ")
}
