package state

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestParseRunName(t *testing.T) {
	began := time.Date(2026, 11, 5, 12, 30, 1, 250e6, time.UTC)
	for name, verb := range map[string]string{
		RunName("up", began): "up", RunName("two-words", began): "two-words",
		"": "", "latest": "", "20261105T123001.250Z": "", "20261105T123001.250Z-": "", "20269905T123001.250Z-up": "",
		"notes-up": "",
	} {
		got, at, ok := ParseRunName(name)
		if ok != (verb != "") || ok && (got != verb || !at.Equal(began)) {
			t.Errorf("%q: %q, %s, %t", name, got, at, ok)
		}
	}
}

// newRun makes a run with events.
func newRun(t *testing.T, store *Store, began time.Time) Run {
	t.Helper()
	run, err := store.NewRun("a", "up", began)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = run.Close() })
	if err := run.Write(EventsFile, nil); err != nil {
		t.Fatal(err)
	}
	return run
}

// A run is at work until it closes its directory, whether or not the cluster is locked, and is not removed until then.
func TestARunAtWorkIsNotRemoved(t *testing.T) {
	store := open(t)
	run := newRun(t, store, time.Now())
	if !store.AtWork("a", Run{Dir: run.Dir}) {
		t.Error("it does not count as at work")
	}
	if err := store.RemoveRun(Run{Dir: run.Dir}); !errors.Is(err, ErrAtWork) {
		t.Errorf("removing it: %v", err)
	}
	if err := errors.Join(run.Close(), run.Close()); err != nil {
		t.Fatal(err)
	}
	if store.AtWork("a", Run{Dir: run.Dir}) {
		t.Error("it still counts as at work")
	}
	if err := store.RemoveRun(Run{Dir: run.Dir}); err != nil {
		t.Fatal(err)
	}
	if err := store.RemoveRun(Run{Dir: run.Dir}); err != nil {
		t.Errorf("removing what is gone: %v", err)
	}
}

// Where directories are not locked, the lock of the cluster tells which run is at work: the one that began with it.
func TestTheLockOfTheClusterTellsWhichRunIsAtWork(t *testing.T) {
	store := open(t)
	now := time.Now()
	older, newer := newRun(t, store, now.Add(-time.Hour)), newRun(t, store, now)
	if err := errors.Join(older.Close(), newer.Close()); err != nil {
		t.Fatal(err)
	}
	lock, err := store.Lock("a", Holder{PID: os.Getpid(), Command: "up a", Started: now})
	if err != nil {
		t.Fatal(err)
	}
	if store.AtWork("a", older) || !store.AtWork("a", newer) {
		t.Errorf("older: %t, newer: %t", store.AtWork("a", older), store.AtWork("a", newer))
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	if store.AtWork("a", newer) {
		t.Error("it is at work though the lock was given up")
	}
}

// What is half removed is no run, and goes with the next one; a link to nothing and an empty directory go, too.
func TestHalfRemovedRuns(t *testing.T) {
	store := open(t)
	run := newRun(t, store, time.Now())
	_ = run.Close()
	half := filepath.Join(filepath.Dir(run.Dir), removedPrefix+filepath.Base(run.Dir))
	if err := os.Rename(run.Dir, half); err != nil {
		t.Fatal(err)
	}
	kept, err := store.Kept("a")
	runs, runsErr := store.Runs("a")
	if len(kept)+len(runs) != 0 || err != nil || runsErr != nil {
		t.Errorf("they are %v and %v (%v, %v)", kept, runs, err, runsErr)
	}
	if got := store.HalfRemoved("a"); len(got) != 1 {
		t.Errorf("half removed: %v", got)
	}
	if err := store.TidyRuns("a"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(store.RunsDir("a")); !os.IsNotExist(err) {
		t.Errorf("the directory is there: %v", err)
	}
}

// Where a run begins between, the link that was removed comes back.
func TestTidyingLeavesALinkToTheLatestRun(t *testing.T) {
	store := open(t)
	run := newRun(t, store, time.Now())
	link := filepath.Join(store.RunsDir("a"), latestLink)
	if err := errors.Join(os.Remove(link), os.Symlink("gone", link)); err != nil {
		t.Fatal(err)
	}
	if err := store.TidyRuns("a"); err != nil {
		t.Fatal(err)
	}
	if got, err := os.Readlink(link); got != filepath.Base(run.Dir) {
		t.Errorf("it leads to %q (%v)", got, err)
	}
}
