package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"hive-test/pkg/fault"
	"hive-test/pkg/progress"
	"hive-test/pkg/remote"
	"hive-test/pkg/suite"
)

// longestSuite is for how long a suite's fault lasts where nothing says how long the suite may take. It is healed when
// the suite ends: this is for a hive-test that is killed.
const longestSuite = time.Hour

// fault applies the fault of a suite where the nodes are now, as a step beside that of the suite, and returns what heals
// it.
func (l *lossMonitor) fault(ctx context.Context, s suite.Spec) (heal func(), err error) {
	spec, err := fault.Parse(s.Fault.What)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	asked, err := l.faultRequest(spec, s)
	l.mu.Unlock()
	if err != nil {
		return nil, err
	}
	names := make([]string, len(asked.Nodes))
	for i, host := range asked.Nodes {
		names[i] = host.Name()
	}
	sink := progress.With(l.sink, progress.Event{Step: "fault of " + s.Name})
	begun := time.Now()
	what := fmt.Sprintf("%s on %s", spec, strings.Join(names, ", "))
	sink.Emit(progress.Event{Kind: progress.StepStart, Message: what})
	if err := fault.Apply(ctx, asked); err != nil {
		end := progress.Event{
			Kind: progress.StepEnd, Message: what, Seconds: time.Since(begun).Seconds(),
		}.WithError(err)
		end.Status = progress.Failed
		if ctx.Err() != nil {
			end.Status = progress.Interrupted
		}
		sink.Emit(end)
		return nil, err
	}
	return func() {
		within, cancel := l.detached(ctx, l.patience(fault.HealTime))
		defer cancel()
		healed, err := fault.Heal(within, asked.Nodes, asked.ID)
		switch {
		case err != nil && onlyRefused(healed, err) == nil: // else what heals all that is left at the end tells of it
			progress.Warnf(sink, "it is not known to be healed, which the nodes do themselves when its time is up: %v", err)
		case len(healed) < len(asked.Nodes):
			progress.Warnf(sink, "it was over before the suite: give it more time by fault_for")
		}
		sink.Emit(progress.Event{
			Kind: progress.StepEnd, Status: progress.Passed, Message: what, Seconds: time.Since(begun).Seconds(),
		})
	}, nil
}

// faultRequest is what is asked for with a suite's fault. The lock is held.
func (l *lossMonitor) faultRequest(spec fault.Spec, s suite.Spec) (fault.Request, error) {
	all := l.Record.Nodes
	chosen := all
	switch {
	case spec.Kind == fault.Partition:
		chosen = spec.Involved(all)
	case len(s.Fault.Nodes) > 0:
		chosen = nil
		for _, word := range s.Fault.Nodes {
			node, found := all.Named(word)
			if !found {
				return fault.Request{}, fmt.Errorf("there is no node %q for the fault of %s", word, s.Title())
			}
			chosen = append(chosen, node)
		}
	}
	indexes := make([]int, len(chosen))
	for i, node := range chosen {
		indexes[i] = node.Index
	}
	group, err := l.chosen(indexes)
	if err != nil {
		return fault.Request{}, err
	}
	return fault.Request{
		ID: fault.NewID(spec, time.Now()), Spec: spec, Cluster: l.Record.Name.String(),
		For:   min(cmp.Or(s.Fault.For, s.Timeout, longestSuite), fault.MostTime),
		Nodes: faultHosts(group), All: all,
	}, nil
}

func faultHosts(group remote.Group) []fault.Host {
	hosts := make([]fault.Host, len(group))
	for i, host := range group {
		hosts[i] = host
	}
	return hosts
}

// healTime bounds asking all nodes for faults that are left: one that is lost must not keep the run.
const healTime = 10 * time.Second

// patience is most, and less where somebody waits for the run to stop: nodes that do not answer heal themselves.
func (r *Job) patience(most time.Duration) time.Duration {
	if r.Interrupted != nil && r.Interrupted() {
		return min(most, interruptedTime)
	}
	return most
}

// healFaults heals what is left of faults on all nodes, and tells of it: suites apply them, too.
func (r *Job) healFaults(ctx context.Context, sink progress.Sink) {
	within, cancel := r.detached(ctx, r.patience(healTime))
	defer cancel()
	group, err := r.group()
	if err != nil {
		return // who needs the nodes has said so
	}
	healed, err := fault.Heal(within, faultHosts(group))
	for _, a := range healed {
		if a.Error == "" {
			sink.Emit(progress.Event{
				Kind: progress.Info, Node: a.Node, Message: "healed " + a.Spec + ", which was there still",
			})
		}
	}
	r.warnUnhealed(sink, onlyRefused(healed, err))
}

// heal is healFaults as a step.
func (d *down) heal(ctx context.Context, sink progress.Sink) error {
	d.healFaults(ctx, sink)
	return nil
}

// onlyRefused is err where a node that answers could not heal a fault. That others do not answer, others tell.
func onlyRefused(healed []fault.Applied, err error) error {
	for _, a := range healed {
		if a.Error != "" {
			return err
		}
	}
	return nil
}

func (r *Job) warnUnhealed(sink progress.Sink, err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		progress.Warn(sink, "not all faults are healed: "+err.Error(), "hive-test fault heal "+r.Record.Name.String())
	}
}
