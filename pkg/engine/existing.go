package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/progress"
	"hive-test/pkg/provision"
)

// existing is the deployer of hosts that are already there: it makes nothing and deletes nothing.
type existing struct{}

var (
	_ lifecycle.Fleet       = existing{}
	_ provision.Provisioner = existing{}
)

// Up has nothing to make.
func (existing) Up(context.Context, provision.Request) (provision.Result, error) {
	return provision.Result{}, nil
}

// Plan has nothing to do.
func (existing) Plan(context.Context, provision.Request) (provision.Plan, error) {
	return provision.Plan{}, nil
}

// PlanText is empty: nothing is ever planned.
func (existing) PlanText(context.Context, provision.Request) (string, error) { return "", nil }

// Down releases the hosts: they stay as they are.
func (existing) Down(context.Context, provision.Request) error { return nil }

// Preflight has nothing to check that the hosts file has not told: reaching the hosts is up's first act.
func (existing) Preflight(context.Context, *cluster.Record) ([]lifecycle.Finding, error) {
	return nil, nil
}

// Reserve cannot choose hosts: the hosts file names them.
func (existing) Reserve(context.Context, *cluster.Record) (cluster.Nodes, error) {
	return nil, errors.New("a cluster of existing hosts needs a hosts file that names them")
}

// Assign has nothing to choose: the hosts file names the addresses.
func (existing) Assign(_ context.Context, r *cluster.Record) (cluster.Nodes, error) {
	return r.Nodes, nil
}

// Foreign is nobody: the hosts file says which hosts are meant.
func (existing) Foreign(context.Context, *cluster.Record) error { return nil }

// Claim has no ids to claim.
func (existing) Claim(context.Context, *cluster.Record, *cluster.Record, progress.Sink) error {
	return nil
}

// Free has no ids to look at.
func (existing) InUse(context.Context, *cluster.Record, []string) error               { return nil }
func (existing) Free(context.Context, *cluster.Record, []string, progress.Sink) error { return nil }

// Release has nothing to give up.
func (existing) Release(context.Context, *cluster.Record, progress.Sink) {}

// Forget has nothing to give up.
func (existing) Forget(context.Context, *cluster.Record, progress.Sink) {}

// Verify has nothing to compare with.
func (existing) Verify(context.Context, *cluster.Record) error { return nil }

// Machines are not known of hosts that somebody else runs.
func (existing) Machines(_ context.Context, r *cluster.Record) []lifecycle.Machine {
	return make([]lifecycle.Machine, len(r.Nodes))
}

// Restart has nothing that waits for a restart.
func (existing) Restart(context.Context, *cluster.Record, cluster.Node) (bool, error) {
	return false, nil
}

// Tell has nobody to ask but the hosts themselves.
func (existing) Tell(context.Context, *cluster.Record, cluster.Node) []lifecycle.Told { return nil }

// TellInside has no other way into a host than SSH.
func (existing) TellInside(context.Context, *cluster.Record, cluster.Node) []lifecycle.Told {
	return nil
}

// Addresses are those of the hosts file.
func (existing) Addresses(_ context.Context, r *cluster.Record, _ progress.Sink) (cluster.Nodes, error) {
	return r.Nodes, nil
}

// HostKeys are learnt at the first contact: there is no other verified path.
func (existing) HostKeys(context.Context, *cluster.Record, cluster.Node) ([]string, error) {
	return nil, nil
}

// Power is not known of a host that somebody else runs.
func (existing) Power(_ context.Context, r *cluster.Record) []lifecycle.Power {
	powers := make([]lifecycle.Power, len(r.Nodes))
	for i, node := range r.Nodes {
		powers[i] = lifecycle.Power{Power: "unknown", Agent: "unknown", Management: node.Management, Data: node.Data}
	}
	return powers
}

// Warnings has no tasks to ask for.
func (existing) Warnings(context.Context, *cluster.Record, time.Time) {}

// Mark has no VMs to mark.
func (existing) Mark(context.Context, *cluster.Record) error { return nil }

// Remaining is empty: no VM here is ours to delete.
func (existing) Remaining(context.Context, *cluster.Record) ([]lifecycle.VMRef, error) {
	return nil, nil
}

// Destroy refuses: existing hosts are never deleted.
func (existing) Destroy(_ context.Context, r *cluster.Record, _ []lifecycle.VMRef) error {
	return fmt.Errorf("the hosts of cluster %q are not ours to delete", r.Name)
}

// Quorum is nothing that hosts need.
func (existing) Quorum(context.Context) error { return nil }

// Unprotect has nothing to take off: no VM here is ours.
func (existing) Unprotect(context.Context, *cluster.Record, lifecycle.VMRef) error { return nil }

// Sweep has nothing to look after.
func (existing) Sweep(context.Context, *cluster.Record, []lifecycle.VMRef, progress.Sink) error {
	return nil
}
