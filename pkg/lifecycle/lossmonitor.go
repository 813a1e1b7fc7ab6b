package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/hive"
	"hive-test/pkg/liveness"
	"hive-test/pkg/progress"
	"hive-test/pkg/remote"
	"hive-test/pkg/suite"
	"hive-test/pkg/wait"
)

// ErrNodeLost means that a node was lost while suites ran, and did not come back.
var ErrNodeLost = progress.WithCode(errors.New("a node was lost"), "node-lost")

// How often the nodes are asked for a sign of life: seldom while all is well, sooner when something is not.
const (
	probeCalm    = 5 * time.Second
	probeFirst   = 2 * time.Second
	probeAlarmed = time.Second
)

// lossMonitor watches the nodes while suites run: it tells when one is lost, comes back or has started again, follows
// one that DHCP moves, and ends the suites when one stays lost.
type lossMonitor struct {
	*Job
	sink progress.Sink
	end  context.CancelCauseFunc

	mu     sync.Mutex    // for the job: nothing else may use it while a node is followed
	handle *hive.Cluster // for signs of life

	turn  sync.Mutex // held while the nodes are asked, and while machines are stopped and started on purpose
	fresh bool       // what was known of the nodes is of other machines; guarded by turn

	// These are the monitor's alone.
	results       []hive.ProbeResult // what the nodes have answered last, in node order
	known         []nodeState        // in node order
	pauses        wait.Backoff
	calm, wasCalm bool // at the last time, and the one before
}

// nodeState is what was told of one node.
type nodeState struct {
	lost   time.Time // since when; zero: it is not
	why    string    // as it was told
	silent int       // probes in a row in which the daemon alone did not answer
	since  time.Time // since when it does not
	told   bool      // that it does not
	uptime time.Duration
}

// watchNodes runs act, and watches the nodes meanwhile.
func (r *Job) watchNodes(
	ctx context.Context, sink progress.Sink, handle *hive.Cluster, act func(context.Context, *lossMonitor) error,
) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	l := &lossMonitor{Job: r, sink: sink, end: end, handle: handle, known: make([]nodeState, len(r.Record.Nodes))}
	l.pauses, l.calm, l.wasCalm = probePauses(probeFirst), true, true
	monitor := liveness.Start(ctx, []liveness.Probe{{Observe: l.probe, Patience: l.pause(), Pause: l.pause}}, l.tellNew)
	defer monitor.Stop()
	return act(ctx, l)
}

func probePauses(first time.Duration) wait.Backoff {
	return wait.Backoff{First: first, Max: probeCalm, Factor: 1.5}
}

// pause is how long to wait before the next probe.
func (l *lossMonitor) pause() time.Duration {
	if l.wasCalm && !l.calm {
		l.pauses = probePauses(probeAlarmed)
	}
	l.wasCalm = l.calm
	return l.pauses.Next()
}

// where tells where the nodes are now.
func (l *lossMonitor) where() (cluster.Nodes, map[string]string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.Record.Nodes), suiteEnvironment(l.Record, l.Store)
}

// host is a node that suites are to be run on, by its name or number, where it is now.
func (l *lossMonitor) host(_ context.Context, name string) (*suite.Node, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	node, found := l.Record.Nodes.Named(name)
	if !found {
		return nil, fmt.Errorf("there is no node %q to run suites on, the cluster has %d", name, len(l.Record.Nodes))
	}
	group, err := l.chosen([]int{node.Index})
	if err != nil {
		return nil, err
	}
	key, err := os.ReadFile(l.Record.SSHKeyPath)
	if err != nil && !errors.Is(err, os.ErrNotExist) { // an SSH agent may have it alone
		return nil, fmt.Errorf("reading the nodes' SSH key: %w", err)
	}
	known, err := os.ReadFile(l.Store.Path(l.Record.Name, knownHostsFile))
	if err != nil {
		return nil, fmt.Errorf("reading the nodes' host keys: %w", err)
	}
	return &suite.Node{Host: group[0], Inventory: l.Record.Inventory(), Key: string(key), KnownHosts: string(known)},
		nil
}

// check judges the nodes where they are now, and tells which services have ended: no case says so of each. What their
// hypervisors say is dead is not waited for.
func (l *lossMonitor) check(ctx context.Context) hive.Health {
	l.mu.Lock()
	watched := l.watchMachines(ctx, reachPatience)
	handle, err := l.hiveWithin(l.sink, watched.Monitor)
	if err != nil {
		handle = l.handle
	}
	l.mu.Unlock()
	defer watched.Stop()
	health := handle.Check(ctx)
	for _, node := range health.Nodes {
		if ended := node.Ended(); ended != "" {
			l.sink.Emit(progress.Event{
				Kind: progress.Warning, Name: progress.ServiceDead, Node: node.Name, Message: ended,
			})
		}
	}
	return health
}

// probe asks every node once for a sign of life.
func (l *lossMonitor) probe(ctx context.Context) liveness.Observations {
	l.turn.Lock()
	defer l.turn.Unlock()
	if l.fresh {
		l.known, l.fresh = make([]nodeState, len(l.known)), false
	}
	watched := l.watchMoves(ctx, reachPatience)
	l.results = l.handle.Probe(ctx, watched.Monitor)
	watched.Stop()
	if ctx.Err() != nil { // they end with the suites
		return nil
	}
	powers := l.outside(ctx, l.results)
	seen := make(liveness.Observations, len(l.results))
	for i, result := range l.results {
		var power deploy.Power
		if i < len(powers) {
			power = powers[i]
		}
		seen[i] = signOfLife(result, power)
	}
	return seen
}

