package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"hive-test/pkg/config"
	"hive-test/pkg/hive"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/progress"
	"hive-test/pkg/remote"
	"hive-test/pkg/state"
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

With -f, hive's logs of all nodes are shown as they grow, each line with its node and log before it, until Ctrl-C.`,
		Example: `  hive-test logs dev1
  hive-test logs dev1 --nodes 1,3 --to /tmp/dev1
  hive-test logs dev1 -f`,
		Args: named(1),
	}
	load := a.settings(cmd, "ssh.proxy_jump")
	to := cmd.Flags().String("to", "", "new or empty directory to gather into (default: a new one in the clusters directory's .runs)")
	follow := cmd.Flags().BoolP("follow", "f", false, "show hive's logs as they grow, until Ctrl-C")
	which := nodesFlag(cmd, "nodes", "only these nodes, like 1,3 (default all)")
	cmd.RunE = run(func(ctx context.Context, _ *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		switch {
		case *follow && *to != "":
			return usageError{errors.New("--follow shows logs and --to keeps them: use one of them")}
		case *follow:
			return a.follow(ctx, args[0], *which, settings)
		}
		if err := checkFormat(settings.Output, "table", "wide", "json", "yaml"); err != nil {
			return err
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
	s, err := a.opened(ctx, "logs", name, settings)
	if err != nil {
		return err
	}
	defer s.close()
	nodes, err := choose(s.record.Nodes, "nodes", which)
	if err != nil {
		return err
	}
	if s.run, err = s.gathering(to); err != nil {
		return err
	}
	fleet, err := s.fleet()
	if err != nil { // what the nodes tell is worth having
		s.sink.Emit(progress.Event{Kind: progress.Warning, Message: "Proxmox VE is not asked: " + err.Error(), Hint: progress.HintOf(err)})
		fleet = existing{}
	}
	s.learnKeys()
	job := s.job(fleet)
	job.Hold = s.holdBriefly
	limit := lifecycle.GatherTime
	if settings.Timeout > 0 {
		limit = settings.Timeout
	}
	limited, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it took more than %s", limit))
	defer cancel()
	job.Gather(limited, "", nodes, true)
	if err := job.Close(); err != nil {
		s.sink.Emit(progress.Event{Kind: progress.Debug, Message: "closing connections: " + err.Error()})
	}
	if err := s.clear(); err != nil {
		return err
	}
	index, err := job.Index()
	if err != nil {
		return err
	}
	if err := a.printLogs(logsJSON{outputSchema, name, s.run.Dir, index.Items}, settings.Output); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if len(job.Silent(nodes)) > 0 { // which was told
		return codeError{code: ExitUnexpected}
	}
	return nil
}

// printLogs writes a line for each node and thing, what was not got included.
func (a *app) printLogs(document logsJSON, format string) error {
	if structured, err := printAs(a.Stdout, format, document); structured {
		return err
	}
	rows := [][]string{{"NODE", "WHAT", "BYTES", "FILE"}}
	for _, item := range document.Items {
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
	if err := tabbed(a.Stdout, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintln(a.Stdout, document.Dir)
	return err
}

// follow shows hive's logs until it is interrupted, which is how it is meant to end.
func (a *app) follow(ctx context.Context, name, which string, settings config.Settings) error {
	a.signals.looking()
	// What cannot be reached is told by what follows it.
	return a.onNodes(ctx, "logs", name, settings, listed(which), func(ctx context.Context, s *session, group remote.Group, _ []error) error {
		return s.showLogs(ctx, group)
	})
}

// showLogs ends when it is interrupted, with --timeout, or when whoever reads it is gone.
func (s *session) showLogs(ctx context.Context, group remote.Group) error {
	s.learnKeys()
	options := s.hiveOptions()
	options.Secrets = s.known
	var one sync.Mutex
	var failure error
	following, stop := context.WithCancel(ctx)
	defer stop()
	err := hive.New(s.name, group, options, s.sink).Follow(following, func(node, log, text string) {
		one.Lock()
		defer one.Unlock()
		if _, err := fmt.Fprintf(s.Stdout, "%s %s: %s\n", node, log, s.shown(s.Stdout, progress.Clean(text))); err != nil { // whoever read it is gone
			failure = err
			stop()
		}
	})
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return failure
	case ctx.Err() != nil:
		return codeError{code: ExitInterrupted}
	}
	return errors.Join(failure, err)
}
