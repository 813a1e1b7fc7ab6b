// Package state keeps what is known of clusters and runs on disk, under one clusters directory. Files are replaced
// atomically; a cluster is held by one run at a time.
package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/renameio/v2"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/placement"
)

// Errors of a Store. NotFound: no such cluster here. Corrupt: its cluster.json cannot be read, nothing was changed.
var (
	ErrNotFound = errors.New("no such cluster")
	ErrCorrupt  = errors.New("the record of the cluster is damaged")
)

// NewerError means that a later hive-test has written a record. It is whole, so no copy may take its place, and it may
// say what this program does not know: nothing is done with its cluster.
type NewerError struct {
	Path    string
	Schema  int
	Version string // of the program that has written it; empty: not told
}

// Error names the file and both schemas.
func (e *NewerError) Error() string {
	return fmt.Sprintf(
		"%s was written by %s: its schema is %d and this program reads %d", e.Path, e.writer(), e.Schema,
		cluster.RecordSchema,
	)
}

// Hint says which program reads it.
func (e *NewerError) Hint() string {
	return "nothing was changed: for this cluster, use " + e.writer()
}

func (e *NewerError) writer() string {
	if e.Version == "" {
		return "a later hive-test"
	}
	return "hive-test " + e.Version
}

// Names of the files of a cluster's directory.
const (
	recordFile    = "cluster.json"
	backupFile    = "cluster.json.bak" // the last record that was written whole
	stateFile     = "terraform.tfstate"
	variablesFile = "terraform.tfvars.json"
	inventoryFile = "inventory.json"
	runsDir       = ".runs"
)

// Store is a clusters directory. Its methods may be used by several processes at once; changing a cluster needs its
// Lock.
type Store struct {
	// Version is that of this program: records say who has written them.
	Version string

	root string
	host string // this host's name, as holders note it

	mu sync.Mutex // guards the marker of an interruption against Remove
}

// Open returns the store at root (made absolute). Nothing is created before something is to be stored.
func Open(root string) (*Store, error) {
	absolute, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("clusters directory %s: %w", root, err)
	}
	if info, err := os.Stat(absolute); err == nil && !info.IsDir() {
		return nil, fmt.Errorf("clusters directory %s is not a directory", absolute)
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("this host's name, by which locks are told apart: %w", err)
	}
	return &Store{root: absolute, host: host}, nil
}

// Root is the absolute path of the clusters directory.
func (s *Store) Root() string { return s.root }

// Dir is the directory of a cluster, whether or not it exists.
func (s *Store) Dir(name cluster.Name) string { return filepath.Join(s.root, name.String()) }

// Path is a file in the directory of a cluster.
func (s *Store) Path(name cluster.Name, file string) string { return filepath.Join(s.Dir(name), file) }

// ensureRoot makes the clusters directory with its own .gitignore.
func (s *Store) ensureRoot() error {
	if err := os.MkdirAll(s.root, 0o755); err != nil {
		return fmt.Errorf("making the clusters directory: %w", err)
	}
	ignore := filepath.Join(s.root, ".gitignore")
	if _, err := os.Stat(ignore); errors.Is(err, fs.ErrNotExist) {
		if err := renameio.WriteFile(ignore, []byte("*\n"), 0o644); err != nil {
			return fmt.Errorf("writing %s: %w", ignore, err)
		}
	}
	return nil
}

// List returns the names of the clusters here, sorted, damaged ones included.
func (s *Store) List() ([]cluster.Name, error) {
	entries, err := os.ReadDir(s.root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listing clusters: %w", err)
	}
	var names []cluster.Name
	for _, entry := range entries {
		name, err := cluster.ParseName(entry.Name())
		if err != nil || !entry.IsDir() {
			continue
		}
		// What cannot be looked at, such as another user's, is no reason to say that there is nothing.
		if _, err := os.Stat(s.Path(name, recordFile)); !errors.Is(err, fs.ErrNotExist) || len(s.traces(name)) > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// Load reads the record of a cluster. It returns ErrNotFound or ErrCorrupt, wrapped, or a *NewerError.
func (s *Store) Load(name cluster.Name) (*cluster.Record, error) {
	path := s.Path(name, recordFile)
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if left := s.traces(name); len(left) > 0 {
			return nil,
				fmt.Errorf("%w: %s is missing, and %s may know of VMs", ErrCorrupt, path, strings.Join(left, ", "))
		}
		return nil, fmt.Errorf("cluster %q: %w in %s", name, ErrNotFound, s.root)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrCorrupt, path, err)
	}
	return decode(raw, path, name)
}

