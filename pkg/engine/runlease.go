package engine

import (
	"context"
	"errors"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/process"
	"hive-test/pkg/progress"
)

// leaseRun begins to tell other machines that this session's run is at work.
func (s *session) leaseRun(ctx context.Context, r *lifecycle.Job) deploy.RunLease {
	if r.Deploy.Runs == nil { // nothing ever deletes hosts that were there
		return noLease{progress.Discard}
	}
	self := process.Self()
	return r.Deploy.Runs.LeaseRun(ctx, deploy.Run{
		Cluster: s.Name, OwnerID: s.Record.Owner.ID, Verb: s.verb, Who: newOwner(s.started).Who(), Place: self.Place,
		PID: self.PID, Start: self.Start,
		Destroys:     s.destroys(),
		Provisioning: !wasUp(s.before) && (s.provisions() || s.verb == "full" || !wasUp(s.Record)),
	}, s.Sink)
}

// keepsLease reports whether what a run has left is for reap to see: VMs that it should have destroyed, or could not
// decide on before it was stopped.
func keepsLease(err error, aborted bool) bool {
	_, leak := errors.AsType[*deploy.LeakError](err)
	return leak || aborted
}

// noLease tells nobody.
type noLease struct{ progress.Sink }

func (noLease) WarnUnseen(context.Context, progress.Sink) {}
func (noLease) End(context.Context, bool)                 {}

// wasUp tells whether a run had the cluster up.
func wasUp(r *cluster.Record) bool {
	return r != nil && r.Nodes.WereUp()
}
