package hive

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// pack writes a directory as a tar archive: files, links and directories in order of their names, without times and
// owners, so that the same content is the same archive. What git keeps for itself is left out.
func pack(to io.Writer, dir string) error {
	archive := tar.NewWriter(to)
	err := walk(dir, func(path, name string, info fs.FileInfo) error { return add(archive, path, name, info) })
	return errors.Join(err, archive.Close())
}

// walk calls visit for everything in dir that is packed, in order, with its path and its name below dir, which has
// slashes.
func walk(dir string, visit func(path, name string, info fs.FileInfo) error) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.Name() == ".git" && entry.IsDir():
			return filepath.SkipDir
		case path == dir || entry.Name() == ".git":
			return nil
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		return visit(path, filepath.ToSlash(name), info)
	})
}

// add adds one entry; what is neither file, link nor directory is left out.
func add(archive *tar.Writer, path, name string, info fs.FileInfo) (err error) {
	header := &tar.Header{Name: name, Mode: int64(info.Mode().Perm())}
	switch info.Mode().Type() {
	case fs.ModeDir:
		header.Typeflag, header.Name = tar.TypeDir, name+"/"
		return archive.WriteHeader(header)
	case fs.ModeSymlink:
		header.Typeflag = tar.TypeSymlink
		if header.Linkname, err = os.Readlink(path); err != nil {
			return err
		}
		return archive.WriteHeader(header)
	case 0:
		header.Typeflag, header.Size = tar.TypeReg, info.Size()
		return addContent(archive, path, header)
	}
	return nil
}

func addContent(archive *tar.Writer, path string, header *tar.Header) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	if _, err := io.Copy(archive, file); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
