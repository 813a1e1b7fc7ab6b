package lifecycle

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hive-test/pkg/deploy"
	"hive-test/pkg/hive"
	"hive-test/pkg/liveness"
	"hive-test/pkg/progress"
	"hive-test/pkg/suite"
)

// What one node shows, round after round, and what is told of it.
func TestLossMonitor(t *testing.T) {
	refused := errors.New("connection refused")
	well := func(uptime time.Duration) hive.ProbeResult {
		return hive.ProbeResult{Node: "ci-1-1", Self: "ci-1-1", Uptime: uptime}
	}
	silent := hive.ProbeResult{Node: "ci-1-1", Daemon: refused}
	gone := hive.ProbeResult{Node: "ci-1-1", Daemon: refused, Host: refused}
	runs, stopped, unknown := deploy.Power{Power: "running"}, deploy.Power{Power: "stopped"}, deploy.Power{}
	type round struct {
		at    time.Duration
		shown hive.ProbeResult
		power deploy.Power
		told  string // empty: nothing
		ended bool
	}
	for _, tc := range []struct {
		name   string
		after  time.Duration
		rounds []round
	}{
		{"all is well", time.Minute, []round{{0, well(5), unknown, "", false}, {9 * time.Second, well(14), unknown, "", false}}},
		{"once is chance", time.Minute, []round{{0, gone, runs, "", false}, {time.Second, well(5), unknown, "", false}, {2 * time.Second, gone, runs, "", false}}},
		{"a stopped VM is told at once, and once", time.Minute, []round{
			{0, gone, stopped, "ci-1-1 is lost since 12:00:00: its VM is stopped", false}, {time.Second, gone, stopped, "", false},
		}},
		{"no answer, and then it is known why", time.Minute, []round{
			{0, gone, runs, "", false},
			{time.Second, gone, runs, "its VM runs, but neither hive's daemon nor its SSH server answer: connection refused", false},
			{2 * time.Second, gone, stopped, "lost since 12:00:00: its VM is stopped", false},
		}},
		{"hosts whose hypervisor nobody knows", time.Minute, []round{{0, gone, unknown, "", false}, {time.Second, gone, unknown, "neither hive's daemon", false}}},
		{"a restart within the time", time.Minute, []round{
			{0, well(100 * time.Second), unknown, "", false},
			{10 * time.Second, gone, stopped, "lost", false},
			{40 * time.Second, silent, unknown, "ci-1-1 is back after 30s", false},
			{41 * time.Second, silent, unknown, "daemon on ci-1-1 does not answer since 12:00:40", false},
			{50 * time.Second, well(2 * time.Second), unknown, "answers again after 10s|has started again: it ran for 1m40s, and now for 2s", false},
		}},
		{"it stays away", 30 * time.Second, []round{
			{0, gone, stopped, "lost", false}, {29 * time.Second, gone, stopped, "", false}, {30 * time.Second, gone, stopped, "", true},
		}},
		{"it may stay away", 0, []round{{0, gone, stopped, "lost", false}, {time.Hour, gone, stopped, "", false}}},
		{"a daemon that is silent never ends a suite", time.Second, []round{
			{0, silent, unknown, "", false}, {time.Second, silent, unknown, "its SSH server does: connection refused", false}, {time.Hour, silent, unknown, "", false},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				noon := time.Date(began.Year(), began.Month(), began.Day()+1, 12, 0, 0, 0, time.Local)
				job := (&world{}).job(t)
				job.LostAfter = tc.after
				var said progress.Memory
				ctx, end := context.WithCancelCause(t.Context())
				defer end(nil)
				l := &lossMonitor{Job: job, sink: &said, end: end, known: make([]nodeState, 1)}
				next := 0
				untilNext := func() time.Duration {
					if next == len(tc.rounds) {
						return time.Hour
					}
					return time.Until(noon.Add(tc.rounds[next].at))
				}
				observe := func(context.Context) liveness.Observations {
					r := tc.rounds[next]
					next++
					l.results = []hive.ProbeResult{r.shown}
					return liveness.Observations{signOfLife(r.shown, r.power)}
				}
				rounds := liveness.Probe{Observe: observe, Patience: untilNext(), Pause: untilNext}
				done := make(chan struct{})
				monitor := liveness.Start(t.Context(), []liveness.Probe{rounds}, func(seen liveness.Observations) {
					i, r, before := next-1, tc.rounds[next-1], len(said.Events())
					l.tellNew(seen)
					var told []string
					for _, e := range said.Events()[before:] {
						told = append(told, strings.TrimSuffix(e.Message+": "+e.Error, ": "))
					}
					want := slices.DeleteFunc(strings.Split(r.told, "|"), func(s string) bool { return s == "" })
					if len(told) != len(want) || !containsEach(told, want) {
						t.Errorf("round %d tells %q, want %q", i, told, want)
					}
					ended, isEnd := errors.AsType[*suite.EndedError](context.Cause(ctx))
					named := !isEnd || errors.Is(ended, ErrNodeLost) && strings.Contains(ended.Error(), "--lost-after")
					if isEnd != r.ended || !named {
						t.Errorf("round %d ends with %v", i, context.Cause(ctx))
					}
					if next == len(tc.rounds) {
						close(done)
					}
				})
				<-done
				monitor.Stop()
			})
		})
	}
}

// Nodes are asked more and more seldom while all is well, and soon when something is not.
func TestProbePauses(t *testing.T) {
	l := &lossMonitor{calm: true, wasCalm: true, pauses: probePauses(probeFirst)}
	var got []time.Duration
	for _, calm := range []bool{true, true, true, true, false, false, true, false} {
		l.calm = calm
		got = append(got, l.pause())
	}
	want := []time.Duration{2000, 3000, 4500, 5000, 1000, 1500, 2250, 1000}
	for i := range want {
		if got[i] != want[i]*time.Millisecond {
			t.Errorf("pause %d is %s", i, got[i])
		}
	}
}

func containsEach(got, want []string) bool {
	for i := range want {
		if !strings.Contains(got[i], want[i]) {
			return false
		}
	}
	return true
}
