package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/engine"
	"hive-test/pkg/lifecycle"
)

// guardFlags are the flags that allow a plan more than to change what it can while the VMs run.
func guardFlags(cmd *cobra.Command) *deploy.Allowed {
	allow := new(deploy.Allowed)
	cmd.Flags().BoolVar(
		&allow.Replace, strings.TrimPrefix(deploy.AllowReplace, "--"), false,
		"let VMs that exist be deleted and made anew: what is on their disks is lost",
	)
	cmd.Flags().BoolVar(
		&allow.Restart, strings.TrimPrefix(deploy.AllowRestart, "--"), false,
		"let VMs that exist be restarted, one after the other, where a change needs it",
	)
	return allow
}

// dryRun prints what up would do. Nothing is locked and nothing is written: neither here nor on a hypervisor.
func (a *app) dryRun(ctx context.Context, name string, settings config.Settings, allow deploy.Allowed) error {
	request := engine.UpRequest{Request: a.request(name, settings), Allow: allow}
	return a.work(settings, func(e *engine.Engine) error {
		record, reading, outcome, err := e.DryRun(ctx, request)
		if err != nil {
			return a.report(settings, outcome, err)
		}
		return a.printReading(readingOf(record, reading), settings.Output)
	})
}

// readingJSON is the shape of `up NAME --dry-run -o json`.
type readingJSON struct {
	Schema  int    `json:"schema"`
	Cluster string `json:"cluster"`
	Verb    string `json:"verb"`
	DryRun  bool   `json:"dry_run"`
	Changed bool   `json:"changed"` // up would change something
	Refused bool   `json:"refused"` // up would stop here, with exit code 4
	// Needs are the flags that up lacks.
	Needs   []string     `json:"needs"`
	Changes []changeJSON `json:"changes"`
}

type changeJSON struct {
	deploy.Change
	VMID       int    `json:"vmid,omitempty"`
	Hypervisor string `json:"hypervisor,omitempty"`
	// Needs is the flag that allows the change; empty if up would make it as it was called.
	Needs string `json:"needs,omitempty"`
}

func readingOf(r *cluster.Record, reading lifecycle.Reading) readingJSON {
	out := readingJSON{
		Schema: outputSchema, Cluster: r.Name.String(), Verb: "up", DryRun: true,
		Changed: len(reading.Plan.Changes) > 0,
		Needs:   []string{}, Changes: []changeJSON{},
	}
	for _, c := range reading.Plan.Changes {
		change := changeJSON{Change: c, Needs: reading.Request.Needs(c)}
		if i := slices.IndexFunc(r.Nodes, func(n cluster.Node) bool { return n.Name == c.Node }); i >= 0 && c.VM {
			at := placement.Of(r.Nodes[i])
			change.VMID, change.Hypervisor = at.VMID, at.Hypervisor
		}
		if change.Needs != "" && !slices.Contains(out.Needs, change.Needs) {
			out.Needs = append(out.Needs, change.Needs)
		}
		out.Changes = append(out.Changes, change)
	}
	out.Refused = len(out.Needs) > 0
	return out
}

func (a *app) printReading(reading readingJSON, format string) error {
	if printed, err := printAs(a.Stdout, format, reading); printed {
		return err
	}
	return writeReading(a.Stdout, reading)
}

// writeReading writes the reading for people.
func writeReading(w io.Writer, reading readingJSON) error {
	if !reading.Changed {
		_, err := fmt.Fprintf(w, "cluster %s: no changes\n", reading.Cluster)
		return err
	}
	rows := [][]string{{"ACTION", "NODE", "WHAT", "HYPERVISOR", "CHANGE", "NEEDS"}}
	for _, c := range reading.Changes {
		what := "its snippet"
		if c.VM {
			what = "VM " + strconv.Itoa(c.VMID)
		}
		var values []string
		for _, a := range c.Attributes {
			values = append(values, a.Name+" "+a.Before+" -> "+a.After)
		}
		needs := c.Needs
		if c.Restarts {
			values = append(values, "with a restart")
		}
		rows = append(rows, []string{
			string(c.Action), dash(c.Node), what, dash(c.Hypervisor), dash(strings.Join(values, ", ")), dash(needs),
		})
	}
	if err := tabbed(w, rows); err != nil {
		return err
	}
	if !reading.Refused {
		return nil
	}
	_, err := fmt.Fprintf(
		w, "up would stop here and change nothing, without %s\n", strings.Join(reading.Needs, " and "),
	)
	return err
}
