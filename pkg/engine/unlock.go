package engine

import "hive-test/pkg/state"

// Unlock takes a cluster away from a run on another host that has ended without giving it up, and returns who held it.
// A process id of 0 means that nobody did.
func (e *Engine) Unlock(request Request) (state.Holder, error) {
	name, store, err := e.storeOf(request.Name, request.Settings)
	if err != nil {
		return state.Holder{}, err
	}
	return store.Unlock(name)
}
