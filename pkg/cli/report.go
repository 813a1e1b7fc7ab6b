package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"hive-test/pkg/engine"
	"hive-test/pkg/report"
)

func (a *app) reportCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "report NAME|RUN_DIR",
		Short: "the report of a recorded run, made again from its events: html, md, json, junit or github",
		Long: `report prints what the latest run of a cluster was, or the run in a directory, from its events.jsonl alone: byte for byte
what the run itself has written at its end. It asks no node and needs no cluster. In a job of GitHub, --format github makes
annotations as well, on stderr.`,
		Example: `  hive-test report ci-123                                # Markdown
  hive-test report ci-123 --format html >report.html
  hive-test report clusters/.runs/ci-123/latest --format junit
  hive-test report ci-123 --format github >>"$GITHUB_STEP_SUMMARY"`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return usage(errors.New("it needs the name of a cluster, or the directory of a run"))
			}
			return nil
		},
	}
	load := a.settings(cmd)
	format := cmd.Flags().String("format", "md", "`form`: "+strings.Join(reportFormats(), ", "))
	cmd.RunE = run(func(_ context.Context, cmd *cobra.Command, args []string) error {
		settings, err := load()
		if err != nil {
			return err
		}
		if !slices.Contains(reportFormats(), *format) {
			return usage(fmt.Errorf("--format %q is not one of %s", *format, strings.Join(reportFormats(), ", ")))
		}
		return a.work(settings, func(e *engine.Engine) error {
			r, err := e.Report(engine.Request{Settings: settings}, args[0])
			if err != nil {
				return err
			}
			switch given := cmd.Flags().Changed("format"); {
			case !given && settings.Output == "json":
				*format = "json"
			case !given && settings.Output == "yaml":
				_, err = printAs(a.Stdout, settings.Output, r)
				return err
			}
			if _, err = a.Stdout.Write(formatted(r, *format)); err != nil {
				return err
			}
			if *format == "github" && a.Getenv("GITHUB_ACTIONS") == "true" { // the runner reads commands of stderr, too
				_, err = a.Stderr.Write(report.Annotations(r))
			}
			return err
		})
	})
	return cmd
}

// reportFormats are what report can print.
func reportFormats() []string { return []string{"html", "md", "json", "junit", "github"} }

func formatted(r report.Report, format string) []byte {
	switch format {
	case "html":
		return report.HTML(r)
	case "json":
		return report.JSON(r)
	case "junit":
		return report.JUnit(r)
	case "github":
		return report.GitHub(r)
	}
	return report.Markdown(r)
}
