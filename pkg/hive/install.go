package hive

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"hive-test/pkg/progress"
	"hive-test/pkg/remote"
	"hive-test/pkg/wait"
)

const (
	shortTimeout = 30 * time.Second // of a script that only looks
	signEvery    = 30 * time.Second // of a build that it goes on
	maxSkew      = time.Minute      // of a node's clock: the gateway refuses calls that are 5 minutes off
)

// Where things are put on a node: hive's program, a release, and the source that it is built from.
const (
	remoteBinary   = "~/hive/bin/hive"
	remoteUploaded = "~/hive/bin/hive.uploaded" // until it has told its version, and beside it then
	remoteTarball  = "~/hive/run/release.tar.gz"
	remoteSource   = "~/hive/run/source.tar.gz"
	remoteBuilt    = "~/hive/run/built.tar.gz"
)

// WaitCloudInit waits until all nodes can be reached over SSH and cloud-init has finished on all nodes. Where it has
// complained the node is used, and a warning says what the complaint was.
func (c *Cluster) WaitCloudInit(ctx context.Context) error {
	return c.step(ctx, StepCloudInit, func(ctx context.Context) error {
		if c.options.SkipCloudInit {
			return skip("the nodes were not made by hive-test")
		}
		return c.eachOf(ctx, StepCloudInit, c.waitCloudInit)
	})
}

func (c *Cluster) waitCloudInit(ctx context.Context, host Host) error {
	limited, cancel := context.WithTimeoutCause(ctx, c.options.CloudInitTimeout,
		fmt.Errorf("the node was not reached over SSH within %s", c.options.CloudInitTimeout))
	defer cancel()
	host, err := c.waitSSH(limited, host)
	if err != nil {
		return err
	}
	marker := cloudInitMarker
	if c.options.OSEssentials {
		marker = "" // nothing makes one
	}
	result, err := c.script(
		ctx, host, "wait-cloud-init.sh", c.options.CloudInitTimeout+shortTimeout, c.options.cloudInitEnv(marker), nil,
	)
	if exit, ok := errors.AsType[*remote.ExitError](err); ok && exit.Result.ExitCode == 2 {
		details := strings.Join(tail(redacted(string(result.Stderr)), 20), "; ")
		c.warn(StepCloudInit, host.Name(), "cloud-init has finished with complaints: "+details)
		return nil
	}
	return err
}

// While a node is waited for, it is asked again where it is: a guest may tell an old lease until it has a new one.
const (
	whereFirst = 2 * time.Second
	whereLimit = 10 * time.Second
)

// waitSSH waits until a command works on a node that boots, and returns the host where the node is then. One that takes
// no connection at all for Options.ReachTimeout is given up: that comes within moments of a boot, while its user may
// need cloud-init.
func (c *Cluster) waitSSH(ctx context.Context, host Host) (Host, error) {
	w := sshWait{c: c, shown: c.awaited(StepCloudInit), begun: time.Now()}
	for {
		now, err := w.at(ctx, host)
		if now == nil {
			return host, err
		}
		c.hosts[slices.Index(c.hosts, host)] = now
		host = now
	}
}

// sshWait is the wait for one node.
type sshWait struct {
	c     *Cluster
	shown *wait.Condition
	begun time.Time
	heard bool // something took a connection
}

// at waits at one address. It returns the host where the node is instead, once that is known.
func (w *sshWait) at(ctx context.Context, host Host) (now Host, err error) {
	waiting, end := context.WithCancelCause(ctx)
	defer end(nil)
	next, every := time.Now().Add(whereFirst), whereFirst
	err = host.WaitReady(waiting, func(err error) {
		w.shown.Pending("SSH on "+host.Name(), err.Error())
		w.heard = w.heard || !remote.NoConnection(err)
		limit := w.c.options.ReachTimeout
		switch {
		case !w.heard && time.Since(w.begun) >= limit:
			end(fmt.Errorf("its SSH server took no connection for %s", limit))
		case w.c.options.Where != nil && time.Now().After(next):
			if now = w.c.options.Where(waiting, host); now != nil {
				end(errors.New("it is elsewhere"))
			}
			every = min(2*every, whereLimit)
			next = time.Now().Add(every)
		}
	})
	if _, another := errors.AsType[*remote.HostKeyError](err); another && now == nil && w.c.options.Where != nil {
		now = w.c.whereSoon(ctx, host)
	}
	return now, err
}

