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
)

// How often a hypervisor is asked again while a node is still being asked: its VM may be stopped in between.
const (
	vigilFirst = time.Second
	vigilLimit = 5 * time.Second
)

// machineWatch asks the hypervisors of nodes while those are asked themselves, and ends what is asked of a node as soon
// as its hypervisor says that its machine is dead: it would only wait for its time to be up. So it would at an address
// that DHCP has taken from the node: a machineWatch for those who follow it ends that as well. Where a hypervisor does
// not answer, and for hosts of which none knows, nothing is ended. It is safe for concurrent use.
type machineWatch struct {
	lives  map[string]context.Context // by node; each ends with the node's machine, and its cause says how that is dead, or moved
	asking sync.WaitGroup
	first  sync.WaitGroup // until each hypervisor has answered once, or ctx has ended
	stop   context.CancelFunc

	mu     sync.Mutex
	powers []deploy.Power // as last told
}

// keepVigil begins a vigil over all nodes of the record, until ctx ends or end is called. Nobody is asked before
// patience is over: nodes that answer at once need no vigil.
func (r *Job) keepVigil(ctx context.Context, patience time.Duration) *machineWatch {
	return r.vigilFor(ctx, patience, func(_ cluster.Node, told deploy.Power) error { return told.Lost() })
}

// followVigil is keepVigil for those who follow nodes that DHCP has moved.
func (r *Job) followVigil(ctx context.Context, patience time.Duration) *machineWatch {
	return r.vigilFor(ctx, patience, func(node cluster.Node, told deploy.Power) error {
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

// vigilFor is keepVigil for those to whom judge tells why a node need not be asked any longer; nil: it need.
func (r *Job) vigilFor(ctx context.Context, patience time.Duration, judge func(cluster.Node, deploy.Power) error) *machineWatch {
	ctx, stop := context.WithCancel(ctx)
	v := &machineWatch{lives: map[string]context.Context{}, powers: make([]deploy.Power, len(r.Record.Nodes)), stop: stop}
	for i, node := range r.Record.Nodes {
		life, die := context.WithCancelCause(context.WithoutCancel(ctx))
		v.lives[node.Name] = life
		one := *r.Record
		one.Nodes = cluster.Nodes{node} // by itself: what another hypervisor takes its time for is not waited for
		v.first.Add(1)
		v.asking.Go(func() {
			answered := sync.OnceFunc(v.first.Done)
			defer answered()
			v.watch(ctx, patience, func() (over bool) {
				defer answered()
				told := r.Deploy.Power(ctx, &one)
				if len(told) == 0 {
					return false
				}
				v.note(i, told[0])
				why := judge(node, told[0])
				if why != nil {
					die(why)
				}
				return why != nil
			})
		})
	}
	return v
}

// watch asks again and again, until it is over or ctx ends.
func (v *machineWatch) watch(ctx context.Context, patience time.Duration, ask func() (over bool)) {
	for pause := vigilFirst; ; pause = min(2*pause, vigilLimit) {
		select {
		case <-time.After(patience):
		case <-ctx.Done():
			return
		}
		if ask() {
			return
		}
		patience = pause
	}
}

// note keeps what is told of the node at i.
func (v *machineWatch) note(i int, told deploy.Power) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if told.Power != "unknown" || v.powers[i].Power == "" { // a look that was ended, or failed, takes nothing back
		v.powers[i] = told
	}
}

// wait returns when each hypervisor has answered once or will not, with what now tells.
func (v *machineWatch) wait() []deploy.Power {
	v.first.Wait()
	return v.now()
}

// now is, in node order, what the hypervisors have told last.
func (v *machineWatch) now() []deploy.Power {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.powers)
}

// end asks no more.
func (v *machineWatch) end() {
	v.stop()
	v.asking.Wait()
}

// within is ctx, ended when the node's machine is known to be dead, or moved, with how it is as the cause. What it
// holds is let go by the function.
func (v *machineWatch) within(ctx context.Context, node string) (context.Context, context.CancelFunc) {
	life, known := v.lives[node]
	if !known {
		return ctx, func() {}
	}
	own, end := context.WithCancelCause(ctx)
	stop := context.AfterFunc(life, func() { end(context.Cause(life)) })
	return own, func() { stop(); end(context.Canceled) }
}

// dead is how the node's machine is known to be dead by now, or moved; nil: nothing is known.
func (v *machineWatch) dead(node string) error {
	life, known := v.lives[node]
	if !known {
		return nil
	}
	return context.Cause(life)
}
