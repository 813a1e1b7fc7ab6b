package cli

import (
	"cmp"
	"context"
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
	"hive-test/pkg/progress"
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
		return a.printReading(readingOf(record, reading), settings)
	})
}

// readingJSON is the shape of `up NAME --dry-run -o json` and of `plan NAME -o json`.
type readingJSON struct {
	Schema  int    `json:"schema"`
	Cluster string `json:"cluster"`
	Verb    string `json:"verb"`
	DryRun  bool   `json:"dry_run"`
	// Plan is the file that the plan was saved to, by plan.
	Plan    string `json:"plan,omitempty"`
	Changed bool   `json:"changed"` // up would change something
	// Hosts are those of a hosts file, each with its address, that up would make a cluster of that does not exist.
	Hosts   []string `json:"hosts,omitempty"`
	Refused bool     `json:"refused"` // up would stop here, with exit code 4
	// Needs are the flags that up lacks.
	Needs   []string     `json:"needs"`
	Changes []changeJSON `json:"changes"`
	// Notes are what else up would do, in words.
	Notes []string `json:"notes,omitempty"`
	// Totals count VMs. One that is replaced is destroyed and created.
	Totals deploy.Totals `json:"totals"`
}

type changeJSON struct {
	deploy.Change
	VMID       int    `json:"vmid,omitempty"`
	Hypervisor string `json:"hypervisor,omitempty"`
	// What the VM has in the end; of one that is deleted, nothing.
	CPUCores   int    `json:"cpu_cores,omitempty"`
	MemoryMB   int    `json:"memory_mb,omitempty"`
	DiskSizeGB int    `json:"disk_size_gb,omitempty"`
	OSImage    string `json:"os_image,omitempty"`
	Template   int    `json:"template,omitempty"`
	// Why is what changes, or why the VM is replaced, in words.
	Why string `json:"why,omitempty"`
	// Needs is the flag that allows the change; empty if up would make it as it was called.
	Needs string `json:"needs,omitempty"`
}

func readingOf(r *cluster.Record, reading lifecycle.Reading) readingJSON {
	out := readingJSON{
		Schema: outputSchema, Cluster: r.Name.String(), Verb: "up", DryRun: true,
		Changed: len(reading.Plan.Changes) > 0, Notes: reading.Notes(r.Name),
		Needs: []string{}, Changes: []changeJSON{},
	}
	if reading.Taken {
		out.Changed = true
		for _, n := range r.Nodes {
			out.Hosts = append(out.Hosts, n.Name+" ("+n.Management.String()+")")
		}
	}
	for _, c := range reading.Plan.Changes {
		change := changeJSON{Change: c, Needs: reading.Request.Needs(c), Why: c.Why()}
		if i := slices.IndexFunc(r.Nodes, func(n cluster.Node) bool { return n.Name == c.Node }); i >= 0 && c.VM {
			at := placement.Of(r.Nodes[i])
			change.VMID, change.Hypervisor = at.VMID, at.Hypervisor
			if c.Action != deploy.Delete {
				change.sized(r.Spec)
			}
		}
		if change.Needs != "" && !slices.Contains(out.Needs, change.Needs) {
			out.Needs = append(out.Needs, change.Needs)
		}
		out.Changes = append(out.Changes, change)
	}
	out.Refused = len(out.Needs) > 0
	out.Totals = reading.Plan.Totals()
	return out
}

// sized says what the VM has that is made as a specification wants it.
func (c *changeJSON) sized(spec cluster.Spec) {
	c.CPUCores, c.MemoryMB, c.DiskSizeGB = spec.CPUCores, spec.MemoryMB, spec.DiskSizeGB
	if c.Template = placement.TemplateOf(spec, c.Hypervisor); c.Template == 0 {
		c.OSImage = spec.OSImage
	}
}

