package target

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
	"hive-test/pkg/opentofu"
	"hive-test/pkg/process"
	"hive-test/pkg/progress"
	"hive-test/pkg/state"
	"hive-test/pkg/wait"
)

// Shared is what other machines know of a cluster whose state is in a backend: who is at work on it, and the rest of its directory,
// encrypted. It is not safe for concurrent use.
type Shared struct {
	target     *Target
	documents  *opentofu.Documents
	passphrase string

	document opentofu.Document
	held     bool
	record   []byte // as it was written last
}

// Holder is a run that is at work on a cluster, on any machine.
type Holder struct {
	state.Holder
	User string `json:"user"`
	// Place and Start tell its process from others, where that can be looked at.
	Place string `json:"place"`
	Start string `json:"start"`
	// Owner is the id of the cluster's owner, by which Proxmox VE is asked whether the run is at work; empty: it has made nothing yet.
	Owner string `json:"owner,omitempty"`
}

func (h Holder) dead() bool {
	return process.Process{Place: h.Place, PID: h.PID, Start: h.Start}.Dead()
}

// What a cluster's document has.
const (
	sharedHolder = "holder"
	sharedFiles  = "files"
	sharedGone   = "gone"
)

// documentOf is the name of a cluster's document, which no cluster can have.
func documentOf(name cluster.Name) string { return name.String() + ".rest" }

// indexDocument lists the clusters that are shared in a backend.
const indexDocument = "clusters.index"

// StateBackend returns where the cluster's state is kept: as it is recorded, or as it would be for one that is made now.
func (t *Target) StateBackend() cluster.StateBackend {
	if t.Backend != nil {
		return *t.Backend
	}
	record := t.Record
	if record == nil {
		record, _ = t.Store.Load(t.Name) // one that cannot be read is dealt with where it is needed
	}
	now := cluster.StateBackend{Type: t.Settings.State.Backend, Config: t.Settings.State.Config}
	if !t.Settings.State.Remote() {
		now = cluster.StateBackend{}
	}
	if record == nil {
		return now
	}
	if recorded := record.State; recorded.Type != now.Type {
		return recorded
	} else if recorded.Type == "" {
		return recorded
	}
	return now // the same kind: how it is reached may be another by now
}

// backend is that for OpenTofu.
func (t *Target) backend() opentofu.Backend {
	b := t.StateBackend()
	if b.Type == "" { // what is read of a file here is read as it is
		return opentofu.Backend{}
	}
	return opentofu.Backend{Type: b.Type, Config: b.Config, Passphrase: t.Settings.StatePassphrase.Reveal()}
}

// CheckState returns what is wrong with the settings of where states are kept.
func CheckState(settings config.Settings) error {
	err := checkBackend(settings.State, settings)
	if err != nil {
		return configError(fmt.Errorf("state (%s): %w", settings.Source("state"), err))
	}
	return nil
}

// checkBackend returns what is wrong with a place of states, or lacks for it.
func checkBackend(state config.State, settings config.Settings) error {
	if !state.Remote() {
		return nil
	}
	err := opentofu.CheckBackend(state.Backend, state.Config)
	if err == nil {
		err = settings.StatePassphraseErr
	}
	if passphrase := settings.StatePassphrase.Reveal(); err == nil && len(passphrase) < opentofu.MinPassphrase {
		err = progress.WithHint(
			fmt.Errorf("states in a backend are encrypted, and need a passphrase of %d characters or more", opentofu.MinPassphrase),
			"set HIVE_TEST_STATE_PASSPHRASE, or state_passphrase_file: openssl rand -base64 24 makes one",
		)
	}
	return err
}

// Shared returns what is shared of the cluster; nil: its state is in its directory, and it is this machine's alone.
func (t *Target) Shared() *Shared {
	backend := t.backend()
	if !backend.Remote() {
		return nil
	}
	return &Shared{
		target: t, passphrase: backend.Passphrase,
		documents: opentofu.NewDocuments(opentofu.Options{
			Find: t.sharedTofu(), Env: t.Program.TofuEnviron, CacheDir: t.Program.CacheDir, Backend: backend,
			Credentials: t.credentials(config.CredentialsState), LogPath: t.File("tofu.log"),
		}, t.Store.SharedDir("")),
	}
}

