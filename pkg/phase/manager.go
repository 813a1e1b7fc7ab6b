package phase

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"hive-test/pkg/progress"
)

// Defaults of a Manager.
const (
	DefaultCleanTimeout = 5 * time.Minute
	// abortGrace is what a phase that was told to stop still has once Abort has ended: enough to tell its children.
	abortGrace = time.Second
	// Of the limit of a whole run a quarter, and at most maxReserve, is kept for Always phases.
	reserveShare = 4
	maxReserve   = 5 * time.Minute
)

// Entry is one line of a Manager's list.
type Entry struct {
	Phase
	// Timeout is when the phase has ended at the latest (0: no limit). It is told to stop before, as Limited says.
	Timeout time.Duration
	// Setting is the flag that sets Timeout, like --timeout-configure; it is named when the time is up.
	Setting string
	// Always runs the phase whatever happened before it, an interruption included, and does not let an interruption
	// stop it: Abort or Timeout does. Its CleanUp is called only if it failed itself.
	Always bool
}

// Manager runs phases in order. The zero value runs nothing, silently. A Manager runs once.
type Manager struct {
	// Phases is the list, read aloud.
	Phases []Entry
	// Sink gets PhaseStart and PhaseEnd, with the name of the phase filled in. Nil discards them.
	Sink progress.Sink
	// Timeout is the limit of the whole run, which has set the deadline of Run's ctx, and Setting its flag. Phases that
	// are not Always end before it; those that are have what is kept for them, and more if their own limit is longer.
	Timeout time.Duration
	Setting string
	// CleanTimeout limits all CleanUps together (0: DefaultCleanTimeout).
	CleanTimeout time.Duration
	// Grace is how long a phase may take to return after its context has ended, at most (0: DefaultGrace). Then it is
	// given up.
	Grace time.Duration
	// Abort, when it ends, stops CleanUps and Always phases too (the second Ctrl-C): those under way get a second to
	// return and no other is begun. Nil: nothing does.
	Abort context.Context
}

// Run runs the phases. It returns one Outcome per phase, in order, the ones not reached as Skipped, and the errors of
// all phases that failed, each an *Error, joined: the first failure first, then those of cleaning up and of Always
// phases. After a failure, or once ctx has ended, phases are not begun, except Always ones; CleanUp of the phases that
// were begun is called before those, the latest first. A run whose ctx has ended returns an error even if every phase
// passed: interrupted is never success (but then nothing is cleaned up).
func (m *Manager) Run(ctx context.Context) ([]Outcome, error) {
	r := &run{Manager: m, sink: m.Sink, reserve: m.reserveOf(ctx)}
	if r.sink == nil {
		r.sink = progress.Discard
	}
	outcomes := make([]Outcome, 0, len(m.Phases))
	for _, entry := range m.Phases {
		outcomes = append(outcomes, r.one(ctx, entry))
	}
	if r.stopped != "" {
		r.cleanUp(ctx)
	}
	r.noteInterruption(ctx)
	return outcomes, errors.Join(r.errs...)
}

// run is the state of one Run.
type run struct {
	*Manager
	sink    progress.Sink
	begun   []Phase // not cleaned up yet
	errs    []error // the first failure first
	reserve time.Duration
	stopped string // why later phases do not run; empty while they do
}

func (r *run) one(ctx context.Context, entry Entry) Outcome {
	sink := progress.With(r.sink, progress.Event{Phase: entry.Name()})
	if r.noteInterruption(ctx) && r.stopped == "" {
		r.stopped = "not run: interrupted"
	}
	if entry.Always {
		if r.stopped != "" {
			r.cleanUp(ctx)
		}
		if cause := r.aborted(); cause != nil {
			outcome := Outcome{Name: entry.Name(), Status: progress.Interrupted, Err: fmt.Errorf("not run: %w", cause)}
			emit(sink, outcome)
			r.keep(outcome)
			return outcome
		}
		detached, cancel := r.detach(ctx)
		defer cancel()
		ctx = detached
	} else if r.stopped != "" {
		outcome := Outcome{Name: entry.Name(), Status: progress.Skipped, Reason: r.stopped}
		emit(sink, outcome)
		return outcome
	}
	sink.Emit(progress.Event{Kind: progress.PhaseStart})
	outcome := r.attempt(ctx, sink, entry)
	sink.Emit(endOf(outcome))
	if outcome.Err != nil {
		r.keep(outcome)
		how := "failed"
		if outcome.Status == progress.Interrupted {
			how = "was interrupted"
		}
		r.stopped = cmp.Or(r.stopped, fmt.Sprintf("not run: %s %s", outcome.Name, how))
	}
	return outcome
}

