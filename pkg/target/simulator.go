package target

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/progress"
	"hive-test/pkg/remote"
)

// simulator is what `hive-sim pve env --format json` prints: an endpoint, a token and a CA like any other.
type simulator struct {
	Schema         int                    `json:"schema"`
	ID             string                 `json:"id"`
	Endpoint       string                 `json:"endpoint"`
	Token          string                 `json:"token"`
	CAFile         string                 `json:"ca_file"`
	HostsKind      string                 `json:"hosts_kind"`
	PVEVersion     string                 `json:"pve_version"`
	Hypervisors    []placement.Hypervisor `json:"hypervisors"`
	SSHUser        string                 `json:"ssh_user"`
	SSHPrivateKey  string                 `json:"ssh_private_key"`
	NodeSSHPort    int                    `json:"node_ssh_port"`
	ProviderMirror string                 `json:"provider_mirror"`
	HiveBinary     string                 `json:"hive_binary"`
	OSImage        string                 `json:"os_image"`
}

// errNoSimulator means that the hive-sim program is not to be found.
var errNoSimulator = errors.New("the program hive-sim, which --sim needs, is neither beside hive-test nor on PATH")

// errOtherSimulator means that the simulator that was asked for by its id is not that of the clusters directory.
var errOtherSimulator = errors.New("it is of another simulator")

// anySimulator asks for whichever simulator the clusters directory has had before, but for no new one.
const anySimulator = "any"

// startSimulator starts the simulator of a clusters directory if it does not run, and returns how it is reached. Where
// an id is given and it is not that one, nothing is started: the error is errOtherSimulator.
func startSimulator(
	ctx context.Context, environ []string, clustersDir, hosts, id string, sink progress.Sink,
) (simulator, error) {
	program, err := findSimulator()
	if err != nil {
		return simulator{}, err
	}
	sim, err := readSimulator(ctx, environ, program, clustersDir, sink)
	switch {
	case err != nil: // it does not run
		sim, err = startedSimulator(ctx, environ, program, clustersDir, hosts, id, sink)
	case id != "" && id != anySimulator && id != sim.ID:
		err = errOtherSimulator
	}
	if err != nil {
		return simulator{}, err
	}
	if hosts != "" && hosts != "auto" && hosts != sim.HostsKind {
		return simulator{}, configError(progress.WithHint(
			fmt.Errorf("the simulator of this clusters directory runs with %s hosts, not %s", sim.HostsKind, hosts),
			"hive-sim pve stop --clusters-dir "+remote.Quote(clustersDir)))
	}
	return sim, nil
}

// readSimulator returns how the simulator that runs is reached; that none runs is an error.
func readSimulator(ctx context.Context, environ []string, program, clustersDir string, sink progress.Sink) (sim simulator, err error) {
	raw, err := runSimulator(ctx, environ, program, sink, "pve", "env", "--clusters-dir", clustersDir, "--format", "json")
	if err != nil {
		return sim, err
	}
	if err := json.Unmarshal(raw, &sim); err != nil {
		return sim, fmt.Errorf("reading what the simulator says of itself: %w", err)
	}
	return sim, nil
}

// startedSimulator starts it, and returns how it is reached.
func startedSimulator(
	ctx context.Context, environ []string, program, clustersDir, hosts, id string, sink progress.Sink,
) (simulator, error) {
	start := []string{"pve", "start", "--clusters-dir", clustersDir}
	if hosts != "" && hosts != "auto" {
		start = append(start, "--hosts", hosts)
	}
	if id != "" {
		start = append(start, "--id", id)
	}
	for try := 1; ; try++ {
		if _, err := runSimulator(ctx, environ, program, sink, start...); err != nil {
			return simulator{}, err
		}
		sim, err := readSimulator(ctx, environ, program, clustersDir, sink)
		if err == nil || try == 2 { // once more, for one that was just killed is there for a moment longer
			return sim, err
		}
	}
}

// anotherSimulator is the exit code of hive-sim that says so.
const anotherSimulator = 3

// runSimulator runs hive-sim, passing on what it says, and returns its standard output.
func runSimulator(
	ctx context.Context, environ []string, program string, sink progress.Sink, args ...string,
) ([]byte, error) {
	var stdout, stderr bytes.Buffer
	command := exec.CommandContext(ctx, program, args...)
	command.Env = environ // the simulator outlives this process, and its temporary files do
	command.Stdout, command.Stderr = &stdout, &stderr
	command.WaitDelay = time.Second // what it has started must not hold us by its output
	err := command.Run()
	said := strings.TrimSpace(stderr.String())
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("starting the simulator: %w", context.Cause(ctx))
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == anotherSimulator {
		return nil, errOtherSimulator
	}
	if err != nil {
		return nil, configError(fmt.Errorf(
			"the simulator: hive-sim %s: %w", strings.Join(args[:2], " "), errors.New(cmp.Or(said, err.Error())),
		))
	}
	kind := progress.Info
	if strings.HasPrefix(said, "already running") { // said once, when it started
		kind = progress.Debug
	}
	for line := range strings.Lines(said) {
		sink.Emit(progress.Event{Kind: kind, Message: "simulator: " + strings.TrimSpace(line)})
	}
	return stdout.Bytes(), nil
}

// findSimulator looks beside this program first: the two are built together.
func findSimulator() (string, error) {
	if self, err := os.Executable(); err == nil {
		if resolved, err := filepath.EvalSymlinks(self); err == nil {
			self = resolved
		}
		beside := filepath.Join(filepath.Dir(self), "hive-sim")
		if info, err := os.Stat(beside); err == nil && !info.IsDir() {
			return beside, nil
		}
	}
	if found, err := exec.LookPath("hive-sim"); err == nil {
		return found, nil
	}
	return "", configError(fmt.Errorf("%w: build both with `make build`", errNoSimulator))
}
