package proxmox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/proxmox/api"
	"hive-test/pkg/process"
	"hive-test/pkg/progress"
)

// Reaper finds what is left on a Proxmox VE, whoever left it and from wherever.
type Reaper struct {
	Fleet *Fleet
	Sink  progress.Sink
	Pool  string // in which VMs must be to count; empty: anywhere
	// Self is this reap, without cluster and owner.
	Self deploy.Run
	// Local is what is known on this machine of a cluster's run, beside its run lease on Proxmox VE; known is false
	// where nothing is.
	Local func(name cluster.Name, owner string) (life deploy.RunStatus, known bool)

	// by owner: VMs as they were found, and those that an earlier reap has deleted and maybe not swept up after
	found, gone map[string][]deploy.VMRef
}

var _ deploy.Reaper = (*Reaper)(nil)

// ForCluster is a Reaper for one cluster, so that several can be reaped at once: leases are one cluster's.
func (p *Reaper) ForCluster() *Reaper {
	own := *p
	own.Fleet = New(p.Fleet.Options)
	own.Fleet.keepSnippets, own.Fleet.unlooked = true, p.Fleet.unlooked
	return &own
}

// How many VMs are read at a time: reads do not get in each other's way as changes do. Where answers are slow for the
// way and not for the work, more at a time take no longer; where a round takes more than quickRound, or longer than the
// one before, they do.
const (
	fewReads   = 32
	mostReads  = 128
	quickRound = 5 * time.Second
)

// readEach does something for each of n in rounds, which grow as long as they take no longer for it.
func readEach(n int, do func(i int)) {
	atOnce, before := fewReads, quickRound
	for first := 0; first < n; {
		count, began := min(atOnce, n-first), time.Now()
		forEach(count, 0, func(i int) { do(first + i) })
		took := time.Since(began)
		if took <= min(before*5/4, quickRound) {
			atOnce = min(2*atOnce, mostReads)
		} else {
			atOnce = fewReads
		}
		first, before = first+count, took
	}
}

// orphans reads every listed VM that is tagged as hive-test's and may be of a cluster that the rule covers, live. What
// cannot be read, or does not say whose it is, is told and left alone.
func (p *Reaper) orphans(
	ctx context.Context, listed []api.VM, rule deploy.ReapRule,
) (orphans []deploy.Orphan, unread []api.VM, err error) {
	listed = slices.DeleteFunc(slices.Clone(listed), func(vm api.VM) bool {
		return vm.Type != "qemu" || !vm.HasTag(cluster.Tag) || !coversAny(rule, vm.Tags)
	})
	found, blind := make([]*deploy.Orphan, len(listed)), make([]bool, len(listed))
	readEach(len(listed), func(i int) {
		vm, err := p.Fleet.Client.Configured(ctx, listed[i])
		switch {
		case errors.Is(err, api.ErrNotFound):
		case err != nil:
			blind[i] = true
			p.Sink.Emit(progress.Event{
				Kind: progress.Warning,
				Message: fmt.Sprintf(
					"VM %d on %s: cannot determine the owner: %v", listed[i].VMID, listed[i].Hypervisor, err,
				),
			})
		default:
			found[i] = p.orphanOf(vm)
		}
	})
	for i, s := range found {
		if s != nil {
			orphans = append(orphans, *s)
		}
		if blind[i] {
			unread = append(unread, listed[i])
		}
	}
	return orphans, unread, context.Cause(ctx)
}

// coversAny reports whether one of a VM's tags is the name of a cluster that the rule covers: every VM of hive-test's
// has it as a tag.
func coversAny(rule deploy.ReapRule, tags []string) bool {
	return slices.ContainsFunc(tags, func(tag string) bool { return rule.Covers(cluster.Name(tag)) })
}

// orphanOf is a VM that says whose it is, or nil.
func (p *Reaper) orphanOf(vm api.VM) *deploy.Orphan {
	name, owner, described := cluster.ParseDescription(vm.Description)
	ours, why := false, "its description names no owner, or more than one"
	if described {
		ours, why = api.Ours(vm, name, owner.ID, p.Pool)
	}
	if !ours {
		p.Sink.Emit(progress.Event{
			Kind:    progress.Output,
			Message: fmt.Sprintf("VM %d %s on %s is left alone: %s", vm.VMID, vm.Name, vm.Hypervisor, why),
		})
		return nil
	}
	return &deploy.Orphan{
		VMRef: refOf(vm), Cluster: name, Owner: owner.ID, Expires: owner.Expires, Created: madeAt(owner.ID, vm.Created),
		Held: vm.HasTag(cluster.HoldTag),
	}
}

