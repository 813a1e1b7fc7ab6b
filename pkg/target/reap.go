package target

import (
	"context"
	"errors"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/proxmox"
	"hive-test/pkg/deploy/proxmox/api"
	"hive-test/pkg/opentofu"
	"hive-test/pkg/progress"
)

// Reaping finds the VMs on a Proxmox VE that nobody will destroy, and what it takes to destroy them.
type Reaping struct{ reaper *proxmox.Reaper }

// Reaping opens the way to Proxmox VE. Nothing else is needed: no record, no hypervisors, no OpenTofu. Self is this
// reap, and local what this machine knows of a cluster's run (see proxmox.Reaper).
func (t *Target) Reaping(
	ctx context.Context, self deploy.Run, local func(cluster.Name, string) (deploy.RunStatus, bool),
) (*Reaping, error) {
	f, err := t.withoutCluster(ctx)
	if err != nil {
		return nil, err
	}
	return &Reaping{&proxmox.Reaper{Fleet: f, Sink: t.Sink, Pool: t.place().Pool, Local: local, Self: self}}, nil
}

// Plan looks at everything once and decides by rule.
func (r *Reaping) Plan(ctx context.Context, rule deploy.ReapRule) (*deploy.ReapPlan, error) {
	plan, err := r.reaper.Plan(ctx, rule)
	for _, kind := range []error{api.ErrUnauthorized, api.ErrForbidden, api.ErrTLS, api.ErrUnreachable} {
		if errors.Is(err, kind) {
			return plan, configError(err)
		}
	}
	return plan, err
}

// AtWork reports whether a run is at work on a cluster, by its mark on Proxmox VE.
func (r *Reaping) AtWork(ctx context.Context, name cluster.Name, owner string) (bool, error) {
	err := r.reaper.Alive(ctx, &cluster.Record{Name: name, Owner: cluster.Owner{ID: owner}})
	if _, alive := errors.AsType[*deploy.LiveError](err); alive {
		return true, nil
	}
	return false, err
}

// Targets are the clusters that the plan destroys, as records, and whether a run of each died unfinished.
func (r *Reaping) Targets(plan *deploy.ReapPlan) (records []*cluster.Record, unfinished []bool) {
	return plan.Targets(r.reaper.Pool)
}

// ForCluster is what destroys one cluster; each has its own, so that several can be destroyed at once.
func (r *Reaping) ForCluster() (deploy.Capable, deploy.Reaper) {
	own := r.reaper.ForCluster()
	return deploy.Of(proxmox.Deployer{Fleet: own.Fleet}), own
}

// EndOrphans ends what runs that died have left at work on this machine for an owner: an OpenTofu may still be making
// what is to be deleted. It tells sink of each.
func EndOrphans(ctx context.Context, ownerID string, sink progress.Sink) {
	opentofu.EndOrphans(ctx, ownerID, sink)
}
