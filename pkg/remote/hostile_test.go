package remote

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pkg/sftp"
)

// hostile is an SFTP server whose files have no end.
type hostile struct {
	list  func(dir string, offset int64) []os.FileInfo
	quiet chan struct{} // what a read waits for; nil: nothing
}

// entry is a file, or a directory.
type entry struct {
	name string
	mode fs.FileMode
}

func (e entry) Name() string       { return e.name }
func (e entry) Size() int64        { return 1 << 20 }
func (e entry) Mode() fs.FileMode  { return e.mode }
func (e entry) ModTime() time.Time { return time.Unix(1, 0) }
func (e entry) IsDir() bool        { return e.mode.IsDir() }
func (e entry) Sys() any           { return nil }

func (h hostile) Filelist(r *sftp.Request) (sftp.ListerAt, error) {
	if r.Method == "List" {
		return lister(func(offset int64) []os.FileInfo { return h.list(r.Filepath, offset) }), nil
	}
	mode := fs.ModeDir | 0o755
	if strings.HasPrefix(path.Base(r.Filepath), "file") {
		mode = 0o644
	}
	return lister(func(int64) []os.FileInfo { return []os.FileInfo{entry{path.Base(r.Filepath), mode}} }), nil
}

func (h hostile) Fileread(*sftp.Request) (io.ReaderAt, error) { return h, nil }

// ReadAt is endless.
func (h hostile) ReadAt(p []byte, _ int64) (int, error) {
	if h.quiet != nil {
		<-h.quiet
		return 0, io.EOF
	}
	return len(p), nil
}

type lister func(offset int64) []os.FileInfo

func (l lister) ListAt(to []os.FileInfo, offset int64) (int, error) {
	n := copy(to, l(offset))
	if n < len(to) {
		return n, io.EOF
	}
	return n, nil
}

func TestCopyFromHostileNodes(t *testing.T) {
	quiet := make(chan struct{})
	one := func(name string, mode fs.FileMode) func(string, int64) []os.FileInfo {
		return func(_ string, offset int64) []os.FileInfo { return []os.FileInfo{entry{name, mode}}[min(offset, 1):] }
	}
	endless := func(_ string, offset int64) []os.FileInfo {
		many := make([]os.FileInfo, 200)
		for i := range many {
			many[i] = entry{strings.Repeat("n", 200) + strconv.FormatInt(offset+int64(i), 10), 0o644}
		}
		return many
	}
	for name, test := range map[string]struct {
		node hostile
		want string
	}{
		"directories in each other without end": {
			hostile{list: one("d", fs.ModeDir|0o755)}, "more than 100 directories are in each other",
		},
		"a list without end": {
			hostile{list: endless}, "list of one directory is longer than 32 MiB",
		},
		"a file without end": {
			hostile{list: one("file", 0o644)}, "grows faster than it can be copied",
		},
		"a file that does not come": {
			hostile{list: one("file", 0o644), quiet: quiet}, "has said nothing for 500ms",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			if test.node.quiet != nil {
				t.Cleanup(func() { close(quiet) }) // before the server ends, which waits for its reads
			}
			s.sftp = sftp.Handlers{FileGet: test.node, FileList: test.node}
			cfg := testConfig(t)
			cfg.Silence = 500 * time.Millisecond
			to := t.TempDir()
			_, err := newDialer(t, cfg).Host(s.node(1)).CopyFrom(t.Context(), []string{"/tree"}, to)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
			_ = filepath.WalkDir(to, func(path string, d fs.DirEntry, err error) error {
				if err != nil || d.Type().IsRegular() {
					t.Errorf("%s was left, error %v", path, err)
				}
				return err
			})
		})
	}
}

