package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/hive"
	"hive-test/pkg/progress"
	"hive-test/pkg/remote"
	"hive-test/pkg/suite"
)

// ErrNodeLost means that a node was lost while suites ran, and did not come back.
var ErrNodeLost = progress.WithCode(errors.New("a node was lost"), "node-lost")

// How often the nodes are asked for a sign of life: seldom while all is well, sooner when something is not.
const (
	lookoutCalm    = 5 * time.Second
	lookoutFirst   = 2 * time.Second
	lookoutAlarmed = time.Second
)

// lossMonitor watches the nodes while suites run: it tells when one is lost, comes back or has started again, follows
// one that DHCP moves, and ends the suites when one stays lost.
type lossMonitor struct {
	*Job
	sink progress.Sink
	end  context.CancelCauseFunc

	mu     sync.Mutex    // for the job: nothing else may use it while a node is followed
	handle *hive.Cluster // for signs of life
	seen   []observation // in node order
}

// observation is what is known of one node.
type observation struct {
	missed int       // rounds in a row without any sign of the machine
	lost   time.Time // since when; zero: it is not
	why    string    // as it was told
	silent int       // rounds in a row in which the daemon alone did not answer
	since  time.Time // since when it does not
	told   bool      // that it does not
	uptime time.Duration
}

// watchNodes runs act, with a lookout over the nodes meanwhile.
func (r *Job) watchNodes(ctx context.Context, sink progress.Sink, handle *hive.Cluster, act func(context.Context, *lossMonitor) error) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	l := &lossMonitor{Job: r, sink: sink, end: end, handle: handle, seen: make([]observation, len(r.Record.Nodes))}
	watching, stop := context.WithCancel(ctx)
	var wait sync.WaitGroup
	wait.Go(func() { l.watch(watching) })
	defer wait.Wait()
	defer stop()
	return act(ctx, l)
}

// where tells where the nodes are now.
func (l *lossMonitor) where() (cluster.Nodes, map[string]string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.Record.Nodes), suiteEnvironment(l.Record, l.Store)
}

// host is the node that suites are to be run on, where it is now.
func (l *lossMonitor) host(context.Context) (*suite.Node, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	node, found := l.Record.Nodes.Named(l.SuiteOn)
	if !found {
		return nil, fmt.Errorf("there is no node %q to run suites on, the cluster has %d", l.SuiteOn, len(l.Record.Nodes))
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
	return &suite.Node{Host: group[0], Inventory: l.Record.Inventory(), Key: string(key), KnownHosts: string(known)}, nil
}

// check judges the nodes where they are now. What their hypervisors say is dead is not waited for.
func (l *lossMonitor) check(ctx context.Context) hive.Health {
	l.mu.Lock()
	watched := l.keepVigil(ctx, reachPatience)
	handle, err := l.hiveWithin(l.sink, watched.within)
	if err != nil {
		handle = l.handle
	}
	l.mu.Unlock()
	defer watched.end()
	return handle.Check(ctx)
}

func (l *lossMonitor) watch(ctx context.Context) {
	wasCalm := true
	for pause := lookoutFirst; ; {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		calm := l.round(ctx, time.Now())
		pause = min(pause*3/2, lookoutCalm)
		if wasCalm && !calm {
			pause = lookoutAlarmed
		}
		wasCalm = calm
	}
}

// round asks every node once, and tells whether all is well.
func (l *lossMonitor) round(ctx context.Context, now time.Time) (calm bool) {
	watched := l.followVigil(ctx, reachPatience)
	pulses := l.handle.Pulses(ctx, watched.within)
	watched.end()
	if ctx.Err() != nil { // they end with the suites
		return true
	}
	powers := l.outside(ctx, pulses)
	if ctx.Err() != nil {
		return true
	}
	calm = true
	for i, pulse := range pulses {
		var power deploy.Power
		if i < len(powers) {
			power = powers[i]
		}
		calm = l.sight(&l.seen[i], pulse, power, now) && calm
	}
	return calm
}

// outside asks the hypervisors where a node gives no sign of life, or another one answers in its place, and follows
// what has moved.
func (l *lossMonitor) outside(ctx context.Context, pulses []hive.Pulse) []deploy.Power {
	odd := slices.ContainsFunc(pulses, func(p hive.Pulse) bool { return p.Host != nil || p.Self != "" && p.Self != p.Node && l.known(p.Self) })
	if !odd {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, statusTime)
	defer cancel()
	powers := l.Deploy.Power(limited, l.Record)
	if moves := moved(l.Record.Nodes, powers); ctx.Err() == nil && len(moves) > 0 {
		l.move(moves)
	}
	return powers
}

// known tells whether a node of the cluster has that name.
func (l *lossMonitor) known(name string) bool {
	return slices.ContainsFunc(l.Record.Nodes, func(n cluster.Node) bool { return n.Name == name })
}

func (l *lossMonitor) move(moves []remote.Move) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.follow(moves) {
		return
	}
	if handle, err := l.hive(l.sink); err == nil {
		l.handle = handle
	}
}

