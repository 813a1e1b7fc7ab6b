package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"hive-test/pkg/cluster"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/process"
	"hive-test/pkg/progress"
	"hive-test/pkg/proxmox"
	"hive-test/pkg/state"
)

// reaping finds what is left on a Proxmox VE, whoever left it and from wherever.
type reaping struct {
	fleet *proxmoxFleet
	store *state.Store // of this machine's clusters directory
	sink  progress.Sink
	pool  string // in which VMs must be to count; empty: anywhere
}

var _ lifecycle.Reaper = (*reaping)(nil)

// strays reads every VM that is tagged as hive-test's, live. What cannot be read, or does not say whose it is, is told and left
// alone.
func (p *reaping) strays(ctx context.Context) ([]lifecycle.Stray, error) {
	listed, err := p.fleet.client.VMs(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing the VMs: %w", err)
	}
	listed = slices.DeleteFunc(listed, func(vm proxmox.VM) bool { return vm.Type != "qemu" || !vm.HasTag(cluster.Tag) })
	found := make([]*lifecycle.Stray, len(listed))
	p.fleet.forEach(len(listed), func(i int) {
		vm, err := p.fleet.client.Live(ctx, listed[i])
		switch {
		case errors.Is(err, proxmox.ErrNotFound):
		case err != nil:
			p.sink.Emit(progress.Event{Kind: progress.Warning, Message: fmt.Sprintf("it cannot be told whose VM %d on %s is: %v", listed[i].VMID, listed[i].Hypervisor, err)})
		default:
			found[i] = p.strayOf(vm)
		}
	})
	var strays []lifecycle.Stray
	for _, s := range found {
		if s != nil {
			strays = append(strays, *s)
		}
	}
	return strays, context.Cause(ctx)
}

// strayOf is a VM that says whose it is, or nil.
func (p *reaping) strayOf(vm proxmox.VM) *lifecycle.Stray {
	name, owner, described := cluster.ParseDescription(vm.Description)
	ours, why := false, "its description names no owner, or more than one"
	if described {
		ours, why = proxmox.Ours(vm, name, owner.ID, p.pool)
	}
	if !ours {
		p.sink.Emit(progress.Event{Kind: progress.Output, Message: fmt.Sprintf("VM %d %s on %s is left alone: %s", vm.VMID, vm.Name, vm.Hypervisor, why)})
		return nil
	}
	return &lifecycle.Stray{VMRef: refOf(vm), Cluster: name, Owner: owner.ID, Expires: owner.Expires, Created: madeAt(owner.ID, vm.Created), Held: vm.HasTag(cluster.HoldTag)}
}

// madeAt is when a cluster was made: its owner id tells, or else its VM.
func madeAt(ownerID string, vm time.Time) time.Time {
	id, err := uuid.Parse(ownerID)
	if err != nil || id.Version() != 7 {
		return vm
	}
	return time.Unix(id.Time().UnixTime())
}

// lives are what is known of runs: by their marks on Proxmox VE, and by this machine's clusters directory.
func (p *reaping) lives(traces proxmox.Traces, strays []lifecycle.Stray) []lifecycle.Life {
	var lives []lifecycle.Life
	for _, m := range traces.Marks {
		lives = append(lives, lifeOf(m))
	}
	asked := map[string]bool{}
	for _, s := range strays {
		if asked[s.Owner] {
			continue
		}
		asked[s.Owner] = true
		if l, known := p.localLife(s.Cluster, s.Owner); known {
			lives = append(lives, l)
		}
	}
	return lives
}

func lifeOf(m proxmox.RunMark) lifecycle.Life {
	self := process.Process{Place: m.Place, PID: m.PID, Start: m.Start}
	return lifecycle.Life{Cluster: m.Cluster, Owner: m.OwnerID, What: m.String(), Until: m.Until, Dead: self.Dead(), Destroys: m.Destroys, Making: m.Making}
}

// localLife is what the clusters directory of this machine knows: who holds the cluster, or that up was cut off.
func (p *reaping) localLife(name cluster.Name, owner string) (lifecycle.Life, bool) {
	record, err := p.store.Load(name)
	if err != nil || record.Owner.ID != owner {
		return lifecycle.Life{}, false
	}
	holder, life := p.store.Holder(name)
	l := lifecycle.Life{Cluster: name, Owner: owner}
	switch {
	case life == state.Alive:
		l.What = fmt.Sprintf("`%s` (pid %d)", holder.Command, holder.PID)
		return l, true
	case life != state.Elsewhere && !wasUp(record) && record.Phases[cluster.PhaseUp].Status == cluster.PhaseRunning:
		l.What, l.Dead, l.Making = "up of cluster "+string(name), true, true
		return l, true
	}
	return l, false
}

// Alive looks once more whether a run is at work on the cluster.
func (p *reaping) Alive(ctx context.Context, r *cluster.Record) error {
	mark, found, err := proxmox.ReadRunMark(ctx, p.fleet.client, r.Owner.ID)
	if err != nil && !errors.Is(err, proxmox.ErrForbidden) { // who may not read marks has judged without
		return fmt.Errorf("looking whether a run is at work on cluster %s: %w", r.Name, err)
	}
	if l := lifeOf(mark); found && !l.Dead && p.fleet.client.Now().Before(l.Until) {
		return &lifecycle.LiveError{What: l.What}
	}
	if l, known := p.localLife(r.Name, r.Owner.ID); known && !l.Dead {
		return &lifecycle.LiveError{What: l.What}
	}
	return nil
}

// Clear takes away snippets of VMs that were never made, and then the mark of the cluster's last run.
func (p *reaping) Clear(ctx context.Context, r *cluster.Record) error {
	if err := p.fleet.dropSnippets(ctx, r.Owner.ID, p.sink); err != nil {
		return err
	}
	return proxmox.DropRunMark(ctx, p.fleet.client, r.Owner.ID)
}

// Settle waits for VMs in the making.
func (p *reaping) Settle(ctx context.Context, r *cluster.Record, patience bool, sink progress.Sink) error {
	return p.fleet.awaitMaking(ctx, r, patience, sink)
}