// keep keeps the error of a phase.
func (r *run) keep(o Outcome) {
	r.errs = append(r.errs, &Error{Phase: o.Name, Status: o.Status, Err: o.Err})
}

// noteInterruption makes a run whose ctx has ended one that failed, before anything else does.
func (r *run) noteInterruption(ctx context.Context) bool {
	if ctx.Err() == nil {
		return false
	}
	if len(r.errs) == 0 {
		r.errs = append(r.errs, context.Cause(ctx))
	}
	return true
}

func emit(sink progress.Sink, o Outcome) {
	sink.Emit(progress.Event{Kind: progress.PhaseStart})
	sink.Emit(endOf(o))
}

func endOf(o Outcome) progress.Event {
	e := progress.Event{Kind: progress.PhaseEnd, Status: o.Status, Seconds: o.Seconds, Message: o.Reason}
	return e.WithError(o.Err)
}

// attempt asks a phase whether it is needed and runs it within its limit.
func (r *run) attempt(parent context.Context, sink progress.Sink, entry Entry) (o Outcome) {
	o = Outcome{Name: entry.Name(), Status: progress.Passed}
	began := time.Now()
	defer func() { o.Seconds = time.Since(began).Seconds() }()

	limit, whole := r.limitOf(parent, entry)
	ctx, cancel := limited(parent, limit, r.grace(), progress.ErrTimeUp)
	defer cancel()
	var skipped bool
	skipped, o.Reason, o.Err = r.skip(ctx, sink, entry.Phase)
	if o.Err == nil && skipped {
		o.Status = progress.Skipped
		return o
	}
	if o.Err == nil {
		r.begun = append(r.begun, entry.Phase)
		o.Err = r.within(ctx, sink, entry.Run)
	}
	if o.Err == nil {
		if entry.Always { // it passed whatever went wrong around it
			r.begun = r.begun[:len(r.begun)-1]
		}
		return o
	}
	o.Reason = ""
	if context.Cause(ctx) == progress.ErrTimeUp {
		kept := graceOf(limit, r.grace())
		if whole {
			o.Err = &TimeoutError{
				Limit: r.Timeout, After: r.Timeout - r.reserve - kept, Setting: r.Setting, Whole: true, Err: o.Err,
			}
		} else {
			o.Err = &TimeoutError{Limit: limit, After: limit - kept, Setting: entry.Setting, Err: o.Err}
		}
	}
	o.Status = statusOf(parent, o.Err)
	return o
}

// skip asks a phase that may be skipped whether it is.
func (r *run) skip(ctx context.Context, sink progress.Sink, p Phase) (skipped bool, reason string, err error) {
	skipper, ok := p.(Skipper)
	if !ok {
		return false, "", nil
	}
	type answer struct {
		skipped bool
		reason  string
	}
	answers := make(chan answer, 1) // a phase that is abandoned answers nobody
	err = r.within(ctx, sink, func(ctx context.Context) error {
		reason, skipped, err := skipper.Skip(ctx)
		answers <- answer{skipped, reason}
		return err
	})
	if err != nil {
		return false, "", err
	}
	got := <-answers
	if !got.skipped {
		return false, "", nil
	}
	return true, got.reason, nil
}

func (r *run) grace() time.Duration { return cmp.Or(r.Grace, DefaultGrace) }

