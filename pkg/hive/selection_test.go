package hive

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// diary is a Journal in memory.
type diary struct {
	done  map[string]bool // by "step node"
	begun []string        // "step: node node"
	now   []string
	full  error
}

func (d *diary) Done(step, node string) bool { return d.done[step+" "+node] }

func (d *diary) Begin(_ context.Context, step string, nodes []string) error {
	d.begun = append(d.begun, step+": "+strings.Join(nodes, " "))
	d.now = nodes
	for _, node := range nodes {
		delete(d.done, step+" "+node)
		if step == StepInstall {
			delete(d.done, StepStart+" "+node)
		}
	}
	return d.full
}

func (d *diary) End(_ context.Context, step string, err error) {
	for _, node := range d.now {
		d.done[step+" "+node] = err == nil
	}
}

func TestCourse(t *testing.T) {
	soak(t)
	t.Parallel()
	book := &diary{done: map[string]bool{}}
	l := newLocal(t, 3, Options{HealthTimeout: time.Minute})
	course := func(c StepSelection, want ...string) {
		t.Helper()
		book.begun = nil
		c.Journal = book
		if err := l.Configure(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, book.begun); diff != "" {
			t.Errorf("steps began (-want +got):\n%s", diff)
		}
		if health := l.Check(t.Context()); !health.Formed {
			t.Errorf("not formed: %v", health.Reasons())
		}
	}
	all, whole := "ci-1 ci-2 ci-3", []string{"init: ci-1 ci-2 ci-3", "join: ci-1 ci-2 ci-3"}
	course(
		StepSelection{Only: []string{"ci-1", "ci-2", "ci-3"}}, "cloud-init: "+all, "install: "+all, "stop: "+all,
		whole[0], whole[1], "start: "+all, "health: "+all,
	)

	// Nothing is left to do on any node: hive is restarted everywhere, for somebody asked.
	course(
		StepSelection{}, "cloud-init: ", "install: ", "stop: "+all, whole[0], whole[1], "start: "+all, "health: "+all,
	)

	// One node has lost its program: it alone gets it again, and is restarted alone.
	pid := func(i int) string { return l.hosts[i].read("hive/logs/hive.pid") }
	before := pid(0)
	if err := os.Remove(filepath.Join(l.hosts[1].home, "hive/bin/hive")); err != nil {
		t.Fatal(err)
	}
	course(
		StepSelection{}, "cloud-init: ", "install: ", "install: ci-2", "stop: ci-2", whole[0], whole[1], "start: ci-2",
		"health: "+all,
	)
	if pid(0) != before {
		t.Error("another node was restarted")
	}

	course(StepSelection{From: StepHealth}, "health: "+all)
	course(StepSelection{From: StepStart}, "start: "+all, "health: "+all)
	if pid(0) != before {
		t.Error("a hive that runs was started again")
	}
	course(StepSelection{From: StepOS}, "install: ", "stop: "+all, whole[0], whole[1], "start: "+all, "health: "+all)
	delete(book.done, StepInstall+" ci-3")
	course(
		StepSelection{From: StepInstall, Only: []string{"ci-3"}}, "install: ci-3", "stop: ci-3", whole[0], whole[1],
		"start: ci-3", "health: "+all,
	)

	if err := l.Configure(t.Context(), StepSelection{From: "dance"}); err == nil ||
		!strings.Contains(err.Error(), "cloud-init, os, install, stop, init, join, start, health") {
		t.Errorf("an unknown step: %v", err)
	}
	book.full = errors.New("disk full")
	book.begun = nil
	if err := l.Configure(t.Context(), StepSelection{Journal: book}); !errors.Is(err, book.full) ||
		len(book.begun) != 1 {
		t.Errorf("what cannot be noted is not begun: %v, %v", err, book.begun)
	}
}

// Where forming is refused, hive goes on on the nodes that it was in use on.
func TestARefusedFormationStopsNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	l := newLocal(t, 2, Options{HealthTimeout: time.Minute})
	if err := l.Configure(t.Context(), StepSelection{}); err != nil {
		t.Fatal(err)
	}
	before := l.hosts[0].read("hive/logs/hive.pid")
	anew := l.hosts[1]
	stop := NewWithHosts("ci", []Host{anew}, l.options, l.events)
	if err := stop.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(anew.home, "hive")); err != nil {
		t.Fatal(err)
	}
	err := l.Configure(t.Context(), StepSelection{})
	failed, ok := errors.AsType[*StepError](err)
	if !ok || failed.Step != StepInit || !strings.Contains(err.Error(), "ci-2 is not initialized") ||
		!strings.Contains(failed.Hint(), "hive-test configure ci --force") {
		t.Errorf("%v", err)
	}
	if l.hosts[0].read("hive/logs/hive.pid") != before || l.Check(t.Context()).Nodes[0].Code == 0 {
		t.Error("node 1 was stopped")
	}
}
