package store

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/nats-io/nats.go/jetstream"

	"hive-test/pkg/gateway/wire"
)

// entry is a resource as it was written. It is not changed.
type entry struct {
	id                string
	object            wire.Object
	revision, created uint64
}

// bucket is a KV bucket with a copy of it in memory, which follows it.
type bucket struct {
	kv      jetstream.KeyValue
	alone   bool // nobody else writes to it
	watcher jetstream.KeyWatcher
	done    chan struct{}

	mu      sync.Mutex
	seen    uint64 // revision up to which the copy is complete
	waiters []waiter
	entries map[string]*entry
	ordered []*entry // by when they were created
	turns   map[string]*turn
}

// waiter waits for something that is seen with mu locked.
type waiter struct {
	ready func() bool
	done  chan struct{}
}

// turn lets one change of a resource at a time be made by this process.
type turn struct {
	sync.Mutex
	waiting int
}

func openBucket(ctx context.Context, js jetstream.JetStream, kind string, replicas int) (*bucket, error) {
	kv, err := js.KeyValue(ctx, kind)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		kv, err = js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: kind, Replicas: replicas})
	}
	if err != nil {
		return nil, err
	}
	b := &bucket{
		kv: kv, done: make(chan struct{}), entries: map[string]*entry{}, turns: map[string]*turn{},
	}
	if b.watcher, err = kv.WatchAll(context.WithoutCancel(ctx)); err != nil {
		return nil, err
	}
	go b.follow()
	return b, nil
}

// follow takes over what is written.
func (b *bucket) follow() {
	defer close(b.done)
	for update := range b.watcher.Updates() {
		if update != nil { // nil: all that was there before has come
			b.take(update)
		}
	}
}

func (b *bucket) take(update jetstream.KeyValueEntry) {
	var o wire.Object
	put := update.Operation() == jetstream.KeyValuePut
	if put {
		var err error
		if o, err = wire.Parse(update.Value()); err != nil {
			put = false // what is no object was not written by a gateway
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	id := update.Key()
	was := b.entries[id]
	if put {
		b.put(was, &entry{id: id, object: o, revision: update.Revision(), created: update.Revision()})
	} else if was != nil {
		delete(b.entries, id)
		at := b.place(was)
		b.ordered = slices.Delete(b.ordered, at, at+1)
	}
	b.seen = max(b.seen, update.Revision())
	b.waiters = slices.DeleteFunc(b.waiters, func(w waiter) bool {
		ready := w.ready()
		if ready {
			close(w.done)
		}
		return ready
	})
}

// put takes over an entry, in the place of the one that it follows.
func (b *bucket) put(was, e *entry) {
	b.entries[e.id] = e
	if was == nil {
		b.ordered = append(b.ordered, e) // revisions only grow
		return
	}
	e.created = was.created
	b.ordered[b.place(was)] = e
}

// place is where an entry is among those in order.
func (b *bucket) place(e *entry) int {
	at, _ := slices.BinarySearchFunc(b.ordered, e.created, func(e *entry, created uint64) int {
		return cmp.Compare(e.created, created)
	})
	return at
}

func (b *bucket) close() {
	_ = b.watcher.Stop() // it ends with the connection, too
	<-b.done
}

// fresh waits until the copy has all that was written before.
func (b *bucket) fresh(ctx context.Context) error {
	status, err := b.kv.Status(ctx)
	if err != nil {
		return err
	}
	if known, ok := status.(*jetstream.KeyValueBucketStatus); ok {
		return b.await(ctx, known.StreamInfo().State.LastSeq)
	}
	return nil
}

// await waits until the copy has a revision.
func (b *bucket) await(ctx context.Context, revision uint64) error {
	return b.until(ctx, func() bool { return b.seen >= revision })
}

// until waits for something of the copy, which is asked with mu locked.
func (b *bucket) until(ctx context.Context, ready func() bool) error {
	b.mu.Lock()
	if ready() {
		b.mu.Unlock()
		return nil
	}
	w := waiter{ready, make(chan struct{})}
	b.waiters = append(b.waiters, w)
	b.mu.Unlock()
	var err error
	select {
	case <-w.done:
		return nil
	case <-b.done:
		err = errors.New("the connection to NATS has ended")
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiters = slices.DeleteFunc(b.waiters, func(other waiter) bool { return other.done == w.done })
	return err
}

// entry returns a resource; nil: there is none.
func (b *bucket) entry(id string) *entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.entries[id]
}

func (b *bucket) all() []wire.Object {
	b.mu.Lock()
	defer b.mu.Unlock()
	objects := make([]wire.Object, len(b.ordered))
	for i, e := range b.ordered {
		objects[i] = e.object
	}
	return objects
}

// turn waits until no other change of the resource is being made here, and returns what ends this one.
func (b *bucket) turn(id string) (end func()) {
	b.mu.Lock()
	t := b.turns[id]
	if t == nil {
		t = &turn{}
		b.turns[id] = t
	}
	t.waiting++
	b.mu.Unlock()
	t.Lock()
	return func() {
		t.Unlock()
		b.mu.Lock()
		defer b.mu.Unlock()
		if t.waiting--; t.waiting == 0 {
			delete(b.turns, id)
		}
	}
}
