package hive

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/liveness"
	"hive-test/pkg/progress"
	"hive-test/pkg/remote"
	"hive-test/pkg/wait"
)

// Host is what this package needs of a node; *remote.Host is one.
type Host interface {
	Name() string
	Node() cluster.Node
	Run(ctx context.Context, cmd remote.Command) (remote.Result, error)
	Upload(ctx context.Context, localPath, remotePath string, mode fs.FileMode) (changed bool, err error)
	Download(ctx context.Context, remotePath, localPath string) error
	DialContext(ctx context.Context, network, addr string) (net.Conn, error)
	// WaitReady returns once a command works on the node, calling report with each failure until then.
	WaitReady(ctx context.Context, report func(error)) error
}

var _ Host = (*remote.Host)(nil)

// Steps of configuring, in order, as --from names them.
const (
	StepCloudInit = "cloud-init"
	StepOS        = "os"
	StepInstall   = "install"
	StepStop      = "stop"
	StepInit      = "init"
	StepJoin      = "join"
	StepStart     = "start"
	StepHealth    = "health"
)

// Step is one step of configuring. Run may be called again: it finishes what is half done.
type Step struct {
	Name, Title string
	Run         func(context.Context) error
}

// Cluster is hive on the nodes of one cluster. Its step methods are called one at a time, in order; Check, Access and
// Collect are safe at any time.
type Cluster struct {
	name    cluster.Name
	hosts   []Host // in node order; the first is node 1
	options Options
	sink    progress.Sink

	mu       sync.Mutex
	access   *Access
	indirect map[string]bool       // by node: NATS monitoring is reached through SSH only
	reform   *bool                 // what Init has decided
	running  string                // the step; empty: none
	dead     liveness.Observations // of machines that are, as last seen in a step

	course    StepSelection
	restarted []Host      // which Stop and Start are for; nil: not decided
	seen      []nodeState // what Install has found on the nodes; nil: it has not looked

	signEvery time.Duration // how often a build says that it goes on
}

// New returns hive on the nodes of group, which are in index order and at least one. Events go to sink, with phase and
// verb left to the caller's own sink.
func New(name cluster.Name, group remote.Group, options Options, sink progress.Sink) *Cluster {
	hosts := make([]Host, len(group))
	for i, host := range group {
		hosts[i] = host
	}
	return NewWithHosts(name, hosts, options, sink)
}

// NewWithHosts is New for hosts of any kind.
func NewWithHosts(name cluster.Name, hosts []Host, options Options, sink progress.Sink) *Cluster {
	if sink == nil {
		sink = progress.Discard
	}
	return &Cluster{
		name: name, hosts: hosts, options: options.withDefaults(),
		sink:     progress.With(sink, progress.Event{Cluster: name.String()}),
		indirect: map[string]bool{}, signEvery: signEvery,
	}
}

// Steps are all steps in order.
func (c *Cluster) Steps() []Step {
	steps := []Step{
		{StepCloudInit, "waiting for cloud-init", c.WaitCloudInit},
		{StepOS, "installing the system's essentials", c.InstallOS},
		{StepInstall, "installing hive", c.Install},
		{StepStop, "stopping hive", c.Stop},
		{StepInit, "initializing node 1", c.Init},
		{StepJoin, "joining the other nodes", c.Join},
		{StepStart, "starting hive", c.Start},
		{StepHealth, "waiting for health", c.WaitHealthy},
	}
	return slices.DeleteFunc(steps, func(s Step) bool { return s.Name == StepOS && len(c.options.osPackages()) == 0 })
}

// StepNames are the names of all steps in order.
func StepNames() []string {
	return []string{StepCloudInit, StepOS, StepInstall, StepStop, StepInit, StepJoin, StepStart, StepHealth}
}

// Size returns what whoever configures a cluster of that many nodes should be warned of, or nothing.
func Size(nodes int) string {
	if nodes != 2 {
		return ""
	}
	return "a cluster of 2 nodes forms, but it tolerates no failure, and in most versions of hive each node has object storage of its own: use 1 node, or 3 and more"
}

