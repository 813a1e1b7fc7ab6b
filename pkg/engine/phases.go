package engine

import (
	"context"
	"errors"

	"hive-test/pkg/deploy"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/phase"
	"hive-test/pkg/state"
	"hive-test/pkg/target"
)

// do opens a session, lets work use it, and closes it. What came of it is in the outcome, whatever the error.
func (e *Engine) do(
	ctx context.Context, verb string, request Request, work func(*session) error,
) (outcome Outcome, err error) {
	s, err := e.open(ctx, verb, request)
	if err != nil {
		return Outcome{}, err
	}
	defer s.close()
	defer s.endGateway(ctx)
	defer func() {
		outcome = s.outcome(ctx, err)
		if err != nil && !request.Unreported {
			s.reportRefusal(outcome.Report)
		}
	}()
	return Outcome{}, work(s)
}

// keep is what becomes of VMs: what the user says, else full destroys them, and other verbs keep what failed for a
// second try.
func (s *session) keep() lifecycle.Keep {
	switch {
	case s.warm && !s.Settings.Given("keep"): // the next run begins from its snapshot
		return lifecycle.KeepAlways
	case s.Settings.Keep != "":
		return lifecycle.Keep(s.Settings.Keep)
	case s.verb == "full" || s.verb == templateVerb:
		return lifecycle.KeepNever
	}
	return lifecycle.KeepOnFailure
}

// withCluster runs phases on a cluster whose record is found by find.
func (s *session) withCluster(ctx context.Context, find func() error, list func(*lifecycle.Job) []phase.Entry) error {
	return s.withJob(ctx, find, nil, list)
}

// withJob is withCluster, where check, if there is one, may refuse before there is a run.
func (s *session) withJob(
	ctx context.Context, find func() error, check func(*lifecycle.Job) error, list func(*lifecycle.Job) []phase.Entry,
) error {
	if err := s.checkPlan(); err != nil {
		return err
	}
	root := ctx
	ctx, cancel := s.limited(ctx)
	defer cancel()
	deployer, err := s.take(ctx, find)
	if err != nil {
		return err
	}
	if check != nil {
		if err := check(s.job(root, deployer)); err != nil {
			return err
		}
	}
	if err := s.begin(); err != nil {
		return s.elsewhere(err)
	}
	target.EndOrphans(ctx, s.Record.Owner.ID, s.Sink) // one that still makes VMs is in the way of all that follows
	r := s.job(root, deployer)
	return s.phases(ctx, r, list(r))
}

// beginning returns who is about to make a cluster of which there is no record yet; nil: nobody is.
func (s *session) beginning(err error) error {
	if !errors.Is(err, state.ErrNotFound) {
		return nil
	}
	if holder, life := s.Store.Holder(s.Name); life == state.Alive || life == state.Elsewhere {
		return &state.LockedError{Name: s.Name, Holder: holder, Life: life}
	}
	return nil
}

// take finds the record of a cluster that exists and holds the cluster, and returns where its machines are.
func (s *session) take(ctx context.Context, find func() error) (deploy.Capable, error) {
	err := find()
	if errors.Is(err, state.ErrNotFound) && s.Settings.State.Remote() {
		err = s.findShared(ctx, err, find)
	}
	if err != nil {
		locked := s.beginning(err)
		if locked == nil {
			return deploy.Capable{}, err
		}
		if s.Settings.Wait <= 0 {
			return deploy.Capable{}, locked
		}
		s.Record = s.newRecord() // nothing is known of it before that run has ended
	}
	if err := s.hold(ctx); err != nil {
		return deploy.Capable{}, s.elsewhere(err)
	}
	if err := find(); err != nil { // as it is now that nobody else changes it
		return deploy.Capable{}, err
	}
	if err := s.connect(ctx); err != nil {
		return deploy.Capable{}, err
	}
	return s.Deployer()
}
