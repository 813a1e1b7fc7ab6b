package stateserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Kinds of records, and of versions.
const (
	kindWrite    = "write"
	kindRollback = "rollback"
	kindDelete   = "delete"
	kindLock     = "lock"
	kindUnlock   = "unlock"
	kindVoid     = "void" // nothing has happened: it takes the number of a record that may not come to be
)

// Version is a version of a state.
type Version struct {
	Number    int64     `json:"version"`
	Kind      string    `json:"kind"`                // write, rollback or delete
	Of        int64     `json:"of,omitempty"`        // of a rollback: the version that is written again
	By        string    `json:"by"`                  // user
	At        time.Time `json:"at"`                  // by the server's clock; for people
	Serial    uint64    `json:"serial"`              // of a delete: that of the version before
	Lineage   string    `json:"lineage"`             // likewise
	Size      int       `json:"size"`                // bytes
	MD5       string    `json:"md5"`                 // hexadecimal
	SHA256    string    `json:"sha256"`              // hexadecimal
	Encrypted bool      `json:"encrypted,omitempty"` // by OpenTofu
	Client    string    `json:"client,omitempty"`    // address
	Agent     string    `json:"agent,omitempty"`     // what the client calls itself
}

// version is a version as it is kept.
type version struct {
	Version
	Object   string `json:"object"`             // name of its object
	Previous string `json:"previous,omitempty"` // that of the version before; empty: it is the first
}

// deleted reports whether there is no state: none was ever written, or it was deleted.
func (v *version) deleted() bool { return v == nil || v.Kind == kindDelete }

// Lock is who holds the lock of a state.
type Lock struct {
	ID       string          `json:"id"`
	By       string          `json:"by"` // user
	At       time.Time       `json:"at"`
	Document json.RawMessage `json:"document"` // as the client has sent it
}

// record is what has happened to a state, and what it is after that. The zero value is that of a state that never was.
type record struct {
	Seq      int64     `json:"seq"`
	ID       string    `json:"id"`
	Previous string    `json:"previous,omitempty"` // ID of the record before
	Kind     string    `json:"kind"`
	By       string    `json:"by"`
	At       time.Time `json:"at"`

	Lock     *Lock    `json:"lock,omitempty"`     // nil: not locked
	Released string   `json:"released,omitempty"` // ID of the last lock that was released
	Version  *version `json:"current,omitempty"`  // nil: there never was one
}

// next is the record after r, with nothing changed.
func (r record) next(kind, by string, at time.Time) record {
	return record{
		Seq: r.Seq + 1, ID: newID(), Previous: r.ID, Kind: kind, By: by, At: at.UTC().Truncate(time.Millisecond),
		Lock: r.Lock, Released: r.Released, Version: r.Version,
	}
}

const (
	keptRecords  = 64 // that are not deleted; a reader or writer for which it is too slow begins anew
	sweptAtATime = 2  // records that a write deletes at most
	mostTries    = 40 // against other writers
	tryPause     = 20 * time.Millisecond
)

// errUncertain means that the storage did not say whether a record was written.
var errUncertain = errors.New("the storage did not say whether it was written")

// errOvertaken means that a record was not written, for another was.
var errOvertaken = errors.New("another server was first")

// newest returns the newest record of a state, and the numbers of all that are there.
func (s *Server) newest(ctx context.Context, name string) (record, []int64, error) {
	for try := range mostTries {
		seqs, err := s.sequence(ctx, name)
		if err != nil {
			return record{}, nil, err
		}
		if len(seqs) == 0 {
			return record{}, nil, nil
		}
		r, err := s.record(ctx, name, seqs[len(seqs)-1])
		if !errors.Is(err, ErrNotFound) {
			return r, seqs, err
		}
		pause(ctx, try) // it was deleted meanwhile: others write much
	}
	return record{}, nil, fmt.Errorf("state %s changes too quickly to be read", name)
}

// sequence are the numbers of the records that are there, in order.
func (s *Server) sequence(ctx context.Context, name string) ([]int64, error) {
	keys, err := s.storage.List(ctx, logPrefix(name))
	if err != nil {
		return nil, fmt.Errorf("listing the records of state %s: %w", name, err)
	}
	var seqs []int64
	for _, key := range keys {
		if n := numberOf(key); n > 0 {
			seqs = append(seqs, n)
		}
	}
	return seqs, nil
}

func (s *Server) record(ctx context.Context, name string, seq int64) (record, error) {
	var r record
	object, err := s.storage.Read(ctx, logKey(name, seq))
	if err != nil {
		return r, fmt.Errorf("reading record %d of state %s: %w", seq, name, err)
	}
	parts, err := s.keys.open(object)
	if err == nil && (len(parts) != 1 || json.Unmarshal(parts[0], &r) != nil || r.Seq != seq) {
		err = errDamaged
	}
	if err != nil {
		return record{}, fmt.Errorf("reading record %d of state %s: %w", seq, name, err)
	}
	return r, nil
}

