package cli

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/progress"
	"hive-test/pkg/proxmox"
)

// proxmoxFleet is a cluster's VMs as Proxmox VE shows them.
type proxmoxFleet struct {
	client  *proxmox.Client
	idRange proxmox.IDRange
	idBase  int
	// parallelism is how many VMs are deleted at a time; 0 is all.
	parallelism int
	claiming    claimSettings
	claims      *proxmox.Claims // nil until something is claimed
	checks      checks
	beat        *proxmox.Heartbeat // nil where no run is to be told of
	// unreleased says that a claim could not be given up last time.
	unreleased bool
	// addresses are those of the other clusters of this clusters directory, with who has each.
	addresses func() (map[netip.Addr]string, error)
}

var _ lifecycle.Fleet = (*proxmoxFleet)(nil)

// Preflight reports what failed or is doubtful.
func (f *proxmoxFleet) Preflight(ctx context.Context, r *cluster.Record) ([]lifecycle.Finding, error) {
	if f.checks.skip {
		return nil, ctx.Err()
	}
	var findings []lifecycle.Finding
	for _, found := range f.findings(ctx, r) {
		if found.Status == proxmox.Pass || found.Status == proxmox.Skip {
			continue
		}
		findings = append(findings, lifecycle.Finding{ID: found.ID, Title: found.Title, Detail: found.Detail, Fix: found.Fix, Warn: found.Status == proxmox.Warn})
	}
	return findings, ctx.Err()
}

// findings are those of every check there is, for up and doctor alike. VMs of ours that exist already are not in their own way.
// Without a client only what is not Proxmox VE's is checked.
func (f *proxmoxFleet) findings(ctx context.Context, r *cluster.Record) []proxmox.Finding {
	request := proxmox.PreflightRequest{
		Spec: r.Spec, Nodes: r.Nodes, Pool: r.Target.Pool, IDRange: f.idRange, IDBase: f.idBase,
		CPUOvercommit: f.checks.cpu, Login: f.checks.login, More: f.checks.more,
	}
	if f.checks.healthy != nil && f.checks.healthy() {
		request.LiveOnly, request.More = true, nil
	}
	if f.client == nil {
		return proxmox.Preflight(ctx, nil, request)
	}
	request.TokenID, request.Endpoint = f.client.TokenID(), f.client.Endpoint()
	if _, begun := r.Phases[cluster.PhaseUp]; !begun {
		request.Name = r.Name // what else carries the name of one that is there is for reap to judge
		return proxmox.Preflight(ctx, f.client, request)
	}
	for i, state := range f.states(ctx, r) {
		if state.ours {
			request.OwnIDs = append(request.OwnIDs, r.Nodes[i].VMID)
		}
	}
	return proxmox.Preflight(ctx, f.client, request)
}

// Reserve chooses free ids. What cannot be chosen because the API cannot be used is left to Preflight to explain.
func (f *proxmoxFleet) Reserve(ctx context.Context, r *cluster.Record) (cluster.Nodes, error) {
	request := f.choice(r, r.Nodes)
	request.Count, request.Seed = r.Spec.NodeCount-len(r.Nodes), seed()
	// What others have claimed is left alone where there is room elsewhere; else the claim will wait for them.
	avoiding := request
	avoiding.Taken = f.claimed(ctx, r)
	nodes, err := proxmox.Choose(ctx, f.client, avoiding)
	if err != nil && len(avoiding.Taken) > 0 {
		nodes, err = proxmox.Choose(ctx, f.client, request)
	}
	if err != nil {
		if findings, _ := f.Preflight(ctx, r); hasFatal(findings) {
			return nil, &lifecycle.PreflightError{Findings: fatal(findings)}
		}
		return nil, &lifecycle.PreflightError{Findings: []lifecycle.Finding{{ID: "pve-ids", Title: "free VM ids", Detail: err.Error(), Fix: progress.HintOf(err)}}}
	}
	return nodes, nil
}

