package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/google/renameio/v2"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
	"hive-test/pkg/progress"
	"hive-test/pkg/state"
	"hive-test/pkg/target"
)

// StateMove is where a state was and is.
type StateMove struct {
	From, To  string // types of backends; "local": a file in the cluster's directory
	Resources int
	Serial    uint64
	Changed   bool // false: it was there already
}

// StateMigrate takes the state of a cluster, and what is shared of it, to another place: nil is where settings say. The old state stays
// until the new one was read back and says the same. A migration that was cut off goes on. The user is asked unless yes says so.
func (e *Engine) StateMigrate(ctx context.Context, request Request, to *config.State, yes bool) (StateMove, error) {
	s, err := e.states(ctx, "migrate", request)
	if err != nil {
		return StateMove{}, err
	}
	defer s.close()
	if to == nil {
		to = &s.Settings.State
	}
	if err := s.CheckBackend(*to); err != nil {
		return StateMove{}, err
	}
	m := &migration{session: s, from: s.Record.State, to: stateBackendOf(*to)}
	if before := s.Record.StateBefore; before != nil {
		m.from = *before
	}
	move := StateMove{From: backendName(m.from), To: backendName(m.to)}
	if cluster.Hash(m.from) == cluster.Hash(m.to) {
		now, err := s.readState(ctx)
		move.Resources, move.Serial = len(now.Resources), now.Serial
		return move, err
	}
	if err := m.take(ctx); err != nil {
		return move, err
	}
	if err := errors.Join(s.load(), s.agreed(yes, fmt.Sprintf("move the state of cluster %s from %s to %s?", s.Name, move.From, move.To))); err != nil {
		return move, err
	}
	now, err := m.run(ctx)
	move.Resources, move.Serial, move.Changed = len(now.Resources), now.Serial, err == nil
	return move, err
}

func stateBackendOf(s config.State) cluster.StateBackend {
	if !s.Remote() {
		return cluster.StateBackend{}
	}
	return cluster.StateBackend{Type: s.Backend, Config: s.Config}
}

// migration is a state on its way. Its session holds the cluster where the state was.
type migration struct {
	*session
	from, to cluster.StateBackend
}

// at is the cluster with its state in a place.
func (m *migration) at(place cluster.StateBackend) *target.Target {
	t := *m.Target
	t.Backend = &place
	return &t
}

// take holds the cluster: where the state was, or where it is already.
func (m *migration) take(ctx context.Context) error {
	if m.Record.StateBefore == nil {
		m.Backend = &m.from
		return m.hold(ctx)
	}
	m.Backend = &m.to
	if _, err := m.alignShared(ctx); err != nil {
		return err
	}
	return m.hold(ctx)
}

// alignShared lets what the new place says of a cluster that once was there not count for this one.
func (m *migration) alignShared(ctx context.Context) (taken bool, err error) {
	if shared := m.at(m.to).Shared(); shared != nil {
		return shared.Align(ctx)
	}
	return false, nil
}

// run copies, compares, switches over, and takes away what was before. Until it has switched over, all is as it was; from then on it
// can be repeated.
func (m *migration) run(ctx context.Context) (State, error) {
	if m.Record.StateBefore == nil {
		if err := m.switchOver(ctx); err != nil {
			return State{}, err
		}
	}
	if err := m.retire(ctx); err != nil {
		return State{}, err
	}
	m.Record.StateBefore = nil
	if err := m.Store.Save(m.Record); err != nil {
		return State{}, err
	}
	return m.readState(ctx)
}

// switchOver copies the state, records where it is from then on, and shares the cluster there.
func (m *migration) switchOver(ctx context.Context) error {
	taken, err := m.alignShared(ctx)
	if err == nil && taken {
		err = Error{ExitConfig, fmt.Errorf("the backend %s has another cluster %q: nothing was changed", backendName(m.to), m.Name)}
	}
	if err == nil {
		err = m.copy(ctx)
	}
	if err != nil {
		return err
	}
	m.Record.State, m.Record.StateBefore = m.to, &m.from
	if err := m.Store.Save(m.Record); err != nil {
		return err
	}
	m.Backend, m.shared = &m.to, nil // what is held in the old place is taken out of it
	holder := state.Holder{PID: os.Getpid(), Command: m.command(), Started: m.started}
	if err := m.holdShared(ctx, holder, 0); err != nil || m.shared == nil {
		return err
	}
	return m.shared.Push(ctx)
}

// copy writes the state to the new place, and proves that it says the same there.
func (m *migration) copy(ctx context.Context) error {
	if left := m.ErroredState(); left != "" {
		return Error{ExitConfig, progress.WithHint(
			fmt.Errorf("%s is newer than the state that is to be moved", left), fmt.Sprintf("hive-test state push %s writes it", m.Name),
		)}
	}
	text, err := m.Target.State(ctx)
	if err != nil || strings.TrimSpace(text) == "" {
		return err
	}
	there := m.at(m.to)
	if m.to.IsZero() { // what is there is a copy of this
		return m.proved(ctx, there, text, renameio.WriteFile(m.Store.Path(m.Name, "terraform.tfstate"), []byte(text), 0o600))
	}
	before, err := there.State(ctx)
	if err != nil {
		return err
	}
	if target.SameResources(text, before) == nil { // of a migration that was cut off
		return nil
	}
	if err := m.vacant(before); err != nil {
		return err
	}
	if strings.TrimSpace(before) == "" {
		return m.proved(ctx, there, text, there.PushState(ctx, text))
	}
	return m.proved(ctx, there, text, there.ReplaceState(ctx, text))
}

// vacant is an error where the new place has resources in its state.
func (m *migration) vacant(before string) error {
	was, err := target.ParseState(before)
	if err != nil || len(was.Resources) == 0 {
		return err
	}
	return Error{ExitConfig, fmt.Errorf("the backend %s has another state of that name already, with %s: nothing was changed",
		backendName(m.to), progress.Count(len(was.Resources), "resource"))}
}

// proved reads what was written back.
func (m *migration) proved(ctx context.Context, there *target.Target, text string, written error) error {
	if written != nil {
		return written
	}
	after, err := there.State(ctx)
	if err != nil {
		return err
	}
	if err := target.SameResources(text, after); err != nil {
		return Error{ExitConfig, fmt.Errorf("the state of cluster %q was written to %s, and not moved: %w", m.Name, backendName(m.to), err)}
	}
	return nil
}

// retireTime bounds the removal of what was in the old place, whatever has become of the run.
const retireTime = 2 * time.Minute

// retire takes what was in the old place out of it.
func (m *migration) retire(ctx context.Context) error {
	if m.from.IsZero() {
		return nil // the file is the copy that there is of every state
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), retireTime)
	defer cancel()
	old := m.at(m.from)
	if err := errors.Join(old.EmptyState(ctx), old.Shared().Retire(ctx)); err != nil {
		return Error{ExitConfig, progress.WithHint(
			fmt.Errorf("the state was moved, and what was before is still in the backend %s: %w", backendName(m.from), err),
			"run the same command again",
		)}
	}
	return nil
}
