package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"hive-test/pkg/config"
	"hive-test/pkg/engine"
	"hive-test/pkg/progress"
)

func (a *app) waitCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "wait NAME",
		Short: "wait until the cluster is formed and every node is healthy",
		Long: `wait returns as soon as the cluster is formed and every node is healthy, as status judges it, and shows it as status
does. When its time is up first (--timeout, or else as long as configure may take), it exits 10 and says for each node why
it is not healthy. With --healthy=false it waits only until every node answers over SSH. It takes no lock: it can wait for what
another run configures.`,
		Example: `  hive-test wait dev1
  hive-test wait dev1 --timeout 5m -o json
  hive-test wait dev1 --healthy=false`,
		Args: named(1),
	}
	load := a.settings(cmd)
	healthy := cmd.Flags().Bool(
		"healthy", true, "wait until hive is healthy, too; =false: only until every node answers over SSH",
	)
	cmd.RunE = run(func(ctx context.Context, _ *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		return a.wait(ctx, args[0], *healthy, settings)
	})
	return cmd
}

func (a *app) wait(ctx context.Context, name string, healthy bool, settings config.Settings) error {
	a.signals.looking()
	return a.work(settings, func(e *engine.Engine) error {
		last, err := e.Wait(ctx, engine.WaitRequest{Request: a.request(name, settings), OverSSH: !healthy})
		if last == nil {
			return err
		}
		err = a.withoutTold(err, settings, len(last.Next) > 0)
		return errors.Join(a.printStatus(statusOf(*last), settings), err)
	})
}

// withoutTold returns what a wait has ended with without what the table just above it tells on a terminal: the reasons, and
// what comes next, if anything does.
func (a *app) withoutTold(err error, settings config.Settings, next bool) error {
	why, ok := errors.AsType[*engine.UnhealthyError](err)
	document := settings.Output == "json" || settings.Output == "yaml"
	if !ok || a.asJSON || document || !isTerminal(a.Stdout) || !isTerminal(a.Stderr) {
		return err
	}
	hint := progress.HintOf(err)
	if next {
		hint = ""
	}
	return engine.Error{Code: engine.ExitUnhealthy, Err: progress.WithHint(errors.New(why.Summary), hint)}
}
