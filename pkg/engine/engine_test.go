package engine_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"hive-test/pkg/config"
	"hive-test/pkg/engine"
	"hive-test/pkg/progress"
)

func open(t *testing.T, options engine.Options) *engine.Engine {
	t.Helper()
	e, err := engine.Open(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func settings(t *testing.T, values map[string]string) config.Settings {
	t.Helper()
	loaded, err := config.Load(config.LoadOptions{Values: values, Env: func(string) string { return "" }, WorkDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

func TestExample(t *testing.T) {
	engine.Simulated(t)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout := os.Stdout
	os.Stdout = write
	Example()
	os.Stdout = stdout
	_ = write.Close()
	said, err := io.ReadAll(read)
	if want := "passed <nil> <nil> <nil> <nil>\n"; err != nil || string(said) != want {
		t.Errorf("it printed %q, want %q (%v)", said, want, err)
	}
}

// collected are the events of runs, by cluster.
type collected struct {
	mu     sync.Mutex
	events map[string][]progress.Event
}

func (c *collected) Emit(e progress.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events[e.Cluster] = append(c.events[e.Cluster], e)
}

func TestTwoClustersAtOnceDoNotKnowOfEachOther(t *testing.T) {
	dir := engine.Simulated(t)
	events := &collected{events: map[string][]progress.Event{}}
	hive := open(t, engine.Options{Events: events})
	var wait sync.WaitGroup
	for name, suite := range map[string]string{"passes": "true", "fails": "false"} {
		wait.Go(func() {
			request := engine.Request{
				Name: name,
				Settings: settings(t, map[string]string{
					"sim": "true", "node_count": "1", "clusters_dir": dir, "suite": suite,
				}),
			}
			outcome, err := hive.Full(t.Context(), engine.FullRequest{UpRequest: engine.UpRequest{Request: request}})
			want := engine.ExitOK
			if name == "fails" {
				want = engine.ExitTest
			}
			if code := engine.CodeOf(t.Context(), err); code != want || outcome.Report.ExitCode != int(want) ||
				outcome.Report.Cluster != name {
				t.Errorf(
					"%s: exit code %d, report of %q with %d, want %d: %v", name, code, outcome.Report.Cluster,
					outcome.Report.ExitCode, want, err,
				)
			}
			if _, err := os.Stat(filepath.Join(outcome.Dir, "report.json")); err != nil ||
				!strings.Contains(outcome.Dir, name) {
				t.Errorf("%s: %v in %s", name, err, outcome.Dir)
			}
		})
	}
	wait.Wait()
	for _, e := range events.events[""] {
		t.Errorf("an event of no cluster: %+v", e)
	}
	if len(events.events) != 2 {
		t.Errorf("events of %d clusters", len(events.events))
	}
}

func TestACancelledRunCleansUp(t *testing.T) {
	dir := engine.Simulated(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("enough")
	started := progress.SinkFunc(func(e progress.Event) {
		if e.Kind == progress.PhaseStart && e.Phase == "configure" {
			cancel(stop)
		}
	})
	hive := open(t, engine.Options{Events: started})
	request := engine.Request{
		Name: "cut", Settings: settings(t, map[string]string{"sim": "true", "node_count": "1", "clusters_dir": dir}),
	}
	outcome, err := hive.Full(ctx, engine.FullRequest{UpRequest: engine.UpRequest{Request: request}})
	if !errors.Is(err, stop) {
		t.Errorf("it ended with %v", err)
	}
	last := outcome.Report.Phases[len(outcome.Report.Phases)-1]
	if last.Name != "down" || last.Status != progress.Passed {
		t.Errorf("the last phase is %+v", last)
	}
	if clusters, err := hive.Clusters(t.Context(), request.Settings); err != nil || len(clusters) != 0 {
		t.Errorf("left: %+v, %v", clusters, err)
	}
}
