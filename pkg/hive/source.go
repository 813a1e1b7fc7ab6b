package hive

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// sourceTimeout is how long a node may take to tell what it has of a source tree.
const sourceTimeout = 3 * time.Minute

// Lists that an archive of a source tree begins with: all paths of the tree, and those that are to go.
const (
	uploadedList = ".uploaded.new"
	removedList  = ".removed"
)

// entry is a file, link or directory of a source tree.
type entry struct {
	kind       byte // f, l or d
	executable bool
	content    string // SHA-256 of a file in hexadecimal, target of a link
	size       int64  // of a file, in bytes
}

// as tells whether both are the same to a build. Other permission bits than the owner's are up to the node's umask.
func (e entry) as(other entry) bool {
	return e.kind == other.kind && (e.kind != 'f' || e.executable == other.executable) && e.content == other.content
}

// tree is a source tree: entries by path with slashes, and the paths in order.
type tree struct {
	dir     string
	entries map[string]entry
	paths   []string
}

// readTree reads and hashes what pack would pack of dir.
func readTree(dir string) (tree, error) {
	t := tree{dir: dir, entries: map[string]entry{}}
	err := walk(dir, func(path, name string, info fs.FileInfo) (err error) {
		e := entry{}
		switch info.Mode().Type() {
		case fs.ModeDir:
			e.kind = 'd'
		case fs.ModeSymlink:
			e.kind = 'l'
			e.content, err = os.Readlink(path)
		case 0:
			e.kind, e.executable, e.size = 'f', info.Mode()&0o100 != 0, info.Size()
			e.content, err = hashOf(path)
		default:
			return nil
		}
		t.entries[name], t.paths = e, append(t.paths, name)
		return err
	})
	return t, err
}

