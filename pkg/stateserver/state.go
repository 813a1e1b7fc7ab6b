package stateserver

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// refusal is an answer that says why a request is not followed.
type refusal struct {
	status int
	text   string
	holder json.RawMessage // of the lock that is in the way; nil: the text is the answer
}

// Error is the text.
func (r refusal) Error() string { return r.text }

func refuse(status int, format string, args ...any) error {
	return refusal{status: status, text: fmt.Sprintf(format, args...)}
}

// caller is who asks.
type caller struct {
	user   string
	client string // address
	agent  string // User-Agent
	lockID string // that the request names; empty: none
}

// read returns the current version of a state and its bytes. The version is nil where there is no state.
func (s *Server) read(ctx context.Context, name string) (*version, []byte, error) {
	newest, _, err := s.newest(ctx, name)
	if err != nil || newest.Version.deleted() {
		return nil, nil, err
	}
	data, err := s.content(ctx, name, newest.Version)
	return newest.Version, data, err
}

// content returns the bytes of a version, which are what was written or an error.
func (s *Server) content(ctx context.Context, name string, v *version) ([]byte, error) {
	object, err := s.storage.Read(ctx, versionPrefix(name)+v.Object)
	if err != nil {
		return nil, fmt.Errorf("reading version %d of state %s: %w", v.Number, name, err)
	}
	parts, err := s.keys.open(object)
	if err == nil && (len(parts) != 2 || sumOf(parts[1]) != v.SHA256) {
		err = errDamaged
	}
	if err != nil {
		return nil, fmt.Errorf("reading version %d of state %s: %w", v.Number, name, err)
	}
	return parts[1], nil
}

func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// allowed refuses a change to a state that is locked by another, or that relies on a lock which is not held any longer.
func (r record) allowed(lockID string) error {
	switch {
	case r.Lock == nil && lockID == "", r.Lock != nil && r.Lock.ID == lockID:
		return nil
	case r.Lock == nil:
		return refuse(http.StatusConflict, "the state is not locked by %s any longer: somebody has unlocked it", lockID)
	}
	return r.held()
}

// held is the refusal because of a lock.
func (r record) held() error {
	return refusal{
		status: http.StatusLocked, holder: r.Lock.Document,
		text: fmt.Sprintf("the state is locked by %s since %s, with ID %s", r.Lock.By, r.Lock.At.Format(time.RFC3339), r.Lock.ID),
	}
}

// write makes data the current version. It returns that version, and whether it was the current one already.
func (s *Server) write(ctx context.Context, name string, c caller, data []byte) (v *version, same bool, err error) {
	file, err := parseState(data)
	if err != nil {
		return nil, false, refuse(http.StatusBadRequest, "%v", err)
	}
	return s.writeVersion(ctx, name, c, func(newest record) (*Version, []byte, error) {
		if err := supersedes(file, data, newest.Version); err != nil {
			return nil, nil, err
		}
		return &Version{Kind: kindWrite, Serial: file.serial, Lineage: file.lineage, Encrypted: file.encrypted}, data, nil
	})
}

// errSame means that the current version is what is to be written.
var errSame = errors.New("it is the current version")

// supersedes refuses a state that does not come after the current version.
func supersedes(file stateFile, data []byte, current *version) error {
	switch {
	case current.deleted():
		return nil
	case current.SHA256 == sumOf(data):
		return errSame
	case current.Lineage != file.lineage:
		return refuse(http.StatusConflict, "the state has lineage %s, and what is sent has %s: they are of different origin. "+
			"To replace it, delete it first", current.Lineage, file.lineage)
	case current.Serial > file.serial:
		return refuse(http.StatusConflict, "the state has serial %d, and what is sent has %d: it is older. "+
			"To go back to a version, use its history", current.Serial, file.serial)
	case current.Serial == file.serial:
		return refuse(http.StatusConflict, "the state has serial %d, as what is sent, and is another one: both were made of the "+
			"same version", current.Serial)
	}
	return nil
}

