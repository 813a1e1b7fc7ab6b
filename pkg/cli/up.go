package cli

import (
	"context"

	"hive-test/pkg/engine"

	"github.com/spf13/cobra"
)

func (a *app) upCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "up NAME",
		Short: "make the VMs of a cluster: they exist, their addresses are known, the inventory is written",
		Example: `  hive-test up dev1
  hive-test up stress --node-count=5 --cpu-cores=8
  hive-test up stress --node-count=3                # two nodes fewer
  hive-test up stress --memory-mb=16384 --dry-run   # what would it do?
  hive-test up dev1 --ttl 36h              # reap may delete it after that
  hive-test up demo --sim
  hive-test up lab --hosts-file hosts.yaml`,
		Args: named(1),
	}
	load := a.settings(cmd)
	guard := guardFlags(cmd)
	dry := cmd.Flags().Bool("dry-run", false, "print what up would do, as a table or with -o, and change nothing")
	cmd.RunE = run(func(ctx context.Context, _ *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		if *dry {
			return a.dryRun(ctx, args[0], settings, *guard)
		}
		return a.phases(settings, func(e *engine.Engine) (engine.Outcome, error) {
			return e.Up(ctx, engine.UpRequest{Request: a.request(args[0], settings), Allow: *guard})
		}, func(o engine.Outcome) { a.afterUp(args[0], settings, o) })
	})
	return cmd
}
