package opentofu

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"
	"github.com/google/uuid"
	"github.com/hashicorp/terraform-exec/tfexec"

	"hive-test/pkg/progress"
	"hive-test/pkg/wait"
)

// A state in a backend is copied to the file where a local one would be, when a run begins and whenever it has changed: what reads a
// cluster's state reads that. Nobody writes there but the copy.

// refresh copies the state from the backend. A state that an earlier run could not write is written first. Without a backend there is
// nothing to copy.
func (r *Run) refresh(ctx context.Context) error {
	if !r.runner.options.Backend.Remote() {
		return nil
	}
	if err := r.pushErrored(ctx); err != nil {
		return err
	}
	return r.copyState(ctx)
}

// copyState copies the state from the backend; where a run could not write it there, the one that it has left is newer.
func (r *Run) copyState(ctx context.Context) error {
	if !r.runner.options.Backend.Remote() {
		return nil
	}
	if left, err := r.dir.errored(); left != "" || err != nil {
		if err != nil {
			return err
		}
		text, err := r.plain(ctx, left)
		if err != nil {
			return err
		}
		return renameio.WriteFile(r.dir.state(), []byte(text), 0o600)
	}
	text, err := r.pull(ctx)
	if err != nil {
		return err
	}
	return renameio.WriteFile(r.dir.state(), []byte(text), 0o600)
}

// copyTime bounds the copying of a state that has changed, whatever has become of the run.
const copyTime = 30 * time.Second

// copyChanged is copyState after a change, also for a run that is to end.
func (r *Run) copyChanged(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), copyTime)
	defer cancel()
	return r.copyState(ctx)
}

// pull returns the state that is in the backend; empty: none is.
func (r *Run) pull(ctx context.Context) (text string, err error) {
	err = r.step(ctx, "state pull", func(*stream) error {
		r.tofu.SetStdout(io.Discard) // a state is no narration
		var err error
		text, err = r.tofu.StatePull(ctx)
		return err
	})
	return text, err
}

// pushErrored writes what an earlier run could not write to the backend, and keeps the file beside it.
func (r *Run) pushErrored(ctx context.Context) error {
	left, err := r.dir.errored()
	if left == "" || err != nil {
		return err
	}
	text, err := r.plain(ctx, left)
	plain := r.dir.file("pushed.tfstate")
	if err == nil {
		err = renameio.WriteFile(plain, []byte(text), 0o600)
	}
	if err == nil {
		err = r.push(ctx, plain)
	}
	if err != nil {
		return fmt.Errorf("%s is newer than the state in the backend, and cannot be written there: %w", left, err)
	}
	return errors.Join(os.Remove(plain), os.Rename(left, left+".pushed"))
}

// plain returns a state of a file as it is without encryption: OpenTofu pushes no file that is encrypted (1.12), but reads one as the
// state of a directory.
func (r *Run) plain(ctx context.Context, path string) (string, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	var s struct {
		Encrypted json.RawMessage `json:"encrypted_data"`
	}
	if err := json.Unmarshal(raw, &s); err != nil || s.Encrypted == nil {
		return string(raw), err
	}
	scratch, err := os.MkdirTemp("", "hive-test-state-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	o := r.runner.options
	o.Module, o.Provider, o.Sink = nil, Provider{}, progress.Discard
	o.Backend = Backend{Passphrase: o.Backend.Passphrase}
	if err := os.WriteFile(StatePath(scratch), raw, 0o600); err != nil {
		return "", err
	}
	reader, err := New(o).Begin(ctx, scratch)
	if err != nil {
		return "", err
	}
	defer reader.Close()
	return reader.pull(ctx)
}

func (r *Run) push(ctx context.Context, path string) error {
	return r.step(ctx, "state push", func(out *stream) error {
		plain := out.plain()
		defer plain.flush()
		r.tofu.SetStdout(plain)
		return r.tofu.StatePush(ctx, path, tfexec.Lock(true), tfexec.LockTimeout(lockTimeout))
	})
}

// Document is what is kept in a backend besides states: values by name, as the outputs of a state that has no resources, so that
// wherever a state can be kept, it can.
type Document struct {
	// Values are empty where nothing is kept.
	Values map[string]string

	lineage string
	serial  uint64
	nonce   string // by which it is known whose writing it is
}

// Version differs with each time that the document is written; empty: it never was.
func (d Document) Version() string { return d.nonce }

// ErrChanged means that somebody else has written a document since it was read: nothing was written.
var ErrChanged = errors.New("it was changed meanwhile")

// Documents are documents in one backend. They are safe for concurrent use, by other processes that have the same directory, too.
type Documents struct {
	runner *Runner
	dir    string
}

// NewDocuments keeps documents in the backend of the options, and what the program needs for it below dir. They are kept as they are: what
// is secret, the caller encrypts.
func NewDocuments(o Options, dir string) *Documents {
	o.Module, o.Provider, o.Environment, o.Explain = nil, Provider{}, nil, nil
	o.Backend.Passphrase, o.documents = "", true
	return &Documents{New(o), dir}
}

// begin makes a directory ready for the document of that name, and keeps others on this machine from it until end.
func (d *Documents) begin(ctx context.Context, name string) (run *Run, end func(), err error) {
	dir := filepath.Join(d.dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, err
	}
	lock := flock.New(filepath.Join(dir, ".lock"))
	if _, err := lock.TryLockContext(ctx, 20*time.Millisecond); err != nil {
		return nil, nil, fmt.Errorf("wait for another process that reads or writes it: %w", err)
	}
	o := d.runner.options
	o.Backend = o.Backend.Of(name)
	if run, err = New(o).Begin(ctx, dir); err != nil {
		_ = lock.Unlock()
		return nil, nil, err
	}
	return run, func() {
		run.Close()
		_ = lock.Unlock()
	}, nil
}

// document is what the backend has now.
func (r *Run) document(ctx context.Context) (Document, error) {
	text, err := r.pull(ctx)
	if err != nil {
		return Document{}, err
	}
	return readDocument(text)
}

// Read returns a document; one that was never written has no values.
func (d *Documents) Read(ctx context.Context, name string) (Document, error) {
	run, end, err := d.begin(ctx, name)
	if err != nil {
		return Document{}, err
	}
	defer end()
	return run.document(ctx)
}

// Update reads a document and writes what change makes of its values, as often as others write it meanwhile. Where change reports
// false, nothing is written.
func (d *Documents) Update(ctx context.Context, name string, change func(values map[string]string) (changed bool)) error {
	run, end, err := d.begin(ctx, name)
	if err != nil {
		return err
	}
	defer end()
	for range (wait.Backoff{First: 20 * time.Millisecond, Max: time.Second}).Tries(ctx) {
		var document Document
		if document, err = run.document(ctx); err != nil {
			return err
		}
		if document.Values == nil {
			document.Values = map[string]string{}
		}
		if !change(document.Values) {
			return nil
		}
		if _, err = run.write(ctx, document); !errors.Is(err, ErrChanged) {
			return err
		}
	}
	return cmp.Or(err, context.Cause(ctx))
}

// writtenOutput differs with each time that a document is written.
const writtenOutput = "written"

// documentState is the state that a document is kept in.
type documentState struct {
	Version   int                       `json:"version"`
	Serial    uint64                    `json:"serial"`
	Lineage   string                    `json:"lineage"`
	Outputs   map[string]documentOutput `json:"outputs"`
	Resources []json.RawMessage         `json:"resources"`
	Program   string                    `json:"terraform_version"`
}

type documentOutput struct {
	Value     string `json:"value"`
	Type      string `json:"type"`
	Sensitive bool   `json:"sensitive,omitempty"`
}

func readDocument(text string) (Document, error) {
	if len(bytes.TrimSpace([]byte(text))) == 0 {
		return Document{}, nil
	}
	var s documentState
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return Document{}, fmt.Errorf("what the backend has cannot be read: %w", err)
	}
	if len(s.Resources) > 0 {
		return Document{}, errors.New("what the backend has there is a state with resources, and not hive-test's: nothing was changed")
	}
	document := Document{Values: map[string]string{}, lineage: s.Lineage, serial: s.Serial}
	for name, output := range s.Outputs {
		document.Values[name] = output.Value
	}
	document.nonce = document.Values[writtenOutput]
	delete(document.Values, writtenOutput)
	return document, nil
}