// signOfLife puts together what a node answers and what its hypervisor says.
func signOfLife(result hive.ProbeResult, power deploy.Power) liveness.Observation {
	o := liveness.Observation{Node: result.Node}
	if result.Host == nil {
		return o
	}
	if o.Err = power.Lost(); o.Err != nil {
		o.Certain = true
		return o
	}
	o.Err = fmt.Errorf("neither hive's daemon nor its SSH server answer: %w", result.Daemon)
	if power.Power == "running" {
		o.Err = fmt.Errorf("its VM runs, but %w", o.Err)
	}
	return o
}

// outside asks the hypervisors where a node gives no sign of life, or another one answers in its place, and follows
// what has moved.
func (l *lossMonitor) outside(ctx context.Context, results []hive.ProbeResult) []deploy.Power {
	odd := slices.ContainsFunc(results, func(p hive.ProbeResult) bool {
		return p.Host != nil || p.Self != "" && p.Self != p.Node && l.member(p.Self)
	})
	if !odd {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, statusTime)
	defer cancel()
	powers := l.Deploy.Power(limited, l.Record)
	if moves := moved(l.Record.Nodes, powers); ctx.Err() == nil && len(moves) > 0 {
		l.move(ctx, moves)
	}
	return powers
}

// member reports whether a node of the cluster has that name.
func (l *lossMonitor) member(name string) bool {
	return slices.ContainsFunc(l.Record.Nodes, func(n cluster.Node) bool { return n.Name == name })
}

func (l *lossMonitor) move(ctx context.Context, moves []remote.Move) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.follow(ctx, moves) {
		return
	}
	if handle, err := l.hive(l.sink); err == nil {
		l.handle = handle
	}
}

// tellNew tells what is new about the nodes.
func (l *lossMonitor) tellNew(seen liveness.Observations) {
	l.calm = true
	for i, o := range seen {
		l.calm = l.compare(&l.known[i], o, l.results[i]) && l.calm
	}
}

// compare compares what a node shows now with what was known of it, tells what is new, and whether all is well with it.
func (l *lossMonitor) compare(s *nodeState, o liveness.Observation, result hive.ProbeResult) (calm bool) {
	if o.Err != nil {
		l.unreachable(s, o)
		return false
	}
	if !s.lost.IsZero() {
		l.sink.Emit(progress.Event{
			Kind: progress.Info, Name: progress.NodeBack, Node: o.Node,
			Message: fmt.Sprintf("%s is back after %s", o.Node, lasted(s.lost, o.At)),
		})
		s.lost, s.why = time.Time{}, ""
	}
	if result.Daemon != nil {
		l.silentDaemon(s, o, result)
		return false
	}
	if s.told {
		l.sink.Emit(progress.Event{
			Kind: progress.Info, Name: progress.ServiceBack, Node: o.Node,
			Message: fmt.Sprintf("hive's daemon on %s answers again after %s", o.Node, lasted(s.since, o.At)),
		})
	}
	s.silent, s.told = 0, false
	if result.Self == o.Node {
		if result.Uptime < s.uptime {
			l.sink.Emit(progress.Event{Kind: progress.Info, Node: o.Node, Message: fmt.Sprintf(
				"hive's daemon on %s has started again: it ran for %s, and now for %s", o.Node, s.uptime, result.Uptime,
			)})
		}
		s.uptime = result.Uptime
	}
	return true
}

// unreachable notes that a machine gives no sign of life. Once may be chance, unless its hypervisor says that it does
// not run.
func (l *lossMonitor) unreachable(s *nodeState, o liveness.Observation) {
	s.since = o.Since // of its daemon nothing else can be said
	if !o.Certain && o.Times < 2 {
		return
	}
	s.lost = o.Since
	if why := o.Err.Error(); s.why == "" || o.Certain && s.why != why {
		l.sink.Emit(progress.Event{
			Kind: progress.Warning, Name: progress.NodeLost, Node: o.Node, Error: why,
			Message: fmt.Sprintf("%s is lost since %s", o.Node, s.lost.Local().Format(time.TimeOnly)),
		})
		s.why = why
	}
	if l.LostAfter > 0 && o.Lasts() >= l.LostAfter {
		l.giveUp(o.Node, s)
	}
}

// silentDaemon notes that a machine lives and its daemon does not answer: a suite may have stopped it.
func (l *lossMonitor) silentDaemon(s *nodeState, o liveness.Observation, result hive.ProbeResult) {
	if s.silent++; s.silent == 1 {
		s.since = o.At
	}
	if s.silent < 2 || s.told {
		return
	}
	s.told = true
	seen := progress.Event{
		Kind: progress.Warning, Node: o.Node, Error: result.Daemon.Error(),
		Message: fmt.Sprintf("hive's daemon on %s does not answer since %s, its SSH server does", o.Node,
			s.since.Local().Format(time.TimeOnly)),
	}
	if errors.Is(result.Daemon, syscall.ECONNREFUSED) { // else it may only hang
		seen.Name = progress.ServiceDead
	}
	l.sink.Emit(seen)
}

// giveUp ends the suites.
func (l *lossMonitor) giveUp(node string, s *nodeState) {
	err := fmt.Errorf(
		"%w: %s since %s, for longer than %s (--lost-after): %s", ErrNodeLost, node,
		s.lost.Local().Format(time.TimeOnly), progress.FormatLimit(l.LostAfter), s.why,
	)
	err = progress.WithNodes(err, node)
	l.end(&suite.EndedError{Err: progress.WithHint(
		err,
		fmt.Sprintf("hive-test status %s; a suite that has nodes down for longer needs a longer "+
			"--lost-after", l.Record.Name),
	)})
}

// lasted is a time between, for people.
func lasted(from, to time.Time) string {
	return progress.FormatLimit(max(to.Sub(from).Round(time.Second), time.Second))
}