// whereSoon asks for a while where a node is, in whose place another host answers.
func (c *Cluster) whereSoon(ctx context.Context, host Host) Host {
	limited, cancel := context.WithTimeout(ctx, whereLimit)
	defer cancel()
	for range startPauses.Tries(limited) {
		if now := c.options.Where(ctx, host); now != nil {
			return now
		}
	}
	return nil
}

// InstallOS installs on all nodes at once the packages that were asked for, and, on nodes without vendor data, does
// what that does elsewhere: packages, time zone, kernel settings. On a node that has it all, it changes nothing.
func (c *Cluster) InstallOS(ctx context.Context) error {
	return c.step(ctx, StepOS, func(ctx context.Context) error {
		return c.eachOf(ctx, StepOS, func(ctx context.Context, host Host) error {
			result, err := c.script(
				ctx, host, "os-essentials.sh", c.options.InstallTimeout, c.options.osEnv(), c.output(StepOS, host),
			)
			if err != nil {
				return nodeLog{err, redacted(string(result.Stdout) + string(result.Stderr))}
			}
			for line := range strings.Lines(string(result.Stderr)) {
				if warning, ok := strings.CutPrefix(strings.TrimSpace(line), "warning: "); ok {
					c.warn(StepOS, host.Name(), warning)
				}
			}
			return nil
		})
	})
}

// Install puts hive on the nodes of the course at once and checks that all nodes then have the same version. A node on
// which it was done before and that has another program by now, or none, gets it again.
func (c *Cluster) Install(ctx context.Context) error {
	return c.step(ctx, StepInstall, func(ctx context.Context) error {
		install, done, err := c.installer(ctx)
		if err != nil {
			return err
		}
		defer done()
		kept := filter(c.only(), func(h Host) bool { return !slices.Contains(c.nodesOf(StepInstall), h) })
		skipped := c.eachOf(ctx, StepInstall, install)
		if _, nothing := errors.AsType[skip](skipped); skipped != nil && !nothing {
			return c.noHive(c.noProgram(skipped))
		}
		if c.seen, err = c.states(ctx); err != nil {
			return err
		}
		if lost := unexpectedHosts(c.seen, kept); len(lost) > 0 {
			if skipped, err = nil, c.reinstall(ctx, lost, install); err != nil {
				return err
			}
		}
		c.warnOfMachines(c.seen)
		if err := sameVersion(c.seen); err != nil {
			return &StepError{Err: err, hint: fmt.Sprintf("hive-test configure %s --from install puts the same on all", c.name)}
		}
		c.tellVersions()
		return skipped
	})
}

// tellVersions tells reports which hive is on each node.
func (c *Cluster) tellVersions() {
	nodes := make([]progress.Node, len(c.seen))
	for i, state := range c.seen {
		nodes[i] = progress.Node{Name: state.host.Name(), Hive: state.version}
	}
	c.sink.Emit(progress.Event{Kind: progress.Debug, Step: StepInstall, Message: "versions of hive", Nodes: nodes})
}

// noProgram returns the failure of an install: where no hive was named and none is on the nodes, which is nothing that
// the nodes are to blame for, one line for all of them.
func (c *Cluster) noProgram(err error) error {
	failures, ok := errors.AsType[nodeErrors](err)
	if !ok || c.options.Named() {
		return err
	}
	var lacking []string
	for _, failure := range failures {
		if errors.Is(failure.Err, errNoProgram) {
			lacking = append(lacking, failure.Node)
		}
	}
	if len(lacking) < len(failures) {
		return err
	}
	return &StepError{
		Err: fmt.Errorf("%w on %s", ErrNoProgram, strings.Join(lacking, ", ")),
		hint: fmt.Sprintf(
			"name one with --binary, --tarball, --source-dir or --repo: hive-test configure %s --binary FILE", c.name,
		),
	}
}

// noHive adds what to do where a program that the user has named is not hive, whose place the one of before keeps.
func (c *Cluster) noHive(err error) error {
	failures, ok := errors.AsType[nodeErrors](err)
	flag := ""
	switch {
	case c.options.Binary != "":
		flag = "--binary"
	case c.options.Tarball != "":
		flag = "--tarball"
	}
	if !ok || flag == "" || !slices.ContainsFunc(failures, refusedProgram) {
		return err
	}
	return &StepError{Nodes: failures, hint: fmt.Sprintf("name one that is hive: hive-test configure %s %s FILE", c.name, flag)}
}

