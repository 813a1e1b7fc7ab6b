package stateserver

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"
)

// memory is a storage of tests. Before is called before each operation with its name and key; an error of it is the
// operation's, and one after the operation where it is after.
type memory struct {
	mu      sync.Mutex
	objects map[string][]byte
	before  func(operation, key string) error
	after   func(operation, key string) error
}

func (m *memory) hook(operation, key string) error {
	m.mu.Lock()
	before := m.before
	m.mu.Unlock()
	if before == nil {
		return nil
	}
	return before(operation, key)
}

func (m *memory) done(operation, key string) error {
	if m.after == nil {
		return nil
	}
	return m.after(operation, key)
}

func (m *memory) Create(_ context.Context, key string, data []byte) error {
	if err := m.hook("create", key); err != nil {
		return err
	}
	if !m.put(key, data) {
		return ErrExists
	}
	return m.done("create", key)
}

func (m *memory) put(key string, data []byte) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, there := m.objects[key]; there {
		return false
	}
	if m.objects == nil {
		m.objects = map[string][]byte{}
	}
	m.objects[key] = bytes.Clone(data)
	return true
}

func (m *memory) Read(_ context.Context, key string) ([]byte, error) {
	if err := m.hook("read", key); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	data, there := m.objects[key]
	if !there {
		return nil, ErrNotFound
	}
	return bytes.Clone(data), nil
}

func (m *memory) ReadStart(ctx context.Context, key string, n int) ([]byte, error) {
	data, err := m.Read(ctx, key)
	return data[:min(n, len(data))], err
}

func (m *memory) List(_ context.Context, prefix string) ([]string, error) {
	if err := m.hook("list", prefix); err != nil {
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

func (m *memory) Delete(_ context.Context, key string) error {
	if err := m.hook("delete", key); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.objects, key)
	return nil
}