// sharedTofu is where the program is looked for before there is a record.
func (t *Target) sharedTofu() opentofu.FindOptions {
	if t.Record == nil {
		return tofuSearch(t.Program, t.Settings, t.Sink)
	}
	return t.tofuOfCluster()
}

// Hold takes the cluster on all machines, and brings its directory here up to date. A run that holds it is a *state.LockedError, unless it
// is known to have ended: alive is asked about those on other machines.
func (s *Shared) Hold(ctx context.Context, holder Holder, alive func(context.Context, Holder) (bool, error)) (tookOver *state.Holder, err error) {
	if err := s.checkPassphrase(); err != nil {
		return nil, err
	}
	for range (wait.Backoff{First: 20 * time.Millisecond, Max: time.Second}).Tries(ctx) {
		if s.document, err = s.documents.Read(ctx, documentOf(s.target.Name)); err != nil {
			return nil, s.failed("reading", err)
		}
		if tookOver, err = s.judge(ctx, alive); err != nil {
			return nil, err
		}
		if err := s.update(); err != nil {
			return nil, err
		}
		err = s.write(ctx, func(values map[string]string) error { return put(values, sharedHolder, holder) })
		if errors.Is(err, opentofu.ErrChanged) { // somebody else was quicker: look who
			continue
		}
		s.held = err == nil
		return tookOver, err
	}
	return nil, context.Cause(ctx)
}

// checkPassphrase refuses a cluster that was made with settings of a backend, where there are none now.
func (s *Shared) checkPassphrase() error {
	if len(s.passphrase) >= opentofu.MinPassphrase {
		return nil
	}
	return configError(progress.WithHint(
		fmt.Errorf("the state of cluster %q is in a backend (%s), encrypted: its passphrase is not given", s.target.Name, s.target.backend().Type),
		"set HIVE_TEST_STATE_PASSPHRASE, or state_passphrase_file, and state as the cluster was made with",
	))
}

// judge returns the run that holds the cluster no more, or the error that it is held.
func (s *Shared) judge(ctx context.Context, alive func(context.Context, Holder) (bool, error)) (*state.Holder, error) {
	holder, held := s.Holder()
	switch {
	case !held:
		return nil, nil
	case holder.dead():
		return &holder.Holder, nil
	}
	locked := &state.LockedError{Name: s.target.Name, Holder: holder.Holder, Life: state.Elsewhere}
	if holder.Place == process.Self().Place {
		locked.Life = state.Alive
		return nil, locked
	}
	working, err := alive(ctx, holder)
	switch {
	case err != nil:
		return nil, errors.Join(locked, err)
	case working:
		return nil, locked
	}
	return &holder.Holder, nil
}

// Holder returns who holds the cluster, as it was read last.
func (s *Shared) Holder() (holder Holder, held bool) {
	err := json.Unmarshal([]byte(s.document.Values[sharedHolder]), &holder)
	return holder, err == nil
}

// version is that of the document, as the cluster's directory notes it.
func (s *Shared) version() string { return s.document.Version() }

// update brings the cluster's directory to what another machine has written since.
func (s *Shared) update() error {
	if s.target.Store.Shared(s.target.Name) == s.version() {
		return nil
	}
	switch files := s.document.Values[sharedFiles]; {
	case files != "":
		bundle, err := base64.StdEncoding.DecodeString(files)
		if err == nil {
			err = s.target.Store.Unpack(s.target.Name, bundle, s.passphrase)
		}
		if errors.Is(err, state.ErrPassphrase) {
			err = progress.WithHint(err, "give the passphrase that the cluster was made with: HIVE_TEST_STATE_PASSPHRASE, or state_passphrase_file")
		}
		if err != nil {
			return configError(err)
		}
	case s.document.Values[sharedGone] != "":
		if err := s.target.Store.Clear(s.target.Name); err != nil {
			return configError(err)
		}
	}
	return s.target.Store.SetShared(s.target.Name, s.version())
}

