package opentofu

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/google/renameio/v2"
	"github.com/hashicorp/terraform-exec/tfexec"
)

// States reads and writes states by hand, in a backend or in a file. What it returns and takes is as it is without encryption. It is safe
// for concurrent use, as far as the names of states differ.
type States struct {
	options Options
	file    string // of the state, where there is no backend
}

// NewStates is about the states in the backend of the options, or the one in that file where they have none.
func NewStates(o Options, file string) *States {
	o.Module, o.Provider, o.Environment, o.Explain = nil, Provider{}, nil, nil
	return &States{o, file}
}

// work begins a run on the state of that name, in a directory of its own that is gone afterwards, calls do with it and with the state,
// in a backend.
func (s *States) work(ctx context.Context, name string, change func(*Options), do func(run *Run, now string) error) (err error) {
	o := s.options
	o.Backend = o.Backend.Of(name)
	if change != nil {
		change(&o)
	}
	scratch, err := os.MkdirTemp("", "hive-test-state-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	run, err := New(o).Begin(ctx, scratch)
	if err != nil {
		return err
	}
	defer run.Close()
	now, err := os.ReadFile(run.dir.state()) // Begin has copied it there
	if err != nil {
		return err
	}
	return do(run, string(now))
}

// Pull returns the state of that name; empty: there is none.
func (s *States) Pull(ctx context.Context, name string) (text string, err error) {
	if !s.options.Backend.Remote() {
		raw, err := os.ReadFile(s.file)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return string(raw), err
	}
	err = s.work(ctx, name, nil, func(_ *Run, now string) error {
		text = now
		return nil
	})
	return text, err
}

// Push writes a state. One of another origin, or with a serial that is not higher, is refused.
func (s *States) Push(ctx context.Context, name, text string) error {
	return s.write(ctx, name, func(string) (string, error) { return text, nil })
}

// Replace writes a state in place of the one that is there, as its next one, wherever it is from.
func (s *States) Replace(ctx context.Context, name, text string) error {
	return s.write(ctx, name, func(now string) (string, error) { return after(now, text, false) })
}

// Empty takes all resources out of a state.
func (s *States) Empty(ctx context.Context, name string) error {
	return s.write(ctx, name, func(now string) (string, error) {
		if strings.TrimSpace(now) == "" {
			return "", nil
		}
		return after(now, now, true)
	})
}

// after is a state as the one that follows another.
func after(now, text string, emptied bool) (string, error) {
	current, err := ParseState(now)
	if err != nil {
		return "", err
	}
	return following(current, text, emptied)
}

// write writes what is to follow the state that is there; nothing where that is empty.
func (s *States) write(ctx context.Context, name string, next func(now string) (string, error)) error {
	if !s.options.Backend.Remote() {
		return s.writeFile(next)
	}
	return s.work(ctx, name, nil, func(run *Run, now string) error {
		text, err := next(now)
		if err != nil || text == "" {
			return err
		}
		file := run.dir.file("pushed.tfstate")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return err
		}
		return run.push(ctx, file)
	})
}

// writeFile is write without a program, which would fetch the providers of the state first: it refuses what a program does.
func (s *States) writeFile(next func(now string) (string, error)) error {
	raw, err := os.ReadFile(s.file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	text, err := next(string(raw))
	if err != nil || text == "" || text == string(raw) {
		return err
	}
	if err := follows(string(raw), text); err != nil {
		return err
	}
	if len(raw) > 0 {
		if err := renameio.WriteFile(s.file+".backup", raw, 0o600); err != nil {
			return err
		}
	}
	return renameio.WriteFile(s.file, []byte(text), 0o600)
}

// follows is an error unless a state can be written over another one.
func follows(now, next string) error {
	was, err := ParseState(now)
	if err != nil {
		return err
	}
	is, err := ParseState(next)
	switch {
	case err != nil:
		return err
	case was.Lineage == "":
		return nil
	case was.Lineage != is.Lineage:
		return fmt.Errorf("it is of another origin: its lineage is %s, and that of the state %s", is.Lineage, was.Lineage)
	case is.Serial <= was.Serial:
		return fmt.Errorf("it is not newer: its serial is %d, and that of the state %d", is.Serial, was.Serial)
	}
	return nil
}

// Plain returns a state of a file as it is without encryption.
func (s *States) Plain(ctx context.Context, name, path string) (text string, err error) {
	raw, err := os.ReadFile(path)
	if err != nil || !bytes.Contains(raw, []byte(`"encrypted_data"`)) {
		return string(raw), err
	}
	err = s.work(ctx, name, nil, func(run *Run, _ string) (err error) {
		text, err = run.plain(ctx, path)
		return err
	})
	return text, err
}

// StateLock is a lock that a program holds on a state. What the backend does not tell is empty.
type StateLock struct {
	ID, Who, Operation string
	Created            time.Time
}

// Lock returns the lock that is on a state; nil: there is none.
func (s *States) Lock(ctx context.Context, name string) (lock *StateLock, err error) {
	err = s.work(ctx, name, nil, func(run *Run, _ string) error {
		// A plan locks before it does anything else; of what else it may lack here nothing is to be known.
		run.locked = ""
		err := run.once(ctx, "plan", func(*stream) error {
			_, err := run.tofu.Plan(ctx, tfexec.Refresh(false), tfexec.Lock(true), tfexec.LockTimeout("0s"))
			return err
		})
		if run.locked != "" {
			lock = readLock(run.locked, err)
		}
		return ctx.Err()
	})
	return lock, err
}

// lockLine is one line of a lock in a program's error.
var lockLine = regexp.MustCompile(`(?m)^\W*(Who|Operation|Created):\s+(.+?)\s*$`)

func readLock(id string, err error) *StateLock {
	lock := &StateLock{ID: id}
	failure, ok := errors.AsType[*Failure](err)
	if !ok {
		return lock
	}
	for _, d := range failure.Diagnostics {
		for _, found := range lockLine.FindAllStringSubmatch(d.Detail, -1) {
			switch value := found[2]; found[1] {
			case "Who":
				lock.Who = value
			case "Operation":
				lock.Operation = strings.TrimPrefix(value, "OperationType")
			case "Created":
				lock.Created, _ = time.Parse("2006-01-02 15:04:05.999999999 -0700 MST", value) // else it is not known
			}
		}
	}
	return lock
}

// Unlock takes the lock with that id from a state, whoever holds it.
func (s *States) Unlock(ctx context.Context, name, id string) error {
	breaking := func(o *Options) { o.Backend = o.Backend.unlocking(id) }
	return s.work(ctx, name, breaking, func(run *Run, _ string) error {
		return run.step(ctx, "force-unlock", func(out *stream) error {
			plain := out.plain()
			defer plain.flush()
			run.tofu.SetStdout(plain)
			return run.tofu.ForceUnlock(ctx, id)
		})
	})
}

// unlocking is the backend for a program that is to break a lock: Terraform sends a server no id of it (1.11), so the address has it.
func (b Backend) unlocking(id string) Backend {
	address, ok := b.Config["unlock_address"].(string)
	if b.Type != "http" || !ok {
		return b
	}
	b.Config = maps.Clone(b.Config)
	separator := "?"
	if strings.Contains(address, "?") {
		separator = "&"
	}
	b.Config["unlock_address"] = address + separator + "ID=" + url.QueryEscape(id)
	return b
}
