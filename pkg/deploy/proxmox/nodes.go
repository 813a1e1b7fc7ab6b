package proxmox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/deploy/proxmox/api"
	"hive-test/pkg/progress"
	"hive-test/pkg/wait"
)

// reachTime is how long a hypervisor that does not answer is asked again: all is made, and should not fail for that.
const reachTime = 30 * time.Second

// reached is states, asked again while one of them could not be reached.
func (f *Fleet) reached(ctx context.Context, r *cluster.Record) []vmState {
	end := time.Now().Add(reachTime)
	var states []vmState
	for range (wait.Backoff{First: time.Second}).Tries(ctx) {
		states = f.states(ctx, r)
		away := slices.ContainsFunc(states, func(s vmState) bool { return errors.Is(s.err, api.ErrUnreachable) })
		if !away || time.Now().After(end) {
			break
		}
	}
	return states
}

// Verify proves that every VM exists and is ours.
func (f *Fleet) Verify(ctx context.Context, r *cluster.Record) error {
	var failures []error
	for i, state := range f.reached(ctx, r) {
		node, err := r.Nodes[i], error(nil)
		switch {
		case state.err != nil:
			err = fmt.Errorf("%s: %s: %w", node.Name, vmOf(node), state.err)
		case !state.ours:
			err = fmt.Errorf("%s: %s is not ours: %s", node.Name, vmOf(node), state.why)
		}
		failures = append(failures, progress.WithNodes(err, node.Name))
	}
	if r.Spec.Network.Static() { // two runs on two machines may have chosen alike before either had a VM to show it
		failures = append(failures, api.Clashes(ctx, f.Client, r.Nodes))
	}
	return errors.Join(failures...)
}

// Machines tells each VM from one that was made anew in its place. It asks once: what cannot be told is no reason to
// wait.
func (f *Fleet) Machines(ctx context.Context, r *cluster.Record) []deploy.Machine {
	machines := make([]deploy.Machine, len(r.Nodes))
	for i, state := range f.states(ctx, r) {
		node := r.Nodes[i]
		switch {
		case errors.Is(state.err, api.ErrNotFound):
			machines[i] = deploy.Machine{
				Gone: true, Err: fmt.Errorf("VM %d of %s does not exist any more", placement.Of(node).VMID, node.Name),
			}
		case state.err != nil:
			machines[i].Err = state.err
		case !state.ours:
			machines[i] = deploy.Machine{
				Gone: true,
				Err: fmt.Errorf(
					"VM %d, which was that of %s, is not ours: %s", placement.Of(node).VMID, node.Name, state.why,
				),
			}
		default:
			machines[i].ID = state.vm.Machine
		}
	}
	return machines
}

// Restart restarts the node's VM if settings of it wait for its next start.
func (f *Fleet) Restart(ctx context.Context, r *cluster.Record, node cluster.Node) (bool, error) {
	at := placement.Of(node)
	waiting, err := f.Client.PendingSettings(ctx, at.Hypervisor, at.VMID)
	if err != nil || len(waiting) == 0 {
		return false, err
	}
	one := *r
	one.Nodes = cluster.Nodes{node}
	if err := f.Verify(ctx, &one); err != nil {
		return false, err
	}
	return true, f.Client.Restart(ctx, at.Hypervisor, at.VMID)
}

// SwitchOff switches the node's VM off at once.
func (f *Fleet) SwitchOff(ctx context.Context, r *cluster.Record, node cluster.Node) error {
	return f.switched(ctx, r, node, f.Client.Stop)
}

// SwitchOn switches the node's VM on.
func (f *Fleet) SwitchOn(ctx context.Context, r *cluster.Record, node cluster.Node) error {
	return f.switched(ctx, r, node, func(ctx context.Context, hypervisor string, vmid int) error {
		vm, err := f.Client.VM(ctx, hypervisor, vmid)
		if err != nil || vm.Status == "running" {
			return err
		}
		return f.Client.Start(ctx, hypervisor, vmid)
	})
}

