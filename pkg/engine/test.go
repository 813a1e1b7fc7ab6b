package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"hive-test/pkg/cluster"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/phase"
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
		return s.withCluster(ctx, find, func(r *lifecycle.Job) []phase.Entry {
			return lifecycle.Only(r, lifecycle.Test(r), s.keep(), s.Settings.Given("keep"))
		})
	})
}

// checkSuites refuses a node to run suites on that a cluster does not have, or will not have, variables for them that
// are not set, and suites that cannot be run.
func (s *session) checkSuites() error {
	nodes := s.Record.Nodes
	for i := len(nodes) + 1; i <= s.Record.Spec.NodeCount; i++ {
		nodes = append(slices.Clip(nodes), cluster.Node{Name: s.Record.Name.Node(i), Index: i})
	}
	var problems []error
	if _, found := nodes.Named(s.Settings.SuiteOn); !found && s.Settings.SuiteOn != "" {
		problems = append(
			problems, fmt.Errorf("--on %s: %w", s.Settings.SuiteOn, noNode(nodes, s.Settings.SuiteOn)),
		)
	}
	for _, name := range s.Settings.SuiteEnv {
		set := func(entry string) bool { return strings.HasPrefix(entry, name+"=") }
		if !strings.Contains(name, "=") && !slices.ContainsFunc(s.Environ, set) {
			problems = append(
				problems,
				fmt.Errorf("--suite-env %s: that variable is not set here: set it, or give %s=value", name, name),
			)
		}
	}
	if problem := checkCommands(s.Settings.Suites, s.Settings.SuiteOn != ""); problem != nil {
		problems = append(problems, problem)
	}
	if len(problems) > 0 {
		return usage(errors.Join(problems...))
	}
	return nil
}
