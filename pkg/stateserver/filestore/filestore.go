// Package filestore keeps objects as files of a directory, which several processes may share. What it has written is on stable
// storage, and a process or machine that dies leaves whole files only.
package filestore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/gofrs/flock"

	"hive-test/pkg/stateserver"
)

// Store keeps objects below a directory. Safe for concurrent use.
type Store struct {
	dir  string
	temp string       // directory of files that are being written, of this process
	lock *flock.Flock // held as long as temp is used
	next atomic.Int64 // number of the next temporary file

	mu   sync.Mutex
	made map[string]bool // directories that are there, and on stable storage
}

var _ stateserver.Storage = (*Store)(nil)

// tempDir holds a directory for each process, with what it is writing. No key begins so.
const tempDir = ".writing"

// Open opens a directory, which is made if it is not there. What processes that died have left half written is deleted. Close
// ends it.
func Open(dir string) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(dir, tempDir), 0o700); err != nil {
		return nil, err
	}
	if err := syncDir(filepath.Dir(dir)); err != nil {
		return nil, err
	}
	s := &Store{dir: dir, made: map[string]bool{}}
	all := flock.New(filepath.Join(dir, tempDir, "lock"))
	if err := all.Lock(); err != nil {
		return nil, fmt.Errorf("locking %s: %w", all.Path(), err)
	}
	defer func() { _ = all.Close() }()
	if err := s.cleanUp(); err != nil {
		return nil, err
	}
	temp, err := os.MkdirTemp(filepath.Join(dir, tempDir), "process-")
	if err != nil {
		return nil, err
	}
	s.temp, s.lock = temp, flock.New(filepath.Join(temp, "lock"))
	if err := s.lock.Lock(); err != nil {
		return nil, fmt.Errorf("locking %s: %w", s.lock.Path(), err)
	}
	return s, nil
}

// cleanUp deletes the directories of processes that are dead.
func (s *Store) cleanUp() error {
	found, err := filepath.Glob(filepath.Join(s.dir, tempDir, "process-*"))
	if err != nil {
		return err
	}
	for _, dir := range found {
		lock := flock.New(filepath.Join(dir, "lock"))
		free, err := lock.TryLock()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("locking %s: %w", lock.Path(), err)
		}
		if free {
			err = os.RemoveAll(dir)
			_ = lock.Close()
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Close deletes what is being written. No method may be called after it, or meanwhile.
func (s *Store) Close() error {
	return errors.Join(os.RemoveAll(s.temp), s.lock.Close())
}

func (s *Store) path(key string) string { return filepath.Join(s.dir, filepath.FromSlash(key)) }

// Create writes a file elsewhere and gives it its name when it is whole, which only one can.
func (s *Store) Create(ctx context.Context, key string, data []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	path := s.path(key)
	if err := s.makeDir(filepath.Dir(path)); err != nil {
		return err
	}
	temp := filepath.Join(s.temp, strconv.FormatInt(s.next.Add(1), 10))
	defer func() { _ = os.Remove(temp) }()
	if err := writeFile(temp, data); err != nil {
		return err
	}
	switch err := os.Link(temp, path); {
	case errors.Is(err, fs.ErrExist):
		return stateserver.ErrExists
	case err != nil:
		s.forgetDirs() // somebody may have deleted them
		return err
	}
	return syncDir(filepath.Dir(path))
}

// writeFile writes a new file to stable storage.
func writeFile(path string, data []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// makeDir makes a directory with those above it, on stable storage.
func (s *Store) makeDir(dir string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.made[dir] {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	// Those above may be made by a process that has died before it synced them.
	for at := dir; len(at) >= len(s.dir) && !s.made[at]; at = filepath.Dir(at) {
		if err := syncDir(at); err != nil {
			return err
		}
		if at == s.dir {
			break
		}
	}
	for at := dir; at != s.dir; at = filepath.Dir(at) {
		s.made[at] = true
	}
	s.made[s.dir] = true
	return nil
}

// forgetDirs has directories be made again.
func (s *Store) forgetDirs() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.made)
}

// syncDir writes the names in a directory to stable storage.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Read returns a file.
func (s *Store) Read(ctx context.Context, key string) ([]byte, error) {
	return s.ReadStart(ctx, key, -1)
}

// ReadStart returns the first n bytes of a file; all with a negative n.
func (s *Store) ReadStart(ctx context.Context, key string, n int) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	file, err := os.Open(s.path(key))
	if err != nil {
		return nil, notFound(err)
	}
	defer func() { _ = file.Close() }()
	if n < 0 {
		return io.ReadAll(file)
	}
	return io.ReadAll(io.LimitReader(file, int64(n)))
}

func notFound(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return stateserver.ErrNotFound
	}
	return err
}

// List returns the keys of files.
func (s *Store) List(ctx context.Context, prefix string) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	dir, start := "", prefix
	if at := strings.LastIndex(prefix, "/"); at >= 0 {
		dir, start = prefix[:at+1], prefix[at+1:]
	}
	d, err := os.Open(s.path(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = d.Close() }()
	entries, err := d.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	var keys []string
	for _, entry := range entries {
		if !entry.IsDir() && strings.HasPrefix(entry.Name(), start) {
			keys = append(keys, dir+entry.Name())
		}
	}
	slices.Sort(keys)
	return keys, nil
}

// Delete deletes a file.
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := os.Remove(s.path(key)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
