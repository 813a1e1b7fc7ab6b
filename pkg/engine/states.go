package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/progress"
	"hive-test/pkg/state"
	"hive-test/pkg/target"
)

// State is the state of a cluster as OpenTofu keeps it.
type State struct {
	target.StateFile
	Backend string // type of the backend; "local": a file in the cluster's directory
	Text    string // all of it, as it is without encryption
}

// states opens a cluster whose state is read or written by hand. One that is in the backend alone is fetched.
func (e *Engine) states(ctx context.Context, verb string, request Request) (*session, error) {
	s, err := e.open(ctx, "state "+verb, request)
	if err != nil {
		return nil, err
	}
	err = s.load()
	if errors.Is(err, state.ErrNotFound) && s.Settings.State.Remote() {
		err = s.findShared(ctx, err, s.load)
	}
	if err == nil {
		err = s.KeepsState()
	}
	if err == nil && slices.Contains(changing(), verb) {
		err = s.protect()
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// changing are the verbs of state that change one: protected clusters refuse them.
func changing() []string { return []string{"push", "unlock", "migrate", "rollback"} }

// holdStates is states for a cluster that is held, so that no run is at work on it meanwhile.
func (e *Engine) holdStates(ctx context.Context, verb string, request Request) (*session, error) {
	s, err := e.states(ctx, verb, request)
	if err != nil {
		return nil, err
	}
	if err = s.hold(ctx); err == nil {
		err = s.load() // as it is now that nobody else changes it
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// State reads the state of a cluster, wherever it is kept.
func (e *Engine) State(ctx context.Context, request Request) (State, error) {
	s, err := e.states(ctx, "show", request)
	if err != nil {
		return State{}, err
	}
	defer s.close()
	return s.readState(ctx)
}

func (s *session) readState(ctx context.Context) (State, error) {
	text, err := s.Target.State(ctx)
	if err != nil {
		return State{}, err
	}
	file, err := target.ParseState(text)
	if err != nil {
		return State{}, Error{ExitConfig, fmt.Errorf("the state of cluster %q: %w", s.Name, err)}
	}
	return State{StateFile: file, Backend: s.backendName(), Text: text}, nil
}

// backendName is the type of the backend that the state is in.
func (s *session) backendName() string { return backendName(s.StateBackend()) }

func backendName(b cluster.StateBackend) string {
	if b.IsZero() {
		return "local"
	}
	return b.Type
}

// StateInit makes a cluster's directory ready for OpenTofu, writes a state that an earlier run could not write, and returns the
// directory that OpenTofu works in, and the state.
func (e *Engine) StateInit(ctx context.Context, request Request) (dir string, now State, err error) {
	err = e.withModule(ctx, "init", request, func(s *session) error {
		if dir, err = s.StateReady(ctx); err != nil {
			return err
		}
		now, err = s.readState(ctx)
		return err
	})
	return dir, now, err
}

// StateValidate returns what OpenTofu finds wrong with the module that makes the cluster's VMs.
func (e *Engine) StateValidate(ctx context.Context, request Request) (found []deploy.Problem, err error) {
	err = e.withModule(ctx, "validate", request, func(s *session) error {
		found, err = s.ValidateModule(ctx)
		return err
	})
	return found, err
}

// StateFormat returns the files of the module that are not written as OpenTofu formats them.
func (e *Engine) StateFormat(ctx context.Context, request Request) (files []string, err error) {
	err = e.withModule(ctx, "fmt", request, func(s *session) error {
		files, err = s.UnformattedModule(ctx)
		return err
	})
	return files, err
}

// withModule is about the module in the directory of a cluster that is held.
func (e *Engine) withModule(ctx context.Context, verb string, request Request, do func(*session) error) error {
	s, err := e.holdStates(ctx, verb, request)
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.connect(ctx); err != nil {
		return err
	}
	return do(s)
}

// StatePush writes a state from a file; no file: one that an earlier run could not write. Where resources of the state that is there
// would be lost, the user is asked, unless yes says so. It returns the state as it is then.
func (e *Engine) StatePush(ctx context.Context, request Request, file string, yes bool) (State, error) {
	s, err := e.holdStates(ctx, "push", request)
	if err != nil {
		return State{}, err
	}
	defer s.close()
	if file == "" {
		if file = s.ErroredState(); file == "" {
			return State{}, usage(fmt.Errorf("cluster %q has no state that could not be written: name a file", s.Name))
		}
	} else if _, err := os.Stat(file); err != nil {
		return State{}, usage(fmt.Errorf("the state cannot be read: %w", err))
	}
	text, err := s.PlainState(ctx, file)
	if err != nil {
		return State{}, err
	}
	if err := s.replaces(ctx, text, file, yes); err != nil {
		return State{}, err
	}
	if err := s.PushState(ctx, text); err != nil {
		return State{}, err
	}
	if file == s.ErroredState() {
		if err := os.Rename(file, file+".pushed"); err != nil {
			return State{}, err
		}
	}
	return s.readState(ctx)
}

// replaces refuses a text that is no state, and asks where it lacks resources that the state has which is there.
func (s *session) replaces(ctx context.Context, text, name string, yes bool) error {
	next, err := target.ParseState(text)
	if err == nil && next.Lineage == "" {
		err = errors.New("it has no lineage")
	}
	if err != nil {
		return usage(fmt.Errorf("%s is no state: %w", name, err))
	}
	now, err := s.readState(ctx)
	if err != nil {
		return err
	}
	var lost []string
	for _, change := range target.DiffStates(now.StateFile, next) {
		if change.Action == "delete" {
			lost = append(lost, change.Address)
		}
	}
	if len(lost) == 0 {
		return nil
	}
	return s.agreed(yes, fmt.Sprintf("write a state that knows nothing of %s any more?", strings.Join(lost, ", ")))
}

// agreed asks the user, unless yes says so.
func (s *session) agreed(yes bool, question string) error {
	if yes {
		return nil
	}
	agreed, err := s.Confirm(question)
	switch {
	case err != nil:
		return usage(err)
	case !agreed:
		return usage(errors.New("nothing was changed"))
	}
	return nil
}

// StateUnlock takes OpenTofu's lock from the state of a cluster on which no run is at work, and returns it; nil: there was none. An id
// that is given must be that of the lock. The user is asked unless yes says so.
func (e *Engine) StateUnlock(ctx context.Context, request Request, id string, yes bool) (*target.StateLock, error) {
	s, err := e.holdStates(ctx, "unlock", request)
	if err != nil {
		return nil, err
	}
	defer s.close()
	if s.StateBackend().IsZero() {
		return nil, usage(progress.WithHint(
			fmt.Errorf("the state of cluster %q is a file here, which only a run at work locks", s.Name),
			fmt.Sprintf("hive-test unlock %s takes the cluster from a run that is over", s.Name),
		))
	}
	lock, err := s.StateLock(ctx)
	if err != nil || lock == nil {
		return nil, err
	}
	if id != "" && id != lock.ID {
		return nil, usage(fmt.Errorf("the lock of the state of cluster %q is %s, not %s", s.Name, lock.ID, id))
	}
	if err := s.agreed(yes || id != "", fmt.Sprintf("take the lock %s from the state of cluster %s?", lockText(lock), s.Name)); err != nil {
		return nil, err
	}
	return lock, s.UnlockState(ctx, lock.ID)
}

// lockText is a lock for people.
func lockText(lock *target.StateLock) string {
	text := lock.ID
	if lock.Who != "" {
		text += " of " + lock.Who
	}
	return text
}

// StateResource is one instance of a resource in a state.
type StateResource = target.StateResource
