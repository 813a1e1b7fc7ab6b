package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/process"
	"hive-test/pkg/progress"
	"hive-test/pkg/state"
	"hive-test/pkg/target"

	"golang.org/x/sync/errgroup"
)

// ReapRequest is what Reap is asked for.
type ReapRequest struct {
	Request                 // Name: only that cluster; empty: all
	Prefix    string        // only clusters whose name begins so
	OlderThan time.Duration // delete also clusters that were made longer ago; 0: by their time alone
	Look      bool          // nothing will be deleted, whatever is decided
	Again     string        // the flags with which what is left is reaped, as hints have it
}

// Reap finds the VMs that nobody will destroy, from Proxmox VE alone, and hands the plan to decide: where that says so,
// what the plan says is destroyed, and the plan tells what became of it.
func (e *Engine) Reap(
	ctx context.Context, request ReapRequest, decide func(*deploy.ReapPlan) (destroy bool, err error),
) (*deploy.ReapPlan, error) {
	if !request.Look {
		name := cmp.Or(request.Name, request.Settings.Environment, everything)
		if err := protection("reap", name, request.Settings, nil); err != nil {
			return nil, progress.WithHint(err, "--dry-run shows what it would delete")
		}
	}
	s, err := e.open(ctx, "reap", request.named("reap"))
	if err != nil {
		return nil, err
	}
	defer s.close()
	ctx, cancel := s.limited(ctx)
	defer cancel()
	self := process.Self()
	p, err := s.Reaping(
		ctx,
		deploy.Run{Verb: s.verb, Who: newOwner(s.started).Who(), Place: self.Place, PID: self.PID, Start: self.Start},
		s.localStatus,
	)
	if err != nil {
		return nil, s.cutShort(ctx, err)
	}
	plan, err := p.Plan(ctx, deploy.ReapRule{
		Name: cluster.Name(request.Name), Prefix: request.Prefix, OlderThan: request.OlderThan,
	})
	if err != nil {
		return nil, err
	}
	for i, d := range plan.Decisions {
		record, err := s.Store.Load(d.Cluster)
		here := err == nil && record.Owner.ID == d.Owner
		plan.Decisions[i].Here, plan.Decisions[i].Namesake = here, err == nil && !here
	}
	destroy, err := decide(plan)
	if destroy && err == nil {
		err = s.carryOut(ctx, p, plan, request.Again)
	}
	return plan, err
}

// reapedAtOnce is how many clusters are destroyed at a time.
const reapedAtOnce = 4

// carryOut destroys what the plan says, each cluster for itself, and notes what became of it.
func (s *session) carryOut(ctx context.Context, p *target.Reaping, plan *deploy.ReapPlan, again string) error {
	records, unfinished := p.Targets(plan)
	failures := make([]error, len(records))
	met := make([][]deploy.VMRef, len(records))
	var group errgroup.Group
	group.SetLimit(reapedAtOnce)
	for i, r := range records {
		group.Go(func() error {
			met[i], failures[i] = s.reapOne(ctx, p, r, unfinished[i], again)
			return nil
		})
	}
	_ = group.Wait()
	for i, r := range records {
		plan.Note(r, met[i], failures[i])
		// it was told, and is nothing that went wrong
		if _, live := errors.AsType[*deploy.LiveError](failures[i]); live {
			failures[i] = nil
		}
	}
	if plan.Unread > 0 {
		failures = append(failures, progress.WithHint(fmt.Errorf(
			"%s could not be judged, and what is known of their clusters stays", progress.Count(plan.Unread, "VM"),
		),
			"when their hypervisors answer: hive-test reap"+again))
	}
	failures = append(failures, plan.DropTraces(ctx))
	if err := errors.Join(failures...); err != nil {
		return Error{ExitDown, err}
	}
	return nil
}

func (s *session) reapOne(
	ctx context.Context, p *target.Reaping, r *cluster.Record, unfinished bool, again string,
) ([]deploy.VMRef, error) {
	sink := progress.With(s.Sink, progress.Event{Cluster: string(r.Name)})
	ctx, cancel := within(ctx, s.Settings.Timeouts.Down, "--timeout-down")
	defer cancel()
	deployer, own := p.ForCluster()
	what := "destroying " + progress.Count(len(r.Nodes), "VM")
	if len(r.Nodes) == 0 {
		what = "looking for what its run had begun to make"
	}
	progress.Infof(sink, "cluster %s: %s", r.Name, what)
	target.EndOrphans(ctx, r.Owner.ID, sink) // one may still be making what is deleted here
	met, err := lifecycle.ReapCluster(ctx, deployer, own, r, unfinished, sink)
	if live, ok := errors.AsType[*deploy.LiveError](err); ok {
		progress.Warn(sink, live.Error(), "")
		return met, err
	}
	if err != nil {
		return met, reapFailure(r.Name, err, again)
	}
	if record, loadErr := s.Store.Load(r.Name); loadErr == nil && record.Owner.ID == r.Owner.ID {
		progress.Infof(sink, "the directory of cluster %s stays: `%s` removes it", r.Name, finishWith(s.Store, r.Name))
	}
	return met, nil
}

// reapFailure says how to go on: the cluster's directory, from which down would, may be on another machine.
func reapFailure(name cluster.Name, err error, flags string) error {
	again := "hive-test reap " + name.String() + flags
	if leak, ok := errors.AsType[*deploy.LeakError](err); ok {
		leak.Next = again
		again = ""
	}
	return progress.WithHint(fmt.Errorf("cluster %s: %w", name, err), again)
}

// localStatus is what the clusters directory of this machine knows of a cluster's run: who holds the cluster, or that up
// was cut off.
func (s *session) localStatus(name cluster.Name, owner string) (deploy.RunStatus, bool) {
	record, err := s.Store.Load(name)
	if err != nil || record.Owner.ID != owner {
		return deploy.RunStatus{}, false
	}
	holder, life := s.Store.Holder(name)
	l := deploy.RunStatus{Cluster: name, Owner: owner}
	switch {
	case life == state.Alive:
		l.What = fmt.Sprintf("`%s` (pid %d)", holder.Command, holder.PID)
		return l, true
	case life != state.Elsewhere && !wasUp(record) && record.Phases[cluster.PhaseUp].Status == cluster.PhaseRunning:
		l.What, l.Dead, l.Provisioning = "up of cluster "+string(name), true, true
		return l, true
	}
	return l, false
}