// Refused reports whether err is that a program or a release was not installed on a node, for it is not hive's.
func Refused(err error) bool {
	failed, ok := errors.AsType[*StepError](err)
	return ok && failed.Step == StepInstall && slices.ContainsFunc(failed.Nodes, refusedProgram)
}

func refusedProgram(f NodeFailure) bool {
	exit, ok := errors.AsType[*remote.ExitError](f.Err)
	return ok && exit.Result.ExitCode == exitRefused
}

// What the scripts that install exit with: install-binary.sh where there is no program, and all of them where what they
// were given is not hive's.
const (
	exitNoProgram = 3
	exitRefused   = 79 // which no command that they run exits with
)

var errNoProgram = errors.New("there is no program " + remoteBinary)

// installer is what puts hive on one node, and what is called when it is on all.
func (c *Cluster) installer(ctx context.Context) (install func(context.Context, Host) error, done func(), err error) {
	done = func() {}
	switch o := c.options; {
	case o.Binary != "":
		return c.upload, done, nil
	case o.Tarball != "":
		return c.unpack(o.Tarball, ""), done, nil
	case o.SourceDir == "" && o.Repo == "":
		return c.installed, done, nil
	case o.Build == BuildLocal:
		return c.builtHere(ctx)
	case o.SourceDir != "":
		source, err := c.newSourceTree()
		if err != nil {
			return nil, nil, err
		}
		install, built := c.builtOn(ctx, source.install)
		return install, func() { built(); source.close() }, nil
	}
	install, done = c.builtOn(ctx, c.build)
	return install, done, nil
}

// unexpectedHosts are those of hosts whose program is gone or of another version than most nodes have.
func unexpectedHosts(states []nodeState, hosts []Host) []Host {
	count, most := map[string]int{}, ""
	for _, state := range states {
		count[state.version]++
		if state.version != "" && count[state.version] > count[most] {
			most = state.version
		}
	}
	return filter(hosts, func(h Host) bool {
		return slices.ContainsFunc(
			states, func(s nodeState) bool { return s.host == h && (s.version == "" || s.version != most) },
		)
	})
}

// reinstall puts hive on nodes that have lost what was put there before.
func (c *Cluster) reinstall(ctx context.Context, lost []Host, install func(context.Context, Host) error) (err error) {
	for _, host := range lost {
		c.info(StepInstall, host.Name(),
			"the program that was installed there is gone or another one: installing it again")
	}
	if err := c.begin(ctx, StepInstall, lost); err != nil {
		return err
	}
	if err := each(ctx, lost, install); err != nil {
		return err
	}
	c.seen, err = c.states(ctx)
	return err
}

func (c *Cluster) upload(ctx context.Context, host Host) error {
	changed, err := host.Upload(ctx, c.options.Binary, remoteUploaded, 0o755)
	if err != nil {
		return err
	}
	if !changed {
		c.info(StepInstall, host.Name(), "the same program is there already")
	}
	return c.installed(ctx, host)
}

func (c *Cluster) installed(ctx context.Context, host Host) error {
	_, err := c.script(ctx, host, "install-binary.sh", shortTimeout, c.options.binaryEnv(), c.output(StepInstall, host))
	if exit, ok := errors.AsType[*remote.ExitError](err); ok && exit.Result.ExitCode == exitNoProgram {
		return errNoProgram
	}
	return err
}

// unpack installs a release that is a local file; its SHA-256 is checked on arrival if it is given.
func (c *Cluster) unpack(release, sha256 string) func(context.Context, Host) error {
	return func(ctx context.Context, host Host) error {
		if _, err := host.Upload(ctx, release, remoteTarball, 0o600); err != nil {
			return err
		}
		return c.unpacked(ctx, host, sha256)
	}
}

// unpacked installs a release that has been put on the node.
func (c *Cluster) unpacked(ctx context.Context, host Host, sha256 string) error {
	return c.make(ctx, host, "install-tarball.sh", c.options.tarballEnv(sha256))
}

func (c *Cluster) build(ctx context.Context, host Host) error {
	return c.make(ctx, host, "install-git.sh", c.options.gitEnv(), c.repoSecrets()...)
}

// repoSecrets is what the repository's URL holds of user and password.
func (c *Cluster) repoSecrets() []string {
	repo, err := url.Parse(c.options.Repo)
	if err != nil || repo.User == nil {
		return nil
	}
	return []string{repo.User.String()}
}

