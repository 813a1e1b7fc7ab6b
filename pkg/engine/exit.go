package engine

import (
	"cmp"
	"context"
	"errors"
	"os"
	"syscall"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
	"hive-test/pkg/deploy"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/phase"
	"hive-test/pkg/progress"
	"hive-test/pkg/state"
	"hive-test/pkg/target"
)

// ExitCode is how a run ended, in the run's report and as the exit code of hive-test: an interface that scripts rely
// on.
type ExitCode int

// The exit codes. Only this file knows the numbers.
const (
	ExitOK          ExitCode = 0
	ExitUnexpected  ExitCode = 1
	ExitUsage       ExitCode = 2
	ExitConfig      ExitCode = 3
	ExitUp          ExitCode = 4
	ExitConfigure   ExitCode = 5
	ExitTest        ExitCode = 6
	ExitDown        ExitCode = 7
	ExitLocked      ExitCode = 8
	ExitNotFound    ExitCode = 9
	ExitUnhealthy   ExitCode = 10
	ExitInterrupted ExitCode = 130
	ExitTerminated  ExitCode = 143
)

// status is what became of a run that ended with the code.
func (c ExitCode) status() progress.Status {
	switch c {
	case ExitOK:
		return progress.Passed
	case ExitInterrupted, ExitTerminated:
		return progress.Interrupted
	}
	return progress.Failed
}

// ExitMeaning is what an exit code means.
type ExitMeaning struct {
	Code    ExitCode
	Meaning string
}

// ExitCodes are all of them, in order.
func ExitCodes() []ExitMeaning {
	return []ExitMeaning{
		{ExitOK, "done"},
		{ExitUnexpected, "unexpected"},
		{ExitUsage, "usage: flag, value or name; nothing was touched"},
		{ExitConfig, "configuration, credentials or preflight; nothing was changed"},
		{ExitUp, "up failed"},
		{ExitConfigure, "configure, template build or verify, or snapshot restore failed"},
		{ExitTest, "tests failed (none run counts as failed)"},
		{ExitDown, "teardown failed: VMs may remain, and which is printed"},
		{ExitLocked, "locked: another run is at work on this cluster, and which is printed"},
		{ExitNotFound, "no such cluster, no such run of one, or no such template"},
		{ExitUnhealthy, "drift found, status found a node unhealthy, or wait until time was up"},
		{ExitInterrupted, "interrupted by INT, after what could be cleaned was cleaned"},
		{ExitTerminated, "interrupted by TERM or HUP, likewise"},
	}
}

// Error carries the exit code that a failure means. Without an Err it shows nothing: what there is to say was said.
type Error struct {
	Code ExitCode
	Err  error
}

func (e Error) Error() string {
	if e.Err == nil {
		return ""
	}
	return e.Err.Error()
}

// Unwrap returns the error itself.
func (e Error) Unwrap() error { return e.Err }

// usage is a mistake of the user's: nothing was touched.
func usage(err error) error { return Error{ExitUsage, err} }

// ReportedError was shown by the run's own events already.
type ReportedError struct{ error }

// Unwrap returns the error itself.
func (e ReportedError) Unwrap() error { return e.error }

// SignalError is the cause of a context that a signal has cancelled.
type SignalError struct{ Signal os.Signal }

func (e SignalError) Error() string { return "interrupted by " + signalWord(e.Signal.String()) }

// Code returns the kind of problem.
func (e SignalError) Code() string { return "interrupted" }

// signalWord is a signal as people call it.
func signalWord(text string) string {
	words := map[string]string{
		os.Interrupt.String(): "INT", syscall.SIGTERM.String(): "TERM", syscall.SIGHUP.String(): "HUP",
	}
	return cmp.Or(words[text], text)
}

// phaseCode is the code of a phase's failure.
func phaseCode(name string) ExitCode {
	switch cluster.Phase(name) {
	case cluster.PhaseUp:
		return ExitUp
	case cluster.PhaseConfigure, lifecycle.PhaseRestore, lifecycle.PhaseSnapshot, lifecycle.PhaseBuild,
		lifecycle.PhaseVerify, lifecycle.PhaseCopy:
		return ExitConfigure
	case cluster.PhaseTest:
		return ExitTest
	case cluster.PhaseDown:
		return ExitDown
	}
	return ExitUnexpected
}

// CodeOf returns the exit code of what a method of Engine returned for ctx.
func CodeOf(ctx context.Context, err error) ExitCode {
	if signal, ok := errors.AsType[SignalError](context.Cause(ctx)); ok && err != nil {
		return SignalCode(signal.Signal)
	}
	return plainCode(err)
}

// SignalCode is the code of a run that a signal has ended.
func SignalCode(signal os.Signal) ExitCode {
	if signal == syscall.SIGINT {
		return ExitInterrupted
	}
	return ExitTerminated
}

func plainCode(err error) ExitCode {
	if err == nil {
		return ExitOK
	}
	if coded, ok := errors.AsType[Error](err); ok {
		return coded.Code
	}
	if mistake, ok := errors.AsType[*target.Error](err); ok && mistake.Usage {
		return ExitUsage
	} else if ok {
		return ExitConfig
	}
	if _, ok := errors.AsType[*config.Error](err); ok {
		return ExitConfig
	}
	if _, ok := errors.AsType[*deploy.PreflightError](err); ok {
		return ExitConfig
	}
	if _, ok := errors.AsType[*state.LockedError](err); ok {
		return ExitLocked
	}
	if errors.Is(err, state.ErrNotFound) {
		return ExitNotFound
	}
	if _, newer := errors.AsType[*state.NewerError](err); newer || errors.Is(err, state.ErrCorrupt) {
		return ExitConfig
	}
	return ExitUnexpected
}

// outcomeCode is the code of a list of phases: the first failing phase's, and a leak's only when nothing failed before.
func outcomeCode(outcomes []phase.Outcome) ExitCode {
	for _, outcome := range outcomes {
		if outcome.Err != nil {
			return phaseCode(outcome.Name)
		}
	}
	return ExitOK
}
