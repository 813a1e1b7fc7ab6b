package cluster

import (
	"errors"
	"slices"
	"testing"
	"time"
)

// What hive was formed of outlasts changes of the cluster, until it is formed anew.
func TestFormation(t *testing.T) {
	nodes := func(r *Record, count int) {
		r.Nodes = nil
		for i := range count {
			r.Nodes = append(r.Nodes, Node{Name: r.Name.Node(i + 1), Index: i + 1})
		}
	}
	earlier := func(r *Record, configured ...string) {
		r.Formation = nil
		for _, name := range configured {
			r.SetProgress(PhaseConfigure, name, NodeProgress{})
		}
		r.End(PhaseConfigure, nil, time.Time{})
	}
	for _, tt := range []struct {
		name      string
		change    func(*Record)
		formed    bool
		outsiders []string
		others    bool
	}{
		{"formed", func(*Record) {}, true, nil, false},
		{"grown", func(r *Record) { nodes(r, 3) }, true, []string{"ci-3"}, true},
		{"shrunk", func(r *Record) { nodes(r, 1); r.ForgetNodes("ci-2") }, true, nil, true},
		{"one made anew", func(r *Record) { r.ForgetNodes("ci-2") }, true, []string{"ci-2"}, true},
		{"a configure that failed", func(r *Record) { r.End(PhaseConfigure, errors.New(""), time.Time{}) }, true, nil, false},
		{"all made anew", func(r *Record) { r.ForgetNodes("ci-1", "ci-2") }, false, nil, false},
		{"dropped by force", func(r *Record) { nodes(r, 3); r.Unform() }, false, nil, false},
		{"dropped by force, though an earlier version has formed it", func(r *Record) {
			earlier(r, "ci-1", "ci-2")
			r.AWS = &AWS{}
			r.Unform()
		}, false, nil, false},
		{"formed by an earlier version", func(r *Record) { earlier(r, "ci-1") }, true, []string{"ci-2"}, true},
		{"of an earlier version, and shrunk", func(r *Record) {
			earlier(r, "ci-1", "ci-2")
			r.KeepFormation(false)
			nodes(r, 1)
			r.ForgetNodes("ci-2")
		}, true, nil, true},
		{"of an earlier version, grown, and begun to be configured", func(r *Record) {
			earlier(r, "ci-1", "ci-2")
			nodes(r, 3)
			r.KeepFormation(false)
			r.SetProgress(PhaseConfigure, "ci-3", NodeProgress{})
		}, true, []string{"ci-3"}, true},
		{"of an earlier version that has formed none", func(r *Record) {
			r.Formation = nil
			r.KeepFormation(false)
			r.End(PhaseConfigure, errors.New(""), time.Time{})
		}, false, nil, false},
	} {
		r := &Record{Name: "ci"}
		nodes(r, 2)
		r.Form()
		tt.change(r)
		if _, formed := r.Formed(); formed != tt.formed || r.OtherMembers() != tt.others ||
			!slices.Equal(r.Outsiders(), tt.outsiders) {
			t.Errorf("%s: formed %t, outsiders %v, others %t", tt.name, formed, r.Outsiders(), r.OtherMembers())
		}
	}
}

// A phase that begins again remembers that it has ended well before.
func TestBeginRemembersAnEarlierEnd(t *testing.T) {
	r := &Record{}
	for i, want := range []bool{false, false, true, true} {
		r.Begin(PhaseUp, "", time.Time{})
		if got := r.Phases[PhaseUp].Before; got != want {
			t.Errorf("begun %d times: %t, want %t", i+1, got, want)
		}
		if i == 1 {
			r.End(PhaseUp, nil, time.Time{})
		}
	}
}
