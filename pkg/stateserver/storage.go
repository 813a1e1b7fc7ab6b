package stateserver

import (
	"context"
	"errors"
)

// Storage keeps objects by key. Keys are parts of lower-case letters, digits, '.', '_' and '-' with '/' between. All methods
// may be called concurrently, and by several processes that share the storage. What a method has returned, all that begin
// later in any process see.
type Storage interface {
	// Create writes an object that is not there. It returns nil once the object is on stable storage, whole, and ErrExists
	// if there is one of that key: of several that create it at once, one succeeds. After any other error the object is there
	// whole, or not there, or comes to be there a little later.
	Create(ctx context.Context, key string, data []byte) error
	// Read returns an object, or ErrNotFound.
	Read(ctx context.Context, key string) ([]byte, error)
	// ReadStart returns at most the first n bytes of an object, or ErrNotFound.
	ReadStart(ctx context.Context, key string, n int) ([]byte, error)
	// List returns the keys that begin with prefix and have no '/' after it, in order.
	List(ctx context.Context, prefix string) ([]string, error)
	// Delete deletes an object. That it is not there is no error.
	Delete(ctx context.Context, key string) error
}

// Errors of a Storage.
var (
	ErrExists   = errors.New("object exists")
	ErrNotFound = errors.New("no such object")
)

// CheckStorage reports whether a storage does what all depends on: it writes an object, refuses to write it a second time,
// lists and reads it. What it writes, it deletes.
func CheckStorage(ctx context.Context, s Storage) error {
	key := "server/check/" + newID()
	defer func() { _ = s.Delete(context.WithoutCancel(ctx), key) }()
	if err := s.Create(ctx, key, []byte("first")); err != nil {
		return errors.Join(errors.New("the storage cannot be written"), err)
	}
	if err := s.Create(ctx, key, []byte("second")); !errors.Is(err, ErrExists) {
		return errors.Join(errors.New("the storage overwrites objects that it is told to keep: it has no conditional writes"), err)
	}
	data, err := s.Read(ctx, key)
	if err != nil || string(data) != "first" {
		return errors.Join(errors.New("the storage does not return what was written"), err)
	}
	keys, err := s.List(ctx, "server/check/")
	if err != nil {
		return errors.Join(errors.New("the storage cannot be listed"), err)
	}
	for _, listed := range keys {
		if listed == key {
			return nil
		}
	}
	return errors.New("the storage does not list what was written")
}
