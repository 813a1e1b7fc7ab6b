package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"hive-test/pkg/config"
	"hive-test/pkg/engine"
	"hive-test/pkg/state"
)

func (a *app) unlockCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "unlock NAME",
		Short: "take a cluster away from a run on another host that has ended without giving it up",
		Long: `unlock removes the note of a run that holds a cluster and has ended without giving it up. That is needed only for a run
on another host, in a clusters directory that both share: whether it is alive cannot be seen from here, so look there first.
A run that died on this host is taken over by the next one without this, and one that is alive here is refused (exit 8).`,
		Example: `  hive-test unlock dev1`,
		Args:    named(1),
	}
	load := a.settings(cmd)
	cmd.RunE = run(func(ctx context.Context, _ *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		return a.unlock(ctx, args[0], settings)
	})
	return cmd
}

// unlockJSON is the shape of `unlock -o json`.
type unlockJSON struct {
	Schema  int           `json:"schema"`
	Cluster string        `json:"cluster"`
	Holder  *state.Holder `json:"holder" jsonschema:"nullable"` // null: nobody held it
}

func (a *app) unlock(ctx context.Context, name string, settings config.Settings) error {
	return a.work(settings, func(e *engine.Engine) error {
		holder, err := e.Unlock(ctx, a.request(name, settings))
		if err != nil {
			return err
		}
		return a.printUnlocked(name, settings, holder)
	})
}

func (a *app) printUnlocked(name string, settings config.Settings, holder state.Holder) error {
	document := unlockJSON{Schema: outputSchema, Cluster: name}
	text := fmt.Sprintf("cluster %s was not locked", name)
	if holder.PID != 0 {
		document.Holder = &holder
		text = fmt.Sprintf(
			"cluster %s is no longer locked by pid %d on %s (`%s`, since %s)", name, holder.PID, holder.Host,
			holder.Command, holder.Started.Local().Format(time.DateTime),
		)
	}
	if structured, err := printAs(a.Stdout, settings.Output, document); structured {
		return err
	}
	_, err := fmt.Fprintln(a.Stdout, text)
	return err
}
