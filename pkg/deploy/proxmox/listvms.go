package proxmox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/deploy/proxmox/api"
	"hive-test/pkg/progress"
)

// Remaining lists the VMs of ours that exist: those of the record, and any other that carries our owner id. Where some
// cannot be read, it lists the others, and the error is a *deploy.UnseenError.
func (f *Fleet) Remaining(ctx context.Context, r *cluster.Record) ([]deploy.VMRef, error) {
	ours, _, err := f.listVMs(ctx, r)
	return ours, err
}

// CheckOwnership is an error that names every id of the record under which there is a VM that is not ours. It is a
// *deploy.UnseenError if all that is wrong is that some cannot be read.
func (f *Fleet) CheckOwnership(ctx context.Context, r *cluster.Record) error {
	_, foreign, err := f.listVMs(ctx, r)
	if len(foreign) == 0 {
		return err
	}
	return errors.Join(append(foreign, err)...)
}

// listVMs looks live at every VM that has an id of the record, wherever it is, and at every other one tagged as ours.
// One that a run which died has begun to make is waited for.
func (f *Fleet) listVMs(ctx context.Context, r *cluster.Record) (ours []deploy.VMRef, foreign []error, err error) {
	candidates, live, errs, err := f.candidates(ctx, r)
	if err == nil && slices.ContainsFunc(live, func(vm api.VM) bool { return pending(r, vm) }) {
		if err = f.awaitProvisioning(ctx, r, false, progress.Discard); err == nil {
			candidates, live, errs, err = f.candidates(ctx, r)
		}
	}
	if err != nil {
		return nil, nil, err
	}
	var failures []error
	var unseen []deploy.VMRef
	for i, vm := range live {
		if errors.Is(errs[i], api.ErrNotFound) || errs[i] != nil && !mentions(r, candidates[i]) {
			continue
		}
		if errs[i] != nil {
			failures = append(failures, errs[i])
			unseen = append(unseen, deploy.VMRef{
				VMID: candidates[i].VMID, Name: candidates[i].Name, Hypervisor: candidates[i].Hypervisor,
			})
			continue
		}
		if mine, why := api.Ours(vm, r.Name, r.Owner.ID, placement.TargetOf(r.Target).Pool); mine {
			ours = append(ours, refOf(vm))
		} else if sealed(r, vm) {
			continue
		} else if hasOwner(r, vm) {
			foreign = append(foreign, &deploy.UnmarkedError{VM: refOf(vm), Why: why, Mend: remark(r, vm)})
		} else if name, owner, _ := cluster.ParseOwner(vm.Description); owner == r.Owner.ID && name != r.Name {
			foreign = append(foreign, progress.WithHint(fmt.Errorf(
				"VM %d %s on %s has the owner id %s, and is of cluster %s, not %s", vm.VMID, vm.Name, vm.Hypervisor,
				owner, name, r.Name,
			),
				fmt.Sprintf("hive-test down %s --owner %s", name, owner)+simFlag(r)))
		} else if inRecord(r, vm.VMID) {
			foreign = append(
				foreign, fmt.Errorf("VM %d %s on %s is not ours: %s", vm.VMID, vm.Name, vm.Hypervisor, why),
			)
		}
	}
	if len(unseen) > 0 {
		err = &deploy.UnseenError{VMs: unseen, Cause: errors.Join(failures...)}
	}
	return ours, foreign, err
}

// simFlag is what a command needs that has no record that says that the VMs are simulated.
func simFlag(r *cluster.Record) string {
	if r.Target.Simulated {
		return " --sim"
	}
	return ""
}

// candidates reads live what may be ours: where it was listed, and of each the VM or why it cannot be read.
func (f *Fleet) candidates(ctx context.Context, r *cluster.Record) (listed, live []api.VM, errs []error, err error) {
	all, err := f.Client.VMs(ctx)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("listing the VMs: %w", err)
	}
	listed = candidatesOf(r, all)
	live, errs = make([]api.VM, len(listed)), make([]error, len(listed))
	var wait sync.WaitGroup
	for i, vm := range listed {
		wait.Go(func() { live[i], errs[i] = f.Client.Live(ctx, vm) })
	}
	wait.Wait()
	return listed, live, errs, nil
}

// candidatesOf returns, by id, the VMs that may be ours. What the listing does not show (it lags, and hides what the
// token may not see) is looked for where the record says. Where it says nothing, all there is to go by is an owner id,
// which may be that of a cluster of another name.
func candidatesOf(r *cluster.Record, listed []api.VM) []api.VM {
	byID := map[int]api.VM{}
	for _, node := range r.Nodes {
		at := placement.Of(node)
		byID[at.VMID] = api.VM{
			VMID: at.VMID, Name: node.Name, Hypervisor: at.Hypervisor, Type: "qemu",
			Pool: placement.TargetOf(r.Target).Pool,
		}
	}
	for _, vm := range listed {
		if mentions(r, vm) || len(r.Nodes) == 0 && vm.Type == "qemu" && vm.HasTag(cluster.Tag) {
			byID[vm.VMID] = vm
		}
	}
	candidates := slices.Collect(maps.Values(byID))
	slices.SortFunc(candidates, func(a, b api.VM) int { return a.VMID - b.VMID })
	return candidates
}

// mentions tells whether the record names the VM, or the VM the cluster.
func mentions(r *cluster.Record, vm api.VM) bool {
	return inRecord(r, vm.VMID) || vm.Type == "qemu" && vm.HasTag(cluster.Tag) && vm.HasTag(string(r.Name))
}

func inRecord(r *cluster.Record, vmid int) bool {
	return slices.ContainsFunc(r.Nodes, func(n cluster.Node) bool { return placement.Of(n).VMID == vmid })
}

// hasOwner tells whether the VM says of itself that it is the cluster's.
func hasOwner(r *cluster.Record, vm api.VM) bool {
	name, owner, ok := cluster.ParseOwner(vm.Description)
	return ok && name == r.Name && owner == r.Owner.ID
}

// remark is what gives a VM back the marks by which it is known.
func remark(r *cluster.Record, vm api.VM) string {
	if vm.HasTag(cluster.Tag) && vm.HasTag(string(r.Name)) {
		// it may be in another, and pools in pools
		return fmt.Sprintf(
			"pvesh set /pools --poolid %s --vms %d --allow-move 1", placement.TargetOf(r.Target).Pool, vm.VMID,
		)
	}
	return fmt.Sprintf("on %s: qm set %d --tags '%s'", vm.Hypervisor, vm.VMID, strings.Join(tagsOf(r, vm), ";"))
}
