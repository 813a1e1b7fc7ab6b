// Package lifecycle is the verbs: up, configure, test, down, full and status, each a literal list of what is done. It
// works over interfaces; it knows neither tofu nor Proxmox VE nor the disk.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/hive"
	"hive-test/pkg/liveness"
	"hive-test/pkg/phase"
	"hive-test/pkg/progress"
	"hive-test/pkg/remote"
)

// Store is where a cluster's files live. Its writes are atomic.
type Store interface {
	Load(cluster.Name) (*cluster.Record, error)
	Save(*cluster.Record) error
	SaveInventory(cluster.Inventory) error
	Write(name cluster.Name, file string, content []byte) error
	Path(name cluster.Name, file string) string
	Remove(cluster.Name) error
}

// Evidence is the directory of one run; it outlives the cluster.
type Evidence interface {
	// Path of a file or directory below it.
	Path(elem ...string) string
	// KeepResults makes dir (below the run) the cluster's last test results.
	KeepResults(dir string) error
	// DropResults forgets the cluster's last test results, which stay with their own run.
	DropResults() error
	// SaveResults copies the cluster's last test results, if there are any, below the run's directory.
	SaveResults() error
}

// Remote reaches nodes: one connection per node, for the whole run.
type Remote interface {
	Group(cluster.Nodes) remote.Group
	// DialContext connects to a port of a node, directly or through what the nodes are reached through.
	DialContext(ctx context.Context, network, addr string) (net.Conn, error)
	Close() error
}

// Job is one run of a verb on one cluster that this process has locked, or that has a Hold.
type Job struct {
	Record *cluster.Record
	// Before is the record as it was before this run changed what is asked for; nil for a new cluster.
	Before *cluster.Record
	// Allow is what up may do to VMs that exist.
	Allow deploy.Allowed
	// Judge, if set, refuses what up is about to do by its error, before any of it is done.
	Judge    func(deploy.Plan) error
	Store    Store
	Evidence Evidence
	Deploy   deploy.Capable
	// Dial opens the way to the nodes of the record. It is called once, when first needed.
	Dial func(*cluster.Record) (Remote, error)
	Sink progress.Sink
	// Hive and Suites are what configure and test were asked to do.
	Hive   hive.Options
	Suites Suites
	// SourceBefore is what the record named before another source was named now: configure goes back to it where the new
	// one is refused.
	SourceBefore cluster.Source
	// SuiteEnv is what suites get beside their usual environment, as NAME or NAME=value; see suite.Options.
	SuiteEnv []string
	// KillLeftovers ends what suites leave running.
	KillLeftovers bool
	// Environ is the environment that suites start from; nil: this process's.
	Environ []string
	// Force makes configure form the cluster again, and down go on through the API when tofu fails.
	Force bool
	// Leave says what down does with hive on hosts that are nobody's to destroy.
	Leave Leave
	// Reset says whether suites get the cluster as it was before the first.
	Reset Reset
	// SaveAs is the tag of a snapshot that this run makes once hive is formed; empty: it makes none.
	SaveAs string
	// LostAfter is for how long a node may be lost while suites run, before they are ended; 0: they never are.
	LostAfter time.Duration
	// From is the step that configure begins with, and Only are the names of the nodes that its steps of nodes are run
	// on. Empty: from the first, on all.
	From string
	Only []string
	// KeepResults makes down keep the last test results beside its own evidence.
	KeepResults bool
	// Now is the clock.
	Now func() time.Time
	// Watched says that somebody looks on: while machines are made, it is asked how far they are.
	Watched bool
	// Hold locks the cluster for a moment, for a verb that only looks but has found something to write down; it never
	// waits. Nil: this process has locked the cluster.
	Hold func() (release func(), err error)
	// Making reports whether another run is at work that makes the machines of a record; nil: none is.
	Making func(r *cluster.Record) bool
	// Interrupted tells whether the user has said stop; nil: never.
	Interrupted func() bool

	// Secrets are what nothing may show. Nil: nothing is known to be secret.
	Secrets *progress.Secrets
	// Booted are the names of the nodes whose VMs up has started, or restarted: hive runs there no more.
	Booted []string

	// Abort ends what goes on after an interruption: gathering evidence. Nil: nothing does.
	Abort context.Context

	remote  Remote
	located bool // the nodes were found where the record says, or looked for
	// unreached are, by name, the nodes that could not be connected to then.
	unreached map[string]error
	// shared guards remote and gathered: a phase that was abandoned may still use them when the run is closed.
	shared   sync.Mutex
	gathered []Item
	// moving is held while the record's nodes are changed, or read, by what runs beside a phase's steps.
	moving sync.Mutex
}

