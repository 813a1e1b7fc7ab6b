package cli

import (
	"errors"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hive-test/pkg/config"
	"hive-test/pkg/engine"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/process"
	"hive-test/pkg/progress"
	"hive-test/pkg/report"
)

func (a *app) globalFlags(root *cobra.Command) {
	config.GlobalFlags(root.PersistentFlags())
}

// settings gives a verb the flags of the settings that it uses, and returns what reads them.
func (a *app) settings(cmd *cobra.Command) func() (config.Settings, error) {
	return a.settingsOf(cmd, cmd.Name())
}

// firstWord is the annotation of a verb of several words that names the verb whose settings it uses.
const firstWord = "hive-test-first-word"

// settingsOf is settings for a verb of several words, which share what the first of them uses.
func (a *app) settingsOf(cmd *cobra.Command, verb string) func() (config.Settings, error) {
	config.VerbFlags(cmd.Flags(), verb)
	cmd.Annotations = map[string]string{documents: "yes"}
	if verb != cmd.Name() {
		cmd.Annotations[firstWord] = verb
	}
	return func() (config.Settings, error) {
		path, err := cmd.Flags().GetString("config")
		if err != nil {
			return config.Settings{}, err
		}
		return a.loadSettings(cmd, config.LoadOptions{Env: a.Getenv, ConfigPath: path})
	}
}

// loadSettings reads the settings of a verb, from where options say and its flags.
func (a *app) loadSettings(cmd *cobra.Command, options config.LoadOptions) (config.Settings, error) {
	options.Flags, options.WorkDir, options.Environ = cmd.Flags(), a.WorkDir, a.Environ
	settings, err := a.read(func() (config.Settings, error) { return config.Load(options) })
	a.known.Learn(engine.SecretsOf(settings)...)
	if settings.Keep == "" && a.Getenv("CI") != "" { // nobody would come back for what failed
		settings.Keep = string(lifecycle.KeepNever)
	}
	a.place = placeFlags(cmd.Flags())
	if a.asJSON = settings.LogFormat == "json"; a.asJSON {
		a.signals.setPrinter(a.warn)
	}
	for _, text := range config.UnknownEnv(a.Environ) {
		a.warn(text)
	}
	if problem, ok := errors.AsType[*config.Error](err); ok && problem.Usage() {
		return settings, usage(err)
	}
	return settings, err
}

// read reads settings until a signal ends that, silently: nothing has begun.
func (a *app) read(load func() (config.Settings, error)) (config.Settings, error) {
	defer a.signals.asking()()
	return config.ReadWithin(a.signals.context, load)
}

// warn tells what the user should know before there is a run, or beside it.
func (a *app) warn(text string) {
	text = a.known.Mask(strings.TrimSpace(text))
	if a.asJSON {
		progress.JSONLines(a.Stderr).Emit(progress.Event{
			Kind: progress.Warning, Time: time.Now().UTC(), Message: text,
		})
		return
	}
	a.tell("warning: " + text)
}

// work opens an engine for a verb and lets do use it. What it tells is shown in the form that the settings call for.
func (a *app) work(settings config.Settings, do func(*engine.Engine) error) error {
	return a.workOn(a.renderer(settings), do)
}

// workOn is work with what is told shown on screen, which it closes.
func (a *app) workOn(screen progress.Renderer, do func(*engine.Engine) error) error {
	live, watched := screen.(interface{ Print(text string) })
	if watched { // what signals have to say must not tear it
		a.signals.setPrinter(func(line string) { live.Print(line + "\n") })
	}
	defer a.close(screen)
	early := new(progress.Memory)
	a.ownTemporary(early)
	e, err := engine.Open(a.signals.context, engine.Options{
		Version: programVersion(), Environ: a.Environ, TofuEnviron: a.tofuEnviron(), CacheDir: a.cacheDir(),
		LockDir: a.locks, NoLockDir: a.noLocks,
		Events: screen, Watched: watched, Early: early.Events(), Secrets: a.known, Attend: a.signals.onSignal,
		EndChildren: process.EndChildren, Confirm: a.agrees, Advise: a.inPlace,
	})
	if err != nil {
		return err
	}
	return do(e)
}

// close ends what is told on screen.
func (a *app) close(screen progress.Renderer) {
	if err := screen.Close(); err != nil {
		a.tell("warning: " + err.Error())
	}
}

// request is what a verb asks of a cluster; the second signal aborts it.
func (a *app) request(name string, settings config.Settings) engine.Request {
	return engine.Request{Name: name, Settings: settings, Abort: a.signals.abort}
}

// phases lets do run phases, and prints what came of them where a document is asked for. After says what comes next to
// a run that passed; nil: nothing does.
func (a *app) phases(
	settings config.Settings, do func(*engine.Engine) (engine.Outcome, error), after func(engine.Outcome),
) error {
	var outcome engine.Outcome
	err := a.work(settings, func(e *engine.Engine) (err error) {
		outcome, err = do(e)
		return a.report(settings, outcome, err)
	})
	if err == nil && after != nil {
		after(outcome)
	}
	return err
}

// report prints the document of a run, and returns what it ended with.
func (a *app) report(settings config.Settings, outcome engine.Outcome, err error) error {
	if outcome.Report.Cluster == "" { // a mistake, before there was a run
		return err
	}
	if _, printErr := printAs(a.Stdout, settings.Output, outcome.Report); err == nil {
		return printErr
	} else if printErr != nil {
		a.tell("warning: the report could not be printed: " + printErr.Error())
	}
	return err
}

// cacheDir is where programs and providers are kept between runs; empty: in the user's cache directory.
func (a *app) cacheDir() string {
	if dir := a.Getenv("XDG_CACHE_HOME"); dir != "" {
		return filepath.Join(dir, "hive-test")
	}
	return ""
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
		return report.GitHub(report.Build(events))
	})
}

// filtered is a Renderer behind a Filter.
type filtered struct {
	progress.Sink
	lines progress.Renderer
}

// Close closes the renderer.
func (f filtered) Close() error { return f.lines.Close() }