// claimed are ids that others have claimed. Where no answer comes, claiming finds out.
func (f *proxmoxFleet) claimed(ctx context.Context, r *cluster.Record) []int {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	ids, _ := proxmox.Claimed(ctx, f.client, r.Owner.ID)
	return ids
}

// choice is how ids of nodes beside those that are present are chosen.
func (f *proxmoxFleet) choice(r *cluster.Record, present cluster.Nodes) proxmox.ReserveRequest {
	request := proxmox.ReserveRequest{Name: r.Name, Present: present, Range: f.idRange, Base: f.idBase}
	for _, h := range r.Spec.Hypervisors {
		request.Hypervisors = append(request.Hypervisors, h.Name)
	}
	return request
}

// Assign fills in templates' places and static addresses. What the API cannot tell is left to Preflight to explain.
func (f *proxmoxFleet) Assign(ctx context.Context, r *cluster.Record) (cluster.Nodes, error) {
	taken, err := f.addresses()
	if err != nil {
		return nil, err
	}
	nodes, err := f.located(ctx, r)
	if err == nil {
		nodes, err = proxmox.Assign(ctx, f.client, proxmox.AssignRequest{Spec: r.Spec, Nodes: nodes, Taken: taken})
	}
	if err != nil {
		if findings, _ := f.Preflight(ctx, r); hasFatal(findings) {
			return nil, &lifecycle.PreflightError{Findings: fatal(findings)}
		}
		return nil, &lifecycle.PreflightError{Findings: []lifecycle.Finding{{
			ID: "pve-addresses", Title: "free addresses", Detail: err.Error(), Fix: "widen network.addresses and network.data_addresses, or remove clusters that hold addresses: hive-test status lists them",
		}}}
	}
	return nodes, nil
}

func fatal(findings []lifecycle.Finding) []lifecycle.Finding {
	var left []lifecycle.Finding
	for _, f := range findings {
		if !f.Warn {
			left = append(left, f)
		}
	}
	return left
}

func hasFatal(findings []lifecycle.Finding) bool { return len(fatal(findings)) > 0 }

// seed makes two runs that choose ids at the same moment choose different ones.
func seed() uint64 {
	var raw [8]byte
	_, _ = rand.Read(raw[:]) // crypto/rand.Read does not fail
	return binary.LittleEndian.Uint64(raw[:])
}

// vmState is what a live look at one node's VM id found.
type vmState struct {
	vm   proxmox.VM
	ours bool
	why  string // why it is not ours
	err  error
}

// states looks at every node's VM at once, by live calls, never by the listing that lags. Only a VM that is not where it was
// made is looked for there: people and high availability move VMs.
func (f *proxmoxFleet) states(ctx context.Context, r *cluster.Record) []vmState {
	states := make([]vmState, len(r.Nodes))
	var wait sync.WaitGroup
	for i, node := range r.Nodes {
		wait.Go(func() { states[i] = f.look(ctx, r, node.Hypervisor, node.VMID) })
	}
	wait.Wait()
	if !slices.ContainsFunc(states, func(s vmState) bool { return errors.Is(s.err, proxmox.ErrNotFound) }) {
		return states
	}
	listed, err := f.client.VMs(ctx)
	if err != nil {
		return states // what was found so far stands
	}
	for i, node := range r.Nodes {
		if at := indexOf(listed, node.VMID); at >= 0 && errors.Is(states[i].err, proxmox.ErrNotFound) {
			wait.Go(func() { states[i] = f.look(ctx, r, listed[at].Hypervisor, node.VMID) })
		}
	}
	wait.Wait()
	return states
}

// look looks at one VM id on one hypervisor.
func (f *proxmoxFleet) look(ctx context.Context, r *cluster.Record, hypervisor string, vmid int) vmState {
	vm, err := f.client.VM(ctx, hypervisor, vmid)
	state := vmState{vm: vm, err: err}
	if err == nil {
		vm.Pool = r.Target.Pool // only the listing knows it; ownership is decided by tags and owner id
		state.ours, state.why = proxmox.Ours(vm, r.Name, r.Owner.ID, r.Target.Pool)
	}
	return state
}

