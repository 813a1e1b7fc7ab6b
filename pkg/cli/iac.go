package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hive-test/pkg/config"
	"hive-test/pkg/engine"
	"hive-test/pkg/iac"
	"hive-test/pkg/progress"
)

func (a *app) iacCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "iac",
		Short: "what an EC2 endpoint does for Terraform's AWS provider",
		Long: `iac tells, without Terraform, what of the EC2 API an endpoint does as Terraform's AWS provider needs it: hive's, or
that of a gateway.`,
		Example: `  eval "$(hive-test env dev1)"; hive-test iac probe`,
	}
	cmd.AddCommand(a.iacProbeCommand())
	return cmd
}

// endpointHint says how the environment comes to know an endpoint.
const endpointHint = `eval "$(hive-test env NAME)" or eval "$(hive-test gateway env)" sets what is needed`

// probePatience is how long a state is waited for where nothing else is asked for.
const probePatience = time.Minute

func (a *app) iacProbeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "probe [URL]",
		Short: "make the provider's calls for each of its resources, and show which of them work",
		Long: `probe makes the calls that Terraform's AWS provider makes to create, read, update and delete each of its resources, in
its order, reads the answers as strictly as its SDKs do, and deletes what it has made. For each part it shows

  works        the provider would go on
  stub         it is answered, and what was asked for is not kept or not told of
  wrong shape  the provider cannot read the answer, or misses something in it
  missing      the endpoint does not know the action
  fails        the endpoint refuses what is right
  blocked      it was not tried: what it needs is not there

and the call that decides. It exits 6 unless all works. Without URL the endpoint is that of AWS_ENDPOINT_URL; keys, region
and certificates are those that AWS clients take from the environment, as hive-test env and hive-test gateway env set it.`,
		Example: `  eval "$(hive-test gateway env)"; hive-test iac probe
  hive-test iac probe https://10.0.0.1:9999 -o json >before.json`,
		Args: cobra.MaximumNArgs(1),
	}
	load := a.settings(cmd)
	patience := config.DurationFlag(cmd.Flags(), "patience", "how long a state is waited for (default 1m)")
	cmd.RunE = run(func(ctx context.Context, cmd *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		address := ""
		if len(args) > 0 {
			address = args[0]
		}
		endpoint, err := iac.EndpointOf(address, a.Getenv)
		if err != nil {
			return usage(progress.WithHint(err, endpointHint))
		}
		o := iac.Options{Patience: probePatience}
		if cmd.Flags().Changed("patience") {
			if *patience <= 0 {
				return usage(errors.New("--patience: give 1s or more"))
			}
			o.Patience = *patience
		}
		return a.probe(ctx, endpoint, o, settings)
	})
	return cmd
}

func (a *app) probe(ctx context.Context, endpoint iac.Endpoint, o iac.Options, settings config.Settings) error {
	table := iac.Probe(ctx, endpoint, o)
	if err := a.unlessUnread(a.printProbe(table, settings)); err != nil {
		return err
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case !table.Works():
		return engine.Error{Code: engine.ExitTest}
	}
	return nil
}

// printProbe prints a table of verdicts, and below it the calls that have decided.
func (a *app) printProbe(table iac.Table, settings config.Settings) error {
	if structured, err := printAs(a.Stdout, settings.Output, table); structured {
		return err
	}
	columns := []column{{name: "RESOURCE"}}
	for _, phase := range iac.Phases() {
		columns = append(columns, column{name: strings.ToUpper(phase), color: verdictColor})
	}
	var rows [][]string
	var reasons []string
	for _, row := range table.Rows {
		cells := []string{row.Resource}
		for _, phase := range iac.Phases() {
			cell, there := row.Cells[phase]
			if !there {
				cells = append(cells, "-")
				continue
			}
			cells = append(cells, string(cell.Verdict))
			if cell.Verdict != iac.Works && cell.Verdict != iac.Blocked {
				reasons = append(reasons, fmt.Sprintf("%s, %s: %s", row.Resource, phase, cell))
			}
		}
		rows = append(rows, cells)
	}
	p := a.page(a.Stdout, settings)
	if err := p.table(columns, rows); err != nil {
		return err
	}
	for _, reason := range reasons {
		if err := p.line(progress.Clean(reason), "  "); err != nil {
			return err
		}
	}
	return nil
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
