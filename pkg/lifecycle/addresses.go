package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/hive"
	"hive-test/pkg/progress"
	"hive-test/pkg/remote"
	"hive-test/pkg/wait"
)

// moved compares what is recorded of nodes with what Power tells of them, and returns those that DHCP has given another
// address. What is static, not told or not recorded yet is no move, nor is IPv6 alone where there was IPv4: while a
// node boots, that comes first.
func moved(nodes cluster.Nodes, powers []deploy.Power) []remote.Move {
	now := slices.Clone(nodes)
	for i := range min(len(now), len(powers)) {
		now[i].Management = present(now[i].Management, now[i].StaticManagement, powers[i].Management)
		now[i].Data = present(now[i].Data, now[i].StaticData, powers[i].Data)
	}
	return movesBetween(nodes, now)
}

func present(recorded netip.Addr, static netip.Prefix, told netip.Addr) netip.Addr {
	if static.IsValid() || !recorded.IsValid() || !told.IsValid() || recorded.Is4() && !told.Is4() {
		return recorded
	}
	return told
}

// movesBetween are the nodes, in the same order in both lists, that had addresses and have others now.
func movesBetween(before, now cluster.Nodes) []remote.Move {
	var moves []remote.Move
	for i := range min(len(before), len(now)) {
		from, to := before[i], now[i]
		known := from.Management.IsValid() && from.Data.IsValid()
		if known && (from.Management != to.Management || from.Data != to.Data) {
			moves = append(moves, remote.Move{From: from, To: to})
		}
	}
	return moves
}

// follow writes down where nodes are now: record, inventory and all that is made of it, and the host keys, which stay
// those that were pinned. A job that has not locked its cluster takes the lock for that, and reads the record again;
// where another run holds the cluster nothing is written. It says what moved, and whether that could not be written.
// Nothing else may use the job meanwhile.
func (r *Job) follow(ctx context.Context, moves []remote.Move) (written bool) {
	for _, m := range moves {
		r.sayMoved(m)
	}
	if err := r.writeMoves(ctx, moves); err != nil {
		r.Sink.Emit(progress.Event{
			Kind: progress.Warning, Message: "the new addresses are not written down: " + err.Error(),
			Hint: fmt.Sprintf("hive-test status %s tries again", r.Record.Name),
		})
		return false
	}
	return true
}

func (r *Job) sayMoved(m remote.Move) {
	var changes []string
	for _, c := range []struct {
		nic      string
		from, to netip.Addr
	}{{"management", m.From.Management, m.To.Management}, {"data", m.From.Data, m.To.Data}} {
		if c.from != c.to {
			changes = append(changes, fmt.Sprintf("%s %s -> %s", c.nic, c.from, c.to))
		}
	}
	event := progress.Event{
		Kind: progress.Warning, Node: m.To.Name,
		Message: fmt.Sprintf("DHCP has moved %s: %s", m.To.Name, strings.Join(changes, ", ")),
	}
	if formed := r.Record.Phases[cluster.PhaseConfigure].Status == cluster.PhaseDone || r.Record.AWS != nil; formed {
		event.Hint = fmt.Sprintf(
			"hive was formed with the old addresses: hive-test configure %s --force forms it anew", r.Record.Name,
		)
	}
	r.Sink.Emit(event)
}

func (r *Job) writeMoves(ctx context.Context, moves []remote.Move) error {
	if r.Hold != nil {
		release, err := r.Hold()
		if err != nil {
			return err
		}
		defer release()
		if err := r.reload(); err != nil {
			return err
		}
	}
	nodes := slices.Clone(r.Record.Nodes)
	for _, m := range moves {
		if i := slices.IndexFunc(nodes, func(n cluster.Node) bool { return n.Name == m.To.Name }); i >= 0 {
			nodes[i].Management, nodes[i].Data = m.To.Management, m.To.Data
		}
	}
	if shared := nodes.Shared(); len(shared) > 0 {
		return fmt.Errorf("%s and %s both report address %s", shared[0].First, shared[0].Second, shared[0].Address)
	}
	return r.moveTo(ctx, nodes)
}

