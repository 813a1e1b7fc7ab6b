package cli

import (
	"context"

	"github.com/spf13/cobra"

	"hive-test/pkg/config"
	"hive-test/pkg/deploy"
	"hive-test/pkg/engine"
	"hive-test/pkg/remote"
)

func (a *app) planCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plan NAME",
		Short: "save what up would do, for apply to do that and nothing else",
		Long: `plan finds out what up would do with the same flags, prints it as up --dry-run does, and saves it: the VMs with their ids, and
each change of them. Nothing else is changed, neither here nor on Proxmox VE. apply does what was saved.`,
		Example: `  hive-test plan dev1 --node-count 5
  hive-test apply dev1
  hive-test plan dev1 --memory-mb 16384 --allow-restart --out dev1.plan`,
		Args: named(1),
	}
	load := a.settingsOf(cmd, "up")
	guard := guardFlags(cmd)
	out := cmd.Flags().String("out", "", "`file` that gets the plan; empty: one in the clusters directory, where apply looks for it")
	cmd.RunE = run(func(ctx context.Context, _ *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		return a.plan(ctx, args[0], settings, *guard, *out)
	})
	return cmd
}

func (a *app) plan(ctx context.Context, name string, settings config.Settings, allow deploy.Allowed, out string) error {
	request := engine.PlanRequest{UpRequest: engine.UpRequest{Request: a.request(name, settings), Allow: allow}, Out: out}
	return a.work(settings, func(e *engine.Engine) error {
		record, reading, path, outcome, err := e.Plan(ctx, request)
		if err != nil {
			return a.report(settings, outcome, err)
		}
		document := readingOf(record, reading)
		document.Verb, document.Plan = "plan", path
		if err := a.printReading(document, settings); err != nil {
			return err
		}
		if document.Changed && !document.Refused {
			a.next(settings, applyCommand(name, out))
		}
		return nil
	})
}

// applyCommand is the command that applies a plan.
func applyCommand(name, file string) string {
	command := "hive-test apply " + name
	if file != "" {
		command += " --plan " + remote.Quote(file)
	}
	return command
}

func (a *app) applyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "apply NAME",
		Short: "do what plan has saved, and nothing else",
		Long: `apply makes and changes the VMs of a cluster as plan has saved it. Where the cluster was changed since, or anything else would be
done than was planned, it does nothing (exit 4): a new plan is to be made. Settings of the cluster are those of the plan; how
Proxmox VE is reached, and how this run works, is said now.`,
		Example: `  hive-test apply dev1
  hive-test apply dev1 --plan dev1.plan`,
		Args: named(1),
	}
	load := a.settings(cmd)
	file := cmd.Flags().String("plan", "", "`file` of the plan; empty: what plan has saved last for this cluster")
	cmd.RunE = run(func(ctx context.Context, _ *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		return a.phases(settings, func(e *engine.Engine) (engine.Outcome, error) {
			return e.Apply(ctx, a.request(args[0], settings), *file)
		}, func(o engine.Outcome) { a.afterUp(args[0], settings, o) })
	})
	return cmd
}
