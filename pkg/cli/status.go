package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"hive-test/pkg/config"
	"hive-test/pkg/engine"
)

func (a *app) statusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status [NAME]",
		Short: "what is recorded, what the hypervisors say and what the nodes answer, side by side; no name lists all",
		Long: `status shows, per node, what is recorded, what its hypervisor says and what it answers itself. It exits 0 only if
the cluster is formed: every node answers as itself, is running, sees all the others and serves signed calls.
Without a name it lists the clusters that are here.

With --watch it looks again and again. On a terminal the table is drawn anew in its place; elsewhere the first look is
told in a line per node, and from then on each change, with its time (-o json: a document per change, one a line). It ends
with Ctrl-C, or when the cluster is gone (exit 0), or with --timeout, as status would then.`,
		Example: `  hive-test status
  hive-test status dev1 -o wide
  hive-test status dev1 --watch --interval 5s`,
		Args: nameOrNone,
	}
	load := a.settings(cmd, "ssh.proxy_jump", "hive.probe_timeout")
	watch := cmd.Flags().Bool("watch", false, "look again and again, and show what changes")
	interval := cmd.Flags().Duration("interval", watchInterval, "pause between two looks of --watch")
	cmd.RunE = run(func(ctx context.Context, cmd *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		if err := checkFormat(settings.Output, "table", "wide", "json", "yaml"); err != nil {
			return err
		}
		switch {
		case !*watch && cmd.Flags().Changed("interval"):
			return usage(errors.New("--interval is for --watch"))
		case *watch && len(args) == 0:
			return usage(errors.New("--watch needs the name of a cluster"))
		case *interval < shortestInterval:
			return usage(fmt.Errorf("--interval %s is too short: give %s or more", *interval, shortestInterval))
		case *watch:
			return a.watch(ctx, args[0], *interval, settings)
		case len(args) == 0:
			return a.list(ctx, settings)
		}
		return a.status(ctx, args[0], settings)
	})
	return cmd
}

func (a *app) status(ctx context.Context, name string, settings config.Settings) error {
	a.signals.looking()
	return a.work(settings, func(e *engine.Engine) error {
		status, err := e.Status(ctx, a.request(name, settings))
		if err != nil {
			return err
		}
		if err := a.printStatus(statusOf(status), settings.Output); err != nil {
			return err
		}
		if !status.Formed {
			return engine.Error{Code: engine.ExitUnhealthy}
		}
		return nil
	})
}

func (a *app) printStatus(document statusJSON, format string) error {
	if structured, err := printAs(a.Stdout, format, document); structured {
		return err
	}
	return printStatus(a.Stdout, document, format == "wide")
}

// listJSON is the shape of `status -o json`.
type listJSON struct {
	Schema   int              `json:"schema"`
	Clusters []engine.Summary `json:"clusters"`
}

func (a *app) list(ctx context.Context, settings config.Settings) error {
	e, err := engine.Open(ctx, engine.Options{})
	if err != nil {
		return err
	}
	clusters, err := e.Clusters(settings)
	if err != nil {
		return err
	}
	document := listJSON{Schema: outputSchema, Clusters: clusters}
	if structured, err := printAs(a.Stdout, settings.Output, document); structured {
		return err
	}
	rows := [][]string{{"NAME", "PHASE", "STATE", "NODES", "CREATED", "EXPIRES", "OWNER", "LOCKED BY"}}
	for _, c := range document.Clusters {
		rows = append(rows, []string{c.Name, dash(c.Phase), dash(c.State), strconv.Itoa(c.Nodes), made(c), ends(c), dash(c.Owner), dash(c.LockedBy)})
	}
	if settings.Output == "wide" {
		rows[0] = append(rows[0], "OWNER ID")
		for i, c := range document.Clusters {
			rows[i+1] = append(rows[i+1], dash(c.OwnerID))
		}
	}
	if err := tabbed(a.Stdout, rows); err != nil {
		return err
	}
	for _, c := range document.Clusters {
		if c.Interrupted != nil {
			fmt.Fprintf(a.Stdout, "%s: %s\n", c.Name, c.Interrupted)
		}
	}
	return nil
}

// made is when the cluster was made, for people; unknown where its record is damaged.
func made(c engine.Summary) string {
	if c.Created.IsZero() {
		return "-"
	}
	return c.Created.Local().Format(time.DateTime)
}

// ends is when the cluster expires, for people.
func ends(c engine.Summary) string {
	switch {
	case c.Held:
		return "held"
	case c.Expires == nil:
		return "-"
	}
	return c.Expires.Local().Format(time.DateTime)
}
