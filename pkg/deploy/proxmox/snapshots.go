package proxmox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/deploy/proxmox/api"
	"hive-test/pkg/progress"
	"hive-test/pkg/wait"
)

// undoTime is how long the snapshots of a set that could not be made as a whole are deleted again.
const undoTime = 2 * time.Minute

// snapshotAdvice is how VMs get disks of which snapshots can be made.
const snapshotAdvice = "snapshots need disks on ZFS, Ceph or LVM-thin, or qcow2 files in a directory: make the cluster with " +
	"another datastore_id in proxmox.hypervisors"

// CheckSnapshots looks at every VM: whether it is ours, who holds it, and whether its disks are where snapshots can be
// made.
func (f *Fleet) CheckSnapshots(ctx context.Context, r *cluster.Record) error {
	vms, err := f.ownVMs(ctx, r)
	if err != nil {
		return err
	}
	failures := make([]error, len(vms))
	f.forEach(len(vms), func(i int) {
		if !f.Client.MaySnapshot(ctx, vms[i].VMID, placement.TargetOf(r.Target).Pool) {
			failures[i] = ofNode(r.Nodes[i], vms[i], progress.WithHint(
				fmt.Errorf("the API token %s lacks VM.Snapshot on it", f.Client.TokenID()),
				"the role that hive-test doctor --print-role makes has it",
			))
			return
		}
		why, err := f.Client.NoSnapshots(ctx, vms[i].Hypervisor, vms[i].VMID)
		if err == nil && why != "" {
			err = progress.WithHint(errors.New("no snapshot can be made of it: "+why), snapshotAdvice)
		}
		failures[i] = ofNode(r.Nodes[i], vms[i], err)
	})
	return errors.Join(failures...)
}

// ofNode is an error about a node's VM; nil for nil.
func ofNode(node cluster.Node, vm api.VM, err error) error {
	if err == nil {
		return nil
	}
	return progress.WithNodes(fmt.Errorf("%s: VM %d on %s: %w", node.Name, vm.VMID, vm.Hypervisor, err), node.Name)
}

// ownVMs reads every VM live, where it is now. It is an error that names all that are not there, not ours or locked.
func (f *Fleet) ownVMs(ctx context.Context, r *cluster.Record) ([]api.VM, error) {
	states := f.states(ctx, r)
	vms, failures := make([]api.VM, len(states)), make([]error, len(states))
	for i, state := range states {
		node := r.Nodes[i]
		switch vms[i] = state.vm; {
		case state.err != nil:
			failures[i] = progress.WithNodes(fmt.Errorf("%s: %s: %w", node.Name, vmOf(node), state.err), node.Name)
		case !state.ours:
			failures[i] = ofNode(node, state.vm, errors.New("it is not ours: "+state.why))
		case state.vm.Lock != "":
			failures[i] = ofNode(node, state.vm, progress.WithHint(
				fmt.Errorf("it is locked (%s)", state.vm.Lock), fmt.Sprintf(
					"wait for what holds the lock; if nothing does any more, on %s: qm unlock %d", state.vm.Hypervisor,
					state.vm.VMID,
				)))
		}
	}
	return vms, errors.Join(failures...)
}

// kept are the snapshots of every VM, in node order: ours, and others'.
func (f *Fleet) kept(ctx context.Context, r *cluster.Record, vms []api.VM) (ours, others [][]api.Snapshot, err error) {
	ours, others = make([][]api.Snapshot, len(vms)), make([][]api.Snapshot, len(vms))
	failures := make([]error, len(vms))
	f.forEach(len(vms), func(i int) {
		list, err := f.Client.Snapshots(ctx, vms[i].Hypervisor, vms[i].VMID)
		failures[i] = ofNode(r.Nodes[i], vms[i], err)
		for _, s := range list {
			if cluster.OwnsSnapshot(s.Description, r.Name, r.Owner.ID) {
				ours[i] = append(ours[i], s)
			} else {
				others[i] = append(others[i], s)
			}
		}
	})
	return ours, others, errors.Join(failures...)
}

