package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/renameio/v2"
)

func TestReplaceFile(t *testing.T) {
	dir := t.TempDir()
	at := func(elem ...string) string { return filepath.Join(append([]string{dir}, elem...)...) }
	for _, err := range []error{
		os.MkdirAll(at("real", "deep"), 0o700),
		os.WriteFile(at("real", "file"), []byte("old"), 0o644),
		os.Symlink("real/file", at("link")),
		os.Symlink("link", at("second")),
		os.Symlink("real/none", at("dangling")),
		os.Symlink("real/deep", at("through")),
		os.Symlink("../file", at("real", "deep", "up")), // from where it is, not from the link to its directory
		os.Symlink("loop", at("loop")),
		syscall.Mkfifo(at("pipe"), 0o600),
		os.Symlink("pipe", at("to-pipe")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct{ path, file string }{ // no file: it is refused
		{at("new"), at("new")},
		{at("link"), at("real", "file")},
		{at("second"), at("real", "file")},
		{at("dangling"), at("real", "none")},
		{at("through", "up"), at("real", "file")},
		{at("loop"), ""},
		{at("pipe"), ""},
		{at("to-pipe"), ""},
		{at("real"), ""},
	} {
		before, _ := os.Lstat(test.path)
		err := replaceFile(test.path, []byte(test.path), renameio.WithStaticPermissions(0o600))
		if (err == nil) != (test.file != "") {
			t.Errorf("%s: %v", test.path, err)
		}
		if after, _ := os.Lstat(test.path); before != nil && after.Mode().Type() != before.Mode().Type() {
			t.Errorf("%s was %s and is %s", test.path, before.Mode(), after.Mode())
		}
		if test.file == "" {
			continue
		}
		info, err := os.Stat(test.file)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", test.file, info.Mode(), err)
		}
		if raw, err := os.ReadFile(test.file); err != nil || string(raw) != test.path {
			t.Errorf("%s holds %q (%v), want %q", test.file, raw, err, test.path)
		}
	}
}

// What this process has open is written to where it stands: what others write to it before and after stays.
func TestWriteOutputToAnOpenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	fd := fmt.Sprintf("/dev/fd/%d", file.Fd())
	_, before := file.WriteString("before ")
	written := writeOutput(fd, []byte("report "))
	_, after := file.WriteString("after")
	raw, read := os.ReadFile(path)
	if err := errors.Join(before, written, after, read); err != nil || string(raw) != "before report after" {
		t.Errorf("%q, %v", raw, err)
	}
}

// A file that cannot be replaced is written.
func TestWriteOutputInPlace(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may replace any file: testdata/script/reports-to.txtar has one that is mounted")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "out")
	if err := errors.Join(os.WriteFile(path, []byte("a longer one"), 0o600), os.Chmod(dir, 0o500)); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.Chmod(dir, 0o700) }()
	err := writeOutput(path, []byte("new"))
	if raw, _ := os.ReadFile(path); err != nil || string(raw) != "new" {
		t.Errorf("%q, %v", raw, err)
	}
}
