package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hive-test/pkg/config"
	"hive-test/pkg/engine"
	"hive-test/pkg/fault"
	"hive-test/pkg/progress"
)

func (a *app) faultCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fault",
		Short: "slow links, partitions, hung processes, full disks: on nodes, for a time",
		Long: `fault makes things go wrong on nodes, for suites that must bear it. Each fault has an end: the node itself heals it when
its time is up, be hive-test there or not, and what heals it is armed before it is applied. fault heal ends it before.`,
		Example: `  hive-test fault apply dev1 wan --for 5m
  hive-test fault apply dev1 process:pause=nats --nodes 2
  hive-test fault list dev1
  hive-test fault heal dev1`,
	}
	cmd.AddCommand(a.faultApplyCommand(), a.faultHealCommand(), a.faultListCommand(), a.faultProfilesCommand())
	return cmd
}

func (a *app) faultApplyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "apply NAME FAULT",
		Short: "apply a fault to nodes, or refuse it for all of them",
		Long: `apply applies a fault to all nodes, or to those of --nodes, and returns. All nodes are asked first whether they can have
it: where one cannot, nothing is done on any. A node has one fault at a time of each kind, of processes one for each service.

FAULT is the name of a profile, as fault profiles lists them, or one of

` + indented(fault.Grammar()),
		Example: `  hive-test fault apply dev1 satcom --nodes 2,3 --for 10m
  hive-test fault apply dev1 process:pause=nats --nodes 2 --stay`,
		Args: named(2),
	}
	load := a.settingsOf(cmd, "fault")
	which := nodesFlag(cmd, "nodes", "only these nodes, like 1,3 (default all)")
	limit := config.DurationFlag(
		cmd.Flags(), "for", fmt.Sprintf("how long it lasts, %s at most (default 1m)", progress.FormatLimit(fault.MostTime)),
	)
	stay := cmd.Flags().Bool("stay", false, "stay until it is over, and heal it on Ctrl-C")
	cmd.RunE = run(func(ctx context.Context, cmd *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		if len(args) < 2 {
			return usage(progress.WithHint(errors.New("fault apply needs a fault"), (&fault.FormError{}).Hint()))
		}
		if cmd.Flags().Changed("for") && *limit <= 0 {
			return usage(errors.New("--for: a fault lasts 1s at least"))
		}
		return a.work(settings, func(e *engine.Engine) error {
			applied, failure := e.FaultApply(ctx, engine.FaultRequest{
				Request: a.request(args[0], settings), Fault: args[1], Nodes: *which, For: *limit, Stay: *stay,
			})
			if len(applied) == 0 {
				return failure
			}
			return errors.Join(failure, a.printFaults(args[0], applied, false, settings))
		})
	})
	return cmd
}

// indented sets text off as an example.
func indented(text string) string { return "  " + strings.ReplaceAll(text, "\n", "\n  ") }

func (a *app) faultHealCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "heal NAME [ID]",
		Short: "heal faults now: all, or one",
		Long:  `heal ends all faults of a cluster's nodes, or the one with the ID that list shows, and prints those that it has ended.`,
		Example: `  hive-test fault heal dev1
  hive-test fault heal dev1 --nodes 2`,
		Args: named(2),
	}
	load := a.settingsOf(cmd, "fault")
	which := nodesFlag(cmd, "nodes", "only these nodes, like 1,3 (default all)")
	cmd.RunE = run(func(ctx context.Context, _ *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		return a.work(settings, func(e *engine.Engine) error {
			healed, failure := e.FaultHeal(ctx, a.request(args[0], settings), *which, args[1:]...)
			return a.foundFaults(args[0], healed, failure, "no faults to heal", true, settings)
		})
	})
	return cmd
}

func (a *app) faultListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list NAME",
		Short: "the faults that nodes have, as the nodes tell",
		Long: `list asks the nodes which faults they have, and for how long. What is over, and could not be healed, is there with the
reason.`,
		Example: `  hive-test fault list dev1`,
		Args:    named(1),
	}
	load := a.settingsOf(cmd, "fault")
	which := nodesFlag(cmd, "nodes", "only these nodes, like 1,3 (default all)")
	cmd.RunE = run(func(ctx context.Context, _ *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		return a.work(settings, func(e *engine.Engine) error {
			faults, failure := e.FaultList(ctx, a.request(args[0], settings), *which)
			return a.foundFaults(args[0], faults, failure, "no faults", false, settings)
		})
	})
	return cmd
}

