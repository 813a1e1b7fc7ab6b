package lifecycle

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/fault"
	"hive-test/pkg/hive"
	"hive-test/pkg/progress"
	"hive-test/pkg/remote"
)

// NodeStatus puts side by side what is recorded of a node, what its hypervisor says and what it answers itself.
type NodeStatus struct {
	cluster.Node
	Power  deploy.Power
	SSH    string // ok, or why not
	Health hive.NodeHealth
	// Outside says that hive was formed without the node.
	Outside bool
}

// Status is the state of a cluster at one moment.
type Status struct {
	Record *cluster.Record
	Formed bool
	// Members is the number of nodes that a hive is formed of that is healthy, though not formed of all; 0: there is none.
	Members int
	// ClusterReasons are why it is not formed, without the errors of nodes.
	ClusterReasons []string
	Nodes          []NodeStatus
	// Configure is the command that puts hive on the cluster as it is now.
	Configure string
	// Faults are those that fault apply, or a suite, has given nodes, and that are there still.
	Faults []fault.Applied
	// Snapshots are those of a cluster of which some were made, the oldest first.
	Snapshots []deploy.Snapshot
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
	if restoring := s.Record.Restoring; restoring != nil {
		unknown = append(unknown, fmt.Sprintf(
			"a restore of snapshot %s did not come to its end: `hive-test snapshot restore %s %s` goes on",
			restoring.Tag, s.Record.Name, restoring.Tag,
		))
	}
	return slices.Concat(unknown, s.faultNotes(), s.health().Notes())
}

// faultNotes name the faults that nodes have, each once.
func (s Status) faultNotes() (notes []string) {
	nodes := map[string][]string{}
	for _, a := range s.Faults {
		nodes[a.Spec] = append(nodes[a.Spec], a.Node)
	}
	for _, spec := range slices.Sorted(maps.Keys(nodes)) {
		notes = append(notes, fmt.Sprintf(
			"%s: fault %s: `hive-test fault heal %s` ends it", strings.Join(nodes[spec], ", "), spec, s.Record.Name,
		))
	}
	return notes
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
	kept := r.keptSnapshots(outside)
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
	status := r.status(watched.now(), told, moves)
	status.Snapshots = <-kept
	return status, err
}

// keptSnapshots asks for the snapshots of a cluster of which some were made. Where that is not answered there are none.
func (r *Job) keptSnapshots(ctx context.Context) <-chan []deploy.Snapshot {
	kept := make(chan []deploy.Snapshot, 1)
	if len(r.Record.Snapshots) == 0 || r.Deploy.Snapshots == nil {
		kept <- nil
		return kept
	}
	record := *r.Record
	go func() {
		list, err := r.Deploy.Snapshots.Snapshots(ctx, &record)
		if err != nil {
			list = nil
		}
		kept <- list
	}()
	return kept
}

// answers is what the nodes tell of themselves, by name.
type answers struct {
	ssh     map[string]string // as NodeStatus has it
	faults  []fault.Applied
	nodes   map[string]hive.NodeHealth
	formed  bool // of those that were asked
	reasons []string
}

// ask asks every node whose address is known for a sign of life, and for its health if hive was ever put on it.
func (r *Job) ask(ctx context.Context, watched *machineWatch) (answers, error) {
	known := known(r.Record.Nodes)
	_, configured := r.Record.Phases[cluster.PhaseConfigure]
	told := answers{reasons: r.whyUnasked(len(known), configured)}
	if len(known) == 0 {
		return told, nil
	}
	way, err := r.open()
	if err != nil { // no node can be asked, and the hypervisors can
		told.ssh = map[string]string{}
		for _, node := range known {
			told.ssh[node.Name] = err.Error()
		}
		told.reasons = []string{err.Error()}
		return told, nil
	}
	handle, err := r.hiveOn(known, r.Sink, watched.Monitor)
	if err != nil {
		return told, err
	}
	var wait sync.WaitGroup
	wait.Go(func() { told.ssh, told.faults = reach(ctx, way.Group(known), watched) })
	if configured {
		wait.Go(func() {
			health := handle.Check(ctx)
			told.formed, told.nodes = health.Formed, map[string]hive.NodeHealth{}
			told.reasons = append(health.ClusterReasons, told.reasons...)
			for _, node := range health.Nodes {
				told.nodes[node.Name] = node
			}
		})
	}
	wait.Wait()
	return told, nil
}

// whyUnasked says why a hive is not looked for on nodes of which so many have known addresses, or not on all.
func (r *Job) whyUnasked(known int, configured bool) []string {
	name, all := r.Record.Name, len(r.Record.Nodes)
	formed, was := r.Record.Formed()
	switch {
	case known == all && all > 0 && configured:
		return nil
	case known == all && all > 0:
		return []string{"it was not configured yet"} // the command comes with what is next
	case r.Making != nil && r.Making(r.Record):
		return []string{"its VMs are being made"}
	case known > 0 && was:
		return []string{fmt.Sprintf(
			"hive was formed of %s, and a change to %d did not come to its end: `hive-test up %s` goes on",
			progress.Count(formed.Size, "node"), r.Record.Spec.NodeCount, name,
		)}
	}
	return []string{fmt.Sprintf("it is not up: `hive-test up %s` goes on, `hive-test down %s` removes it", name, name)}
}