// conflict is what the programs say where a state is not the one after that which is kept (read in their source).
var conflict = regexp.MustCompile(`cannot (?:import|overwrite) (?:existing )?state|already exists|unrelated lineage`)

// Write writes a document after the one that was read, and returns it as it is then. It is ErrChanged where somebody else has written it
// since.
func (d *Documents) Write(ctx context.Context, name string, document Document) (Document, error) {
	run, end, err := d.begin(ctx, name)
	if err != nil {
		return Document{}, err
	}
	defer end()
	return run.write(ctx, document)
}

func (r *Run) write(ctx context.Context, document Document) (Document, error) {
	written, err := r.writeDocument(ctx, document)
	if !errors.Is(err, ErrChanged) || document.nonce == "" {
		return written, err
	}
	// Which serial a state gets is the program's affair: it is looked up where it is not the one that was expected.
	now, readErr := r.document(ctx)
	if readErr != nil || now.nonce != document.nonce {
		return Document{}, errors.Join(readErr, err)
	}
	document.serial, document.lineage = now.serial, now.lineage
	return r.writeDocument(ctx, document)
}

// writeDocument is one try.
func (r *Run) writeDocument(ctx context.Context, document Document) (Document, error) {
	next := documentState{
		Version: 4, Serial: document.serial + 1, Lineage: cmp.Or(document.lineage, uuid.NewString()), Program: r.binary.Version,
		Outputs: map[string]documentOutput{}, Resources: []json.RawMessage{},
	}
	for key, value := range document.Values {
		next.Outputs[key] = documentOutput{Value: value, Type: "string", Sensitive: true}
	}
	// Of two who write at once the second must be refused, even where both want the same.
	nonce := uuid.NewString()
	next.Outputs[writtenOutput] = documentOutput{Value: nonce, Type: "string"}
	raw, err := json.Marshal(next)
	if err != nil {
		return Document{}, err
	}
	path := r.dir.file("document.tfstate")
	if err := renameio.WriteFile(path, raw, 0o600); err != nil {
		return Document{}, err
	}
	defer func() { _ = os.Remove(path) }()
	if err := r.push(ctx, path); err != nil {
		if failure, ok := errors.AsType[*Failure](err); ok && conflict.MatchString(failure.Error()) {
			err = errors.Join(ErrChanged, err)
		}
		return Document{}, err
	}
	if document.lineage != "" { // both programs count once more where there was a state (read in their source)
		document.serial, document.nonce = next.Serial+1, nonce
		return document, nil
	}
	// The first state in a backend gets a lineage and a serial of the program's own.
	kept, err := r.document(ctx)
	if err == nil && kept.nonce != nonce {
		err = ErrChanged
	}
	return kept, err
}
