package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"hive-test/pkg/config"
	"hive-test/pkg/engine"
	"hive-test/pkg/progress"
)

// stateDoneJSON is the shape of what `state push`, `migrate` and `rollback` print with -o json.
type stateDoneJSON struct {
	Schema    int    `json:"schema"`
	Cluster   string `json:"cluster"`
	Verb      string `json:"verb"` // push, migrate or rollback
	Changed   bool   `json:"changed"`
	Backend   string `json:"backend"`           // type of the backend that the state is in now
	Before    string `json:"before,omitempty"`  // of migrate: that of the one where it was
	Serial    uint64 `json:"serial"`            // of the state as it is now
	Resources int    `json:"resources"`         // that it holds
	Version   int64  `json:"version,omitempty"` // of rollback: the one that was written again
}

func (a *app) stateDone(settings config.Settings, document stateDoneJSON, text string) error {
	document.Schema = outputSchema
	if structured, err := printAs(a.Stdout, settings.Output, document); structured {
		return err
	}
	_, err := fmt.Fprintf(a.Stdout, "%s: serial %d, %s\n", text, document.Serial, progress.Count(document.Resources, "resource"))
	return err
}

func (a *app) statePushCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "push NAME [FILE]",
		Short: "write the state of a cluster from a file, or one that a run could not write",
		Long: `push writes a state over the one that is there, as OpenTofu does: one of another origin (lineage), or that is not newer
(serial), is refused. Where it lacks resources that are in the state now, that is asked, or --yes says so.
Without a file it writes the state that a run has left because its backend did not take it (errored.tfstate); the next run of
the cluster does so, too.`,
		Example: `  hive-test state push dev1
  hive-test state push dev1 mended.tfstate`,
		Args: named(2),
	}
	yes := yesFlag(cmd, "write a state that lacks resources,")
	return a.onState(cmd, func(ctx context.Context, e *engine.Engine, args []string, settings config.Settings) error {
		file := ""
		if len(args) > 1 {
			file = args[1]
		}
		state, err := e.StatePush(ctx, a.request(args[0], settings), file, *yes)
		if err != nil {
			return err
		}
		return a.stateDone(settings, stateDoneJSON{
			Cluster: args[0], Verb: "push", Changed: true, Backend: state.Backend, Serial: state.Serial, Resources: len(state.Resources),
		}, "the state of cluster "+args[0]+" was written")
	})
}

func (a *app) stateMigrateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate NAME",
		Short: "take the state of a cluster, and what is shared of it, to another place",
		Long: `migrate takes the state of a cluster from where it is to where the setting state says, or --to. It is written there, read back
and compared; only then the cluster is used from there, and what was in a backend before is emptied. Until then nothing is
changed, and a migration that was cut off goes on when it is run again. Others who use the cluster must set state likewise.`,
		Example: `  hive-test state migrate dev1            # to where the setting state says
  hive-test state migrate dev1 --to local
  hive-test state migrate dev1 --to team.yaml`,
		Args: named(1),
	}
	to := cmd.Flags().String("to", "", "`place`: local, or a config file whose setting state says where; empty: the setting state")
	yes := yesFlag(cmd, "move it")
	return a.onState(cmd, func(ctx context.Context, e *engine.Engine, args []string, settings config.Settings) error {
		place, err := a.statePlace(*to)
		if err != nil {
			return err
		}
		moved, err := e.StateMigrate(ctx, a.request(args[0], settings), place, *yes)
		if err != nil {
			return err
		}
		text := fmt.Sprintf("the state of cluster %s was moved from %s to %s", args[0], moved.From, moved.To)
		if !moved.Changed {
			text = fmt.Sprintf("the state of cluster %s is there already (%s)", args[0], moved.To)
		}
		return a.stateDone(settings, stateDoneJSON{
			Cluster: args[0], Verb: "migrate", Changed: moved.Changed, Backend: moved.To, Before: moved.From, Serial: moved.Serial,
			Resources: moved.Resources,
		}, text)
	})
}

