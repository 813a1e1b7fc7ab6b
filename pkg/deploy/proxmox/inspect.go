package proxmox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/deploy/proxmox/api"
)

// Inspect looks live at every VM that has an id of the record, wherever it is, and at every other one that is tagged as
// the cluster's.
func (f *Fleet) Inspect(ctx context.Context, r *cluster.Record) ([]deploy.Seen, error) {
	listed, err := f.Client.VMs(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing the VMs: %w", err)
	}
	candidates := candidatesOf(r, listed)
	seen := make([]deploy.Seen, len(candidates))
	var wait sync.WaitGroup
	for i, vm := range candidates {
		wait.Go(func() { seen[i] = f.inspect(ctx, r, vm) })
	}
	wait.Wait()
	var list []deploy.Seen
	for _, node := range r.Nodes {
		at := slices.IndexFunc(seen, func(s deploy.Seen) bool { return s.VMID == placement.Of(node).VMID })
		seen[at].Node = node.Name
		list = append(list, seen[at])
	}
	for _, s := range seen {
		if s.Node == "" && s.Owned {
			list = append(list, s)
		}
	}
	return list, ctx.Err()
}

// inspect looks at one VM.
func (f *Fleet) inspect(ctx context.Context, r *cluster.Record, listed api.VM) deploy.Seen {
	seen := deploy.Seen{VMID: listed.VMID}
	vm, err := f.Client.Live(ctx, listed)
	if errors.Is(err, api.ErrNotFound) {
		seen.Gone = true
		return seen
	}
	seen.Name, seen.Hypervisor, seen.Pool = vm.Name, vm.Hypervisor, vm.Pool
	seen.Description, seen.Power, seen.Tags = vm.Description, vm.Status, vm.Tags
	seen.Owned = vm.Type == "qemu" && hasOwner(r, vm)
	if err == nil && seen.Owned {
		var snapshots []api.Snapshot
		snapshots, err = f.Client.Snapshots(ctx, vm.Hypervisor, vm.VMID)
		for _, s := range snapshots {
			seen.Snapshots = append(seen.Snapshots, deploy.SeenSnapshot{
				Name: s.Name, Owned: cluster.OwnsSnapshot(s.Description, r.Name, r.Owner.ID),
			})
		}
	}
	seen.Err = err
	return seen
}
