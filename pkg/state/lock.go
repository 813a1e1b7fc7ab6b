package state

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"

	"hive-test/pkg/cluster"
	"hive-test/pkg/wait"
)

const (
	lockFile   = "lock"
	holderFile = "lock.holder"
)

// Holder says who holds a cluster. It holds no secrets: Command is the verb and the cluster's name. Host is this host's
// name.
type Holder struct {
	PID     int       `json:"pid"`
	Host    string    `json:"host"`
	Command string    `json:"command"`
	Started time.Time `json:"started"`
}

// String names the holder and its age.
func (h Holder) String() string {
	return fmt.Sprintf(
		"pid %d on %s, running `%s` for %s", h.PID, h.Host, h.Command, time.Since(h.Started).Round(time.Second),
	)
}

// Life is whether a holder is still at work.
type Life string

// What can be known of a holder. The operating system ends the lock of a process that dies, so on this host Alive and
// Dead are certain; a holder on another host, whose lock need not be seen here, counts until it is removed by Unlock.
const (
	Nobody    Life = ""
	Alive     Life = "alive"
	Dead      Life = "dead"
	Elsewhere Life = "elsewhere"
)

// LockedError means that another run holds the cluster.
type LockedError struct {
	Name   cluster.Name
	Holder Holder // zero where it cannot be read
	Life   Life   // Alive or Elsewhere
}

// Error names the holder and says whether it is alive.
func (e *LockedError) Error() string {
	switch {
	case e.Holder.PID == 0:
		return fmt.Sprintf("cluster %q is locked: another run is at work on it", e.Name)
	case e.Life == Elsewhere:
		return fmt.Sprintf("cluster %q is locked by %s (whether it is alive cannot be seen from here)", e.Name, e.Holder)
	}
	return fmt.Sprintf("cluster %q is locked by %s (alive)", e.Name, e.Holder)
}

// Hint says what to do.
func (e *LockedError) Hint() string {
	if e.Life == Elsewhere {
		return fmt.Sprintf(
			"wait for that run with --wait 10m, or, once you know that it has ended on %s: hive-test unlock %s",
			e.Holder.Host, e.Name,
		)
	}
	return "wait for that run with --wait 10m, or end it with Ctrl-C there"
}

// Lock is the right to change one cluster. Release it when done.
type Lock struct {
	store *Store
	name  cluster.Name
	flock *flock.Flock
	// TookOver is the holder on this host that died without giving the cluster up; nil: there was none.
	TookOver *Holder
}

// Lock takes the cluster for this process, making its directory if need be; it waits for no run. If another one holds
// it, a *LockedError says who. A holder on this host that died has left no lock, for the operating system releases it: it is taken
// over. One on another host keeps the cluster until it ends or is removed by Unlock.
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
	return nil, &LockedError{Name: name, Life: Alive}
}

// LockWithin is Lock that waits for the holder to end, limit at most; then the error is the last *LockedError. Report
// (may be nil) is called for each holder that is waited for, once. The end of ctx ends it with ctx's cause.
func (s *Store) LockWithin(
	ctx context.Context, name cluster.Name, holder Holder, limit time.Duration, report func(*LockedError),
) (*Lock, error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var last *LockedError
	for range (wait.Backoff{First: 20 * time.Millisecond, Max: time.Second}).Tries(limited) {
		lock, err := s.Lock(name, holder)
		locked, ok := errors.AsType[*LockedError](err)
		if !ok {
			return lock, err
		}
		if report != nil && (last == nil || locked.Holder != last.Holder) {
			report(locked)
		}
		last = locked
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("waiting for cluster %q: %w", name, context.Cause(ctx))
	}
	return nil, last
}

var errMoved = errors.New("the lock file was replaced")

func (s *Store) tryLock(name cluster.Name, holder Holder) (*Lock, error) {
	lock, err := s.grab(name)
	if err != nil {
		return nil, err
	}
	if before, ok := s.readHolder(name); ok {
		if before.Host != s.host {
			return nil, errors.Join(&LockedError{Name: name, Holder: before, Life: Elsewhere}, lock.flock.Close())
		}
		lock.TookOver = &before
	}
	s.removeHalves(name)
	holder.Host = s.host
	if err := s.writeHolder(name, holder); err != nil {
		return nil, errors.Join(err, lock.Release())
	}
	return lock, nil
}

// halfName is how files are called that are written beside the one that they are to replace.
var halfName = regexp.MustCompile(`^\..+[0-9]{6,}$`)

// halfAge is how old one is that nobody writes any more: commands that do not hold the cluster write there, too.
const halfAge = time.Hour

// removeHalves removes what runs have left that were killed while they wrote.
func (s *Store) removeHalves(name cluster.Name) {
	entries, _ := os.ReadDir(s.Dir(name)) // what cannot be read stays
	for _, entry := range entries {
		info, err := entry.Info()
		if err == nil && info.Mode().IsRegular() && halfName.MatchString(entry.Name()) &&
			time.Since(info.ModTime()) > halfAge {
			_ = os.Remove(s.Path(name, entry.Name()))
		}
	}
}

