package remote

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// tree is a directory with what copies have to deal with; it has three files of 14 bytes together.
func tree(t *testing.T, dir string) string {
	t.Helper()
	err := errors.Join(
		os.MkdirAll(filepath.Join(dir, "sub", "-deep er"), 0o755), os.Mkdir(filepath.Join(dir, "empty"), 0o750),
		os.WriteFile(filepath.Join(dir, "run"), []byte("#!sh\n"), 0o755),
		os.WriteFile(filepath.Join(dir, "sub", "-deep er", "it's"), []byte("none"), 0o400),
		os.Symlink("../run", filepath.Join(dir, "sub", "link")), os.Symlink("nowhere", filepath.Join(dir, "dangling")),
		os.Symlink("..", filepath.Join(dir, "sub", "loop")), syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600),
	)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// checkTree looks at a copy of tree.
func checkTree(t *testing.T, dir string) {
	t.Helper()
	checkFile(t, filepath.Join(dir, "run"), []byte("#!sh\n"), 0o755)
	checkFile(t, filepath.Join(dir, "sub", "-deep er", "it's"), []byte("none"), 0o400)
	checkFile(t, filepath.Join(dir, "sub", "link"), []byte("#!sh\n"), 0o755)
	if info, err := os.Stat(filepath.Join(dir, "empty")); err != nil || info.Mode() != fs.ModeDir|0o750 {
		t.Errorf("the empty directory: %v, error %v", info, err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 3 {
		t.Errorf("the copy holds %v", entries)
	}
}

func checkCopied(t *testing.T, got, want Copied, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Copied{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestCopyTo(t *testing.T) {
	s, h := connected(t)
	from := tree(t, filepath.Join(t.TempDir(), "tree"))
	out := []string{filepath.Join(from, "dangling"), filepath.Join(from, "pipe"), filepath.Join(from, "sub", "loop")}
	first := Copied{Files: 3, Bytes: 14, LeftOut: out}
	done, err := h.CopyTo(t.Context(), []string{from}, "-new/tree")
	checkCopied(t, done, first, err)
	checkTree(t, filepath.Join(s.home, "-new/tree"))

	done, err = h.CopyTo(t.Context(), []string{from}, "~/-new")
	checkCopied(t, done, Copied{Unchanged: 3, LeftOut: out}, err)
	if err := os.WriteFile(filepath.Join(s.home, "-new/tree/run"), []byte("other"), 0o700); err != nil {
		t.Fatal(err)
	}
	done, err = h.CopyTo(t.Context(), []string{from + "/."}, filepath.Join(s.home, "-new/tree"))
	checkCopied(t, done, Copied{Files: 1, Bytes: 5, Unchanged: 2, LeftOut: out}, err)
	checkTree(t, filepath.Join(s.home, "-new/tree"))
}

func TestCopyFrom(t *testing.T) {
	s, h := connected(t)
	tree(t, filepath.Join(s.home, "-new", "tree"))
	to := filepath.Join(t.TempDir(), "copy")
	out := []string{"-new/tree/dangling", "-new/tree/pipe", "-new/tree/sub/loop"}
	done, err := h.CopyFrom(t.Context(), []string{"-new/tree"}, to)
	checkCopied(t, done, Copied{Files: 3, Bytes: 14, LeftOut: out}, err)
	checkTree(t, to)

	if err := errors.Join(
		os.WriteFile(filepath.Join(to, "run"), []byte("other"), 0o700),
		os.Chmod(filepath.Join(to, "sub", "link"), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	done, err = h.CopyFrom(t.Context(), []string{"~/-new/tree/."}, to)
	checkCopied(t, done, Copied{Files: 2, Bytes: 10, Unchanged: 1, LeftOut: out}, err)
	checkTree(t, to)
}

func TestWhereCopiesGo(t *testing.T) {
	s, h := connected(t)
	content := []byte("x")
	here := t.TempDir()
	a, b := filepath.Join(here, "a"), filepath.Join(here, "b")
	if err := errors.Join(
		os.WriteFile(a, content, 0o640), os.WriteFile(b, content, 0o640),
		os.Mkdir(filepath.Join(s.home, "there"), 0o755),
	); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		sources      []string
		target, want string
	}{
		{[]string{a}, "file", "file"},
		{[]string{a}, "new/", "new/a"},
		{[]string{a}, "there", "there/a"},
		{[]string{a}, "", "a"},
		{[]string{b}, "~", "b"},
		{[]string{a, b}, "both", "both/b"},
	} {
		if _, err := h.CopyTo(t.Context(), c.sources, c.target); err != nil {
			t.Errorf("to %q: %v", c.target, err)
		}
		checkFile(t, filepath.Join(s.home, c.want), content, 0o640)
	}
	back := t.TempDir()
	for _, c := range []struct {
		sources      []string
		target, want string
	}{
		{[]string{"a"}, filepath.Join(back, "file"), "file"},
		{[]string{"~/a"}, filepath.Join(back, "new") + "/", "new/a"},
		{[]string{filepath.Join(s.home, "a")}, back, "a"},
		{[]string{"a", "b"}, filepath.Join(back, "both"), "both/b"},
		{[]string{"~"}, filepath.Join(back, "home"), "home/there/a"},
	} {
		if _, err := h.CopyFrom(t.Context(), c.sources, c.target); err != nil {
			t.Errorf("to %q: %v", c.target, err)
		}
		checkFile(t, filepath.Join(back, c.want), content, 0o640)
	}
}

func TestCopyThatFails(t *testing.T) {
	s, h := connected(t)
	here := t.TempDir()
	for i := range 9 { // a directory is there where each of the files is to go
		name := strconv.Itoa(i)
		if err := errors.Join(
			os.WriteFile(filepath.Join(here, name), nil, 0o600), os.MkdirAll(filepath.Join(s.home, "to", name), 0o755),
		); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(here, "good"), []byte("good"), 0o600); err != nil {
		t.Fatal(err)
	}
	done, err := h.CopyTo(t.Context(), []string{here + "/."}, "to")
	contains(t, err, "ci-1: ", filepath.Join(here, "0")+": to ~/to/0: a directory is there on the node", "and 4 more")
	if done.Files != 1 {
		t.Errorf("%d files were copied besides", done.Files)
	}
	checkFile(t, filepath.Join(s.home, "to/good"), []byte("good"), 0o600)

	if err := os.WriteFile(filepath.Join(s.home, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = h.CopyTo(t.Context(), []string{here}, "file")
	contains(t, err, "a file is there on the node")
	_, err = h.CopyFrom(t.Context(), []string{"missing", "file"}, here)
	contains(t, err, "ci-1: ./missing: ")
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	checkFile(t, filepath.Join(here, "file"), nil, 0o600)
	_, err = h.CopyFrom(t.Context(), []string{"/dev/null"}, filepath.Join(here, "null"))
	contains(t, err, "neither a file nor a directory")
	_, err = h.CopyFrom(t.Context(), []string{"to"}, filepath.Join(here, "file"))
	contains(t, err, "not a directory")
}

func TestCopyThatIsStopped(t *testing.T) {
	s, h := connected(t)
	from := t.TempDir()
	if err := os.WriteFile(filepath.Join(from, "large"), bytes.Repeat([]byte("x"), 32<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	cancel(stopped)
	if _, err := h.CopyTo(ctx, []string{from}, "to"); !errors.Is(err, stopped) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(filepath.Join(s.home, "to", "large")); err == nil {
		t.Error("a file appeared")
	}
}
