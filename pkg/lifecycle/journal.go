package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/hive"
	"hive-test/pkg/phase"
	"hive-test/pkg/progress"
	"hive-test/pkg/remote"
)

// machines tells which machine each node is. That of a host that somebody else runs is known by the host keys that are
// pinned for it: no other host is talked to under its name.
func (r *Job) machines(ctx context.Context) []deploy.Machine {
	ctx, cancel := context.WithTimeout(ctx, statusTime)
	defer cancel()
	if r.Deploy.Identify != nil {
		return r.Deploy.Identify.Machines(ctx, r.Record)
	}
	machines := make([]deploy.Machine, len(r.Record.Nodes))
	for i, node := range r.Record.Nodes {
		if keys := remote.PinnedKeys(r.Store.Path(r.Record.Name, knownHostsFile), node); keys != "" {
			machines[i].ID = cluster.Hash(keys)
		}
	}
	return machines
}

// replaced tells whether a node is another machine now; one that is not known is taken for the same.
func replaced(before, now string) bool { return before != "" && now != "" && before != now }

// journal remembers in the cluster's record how far configuring has come on each node. The record is written when a
// step begins: by then those before it have ended, so one write tells of both.
type journal struct {
	*Job
	inputs map[string]string // by step; empty: not known from here, so it is done again
	again  bool              // what was done before does not count
	begun  []string          // the nodes of the step that is under way
}

var _ hive.Journal = (*journal)(nil)

// Done tells whether a step was done with the same inputs, on the machine that the node is now.
func (j *journal) Done(step, node string) bool {
	return !j.again && j.input(step) != "" && (j.entry(node).Inputs[step] == j.input(step) || j.cloned(step, node))
}

// cloned tells whether a node has what a step does from the template that it was cloned from, and the step was never begun on
// the node itself.
func (j *journal) cloned(step, node string) bool {
	used, order := j.Record.Template, hive.StepNames()
	i := slices.IndexFunc(j.Record.Nodes, func(n cluster.Node) bool { return n.Name == node })
	return used != nil && i >= 0 && placement.Of(j.Record.Nodes[i]).Template != 0 && used.Steps[step] == j.input(step) &&
		slices.Index(order, j.entry(node).Step) < slices.Index(order, step)
}

// keepCloned notes that a step is done on the nodes that have it from their template.
func (j *journal) keepCloned(step string, begun []string) {
	for _, node := range j.Record.Nodes {
		if !ownStep(step) || slices.Contains(begun, node.Name) || j.again || !j.cloned(step, node.Name) {
			continue
		}
		noted := j.entry(node.Name)
		noted.Inputs = maps.Clone(noted.Inputs)
		if noted.Inputs == nil {
			noted.Inputs = map[string]string{}
		}
		noted.Inputs[step] = j.input(step)
		j.Record.SetProgress(cluster.PhaseConfigure, node.Name, noted)
	}
}

// input identifies what a step is done with now; empty where that is not known from here. Hive knows its nodes by their
// addresses, which may change until it starts.
func (j *journal) input(step string) string {
	if step == hive.StepStart && j.inputs[step] != "" {
		return cluster.Hash(j.inputs[step], j.Record.Nodes)
	}
	return j.inputs[step]
}

func (j *journal) entry(node string) cluster.NodeProgress {
	return j.Record.Phases[cluster.PhaseConfigure].Nodes[node]
}

// Begin notes a step and writes the record, unless nothing is asked of any node.
func (j *journal) Begin(ctx context.Context, step string, nodes []string) error {
	return phase.InTurn(ctx, func() error {
		j.Record.BeginStep(cluster.PhaseConfigure, step)
		j.begun = nodes
		if step == hive.StepInit && j.Force {
			j.Record.Unform()
		}
		j.keepCloned(step, nodes)
		for _, node := range nodes {
			noted := j.entry(node)
			noted.Step, noted.Status = step, cluster.PhaseRunning
			noted.Inputs = valid(noted.Inputs, step)
			j.Record.SetProgress(cluster.PhaseConfigure, node, noted)
		}
		if len(nodes) == 0 {
			return nil
		}
		return j.Store.Save(j.Record)
	})
}

