package simhive

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// record is one value that the whole cluster keeps. The later one wins where two servers differ.
type record struct {
	Value json.RawMessage `json:"value"`
	Rev   int64           `json:"rev"`
}

// records are the cluster's, as one NATS keeps them in its directory. Safe for concurrent use.
type records struct {
	file  string     // empty: in memory only
	claim sync.Mutex // held by whoever looks whether seeding has begun and begins it

	mu   sync.Mutex
	kept map[string]record
}

func newRecords(store string) *records {
	r := &records{kept: map[string]record{}}
	if store == "" {
		return r
	}
	r.file = filepath.Join(store, "jetstream", "records.json")
	if text, err := os.ReadFile(r.file); err == nil {
		json.Unmarshal(text, &r.kept) // what cannot be read is begun anew
	}
	return r
}

func (r *records) get(key string) (record, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	found, ok := r.kept[key]
	return found, ok
}

// put makes a new version of a record and returns it.
func (r *records) put(key string, value json.RawMessage) record {
	r.mu.Lock()
	defer r.mu.Unlock()
	made := record{Value: value, Rev: max(time.Now().UnixNano(), r.kept[key].Rev+1)}
	r.kept[key] = made
	r.save()
	return made
}

// merge takes over what is later than the own version.
func (r *records) merge(others map[string]record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed := false
	for key, other := range others {
		if other.Rev > r.kept[key].Rev {
			r.kept[key] = other
			changed = true
		}
	}
	if changed {
		r.save()
	}
}

func (r *records) all() map[string]record {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make(map[string]record, len(r.kept))
	for key, value := range r.kept {
		all[key] = value
	}
	return all
}

// below are the values of the records whose keys begin with a prefix, but of those that were deleted.
func (r *records) below(prefix string) map[string]json.RawMessage {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := map[string]json.RawMessage{}
	for key, kept := range r.kept {
		if strings.HasPrefix(key, prefix) && string(kept.Value) != "null" {
			found[key] = kept.Value
		}
	}
	return found
}

func (r *records) save() {
	if r.file == "" {
		return
	}
	text, err := json.Marshal(r.kept)
	if err != nil {
		return
	}
	// A directory that was removed beneath a running NATS is its owner's doing. Nothing is synced to the disk: nodes
	// are many.
	if err := os.MkdirAll(filepath.Dir(r.file), 0o750); err == nil && os.WriteFile(r.file+".new", text, 0o600) == nil {
		os.Rename(r.file+".new", r.file)
	}
}
