package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"

	"hive-test/pkg/cluster"
)

// lookDir keeps, per cluster, the lock of whoever looks for drift. It is no part of the cluster's directory, which `down`
// removes and which others may work in meanwhile.
const lookDir = ".drift"

// LookedAtError means that another process looks for drift of the cluster just now.
type LookedAtError struct {
	Name   cluster.Name
	Holder Holder // zero where it cannot be read
}

// Error names who looks.
func (e *LookedAtError) Error() string {
	if e.Holder.PID == 0 {
		return fmt.Sprintf("cluster %q is being looked at for drift by another process", e.Name)
	}
	return fmt.Sprintf("cluster %q is being looked at for drift by %s", e.Name, e.Holder)
}

// Hint says what to do.
func (e *LookedAtError) Hint() string { return "wait until it has ended: a look takes some seconds" }

// LookLock makes this process the only one on this machine that looks for drift of the cluster, until release is called;
// others may work on the cluster. It waits for nobody: a *LookedAtError says who looks.
func (s *Store) LookLock(name cluster.Name, holder Holder) (release func() error, err error) {
	dir := filepath.Join(s.root, lookDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the directory of locks: %w", err)
	}
	path := filepath.Join(dir, name.String()+".lock")
	lock := flock.New(path, flock.SetPermissions(0o600))
	got, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	if !got {
		e := &LookedAtError{Name: name}
		if raw, err := os.ReadFile(path); err == nil {
			_ = json.Unmarshal(raw, &e.Holder) // it may be about to be written
		}
		return nil, e
	}
	holder.Host = s.host
	raw, err := json.Marshal(holder)
	if err == nil {
		err = os.WriteFile(path, raw, 0o600) // in place: the lock is on this very file
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock.Close, nil
}
