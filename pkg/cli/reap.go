package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
	"hive-test/pkg/deploy"
	"hive-test/pkg/engine"
	"hive-test/pkg/progress"
)

const reapLong = `reap finds, from Proxmox VE alone and from any machine with the credentials, the VMs that nobody will destroy: those whose
time is up (--ttl), those whose run died though it meant to destroy them, and those of an up that never ended. It shows them,
asks on a terminal, and needs --yes elsewhere: without it nothing is deleted. VMs of a run at work, and those that are held, are
left alone, and why is said. A cluster is known by the owner id that its VMs carry, never by names. NAME is one cluster, of
that whole name; --prefix is all whose names begin so: ci-1 is the beginning of ci-10, too. What is deleted is proved gone, disks and snippets included, and marks
and claims of runs that died go, too. Times are those of Proxmox VE's clock.

Exit code 7 says that something that should be gone is still there.`

// reapFlags are those that are no settings.
type reapFlags struct {
	dryRun, yes bool
	prefix      string
	olderThan   *time.Duration
}

func (a *app) reapCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reap [NAME]",
		Short: "delete VMs whose time is up or whose run died, found from Proxmox VE itself",
		Long:  reapLong,
		Example: `  hive-test reap                          # show them, and ask
  hive-test reap --yes --prefix ci-       # in cron, or as a step of CI
  hive-test reap --older-than 2d --dry-run
  hive-test reap dev1 -o json`,
		Args: nameOrNone,
	}
	load := a.settings(cmd)
	var flags reapFlags
	cmd.Flags().BoolVar(&flags.dryRun, "dry-run", false, "delete nothing: the default without a terminal")
	cmd.Flags().BoolVar(&flags.yes, "yes", false, "delete without asking")
	cmd.Flags().StringVar(&flags.prefix, "prefix", "", "only clusters whose `name` begins so")
	flags.olderThan = config.DurationFlag(
		cmd.Flags(), "older-than",
		"delete also clusters that were made longer ago, like 2d, but for those that are held or at work",
	)
	cmd.RunE = run(func(ctx context.Context, cmd *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		if cmd.Flags().Changed("prefix") {
			if err := checkPrefix(flags.prefix); err != nil {
				return usage(err)
			}
		}
		return a.reap(ctx, strings.Join(args, ""), settings, flags)
	})
	return cmd
}

// reapJSON is the shape of `reap -o json`.
type reapJSON struct {
	Schema int        `json:"schema"`
	DryRun bool       `json:"dry_run"`
	VMs    []reapedVM `json:"vms"`
	// Traces are marks, claims and snippets of runs that died, of clusters that have no VM to delete. Pool is empty for
	// snippets.
	Traces []reapedTrace `json:"traces"`

	ways []string // how clusters end that reap leaves for ever, for people
}

type reapedVM struct {
	VMID       int               `json:"vmid"`
	Name       string            `json:"name"`
	Hypervisor string            `json:"hypervisor"`
	Cluster    string            `json:"cluster"`
	Owner      string            `json:"owner"`    // the owner's id
	OwnerID    string            `json:"owner_id"` // the same, as other documents call it
	Expires    *time.Time        `json:"expires" jsonschema:"nullable"`
	Reason     string            `json:"reason"`
	Detail     string            `json:"detail"`
	Action     deploy.ReapAction `json:"action"`
	Error      string            `json:"error,omitempty"`
}

type reapedTrace struct {
	Pool    string            `json:"pool"`
	Cluster string            `json:"cluster"`
	Owner   string            `json:"owner"`    // the owner's id
	OwnerID string            `json:"owner_id"` // the same, as other documents call it
	Detail  string            `json:"detail"`
	Action  deploy.ReapAction `json:"action"`
	Error   string            `json:"error,omitempty"`
}

// reap is one look at a Proxmox VE, and what follows from it.
func (a *app) reap(ctx context.Context, name string, settings config.Settings, flags reapFlags) error {
	if err := flags.check(); err != nil {
		return usage(err)
	}
	return a.work(settings, func(e *engine.Engine) error {
		request := engine.ReapRequest{
			Request: a.request(name, settings), Prefix: flags.prefix, OlderThan: *flags.olderThan,
			Look:  flags.dryRun,
			Again: flags.again(settings),
		}
		var unasked error
		refused := false
		plan, err := e.Reap(ctx, request, func(plan *deploy.ReapPlan) (bool, error) {
			switch {
			case flags.yes || flags.dryRun:
			case plan.Something():
				flags.dryRun, unasked = a.askToReap(plan, settings)
				refused = flags.dryRun && isTerminal(a.Stdout)
			default:
				flags.dryRun = true
			}
			return !flags.dryRun, unasked
		})
		if plan == nil || unasked != nil {
			return err
		}
		if refused && settings.Output == "table" { // they were shown with the question
			fmt.Fprintln(a.Stderr, "nothing was deleted")
			return err
		}
		document := reaped(plan, flags.dryRun)
		document.ways = a.waysOut(plan, settings)
		return errors.Join(err, a.printReaped(document, settings, flags.covered(name)))
	})
}

