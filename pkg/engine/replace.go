package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/google/renameio/v2"
)

// replaceFile writes a file that the user has named: the old one is there until the new one is complete. A symbolic
// link stays, and the file that it leads to is replaced. What is no regular file is refused.
func replaceFile(path string, content []byte, permissions ...renameio.Option) error {
	if err := checkRegular(path); err != nil {
		return err
	}
	path, err := followLinks(path)
	if err != nil {
		return err
	}
	file, err := renameio.NewPendingFile(path, permissions...)
	if err != nil {
		return err
	}
	if _, err := file.Write(content); err != nil {
		return errors.Join(err, file.Cleanup())
	}
	if err := file.CloseAtomicallyReplace(); err != nil {
		return errors.Join(err, file.Cleanup())
	}
	return nil
}

// writeOutput writes a report where the user wants it. A pipe, a device, and what this process has open, such as
// /dev/stdout, are written to, and so is a file that cannot be replaced, such as one that is mounted into a container.
func writeOutput(path string, content []byte) error {
	if fd, ok := openFile(path); ok {
		return writeTo(fd, content)
	}
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		return os.WriteFile(path, content, 0o644)
	}
	failure := replaceFile(path, content, renameio.WithPermissions(0o644), renameio.WithExistingPermissions())
	if failure == nil || err != nil || !info.Mode().IsRegular() || errors.Is(failure, syscall.ENOSPC) || errors.Is(failure, syscall.EDQUOT) {
		return failure
	}
	if err := os.WriteFile(path, content, 0o644); err != nil {
		return errors.Join(failure, err)
	}
	return nil
}

// openFile returns the descriptor of an open file of this process that a path means.
func openFile(path string) (fd int, ok bool) {
	switch path {
	case "/dev/stdout":
		return 1, true
	case "/dev/stderr":
		return 2, true
	}
	for _, dir := range []string{"/dev/fd/", "/proc/self/fd/"} {
		if number, found := strings.CutPrefix(path, dir); found {
			fd, err := strconv.Atoi(number)
			return fd, err == nil
		}
	}
	return 0, false
}

// writeTo writes where the open file stands: to open it again would begin at its first byte.
func writeTo(fd int, content []byte) error {
	own, err := syscall.Dup(fd)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(own), "fd "+strconv.Itoa(fd))
	_, err = file.Write(content)
	return errors.Join(err, file.Close())
}

// checkRegular refuses what is there and is no regular file.
func checkRegular(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file", path)
	}
	return nil
}

// followLinks returns what path leads to, which need not exist.
func followLinks(path string) (string, error) {
	const most = 40 // as many as Linux follows
	for range most {
		to, err := os.Readlink(path)
		if err != nil {
			return path, nil // it is no link
		}
		if !filepath.IsAbs(to) { // not cleaned: a directory before a ".." may be a link, too
			to = filepath.Dir(path) + string(filepath.Separator) + to
		}
		path = to
	}
	return "", fmt.Errorf("%s leads through too many symbolic links", path)
}
