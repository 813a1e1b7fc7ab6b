package lifecycle

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"hive-test/pkg/deploy"
	"hive-test/pkg/hive"
	"hive-test/pkg/progress"
	"hive-test/pkg/suite"
)

// What one node shows, round after round, and what is told of it.
func TestLookout(t *testing.T) {
	refused := errors.New("connection refused")
	well := func(uptime time.Duration) hive.Pulse {
		return hive.Pulse{Node: "ci-1-1", Self: "ci-1-1", Uptime: uptime}
	}
	silent := hive.Pulse{Node: "ci-1-1", Daemon: refused}
	gone := hive.Pulse{Node: "ci-1-1", Daemon: refused, Host: refused}
	runs, stopped, unknown := deploy.Power{Power: "running"}, deploy.Power{Power: "stopped"}, deploy.Power{}
	type round struct {
		at    time.Duration
		pulse hive.Pulse
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
			job := (&world{}).job(t)
			job.LostAfter = tc.after
			var said progress.Memory
			ctx, end := context.WithCancelCause(t.Context())
			defer end(nil)
			l := &lossMonitor{Job: job, sink: &said, end: end, seen: make([]observation, 1)}
			noon := time.Date(2026, 11, 28, 12, 0, 0, 0, time.Local)
			for i, r := range tc.rounds {
				before := len(said.Events())
				l.sight(&l.seen[0], r.pulse, r.power, noon.Add(r.at))
				var told []string
				for _, e := range said.Events()[before:] {
					told = append(told, e.Message)
				}
				want := slices.DeleteFunc(strings.Split(r.told, "|"), func(s string) bool { return s == "" })
				if len(told) != len(want) || !containsEach(told, want) {
					t.Errorf("round %d tells %q, want %q", i, told, want)
				}
				ended, isEnd := errors.AsType[*suite.EndedError](context.Cause(ctx))
				if isEnd != r.ended || isEnd && !(errors.Is(ended, ErrNodeLost) && strings.Contains(ended.Error(), "--lost-after")) {
					t.Errorf("round %d ends with %v", i, context.Cause(ctx))
				}
			}
		})
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
