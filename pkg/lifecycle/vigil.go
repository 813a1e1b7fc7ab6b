package lifecycle

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"hive-test/pkg/cluster"
)

// How often a hypervisor is asked again while a node is still being asked: its VM may be stopped in between.
const (
	vigilFirst = time.Second
	vigilLimit = 5 * time.Second
)

// vigil asks the hypervisors of nodes while those are asked themselves, and ends what is asked of a node as soon as its
// hypervisor says that its machine is dead: it would only wait for its time to be up. Where a hypervisor does not answer, and for
// hosts of which none knows, nothing is ended. It is safe for concurrent use.
type vigil struct {
	lives  map[string]context.Context // by node; each ends with the node's machine, and its cause says how that is dead
	asking sync.WaitGroup
	first  sync.WaitGroup // until each hypervisor has answered once, or ctx has ended
	stop   context.CancelFunc

	mu     sync.Mutex
	powers []Power // as last told
}

// keepVigil begins a vigil over all nodes of the record, until ctx ends or end is called. Nobody is asked before patience is over:
// nodes that answer at once need no vigil.
func (r *Job) keepVigil(ctx context.Context, patience time.Duration) *vigil {
	ctx, stop := context.WithCancel(ctx)
	v := &vigil{lives: map[string]context.Context{}, powers: make([]Power, len(r.Record.Nodes)), stop: stop}
	for i, node := range r.Record.Nodes {
		life, die := context.WithCancelCause(context.WithoutCancel(ctx))
		v.lives[node.Name] = life
		one := *r.Record
		one.Nodes = cluster.Nodes{node} // by itself: what another hypervisor takes its time for is not waited for
		v.first.Add(1)
		v.asking.Go(func() {
			answered := sync.OnceFunc(v.first.Done)
			defer answered()
			v.watch(ctx, patience, func() (dead bool) {
				defer answered()
				why := v.tell(i, r.Fleet.Power(ctx, &one))
				if why != "" {
					die(errors.New(why))
				}
				return why != ""
			})
		})
	}
	return v
}

// watch asks again and again, until the machine is dead or ctx ends.
func (v *vigil) watch(ctx context.Context, patience time.Duration, ask func() (dead bool)) {
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

// tell notes what is told of the node at i, and returns why it is dead, if it is.
func (v *vigil) tell(i int, told []Power) (why string) {
	if len(told) == 0 {
		return ""
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if told[0].Power != "unknown" || v.powers[i].Power == "" { // a look that was ended, or failed, takes nothing back
		v.powers[i] = told[0]
	}
	return told[0].dead()
}

// wait returns when each hypervisor has answered once or will not, with what now tells.
func (v *vigil) wait() []Power {
	v.first.Wait()
	return v.now()
}

// now is, in node order, what the hypervisors have told last.
func (v *vigil) now() []Power {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.powers)
}

// end asks no more.
func (v *vigil) end() {
	v.stop()
	v.asking.Wait()
}

// within is ctx, ended when the node's machine is known to be dead, with how it is as the cause. What it holds is let go by the
// function.
func (v *vigil) within(ctx context.Context, node string) (context.Context, context.CancelFunc) {
	life, known := v.lives[node]
	if !known {
		return ctx, func() {}
	}
	own, end := context.WithCancelCause(ctx)
	stop := context.AfterFunc(life, func() { end(context.Cause(life)) })
	return own, func() { stop(); end(context.Canceled) }
}

// dead is how the node's machine is known to be dead by now, or nil.
func (v *vigil) dead(node string) error {
	life, known := v.lives[node]
	if !known {
		return nil
	}
	return context.Cause(life)
}
