package cli

import (
	"context"
	"fmt"

	"hive-test/pkg/engine"
	"hive-test/pkg/lifecycle"

	"github.com/spf13/cobra"
)

func (a *app) envCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "env NAME",
		Short:   "shell exports of what is needed to use a cluster",
		Example: `  eval "$(hive-test env dev1)"`,
		Args:    named(1),
	}
	load := a.settings(cmd)
	cmd.RunE = run(func(ctx context.Context, _ *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		return a.work(settings, func(e *engine.Engine) error {
			located, err := e.Locate(ctx, "env", a.request(args[0], settings))
			if err != nil {
				return err
			}
			if structured, err := printAs(a.Stdout, settings.Output, located.Variables); structured {
				return err
			}
			_, err = fmt.Fprint(a.Stdout, lifecycle.Exports(located.Variables))
			return err
		})
	})
	return cmd
}