// again are the flags with which what is left is reaped.
func (f reapFlags) again(settings config.Settings) string {
	text := " --yes"
	if settings.Sim {
		text = " --sim" + text
	}
	if *f.olderThan > 0 {
		text += " --older-than " + progress.FormatLimit(*f.olderThan)
	}
	return text
}

// covered is what reap has looked for, for people.
func (f reapFlags) covered(name string) string {
	switch {
	case name != "":
		return "of cluster " + name
	case f.prefix != "":
		return "of clusters whose names begin with " + f.prefix
	}
	return "of hive-test"
}

func (f reapFlags) check() error {
	switch {
	case f.dryRun && f.yes:
		return errors.New("--dry-run deletes nothing, and --yes deletes without asking: give one of them")
	case *f.olderThan < 0:
		return fmt.Errorf("--older-than %s is negative", *f.olderThan)
	}
	return nil
}

// checkPrefix refuses what no name begins with: it would find nothing for ever. An empty one would find everything.
func checkPrefix(prefix string) error {
	if prefix == "" {
		return errors.New("--prefix is empty: leave it out for all clusters")
	}
	_, whole := cluster.ParseName(prefix)
	_, longer := cluster.ParseName(prefix + "0")
	if whole != nil && longer != nil {
		return fmt.Errorf("--prefix %s: no cluster has a name that begins so: %w", prefix, longer)
	}
	return nil
}

// mostWays is how many clusters are told each how it ends.
const mostWays = 3

// waysOut are the commands by which clusters end that reap leaves for ever, and whose directory is not here.
func (a *app) waysOut(plan *deploy.ReapPlan, settings config.Settings) []string {
	flag, elsewhere := "", " --clusters-dir DIR, which is empty"
	if settings.Sim {
		flag, elsewhere = " --sim", " --sim, when the other one of that name is gone"
	}
	var ways []string
	for _, d := range plan.Decisions {
		if !d.Stranded() {
			continue
		}
		how := flag
		if d.Namesake {
			how = elsewhere
		}
		if d.Guarded {
			how = " --i-know " + string(d.Cluster) + how
		}
		way := a.inPlace(fmt.Sprintf(
			"if the directory of %s is lost: hive-test down %s --owner %s%s", d.Cluster, d.Cluster, d.Owner, how,
		))
		if !slices.Contains(ways, way) {
			ways = append(ways, way)
		}
	}
	if len(ways) > mostWays {
		return []string{a.inPlace(fmt.Sprintf(
			"if the directory of one is lost: hive-test down NAME --owner OWNER%s, as -o wide has it", flag,
		))}
	}
	return ways
}

// askToReap shows what would be deleted and asks whether it shall be. Where nobody can answer, nothing is deleted.
func (a *app) askToReap(plan *deploy.ReapPlan, settings config.Settings) (dryRun bool, err error) {
	if !a.onTerminal() {
		fmt.Fprintln(a.Stderr, "not a terminal: pass --yes to delete")
		return true, nil
	}
	if err := reaped(plan, true).print(a.page(a.Stderr, settings), "of hive-test"); err != nil {
		return true, err
	}
	agreed, err := a.agrees("delete them?")
	return !agreed, err
}

// reaped is a plan as `reap` prints it.
func reaped(plan *deploy.ReapPlan, dryRun bool) reapJSON {
	d := reapJSON{Schema: outputSchema, DryRun: dryRun, VMs: []reapedVM{}, Traces: []reapedTrace{}}
	for _, v := range plan.Decisions {
		row := reapedVM{
			VMID: v.VMID, Name: v.Name, Hypervisor: v.Hypervisor, Cluster: string(v.Cluster), Owner: v.Owner, OwnerID: v.Owner,
			Expires: engine.Expiry(cluster.Owner{Expires: v.Expires}), Reason: v.Reason, Detail: v.Detail,
			Action: v.Action,
		}
		if err := plan.Errs[v.Owner]; err != nil && v.Action == deploy.ReapFailed {
			row.Error = err.Error()
		}
		d.VMs = append(d.VMs, row)
	}
	for _, t := range plan.Traces {
		row := reapedTrace{
			Pool: t.Pool, Cluster: string(t.Cluster), Owner: t.Owner, OwnerID: t.Owner, Detail: t.Detail,
			Action: t.Action,
		}
		if t.Err != nil {
			row.Error = t.Err.Error()
		}
		d.Traces = append(d.Traces, row)
	}
	return d
}

