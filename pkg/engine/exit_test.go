package engine

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"

	"hive-test/pkg/config"
	"hive-test/pkg/deploy"
	"hive-test/pkg/phase"
	"hive-test/pkg/state"
)

func TestExitCodes(t *testing.T) {
	interrupted := func(signal syscall.Signal) context.Context {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(SignalError{signal})
		return ctx
	}
	running := context.Background()
	for _, tc := range []struct {
		name string
		ctx  context.Context
		err  error
		want ExitCode
	}{
		{"done", running, nil, 0},
		{"unexpected", running, errors.New("x"), 1},
		{"usage", running, usage(errors.New("x")), 2},
		{"usage, wrapped", running, fmt.Errorf("y: %w", usage(errors.New("x"))), 2},
		{"settings", running, &config.Error{}, 3},
		{"preflight", running, fmt.Errorf("y: %w", &deploy.PreflightError{}), 3},
		{"damaged record", running, fmt.Errorf("y: %w", state.ErrCorrupt), 3},
		{"locked", running, &state.LockedError{}, 8},
		{"no such cluster", running, fmt.Errorf("y: %w", state.ErrNotFound), 9},
		{"a remote command's own", running, Error{Code: 42}, 42},
		{"INT", interrupted(syscall.SIGINT), errors.New("x"), 130},
		{"TERM", interrupted(syscall.SIGTERM), errors.New("x"), 143},
		{"HUP", interrupted(syscall.SIGHUP), errors.New("x"), 143},
		{"a signal that came when all was done", interrupted(syscall.SIGINT), nil, 0},
	} {
		if got := CodeOf(tc.ctx, tc.err); got != tc.want {
			t.Errorf("%s: exit code %d, want %d", tc.name, got, tc.want)
		}
	}
}

func TestTheFirstFailingPhaseDecides(t *testing.T) {
	failed := errors.New("x")
	for _, tc := range []struct {
		outcomes []phase.Outcome
		want     ExitCode
	}{
		{[]phase.Outcome{{Name: "up"}, {Name: "configure"}, {Name: "test"}, {Name: "down"}}, 0},
		{[]phase.Outcome{{Name: "up", Err: failed}, {Name: "down"}}, 4},
		{[]phase.Outcome{{Name: "up"}, {Name: "configure", Err: failed}, {Name: "down"}}, 5},
		{[]phase.Outcome{{Name: "up"}, {Name: "test", Err: failed}, {Name: "down", Err: failed}}, 6},
		{[]phase.Outcome{{Name: "up"}, {Name: "test"}, {Name: "down", Err: failed}}, 7},
	} {
		if got := outcomeCode(tc.outcomes); got != tc.want {
			t.Errorf("%v: exit code %d, want %d", tc.outcomes, got, tc.want)
		}
	}
}

func TestEveryExitCodeIsExplained(t *testing.T) {
	explained := map[ExitCode]bool{}
	for _, row := range ExitCodes() {
		explained[row.Code] = true
	}
	for _, code := range []ExitCode{
		ExitOK, ExitUnexpected, ExitUsage, ExitConfig, ExitUp, ExitConfigure, ExitTest, ExitDown, ExitLocked,
		ExitNotFound, ExitUnhealthy, ExitInterrupted, ExitTerminated,
	} {
		if !explained[code] {
			t.Errorf("exit code %d is not in the table", code)
		}
	}
}