// write changes the document, and notes that the directory is of its version.
func (s *Shared) write(ctx context.Context, change func(values map[string]string) error) error {
	next := s.document
	next.Values = maps.Clone(s.document.Values)
	if next.Values == nil {
		next.Values = map[string]string{}
	}
	if err := change(next.Values); err != nil {
		return err
	}
	written, err := s.documents.Write(ctx, documentOf(s.target.Name), next)
	if err != nil {
		return s.failed("writing", err)
	}
	s.document = written
	return s.target.Store.SetShared(s.target.Name, s.version())
}

func (s *Shared) failed(what string, err error) error {
	if errors.Is(err, opentofu.ErrChanged) {
		return fmt.Errorf("%s what is shared of cluster %q: %w", what, s.target.Name, err)
	}
	of := fmt.Sprintf("%s what is shared of cluster %q", what, s.target.Name)
	if s.target.Name == "" {
		of = what + " the clusters"
	}
	return configError(fmt.Errorf("%s in the backend %s: %w", of, s.target.backend().Type, err))
}

func put(values map[string]string, key string, value any) error {
	raw, err := json.Marshal(value)
	values[key] = string(raw)
	return err
}

// Push writes the cluster's directory to the backend, where its record is not the one that was written last.
func (s *Shared) Push(ctx context.Context) error {
	if !s.held {
		return nil
	}
	record, err := os.ReadFile(s.target.Store.Path(s.target.Name, "cluster.json"))
	if err != nil || string(record) == string(s.record) {
		return nil //nolint:nilerr // there is nothing to write
	}
	if s.document.Values[sharedFiles] == "" { // first, so that what is there is always listed
		if err := s.list(ctx); err != nil {
			return err
		}
	}
	if err := s.write(ctx, s.pack); err != nil {
		return err
	}
	s.record = record
	return nil
}

// pack puts the cluster's directory into the document's values, with whose it is.
func (s *Shared) pack(values map[string]string) error {
	bundle, err := s.target.Store.Pack(s.target.Name, s.passphrase)
	if err != nil {
		return err
	}
	values[sharedFiles] = base64.StdEncoding.EncodeToString(bundle)
	delete(values, sharedGone)
	if holder, held := s.Holder(); held && s.target.Record != nil {
		holder.Owner = s.target.Record.Owner.ID
		return put(values, sharedHolder, holder)
	}
	return nil
}

// Release gives the cluster up, and leaves its directory as it is now in the backend; where there is none any more, that the cluster is
// gone.
func (s *Shared) Release(ctx context.Context) error {
	if !s.held {
		return nil
	}
	there := present(s.target.Store.Path(s.target.Name, "cluster.json"))
	was := s.document.Values[sharedFiles] != ""
	if there && !was {
		if err := s.list(ctx); err != nil {
			return err
		}
	}
	err := s.write(ctx, func(values map[string]string) error {
		if there {
			if err := s.pack(values); err != nil {
				return err
			}
		} else if was {
			delete(values, sharedFiles)
			values[sharedGone] = time.Now().UTC().Format(time.RFC3339)
		}
		delete(values, sharedHolder)
		return nil
	})
	s.held = false
	switch {
	case errors.Is(err, opentofu.ErrChanged): // taken over from us: what is there is newer
		return nil
	case err == nil && was && !there:
		return s.unlist(ctx)
	}
	return err
}

// Fetch brings a cluster's directory here up to date, without holding the cluster on other machines.
func (s *Shared) Fetch(ctx context.Context) (err error) {
	if err := s.checkPassphrase(); err != nil {
		return err
	}
	if s.document, err = s.documents.Read(ctx, documentOf(s.target.Name)); err != nil {
		return s.failed("reading", err)
	}
	if s.document.Values[sharedFiles] == "" {
		if err := errors.Join(s.update(), s.unlist(ctx)); err != nil {
			return err
		}
		return fmt.Errorf("cluster %q: %w in the backend %s", s.target.Name, state.ErrNotFound, s.target.backend().Type)
	}
	return s.update()
}

