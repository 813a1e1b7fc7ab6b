package remote

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/google/renameio/v2"
	"github.com/pkg/sftp"

	"hive-test/pkg/progress"
)

const (
	// packet is the data of one message of an upload: seven whole SSH packets. OpenSSH takes messages of 256 KiB
	// (SFTP_MAX_MSG_LENGTH) and its own client sends almost that much. Against the usual 32 KiB, which leave the head
	// of each message an SSH packet of its own, this saves a fifth of the processor time that sending takes. Downloads
	// keep to 32 KiB: a server may answer a larger read in part, which pkg/sftp 1.13 takes for the file's end.
	packet = 7 * 32 << 10
	// concurrentWrites is how many of them are under way at once: 2 MiB, which is what OpenSSH's channel window takes.
	concurrentWrites = 9
)

// Upload makes remotePath on the node a copy of localPath with the given permission bits and reports whether that
// changed anything: where size, SHA-256 and mode agree already, nothing is written. remotePath is absolute, or relative
// to the home directory, also as "~/...". Missing parent directories are made. The file appears whole or not at all.
// ctx bounds it, and [DefaultTimeout].
func (h *Host) Upload(ctx context.Context, localPath, remotePath string, mode fs.FileMode) (changed bool, err error) {
	local, err := os.Open(localPath)
	if err != nil {
		return false, h.fail(fmt.Errorf("uploading: %w", err))
	}
	defer func() { _ = local.Close() }()
	remotePath = homeRelative(remotePath)
	err = h.withSFTP(ctx, func(ctx context.Context, c files) (err error) {
		changed, err = h.upload(ctx, c, local, remotePath, mode.Perm())
		return err
	}, sftp.UseConcurrentWrites(true), sftp.MaxPacketUnchecked(packet))
	if err != nil {
		return false, h.fail(fmt.Errorf("uploading %s to %s: %w", localPath, remotePath, err))
	}
	return changed, nil
}

func (h *Host) upload(ctx context.Context, c files, local *os.File, target string, mode fs.FileMode) (bool, error) {
	info, err := local.Stat()
	if err != nil {
		return false, err
	}
	if !info.Mode().IsRegular() {
		return false, errors.New("the local file is not a regular file")
	}
	there, err := c.Stat(target)
	switch {
	case err == nil && there.IsDir():
		return false, errors.New("a directory is there on the node")
	case err == nil && there.Size() == info.Size() && h.sameContent(ctx, c, local, info, target):
		if there.Mode().Perm() == mode {
			return false, nil
		}
		return true, c.Chmod(target, mode)
	}
	if err := c.MkdirAll(path.Dir(target)); err != nil {
		return false, fmt.Errorf("making its directory: %w", err)
	}
	return true, place(c.Client, local, info.Size(), target, mode)
}

// place writes a temporary file beside target and renames it.
func place(c *sftp.Client, local io.Reader, size int64, target string, mode fs.FileMode) error {
	temporary := path.Join(path.Dir(target), "."+path.Base(target)+"."+strings.ToLower(rand.Text()[:8]))
	f, err := c.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return fmt.Errorf("making a file: %w", err)
	}
	if err := fillRemote(f, local, size, mode); err != nil {
		return errors.Join(err, c.Remove(temporary))
	}
	if err := rename(c, temporary, target); err != nil {
		return errors.Join(fmt.Errorf("putting it in place: %w", err), c.Remove(temporary))
	}
	return nil
}

