package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
	"hive-test/pkg/deploy"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/progress"
	"hive-test/pkg/state"
	"hive-test/pkg/wait"
)

// Status is what is recorded of a cluster, what its hypervisors say and what its nodes answer.
type Status struct {
	lifecycle.Status
	Interrupted *Interruption // the last run was interrupted, and nobody has dealt with it; else nil
	Next        []string      // the commands that come next
}

// Status looks at a cluster once. Nothing is changed, but what is recorded of nodes that have moved.
func (e *Engine) Status(ctx context.Context, request Request) (Status, error) {
	s, r, err := e.look(ctx, "status", request)
	if err != nil {
		return Status{}, err
	}
	defer s.close()
	ctx, cancel := s.limited(ctx)
	defer cancel()
	status, err := lifecycle.ReadStatus(ctx, r)
	return s.statusOf(status), errors.Join(err, r.Close())
}

// look opens a cluster for reading: no run, and no lock but for the moment in which it writes down where nodes have
// moved.
func (e *Engine) look(ctx context.Context, verb string, request Request) (*session, *lifecycle.Job, error) {
	s, err := e.openMade(ctx, verb, request)
	if err != nil {
		return nil, nil, err
	}
	deployer, err := s.Deployer()
	if err != nil {
		s.close()
		return nil, nil, err
	}
	return s, s.looking(deployer), nil
}

// firstRecord is how long a look waits at most for the first record of a cluster that another run has begun to make,
// where the look itself has no limit: that run checks first whether the cluster can be made.
const firstRecord = 10 * time.Second

