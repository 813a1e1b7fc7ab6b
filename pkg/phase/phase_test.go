package phase_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"hive-test/pkg/phase"
	"hive-test/pkg/progress"
)

// fake is a Phase with every optional power.
type fake struct {
	name    string
	run     func(ctx context.Context) error
	skip    string
	cleanUp func(ctx context.Context) error
	log     *[]string
}

var (
	_ phase.Skipper = (*fake)(nil)
	_ phase.Cleaner = (*fake)(nil)
)

func (f *fake) Name() string { return f.name }

func (f *fake) Skip(context.Context) (string, bool, error) { return f.skip, f.skip != "", nil }

func (f *fake) Run(ctx context.Context) error {
	*f.log = append(*f.log, f.name)
	if f.run == nil {
		return nil
	}
	return f.run(ctx)
}

func (f *fake) CleanUp(ctx context.Context) error {
	*f.log = append(*f.log, "clean "+f.name)
	if f.cleanUp == nil {
		return nil
	}
	return f.cleanUp(ctx)
}

// untilDone is a phase that waits until it is told to stop.
func untilDone(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func ends(events []progress.Event) []string {
	var out []string
	for _, e := range events {
		switch e.Kind {
		case progress.PhaseStart:
			out = append(out, "start "+e.Phase)
		case progress.PhaseEnd:
			out = append(out, strings.TrimSpace(fmt.Sprintf("end %s %s %s%s", e.Phase, e.Status, e.Message, e.Error)))
		}
	}
	return out
}

func statuses(outcomes []phase.Outcome) string {
	var out []string
	for _, o := range outcomes {
		out = append(out, o.Name+"="+string(o.Status))
	}
	return strings.Join(out, " ")
}

func TestPhasesRunInOrderAndDoneOnesAreSkipped(t *testing.T) {
	var log []string
	events := &progress.Memory{}
	manager := phase.Manager{Sink: events, Phases: []phase.Entry{
		{Phase: &fake{name: "up", log: &log, skip: "3 nodes are there"}},
		{Phase: &fake{name: "configure", log: &log}},
	}}
	outcomes, err := manager.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"configure"}, log); diff != "" {
		t.Error(diff)
	}
	if outcomes[0].Reason != "3 nodes are there" {
		t.Errorf("reason: %q", outcomes[0].Reason)
	}
	want := []string{"start up", "end up skipped 3 nodes are there", "start configure", "end configure passed"}
	if diff := cmp.Diff(want, ends(events.Events())); diff != "" {
		t.Error(diff)
	}
}

func TestAFailureSkipsWhatFollowsCleansUpAndStillRunsAlways(t *testing.T) {
	var log []string
	boom, dirty, leak := errors.New("boom"), errors.New("dirty"), errors.New("vm 101 remains")
	events := &progress.Memory{}
	manager := phase.Manager{Sink: events, Phases: []phase.Entry{
		{Phase: &fake{name: "up", log: &log}},
		{Phase: &fake{
			name: "configure", log: &log,
			run:     func(context.Context) error { return progress.WithHint(boom, "look at the log") },
			cleanUp: func(context.Context) error { return dirty },
		}},
		{Phase: &fake{name: "test", log: &log}},
		{Phase: &fake{name: "down", log: &log, run: func(context.Context) error { return leak }}, Always: true},
	}}
	outcomes, err := manager.Run(t.Context())

	want := []string{"up", "configure", "clean configure", "clean up", "down", "clean down"}
	if diff := cmp.Diff(want, log); diff != "" {
		t.Error(diff)
	}
	if got, want := statuses(outcomes), "up=passed configure=failed test=skipped down=failed"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	first, ok := errors.AsType[*phase.Error](err)
	if !ok || first.Phase != "configure" {
		t.Errorf("the first error is %v", err)
	}
	if got, want := err.Error(), "configure: boom\ncleaning up after configure: dirty\ndown: vm 101 remains"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, e := range events.Events() {
		if e.Kind == progress.PhaseEnd && e.Phase == "configure" && e.Hint != "look at the log" {
			t.Errorf("hint: %q", e.Hint)
		}
		if e.Kind == progress.PhaseEnd && e.Phase == "test" && e.Message != "not run: configure failed" {
			t.Errorf("reason: %q", e.Message)
		}
	}
}

func TestATimeoutInterruptsAndIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		manager := phase.Manager{Phases: []phase.Entry{
			{Phase: phase.New("configure", untilDone), Timeout: 5 * time.Minute, Setting: "--timeout-configure"},
		}}
		began := time.Now()
		outcomes, err := manager.Run(t.Context())
		if got := time.Since(began); got != 225*time.Second {
			t.Errorf("took %s", got)
		}
		if got, want := err.Error(), "configure: timed out after 3m45s (--timeout-configure=5m, the rest is for stopping)"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if !errors.Is(err, context.DeadlineExceeded) || outcomes[0].Status != progress.Failed ||
			outcomes[0].Seconds != 225 {
			t.Errorf("got %+v", outcomes[0])
		}
		if got := progress.HintOf(err); !strings.Contains(got, "--timeout-configure=10m") {
			t.Errorf("hint: %q", got)
		}
	})
}

func TestATimeoutSaysWhatWasWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		manager := phase.Manager{Phases: []phase.Entry{{
			Phase: phase.New("up", func(ctx context.Context) error {
				<-ctx.Done()
				return fmt.Errorf("waiting for an address of ci-2: %w", ctx.Err())
			}),
			Timeout: 90 * time.Second, Setting: "--timeout-up",
		}}}
		_, err := manager.Run(t.Context())
		want := "up: timed out after 1m8s (--timeout-up=1m30s, the rest is for stopping): waiting for an address of ci-2: context deadline exceeded"
		if err.Error() != want {
			t.Errorf("got %q, want %q", err, want)
		}
	})
}

func TestAPhaseThatDoesNotStopIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log []string
		release := make(chan struct{})
		manager := phase.Manager{Phases: []phase.Entry{
			{Phase: phase.New("test", func(context.Context) error { <-release; return nil }), Timeout: time.Minute},
			{Phase: &fake{name: "down", log: &log}, Always: true},
		}}
		began := time.Now()
		_, err := manager.Run(t.Context())
		if got := time.Since(began); got != time.Minute {
			t.Errorf("took %s", got)
		}
		if !errors.Is(err, phase.ErrStuck) || len(log) != 1 {
			t.Errorf("got %v, log %v", err, log)
		}
		close(release)
	})
}

// Whatever the limit of a phase is, it has ended by then: what it does when it is told to stop has its share of the
// limit, and so has what must run after it.
func TestALimitHoldsWithAllThatEndingTakes(t *testing.T) {
	stubborn := func(ctx context.Context) error { // takes all the time that it is given, to the last
		<-ctx.Done()
		after, cancel := phase.After(ctx, time.Hour, errors.New("no more time"))
		defer cancel()
		<-after.Done()
		return context.Cause(after)
	}
	deaf := func(context.Context) error { time.Sleep(24 * time.Hour); return nil }
	inPart := func(ctx context.Context) error {
		part, cancel := phase.Part(ctx, time.Minute, 2, errors.New("its part is over"))
		defer cancel()
		if err := stubborn(part); ctx.Err() != nil || err == nil {
			return fmt.Errorf("nothing is left for the others: %w", err)
		}
		return stubborn(ctx)
	}
	for _, row := range []struct {
		name         string
		run          func(context.Context) error
		phase, whole time.Duration
		always       bool // something runs after it
		want         string
	}{
		{name: "short", run: stubborn, phase: 3 * time.Second, want: "x: timed out after 2.3s (--timeout-x=3s, the rest is for stopping): no more time"},
		{name: "long", run: stubborn, phase: 20 * time.Minute, want: "x: timed out after 18m (--timeout-x=20m, the rest is for stopping): no more time"},
		{name: "deaf", run: deaf, phase: time.Minute, want: "x: timed out after 45s (--timeout-x=1m, the rest is for stopping): did not stop when told to: given up after 15s more"},
		{name: "in parts", run: inPart, phase: 3 * time.Second, want: "x: timed out after 2.3s (--timeout-x=3s, the rest is for stopping): no more time"},
		{name: "whole run", run: stubborn, phase: time.Hour, whole: 12 * time.Second, want: "x: the whole run timed out after 9s (--timeout=12s, the rest is for stopping): no more time"},
		{name: "whole run, without a limit of its own", run: deaf, whole: 12 * time.Second, want: "x: the whole run timed out after 9s (--timeout=12s, the rest is for stopping): did not stop when told to: given up after 3s more"},
		{name: "whole run with an end", run: stubborn, whole: 16 * time.Second, always: true, want: "x: the whole run timed out after 9s (--timeout=16s, the rest is for stopping): no more time"},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, limit := t.Context(), row.phase
				if row.whole > 0 {
					limited, cancel := context.WithTimeout(ctx, row.whole)
					defer cancel()
					ctx, limit = limited, row.whole
				}
				began := time.Now()
				manager := phase.Manager{Timeout: row.whole, Setting: "--timeout", Phases: []phase.Entry{
					{Phase: phase.New("x", row.run), Timeout: row.phase, Setting: "--timeout-x"},
				}}
				if row.always {
					limit -= limit / 4
					manager.Phases = append(manager.Phases, phase.Entry{Always: true, Phase: phase.New("down", func(ctx context.Context) error {
						if took := time.Since(began); took > limit {
							t.Errorf("down began after %s", took)
						}
						return ctx.Err()
					})})
				}
				_, err := manager.Run(ctx)
				if took := time.Since(began); took > limit {
					t.Errorf("took %s of %s", took, limit)
				}
				if err == nil || err.Error() != row.want {
					t.Errorf("got  %v\nwant %s", err, row.want)
				}
				time.Sleep(25 * time.Hour) // the deaf one ends, too
			})
		})
	}
}