// writeVersion appends the version that decide makes of the newest record, with its bytes.
func (s *Server) writeVersion(
	ctx context.Context, name string, c caller, decide func(newest record) (*Version, []byte, error),
) (written *version, same bool, err error) {
	object := ""
	remove := func() {
		if object != "" {
			_ = s.storage.Delete(ctx, versionPrefix(name)+object) // else it lies there, and is nobody's version
		}
	}
	err = s.change(ctx, name, func(newest record) (*record, error) {
		if err := newest.allowed(c.lockID); err != nil {
			return nil, err
		}
		made, data, err := decide(newest)
		if errors.Is(err, errSame) {
			written, same = newest.Version, true
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		next := newest.next(made.Kind, c.user, s.now())
		written = s.following(newest.Version, made, data, next, c)
		object = written.Object
		next.Version = written
		return &next, s.keep(ctx, name, written, data)
	}, remove)
	if errors.Is(err, errRefused) {
		remove()
	}
	if err != nil {
		return nil, false, err
	}
	return written, same, nil
}

// following fills in a version that comes after another, which is nil for the first.
func (s *Server) following(current *version, made *Version, data []byte, r record, c caller) *version {
	v := &version{Version: *made}
	v.Number = 1
	if current != nil {
		v.Number, v.Previous = current.Number+1, current.Object
	}
	sum := md5.Sum(data)
	v.By, v.At, v.Client, v.Agent = c.user, r.At, c.client, c.agent
	v.Size, v.MD5, v.SHA256 = len(data), hex.EncodeToString(sum[:]), sumOf(data)
	v.Object = versionName(v.Number, r.ID)
	return v
}

// keep writes the object of a version.
func (s *Server) keep(ctx context.Context, name string, v *version, data []byte) error {
	head, err := json.Marshal(v)
	if err != nil {
		return err
	}
	object, err := s.keys.seal(head, data)
	if err != nil {
		return err
	}
	if err := s.storage.Create(ctx, versionPrefix(name)+v.Object, object); err != nil {
		return fmt.Errorf("writing version %d of state %s: %w: %w", v.Number, name, errRefused, err)
	}
	return nil
}

// remove makes the state be gone. Its versions stay.
func (s *Server) remove(ctx context.Context, name string, c caller) error {
	_, _, err := s.writeVersion(ctx, name, c, func(newest record) (*Version, []byte, error) {
		if newest.Version.deleted() {
			return nil, nil, errSame
		}
		return &Version{Kind: kindDelete, Serial: newest.Version.Serial, Lineage: newest.Version.Lineage}, nil, nil
	})
	return err
}

// rollback writes an earlier version again, with a serial after the current one.
func (s *Server) rollback(ctx context.Context, name string, c caller, number int64) (*version, error) {
	v, _, err := s.writeVersion(ctx, name, c, func(newest record) (*Version, []byte, error) {
		old, err := s.find(ctx, name, newest.Version, number)
		if err != nil {
			return nil, nil, err
		}
		switch {
		case old.deleted():
			return nil, nil, refuse(http.StatusConflict, "version %d is a deletion: delete the state instead", number)
		case old.Encrypted:
			return nil, nil, refuse(http.StatusConflict, "version %d is encrypted by OpenTofu, which has its serial within: pull "+
				"that version and push it with the key", number)
		}
		data, err := s.content(ctx, name, old)
		if err != nil {
			return nil, nil, err
		}
		serial := max(newest.Version.Serial, old.Serial) + 1
		data, err = withSerial(data, serial)
		return &Version{Kind: kindRollback, Of: number, Serial: serial, Lineage: old.Lineage}, data, err
	})
	return v, err
}

// lock takes the lock of a state for document, which names the ID. The same ID again is fine: the client did not hear the
// answer the first time.
func (s *Server) lock(ctx context.Context, name string, c caller, document json.RawMessage) error {
	return s.change(ctx, name, func(newest record) (*record, error) {
		switch {
		case newest.Lock != nil && newest.Lock.ID == c.lockID && newest.Lock.By == c.user:
			return nil, nil
		case newest.Lock != nil:
			return nil, newest.held()
		}
		next := newest.next(kindLock, c.user, s.now())
		next.Lock = &Lock{ID: c.lockID, By: c.user, At: next.At, Document: document}
		return &next, nil
	}, nil)
}

// unlock releases the lock of an ID. That it was the last one released is fine, as for lock.
func (s *Server) unlock(ctx context.Context, name string, c caller) error {
	return s.change(ctx, name, func(newest record) (*record, error) {
		switch {
		case newest.Lock == nil && newest.Released == c.lockID:
			return nil, nil
		case newest.Lock == nil:
			return nil, refuse(http.StatusConflict, "the state is not locked")
		case newest.Lock.ID != c.lockID:
			r, _ := errors.AsType[refusal](newest.held())
			r.status = http.StatusConflict
			return nil, r
		}
		next := newest.next(kindUnlock, c.user, s.now())
		next.Lock, next.Released = nil, newest.Lock.ID
		return &next, nil
	}, nil)
}

// head returns what an object of a version says of it.
func (s *Server) head(ctx context.Context, name, object string) (*version, error) {
	key := versionPrefix(name) + object
	start, err := s.storage.ReadStart(ctx, key, mostHead)
	if err != nil {
		return nil, fmt.Errorf("reading version %s of state %s: %w", object, name, err)
	}
	part, missing, err := s.keys.openFirst(start)
	if err == nil && missing > 0 {
		if start, err = s.storage.ReadStart(ctx, key, missing); err == nil {
			part, missing, err = s.keys.openFirst(start)
		}
	}
	v := new(version)
	if err == nil && (missing > 0 || json.Unmarshal(part, v) != nil || v.Object != object) {
		err = errDamaged
	}
	if err != nil {
		return nil, fmt.Errorf("reading version %s of state %s: %w", object, name, err)
	}
	return v, nil
}

// find returns a version by its number. Where a server has died between a version and its record, there are two of a
// number, and only the one that others came after was ever current.
func (s *Server) find(ctx context.Context, name string, current *version, number int64) (*version, error) {
	missing := refuse(http.StatusNotFound, "state %s has no version %d", name, number)
	if current == nil || number > current.Number || number < 1 {
		return nil, missing
	}
	if number == current.Number {
		return current, nil
	}
	keys, err := s.storage.List(ctx, versionPrefix(name)+versionName(number, ""))
	if err != nil {
		return nil, fmt.Errorf("listing the versions of state %s: %w", name, err)
	}
	switch len(keys) {
	case 0:
		return nil, missing
	case 1:
		return s.head(ctx, name, keys[0][len(versionPrefix(name)):])
	}
	after, err := s.find(ctx, name, current, number+1)
	if err != nil {
		return nil, err
	}
	return s.head(ctx, name, after.Previous)
}

// history returns at most limit versions below a number, newest first, and the record that they were read by. Before 0 means
// all.
func (s *Server) history(ctx context.Context, name string, before int64, limit int) (record, []Version, error) {
	newest, _, err := s.newest(ctx, name)
	if err != nil || newest.Version == nil {
		return newest, nil, err
	}
	v := newest.Version
	if before > 0 && before <= v.Number {
		if v, err = s.find(ctx, name, newest.Version, before-1); err != nil {
			return newest, nil, err
		}
	}
	var versions []Version
	for {
		versions = append(versions, v.Version)
		if v.Previous == "" || len(versions) == limit {
			return newest, versions, nil
		}
		if v, err = s.head(ctx, name, v.Previous); err != nil {
			return newest, nil, err
		}
	}
}

// State is a state in the list of states.
type State struct {
	Name    string  `json:"name"`
	Version Version `json:"current"`
	Deleted bool    `json:"deleted,omitempty"`
	Lock    *Lock   `json:"lock,omitempty"`
	Problem string  `json:"problem,omitempty"` // why nothing else is known of it
}

// list returns the states whose names are wanted, in order. Those that were locked and never written have no version.
func (s *Server) list(ctx context.Context, wanted func(name string) bool) ([]State, error) {
	keys, err := s.storage.List(ctx, namesPrefix)
	if err != nil {
		return nil, fmt.Errorf("listing the states: %w", err)
	}
	names := make([]string, 0, len(keys))
	for _, key := range keys {
		if name := nameOfKey(key); CheckName(name) == nil && wanted(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	states := make([]State, len(names))
	inParallel(len(names), func(i int) {
		newest, _, err := s.newest(ctx, names[i])
		if err != nil {
			states[i] = State{Name: names[i], Problem: "its records cannot be read"}
			s.log.Error("a state cannot be read", "state", names[i], "error", err)
			return
		}
		states[i] = State{Name: names[i], Lock: newest.Lock, Deleted: newest.Version.deleted()}
		if newest.Version != nil {
			states[i].Version = newest.Version.Version
		}
	})
	return states, nil
}

// sameSum reports whether data has the MD5 sum that a client says.
func sameSum(data []byte, raw []byte) bool {
	sum := md5.Sum(data)
	return bytes.Equal(sum[:], raw)
}
