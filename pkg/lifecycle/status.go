package lifecycle

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/hive"
	"hive-test/pkg/remote"
)

// NodeStatus puts side by side what is recorded of a node, what its hypervisor says and what it answers itself.
type NodeStatus struct {
	cluster.Node
	Power  deploy.Power
	SSH    string // ok, or why not
	Health hive.NodeHealth
}

// Status is the state of a cluster at one moment.
type Status struct {
	Record *cluster.Record
	Formed bool
	// ClusterReasons are why it is not formed, without the errors of nodes.
	ClusterReasons []string
	Nodes          []NodeStatus
}

// Reasons returns why the cluster is not formed: the errors of nodes, in node order, then ClusterReasons.
func (s Status) Reasons() []string { return s.health().Reasons() }

func (s Status) health() hive.Health {
	health := hive.Health{Formed: s.Formed, ClusterReasons: s.ClusterReasons}
	for _, node := range s.Nodes {
		health.Nodes = append(health.Nodes, node.Health)
	}
	return health
}

// Notes are worth knowing of the cluster, and no faults.
func (s Status) Notes() []string {
	var unknown []string
	for _, node := range s.Nodes {
		if node.Power.Why != "" {
			unknown = append(
				unknown, fmt.Sprintf("%s: whether its VM runs is not known: %s", node.Name, node.Power.Why),
			)
		}
	}
	return append(unknown, s.health().Notes()...)
}

// statusTime bounds what hypervisors and SSH servers are asked in one look at a cluster. What hive is asked has limits
// of its own.
const statusTime = 15 * time.Second

// ReadStatus reads the state of a cluster from every side at once; what does not answer is part of the answer. Nodes
// that DHCP has moved are followed: what is written down is written anew, and they are reached where they are now.
// While another run holds the cluster, their new addresses are told and nothing is written. What a hypervisor says is
// dead is not waited for.
func ReadStatus(ctx context.Context, r *Job) (Status, error) {
	asking, stop := context.WithCancel(ctx)
	defer stop()
	outside, cancel := context.WithTimeout(ctx, statusTime)
	defer cancel()
	watched := r.watchMachines(outside, 0)
	defer watched.Stop()
	var told answers
	var err error
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		told, err = r.ask(asking, watched)
	}()
	watched.AwaitFirst()
	moves := moved(r.Record.Nodes, watched.now())
	if len(moves) > 0 {
		stop()
	}
	<-asked
	if len(moves) > 0 {
		r.follow(ctx, moves)
		told, err = r.ask(ctx, watched)
	}
	return r.status(watched.now(), told, moves), err
}

// answers is what the nodes tell of themselves.
type answers struct {
	ssh    []string // as NodeStatus has it, in node order; none where no node was asked
	health hive.Health
}

// ask asks every node for a sign of life, and for its health if hive was ever put on it.
func (r *Job) ask(ctx context.Context, watched *machineWatch) (answers, error) {
	why := fmt.Sprintf("it was not configured yet: hive-test configure %s", r.Record.Name)
	switch {
	case r.Making != nil && r.Making(r.Record):
		why = "its VMs are being made"
	case !r.Record.Nodes.WereUp():
		why = fmt.Sprintf(
			"it is not up: `hive-test up %s` goes on, `hive-test down %s` removes it", r.Record.Name, r.Record.Name,
		)
	}
	told := answers{health: hive.Health{ClusterReasons: []string{why}}}
	if !addressed(r.Record.Nodes) {
		return told, nil
	}
	group, err := r.group()
	if err != nil { // no node can be asked, and the hypervisors can
		told.ssh = slices.Repeat([]string{err.Error()}, len(r.Record.Nodes))
		told.health.ClusterReasons = []string{err.Error()}
		return told, nil
	}
	handle, err := r.hiveWithin(r.Sink, watched.Monitor)
	if err != nil {
		return told, err
	}
	var wait sync.WaitGroup
	wait.Go(func() { told.ssh = reach(ctx, group, watched) })
	if _, configured := r.Record.Phases[cluster.PhaseConfigure]; configured {
		wait.Go(func() { told.health = handle.Check(ctx) })
	}
	wait.Wait()
	return told, nil
}

// status puts side by side what was found. Nodes that have moved are shown where they are, written down or not.
func (r *Job) status(powers []deploy.Power, told answers, moves []remote.Move) Status {
	status := Status{
		Record: r.Record, Nodes: make([]NodeStatus, len(r.Record.Nodes)),
		Formed: told.health.Formed, ClusterReasons: told.health.ClusterReasons,
	}
	for i, node := range r.Record.Nodes {
		status.Nodes[i] = NodeStatus{Node: node, SSH: "unknown", Health: hive.NodeHealth{Peers: hive.PeersUnknown}}
		for _, m := range moves {
			if m.To.Name == node.Name {
				status.Nodes[i].Node = m.To
			}
		}
		if i < len(powers) {
			status.Nodes[i].Power = powers[i]
		}
		if i < len(told.ssh) {
			status.Nodes[i].SSH = told.ssh[i]
		}
		if i < len(told.health.Nodes) {
			status.Nodes[i].Health = told.health.Nodes[i]
		}
		status.attribute(i)
	}
	return status
}

// attribute says of a node whose machine is dead that it is, and nothing else: the rest follows from that, and how far
// it was asked is chance.
func (s *Status) attribute(i int) {
	node := &s.Nodes[i]
	why := node.Power.Dead()
	if why == "" {
		return
	}
	s.Formed, node.SSH = false, why
	node.Health = hive.NodeHealth{Name: node.Name, Peers: hive.PeersUnknown, Error: why}
}

func addressed(nodes cluster.Nodes) bool {
	for _, node := range nodes {
		if !node.Management.IsValid() {
			return false
		}
	}
	return len(nodes) > 0
}

// reach runs a real command on every node and returns, in node order, ok or the reason why it could not. Connections to
// machines that are dead are let go.
func reach(ctx context.Context, group remote.Group, watched *machineWatch) []string {
	answers := make([]string, len(group))
	var wait sync.WaitGroup
	for i, host := range group {
		wait.Go(func() {
			ctx, end := watched.Within(ctx, host.Name())
			defer end()
			answers[i] = "ok"
			if _, err := host.Run(ctx, remote.Command{Argv: []string{"true"}, Timeout: statusTime}); err != nil {
				answers[i] = err.Error()
			}
			if dead := watched.Unreachable(host.Name()); dead != nil {
				host.Drop(dead) // it would look alive to the next look, which waits for it when the machine is back
			}
		})
	}
	wait.Wait()
	return answers
}
