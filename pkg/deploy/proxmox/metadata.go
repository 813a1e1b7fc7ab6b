package proxmox

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/deploy/proxmox/api"
)

// UpdateMetadata makes description and tags of every VM of ours say what the record says. VMs that do not exist are
// left to up, which makes them so.
func (f *Fleet) UpdateMetadata(ctx context.Context, r *cluster.Record) error {
	states := f.states(ctx, r)
	failures := make([]error, len(states))
	f.forEach(len(states), func(i int) {
		node, state := r.Nodes[i], states[i]
		switch {
		case errors.Is(state.err, api.ErrNotFound):
		case state.err != nil:
			failures[i] = fmt.Errorf("%s: %s: %w", node.Name, vmOf(node), state.err)
		case !state.ours:
			failures[i] = fmt.Errorf(
				"%s: VM %d on %s is not ours: %s", node.Name, placement.Of(node).VMID, placement.Of(node).Hypervisor,
				state.why,
			)
		default:
			failures[i] = f.mark(ctx, r, node, state.vm)
		}
	})
	return errors.Join(failures...)
}

func (f *Fleet) mark(ctx context.Context, r *cluster.Record, node cluster.Node, vm api.VM) error {
	at := placement.Of(node)
	description := cluster.Redescribe(vm.Description, r.Name, r.Owner)
	tags := tagsOf(r, vm)
	if description == vm.Description && slices.Equal(tags, vm.Tags) {
		return nil
	}
	if err := f.Client.UpdateMetadata(ctx, at.Hypervisor, at.VMID, description, tags); err != nil {
		return fmt.Errorf("%s: marking VM %d on %s: %w", node.Name, at.VMID, at.Hypervisor, err)
	}
	return nil
}

// tagsOf are the tags that a VM of the cluster is to have: ours, and those that others gave it.
func tagsOf(r *cluster.Record, vm api.VM) []string {
	tags := slices.DeleteFunc(slices.Clone(vm.Tags), func(t string) bool { return t == cluster.HoldTag || t == cluster.ProtectTag })
	tags = append(tags, r.Owner.Tags(r.Name)...)
	slices.Sort(tags)
	return slices.Compact(tags)
}
