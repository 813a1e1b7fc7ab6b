package lifecycle

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/phase"
	"hive-test/pkg/progress"
	"hive-test/pkg/suite"
)

// CleanTag is the tag of the snapshot that suites are begun from.
const CleanTag = "hive-test-clean"

// Reset says how suites get the cluster as it was before the first of them.
type Reset struct {
	Between bool // before each suite but the first
	Memory  bool // by a snapshot that keeps memory, where one can be made
}

// undoReset is how long the snapshot that suites were begun from may take to be deleted when they have ended.
const undoReset = 2 * time.Minute

// resets brings the cluster back between suites.
type resets struct {
	*Job
	sink  progress.Sink
	mine  bool // the snapshot was made by this run, which deletes it
	dirty bool // it was there before: whatever ran since has left something
}

// begin makes the snapshot, or takes the one that is there and was made since hive was configured.
func (s *resets) begin(ctx context.Context) error {
	all, err := Snapshots(ctx, s.Job)
	if err != nil {
		return err
	}
	_, err = FindSnapshot(s.Record.Name, s.Record.Nodes, all, CleanTag)
	there := err == nil // before this run: one takes its place that stays, too
	if there && s.current() {
		s.dirty = true
		return nil
	}
	return phase.Step(ctx, s.sink, "make snapshot "+CleanTag, func(ctx context.Context, sink progress.Sink) error {
		if err := DeleteSnapshot(ctx, s.Job, CleanTag); err != nil { // of an earlier hive, or of some nodes
			return err
		}
		s.mine = !there
		return saveForReset(ctx, s.Job, CleanTag, sink)
	})
}

// saveForReset makes a snapshot that a reset brings back. Where memory cannot be kept, as where the storage has no room
// for it, it is of the disks, and nodes boot at each reset.
func saveForReset(ctx context.Context, r *Job, tag string, sink progress.Sink) error {
	err := SaveSnapshot(ctx, r, tag, r.Reset.Memory, sink)
	if err == nil || !r.Reset.Memory || ctx.Err() != nil {
		return err
	}
	if diskErr := SaveSnapshot(ctx, r, tag, false, sink); diskErr != nil {
		return diskErr
	}
	progress.Warn(sink, fmt.Sprintf("the nodes boot at each reset, as their memory could not be kept: %v", err),
		"--reset-memory=false does not try to")
	return nil
}

// current reports whether the snapshot is of the hive that runs now.
func (s *resets) current() bool {
	then, now := s.Record.Snapshots[CleanTag].Configure, s.Record.Phases[cluster.PhaseConfigure]
	return then != nil && then.Status == cluster.PhaseDone && then.Ended.Equal(now.Ended)
}

// reset brings the cluster back before a suite, as one step.
func (s *resets) reset(ctx context.Context, next string) error {
	b := &restore{Job: s.Job, tag: CleanTag, restart: true}
	return phase.Step(ctx, s.sink, "reset for suite "+next, func(ctx context.Context, sink progress.Sink) error {
		inner := withoutSteps(sink)
		for _, part := range b.parts() {
			if err := part.do(ctx, inner); err != nil {
				return fmt.Errorf("%s: %w", part.name, err)
			}
		}
		return b.startHive(ctx, inner)
	})
}

// withoutSteps passes on all but where steps begin and end: they are parts of one.
func withoutSteps(sink progress.Sink) progress.Sink {
	return progress.SinkFunc(func(e progress.Event) {
		if e.Kind != progress.StepStart && e.Kind != progress.StepEnd {
			e.Step = ""
			sink.Emit(e)
		}
	})
}

// end deletes the snapshot that this run has made.
func (s *resets) end(ctx context.Context) {
	if !s.mine {
		return
	}
	if s.Record.Restoring != nil { // it is needed to finish that
		progress.Warn(s.sink, fmt.Sprintf("a reset was cut off: snapshot %s stays", CleanTag),
			fmt.Sprintf("hive-test snapshot restore %s %s", s.Record.Name, CleanTag))
		return
	}
	ctx, cancel := s.detached(ctx, undoReset)
	defer cancel()
	if err := DeleteSnapshot(ctx, s.Job, CleanTag); err != nil {
		progress.Warn(s.sink, fmt.Sprintf("snapshot %s stays: %v", CleanTag, err),
			fmt.Sprintf("hive-test snapshot delete %s %s", s.Record.Name, CleanTag))
	}
}

// withResets runs act, which runs suites, with what it is to call before each suite but the first; nil: nothing.
func (r *Job) withResets(
	ctx context.Context, sink progress.Sink, act func(*resets) (suite.Results, error),
) (results suite.Results, err error) {
	if !r.Reset.Between || len(r.Suites.Specs) < 2 {
		return act(nil)
	}
	s := &resets{Job: r, sink: sink}
	defer s.end(ctx)
	if err := s.begin(ctx); err != nil {
		return results, err
	}
	if s.dirty {
		if err := s.reset(ctx, r.Suites.Specs[0].Title()); err != nil {
			return results, err
		}
	}
	return act(s)
}

// resetWith is what suites call before each of them but the first; nil: nothing.
func (l *lossMonitor) resetWith(s *resets) func(context.Context, suite.SuiteResult, string) error {
	if s == nil {
		return nil
	}
	return func(ctx context.Context, before suite.SuiteResult, next string) error {
		if before.Failed() {
			s.keepEvidence(ctx, before.Name)
		}
		return l.paused(func() error { return s.reset(ctx, next) })
	}
}

// paused runs act, which stops and starts machines, while nobody watches them.
func (l *lossMonitor) paused(act func() error) error {
	l.turn.Lock()
	defer l.turn.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	err := act()
	l.fresh = true
	if handle, handleErr := l.hive(l.sink); handleErr == nil {
		l.handle = handle
	}
	return err
}

// keepEvidence gathers what the nodes can tell after a suite that failed: nothing of it is there after the reset.
func (s *resets) keepEvidence(ctx context.Context, name string) {
	gather, cancel := s.detached(ctx, GatherTime)
	defer cancel()
	dir := filepath.Join("before-reset", filepath.Base(name))
	progress.Infof(s.sink, "what the nodes tell after suite %s goes to %s", name, dir)
	s.shared.Lock()
	one := &Job{
		Record: s.Record, Store: s.Store, Evidence: evidenceBelow{s.Evidence, dir}, Deploy: s.Deploy, Dial: s.Dial,
		Sink: s.Sink, Hive: s.Hive, Now: s.Now, Interrupted: s.Interrupted, Secrets: s.Secrets, Abort: s.Abort,
		remote: s.remote,
	}
	s.shared.Unlock()
	one.Gather(gather, cluster.PhaseTest, s.Record.Nodes, true)
}

// evidenceBelow is a directory of a run's.
type evidenceBelow struct {
	Evidence
	dir string
}

// Path is below that directory.
func (e evidenceBelow) Path(elem ...string) string {
	return e.Evidence.Path(slices.Concat([]string{e.dir}, elem)...)
}
