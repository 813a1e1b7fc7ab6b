package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/liveness"
	"hive-test/pkg/wait"
)

// How often a hypervisor is asked again while a node is still being asked: its VM may be stopped in between.
const (
	watchFirst = time.Second
	watchLimit = 5 * time.Second
)

// machineWatch asks the hypervisors of nodes while those are asked themselves, and ends what is asked of a node as soon
// as its hypervisor says that its machine is dead: it would only wait for its time to be up. So it would at an address
// that DHCP has taken from the node: a machineWatch for those who follow it ends that as well. Where a hypervisor does
// not answer, and for hosts of which none knows, nothing is ended. It is safe for concurrent use.
type machineWatch struct {
	*liveness.Monitor

	mu     sync.Mutex
	powers []deploy.Power // as last told
}

// watchMachines begins to watch the machines of all nodes of the record, until ctx ends or Stop is called. Nobody is
// asked before patience is over: nodes that answer at once need no watch.
func (r *Job) watchMachines(ctx context.Context, patience time.Duration) *machineWatch {
	return r.watchFor(ctx, patience, func(_ cluster.Node, told deploy.Power) error { return told.Lost() })
}

// watchMoves is watchMachines for those who follow nodes that DHCP has moved.
func (r *Job) watchMoves(ctx context.Context, patience time.Duration) *machineWatch {
	return r.watchFor(ctx, patience, func(node cluster.Node, told deploy.Power) error {
		for _, m := range moved(cluster.Nodes{node}, []deploy.Power{told}) {
			if m.From.Management != m.To.Management {
				return fmt.Errorf("%w to %s", errMoved, m.To.Management)
			}
		}
		return told.Lost()
	})
}

// errMoved means that a node's machine lives, elsewhere.
var errMoved = errors.New("DHCP has moved it")

// unneeded tells why a node need not be asked any longer; nil: it need.
type unneeded func(node cluster.Node, told deploy.Power) error

// watchFor is watchMachines for those who judge by why.
func (r *Job) watchFor(ctx context.Context, patience time.Duration, why unneeded) *machineWatch {
	w := &machineWatch{powers: make([]deploy.Power, len(r.Record.Nodes))}
	probes := make([]liveness.Probe, len(r.Record.Nodes))
	for i, node := range r.Record.Nodes {
		one := *r.Record
		one.Nodes = cluster.Nodes{node} // by itself: what another hypervisor takes its time for is not waited for
		probes[i] = liveness.Probe{
			Patience: patience, Pause: (&wait.Backoff{First: watchFirst, Max: watchLimit}).Next, Final: true,
			Observe: func(ctx context.Context) liveness.Observations {
				told := r.powers(ctx, &one)
				if len(told) == 0 {
					return nil
				}
				w.note(i, told[0])
				return liveness.Observations{{Node: node.Name, Err: why(node, told[0]), Certain: true}}
			},
		}
	}
	w.Monitor = liveness.Start(ctx, probes)
	return w
}

// note keeps what is told of the node at i.
func (w *machineWatch) note(i int, told deploy.Power) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if told.Power != "unknown" || w.powers[i].Power == "" { // a look that was ended, or failed, takes nothing back
		w.powers[i] = told
	}
}

// now is, in node order, what the hypervisors have told last.
func (w *machineWatch) now() []deploy.Power {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.powers)
}

// powers is what the hypervisors tell of the machines of a record, which is not what it seems while another run makes
// them.
func (r *Job) powers(ctx context.Context, record *cluster.Record) []deploy.Power {
	powers := r.Deploy.Power(ctx, record)
	if r.Making == nil || !r.Making(record) {
		return powers
	}
	for i, power := range powers {
		powers[i] = power.WhileMaking()
	}
	return powers
}

// observe asks the hypervisors of all nodes once.
func (r *Job) observe(ctx context.Context) liveness.Observations {
	r.moving.Lock()
	record := *r.Record
	r.moving.Unlock()
	powers := r.powers(ctx, &record)
	seen := make(liveness.Observations, len(powers))
	for i, power := range powers {
		seen[i] = liveness.Observation{Node: record.Nodes[i].Name, Err: power.Lost(), Certain: true}
	}
	return seen
}
