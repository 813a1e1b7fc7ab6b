package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"hive-test/pkg/engine"
	"hive-test/pkg/progress"
)

func (a *app) attachCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "attach NAME",
		Short: "make a cluster that another machine has made usable here",
		Long: `attach makes the directory of a cluster whose state is in a backend: record, inventory, the nodes' SSH key and host keys, which are
kept beside the state, encrypted. From then on every verb works here, too; of all machines one at a time changes the cluster.
status lists what is in the backend and not here.`,
		Example: `  hive-test attach ci-123
  hive-test ssh ci-123`,
		Args: named(1),
	}
	load := a.settings(cmd)
	cmd.RunE = run(func(ctx context.Context, _ *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		return a.work(settings, func(e *engine.Engine) error {
			record, err := e.Attach(ctx, a.request(args[0], settings))
			if err != nil {
				return err
			}
			document := attachJSON{
				Schema: outputSchema, Cluster: args[0], OwnerID: record.Owner.ID, Nodes: len(record.Nodes), Backend: record.State.Type,
			}
			if structured, err := printAs(a.Stdout, settings.Output, document); structured {
				return err
			}
			_, err = fmt.Fprintf(a.Stdout, "attached cluster %s of %s: %s, state in %s\n",
				args[0], record.Owner.Who(), progress.Count(len(record.Nodes), "node"), record.State.Type)
			return err
		})
	})
	return cmd
}

// attachJSON is the shape of `attach -o json`.
type attachJSON struct {
	Schema  int    `json:"schema"`
	Cluster string `json:"cluster"`
	OwnerID string `json:"owner_id"`
	Nodes   int    `json:"nodes"`
	Backend string `json:"backend"` // type of the backend that the state is in
}
