package secret

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"hive-test/pkg/progress"
	"hive-test/pkg/secret/sops"
)

// Options are where a Resolver looks.
type Options struct {
	Getenv  func(string) string // nil: there are no variables
	Environ []string            // of programs; nil: that of this process
	KeyFile string              // of age identities, beside those that SOPS looks for; empty: none
	Limit   time.Duration       // of one program; 0: 30 seconds
}

// Resolver reads what references name, each once. It is safe for concurrent use.
type Resolver struct {
	Options
	mu     sync.Mutex
	values map[string]string
	files  map[string]*sops.Document
	keys   *Keys
}

// NewResolver returns one that has read nothing yet.
func NewResolver(o Options) *Resolver {
	if o.Getenv == nil {
		o.Getenv = func(string) string { return "" }
	}
	if o.Limit <= 0 {
		o.Limit = commandLimit
	}
	return &Resolver{Options: o, values: map[string]string{}, files: map[string]*sops.Document{}}
}

// mostBytes is how long a value, or the file that it is in, may be.
const mostBytes = 4 << 20

// Read returns the value, which is not empty. Its error names the reference and what went wrong, and has a hint of what
// to do; what failed is tried again the next time. When ctx ends, what runs is ended.
func (r *Resolver) Read(ctx context.Context, ref Reference) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if value, known := r.values[ref.same()]; known {
		return value, nil
	}
	value, err := r.read(ctx, ref)
	if err == nil && strings.TrimSpace(value) == "" {
		err = progress.WithHint(errors.New("it is empty"), "put the value there")
	}
	if err == nil && strings.ContainsRune(value, 0) {
		err = errors.New("it holds a NUL byte, which neither settings nor variables can hold")
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", ref, err)
	}
	r.values[ref.same()] = value
	return value, nil
}

// Values are all that was read so far.
func (r *Resolver) Values() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var values []string
	for _, value := range r.values {
		values = append(values, value)
	}
	return values
}

func (r *Resolver) read(ctx context.Context, ref Reference) (string, error) {
	switch ref.Kind {
	case Env:
		if value := r.Getenv(ref.Name); value != "" {
			return value, nil
		}
		return "", progress.WithHint(errors.New("the variable is not set"), "export "+ref.Name+"=…")
	case File:
		raw, err := readFile(ctx, ref.Path)
		return trimmed(raw), err
	case Command:
		out, err := r.run(ctx, ref.Dir, ref.Argv)
		return trimmed(out), err
	case Age:
		return r.readAge(ctx, ref.Path)
	case SOPS:
		return r.readSOPS(ctx, ref)
	}
	return "", fmt.Errorf("%q is no kind of reference", ref.Kind)
}

// trimmed is a text without the line ends at its end.
func trimmed(raw []byte) string { return strings.TrimRight(string(raw), "\r\n") }

// readFile reads a file, which may be a pipe into which nobody writes, until ctx ends.
func readFile(ctx context.Context, path string) ([]byte, error) {
	type result struct {
		raw []byte
		err error
	}
	done := make(chan result, 1)
	go func() {
		raw, err := readAll(path)
		done <- result{raw, err}
	}()
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case r := <-done:
		if errors.Is(r.err, os.ErrNotExist) {
			return nil, progress.WithHint(errors.New("there is no such file"), "put it there, or name another one")
		}
		if errors.Is(r.err, os.ErrPermission) {
			return nil, progress.WithHint(errors.New("it may not be read"), "it must belong to who runs this, with mode 0600")
		}
		return r.raw, r.err
	}
}

func readAll(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	raw, err := io.ReadAll(io.LimitReader(file, mostBytes+1))
	if err == nil && len(raw) > mostBytes {
		err = fmt.Errorf("it is larger than %d MiB", mostBytes>>20)
	}
	return raw, err
}

// readSOPS reads one value of a file, or all of one that has no parts. What cannot be read here, the program sops is
// asked for, where it is installed.
func (r *Resolver) readSOPS(ctx context.Context, ref Reference) (string, error) {
	var path []string
	if ref.Keys != "" {
		path = sops.SplitPath(ref.Keys)
	}
	document, err := r.document(ctx, ref.Path)
	if err != nil {
		return r.bySOPS(ctx, ref.Path, path, err)
	}
	value, err := document.Get(path)
	if err != nil {
		return "", progress.WithHint(err, "name another key, or add it with hive-test secrets set")
	}
	if path == nil {
		return strings.TrimRight(value, "\r\n"), nil
	}
	return value, nil
}

// document opens a file that SOPS encrypts, once.
func (r *Resolver) document(ctx context.Context, path string) (*sops.Document, error) {
	if document, known := r.files[path]; known {
		return document, nil
	}
	raw, err := readFile(ctx, path)
	if err != nil {
		return nil, err
	}
	document, err := sops.Open(sops.FormatOf(path), raw, r.identities().Identities)
	if errors.Is(err, sops.ErrPlain) {
		return nil, progress.WithHint(err, "encrypt it, or use file: or env: for what is not secret")
	}
	if err == nil {
		r.files[path] = document
	}
	return document, err
}

// identities are the age keys that are there, read once.
func (r *Resolver) identities() *Keys {
	if r.keys == nil {
		r.keys = FindKeys(r.KeyFile, r.Getenv)
	}
	return r.keys
}

func (r *Resolver) readAge(ctx context.Context, path string) (string, error) {
	raw, err := readFile(ctx, path)
	if err != nil {
		return "", err
	}
	opened, err := r.identities().Decrypt(bytes.NewReader(raw))
	return trimmed(opened), err
}
