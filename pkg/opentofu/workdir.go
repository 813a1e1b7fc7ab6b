package opentofu

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// workdir knows where everything of one directory is kept.
type workdir struct{ root string }

func (w workdir) dir() string          { return filepath.Join(w.root, "tofu") }
func (w workdir) file(n string) string { return filepath.Join(w.dir(), n) }
func (w workdir) home() string         { return w.file("home") }
func (w workdir) lockFile() string     { return w.file(".terraform.lock.hcl") }
func (w workdir) stamp() string        { return w.file(".init.json") }
func (w workdir) cliConfig() string    { return w.file("cli.tfrc") }
func (w workdir) state() string        { return StatePath(w.root) }

// StatePath returns where the state of a directory is.
func StatePath(dir string) string { return filepath.Join(dir, "terraform.tfstate") }

// VariablesPath returns where the variables are that were applied last.
func VariablesPath(dir string) string { return filepath.Join(dir, "terraform.tfvars.json") }

// Names inside the working directory. The state is named relative to it, so that a clusters directory can be moved.
const (
	relativeState     = "../terraform.tfstate"
	relativeVariables = "../terraform.tfvars.json"
	plannedVariables  = "planned.tfvars.json"
	planFile          = "plan.bin"
)

// prepare makes the directories and writes the module's files, touching only what differs.
func (w workdir) prepare(module fs.FS, backend Backend) error {
	for _, dir := range []string{w.root, w.dir(), w.home()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("%w: make tofu's working directory: %w", ErrUnusable, err)
		}
	}
	if err := w.writeModule(module); err != nil {
		return fmt.Errorf("%w: write the module: %w", ErrUnusable, err)
	}
	if err := backend.write(w); err != nil {
		return fmt.Errorf("%w: write the backend's settings: %w", ErrUnusable, err)
	}
	if backend.Remote() {
		return nil
	}
	// tofu creates its state with the umask's mode, and keeps the mode of a file that exists.
	f, err := os.OpenFile(w.state(), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("prepare the state file: %w", err)
	}
	return f.Close()
}

func (w workdir) writeModule(module fs.FS) error {
	sources, err := moduleFiles(module)
	if err != nil {
		return err
	}
	stale, err := filepath.Glob(w.file("*.tf"))
	if err != nil {
		return err
	}
	for _, path := range stale {
		if _, ok := sources[filepath.Base(path)]; !ok {
			if err := os.Remove(path); err != nil {
				return err
			}
		}
	}
	for name, content := range sources {
		if err := replace(w.file(name), content); err != nil {
			return err
		}
	}
	return nil
}

// moduleFiles returns a module's files by name.
func moduleFiles(module fs.FS) (map[string][]byte, error) {
	if module == nil {
		return map[string][]byte{"main.tf": []byte("# There are no resources here: the state is the document.\nterraform {\n  backend \"local\" {}\n}\n")}, nil
	}
	entries, err := fs.ReadDir(module, ".")
	if err != nil {
		return nil, err
	}
	sources := map[string][]byte{}
	for _, e := range entries {
		if sources[e.Name()], err = fs.ReadFile(module, e.Name()); err != nil {
			return nil, err
		}
	}
	return sources, nil
}

// replace writes a file atomically, for its owner only, unless it already holds content.
func replace(path string, content []byte) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, content) {
		return nil
	}
	return renameio.WriteFile(path, content, 0o600)
}

// writeVariables puts variables into a file that only its owner can read.
func writeVariables(path string, variables any) error {
	raw, err := encodeVariables(variables)
	if err == nil {
		err = replace(path, raw)
	}
	if err != nil {
		return fmt.Errorf("write the variables: %w", err)
	}
	return nil
}

func encodeVariables(variables any) ([]byte, error) {
	raw, err := json.MarshalIndent(variables, "", "  ")
	return append(raw, '\n'), err
}

// copyState copies the state, and where providers come from, of one cluster's directory to another's.
func copyState(from, to workdir) error {
	if err := os.MkdirAll(to.dir(), 0o700); err != nil {
		return fmt.Errorf("copy the state: %w", err)
	}
	for source, target := range map[string]string{from.state(): to.state(), from.lockFile(): to.lockFile()} {
		raw, err := os.ReadFile(source)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.WriteFile(target, raw, 0o600)
		}
		if err != nil {
			return fmt.Errorf("copy the state: %w", err)
		}
	}
	return nil
}