// rows are the changes with one row for each VM. Of one whose VM stays as it is, what changes beside it is an update.
func (r readingJSON) rows() []changeJSON {
	var rows []changeJSON
	for _, c := range r.Changes {
		i := slices.IndexFunc(rows, func(row changeJSON) bool { return row.Node == c.Node && c.Node != "" })
		switch {
		case i < 0 && !c.VM:
			c.Action, c.Why = deploy.Update, strings.TrimSpace(string(c.Action)+" its snippet "+bracketed(c.Why))
			rows = append(rows, c)
		case i < 0:
			rows = append(rows, c)
		case c.VM:
			rows[i] = c
		}
	}
	return rows
}

func bracketed(text string) string {
	if text == "" {
		return ""
	}
	return "(" + text + ")"
}

func (a *app) printReading(reading readingJSON, settings config.Settings) error {
	if printed, err := printAs(a.Stdout, settings.Output, reading); printed {
		return err
	}
	paper := a.page(a.Stdout, settings)
	if settings.Output == "wide" {
		paper = paper.complete()
	}
	return writeReading(paper, reading)
}

// readingColumns are those of a plan. On a narrow terminal IMAGE goes first, then HYPERVISOR, VMID, DISK.
func readingColumns() []column {
	return []column{
		{name: "ACTION", color: actionColor},
		{name: "NODE", least: 16},
		{name: "VMID", right: true, drop: 3},
		{name: "HYPERVISOR", drop: 2},
		{name: "CPUS", right: true},
		{name: "MEMORY", right: true},
		{name: "DISK", right: true, drop: 4},
		{name: "IMAGE", least: 16, drop: 1},
		{name: "NEEDS"},
	}
}

func actionColor(action string) progress.Color {
	switch deploy.Action(action) {
	case deploy.Create:
		return progress.Green
	case deploy.Update:
		return progress.Yellow
	}
	return progress.Red
}

// writeReading writes the reading for people: a row for each VM, below them what changes and why, and the totals.
func writeReading(p page, reading readingJSON) error {
	if len(reading.Hosts) > 0 {
		return p.line("cluster "+reading.Cluster+" would be made of hosts that are there: "+
			strings.Join(reading.Hosts, ", "), "  ")
	}
	if !reading.Changed {
		return p.line("cluster "+reading.Cluster+": no changes", "  ")
	}
	changes := reading.rows()
	var rows [][]string
	for _, c := range changes {
		image := c.OSImage
		if c.Template > 0 {
			image = "template " + strconv.Itoa(c.Template)
		}
		rows = append(rows, []string{
			string(c.Action), cmp.Or(c.Node, c.Address), counted(c.VMID, ""), dash(c.Hypervisor),
			counted(c.CPUCores, ""), counted(c.MemoryMB, " MiB"), counted(c.DiskSizeGB, " GiB"), dash(image),
			dash(c.Needs),
		})
	}
	if err := p.table(readingColumns(), rows); err != nil {
		return err
	}
	if err := writeReasons(p, changes); err != nil {
		return err
	}
	if err := p.line("Plan: "+reading.Totals.String()+".", "  "); err != nil {
		return err
	}
	for _, note := range reading.Notes {
		if err := p.line("warning: "+note, "  "); err != nil {
			return err
		}
	}
	if !reading.Refused {
		return nil
	}
	stops := "up would stop here and change nothing, without "
	if reading.Plan != "" {
		stops = "apply would refuse this: plan it again with "
	}
	return p.line(stops+strings.Join(reading.Needs, " and "), "  ")
}

// writeReasons writes what changes and why, once for all nodes of which the same is said.
func writeReasons(p page, changes []changeJSON) error {
	var whys []string
	nodes := map[string][]string{}
	for _, c := range changes {
		if c.Why == "" {
			continue
		}
		if nodes[c.Why] == nil {
			whys = append(whys, c.Why)
		}
		nodes[c.Why] = append(nodes[c.Why], cmp.Or(c.Node, c.Address))
	}
	for _, why := range whys {
		if err := p.line("  "+strings.Join(nodes[why], ", ")+": "+why, "  "); err != nil {
			return err
		}
	}
	return nil
}

// counted is a number with its unit; 0 is not known.
func counted(n int, unit string) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n) + unit
}