// status puts side by side what was found. Nodes that have moved are shown where they are, written down or not.
func (r *Job) status(powers []deploy.Power, told answers, moves []remote.Move) Status {
	outsiders := r.Record.Outsiders()
	status := Status{
		Record: r.Record, Nodes: make([]NodeStatus, len(r.Record.Nodes)), Configure: r.ConfigureCommand(),
		Formed: told.formed && len(told.nodes) == len(r.Record.Nodes), ClusterReasons: told.reasons, Faults: told.faults,
	}
	for i, node := range r.Record.Nodes {
		shown := NodeStatus{
			Node: node, SSH: "unknown", Health: hive.NodeHealth{Name: node.Name, Peers: hive.PeersUnknown},
			Outside: slices.Contains(outsiders, node.Name),
		}
		for _, m := range moves {
			if m.To.Name == node.Name {
				shown.Node = m.To
			}
		}
		if i < len(powers) {
			shown.Power = powers[i]
		}
		if ssh, asked := told.ssh[node.Name]; asked {
			shown.SSH = ssh
		}
		if health, asked := told.nodes[node.Name]; asked {
			shown.Health = health
		}
		status.Nodes[i] = shown
		status.attribute(i)
	}
	status.judgeMembers()
	return status
}

// Ill reports whether hive was formed of all nodes, which are there and have their addresses, and is not healthy.
func (s *Status) Ill() bool {
	formed, was := s.Record.Formed()
	return was && !s.Formed && !formed.Half && !s.Record.OtherMembers() && addressed(s.Record.Nodes)
}

// judgeMembers tells a hive that is healthy and formed of some of the nodes from one that is not formed. What follows
// from a node's being no member of it is told once.
func (s *Status) judgeMembers() {
	formed, was := s.Record.Formed()
	if !was || s.Formed {
		return
	}
	healthy := 0
	for i := range s.Nodes {
		node := &s.Nodes[i]
		switch {
		case node.Outside && node.Power.Dead() == "" && node.Management.IsValid() && node.Health.Code == 0:
			node.Health.Error = "hive was formed without it"
		case !node.Outside && node.Health.Healthy:
			healthy++
		}
	}
	if healthy == formed.Size && healthy < len(s.Nodes) {
		s.Members = healthy
	}
	if s.Record.OtherMembers() && len(known(s.Record.Nodes)) == len(s.Nodes) {
		s.ClusterReasons = append(
			s.ClusterReasons, fmt.Sprintf(othersText, s.Record.Name)+": "+othersHint(s.Record.Name),
		)
	}
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
	if node.Power.Power == "missing" && !node.Management.IsValid() {
		why, node.SSH = "its VM was not made yet", "unknown"
	}
	node.Health = hive.NodeHealth{Name: node.Name, Peers: hive.PeersUnknown, Error: why}
}

// addressed reports whether the addresses of all nodes are known.
func addressed(nodes cluster.Nodes) bool { return len(nodes) > 0 && len(known(nodes)) == len(nodes) }

// known are the nodes whose addresses are known.
func known(nodes cluster.Nodes) cluster.Nodes {
	unknown := func(n cluster.Node) bool { return !n.Management.IsValid() }
	return slices.DeleteFunc(slices.Clone(nodes), unknown)
}

// reach runs a real command on every node and returns, by name, ok or the reason why it could not. Connections to
// machines that are dead are let go.
func reach(
	ctx context.Context, group remote.Group, watched *machineWatch,
) (ssh map[string]string, faults []fault.Applied) {
	answers, found := make([]string, len(group)), make([][]fault.Applied, len(group))
	var wait sync.WaitGroup
	for i, host := range group {
		wait.Go(func() {
			ctx, end := watched.Within(ctx, host.Name())
			defer end()
			answers[i] = "ok"
			if _, err := host.Run(ctx, remote.Command{Argv: []string{"true"}, Timeout: statusTime}); err != nil {
				answers[i] = err.Error()
			} else if list, err := fault.List(ctx, []fault.Host{host}); err == nil { // else nothing is known of any
				found[i] = list
			}
			if dead := watched.Unreachable(host.Name()); dead != nil {
				host.Drop(dead) // it would look alive to the next look, which waits for it when the machine is back
			}
		})
	}
	wait.Wait()
	ssh = map[string]string{}
	for i, host := range group {
		ssh[host.Name()] = answers[i]
	}
	return ssh, slices.Concat(found...)
}