// change appends to the records of a state what decide makes of the newest one. Decide returns nil where there is nothing to
// do; it is called again where another server was first, and undo before that, if it is not nil.
func (s *Server) change(ctx context.Context, name string, decide func(record) (*record, error), undo func()) error {
	defer s.busy.lock(name)()
	for try := range mostTries {
		newest, seqs, err := s.newest(ctx, name)
		if err != nil {
			return err
		}
		next, err := decide(newest)
		if err != nil || next == nil {
			return err
		}
		if newest.Seq == 0 {
			if err := s.noteName(ctx, name); err != nil {
				return err
			}
		}
		err = s.append(ctx, name, *next)
		if err == nil {
			s.sweep(ctx, name, seqs)
			return nil
		}
		if !errors.Is(err, errOvertaken) {
			return err
		}
		if undo != nil {
			undo()
		}
		pause(ctx, try)
	}
	return fmt.Errorf("state %s: %w, again and again", name, errOvertaken)
}

// noteName keeps that there is a state of this name, so that it is listed.
func (s *Server) noteName(ctx context.Context, name string) error {
	err := s.storage.Create(ctx, nameKey(name), []byte(name+"\n"))
	if err != nil && !errors.Is(err, ErrExists) {
		return fmt.Errorf("writing down the name of state %s: %w", name, err)
	}
	return nil
}

// append writes a record. ErrOvertaken: it does not count, and never will.
func (s *Server) append(ctx context.Context, name string, r record) error {
	object, err := s.sealed(r)
	if err != nil {
		return err
	}
	written := s.storage.Create(ctx, logKey(name, r.Seq), object)
	if written != nil && !errors.Is(written, ErrExists) {
		if err := s.settle(ctx, name, r, written); err != nil {
			return err
		}
	}
	counts, err := s.counts(ctx, name, r, written == nil)
	switch {
	case err != nil:
		return fmt.Errorf("writing record %d of state %s: %w: %w", r.Seq, name, errUncertain, err)
	case !counts:
		return errOvertaken
	}
	return nil
}

func (s *Server) sealed(r record) ([]byte, error) {
	raw, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return s.keys.seal(raw)
}

// errRefused means that nothing was written, and nothing will be.
var errRefused = errors.New("it was not written")

// settle finds out what became of a record that was written with an error: it may be there, or come to be there later. A
// record of nothing in its place decides it.
func (s *Server) settle(ctx context.Context, name string, r record, written error) error {
	void := r
	void.ID, void.Kind = newID(), kindVoid
	// What the record would have changed is taken back.
	if before, err := s.record(ctx, name, r.Seq-1); err == nil {
		void.Lock, void.Released, void.Version = before.Lock, before.Released, before.Version
	} else if r.Seq == 1 {
		void.Lock, void.Released, void.Version = nil, "", nil
	} else {
		return fmt.Errorf("writing record %d of state %s: %w: %w", r.Seq, name, errUncertain, written)
	}
	object, err := s.sealed(void)
	if err != nil {
		return err
	}
	switch err := s.storage.Create(ctx, logKey(name, r.Seq), object); {
	case err == nil:
		return fmt.Errorf("writing record %d of state %s: %w: %w", r.Seq, name, errRefused, written)
	case errors.Is(err, ErrExists):
		return nil // by us, or by another: it is read
	default:
		return fmt.Errorf("writing record %d of state %s: %w: %w", r.Seq, name, errUncertain, written)
	}
}

// counts reports whether the record of a number is r, and was written while there was none with a higher number. Ours says
// that it is r.
func (s *Server) counts(ctx context.Context, name string, r record, ours bool) (bool, error) {
	if !ours {
		is, err := s.record(ctx, name, r.Seq)
		if err != nil && !errors.Is(err, ErrNotFound) || err == nil && is.ID != r.ID {
			return false, err
		}
	}
	seqs, err := s.sequence(ctx, name)
	switch {
	case err != nil:
		return false, err
	case len(seqs) == 0 || seqs[len(seqs)-1] < r.Seq:
		return false, fmt.Errorf("%w: it was written and is not listed", errDamaged)
	case seqs[len(seqs)-1] == r.Seq:
		return true, nil
	}
	after, err := s.record(ctx, name, r.Seq+1)
	if errors.Is(err, ErrNotFound) {
		return false, nil // it stands where older ones were deleted
	}
	return after.Previous == r.ID, err
}

// sweep deletes some of the records that nobody reads any longer. What it cannot delete the next write does.
func (s *Server) sweep(ctx context.Context, name string, seqs []int64) {
	for i := 0; i < sweptAtATime && i < len(seqs)-keptRecords; i++ {
		if err := s.storage.Delete(ctx, logKey(name, seqs[i])); err != nil {
			return
		}
	}
}

// pause waits between tries, longer each time, and so that two who wait do not meet again.
func pause(ctx context.Context, try int) {
	timer := time.NewTimer(time.Duration(rand.Int64N(int64(tryPause) * int64(min(try, 10)+1))))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
