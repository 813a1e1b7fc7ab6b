// Package cli is the command line: it turns flags into plain arguments, calls the engine and
// maps what comes back to output and exit codes. Nothing below it knows of flags, signals or the process.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
	"hive-test/pkg/engine"
	"hive-test/pkg/progress"
	"hive-test/pkg/scratch"
)

// Environment is what the process gives the program.
type Environment struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(string) string
	Environ        []string
	// Setenv changes the environment of the process; nil: it stays as it is, and so does the place of temporary files.
	Setenv  func(key, value string) error
	WorkDir string
}

// System is the environment of this process.
func System() Environment {
	dir, err := os.Getwd()
	if err != nil {
		dir = "."
	}
	return Environment{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv, Environ: os.Environ(),
		Setenv: os.Setenv, WorkDir: dir,
	}
}

// app is the program: what every command shares.
type app struct {
	Environment
	args    []string // of the program
	signals *signals
	// known are the values that nothing may show.
	known *progress.Secrets
	// asJSON says that the user wants narration as JSON lines, errors that end the program included.
	asJSON bool
	// place are the flags of this run that commands which it advises need, too.
	place string
	// scratch is where this process keeps its temporary files; nil: where all do.
	scratch *scratch.Dir
	// locks is the directory of the user's own locks; empty: there is none, and noLocks says why.
	locks   string
	noLocks error
	// help is stdout as cobra prints to it.
	help *helpWriter
}

// helpWriter is where help goes. It keeps the first error, which cobra has no way to return.
type helpWriter struct {
	io.Writer
	err error
}

// Write writes to stdout.
func (w *helpWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	w.err = cmp.Or(w.err, err)
	return n, err
}

// Main runs the program and returns its exit code.
func Main(args []string, env Environment) int {
	a := &app{
		Environment: env, args: args, signals: watchSignals(env.Stderr, os.Exit, time.Now), known: new(progress.Secrets),
	}
	a.signals.setPrinter(a.tell)
	defer a.signals.stop()
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(a.signals.context)
	if err == nil {
		err = a.help.err
	}
	err = a.unlessUnread(err)
	code := engine.CodeOf(a.signals.context, err)
	a.printError(err, code)
	if a.scratch != nil {
		_ = a.scratch.Remove() // else the next run does
	}
	return int(code)
}

// printError writes an error once, with what to do about it, to stderr.
func (a *app) printError(err error, code engine.ExitCode) {
	if err == nil || err.Error() == "" {
		return
	}
	if _, told := errors.AsType[engine.ReportedError](err); told {
		return
	}
	if a.asJSON {
		number := int(code)
		end := progress.Event{Kind: progress.RunEnd, Time: time.Now().UTC(), Status: progress.Failed, ExitCode: &number}
		end = end.WithError(err)
		end.Hint = a.inPlace(cmp.Or(end.Hint, engine.Remedy(err)))
		end.Problem.Hint = end.Hint
		progress.JSONLines(a.Stderr).Emit(a.known.MaskEvent(end))
		return
	}
	a.tell("error: " + strings.ReplaceAll(a.words(err.Error()), "\n", "\n  "))
	hint := a.inPlace(cmp.Or(progress.HintOf(err), engine.Remedy(err)))
	for line := range strings.Lines(a.words(hint)) {
		a.tell("hint: " + strings.TrimRight(line, "\n"))
	}
}

// tell writes a line to stderr, or several where that is a terminal which is too narrow for it.
func (a *app) tell(line string) {
	fmt.Fprint(a.Stderr, progress.WrapTold(line+"\n", a.page(a.Stderr, config.Settings{}).width))
}

// words is text of an error, in which a node may have said something, as it may be shown.
func (a *app) words(text string) string { return a.shown(a.Stderr, progress.Clean(a.known.Mask(text))) }

const long = `hive-test makes a Hive cluster on Proxmox VE that did not exist a minute ago, configures it, tests it and
destroys it, and keeps the reasons when something failed.

  hive-test full ci-123                # up, configure, test, down, in any case
  hive-test up stress --node-count=5   # then configure, test, ssh, status, down
  hive-test status dev1

Without a Proxmox at hand, --sim does the same on a simulated one with real hosts on this machine:

  hive-test full demo --sim`

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "hive-test",
		Short:         "Hive clusters on Proxmox VE for tests: made, configured, tested, gone",
		Long:          long,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(a.Stdin)
	a.help = &helpWriter{Writer: a.Stdout}
	root.SetOut(a.help)
	root.SetErr(a.Stderr)
	root.SetFlagErrorFunc(flagMistake)
	a.globalFlags(root)
	root.SetHelpFunc(printHelp)
	root.SetUsageFunc(printUsage)
	root.AddGroup(&cobra.Group{ID: verbGroup, Title: "Verbs:"}, &cobra.Group{ID: topicGroup, Title: "Topics:"})
	root.AddCommand(
		a.upCommand(), a.planCommand(), a.applyCommand(), a.configureCommand(), a.testCommand(), a.downCommand(), a.fullCommand(), a.statusCommand(),
		a.doctorCommand(), a.initCommand(),
		a.sshCommand(), a.execCommand(), a.cpCommand(), a.envCommand(), a.inventoryCommand(), a.logsCommand(),
		a.explainCommand(), a.reportCommand(), a.runsCommand(), a.unlockCommand(), a.attachCommand(), a.driftCommand(), a.ensureCommand(),
		a.versionCommand(),
		a.configCommand(), exitCodesTopic(), settingsTopic(),
		a.extendCommand(), a.holdCommand(), a.reapCommand(), a.waitCommand(), a.matrixCommand(), a.faultCommand(),
		a.snapshotCommand(), a.templateCommand(), a.gatewayCommand(), a.iacCommand(), a.stateCommand(), a.secretsCommand(),
	)
	root.SetHelpCommand(helpCommand())
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.GroupID == "" {
			cmd.GroupID = verbGroup
		}
		if cmd.Name() == "completion" {
			cmd.Short, cmd.Example = "the script by which a shell completes names, nodes, flags and files", completionExample
			withoutPackage(cmd)
		}
	}
	suggestFor(root)
	strict(root)
	inOrder(root)
	a.complete(root)
	return root
}

// named takes exactly the arguments of usage's first word: the name of a cluster, and more if more is allowed.
func named(most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return usage(progress.WithHint(
				fmt.Errorf("%s needs the name of a cluster", cmd.CommandPath()), usageLine(cmd),
			))
		case most > 0 && len(args) > most:
			return usage(fmt.Errorf(
				"%s takes %s, not %s: %s", cmd.CommandPath(), strings.SplitN(cmd.Use, " ", 2)[1],
				progress.Count(len(args)-most, "more argument"), strings.Join(args[most:], " "),
			))
		}
		return nil
	}
}

// nameOrNone takes the name of a cluster, or nothing for all of them. One that is empty is none only by mistake.
func nameOrNone(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usage(fmt.Errorf("%s takes the name of one cluster at most", cmd.CommandPath()))
	}
	for _, arg := range args {
		if _, err := cluster.ParseName(arg); err != nil {
			return usage(err)
		}
	}
	return nil
}

// usageLine is how a command is called.
func usageLine(cmd *cobra.Command) string { return "usage: " + cmd.UseLine() }

// run adapts a function of this package to cobra.
func run(do func(ctx context.Context, cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error { return do(cmd.Context(), cmd, args) }
}

// usage is a mistake on the command line: nothing was touched.
func usage(err error) error { return engine.Error{Code: engine.ExitUsage, Err: err} }
