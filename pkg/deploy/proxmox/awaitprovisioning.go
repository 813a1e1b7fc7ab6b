package proxmox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/deploy/proxmox/api"
	"hive-test/pkg/progress"
	"hive-test/pkg/wait"
)

// Times of waiting for VMs in the making.
const (
	// makingTime bounds the wait for one that is there.
	makingTime = 2 * time.Minute
	// quietTime is how long nothing may have appeared before nothing is waited for any more: a provider whose tofu was
	// killed goes on with what it has begun.
	quietTime = 5 * time.Second
)

// awaitProvisioning waits for VMs in the making on the ids that the cluster has leased: PVE shows of one that is made
// nothing but its id, and of a clone its description before its tags, which it is given here. With patience it waits
// also for those that may still appear.
func (f *Fleet) awaitProvisioning(ctx context.Context, r *cluster.Record, patience bool, sink progress.Sink) error {
	started, quiet := time.Now(), time.Now()
	known := 0
	for try := range (wait.Backoff{First: 100 * time.Millisecond, Max: time.Second}).Tries(ctx) {
		making, seen, err := f.provisioning(ctx, r, sink)
		if err != nil {
			return err
		}
		if len(making) > 0 || seen != known {
			quiet, known = time.Now(), seen
		}
		switch {
		case len(making) > 0 && time.Since(started) > makingTime:
			return progress.WithHint(fmt.Errorf(
				"still in the making: VM %d on %s", making[0].VMID, making[0].Hypervisor,
			),
				fmt.Sprintf("if nothing makes it any more, on %s: qm unlock %d, then reap again", making[0].Hypervisor, making[0].VMID))
		case len(making) == 0 && (!patience || seen < 0 || time.Since(quiet) > quietTime):
			return nil
		case len(making) > 0 && try == 1:
			sink.Emit(progress.Event{
				Kind: progress.Wait, Message: fmt.Sprintf("VM %d, which is in the making", making[0].VMID),
			})
		}
	}
	return context.Cause(ctx)
}

// provisioning are the VMs in the provisioning on leased ids, and how many VMs have such ids; -1 if none are leased.
func (f *Fleet) provisioning(
	ctx context.Context, r *cluster.Record, sink progress.Sink,
) (making []api.VM, seen int, err error) {
	traces, err := api.ReadTraces(ctx, f.Client)
	if err != nil {
		return nil, 0, err
	}
	if !slices.ContainsFunc(traces.IDLeases, func(c api.IDLease) bool { return c.OwnerID == r.Owner.ID }) {
		return nil, -1, nil
	}
	listed, err := f.Client.VMs(ctx)
	if err != nil {
		return nil, 0, fmt.Errorf("listing the VMs: %w", err)
	}
	for _, vm := range listed {
		if vm.Type != "qemu" || !traces.Leased(r.Owner.ID, vm.VMID) {
			continue
		}
		seen++
		live, err := f.Client.Live(ctx, vm)
		if err == nil && !live.Provisioning() {
			err = f.adoptTags(ctx, r, live, sink)
		}
		switch {
		case errors.Is(err, api.ErrNotFound): // moved or deleted since it was listed
			making = append(making, vm)
		case err != nil:
			return nil, 0, err
		case live.Provisioning():
			making = append(making, live)
		}
	}
	return making, seen, nil
}

// adoptTags gives a clone on an id that the cluster has leased the tags that whoever made it did not come to give it:
// its description says whose it is.
func (f *Fleet) adoptTags(ctx context.Context, r *cluster.Record, vm api.VM, sink progress.Sink) error {
	if !hasOwner(r, vm) || completed(r, vm) || vm.HasTag(cluster.Tag) && vm.HasTag(string(r.Name)) {
		return nil
	}
	sink.Emit(progress.Event{
		Kind: progress.Info,
		Message: fmt.Sprintf(
			"VM %d %s on %s was left half made: it is of cluster %s", vm.VMID, vm.Name, vm.Hypervisor, r.Name,
		),
	})
	if err := f.Client.UpdateMetadata(ctx, vm.Hypervisor, vm.VMID, vm.Description, tagsOf(r, vm)); err != nil {
		return fmt.Errorf("marking VM %d on %s as half made: %w", vm.VMID, vm.Hypervisor, err)
	}
	return nil
}

// pending tells whether a VM under an id of the record may turn out to be ours when it is made to the end.
func pending(r *cluster.Record, vm api.VM) bool {
	return inRecord(r, vm.VMID) && !completed(r, vm) &&
		(vm.Provisioning() || hasOwner(r, vm) && !vm.HasTag(cluster.Tag))
}

// completed tells whether the VM was made to the end once: what it lacks now, somebody took.
func completed(r *cluster.Record, vm api.VM) bool {
	return slices.ContainsFunc(
		r.Nodes, func(n cluster.Node) bool { return placement.Of(n).VMID == vm.VMID && n.Management.IsValid() },
	)
}
