package hive

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"hive-test/cloudinit"
	"hive-test/pkg/cluster"
	"hive-test/pkg/liveness"
	"hive-test/pkg/progress"
)

// Ports of hive's services on a node.
const (
	ManagerPort = 4432 // the daemon, and formation before it runs
	MonitorPort = 8222 // NATS monitoring
	GatewayPort = 9999 // the AWS-like API
)

// Defaults of Options. Real nodes need up to 75 seconds from start to "running", and retry for five minutes.
const (
	DefaultHealthTimeout    = 5 * time.Minute
	DefaultFormationTimeout = 10 * time.Minute
	DefaultCloudInitTimeout = 10 * time.Minute
	DefaultReachTimeout     = 3 * time.Minute
	DefaultInstallTimeout   = 40 * time.Minute
	DefaultStopTimeout      = time.Minute
	DefaultProbeTimeout     = 10 * time.Second
)

// Where hive is built from source: on the first node, whose build the others get; on each node by itself; on this
// machine.
const (
	BuildFirst = "first"
	BuildEach  = "each"
	BuildLocal = "local"
)

// cloudInitMarker is the last thing that the vendor data makes on a node.
const cloudInitMarker = "/var/lib/hive-test/cloud-init-done"

// Layouts of hive on a node.
const (
	LayoutDev     = "dev"     // in ~/hive, started by the node scripts
	LayoutSystemd = "systemd" // as a release's setup.sh installs it: units, /etc, /var/lib
	LayoutAuto    = "auto"    // LayoutSystemd on nodes that have hive's units, else LayoutDev
)

// Options say what is installed and how long is waited. Zero durations mean the defaults.
type Options struct {
	// Source is where hive comes from: Binary becomes ~/hive/bin/hive on every node; Tarball, a tar archive that gzip has
	// compressed, is unpacked on every node; SourceDir is built as it is now and without its .git; Repo is cloned by git and
	// built. Build is BuildFirst (also if empty), BuildEach or BuildLocal.
	cluster.Source
	// ScriptsDir holds node scripts that replace the built-in ones of the same file name.
	ScriptsDir string
	// Layout is how hive is installed on the nodes; empty means LayoutAuto.
	Layout string
	// InitFlags and JoinFlags are given to `hive admin init` and `hive admin join` after those that they need, as they
	// are.
	InitFlags, JoinFlags []string
	// Force forms the cluster anew, dropping what it holds.
	Force bool
	// SkipCloudInit is for nodes that were not made by hive-test.
	SkipCloudInit bool
	// Secrets learns what the nodes keep secret, as it becomes known: the join token, keys, what hive.toml holds. Nil:
	// nobody wants to know.
	Secrets *progress.Secrets
	// Observe tells which nodes cannot be alive, and why that is, as it is known from outside: its VM is stopped. It is
	// called when a step has failed, and every few seconds while one runs. Nil: nothing is known.
	Observe func(context.Context) liveness.Observations
	// Monitor ends what is asked of nodes whose machines are dead. Nil: nothing is known.
	Monitor *liveness.Monitor
	// Where is asked, while a node that boots takes no connection or another host answers in its place, whether the
	// node is elsewhere by now: it returns the host there, or nil. Nil: nodes stay where they are.
	Where func(ctx context.Context, host Host) Host
	// Dial connects to a port of a node, as its probes do. Nil: directly.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// OSEssentials is for nodes that were made without vendor data: what that would have installed and set is done
	// here.
	OSEssentials bool
	// Packages are Debian packages that the nodes get besides: what suites that run there need.
	Packages []string

	HealthTimeout    time.Duration
	FormationTimeout time.Duration
	CloudInitTimeout time.Duration
	// ReachTimeout is for how long a node may take no connection to its SSH server before it is given up.
	ReachTimeout   time.Duration
	InstallTimeout time.Duration
	StopTimeout    time.Duration
	// ProbeTimeout is for one answer of a node's daemon, gateway or NATS, half of it for the connection. On an emulated
	// machine they have taken 5 s. Check fails a node only when its second answer is late as well.
	ProbeTimeout time.Duration
}

func (o Options) withDefaults() Options {
	if o.Dial == nil {
		o.Dial = new(net.Dialer).DialContext
	}
	o.HealthTimeout = cmp.Or(o.HealthTimeout, DefaultHealthTimeout)
	o.FormationTimeout = cmp.Or(o.FormationTimeout, DefaultFormationTimeout)
	o.CloudInitTimeout = cmp.Or(o.CloudInitTimeout, DefaultCloudInitTimeout)
	o.ReachTimeout = cmp.Or(o.ReachTimeout, DefaultReachTimeout)
	o.InstallTimeout = cmp.Or(o.InstallTimeout, DefaultInstallTimeout)
	o.StopTimeout = cmp.Or(o.StopTimeout, DefaultStopTimeout)
	o.ProbeTimeout = cmp.Or(o.ProbeTimeout, DefaultProbeTimeout)
	return o
}

