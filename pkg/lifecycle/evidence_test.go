package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/phase"
	"hive-test/pkg/progress"
)

// brokenPhase is a phase that fails.
func brokenPhase() phase.Phase {
	return phase.New("configure", func(context.Context) error { return errors.New("no") })
}

func readIndex(t *testing.T, job *Job) Index {
	t.Helper()
	raw, err := os.ReadFile(job.Evidence.Path(IndexFile))
	if err != nil {
		t.Fatal(err)
	}
	var index Index
	if err := json.Unmarshal(raw, &index); err != nil {
		t.Fatal(err)
	}
	return index
}

func TestAFailureIsFollowedByEvidence(t *testing.T) {
	w := world{}
	job := w.job(t)
	job.Secrets = new(progress.Secrets)
	job.Secrets.Learn("status: running")
	if err := os.WriteFile(job.Evidence.Path("events.jsonl"), []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := (collectOnFailure{Phase: brokenPhase(), run: job}).Run(t.Context()); err == nil || err.Error() != "no" {
		t.Errorf("the failure became %v", err)
	}
	want := Index{Schema: 1, Cluster: "ci-1", Items: []Item{
		{Node: "ci-1-1", What: "ssh", Why: "its address is not known"},
		{Node: "ci-1-1", What: "pve/agent", File: "nodes/ci-1-1/pve/agent.txt", Bytes: 11, Got: true},
		{Node: "ci-1-1", What: "pve/config", File: "nodes/ci-1-1/pve/config.txt", Bytes: 13, Got: true},
		{Node: "ci-1-1", What: "pve/tasks", Why: "not now"},
		{What: "plan", Why: "nothing was planned"},
		{What: "run", File: "events.jsonl", Bytes: 3, Got: true},
		{What: "run", Why: "tofu.log: tofu did not run"},
	}}
	got := readIndex(t, job)
	slices.SortStableFunc(got.Items, func(a, b Item) int { return strings.Compare(a.File+"~"+a.Why, b.File+"~"+b.Why) })
	slices.SortStableFunc(
		want.Items, func(a, b Item) int { return strings.Compare(a.File+"~"+a.Why, b.File+"~"+b.Why) },
	)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	text, err := os.ReadFile(job.Evidence.Path("nodes", "ci-1-1", "pve", "agent.txt"))
	if err != nil || string(text) != progress.Redacted+"\n" {
		t.Errorf("got %q, %v", text, err)
	}
}

func TestWhatWasGotBeforeIsKept(t *testing.T) {
	w := world{}
	job := w.job(t)
	job.remember([]Item{{Node: "a", What: "pve/config", File: "x", Got: true}, {Node: "a", What: "ssh", Why: "once"}})
	job.remember([]Item{{Node: "a", What: "pve/config", Why: "it is gone"}, {Node: "a", What: "ssh", Why: "again"}})
	want := []Item{{Node: "a", What: "pve/config", File: "x", Got: true}, {Node: "a", What: "ssh", Why: "again"}}
	if diff := cmp.Diff(want, job.Gathered()); diff != "" {
		t.Error(diff)
	}
}

// hanging is a hypervisor that never answers.
type hanging struct{ *world }

func (h hanging) Describe(ctx context.Context, _ *cluster.Record, _ cluster.Node) []deploy.Diagnostic {
	<-ctx.Done()
	return []deploy.Diagnostic{{What: "config", Err: context.Cause(ctx)}}
}

func (h hanging) DescribeGuest(ctx context.Context, r *cluster.Record, n cluster.Node) []deploy.Diagnostic {
	return h.Describe(ctx, r, n)
}

func TestGatheringIsBounded(t *testing.T) {
	for _, tc := range []struct {
		name        string
		interrupted bool
		outside     bool
		abort       time.Duration
		want        time.Duration
	}{
		{name: "after a failure", want: GatherTime},
		{name: "after an interruption", interrupted: true, want: interruptedTime},
		{name: "after an interruption of what destroys", interrupted: true, outside: true},
		{name: "until the second wish to stop", interrupted: true, abort: time.Second, want: time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				w := world{}
				job := w.job(t)
				job.Evidence, job.Deploy = place{&w, dir}, deploy.Of(hanging{&w})
				job.Interrupted = func() bool { return tc.interrupted }
				if tc.abort > 0 {
					abort, cancel := context.WithTimeout(context.Background(), tc.abort)
					defer cancel()
					job.Abort = abort
				}
				ctx, cancel := context.WithCancel(t.Context())
				if tc.interrupted {
					cancel()
				}
				defer cancel()
				began := time.Now()
				if err := (collectOnFailure{Phase: brokenPhase(), run: job, outside: tc.outside}).Run(ctx); err == nil {
					t.Error("the failure is lost")
				}
				if took := time.Since(began); took != tc.want {
					t.Errorf("it took %s, want %s", took, tc.want)
				}
			})
			if entries, err := os.ReadDir(filepath.Join(dir, "nodes")); err == nil && tc.outside {
				t.Errorf("there is evidence: %v", entries)
			}
		})
	}
}
