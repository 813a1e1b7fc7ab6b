package hive

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// StepSelection is which part of configuring is run, and what is remembered of it. The zero value is all steps on all
// nodes, with nothing remembered.
//
// cloud-init, os and install are steps of each node; stop and start are too where the nodes are one complete cluster
// and stay it. Init, join and health are of the whole cluster always.
type StepSelection struct {
	// From is the step to begin with; empty: the first. A step that is not wanted here stands for the one after it.
	From string
	// Until is the step to end with; empty: the last.
	Until string
	// Only are the names of the nodes that the steps of nodes are run on; none: all.
	Only []string
	// Journal remembers what was done; nil: nothing is.
	Journal Journal
}

// Journal remembers which steps are done on which nodes. Its methods are called one at a time.
type Journal interface {
	// Done tells whether that step need not be done again on that node: it was, with all that it depends on as it is
	// now.
	Done(step, node string) bool
	// Begin notes, before it does, that a step begins on these nodes; those before it have ended. What was done on
	// these nodes from that step on counts no longer.
	Begin(ctx context.Context, step string, nodes []string) error
	// End notes how that step has ended on the nodes that it began on.
	End(ctx context.Context, step string, err error)
}

// OwnSteps are the names of the steps that a Journal is asked for, in order: those of each node by itself.
func OwnSteps() []string { return []string{StepCloudInit, StepOS, StepInstall, StepStart} }

// CheckStep is an error that lists the steps if there is none of that name.
func CheckStep(name string) error {
	if slices.Contains(StepNames(), name) {
		return nil
	}
	return fmt.Errorf("there is no step %q: there are %s", name, strings.Join(StepNames(), ", "))
}

// until are the steps up to the named one.
func until(steps []Step, name string) []Step {
	order := StepNames()
	return slices.DeleteFunc(
		steps, func(s Step) bool { return slices.Index(order, s.Name) > slices.Index(order, name) },
	)
}

// from are the steps from the named one on.
func from(steps []Step, name string) []Step {
	order := StepNames()
	return slices.DeleteFunc(
		steps, func(s Step) bool { return slices.Index(order, s.Name) < slices.Index(order, name) },
	)
}

// Configure runs the steps of the course to the end. It stops at the first that fails with its *StepError, or with the
// context's error.
func (c *Cluster) Configure(ctx context.Context, course StepSelection) error {
	steps := c.Steps()
	if course.From != "" {
		if err := CheckStep(course.From); err != nil {
			return err
		}
		steps = from(steps, course.From)
	}
	if course.Until != "" {
		steps = until(steps, course.Until)
	}
	c.course, c.restarted, c.seen = course, nil, nil
	for _, step := range steps {
		if step.Name == StepStop {
			if err := c.judge(ctx); err != nil {
				return err
			}
		}
		if err := c.begin(ctx, step.Name, c.nodesOf(step.Name)); err != nil {
			return err
		}
		err := step.Run(ctx)
		if c.course.Journal != nil {
			c.course.Journal.End(ctx, step.Name, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// begin notes that a step begins on these hosts.
func (c *Cluster) begin(ctx context.Context, step string, hosts []Host) error {
	if c.course.Journal == nil {
		return nil
	}
	return c.course.Journal.Begin(ctx, step, names(hosts))
}

// nodesOf are the hosts that a step has something to do on.
func (c *Cluster) nodesOf(step string) []Host {
	switch step {
	case StepCloudInit, StepOS, StepInstall:
		return c.undone(step, c.only())
	case StepStop, StepStart:
		if c.restarted != nil {
			return c.restarted
		}
		return c.only()
	}
	return c.hosts
}

// only are the hosts that the course names.
func (c *Cluster) only() []Host {
	return filter(
		c.hosts, func(h Host) bool { return len(c.course.Only) == 0 || slices.Contains(c.course.Only, h.Name()) },
	)
}

// undone are those of hosts on which a step is not done yet.
func (c *Cluster) undone(step string, hosts []Host) []Host {
	return filter(hosts, func(h Host) bool { return c.course.Journal == nil || !c.course.Journal.Done(step, h.Name()) })
}

func filter(hosts []Host, keep func(Host) bool) []Host {
	return slices.DeleteFunc(slices.Clone(hosts), func(h Host) bool { return !keep(h) })
}

func names(hosts []Host) []string {
	list := make([]string, len(hosts))
	for i, host := range hosts {
		list[i] = host.Name()
	}
	return list
}

// eachOf is each for the hosts that a step of nodes has something to do on. It says where the step is done already.
func (c *Cluster) eachOf(ctx context.Context, step string, work func(context.Context, Host) error) error {
	hosts := c.nodesOf(step)
	if done := filter(c.only(), func(h Host) bool { return !slices.Contains(hosts, h) }); len(done) > 0 {
		if len(hosts) == 0 {
			return skip("done already on " + strings.Join(names(done), ", "))
		}
		c.info(step, "", "done already on "+strings.Join(names(done), ", "))
	}
	return each(ctx, hosts, work)
}

// judge decides, before anything is stopped, which nodes are stopped and started: those on which something was changed
// where the nodes are one cluster, all where that is still to be formed. Where that is refused, hive goes on as it
// does.
func (c *Cluster) judge(ctx context.Context) error {
	states := c.seen
	if states == nil {
		var err error
		if states, err = c.states(ctx); err != nil {
			return c.step(ctx, StepStop, func(context.Context) error { return err })
		}
	}
	verdict, why := judgeFormation(states, c.options.Force)
	switch verdict {
	case refuseFormation:
		return c.step(ctx, StepInit, func(context.Context) error { return c.refused(why) })
	case keepFormation:
		c.restarted = c.only()
		if changed := c.undone(StepStart, c.restarted); len(changed) > 0 {
			c.restarted = changed
		}
	default:
		c.restarted = c.hosts
		if len(c.course.Only) > 0 {
			c.info(
				StepStop, "",
				"the cluster is to be formed, which takes all nodes, not only "+strings.Join(c.course.Only, ", "),
			)
		}
	}
	if len(c.restarted) < len(c.hosts) {
		c.info(StepStop, "", "hive is restarted on "+strings.Join(names(c.restarted), ", ")+" only")
	}
	return nil
}