// limitOf is the limit of an entry: its own, or what the whole run has left for it.
func (r *run) limitOf(ctx context.Context, entry Entry) (limit time.Duration, whole bool) {
	deadline, whole := ctx.Deadline()
	if !whole {
		return entry.Timeout, false
	}
	left := max(time.Until(deadline)-r.reserve, 1)
	if entry.Timeout > 0 && entry.Timeout < left {
		return entry.Timeout, false
	}
	return left, true
}

// reserveOf is how much of the whole run's time is kept for Always phases.
func (m *Manager) reserveOf(ctx context.Context) time.Duration {
	deadline, whole := ctx.Deadline()
	if !whole || !slices.ContainsFunc(m.Phases, func(e Entry) bool { return e.Always }) {
		return 0
	}
	return min(maxReserve, time.Until(deadline)/reserveShare)
}

// within calls fn and waits for it, but not much longer than ctx: a phase that hangs must not keep others, which
// destroy what costs money, from running. It is abandoned then, and changes nothing InTurn any more. A panic becomes an
// error for the same reason.
func (r *run) within(ctx context.Context, sink progress.Sink, fn func(context.Context) error) error {
	done, mine := make(chan error, 1), new(turn)
	ctx = context.WithValue(ctx, turnKey{}, mine)
	go func() {
		err := errors.New("ended without a result") // if fn leaves by runtime.Goexit
		defer func() {
			if p := recover(); p != nil {
				sink.Emit(progress.Event{Kind: progress.Debug, Message: string(debug.Stack())})
				err = fmt.Errorf("panic: %v", p)
			}
			done <- err
		}()
		err = fn(ctx)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	grace := Grace(ctx)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	if r.Abort != nil {
		defer context.AfterFunc(r.Abort, func() { timer.Reset(abortGrace) })()
	}
	select {
	case err := <-done:
		return err
	case <-timer.C:
		mine.Lock()
		mine.lost = true
		mine.Unlock()
	}
	if cause := r.aborted(); cause != nil {
		return fmt.Errorf("%w: left as it is: %w", ErrStuck, cause)
	}
	return fmt.Errorf("%w: given up after %s more", ErrStuck, progress.FormatLimit(grace))
}

// aborted is the cause of Abort's end, or nil.
func (r *run) aborted() error {
	if r.Abort == nil {
		return nil
	}
	return context.Cause(r.Abort)
}

// detach returns a context that keeps ctx's values but ends only with Abort.
func (r *run) detach(ctx context.Context) (context.Context, context.CancelFunc) {
	detached, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	if r.Abort == nil {
		return detached, func() { cancel(nil) }
	}
	stop := context.AfterFunc(r.Abort, func() { cancel(context.Cause(r.Abort)) })
	return detached, func() { stop(); cancel(nil) }
}

// cleanUp calls CleanUp of the phases begun, the latest first, once per phase.
func (r *run) cleanUp(parent context.Context) {
	detached, stop := r.detach(parent)
	defer stop()
	ctx, cancel := limited(detached, cmp.Or(r.CleanTimeout, DefaultCleanTimeout), r.grace(), progress.ErrTimeUp)
	defer cancel()
	for len(r.begun) > 0 {
		phase := r.begun[len(r.begun)-1]
		r.begun = r.begun[:len(r.begun)-1]
		cleaner, ok := phase.(Cleaner)
		if !ok {
			continue
		}
		sink := progress.With(r.sink, progress.Event{Phase: phase.Name()})
		err := r.aborted()
		if err != nil {
			err = fmt.Errorf("%s was stopped, and not cleaned up after: what it has begun stays as it is: %w", phase.Name(), err)
		} else if err = r.within(ctx, sink, cleaner.CleanUp); err != nil && r.aborted() != nil {
			if errors.Is(err, context.Canceled) {
				err = r.aborted() // which says why
			}
			err = fmt.Errorf("cleaning up after %s was cut short: what was not done yet stays as it is: %w", phase.Name(), err)
		} else if err != nil {
			err = fmt.Errorf("cleaning up after %s: %w", phase.Name(), err)
		}
		if err != nil {
			progress.Warn(sink, err.Error(), progress.HintOf(err))
			r.errs = append(r.errs, err)
		}
	}
}