// Snapshots lists the snapshots of the cluster. VMs that are gone have none.
func (f *Fleet) Snapshots(ctx context.Context, r *cluster.Record) ([]deploy.Snapshot, error) {
	var failures []error
	there := *r
	there.Nodes = nil
	var vms []api.VM
	for i, state := range f.states(ctx, r) {
		node := r.Nodes[i]
		switch {
		case errors.Is(state.err, api.ErrNotFound) || state.err == nil && !state.ours:
		case state.err != nil:
			failures = append(failures, fmt.Errorf("%s: %s: %w", node.Name, vmOf(node), state.err))
		default:
			there.Nodes, vms = append(there.Nodes, node), append(vms, state.vm)
		}
	}
	ours, _, err := f.kept(ctx, &there, vms)
	if err := errors.Join(append(failures, err)...); err != nil {
		return nil, err
	}
	var list []deploy.Snapshot
	for i, node := range there.Nodes {
		for _, s := range ours[i] {
			at := slices.IndexFunc(list, func(o deploy.Snapshot) bool { return o.Tag == s.Name })
			if at < 0 {
				list, at = append(list, deploy.Snapshot{Tag: s.Name, Created: s.Created.UTC(), Memory: true}), len(list)
			}
			if !s.Unfinished {
				list[at].Nodes = append(list[at].Nodes, node.Name)
			}
			list[at].Memory = list[at].Memory && s.Memory
		}
	}
	slices.SortStableFunc(list, func(a, b deploy.Snapshot) int { return a.Created.Compare(b.Created) })
	return list, nil
}

// SaveSnapshot makes a snapshot of every VM at once. A task that was begun is waited for also when ctx has ended: what
// it makes could not be deleted before.
func (f *Fleet) SaveSnapshot(
	ctx context.Context, r *cluster.Record, tag string, memory bool, sink progress.Sink,
) error {
	vms, err := f.ownVMs(ctx, r)
	if err != nil {
		return err
	}
	ours, others, err := f.kept(ctx, r, vms)
	if err != nil {
		return err
	}
	if err := taken(r, vms, tag, ours, others); err != nil {
		return err
	}
	wanted := api.Snapshot{
		Name: tag, Description: cluster.SnapshotDescription(r.Name, r.Owner.ID), Memory: memory,
	}
	failures := make([]error, len(vms))
	f.forEach(len(vms), func(i int) {
		if failures[i] = context.Cause(ctx); failures[i] == nil {
			err := f.Client.SaveSnapshot(context.WithoutCancel(ctx), vms[i].Hypervisor, vms[i].VMID, wanted)
			failures[i] = ofNode(r.Nodes[i], vms[i], err)
		}
	})
	if err = errors.Join(failures...); err == nil && ctx.Err() == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	progress.Infof(sink, "not made on all nodes: what was made of snapshot %s is deleted again", tag)
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	if undoErr := f.DeleteSnapshot(undo, r, tag); undoErr != nil {
		err = errors.Join(err, progress.WithHint(
			fmt.Errorf("a part of snapshot %s stays: %w", tag, undoErr),
			fmt.Sprintf("hive-test snapshot delete %s %s", r.Name, tag),
		))
	}
	return err
}

// taken is an error where a VM has a snapshot of that name.
func taken(r *cluster.Record, vms []api.VM, tag string, ours, others [][]api.Snapshot) error {
	var failures []error
	named := func(s api.Snapshot) bool { return s.Name == tag }
	for i, node := range r.Nodes {
		switch {
		case slices.ContainsFunc(ours[i], named):
			return progress.WithHint(
				fmt.Errorf("snapshot %s exists already", tag),
				fmt.Sprintf("hive-test snapshot delete %s %s, or another tag", r.Name, tag),
			)
		case slices.ContainsFunc(others[i], named):
			failures = append(failures, ofNode(node, vms[i], fmt.Errorf(
				"it has a snapshot %s that is somebody else's: choose another tag", tag)))
		}
	}
	return errors.Join(failures...)
}

// Protected returns the names of the nodes whose VMs are protected.
func (f *Fleet) Protected(ctx context.Context, r *cluster.Record) ([]string, error) {
	vms, err := f.ownVMs(ctx, r)
	var names []string
	for i, vm := range vms {
		if vm.Protection {
			names = append(names, r.Nodes[i].Name)
		}
	}
	return names, err
}

