package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/renameio/v2"
	"github.com/pkg/sftp"
)

// toldFailures is how many failures of one copy are told; of the others only their number is.
const toldFailures = 5

// Copied is what a copy has done on one node.
type Copied struct {
	// Files were written or got another mode, and Bytes is their size.
	Files int
	Bytes int64
	// Unchanged were there already, with the same content and mode.
	Unchanged int
	// LeftOut are paths below a directory that are neither directories nor regular files, nor links to regular files.
	LeftOut []string

	failures []error
	entries  int // that a node has listed
}

// failed keeps a failure: what else there is to copy is copied.
func (c *Copied) failed(path string, err error) {
	if err != nil {
		c.failures = append(c.failures, fmt.Errorf("%s: %w", printable(path), err))
	}
}

func (c *Copied) file(path string, size int64, changed bool, err error) {
	switch {
	case err != nil:
		c.failed(path, err)
	case changed:
		c.Files, c.Bytes = c.Files+1, c.Bytes+size
	default:
		c.Unchanged++
	}
}

func (c *Copied) err() error {
	told := c.failures
	if more := len(told) - toldFailures; more > 0 {
		told = append(told[:toldFailures:toldFailures], fmt.Errorf("and %d more", more))
	}
	return errors.Join(told...)
}

// CopyTo copies local files and directories, these with all that is in them, to target on the node: into it where it is
// a directory, ends in a slash, or there are several sources; else as it. target is as for [Host.Upload], and "" is the
// home directory; "." as a source is what is in it. Each file appears whole or not at all, with its mode, and is left
// as it is where content and mode agree; directories are made where missing; links to files are followed. A failure
// does not keep the rest from being copied. ctx bounds it; nothing else does.
func (h *Host) CopyTo(ctx context.Context, sources []string, target string) (Copied, error) {
	var done Copied
	err := h.sftpSession(ctx, func(ctx context.Context, c files) error {
		into := len(sources) > 1 || target == "" || strings.HasSuffix(target, "/")
		target := homeRelative(target)
		if there, err := c.Stat(target); err == nil && there.IsDir() {
			into = true
		}
		for _, source := range sources {
			to := target
			if into {
				to = path.Join(target, ownName(filepath.ToSlash(source)))
			}
			h.copyTo(ctx, c, source, dotted(to), &done)
		}
		return done.err()
	}, sftp.UseConcurrentWrites(true), sftp.MaxPacketUnchecked(packet))
	return done, h.fail(err)
}

// copyTo copies one file, or a directory and all in it.
func (h *Host) copyTo(ctx context.Context, c files, source, target string, done *Copied) {
	if ctx.Err() != nil { // who has ended it knows
		return
	}
	info, err := os.Stat(source)
	switch {
	case err != nil:
		done.failed(source, err)
	case info.Mode().IsRegular():
		changed, err := h.copyFileTo(ctx, c, source, target, info.Mode().Perm())
		done.file(source, info.Size(), changed, err)
	case !info.IsDir():
		done.failed(source, errors.New("neither a file nor a directory"))
	default:
		entries, err := os.ReadDir(source)
		if err == nil {
			if err = makeRemoteDir(c.Client, target, info.Mode().Perm()); err != nil {
				err = fmt.Errorf("to %s: %w", shownPath(target), err)
			}
		}
		done.failed(source, err)
		if err != nil {
			return
		}
		for _, entry := range entries {
			below := filepath.Join(source, entry.Name())
			if !entry.IsDir() && !regular(os.Stat(below)) {
				done.LeftOut = append(done.LeftOut, below)
				continue
			}
			h.copyTo(ctx, c, below, dotted(path.Join(target, entry.Name())), done)
		}
	}
}

func (h *Host) copyFileTo(ctx context.Context, c files, source, target string, mode fs.FileMode) (bool, error) {
	local, err := os.Open(source)
	if err != nil {
		return false, err
	}
	defer func() { _ = local.Close() }()
	changed, err := h.upload(ctx, c, local, target, mode)
	if err != nil {
		err = fmt.Errorf("to %s: %w", shownPath(target), err)
	}
	return changed, err
}

// CopyFrom copies files and directories of the node to target here, as CopyTo does the other way round. Of the modes
// there, the umask here takes what it does not allow. A node that lists without end, or says nothing for
// Config.Silence, is left.
func (h *Host) CopyFrom(ctx context.Context, sources []string, target string) (Copied, error) {
	var done Copied
	err := h.sftpSession(ctx, func(ctx context.Context, c files) error {
		there, err := os.Stat(target)
		into := len(sources) > 1 || strings.HasSuffix(target, string(filepath.Separator)) || err == nil && there.IsDir()
		for _, source := range sources {
			to := target
			if into {
				to = filepath.Join(target, ownName(source))
			}
			source = homeRelative(source)
			info, err := c.Stat(source)
			if err != nil {
				done.failed(source, err)
				continue
			}
			h.copyFrom(ctx, c, source, info, to, maxDepth, &done)
		}
		return done.err()
	})
	return done, h.fail(err)
}