// switched acts on the node's VM, which must be ours.
func (f *Fleet) switched(
	ctx context.Context, r *cluster.Record, node cluster.Node, act func(context.Context, string, int) error,
) error {
	one := *r
	one.Nodes = cluster.Nodes{node}
	if err := f.Verify(ctx, &one); err != nil {
		return err
	}
	at := placement.Of(node)
	if err := act(ctx, at.Hypervisor, at.VMID); err != nil {
		return fmt.Errorf("VM %d of %s: %w", at.VMID, node.Name, err)
	}
	return nil
}

// Addresses waits for both addresses of every node. Nothing is asked of a node whose addresses were chosen: it may have
// no guest agent.
func (f *Fleet) Addresses(ctx context.Context, r *cluster.Record, sink progress.Sink) (cluster.Nodes, error) {
	nodes := slices.Clone(r.Nodes)
	var asked cluster.Nodes
	for i, n := range nodes {
		if n.StaticManagement.IsValid() && n.StaticData.IsValid() {
			nodes[i].Management, nodes[i].Data = n.StaticManagement.Addr(), n.StaticData.Addr()
			continue
		}
		asked = append(asked, n)
	}
	found, err := api.WaitAddresses(ctx, f.Client, asked, sink)
	for i := range nodes {
		if at := slices.IndexFunc(
			found, func(n cluster.Node) bool { return placement.Of(n).VMID == placement.Of(nodes[i]).VMID },
		); at >= 0 {
			nodes[i] = found[at]
		}
	}
	return nodes, err
}

// hostKeyFiles are the public host keys that are read from a node, best first.
var hostKeyFiles = []string{"/etc/ssh/ssh_host_ed25519_key.pub", "/etc/ssh/ssh_host_ecdsa_key.pub"}

// HostKeys reads a node's public host keys through the guest agent, over the verified API.
func (f *Fleet) HostKeys(ctx context.Context, _ *cluster.Record, node cluster.Node) ([]string, error) {
	at := placement.Of(node)
	var failure error
	for _, path := range hostKeyFiles {
		raw, err := f.Client.ReadFile(ctx, at.Hypervisor, at.VMID, path)
		if err == nil && len(strings.TrimSpace(string(raw))) > 0 {
			return []string{strings.TrimSpace(string(raw))}, nil
		}
		failure = errors.Join(failure, err)
		if errors.Is(err, api.ErrAgentNotRunning) || errors.Is(err, api.ErrAgentDisabled) {
			break // it would cost the same time again
		}
	}
	return nil, failure
}

// Power tells each node's live power state, agent and addresses.
func (f *Fleet) Power(ctx context.Context, r *cluster.Record) []deploy.Power {
	powers := make([]deploy.Power, len(r.Nodes))
	states := f.states(ctx, r)
	var wait sync.WaitGroup
	for i, state := range states {
		powers[i] = deploy.Power{Power: powerWord(state), Agent: "unknown"}
		if state.err != nil && powers[i].Power == "unknown" {
			powers[i].Why = state.err.Error()
		}
		if state.err != nil || !state.ours {
			_, _, owned := cluster.ParseOwner(state.vm.Description)
			powers[i].Unmarked = !owned || hasOwner(r, state.vm)
			continue
		}
		powers[i].Lock, powers[i].Host = state.vm.Lock, state.vm.Hypervisor
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
	case errors.Is(state.err, api.ErrNotFound):
		return "missing"
	case state.err != nil:
		return "unknown"
	case !state.ours:
		return "foreign"
	}
	return state.vm.Status
}

// agent asks the guest agent for the addresses that the node has now.
func (f *Fleet) agent(ctx context.Context, node cluster.Node, power *deploy.Power) {
	at := placement.Of(node)
	interfaces, err := f.Client.Interfaces(ctx, at.Hypervisor, at.VMID)
	if err != nil {
		power.Agent = "silent"
		return
	}
	power.Agent = "ok"
	power.Management = api.AddressOf(interfaces, at.ManagementMAC, node.Management)
	power.Data = api.AddressOf(interfaces, at.DataMAC, node.Data)
}

// vmOf names a node's VM.
func vmOf(node cluster.Node) string {
	at := placement.Of(node)
	return fmt.Sprintf("VM %d on %s", at.VMID, at.Hypervisor)
}