// skip is returned by a step's work that found nothing to do; its text says why.
type skip string

func (s skip) Error() string { return string(s) }

// step emits the events around work and turns its error into a StepError.
func (c *Cluster) step(ctx context.Context, name string, work func(context.Context) error) error {
	title := c.title(name)
	sink := progress.With(c.sink, progress.Event{Step: name})
	begun := time.Now()
	sink.Emit(progress.Event{Kind: progress.StepStart})
	c.setRunning(name)
	err := c.whileAlive(ctx, work)
	c.setRunning("")
	end := progress.Event{Kind: progress.StepEnd, Status: progress.Passed, Seconds: time.Since(begun).Seconds()}
	if skipped, ok := errors.AsType[skip](err); ok {
		end.Status, end.Message, err = progress.Skipped, skipped.Error(), nil
	}
	if err != nil {
		err = c.failure(ctx, name, title, err)
		end.Status = progress.Failed
		if ctx.Err() != nil {
			end.Status = progress.Interrupted
		}
	}
	sink.Emit(end.WithError(err))
	return err
}

func (c *Cluster) title(name string) string {
	for _, step := range c.Steps() {
		if step.Name == name {
			return step.Title
		}
	}
	return name
}

// failure turns the error of a step into a *StepError that blames nodes and shows their logs.
func (c *Cluster) failure(ctx context.Context, name, title string, err error) error {
	failed, ok := errors.AsType[*StepError](err)
	if !ok {
		failed = &StepError{Err: err}
		if nodes, ok := errors.AsType[nodeErrors](err); ok {
			failed = &StepError{Nodes: nodes}
		}
	}
	failed.Step, failed.Title, failed.hint = name, title, cmp.Or(failed.hint, failed.advice(), c.options.hint(name))
	if ctx.Err() != nil { // nothing but its end is known to be wrong
		failed.hint = ""
	}
	c.attribute(ctx, failed)
	if ctx.Err() != nil {
		return errors.Join(context.Cause(ctx), failed)
	}
	return failed
}

// nodeErrors are failures in node order.
type nodeErrors []NodeFailure

func (e nodeErrors) Error() string {
	texts := make([]string, len(e))
	for i, failure := range e {
		texts[i] = failure.Node + ": " + reason(failure)
	}
	return strings.Join(texts, "; ")
}

// each calls work for all hosts at once and waits for all. It returns nil or nodeErrors in node order; the failure of
// one never cancels another.
func each(ctx context.Context, hosts []Host, work func(context.Context, Host) error) error {
	errs := make([]error, len(hosts))
	atOnce(hosts, func(i int, host Host) { errs[i] = work(ctx, host) })
	var failures nodeErrors
	for i, err := range errs {
		if err != nil {
			failures = append(failures, NodeFailure{Node: hosts[i].Name(), Err: err, Log: outputOf(err)})
		}
	}
	if len(failures) == 0 {
		return nil
	}
	return failures
}

// atOnce calls work for all hosts at once and waits.
func atOnce(hosts []Host, work func(i int, host Host)) {
	var all sync.WaitGroup
	for i, host := range hosts {
		all.Go(func() { work(i, host) })
	}
	all.Wait()
}

// outputOf is what a failed script wrote, without secrets.
func outputOf(err error) string {
	if log, ok := errors.AsType[nodeLog](err); ok {
		return log.log
	}
	exit, ok := errors.AsType[*remote.ExitError](err)
	if !ok {
		return ""
	}
	return redacted(cmp.Or(string(exit.Result.Stderr), string(exit.Result.Stdout)))
}

func (c *Cluster) leader() Host      { return c.hosts[0] }
func (c *Cluster) followers() []Host { return c.hosts[1:] }

func address(host Host, port int) string {
	return net.JoinHostPort(host.Node().Management.String(), strconv.Itoa(port))
}

