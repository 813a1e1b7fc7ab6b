package proxmox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/proxmox/api"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/progress"
)

// ReapPlan is what was found of all clusters, and what is to become of it.
type ReapPlan struct {
	Verdicts []lifecycle.Decision
	Traces   []Trace
	// Unread are VMs that may be of these clusters and could not be read: what is told of their clusters stays.
	Unread []api.VM
	// Errs are why clusters could not be reaped, by owner id.
	Errs map[string]error

	ended []lifecycle.RunStatus // runs that died unfinished and of which no VM is seen
}

// Trace is a mark, a claim or a snippet of a run that died, of a cluster that has no VM to delete.
type Trace struct {
	Pool    string
	Cluster cluster.Name
	Owner   string
	Detail  string
	Action  lifecycle.ReapAction
	Err     error // why it is still there

	drop func(ctx context.Context) error
}

// Plan looks at everything once and decides.
func (p *Reaper) Plan(ctx context.Context, rule lifecycle.ReapRule) (*ReapPlan, error) {
	listed, err := p.Fleet.Client.VMs(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing the VMs: %w", err)
	}
	var snippets []snippet
	var beside sync.WaitGroup
	beside.Go(func() { snippets = p.snippets(ctx) })
	strays, unread, err := p.orphans(ctx, listed, rule)
	beside.Wait()
	if err != nil {
		return nil, err
	}
	traces, err := api.ReadTraces(ctx, p.Fleet.Client)
	if err != nil {
		p.Sink.Emit(progress.Event{Kind: progress.Warning, Message: "whether runs are at work cannot be seen, and only expiries count: " + err.Error()})
	}
	rule.Now = p.Fleet.Client.Now()
	lives := p.runs(traces, strays)
	p.remember(strays, listed, traces)
	return &ReapPlan{
		Unread: unread, Verdicts: lifecycle.Evaluate(strays, lives, rule), ended: lifecycle.Ended(strays, lives, rule), Errs: map[string]error{},
		Traces: slices.Concat(p.deadMarks(traces, strays, unread, rule), p.deadClaims(traces, unread, rule), p.lostSnippets(snippets, listed, traces, rule)),
	}, nil
}

// deadMarks are marks that nobody stands behind any more and that tell nothing of VMs that are there.
func (p *Reaper) deadMarks(traces api.Traces, strays []lifecycle.Orphan, unread []api.VM, rule lifecycle.ReapRule) []Trace {
	var dead []Trace
	for _, m := range traces.Marks {
		l := lifeOf(m)
		telling := l.Unfinished() && slices.ContainsFunc(strays, func(s lifecycle.Orphan) bool { return s.Owner == l.Owner })
		if telling || mayBeOf(unread, l.Cluster) || l.Alive(rule.Now) || !rule.Covers(l.Cluster) {
			continue
		}
		dead = append(dead, Trace{
			Pool: m.Pool(), Cluster: l.Cluster, Owner: l.Owner, Detail: l.What + " died", Action: lifecycle.ReapDelete,
			drop: func(ctx context.Context) error { return api.DropRunLease(ctx, p.Fleet.Client, l.Owner) },
		})
	}
	return dead
}

// deadClaims are claims that have lapsed, or whose run is known to be dead.
func (p *Reaper) deadClaims(traces api.Traces, unread []api.VM, rule lifecycle.ReapRule) []Trace {
	var dead []Trace
	for _, c := range traces.Claims {
		lapsed := !c.Until.IsZero() && rule.Now.After(c.Until)
		if !rule.Covers(c.Cluster) || mayBeOf(unread, c.Cluster) || !lapsed && !died(c.OwnerID, traces, rule.Now) {
			continue
		}
		dead = append(dead, Trace{
			Pool: c.Pool, Cluster: c.Cluster, Owner: c.OwnerID, Action: lifecycle.ReapDelete,
			Detail: fmt.Sprintf("a claim on VM ids %d-%d until %s", c.First, c.Last, c.Until.UTC().Format(time.RFC3339)),
			drop:   func(ctx context.Context) error { return api.DropClaim(ctx, p.Fleet.Client, c) },
		})
	}
	return dead
}

// mayBeOf reports whether one of the VMs may be of the cluster.
func mayBeOf(vms []api.VM, name cluster.Name) bool {
	return slices.ContainsFunc(vms, func(vm api.VM) bool { return vm.HasTag(string(name)) })
}

// died tells whether an owner's run is known to be dead by its mark. An owner without a mark may be at work: its mark
// may not have been made.
func died(owner string, traces api.Traces, now time.Time) bool {
	i := slices.IndexFunc(traces.Marks, func(m api.RunLease) bool { return m.OwnerID == owner })
	return i >= 0 && !lifeOf(traces.Marks[i]).Alive(now)
}

// Something tells whether there is anything to delete.
func (plan *ReapPlan) Something() bool {
	return len(plan.Traces) > 0 || slices.ContainsFunc(plan.Verdicts, func(v lifecycle.Decision) bool { return v.Action == lifecycle.ReapDelete })
}

// Targets are the clusters to destroy, as records that name owner and VMs, and whether a run of each died unfinished.
func (plan *ReapPlan) Targets(pool string) (records []*cluster.Record, unfinished []bool) {
	at := func(name cluster.Name, owner string) int {
		i := slices.IndexFunc(records, func(r *cluster.Record) bool { return r.Owner.ID == owner && r.Name == name })
		if i < 0 {
			records = append(records, &cluster.Record{Name: name, Owner: cluster.Owner{ID: owner}, Target: cluster.Target{Pool: pool}})
			unfinished = append(unfinished, false)
			i = len(records) - 1
		}
		return i
	}
	for _, v := range plan.Verdicts {
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

// Note puts down what became of a cluster's VMs, those included that appeared while others were deleted.
func (plan *ReapPlan) Note(r *cluster.Record, met []deploy.VMRef, err error) {
	plan.Errs[r.Owner.ID] = err // of one that is at work, too: what it has left is still needed
	for _, vm := range met {
		if !slices.ContainsFunc(plan.Verdicts, func(v lifecycle.Decision) bool { return v.VMID == vm.VMID }) {
			plan.Verdicts = append(plan.Verdicts, lifecycle.Decision{
				Orphan: lifecycle.Orphan{VMRef: vm, Cluster: r.Name, Owner: r.Owner.ID}, Action: lifecycle.ReapDelete,
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
	for i := range plan.Verdicts {
		v := &plan.Verdicts[i]
		if v.Owner != r.Owner.ID || v.Cluster != r.Name || v.Action != lifecycle.ReapDelete {
			continue
		}
		if live, ok := errors.AsType[*lifecycle.LiveError](err); ok {
			v.Action, v.Reason, v.Detail = lifecycle.ReapSkip, "live", live.What+" has begun meanwhile"
			continue
		}
		v.Action = lifecycle.ReapDeleted
		if err != nil && (!isLeak || !leak.Known || left[v.VMID]) {
			v.Action = lifecycle.ReapFailed
		}
	}
}

// DropTraces takes away marks and claims of runs that died, but for those of clusters that could not be reaped: what
// they tell is still needed.
func (plan *ReapPlan) DropTraces(ctx context.Context) error {
	var failures []error
	for i := range plan.Traces {
		t := &plan.Traces[i]
		if t.Err = plan.Errs[t.Owner]; t.Err == nil {
			t.Err = t.drop(ctx)
			failures = append(failures, t.Err)
		}
		t.Action = lifecycle.ReapDeleted
		if t.Err != nil {
			t.Action = lifecycle.ReapFailed
		}
	}
	return errors.Join(failures...)
}
