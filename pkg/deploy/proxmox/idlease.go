package proxmox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/deploy/proxmox/api"
	"hive-test/pkg/progress"
)

// idLeases returns the cluster's leases of VM ids; nothing is leased at first.
func (f *Fleet) idLeases(r *cluster.Record) (*api.IDLeases, error) {
	if f.leases != nil {
		return f.leases, nil
	}
	leases, err := api.NewIDLeases(api.IDLeaseOptions{
		Pools: f.Client, Endpoint: f.Client.Endpoint(), LockDir: f.LockDir, Cluster: r.Name, OwnerID: r.Owner.ID,
		Who: r.Owner.Who(), For: f.ClaimLasts, Now: f.Client.Now,
	})
	if err != nil {
		return nil,
			&deploy.PreflightError{Findings: []deploy.Finding{{
				ID: "locks", Status: deploy.Fail, Title: "locks on VM ids", Detail: err.Error(),
				Fix: "set lock_dir to a directory that can be written",
			}}}
	}
	f.leases = leases
	return leases, nil
}

// Acquire keeps other runs away from the ids of nodes whose VMs do not exist yet, and chooses others for those nodes
// that the cluster did not have before, where their ids were lost since they were chosen.
func (f *Fleet) Acquire(ctx context.Context, r, before *cluster.Record, sink progress.Sink) error {
	listed, err := f.Client.VMs(ctx)
	if err != nil {
		return fmt.Errorf("listing the VMs: %w", err)
	}
	var old, fresh, kept cluster.Nodes
	for _, node := range r.Staying() {
		switch {
		case before == nil || !slices.ContainsFunc(
			before.Nodes, func(n cluster.Node) bool { return n.Name == node.Name },
		):
			fresh = append(fresh, node)
		case !slices.ContainsFunc(listed, func(vm api.VM) bool { return vm.VMID == placement.Of(node).VMID }):
			old, kept = append(old, node), append(kept, node)
		default: // whose VM it is, is looked at when all ids are leased
			kept = append(kept, node)
		}
	}
	if len(old)+len(fresh) == 0 {
		return f.awaitLease(ctx)
	}
	if err := f.unlisted(ctx, r, old); err != nil {
		return err
	}
	leases, err := f.idLeases(r)
	if err != nil {
		return err
	}
	if len(old) > 0 {
		if _, err := api.AcquireIDs(ctx, f.Client, leases, api.AcquireRequest{Nodes: old, Sink: sink}); err != nil {
			return err
		}
	}
	if len(fresh) > 0 {
		request := api.AcquireRequest{Nodes: fresh, Fresh: true, Choice: f.choice(r, kept), Sink: sink}
		chosen, err := api.AcquireIDs(ctx, f.Client, leases, request)
		if err != nil {
			return err
		}
		renumber(r, chosen, sink)
	}
	if leases.Unshared != nil {
		sink.Emit(progress.Event{
			Kind: progress.Warning,
			Message: fmt.Sprintf("VM ids are claimed on this machine only, runs on others are not kept away from them, "+
				"and reap cannot see whether this run lives: %v", leases.Unshared),
			Hint: poolsHint(f.Client.TokenID()),
		})
	}
	return f.awaitLease(ctx)
}

// unlisted is an error if VMs of these nodes exist although the listing does not show them. The provider goes by the
// listing: it would make them again.
func (f *Fleet) unlisted(ctx context.Context, r *cluster.Record, nodes cluster.Nodes) error {
	some := *r
	some.Nodes = nodes
	var hidden []string
	for i, state := range f.states(ctx, &some) {
		if state.ours {
			hidden = append(hidden, fmt.Sprintf("%s (VM %d)", nodes[i].Name, placement.Of(nodes[i]).VMID))
		}
	}
	if len(hidden) == 0 {
		return nil
	}
	return progress.WithHint(fmt.Errorf(
		"VMs of the cluster are there that Proxmox VE does not list: %s", strings.Join(hidden, ", "),
	),
		"repeat the command; if it stays so, the API token lacks VM.Audit on /vms: `hive-test doctor "+string(r.Name)+"` tells, and prints the command that grants it")
}

