package host

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// copyTree copies a disk: the upper directory of an overlay, with what an overlay means by it (devices 0/0 for deleted
// files, trusted.overlay.* attributes). Hard links become files of their own. Times stay, as those on a copied disk do.
func copyTree(from, to string) error {
	var copied []string // directories before what they hold, which changes their times
	err := filepath.WalkDir(from, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if err := copyNode(path, filepath.Join(to, rel)); err != nil {
			return fmt.Errorf("copy %s: %w", path, err)
		}
		copied = append(copied, rel)
		return nil
	})
	for _, rel := range slices.Backward(copied) {
		err = errors.Join(err, copyTimes(filepath.Join(from, rel), filepath.Join(to, rel)))
	}
	return err
}

// copyTimes gives a file the times of the one that it is a copy of; a socket is not copied.
func copyTimes(from, to string) error {
	var st unix.Stat_t
	if err := unix.Lstat(from, &st); err != nil {
		return err
	}
	err := unix.UtimesNanoAt(unix.AT_FDCWD, to, []unix.Timespec{st.Atim, st.Mtim}, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func copyNode(from, to string) error {
	fi, err := os.Lstat(from)
	if err != nil {
		return err
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return errors.New("no file status")
	}
	switch {
	case fi.IsDir():
		err = os.Mkdir(to, 0o700)
	case fi.Mode()&fs.ModeSymlink != 0:
		err = copyLink(from, to)
	case fi.Mode().IsRegular():
		err = copyFile(from, to, 0o600)
	case fi.Mode()&fs.ModeSocket != 0:
		return nil // its listener is gone
	default:
		err = unix.Mknod(to, st.Mode, int(st.Rdev))
	}
	if err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		if err := os.Lchown(to, int(st.Uid), int(st.Gid)); err != nil {
			return err
		}
	}
	if err := copyAttributes(from, to); err != nil {
		return err
	}
	if fi.Mode()&fs.ModeSymlink != 0 {
		return nil
	}
	return unix.Chmod(to, st.Mode&0o7777)
}

func copyLink(from, to string) error {
	target, err := os.Readlink(from)
	if err != nil {
		return err
	}
	return os.Symlink(target, to)
}

func copyFile(from, to string, mode fs.FileMode) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

func copyAttributes(from, to string) error {
	buf := make([]byte, 4096)
	n, err := unix.Llistxattr(from, buf)
	if err != nil {
		return nil // a file system without attributes has none to copy
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(buf[:n]), "\x00"), "\x00") {
		if name == "" {
			continue
		}
		value := make([]byte, 64<<10)
		m, err := unix.Lgetxattr(from, name, value)
		if err != nil {
			return fmt.Errorf("attribute %s: %w", name, err)
		}
		if err := unix.Lsetxattr(to, name, value[:m], 0); err != nil {
			return fmt.Errorf("attribute %s: %w", name, err)
		}
	}
	return nil
}