// reload reads the record again: before the lock was taken another run may have changed it.
func (r *Job) reload() error {
	fresh, err := r.Store.Load(r.Record.Name)
	if err != nil {
		return err
	}
	same := fresh.Owner.ID == r.Record.Owner.ID && slices.Equal(identities(fresh.Nodes), identities(r.Record.Nodes))
	if !same {
		return errors.New("another run has changed the cluster meanwhile")
	}
	*r.Record = *fresh
	return nil
}

// moveTo makes nodes the record's. The host keys come first: a run that ends in between leaves no address whose first
// contact would be trusted.
func (r *Job) moveTo(ctx context.Context, nodes cluster.Nodes) error {
	if err := r.keepHostKeys(nodes); err != nil {
		return err
	}
	if err := r.change(ctx, func() { r.Record.Nodes = nodes }); err != nil {
		return err
	}
	return r.writeInventory()
}

// keepHostKeys lets what is pinned for the record's nodes hold where they are now.
func (r *Job) keepHostKeys(now cluster.Nodes) error {
	moves := movesBetween(r.Record.Nodes, now)
	if len(moves) == 0 {
		return nil
	}
	return remote.MoveHostKeys(r.Store.Path(r.Record.Name, knownHostsFile), moves)
}

// Reach connects to those nodes of the record whose numbers are given, all where there are none, and returns them and,
// in the same order, why each could not be reached. Where one cannot be reached at its recorded address, its hypervisor
// is asked for the address that it has now, for some seconds again, since a guest may tell an old lease until it has a
// new one. What DHCP has moved is written down and reached there. One whose hypervisor says that its machine is dead,
// or elsewhere, is not waited for.
func Reach(ctx context.Context, r *Job, indexes ...int) (remote.Group, []error, error) {
	begun := time.Now()
	group, err := r.chosen(indexes)
	if err != nil {
		return nil, nil, err
	}
	failures := make([]error, len(group))
	watched := r.watchMoves(ctx, reachPatience)
	connect(ctx, group, failures, watched, func(int) bool { return true })
	watched.Stop()
	if !watched.missed(group, failures) {
		return group, failures, nil
	}
	moves := r.movesSoon(ctx, group, failures, begun.Add(moveTime))
	if len(moves) == 0 || !r.follow(ctx, moves) {
		return group, failures, nil
	}
	now, err := r.chosen(indexes)
	if err != nil {
		return nil, nil, err
	}
	watched = r.watchMachines(ctx, reachPatience)
	defer watched.Stop()
	// what has not moved was waited for already
	connect(ctx, now, failures, watched, func(i int) bool { return now[i] != group[i] })
	return now, failures, nil
}

// where finds a node for a wait that dials it: asked of the hypervisor, and where DHCP has moved it, written down. It
// is nil where the node is where it was.
func (r *Job) where(ctx context.Context, host hive.Host) hive.Host {
	r.moving.Lock()
	defer r.moving.Unlock()
	at := slices.IndexFunc(r.Record.Nodes, func(n cluster.Node) bool { return n.Name == host.Name() })
	if at < 0 {
		return nil
	}
	one := *r.Record
	one.Nodes = cluster.Nodes{r.Record.Nodes[at]}
	ctx, cancel := context.WithTimeout(ctx, statusTime)
	defer cancel()
	moves := moved(one.Nodes, r.Deploy.Power(ctx, &one))
	if len(moves) == 0 || !r.follow(ctx, moves) {
		return nil
	}
	group, err := r.group()
	if err != nil {
		return nil
	}
	return group[at]
}

// Follow asks once where the nodes are, and writes down what DHCP has moved. What is not told within limit stays as it
// is.
func Follow(ctx context.Context, r *Job, limit time.Duration) {
	if !addressed(r.Record.Nodes) || r.Deploy.Deployer == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if moves := moved(r.Record.Nodes, r.Deploy.Power(ctx, r.Record)); len(moves) > 0 {
		r.follow(ctx, moves)
	}
}

