package iac

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"hive-test/pkg/gateway/wire"
	"hive-test/pkg/wait"
)

// Phases are the parts of a resource's life, in order.
func Phases() []string { return []string{"create", "read", "update", "no diff", "delete"} }

// Cell is what an endpoint does of one part of one resource's life.
type Cell struct {
	Verdict Verdict `json:"verdict" jsonschema:"enum=works,enum=stub,enum=wrong shape,enum=missing,enum=fails,enum=blocked"`
	Call    string  `json:"call,omitempty"` // that has decided, where it does not work
	Why     string  `json:"why,omitempty"`
}

// Row is a resource. A part that it does not have is in no cell.
type Row struct {
	Resource string          `json:"resource"`
	Cells    map[string]Cell `json:"cells"` // by phase
}

// Table is what an endpoint does of all resources.
type Table struct {
	Schema   int       `json:"schema"`
	Endpoint string    `json:"endpoint"`
	Time     time.Time `json:"time"`
	Rows     []Row     `json:"rows"`
	Calls    int       `json:"calls"` // that were made
}

const tableSchema = 1

// Works reports whether all parts of all resources do.
func (t Table) Works() bool {
	for _, row := range t.Rows {
		for _, cell := range row.Cells {
			if cell.Verdict != Works {
				return false
			}
		}
	}
	return true
}

// Options say how an endpoint is probed.
type Options struct {
	// Patience is how long a state is waited for.
	Patience time.Duration
	// Only are the resources that are probed, with those that they need; none: all.
	Only []string
	// Tell is told of every row when its cells but delete are known; nil: nobody is.
	Tell func(Row)
}

// resource is one of the provider's: the calls that it makes for each part of its life. A nil part is one that it does not
// have. Parts are done in the order of the resources, and delete in the opposite one.
type resource struct {
	name  string
	needs []string // resources that must have been created
	sdk   SDK      // that the provider calls it with, from 5.x to 5.46; later ones use v2 only
	parts map[string]func(*step)
}

// run is a probe of an endpoint.
type run struct {
	endpoint Endpoint
	patience time.Duration
	prefix   string            // of all names that it gives
	ids      map[string]string // of what was made, by resource or by what it is
	created  map[string]bool
	rows     []Row
}

// Probe makes the provider's calls for each of its resources and tells what came of each. What it has made is deleted at
// the end, also when ctx ends.
func Probe(ctx context.Context, endpoint Endpoint, o Options) Table {
	var random [4]byte
	_, _ = rand.Read(random[:]) // it never fails
	calls := &counter{next: endpoint.Client.Transport}
	client := *endpoint.Client
	client.Transport = calls
	endpoint.Client = &client
	r := &run{
		endpoint: endpoint, patience: o.Patience, prefix: "hive-test-probe-" + hex.EncodeToString(random[:]),
		ids: map[string]string{}, created: map[string]bool{},
	}
	all := chosenOf(resources(), o.Only)
	for _, res := range all {
		row := Row{Resource: res.name, Cells: map[string]Cell{}}
		for _, phase := range Phases() {
			if part := res.parts[phase]; part != nil && phase != "delete" {
				row.Cells[phase] = r.try(ctx, res, phase, part)
			}
		}
		r.rows = append(r.rows, row)
		if o.Tell != nil {
			o.Tell(row)
		}
	}
	// What was made goes, though nobody waits for it any more.
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*o.Patience)
	defer cancel()
	for i, res := range slices.Backward(all) {
		if part := res.parts["delete"]; part != nil {
			r.rows[i].Cells["delete"] = r.try(undo, res, "delete", part)
		}
	}
	return Table{
		Schema: tableSchema, Endpoint: endpoint.URL, Time: time.Now().UTC().Truncate(time.Second), Rows: r.rows,
		Calls: int(calls.made.Load()),
	}
}

// chosenOf returns the resources with the names and those that they need. Those that are only read are always there, for
// others take names from them.
func chosenOf(all []resource, only []string) []resource {
	if len(only) == 0 {
		return all
	}
	wanted := map[string]bool{}
	for _, name := range only {
		wanted[name] = true
	}
	for _, res := range slices.Backward(all) { // what a resource needs is before it
		if wanted[res.name] {
			for _, need := range res.needs {
				wanted[need] = true
			}
		}
	}
	return slices.DeleteFunc(all, func(res resource) bool {
		return !wanted[res.name] && !strings.HasPrefix(res.name, "data.") && res.name != "provider"
	})
}

// try does a part of a resource's life.
func (r *run) try(ctx context.Context, res resource, phase string, part func(*step)) Cell {
	s := &step{run: r, ctx: ctx, sdk: res.sdk, persist: phase == "delete"}
	for _, need := range res.needs {
		if !r.created[need] {
			return Cell{Verdict: Blocked, Why: "there is no " + need}
		}
	}
	_, creates := res.parts["create"]
	if phase != "create" && creates && !r.created[res.name] {
		return Cell{Verdict: Blocked, Why: "it was not created"}
	}
	part(s)
	if phase == "create" || phase == "read" && !creates {
		r.created[res.name] = !s.failed() || r.ids[res.name] != "" // what was made and is not as it should be is deleted, too
	}
	if !s.failed() {
		return Cell{Verdict: Works}
	}
	return Cell{Verdict: s.verdict, Call: s.call, Why: s.why}
}

// tags are the tags of what is made, as the provider gives them on creation.
func (s *step) tags(kind string) []any {
	return wire.List(wire.Object{"ResourceType": kind, "Tags": wire.List(s.tag("Name", s.prefix))})
}

func (s *step) tag(key, value string) wire.Object { return wire.Object{"Key": key, "Value": value} }

// retag changes the tags of a resource as an update does, and proves that reads tell of it.
func (s *step) retag(id string, read func() wire.Object) {
	s.do("CreateTags", wire.Object{"Resources": wire.Strings(id), "Tags": wire.List(s.tag("probe", "two"))})
	o := read()
	s.is(o, "CreateTags", "Tags.Value", "two")
	s.do("DeleteTags", wire.Object{
		"Resources": wire.Strings(id), "Tags": wire.List(s.tag("probe", "two")),
	})
	if o = read(); slices.Contains(o.At("Tags.Key"), "probe") {
		s.fail(Stub, "DeleteTags", "a tag that was deleted is still told of")
	}
}

// unchanged reads until two reads in a row are the same: a plan after an apply finds no difference. What changes from one
// state to another meanwhile is none.
func unchanged(read func(*step)) func(*step) {
	return func(s *step) {
		ctx, cancel := context.WithTimeout(s.ctx, s.patience)
		defer cancel()
		var last []any
		for range (wait.Backoff{First: 20 * time.Millisecond, Max: time.Second}).Tries(ctx) {
			s.read = nil
			if read(s); s.failed() {
				return
			}
			if last != nil && same(last, s.read) {
				return
			}
			last = s.read
		}
		s.fail(Stub, "its reads", "no two of them tell the same")
	}
}

// String is for messages.
func (c Cell) String() string {
	if c.Verdict == Works || c.Call == "" {
		return string(c.Verdict)
	}
	return fmt.Sprintf("%s: %s: %s", c.Verdict, c.Call, c.Why)
}
