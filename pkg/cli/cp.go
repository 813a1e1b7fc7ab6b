package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"hive-test/pkg/config"
	"hive-test/pkg/engine"
)

func (a *app) cpCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cp NAME SRC... DST",
		Short: "files and directories to nodes, all at once, or from them",
		Long: `cp copies as scp does: on one side are paths of nodes, written N:PATH, where N is the number or the name of a node, or several
(1,3); :PATH is all nodes, or those of --nodes. What is relative there begins in the home directory of the SSH user.
Directories are copied with all that is in them, into DST where that is a directory or ends in a slash, or where there are
several sources; else as DST. Of a source that ends in /. only what is in it is copied.

From several nodes each has a directory of its own: DST/NAME-1, DST/NAME-2, and so on.

A file appears whole or not at all, with its mode, and is left as it is where it is the same already. Links are followed
to files; what else is neither file nor directory is left out, and named. The exit code is 1 where anything could not be
copied; all else is. What comes from nodes gets no mode that the umask does not allow. --timeout bounds the copying; a node
that says nothing for a minute, or lists without end, is left.`,
		Example: `  hive-test cp dev1 ./site.conf :/tmp/
  hive-test cp dev1 --nodes 1,3 ./dir :
  hive-test cp dev1 2:/var/log/syslog .
  hive-test cp dev1 :/etc/hive ./evidence`,
		Args: named(0),
	}
	load := a.settings(cmd)
	which := nodesFlag(cmd, "nodes", "the nodes that :PATH means, like 1,3 (default all)")
	cmd.RunE = run(func(ctx context.Context, _ *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		asked, err := engine.ParseCopy(args[1:], *which)
		if err != nil {
			return usage(err)
		}
		return a.cp(ctx, args[0], asked, settings)
	})
	return cmd
}

// cpJSON is the shape of `cp -o json`.
type cpJSON struct {
	Schema  int                 `json:"schema"`
	Cluster string              `json:"cluster"`
	Nodes   []engine.CopyResult `json:"nodes"`
}

func (a *app) cp(ctx context.Context, name string, asked engine.Copy, settings config.Settings) error {
	return a.work(settings, func(e *engine.Engine) error {
		results, failure := e.Copy(ctx, engine.CopyRequest{Request: a.request(name, settings), Copy: asked})
		if results == nil {
			return failure
		}
		_, err := printAs(a.Stdout, settings.Output, cpJSON{outputSchema, name, results})
		return errors.Join(failure, err)
	})
}