// copyFrom copies one file, or a directory and all in it: depth directories in each other at most.
func (h *Host) copyFrom(
	ctx context.Context, c files, source string, info fs.FileInfo, target string, depth int, done *Copied,
) {
	if ctx.Err() != nil || c.flow.ended() { // who has ended it knows
		return
	}
	switch {
	case info.Mode().IsRegular():
		changed, err := h.copyFileFrom(ctx, c, source, info, target)
		done.file(source, info.Size(), changed, err)
	case !info.IsDir():
		done.failed(source, errors.New("neither a file nor a directory"))
	case depth == 0:
		done.failed(source, fmt.Errorf("more than %d directories are in each other", maxDepth))
	default:
		entries, err := c.list(source)
		if done.entries += len(entries); err == nil && done.entries > maxEntries {
			err = fmt.Errorf("the node lists more than %d files", maxEntries)
		}
		if err == nil {
			err = os.MkdirAll(target, info.Mode().Perm()|0o700)
		}
		done.failed(source, err)
		if err != nil {
			return
		}
		slices.SortFunc(entries, func(a, b fs.FileInfo) int { return strings.Compare(a.Name(), b.Name()) })
		for _, entry := range entries {
			h.copyEntry(ctx, c, source, entry, target, depth-1, done)
		}
	}
}

// copyEntry copies what a directory of the node lists. A name that would lead elsewhere here is refused: it comes from
// the node.
func (h *Host) copyEntry(
	ctx context.Context, c files, dir string, entry fs.FileInfo, target string, depth int, done *Copied,
) {
	name := entry.Name()
	if name != filepath.Base(name) || !filepath.IsLocal(name) || name == "." {
		done.failed(dir, fmt.Errorf("the node lists %q, which is no name of a file", name))
		return
	}
	below := path.Join(dir, name)
	if !entry.IsDir() {
		followed, err := c.Stat(below)
		if !regular(followed, err) {
			done.LeftOut = append(done.LeftOut, below)
			return
		}
		entry = followed
	}
	h.copyFrom(ctx, c, below, entry, filepath.Join(target, name), depth, done)
}

func (h *Host) copyFileFrom(
	ctx context.Context, c files, source string, info fs.FileInfo, target string,
) (bool, error) {
	mode := info.Mode().Perm()
	there, err := os.Stat(target)
	switch {
	case err == nil && there.IsDir():
		return false, fmt.Errorf("a directory is there: %s", target)
	case err == nil && there.Mode().IsRegular() && there.Size() == info.Size() && h.sameThere(
		ctx, c, target, there, source,
	):
		return setMode(target, there.Mode().Perm(), mode)
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return false, err
	}
	return true, fetch(c, source, target, mode)
}

// setMode gives a file the mode that a new one would get, and reports whether that is another.
func setMode(path string, now, mode fs.FileMode) (changed bool, err error) {
	if now == mode {
		return false, nil
	}
	// What the umask leaves is seen by making a file: asking for it means changing it.
	probe, err := renameio.NewPendingFile(path, renameio.WithPermissions(mode))
	if err != nil {
		return false, err
	}
	defer func() { _ = probe.Cleanup() }()
	info, err := probe.Stat()
	if err != nil || info.Mode().Perm() == now {
		return false, err
	}
	return true, os.Chmod(path, info.Mode().Perm())
}

// sameThere is sameContent with a local file that is not open.
func (h *Host) sameThere(ctx context.Context, c files, localPath string, info fs.FileInfo, remotePath string) bool {
	local, err := os.Open(localPath)
	if err != nil {
		return false
	}
	defer func() { _ = local.Close() }()
	return h.sameContent(ctx, c, local, info, dotted(remotePath))
}

// makeRemoteDir makes a directory and those above it where they are missing; one that is there stays as it is.
func makeRemoteDir(c *sftp.Client, dir string, mode fs.FileMode) error {
	there, err := c.Stat(dir)
	switch {
	case err == nil && !there.IsDir():
		return errors.New("a file is there on the node")
	case err == nil:
		return nil
	}
	if err := c.MkdirAll(dir); err != nil {
		return fmt.Errorf("making that directory: %w", err)
	}
	return c.Chmod(dir, mode|0o700) // what is in it is still to come
}

func regular(info fs.FileInfo, err error) bool { return err == nil && info.Mode().IsRegular() }

// ownName is how a source is called where it is copied into a directory: the last part of its path; none for what is
// only a way to a directory, whose content is meant then.
func ownName(p string) string {
	switch name := path.Base(p); name {
	case ".", "..", "/", "~":
		return ""
	default:
		return name
	}
}

// shownPath is a path on a node as a person types it: a relative one is below the home directory.
func shownPath(target string) string {
	if !path.IsAbs(target) {
		target = "~/" + path.Clean(target)
	}
	return printable(target)
}

// dotted keeps a relative path that begins with a hyphen from being an option.
func dotted(p string) string {
	if path.IsAbs(p) {
		return p
	}
	return "./" + path.Clean(p)
}