func (a *app) printReaped(d reapJSON, settings config.Settings, covered string) error {
	if structured, err := printAs(a.Stdout, settings.Output, d); structured {
		return err
	}
	paper := a.page(a.Stdout, settings)
	if settings.Output == "wide" {
		return d.write(paper.complete(), covered, true)
	}
	return d.print(paper, covered)
}

// reapColumns are those of what reap has found, OWNER where it is asked for. On a narrow terminal HYPERVISOR goes
// first, then CLUSTER.
func reapColumns(owner bool) []column {
	columns := []column{
		{name: "VMID", right: true},
		{name: "NAME", least: 16},
		{name: "HYPERVISOR", drop: 1},
		{name: "CLUSTER", least: 16, drop: 2},
		{name: "ACTION", color: reapColor},
		{name: "REASON", least: 36},
	}
	if owner {
		columns = slices.Insert(columns, ownerColumn, column{name: "OWNER", least: ownerLeast})
	}
	return columns
}

// ownerColumn is the place of OWNER, and ownerLeast as much of an id as tells clusters apart that were not made in the
// same moment.
const (
	ownerColumn = 4
	ownerLeast  = 14
)

// namesakes reports whether clusters of different owners have the same name.
func (d reapJSON) namesakes() bool {
	owners := map[string]string{}
	for _, vm := range d.VMs {
		if other, seen := owners[vm.Cluster]; seen && other != vm.Owner {
			return true
		}
		owners[vm.Cluster] = vm.Owner
	}
	return false
}

func reapColor(action string) progress.Color {
	switch deploy.ReapAction(action) {
	case deploy.ReapDeleted:
		return progress.Green
	case deploy.ReapFailed:
		return progress.Red
	case deploy.ReapDelete:
		return progress.Yellow
	}
	return ""
}

// print writes the table for people, with the owners' ids where the clusters' names do not tell them apart.
func (d reapJSON) print(p page, covered string) error { return d.write(p, covered, d.namesakes()) }

func (d reapJSON) write(p page, covered string, owner bool) error {
	var rows [][]string
	counts := map[deploy.ReapAction]int{}
	for _, vm := range d.VMs {
		counts[vm.Action]++
		why := vm.Detail
		if vm.Action != deploy.ReapKeep {
			why = vm.Reason + ": " + why
		}
		rows = append(rows, []string{
			strconv.Itoa(vm.VMID), dash(vm.Name), vm.Hypervisor, vm.Cluster, string(vm.Action), why,
		})
	}
	for _, t := range d.Traces {
		rows = append(rows, []string{"-", "-", "-", dash(t.Cluster), string(t.Action), "left: " + t.Detail})
	}
	if owner {
		for i := range rows {
			rows[i] = slices.Insert(rows[i], ownerColumn, dash(d.ownerOf(i)))
		}
	}
	if len(rows) == 0 {
		return p.line("no VMs "+covered+" found", "  ")
	}
	if err := p.table(reapColumns(owner), rows); err != nil {
		return err
	}
	verdict := fmt.Sprintf(
		"%s deleted, %d failed", progress.Count(counts[deploy.ReapDeleted], "VM"), counts[deploy.ReapFailed],
	)
	if d.DryRun {
		verdict = progress.Count(counts[deploy.ReapDelete], "VM") + " would be deleted"
	}
	lines := append(
		[]string{fmt.Sprintf("%s, %d left alone", verdict, counts[deploy.ReapSkip]+counts[deploy.ReapKeep])}, d.ways...,
	)
	for _, line := range lines {
		if err := p.line(line, "  "); err != nil {
			return err
		}
	}
	return nil
}

// ownerOf returns the owner's id in a row of the table: those of VMs come first, then those of traces.
func (d reapJSON) ownerOf(row int) string {
	if row < len(d.VMs) {
		return d.VMs[row].Owner
	}
	return d.Traces[row-len(d.VMs)].Owner
}
