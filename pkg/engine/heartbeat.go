package engine

import (
	"context"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy/proxmox"
	"hive-test/pkg/deploy/proxmox/api"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/process"
)

// startHeartbeat begins to tell other machines, on Proxmox VE, that this session's run lives.
func (s *session) startHeartbeat(ctx context.Context, r *lifecycle.Job) proxmox.Heartbeat {
	f, ok := r.Deploy.Deployer.(proxmox.Deployer)
	if !ok { // nothing ever deletes hosts that were there
		return proxmox.Heartbeat{}
	}
	self := process.Self()
	return f.StartHeartbeat(ctx, api.RunMark{
		Cluster: s.name, OwnerID: s.record.Owner.ID, Verb: s.verb, Who: newOwner(s.started).Who(), Place: self.Place, PID: self.PID, Start: self.Start,
		Destroys: s.destroys(), Making: !wasUp(s.before) && (s.verb == "up" || s.verb == "full" || !wasUp(s.record)),
	}, s.sink)
}

// wasUp tells whether a run had the cluster up.
func wasUp(r *cluster.Record) bool {
	return r != nil && r.Nodes.WereUp()
}
