package lifecycle

import (
	"context"
	"fmt"
	"sync"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/hive"
	"hive-test/pkg/remote"
)

// NodeStatus puts side by side what is recorded of a node, what its hypervisor says and what it answers itself.
type NodeStatus struct {
	cluster.Node
	Power  Power
	SSH    string // ok, or why not
	Health hive.NodeHealth
}

// Status is the state of a cluster at one moment.
type Status struct {
	Record  *cluster.Record
	Formed  bool
	Reasons []string
	Nodes   []NodeStatus
}

// statusTime bounds one look at a cluster.
const statusTime = 15 * time.Second

// Look reads the state of a cluster from every side at once; what does not answer is part of the answer.
func Look(ctx context.Context, r *Job) (Status, error) {
	ctx, cancel := context.WithTimeout(ctx, statusTime)
	defer cancel()
	status := Status{Record: r.Record, Nodes: make([]NodeStatus, len(r.Record.Nodes))}
	for i, node := range r.Record.Nodes {
		status.Nodes[i] = NodeStatus{Node: node, SSH: "unknown", Health: hive.NodeHealth{Peers: hive.PeersUnknown}}
	}
	var powers []Power
	var wait sync.WaitGroup
	wait.Go(func() { powers = r.Fleet.Power(ctx, r.Record) })
	health := hive.Health{Reasons: []string{fmt.Sprintf("it was not configured yet: hive-test configure %s", r.Record.Name)}}
	var reached []string
	_, configured := r.Record.Phases[cluster.PhaseConfigure]
	if addressed(r.Record.Nodes) {
		group, err := r.group()
		if err != nil {
			return status, err
		}
		handle, err := r.hive(r.Sink)
		if err != nil {
			return status, err
		}
		wait.Go(func() { reached = reach(ctx, group) })
		if configured {
			wait.Go(func() { health = handle.Check(ctx) })
		}
	}
	wait.Wait()
	for i := range status.Nodes {
		if i < len(powers) {
			status.Nodes[i].Power = powers[i]
		}
		if i < len(reached) {
			status.Nodes[i].SSH = reached[i]
		}
		if i < len(health.Nodes) {
			status.Nodes[i].Health = health.Nodes[i]
		}
	}
	status.Formed, status.Reasons = health.Formed, health.Reasons
	return status, nil
}

func addressed(nodes cluster.Nodes) bool {
	for _, node := range nodes {
		if !node.Management.IsValid() {
			return false
		}
	}
	return len(nodes) > 0
}

// reach runs a real command on every node and returns, in node order, ok or the reason why it could not.
func reach(ctx context.Context, group remote.Group) []string {
	answers := make([]string, len(group))
	var wait sync.WaitGroup
	for i, host := range group {
		wait.Go(func() {
			answers[i] = "ok"
			if _, err := host.Run(ctx, remote.Command{Argv: []string{"true"}, Timeout: statusTime}); err != nil {
				answers[i] = err.Error()
			}
		})
	}
	wait.Wait()
	return answers
}
