package state

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hive-test/pkg/cluster"

	"github.com/gofrs/flock"
)

const held = cluster.Name("ci-1")

// A holder file without the lock of the operating system is what a process leaves that was killed.
func leaveHolder(t *testing.T, store *Store, holder Holder) {
	t.Helper()
	if err := store.Save(sample(held)); err != nil {
		t.Fatal(err)
	}
	if err := store.writeHolder(held, holder); err != nil {
		t.Fatal(err)
	}
}

func TestADeadHolderOfThisHostIsTakenOver(t *testing.T) {
	store := open(t)
	dead := Holder{PID: 4242, Host: store.host, Command: "hive-test up ci-1", Started: time.Now().Add(-time.Hour)}
	leaveHolder(t, store, dead)
	if got, life := store.Holder(held); got.PID != 4242 || life != Dead {
		t.Errorf("holder %+v is %s", got, life)
	}
	lock, err := store.Lock(held, Holder{PID: 1, Command: "hive-test down ci-1"})
	if err != nil {
		t.Fatal(err)
	}
	if lock.TookOver == nil || lock.TookOver.PID != 4242 {
		t.Errorf("took over %+v", lock.TookOver)
	}
	if got, life := store.Holder(held); got.PID != 1 || got.Host != store.host || life != Alive {
		t.Errorf("holder %+v is %s", got, life)
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	if lock, err = store.Lock(held, Holder{PID: 2}); err != nil || lock.TookOver != nil {
		t.Fatalf("after a release: %v, took over %+v", err, lock.TookOver)
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
}

func TestAHolderOnAnotherHostIsRespectedUntilUnlocked(t *testing.T) {
	store := open(t)
	leaveHolder(t, store, Holder{
		PID: 4242, Host: "elsewhere.example", Command: "hive-test test ci-1",
		Started: time.Now().Add(-90 * time.Second),
	})
	if got, life := store.Holder(held); got.PID != 4242 || life != Elsewhere {
		t.Errorf("holder %+v is %s", got, life)
	}
	for range 2 { // being refused changes nothing
		_, err := store.Lock(held, Holder{PID: 1})
		locked, ok := errors.AsType[*LockedError](err)
		if !ok || locked.Life != Elsewhere {
			t.Fatalf("got %v", err)
		}
		for _, part := range []string{
			"pid 4242", "elsewhere.example", "hive-test test ci-1", "1m30s", "cannot be seen from here",
		} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q does not say %q", err, part)
			}
		}
		if !strings.Contains(locked.Hint(), "hive-test unlock ci-1") {
			t.Errorf("hint: %s", locked.Hint())
		}
	}
	removed, err := store.Unlock(held)
	if err != nil || removed.PID != 4242 {
		t.Fatalf("unlock: %+v, %v", removed, err)
	}
	lock, err := store.Lock(held, Holder{PID: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Unlock(held); err == nil || !strings.Contains(err.Error(), "(alive)") {
		t.Errorf("unlock of a living run: %v", err)
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	if removed, err := store.Unlock(held); err != nil || removed.PID != 0 {
		t.Errorf("unlock of what is not locked: %+v, %v", removed, err)
	}
	if _, err := store.Unlock("ci-2"); !errors.Is(err, ErrNotFound) {
		t.Errorf("unlock of no cluster: %v", err)
	}
	if _, err := os.Stat(store.Dir("ci-2")); !os.IsNotExist(err) {
		t.Errorf("unlock made a directory: %v", err)
	}
}

func TestAGarbledHolderFileHoldsNothing(t *testing.T) {
	for _, content := range []string{"", "{", `{"pid":0}`, "\x00\x00"} {
		store := open(t)
		if err := store.Save(sample(held)); err != nil {
			t.Fatal(err)
		}
		if err := store.Write(held, holderFile, []byte(content)); err != nil {
			t.Fatal(err)
		}
		lock, err := store.Lock(held, Holder{PID: 1})
		if err != nil {
			t.Fatalf("%q: %v", content, err)
		}
		if err := lock.Release(); err != nil {
			t.Error(err)
		}
	}
}

func TestWaitingForALock(t *testing.T) {
	store := open(t)
	if err := store.Save(sample(held)); err != nil {
		t.Fatal(err)
	}
	first, err := store.Lock(held, Holder{PID: 1, Command: "hive-test test ci-1"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = store.LockWithin(t.Context(), held, Holder{PID: 2}, 100*time.Millisecond, nil)
	if _, ok := errors.AsType[*LockedError](err); !ok {
		t.Errorf("after the wait: %v", err)
	}
	stop := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	_, err = store.LockWithin(ctx, held, Holder{PID: 2}, time.Minute, func(*LockedError) { cancel(stop) })
	if !errors.Is(err, stop) {
		t.Errorf("interrupted: %v", err)
	}
	reports := 0
	second, err := store.LockWithin(t.Context(), held, Holder{PID: 3}, time.Minute, func(e *LockedError) {
		if reports++; e.Holder.PID != 1 {
			t.Errorf("waits for %+v", e.Holder)
		}
		if err := first.Release(); err != nil {
			t.Error(err)
		}
	})
	if err != nil || reports != 1 {
		t.Fatalf("%v, after %d reports", err, reports)
	}
	if err := second.Release(); err != nil {
		t.Fatal(err)
	}
}

func TestAnInterruptionIsNotedAndForgotten(t *testing.T) {
	store := open(t)
	note := Interruption{
		Time: time.Now().UTC().Truncate(time.Second), Signal: "interrupt", Command: "hive-test up ci-1",
		Finish: "hive-test down ci-1",
	}
	if err := store.Interrupt(held, note); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(store.Dir(held)); !os.IsNotExist(err) {
		t.Errorf("an interruption of nothing made a directory: %v", err)
	}
	if err := store.Save(sample(held)); err != nil {
		t.Fatal(err)
	}
	if err := store.Interrupt(held, note); err != nil {
		t.Fatal(err)
	}
	if got, found := store.Interrupted(held); !found || got != note {
		t.Errorf("got %+v, %v", got, found)
	}
	for range 2 {
		if err := store.Resume(held); err != nil {
			t.Fatal(err)
		}
	}
	if _, found := store.Interrupted(held); found {
		t.Error("still interrupted")
	}
}

func TestTidyRemovesOnlyWhatNeverWasACluster(t *testing.T) {
	dead, elsewhere := `{"pid":4242,"host":"HERE"}`, `{"pid":4242,"host":"elsewhere.example"}`
	for name, tt := range map[string]struct {
		files map[string]string
		stays bool
	}{
		"a lock": {map[string]string{lockFile: ""}, false},
		"all that a beginning leaves": {
			map[string]string{lockFile: "", holderFile: dead, interruptedFile: "{}", ".cluster.json123": "{"}, false,
		},
		"a run on another host": {map[string]string{lockFile: "", holderFile: elsewhere}, true},
		"a state":               {map[string]string{lockFile: "", stateFile: "{}"}, true},
		"a record":              {map[string]string{lockFile: "", recordFile: "{}"}, true},
		"no directory":          {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			store := open(t)
			for file, text := range tt.files {
				if err := store.Write(held, file, []byte(strings.ReplaceAll(text, "HERE", store.host))); err != nil {
					t.Fatal(err)
				}
			}
			if err := store.Tidy(held); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(store.Dir(held)); (err == nil) != tt.stays {
				t.Errorf("the directory: %v, stays should be %v", err, tt.stays)
			}
		})
	}
}

func TestLockRemovesHalvesOfFiles(t *testing.T) {
	store := open(t)
	if err := store.Save(sample("ci-1")); err != nil {
		t.Fatal(err)
	}
	for file, age := range map[string]time.Duration{
		".cluster.json8231746501": 2 * time.Hour, ".known_hosts123456789": 0, ".mine": 2 * time.Hour,
	} {
		path, then := store.Path("ci-1", file), time.Now().Add(-age)
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chtimes(path, then, then)); err != nil {
			t.Fatal(err)
		}
	}
	lock, err := store.Lock("ci-1", Holder{PID: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Release() }()
	left, err := filepath.Glob(store.Path("ci-1", ".*"))
	if err != nil || len(left) != 2 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// Between a lock and the note of who holds it is a moment, at its beginning and at its end.
func TestAHolderThatIsNotNotedYetIsWaitedFor(t *testing.T) {
	store := open(t)
	if err := store.Save(sample(held)); err != nil {
		t.Fatal(err)
	}
	unnamed := func() *flock.Flock {
		lock := flock.New(store.Path(held, lockFile))
		if got, err := lock.TryLock(); !got {
			t.Fatal(got, err)
		}
		return lock
	}
	other := unnamed()
	time.AfterFunc(20*time.Millisecond, func() {
		if err := store.writeHolder(held, Holder{PID: 7, Host: store.host, Command: "hive-test down ci-1"}); err != nil {
			t.Error(err)
		}
	})
	_, err := store.Lock(held, Holder{PID: 1})
	if locked, ok := errors.AsType[*LockedError](err); !ok || locked.Holder.PID != 7 {
		t.Errorf("a run that is about to say who it is: %v", err)
	}
	if err := os.Remove(store.Path(held, holderFile)); err != nil {
		t.Fatal(err)
	}
	first := other
	time.AfterFunc(20*time.Millisecond, func() { _ = first.Close() })
	lock, err := store.Lock(held, Holder{PID: 1})
	if err != nil {
		t.Fatalf("a run that is about to go: %v", err)
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	other = unnamed()
	defer func() { _ = other.Close() }()
	_, err = store.Lock(held, Holder{PID: 1})
	if locked, ok := errors.AsType[*LockedError](err); !ok || !strings.Contains(err.Error(), "is locked: another run") {
		t.Errorf("a run that never says who it is: %v, %v", locked, err)
	}
}
