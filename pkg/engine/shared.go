package engine

import (
	"context"
	"errors"
	"os"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
	"hive-test/pkg/deploy"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/process"
	"hive-test/pkg/progress"
	"hive-test/pkg/state"
	"hive-test/pkg/target"
	"hive-test/pkg/wait"
)

// holdShared holds the cluster on all machines, where it is shared with others: its directory here is brought up to date.
func (s *session) holdShared(ctx context.Context, local state.Holder, patience time.Duration) error {
	if s.shared = s.sharing(); s.shared == nil {
		return nil
	}
	self, owner := process.Self(), newOwner(s.started)
	holder := target.Holder{Holder: local, User: owner.User, Place: self.Place, Start: self.Start}
	holder.Host = owner.Host
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	pauses := wait.Backoff{First: time.Second, Max: 10 * time.Second}
	for told := false; ; told = true {
		tookOver, err := s.shared.Hold(ctx, holder, s.working)
		if tookOver != nil && err == nil {
			progress.Infof(s.Sink, "took over from a run that has ended without giving the cluster up: %s", tookOver)
		}
		locked, held := errors.AsType[*state.LockedError](err)
		if !held {
			return err
		}
		if !told && patience > 0 {
			progress.Infof(s.Sink, "waiting up to %s: %v", progress.FormatLimit(patience), locked)
		}
		if wait.Sleep(limited, pauses.Next()) != nil {
			return err
		}
	}
}

// sharing returns what is shared of the cluster; nil: it is this machine's alone, as hosts of a hosts file are.
func (s *session) sharing() *target.Shared {
	if s.Record == nil && s.Settings.HostsFile != "" || s.Record != nil && !s.Makes() {
		return nil
	}
	return s.Target.Shared()
}

// unseen is how long a run on another machine may take until Proxmox VE tells of it.
const unseen = 5 * time.Minute

// working reports whether a run on another machine is still at work: its mark on Proxmox VE says so until it lapses.
func (s *session) working(ctx context.Context, holder target.Holder) (bool, error) {
	if time.Since(holder.Started) < unseen {
		return true, nil
	}
	if holder.Owner == "" {
		return false, nil
	}
	self := process.Self()
	p, err := s.Reaping(ctx, deploy.Run{
		Verb: s.verb, Who: newOwner(s.started).Who(), Place: self.Place, PID: self.PID, Start: self.Start,
	}, func(cluster.Name, string) (deploy.RunStatus, bool) { return deploy.RunStatus{}, false }) // here it is this run that holds the cluster
	if err != nil {
		return false, err
	}
	return p.AtWork(ctx, s.Name, holder.Owner)
}

// releaseShared gives the cluster up on all machines.
func (s *session) releaseShared() error {
	if s.shared == nil {
		return nil
	}
	shared := s.shared
	s.shared = nil
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.abort), sharedTime)
	defer cancel()
	return shared.Release(ctx)
}

// sharedTime bounds the writing of what is shared at the end of a run, whatever has become of it.
const sharedTime = 3 * time.Minute

// store is where phases keep what they know.
func (s *session) store() lifecycle.Store {
	if s.shared == nil {
		return s.Store
	}
	return sharedStore{s.Store, s}
}

// sharedStore is a Store whose records other machines get, too, whenever something was begun or has ended: before machines are made, they
// know what is about to be made.
type sharedStore struct {
	lifecycle.Store
	session *session
}

// Save writes the record, here and where it is shared.
func (k sharedStore) Save(r *cluster.Record) error {
	before, _ := k.Load(r.Name) // of what cannot be read everything is new
	if err := k.Store.Save(r); err != nil || k.session.shared == nil || !worthSharing(before, r) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(k.session.abort), sharedTime)
	defer cancel()
	return k.session.shared.Push(ctx)
}

// worthSharing reports whether others must know of what has changed at once: phases that began or ended, and machines.
func worthSharing(before, now *cluster.Record) bool {
	if before == nil || len(before.Nodes) != len(now.Nodes) {
		return true
	}
	for phase, record := range now.Phases {
		if before.Phases[phase].Status != record.Status {
			return true
		}
	}
	for i, node := range now.Nodes {
		if string(before.Nodes[i].Placement) != string(node.Placement) || before.Nodes[i].Management != node.Management {
			return true
		}
	}
	return false
}

// catchUp brings the directory of a shared cluster to what other machines have made of it, for a look. Where a run is at work on it here,
// it is newer than what is shared.
func (s *session) catchUp(ctx context.Context) error {
	if _, err := s.Store.Load(s.Name); s.sharing() == nil || err != nil {
		return nil //nolint:nilerr // who needs the record says what is wrong with it
	}
	err := s.fetch(ctx)
	if _, locked := errors.AsType[*state.LockedError](err); locked || errors.Is(err, state.ErrNotFound) { // gone, or never shared
		return nil
	}
	return err
}

// Attach makes a cluster that another machine has made usable here: its directory is made of what the backend has.
func (e *Engine) Attach(ctx context.Context, request Request) (*cluster.Record, error) {
	s, err := e.open(ctx, "attach", request)
	if err != nil {
		return nil, err
	}
	defer s.close()
	if !s.Settings.State.Remote() {
		return nil, usage(progress.WithHint(
			errors.New("there is no backend that the cluster could be in"), "set state in the config file: backend, and its own settings",
		))
	}
	if err := s.fetch(ctx); err != nil {
		return nil, err
	}
	return s.Store.Load(s.Name)
}

// findShared finds the record of a cluster that is not here, in the backend: missing is what is said where it is not there either.
func (s *session) findShared(ctx context.Context, missing error, find func() error) error {
	err := s.fetch(ctx)
	if _, locked := errors.AsType[*state.LockedError](err); locked || errors.Is(err, state.ErrNotFound) {
		return missing
	}
	if err != nil {
		return err
	}
	return find()
}

// fetch makes the cluster's directory of what the backend has.
func (s *session) fetch(ctx context.Context) error {
	if record, err := s.Store.Load(s.Name); err == nil { // another environment may have another backend
		if err := s.environmentAsMade(record); err != nil {
			return err
		}
	}
	lock, err := s.Store.Lock(s.Name, state.Holder{PID: os.Getpid(), Command: s.command(), Started: s.started})
	if err != nil {
		return err
	}
	err = s.Target.Shared().Fetch(ctx)
	return errors.Join(err, lock.Release())
}

// goneElsewhere reports whether another machine has destroyed a cluster that is here, and was shared: its directory goes then.
// Where that cannot be told now, it is here.
func (e *Engine) goneElsewhere(ctx context.Context, name cluster.Name, settings config.Settings, store *state.Store) bool {
	if store.Shared(name) == "" {
		return false
	}
	s, err := e.open(ctx, "status", Request{Name: name.String(), Settings: settings})
	if err != nil {
		return false
	}
	defer s.close()
	if err := s.fetch(ctx); err != nil && !errors.Is(err, state.ErrNotFound) {
		return false
	}
	_, err = store.Load(name)
	return errors.Is(err, state.ErrNotFound)
}

// sharedNames returns the clusters that are in the settings' backend.
func (e *Engine) sharedNames(ctx context.Context, settings config.Settings, store *state.Store) ([]cluster.Name, error) {
	settings = settings.WithPassphrase(ctx)
	if err := target.CheckState(settings); err != nil {
		return nil, err
	}
	e.Secrets.Learn(SecretsOf(settings)...)
	t := target.Target{
		Program: e.program(), Verb: "status", Settings: settings, Store: store, Sink: progress.Discard,
		File: func(string) string { return "" },
	}
	return t.SharedNames(ctx)
}
