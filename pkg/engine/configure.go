package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
	"hive-test/pkg/hive"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/phase"
)

// ConfigureRequest is what Configure is asked for.
type ConfigureRequest struct {
	Request
	Force     bool   // form the cluster again, with its services stopped first
	From      string // the step to begin with; empty: the first that is not done
	OnlyNodes string // like 2,3, for what is done on each node by itself; empty: all
}

// Configure installs hive on every node, forms the cluster, and waits until every node is healthy.
func (e *Engine) Configure(ctx context.Context, request ConfigureRequest) (Outcome, error) {
	if err := errors.Join(
		checkHive(request.Settings, request.Settings.Hive.Layout),
		checkCourse(request.From, request.OnlyNodes, request.Force),
	); err != nil {
		return Outcome{}, err
	}
	return e.do(ctx, "configure", request.Request, func(s *session) error {
		var only cluster.Nodes
		find := func() (err error) {
			if err := s.load(); err != nil {
				return err
			}
			if request.Force {
				if err := s.protect(); err != nil {
					return err
				}
			}
			// The cluster remembers its layout, which may not go with what is named now.
			if layout := s.hiveOptions().Layout; layout != s.Settings.Hive.Layout {
				if err := checkHive(s.Settings, layout); err != nil {
					return err
				}
			}
			only, err = choose(s.Record.Nodes, "--only-nodes "+request.OnlyNodes, request.OnlyNodes)
			return err
		}
		return s.withCluster(ctx, find, func(r *lifecycle.Job) []phase.Entry {
			r.Force, r.From = request.Force, request.From
			if request.OnlyNodes != "" {
				r.Only = only.Names()
			}
			return lifecycle.Only(r, lifecycle.Configure(r), s.keep(), s.Settings.Given("keep"))
		})
	})
}

// checkHive refuses what cannot be installed in that layout.
func checkHive(settings config.Settings, layout string) error {
	options := installed(settings)
	options.Layout = layout
	if problems := options.Validate(); len(problems) > 0 {
		return usage(errors.Join(problems...))
	}
	return nil
}

// checkCourse refuses parts of configuring that make no sense.
func checkCourse(from, which string, force bool) error {
	order := hive.StepNames()
	after := func(step string) bool { return slices.Index(order, from) > slices.Index(order, step) }
	var problem error
	switch {
	case from != "" && hive.CheckStep(from) != nil:
		problem = fmt.Errorf("--from: %w", hive.CheckStep(from))
	case force && which != "":
		problem = errors.New("--force forms the cluster of all nodes anew: it does not go with --only-nodes")
	case force && after(hive.StepStop):
		problem = fmt.Errorf(
			"--force forms the cluster anew, which begins with stopping hive: it does not go with --from %s", from,
		)
	case which != "" && after(hive.StepStop) && from != hive.StepStart:
		problem = fmt.Errorf("%s is a step of the whole cluster: --from %s does not go with --only-nodes", from, from)
	}
	if problem != nil {
		return usage(problem)
	}
	return nil
}
