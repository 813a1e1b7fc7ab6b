// Package store keeps the gateway's resources in NATS JetStream: a KV bucket for each kind, a key for each resource, whose
// value is JSON. Several gateways may share one: each write is made on the revision that was read, or not at all.
package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/nats-io/nats.go/jetstream"

	"hive-test/pkg/gateway/wire"
)

// Errors of Store.
var (
	ErrExists   = errors.New("a resource with that id exists")
	ErrNotFound = errors.New("no resource has that id")
)

// Store keeps resources. It is safe for concurrent use. Objects that it returns are shared: they must not be changed.
type Store struct {
	buckets map[string]*bucket
}

// Open opens the buckets of the kinds, and makes those that are not there, with so many replicas.
func Open(ctx context.Context, js jetstream.JetStream, replicas int, kinds ...string) (*Store, error) {
	s := &Store{buckets: map[string]*bucket{}}
	for _, kind := range kinds {
		b, err := openBucket(ctx, js, kind, replicas)
		if err != nil {
			s.Close()
			return nil, fmt.Errorf("opening the KV bucket %s: %w", kind, err)
		}
		s.buckets[kind] = b
	}
	return s, nil
}

// Close ends watching the buckets.
func (s *Store) Close() {
	for _, b := range s.buckets {
		b.close()
	}
}

// Get returns a resource, or ErrNotFound.
func (s *Store) Get(ctx context.Context, kind, id string) (wire.Object, error) {
	b, err := s.bucket(ctx, kind)
	if err != nil {
		return nil, err
	}
	e, there := b.entry(id)
	if !there {
		return nil, ErrNotFound
	}
	return e.object, nil
}

// All returns the resources of a kind, the oldest first.
func (s *Store) All(ctx context.Context, kind string) ([]wire.Object, error) {
	b, err := s.bucket(ctx, kind)
	if err != nil {
		return nil, err
	}
	return b.all(), nil
}

// Create adds a resource; ErrExists where its id is taken.
func (s *Store) Create(ctx context.Context, kind, id string, o wire.Object) error {
	b := s.buckets[kind]
	value, err := json.Marshal(o)
	if err != nil {
		return err
	}
	revision, err := b.kv.Create(ctx, id, value)
	if errors.Is(err, jetstream.ErrKeyExists) {
		return ErrExists
	}
	if err != nil {
		return fmt.Errorf("writing %s %s: %w", kind, id, err)
	}
	return b.await(ctx, revision)
}

// Change writes what change has made of a resource, and returns it. Where somebody else has changed it meanwhile, it is
// read and changed anew. An error of change is returned, and nothing is written.
func (s *Store) Change(ctx context.Context, kind, id string, change func(wire.Object) error) (wire.Object, error) {
	var next wire.Object
	err := s.write(ctx, kind, id, func(b *bucket, e entry) (uint64, error) {
		next = e.object.Clone()
		if err := change(next); err != nil {
			return 0, refusal{err}
		}
		value, err := json.Marshal(next)
		if err != nil {
			return 0, refusal{err}
		}
		return b.kv.Update(ctx, id, value, e.revision)
	})
	return next, err
}

// Delete removes a resource that check, which may be nil, has nothing against.
func (s *Store) Delete(ctx context.Context, kind, id string, check func(wire.Object) error) error {
	return s.write(ctx, kind, id, func(b *bucket, e entry) (uint64, error) {
		if check != nil {
			if err := check(e.object); err != nil {
				return 0, refusal{err}
			}
		}
		if err := b.kv.Delete(ctx, id, jetstream.LastRevision(e.revision)); err != nil {
			return 0, err
		}
		return 0, b.fresh(ctx)
	})
}

// refusal is why a resource is not written as it is.
type refusal struct{ error }

// write makes a write of a resource on its last revision. What the copy in memory has may be old: before a resource is
// told as missing, or a refusal is returned, it is brought up to date.
func (s *Store) write(ctx context.Context, kind, id string, do func(*bucket, entry) (uint64, error)) error {
	b, there := s.buckets[kind]
	if !there {
		return fmt.Errorf("there is no bucket %s", kind)
	}
	defer b.turn(id)()
	for fresh := false; ; {
		e, there := b.entry(id)
		err := error(refusal{ErrNotFound})
		if there {
			var revision uint64
			if revision, err = do(b, e); err == nil {
				return b.await(ctx, revision)
			}
		}
		refused, isRefusal := errors.AsType[refusal](err)
		switch {
		case isRefusal && fresh:
			return refused.error
		case !isRefusal && !errors.Is(err, jetstream.ErrKeyExists): // the code of a revision that is not the last, too
			return fmt.Errorf("writing %s %s: %w", kind, id, err)
		}
		if err := b.fresh(ctx); err != nil {
			return fmt.Errorf("reading the KV bucket %s: %w", kind, err)
		}
		fresh = isRefusal
	}
}

// bucket returns that of a kind, once it has seen all that was written before.
func (s *Store) bucket(ctx context.Context, kind string) (*bucket, error) {
	b, there := s.buckets[kind]
	if !there {
		return nil, fmt.Errorf("there is no bucket %s", kind)
	}
	if err := b.fresh(ctx); err != nil {
		return nil, fmt.Errorf("reading the KV bucket %s: %w", kind, err)
	}
	return b, nil
}

// entry is a resource as it was written.
type entry struct {
	object            wire.Object
	revision, created uint64
}

// bucket is a KV bucket with a copy of it in memory, which follows it.
type bucket struct {
	kv      jetstream.KeyValue
	watcher jetstream.KeyWatcher
	done    chan struct{}

	mu      sync.Mutex
	seen    uint64 // revision up to which the copy is complete
	moved   chan struct{}
	entries map[string]entry
	turns   map[string]*turn
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
		kv: kv, done: make(chan struct{}), moved: make(chan struct{}), entries: map[string]entry{}, turns: map[string]*turn{},
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
	b.mu.Lock()
	defer b.mu.Unlock()
	id := update.Key()
	was := b.entries[id]
	if update.Operation() != jetstream.KeyValuePut {
		delete(b.entries, id)
	} else if o, err := wire.Parse(update.Value()); err == nil { // what is no object was not written by a gateway
		e := entry{object: o, revision: update.Revision(), created: was.created}
		if e.created == 0 {
			e.created = e.revision
		}
		b.entries[id] = e
	}
	b.seen = max(b.seen, update.Revision())
	close(b.moved)
	b.moved = make(chan struct{})
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
	for {
		b.mu.Lock()
		seen, moved := b.seen, b.moved
		b.mu.Unlock()
		if seen >= revision {
			return nil
		}
		select {
		case <-moved:
		case <-b.done:
			return errors.New("the connection to NATS has ended")
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (b *bucket) entry(id string) (entry, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, there := b.entries[id]
	return e, there
}

func (b *bucket) all() []wire.Object {
	b.mu.Lock()
	list := make([]entry, 0, len(b.entries))
	for _, e := range b.entries {
		list = append(list, e)
	}
	b.mu.Unlock()
	slices.SortFunc(list, func(a, b entry) int {
		if a.created < b.created {
			return -1
		}
		return 1
	})
	objects := make([]wire.Object, len(list))
	for i, e := range list {
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