func TestAnInterruptionStopsThePhaseAndStillCleans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log []string
		stop := errors.New("interrupt")
		ctx, cancel := context.WithCancelCause(t.Context())
		alive := func(ctx context.Context) error {
			_, limited := ctx.Deadline()
			return errors.Join(ctx.Err(), map[bool]error{false: errors.New("no deadline")}[limited])
		}
		manager := phase.Manager{Phases: []phase.Entry{
			{Phase: &fake{name: "up", log: &log, run: untilDone, cleanUp: alive}},
			{Phase: &fake{name: "configure", log: &log}},
			{Phase: &fake{name: "down", log: &log, run: func(ctx context.Context) error { return ctx.Err() }}, Always: true},
		}}
		time.AfterFunc(time.Second, func() { cancel(stop) })
		outcomes, err := manager.Run(ctx)
		if got, want := statuses(outcomes), "up=interrupted configure=skipped down=passed"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if diff := cmp.Diff([]string{"up", "clean up", "down"}, log); diff != "" {
			t.Error(diff)
		}
		if got, want := err.Error(), "up: context canceled"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestInterruptedIsNeverSuccess(t *testing.T) {
	stop := errors.New("received interrupt")
	ctx, cancel := context.WithCancelCause(t.Context())
	var log []string
	manager := phase.Manager{Phases: []phase.Entry{
		{Phase: &fake{name: "up", log: &log, run: func(context.Context) error { cancel(stop); return nil }}},
	}}
	outcomes, err := manager.Run(ctx)
	if !errors.Is(err, stop) || statuses(outcomes) != "up=passed" {
		t.Errorf("got %v, %s", err, statuses(outcomes))
	}
	if diff := cmp.Diff([]string{"up"}, log); diff != "" {
		t.Errorf("nothing is to be cleaned up: %s", diff)
	}
}

func TestAnInterruptionBetweenPhasesComesBeforeErrorsOfCleaningUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var log []string
	manager := phase.Manager{Phases: []phase.Entry{
		{Phase: &fake{
			name: "up", log: &log, run: func(context.Context) error { cancel(); return nil },
			cleanUp: func(context.Context) error { return errors.New("dirty") },
		}},
		{Phase: &fake{name: "test", log: &log}},
	}}
	_, err := manager.Run(ctx)
	if got, want := err.Error(), "context canceled\ncleaning up after up: dirty"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAbortStopsAlwaysPhasesAndCleanUps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		abort, second := context.WithCancel(t.Context())
		ctx, first := context.WithCancel(t.Context())
		var log []string
		manager := phase.Manager{Abort: abort, Phases: []phase.Entry{
			{Phase: &fake{name: "up", log: &log, run: untilDone, cleanUp: untilDone}},
			{Phase: &fake{name: "down", log: &log, run: untilDone}, Always: true},
		}}
		time.AfterFunc(time.Second, first)
		time.AfterFunc(3*time.Second, second)
		began := time.Now()
		outcomes, err := manager.Run(ctx)
		if got := time.Since(began); got != 3*time.Second {
			t.Errorf("took %s", got)
		}
		if err == nil || statuses(outcomes) != "up=interrupted down=interrupted" {
			t.Errorf("got %v, %s", err, statuses(outcomes))
		}
	})
}

