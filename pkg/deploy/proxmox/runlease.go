package proxmox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/proxmox/api"
	"hive-test/pkg/progress"
)

// runLease tells other machines, on Proxmox VE, that a run is at work.
type runLease struct {
	beat  *api.Heartbeat
	fleet *Fleet
}

// LeaseRun begins to tell that a run is at work. It takes no time of the run: before VMs are asked for, Acquire waits
// until that can be seen.
func (f *Fleet) LeaseRun(ctx context.Context, run deploy.Run, sink progress.Sink) deploy.RunLease {
	f.beat = api.StartHeartbeat(ctx, api.HeartbeatOptions{
		Pools: f.Client, Now: f.Client.Now,
		Lease: api.RunLease{
			Lease: api.Lease{Cluster: run.Cluster, OwnerID: run.OwnerID, Who: run.Who},
			Verb:  run.Verb, Place: run.Place, PID: run.PID, Start: run.Start,
			Destroys: run.Destroys, Provisioning: run.Provisioning, Disks: disksOf(run.Deletes),
		},
		Warn: func(err error) {
			sink.Emit(progress.Event{
				Kind: progress.Warning, Message: "other machines may take this run for dead: " + err.Error(),
			})
		},
		Woke: func(slept time.Duration, gone bool) { sink.Emit(wokeEvent(run.Cluster, slept, gone)) },
	})
	return runLease{f.beat, f}
}

// disksOf are the places of VMs' disks.
func disksOf(vms []deploy.VMRef) (disks []api.Origin) {
	for _, vm := range vms {
		if len(vm.Storages) > 0 {
			disks = append(disks, api.Origin{VMID: vm.VMID, Hypervisor: vm.Hypervisor, Storages: vm.Storages})
		}
	}
	return disks
}

// wokeEvent says what may have become of a run's cluster while the run was suspended.
func wokeEvent(name cluster.Name, slept time.Duration, gone bool) progress.Event {
	slept = slept.Round(time.Second)
	e := progress.Event{
		Kind:    progress.Warning,
		Message: fmt.Sprintf("this run was suspended for %s: other machines may have taken it for dead", slept),
		Hint:    "hive-test status " + string(name) + " shows what is left of the cluster",
	}
	if gone {
		e.Message += ", and one has deleted its mark, as reap does"
	}
	return e
}

// WarnUnseen waits until the lease was tried and warns if the token may not take any: reap on another machine does not
// see that the run is at work, and goes by the cluster's expiry alone. Up says so itself when it leases ids.
func (l runLease) WarnUnseen(ctx context.Context, sink progress.Sink) {
	if !errors.Is(l.beat.Wait(ctx), api.ErrForbidden) {
		return
	}
	sink.Emit(progress.Event{
		Kind:    progress.Warning,
		Message: "other machines cannot see that this run is at work: reap there would delete the cluster if it expires meanwhile",
		Hint:    poolsHint(l.fleet.Client.TokenID()),
	})
}

// poolsHint is how a token gets to make pools.
func poolsHint(token string) string {
	return "let the token make pools: pveum role add HiveTestClaims --privs Pool.Allocate,Pool.Audit; pveum acl modify /pool --tokens '" +
		token + "' --roles HiveTestClaims"
}

// Emit watches for the end of up: from then on the cluster is no half-made one.
func (l runLease) Emit(e progress.Event) {
	if e.Kind == progress.PhaseEnd && e.Phase == string(cluster.PhaseUp) && e.Status == progress.Passed {
		l.beat.Update(func(m *api.RunLease) { m.Provisioning = false })
	}
}

// End takes the lease back, unless it is kept, or a lease of ids could not be given up: reap then sees that the run is
// over.
func (l runLease) End(ctx context.Context, keep bool) { l.beat.Stop(ctx, keep || l.fleet.unreleased) }

// awaitLease waits until other machines can see that this run lives; where they never will, for want of a privilege,
// the warning about leases says so.
func (f *Fleet) awaitLease(ctx context.Context) error {
	if f.beat == nil {
		return nil
	}
	_ = f.beat.Wait(ctx) // a failure was told, and is none of the run
	return context.Cause(ctx)
}