// Backup reads the copy of the record that was written when the record was written last.
func (s *Store) Backup(name cluster.Name) (*cluster.Record, error) {
	path := s.Path(name, backupFile)
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return decode(raw, path, name)
}

// traces are the files by which a cluster is known to have had a record.
func (s *Store) traces(name cluster.Name) []string {
	return slices.DeleteFunc([]string{backupFile, stateFile, variablesFile}, func(file string) bool {
		_, err := os.Stat(s.Path(name, file))
		return err != nil
	})
}

func decode(raw []byte, path string, name cluster.Name) (*cluster.Record, error) {
	// Of a later schema nothing but this is known to be as it is here.
	var written struct {
		Schema  int    `json:"schema"`
		Version string `json:"version"`
	}
	if err := json.Unmarshal(raw, &written); err == nil && written.Schema > cluster.RecordSchema {
		return nil, &NewerError{Path: path, Schema: written.Schema, Version: written.Version}
	}
	record := new(cluster.Record)
	if err := json.Unmarshal(raw, record); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrCorrupt, path, err)
	}
	if problem := check(record, name); problem != "" {
		return nil, fmt.Errorf("%w: %s: %s", ErrCorrupt, path, problem)
	}
	follow(record, filepath.Dir(path))
	return record, nil
}

// follow takes the cluster's own key from its directory where that was moved, or copied to another machine.
func follow(r *cluster.Record, dir string) {
	home, file := filepath.Split(r.SSHKeyPath)
	if filepath.Base(home) != r.Name.String() {
		return
	}
	if _, err := os.Stat(r.SSHKeyPath); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	if here := filepath.Join(dir, file); exists(here) {
		r.SSHKeyPath = here
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// check says what is wrong with a record that could be decoded, or "".
func check(r *cluster.Record, name cluster.Name) string {
	switch {
	case r.Schema != cluster.RecordSchema:
		return fmt.Sprintf("its schema is %d and this program reads %d", r.Schema, cluster.RecordSchema)
	case r.Name != name:
		return fmt.Sprintf(
			"it is the record of cluster %q: where its directory was renamed, name it %s again", r.Name, r.Name,
		)
	case r.Owner.ID == "":
		return "it has no owner id"
	case !slices.Contains(deploy.Deployers(), r.Spec.Deployer):
		return fmt.Sprintf("its deployer is %q", r.Spec.Deployer)
	}
	if len(r.Nodes) == 0 {
		return "it names no node"
	}
	for i, node := range r.Nodes {
		if node.Index != i+1 {
			return fmt.Sprintf("node %d has index %d", i+1, node.Index)
		}
	}
	if problems := validate(r); len(problems) > 0 {
		return errors.Join(problems...).Error()
	}
	return ""
}

// validate returns every problem of what a record holds, or nil. Fewer nodes than there are is how nodes leave: a
// number that nobody can ask for would destroy them.
func validate(r *cluster.Record) []error {
	problems := placement.Validate(r)
	count, most := r.Spec.NodeCount, cluster.MaxNodes
	if r.Spec.Deployer == deploy.Existing {
		most = len(r.Nodes)
	}
	if count < cluster.MinNodes || count > most {
		problems = append(problems, fmt.Errorf(
			"its node_count is %d, and not between %d and %d", count, cluster.MinNodes, most,
		))
	}
	return problems
}

// Save replaces the record of a cluster, and its spare copy. The caller holds its lock. What Load would refuse is not
// written.
func (s *Store) Save(r *cluster.Record) error {
	if problems := validate(r); len(problems) > 0 {
		return fmt.Errorf("cluster %q: %w", r.Name, errors.Join(problems...))
	}
	signed := *r
	signed.Version = s.Version
	r = &signed
	return errors.Join(s.writeJSON(r.Name, recordFile, r), s.writeJSON(r.Name, backupFile, r))
}

// SaveInventory replaces inventory.json. The caller holds the cluster's lock.
func (s *Store) SaveInventory(inv cluster.Inventory) error {
	return s.writeJSON(inv.ClusterName, inventoryFile, inv)
}

func (s *Store) writeJSON(name cluster.Name, file string, value any) error {
	raw, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding %s: %w", file, err)
	}
	return s.Write(name, file, append(raw, '\n'))
}

// Write replaces a file of a cluster's directory, readable by its owner only.
func (s *Store) Write(name cluster.Name, file string, content []byte) error {
	path := s.Path(name, file)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("making the directory of %s: %w", path, err)
	}
	if err := renameio.WriteFile(path, content, 0o600); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// Remove deletes the directory of a cluster. The caller holds its lock and has proved that its VMs are gone.
func (s *Store) Remove(name cluster.Name) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := os.RemoveAll(s.Dir(name)); err != nil {
		return fmt.Errorf("removing %s: %w", s.Dir(name), err)
	}
	return s.dropPlan(name)
}

