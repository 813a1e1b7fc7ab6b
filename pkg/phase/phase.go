// Package phase runs the phases of a verb in order. A Phase does one thing; what else it can do is told by small
// optional interfaces. A Manager runs a literal list of phases, limits each in time, and makes sure that what must
// happen afterwards does happen.
package phase

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"hive-test/pkg/progress"
)

// Phase is one part of a verb. Run returns soon after ctx ends, with its children stopped and their state written.
type Phase interface {
	// Name is a short noun or verb in lower case, unique within a list: it is what people and reports call the phase.
	Name() string
	Run(ctx context.Context) error
}

// Skipper is a Phase that may find its work done already. Skip changes nothing. An error fails the phase.
type Skipper interface {
	Skip(ctx context.Context) (reason string, skip bool, err error)
}

// Cleaner is a Phase that can tidy up after a run that failed or was interrupted, in itself or in a later phase.
// CleanUp is not called for a phase that was skipped or not reached, nor when all went well. Its ctx is not cancelled
// by the interruption and has a deadline of its own.
type Cleaner interface {
	CleanUp(ctx context.Context) error
}

// New makes a Phase of a name and a function.
func New(name string, run func(ctx context.Context) error) Phase { return simple{name, run} }

type simple struct {
	name string
	run  func(ctx context.Context) error
}

func (s simple) Name() string                  { return s.name }
func (s simple) Run(ctx context.Context) error { return s.run(ctx) }

// Outcome is how one phase ended. Err is nil unless Status is Failed or Interrupted. Reason says why it was skipped.
type Outcome struct {
	Name    string
	Status  progress.Status
	Seconds float64
	Err     error
	Reason  string
}

// Error is what a Manager returns for a phase that failed or was interrupted. The first in a joined error, as errors.As
// finds it, is the first phase that did.
type Error struct {
	Phase  string
	Status progress.Status // Failed or Interrupted
	Err    error
}

func (e *Error) Error() string { return e.Phase + ": " + e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// TimeoutError says that a phase was stopped because its time was up. It matches context.DeadlineExceeded. A longer
// limit may help; so may finding out what it waited for, which Err says if the phase said it.
type TimeoutError struct {
	Limit   time.Duration // with all that stopping may take
	After   time.Duration // when it was told to stop
	Setting string        // the flag that sets Limit; may be empty
	Whole   bool          // Limit is that of the whole run
	Err     error         // what the phase returned when it was stopped
}

func (e *TimeoutError) Error() string {
	s := "timed out after " + progress.FormatLimit(e.After.Round(10*time.Millisecond))
	if e.Whole {
		s = "the whole run " + s
	}
	if e.Setting != "" {
		s += fmt.Sprintf(" (%s=%s, the rest is for stopping)", e.Setting, progress.FormatLimit(e.Limit))
	}
	if e.Err != nil && !bare(e.Err) {
		s += ": " + e.Err.Error()
	}
	return s
}

// bare errors of a context say no more than the TimeoutError does.
func bare(err error) bool {
	return err == context.Canceled || err == context.DeadlineExceeded || err == progress.ErrTimeUp
}

func (e *TimeoutError) Unwrap() error        { return e.Err }
func (e *TimeoutError) Is(target error) bool { return target == context.DeadlineExceeded }
func (e *TimeoutError) Code() string         { return "timeout" }

func (e *TimeoutError) Hint() string {
	if e.Setting == "" {
		return ""
	}
	return fmt.Sprintf("allow more time with %s=%s, if it only was slow", e.Setting, progress.FormatLimit(2*e.Limit))
}

// ErrStuck is wrapped when a phase did not return although its context had ended Grace ago. It may still be at work; a
// retry in the same process is not safe.
var ErrStuck = errors.New("did not stop when told to")

// turn is held while a phase changes what phases share, and lost when the phase is abandoned.
type turn struct {
	sync.Mutex
	lost bool
}

type turnKey struct{}

// InTurn calls fn, which changes what the phases of a run share, like the cluster's record. It does not call fn, and
// returns ErrStuck, if the phase that was given ctx did not return in time and is no longer waited for: other phases
// run meanwhile. fn should be short, for the phase cannot be abandoned while it runs.
func InTurn(ctx context.Context, fn func() error) error {
	t, ok := ctx.Value(turnKey{}).(*turn)
	if !ok {
		return fn()
	}
	t.Lock()
	defer t.Unlock()
	if t.lost {
		return ErrStuck
	}
	return fn()
}

// Step runs fn as one step of a phase: a StepStart and a StepEnd go to sink, with the status, the seconds and the
// error, and fn gets a sink that fills in the step. An error comes back with the step's name before it. A step whose
// ctx has ended does not begin. Steps may run at the same time, with names or nodes (progress.With) that tell them
// apart.
func Step(
	ctx context.Context, sink progress.Sink, name string, fn func(ctx context.Context, sink progress.Sink) error,
) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", name, context.Cause(ctx))
	}
	sink = progress.With(sink, progress.Event{Step: name})
	sink.Emit(progress.Event{Kind: progress.StepStart})
	began := time.Now()
	err := fn(ctx, sink)
	end := progress.Event{Kind: progress.StepEnd, Seconds: time.Since(began).Seconds(), Status: progress.Passed}
	if err != nil {
		end, err = end.WithError(err), fmt.Errorf("%s: %w", name, err)
		end.Status = statusOf(ctx, err)
	}
	sink.Emit(end)
	return err
}

// statusOf tells a failure from an interruption: what fails after the user said stop was interrupted, whatever words
// the failure has; a limit that ran out is a failure.
func statusOf(ctx context.Context, err error) progress.Status {
	if _, timeout := errors.AsType[*TimeoutError](err); timeout {
		return progress.Failed
	}
	if ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return progress.Interrupted
	}
	return progress.Failed
}
