// Package deploy is the contract between a cluster's life and what makes and removes its machines. A deployer can plan,
// make, remove and describe machines; what else it can do is in small interfaces beside that, which Of finds.
package deploy

import (
	"context"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/progress"
)

// Names of deployers, as a specification has them.
const (
	Proxmox  = "proxmox"
	Existing = cluster.DeployerExisting
	// SimHosts makes VMs of a simulated Proxmox VE without OpenTofu.
	SimHosts = "simhosts"
)

// Deployers returns the names of all of them.
func Deployers() []string { return []string{Proxmox, Existing, SimHosts} }

// Deployer makes, removes and describes the machines of clusters. Calls for one cluster must not overlap; calls for
// different clusters may, in this process and in others. Up and Down can be repeated after any failure.
type Deployer interface {
	// Up makes everything exist as asked for and returns once all machines are started; they may still be booting. A
	// plan that would delete or replace what was completely made, or change it so that a restart is needed, is not
	// applied unless the request allows it: the error is a *RefusedError. Up restarts nothing itself: such changes wait
	// for the next start. On cancellation it waits for the work in hand to be recorded, and the error matches
	// context.Canceled.
	Up(ctx context.Context, r Request) (Result, error)
	// Plan returns what Up would do, and does nothing: nothing is written below r.Dir, and hypervisors are only read.
	Plan(ctx context.Context, r Request) (Plan, error)
	// Down removes everything that Up recorded in r.Dir, using what Up wrote there. It succeeds if nothing was
	// recorded. Only r.Dir is needed; r.Spec.Hypervisors, if set, replace how hypervisors were reached at the time.
	Down(ctx context.Context, r Request) error
	// Power returns the live state of every node, in order. It never fails as a whole.
	Power(ctx context.Context, r *cluster.Record) []Power
}

// Capable is a deployer with what else it can do. What it cannot is nil.
type Capable struct {
	Deployer
	Preflight Preflighter
	Reserve   Reserver
	Lease     Leaser
	Owner     Owner
	Identify  Identifier
	Addresses Locator
	HostKeys  KeyReader
	Plans     PlanReader
	Diagnose  Diagnoser
	Observe   Observer
	Restart   Restarter
	Switch    Switcher
	Remove    Remover
	Runs      RunLeaser
	Room      RoomFinder
	Snapshots Snapshotter
	Templates Templater
	Relay     Relayer
	Inspect   Inspector
	Refresh   Refresher
}

// Of returns a deployer with all that it can do.
func Of(d Deployer) Capable {
	c := Capable{Deployer: d}
	c.Preflight, _ = d.(Preflighter)
	c.Reserve, _ = d.(Reserver)
	c.Lease, _ = d.(Leaser)
	c.Owner, _ = d.(Owner)
	c.Identify, _ = d.(Identifier)
	c.Addresses, _ = d.(Locator)
	c.HostKeys, _ = d.(KeyReader)
	c.Plans, _ = d.(PlanReader)
	c.Diagnose, _ = d.(Diagnoser)
	c.Observe, _ = d.(Observer)
	c.Restart, _ = d.(Restarter)
	c.Switch, _ = d.(Switcher)
	c.Remove, _ = d.(Remover)
	c.Runs, _ = d.(RunLeaser)
	c.Room, _ = d.(RoomFinder)
	c.Snapshots, _ = d.(Snapshotter)
	c.Templates, _ = d.(Templater)
	c.Relay, _ = d.(Relayer)
	c.Inspect, _ = d.(Inspector)
	c.Refresh, _ = d.(Refresher)
	return c
}

// Makes reports whether the machines are made and removed by the deployer. Else they were there before, and stay.
func (c Capable) Makes() bool { return c.Remove != nil }

// RoomFinder tells how much room there is for machines.
type RoomFinder interface {
	// FreeMemory is the memory that the hypervisors of the record's specification have left, in MiB.
	FreeMemory(ctx context.Context, r *cluster.Record) (int, error)
}

// Preflighter finds out beforehand what stands in the way of up.
type Preflighter interface {
	// Preflight checks, changing nothing, that up can succeed; the result is empty if it can. Anew says that machines
	// that exist may be deleted and made anew: what that takes is checked, too.
	Preflight(ctx context.Context, r *cluster.Record, anew bool) ([]Finding, error)
}

// Reserver chooses what machines will be.
type Reserver interface {
	// Reserve chooses id, hypervisor and MACs of every node that the specification asks for and the record lacks, and
	// returns those only.
	Reserve(ctx context.Context, r *cluster.Record) (cluster.Nodes, error)
	// Assign returns the record's nodes with what is still open filled in: where the template of each is, and its
	// static addresses. What was chosen before stays, except the hypervisor of a VM that others have moved.
	Assign(ctx context.Context, r *cluster.Record) (cluster.Nodes, error)
}

// Leaser keeps other runs, on any machine, away from the ids of machines that do not exist yet.
type Leaser interface {
	// Acquire holds the ids of nodes whose machines do not exist yet until Release. Nodes that the record before did
	// not have (nil: none) may get other ids. Claims outlive a run that fails: the next run of the cluster goes on with
	// them, and ReleaseAll ends them: when all machines exist, or none do.
	Acquire(ctx context.Context, r, before *cluster.Record, sink progress.Sink) error
	// Release gives the claims of this run up.
	Release(ctx context.Context, r *cluster.Record, sink progress.Sink)
	// ReleaseAll gives up every claim of the cluster, also those of runs before that were cut off.
	ReleaseAll(ctx context.Context, r *cluster.Record, sink progress.Sink)
}

