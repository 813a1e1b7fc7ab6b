package proxmox

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/proxmox/api"
	"hive-test/pkg/progress"
)

// Plan looks at everything once and decides.
func (p *Reaper) Plan(ctx context.Context, rule deploy.ReapRule) (*deploy.ReapPlan, error) {
	listed, err := p.Fleet.Client.VMs(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing the VMs: %w", err)
	}
	var snippets []snippet
	var beside sync.WaitGroup
	beside.Go(func() { snippets = p.snippets(ctx) })
	orphans, unread, err := p.orphans(ctx, listed, rule)
	beside.Wait()
	if err != nil {
		return nil, err
	}
	traces, err := api.ReadTraces(ctx, p.Fleet.Client)
	if err != nil {
		p.Sink.Emit(progress.Event{
			Kind:    progress.Warning,
			Message: "whether runs are at work cannot be seen, and only expiries count: " + err.Error(),
		})
	}
	rule.Now = p.Fleet.Client.Now()
	runs := p.runs(traces, orphans)
	p.remember(orphans, listed, traces)
	return &deploy.ReapPlan{
		Unread: len(unread), Decisions: deploy.Evaluate(orphans, runs, rule), Ended: deploy.Ended(orphans, runs, rule),
		Errs: map[string]error{},
		Traces: slices.Concat(
			p.deadRunLeases(traces, orphans, unread, rule), p.deadIDLeases(traces, unread, rule),
			p.lostSnippets(snippets, listed, traces, rule),
		),
	}, nil
}

// deadRunLeases are run leases that nobody stands behind any more and that tell nothing of VMs that are there.
func (p *Reaper) deadRunLeases(
	traces api.Traces, orphans []deploy.Orphan, unread []api.VM, rule deploy.ReapRule,
) []deploy.Trace {
	var dead []deploy.Trace
	for _, m := range traces.RunLeases {
		l := statusOf(m)
		telling := l.Unfinished() && slices.ContainsFunc(
			orphans, func(s deploy.Orphan) bool { return s.Owner == l.Owner },
		)
		if telling || mayBeOf(unread, l.Cluster) || l.Alive(rule.Now) || !rule.Covers(l.Cluster) {
			continue
		}
		dead = append(dead, deploy.Trace{
			Pool: m.Pool(), Cluster: l.Cluster, Owner: l.Owner, Detail: l.What + " died", Action: deploy.ReapDelete,
			Drop: func(ctx context.Context) error { return api.DropRunLease(ctx, p.Fleet.Client, l.Owner) },
		})
	}
	return dead
}

// deadIDLeases are leases that have expired, or whose run is known to be dead.
func (p *Reaper) deadIDLeases(traces api.Traces, unread []api.VM, rule deploy.ReapRule) []deploy.Trace {
	var dead []deploy.Trace
	for _, c := range traces.IDLeases {
		over := c.Expired(rule.Now) || died(c.OwnerID, traces, rule.Now)
		if !rule.Covers(c.Cluster) || mayBeOf(unread, c.Cluster) || !over {
			continue
		}
		dead = append(dead, deploy.Trace{
			Pool: c.Pool, Cluster: c.Cluster, Owner: c.OwnerID, Action: deploy.ReapDelete,
			Detail: fmt.Sprintf(
				"a claim on VM ids %d-%d until %s", c.First, c.Last, c.Until.UTC().Format(time.RFC3339),
			),
			Drop: func(ctx context.Context) error { return api.DropIDLease(ctx, p.Fleet.Client, c) },
		})
	}
	return dead
}

// mayBeOf reports whether one of the VMs may be of the cluster.
func mayBeOf(vms []api.VM, name cluster.Name) bool {
	return slices.ContainsFunc(vms, func(vm api.VM) bool { return vm.HasTag(string(name)) })
}

// died reports whether an owner's run is known to be dead by its run lease. An owner without one may be at work: it may
// not have been made.
func died(owner string, traces api.Traces, now time.Time) bool {
	i := slices.IndexFunc(traces.RunLeases, func(m api.RunLease) bool { return m.OwnerID == owner })
	return i >= 0 && !statusOf(traces.RunLeases[i]).Alive(now)
}
