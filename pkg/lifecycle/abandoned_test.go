package lifecycle

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/phase"
	"hive-test/pkg/progress"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// A phase that ignores its limit is abandoned, and the run goes on. When it returns after all, it changes neither the
// record, which is another phase's now, nor what the run has gathered; the race detector sees what it shares.
func TestAnAbandonedPhaseChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		job := w.job(t)
		release := make(chan struct{})
		deaf := phase.New("configure", func(ctx context.Context) error {
			return job.recorded(ctx, cluster.PhaseConfigure, "", func(context.Context) error {
				<-release
				job.remember([]Item{{Node: "ci-1-1", What: "journal", Got: true}})
				return errors.New("much too late")
			})
		})
		manager := phase.Manager{Phases: []phase.Entry{
			{Phase: collectOnFailure{Phase: deaf, run: job, outside: true}, Timeout: time.Minute},
			{Always: true, Phase: phase.New("down", func(ctx context.Context) error {
				return job.recorded(ctx, cluster.PhaseDown, "", func(context.Context) error { return nil })
			})},
		}}
		if _, err := manager.Run(t.Context()); !errors.Is(err, phase.ErrStuck) {
			t.Fatalf("got %v", err)
		}
		close(release)
		if err := errors.Join(job.WriteIndex(), job.Close()); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if got := job.Record.Phases[cluster.PhaseConfigure]; got.Status != cluster.PhaseRunning || got.Error != "" {
			t.Errorf("the abandoned phase has recorded %s, %q", got.Status, got.Error)
		}
		if _, last := job.Record.Current(); last != cluster.PhaseDone {
			t.Errorf("got %s", last)
		}
	})
}

// Nor does it bring back what a later phase has removed.
func TestAnAbandonedPhaseBringsNothingBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		job := w.job(t)
		book := &journal{Job: job}
		release := make(chan struct{})
		deaf := phase.New("configure", func(ctx context.Context) error {
			return job.recorded(ctx, cluster.PhaseConfigure, "", func(ctx context.Context) error {
				return job.steps(ctx, cluster.PhaseConfigure, step{"first", func(ctx context.Context, _ progress.Sink) error {
					<-release
					late := book.Begin(ctx, "os", []string{"ci-1-1"})
					book.End(ctx, "os", nil)
					saved := job.change(ctx, func() { job.Record.Nodes = nil })
					if !errors.Is(late, phase.ErrStuck) || !errors.Is(saved, phase.ErrStuck) {
						t.Errorf("got %v, %v", late, saved)
					}
					return nil
				}}, step{"second", func(context.Context, progress.Sink) error {
					t.Error("a step begins")
					return nil
				}})
			})
		})
		var before cluster.Record
		manager := phase.Manager{Phases: []phase.Entry{
			{Phase: deaf, Timeout: time.Minute},
			{Always: true, Phase: phase.New("down", func(context.Context) error {
				before = *job.Record
				return nil
			})},
		}}
		if _, err := manager.Run(t.Context()); !errors.Is(err, phase.ErrStuck) {
			t.Fatalf("got %v", err)
		}
		close(release)
		synctest.Wait()
		if diff := cmp.Diff(before, *job.Record, cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})); diff != "" {
			t.Error(diff)
		}
	})
}