func TestAbortDoesNotWaitForAPhaseThatDoesNotStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		abort, second := context.WithCancelCause(t.Context())
		ctx, first := context.WithCancel(t.Context())
		var log []string
		release := make(chan struct{})
		manager := phase.Manager{Abort: abort, Phases: []phase.Entry{
			{Phase: &fake{name: "up", log: &log, run: func(context.Context) error { <-release; return nil }, cleanUp: untilDone}},
			{Phase: &fake{name: "down", log: &log, run: untilDone}, Always: true},
		}}
		time.AfterFunc(time.Second, first)
		time.AfterFunc(3*time.Second, func() { second(errors.New("interrupted again")) })
		began := time.Now()
		outcomes, err := manager.Run(ctx)
		if got := time.Since(began); got != 4*time.Second {
			t.Errorf("took %s", got)
		}
		if !errors.Is(err, phase.ErrStuck) ||
			!strings.Contains(err.Error(), "up was stopped, and not cleaned up after: what it has begun stays as it is: interrupted again") ||
			statuses(outcomes) != "up=interrupted down=interrupted" {
			t.Errorf("got %v, %s", err, statuses(outcomes))
		}
		close(release)
		synctest.Wait()
		if diff := cmp.Diff([]string{"up"}, log); diff != "" {
			t.Errorf("nothing is begun any more: %s", diff)
		}
	})
}

func TestCleaningUpThatIsCutShortSaysWhatStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		abort, second := context.WithCancelCause(t.Context())
		var log []string
		manager := phase.Manager{Abort: abort, Phases: []phase.Entry{
			{Phase: &fake{name: "up", log: &log, run: func(context.Context) error { return errors.New("boom") }, cleanUp: untilDone}},
		}}
		time.AfterFunc(3*time.Second, func() { second(errors.New("interrupted again")) })
		_, err := manager.Run(t.Context())
		const want = "up: boom\ncleaning up after up was cut short: what was not done yet stays as it is: interrupted again"
		if err == nil || err.Error() != want {
			t.Errorf("got %v", err)
		}
	})
}

func TestCleaningUpHasADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log []string
		manager := phase.Manager{CleanTimeout: 10 * time.Second, Phases: []phase.Entry{
			{Phase: &fake{name: "up", log: &log, run: func(context.Context) error { return errors.New("boom") }, cleanUp: untilDone}},
		}}
		began := time.Now()
		_, err := manager.Run(t.Context())
		if time.Since(began) != 7500*time.Millisecond || !strings.Contains(err.Error(), "cleaning up after up") {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
	})
}

func TestAPanicIsAnErrorOfItsPhase(t *testing.T) {
	var log []string
	manager := phase.Manager{Phases: []phase.Entry{
		{Phase: phase.New("configure", func(context.Context) error { panic("nil map") })},
		{Phase: &fake{name: "down", log: &log}, Always: true},
	}}
	_, err := manager.Run(t.Context())
	if got, want := err.Error(), "configure: panic: nil map"; got != want || len(log) != 1 {
		t.Errorf("got %q, log %v", got, log)
	}
}

func TestStep(t *testing.T) {
	events := &progress.Memory{}
	sink := progress.With(events, progress.Event{Phase: "configure"})
	err := phase.Step(t.Context(), sink, "install", func(_ context.Context, sink progress.Sink) error {
		sink.Emit(progress.Event{Kind: progress.Wait, Message: "apt"})
		return progress.WithHint(errors.New("no space"), "grow the disk")
	})
	if err == nil || err.Error() != "install: no space" || progress.HintOf(err) != "grow the disk" {
		t.Errorf("got %v", err)
	}
	var got []string
	for _, e := range events.Events() {
		got = append(got, fmt.Sprint(e.Kind, " ", e.Phase, "/", e.Step, " ", e.Status, " ", e.Error, " ", e.Hint))
	}
	want := []string{
		"step_start configure/install   ",
		"wait configure/install   ",
		"step_end configure/install failed no space grow the disk",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAStepDoesNotBeginOnceInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := phase.Step(ctx, progress.Discard, "form", func(context.Context, progress.Sink) error {
		t.Error("the step ran")
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
