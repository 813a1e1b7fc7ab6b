package liveness_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"hive-test/pkg/liveness"
	"hive-test/pkg/wait"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var errStopped = errors.New("its VM is stopped")

// script is a probe of one node that observes one error after the other, a second apart from the first second on, and
// then nothing more.
func script(errs ...error) liveness.Probe {
	observe := func(ctx context.Context) liveness.Observations {
		if len(errs) == 0 {
			<-ctx.Done()
			return liveness.Observations{{Node: "ci-1", Err: context.Cause(ctx)}}
		}
		err := errs[0]
		errs = errs[1:]
		return liveness.Observations{{Node: "ci-1", Err: err}, {Node: "ci-2"}}
	}
	pauses := wait.Backoff{First: time.Second}
	return liveness.Probe{Observe: observe, Patience: time.Second, Pause: pauses.Next}
}

// Subscribers are told for how long a machine has been unreachable by now, and when it is back.
func TestSubscribers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		at := func(seconds int) time.Time { return began.Add(time.Duration(seconds) * time.Second) }
		var told liveness.Observations
		probes := []liveness.Probe{script(nil, errStopped, errStopped, nil, errStopped)}
		m := liveness.Start(t.Context(), probes, func(seen liveness.Observations) {
			told = append(told, seen[0])
			if other := seen[1]; other.Err != nil || other.Times != 0 || other.Lasts() != 0 {
				t.Errorf("of the other node it told %v", other)
			}
		})
		time.Sleep(4500 * time.Millisecond)
		if err := m.Unreachable("ci-1"); err != nil {
			t.Errorf("it is back, and %v", err)
		}
		time.Sleep(time.Minute)
		m.Stop()
		want := liveness.Observations{
			{Node: "ci-1", At: at(1)},
			{Node: "ci-1", At: at(2), Err: errStopped, Since: at(2), Times: 1},
			{Node: "ci-1", At: at(3), Err: errStopped, Since: at(2), Times: 2},
			{Node: "ci-1", At: at(4)},
			{Node: "ci-1", At: at(5), Err: errStopped, Since: at(5), Times: 1},
		}
		if diff := cmp.Diff(want, told, cmpopts.EquateErrors()); diff != "" {
			t.Error(diff)
		}
		if want[2].Lasts() != time.Second || want[3].Lasts() != 0 {
			t.Errorf("it lasts %s and %s", want[2].Lasts(), want[3].Lasts())
		}
		m.Stop()
	})
}

// What is asked of a machine ends when it is found unreachable, and at no other time.
func TestAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		observed := 0
		probe := script(nil, errStopped, nil)
		observe := probe.Observe
		probe.Observe = func(ctx context.Context) liveness.Observations { observed++; return observe(ctx) }
		probe.Final = true
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		m := liveness.Start(ctx, []liveness.Probe{probe})
		defer m.Stop()
		forever := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		began := time.Now()
		m.AwaitFirst()
		if took := time.Since(began); took != time.Second {
			t.Errorf("the first observation took %s", took)
		}
		err := m.Ask(ctx, "ci-1", forever)
		_, ok := errors.AsType[*liveness.UnreachableError](err)
		told := ok && errors.Is(err, errStopped) && err.Error() == "ci-1: its VM is stopped"
		if !told || time.Since(began) != 2*time.Second {
			t.Errorf("got %v after %s", err, time.Since(began))
		}
		if err := m.Ask(ctx, "ci-1", func(context.Context) error { return nil }); err != nil {
			t.Errorf("what went well: %v", err)
		}
		if err := m.Ask(ctx, "ci-2", forever); !errors.Is(err, context.DeadlineExceeded) ||
			time.Since(began) != time.Minute {
			t.Errorf("got %v after %s", err, time.Since(began))
		}
		if m.Unreachable("ci-1") == nil || m.Unreachable("ci-2") != nil || observed != 2 {
			t.Errorf("%v and %v after %d observations", m.Unreachable("ci-1"), m.Unreachable("ci-2"), observed)
		}
	})
}

func TestNobodyMonitors(t *testing.T) {
	var m *liveness.Monitor
	m.AwaitFirst()
	if err := m.Ask(t.Context(), "ci-1", context.Cause); err != nil || m.Unreachable("ci-1") != nil {
		t.Errorf("got %v", err)
	}
	m.Stop()
}
