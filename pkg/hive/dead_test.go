package hive

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/progress"
	"hive-test/pkg/remote"
)

func TestDeadFor(t *testing.T) {
	stopped, none := map[string]string{"ci-2": "its VM is stopped"}, map[string]string{}
	since := map[string]time.Time{}
	start := time.Now()
	for i, tt := range []struct {
		at   time.Duration
		why  map[string]string
		dead bool
	}{
		{0, none, false},
		{5 * time.Second, stopped, false},
		{19 * time.Second, stopped, false},
		{20 * time.Second, stopped, true},
		{25 * time.Second, none, false},
		{30 * time.Second, stopped, false},
		{40 * time.Second, stopped, false},
	} {
		dead := deadFor(15*time.Second, tt.why, since, start.Add(tt.at))
		if (len(dead) > 0) != tt.dead || tt.dead && dead[0].Node != "ci-2" {
			t.Errorf("%d: %v", i, dead)
		}
	}
}

// What fails on a machine that is dead is told as that.
func TestBlame(t *testing.T) {
	c := NewWithHosts("ci", nil, Options{Outside: func(context.Context) map[string]string {
		return map[string]string{"ci-2": "its VM is stopped"}
	}}, progress.Discard)
	failed := &StepError{Title: "joining", Nodes: []NodeFailure{{Node: "ci-2", Err: errors.New("the SSH connection was lost")}, {Node: "ci-3", Err: errors.New("no")}}}
	c.blame(t.Context(), failed)
	want := "joining failed on ci-2, ci-3\n  ci-2: its VM is stopped; the SSH connection was lost\n  ci-3: no"
	if got := failed.Error(); got != want {
		t.Errorf("got %s", got)
	}
	c.dead = map[string]string{"ci-2": "its VM is stopped"}
	silent, starting := good(2, 3), good(3, 3)
	silent.Code, silent.errs.health, starting.Status = 0, errors.New("refused"), "starting"
	health := judgeRunning([]NodeHealth{good(1, 3), silent, starting})
	c.blameSilent(&health)
	if got := strings.Join(health.Reasons(), "\n"); got != "ci-2: its VM is stopped; the daemon does not answer: refused\nci-3: the daemon says \"starting\"" {
		t.Errorf("got %s", got)
	}
}

// hung is a node that never answers.
type hung struct{ *localHost }

func (h hung) Run(ctx context.Context, _ remote.Command) (remote.Result, error) {
	<-ctx.Done()
	return remote.Result{}, context.Cause(ctx)
}

// What is asked of a machine that is dead ends when that is known, with that as the reason.
func TestNobodyWaitsForTheDead(t *testing.T) {
	host := hung{&localHost{node: cluster.Node{Name: "ci-1", Management: netip.MustParseAddr("192.0.2.1")}}}
	stopped := errors.New("its VM is stopped")
	c := NewWithHosts("ci", []Host{host}, Options{Alive: func(ctx context.Context, _ string) (context.Context, context.CancelFunc) {
		alive, end := context.WithCancelCause(ctx)
		end(stopped)
		return alive, func() {}
	}}, progress.Discard)
	began := time.Now()
	health := c.Check(t.Context())
	items, err := c.Collect(t.Context(), host, t.TempDir())
	if took := time.Since(began); took > DefaultProbeTimeout/4 {
		t.Errorf("it took %s", took)
	}
	if got := strings.Join(health.Reasons(), ""); health.Formed || got != "ci-1: the daemon does not answer: ci-1: its VM is stopped" {
		t.Errorf("got %q", got)
	}
	if len(items) > 0 || !errors.Is(err, stopped) {
		t.Errorf("collected %v, %v", items, err)
	}
}
