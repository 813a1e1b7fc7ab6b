package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hive-test/pkg/config"
	"hive-test/pkg/engine"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/progress"
)

const (
	driftInterval         = 15 * time.Minute
	shortestDriftInterval = time.Second
)

// driftFlags are those of `drift`.
type driftFlags struct {
	all, watch bool
	interval   time.Duration
	jobs       int
}

func (a *app) driftCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "drift NAME",
		Short: "what of a cluster is not as it is recorded any more, because others have changed it",
		Long: `drift looks for what of a cluster others have changed, and changes nothing itself. A plan of OpenTofu tells what differs from
its state and from what is wanted; a look at Proxmox VE what no plan sees: VMs that are gone, stopped, moved, renamed, in
another pool, that lost tags or the cluster's owner id or carry it though no node has them, and snapshots that nobody asked
for or that are gone; the record is compared with the state and with the inventory.

It exits 10 where there is drift, 0 where there is none. A cluster that a run is at work on is not looked at (exit 8; with --all
and --watch it is told and left out). With --all what is wrong with one cluster is told with it, the others are looked at,
and the exit code is that of the first error, else 10 if any has drift.

With --watch it looks again and again, and prints what changes only (-o json: a document per change, one a line), until
Ctrl-C (exit 0). on_drift in the config file is a program that is run when the drift of a cluster was found or has changed.`,
		Example: `  hive-test drift dev1
  hive-test drift --all --jobs 4 -o json
  hive-test drift --all --watch --interval 15m`,
		Args: nameOrNone,
	}
	load := a.settings(cmd)
	var flags driftFlags
	cmd.Flags().BoolVar(&flags.all, "all", false, "look at every cluster that is here")
	cmd.Flags().BoolVar(&flags.watch, "watch", false, "look again and again, and print what changes")
	cmd.Flags().DurationVar(&flags.interval, "interval", driftInterval, "pause between two looks of --watch")
	cmd.Flags().IntVar(&flags.jobs, "jobs", 1, "how many clusters --all looks at at a time")
	cmd.RunE = run(func(ctx context.Context, cmd *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		switch {
		case len(args) == 0 && !flags.all:
			return usage(progress.WithHint(errors.New("drift needs the name of a cluster, or --all"), usageLine(cmd)))
		case len(args) == 1 && flags.all:
			return usage(errors.New("--all is for all clusters: give it or a name"))
		case !flags.watch && cmd.Flags().Changed("interval"):
			return usage(errors.New("--interval is for --watch"))
		case !flags.all && cmd.Flags().Changed("jobs"):
			return usage(errors.New("--jobs is for --all"))
		case flags.jobs < 1:
			return usage(fmt.Errorf("--jobs is %d: it must be 1 or more", flags.jobs))
		case flags.interval < shortestDriftInterval:
			return usage(fmt.Errorf("--interval %s is too short: give %s or more", flags.interval, shortestDriftInterval))
		}
		a.signals.looking()
		name := strings.Join(args, "")
		if flags.watch {
			return a.watchDrift(ctx, name, flags, settings)
		}
		if flags.all {
			return a.driftAll(ctx, flags.jobs, settings)
		}
		return a.drift(ctx, name, settings)
	})
	return cmd
}

// driftJSON is the shape of `drift NAME -o json`, and of what the program of on_drift gets.
type driftJSON struct {
	Schema  int       `json:"schema"`
	Cluster string    `json:"cluster"`
	Time    time.Time `json:"time"`
	// Drift says that there are differences.
	Drift       bool                   `json:"drift"`
	Differences []lifecycle.Difference `json:"differences"`
	// Skipped is the run that is at work on the cluster, which was not looked at.
	Skipped string `json:"skipped,omitempty"`
	// Error is why it could not be looked at, or not at all of it.
	Error string `json:"error,omitempty"`
	Hint  string `json:"hint,omitempty"`
}

// driftsJSON is the shape of `drift --all -o json`.
type driftsJSON struct {
	Schema   int         `json:"schema"`
	Drift    bool        `json:"drift"` // of any cluster
	Clusters []driftJSON `json:"clusters"`
}

