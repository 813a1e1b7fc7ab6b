// Package storagetest is what every storage of the state server must do, whichever it is.
package storagetest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"hive-test/pkg/stateserver"
)

// Suite tests storages that are empty and share what they keep, as those of two processes do.
func Suite(t *testing.T, one, other stateserver.Storage) {
	t.Run("check", func(t *testing.T) {
		if err := stateserver.CheckStorage(t.Context(), one); err != nil {
			t.Fatal(err)
		}
		if keys, err := one.List(t.Context(), "server/check/"); err != nil || len(keys) != 0 {
			t.Errorf("the check has left %q (%v)", keys, err)
		}
	})
	t.Run("objects", func(t *testing.T) { objects(t, one, other) })
	t.Run("start", func(t *testing.T) { start(t, one) })
	t.Run("list", func(t *testing.T) { list(t, one, other) })
	t.Run("race", func(t *testing.T) { race(t, one, other) })
}

func objects(t *testing.T, one, other stateserver.Storage) {
	ctx := t.Context()
	if _, err := one.Read(ctx, "o/nothing"); !errors.Is(err, stateserver.ErrNotFound) {
		t.Errorf("reading nothing: %v", err)
	}
	if err := one.Delete(ctx, "o/nothing"); err != nil {
		t.Errorf("deleting nothing: %v", err)
	}
	sizes := []int{0, 1, 8 << 10, 1<<20 + 1}
	for _, size := range sizes {
		key, data := fmt.Sprintf("o/of-%d", size), bytes.Repeat([]byte{'x', 0, 0xff}, size/3+1)[:size]
		if err := one.Create(ctx, key, data); err != nil {
			t.Fatalf("%s: %v", key, err)
		}
		if err := other.Create(ctx, key, []byte("else")); !errors.Is(err, stateserver.ErrExists) {
			t.Errorf("%s is created a second time: %v", key, err)
		}
		if got, err := other.Read(ctx, key); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s: read so much: %d (%v)", key, len(got), err)
		}
	}
	if err := other.Delete(ctx, "o/of-1"); err != nil {
		t.Fatal(err)
	}
	if _, err := one.Read(ctx, "o/of-1"); !errors.Is(err, stateserver.ErrNotFound) {
		t.Errorf("reading what was deleted: %v", err)
	}
	if err := one.Create(ctx, "o/of-1", []byte("again")); err != nil {
		t.Errorf("creating what was deleted: %v", err)
	}
}

func start(t *testing.T, one stateserver.Storage) {
	if err := one.Create(t.Context(), "start/a", []byte("0123456789")); err != nil {
		t.Fatal(err)
	}
	for n, want := range map[int]string{1: "0", 4: "0123", 10: "0123456789", 400: "0123456789"} {
		if got, err := one.ReadStart(t.Context(), "start/a", n); err != nil || string(got) != want {
			t.Errorf("the start, %d: %q (%v)", n, got, err)
		}
	}
	if _, err := one.ReadStart(t.Context(), "start/b", 3); !errors.Is(err, stateserver.ErrNotFound) {
		t.Errorf("the start of nothing: %v", err)
	}
	if err := one.Create(t.Context(), "start/empty", nil); err != nil {
		t.Fatal(err)
	}
	if got, err := one.ReadStart(t.Context(), "start/empty", 3); err != nil || len(got) != 0 {
		t.Errorf("the start of an empty object: %q (%v)", got, err)
	}
}

// many is more than one answer of an object storage lists.
const many = 1100

func list(t *testing.T, one, other stateserver.Storage) {
	ctx := t.Context()
	if keys, err := one.List(ctx, "l/none/"); err != nil || len(keys) != 0 {
		t.Errorf("listing nothing: %q (%v)", keys, err)
	}
	for _, key := range []string{"l/d/b", "l/d/a", "l/d/a1", "l/d/sub/c", "l/d/~_.-", "l/e", "l/d-x"} {
		if err := one.Create(ctx, key, []byte(key)); err != nil {
			t.Fatal(err)
		}
	}
	for prefix, want := range map[string][]string{
		"l/d/": {"l/d/a", "l/d/a1", "l/d/b", "l/d/~_.-"}, "l/d/a": {"l/d/a", "l/d/a1"}, "l/": {"l/d-x", "l/e"},
	} {
		if got, err := other.List(ctx, prefix); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q (%v), want %q", prefix, got, err, want)
		}
	}
	var group sync.WaitGroup
	slots := make(chan struct{}, 16)
	for i := range many {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			if err := one.Create(ctx, fmt.Sprintf("l/many/%06d", i), nil); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	keys, err := other.List(ctx, "l/many/")
	if err != nil || len(keys) != many || keys[many-1] != fmt.Sprintf("l/many/%06d", many-1) {
		t.Errorf("%d keys are listed (%v), want %d", len(keys), err, many)
	}
}

// race has many create the same objects at once, through both storages.
func race(t *testing.T, one, other stateserver.Storage) {
	const rounds, rivals = 20, 8
	for round := range rounds {
		var won atomic.Int32
		var winner atomic.Value
		var group sync.WaitGroup
		key := fmt.Sprintf("race/%d", round)
		for rival := range rivals {
			storage := one
			if rival%2 == 1 {
				storage = other
			}
			group.Go(func() {
				data := fmt.Sprintf("of %d", rival)
				switch err := storage.Create(t.Context(), key, []byte(data)); {
				case err == nil:
					won.Add(1)
					winner.Store(data)
				case !errors.Is(err, stateserver.ErrExists):
					t.Errorf("round %d: %v", round, err)
				}
			})
		}
		group.Wait()
		got, err := one.Read(t.Context(), key)
		if won.Load() != 1 || err != nil || string(got) != winner.Load() {
			t.Fatalf("round %d: %d have created the object, which is %q (%v)", round, won.Load(), got, err)
		}
	}
}