func indexOf(listed []proxmox.VM, vmid int) int {
	return slices.IndexFunc(listed, func(vm proxmox.VM) bool { return vm.VMID == vmid })
}

// located are the record's nodes, each at the hypervisor that its VM is on now. What has no VM yet, or somebody else's, stays.
func (f *proxmoxFleet) located(ctx context.Context, r *cluster.Record) (cluster.Nodes, error) {
	nodes := slices.Clone(r.Nodes)
	if _, begun := r.Phases[cluster.PhaseUp]; !begun || f.client == nil {
		return nodes, nil
	}
	for i, state := range f.states(ctx, r) {
		if state.err == nil && state.ours {
			nodes[i].Hypervisor = state.vm.Hypervisor
		}
	}
	return nodes, ctx.Err()
}

// reachTime is how long a hypervisor that does not answer is asked again: all is made, and should not fail for that.
const reachTime = 30 * time.Second

// reached is states, asked again while one of them could not be reached.
func (f *proxmoxFleet) reached(ctx context.Context, r *cluster.Record) []vmState {
	end := time.Now().Add(reachTime)
	for {
		states := f.states(ctx, r)
		away := slices.ContainsFunc(states, func(s vmState) bool { return errors.Is(s.err, proxmox.ErrUnreachable) })
		if !away || time.Now().After(end) {
			return states
		}
		select {
		case <-ctx.Done():
			return states
		case <-time.After(time.Second):
		}
	}
}

// Verify proves that every VM exists and is ours.
func (f *proxmoxFleet) Verify(ctx context.Context, r *cluster.Record) error {
	var failures []error
	for i, state := range f.reached(ctx, r) {
		node := r.Nodes[i]
		switch {
		case state.err != nil:
			failures = append(failures, fmt.Errorf("%s: VM %d on %s: %w", node.Name, node.VMID, node.Hypervisor, state.err))
		case !state.ours:
			failures = append(failures, fmt.Errorf("%s: VM %d on %s is not ours: %s", node.Name, node.VMID, node.Hypervisor, state.why))
		}
	}
	if r.Spec.Network.Static() { // two runs on two machines may have chosen alike before either had a VM to show it
		failures = append(failures, proxmox.Clashes(ctx, f.client, r.Nodes))
	}
	return errors.Join(failures...)
}

// Machines tells each VM from one that was made anew in its place. It asks once: what cannot be told is no reason to wait.
func (f *proxmoxFleet) Machines(ctx context.Context, r *cluster.Record) []lifecycle.Machine {
	machines := make([]lifecycle.Machine, len(r.Nodes))
	for i, state := range f.states(ctx, r) {
		node := r.Nodes[i]
		switch {
		case errors.Is(state.err, proxmox.ErrNotFound):
			machines[i] = lifecycle.Machine{Gone: true, Err: fmt.Errorf("VM %d of %s does not exist any more", node.VMID, node.Name)}
		case state.err != nil:
			machines[i].Err = state.err
		case !state.ours:
			machines[i] = lifecycle.Machine{Gone: true, Err: fmt.Errorf("VM %d, which was that of %s, is not ours: %s", node.VMID, node.Name, state.why)}
		default:
			machines[i].ID = state.vm.Machine
		}
	}
	return machines
}

// Restart restarts the node's VM if settings of it wait for its next start.
func (f *proxmoxFleet) Restart(ctx context.Context, r *cluster.Record, node cluster.Node) (bool, error) {
	waiting, err := f.client.PendingSettings(ctx, node.Hypervisor, node.VMID)
	if err != nil || len(waiting) == 0 {
		return false, err
	}
	one := *r
	one.Nodes = cluster.Nodes{node}
	if err := f.Verify(ctx, &one); err != nil {
		return false, err
	}
	return true, f.client.Restart(ctx, node.Hypervisor, node.VMID)
}