// Names that a node lists lead nowhere but into the directory that is copied to, whatever they hold.
func TestCopyFromNodesWithHostileNames(t *testing.T) {
	empty := make(chan struct{})
	close(empty)
	for _, name := range []string{
		"../file", "a/../../file", "/file", "a/file", "file\n../../file", "..\\file", "file\nx", "file\x00x", "..", ".",
		"", "../..", "/",
	} {
		t.Run(strconv.Quote(name), func(t *testing.T) {
			s := newServer(t)
			node := hostile{quiet: empty, list: func(_ string, offset int64) []os.FileInfo {
				return []os.FileInfo{entry{name, 0o644}}[min(offset, 1):]
			}}
			s.sftp = sftp.Handlers{FileGet: node, FileList: node}
			root := t.TempDir()
			to := filepath.Join(root, "to")
			if err := os.Mkdir(to, 0o700); err != nil {
				t.Fatal(err)
			}
			_, _ = newDialer(t, testConfig(t)).Host(s.node(1)).CopyFrom(t.Context(), []string{"/tree"}, to)
			there, err := os.ReadDir(root)
			if err != nil || len(there) != 1 {
				t.Errorf("beside the target: %v, %v", there, err)
			}
			within, _ := filepath.Glob(filepath.Join(to, "tree", "*"))
			for _, file := range within {
				if filepath.Base(file) != path.Base(name) {
					t.Errorf("%q was made of %q", file, name)
				}
			}
		})
	}
}

// What a command makes silent for long is no silence of the node: the sum of a large file.
func TestSilenceIsOfTheNodeOnly(t *testing.T) {
	f := newFlow(strings.NewReader("x"))
	f.last = f.last.Add(-time.Hour)
	if f.silence() < time.Hour {
		t.Error("nothing came for an hour, and it is not silent")
	}
	resume := f.pause()
	if f.silence() != 0 {
		t.Error("silent while nothing needs to come")
	}
	f.last = f.last.Add(-time.Hour)
	resume()
	if f.silence() > time.Minute {
		t.Error("what nobody waited for counts as silence")
	}
}

func TestCopyFromHonoursTheUmask(t *testing.T) {
	s, h := connected(t)
	if err := errors.Join(
		os.MkdirAll(filepath.Join(s.home, "tree", "sub"), 0o777),
		os.WriteFile(filepath.Join(s.home, "tree", "open"), []byte("text"), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	for file, mode := range map[string]fs.FileMode{"tree/sub": 0o777, "tree/open": 0o666} {
		if err := os.Chmod(filepath.Join(s.home, file), mode); err != nil {
			t.Fatal(err)
		}
	}
	to := filepath.Join(t.TempDir(), "copy")
	before := syscall.Umask(0o027)
	defer syscall.Umask(before)
	done, err := h.CopyFrom(t.Context(), []string{"tree"}, to)
	checkCopied(t, done, Copied{Files: 1, Bytes: 4}, err)
	checkFile(t, filepath.Join(to, "open"), []byte("text"), 0o640)
	if info, err := os.Stat(filepath.Join(to, "sub")); err != nil || info.Mode().Perm() != 0o750 {
		t.Errorf("the directory: %v, error %v", info.Mode(), err)
	}
	done, err = h.CopyFrom(t.Context(), []string{"tree/."}, to)
	checkCopied(t, done, Copied{Unchanged: 1}, err)
	if err := os.Chmod(filepath.Join(to, "open"), 0o600); err != nil {
		t.Fatal(err)
	}
	done, err = h.CopyFrom(t.Context(), []string{"tree/."}, to)
	checkCopied(t, done, Copied{Files: 1, Bytes: 4}, err)
	checkFile(t, filepath.Join(to, "open"), []byte("text"), 0o640)
}

// Output without end is read, and costs what is kept of it.
func TestEndlessOutputIsNotKept(t *testing.T) {
	_, h := connected(t)
	const most = 8 << 20
	lines := 0
	result, err := h.Run(t.Context(), Command{Argv: []string{"sh", "-c", "head -c " + strconv.Itoa(most) + " /dev/zero | tr '\\0' x; echo e >&2"}, OnLine: func(string, string) { lines++ }})
	if err != nil || len(result.Stdout) != DefaultKeep || !result.Truncated ||
		!bytes.Equal(result.Stderr, []byte("e\n")) {
		t.Errorf("%d bytes were kept, cut off: %v, error %v", len(result.Stdout), result.Truncated, err)
	}
	if lines < most/maxLine {
		t.Errorf("%d lines were handed out", lines)
	}
	result, err = h.Run(context.WithoutCancel(t.Context()), Command{
		Argv: []string{"sh", "-c", "echo 123456789"}, Keep: 4,
	})
	if err != nil || string(result.Stdout) != "1234" || !result.Truncated {
		t.Errorf("kept %q, cut off: %v, error %v", result.Stdout, result.Truncated, err)
	}
}