// statePlace is where --to says that a state is to be; nil: where settings say.
func (a *app) statePlace(to string) (*config.State, error) {
	switch to {
	case "":
		return nil, nil
	case config.Local:
		return &config.State{Backend: config.Local}, nil
	}
	settings, err := config.Load(config.LoadOptions{
		ConfigPath: to, WorkDir: a.WorkDir, Env: func(string) string { return "" },
	})
	if err != nil {
		return nil, err
	}
	if settings.State.Backend == "" {
		return nil, usage(fmt.Errorf("--to %s: that file does not set state", to))
	}
	return &settings.State, nil
}

func (a *app) stateRollbackCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rollback NAME VERSION",
		Short: "write an earlier version of the state of a cluster again",
		Long: `rollback writes the state of a cluster as it was in a version that state history lists, as the newest one: what OpenTofu knows of the
VMs is that again. The VMs stay as they are: up changes them to what is recorded.`,
		Example: `  hive-test state history dev1
  hive-test state rollback dev1 12`,
		Args: named(2),
	}
	yes := yesFlag(cmd, "write it")
	return a.onState(cmd, func(ctx context.Context, e *engine.Engine, args []string, settings config.Settings) error {
		if len(args) < 2 {
			return usage(errors.New("name a version: state history lists them"))
		}
		number, err := versionNumber(args[1])
		if err != nil {
			return usage(err)
		}
		state, err := e.StateRollback(ctx, a.request(args[0], settings), number, *yes)
		if err != nil {
			return err
		}
		return a.stateDone(settings, stateDoneJSON{
			Cluster: args[0], Verb: "rollback", Changed: true, Backend: state.Backend, Serial: state.Serial,
			Resources: len(state.Resources), Version: number,
		}, fmt.Sprintf("version %d of the state of cluster %s was written again", number, args[0]))
	})
}

// stateUnlockJSON is the shape of `state unlock -o json`.
type stateUnlockJSON struct {
	Schema  int            `json:"schema"`
	Cluster string         `json:"cluster"`
	Lock    *stateLockJSON `json:"lock" jsonschema:"nullable"` // null: the state was not locked
}

// stateLockJSON is a lock on a state. What a backend does not tell of it is left out.
type stateLockJSON struct {
	ID        string    `json:"id"`
	Who       string    `json:"who,omitempty"` // user@host
	Operation string    `json:"operation,omitempty"`
	Created   time.Time `json:"created,omitzero"`
}

func (a *app) stateUnlockCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "unlock NAME [ID]",
		Short: "take OpenTofu's lock from the state of a cluster on which nobody is at work",
		Long: `unlock takes the lock from a state that a program has left locked which is over. Runs of hive-test do so by themselves; it is for
what others have run. While a run of hive-test is at work on the cluster it is refused (exit 8). That the program is over cannot
be seen from here: it is asked, unless --yes or the id of the lock says so.`,
		Example: `  hive-test state unlock dev1
  hive-test state unlock dev1 4f1c3f3e-7d0e-2a8e-8e6b-6c1f6c6d9f11`,
		Args: named(2),
	}
	yes := yesFlag(cmd, "take it")
	return a.onState(cmd, func(ctx context.Context, e *engine.Engine, args []string, settings config.Settings) error {
		id := ""
		if len(args) > 1 {
			id = args[1]
		}
		lock, err := e.StateUnlock(ctx, a.request(args[0], settings), id, *yes)
		if err != nil {
			return err
		}
		document := stateUnlockJSON{Schema: outputSchema, Cluster: args[0]}
		text := fmt.Sprintf("the state of cluster %s was not locked", args[0])
		if lock != nil {
			document.Lock = &stateLockJSON{lock.ID, lock.Who, lock.Operation, lock.Created}
			text = fmt.Sprintf("the state of cluster %s is no longer locked (%s)", args[0], lock.ID)
		}
		if structured, err := printAs(a.Stdout, settings.Output, document); structured {
			return err
		}
		_, err = fmt.Fprintln(a.Stdout, text)
		return err
	})
}
