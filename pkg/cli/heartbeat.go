package cli

import (
	"context"
	"errors"

	"hive-test/pkg/cluster"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/process"
	"hive-test/pkg/progress"
	"hive-test/pkg/proxmox"
)

// heartbeat tells other machines, on Proxmox VE, that this session's run lives. The zero value tells nobody.
type heartbeat struct {
	*proxmox.Heartbeat
	fleet    *proxmoxFleet
	destroys bool
}

// startHeartbeat begins to tell that the run lives. It takes no time of the run: before VMs are asked for, Claim waits until
// the mark is there.
func (s *session) startHeartbeat(ctx context.Context, r *lifecycle.Job) heartbeat {
	fleet, ok := r.Fleet.(*proxmoxFleet)
	if !ok { // nothing ever deletes hosts that were there
		return heartbeat{}
	}
	self := process.Self()
	owner := s.record.Owner
	mark := proxmox.RunMark{
		Cluster: s.name, OwnerID: owner.ID, Verb: s.verb, Who: newOwner(s.started).Who(), Place: self.Place, PID: self.PID, Start: self.Start,
		Destroys: s.destroys(s.verb, s.settings), Making: !wasUp(s.before) && (s.verb == "up" || s.verb == "full" || !wasUp(s.record)),
	}
	fleet.beat = proxmox.StartHeartbeat(ctx, proxmox.HeartbeatOptions{
		Pools: fleet.client, Mark: mark, Now: fleet.client.Now,
		Warn: func(err error) {
			s.sink.Emit(progress.Event{Kind: progress.Warning, Message: "other machines may take this run for dead: " + err.Error()})
		},
	})
	return heartbeat{fleet.beat, fleet, mark.Destroys}
}

// wasUp tells whether a run had the cluster up.
func wasUp(r *cluster.Record) bool {
	return r != nil && r.Nodes.WereUp()
}

// Emit watches for the end of up: from then on the cluster is no half-made one.
func (h heartbeat) Emit(e progress.Event) {
	if h.Heartbeat != nil && e.Kind == progress.PhaseEnd && e.Phase == string(cluster.PhaseUp) && e.Status == progress.Passed {
		h.Update(func(m *proxmox.RunMark) { m.Making = false })
	}
}

// end takes the mark away, unless it shall tell reap of what the run has left: VMs that it should have destroyed, or could not
// decide on before it was stopped, or a claim.
func (h heartbeat) end(ctx context.Context, err error, aborted bool) {
	if h.Heartbeat == nil {
		return
	}
	_, leak := errors.AsType[*lifecycle.LeakError](err)
	h.Stop(ctx, leak || aborted || h.fleet.unreleased)
}

// marked waits until other machines can see that this run lives; where they never will, for want of a privilege, the warning
// about claims says so.
func (f *proxmoxFleet) marked(ctx context.Context) error {
	if f.beat == nil {
		return nil
	}
	_ = f.beat.Wait(ctx) // a failure was told, and is none of the run
	return context.Cause(ctx)
}
