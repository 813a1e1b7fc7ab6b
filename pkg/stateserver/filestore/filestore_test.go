package filestore_test

import (
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"hive-test/pkg/stateserver/filestore"
	"hive-test/pkg/stateserver/storagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, dir string) *filestore.Store {
	t.Helper()
	store, err := filestore.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

func TestSuite(t *testing.T) {
	dir := t.TempDir()
	storagetest.Suite(t, open(t, dir), open(t, dir))
}

// What a process that is gone was writing is deleted by the next one, and what one that lives is writing is not.
func TestHalfWrittenFiles(t *testing.T) {
	dir := t.TempDir()
	open(t, dir)
	living, _ := filepath.Glob(filepath.Join(dir, ".writing", "process-*"))
	dead := filepath.Join(dir, ".writing", "process-dead")
	if err := os.Mkdir(dead, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dead, "1"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	open(t, dir)
	if _, err := os.Stat(dead); !os.IsNotExist(err) {
		t.Errorf("what a dead process has left is there: %v", err)
	}
	if len(living) != 1 {
		t.Fatalf("a process that lives has %q", living)
	}
	if _, err := os.Stat(living[0]); err != nil {
		t.Errorf("what a living process has is gone: %v", err)
	}
}

// Files are for their owner alone.
func TestModes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	if err := open(t, dir).Create(t.Context(), "a/b/c", []byte("x")); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{"": 0o700, "a": 0o700, "a/b": 0o700, "a/b/c": 0o600} {
		info, err := os.Stat(filepath.Join(dir, path))
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%q has mode %v (%v), want %v", path, info.Mode(), err, want)
		}
	}
}

// A directory may be named in any way, and what is deleted below it is made again.
func TestRelativeDirectories(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, dir := range []string{"./a", "b/../b/", "."} {
		store := open(t, dir)
		if err := store.Create(t.Context(), "x/y/z", []byte("1")); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(filepath.Join(dir, "x")); err != nil {
			t.Fatal(err)
		}
		first := store.Create(t.Context(), "x/y/z", []byte("2"))
		if err := store.Create(t.Context(), "x/y/z2", []byte("2")); err != nil {
			t.Errorf("%s: the first write is answered %v, and the second %v", dir, first, err)
		}
	}
}

// A directory that is full or cannot be written fails a write, and leaves nothing.
func TestDirectoryThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	store := open(t, dir)
	if err := os.WriteFile(filepath.Join(dir, "a"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := store.Create(t.Context(), "a/b", []byte("x")); err == nil {
		t.Error("an object was created below a file")
	}
}