// renumber takes over ids that were chosen anew.
func renumber(r *cluster.Record, chosen cluster.Nodes, sink progress.Sink) {
	for _, node := range chosen {
		id := placement.Of(node).VMID
		for i := range r.Nodes {
			if was := placement.Of(r.Nodes[i]).VMID; r.Nodes[i].Name == node.Name && was != id {
				sink.Emit(progress.Event{
					Kind: progress.Info, Node: node.Name,
					Message: fmt.Sprintf("VM id %d was lost to another run: it gets %d", was, id),
				})
				placement.Change(&r.Nodes[i], func(v *placement.VM) { v.VMID = id })
			}
		}
	}
}

// EnsureFree makes sure, right before they are used, that the ids of nodes are free. A VM there that is ours was left
// half made by a try that was cut off, and goes, unless the node was complete once.
func (f *Fleet) EnsureFree(ctx context.Context, r *cluster.Record, nodes []string, sink progress.Sink) error {
	failures := make([]error, len(r.Nodes))
	f.forEach(len(r.Nodes), func(i int) {
		if slices.Contains(nodes, r.Nodes[i].Name) {
			failures[i] = f.free(ctx, r, r.Nodes[i], sink)
		}
	})
	return errors.Join(failures...)
}

func (f *Fleet) free(ctx context.Context, r *cluster.Record, node cluster.Node, sink progress.Sink) error {
	at := placement.Of(node)
	free, err := f.Client.CheckID(ctx, at.VMID)
	if err != nil || free {
		return err
	}
	remaining, err := f.Remaining(ctx, r)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(remaining, func(vm deploy.VMRef) bool { return vm.VMID == at.VMID })
	switch {
	case i < 0:
		return &api.TakenError{IDs: []int{at.VMID}}
	case node.Management.IsValid():
		err := fmt.Errorf("%s: VM %d is the cluster's and complete, but tofu's state does not know it: "+
			"put terraform.tfstate back, or begin anew with `hive-test down %s`", node.Name, at.VMID, r.Name)
		return progress.WithNodes(err, node.Name)
	}
	sink.Emit(progress.Event{
		Kind: progress.Info, Node: node.Name,
		Message: fmt.Sprintf("VM %d was left half made: deleting it first", at.VMID),
	})
	return f.destroyOne(ctx, r, remaining[i])
}

// Release gives the leases of VM ids of this run up. That it fails is no failure of the run: leases end by themselves.
func (f *Fleet) Release(ctx context.Context, _ *cluster.Record, sink progress.Sink) {
	if f.leases != nil {
		f.released(sink, f.leases.Release(ctx))
	}
}

// ReleaseAll gives up all leases of the cluster, also those of earlier runs.
func (f *Fleet) ReleaseAll(ctx context.Context, r *cluster.Record, sink progress.Sink) {
	var err error
	if f.leases != nil {
		err = f.leases.Release(ctx)
	}
	f.released(sink, errors.Join(err, api.ReleaseOwned(ctx, f.Client, r.Owner.ID)))
}

// released notes how giving leases up went: by the run lease, which stays then, reap knows that nobody stands behind
// one that is left.
func (f *Fleet) released(sink progress.Sink, err error) {
	f.unreleased = err != nil
	if err != nil {
		sink.Emit(progress.Event{
			Kind:    progress.Warning,
			Message: "a claim on VM ids could not be given up and ends by itself: " + err.Error(),
		})
	}
}

// forEach does something for each of n, as many at a time as is set.
func (f *Fleet) forEach(n int, do func(i int)) { forEach(n, f.Parallelism, do) }

// forEach does something for each of n, that many at a time; 0 is all at once.
func forEach(n, atOnce int, do func(i int)) {
	var group errgroup.Group
	if atOnce > 0 {
		group.SetLimit(atOnce)
	}
	for i := range n {
		group.Go(func() error { do(i); return nil })
	}
	_ = group.Wait()
}