// Run is the evidence directory of one run of a verb. It outlives the cluster.
type Run struct {
	Dir  string
	lock *os.File // on the directory, while the run is at work; nil: it is not this process's
}

// NewRun makes .runs/NAME/<UTC>-<verb> and points .runs/NAME/latest at it.
func (s *Store) NewRun(name cluster.Name, verb string, now time.Time) (Run, error) {
	run, err := s.NewGathering(name, verb, now)
	if err != nil {
		return Run{}, err
	}
	if err := renameio.Symlink(filepath.Base(run.Dir), filepath.Join(filepath.Dir(run.Dir), latestLink)); err != nil {
		return Run{}, fmt.Errorf("linking the latest run: %w", err)
	}
	return run, nil
}

// RunName is the name of the directory of a run of a verb that began then.
func RunName(verb string, now time.Time) string {
	return now.UTC().Format(runTime) + "-" + verb
}

// NewGathering makes the directory of what is no run of a verb with phases: the latest run stays the latest.
func (s *Store) NewGathering(name cluster.Name, verb string, now time.Time) (Run, error) {
	if err := s.ensureRoot(); err != nil {
		return Run{}, err
	}
	base := s.RunsDir(name.String())
	for {
		if err := os.MkdirAll(base, 0o700); err != nil {
			return Run{}, fmt.Errorf("making the directory of runs: %w", err)
		}
		run := Run{Dir: filepath.Join(base, RunName(verb, now))}
		err := os.Mkdir(run.Dir, 0o700)
		switch {
		case errors.Is(err, fs.ErrExist): // two runs may begin in one millisecond: each has its own directory
			now = now.Add(time.Millisecond)
		case errors.Is(err, fs.ErrNotExist): // a prune has removed the directory of runs, which was empty
		case err != nil:
			return Run{}, fmt.Errorf("making the run's directory: %w", err)
		case run.occupy():
			return run, nil
		}
	}
}

// Write replaces a file of the run.
func (r Run) Write(file string, content []byte) error {
	path := filepath.Join(r.Dir, file)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("making the directory of %s: %w", path, err)
	}
	if err := renameio.WriteFile(path, content, 0o600); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// CopyTo copies a directory's regular files to another one, which it replaces as a whole. Links, sockets and pipes,
// which suites leave too, stay behind.
func CopyTo(from, to string) error {
	staging := to + ".new"
	if err := os.RemoveAll(staging); err != nil {
		return fmt.Errorf("clearing %s: %w", staging, err)
	}
	if err := copyFiles(from, staging); err != nil {
		return fmt.Errorf("copying %s: %w", from, err)
	}
	if err := os.RemoveAll(to); err != nil {
		return fmt.Errorf("clearing %s: %w", to, err)
	}
	if err := os.Rename(staging, to); err != nil {
		return fmt.Errorf("replacing %s: %w", to, err)
	}
	return nil
}

func copyFiles(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		switch target := filepath.Join(to, below); {
		case entry.IsDir():
			return os.MkdirAll(target, 0o700)
		case entry.Type().IsRegular():
			return copyFile(path, target)
		}
		return nil
	})
}

func copyFile(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	target, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Close())
}

// EventsFile is the name of a run's record of events, in its directory.
const EventsFile = "events.jsonl"

// DebugFile is what a run keeps for whoever has to find out what went on: requests, commands and events, as text.
const DebugFile = "debug.log"

// Runs are the runs of a cluster that left events, the newest first; none if there is none.
func (s *Store) Runs(name cluster.Name) ([]Run, error) {
	kept, err := s.Kept(name.String())
	return slices.DeleteFunc(kept, func(run Run) bool { return !exists(filepath.Join(run.Dir, EventsFile)) }), err
}

// Remembered are the names of the clusters that have left runs, those that are gone included; none if there are none.
func (s *Store) Remembered() ([]cluster.Name, error) {
	all, err := s.RunNames()
	var names []cluster.Name
	for _, entry := range all {
		if name, err := cluster.ParseName(entry); err == nil {
			names = append(names, name)
		}
	}
	return names, err
}
