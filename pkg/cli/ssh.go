package cli

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"hive-test/pkg/config"
	"hive-test/pkg/engine"
	"hive-test/pkg/progress"
)

func (a *app) sshCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ssh NAME [NODE] [-- CMD]",
		Short: "a shell, or one command, on one node, by number or name (1 unless it is given)",
		Example: `  hive-test ssh dev1
  hive-test ssh dev1 2
  hive-test ssh dev1 dev1-2 -- journalctl -n 50`,
		Args: cobra.ArbitraryArgs,
	}
	load := a.settings(cmd)
	delete(cmd.Annotations, documents)
	raw := rawFlag(cmd)
	cmd.RunE = run(func(ctx context.Context, cmd *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		before, command := split(cmd, args)
		if err := withDashes(cmd, before, 2); err != nil {
			return err
		}
		node := "1"
		if len(before) == 2 {
			node = before[1]
		}
		err = a.ssh(ctx, before[0], node, command, *raw, settings)
		if none, ok := errors.AsType[engine.NoNodeError](err); ok && cmd.ArgsLenAtDash() < 0 && !isNumber(none.Word) {
			err = progress.WithHint(err, dashes(cmd, before, 1))
		}
		return err
	})
	return cmd
}

func (a *app) ssh(
	ctx context.Context, name, node string, command []string, raw bool, settings config.Settings,
) error {
	return a.work(settings, func(e *engine.Engine) error {
		file, isFile := a.Stdin.(*os.File)
		stdout, stderr, flush := a.sessionOutput(raw)
		exit, err := e.Shell(ctx, engine.ShellRequest{
			Request: a.request(name, settings), Node: node, Command: command, Stdin: a.Stdin, Stdout: stdout,
			Stderr: stderr,
			TTY:    isFile && len(command) == 0 && term.IsTerminal(int(file.Fd())),
		})
		err = errors.Join(err, flush())
		if err == nil && exit != 0 {
			err = engine.Error{Code: engine.ExitCode(exit)}
		}
		return err
	})
}
