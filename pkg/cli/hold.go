package cli

import (
	"context"

	"hive-test/pkg/cluster"
	"hive-test/pkg/engine"

	"github.com/spf13/cobra"
)

func (a *app) holdCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "hold NAME",
		Short: "keep reap away from a cluster, whatever its time; --release lets it again",
		Long:  "hold tags a cluster's VMs " + cluster.HoldTag + ": reap leaves them alone, also after their time, until hold --release. down still destroys them.",
		Example: `  hive-test hold dev1
  hive-test hold dev1 --release`,
		Args: named(1),
	}
	load := a.settings(cmd)
	release := cmd.Flags().Bool("release", false, "let reap have the cluster again when its time is up")
	cmd.RunE = run(func(ctx context.Context, _ *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		return a.remark("hold", args[0], settings, func(
			e *engine.Engine, request engine.Request,
		) (cluster.Owner, error) {
			return e.Hold(ctx, request, !*release)
		})
	})
	return cmd
}
