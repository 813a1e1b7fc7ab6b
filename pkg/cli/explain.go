package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
	"hive-test/pkg/explain"
	"hive-test/pkg/progress"
	"hive-test/pkg/remote"
	"hive-test/pkg/report"
	"hive-test/pkg/state"
)

func (a *app) explainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain NAME",
		Short: "why the latest run of a cluster that failed did: what, where, the likely cause, and what comes next",
		Long: `explain repeats, from what the latest failed run of a cluster left, what that run said at its end: what failed, on which
node, the last lines that matter, the likely cause if such failures are known, and what comes next. It asks no node and
needs no cluster: the evidence outlives it.`,
		Example: `  hive-test explain ci-123
  hive-test explain ci-123 -o json`,
		Args: named(1),
	}
	load := a.settings(cmd)
	cmd.RunE = run(func(_ context.Context, _ *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		if err := checkFormat(settings.Output, "table", "wide", "json", "yaml"); err != nil {
			return err
		}
		return a.explain(args[0], settings)
	})
	return cmd
}

// explainJSON is the shape of `explain -o json`. Failed is null where no run failed.
type explainJSON struct {
	Schema  int           `json:"schema"`
	Cluster string        `json:"cluster"`
	Latest  runJSON       `json:"latest"`
	Failed  *failedJSON   `json:"failed"`
	Running *state.Holder `json:"running,omitempty"` // the run that is at work now
}

type runJSON struct {
	RunDir   string          `json:"run_dir"`
	Verb     string          `json:"verb"`
	Result   progress.Status `json:"result"`
	ExitCode int             `json:"exit_code"`
	Started  time.Time       `json:"started"`
}

type failedJSON struct {
	runJSON
	Explanation *progress.Explanation `json:"explanation"`
}

func (a *app) explain(name string, settings config.Settings) error {
	parsed, store, err := storeOf(name, settings)
	if err != nil {
		return err
	}
	document, err := a.explanation(store, parsed)
	if err != nil {
		return err
	}
	if structured, err := printAs(a.Stdout, settings.Output, document); structured {
		return err
	}
	return a.printExplanation(document)
}

// explanation looks through the runs of a cluster, the newest first, for one that failed.
func (a *app) explanation(store *state.Store, name cluster.Name) (explainJSON, error) {
	document := explainJSON{Schema: outputSchema, Cluster: name.String()}
	runs, err := store.Runs(name)
	if err != nil {
		return document, err
	}
	if holder, life := store.Holder(name); len(runs) > 0 && life == state.Alive {
		if running, _ := readRun(runs[0]); running.ending == nil { // the newest is at work and has nothing to tell yet
			document.Running, runs = &holder, runs[1:]
		}
	}
	record, err := store.Load(name)
	hosts := err == nil && record.Spec.Deployer == cluster.DeployerExisting // without a record, the run has told by itself mostly
	for i, run := range runs {
		r, err := readRun(run)
		if err != nil {
			return document, err
		}
		if i == 0 {
			document.Latest = r.runJSON
		}
		x := explain.Run(r.events, os.DirFS(run.Dir), hosts)
		if r.ending != nil && r.ending.Explanation != nil { // which knew all output, and not only what is recorded
			x = r.ending.Explanation
		}
		if x != nil {
			document.Failed = &failedJSON{r.runJSON, x}
			break
		}
	}
	if len(runs) == 0 && document.Running == nil {
		return document, codeError{ExitNotFound, progress.WithHint(
			fmt.Errorf("cluster %q has no run in %s", name, store.Root()), "`hive-test status` lists the clusters that are here; --clusters-dir names another directory")}
	}
	return document, nil
}

// recordedRun is a run as its events tell it.
type recordedRun struct {
	runJSON
	events []progress.Event
	ending *progress.Event // nil: it was killed, or is at work
}

// readRun reads a run's events. A line that is broken ends them: what comes before explains more than nothing.
func readRun(run state.Run) (recordedRun, error) {
	file, err := os.Open(filepath.Join(run.Dir, state.EventsFile))
	if err != nil {
		return recordedRun{}, fmt.Errorf("reading a run: %w", err)
	}
	defer func() { _ = file.Close() }()
	events, err := progress.ReadEvents(file)
	if err != nil && len(events) == 0 {
		return recordedRun{}, fmt.Errorf("reading the run in %s: %w", run.Dir, err)
	}
	r := report.Build(events)
	out := recordedRun{runJSON: runJSON{RunDir: run.Dir, Verb: r.Verb, Result: r.Result, ExitCode: r.ExitCode, Started: r.Started}, events: events}
	for i, e := range events {
		if e.Kind == progress.RunEnd {
			out.ending = &events[i]
		}
	}
	return out, nil
}

func (a *app) printExplanation(document explainJSON) error {
	if document.Running != nil {
		fmt.Fprintf(a.Stdout, "a run is at work: %s\n", document.Running)
	}
	if document.Latest.RunDir != "" && document.Latest.Result == progress.Passed {
		fmt.Fprintf(a.Stdout, "the latest run of %s passed: %s\n", document.Cluster, a.runLine(document.Latest))
	}
	failed := document.Failed
	if failed == nil {
		_, err := fmt.Fprintf(a.Stdout, "no run of %s has failed\n", document.Cluster)
		return err
	}
	word := "the latest run of " + document.Cluster
	if failed.RunDir != document.Latest.RunDir {
		word = "the last one before it that did not"
	}
	_, err := fmt.Fprintf(a.Stdout, "%s: %s\n%s%s\n", word, a.runLine(failed.runJSON), progress.ExplanationText(failed.Explanation), more(failed.RunDir))
	return err
}

// more is where the rest of a run stands: its report, or its events where it was killed before it wrote one.
func more(dir string) string {
	path := filepath.Join(dir, report.MarkdownFile)
	if _, err := os.Stat(path); err != nil {
		return "events: " + filepath.Join(dir, state.EventsFile)
	}
	return "report: " + path
}

func (a *app) runLine(r runJSON) string {
	return fmt.Sprintf("%s of %s, %s (exit code %d), %s", r.Verb, r.Started.Local().Format(time.DateTime), r.Result, r.ExitCode, remote.Quote(r.RunDir))
}
