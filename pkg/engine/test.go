package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"hive-test/pkg/cluster"
	"hive-test/pkg/fault"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/phase"
	"hive-test/pkg/progress"
	"hive-test/pkg/suite"
)

// Test runs suites against a configured cluster and keeps their results.
func (e *Engine) Test(ctx context.Context, request Request) (Outcome, error) {
	return e.do(ctx, "test", request, func(s *session) error {
		find := func() error {
			if err := s.load(); err != nil {
				return err
			}
			return s.checkSuites()
		}
		return s.withJob(ctx, find, s.checkResets(ctx), func(r *lifecycle.Job) []phase.Entry {
			return lifecycle.Only(r, lifecycle.Test(r), s.keep(), s.Settings.Given("keep"))
		})
	})
}

// checkResets refuses resets of a cluster of which no snapshots can be made.
func (s *session) checkResets(ctx context.Context) func(*lifecycle.Job) error {
	return func(r *lifecycle.Job) error {
		if !r.Reset.Between || len(r.Suites.Specs) < 2 {
			return nil
		}
		if err := lifecycle.CheckSnapshots(ctx, r); err != nil {
			return Error{ExitConfig, err}
		}
		return nil
	}
}

// checkSuites refuses a node to run suites on that a cluster does not have, or will not have, variables for them that
// are not set, and suites that cannot be run.
func (s *session) checkSuites() error {
	nodes := s.Record.Nodes
	for i := len(nodes) + 1; i <= s.Record.Spec.NodeCount; i++ {
		nodes = append(slices.Clip(nodes), cluster.Node{Name: s.Record.Name.Node(i), Index: i})
	}
	list, err := specs(s.Settings)
	problems := []error{err}
	for _, on := range placesOf(append(slices.Clip(list), suite.Spec{On: s.Settings.SuiteOn})) {
		if _, found := nodes.Named(on); !found {
			problems = append(problems, fmt.Errorf("--on %s: %w", on, noNode(nodes, on)))
		}
	}
	problems = append(problems, s.unset("--suite-env", s.Settings.SuiteEnv)...)
	for _, one := range list {
		problems = append(problems, checkFault(one, nodes))
		problems = append(problems, s.unset("env of suite "+one.Title(), one.Env)...)
		if info, err := os.Stat(one.Dir); one.Dir != "" && (err != nil || !info.IsDir()) {
			problems = append(problems, fmt.Errorf("suite %s: dir %s is no directory", one.Title(), one.Dir))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return usage(err)
	}
	s.suites = lifecycle.Suites{
		Specs: list, Run: s.Settings.Run, Skip: s.Settings.Skip, AllowFlaky: s.Settings.AllowFlaky,
		RequireAll: s.Settings.RequireAll, Builtins: s.builtins,
	}
	for _, q := range s.Settings.Quarantine {
		s.suites.Quarantine = append(s.suites.Quarantine, suite.Quarantine(q))
	}
	return nil
}

// checkFault refuses a fault of a suite that cannot be, as far as that can be told before any node is asked.
func checkFault(s suite.Spec, nodes cluster.Nodes) error {
	if s.Fault.What == "" {
		return nil
	}
	which := strings.Join(s.Fault.Nodes, ",")
	spec, _, err := faultOf(FaultRequest{Fault: s.Fault.What, Nodes: which, For: s.Fault.For})
	if err == nil && spec.Kind == fault.Power {
		err = errors.New("power is not for suites' settings: nodes that are off heal nothing")
	}
	if err == nil {
		_, err = faultNodes(nodes, spec, which)
	}
	if err != nil {
		return progress.WithHint(fmt.Errorf("suite %s: %w", s.Title(), err), progress.HintOf(err))
	}
	return nil
}

// unset says which of the variables that suites are to get have no value anywhere. Where is who names them.
func (s *session) unset(where string, names []string) (problems []error) {
	for _, name := range names {
		set := func(entry string) bool { return strings.HasPrefix(entry, name+"=") }
		if !strings.Contains(name, "=") && !slices.ContainsFunc(s.Environ, set) {
			problems = append(
				problems, fmt.Errorf("%s %s: that variable is not set here: set it, or give %s=value", where, name, name))
		}
	}
	return problems
}

// placesOf are the nodes that suites are to be run on, each once.
func placesOf(list []suite.Spec) []string {
	var places []string
	for _, s := range list {
		if s.On != "" && !slices.Contains(places, s.On) {
			places = append(places, s.On)
		}
	}
	return places
}