// masked is err as it may be recorded; nil for nil.
func (r *Job) masked(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(r.Secrets.Mask(err.Error()))
}

// Close ends the connections to the nodes.
func (r *Job) Close() error {
	r.shared.Lock()
	defer r.shared.Unlock()
	if r.remote == nil {
		return nil
	}
	return r.remote.Close()
}

// group returns the nodes' connections, opening the way on first use.
func (r *Job) group() (remote.Group, error) {
	opened, err := r.open()
	if err != nil {
		return nil, err
	}
	return opened.Group(r.Record.Nodes), nil
}

// open returns the way to the nodes, which it opens on first use.
func (r *Job) open() (Remote, error) {
	r.shared.Lock()
	defer r.shared.Unlock()
	if r.remote != nil {
		return r.remote, nil
	}
	opened, err := r.Dial(r.Record)
	if err != nil {
		return nil, fmt.Errorf("preparing SSH: %w", err)
	}
	r.remote = opened
	return opened, nil
}

// hive returns the handle on the Hive that runs, or shall run, on the nodes; it reports to sink.
func (r *Job) hive(sink progress.Sink) (*hive.Cluster, error) { return r.hiveWithin(sink, nil) }

// hiveWithin is hive for those who only read: monitor ends what is asked of machines that are dead.
func (r *Job) hiveWithin(sink progress.Sink, monitor *liveness.Monitor) (*hive.Cluster, error) {
	return r.hiveOn(r.Record.Nodes, sink, monitor)
}

// hiveOn is hiveWithin for some of the nodes.
func (r *Job) hiveOn(nodes cluster.Nodes, sink progress.Sink, monitor *liveness.Monitor) (*hive.Cluster, error) {
	way, err := r.open()
	if err != nil {
		return nil, err
	}
	options := r.Hive
	options.Force, options.Secrets, options.Observe, options.Monitor = r.Force, r.Secrets, r.observe, monitor
	options.Dial, options.Where = way.DialContext, r.where
	return hive.New(r.Record.Name, way.Group(nodes), options, sink), nil
}

// recorded runs act as phase p of the record: the intent is on disk before the act, the outcome after it.
func (r *Job) recorded(ctx context.Context, p cluster.Phase, inputs string, act func(context.Context) error) error {
	err := phase.InTurn(ctx, func() error {
		r.Record.Begin(p, inputs, r.Now())
		return r.Store.Save(r.Record)
	})
	if err != nil {
		return err
	}
	return r.end(ctx, p, act(ctx))
}

// end notes how a phase that was begun has ended, and returns err.
func (r *Job) end(ctx context.Context, p cluster.Phase, err error) error {
	return errors.Join(err, phase.InTurn(ctx, func() error {
		r.Record.End(p, r.masked(err), r.Now())
		return r.Store.Save(r.Record)
	}))
}

// step is one named step of a phase.
type step struct {
	name string
	do   func(context.Context, progress.Sink) error
}

// steps runs a list of steps of phase p in order and stops at the first that fails.
func (r *Job) steps(ctx context.Context, p cluster.Phase, list ...step) error {
	sink := r.sink(p)
	for _, s := range list {
		if err := r.beginStep(ctx, p, s.name); err != nil {
			return err
		}
		if err := phase.Step(ctx, sink, s.name, s.do); err != nil {
			return err
		}
	}
	return nil
}

// beginStep notes in memory that a step begins; it is on disk with what the step writes itself. Once ctx has ended no
// step begins, which phase.Step says.
func (r *Job) beginStep(ctx context.Context, p cluster.Phase, name string) error {
	if ctx.Err() != nil {
		return nil
	}
	return phase.InTurn(ctx, func() error {
		if r.Record.Phases[p].Status == cluster.PhaseRunning {
			r.Record.BeginStep(p, name)
		}
		return nil
	})
}

// change changes the record, in memory and on disk, unless the phase that was given ctx was abandoned.
func (r *Job) change(ctx context.Context, edit func()) error {
	return phase.InTurn(ctx, func() error {
		edit()
		return r.Store.Save(r.Record)
	})
}

// sink is where what happens in phase p is reported.
func (r *Job) sink(p cluster.Phase) progress.Sink {
	return progress.With(r.Sink, progress.Event{Phase: string(p)})
}