// grab takes the lock of the operating system, whoever the holder file names.
func (s *Store) grab(name cluster.Name) (*Lock, error) {
	if err := os.MkdirAll(s.Dir(name), 0o700); err != nil {
		return nil, fmt.Errorf("making the directory of cluster %q: %w", name, err)
	}
	path := s.Path(name, lockFile)
	file := flock.New(path, flock.SetPermissions(0o600))
	got, holder, err := s.tryNamed(name, file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, errMoved
	case err != nil:
		return nil, fmt.Errorf("locking cluster %q: %w", name, err)
	case !got:
		return nil, &LockedError{Name: name, Holder: holder, Life: Alive}
	}
	if !sameFile(file, path) {
		return nil, errors.Join(errMoved, file.Close())
	}
	return &Lock{store: s, name: name, flock: file}, nil
}

// namedWithin is how long a run may take to note that it holds a cluster, and to go when it has taken the note away.
const namedWithin = time.Second

// tryNamed tries the lock, and returns who holds it where it is not got: one that has not said so yet, or not any more,
// is waited for, namedWithin at most.
func (s *Store) tryNamed(name cluster.Name, file *flock.Flock) (got bool, holder Holder, err error) {
	untilNamed(func() bool {
		if got, err = file.TryLock(); got || err != nil {
			return true
		}
		var named bool
		holder, named = s.readHolder(name)
		return named
	})
	return got, holder, err
}

// untilNamed looks until it is known who holds a cluster, or that nobody does, namedWithin at most.
func untilNamed(known func() bool) {
	ctx, cancel := context.WithTimeout(context.Background(), namedWithin)
	defer cancel()
	for range (wait.Backoff{First: 2 * time.Millisecond, Max: 50 * time.Millisecond}).Tries(ctx) {
		if known() {
			return
		}
	}
}

// Unlock removes the holder file of a run that has ended without doing so itself, on this host or another, and returns
// what it said; zero where nobody was noted. A holder that is seen to be alive is a *LockedError, a cluster of which
// there is not even a directory is ErrNotFound.
func (s *Store) Unlock(name cluster.Name) (Holder, error) {
	if _, err := os.Stat(s.Dir(name)); err != nil {
		return Holder{}, fmt.Errorf("cluster %q: %w in %s", name, ErrNotFound, s.root)
	}
	lock, err := s.grab(name)
	if err != nil {
		return Holder{}, err
	}
	holder, _ := s.readHolder(name)
	return holder, lock.Release()
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

// readHolder reads the holder file. One that cannot be read names nobody: files are written whole, so it is no run's.
func (s *Store) readHolder(name cluster.Name) (Holder, bool) {
	var holder Holder
	raw, err := os.ReadFile(s.Path(name, holderFile))
	if err != nil || json.Unmarshal(raw, &holder) != nil || holder.PID == 0 || holder.Host == "" {
		return Holder{}, false
	}
	return holder, true
}

// Holder returns who is noted as the holder of the cluster, and what is known of its life.
func (s *Store) Holder(name cluster.Name) (Holder, Life) {
	holder, ok, held := s.noted(name)
	switch {
	case held:
		return holder, Alive
	case !ok:
		return Holder{}, Nobody
	case holder.Host != s.host:
		return holder, Elsewhere
	}
	return holder, Dead
}

// noted returns who is noted as the holder, and whether the lock is held: then who does is waited for, namedWithin at
// most.
func (s *Store) noted(name cluster.Name) (holder Holder, ok, held bool) {
	untilNamed(func() bool {
		holder, ok = s.readHolder(name)
		held = s.held(name)
		return ok || !held
	})
	return holder, ok, held
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

// Tidy removes the directory of a cluster that never got a record, which a run has left that was killed at its
// beginning. A directory that holds anything else, or that a run is at work in, stays.
func (s *Store) Tidy(name cluster.Name) error {
	if _, life := s.Holder(name); !s.untouched(name) || life == Alive || life == Elsewhere {
		return nil
	}
	lock, err := s.grab(name)
	if _, locked := errors.AsType[*LockedError](err); locked || errors.Is(err, errMoved) {
		return nil
	}
	if err != nil {
		return err
	}
	return lock.Release()
}

// untouched tells whether a cluster's directory holds nothing but what runs put there before they have a record: the
// lock, its holder, a signal, and halves of files that were being written.
func (s *Store) untouched(name cluster.Name) bool {
	entries, err := os.ReadDir(s.Dir(name))
	return err == nil && !slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		return !slices.Contains([]string{lockFile, holderFile, interruptedFile}, e.Name()) &&
			!strings.HasPrefix(e.Name(), ".")
	})
}