// foundFaults prints faults that nodes have, or had, or tells that there are none; nil: no node was asked.
func (a *app) foundFaults(
	name string, faults []fault.Applied, failure error, none string, over bool, settings config.Settings,
) error {
	if faults == nil {
		return failure
	}
	if len(faults) == 0 && failure == nil {
		fmt.Fprintf(a.Stderr, "%s on the nodes of %s\n", none, name)
	}
	return errors.Join(failure, a.printFaults(name, faults, over, settings))
}

// faultsJSON is the shape of `fault apply`, `fault list` and `fault heal` with -o json.
type faultsJSON struct {
	Schema  int             `json:"schema"`
	Cluster string          `json:"cluster"`
	Faults  []fault.Applied `json:"faults"`
}

// printFaults prints faults as a table, unless there are none. Of those that are over, no time is left.
func (a *app) printFaults(name string, faults []fault.Applied, over bool, settings config.Settings) error {
	document := faultsJSON{outputSchema, name, faults}
	if structured, err := printAs(a.Stdout, settings.Output, document); structured || len(faults) == 0 {
		return err
	}
	failed := slices.ContainsFunc(faults, func(f fault.Applied) bool { return f.Error != "" })
	columns := []column{{name: "NODE"}, {name: "ID"}, {name: "FAULT"}}
	if !over {
		columns = append(columns, column{name: "LEFT", right: true})
	}
	if failed {
		columns = append(columns, column{name: "PROBLEM", least: 10})
	}
	var rows [][]string
	for _, f := range faults {
		row := []string{progress.Clean(f.Node), progress.Clean(f.ID), progress.Clean(f.Spec)}
		if !over {
			row = append(row, leftWord(f))
		}
		if failed {
			row = append(row, dash(progress.Clean(f.Error)))
		}
		rows = append(rows, row)
	}
	return a.page(a.Stdout, settings).table(columns, rows)
}

// leftWord is how much is left of a fault's time.
func leftWord(f fault.Applied) string {
	switch {
	case f.SecondsLeft > 0:
		return aboutDuration(time.Duration(f.SecondsLeft * float64(time.Second)))
	case f.ID == engine.PowerOffID: // it has no end of its own
		return "-"
	}
	return "over"
}

func (a *app) faultProfilesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "profiles",
		Short:   "the links that have names",
		Long:    `profiles lists the link faults that have names, and what each stands for.`,
		Example: `  hive-test fault profiles`,
		Args:    cobra.NoArgs,
	}
	load := a.settings(cmd)
	cmd.RunE = run(func(_ context.Context, _ *cobra.Command, _ []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		return a.printProfiles(settings)
	})
	return cmd
}

// faultProfilesJSON is the shape of `fault profiles -o json`.
type faultProfilesJSON struct {
	Schema   int                `json:"schema"`
	Profiles []faultProfileJSON `json:"profiles"`
}

type faultProfileJSON struct {
	Name  string `json:"name"`
	Fault string `json:"fault"`
	Of    string `json:"of"`
}

func (a *app) printProfiles(settings config.Settings) error {
	document := faultProfilesJSON{Schema: outputSchema}
	var rows [][]string
	for _, p := range fault.Profiles() {
		document.Profiles = append(document.Profiles, faultProfileJSON{p.Name, p.Spec.String(), p.Of})
		rows = append(rows, []string{p.Name, p.Spec.String(), p.Of})
	}
	if structured, err := printAs(a.Stdout, settings.Output, document); structured {
		return err
	}
	return a.page(a.Stdout, settings).table([]column{{name: "NAME"}, {name: "FAULT"}, {name: "OF", drop: 1}}, rows)
}

// faultWords are what a fault may be completed to.
func faultWords() []string {
	var names []string
	for _, p := range fault.Profiles() {
		names = append(names, p.Name)
	}
	return append(names, "link:", "partition:", "process:pause=", "process:kill=", "disk:/", "clock:", "power:")
}
