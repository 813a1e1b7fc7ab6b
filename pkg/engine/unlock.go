package engine

import (
	"context"
	"errors"

	"hive-test/pkg/state"
)

// Unlock takes a cluster away from a run on another host that has ended without giving it up, and returns who held it.
// A process id of 0 means that nobody did.
func (e *Engine) Unlock(ctx context.Context, request Request) (state.Holder, error) {
	s, err := e.open(ctx, "unlock", request)
	if err != nil {
		return state.Holder{}, err
	}
	defer s.close()
	holder, err := s.Store.Unlock(s.Name)
	shared := s.Target.Shared()
	if shared == nil || err != nil && !errors.Is(err, state.ErrNotFound) {
		return holder, err
	}
	elsewhere, err := shared.Unlock(ctx)
	if holder.PID == 0 {
		holder = elsewhere.Holder
	}
	return holder, err
}
