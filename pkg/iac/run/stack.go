package run

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"hive-test/pkg/gateway/wire"
	"hive-test/pkg/iac/stacks"
	"hive-test/pkg/opentofu"
	"hive-test/pkg/phase"
	"hive-test/pkg/progress"
)

// stackRun is one run of one stack.
type stackRun struct {
	*suiteRun
	stack     stacks.Stack
	name      string // of all that it makes
	dir       string // of tofu's files
	variables map[string]any
	tofu      *opentofu.Runner
	work      *opentofu.Run // nil before init
	planned   opentofu.Plan
	revision  int // that was planned last to be applied

	failed    bool // a step has
	applied   bool // an apply has begun: there may be something to delete
	destroyed bool // tofu has deleted all that it knew of
}

// step is one of a stack. One that is needed is run for the sake of those after it, though nobody has asked for it.
type step struct {
	name   string
	do     func(context.Context) error
	needed bool
	limit  time.Duration
}

func (s *stackRun) steps() []step {
	return []step{
		{stepInit, s.initialise, true, initTime},
		{stepPlan, func(ctx context.Context) error { return s.plan(ctx, 1) }, true, stepTime},
		{stepApply, s.apply, true, stepTime},
		{stepVerify, s.verify, false, stepTime},
		{stepNoDiff, s.unchanged, false, stepTime},
		{stepUpdate, s.update, true, stepTime},
		{stepAfter, s.unchanged, false, stepTime},
	}
}

// run runs the steps up to the last one that is wanted, and deletes what they have made.
func (s *stackRun) run(ctx context.Context, last int) {
	failed := ""
	for _, step := range s.steps()[:last+1] {
		name := s.caseOf(step.name)
		switch {
		case !step.needed && !s.t.Wanted(name):
		case failed != "":
			s.t.Skip(name, failed+" failed")
		case !s.try(ctx, step):
			failed, s.failed = name, true
		}
		if ctx.Err() != nil {
			break
		}
	}
	switch destroy, gone := s.caseOf(stepDestroy), s.caseOf(stepGone); {
	case ctx.Err() != nil:
		s.cleanUp(ctx)
	case !s.applied:
		s.t.Skip(destroy, "nothing was made")
		s.t.Skip(gone, "nothing was made")
	default:
		s.try(ctx, step{name: stepDestroy, do: s.destroy, limit: destroyTime})
		s.try(ctx, step{name: stepGone, do: s.gone, limit: stepTime})
		s.cleanUp(ctx)
	}
}

// try runs one step as a case.
func (s *stackRun) try(ctx context.Context, step step) bool {
	if ctx.Err() != nil {
		return false
	}
	s.record.at(s.stack.Name, step.name)
	return s.t.Try(ctx, s.caseOf(step.name), func(ctx context.Context) error {
		ctx, cancel := context.WithTimeoutCause(ctx, step.limit, fmt.Errorf("no end within %s", progress.FormatLimit(step.limit)))
		defer cancel()
		return s.explained(step.name, step.do(ctx))
	})
}

// explained is an error of a step in terms of resources and calls.
func (s *stackRun) explained(step string, err error) error {
	failure, ok := errors.AsType[*opentofu.Failure](err)
	if !ok || len(failure.Diagnostics) == 0 || step == stepInit {
		return err
	}
	return errors.New(explain(failure.Diagnostics, s.record.of(s.stack.Name, step)))
}

func (s *stackRun) initialise(ctx context.Context) error {
	work, err := s.tofu.Begin(ctx, s.dir)
	if err != nil {
		return err
	}
	s.work = work
	if s.lock == nil && s.Tofu.ProviderMirror == "" {
		s.suiteRun.lock, _ = os.ReadFile(filepath.Join(s.dir, "tofu", lockName)) // without it there is only more to download
	}
	return nil
}

func (s *stackRun) close() {
	if s.work != nil {
		s.work.Close()
	}
}

// values are what the stack's variables have at a revision.
func (s *stackRun) values(revision int) map[string]any {
	values := map[string]any{
		"name": s.name, "revision": revision, "mulgaos_endpoint": s.proxy.url, "region": s.proxy.key.Region,
	}
	maps.Copy(values, s.variables)
	return values
}

// plan makes the plan of a revision, of which something must be to do.
func (s *stackRun) plan(ctx context.Context, revision int) (err error) {
	s.revision = revision
	s.planned, err = s.work.Plan(ctx, s.values(revision))
	if err == nil && !s.planned.Changed {
		return errors.New("the plan is empty, and there is something to do")
	}
	return err
}

// apply does what was planned.
func (s *stackRun) apply(ctx context.Context) error {
	s.applied = true
	_, err := s.work.Apply(ctx, s.planned)
	return err
}

// unchanged plans what is there already: nothing is to be done.
func (s *stackRun) unchanged(ctx context.Context) error {
	plan, err := s.work.Plan(ctx, s.values(s.revision))
	if err == nil && plan.Changed {
		return fmt.Errorf("the plan is not empty after the apply: it would %s", changes(plan.Changes))
	}
	return err
}