func (a *app) driftOf(d engine.Drift) driftJSON {
	document := driftJSON{
		Schema: outputSchema, Cluster: d.Cluster, Time: d.Time, Drift: d.Found(),
		Differences: append([]lifecycle.Difference{}, d.Differences...), Skipped: d.Busy,
	}
	for i := range document.Differences {
		at := &document.Differences[i]
		at.Recorded, at.Real = a.known.Mask(at.Recorded), a.known.Mask(at.Real)
	}
	if d.Err != nil {
		document.Error, document.Hint = a.known.Mask(d.Err.Error()), a.inPlace(progress.HintOf(d.Err))
	}
	return document
}

func (a *app) drift(ctx context.Context, name string, settings config.Settings) error {
	return a.work(settings, func(e *engine.Engine) error {
		found, err := e.Drift(ctx, a.request(name, settings))
		if err != nil && !found.Found() {
			return err
		}
		found.Err = err
		document := a.driftOf(found)
		if document.Drift {
			e.OnDrift(ctx, settings, document)
		}
		structured, printErr := printAs(a.Stdout, settings.Output, document)
		if !structured {
			printErr = a.printDrift(document, settings)
		}
		if printErr = a.unlessUnread(printErr); printErr != nil || err != nil {
			return errors.Join(printErr, err)
		}
		return driftCode(document.Drift)
	})
}

// driftCode is the end of a look without errors.
func driftCode(drift bool) error {
	if drift {
		return engine.Error{Code: engine.ExitUnhealthy}
	}
	return nil
}

func (a *app) driftAll(ctx context.Context, jobs int, settings config.Settings) error {
	all := driftsJSON{Schema: outputSchema, Clusters: []driftJSON{}}
	return a.work(settings, func(e *engine.Engine) error {
		var first error
		err := e.DriftAll(ctx, settings, jobs, func(d engine.Drift) error {
			document := a.driftOf(d)
			all.Clusters, all.Drift = append(all.Clusters, document), all.Drift || document.Drift
			first = cmp.Or(first, d.Err)
			if document.Drift {
				e.OnDrift(ctx, settings, document)
			}
			if settings.Output == "json" || settings.Output == "yaml" {
				return nil
			}
			return a.printDrift(document, settings)
		})
		if err == nil {
			_, err = printAs(a.Stdout, settings.Output, all)
		}
		if err = a.unlessUnread(err); err != nil {
			return err
		}
		if len(all.Clusters) == 0 {
			fmt.Fprintf(a.Stderr, "no clusters in %s\n", settings.ClustersDir)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if first != nil { // it was told with its cluster
			return engine.Error{Code: engine.CodeOf(ctx, first)}
		}
		return driftCode(all.Drift)
	})
}

// driftColumns are those of differences. On a narrow terminal KIND goes first.
func driftColumns() []column {
	return []column{
		{name: "NODE", least: 12},
		{name: "RESOURCE", least: 12},
		{name: "KIND", drop: 1},
		{name: "ATTRIBUTE", least: 12},
		{name: "RECORDED", least: 12},
		{name: "REAL", least: 12},
	}
}

// printDrift writes what was found of a cluster, for people.
func (a *app) printDrift(d driftJSON, settings config.Settings) error {
	p := a.page(a.Stdout, settings)
	if settings.Output == "wide" {
		p = p.complete()
	}
	if err := p.line(d.headline(), "  "); err != nil {
		return err
	}
	if d.Drift {
		var rows [][]string
		for _, one := range d.Differences {
			rows = append(rows, []string{
				dash(one.Node), one.Resource, string(one.Kind), one.Attribute, progress.Clean(one.Recorded), progress.Clean(one.Real),
			})
		}
		if err := p.table(driftColumns(), rows); err != nil {
			return err
		}
	}
	return nil
}

// headline says in a line what was found.
func (d driftJSON) headline() string {
	what := "no drift"
	switch {
	case d.Skipped != "":
		what = "not looked at: " + d.Skipped
	case d.Error != "" && !d.Drift:
		what = "error: " + d.Error
	case d.Drift:
		what = "drift: " + progress.Count(len(d.Differences), "difference")
	}
	if d.Error != "" && d.Drift {
		what += ", and not all could be looked at: " + d.Error
	}
	return "cluster " + d.Cluster + ": " + what
}
