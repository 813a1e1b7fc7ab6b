package cli

import (
	"context"
	"strings"

	"hive-test/pkg/engine"
	"hive-test/pkg/hive"

	"github.com/spf13/cobra"
)

func (a *app) configureCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "configure NAME",
		Short: "install hive on every node, form the cluster, and wait until every node is healthy",
		Long: `configure installs hive on every node, forms the cluster, and waits until every node is healthy.

Its steps are cloud-init, os (only with --cloud-init none or --packages), install, stop, init, join, start and health. What was done with
the same program on the same machines is not done again: a second configure goes on where the first was stopped.

cloud-init, os and install are done on each node by itself; --only-nodes does them on some. init, join and health are of the
whole cluster always. stop and start are for the nodes on which something changed, or that --only-nodes names; where the cluster
is still to be formed, for all.`,
		Example: `  hive-test configure dev1 --binary ../hive/bin/hive
  hive-test configure dev1 --repo https://github.com/mulgadc/hive.git --ref main
  hive-test configure dev1 --source-dir ../hive
  hive-test configure dev1 --source-dir ../hive --build each
  hive-test configure dev1 --packages awscli,jq,netcat-openbsd
  hive-test configure dev1 --from install --only-nodes 2
  hive-test configure dev1 --force`,
		Args: named(1),
	}
	load := a.settings(cmd)
	force := cmd.Flags().Bool("force", false, "form the cluster again, with its services stopped first")
	from := cmd.Flags().String("from", "", "begin with this `step`: "+strings.Join(hive.StepNames(), ", "))
	which := nodesFlag(
		cmd, "only-nodes", "do what is done on each node by itself on these only, like 2,3 (default all)",
	)
	cmd.RunE = run(func(ctx context.Context, _ *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		request := engine.ConfigureRequest{
			Request: a.request(args[0], settings), Force: *force, From: *from, OnlyNodes: *which,
		}
		return a.phases(
			settings, func(e *engine.Engine) (engine.Outcome, error) { return e.Configure(ctx, request) },
			func(engine.Outcome) { a.afterConfigure(args[0], settings) },
		)
	})
	return cmd
}
