package state

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"filippo.io/age"
	"github.com/google/renameio/v2"

	"hive-test/pkg/cluster"
)

const (
	// sharedDir keeps, per cluster, what it takes to share it with other machines.
	sharedDir = ".shared"
	// largestBundle bounds what is unpacked, in bytes.
	largestBundle = 64 << 20
	// workFactor is that of scrypt, as a power of two: 32 MiB and a tenth of a second.
	workFactor = 15
)

// SharedDir is where a clusters directory keeps what it takes to share a cluster with other machines. It outlives the cluster's.
func (s *Store) SharedDir(name string) string { return filepath.Join(s.root, sharedDir, name) }

// ofThisMachine are the entries of a cluster's directory that mean nothing elsewhere, or are kept there otherwise.
func ofThisMachine(entry string) bool {
	return strings.HasPrefix(entry, ".") || strings.HasPrefix(entry, stateFile) ||
		slices.Contains([]string{"tofu", "test-results", lockFile, holderFile, interruptedFile}, entry)
}

// Pack returns all that another machine needs of a cluster's directory besides its state, encrypted with a passphrase; empty: there is no
// record.
func (s *Store) Pack(name cluster.Name, passphrase string) ([]byte, error) {
	if !exists(s.Path(name, recordFile)) {
		return nil, nil
	}
	recipient, err := age.NewScryptRecipient(passphrase)
	if err != nil {
		return nil, fmt.Errorf("the passphrase of states: %w", err)
	}
	recipient.SetWorkFactor(workFactor)
	var out bytes.Buffer
	sealed, err := age.Encrypt(&out, recipient)
	if err != nil {
		return nil, err
	}
	zipped := gzip.NewWriter(sealed)
	archive := tar.NewWriter(zipped)
	err = errors.Join(s.packInto(archive, name), archive.Close(), zipped.Close(), sealed.Close())
	if err != nil {
		return nil, fmt.Errorf("packing the directory of cluster %q: %w", name, err)
	}
	return out.Bytes(), nil
}

func (s *Store) packInto(archive *tar.Writer, name cluster.Name) error {
	root := s.Dir(name)
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		below, relErr := filepath.Rel(root, path)
		if err := errors.Join(err, relErr); err != nil || below == "." {
			return err
		}
		if first, _, _ := strings.Cut(below, string(filepath.Separator)); ofThisMachine(first) {
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if !entry.Type().IsRegular() {
			return nil
		}
		content, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) { // half of a file that was being replaced
			return nil
		}
		if err != nil {
			return err
		}
		header := &tar.Header{Name: filepath.ToSlash(below), Mode: 0o600, Size: int64(len(content)), Typeflag: tar.TypeReg}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		_, err = archive.Write(content)
		return err
	})
}

// ErrPassphrase means that what is shared of a cluster was encrypted with another passphrase.
var ErrPassphrase = errors.New("it was encrypted with another passphrase")

// Unpack puts into a cluster's directory what Pack has packed elsewhere, in place of what is there. The caller holds the cluster.
func (s *Store) Unpack(name cluster.Name, bundle []byte, passphrase string) error {
	files, err := unpacked(bundle, passphrase)
	if err != nil {
		return fmt.Errorf("unpacking what is shared of cluster %q: %w", name, err)
	}
	if err := s.Clear(name); err != nil {
		return err
	}
	record := files[recordFile]
	delete(files, recordFile)
	for file, content := range files {
		if err := s.Write(name, file, content); err != nil {
			return err
		}
	}
	return s.Write(name, recordFile, record) // last: with it the cluster is there
}

// Clear removes from a cluster's directory what Unpack would put there.
func (s *Store) Clear(name cluster.Name) error {
	entries, err := os.ReadDir(s.Dir(name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var failures []error
	for _, entry := range entries {
		if !ofThisMachine(entry.Name()) || strings.HasPrefix(entry.Name(), stateFile) {
			failures = append(failures, os.RemoveAll(s.Path(name, entry.Name())))
		}
	}
	return errors.Join(failures...)
}

func unpacked(bundle []byte, passphrase string) (map[string][]byte, error) {
	identity, err := age.NewScryptIdentity(passphrase)
	if err != nil {
		return nil, err
	}
	opened, err := age.Decrypt(bytes.NewReader(bundle), identity)
	if _, wrong := errors.AsType[*age.NoIdentityMatchError](err); wrong {
		return nil, ErrPassphrase
	}
	if err != nil {
		return nil, err
	}
	zipped, err := gzip.NewReader(opened)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	archive := tar.NewReader(io.LimitReader(zipped, largestBundle))
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		file := filepath.FromSlash(header.Name)
		first, _, _ := strings.Cut(header.Name, "/")
		if !filepath.IsLocal(file) || ofThisMachine(first) || header.Typeflag != tar.TypeReg {
			return nil, fmt.Errorf("%q is nothing that is shared", header.Name)
		}
		if files[file], err = io.ReadAll(archive); err != nil {
			return nil, err
		}
	}
	if files[recordFile] == nil {
		return nil, errors.New("there is no record in it")
	}
	return files, nil
}

// Shared says which version of what is shared of a cluster its directory is of; empty: none.
func (s *Store) Shared(name cluster.Name) string {
	raw, _ := os.ReadFile(filepath.Join(s.SharedDir(name.String()), "version"))
	return string(raw)
}

// SetShared notes that.
func (s *Store) SetShared(name cluster.Name, version string) error {
	if err := s.ensureRoot(); err != nil {
		return err
	}
	dir := s.SharedDir(name.String())
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return renameio.WriteFile(filepath.Join(dir, "version"), []byte(version), 0o600)
}