// openMade is openForRead that waits for the first record of a cluster that another run is about to make.
func (e *Engine) openMade(ctx context.Context, verb string, request Request) (*session, error) {
	end := time.Now().Add(cmp.Or(request.Settings.Timeout, firstRecord))
	pauses := wait.Backoff{First: waitFirst, Max: waitLimit, Factor: 1.5}
	for {
		s, err := e.openForRead(ctx, verb, request)
		if !errors.Is(err, state.ErrNotFound) {
			return s, err
		}
		holder, begun := begunBy(request)
		switch {
		case !begun:
			return nil, err
		case time.Now().After(end):
			return nil, Error{ExitUnhealthy, fmt.Errorf(
				"cluster %q is about to be made by %s, and nothing is known of it yet", request.Name, holder,
			)}
		}
		if err := wait.Sleep(ctx, pauses.Next()); err != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// begunBy returns the run that is at work on the cluster, and whether there is one.
func begunBy(request Request) (state.Holder, bool) {
	store, err := state.Open(request.Settings.ClustersDir)
	if err != nil {
		return state.Holder{}, false
	}
	holder, life := store.Holder(cluster.Name(request.Name))
	return holder, life == state.Alive || life == state.Elsewhere
}

// looking wires what a verb needs that only looks.
func (s *session) looking(deployer deploy.Capable) *lifecycle.Job {
	return &lifecycle.Job{
		Record: s.Record, Store: s.Store, Deploy: deployer, Dial: s.dial, Sink: s.Sink, Hive: s.hiveOptions(),
		Now:  time.Now,
		Hold: s.holdBriefly, Making: s.making,
	}
}

// making reports whether another run is at work that makes the machines of a record.
func (s *session) making(r *cluster.Record) bool {
	if r.Phases[cluster.PhaseUp].Status != cluster.PhaseRunning {
		return false
	}
	_, life := s.Store.Holder(s.Name)
	return life == state.Alive || life == state.Elsewhere
}

// holdBriefly locks the cluster until release is called.
func (s *session) holdBriefly() (release func(), err error) {
	if err := s.holdWithin(context.Background(), 0); err != nil {
		return nil, err
	}
	return func() {
		if err := s.lock.Release(); err != nil {
			progress.Warn(s.Sink, err.Error(), "")
		}
		s.lock = nil
	}, nil
}

// statusOf is what a look has found, with advice that is complete.
func (s *session) statusOf(status lifecycle.Status) Status {
	for i, reason := range status.ClusterReasons {
		status.ClusterReasons[i] = s.Advise(reason)
	}
	for i := range status.Nodes {
		status.Nodes[i].Health.Error = s.Advise(status.Nodes[i].Health.Error)
		status.Nodes[i].Power.Why = s.Advise(status.Nodes[i].Power.Why)
	}
	out := Status{Status: status}
	if status.Record != nil {
		out.Interrupted = interruptionOf(s.Store, status.Record, s.Settings)
		for _, command := range mending(s.Store, out) {
			out.Next = append(out.Next, s.Advise(command))
		}
	}
	return out
}

// mending are the commands that come next: they go on with an up that was interrupted, start VMs that are stopped, make
// those anew that are gone, put hive on the nodes, heal faults, and start services that are dead or hang. While a run is at
// work, none does, nor where what a run has left is to be removed.
func mending(store *state.Store, s Status) (commands []string) {
	_, life := store.Holder(s.Record.Name)
	if life == state.Alive || life == state.Elsewhere {
		return nil
	}
	configuring := s.Interrupted != nil && s.Interrupted.finishes(cluster.PhaseConfigure)
	if s.Interrupted != nil && !configuring && !s.Interrupted.testing() {
		return s.Interrupted.next(s.Record.Name)
	}
	toMake := func(n lifecycle.NodeStatus) bool { return n.Power.Mendable() || !n.Management.IsValid() }
	if slices.ContainsFunc(s.Nodes, toMake) {
		commands = append(commands, fmt.Sprintf("hive-test up %s", s.Record.Name))
	}
	if !s.Record.Nodes.WereUp() {
		return commands
	}
	startable := func(n lifecycle.NodeStatus) bool { return n.Health.Startable() }
	last := s.Record.Phases[cluster.PhaseConfigure].Status
	_, formed := s.Record.Formed()
	switch {
	case configuring, last != cluster.PhaseDone, s.Record.OtherMembers(), !formed && !s.Formed:
		commands = append(commands, s.Configure)
	case !s.Formed && len(s.Faults) > 0: // what is ill may be so for them
		commands = append(commands, fmt.Sprintf("hive-test fault heal %s", s.Record.Name))
	case slices.ContainsFunc(s.Nodes, startable):
		commands = append(commands, lifecycle.StartCommand(s.Record.Name))
	}
	return commands
}

// StateElsewhere is the state of a cluster that is in the backend of states alone: Attach brings it here.
const StateElsewhere = "elsewhere"

// Clusters lists the clusters of a clusters directory, damaged ones included, by what is on disk, and those that are in the backend of
// states besides.
func (e *Engine) Clusters(ctx context.Context, settings config.Settings) ([]Summary, error) {
	store, err := state.Open(settings.ClustersDir)
	if err != nil {
		return nil, Error{ExitConfig, err}
	}
	names, err := store.List()
	if err != nil {
		return nil, err
	}
	var shared []cluster.Name
	var unread error
	if settings.State.Remote() {
		if shared, unread = e.sharedNames(ctx, settings, store); unread == nil {
			names = slices.DeleteFunc(names, func(name cluster.Name) bool {
				return !slices.Contains(shared, name) && e.goneElsewhere(ctx, name, settings, store)
			})
		}
	}
	summaries := []Summary{}
	for _, name := range names {
		summaries = append(summaries, summary(store, name, settings))
	}
	for _, name := range shared {
		if !slices.Contains(names, name) {
			summaries = append(summaries, Summary{Name: name.String(), Cluster: name.String(), State: StateElsewhere})
		}
	}
	return summaries, unread
}

func summary(store *state.Store, name cluster.Name, settings config.Settings) Summary {
	out := Summary{Name: name.String(), Cluster: name.String()}
	holder, life := store.Holder(name)
	if life == state.Alive || life == state.Elsewhere {
		out.LockedBy = lockedBy(holder)
	}
	record, err := store.Load(name)
	if err != nil {
		out.State, out.Error = "damaged", err.Error()
		if _, newer := errors.AsType[*state.NewerError](err); newer {
			out.State = "newer"
		}
		if denied, ok := errors.AsType[*fs.PathError](err); ok && errors.Is(err, fs.ErrPermission) { // another user's
			out.State, out.Error = "unreadable", denied.Error()
		}
		return out
	}
	p, current := record.Current()
	out.Phase, out.State, out.Nodes, out.Created = string(p), string(current), len(record.Nodes), record.Owner.Created
	if out.Interrupted = interruptionOf(store, record, settings); out.Interrupted != nil {
		out.State = StateInterrupted
	}
	out.Owner, out.OwnerID = record.Owner.Who(), record.Owner.ID
	out.Expires, out.Held = Expiry(record.Owner), record.Owner.Held
	return out
}

// Summary is what is recorded of a cluster.
type Summary struct {
	Name     string     `json:"name"`
	Cluster  string     `json:"cluster"` // the name again, as other documents call it
	Phase    string     `json:"phase"`
	State    string     `json:"state"`
	Nodes    int        `json:"nodes"`
	Created  time.Time  `json:"created,omitzero"`
	Expires  *time.Time `json:"expires" jsonschema:"nullable"`
	Held     bool       `json:"held"`
	Owner    string     `json:"owner"`    // the user and the host that made the cluster
	OwnerID  string     `json:"owner_id"` // what its VMs say of whose they are
	LockedBy string     `json:"locked_by"`
	Error    string     `json:"error,omitempty"`

	Interrupted *Interruption `json:"interrupted,omitempty"`
}
