package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"hive-test/pkg/cluster"
)

// latestLink is the link to the latest run, beside the directories of runs.
const latestLink = "latest"

// removedPrefix begins the name that a run's directory has while it is removed: a hidden one, which nobody takes for a
// run.
const removedPrefix = ".removed-"

// ErrAtWork means that a run is still writing to its directory.
var ErrAtWork = errors.New("the run is at work")

// runTime is how the name of a run's directory begins.
const runTime = "20060102T150405.000Z"

// ParseRunName returns what the name of a run's directory tells of it; ok is false for what is not such a name.
func ParseRunName(name string) (verb string, began time.Time, ok bool) {
	when, verb, _ := strings.Cut(name, "-")
	began, err := time.Parse(runTime, when)
	if err != nil || !verbPattern.MatchString(verb) {
		return "", time.Time{}, false
	}
	return verb, began, true
}

var verbPattern = regexp.MustCompile(`^[a-z][a-z-]*$`)

// RunsDir is where the runs of a name are kept.
func (s *Store) RunsDir(name string) string { return filepath.Join(s.root, runsDir, name) }

// RunNames returns the names below which runs are kept, sorted: those of clusters, and what else is a directory there.
func (s *Store) RunNames() ([]string, error) {
	return directories(filepath.Join(s.root, runsDir))
}

// Kept returns every directory among the runs of a name, the newest first, whatever it holds; none if there is none.
func (s *Store) Kept(name string) ([]Run, error) {
	entries, err := directories(s.RunsDir(name))
	var kept []Run
	for _, entry := range slices.Backward(entries) { // the names begin with the time
		kept = append(kept, Run{Dir: filepath.Join(s.RunsDir(name), entry)})
	}
	return kept, err
}

// directories returns the names of the directories in dir that are not hidden, sorted; none where dir does not exist.
func directories(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listing the runs: %w", err)
	}
	var names []string
	for _, entry := range entries {
		if entry.IsDir() && !strings.HasPrefix(entry.Name(), ".") {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

// occupy locks the run's directory, by which others see that it is at work until this process ends or Close is
// called. Where the file system has no locks, the lock of the cluster tells it. It reports false where the directory
// was removed by a prune before it was locked.
func (r *Run) occupy() bool {
	dir, err := os.Open(r.Dir)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	// Others have a shared lock for a moment while they look: it waits for those.
	if err := flockRetrying(dir, syscall.LOCK_EX); err != nil {
		_ = dir.Close()
		return true
	}
	locked, err := dir.Stat()
	there, thereErr := os.Stat(r.Dir)
	if err != nil || thereErr != nil || !os.SameFile(locked, there) {
		_ = dir.Close()
		return false
	}
	r.lock = dir
	return true
}

// flockRetrying is flock that goes on after a signal.
func flockRetrying(file *os.File, how int) error {
	for {
		if err := syscall.Flock(int(file.Fd()), how); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// Close says that the run is not at work any more.
func (r Run) Close() error {
	if r.lock == nil {
		return nil
	}
	if err := r.lock.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("unlocking the run's directory: %w", err)
	}
	return nil
}

// AtWork reports whether a run of the cluster is at work: its directory is locked, or the cluster is by a run that
// began no later.
func (s *Store) AtWork(name cluster.Name, r Run) bool {
	if r.AtWork() {
		return true
	}
	_, began, ok := ParseRunName(filepath.Base(r.Dir))
	holder, life := s.Holder(name)
	return ok && (life == Alive || life == Elsewhere) && !began.Before(holder.Started.Truncate(time.Millisecond))
}

// AtWork reports whether the run's directory is locked by a run.
func (r Run) AtWork() bool {
	dir, err := r.claim()
	if err == nil {
		_ = dir.Close()
	}
	return errors.Is(err, ErrAtWork)
}

// claim shows that no run is at work in the directory; ErrAtWork: there is one. It is so until the file is closed.
func (r Run) claim() (*os.File, error) {
	dir, err := os.Open(r.Dir)
	if err != nil {
		return nil, err
	}
	if err := flockRetrying(dir, syscall.LOCK_SH|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, errors.Join(ErrAtWork, dir.Close())
	}
	return dir, nil // without a lock where the file system has none
}

// RemoveRun removes a run's directory: it gets a hidden name first, so that one that is half removed is never taken for
// a run. The caller knows that the run is not at work; ErrAtWork is returned where it is nevertheless.
func (s *Store) RemoveRun(r Run) error {
	dir, err := r.claim()
	if errors.Is(err, fs.ErrNotExist) {
		return nil // another prune was quicker
	}
	if err != nil {
		return fmt.Errorf("removing %s: %w", r.Dir, err)
	}
	defer func() { _ = dir.Close() }()
	hidden := filepath.Join(filepath.Dir(r.Dir), removedPrefix+filepath.Base(r.Dir))
	if err := os.RemoveAll(hidden); err != nil {
		return fmt.Errorf("removing %s: %w", hidden, err)
	}
	if err := os.Rename(r.Dir, hidden); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("removing %s: %w", r.Dir, err)
	}
	if err := os.RemoveAll(hidden); err != nil {
		return fmt.Errorf("removing %s: %w", hidden, err)
	}
	return nil
}

// HalfRemoved returns the directories of runs whose removal was cut off.
func (s *Store) HalfRemoved(name cluster.Name) []string {
	found, _ := filepath.Glob(filepath.Join(s.RunsDir(name.String()), removedPrefix+"*")) // the pattern is a good one
	return found
}

// TidyRuns removes what is left beside the runs of a cluster that were removed: halves of such, a link to a run that is
// gone, and the directory itself once it is empty.
func (s *Store) TidyRuns(name cluster.Name) error {
	var failure error
	for _, half := range s.HalfRemoved(name) {
		failure = errors.Join(failure, os.RemoveAll(half))
	}
	base := s.RunsDir(name.String())
	link := filepath.Join(base, latestLink)
	if _, err := os.Stat(link); errors.Is(err, fs.ErrNotExist) {
		_ = os.Remove(link)
	}
	if os.Remove(base) != nil {
		s.relink(name, link)
	}
	if failure != nil {
		return fmt.Errorf("removing what an earlier prune has left: %w", failure)
	}
	return nil
}

// relink points the link to the latest run again, for one that began while the link was removed.
func (s *Store) relink(name cluster.Name, link string) {
	runs, _ := s.Runs(name)
	if len(runs) > 0 {
		_ = os.Symlink(filepath.Base(runs[0].Dir), link) // one that is there stays
	}
}
