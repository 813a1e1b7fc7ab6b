// Package store keeps the gateway's resources in NATS JetStream: a KV bucket for each kind, a key for each resource, whose
// value is JSON. Several gateways may share one: each write is made on the revision that was read, or not at all.
package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"hive-test/pkg/gateway/wire"
)

// Errors of Store.
var (
	ErrExists   = errors.New("a resource with that id exists")
	ErrNotFound = errors.New("no resource has that id")
)

// Store keeps resources. It is safe for concurrent use. Objects that it returns are shared: they must not be changed.
//
// What was answered by one store is read from all: a read first asks NATS how far a bucket is. A store that nobody else
// writes to does not ask, for each of its writes is in its copy before it is answered.
type Store struct {
	buckets map[string]*bucket
}

// Open opens the buckets of the kinds, and makes those that are not there, with so many replicas. Other stores may be open
// on the same buckets.
func Open(ctx context.Context, js jetstream.JetStream, replicas int, kinds ...string) (*Store, error) {
	return open(ctx, js, replicas, false, kinds)
}

func open(ctx context.Context, js jetstream.JetStream, replicas int, alone bool, kinds []string) (*Store, error) {
	s := &Store{buckets: map[string]*bucket{}}
	for _, kind := range kinds {
		b, err := openBucket(ctx, js, kind, replicas)
		if err == nil {
			s.buckets[kind], b.alone = b, alone
			err = b.fresh(ctx)
		}
		if err != nil {
			s.Close()
			return nil, fmt.Errorf("opening the KV bucket %s: %w", kind, err)
		}
	}
	return s, nil
}

// Begin returns a context for the reads of one request, each of which is of a time after its begin: NATS is asked once per
// bucket, and not at each read.
func (s *Store) Begin(ctx context.Context) context.Context {
	return context.WithValue(ctx, requestKey{}, &request{asked: map[*bucket]time.Time{}})
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
	e := b.entry(id)
	if e == nil {
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
		return cmp.Or(b.fresh(ctx), ErrExists) // who is told of it finds it
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
	err := s.write(ctx, kind, id, func(b *bucket, e *entry) (uint64, error) {
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
	return s.write(ctx, kind, id, func(b *bucket, e *entry) (uint64, error) {
		if check != nil {
			if err := check(e.object); err != nil {
				return 0, refusal{err}
			}
		}
		if err := b.kv.Delete(ctx, id, jetstream.LastRevision(e.revision)); err != nil {
			return 0, err
		}
		return 0, b.until(ctx, func() bool { return b.entries[id] == nil || b.entries[id].revision > e.revision })
	})
}

// refusal is why a resource is not written as it is.
type refusal struct{ error }

// write makes a write of a resource on its last revision. What the copy in memory has may be old: before a resource is
// told as missing, or a refusal is returned, it is brought up to date.
func (s *Store) write(ctx context.Context, kind, id string, do func(*bucket, *entry) (uint64, error)) error {
	b, there := s.buckets[kind]
	if !there {
		return fmt.Errorf("there is no bucket %s", kind)
	}
	defer b.turn(id)()
	for fresh := b.upToDate(ctx); ; {
		e := b.entry(id)
		err := error(refusal{ErrNotFound})
		if e != nil {
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
	if err := b.current(ctx); err != nil {
		return nil, fmt.Errorf("reading the KV bucket %s: %w", kind, err)
	}
	return b, nil
}
