package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/progress"
	"hive-test/pkg/state"
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
			return usageError{errors.New("--interval is for --watch")}
		case *watch && len(args) == 0:
			return usageError{errors.New("--watch needs the name of a cluster")}
		case *interval < shortestInterval:
			return usageError{fmt.Errorf("--interval %s is too short: give %s or more", *interval, shortestInterval)}
		case *watch:
			return a.watch(ctx, args[0], *interval, settings)
		case len(args) == 0:
			return a.list(settings)
		}
		return a.status(ctx, args[0], settings)
	})
	return cmd
}

func (a *app) status(ctx context.Context, name string, settings config.Settings) error {
	s, r, err := a.look(ctx, "status", name, settings)
	if err != nil {
		return err
	}
	defer s.close()
	ctx, cancel := s.limited(ctx)
	defer cancel()
	status, err := lifecycle.Look(ctx, r)
	if err := errors.Join(err, r.Close()); err != nil {
		return err
	}
	document := s.document(status)
	structured, err := printAs(a.Stdout, settings.Output, document)
	if !structured {
		err = printStatus(a.Stdout, document, settings.Output == "wide")
	}
	if err != nil {
		return err
	}
	if !status.Formed {
		return codeError{code: ExitUnhealthy}
	}
	return nil
}

// listJSON is the shape of `status -o json`.
type listJSON struct {
	Schema   int           `json:"schema"`
	Clusters []clusterJSON `json:"clusters"`
}

func (a *app) list(settings config.Settings) error {
	store, err := state.Open(settings.ClustersDir)
	if err != nil {
		return codeError{ExitConfig, err}
	}
	names, err := store.List()
	if err != nil {
		return err
	}
	document := listJSON{Schema: outputSchema, Clusters: []clusterJSON{}}
	for _, name := range names {
		document.Clusters = append(document.Clusters, summary(store, name))
	}
	structured, err := printAs(a.Stdout, settings.Output, document)
	if structured {
		return err
	}
	rows := [][]string{{"NAME", "PHASE", "STATE", "NODES", "CREATED", "EXPIRES", "OWNER", "LOCKED BY"}}
	for _, c := range document.Clusters {
		rows = append(rows, []string{c.Name, dash(c.Phase), dash(c.State), strconv.Itoa(c.Nodes), c.made(), c.ends(), dash(c.Owner), dash(c.LockedBy)})
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
func (c clusterJSON) made() string {
	if c.Created.IsZero() {
		return "-"
	}
	return c.Created.Local().Format(time.DateTime)
}

// ends is when the cluster expires, for people.
func (c clusterJSON) ends() string {
	switch {
	case c.Held:
		return "held"
	case c.Expires == nil:
		return "-"
	}
	return c.Expires.Local().Format(time.DateTime)
}