// Validate returns every problem of the options at once, or nil. It looks at the local files that they name.
func (o Options) Validate() []error {
	var problems []error
	var sources []string
	for _, source := range []struct{ flag, value string }{
		{"--binary", o.Binary}, {"--tarball", o.Tarball}, {"--source-dir", o.SourceDir}, {"--repo", o.Repo},
	} {
		if source.value != "" {
			sources = append(sources, source.flag)
		}
	}
	if len(sources) > 1 {
		problems = append(
			problems, fmt.Errorf("hive comes from one place: use one of %s", strings.Join(sources, " and ")),
		)
	}
	if o.Ref != "" && o.Repo == "" {
		problems = append(problems, fmt.Errorf("a ref is given without a repository: add --repo URL"))
	}
	problems = append(problems, present("hive binary", o.Binary, fs.FileMode.IsRegular, "is not a file"),
		program(o.Binary),
		present("hive tarball", o.Tarball, fs.FileMode.IsRegular, "is not a file"),
		o.tarballProblem(),
		present("hive's source", o.SourceDir, fs.FileMode.IsDir, "is not a directory"))
	if o.SourceDir != "" {
		problems = append(
			problems,
			present("hive's source", filepath.Join(o.SourceDir, "Makefile"), fs.FileMode.IsRegular, "is not a file"),
		)
	}
	problems = append(problems, o.layoutProblem())
	_, err := loadScripts(o.ScriptsDir)
	problems = append(problems, err)
	for _, name := range o.Packages {
		problems = append(problems, cloudinit.CheckPackage(name))
	}
	return slices.DeleteFunc(problems, func(err error) bool { return err == nil })
}

// present says what is wrong with a path that is named.
func present(what, path string, wanted func(fs.FileMode) bool, otherwise string) error {
	if path == "" {
		return nil
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		whole, _ := filepath.Abs(path) // where it was looked for: the name may be one of another directory
		return fmt.Errorf("%s: there is no %s: name one that is on this machine", what, cmp.Or(whole, path))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if !wanted(info.Mode()) {
		return fmt.Errorf("%s %s %s", what, path, otherwise)
	}
	return nil
}

// program says what is wrong with a file that is to be run on nodes: it must be one of Linux, or a script. A file that
// cannot be read is told of elsewhere.
func program(path string) error {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer func() { _ = file.Close() }()
	start := make([]byte, 4)
	n, _ := io.ReadFull(file, start)
	if start = start[:n]; bytes.HasPrefix(start, []byte("#!")) || bytes.Equal(start, []byte("\x7fELF")) {
		return nil
	}
	return fmt.Errorf("hive binary %s is no program for Linux: build it with GOOS=linux", path)
}

// Changed says what is different about a step between two inputs of it; now may be empty, for what is not known.
func Changed(step, was, now string) string {
	_, before, _ := strings.Cut(was, "/")
	_, after, _ := strings.Cut(now, "/")
	switch {
	case step != StepInstall:
		return "what is done in the step " + step + " has changed"
	case now == "":
		return "whether the program has changed is not known before it is there"
	case before != after:
		return "the program changed"
	}
	return "the way to install the program has changed"
}

// Inputs identify what configuring would do with these options: what is equal would change nothing. Timeouts and Force
// do not count. What cannot be known from here is empty, which is the case for a repository whose Ref is not a full
// commit id.
type Inputs struct {
	// All is of everything.
	All string
	// Steps is by name of the steps that OwnSteps lists.
	Steps map[string]string
}

var fullCommit = regexp.MustCompile(`^[0-9a-f]{40}$`)

// Inputs reads what the options name.
func (o Options) Inputs() (Inputs, error) {
	scripts, err := loadScripts(o.ScriptsDir)
	if err != nil {
		return Inputs{}, err
	}
	program, err := o.program()
	if err != nil {
		return Inputs{}, err
	}
	hash := func(extra string, names ...string) string {
		sum := sha256.New()
		for _, name := range append([]string{commonScript}, names...) {
			fmt.Fprintf(sum, "%s %q\n", name, scripts[name])
		}
		fmt.Fprintf(sum, "%q\n", extra)
		return hex.EncodeToString(sum.Sum(nil)[:8])
	}
	inputs := Inputs{Steps: map[string]string{
		StepCloudInit: hash("", "wait-cloud-init.sh"),
		StepOS: hash(
			fmt.Sprint(o.osPackages(), o.OSEssentials, cloudinit.DefaultTimezone, cloudinit.DefaultSocketBufferBytes),
			"os-essentials.sh",
		),
	}}
	if program != "" {
		inputs.Steps[StepInstall] = hash(o.layout(), "install-binary.sh", "install-tarball.sh", "install-source.sh",
			"install-git.sh", "pack-build.sh") +
			"/" + program
		inputs.Steps[StepStart] = hash(inputs.Steps[StepInstall], "setup-ovn.sh", "start.sh", "start-gateway.sh")
		inputs.All = hash(
			fmt.Sprint(program, o.OSEssentials, o.layout(), o.InitFlags, o.JoinFlags, o.Packages), ScriptNames()...,
		)
	}
	return inputs, nil
}

// osPackages are the Debian packages that the step StepOS installs; none where it is no step.
func (o Options) osPackages() []string {
	var names []string
	if o.OSEssentials {
		names = cloudinit.DefaultPackages()
	}
	for _, name := range o.Packages {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// program identifies what is installed; empty where only the nodes can tell.
func (o Options) program() (string, error) {
	sum := sha256.New()
	switch {
	case o.Repo != "" && !fullCommit.MatchString(o.Ref):
		return "", nil
	case o.Repo != "":
		fmt.Fprintf(sum, "repo %q %q", o.Repo, o.Ref)
	case o.SourceDir != "":
		fmt.Fprintln(sum, "source")
		if err := pack(sum, o.SourceDir); err != nil {
			return "", fmt.Errorf("read hive's source: %w", err)
		}
	case o.Binary != "" || o.Tarball != "":
		fmt.Fprintln(sum, o.Binary != "")
		file, err := os.Open(cmp.Or(o.Binary, o.Tarball))
		if err != nil {
			return "", fmt.Errorf("read the hive program: %w", err)
		}
		defer file.Close()
		if _, err := io.Copy(sum, file); err != nil {
			return "", fmt.Errorf("read the hive program: %w", err)
		}
	default:
		fmt.Fprint(sum, "what is there")
	}
	return hex.EncodeToString(sum.Sum(nil)[:8]), nil
}
