package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/fault"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/progress"
)

// PowerOffID is the id of what no node can tell of: that it is off. Its hypervisor does.
const PowerOffID = "power"

func powerOff(node cluster.Node) fault.Applied {
	return fault.Applied{ID: PowerOffID, Node: node.Name, Spec: fault.Spec{Kind: fault.Power, Act: fault.Off}.String()}
}

// switchFor switches machines of nodes off, and on again when the time is up or ctx ends, at once for a reset. Nobody
// else can do that: a hypervisor does nothing at a time. It returns when they are on.
func (e *Engine) switchFor(
	ctx context.Context, request FaultRequest, spec fault.Spec, limit time.Duration,
) (applied []fault.Applied, err error) {
	s, r, err := e.reach(ctx, "fault", request.Request)
	if err != nil {
		return nil, err
	}
	defer s.close()
	ctx, cancel := s.limited(ctx)
	defer cancel()
	nodes, err := choose(s.Record.Nodes, "--nodes "+request.Nodes, request.Nodes)
	if err != nil {
		return nil, err
	}
	if err := s.switchable(ctx, r, nodes); err != nil {
		return nil, Error{ExitConfig, fmt.Errorf("%s cannot be applied, and nothing was done: %w", spec, err)}
	}
	progress.Infof(s.Sink, "%s: %s", spec, strings.Join(nodes.Names(), ", "))
	off := eachNode(nodes, func(node cluster.Node) error { return r.Deploy.Switch.SwitchOff(ctx, r.Record, node) })
	if off == nil && spec.Act == fault.Off {
		progress.Infof(s.Sink, "they are on again in %s; Ctrl-C switches them on now", progress.FormatLimit(limit))
		select {
		case <-time.After(limit):
		case <-ctx.Done():
		}
	}
	if ctx.Err() != nil {
		off = errors.Join(off, context.Cause(ctx))
	}
	again, cancel := context.WithTimeout(context.WithoutCancel(ctx), switchTime)
	defer cancel()
	on := eachNode(nodes, func(node cluster.Node) error { return r.Deploy.Switch.SwitchOn(again, r.Record, node) })
	if on != nil {
		on = progress.WithHint(fmt.Errorf("nodes are off still: %w", on), "hive-test fault heal "+s.Name.String())
	}
	for _, node := range nodes {
		a := powerOff(node)
		a.Spec = spec.String()
		applied = append(applied, a)
	}
	return applied, errors.Join(off, on)
}

// switchTime bounds switching machines on after an interruption.
const switchTime = 2 * time.Minute

// switchable is an error unless the machines of nodes are on, and can be switched.
func (s *session) switchable(ctx context.Context, r *lifecycle.Job, nodes cluster.Nodes) error {
	if r.Deploy.Switch == nil {
		return errors.New("the machines cannot be switched from here: that takes Proxmox VE, and its token")
	}
	one := *r.Record
	one.Nodes = nodes
	var problems []error
	for i, power := range r.Deploy.Power(ctx, &one) {
		if power.Power != "running" {
			problems = append(problems, fmt.Errorf("%s: its VM is %s", nodes[i].Name, power.Power))
		}
	}
	return errors.Join(problems...)
}

// takeOff returns the nodes whose machines are off, which is no reason not to have reached them.
func (r reached) takeOff() (off cluster.Nodes) {
	for i, err := range r.unreached {
		if dead, ok := errors.AsType[deploy.DeadError](err); ok && dead.State == "stopped" {
			r.unreached[i], r.off[i] = nil, true
			off = append(off, r.group[i].Node())
		}
	}
	return off
}

// switchOn switches machines on that are off.
func (r reached) switchOn(ctx context.Context, off cluster.Nodes) ([]fault.Applied, error) {
	if len(off) > 0 && r.job.Deploy.Switch == nil {
		return nil, fmt.Errorf("%s: switched off, and nothing here can switch that on", strings.Join(off.Names(), ", "))
	}
	err := eachNode(off, func(node cluster.Node) error { return r.job.Deploy.Switch.SwitchOn(ctx, r.Record, node) })
	var healed []fault.Applied
	for _, node := range off {
		if err == nil {
			healed = append(healed, powerOff(node))
		}
	}
	return healed, err
}

// eachNode acts on all nodes at once, and joins the errors in their order.
func eachNode(nodes cluster.Nodes, act func(cluster.Node) error) error {
	failures := make([]error, len(nodes))
	var all sync.WaitGroup
	for i, node := range nodes {
		all.Go(func() { failures[i] = act(node) })
	}
	all.Wait()
	return errors.Join(failures...)
}
