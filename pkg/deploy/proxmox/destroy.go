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

// refOf is a VM as lifecycle sees it.
func refOf(vm api.VM) deploy.VMRef {
	return deploy.VMRef{
		VMID: vm.VMID, Name: vm.Name, Hypervisor: vm.Hypervisor, Protected: vm.Protection, Lock: vm.Lock,
		Guarded:  vm.HasTag(cluster.ProtectTag),
		Storages: vm.Storages, Snippets: vm.Snippets,
	}
}

// Quorum is an error if the hypervisors are known to have none. Whoever may not ask is not held up, nor does it hold up
// where no answer comes.
func (f *Fleet) Quorum(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, CallLimit)
	defer cancel()
	status, err := f.Client.ClusterStatus(ctx)
	if err != nil || status.Quorate {
		return nil
	}
	return progress.WithHint(errors.New(
		"the hypervisors have no quorum, and a deletion would lose disks and keep the VMs",
	),
		"bring the other hypervisors back: pvecm status")
}

// Unprotect takes the protection off a VM of ours.
func (f *Fleet) Unprotect(ctx context.Context, r *cluster.Record, ref deploy.VMRef) error {
	if _, err := f.own(ctx, r, ref); err != nil {
		return err
	}
	if err := f.Client.Unprotect(ctx, ref.Hypervisor, ref.VMID); err != nil {
		return fmt.Errorf("taking the protection off %s: %w", ref, err)
	}
	return nil
}

// own reads a VM live, once more before something is done to it, and is an error unless it is ours.
func (f *Fleet) own(ctx context.Context, r *cluster.Record, ref deploy.VMRef) (api.VM, error) {
	vm, err := f.Client.Live(ctx, api.VM{
		VMID: ref.VMID, Hypervisor: ref.Hypervisor, Type: "qemu", Pool: placement.TargetOf(r.Target).Pool,
	})
	if err != nil {
		return vm, fmt.Errorf("VM %d on %s: %w", ref.VMID, ref.Hypervisor, err)
	}
	if ours, why := api.Ours(vm, r.Name, r.Owner.ID, placement.TargetOf(r.Target).Pool); !ours {
		return vm, fmt.Errorf("VM %d on %s is not ours and stays: %s", ref.VMID, ref.Hypervisor, why)
	}
	return vm, nil
}

// Destroy stops and deletes each VM, as many at once as is set, after one more live look at whose it is.
func (f *Fleet) Destroy(ctx context.Context, r *cluster.Record, vms []deploy.VMRef) error {
	failures := make([]error, len(vms))
	f.forEach(len(vms), func(i int) { failures[i] = f.destroyOne(ctx, r, vms[i]) })
	return errors.Join(failures...)
}

func (f *Fleet) destroyOne(ctx context.Context, r *cluster.Record, ref deploy.VMRef) error {
	for try := 1; ; try++ {
		err := f.destroyNow(ctx, r, ref)
		if errors.Is(err, api.ErrNotFound) {
			return nil
		}
		// A provider whose tofu was killed may start the VM between a look at it and its deletion.
		if !errors.Is(err, api.ErrRunning) || try == startedTries {
			return err
		}
	}
}

// startedTries is how often a VM is stopped that somebody starts again before it is deleted.
const startedTries = 5

func (f *Fleet) destroyNow(ctx context.Context, r *cluster.Record, ref deploy.VMRef) error {
	vm, err := f.own(ctx, r, ref)
	if err != nil {
		return err
	}
	if vm.Status == "running" { // stopped, not shut down: a guest may ignore that for as long as it likes
		if err := f.Client.Stop(ctx, ref.Hypervisor, ref.VMID); err != nil {
			return fmt.Errorf("stopping VM %d on %s: %w", ref.VMID, ref.Hypervisor, err)
		}
	}
	if err := f.Client.Delete(ctx, ref.Hypervisor, ref.VMID); err != nil {
		return fmt.Errorf("deleting VM %d on %s: %w", ref.VMID, ref.Hypervisor, err)
	}
	return nil
}

// CleanUp removes what VMs that are gone have left, and looks again. Snippets, known by the owner id in their names,
// are looked for on every hypervisor: one whose address was wrong has put them onto another.
func (f *Fleet) CleanUp(ctx context.Context, r *cluster.Record, gone []deploy.VMRef, sink progress.Sink) error {
	err := f.sweep(ctx, r, gone, sink)
	if err == nil && !f.keepSnippets &&
		(r.Spec.Snippets() || len(r.Nodes) == 0 || len(placement.Hypervisors(r.Spec)) == 0) {
		err = f.dropSnippets(ctx, r.Owner.ID, sink)
	}
	return err
}

func (f *Fleet) sweep(ctx context.Context, r *cluster.Record, gone []deploy.VMRef, sink progress.Sink) error {
	origins := originsOf(r, gone)
	if err := f.sameName(ctx, r, sink); err != nil {
		return err
	}
	f.sweepUnlisted(ctx, origins, sink)
	rest, err := f.settle(ctx, origins)
	if err != nil {
		return err
	}
	for _, what := range rest.Unseen {
		sink.Emit(progress.Event{
			Kind: progress.Warning, Message: "it was not looked whether something is left: " + what,
			Hint: "let the token look: pveum acl modify /storage --tokens '" + f.Client.TokenID() + "' --roles PVEDatastoreAdmin",
		})
	}
	for _, what := range rest.Kept {
		sink.Emit(progress.Event{Kind: progress.Warning, Message: "left alone: " + what})
	}
	if len(rest.Volumes) == 0 {
		return nil
	}
	failures := make([]error, len(rest.Volumes))
	for _, left := range rest.Volumes {
		sink.Emit(progress.Event{Kind: progress.Info, Message: "left behind, deleting it: " + left.String()})
	}
	f.forEach(len(rest.Volumes), func(i int) {
		failures[i] = f.Client.DeleteVolume(ctx, rest.Volumes[i].Hypervisor, rest.Volumes[i].Volume)
	})
	rest, err = api.Leftovers(ctx, f.Client, origins)
	if err != nil || len(rest.Volumes) == 0 {
		return err
	}
	return stillThere(rest.Volumes, errors.Join(failures...))
}

