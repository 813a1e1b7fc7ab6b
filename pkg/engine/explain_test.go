package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hive-test/pkg/config"
	"hive-test/pkg/explain"
	"hive-test/pkg/progress"
	"hive-test/pkg/state"
)

// Of a suite that printed without end the events have the beginning only. What was said of it at the end is repeated.
func TestExplainRepeatsWhatWasSaidOfALoudSuite(t *testing.T) {
	if os.Getenv("HIVE_TEST_SOAK") == "" {
		t.Skip("takes a minute with the race detector: make soak runs it")
	}
	dir := t.TempDir()
	store, err := state.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	run, err := store.NewRun("red", "test", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	recorder, err := progress.Recorder(filepath.Join(run.Dir, state.EventsFile))
	if err != nil {
		t.Fatal(err)
	}
	var memory progress.Memory
	sink := progress.Multi(recorder, &memory)
	event := progress.Event{Cluster: "red", Verb: "test", Phase: "test"}
	emit := func(kind progress.Kind, change func(*progress.Event)) {
		e := event
		e.Kind = kind
		change(&e)
		sink.Emit(e)
	}
	emit(progress.PhaseStart, func(*progress.Event) {})
	for i := range 200 {
		emit(progress.Output, func(e *progress.Event) {
			e.Suite, e.Message = "loud", fmt.Sprint(strings.Repeat("x", 60_000), "\nline ", i)
		})
	}
	emit(progress.Case, func(e *progress.Event) {
		e.Suite, e.Name, e.Status, e.Error = "loud", "loud", progress.Failed, "exited with 3"
	})
	emit(progress.PhaseEnd, func(e *progress.Event) { e.Status, e.Error = progress.Failed, "tests failed" })
	end := progress.Event{Cluster: "red", Verb: "test", Kind: progress.RunEnd, Status: progress.Failed}
	end.Explanation = explain.Run(append(memory.Events(), end), nil, false)
	sink.Emit(end)
	if err := recorder.Close(); err != nil {
		t.Fatal(err)
	}
	e, err := Open(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	document, err := e.Explain(Request{Name: "red", Settings: config.Settings{ClustersDir: dir}})
	if err != nil {
		t.Fatal(err)
	}
	said := explain.Gone(end.Explanation) // there is no cluster of that name
	if diff := cmp.Diff(said, document.Failed.Explanation); diff != "" {
		t.Errorf("(-said +repeated)\n%s", diff)
	}
}