// reachPatience is how long nodes are connected to before their hypervisors are asked, too.
const reachPatience = time.Second

// moveTime is how long, from the first try on, nodes that take no connection are looked for elsewhere.
const moveTime = 5 * time.Second

// movesSoon asks where the nodes are, and until then asks again where one that lives takes no connection, or another
// host answers in its place.
func (r *Job) movesSoon(ctx context.Context, group remote.Group, failures []error, until time.Time) []remote.Move {
	for range (wait.Backoff{First: moveTime / 10}).Tries(ctx) {
		asking, cancel := context.WithTimeout(ctx, statusTime)
		powers := r.Deploy.Power(asking, r.Record)
		cancel()
		moves := moved(r.Record.Nodes, powers)
		r.blame(group, failures, powers)
		if len(moves) > 0 || !time.Now().Before(until) || !r.mayMove(group, failures, powers) {
			return moves
		}
	}
	return nil
}

// blame adds to the failures of nodes whose machines are dead that they are.
func (r *Job) blame(group remote.Group, failures []error, powers []deploy.Power) {
	for i, host := range group {
		at := slices.IndexFunc(r.Record.Nodes, func(n cluster.Node) bool { return n.Name == host.Name() })
		_, told := errors.AsType[deploy.DeadError](failures[i])
		if told || failures[i] == nil || at < 0 || at >= len(powers) {
			continue
		}
		if dead := powers[at].Lost(); dead != nil {
			failures[i] = fmt.Errorf("%w; %w", failures[i], dead)
		}
	}
}

// mayMove reports whether a node that could not be connected to may be elsewhere, though nobody says so yet.
func (r *Job) mayMove(group remote.Group, failures []error, powers []deploy.Power) bool {
	for i, host := range group {
		_, another := errors.AsType[*remote.HostKeyError](failures[i])
		at := slices.IndexFunc(r.Record.Nodes, func(n cluster.Node) bool { return n.Name == host.Name() })
		if at >= 0 && at < len(powers) && powers[at].Management.IsValid() &&
			(another || remote.NoConnection(failures[i])) {
			return true
		}
	}
	return false
}

// missed tells whether a node could not be reached though nothing is known of its death.
func (w *machineWatch) missed(group remote.Group, failures []error) bool {
	for i, host := range group {
		if dead := w.Unreachable(host.Name()); failures[i] != nil && (dead == nil || errors.Is(dead, errMoved)) {
			return true
		}
	}
	return false
}

// chosen are the hosts of those nodes, all where none are given.
func (r *Job) chosen(indexes []int) (remote.Group, error) {
	all, err := r.group()
	if err != nil || len(indexes) == 0 {
		return all, err
	}
	var group remote.Group
	for _, index := range indexes {
		group = append(group, all[slices.IndexFunc(all, func(h *remote.Host) bool { return h.Node().Index == index })])
	}
	return group, nil
}

// connect connects to those hosts of a group that are wanted, and puts into failures why one cannot be.
func connect(
	ctx context.Context, group remote.Group, failures []error, watched *machineWatch, wanted func(i int) bool,
) {
	var wait sync.WaitGroup
	for i, host := range group {
		if !wanted(i) {
			continue
		}
		wait.Go(func() {
			ctx, end := watched.Within(ctx, host.Name())
			defer end()
			failures[i] = host.Connect(ctx)
		})
	}
	wait.Wait()
}

// locate finds, once in a run, the nodes that DHCP has moved. A node that cannot be reached at all is left to what
// needs it.
func (r *Job) locate(ctx context.Context) error {
	if r.located || !addressed(r.Record.Nodes) {
		return nil
	}
	r.located = true
	group, failures, err := Reach(ctx, r)
	r.unreached = map[string]error{}
	for i, failure := range failures {
		if failure != nil {
			r.unreached[group[i].Name()] = failure
		}
	}
	return err
}
