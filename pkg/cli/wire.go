package cli

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
	"hive-test/pkg/hive"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/progress"
	"hive-test/pkg/provision"
	"hive-test/pkg/provision/tofu"
	"hive-test/pkg/proxmox"
	"hive-test/pkg/remote"
	"hive-test/pkg/report"
)

// globalKeys are the settings that every verb knows.
func globalKeys() []string {
	return []string{"clusters_dir", "output", "log_format", "verbose", "quiet", "no_color", "timeout"}
}

func (a *app) globalFlags(root *cobra.Command) {
	flags := root.PersistentFlags()
	flags.String("config", "", "config file (default ./hive-test.yaml, then $XDG_CONFIG_HOME/hive-test/config.yaml)")
	config.AddFlags(flags, globalKeys()...)
}

// settings gives a verb its flags and returns what reads them.
func (a *app) settings(cmd *cobra.Command, keys ...string) func() (config.Settings, error) {
	if len(keys) > 0 { // none would mean all
		config.AddFlags(cmd.Flags(), keys...)
	}
	return func() (config.Settings, error) {
		path, err := cmd.Flags().GetString("config")
		if err != nil {
			return config.Settings{}, err
		}
		settings, err := config.Load(config.LoadOptions{Flags: cmd.Flags(), Env: a.Getenv, WorkDir: a.WorkDir, ConfigPath: path})
		a.known.Learn(tokenSecrets(settings.Proxmox.Token.Reveal())...)
		a.place = placeFlags(cmd.Flags())
		if a.asJSON = settings.LogFormat == "json"; a.asJSON {
			a.signals.toldBy(func(line string) {
				progress.JSONLines(a.Stderr).Emit(progress.Event{Kind: progress.Warning, Time: time.Now().UTC(), Message: a.known.Mask(strings.TrimSpace(line))})
			})
		}
		if problem, ok := errors.AsType[*config.Error](err); ok && problem.Usage() {
			return settings, usageError{err}
		}
		return settings, err
	}
}

// keepPolicy is what becomes of VMs when nothing was said: full destroys; up, configure and test keep what failed or was
// interrupted on a terminal, for a second try, and destroy it in CI, where nobody would come back for it.
func (a *app) keepPolicy(settings config.Settings, verb string) lifecycle.Keep {
	switch {
	case settings.Keep != "":
		return lifecycle.Keep(settings.Keep)
	case verb == "full" || a.Getenv("CI") != "":
		return lifecycle.KeepNever
	}
	return lifecycle.KeepOnFailure
}

// renderer shows events on stderr in the form that fits.
func (a *app) renderer(settings config.Settings) progress.Renderer {
	options := progress.Options{Color: !settings.NoColor}
	switch {
	case settings.Quiet:
		options.Verbosity = progress.Quiet
	case settings.Verbose:
		options.Verbosity = progress.Verbose
	}
	if settings.LogFormat == "json" {
		lines := progress.JSONLines(a.Stderr)
		return filtered{progress.Filter(lines, options.Verbosity), lines}
	}
	return progress.Auto(a.Stderr, a.Getenv, options, func(events []progress.Event) []byte {
		return report.Markdown(report.Build(events))
	})
}

// filtered is a Renderer behind a Filter.
type filtered struct {
	progress.Sink
	lines progress.Renderer
}

// Close closes the renderer.
func (f filtered) Close() error { return f.lines.Close() }
