package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"hive-test/pkg/config"
	"hive-test/pkg/engine"

	"github.com/spf13/cobra"
)

func (a *app) execCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "exec NAME -- CMD",
		Short: "one command on all nodes at once",
		Long: `exec runs one command on all nodes at once. Several arguments are passed as they are, each quoted; a single one is a line
for the shell. The exit code is that of the first node where it is not 0.

Of what goes to a terminal, or into the log of a CI job that reads commands there, escape sequences and such commands are
taken out; --raw leaves them. 4 MiB of each stream of a node are kept; where it was more, that is an error.`,
		Example: `  hive-test exec dev1 -- hostname
  hive-test exec dev1 --nodes 1,3 -o json -- 'df -h / | tail -1'`,
		Args: cobra.ArbitraryArgs,
	}
	load := a.settings(cmd)
	which := nodesFlag(cmd, "nodes", "only these nodes, like 1,3 (default all)")
	raw := rawFlag(cmd)
	cmd.RunE = run(func(ctx context.Context, cmd *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		before, command := split(cmd, args)
		if err := named(1)(cmd, before); err != nil {
			return err
		}
		if len(command) == 0 {
			return usage(errors.New("exec needs a command after --, like: hive-test exec NAME -- hostname"))
		}
		return a.exec(ctx, before[0], *which, command, *raw, settings)
	})
	return cmd
}

// execJSON is the shape of `exec -o json`.
type execJSON struct {
	Schema  int                 `json:"schema"`
	Cluster string              `json:"cluster"`
	Nodes   []engine.NodeResult `json:"nodes"`
}

func (a *app) exec(
	ctx context.Context, name, which string, command []string, raw bool, settings config.Settings,
) error {
	return a.work(settings, func(e *engine.Engine) error {
		results, failure := e.Exec(ctx, engine.ExecRequest{
			Request: a.request(name, settings), Nodes: which, Command: command,
		})
		if results == nil {
			return failure
		}
		document := execJSON{outputSchema, name, results}
		structured, err := printAs(a.Stdout, settings.Output, document)
		if !structured {
			err = a.printExec(document, raw)
		}
		return errors.Join(failure, err)
	})
}

// printExec writes every line of output with its node before it; raw: as the node has sent it, whoever reads it.
func (a *app) printExec(document execJSON, raw bool) error {
	var failure error
	for _, n := range document.Nodes {
		for _, stream := range []struct {
			to   io.Writer
			text string
		}{{a.Stdout, n.Stdout}, {a.Stderr, n.Stderr}} {
			text := stream.text
			if !raw {
				text = a.shown(stream.to, text)
			}
			_, err := io.WriteString(stream.to, withNode(n.Name, text))
			failure = errors.Join(failure, err)
		}
		if n.ExitCode != 0 && n.Error == "" {
			fmt.Fprintf(a.Stderr, "%s: exit code %d %s\n", n.Name, n.ExitCode, n.Signal)
		}
	}
	return failure
}
