package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"hive-test/pkg/gateway/store"
	"hive-test/pkg/gateway/wire"
)

func open(t testing.TB, dir string) (*store.Embedded, func() *store.Store) {
	e, err := store.StartEmbedded(dir)
	if err != nil {
		t.Fatal(err)
	}
	return e, func() *store.Store {
		s, err := store.Open(context.Background(), e.JetStream, 1, "vpc", "subnet")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		return s
	}
}

func TestStore(t *testing.T) {
	dir := t.TempDir()
	e, another := open(t, dir)
	a, b := another(), another()
	ctx := t.Context()
	if err := a.Create(ctx, "vpc", "vpc-1", wire.Object{"CidrBlock": "10.0.0.0/16", "N": 1}); err != nil {
		t.Fatal(err)
	}
	if err := b.Create(ctx, "vpc", "vpc-1", wire.Object{}); !errors.Is(err, store.ErrExists) {
		t.Errorf("made twice: %v", err)
	}
	if o, err := b.Get(ctx, "vpc", "vpc-1"); err != nil || o.Text("CidrBlock") != "10.0.0.0/16" {
		t.Errorf("the other store reads %v, %v", o, err)
	}
	if _, err := b.Get(ctx, "vpc", "vpc-2"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("what is not there: %v", err)
	}
	refused := errors.New("refused")
	if _, err := a.Change(ctx, "vpc", "vpc-1", func(wire.Object) error { return refused }); !errors.Is(err, refused) {
		t.Errorf("a refused change: %v", err)
	}
	if err := a.Delete(ctx, "vpc", "vpc-1", func(wire.Object) error { return refused }); !errors.Is(err, refused) {
		t.Errorf("a refused deletion: %v", err)
	}
	e.Close()
	_, again := open(t, dir)
	c := again()
	if all, err := c.All(ctx, "vpc"); err != nil || len(all) != 1 {
		t.Fatalf("after a restart there are %v, %v", all, err)
	}
	if err := c.Delete(ctx, "vpc", "vpc-1", nil); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(ctx, "vpc", "vpc-1", nil); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("deleted twice: %v", err)
	}
	if err := c.Create(ctx, "vpc", "vpc-1", wire.Object{}); err != nil {
		t.Errorf("made anew: %v", err)
	}
}

// Each of 10,000 changes that two stores make to one resource at once is there at the end.
func TestConflicts(t *testing.T) {
	e, another := open(t, t.TempDir())
	defer e.Close()
	stores := []*store.Store{another(), another()}
	if err := stores[0].Create(t.Context(), "vpc", "one", wire.Object{"N": 0}); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	const each = 50
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			for range each {
				_, err := stores[i%2].Change(t.Context(), "vpc", "one", func(o wire.Object) error {
					o["N"] = o.Int("N") + 1
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if o, err := stores[1].Get(t.Context(), "vpc", "one"); err != nil || o.Int("N") != 200*each {
		t.Errorf("of %d changes there are %v, %v", 200*each, o, err)
	}
	t.Logf("%d changes in %s", 200*each, time.Since(begun))
}

func BenchmarkCreate(b *testing.B) {
	e, another := open(b, b.TempDir())
	defer e.Close()
	s := another()
	n := 0
	for b.Loop() {
		n++
		if err := s.Create(b.Context(), "vpc", fmt.Sprintf("vpc-%d", n), wire.Object{"CidrBlock": "10.0.0.0/16"}); err != nil {
			b.Fatal(err)
		}
	}
}
