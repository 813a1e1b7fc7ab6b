package cli

import (
	"cmp"
	"context"
	"errors"
	"os"
	"syscall"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/phase"
	"hive-test/pkg/state"
)

// ExitCode is the process's exit code: an interface that scripts rely on.
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

// exitRow is one row of the table that `help exit-codes` prints.
type exitRow struct {
	Code    ExitCode
	Meaning string
}

func exitCodes() []exitRow {
	return []exitRow{
		{ExitOK, "done"},
		{ExitUnexpected, "unexpected"},
		{ExitUsage, "usage: flag, value or name; nothing was touched"},
		{ExitConfig, "configuration, credentials or preflight; nothing was changed"},
		{ExitUp, "up failed"},
		{ExitConfigure, "configure failed, health included"},
		{ExitTest, "tests failed (none run counts as failed)"},
		{ExitDown, "teardown failed: VMs may remain, and which is printed"},
		{ExitLocked, "locked: another run holds this cluster, and who is printed"},
		{ExitNotFound, "no such cluster"},
		{ExitUnhealthy, "status found a node unhealthy, or wait until its time was up"},
		{ExitInterrupted, "interrupted by INT, after what could be cleaned was cleaned"},
		{ExitTerminated, "interrupted by TERM or HUP, likewise"},
	}
}

// usageError is a mistake on the command line: nothing was touched.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

// codeError carries an exit code that a remote command or a finding decided; it prints nothing if err is nil.
type codeError struct {
	code ExitCode
	err  error
}

func (e codeError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}
func (e codeError) Unwrap() error { return e.err }

// signalError is the cause of a context that a signal has cancelled.
type signalError struct{ signal os.Signal }

func (e signalError) Error() string { return "interrupted by " + signalWord(e.signal.String()) }

// signalWord is a signal as people call it.
func signalWord(text string) string {
	words := map[string]string{os.Interrupt.String(): "INT", syscall.SIGTERM.String(): "TERM", syscall.SIGHUP.String(): "HUP"}
	return cmp.Or(words[text], text)
}

// phaseCode is the code of a phase's failure.
func phaseCode(name string) ExitCode {
	switch cluster.Phase(name) {
	case cluster.PhaseUp:
		return ExitUp
	case cluster.PhaseConfigure:
		return ExitConfigure
	case cluster.PhaseTest:
		return ExitTest
	case cluster.PhaseDown:
		return ExitDown
	}
	return ExitUnexpected
}

// exitCode maps what a command returned to the code of the process.
func exitCode(ctx context.Context, err error) ExitCode {
	if signal, ok := errors.AsType[signalError](context.Cause(ctx)); ok && err != nil {
		return signalCode(signal.signal)
	}
	return plainCode(err)
}

// signalCode is the code of a run that a signal has ended.
func signalCode(signal os.Signal) ExitCode {
	if signal == syscall.SIGINT {
		return ExitInterrupted
	}
	return ExitTerminated
}

func plainCode(err error) ExitCode {
	if err == nil {
		return ExitOK
	}
	if coded, ok := errors.AsType[codeError](err); ok {
		return coded.code
	}
	if _, ok := errors.AsType[usageError](err); ok {
		return ExitUsage
	}
	if _, ok := errors.AsType[*config.Error](err); ok {
		return ExitConfig
	}
	if _, ok := errors.AsType[*lifecycle.PreflightError](err); ok {
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
