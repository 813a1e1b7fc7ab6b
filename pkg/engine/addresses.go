package engine

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// addressLock is the file, in the clusters directory, that is locked while static addresses are chosen, or hosts taken.
const addressLock = ".addresses.lock"

// addressWait is how long others may take, one after the other, for their choice, which is a few calls each.
const addressWait = 5 * time.Minute

// holdAddresses keeps other runs in this clusters directory from choosing static addresses, and from taking hosts, until
// the returned function is called: by then this cluster's record names those that it got. Where it is not wanted it does
// nothing.
func (s *session) holdAddresses(ctx context.Context, wanted bool) (release func(), err error) {
	if !wanted {
		return func() {}, nil
	}
	lock := flock.New(filepath.Join(s.Store.Root(), addressLock), flock.SetPermissions(0o600))
	ctx, cancel := context.WithTimeout(ctx, addressWait)
	defer cancel()
	if _, err := lock.TryLockContext(ctx, 50*time.Millisecond); err != nil {
		return nil, fmt.Errorf("waiting for another run that chooses addresses or takes hosts (%s): %w", lock.Path(), err)
	}
	return func() { _ = lock.Close() }, nil
}
