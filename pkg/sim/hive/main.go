// Package simhive is the simulated `hive` program: it forms clusters, runs their services and answers signed API calls
// as the real one does towards whoever installs, forms and judges it, and does nothing else. Its behaviour copies what
// was observed of real hive binaries of two eras (see [Era]): the quirks are there on purpose.
//
// Each service is a process of its own, started by `service NAME start` in the foreground with its settings in the
// environment. Services of one node meet in its NATS, and the NATS of all nodes are peers because they talk to each
// other over the network; nothing is shared between nodes but what the formation server hands out.
package simhive

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
)

// program is one invocation of the simulated hive.
type program struct {
	stdout, stderr io.Writer
	home           string
	executable     string
	env            map[string]string
	settings       Settings
	outcome        error // of the command that ran

	mu      sync.Mutex
	current Settings // as they were at the time of read
	read    time.Time
}

// exitError ends the program with a code after its message was printed.
type exitError struct {
	code    int
	message string
}

func (e exitError) Error() string { return e.message }

// Main runs the simulated hive with the arguments that follow the program's name and returns its exit code. It takes
// its environment from the process, because it stands for a whole program: HOME, the variables of the era's services,
// HIVE_SIM_ERA and HIVE_SIM_TIME_SCALE.
func Main(args []string, _ io.Reader, stdout, stderr io.Writer) int {
	p := &program{stdout: stdout, stderr: stderr, env: environment(os.Environ())}
	if err := p.load(); err != nil {
		return p.exitCode(err)
	}
	root := p.rootCommand()
	root.SetArgs(args)
	root.SetOut(stderr) // what wrong usage prints; help that was asked for goes to stdout
	root.SetErr(stderr)
	help := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		c.SetOut(stdout)
		help(c, args)
	})
	if err := root.Execute(); err != nil {
		fmt.Fprintln(stderr, err) // a second time, as the real one does
		return 1
	}
	return p.exitCode(p.outcome)
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

// injected returns the failure that the settings ask of a command, if any.
func (p *program) injected(command string) error {
	failure, ok := p.settings.Fail[command]
	if !ok || failure.Times > 0 && !p.fails(command, failure.Times) {
		return nil
	}
	return exitError{code: max(1, failure.Exit), message: failure.Stderr}
}

// fails reports whether a command that fails so many times on this node has not yet, and counts.
func (p *program) fails(command string, times int) bool {
	file := filepath.Join(p.home, ".hive-sim-failed-"+strings.ReplaceAll(command, " ", "-"))
	count, err := os.ReadFile(file)
	if len(count) >= times || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	return os.WriteFile(file, append(count, '.'), 0o600) == nil
}

func (p *program) say(format string, args ...any) { fmt.Fprintf(p.stdout, format+"\n", args...) }

// faults are the settings as they are now, so that tests can break a running node.
func (p *program) faults() Settings {
	settings, err := loadSettings(p.settingsFiles(), p.env)
	if err != nil {
		return p.settings
	}
	return settings
}

// recent is how long NATS takes the settings as it has read them: each of its routes asks for them all the time.
const recent = 200 * time.Millisecond

// recentFaults are the settings as they were a moment ago.
func (p *program) recentFaults() Settings {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.read) > recent {
		p.current, p.read = p.faults(), time.Now()
	}
	return p.current
}
