package remote

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

func TestUpload(t *testing.T) {
	s, h := connected(t)
	local, content := randomFile(t, 300<<10)
	abs := filepath.Join(s.home, "abs", "deep er", "it's")
	for _, c := range []struct {
		name, remote, path string
		mode               fs.FileMode
	}{
		{"absolute, with directories to be made", abs, abs, 0o755},
		{"home", "~/bin/hive", filepath.Join(s.home, "bin/hive"), 0o600},
		{"relative", "-x", filepath.Join(s.home, "-x"), 0o444},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, want := range []bool{true, false} {
				changed, err := h.Upload(t.Context(), local, c.remote, c.mode)
				if err != nil || changed != want {
					t.Fatalf("changed %v, error %v, want %v", changed, err, want)
				}
			}
			checkFile(t, c.path, content, c.mode)
			changed, err := h.Upload(t.Context(), local, c.remote, 0o640)
			if err != nil || !changed {
				t.Errorf("another mode: changed %v, error %v", changed, err)
			}
			checkFile(t, c.path, content, 0o640)
			if entries, _ := os.ReadDir(filepath.Dir(c.path)); len(entries) != 1 && c.remote != "-x" {
				t.Errorf("something was left beside it: %v", entries)
			}
		})
	}
	t.Run("same size, other content", func(t *testing.T) {
		other, content := randomFile(t, 300<<10)
		changed, err := h.Upload(t.Context(), other, abs, 0o755)
		if err != nil || !changed {
			t.Errorf("changed %v, error %v", changed, err)
		}
		checkFile(t, abs, content, 0o755)
	})
	t.Run("empty", func(t *testing.T) {
		empty, content := randomFile(t, 0)
		if _, err := h.Upload(t.Context(), empty, abs, 0o755); err != nil {
			t.Fatal(err)
		}
		checkFile(t, abs, content, 0o755)
	})
}

func TestSumsOfLocalFiles(t *testing.T) {
	var known sums
	path, content := randomFile(t, 300<<10)
	sum := func() string {
		f, err := os.Open(path)
		if err != nil {
			return err.Error()
		}
		defer func() { _ = f.Close() }()
		info, err := f.Stat()
		if err != nil {
			return err.Error()
		}
		got, err := known.of(f, info)
		if err != nil {
			return err.Error()
		}
		return got
	}
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			if got, want := sum(), fmt.Sprintf("%x", sha256.Sum256(content)); got != want {
				t.Errorf("the sum is %s, want %s", got, want)
			}
		})
	}
	all.Wait()
	if len(known.known) != 1 {
		t.Errorf("one file was read %d times", len(known.known))
	}
	before := sum()
	content[0]++
	if err := errors.Join(
		os.WriteFile(path, content, 0o600), os.Chtimes(path, time.Time{}, time.Now().Add(time.Second)),
	); err != nil {
		t.Fatal(err)
	}
	if sum() == before {
		t.Error("a file that has changed has the sum that it had before")
	}
}

func checkFile(t *testing.T, path string, content []byte, mode fs.FileMode) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, content) {
		t.Errorf("%s: content differs (%d bytes), error %v", path, len(got), err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
		t.Errorf("%s: mode %v, want %v", path, info.Mode(), mode)
	}
}

func TestUploadThatFails(t *testing.T) {
	s, h := connected(t)
	local, _ := randomFile(t, 10)
	_, err := h.Upload(t.Context(), filepath.Join(s.home, "missing"), "~/x", 0o600)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing local file: %v", err)
	}
	if err := os.WriteFile(filepath.Join(s.home, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = h.Upload(t.Context(), local, "~/file/x", 0o600)
	contains(t, err, "ci-1: uploading ", "making its directory")
	_, err = h.Upload(t.Context(), local, s.home, 0o600)
	contains(t, err, "a directory is there on the node")
	_, err = h.Upload(t.Context(), s.home, "~/x", 0o600)
	contains(t, err, "not a regular file")
}

func TestUploadLargeAndCancelled(t *testing.T) {
	s, h := connected(t)
	local, content := randomFile(t, 24<<20)
	if _, err := h.Upload(t.Context(), local, "~/large", 0o755); err != nil {
		t.Fatal(err)
	}
	checkFile(t, filepath.Join(s.home, "large"), content, 0o755)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := h.Upload(ctx, local, "~/other", 0o755); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(filepath.Join(s.home, "other")); err == nil {
		t.Error("a part of the file appeared")
	}
}

func TestTransferOverHalfOpenConnection(t *testing.T) {
	p := newProxy(t, newServer(t).addr)
	cfg := testConfig(t)
	h := newDialer(t, cfg).Host(nodeAt(p.addr, 1))
	if _, err := h.Run(t.Context(), Command{Argv: []string{"true"}}); err != nil {
		t.Fatal(err)
	}
	p.freeze()
	local, _ := randomFile(t, 8<<20)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	wantWithin(t, 8*time.Second, func() {
		if _, err := h.Upload(ctx, local, "~/x", 0o600); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

func TestDownload(t *testing.T) {
	s, h := connected(t)
	from, content := randomFile(t, 300<<10)
	to := filepath.Join(t.TempDir(), "copy")
	if err := h.Download(t.Context(), from, to); err != nil {
		t.Fatal(err)
	}
	checkFile(t, to, content, 0o600)
	if err := os.WriteFile(filepath.Join(s.home, "log"), []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := h.Download(t.Context(), "~/log", to); err != nil {
		t.Fatal(err)
	}
	checkFile(t, to, []byte("short"), 0o600)
	err := h.Download(t.Context(), "~/missing", to)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	contains(t, err, "ci-1: downloading ./missing to ")
	checkFile(t, to, []byte("short"), 0o600)
	if err := h.Download(t.Context(), "/proc/version", to); err != nil {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(to); !bytes.HasPrefix(text, []byte("Linux")) {
		t.Errorf("a file whose size is told as 0 came as %q", text)
	}
}