// settleTime is how long nothing may have gone until what is there counts as left behind.
const settleTime = 2 * time.Second

// settle looks what is left until nothing more goes by itself: the provider starts the deletion of a snippet, and does
// not wait for its task.
func (f *Fleet) settle(ctx context.Context, origins []api.Origin) (rest api.Rest, err error) {
	least, since := 0, time.Now()
	for range (wait.Backoff{First: 25 * time.Millisecond, Max: 250 * time.Millisecond}).Tries(ctx) {
		rest, err = api.Leftovers(ctx, f.Client, origins)
		left := len(rest.Volumes)
		if err != nil || left == 0 {
			return rest, err
		}
		if least == 0 || left < least {
			least, since = left, time.Now()
		}
		if time.Since(since) > settleTime {
			return rest, nil
		}
	}
	return rest, context.Cause(ctx)
}

// sweepUnlisted deletes snippets that no listing shows: an upload succeeds on a storage that does not keep snippets,
// too. That a snippet was there is not known, and that it cannot be deleted is no failure.
func (f *Fleet) sweepUnlisted(ctx context.Context, origins []api.Origin, sink progress.Sink) {
	storages := map[string][]api.Storage{}
	for _, origin := range origins {
		for _, volume := range origin.Snippets {
			if _, asked := storages[origin.Hypervisor]; !asked {
				// What cannot be read is said by the look at what is listed.
				storages[origin.Hypervisor], _ = f.Client.Storages(ctx, origin.Hypervisor)
			}
			store, _, _ := strings.Cut(volume, ":")
			if !slices.ContainsFunc(
				storages[origin.Hypervisor],
				func(s api.Storage) bool { return s.Name == store && !s.Holds("snippets") },
			) {
				continue
			}
			if err := f.Client.DeleteVolume(ctx, origin.Hypervisor, volume); err != nil {
				sink.Emit(progress.Event{
					Kind:    progress.Warning,
					Message: fmt.Sprintf("%s may be left on %s: %v", volume, origin.Hypervisor, err),
					Hint:    "on " + origin.Hypervisor + ": pvesm free " + volume,
				})
			}
		}
	}
}

func stillThere(volumes []api.Leftover, cause error) error {
	var names, mend []string
	for _, left := range volumes {
		names = append(names, left.String())
		mend = append(mend, fmt.Sprintf("on %s: pvesm free %s", left.Hypervisor, left.Volume))
	}
	err := fmt.Errorf("the VMs are gone, and have left %s", strings.Join(names, ", "))
	if cause != nil {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return progress.WithHint(err, strings.Join(mend, "\n"))
}

// originsOf are where the VMs that were seen had their volumes, and where those of the record were told to put theirs.
func originsOf(r *cluster.Record, gone []deploy.VMRef) []api.Origin {
	var origins []api.Origin
	for _, vm := range gone {
		// A VM may have been given a snippet that others use, too.
		snippets := slices.DeleteFunc(slices.Clone(vm.Snippets), func(volume string) bool {
			return !strings.HasSuffix(volume, ":snippets/"+placement.SnippetName(vm.Name, r.Owner.ID))
		})
		origins = append(origins, api.Origin{
			VMID: vm.VMID, Hypervisor: vm.Hypervisor, Storages: vm.Storages, Snippets: snippets,
		})
	}
	for _, node := range r.Nodes {
		at := placement.Of(node)
		h, known := placement.HypervisorNamed(r.Spec, at.Hypervisor)
		if !known {
			continue // of a VM that is known by what was seen of it
		}
		origin := api.Origin{VMID: at.VMID, Hypervisor: at.Hypervisor, Storages: []string{h.Datastore}}
		if r.Spec.Snippets() {
			origin.Snippets = []string{h.SnippetStore + ":snippets/" + placement.SnippetName(node.Name, r.Owner.ID)}
		}
		origins = append(origins, origin)
	}
	return origins
}

// sameName tells of VMs that carry the cluster's name and are not its own.
func (f *Fleet) sameName(ctx context.Context, r *cluster.Record, sink progress.Sink) error {
	listed, err := f.Client.VMs(ctx)
	if err != nil {
		return fmt.Errorf("listing the VMs: %w", err)
	}
	var others []string
	for _, vm := range listed {
		if !vm.HasTag(cluster.Tag) || !vm.HasTag(string(r.Name)) {
			continue
		}
		// else it may be the cluster's own, and that is said elsewhere
		if _, err := f.Client.Live(ctx, vm); err == nil {
			others = append(others, fmt.Sprintf("VM %d on %s", vm.VMID, vm.Hypervisor))
		}
	}
	if len(others) == 0 {
		return nil
	}
	sink.Emit(progress.Event{Kind: progress.Info, Message: fmt.Sprintf(
		"not of this cluster, though they carry the name %s, and left alone: %s", r.Name, strings.Join(others, ", "))})
	return nil
}
