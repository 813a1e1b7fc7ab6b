package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/fault"
	"hive-test/pkg/progress"
)

// FaultRequest is what FaultApply is asked for.
type FaultRequest struct {
	Request
	Fault string        // the name of a profile, or KIND:WHAT; see fault.Parse
	Nodes string        // like 1,3; empty: all. A partition names its own.
	For   time.Duration // 0: fault.DefaultTime
	// Stay waits until the fault is over, and heals it when ctx ends before.
	Stay bool
}

// FaultApply applies a fault to nodes of a cluster, to all that are asked for or to none. The nodes heal it themselves
// when its time is up. What was applied is returned.
func (e *Engine) FaultApply(ctx context.Context, request FaultRequest) (applied []fault.Applied, err error) {
	spec, limit, err := faultOf(request)
	if err != nil {
		return nil, usage(err)
	}
	if spec.Kind == fault.Power {
		return e.switchFor(ctx, request, spec, limit)
	}
	pick := func(nodes cluster.Nodes) (cluster.Nodes, error) { return faultNodes(nodes, spec, request.Nodes) }
	err = e.onNodes(ctx, "fault", request.Request, pick, func(ctx context.Context, r reached) error {
		if err := errors.Join(r.unreached...); err != nil {
			return fmt.Errorf("%s is not applied: %w", spec, err)
		}
		asked := fault.Request{
			ID: fault.NewID(spec, time.Now()), Spec: spec, For: limit, Cluster: r.Name.String(),
			Nodes: faultHosts(r), All: r.Record.Nodes,
		}
		if err := fault.Apply(ctx, asked); err != nil {
			return refusedFault(err)
		}
		for _, host := range r.group {
			applied = append(applied, fault.Applied{
				ID: asked.ID, Node: host.Name(), Spec: spec.String(), SecondsLeft: limit.Seconds(),
			})
		}
		if request.Stay {
			return stayFor(ctx, asked, r.Sink)
		}
		return nil
	})
	return applied, err
}

// faultOf reads what is asked for, before any node is asked.
func faultOf(request FaultRequest) (spec fault.Spec, limit time.Duration, err error) {
	spec, err = fault.Parse(request.Fault)
	if err != nil {
		return spec, 0, err
	}
	limit = request.For
	if limit == 0 {
		limit = fault.DefaultTime
	}
	if limit < time.Second || limit > fault.MostTime {
		return spec, 0, fmt.Errorf(
			"%s lasts %s, and a fault lasts from 1s to %s", spec, request.For, progress.FormatLimit(fault.MostTime),
		)
	}
	if spec.Kind == fault.Partition && request.Nodes != "" {
		return spec, 0, fmt.Errorf("%s names its nodes itself: name no others", spec)
	}
	if spec.Act == fault.Reset && request.For != 0 {
		return spec, 0, errors.New("--for is not for power:reset, after which nodes are on")
	}
	return spec, limit, nil
}

// faultNodes are the nodes that get a fault.
func faultNodes(nodes cluster.Nodes, spec fault.Spec, which string) (cluster.Nodes, error) {
	if spec.Kind != fault.Partition {
		return choose(nodes, "--nodes "+which, which)
	}
	named, err := choose(nodes, spec.String(), strings.Join(slices.Concat(spec.Groups...), ","))
	if err != nil {
		return nil, err
	}
	involved := spec.Involved(nodes)
	if len(named) == len(nodes) && len(spec.Groups) == 1 {
		return nil, usage(fmt.Errorf("%s: there is no other node to part it from", spec))
	}
	return involved, nil
}

func faultHosts(r reached) []fault.Host {
	hosts := make([]fault.Host, 0, len(r.group))
	for i, host := range r.group {
		if r.unreached[i] == nil && !r.off[i] {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// refusedFault gives a fault that nodes cannot have the exit code of what is missing.
func refusedFault(err error) error {
	if _, refused := errors.AsType[*fault.RefusedError](err); refused {
		return Error{ExitConfig, err}
	}
	return err
}

// stayFor waits until a fault is over.
func stayFor(ctx context.Context, asked fault.Request, sink progress.Sink) error {
	progress.Infof(sink, "%s lasts %s", asked.Spec, progress.FormatLimit(asked.For))
	select {
	case <-time.After(asked.For):
	case <-ctx.Done():
	}
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), fault.HealTime)
	defer cancel()
	_, err := fault.Heal(undo, asked.Nodes, asked.ID)
	if ctx.Err() != nil {
		err = errors.Join(context.Cause(ctx), err)
	}
	return err
}

// FaultList returns the faults that nodes of a cluster have; nodes: like 1,3; empty: all. Nodes that cannot be asked
// are the error; the faults of the others come with it.
func (e *Engine) FaultList(ctx context.Context, request Request, nodes string) (faults []fault.Applied, err error) {
	err = e.onNodes(ctx, "fault", request, listed(nodes), func(ctx context.Context, r reached) error {
		off := r.takeOff()
		faults, err = fault.List(ctx, faultHosts(r))
		for _, node := range off {
			faults = append(faults, powerOff(node))
		}
		return errors.Join(errors.Join(r.unreached...), err)
	})
	return faults, err
}

// FaultHeal heals faults of nodes of a cluster, those with the ids or all, and returns them: nodes whose machines are
// off are switched on. A node that cannot be reached is an error; the others are healed.
func (e *Engine) FaultHeal(
	ctx context.Context, request Request, nodes string, ids ...string,
) (healed []fault.Applied, err error) {
	err = e.onNodes(ctx, "fault", request, listed(nodes), func(ctx context.Context, r reached) error {
		off := r.takeOff()
		healed, err = fault.Heal(ctx, faultHosts(r), ids...)
		if len(ids) == 0 || slices.Contains(ids, PowerOffID) {
			on, onErr := r.switchOn(ctx, off)
			healed, err = append(healed, on...), errors.Join(err, onErr)
		}
		if unreached := errors.Join(r.unreached...); unreached != nil {
			late := fmt.Errorf("a node that is not reached heals itself when its time is up: %w", unreached)
			err = errors.Join(late, err)
		}
		return err
	})
	for _, id := range ids {
		if err == nil && !slices.ContainsFunc(healed, func(a fault.Applied) bool { return a.ID == id }) {
			err = fmt.Errorf("no node has a fault %s: it is over", id)
		}
	}
	return healed, err
}
