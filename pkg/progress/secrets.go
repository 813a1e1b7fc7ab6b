package progress

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Secrets are the values that nothing may show: some are known from the start, others become known during a run. The
// zero value knows none. It is safe for concurrent use; a nil one knows nothing and learns nothing.
type Secrets struct {
	mu     sync.Mutex
	values []string
	masker *Masker // of values; nil when one was learnt since
}

// Learn adds values. Blank ones, and those that are known, are left out.
func (s *Secrets) Learn(values ...string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, value := range values {
		if value = strings.TrimSpace(value); value != "" && !slices.Contains(s.values, value) {
			s.values, s.masker = append(s.values, value), nil
		}
	}
}

// Values are all that is known now. The caller does not change them.
func (s *Secrets) Values() []string {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.values[:len(s.values):len(s.values)]
}

// Mask returns text without the secrets that are known now (see Redact for what counts as one).
func (s *Secrets) Mask(text string) string {
	if s == nil || text == "" {
		return text
	}
	return s.current().Mask(text)
}

func (s *Secrets) current() *Masker {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.masker == nil {
		s.masker = NewMasker(s.values)
	}
	return s.masker
}

// maskedWhole is the size, in bytes, below which a file is masked in one piece; a larger one is masked line by line.
const maskedWhole = 8 << 20

// MaskFiles takes the secrets that are known now out of every regular file below dir, which may be missing. Files that
// hold none stay as they are; others are replaced, with their mode. It goes on after a failure and returns all of them.
func (s *Secrets) MaskFiles(dir string) error {
	if s == nil || len(s.Values()) == 0 {
		return nil
	}
	masker := s.current()
	var failures []error
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			failures = append(failures, err)
		case entry.Type().IsRegular():
			failures = append(failures, maskFile(path, masker))
		}
		return nil
	})
	return errors.Join(append(failures, err)...)
}

// maskFile masks piece by piece. The file is read once more to write it, but only where it holds a secret.
func maskFile(path string, masker *Masker) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	most := int(min(info.Size()+1, maskedWhole))
	found := false
	err = inPieces(path, most, func(piece string) error {
		found = found || masker.finds(piece)
		return nil
	})
	if err != nil || !found {
		return err
	}
	return replaceFile(path, info.Mode(), func(w io.Writer) error {
		return inPieces(path, most, func(piece string) error {
			_, err := io.WriteString(w, masker.Mask(piece))
			return err
		})
	})
}

// inPieces reads a file piece by piece, each up to a line's end: secrets of several lines are masked line by line
// anyway. A line of more than so many bytes is cut.
func inPieces(path string, most int, take func(piece string) error) error {
	source, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	buffer, kept := make([]byte, most), 0
	for {
		n, err := io.ReadFull(source, buffer[kept:])
		ended := err == io.EOF || err == io.ErrUnexpectedEOF
		if err != nil && !ended {
			return err
		}
		n += kept
		cut := n
		if at := bytes.LastIndexByte(buffer[:n], '\n'); at >= 0 && !ended {
			cut = at + 1
		}
		if err := take(string(buffer[:cut])); err != nil || ended {
			return err
		}
		kept = copy(buffer, buffer[cut:n])
	}
}

// replaceFile replaces a file by what write writes, in one step.
func replaceFile(path string, mode fs.FileMode, write func(io.Writer) error) (err error) {
	temporary, err := os.CreateTemp(filepath.Dir(path), ".mask-*")
	if err != nil {
		return fmt.Errorf("masking %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temporary.Name())
			err = fmt.Errorf("masking %s: %w", path, err)
		}
	}()
	if err := errors.Join(write(temporary), temporary.Chmod(mode.Perm()), temporary.Close()); err != nil {
		return err
	}
	return os.Rename(temporary.Name(), path)
}
