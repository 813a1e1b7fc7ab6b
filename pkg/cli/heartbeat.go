package cli

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/fleet"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/process"
	"hive-test/pkg/proxmox"
)

// startHeartbeat begins to tell other machines, on Proxmox VE, that this session's run lives.
func (s *session) startHeartbeat(ctx context.Context, r *lifecycle.Job) fleet.Heartbeat {
	f, ok := r.Fleet.(*fleet.Fleet)
	if !ok { // nothing ever deletes hosts that were there
		return fleet.Heartbeat{}
	}
	self := process.Self()
	return f.StartHeartbeat(ctx, proxmox.RunMark{
		Cluster: s.name, OwnerID: s.record.Owner.ID, Verb: s.verb, Who: newOwner(s.started).Who(), Place: self.Place, PID: self.PID, Start: self.Start,
		Destroys: s.destroys(s.verb, s.settings), Making: !wasUp(s.before) && (s.verb == "up" || s.verb == "full" || !wasUp(s.record)),
	}, s.sink)
}

// wasUp tells whether a run had the cluster up.
func wasUp(r *cluster.Record) bool {
	return r != nil && r.Nodes.WereUp()
}

// lockDir is where runs on this machine keep each other from the same VM ids.
func (s *session) lockDir() string {
	if s.settings.LockDir != "" {
		return s.settings.LockDir
	}
	return filepath.Join(cmp.Or(s.Getenv("TMPDIR"), os.TempDir()), "hive-test-locks")
}

// claimMargin is more than a run takes beside its phase up, clocks that differ included.
const claimMargin = 15 * time.Minute

// claimLasts is how long a claim on VM ids of a run that vanished keeps others away.
func (s *session) claimLasts() time.Duration {
	if s.settings.Timeouts.Up <= 0 {
		return unlimitedPhase
	}
	return s.settings.Timeouts.Up + claimMargin
}
