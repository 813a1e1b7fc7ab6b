package pvectl

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"
	"github.com/google/uuid"
)

// anyID is the value of --id that means whichever simulator was here before.
const anyID = "any"

// errAnother means that the simulator that --id names is not in this clusters directory.
var errAnother = errors.New("another simulator")

func (o *options) idFile() string { return filepath.Join(o.dir, "id") }

// readID is the id of the simulator of the directory; empty: there is none, or it has none yet.
func (o *options) readID() (string, error) {
	b, err := os.ReadFile(o.idFile())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read which simulator this is: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// checkID refuses to take this directory's simulator, or one that is made only now, for the one that --id names. It changes
// nothing.
func (o *options) checkID() error {
	id, err := o.readID()
	if err != nil || o.id == "" || o.id == id {
		return err
	}
	if _, err := os.Stat(filepath.Join(o.dir, "pve")); o.id == anyID && (id != "" || err == nil) {
		return nil
	}
	if id == "" {
		id = "none"
	}
	return fmt.Errorf("%w: %s has %s, asked for %s", errAnother, o.dir, id, o.id)
}

// identify returns the id of the directory's simulator, which it gets with its first start.
func (o *options) identify() (string, error) {
	if id, err := o.readID(); id != "" || err != nil {
		return id, err
	}
	id := uuid.NewString()
	if err := renameio.WriteFile(o.idFile(), []byte(id+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("write which simulator this is: %w", err)
	}
	return id, nil
}

// removeState removes all but the id: clusters of a simulator whose VMs were wiped are still its clusters.
func (o *options) removeState() error {
	entries, err := os.ReadDir(o.dir)
	for _, entry := range entries {
		if path := filepath.Join(o.dir, entry.Name()); path != o.idFile() {
			err = errors.Join(err, os.RemoveAll(path))
		}
	}
	if err != nil {
		return fmt.Errorf("remove the simulator's state: %w", err)
	}
	return nil
}
