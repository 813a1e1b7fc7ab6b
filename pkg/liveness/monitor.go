// Package liveness tells those who ask machines for something of which of them nothing can be expected: whose VM does
// not run, as its hypervisor says, that have moved, or that give no sign of life. What is asked of such a machine would
// only wait for its time to be up.
package liveness

import (
	"context"
	"slices"
	"sync"
	"time"

	"hive-test/pkg/wait"
)

// Observation is what is known of a node's machine at one moment.
type Observation struct {
	Node string
	// Err is why nothing can be expected of the machine; nil: it lives, or nobody knows better.
	Err error
	// Certain says that Err is known from its hypervisor. Silence alone may be chance.
	Certain bool

	// The Monitor fills in the rest. At is when it began to ask. Where Err is not nil, Times is how many observations
	// in a row, this one included, found the machine unreachable, and Since is At of the first of them.
	At, Since time.Time
	Times     int
}

// Lasts returns for how long the machine has been unreachable; 0 where it is not.
func (o Observation) Lasts() time.Duration {
	if o.Err == nil {
		return 0
	}
	return o.At.Sub(o.Since)
}

// Observations are of several nodes.
type Observations []Observation

// Unreachable returns why nothing can be expected of the node's machine; nil where that is not known.
func (all Observations) Unreachable(node string) error {
	for _, o := range all {
		if o.Node == node && o.Err != nil {
			return o.Err
		}
	}
	return nil
}

// UnreachableError is of what was not asked of a node to the end, for its machine is unreachable.
type UnreachableError struct {
	Node string
	Err  error // why, as the Observation has it
}

// Error names the node.
func (e *UnreachableError) Error() string { return e.Node + ": " + e.Unnamed() }

// Unnamed returns Error without the node.
func (e *UnreachableError) Unnamed() string { return e.Err.Error() }

// NodeName returns the node's name.
func (e *UnreachableError) NodeName() string { return e.Node }

// Unwrap returns why it is unreachable.
func (e *UnreachableError) Unwrap() error { return e.Err }

// Probe observes machines again and again.
type Probe struct {
	// Observe asks once. Machines that it leaves out are taken for reachable. What it returns after ctx has ended
	// counts for nothing.
	Observe func(ctx context.Context) Observations
	// Patience is how long to wait before it is called first, and Pause returns how long before each further time.
	Patience time.Duration
	Pause    func() time.Duration
	// Final says that a machine that was unreachable once stays so for the Monitor: then the probe ends.
	Final bool
}

// Monitor runs probes, and tells what they observe: to its subscribers, and to those who ask machines for something.
// A nil *Monitor knows of no machine. It is safe for concurrent use.
type Monitor struct {
	subscribers []func(Observations)
	stop        context.CancelFunc
	probing     sync.WaitGroup
	first       sync.WaitGroup // until each probe has observed once, or has ended

	mu   sync.Mutex
	last []Observations // by probe
	ends map[string]end // by node
}

// end is a context that ends when a machine is found unreachable.
type end struct {
	context.Context
	because context.CancelCauseFunc
}

// Start runs probes, each by itself, until ctx ends or Stop is called. Each subscriber is called with all that a probe
// has observed, from the goroutine of that probe; it may end ctx, but must not call Stop.
func Start(ctx context.Context, probes []Probe, subscribers ...func(Observations)) *Monitor {
	ctx, stop := context.WithCancel(ctx)
	m := &Monitor{subscribers: subscribers, stop: stop, last: make([]Observations, len(probes)), ends: map[string]end{}}
	for i, probe := range probes {
		m.first.Add(1)
		m.probing.Go(func() { m.run(ctx, i, probe) })
	}
	return m
}

// Stop ends the probes, and returns when they have. It may be called again.
func (m *Monitor) Stop() {
	if m == nil {
		return
	}
	m.stop()
	m.probing.Wait()
}

func (m *Monitor) run(ctx context.Context, i int, probe Probe) {
	observed := sync.OnceFunc(m.first.Done)
	defer observed()
	for pause := probe.Patience; wait.Sleep(ctx, pause) == nil; pause = probe.Pause() {
		began := time.Now()
		seen := probe.Observe(ctx)
		if ctx.Err() != nil {
			return
		}
		unreachable := m.keep(i, began, seen)
		for _, tell := range m.subscribers {
			tell(seen)
		}
		if observed(); unreachable && probe.Final {
			return
		}
	}
}

// keep fills in what a probe cannot know of what it has observed, and reports whether a machine is unreachable.
func (m *Monitor) keep(i int, began time.Time, seen Observations) (unreachable bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for at := range seen {
		o := &seen[at]
		o.At = began
		if o.Err == nil {
			continue
		}
		o.Since, o.Times, unreachable = began, 1, true
		before := slices.IndexFunc(m.last[i], func(b Observation) bool { return b.Node == o.Node && b.Err != nil })
		if before >= 0 {
			o.Since, o.Times = m.last[i][before].Since, m.last[i][before].Times+1
		}
		m.endOf(o.Node).because(o.Err)
	}
	m.last[i] = seen
	return unreachable
}

func (m *Monitor) endOf(node string) end {
	if _, known := m.ends[node]; !known {
		ctx, because := context.WithCancelCause(context.Background())
		m.ends[node] = end{ctx, because}
	}
	return m.ends[node]
}

// AwaitFirst returns when each probe has observed once, or has ended.
func (m *Monitor) AwaitFirst() {
	if m != nil {
		m.first.Wait()
	}
}

// Unreachable returns why nothing can be expected of the node's machine, as last observed; nil where that is not known.
func (m *Monitor) Unreachable(node string) error {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, seen := range m.last {
		if err := seen.Unreachable(node); err != nil {
			return err
		}
	}
	return nil
}

// Within returns ctx, ended when the node's machine is found unreachable, with the reason as its cause. What it holds
// is let go by the function. A machine that was unreachable once stays so for Within and Ask: they are for probes that
// are Final.
func (m *Monitor) Within(ctx context.Context, node string) (context.Context, context.CancelFunc) {
	if m == nil {
		return ctx, func() {}
	}
	m.mu.Lock()
	found := m.endOf(node)
	m.mu.Unlock()
	own, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(found, func() { cancel(context.Cause(found)) })
	return own, func() { stop(); cancel(context.Canceled) }
}

// Ask runs work, which asks the node for something, and ends its context when the node's machine is found unreachable.
// If it fails then, the error is an *UnreachableError.
func (m *Monitor) Ask(ctx context.Context, node string, work func(context.Context) error) error {
	own, release := m.Within(ctx, node)
	defer release()
	err := work(own)
	if err != nil && own.Err() != nil && ctx.Err() == nil {
		return &UnreachableError{node, context.Cause(own)}
	}
	return err
}
