// Package scratch keeps temporary files where nobody else can put anything in their way, and where a run that is killed
// leaves nothing for good: each process has a directory of its own, and removes those of processes that are gone.
package scratch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"hive-test/pkg/process"
)

const (
	ownPrefix  = "run-"
	deadPrefix = "dead-"
	lockFile   = "lock"
	// sweepLock is held while directories are made and judged: one that is made only now is not yet locked.
	sweepLock = "sweep.lock"
	sweepWait = 2 * time.Second
)

// socketRoom is how long the path of a directory may be in which tofu and its providers make sockets: a socket's path
// has 103 bytes at most, and they call theirs /plugin1234567890.
const socketRoom = 103 - len("/plugin1234567890")

// Base is the directory of this user among the temporary files in parent, made if need be. A name that is known
// beforehand can be taken by others: what is a link, another user's, or open to others is refused.
func Base(parent string) (string, error) {
	dir := filepath.Join(parent, "hive-test-"+strconv.Itoa(os.Getuid()))
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("making the directory of temporary files: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", fmt.Errorf("the directory of temporary files: %w", err)
	}
	owner, known := info.Sys().(*syscall.Stat_t)
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		return "", fmt.Errorf("%s is a link, which somebody else may have put there", dir)
	case !info.IsDir():
		return "", fmt.Errorf("%s is no directory", dir)
	case known && int(owner.Uid) != os.Getuid():
		return "", fmt.Errorf("%s belongs to user %d", dir, owner.Uid)
	case info.Mode().Perm()&0o077 != 0:
		return "", fmt.Errorf("%s is open to others (mode %04o)", dir, info.Mode().Perm())
	}
	return dir, nil
}

// Dir is the directory of this process. Remove it at the end; what is killed before is swept by the next.
type Dir struct {
	Path string
	lock *flock.Flock
}

// New makes a directory for this process below base, and removes those of processes that are gone.
func New(base string) (*Dir, error) {
	ctx, cancel := context.WithTimeout(context.Background(), sweepWait)
	defer cancel()
	sweep := flock.New(
		filepath.Join(base, sweepLock), flock.SetPermissions(0o600),
		flock.SetFlag(os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW),
	)
	if _, err := sweep.TryLockContext(ctx, 5*time.Millisecond); err != nil {
		return nil, fmt.Errorf("locking %s: %w", sweep.Path(), err)
	}
	condemn(base)
	d, err := makeLocked(base)
	err = errors.Join(err, sweep.Close())
	// Removing may take long, and nobody needs to wait for it.
	dead, _ := filepath.Glob(filepath.Join(base, deadPrefix+"*"))
	for _, path := range dead {
		_ = os.RemoveAll(path) // the next run tries again
	}
	if err != nil {
		return nil, err
	}
	return d, nil
}

func makeLocked(base string) (*Dir, error) {
	path, err := os.MkdirTemp(base, ownPrefix)
	if err != nil {
		return nil, fmt.Errorf("making the directory of temporary files: %w", err)
	}
	lock := flock.New(filepath.Join(path, lockFile), flock.SetPermissions(0o600))
	if got, err := lock.TryLock(); err != nil || !got {
		return nil, errors.Join(fmt.Errorf("locking %s: %w", path, err), os.RemoveAll(path))
	}
	return &Dir{Path: path, lock: lock}, nil
}

// HoldsSockets reports whether sockets can be made in the directory: their paths must be short.
func (d *Dir) HoldsSockets() bool { return len(d.Path) <= socketRoom }

// Remove removes the directory with all that is in it.
func (d *Dir) Remove() error { return errors.Join(os.RemoveAll(d.Path), d.lock.Close()) }

// condemn renames the directories of processes that are gone, children that they have left included.
func condemn(base string) {
	entries, _ := os.ReadDir(base) // what cannot be read stays
	for _, entry := range entries {
		if !entry.IsDir() || !strings.HasPrefix(entry.Name(), ownPrefix) {
			continue
		}
		path := filepath.Join(base, entry.Name())
		lock := flock.New(filepath.Join(path, lockFile), flock.SetFlag(os.O_RDWR))
		got, err := lock.TryLock()
		if gone := got && err == nil || errors.Is(err, fs.ErrNotExist); gone && !inUse(path) {
			_ = os.Rename(path, filepath.Join(base, deadPrefix+entry.Name()))
		}
		_ = lock.Close()
	}
}

// inUse reports whether a process that can be seen has the directory for its temporary files: a tofu that outlives its
// run.
func inUse(path string) bool {
	for _, pid := range process.All() {
		if slices.Contains(process.Environment(pid), "TMPDIR="+path) {
			return true
		}
	}
	return false
}