// make runs a script that makes the program; what it printed is the error's log, without the secrets.
func (c *Cluster) make(ctx context.Context, host Host, script string, vars map[string]string, secrets ...string) error {
	signs, end := c.signs(host.Name(), redactor(secrets...))
	defer end()
	show := c.output(StepInstall, host)
	result, err := c.script(ctx, host, script, c.options.InstallTimeout, vars, func(stream, line string) {
		show(stream, line)
		signs(line)
	})
	if err == nil {
		return nil
	}
	return nodeLog{err, redactor(secrets...)(string(result.Stdout) + string(result.Stderr))}
}

// signs tells, from time to time until end is called, that the making of the program goes on, which takes minutes: for
// how long, and the last line that it has printed.
func (c *Cluster) signs(node string, clean func(string) string) (line func(string), end func()) {
	var mu sync.Mutex
	last, begun, done := "", time.Now(), make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		ticker := time.NewTicker(c.signEvery)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
			}
			mu.Lock()
			why := last
			mu.Unlock()
			c.sink.Emit(progress.Event{
				Kind: progress.Wait, Step: StepInstall, Node: node,
				Message: "the build of hive, " + time.Since(begun).Round(time.Second).String() + " by now",
				Error:   clean(why),
			})
		}
	})
	line = func(text string) {
		if text = strings.TrimSpace(text); text != "" {
			mu.Lock()
			last = text
			mu.Unlock()
		}
	}
	return line, func() { close(done); wait.Wait() }
}

// nodeLog is an error with the log that belongs to it.
type nodeLog struct {
	error
	log string
}

func (e nodeLog) Unwrap() error { return e.error }

// nodeState is what state.sh tells of a node.
type nodeState struct {
	host        Host
	version     string
	initialized bool
	used        bool
	ca          string
	node        string
	nodes       int
	era         string        // what the program calls its own service: hive or spinifex
	written     string        // by which of both the configuration was written
	skew        time.Duration // of the node's clock against this machine's
	cpus        int           // 0: not known
}

// states asks all nodes what is on them, in node order.
func (c *Cluster) states(ctx context.Context) ([]nodeState, error) {
	states := make([]nodeState, len(c.hosts))
	err := each(ctx, c.hosts, func(ctx context.Context, host Host) error {
		result, err := c.script(ctx, host, "state.sh", shortTimeout, nil, nil)
		if err == nil {
			states[slices.Index(c.hosts, host)] = parseState(host, string(result.Stdout), time.Now())
		}
		return err
	})
	return states, err
}

func parseState(host Host, text string, now time.Time) nodeState {
	said := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		said[name] = value
	}
	state := nodeState{
		host: host, version: said["version"], initialized: said["initialized"] == "yes", used: said["used"] == "yes",
		era: said["era"], written: said["written"], ca: said["ca"], node: said["node"],
	}
	state.nodes, _ = strconv.Atoi(said["nodes"]) // 0 fits no cluster
	state.cpus, _ = strconv.Atoi(said["cpus"])
	if seconds, err := strconv.ParseInt(said["time"], 10, 64); err == nil {
		state.skew = time.Unix(seconds, 0).Sub(now.Truncate(time.Second))
	}
	return state
}

// warnOfMachines names nodes whose clocks are off, and those on which the program that is there will not start. They
// may have another reserve of CPUs than all known versions.
func (c *Cluster) warnOfMachines(states []nodeState) {
	for _, state := range states {
		if state.skew.Abs() > maxSkew {
			c.warn(StepInstall, state.host.Name(), fmt.Sprintf(
				"its clock is off by %s: from 5 minutes on, hive refuses signed calls as if their secret were wrong", state.skew.Round(time.Second)))
		}
		if problem, fatal := TooFewCPUs(state.era, state.cpus); fatal {
			c.warn(StepInstall, state.host.Name(), problem)
		}
	}
}

// sameVersion refuses mixed versions: such clusters fail later, and in stranger ways.
func sameVersion(states []nodeState) error {
	same := true
	texts := make([]string, len(states))
	for i, state := range states {
		same = same && state.version == states[0].version
		texts[i] = fmt.Sprintf("%s has %q", state.host.Name(), state.version)
	}
	if same {
		return nil
	}
	return fmt.Errorf("nodes have different versions of hive: %s", strings.Join(texts, ", "))
}
