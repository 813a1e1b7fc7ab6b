package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

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

// writeOutput writes a report where the user wants it. A pipe or a device, such as /dev/stdout, is written to.
func writeOutput(path string, content []byte) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		return os.WriteFile(path, content, 0o644)
	}
	return replaceFile(path, content, renameio.WithPermissions(0o644), renameio.WithExistingPermissions())
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
