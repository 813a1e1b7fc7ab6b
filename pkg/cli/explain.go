package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hive-test/pkg/config"
	"hive-test/pkg/engine"
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
	cmd.RunE = run(func(ctx context.Context, _ *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		return a.explain(ctx, args[0], settings)
	})
	return cmd
}

func (a *app) explain(ctx context.Context, name string, settings config.Settings) error {
	e, err := engine.Open(ctx, engine.Options{})
	if err != nil {
		return err
	}
	explained, err := e.Explain(a.request(name, settings))
	if err != nil {
		return err
	}
	document := explainJSON{outputSchema, explained}
	if structured, err := printAs(a.Stdout, settings.Output, document); structured {
		return err
	}
	return printExplanation(a.page(a.Stdout, settings), document)
}

// explainJSON is the shape of `explain -o json`.
type explainJSON struct {
	Schema int `json:"schema"`
	engine.Explained
}

func printExplanation(paper page, document explainJSON) error {
	var text strings.Builder
	if document.Running != nil {
		fmt.Fprintf(&text, "a run is at work: %s\n", document.Running)
	}
	if document.Latest.RunDir != "" && document.Latest.Result == progress.Passed {
		fmt.Fprintf(&text, "the latest run of %s passed: %s\n", document.Cluster, runLine(document.Latest))
	}
	if failed := document.Failed; failed != nil {
		word := "the latest run of " + document.Cluster
		if failed.RunDir != document.Latest.RunDir {
			word = "the last one before it that did not"
		}
		fmt.Fprintf(&text, "%s: %s\n", word, runLine(failed.PastRun))
		text.WriteString(progress.ExplanationText(failed.Explanation))
		fmt.Fprintln(&text, more(failed.RunDir))
	} else {
		fmt.Fprintf(&text, "no run of %s has failed\n", document.Cluster)
	}
	_, err := io.WriteString(paper, progress.Wrap(text.String(), paper.width, "  "))
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

func runLine(r engine.PastRun) string {
	result := string(r.Result)
	if r.ExitCode != nil {
		result += fmt.Sprintf(" (exit code %d)", *r.ExitCode)
	}
	return fmt.Sprintf(
		"%s of %s, %s, %s", r.Verb, r.Started.Local().Format(time.DateTime), result, remote.Quote(r.RunDir),
	)
}
