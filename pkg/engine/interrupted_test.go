package engine

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
	"hive-test/pkg/deploy"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/state"
)

// Who reads of an interruption is told to go on where the cluster was there before, and to remove only what is new.
func TestInterruption(t *testing.T) {
	now := time.Now()
	for _, tt := range []struct {
		finish, signal string
		says           string
		next           []string
	}{
		{"hive-test down ci --clusters-dir c", "interrupt", "was interrupted (INT) at ", nil},
		{"hive-test down ci --clusters-dir c", "", "did not come to its end (it was killed, or its disk was full); remove what it left: hive-test down ci --clusters-dir c", nil},
		{"hive-test up ci --clusters-dir c", "", "; the cluster was there before and stays: `hive-test up ci --clusters-dir c` goes on", []string{"hive-test up ci"}},
		{"hive-test configure ci --clusters-dir c", "terminated", "was there before and stays", nil},
		{"hive-test test ci --clusters-dir c", "", "`hive-test test ci --clusters-dir c` runs the suites again", nil},
	} {
		i := &Interruption{Time: &now, Signal: tt.signal, Command: "hive-test full ci", Finish: tt.finish}
		if got := i.next("ci"); !strings.Contains(i.String(), tt.says) || !slices.Equal(got, tt.next) {
			t.Errorf("%s: %q, next %q", tt.finish, i, got)
		}
	}
}

// What comes next after a configure that was cut off: VMs first, then configure, with --force where nothing else helps.
func TestNextAfterAConfigure(t *testing.T) {
	const up, configure, force = "hive-test up ci", "hive-test configure ci", "hive-test configure ci --force"
	stopped := func(s *lifecycle.Status) { s.Nodes[0].Power = deploy.Power{Power: "stopped"} }
	grown := func(s *lifecycle.Status) {
		s.Record.Formation = &cluster.Formation{Size: 1, Members: []string{"ci-1"}}
	}
	killed := func(s *lifecycle.Status) { s.Record.Begin(cluster.PhaseConfigure, "", time.Unix(2, 0)) }
	for _, tt := range []struct {
		name   string
		change []func(*lifecycle.Status)
		finish string // of the interruption; empty: there is none
		want   []string
	}{
		{"done", nil, "", nil},
		{"failed", []func(*lifecycle.Status){func(s *lifecycle.Status) {
			s.Record.End(cluster.PhaseConfigure, errors.New("no"), time.Unix(3, 0))
		}}, "", []string{configure}},
		{"killed", []func(*lifecycle.Status){killed}, configure, []string{configure}},
		{"killed, of a cluster that has grown", []func(*lifecycle.Status){grown, killed}, force, []string{force}},
		{"killed, and a VM is stopped", []func(*lifecycle.Status){stopped, killed}, configure, []string{up, configure}},
		{"killed, of a cluster that has grown, and a VM is stopped", []func(*lifecycle.Status){grown, stopped, killed}, force, []string{up, force}},
		{"all nodes were made anew", []func(*lifecycle.Status){func(s *lifecycle.Status) {
			s.Record.ForgetNodes("ci-1", "ci-2")
			s.Formed = false
		}}, "", []string{configure}},
	} {
		store, err := state.Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		r := &cluster.Record{Name: "ci"}
		s := lifecycle.Status{Record: r, Formed: true}
		for i := range 2 {
			node := cluster.Node{Name: r.Name.Node(i + 1), Index: i + 1, Management: netip.MustParseAddr("10.0.0.1")}
			r.Nodes = append(r.Nodes, node)
			s.Nodes = append(s.Nodes, lifecycle.NodeStatus{Node: node, Power: deploy.Power{Power: "running"}})
		}
		r.Form()
		for i, p := range []cluster.Phase{cluster.PhaseUp, cluster.PhaseConfigure} {
			r.Begin(p, "", time.Unix(int64(i), 0))
			r.End(p, nil, time.Unix(int64(i), 0))
		}
		for _, change := range tt.change {
			change(&s)
		}
		job := &lifecycle.Job{Record: r}
		job.Hive.Binary = "hive"
		s.Configure = job.ConfigureCommand()
		status := Status{Status: s, Interrupted: interruptionOf(store, r, config.Settings{})}
		if got := mending(store, status); !slices.Equal(got, tt.want) {
			t.Errorf("%s: next %q, want %q", tt.name, got, tt.want)
		}
		finish := ""
		if status.Interrupted != nil {
			finish, _, _ = strings.Cut(status.Interrupted.Finish, " --clusters-dir ")
		}
		if finish != tt.finish {
			t.Errorf("%s: finished with %q, want %q", tt.name, finish, tt.finish)
		}
	}
}

// An interruption that was noted is finished with what the record asks for by now.
func TestNotedConfigureIsForced(t *testing.T) {
	store, err := state.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := &cluster.Record{
		Name: "ci", Nodes: cluster.Nodes{{Name: "ci-1", Index: 1}},
		Formation: &cluster.Formation{Size: 2, Members: []string{"ci-1"}},
	}
	path := store.Path("ci", "cluster.json") // interruptions are noted of what has a record
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	note := state.Interruption{Time: time.Now(), Signal: "interrupt", Finish: "hive-test configure ci"}
	for _, want := range []string{"hive-test configure ci --force --clusters-dir ", "hive-test configure ci --clusters-dir "} {
		if err := store.Interrupt("ci", note); err != nil {
			t.Fatal(err)
		}
		if got := interruptionOf(store, r, config.Settings{}); got == nil || !strings.HasPrefix(got.Finish, want) {
			t.Errorf("finished with %+v, want %q", got, want)
		}
		r.Unform()
	}
}
