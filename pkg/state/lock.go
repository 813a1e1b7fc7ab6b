package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"

	"hive-test/pkg/cluster"
)

const (
	lockFile   = "lock"
	holderFile = "lock.holder"
)

// Holder says who holds a cluster. It holds no secrets: Command is the verb and the cluster's name.
type Holder struct {
	PID     int       `json:"pid"`
	Host    string    `json:"host"`
	Command string    `json:"command"`
	Started time.Time `json:"started"`
}

// LockedError means that another run holds the cluster.
type LockedError struct {
	Name   cluster.Name
	Holder Holder
}

// Error names the holder.
func (e *LockedError) Error() string {
	if e.Holder.PID == 0 {
		return fmt.Sprintf("cluster %q is held by another run", e.Name)
	}
	age := time.Since(e.Holder.Started).Round(time.Second)
	return fmt.Sprintf("cluster %q is held by pid %d on %s, running `%s` for %s", e.Name, e.Holder.PID, e.Holder.Host, e.Holder.Command, age)
}

// Hint says what to do.
func (e *LockedError) Hint() string { return "wait for that run to end, or end it with Ctrl-C there" }

// Lock is the right to change one cluster. Release it when done.
type Lock struct {
	store *Store
	name  cluster.Name
	flock *flock.Flock
}

// Lock takes the cluster for this process, making its directory if need be; it never waits. If another process holds
// it, a *LockedError says who. A holder that died has left no lock: the operating system releases it.
func (s *Store) Lock(name cluster.Name, holder Holder) (*Lock, error) {
	if err := s.ensureRoot(); err != nil {
		return nil, err
	}
	for range 10 { // a `down` that ends right now removes the directory under us: then look again
		lock, err := s.tryLock(name, holder)
		if !errors.Is(err, errMoved) {
			return lock, err
		}
	}
	return nil, &LockedError{Name: name}
}

var errMoved = errors.New("the lock file was replaced")

func (s *Store) tryLock(name cluster.Name, holder Holder) (*Lock, error) {
	if err := os.MkdirAll(s.Dir(name), 0o700); err != nil {
		return nil, fmt.Errorf("making the directory of cluster %q: %w", name, err)
	}
	path := s.Path(name, lockFile)
	file := flock.New(path, flock.SetPermissions(0o600))
	got, err := file.TryLock()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, errMoved
	case err != nil:
		return nil, fmt.Errorf("locking cluster %q: %w", name, err)
	case !got:
		return nil, &LockedError{Name: name, Holder: s.Holder(name)}
	}
	if !sameFile(file, path) {
		return nil, errors.Join(errMoved, file.Close())
	}
	lock := &Lock{store: s, name: name, flock: file}
	if err := s.writeHolder(name, holder); err != nil {
		return nil, errors.Join(err, lock.Release())
	}
	return lock, nil
}

// sameFile tells whether the file that is locked is still the one at path.
func sameFile(lock *flock.Flock, path string) bool {
	held, err := lock.Stat()
	if err != nil {
		return false
	}
	current, err := os.Stat(path)
	return err == nil && os.SameFile(held, current)
}

func (s *Store) writeHolder(name cluster.Name, holder Holder) error {
	raw, err := json.Marshal(holder)
	if err != nil {
		return fmt.Errorf("encoding the holder of cluster %q: %w", name, err)
	}
	if err := renameio.WriteFile(s.Path(name, holderFile), append(raw, '\n'), 0o600); err != nil {
		return fmt.Errorf("noting the holder of cluster %q: %w", name, err)
	}
	return nil
}

// Holder returns who holds the cluster now, or a zero Holder if nobody does or it cannot be told.
func (s *Store) Holder(name cluster.Name) Holder {
	raw, err := os.ReadFile(s.Path(name, holderFile))
	if err != nil {
		return Holder{}
	}
	var holder Holder
	if json.Unmarshal(raw, &holder) != nil || !s.held(name) {
		return Holder{}
	}
	return holder
}

// held tests the lock without keeping it.
func (s *Store) held(name cluster.Name) bool {
	file, err := os.Open(s.Path(name, lockFile))
	if err != nil {
		return false
	}
	defer func() { _ = file.Close() }()
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	return errors.Is(err, syscall.EWOULDBLOCK)
}

// Release gives the cluster up. A directory that never got a record (nothing was made) is removed; one that was made
// anew by somebody else meanwhile is left alone.
func (l *Lock) Release() error {
	if !sameFile(l.flock, l.store.Path(l.name, lockFile)) {
		return l.flock.Close()
	}
	err := os.Remove(l.store.Path(l.name, holderFile))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if l.store.untouched(l.name) {
		err = errors.Join(err, os.RemoveAll(l.store.Dir(l.name)))
	}
	return errors.Join(err, l.flock.Close())
}

// untouched tells whether a cluster's directory holds nothing but the lock.
func (s *Store) untouched(name cluster.Name) bool {
	entries, err := os.ReadDir(s.Dir(name))
	return err == nil && len(entries) == 1 && entries[0].Name() == lockFile
}
