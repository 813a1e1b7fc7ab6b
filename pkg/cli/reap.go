package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"golang.org/x/term"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/progress"
	"hive-test/pkg/provision/tofu"
	"hive-test/pkg/proxmox"
)

const reapLong = `reap finds, from Proxmox VE alone and from any machine with the credentials, the VMs that nobody will destroy: those whose
time is up (--ttl), those whose run died though it meant to destroy them, and those of an up that never ended. It shows them,
asks on a terminal, and needs --yes elsewhere: without it nothing is deleted. VMs of a run at work, and those that are held, are
left alone, and why is said. A cluster is known by the owner id that its VMs carry, never by names; NAME and --prefix choose
clusters by their whole name, so that ci-1 is not ci-10. What is deleted is proved gone, disks and snippets included, and marks
and claims of runs that died go, too. Times are those of Proxmox VE's clock.

Exit code 7 says that something that should be gone is still there.`

func reapKeys() []string {
	return []string{
		"sim", "sim_hosts", "proxmox.endpoint", "proxmox.token_file", "proxmox.ca_file", "proxmox.fingerprint", "proxmox.insecure", "proxmox.pool",
		"timeouts.down", "parallelism", "lock_dir",
	}
}

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
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError{fmt.Errorf("%s takes the name of one cluster at most", cmd.CommandPath())}
			}
			return nil
		},
	}
	load := a.settings(cmd, reapKeys()...)
	var flags reapFlags
	cmd.Flags().BoolVar(&flags.dryRun, "dry-run", false, "delete nothing: the default without a terminal")
	cmd.Flags().BoolVar(&flags.yes, "yes", false, "delete without asking")
	cmd.Flags().StringVar(&flags.prefix, "prefix", "", "only clusters whose name begins so")
	flags.olderThan = config.DurationFlag(cmd.Flags(), "older-than", "delete also clusters that were made longer ago, like 2d, but for those that are held or at work")
	cmd.RunE = run(func(ctx context.Context, _ *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
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
	// Traces are marks and claims of runs that died, of clusters that have no VM to delete.
	Traces []reapedTrace `json:"traces"`
}

type reapedVM struct {
	VMID       int                  `json:"vmid"`
	Name       string               `json:"name"`
	Hypervisor string               `json:"hypervisor"`
	Cluster    string               `json:"cluster"`
	Owner      string               `json:"owner"`
	Expires    *time.Time           `json:"expires"`
	Reason     string               `json:"reason"`
	Detail     string               `json:"detail"`
	Action     lifecycle.ReapAction `json:"action"`
	Error      string               `json:"error,omitempty"`
}

type reapedTrace struct {
	Pool    string               `json:"pool"`
	Cluster string               `json:"cluster"`
	Owner   string               `json:"owner"`
	Detail  string               `json:"detail"`
	Action  lifecycle.ReapAction `json:"action"`
	Error   string               `json:"error,omitempty"`
}

// reap is one look at a Proxmox VE, and what follows from it.
func (a *app) reap(ctx context.Context, name string, settings config.Settings, flags reapFlags) error {
	if err := errors.Join(checkFormat(settings.Output, "table", "wide", "json", "yaml"), flags.check()); err != nil {
		return usageError{err}
	}
	s, err := a.open("reap", cmp.Or(name, "reap"), settings)
	if err != nil {
		return err
	}
	defer s.close()
	ctx, cancel := s.limited(ctx)
	defer cancel()
	p, err := s.reaping(ctx)
	if err != nil {
		return err
	}
	plan, err := p.plan(ctx, lifecycle.ReapRule{Name: cluster.Name(name), Prefix: flags.prefix, OlderThan: *flags.olderThan})
	if err != nil {
		return err
	}
	if !flags.yes && !flags.dryRun && plan.something() {
		flags.dryRun, err = a.askToReap(plan)
	}
	if err != nil {
		return err
	}
	if !flags.dryRun {
		err = s.carryOut(ctx, p, plan)
	}
	return errors.Join(err, a.printReaped(plan.document(flags.dryRun), settings.Output))
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

// reaping opens the way to Proxmox VE. Nothing else is needed: no record, no hypervisors, no OpenTofu.
func (s *session) reaping(ctx context.Context) (*reaping, error) {
	s.record = &cluster.Record{Name: s.name, Spec: cluster.Spec{Deployer: cluster.DeployerProxmox}}
	s.fillTarget()
	if s.settings.Sim {
		s.record.Target = cluster.Target{Simulated: true, Pool: s.settings.Proxmox.Pool}
		if err := s.connect(ctx); err != nil {
			return nil, err
		}
	} else if missing := s.missingAccess(); len(missing) > 0 {
		var problems []error
		for _, m := range missing {
			problems = append(problems, errors.New(m.Detail))
		}
		return nil, codeError{ExitConfig, progress.WithHint(errors.Join(problems...), "for the simulator of this clusters directory: add --sim")}
	}
	fleet, err := s.fleet()
	if err != nil {
		return nil, err
	}
	return &reaping{fleet: fleet.(*proxmoxFleet), store: s.store, sink: s.sink, pool: s.record.Target.Pool}, nil
}

// reapPlan is what reap has found and decided.
type reapPlan struct {
	verdicts []lifecycle.Verdict
	// ended are runs that died unfinished and of which no VM is seen.
	ended  []lifecycle.Life
	traces []reapedTrace
	claims []proxmox.Claim // of traces
	errs   map[string]error
}

// plan looks at everything once and decides.
func (p *reaping) plan(ctx context.Context, rule lifecycle.ReapRule) (*reapPlan, error) {
	strays, err := p.strays(ctx)
	if err != nil {
		return nil, unusable(err)
	}
	traces, err := proxmox.ReadTraces(ctx, p.fleet.client)
	if err != nil {
		p.sink.Emit(progress.Event{Kind: progress.Warning, Message: "whether runs are at work cannot be seen, and only expiries count: " + err.Error()})
	}
	rule.Now = p.fleet.client.Now()
	lives := p.lives(traces, strays)
	plan := &reapPlan{verdicts: lifecycle.Judge(strays, lives, rule), errs: map[string]error{}}
	plan.ended = lifecycle.Ended(strays, lives, rule)
	plan.leftTraces(traces, strays, rule)
	return plan, nil
}

// unusable turns what is wrong with the way to Proxmox VE into exit code 3.
func unusable(err error) error {
	for _, kind := range []error{proxmox.ErrUnauthorized, proxmox.ErrForbidden, proxmox.ErrTLS, proxmox.ErrUnreachable} {
		if errors.Is(err, kind) {
			return codeError{ExitConfig, err}
		}
	}
	return err
}

// leftTraces finds marks and claims that nobody stands behind any more and that tell nothing of VMs that are there.
func (plan *reapPlan) leftTraces(traces proxmox.Traces, strays []lifecycle.Stray, rule lifecycle.ReapRule) {
	for _, m := range traces.Marks {
		l := lifeOf(m)
		telling := l.Unfinished() && slices.ContainsFunc(strays, func(s lifecycle.Stray) bool { return s.Owner == l.Owner })
		if telling || l.Alive(rule.Now) || !rule.Covers(l.Cluster) {
			continue
		}
		plan.traces = append(plan.traces, reapedTrace{Pool: m.Pool(), Cluster: string(l.Cluster), Owner: l.Owner, Detail: l.What + " died", Action: lifecycle.ReapDelete})
	}
	for _, c := range traces.Claims {
		lapsed := !c.Until.IsZero() && rule.Now.After(c.Until)
		if (lapsed || died(c.OwnerID, traces, rule.Now)) && rule.Covers(c.Cluster) {
			plan.claims = append(plan.claims, c)
			plan.traces = append(plan.traces, reapedTrace{Pool: c.Pool, Cluster: string(c.Cluster), Owner: c.OwnerID, Action: lifecycle.ReapDelete,
				Detail: fmt.Sprintf("a claim on VM ids %d-%d until %s", c.First, c.Last, c.Until.UTC().Format(time.RFC3339))})
		}
	}
}

// died tells whether an owner's run is known to be dead by its mark. An owner without a mark may be at work: its mark may not
// have been made.
func died(owner string, traces proxmox.Traces, now time.Time) bool {
	i := slices.IndexFunc(traces.Marks, func(m proxmox.RunMark) bool { return m.OwnerID == owner })
	return i >= 0 && !lifeOf(traces.Marks[i]).Alive(now)
}

// something tells whether there is anything to delete.
func (plan *reapPlan) something() bool {
	return len(plan.traces) > 0 || slices.ContainsFunc(plan.verdicts, func(v lifecycle.Verdict) bool { return v.Action == lifecycle.ReapDelete })
}

// doomed are the clusters to destroy, as records that name owner and VMs, and whether a run of each died unfinished.
func (plan *reapPlan) doomed(pool string) (records []*cluster.Record, unfinished []bool) {
	at := func(name cluster.Name, owner string) int {
		i := slices.IndexFunc(records, func(r *cluster.Record) bool { return r.Owner.ID == owner && r.Name == name })
		if i < 0 {
			records = append(records, &cluster.Record{Name: name, Owner: cluster.Owner{ID: owner}, Target: cluster.Target{Pool: pool}})
			unfinished = append(unfinished, false)
			i = len(records) - 1
		}
		return i
	}
	for _, v := range plan.verdicts {
		if v.Action == lifecycle.ReapDelete {
			i := at(v.Cluster, v.Owner)
			records[i].Nodes = append(records[i].Nodes, cluster.Node{Name: v.Name, VMID: v.VMID, Hypervisor: v.Hypervisor})
			unfinished[i] = unfinished[i] || v.Reason == lifecycle.Orphaned
		}
	}
	for _, l := range plan.ended {
		unfinished[at(l.Cluster, l.Owner)] = true
	}
	return records, unfinished
}

// reapedAtOnce is how many clusters are destroyed at a time.
const reapedAtOnce = 4

// carryOut destroys what the plan says, each cluster for itself, and notes what became of it.
func (s *session) carryOut(ctx context.Context, p *reaping, plan *reapPlan) error {
	records, unfinished := plan.doomed(p.pool)
	failures := make([]error, len(records))
	met := make([][]lifecycle.VMRef, len(records))
	var group errgroup.Group
	group.SetLimit(reapedAtOnce)
	for i, r := range records {
		group.Go(func() error {
			met[i], failures[i] = s.reapOne(ctx, p, r, unfinished[i])
			return nil
		})
	}
	_ = group.Wait()
	for i, r := range records {
		plan.note(r, met[i], failures[i])
	}
	failures = append(failures, s.dropTraces(ctx, p, plan))
	if err := errors.Join(failures...); err != nil {
		return codeError{ExitDown, err}
	}
	return nil
}

func (s *session) reapOne(ctx context.Context, p *reaping, r *cluster.Record, unfinished bool) ([]lifecycle.VMRef, error) {
	sink := progress.With(s.sink, progress.Event{Cluster: string(r.Name)})
	ctx, cancel := within(ctx, s.settings.Timeouts.Down, "--timeout-down")
	defer cancel()
	fleet := *p.fleet // claims are one cluster's
	fleet.claims = nil
	own := *p
	own.fleet = &fleet
	what := fmt.Sprintf("destroying %d VMs", len(r.Nodes))
	if len(r.Nodes) == 0 {
		what = "looking for what its run had begun to make"
	}
	sink.Emit(progress.Event{Kind: progress.Info, Message: fmt.Sprintf("cluster %s: %s", r.Name, what)})
	tofu.EndOrphans(r.Owner.ID) // one may still be making what is deleted here
	met, err := lifecycle.ReapCluster(ctx, &fleet, &own, r, unfinished, sink)
	if live, ok := errors.AsType[*lifecycle.LiveError](err); ok {
		sink.Emit(progress.Event{Kind: progress.Warning, Message: live.Error()})
		return met, err
	}
	if err != nil {
		return met, progress.WithHint(fmt.Errorf("cluster %s: %w", r.Name, err), reapHint(r.Name, err))
	}
	if record, loadErr := s.store.Load(r.Name); loadErr == nil && record.Owner.ID == r.Owner.ID {
		sink.Emit(progress.Event{Kind: progress.Info, Message: fmt.Sprintf("the directory of cluster %s stays: `%s` removes it", r.Name, finishWith(s.store, r.Name))})
	}
	return met, nil
}

// reapHint says how to go on: the cluster's directory, from which down would, may be on another machine.
func reapHint(name cluster.Name, err error) string {
	again := fmt.Sprintf("hive-test reap %s --yes goes on", name)
	leak, ok := errors.AsType[*lifecycle.LeakError](err)
	if !ok {
		return again
	}
	if hint := progress.HintOf(leak.Cause); hint != "" {
		return hint + "\nthen: " + again
	}
	return again
}

// note puts down what became of a cluster's VMs, those included that appeared while others were deleted.
func (plan *reapPlan) note(r *cluster.Record, met []lifecycle.VMRef, err error) {
	plan.errs[r.Owner.ID] = err
	for _, vm := range met {
		if !slices.ContainsFunc(plan.verdicts, func(v lifecycle.Verdict) bool { return v.VMID == vm.VMID }) {
			plan.verdicts = append(plan.verdicts, lifecycle.Verdict{
				Stray: lifecycle.Stray{VMRef: vm, Cluster: r.Name, Owner: r.Owner.ID}, Action: lifecycle.ReapDelete,
				Reason: lifecycle.Orphaned, Detail: "appeared meanwhile",
			})
		}
	}
	left := map[int]bool{}
	leak, isLeak := errors.AsType[*lifecycle.LeakError](err)
	if isLeak && leak.Known {
		for _, vm := range leak.VMs {
			left[vm.VMID] = true
		}
	}
	for i := range plan.verdicts {
		v := &plan.verdicts[i]
		if v.Owner != r.Owner.ID || v.Cluster != r.Name || v.Action != lifecycle.ReapDelete {
			continue
		}
		v.Action = lifecycle.ReapDeleted
		if err != nil && (!isLeak || !leak.Known || left[v.VMID]) {
			v.Action = lifecycle.ReapFailed
		}
	}
}

// dropTraces takes away marks and claims of runs that died.
func (s *session) dropTraces(ctx context.Context, p *reaping, plan *reapPlan) error {
	var failures []error
	for i := range plan.traces {
		t := &plan.traces[i]
		err := plan.errs[t.Owner]
		c := slices.IndexFunc(plan.claims, func(c proxmox.Claim) bool { return c.Pool == t.Pool })
		switch {
		case err != nil: // what it has left is still needed, and was told
		case c >= 0:
			err = proxmox.DropClaim(ctx, p.fleet.client, plan.claims[c])
			failures = append(failures, err)
		default:
			err = proxmox.DropRunMark(ctx, p.fleet.client, t.Owner)
			failures = append(failures, err)
		}
		t.Action = lifecycle.ReapDeleted
		if err != nil {
			t.Action, t.Error = lifecycle.ReapFailed, err.Error()
		}
	}
	return errors.Join(failures...)
}

// askToReap shows what would be deleted and asks whether it shall be. Where nobody can answer, nothing is deleted.
func (a *app) askToReap(plan *reapPlan) (dryRun bool, err error) {
	file, isFile := a.Stdin.(*os.File)
	if !isFile || !term.IsTerminal(int(file.Fd())) {
		fmt.Fprintln(a.Stderr, "nothing is deleted without --yes where there is no terminal to ask on")
		return true, nil
	}
	if err := plan.document(true).print(a.Stderr); err != nil {
		return true, err
	}
	fmt.Fprint(a.Stderr, "delete them? [y/N] ")
	answer, err := bufio.NewReader(a.Stdin).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return true, err
	}
	word := strings.ToLower(strings.TrimSpace(answer))
	return word != "y" && word != "yes", nil
}

func (plan *reapPlan) document(dryRun bool) reapJSON {
	d := reapJSON{Schema: outputSchema, DryRun: dryRun, VMs: []reapedVM{}, Traces: append([]reapedTrace{}, plan.traces...)}
	for _, v := range plan.verdicts {
		row := reapedVM{
			VMID: v.VMID, Name: v.Name, Hypervisor: v.Hypervisor, Cluster: string(v.Cluster), Owner: v.Owner,
			Expires: expiryOf(cluster.Owner{Expires: v.Expires}), Reason: v.Reason, Detail: v.Detail, Action: v.Action,
		}
		if err := plan.errs[v.Owner]; err != nil && v.Action == lifecycle.ReapFailed {
			row.Error = err.Error()
		}
		d.VMs = append(d.VMs, row)
	}
	return d
}

func (a *app) printReaped(d reapJSON, format string) error {
	if structured, err := printAs(a.Stdout, format, d); structured {
		return err
	}
	return d.print(a.Stdout)
}

// print writes the table for people.
func (d reapJSON) print(w io.Writer) error {
	rows := [][]string{{"VMID", "NAME", "HYPERVISOR", "CLUSTER", "ACTION", "REASON"}}
	counts := map[lifecycle.ReapAction]int{}
	for _, vm := range d.VMs {
		counts[vm.Action]++
		rows = append(rows, []string{strconv.Itoa(vm.VMID), dash(vm.Name), vm.Hypervisor, vm.Cluster, string(vm.Action), vm.Reason + ": " + vm.Detail})
	}
	for _, t := range d.Traces {
		rows = append(rows, []string{"-", "-", "-", dash(t.Cluster), string(t.Action), "left: " + t.Detail})
	}
	if len(rows) == 1 {
		_, err := fmt.Fprintln(w, "there is nothing of hive-test here")
		return err
	}
	if err := tabbed(w, rows); err != nil {
		return err
	}
	verdict := fmt.Sprintf("%d VMs deleted, %d failed", counts[lifecycle.ReapDeleted], counts[lifecycle.ReapFailed])
	if d.DryRun {
		verdict = fmt.Sprintf("%d VMs would be deleted", counts[lifecycle.ReapDelete])
	}
	_, err := fmt.Fprintf(w, "%s, %d left alone\n", verdict, counts[lifecycle.ReapSkip]+counts[lifecycle.ReapKeep])
	return err
}
