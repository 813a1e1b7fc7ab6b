package cli

import (
	"context"
	"errors"
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
		Example: `  eval "$(hive-test env dev1)"; hive-test iac probe
  hive-test iac diff before.json after.json`,
	}
	cmd.AddCommand(a.iacProbeCommand(), a.iacDiffCommand())
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

and the call that decides, as a table, a document, Markdown (-o md) or a page (-o html); iac diff compares two of the
documents. It exits 6 unless all works. Without URL the endpoint is that of AWS_ENDPOINT_URL; keys, region
and certificates are those that AWS clients take from the environment, as hive-test env and hive-test gateway env set it.`,
		Example: `  eval "$(hive-test gateway env)"; hive-test iac probe
  hive-test iac probe https://10.0.0.1:9999 -o json >before.json
  hive-test iac probe -o html >probe.html`,
		Args: cobra.MaximumNArgs(1),
	}
	load, form := a.settings(cmd), sheetForm(cmd.Flags())
	patience := config.DurationFlag(cmd.Flags(), "patience", "how long a state is waited for (default 1m)")
	cmd.RunE = run(func(ctx context.Context, cmd *cobra.Command, args []string) error {
		settings, err := load()
		if err == nil {
			err = form.over(&settings)
		}
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

// soFar is what is known of a resource before it is deleted: its first part that does not work.
func soFar(row iac.Row) string {
	for _, part := range iac.Phases() {
		if cell, there := row.Cells[part]; there && cell.Verdict != iac.Works {
			return part + " " + string(cell.Verdict)
		}
	}
	return string(iac.Works)
}

func (a *app) probe(ctx context.Context, endpoint iac.Endpoint, o iac.Options, settings config.Settings) error {
	if err := endpoint.Reach(ctx); err != nil {
		return engine.Error{Code: engine.ExitConfig, Err: progress.WithHint(err, endpointHint)}
	}
	screen := a.renderer(settings)
	o.Tell = func(row iac.Row) { progress.Infof(screen, "%s: %s", row.Resource, soFar(row)) }
	table := iac.Probe(ctx, endpoint, o)
	a.close(screen)
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
