package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"hive-test/pkg/engine"
	"hive-test/pkg/report"
)

func (a *app) ensureCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ensure NAME",
		Short: "make a cluster what is wanted, up and configured; where it is that already, run nothing",
		Long: `ensure compares what is wanted, by flags, environment and config file, with what up and configure have applied last. Where both
are the same nothing is run, no hypervisor and no node is asked, and the document of -o json says changed: false. Else
it does what up and configure do, as far as either is needed: changed: true.

What others have changed is not looked for: drift does that.`,
		Example: `  hive-test ensure dev1 --binary ../hive/bin/hive
  hive-test ensure dev1 --node-count 5 --dry-run -o json`,
		Args: named(1),
	}
	load := a.settings(cmd)
	guard := guardFlags(cmd)
	dry := cmd.Flags().Bool("dry-run", false, "only compare: say what would be run, and run nothing")
	cmd.RunE = run(func(ctx context.Context, _ *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		request := engine.UpRequest{Request: a.request(args[0], settings), Allow: *guard}
		return a.work(settings, func(e *engine.Engine) error {
			done, err := e.Ensure(ctx, request, *dry)
			if err != nil && len(done.Runs) == 0 {
				return err
			}
			document := ensureOf(args[0], done, *dry)
			structured, printErr := printAs(a.Stdout, settings.Output, document)
			if !structured && len(done.Runs) == 0 {
				printErr = a.page(a.Stdout, settings).line(document.String(), "  ")
			}
			if err != nil {
				return err
			}
			return a.unlessUnread(printErr)
		})
	})
	return cmd
}

// ensureJSON is the shape of `ensure NAME -o json`.
type ensureJSON struct {
	Schema  int    `json:"schema"`
	Cluster string `json:"cluster"`
	Verb    string `json:"verb"`
	DryRun  bool   `json:"dry_run"`
	// Changed says that something was run, or with dry_run would be.
	Changed bool            `json:"changed"`
	Reasons []string        `json:"reasons"` // what was not as it is wanted
	Runs    []report.Report `json:"runs"`    // of up and configure, as far as either was needed
}

func ensureOf(name string, done engine.Ensured, dry bool) ensureJSON {
	document := ensureJSON{
		Schema: outputSchema, Cluster: name, Verb: "ensure", DryRun: dry, Changed: done.Changed(),
		Reasons: append([]string{}, done.Reasons...), Runs: []report.Report{},
	}
	for _, outcome := range done.Runs {
		if outcome.Report.Cluster != "" {
			document.Runs = append(document.Runs, outcome.Report)
		}
	}
	return document
}

// String says it in a line.
func (d ensureJSON) String() string {
	if !d.Changed {
		return "cluster " + d.Cluster + ": as wanted, nothing to run"
	}
	return "cluster " + d.Cluster + ": not as wanted: " + strings.Join(d.Reasons, "; ")
}