// Owner tells whose machines are, and writes it on them.
type Owner interface {
	// EnsureFree is an error unless the ids of the named nodes are free now. What an interrupted run left half made
	// there is deleted.
	EnsureFree(ctx context.Context, r *cluster.Record, nodes []string, sink progress.Sink) error
	// InUse is an error if the machine of one of the named nodes, which no up has finished, runs because somebody else
	// has started it.
	InUse(ctx context.Context, r *cluster.Record, nodes []string) error
	// CheckOwnership is an error if, live, a machine that is not ours has an id of the record. OpenTofu must not run
	// then: its state may name that machine. It is an *UnseenError if all that is wrong is that some cannot be read.
	CheckOwnership(ctx context.Context, r *cluster.Record) error
	// Verify proves by live calls that every machine of the record exists and is ours.
	Verify(ctx context.Context, r *cluster.Record) error
	// UpdateMetadata makes every machine of the record that exists say whose it is, until when, and whether it is held.
	UpdateMetadata(ctx context.Context, r *cluster.Record) error
}

// Identifier tells machines from others that take their place.
type Identifier interface {
	// Machines tells, in order and without waiting, which machine each node is now. It never fails as a whole.
	Machines(ctx context.Context, r *cluster.Record) []Machine
}

// Locator finds out where machines are.
type Locator interface {
	// Addresses waits until every node's two addresses are known.
	Addresses(ctx context.Context, r *cluster.Record, sink progress.Sink) (cluster.Nodes, error)
}

// KeyReader has a verified way to the host keys of machines.
type KeyReader interface {
	// HostKeys reads a node's SSH host keys.
	HostKeys(ctx context.Context, r *cluster.Record, node cluster.Node) ([]string, error)
}

// PlanReader shows what was planned.
type PlanReader interface {
	// PlanText returns the last plan that Up made in a directory, for people; empty if there is none. It changes
	// nothing.
	PlanText(ctx context.Context, r Request) (string, error)
}

// Diagnoser tells what is known of machines that do not answer.
type Diagnoser interface {
	// Describe tells what is known of a node's machine from outside it: its configuration, its state and its last tasks
	// with their logs. It tells what it can.
	Describe(ctx context.Context, r *cluster.Record, node cluster.Node) []Diagnostic
	// DescribeGuest asks the guest itself over what does not need its network: the guest agent.
	DescribeGuest(ctx context.Context, r *cluster.Record, node cluster.Node) []Diagnostic
	// Warnings passes on what tasks of the record's machines that began since then have warned of, and was not passed
	// on before: those that OpenTofu has started. It tells what it can.
	Warnings(ctx context.Context, r *cluster.Record, since time.Time)
}

// Observer tells what is done with machines while they are made.
type Observer interface {
	// Running returns what is done with the record's machines just now, by the names of their nodes, for people:
	// cloning 40%. It tells what it can.
	Running(ctx context.Context, r *cluster.Record) map[string]string
}

// Restarter restarts machines.
type Restarter interface {
	// Restart restarts the node's machine if changes of it wait for that, and reports whether it did.
	Restart(ctx context.Context, r *cluster.Record, node cluster.Node) (restarted bool, err error)
}

// Switcher switches machines off and on.
type Switcher interface {
	// SwitchOff switches the node's machine off at once, as if the power had failed. One that is off is no error.
	SwitchOff(ctx context.Context, r *cluster.Record, node cluster.Node) error
	// SwitchOn switches it on. One that is on is no error.
	SwitchOn(ctx context.Context, r *cluster.Record, node cluster.Node) error
}

// Remover proves that machines are gone, and deletes what Down has left.
type Remover interface {
	// Remaining lists, by live calls, the machines of ours that still exist. Where some cannot be read it lists the
	// others, and the error is an *UnseenError.
	Remaining(ctx context.Context, r *cluster.Record) ([]VMRef, error)
	// Quorum is an error if the hypervisors cannot agree on changes now: a deletion would lose disks and keep the
	// machines.
	Quorum(ctx context.Context) error
	// Unprotect takes the protection off a machine that Remaining listed, checking it once more.
	Unprotect(ctx context.Context, r *cluster.Record, vm VMRef) error
	// Destroy stops and deletes machines that Remaining listed, checking each once more, and waits for the result.
	Destroy(ctx context.Context, r *cluster.Record, vms []VMRef) error
	// CleanUp removes what machines that are gone have left behind, disks and snippets, and is an error if something is
	// still there. gone are the machines as Remaining listed them; those of the record may be gone for longer. What the
	// token may not look at is a warning.
	CleanUp(ctx context.Context, r *cluster.Record, gone []VMRef, sink progress.Sink) error
}

// RunLeaser tells other machines that a run is at work on a cluster, so that reap there leaves it alone.
type RunLeaser interface {
	// LeaseRun begins to tell so, and returns at once: Acquire waits until it can be seen.
	LeaseRun(ctx context.Context, run Run, sink progress.Sink) RunLease
}

// RunLease is what is told of a run until it ends. It takes the run's events.
type RunLease interface {
	progress.Sink
	// WarnUnseen waits until other machines can see the run, and warns if they never will.
	WarnUnseen(ctx context.Context, sink progress.Sink)
	// End takes the lease back, unless it is kept to tell reap what the run has left.
	End(ctx context.Context, keep bool)
}
