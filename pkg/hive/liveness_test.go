package hive

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/liveness"
	"hive-test/pkg/progress"
	"hive-test/pkg/remote"
	"hive-test/pkg/wait"
)

var errStopped = errors.New("its VM is stopped")

func stopped(context.Context) liveness.Observations {
	return liveness.Observations{{Node: "ci-1"}, {Node: "ci-2", Err: errStopped}}
}

// A step goes on while a machine is dead for a while, as it is when it is restarted, and ends when it stays so.
func TestStepsEndWithTheirMachines(t *testing.T) {
	for _, tt := range []struct {
		name       string
		back       time.Duration // when the machine of ci-2, dead from the fifth second on, lives again
		ends, dies time.Duration // when the step ends by itself, and when it does
		dead       bool
	}{
		{"never dead", 0, 20 * time.Second, 20 * time.Second, false},
		{"restarted", 19 * time.Second, time.Minute, time.Minute, false},
		{"dead", time.Hour, time.Minute, 23 * time.Second, true}, // seen from the eighth second on
		{"a short step", time.Hour, 22 * time.Second, 22 * time.Second, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				c := NewWithHosts("ci", nil, Options{Observe: func(ctx context.Context) liveness.Observations {
					if age := time.Since(began); age < 5*time.Second || age >= tt.back {
						return nil
					}
					return stopped(ctx)
				}}, progress.Discard)
				err := c.whileAlive(t.Context(), func(ctx context.Context) error { return wait.Sleep(ctx, tt.ends) })
				failed, dead := errors.AsType[*StepError](err)
				named := !dead || len(failed.Nodes) == 1 && failed.Nodes[0].Node == "ci-2"
				if dead != tt.dead || !named || time.Since(began) != tt.dies {
					t.Errorf("after %s: %v", time.Since(began), err)
				}
			})
		})
	}
}

// What fails on a machine that is dead is told as that.
func TestAttribute(t *testing.T) {
	c := NewWithHosts("ci", nil, Options{Observe: stopped}, progress.Discard)
	failed := &StepError{Title: "joining", Nodes: []NodeFailure{
		{Node: "ci-2", Err: errors.New("the SSH connection was lost")}, {Node: "ci-3", Err: errors.New("no")},
	}}
	c.attribute(t.Context(), failed)
	want := "joining failed on ci-2, ci-3\n  ci-2: its VM is stopped; the SSH connection was lost\n  ci-3: no"
	if got := failed.Error(); got != want {
		t.Errorf("got %s", got)
	}
	c.dead = stopped(t.Context())
	silent, starting := good(2, 3), good(3, 3)
	silent.Code, silent.errs.health, starting.Status = 0, errors.New("refused"), "starting"
	health := judgeRunning([]NodeHealth{good(1, 3), silent, starting})
	c.attributeSilence(&health)
	if got := strings.Join(
		health.Reasons(), "\n",
	); got != "ci-2: its VM is stopped; the daemon does not answer: refused\nci-3: the daemon says \"starting\"" {
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
	monitor := liveness.Start(t.Context(), []liveness.Probe{{
		Final: true,
		Observe: func(context.Context) liveness.Observations {
			return liveness.Observations{{Node: "ci-1", Err: errStopped}}
		},
	}})
	defer monitor.Stop()
	c := NewWithHosts("ci", []Host{host}, Options{Monitor: monitor}, progress.Discard)
	began := time.Now()
	health := c.Check(t.Context())
	items, err := c.Collect(t.Context(), host, t.TempDir())
	if took := time.Since(began); took > DefaultProbeTimeout/4 {
		t.Errorf("it took %s", took)
	}
	if got := strings.Join(health.Reasons(), ""); health.Formed ||
		got != "ci-1: the daemon does not answer: ci-1: its VM is stopped" {
		t.Errorf("got %q", got)
	}
	if len(items) > 0 || !errors.Is(err, errStopped) {
		t.Errorf("collected %v, %v", items, err)
	}
}
