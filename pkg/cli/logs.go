package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"hive-test/pkg/config"
	"hive-test/pkg/engine"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/progress"
)

func (a *app) logsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "logs NAME",
		Short: "gather the logs of every node that answers, and what Proxmox VE says of the others; -f follows hive's logs",
		Long: `logs gathers, from all nodes at once and within 45 seconds: hive's logs and those of init and join, the journal,
cloud-init's status and logs, /health, /routez, listening ports, processes, disks, memory and time; of each VM its
configuration, state and last tasks; and of nodes that SSH does not reach, what the guest agent tells. Secrets are taken
out. index.json lists what was got, and what was not and why. Nothing is changed, and a run that holds the cluster is not
disturbed. A run that fails does the same by itself.

With -f, hive's logs of all nodes are shown as they grow, each line with its node and log before it, in the order in
which they were written as far as they come at about the same time, until Ctrl-C or whoever reads them has seen enough.`,
		Example: `  hive-test logs dev1
  hive-test logs dev1 --nodes 1,3 --to /tmp/dev1
  hive-test logs dev1 -f`,
		Args: named(1),
	}
	load := a.settings(cmd)
	to := cmd.Flags().String(
		"to", "", "new or empty `directory` to gather into (default: a new one in the clusters directory's .runs)",
	)
	follow := cmd.Flags().BoolP("follow", "f", false, "show hive's logs as they grow, until Ctrl-C")
	which := nodesFlag(cmd, "nodes", "only these nodes, like 1,3 (default all)")
	cmd.RunE = run(func(ctx context.Context, _ *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		switch {
		case *follow && *to != "":
			return usage(errors.New("--follow shows logs and --to keeps them: use one of them"))
		case *follow:
			if err := noDocument(settings, "--follow shows logs as they grow"); err != nil {
				return err
			}
			return a.follow(ctx, args[0], *which, settings)
		}
		return a.logs(ctx, args[0], *which, *to, settings)
	})
	return cmd
}

// logsJSON is the shape of `logs -o json`: the index of what was gathered, and where it is.
type logsJSON struct {
	Schema  int              `json:"schema"`
	Cluster string           `json:"cluster"`
	Dir     string           `json:"dir"`
	Items   []lifecycle.Item `json:"items"`
}

func (a *app) logs(ctx context.Context, name, which, to string, settings config.Settings) error {
	return a.work(settings, func(e *engine.Engine) error {
		gathered, err := e.Logs(ctx, engine.LogsRequest{Request: a.request(name, settings), Nodes: which, To: to})
		if gathered.Dir == "" {
			return err
		}
		if err := a.printLogs(logsJSON{outputSchema, name, gathered.Dir, gathered.Items}, settings); err != nil {
			return err
		}
		if err == nil && gathered.Silent {
			return engine.Error{Code: engine.ExitUnexpected}
		}
		return err
	})
}

// printLogs writes what was got and what was not in a few lines, and where the index of it all is; wide: all of it.
func (a *app) printLogs(document logsJSON, settings config.Settings) error {
	if structured, err := printAs(a.Stdout, settings.Output, document); structured {
		return err
	}
	paper := a.page(a.Stdout, settings)
	if settings.Output == "wide" {
		if err := document.printItems(paper.complete()); err != nil {
			return err
		}
	} else if err := document.printSummary(paper); err != nil {
		return err
	}
	_, err := fmt.Fprintln(a.Stdout, filepath.Join(document.Dir, lifecycle.IndexFile))
	return err
}

func (d logsJSON) printItems(p page) error {
	var rows [][]string
	for _, item := range d.Items {
		if item.What == "run" && !item.Got {
			continue
		}
		size, where := "-", item.File
		if item.File != "" {
			size = strconv.FormatInt(item.Bytes, 10)
		}
		if item.Why != "" {
			where = strings.TrimSpace(where + " (" + strings.Join(strings.Fields(item.Why), " ") + ")")
		}
		rows = append(rows, []string{dash(item.Node), item.What, size, where})
	}
	return p.table([]column{{name: "NODE"}, {name: "WHAT"}, {name: "BYTES", right: true}, {name: "FILE"}}, rows)
}

// printSummary writes how much was got, of how many nodes, and of which ones something is missing.
func (d logsJSON) printSummary(p page) error {
	got, bytes, nodes := 0, int64(0), []string{}
	missing := map[string]int{}
	for _, item := range d.Items {
		switch {
		case item.What == "run" && !item.Got:
			continue
		case item.Node != "" && !slices.Contains(nodes, item.Node):
			nodes = append(nodes, item.Node)
		}
		if item.Got {
			got, bytes = got+1, bytes+item.Bytes
		} else {
			missing[item.Node]++
		}
	}
	text := fmt.Sprintf("%s of %s, %s", progress.Count(got, "log"), progress.Count(len(nodes), "node"), size(bytes))
	if err := p.line(text, "  "); err != nil || len(missing) == 0 {
		return err
	}
	var of []string
	for _, node := range append(nodes, "") {
		if missing[node] > 0 {
			of = append(of, fmt.Sprintf("%d of %s", missing[node], cmp.Or(node, "the run")))
		}
	}
	return p.line("not got, and why is in the index (or -o wide): "+strings.Join(of, ", "), "  ")
}

// size writes a number of bytes for people.
func size(bytes int64) string {
	switch {
	case bytes < 1<<10:
		return progress.Count(int(bytes), "byte")
	case bytes < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(bytes)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
}

// follow shows hive's logs until it is interrupted, which is how it is meant to end, or whoever reads them is gone.
func (a *app) follow(ctx context.Context, name, which string, settings config.Settings) error {
	a.signals.looking()
	ctx, stop := whileRead(ctx, a.Stdout)
	defer stop()
	return a.work(settings, func(e *engine.Engine) error {
		request := engine.LogsRequest{Request: a.request(name, settings), Nodes: which}
		err := e.FollowLogs(ctx, request, func(node, log, line string) error {
			_, err := fmt.Fprintf(a.Stdout, "%s %s: %s\n", node, log, a.shown(a.Stdout, progress.Clean(line)))
			return err
		})
		switch {
		case errors.Is(err, syscall.EPIPE): // head has seen enough
			return nil
		case ctx.Err() != nil:
			return engine.Error{Code: engine.ExitInterrupted}
		}
		return err
	})
}
