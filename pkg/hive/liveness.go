package hive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"hive-test/pkg/liveness"
	"hive-test/pkg/wait"
)

// While a step runs, Options.Observe is asked whether machines are dead: not at once, for most steps are short. One may
// be dead for a while, as it is when it is restarted.
const (
	deadFirst = 3 * time.Second
	deadPause = 5 * time.Second
	deadLimit = 15 * time.Second
)

// hintDead is what comes next where machines are dead.
func (c *Cluster) hintDead() string {
	return fmt.Sprintf("hive-test up %s starts its VM, or makes it anew where it is gone; then configure again", c.name)
}

// deadError ends a step whose machines are dead.
type deadError struct{ nodes nodeErrors }

func (e *deadError) Error() string { return "a node is lost: " + e.nodes.Error() }

// whileAlive runs work, and ends it when a machine that it needs is dead and stays so.
func (c *Cluster) whileAlive(ctx context.Context, work func(context.Context) error) error {
	if c.options.Observe == nil {
		return work(ctx)
	}
	alive, end := context.WithCancelCause(ctx)
	defer end(nil)
	probe := liveness.Probe{
		Observe: c.options.Observe, Patience: deadFirst, Pause: (&wait.Backoff{First: deadPause}).Next,
	}
	monitor := liveness.Start(alive, []liveness.Probe{probe}, func(seen liveness.Observations) {
		c.mu.Lock()
		c.dead = slices.DeleteFunc(slices.Clone(seen), func(o liveness.Observation) bool { return o.Err == nil })
		c.mu.Unlock()
		if dead := deadFor(deadLimit, seen); len(dead) > 0 {
			end(&deadError{dead})
		}
	})
	err := work(alive)
	monitor.Stop()
	if dead, ok := errors.AsType[*deadError](context.Cause(alive)); ok && err != nil {
		return &StepError{Nodes: dead.nodes, Err: errors.New("the cluster has lost a node"), hint: c.hintDead()}
	}
	return err
}

// deadFor returns the machines that have been dead for that long.
func deadFor(limit time.Duration, seen liveness.Observations) nodeErrors {
	var dead nodeErrors
	for _, o := range seen {
		if o.Err != nil && o.Lasts() >= limit {
			dead = append(dead, NodeFailure{Node: o.Node, Err: o.Err})
		}
	}
	return dead
}

// attributeSilence adds to the reasons of nodes whose daemons do not answer that their machines are dead, where that
// was seen.
func (c *Cluster) attributeSilence(health *Health) {
	c.mu.Lock()
	dead := c.dead
	c.mu.Unlock()
	if len(dead) == 0 {
		return
	}
	for i := range health.Nodes {
		node := &health.Nodes[i]
		if why := dead.Unreachable(node.Name); why != nil && node.silent() {
			node.Error = why.Error() + "; " + node.Error
		}
	}
}

// attribute adds to the errors of nodes that their machines are dead, where that is so: what failed there follows from
// it.
func (c *Cluster) attribute(ctx context.Context, failed *StepError) {
	if c.options.Observe == nil || len(failed.Nodes) == 0 || ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	seen := c.options.Observe(ctx)
	for i, node := range failed.Nodes {
		if why := seen.Unreachable(node.Node); why != nil && !strings.HasPrefix(node.Err.Error(), why.Error()) {
			failed.Nodes[i].Err = fmt.Errorf("%w; %w", why, node.Err)
			failed.hint = c.hintDead()
		}
	}
}