// Addresses waits for both addresses of every node. Nothing is asked of a node whose addresses were chosen: it may have no
// guest agent.
func (f *proxmoxFleet) Addresses(ctx context.Context, r *cluster.Record, sink progress.Sink) (cluster.Nodes, error) {
	nodes := slices.Clone(r.Nodes)
	var asked cluster.Nodes
	for i, n := range nodes {
		if n.StaticManagement.IsValid() && n.StaticData.IsValid() {
			nodes[i].Management, nodes[i].Data = n.StaticManagement.Addr(), n.StaticData.Addr()
			continue
		}
		asked = append(asked, n)
	}
	found, err := proxmox.WaitAddresses(ctx, f.client, asked, sink)
	for i := range nodes {
		if at := slices.IndexFunc(found, func(n cluster.Node) bool { return n.VMID == nodes[i].VMID }); at >= 0 {
			nodes[i] = found[at]
		}
	}
	return nodes, err
}

// hostKeyFiles are the public host keys that are read from a node, best first.
var hostKeyFiles = []string{"/etc/ssh/ssh_host_ed25519_key.pub", "/etc/ssh/ssh_host_ecdsa_key.pub"}

// HostKeys reads a node's public host keys through the guest agent, over the verified API.
func (f *proxmoxFleet) HostKeys(ctx context.Context, _ *cluster.Record, node cluster.Node) ([]string, error) {
	var failure error
	for _, path := range hostKeyFiles {
		raw, err := f.client.ReadFile(ctx, node.Hypervisor, node.VMID, path)
		if err == nil && len(strings.TrimSpace(string(raw))) > 0 {
			return []string{strings.TrimSpace(string(raw))}, nil
		}
		failure = errors.Join(failure, err)
		if errors.Is(err, proxmox.ErrAgentNotRunning) || errors.Is(err, proxmox.ErrAgentDisabled) {
			break // it would cost the same time again
		}
	}
	return nil, failure
}

// Power tells each node's live power state, agent and addresses.
func (f *proxmoxFleet) Power(ctx context.Context, r *cluster.Record) []lifecycle.Power {
	powers := make([]lifecycle.Power, len(r.Nodes))
	states := f.states(ctx, r)
	var wait sync.WaitGroup
	for i, state := range states {
		powers[i] = lifecycle.Power{Power: powerWord(state), Agent: "unknown"}
		if state.err != nil || !state.ours {
			continue
		}
		if !state.vm.AgentEnabled {
			powers[i].Agent = "off"
			continue
		}
		if state.vm.Status != "running" {
			continue
		}
		wait.Go(func() { f.agent(ctx, r.Nodes[i], &powers[i]) })
	}
	wait.Wait()
	return powers
}

func powerWord(state vmState) string {
	switch {
	case errors.Is(state.err, proxmox.ErrNotFound):
		return "missing"
	case state.err != nil:
		return "unknown"
	case !state.ours:
		return "foreign"
	}
	return state.vm.Status
}

// agent asks the guest agent for the addresses that the node has now.
func (f *proxmoxFleet) agent(ctx context.Context, node cluster.Node, power *lifecycle.Power) {
	interfaces, err := f.client.Interfaces(ctx, node.Hypervisor, node.VMID)
	if err != nil {
		power.Agent = "silent"
		return
	}
	power.Agent = "ok"
	power.Management = proxmox.AddressOf(interfaces, node.ManagementMAC, node.Management)
	power.Data = proxmox.AddressOf(interfaces, node.DataMAC, node.Data)
}

// Remaining lists the VMs of ours that exist: those of the record, and any other that carries our owner id.
func (f *proxmoxFleet) Remaining(ctx context.Context, r *cluster.Record) ([]lifecycle.VMRef, error) {
	ours, _, err := f.survey(ctx, r)
	return ours, err
}

// Foreign is an error that names every id of the record under which there is a VM that is not ours.
func (f *proxmoxFleet) Foreign(ctx context.Context, r *cluster.Record) error {
	_, foreign, err := f.survey(ctx, r)
	return errors.Join(append(foreign, err)...)
}