// madeAt is when a cluster was made: its owner id tells, or else its VM.
func madeAt(ownerID string, vm time.Time) time.Time {
	id, err := uuid.Parse(ownerID)
	if err != nil || id.Version() != 7 {
		return vm
	}
	return time.Unix(id.Time().UnixTime())
}

// runs are what is known of runs: by their run leases on Proxmox VE, and by what this machine knows.
func (p *Reaper) runs(traces api.Traces, orphans []deploy.Orphan) []deploy.RunStatus {
	var runs []deploy.RunStatus
	for _, m := range traces.RunLeases {
		runs = append(runs, statusOf(m))
	}
	asked := map[string]bool{}
	for _, s := range orphans {
		if asked[s.Owner] {
			continue
		}
		asked[s.Owner] = true
		if l, known := p.Local(s.Cluster, s.Owner); known {
			runs = append(runs, l)
		}
	}
	return runs
}

func statusOf(m api.RunLease) deploy.RunStatus {
	self := process.Process{Place: m.Place, PID: m.PID, Start: m.Start}
	return deploy.RunStatus{
		Cluster: m.Cluster, Owner: m.OwnerID, What: m.String(), Until: m.Until, Dead: self.Dead(), Destroys: m.Destroys,
		Provisioning: m.Provisioning,
	}
}

// Alive looks once more whether a run is at work on the cluster.
func (p *Reaper) Alive(ctx context.Context, r *cluster.Record) error {
	mark, found, err := api.ReadRunLease(ctx, p.Fleet.Client, r.Owner.ID)
	if err != nil && !errors.Is(err, api.ErrForbidden) { // who may not read run leases has judged without
		return fmt.Errorf("looking whether a run is at work on cluster %s: %w", r.Name, err)
	}
	if l := statusOf(mark); found && !l.Dead && p.Fleet.Client.Now().Before(l.Until) {
		return &deploy.LiveError{What: l.What}
	}
	if l, known := p.Local(r.Name, r.Owner.ID); known && !l.Dead {
		return &deploy.LiveError{What: l.What}
	}
	return nil
}

// Hold run leases the cluster as one that is being reaped. Where the token may not make run leases, nobody sees it.
func (p *Reaper) Hold(ctx context.Context, r *cluster.Record, sink progress.Sink) (release func(err error)) {
	run := p.Self
	run.Cluster, run.OwnerID, run.Destroys = r.Name, r.Owner.ID, true
	run.Deletes = slices.Concat(p.gone[r.Owner.ID], p.found[r.Owner.ID])
	lease := p.Fleet.LeaseRun(ctx, run, sink)
	_ = p.Fleet.awaitLease(ctx) // before anything is deleted
	return func(err error) { lease.End(ctx, err != nil) }
}

// Gone are VMs that an earlier reap of the cluster was about to delete, and that are not there any more: their disks
// may be.
func (p *Reaper) Gone(r *cluster.Record) []deploy.VMRef { return p.gone[r.Owner.ID] }

// remember notes the VMs of each owner, and those that are gone by the run leases of reaps that died.
func (p *Reaper) remember(orphans []deploy.Orphan, listed []api.VM, traces api.Traces) {
	p.found, p.gone = map[string][]deploy.VMRef{}, map[string][]deploy.VMRef{}
	for _, s := range orphans {
		p.found[s.Owner] = append(p.found[s.Owner], s.VMRef)
	}
	for _, m := range traces.RunLeases {
		for _, d := range m.Disks {
			if !slices.ContainsFunc(listed, func(vm api.VM) bool { return vm.VMID == d.VMID }) {
				vm := deploy.VMRef{VMID: d.VMID, Hypervisor: d.Hypervisor, Storages: d.Storages}
				p.gone[m.OwnerID] = append(p.gone[m.OwnerID], vm)
			}
		}
	}
}

// Clear takes away snippets, those of VMs that were never made included, and then the cluster's run lease.
func (p *Reaper) Clear(ctx context.Context, r *cluster.Record) error {
	if err := p.Fleet.dropSnippets(ctx, r.Owner.ID, p.Sink); err != nil {
		return err
	}
	return api.DropRunLease(ctx, p.Fleet.Client, r.Owner.ID)
}

// Settle waits for VMs in the making.
func (p *Reaper) Settle(ctx context.Context, r *cluster.Record, patience bool, sink progress.Sink) error {
	return p.Fleet.awaitProvisioning(ctx, r, patience, sink)
}
