package hive

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// While a step runs, Options.Outside is asked whether machines are dead: not at once, for most steps are short. One may
// be dead for a while, as it is when it is restarted.
const (
	deadFirst = 3 * time.Second
	deadPause = 5 * time.Second
	deadLimit = 15 * time.Second
)

const hintDead = "start the VM again, or let `hive-test up` make it anew where it is gone; then configure again"

// deadError ends a step whose machines are dead.
type deadError struct{ nodes nodeErrors }

func (e *deadError) Error() string { return "a node is lost: " + e.nodes.Error() }

// machineError is the error of a node that was not asked to the end, for its machine is dead.
type machineError struct {
	node string
	why  error
}

func (e *machineError) Error() string   { return e.node + ": " + e.Unnamed() }
func (e *machineError) Unnamed() string { return e.why.Error() }

func (e *machineError) Unwrap() error { return e.why }

// asking runs work, which asks host, and ends it as soon as the host's machine is known to be dead. That is the error
// then.
func (c *Cluster) asking(ctx context.Context, host Host, work func(context.Context) error) error {
	return c.options.Alive.during(ctx, host, work)
}

// during is asking of those who know more.
func (a Alive) during(ctx context.Context, host Host, work func(context.Context) error) error {
	if a == nil {
		return work(ctx)
	}
	alive, end := a(ctx, host.Name())
	defer end()
	err := work(alive)
	if err != nil && alive.Err() != nil && ctx.Err() == nil {
		return &machineError{host.Name(), context.Cause(alive)}
	}
	return err
}

// guarded runs work, and ends it when a machine that it needs is dead and stays so.
func (c *Cluster) guarded(ctx context.Context, work func(context.Context) error) error {
	if c.options.Outside == nil {
		return work(ctx)
	}
	guarded, end := context.WithCancelCause(ctx)
	defer end(nil)
	watching, stop := context.WithCancel(guarded)
	var wait sync.WaitGroup
	wait.Go(func() { c.guard(watching, end) })
	err := work(guarded)
	stop()
	wait.Wait()
	if dead, ok := errors.AsType[*deadError](context.Cause(guarded)); ok && err != nil {
		return &StepError{Nodes: dead.nodes, Err: errors.New("the cluster has lost a node"), hint: hintDead}
	}
	return err
}

func (c *Cluster) guard(ctx context.Context, end context.CancelCauseFunc) {
	since := map[string]time.Time{}
	for pause := deadFirst; ; pause = deadPause {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		why := c.options.Outside(ctx)
		if ctx.Err() != nil {
			return
		}
		c.mu.Lock()
		c.dead = why
		c.mu.Unlock()
		if dead := deadFor(deadLimit, why, since, time.Now()); len(dead) > 0 {
			end(&deadError{dead})
			return
		}
	}
}

// deadFor keeps in since from when on machines are dead, and returns those that have been for that long.
func deadFor(limit time.Duration, why map[string]string, since map[string]time.Time, now time.Time) nodeErrors {
	maps.DeleteFunc(since, func(name string, _ time.Time) bool { return why[name] == "" })
	var dead nodeErrors
	for _, name := range slices.Sorted(maps.Keys(why)) {
		if _, known := since[name]; !known {
			since[name] = now
		}
		if now.Sub(since[name]) >= limit {
			dead = append(dead, NodeFailure{Node: name, Err: errors.New(why[name])})
		}
	}
	return dead
}

// blameSilent adds to the reasons of nodes whose daemons do not answer that their machines are dead, where that was
// seen.
func (c *Cluster) blameSilent(health *Health) {
	c.mu.Lock()
	why := c.dead
	c.mu.Unlock()
	if len(why) == 0 {
		return
	}
	for i := range health.Nodes {
		node := &health.Nodes[i]
		if dead := why[node.Name]; dead != "" && node.silent() {
			node.Error = dead + "; " + node.Error
		}
	}
}

// blame adds to the errors of nodes that their machines are dead, where that is so: what failed there follows from it.
func (c *Cluster) blame(ctx context.Context, failed *StepError) {
	if c.options.Outside == nil || len(failed.Nodes) == 0 || ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	why := c.options.Outside(ctx)
	for i, node := range failed.Nodes {
		if dead := why[node.Node]; dead != "" && !strings.HasPrefix(node.Err.Error(), dead) {
			failed.Nodes[i].Err = fmt.Errorf("%s; %w", dead, node.Err)
		}
	}
}
