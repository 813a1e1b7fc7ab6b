package engine

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/state"
)

// Drift is what a look at one cluster has found.
type Drift struct {
	Cluster string
	Time    time.Time
	// Differences are in the order of the nodes; none: everything is as it is recorded.
	Differences []lifecycle.Difference
	// Busy is the run that is at work on the cluster, which was not looked at; empty: none is.
	Busy string
	// Err is why the cluster could not be looked at, or not at all of it; else nil.
	Err error
}

// Found reports whether there is drift.
func (d Drift) Found() bool { return len(d.Differences) > 0 }

// Drift looks once for what of a cluster is not as it is recorded. Nothing is changed, nobody is kept from working on the
// cluster, and one that a run is at work on is not looked at: the error is a *state.LockedError. Only one process on this
// machine looks at a time: for another the error has ExitLocked. Drift that is found is no error.
func (e *Engine) Drift(ctx context.Context, request Request) (Drift, error) {
	d := Drift{Cluster: request.Name, Time: time.Now().UTC()}
	s, r, err := e.lookForDrift(ctx, request)
	if err != nil {
		return d, err
	}
	defer s.close()
	limited, cancel := s.limited(ctx)
	defer cancel()
	release, err := s.Store.LookLock(s.Name, state.Holder{PID: os.Getpid(), Command: s.command(), Started: s.started})
	if other, taken := errors.AsType[*state.LookedAtError](err); taken {
		return d, Error{ExitLocked, other}
	}
	if err != nil {
		return d, Error{ExitConfig, err}
	}
	d.Differences, err = lifecycle.ReadDrift(limited, r)
	err = errors.Join(err, r.Close(), release())
	if limited.Err() != nil {
		err = context.Cause(limited)
	}
	if busy := s.atWork(); busy != nil { // what it does is no drift, and may be what was seen
		d.Differences = nil
		return d, busy
	}
	if gone := s.sameRecord(r.Record); gone != nil {
		d.Differences = nil
		return d, gone
	}
	return d, err
}

// lookForDrift opens a cluster that no run is at work on.
func (e *Engine) lookForDrift(ctx context.Context, request Request) (*session, *lifecycle.Job, error) {
	s, err := e.openForRead(ctx, "drift", request)
	if errors.Is(err, state.ErrNotFound) {
		if holder, begun := begunBy(request); begun { // its first record is still to come
			return nil, nil, &state.LockedError{Name: cluster.Name(request.Name), Holder: holder, Life: state.Alive}
		}
	}
	if err != nil {
		return nil, nil, err
	}
	err = s.atWork()
	if err == nil {
		err = s.heldElsewhere(ctx)
	}
	if err != nil {
		s.close()
		return nil, nil, err
	}
	deployer, err := s.Deployer()
	if err != nil {
		s.close()
		return nil, nil, err
	}
	return s, s.looking(deployer), nil
}

// atWork is a *state.LockedError where a run is at work on the cluster.
func (s *session) atWork() error {
	if holder, life := s.Store.Holder(s.Name); life == state.Alive || life == state.Elsewhere {
		return &state.LockedError{Name: s.Name, Holder: holder, Life: life}
	}
	return nil
}

// heldElsewhere is atWork for a cluster that is shared with other machines.
func (s *session) heldElsewhere(ctx context.Context) error {
	shared := s.sharing()
	if shared == nil {
		return nil
	}
	holder, err := shared.ReadHolder(ctx)
	if err != nil || holder == nil {
		return err
	}
	if working, err := s.working(ctx, *holder); err != nil || !working {
		return err
	}
	return &state.LockedError{Name: s.Name, Holder: holder.Holder, Life: state.Elsewhere}
}

// errRecordChanged means that a run has changed a cluster while it was looked at, and has ended.
var errRecordChanged = errors.New("a run has changed the cluster while it was looked at: look again")

// sameRecord is an error where the record is not the one that a look has compared with any more.
func (s *session) sameRecord(before *cluster.Record) error {
	now, err := s.Store.Load(s.Name)
	if err != nil {
		return s.explainRecord(err)
	}
	if cluster.Hash(now.Phases, now.Nodes, now.Owner, now.Snapshots) != cluster.Hash(before.Phases, before.Nodes, before.Owner, before.Snapshots) {
		return errRecordChanged
	}
	return nil
}

// DriftAll looks at every cluster that is here, so many at a time, and calls see with each as it is looked at, one after
// the other. What is wrong with one cluster is told with it; the others are looked at. The error is that of finding the
// clusters, or of see.
func (e *Engine) DriftAll(ctx context.Context, settings config.Settings, jobs int, see func(Drift) error) error {
	store, err := state.Open(settings.ClustersDir)
	if err != nil {
		return Error{ExitConfig, err}
	}
	names, err := store.List()
	if err != nil {
		return err
	}
	slices.Sort(names)
	found := make([]chan Drift, len(names))
	for i := range names {
		found[i] = make(chan Drift, 1)
	}
	ctx, cancel := context.WithCancel(ctx)
	var wait sync.WaitGroup
	defer wait.Wait()
	defer cancel()
	wait.Go(func() {
		slots := make(chan struct{}, max(jobs, 1))
		for i, name := range names {
			slots <- struct{}{}
			wait.Go(func() {
				defer func() { <-slots }()
				found[i] <- e.DriftOf(ctx, name.String(), settings)
			})
		}
	})
	for i := range names {
		if err := see(<-found[i]); err != nil {
			return err
		}
	}
	return nil
}

// DriftOf is Drift of one cluster of several, or of one that is watched: what is wrong is told with it.
func (e *Engine) DriftOf(ctx context.Context, name string, settings config.Settings) Drift {
	if ctx.Err() != nil {
		return Drift{Cluster: name, Time: time.Now().UTC(), Err: context.Cause(ctx)}
	}
	d, err := e.Drift(ctx, Request{Name: name, Settings: settings})
	if locked, ok := errors.AsType[*state.LockedError](err); ok {
		d.Busy = locked.Error()
		return d
	}
	d.Err = err
	return d
}