// update plans and applies the second revision, which changes resources and makes none anew.
func (s *stackRun) update(ctx context.Context) error {
	if err := s.plan(ctx, 2); err != nil {
		return err
	}
	for _, c := range s.planned.Changes {
		if c.Action != "update" {
			return fmt.Errorf("the update is not in place: it would %s", changes([]opentofu.Change{c}))
		}
	}
	if err := s.apply(ctx); err != nil {
		return err
	}
	return s.verify(ctx)
}

// changes says what a plan would do.
func changes(list []opentofu.Change) string {
	var texts []string
	for _, c := range list {
		text := c.Action + " " + c.Address
		var names []string
		for _, a := range c.Attributes {
			names = append(names, a.Name)
		}
		if len(names) > 0 {
			text += " (" + strings.Join(names, ", ") + ")"
		} else if c.Reason != "" {
			text += " (" + c.Reason + ")"
		}
		texts = append(texts, text)
	}
	if len(texts) == 0 {
		return "change what the state remembers"
	}
	return strings.Join(texts, ", ")
}

// destroy deletes by tofu all that it knows of. What a failed step has made and tofu has no record of, as when the provider
// has crashed, goes first: else it would be in the way.
func (s *stackRun) destroy(ctx context.Context) error {
	if s.failed {
		s.deleteLost(ctx)
	}
	err := s.work.Destroy(ctx, s.values(s.revision), true)
	s.destroyed = err == nil
	return err
}

// gone proves that nothing is left. After a destroy that failed it deletes what is, by calls of our own.
func (s *stackRun) gone(ctx context.Context) error {
	if !s.destroyed {
		s.cleanUp(ctx)
	}
	things, err := s.left(ctx)
	if len(things) > 0 {
		err = errors.Join(fmt.Errorf("still there after the destroy: %s", listed(things)), err)
	}
	return err
}

// cleanUp deletes what is left of the stack by calls of our own, though ctx may have ended, and tells what it has deleted
// and what remains.
func (s *stackRun) cleanUp(ctx context.Context) {
	if !s.applied {
		return
	}
	ctx, cancel := phase.After(ctx, sweepTime, errors.New("the time for cleaning up is over"))
	defer cancel()
	things, err := s.sweep(ctx)
	switch {
	case err != nil:
		s.t.Warn(fmt.Sprintf("stack %s: %v: delete what has the name %s", s.stack.Name, oneLine(err.Error()), s.name))
	case len(things) > 0:
		s.t.Info(fmt.Sprintf("stack %s: deleted what was left: %s", s.stack.Name, listed(things)))
	}
}

func listed(things []thing) string {
	var texts []string
	for _, t := range things {
		texts = append(texts, t.String())
	}
	return strings.Join(texts, ", ")
}

// preferredType is the instance type that is taken where the endpoint has it, else its first.
const preferredType = "t3.micro"

// chooseImage finds an image and a type of instance, which the stack then finds by its data sources. It returns what is
// missing; empty: nothing.
func (s *stackRun) chooseImage(ctx context.Context) (lacks string, err error) {
	image, err := s.image(ctx)
	if err != nil {
		return "", err
	}
	if image == nil {
		return "the endpoint has no image to start an instance of", nil
	}
	s.variables = map[string]any{"image_name": image.Text("Name"), "image_owner": "self", "instance_type": preferredType}
	if owner := image.Text("OwnerId"); owner != "" {
		s.variables["image_owner"] = owner
	}
	const call = "DescribeInstanceTypes"
	if out, err := s.client.do(ctx, call, wire.Object{"InstanceTypes": wire.Strings(preferredType)}); err == nil &&
		len(out.Objects("InstanceTypes")) == 1 {
		return "", nil
	}
	out, err := s.client.do(ctx, call, wire.Object{})
	if err != nil {
		return "", answered(call, err)
	}
	types := out.At("InstanceTypes.InstanceType")
	if len(types) == 0 {
		return "the endpoint has no type of instance", nil
	}
	s.variables["instance_type"] = types[0]
	return "", nil
}

// image returns an image that can be found by its name: of the account, a stock one of AWS, or any. Nil: there is none.
func (s *stackRun) image(ctx context.Context) (wire.Object, error) {
	const call = "DescribeImages"
	stock := wire.Object{
		"Owners":  wire.Strings("amazon"),
		"Filters": wire.List(wire.Object{"Name": "name", "Values": wire.Strings("al2023-ami-2023*-x86_64")}),
	}
	var failure error
	for _, in := range []wire.Object{{"Owners": wire.Strings("self")}, stock, {}} {
		out, err := s.client.do(ctx, call, in)
		if err != nil {
			failure = answered(call, err)
			continue
		}
		for _, image := range out.Objects("Images") {
			if image.Text("Name") != "" && (image.Text("State") == "available" || image.Text("State") == "") &&
				image.Text("Architecture") != "arm64" {
				return image, nil
			}
		}
		failure = nil
	}
	return nil, failure
}
