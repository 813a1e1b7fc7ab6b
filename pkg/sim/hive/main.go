// Package simhive is the simulated `hive` program: it forms clusters, runs daemons and answers signed API calls as the
// real one does towards whoever installs, forms and judges it, and does nothing else. Its behaviour copies what was
// observed of real hive binaries of two eras (see [Era]): the quirks are there on purpose.
//
// Peers are peers because their daemons talk to each other over the network; nothing is shared between nodes but what
// the formation server hands out.
package simhive

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
)

// program is one invocation of the simulated hive.
type program struct {
	stdout, stderr io.Writer
	home           string
	executable     string
	env            map[string]string
	settings       Settings
}

// exitError ends the program with a code after its message was printed.
type exitError struct {
	code    int
	message string
}

func (e exitError) Error() string { return e.message }

// Main runs the simulated hive with the arguments that follow the program's name and returns its exit code. It takes
// HOME, HIVE_SIM_ERA and HIVE_SIM_TIME_SCALE from the process's environment, because it stands for a whole program.
// `start` runs os.Executable again with argv[0] "hive", so that executable must lead back to Main.
func Main(args []string, _ io.Reader, stdout, stderr io.Writer) int {
	p := &program{stdout: stdout, stderr: stderr, env: environment(os.Environ())}
	err := p.load()
	if err == nil {
		err = p.run(args)
	}
	return p.exitCode(err)
}

func environment(entries []string) map[string]string {
	env := make(map[string]string, len(entries))
	for _, entry := range entries {
		if key, value, ok := strings.Cut(entry, "="); ok {
			env[key] = value
		}
	}
	return env
}

func (p *program) load() (err error) {
	if p.home, err = os.UserHomeDir(); err != nil {
		return fmt.Errorf("find the home directory: %w", err)
	}
	if p.executable, err = os.Executable(); err != nil {
		return fmt.Errorf("find the hive program itself: %w", err)
	}
	p.settings, err = loadSettings(p.settingsFiles(), p.env)
	return err
}

func (p *program) exitCode(err error) int {
	if err == nil {
		return 0
	}
	if err.Error() != "" {
		fmt.Fprintln(p.stderr, err)
	}
	if exit, ok := errors.AsType[exitError](err); ok {
		return exit.code
	}
	return 1
}

func (p *program) run(args []string) error {
	commands := map[string]func([]string) error{
		"admin init": p.adminInit,
		"admin join": p.adminJoin,
		"start":      p.start,
		"stop":       p.stop,
		"daemon":     p.daemon,
		"get nodes":  p.getNodes,
		"version":    p.version,
	}
	for words := min(2, len(args)); words > 0; words-- {
		name := strings.Join(args[:words], " ")
		if command, ok := commands[name]; ok {
			return command(args[words:])
		}
	}
	if len(args) == 0 {
		fmt.Fprintln(p.stdout, "Usage: hive {admin init|admin join|start|stop|get nodes|version} [flags]")
		return nil
	}
	return fmt.Errorf("Error: unknown command %q for \"hive\"", strings.Join(args, " "))
}

func (p *program) version(args []string) error {
	if err := p.injected("version"); err != nil {
		return err
	}
	p.say("hive %s (simulated-%s) %s/%s", p.settings.Version, p.settings.Era, runtime.GOOS, runtime.GOARCH)
	return nil
}

// injected returns the failure that the settings ask of a subcommand, if any.
func (p *program) injected(subcommand string) error {
	failure, ok := p.settings.Fail[subcommand]
	if !ok {
		return nil
	}
	return exitError{code: max(1, failure.Exit), message: failure.Stderr}
}

func (p *program) say(format string, args ...any) { fmt.Fprintf(p.stdout, format+"\n", args...) }