// sight compares what a node shows now with what was known of it, tells what is new, and whether all is well with it.
func (l *lossMonitor) sight(s *observation, pulse hive.Pulse, power deploy.Power, now time.Time) (calm bool) {
	if pulse.Host != nil {
		l.miss(s, pulse, power, now)
		return false
	}
	s.missed = 0
	if !s.lost.IsZero() {
		l.tell(progress.Info, pulse.Node, "%s is back after %s", pulse.Node, lasted(s.lost, now))
		s.lost, s.why = time.Time{}, ""
	}
	if pulse.Daemon != nil {
		l.missDaemon(s, pulse, now)
		return false
	}
	if s.told {
		l.tell(progress.Info, pulse.Node, "hive's daemon on %s answers again after %s", pulse.Node, lasted(s.since, now))
	}
	s.silent, s.told = 0, false
	if pulse.Self == pulse.Node {
		if pulse.Uptime < s.uptime {
			l.tell(progress.Info, pulse.Node, "hive's daemon on %s has started again: it ran for %s, and now for %s", pulse.Node, s.uptime, pulse.Uptime)
		}
		s.uptime = pulse.Uptime
	}
	return true
}

// miss notes that a machine gives no sign of life. Once may be chance, unless its hypervisor says that it does not run.
func (l *lossMonitor) miss(s *observation, pulse hive.Pulse, power deploy.Power, now time.Time) {
	if s.missed++; s.missed == 1 {
		s.since = now
	}
	why := power.Dead()
	if why == "" && s.missed < 2 {
		return
	}
	if why == "" {
		why = "neither hive's daemon nor its SSH server answer: " + pulse.Daemon.Error()
		if power.Power == "running" {
			why = "its VM runs, but " + why
		}
	}
	if s.lost.IsZero() {
		s.lost = s.since
	}
	if s.why == "" || power.Dead() != "" && s.why != why {
		l.tell(progress.Warning, pulse.Node, "%s is lost since %s: %s", pulse.Node, s.lost.Local().Format(time.TimeOnly), why)
		s.why = why
	}
	if l.LostAfter > 0 && now.Sub(s.lost) >= l.LostAfter {
		l.giveUp(pulse.Node, s)
	}
}

// missDaemon notes that a machine lives and its daemon does not answer: a suite may have stopped it.
func (l *lossMonitor) missDaemon(s *observation, pulse hive.Pulse, now time.Time) {
	if s.silent++; s.silent == 1 {
		s.since = now
	}
	if s.silent < 2 || s.told {
		return
	}
	s.told = true
	l.tell(progress.Warning, pulse.Node, "hive's daemon on %s does not answer since %s, its SSH server does: %v", pulse.Node, s.since.Local().Format(time.TimeOnly), pulse.Daemon)
}

// giveUp ends the suites.
func (l *lossMonitor) giveUp(node string, s *observation) {
	err := fmt.Errorf("%w: %s since %s, for longer than %s (--lost-after): %s", ErrNodeLost, node, s.lost.Local().Format(time.TimeOnly), progress.FormatLimit(l.LostAfter), s.why)
	err = progress.WithNodes(err, node)
	l.end(&suite.EndedError{Err: progress.WithHint(err, fmt.Sprintf("hive-test status %s; a suite that has nodes down for longer needs a longer --lost-after", l.Record.Name))})
}

func (l *lossMonitor) tell(kind progress.Kind, node, format string, args ...any) {
	l.sink.Emit(progress.Event{Kind: kind, Node: node, Message: fmt.Sprintf(format, args...)})
}

// lasted is a time between, for people.
func lasted(from, to time.Time) string {
	return progress.FormatLimit(max(to.Sub(from).Round(time.Second), time.Second))
}