func fillRemote(f *sftp.File, local io.Reader, size int64, mode fs.FileMode) error {
	// Before the content: a secret is never readable for others, not even for a moment.
	if err := f.Chmod(mode | 0o200); err != nil {
		return errors.Join(fmt.Errorf("setting its mode: %w", err), f.Close())
	}
	n, err := f.ReadFromWithConcurrency(local, concurrentWrites)
	if err == nil && n != size {
		err = fmt.Errorf("it has changed while it was read: %s instead of %d", progress.Count(int(n), "byte"), size)
	}
	if err == nil && mode&0o200 == 0 {
		err = f.Chmod(mode)
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	return nil
}

// rename replaces target atomically where the server knows posix-rename (OpenSSH does), else by removing it first.
func rename(c *sftp.Client, from, to string) error {
	if _, ok := c.HasExtension("posix-rename@openssh.com"); ok {
		return c.PosixRename(from, to)
	}
	if err := c.Rename(from, to); err == nil {
		return nil
	}
	if err := c.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return c.Rename(from, to)
}

// sameContent compares SHA-256 sums, the remote one made by the node while the local one is made here. Where the node
// cannot, they count as different.
func (h *Host) sameContent(ctx context.Context, c files, local *os.File, info fs.FileInfo, target string) bool {
	defer c.flow.pause()() // a command makes the sum
	var ours string
	var ourErr error
	var here sync.WaitGroup
	here.Go(func() { ours, ourErr = h.dialer.sums.of(local, info) })
	result, err := h.Run(ctx, Command{Argv: []string{"sh", "-c", `exec sha256sum < "$1"`, "sh", target}})
	here.Wait()
	if err != nil || ourErr != nil {
		return false
	}
	theirs, _, _ := strings.Cut(string(result.Stdout), " ")
	return theirs == ours
}

// sums keeps the SHA-256 of local files: what goes to many nodes is read for it once. The zero value is ready.
type sums struct {
	mu    sync.Mutex
	known map[summed]func() (string, error)
}

// summed is a file as it was: one that has changed since is another.
type summed struct {
	path     string
	size     int64
	modified time.Time
}

// of returns the SHA-256 of an open file in hexadecimal, and leaves its offset where it is. Whoever asks while it is
// made waits.
func (s *sums) of(local *os.File, info fs.FileInfo) (string, error) {
	key := summed{local.Name(), info.Size(), info.ModTime()}
	s.mu.Lock()
	sum := s.known[key]
	if sum == nil {
		if s.known == nil {
			s.known = map[summed]func() (string, error){}
		}
		sum = sync.OnceValues(func() (string, error) {
			made := sha256.New()
			_, err := io.Copy(made, io.NewSectionReader(local, 0, info.Size()))
			return hex.EncodeToString(made.Sum(nil)), err
		})
		s.known[key] = sum
	}
	s.mu.Unlock()
	return sum()
}

// Download copies remotePath on the node (absolute, or relative to the home directory, also as "~/...") to localPath,
// which appears whole, with mode 0600, or not at all. Its directory must exist. ctx bounds it, and [DefaultTimeout].
func (h *Host) Download(ctx context.Context, remotePath, localPath string) error {
	remotePath = homeRelative(remotePath)
	err := h.withSFTP(ctx, func(_ context.Context, c files) error {
		return fetch(c, remotePath, localPath, 0o600)
	})
	if err != nil {
		return h.fail(fmt.Errorf("downloading %s to %s: %w", remotePath, localPath, err))
	}
	return nil
}

// fetch writes what remotePath holds beside localPath and renames it. mode is what the umask leaves of it.
func fetch(c files, remotePath, localPath string, mode fs.FileMode) error {
	from, err := c.Open(remotePath)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	info, err := from.Stat()
	if err != nil {
		return err
	}
	to, err := renameio.NewPendingFile(localPath, renameio.WithPermissions(mode))
	if err != nil {
		return err
	}
	defer func() { _ = to.Cleanup() }()
	if _, err := from.WriteTo(&bounded{to, max(info.Size(), 0) + maxGrowth, c.flow}); err != nil {
		return err
	}
	defer c.flow.pause()()
	return to.CloseAtomicallyReplace()
}

// homeRelative takes "~/x" as "x", and "~" as the home directory: SFTP and commands both start there.
func homeRelative(p string) string {
	rest, below := strings.CutPrefix(p, "~/")
	switch {
	case p == "~":
		return dotted("")
	case below:
		return dotted(strings.TrimLeft(rest, "/"))
	case path.IsAbs(p):
		return path.Clean(p)
	}
	return dotted(p)
}

// withSFTP is sftpSession that ends at DefaultTimeout at the latest.
func (h *Host) withSFTP(
	ctx context.Context, use func(context.Context, files) error, options ...sftp.ClientOption,
) error {
	ctx, cancel := context.WithTimeoutCause(ctx, DefaultTimeout,
		fmt.Errorf("it did not end within %s: %w", DefaultTimeout, context.DeadlineExceeded))
	defer cancel()
	return h.sftpSession(ctx, use, options...)
}

// sftpSession calls use with an SFTP client of its own that ends with ctx, or when the node says nothing for too long.
func (h *Host) sftpSession(
	ctx context.Context, use func(context.Context, files) error, options ...sftp.ClientOption,
) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s, err := h.open(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.subsystem(ctx, "sftp"); err != nil {
		return fmt.Errorf("starting SFTP: %w", err)
	}
	go func() { _, _ = io.Copy(io.Discard, s.ch.Stderr()) }()
	quiet := &quietReader{r: s.ch}
	flow := newFlow(quiet)
	defer flow.watch(h.dialer.cfg.Silence, cancel)()
	answer := make(chan error, 1)
	go func() {
		c, err := sftp.NewClientPipe(flow, s.ch, options...)
		if err != nil {
			if errors.Is(err, io.EOF) { // it has ended, perhaps before all of its text was read
				_, _ = io.Copy(io.Discard, quiet)
			}
			answer <- h.noSFTP(quiet.noise, err)
			return
		}
		answer <- use(ctx, files{c, flow})
		_ = c.Close()
	}()
	select {
	case err := <-answer:
		return s.explain(err)
	case <-ctx.Done():
		return s.abandon(ctx, answer)
	}
}

// noSFTP is err with what the login shell printed in place of an SFTP server's answer, where it did.
func (h *Host) noSFTP(noise []byte, err error) error {
	if text := strings.TrimSpace(printable(string(noise))); text != "" {
		return fmt.Errorf("starting SFTP: the login shell of %s on %s prints text (%q) and starts no SFTP server: make it silent for shells that are not interactive, and let it run commands",
			h.dialer.cfg.User, h.node.Name, progress.Clip(text, 200))
	}
	return fmt.Errorf("starting SFTP: %w", err)
}

// quietReader drops what a login shell prints before the SFTP server that it runs says its first word: text, which
// holds no NUL, while that word begins with one, as the length of a short message (4 bytes, the highest first).
type quietReader struct {
	r     io.Reader
	begun bool
	noise []byte
}

func (q *quietReader) Read(p []byte) (int, error) {
	for {
		n, err := q.r.Read(p)
		if q.begun || n == 0 {
			return n, err
		}
		at := bytes.IndexByte(p[:n], 0)
		if at < 0 {
			q.noise = append(q.noise, p[:n]...)
			if err == nil && len(q.noise) > maxNoise {
				err = errors.New("no SFTP server answers")
			}
			if err != nil {
				return 0, err
			}
			continue
		}
		q.begun, q.noise = true, append(q.noise, p[:at]...)
		return copy(p, p[at:n]), err
	}
}

// abandon ends a transfer that ctx has ended and waits, within reason, until it has let go of its files.
func (s *session) abandon(ctx context.Context, answer <-chan error) error {
	s.close()
	select {
	case <-answer:
	case <-time.After(time.Second):
		s.conn.close(errors.New("the node does not answer"))
		<-answer
	}
	return context.Cause(ctx)
}

// explain says that the connection was lost where SFTP only knows that its pipe has ended.
func (s *session) explain(err error) error {
	if errors.Is(err, sftp.ErrSSHFxConnectionLost) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: %w", s.conn.lostError(), err)
	}
	return err
}