// survey looks live at every VM that has an id of the record, wherever it is, and at every other one tagged as ours. One that
// a run which died has begun to make is waited for.
func (f *proxmoxFleet) survey(ctx context.Context, r *cluster.Record) (ours []lifecycle.VMRef, foreign []error, err error) {
	candidates, live, errs, err := f.candidates(ctx, r)
	if err == nil && slices.ContainsFunc(live, func(vm proxmox.VM) bool { return unsettled(r, vm) }) {
		if err = f.awaitMaking(ctx, r, false, progress.Discard); err == nil {
			candidates, live, errs, err = f.candidates(ctx, r)
		}
	}
	if err != nil {
		return nil, nil, err
	}
	var failures []error
	for i, vm := range live {
		if errors.Is(errs[i], proxmox.ErrNotFound) || errs[i] != nil && !related(r, candidates[i]) {
			continue
		}
		if errs[i] != nil {
			failures = append(failures, fmt.Errorf("VM %d on %s: %w", candidates[i].VMID, candidates[i].Hypervisor, errs[i]))
			continue
		}
		if mine, why := proxmox.Ours(vm, r.Name, r.Owner.ID, r.Target.Pool); mine {
			ours = append(ours, refOf(vm))
		} else if name, owner, _ := cluster.ParseOwner(vm.Description); owner == r.Owner.ID && name != r.Name {
			foreign = append(foreign, progress.WithHint(fmt.Errorf("VM %d %s on %s has the owner id %s, and is of cluster %s, not %s", vm.VMID, vm.Name, vm.Hypervisor, owner, name, r.Name),
				fmt.Sprintf("hive-test down %s --owner %s", name, owner)))
		} else if recorded(r, vm.VMID) {
			foreign = append(foreign, fmt.Errorf("VM %d %s on %s is not ours: %s", vm.VMID, vm.Name, vm.Hypervisor, why))
		}
	}
	return ours, foreign, errors.Join(failures...)
}

// candidates reads live what may be ours: where it was listed, and of each the VM or why it cannot be read.
func (f *proxmoxFleet) candidates(ctx context.Context, r *cluster.Record) (listed, live []proxmox.VM, errs []error, err error) {
	all, err := f.client.VMs(ctx)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("listing the VMs: %w", err)
	}
	listed = candidatesOf(r, all)
	live, errs = make([]proxmox.VM, len(listed)), make([]error, len(listed))
	var wait sync.WaitGroup
	for i, vm := range listed {
		wait.Go(func() { live[i], errs[i] = f.client.Live(ctx, vm) })
	}
	wait.Wait()
	return listed, live, errs, nil
}

// candidatesOf returns, by id, the VMs that may be ours. What the listing does not show (it lags, and hides what the
// token may not see) is looked for where the record says. Where it says nothing, all there is to go by is an owner id, which
// may be that of a cluster of another name.
func candidatesOf(r *cluster.Record, listed []proxmox.VM) []proxmox.VM {
	byID := map[int]proxmox.VM{}
	for _, node := range r.Nodes {
		byID[node.VMID] = proxmox.VM{VMID: node.VMID, Name: node.Name, Hypervisor: node.Hypervisor, Type: "qemu", Pool: r.Target.Pool}
	}
	for _, vm := range listed {
		if related(r, vm) || len(r.Nodes) == 0 && vm.Type == "qemu" && vm.HasTag(cluster.Tag) {
			byID[vm.VMID] = vm
		}
	}
	candidates := slices.Collect(maps.Values(byID))
	slices.SortFunc(candidates, func(a, b proxmox.VM) int { return a.VMID - b.VMID })
	return candidates
}

// related tells whether the record names the VM, or the VM the cluster.
func related(r *cluster.Record, vm proxmox.VM) bool {
	return recorded(r, vm.VMID) || vm.Type == "qemu" && vm.HasTag(cluster.Tag) && vm.HasTag(string(r.Name))
}

func recorded(r *cluster.Record, vmid int) bool {
	return slices.ContainsFunc(r.Nodes, func(n cluster.Node) bool { return n.VMID == vmid })
}
