// Package proxmox is a cluster's VMs as Proxmox VE shows them: what lifecycle asks of its Fleet and its Reaper,
// answered through its API. VMs are looked at live before anything is done to them, and only those of ours are touched.
package proxmox

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/deploy/proxmox/api"
)

// Options are what a fleet is used with.
type Options struct {
	// Client is the way to Proxmox VE; nil for Findings of what is not Proxmox VE's only.
	Client  *api.Client
	IDRange api.IDRange
	IDBase  int // the first id to choose; 0 lets the name decide
	// Parallelism is how many VMs are changed at a time; 0 is all.
	Parallelism int
	// LockDir holds the locks of this machine on VM ids, and ClaimLasts is how long a lease of a run that vanished
	// keeps others away.
	LockDir    string
	ClaimLasts time.Duration
	Checks     Checks
	// Taken are addresses that nodes must not get, with who has each.
	Taken func() (map[netip.Addr]string, error)
}

// Checks is what is looked at before up besides Proxmox VE itself.
type Checks struct {
	More []api.Check
	// nil: nobody logs in there
	Login         func(ctx context.Context, h placement.Hypervisor, snippets string) (problem, fix string)
	CPUOvercommit int
	Healthy       func() bool // whether all was well a moment ago; nil: not known
	Skip          bool
}

// Fleet is a cluster's VMs as Proxmox VE shows them. It serves one run of one cluster.
type Fleet struct {
	Options
	leases *api.IDLeases  // of VM ids; nil until something is leased
	beat   *api.Heartbeat // nil where no run is to be told of
	// unreleased says that a lease could not be given up last time.
	unreleased bool
	// keepSnippets leaves snippets to whoever deletes all of the cluster's at the end.
	keepSnippets bool
	// unlooked are hypervisors of which it was told that nobody could look for snippets there.
	unlooked *sync.Map
}

// New makes a fleet. Nothing is asked of Proxmox VE yet.
func New(o Options) *Fleet { return &Fleet{Options: o, unlooked: new(sync.Map)} }

// CallLimit bounds one call of what goes on without an answer. A refused login and a hypervisor that is off the network
// take 3 s (observed on PVE 8.4), and an API that is slow and works may take longer.
const CallLimit = 10 * time.Second

// Provisioner makes and removes VMs, as deploy.Deployer and deploy.PlanReader say.
type Provisioner interface {
	Up(ctx context.Context, r deploy.Request) (deploy.Result, error)
	Plan(ctx context.Context, r deploy.Request) (deploy.Plan, error)
	PlanText(ctx context.Context, r deploy.Request) (string, error)
	Down(ctx context.Context, r deploy.Request) error
	Refresh(ctx context.Context, r deploy.Request) (deploy.Refreshed, error)
}

// Deployer makes a cluster's VMs by a provisioner, and does all else by asking Proxmox VE.
type Deployer struct {
	*Fleet
	// Provisioner returns what makes and removes VMs. It is asked when that is needed: what it is told is known only
	// when the run has begun.
	Provisioner func() Provisioner
}

// It can do all that a deployer can.
var _ interface {
	deploy.Deployer
	deploy.Preflighter
	deploy.Reserver
	deploy.Leaser
	deploy.Owner
	deploy.Identifier
	deploy.Locator
	deploy.KeyReader
	deploy.PlanReader
	deploy.Diagnoser
	deploy.Restarter
	deploy.Switcher
	deploy.Remover
	deploy.RunLeaser
	deploy.Snapshotter
	deploy.Templater
	deploy.Inspector
	deploy.Refresher
} = Deployer{}

// Up makes VMs.
func (d Deployer) Up(ctx context.Context, r deploy.Request) (deploy.Result, error) {
	return d.Provisioner().Up(ctx, r)
}

// Plan returns what Up would do.
func (d Deployer) Plan(ctx context.Context, r deploy.Request) (deploy.Plan, error) {
	return d.Provisioner().Plan(ctx, r)
}

// PlanText returns the last plan for people.
func (d Deployer) PlanText(ctx context.Context, r deploy.Request) (string, error) {
	return d.Provisioner().PlanText(ctx, r)
}

// Refresh compares what Up has recorded with what is there.
func (d Deployer) Refresh(ctx context.Context, r deploy.Request) (deploy.Refreshed, error) {
	return d.Provisioner().Refresh(ctx, r)
}

// Down removes what Up has recorded.
func (d Deployer) Down(ctx context.Context, r deploy.Request) error {
	return d.Provisioner().Down(ctx, r)
}

// vmState is what a live look at one node's VM id found.
type vmState struct {
	vm   api.VM
	ours bool
	why  string // why it is not ours
	err  error
}

// states looks at every node's VM at once, by live calls, never by the listing that lags. Only a VM that is not where
// it was made is looked for there: people and high availability move VMs.
func (f *Fleet) states(ctx context.Context, r *cluster.Record) []vmState {
	states := make([]vmState, len(r.Nodes))
	var wait sync.WaitGroup
	for i, node := range r.Nodes {
		at := placement.Of(node)
		wait.Go(func() { states[i] = f.look(ctx, r, at.Hypervisor, at.VMID) })
	}
	wait.Wait()
	if !slices.ContainsFunc(states, func(s vmState) bool { return errors.Is(s.err, api.ErrNotFound) }) {
		return states
	}
	listed, err := f.Client.VMs(ctx)
	if err != nil {
		return states // what was found so far stands
	}
	for i, node := range r.Nodes {
		vm := placement.Of(node)
		if at := indexOf(listed, vm.VMID); at >= 0 && errors.Is(states[i].err, api.ErrNotFound) {
			wait.Go(func() { states[i] = f.look(ctx, r, listed[at].Hypervisor, vm.VMID) })
		}
	}
	wait.Wait()
	return states
}

// look looks at one VM id on one hypervisor.
func (f *Fleet) look(ctx context.Context, r *cluster.Record, hypervisor string, vmid int) vmState {
	vm, err := f.Client.VM(ctx, hypervisor, vmid)
	state := vmState{vm: vm, err: err}
	if err == nil {
		// only the listing knows it; ownership is decided by tags and owner id
		vm.Pool = placement.TargetOf(r.Target).Pool
		state.ours, state.why = api.Ours(vm, r.Name, r.Owner.ID, placement.TargetOf(r.Target).Pool)
	}
	return state
}

func indexOf(listed []api.VM, vmid int) int {
	return slices.IndexFunc(listed, func(vm api.VM) bool { return vm.VMID == vmid })
}

// located are the record's nodes, each at the hypervisor that its VM is on now. What has no VM yet, or somebody else's,
// stays.
func (f *Fleet) located(ctx context.Context, r *cluster.Record) (cluster.Nodes, error) {
	nodes := slices.Clone(r.Nodes)
	if _, begun := r.Phases[cluster.PhaseUp]; !begun || f.Client == nil {
		return nodes, nil
	}
	for i, state := range f.states(ctx, r) {
		if state.err == nil && state.ours {
			placement.Change(&nodes[i], func(v *placement.VM) { v.Hypervisor = state.vm.Hypervisor })
		}
	}
	return nodes, ctx.Err()
}