// script runs a node script with the variables that all of them know, and those of vars.
func (c *Cluster) script(
	ctx context.Context, host Host, name string, timeout time.Duration, vars map[string]string,
	onLine func(stream, line string),
) (remote.Result, error) {
	scripts, err := loadScripts(c.options.ScriptsDir)
	if err != nil {
		return remote.Result{}, err
	}
	env := map[string]string{
		"HIVE_BIND": host.Node().Management.String(), "HIVE_NODE": host.Name(), "HIVE_PORT": strconv.Itoa(ManagerPort),
		"HIVE_LAYOUT": c.options.layout(),
	}
	maps.Copy(env, vars)
	command := remote.Command{
		Name: name, Script: scripts[commonScript] + "\n" + scripts[name], Env: env, Timeout: timeout, OnLine: onLine,
		Lasts: timeout >= time.Minute, // a step of forming, not a question
	}
	if name == collectScript {
		command.Keep = collectMost
	}
	c.state(host, "")
	var result remote.Result
	err = c.options.Monitor.Ask(ctx, host.Name(), func(ctx context.Context) (err error) {
		result, err = host.Run(ctx, command)
		return err
	})
	if err == nil {
		c.state(host, ": done")
	}
	return result, err
}

func (c *Cluster) setRunning(step string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = step
}

// state tells which step is at work on a node, if one is.
func (c *Cluster) state(host Host, suffix string) {
	c.mu.Lock()
	step := c.running
	c.mu.Unlock()
	if step != "" {
		c.sink.Emit(progress.Event{Kind: progress.NodeState, Step: step, Node: host.Name(), Message: step + suffix})
	}
}

// onEach runs a node script on hosts at once, as each does.
func (c *Cluster) onEach(
	ctx context.Context, hosts []Host, name string, timeout time.Duration, vars map[string]string,
) error {
	return each(ctx, hosts, func(ctx context.Context, host Host) error {
		_, err := c.script(ctx, host, name, timeout, vars, nil)
		return err
	})
}

// output reports a node's lines as they come.
func (c *Cluster) output(step string, host Host) func(stream, line string) {
	return func(_, line string) {
		c.sink.Emit(progress.Event{Kind: progress.Output, Step: step, Node: host.Name(), Message: redacted(line)})
	}
}

func (c *Cluster) info(step, node, message string) {
	c.sink.Emit(progress.Event{Kind: progress.Info, Step: step, Node: node, Message: message})
}

func (c *Cluster) warn(step, node, message string) {
	c.sink.Emit(progress.Event{Kind: progress.Warning, Step: step, Node: node, Message: message})
}

// awaited is what a step waits for.
func (c *Cluster) awaited(step string) *wait.Condition {
	return &wait.Condition{Report: func(message, why string) {
		c.sink.Emit(progress.Event{Kind: progress.Wait, Step: step, Message: message, Error: why})
	}}
}

func seconds(d time.Duration) string {
	return strconv.Itoa(max(1, int(d.Round(time.Second).Seconds())))
}

// logs returns the end of logs on a node, without secrets; nothing if they cannot be had. It is used after a failure,
// so it does not depend on a context that may have ended.
func (c *Cluster) logs(ctx context.Context, host Host, names ...string) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), logTimeout)
	defer cancel()
	result, err := c.script(ctx, host, "log.sh", logTimeout, map[string]string{
		"HIVE_LOGS": strings.Join(names, " "), "HIVE_LINES": "40",
	}, nil)
	if err != nil {
		return ""
	}
	return redacted(string(result.Stdout))
}

const logTimeout = 15 * time.Second

// addLogs adds to the failures of err the logs that choose names for a node, each from its node.
func (c *Cluster) addLogs(ctx context.Context, err error, choose func(Host) []string) {
	failures, ok := errors.AsType[nodeErrors](err)
	if !ok || ctx.Err() != nil { // whoever interrupts does not wait for logs
		return
	}
	c.LearnSecrets(ctx) // logs may show them
	at := map[string]*NodeFailure{}
	for i := range failures {
		at[failures[i].Node] = &failures[i]
	}
	failed := filter(c.hosts, func(h Host) bool { return at[h.Name()] != nil })
	atOnce(failed, func(_ int, host Host) {
		if log := c.logs(ctx, host, choose(host)...); log != "" {
			at[host.Name()].Log = log
		}
	})
}
