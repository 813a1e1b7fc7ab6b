package cli

import (
	"context"

	"hive-test/pkg/engine"

	"github.com/spf13/cobra"
)

func (a *app) fullCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "full NAME",
		Short: "up, configure, test and down, whatever happens in between",
		Long: `full makes a cluster, configures it, tests it and destroys it, whatever happens in between. Its exit code is
that of the first phase that failed. What failed is explained by what every node could tell before it was destroyed.

With --from-snapshot the cluster is kept warm: it is brought back to the snapshot in place of being made, and stays unless --keep
says otherwise. Where there is none yet, it is made, and the snapshot of it before the suites run.`,
		Example: `  hive-test full ci-123
  hive-test full demo --sim --node-count=1
  hive-test full hunt --suite ./flaky.sh --keep on-failure
  hive-test full nightly --suite a --suite b --reset-between suite
  hive-test full warm --from-snapshot clean`,
		Args: named(1),
	}
	load := a.settings(cmd)
	guard, leave := guardFlags(cmd), leaveFlags(cmd)
	from := cmd.Flags().String("from-snapshot", "", "begin from the snapshot of that `tag`, and keep the cluster")
	cmd.RunE = run(func(ctx context.Context, _ *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		request := engine.FullRequest{
			UpRequest: engine.UpRequest{Request: a.request(args[0], settings), Allow: *guard}, Leave: *leave,
			FromSnapshot: *from,
		}
		return a.phases(
			settings, func(e *engine.Engine) (engine.Outcome, error) { return e.Full(ctx, request) },
			func(engine.Outcome) { a.afterFull(args[0], settings) },
		)
	})
	return cmd
}
