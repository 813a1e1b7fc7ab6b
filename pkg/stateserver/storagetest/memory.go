package storagetest

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"

	"hive-test/pkg/stateserver"
)

// Memory is a storage that keeps nothing on disk. The zero value is ready. Safe for concurrent use.
type Memory struct {
	mu      sync.Mutex
	objects map[string][]byte
}

var _ stateserver.Storage = (*Memory)(nil)

// Create writes an object that is not there.
func (m *Memory) Create(ctx context.Context, key string, data []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, there := m.objects[key]; there {
		return stateserver.ErrExists
	}
	if m.objects == nil {
		m.objects = map[string][]byte{}
	}
	m.objects[key] = bytes.Clone(data)
	return nil
}

// Read returns an object.
func (m *Memory) Read(ctx context.Context, key string) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	data, there := m.objects[key]
	if !there {
		return nil, stateserver.ErrNotFound
	}
	return bytes.Clone(data), nil
}

// ReadStart returns the start of an object.
func (m *Memory) ReadStart(ctx context.Context, key string, n int) ([]byte, error) {
	data, err := m.Read(ctx, key)
	return data[:min(n, len(data))], err
}

// List returns keys.
func (m *Memory) List(ctx context.Context, prefix string) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var keys []string
	for key := range m.objects {
		if rest, found := strings.CutPrefix(key, prefix); found && !strings.Contains(rest, "/") {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys, nil
}

// Delete deletes an object.
func (m *Memory) Delete(ctx context.Context, key string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.objects, key)
	return nil
}

// Damage replaces an object by something else.
func (m *Memory) Damage(key string, data []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.objects[key] = data
}