func hashOf(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// hash is of the whole tree: 12 hexadecimal digits.
func (t tree) hash() string {
	sum := sha256.New()
	for _, path := range t.paths {
		e := t.entries[path]
		fmt.Fprintf(sum, "%c %t %q %q\n", e.kind, e.executable, e.content, path)
	}
	return hex.EncodeToString(sum.Sum(nil)[:6])
}

// version is what a program built from the tree says of itself: what git says of it, with the tree's hash where
// something in it is not committed, or that hash alone. Other sources are another version.
func (t tree) version() (version, commit string) {
	hash := t.hash()
	version, commit = "src-"+hash, hash
	if _, err := os.Lstat(filepath.Join(t.dir, ".git")); err != nil {
		return version, commit
	}
	described, err1 := t.git("describe", "--tags", "--always")
	head, err2 := t.git("rev-parse", "--short", "HEAD")
	changed, err3 := t.git("status", "--porcelain")
	if errors.Join(err1, err2, err3) != nil { // no git, or no commit
		return version, commit
	}
	if changed != "" {
		described += "-dirty-" + hash
	}
	return unusual.ReplaceAllString(described, "-"), head
}

// unusual is what upstream's Makefile would hand to a shell, or take for its own.
var unusual = regexp.MustCompile(`[^A-Za-z0-9._+/-]`)

func (t tree) git(args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = t.dir
	// as in a hook
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GIT_") })
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
}

// parseTree reads what source-state.sh prints.
func parseTree(text string) map[string]entry {
	there := map[string]entry{}
	last := ""
	for token := range strings.SplitSeq(text, "\x00") {
		kind, rest, _ := strings.Cut(token, " ")
		switch kind {
		case "f", "d", "l":
			mode, path, _ := strings.Cut(rest, " ")
			bits, _ := strconv.ParseUint(mode, 8, 32)
			last = strings.TrimPrefix(path, "./")
			there[last] = entry{kind: kind[0], executable: bits&0o100 != 0}
		case "t":
			there[last] = entry{kind: 'l', content: rest}
		case "h":
			hash, path, _ := strings.Cut(rest, "  ")
			path = strings.TrimPrefix(path, "./")
			e := there[path]
			e.content = hash
			there[path] = e
		}
	}
	return there
}

// change is what makes a node's tree another one.
type change struct{ send, remove []string }

// changeOf compares with what is there on a node. A directory is left when its last file goes: what a build has made
// may be in it.
func (t tree) changeOf(there map[string]entry) change {
	var c change
	replaced := ""
	for _, path := range t.paths {
		want := t.entries[path]
		have, known := there[path]
		if known && have.kind != want.kind {
			c.remove = append(c.remove, path)
			replaced = path + "/"
		}
		if !known || !want.as(have) || replaced != "" && strings.HasPrefix(path, replaced) {
			c.send = append(c.send, path)
		}
	}
	for path, have := range there {
		if _, wanted := t.entries[path]; !wanted && have.kind != 'd' && filepath.IsLocal(path) {
			c.remove = append(c.remove, path)
		}
	}
	slices.Sort(c.remove)
	return c
}

// files counts the files and links among paths, and their bytes.
func (t tree) files(paths []string) (count int, bytes int64) {
	for _, path := range paths {
		if e := t.entries[path]; e.kind != 'd' {
			count++
			bytes += e.size
		}
	}
	return count, bytes
}

// pack writes an archive of the change for install-source.sh.
func (t tree) pack(to io.Writer, c change) error {
	archive := tar.NewWriter(to)
	for name, paths := range map[string][]string{uploadedList: t.paths, removedList: c.remove} {
		var list strings.Builder
		for _, path := range paths {
			list.WriteString("./" + path + "\x00")
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o600, Size: int64(list.Len())}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := io.WriteString(archive, list.String()); err != nil {
			return err
		}
	}
	for _, path := range c.send {
		local := filepath.Join(t.dir, filepath.FromSlash(path))
		info, err := os.Lstat(local)
		if err == nil {
			err = add(archive, local, path, info)
		}
		if err != nil {
			return err
		}
	}
	return archive.Close()
}

// sourceTree installs from a source tree, and packs what is the same for several nodes once.
type sourceTree struct {
	c               *Cluster
	tree            tree
	version, commit string
	temp            string // directory of archives

	mu       sync.Mutex
	archives map[string]string // path by what is in them
}

func (c *Cluster) newSourceTree() (*sourceTree, error) {
	read, err := readTree(c.options.SourceDir)
	if err != nil {
		return nil, fmt.Errorf("reading hive's source: %w", err)
	}
	temp, err := os.MkdirTemp("", "hive-test-source-")
	if err != nil {
		return nil, fmt.Errorf("packing hive's source: %w", err)
	}
	s := &sourceTree{c: c, tree: read, temp: temp, archives: map[string]string{}}
	s.version, s.commit = read.version()
	return s, nil
}

func (s *sourceTree) close() { _ = os.RemoveAll(s.temp) }

func (s *sourceTree) vars() map[string]string {
	return map[string]string{"HIVE_VERSION": s.version, "HIVE_COMMIT": s.commit}
}

// install sends to the node what its tree lacks, and builds there.
func (s *sourceTree) install(ctx context.Context, host Host) error {
	result, err := s.c.script(ctx, host, "source-state.sh", sourceTimeout, nil, nil)
	if err != nil {
		return err
	}
	change := s.tree.changeOf(parseTree(string(result.Stdout)))
	archive, err := s.archive(change)
	if err != nil {
		return fmt.Errorf("packing hive's source: %w", err)
	}
	if _, err := host.Upload(ctx, archive, remoteSource, 0o600); err != nil {
		return err
	}
	all, _ := s.tree.files(s.tree.paths)
	sent, bytes := s.tree.files(change.send)
	s.c.info(StepInstall, host.Name(), fmt.Sprintf("%s of %s files of the source sent (%s), %s removed",
		thousands(sent), thousands(all), inBytes(bytes), thousands(len(change.remove))))
	return s.c.make(ctx, host, "install-source.sh", s.vars())
}

// archive returns the path of one that holds the change.
func (s *sourceTree) archive(c change) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := fmt.Sprintf("%q", c)
	if path, known := s.archives[key]; known {
		return path, nil
	}
	file, err := os.CreateTemp(s.temp, "*.tar.gz")
	if err != nil {
		return "", err
	}
	compressed, err := gzip.NewWriterLevel(file, gzip.BestSpeed)
	if err == nil {
		err = errors.Join(s.tree.pack(compressed, c), compressed.Close())
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return "", err
	}
	s.archives[key] = file.Name()
	return file.Name(), nil
}

// thousands writes a number as people read it: 1,842.
func thousands(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// inBytes writes a size: 14 kB.
func inBytes(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprintf("%d B", n)
	case n < 1000_000:
		return fmt.Sprintf("%d kB", (n+500)/1000)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}