// valid are the inputs of what still counts when a step begins: what comes after a node's own step builds on it, and
// hive that is stopped is no longer started.
func valid(inputs map[string]string, step string) map[string]string {
	if !ownStep(step) && step != hive.StepStop {
		return inputs
	}
	order, kept := hive.StepNames(), maps.Clone(inputs)
	maps.DeleteFunc(kept, func(s, _ string) bool { return slices.Index(order, s) >= slices.Index(order, step) })
	return kept
}

func ownStep(step string) bool { return slices.Contains(hive.OwnSteps(), step) }

// End notes how the step has ended. Where only some nodes are to blame, it is done on the others.
func (j *journal) End(ctx context.Context, step string, err error) {
	_ = phase.InTurn(ctx, func() error { // nobody waits for a phase that was abandoned
		j.end(step, err)
		return nil
	})
}

func (j *journal) end(step string, err error) {
	failed := map[string]bool{}
	if blamed, ok := errors.AsType[*hive.StepError](err); ok {
		for _, name := range blamed.NodeNames() {
			failed[name] = true
		}
	}
	if err == nil && (step == hive.StepJoin || step == hive.StepHealth) { // health proves it where join was left out
		j.Record.Form()
	}
	for _, node := range j.begun {
		noted := j.entry(node)
		noted.Step, noted.Status = step, cluster.PhaseDone
		if err != nil && (len(failed) == 0 || failed[node]) {
			noted.Status = cluster.PhaseFailed
		} else if ownStep(step) && j.input(step) != "" {
			noted.Inputs = maps.Clone(noted.Inputs)
			if noted.Inputs == nil {
				noted.Inputs = map[string]string{}
			}
			noted.Inputs[step] = j.input(step)
		}
		j.Record.SetProgress(cluster.PhaseConfigure, node, noted)
	}
	j.begun = nil
}

// complete tells whether all steps of nodes are done on all nodes with the same inputs.
func (j *journal) complete() bool {
	for _, node := range j.Record.Nodes {
		noted := j.entry(node.Name)
		for _, step := range hive.OwnSteps() {
			// os is no step everywhere
			if was := noted.Inputs[step]; was != j.input(step) && (was != "" || step != hive.StepOS) {
				return false
			}
		}
	}
	return true
}

// reset are the nodes of the record that are other machines than were configured, in order.
func reset(r *cluster.Record, machines []deploy.Machine) []string {
	earlier := r.Phases[cluster.PhaseConfigure].Nodes
	var names []string
	for i, machine := range machines {
		node := r.Nodes[i].Name
		if noted, known := earlier[node]; replaced(noted.Machine, machine.ID) || !known && len(earlier) > 0 {
			names = append(names, node)
		}
	}
	return names
}

// refresh gives each node its machine, and forgets what was done on others. It returns the nodes that are new so.
func (j *journal) refresh(machines []deploy.Machine) []string {
	fresh := reset(j.Record, machines)
	for i, machine := range machines {
		node := j.Record.Nodes[i].Name
		noted := j.entry(node)
		if slices.Contains(fresh, node) {
			noted = cluster.NodeProgress{}
		}
		noted.Machine = cmp.Or(machine.ID, noted.Machine)
		j.Record.SetProgress(cluster.PhaseConfigure, node, noted)
	}
	return fresh
}

// tell says what is done again on which nodes because its inputs have changed.
func (j *journal) tell(sink progress.Sink, nodes []string) {
	for _, step := range []string{hive.StepOS, hive.StepInstall} {
		counts := map[string]int{}
		for _, node := range nodes {
			if was := j.entry(node).Inputs[step]; was != "" && was != j.input(step) {
				counts[hive.Changed(step, was, j.input(step))]++
			}
		}
		for _, what := range slices.Sorted(maps.Keys(counts)) {
			progress.Infof(
				sink, "%s: %s again on %s", what,
				map[string]string{hive.StepOS: "preparing", hive.StepInstall: "installing"}[step],
				progress.Count(counts[what], "node"),
			)
		}
	}
}