// Align lets what this backend says of a cluster of that name that is gone not count for the one that is here. Taken says that one is
// there: then nothing is done.
func (s *Shared) Align(ctx context.Context) (taken bool, err error) {
	if s.document, err = s.documents.Read(ctx, documentOf(s.target.Name)); err != nil {
		return false, s.failed("reading", err)
	}
	if s.document.Values[sharedFiles] != "" {
		return true, nil
	}
	return false, s.target.Store.SetShared(s.target.Name, s.version())
}

// Retire takes what is shared of the cluster out of this backend, as it is kept in another one from now on.
func (s *Shared) Retire(ctx context.Context) (err error) {
	if s.document, err = s.documents.Read(ctx, documentOf(s.target.Name)); err != nil {
		return s.failed("reading", err)
	}
	if s.document.Version() == "" {
		return nil // nothing was
	}
	noted := s.target.Store.Shared(s.target.Name)
	defer func() { err = errors.Join(err, s.target.Store.SetShared(s.target.Name, noted)) }() // that of the place where it is now
	err = s.write(ctx, func(values map[string]string) error {
		delete(values, sharedFiles)
		delete(values, sharedHolder)
		values[sharedGone] = time.Now().UTC().Format(time.RFC3339)
		return nil
	})
	s.held = false
	return errors.Join(err, s.unlist(ctx))
}

// ReadHolder returns who is noted as at work on the cluster, and is not known to have ended; nil: nobody is. It changes nothing.
func (s *Shared) ReadHolder(ctx context.Context) (*Holder, error) {
	document, err := s.documents.Read(ctx, documentOf(s.target.Name))
	if err != nil {
		return nil, s.failed("reading", err)
	}
	s.document = document
	holder, held := s.Holder()
	if !held || holder.dead() {
		return nil, nil //nolint:nilnil // nobody is at work, which is no error
	}
	return &holder, nil
}

// Unlock takes the cluster away from whoever holds it, and returns who that was.
func (s *Shared) Unlock(ctx context.Context) (Holder, error) {
	var err error
	if s.document, err = s.documents.Read(ctx, documentOf(s.target.Name)); err != nil {
		return Holder{}, s.failed("reading", err)
	}
	holder, held := s.Holder()
	if !held {
		return Holder{}, nil
	}
	next := s.document
	next.Values = maps.Clone(next.Values)
	delete(next.Values, sharedHolder)
	_, err = s.documents.Write(ctx, documentOf(s.target.Name), next)
	return holder, err
}

// indexTries bounds how often the index is written again where others write it at the same time.
const indexTries = 2 * time.Minute

// list puts the cluster into the list of those that are shared.
func (s *Shared) list(ctx context.Context) error {
	return s.index(ctx, func(values map[string]string) (changed bool) {
		name := s.target.Name.String()
		if values[name] != "" {
			return false
		}
		values[name] = time.Now().UTC().Format(time.RFC3339)
		return true
	})
}

// unlist takes it out.
func (s *Shared) unlist(ctx context.Context) error {
	return s.index(ctx, func(values map[string]string) (changed bool) {
		_, changed = values[s.target.Name.String()]
		delete(values, s.target.Name.String())
		return changed
	})
}

// index changes the list of the clusters that are shared.
func (s *Shared) index(ctx context.Context, change func(values map[string]string) (changed bool)) error {
	ctx, cancel := context.WithTimeout(ctx, indexTries)
	defer cancel()
	if err := s.documents.Update(ctx, indexDocument, change); err != nil {
		return s.failed("listing", err)
	}
	return nil
}

// SharedNames returns the clusters that are shared in the settings' backend, sorted; none where there is no backend.
func (t *Target) SharedNames(ctx context.Context) ([]cluster.Name, error) {
	s := t.Shared()
	if s == nil {
		return nil, nil
	}
	list, err := s.documents.Read(ctx, indexDocument)
	if err != nil {
		return nil, s.failed("listing", err)
	}
	var names []cluster.Name
	for _, entry := range slices.Sorted(maps.Keys(list.Values)) {
		if name, err := cluster.ParseName(entry); err == nil {
			names = append(names, name)
		}
	}
	return names, nil
}
