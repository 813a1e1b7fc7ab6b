package pvectl

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/google/renameio/v2"
	"github.com/google/uuid"

	"hive-test/pkg/remote"
)

// anyID is the value of --id that means whichever simulator was here before.
const anyID = "any"

// errAnother means that the simulator that --id names is not in this clusters directory.
var errAnother = errors.New("another simulator")

func (o *options) idFile() string { return filepath.Join(o.dir, "id") }

// identity is which simulator a directory's is, and where the directory was when it last ran.
type identity struct {
	id    string // empty: there is none, or it has none yet
	inode string // of the directory
	path  string
}

// here is where the directory is now.
func (o *options) here() (inode, path string, err error) {
	info, err := os.Stat(o.dir)
	if err != nil {
		return "", "", err
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		inode = strconv.FormatUint(stat.Ino, 10)
	}
	path, err = filepath.EvalSymlinks(o.dir)
	return inode, path, err
}

// readIdentity reads the directory's id, and reports whether the directory is a copy of that simulator's: what is moved
// keeps its inode, and what is put back its path.
func (o *options) readIdentity() (i identity, copied bool, err error) {
	b, err := os.ReadFile(o.idFile())
	if errors.Is(err, fs.ErrNotExist) {
		return identity{}, false, nil
	}
	if err != nil {
		return identity{}, false, fmt.Errorf("read which simulator this is: %w", err)
	}
	id, place, _ := strings.Cut(strings.TrimSpace(string(b)), "\n")
	i.id = id
	i.inode, i.path, _ = strings.Cut(place, " ")
	inode, path, err := o.here()
	if err != nil {
		return identity{}, false, fmt.Errorf("look where the simulator is: %w", err)
	}
	return i, place != "" && i.inode != inode && i.path != path, nil
}

// checkID refuses to take this directory's simulator, or one that is made only now, for the one that --id names, and a
// copy for any. It changes nothing.
func (o *options) checkID() error {
	i, copied, err := o.readIdentity()
	switch {
	case err != nil:
		return err
	case copied && o.id != "":
		return fmt.Errorf("%w: %s is a copy of %s", errAnother, o.dir, i.path)
	case copied:
		return fmt.Errorf(
			"%s is a copy of another simulator, %s: remove it with hive-sim pve stop --wipe --clusters-dir %s", o.dir,
			i.path, remote.Quote(o.clustersDir),
		)
	case o.id == "" || o.id == i.id:
		return nil
	}
	if _, err := os.Stat(filepath.Join(o.dir, "pve")); o.id == anyID && (i.id != "" || err == nil) {
		return nil
	}
	return fmt.Errorf("%w: %s has %s, asked for %s", errAnother, o.dir, cmp.Or(i.id, "none"), o.id)
}

// identify returns the id of the directory's simulator, which it gets with its first start, and notes where it is.
func (o *options) identify() (string, error) {
	i, _, err := o.readIdentity()
	if err != nil {
		return "", err
	}
	i.id = cmp.Or(i.id, uuid.NewString())
	if i.inode, i.path, err = o.here(); err == nil {
		err = renameio.WriteFile(o.idFile(), []byte(i.id+"\n"+i.inode+" "+i.path+"\n"), 0o600)
	}
	if err != nil {
		return "", fmt.Errorf("write which simulator this is: %w", err)
	}
	return i.id, nil
}

// removeState removes all but the id: clusters of a simulator whose VMs were wiped are still its clusters. A copy keeps
// no id.
func (o *options) removeState() error {
	_, copied, err := o.readIdentity()
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(o.dir)
	for _, entry := range entries {
		if path := filepath.Join(o.dir, entry.Name()); copied || path != o.idFile() {
			err = errors.Join(err, os.RemoveAll(path))
		}
	}
	if err != nil {
		return fmt.Errorf("remove the simulator's state: %w", err)
	}
	return nil
}