// RestoreSnapshot rolls all VMs back at once and starts those that do not go on from memory.
func (f *Fleet) RestoreSnapshot(
	ctx context.Context, r *cluster.Record, tag string, protected []string, sink progress.Sink,
) error {
	vms, err := f.ownVMs(ctx, r)
	if err != nil {
		return err
	}
	ours, _, err := f.kept(ctx, r, vms)
	if err != nil {
		return err
	}
	var missing []string
	for i, node := range r.Nodes {
		if !slices.ContainsFunc(ours[i], func(s api.Snapshot) bool { return s.Name == tag && !s.Unfinished }) {
			missing = append(missing, node.Name)
		}
	}
	if len(missing) > 0 {
		return progress.WithNodes(
			fmt.Errorf("snapshot %s is not there on %s", tag, strings.Join(missing, ", ")), missing...)
	}
	failures := make([]error, len(vms))
	ctx = context.WithoutCancel(ctx) // a VM that is rolled back alone is of another time than the others
	f.forEach(len(vms), func(i int) {
		node, vm := r.Nodes[i], vms[i]
		err := f.Client.Rollback(ctx, vm.Hypervisor, vm.VMID, tag)
		if err == nil && slices.Contains(protected, node.Name) {
			err = f.Client.Protect(ctx, vm.Hypervisor, vm.VMID)
		}
		if err == nil {
			err = f.warnOfSize(ctx, r, node, vm, sink)
		}
		failures[i] = ofNode(node, vm, err)
	})
	return errors.Join(failures...)
}

// warnOfSize tells of a VM that was given other CPUs or memory since the snapshot: they are the old ones again.
func (f *Fleet) warnOfSize(
	ctx context.Context, r *cluster.Record, node cluster.Node, was api.VM, sink progress.Sink,
) error {
	now, err := f.Client.VM(ctx, was.Hypervisor, was.VMID)
	if err != nil {
		return err
	}
	if now.CPUs != was.CPUs || now.Memory != was.Memory {
		sink.Emit(progress.Event{
			Kind: progress.Warning, Node: node.Name,
			Message: fmt.Sprintf(
				"the VM of %s has %d CPUs and %d MiB again, as when the snapshot was made", node.Name, now.CPUs, now.Memory>>20),
			Hint: fmt.Sprintf("hive-test up %s --allow-restart gives it what it had", r.Name),
		})
	}
	return nil
}

// DeleteSnapshot deletes the snapshot of that name from every VM that has it, where it is ours. While a task still
// makes it, the VM is locked: it is tried again until ctx ends.
func (f *Fleet) DeleteSnapshot(ctx context.Context, r *cluster.Record, tag string) error {
	states := f.states(ctx, r)
	failures := make([]error, len(states))
	f.forEach(len(states), func(i int) {
		if errors.Is(states[i].err, api.ErrNotFound) {
			return
		}
		failures[i] = f.deleteSnapshot(ctx, r, r.Nodes[i], states[i], tag)
	})
	return errors.Join(failures...)
}

func (f *Fleet) deleteSnapshot(
	ctx context.Context, r *cluster.Record, node cluster.Node, state vmState, tag string,
) error {
	if state.err != nil || !state.ours {
		err := state.err
		if err == nil {
			err = errors.New("it is not ours: " + state.why)
		}
		return progress.WithNodes(fmt.Errorf("%s: %s: %w", node.Name, vmOf(node), err), node.Name)
	}
	vm := state.vm
	list, err := f.Client.Snapshots(ctx, vm.Hypervisor, vm.VMID)
	if err != nil {
		return ofNode(node, vm, err)
	}
	mine := func(s api.Snapshot) bool {
		return s.Name == tag && cluster.OwnsSnapshot(s.Description, r.Name, r.Owner.ID)
	}
	at := slices.IndexFunc(list, mine)
	if at < 0 {
		return nil
	}
	deadline := time.Now().Add(lockPatience)
	for range (wait.Backoff{First: 250 * time.Millisecond, Max: 2 * time.Second}).Tries(ctx) {
		err = f.Client.DeleteSnapshot(ctx, vm.Hypervisor, vm.VMID, list[at])
		if errors.Is(err, api.ErrNotFound) {
			return nil
		}
		if !errors.Is(err, api.ErrLocked) || time.Now().After(deadline) {
			break
		}
	}
	return ofNode(node, vm, err)
}

// lockPatience is how long a VM that is locked is waited for before its snapshot is deleted.
const lockPatience = 20 * time.Second

var _ deploy.Snapshotter = (*Fleet)(nil)
