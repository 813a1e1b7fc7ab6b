package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/hive"
	"hive-test/pkg/phase"
	"hive-test/pkg/progress"
	"hive-test/pkg/remote"
)

// GatherTime is how long all nodes together are gathered from at most: one that hangs must not keep VMs alive.
const GatherTime = 45 * time.Second

// interruptedTime stands for GatherTime where somebody waits for the run to stop.
const interruptedTime = 5 * time.Second

// IndexFile is the name of the list of what was gathered, below a run's directory.
const IndexFile = "index.json"

// indexSchema is the number of the index's shape: fields may be added within it, never renamed.
const indexSchema = 1

// Item is one thing that was to be gathered. File is below the run's directory; Why says why it was not got, or not
// whole.
type Item struct {
	Node  string `json:"node,omitempty"`
	What  string `json:"what"`
	File  string `json:"file,omitempty"`
	Bytes int64  `json:"bytes"`
	Got   bool   `json:"got"`
	Why   string `json:"why,omitempty"`
}

// Index is what index.json holds: what was gathered of each node and of the run, and what was not.
type Index struct {
	Schema  int          `json:"schema"`
	Cluster cluster.Name `json:"cluster"`
	Items   []Item       `json:"items"`
}

// collectOnFailure gathers what nodes can tell when a phase has failed, before anything else happens to them.
type collectOnFailure struct {
	phase.Phase
	run *Job
	// outside leaves the nodes themselves alone: they are being destroyed.
	outside bool
}

// Run runs the phase; its error is never replaced by a failure to gather.
func (w collectOnFailure) Run(ctx context.Context) error {
	err := w.Phase.Run(ctx)
	if err == nil || errors.Is(err, phase.ErrStuck) || errors.Is(err, hive.ErrNoProgram) { // no node knows more
		return err
	}
	limit := GatherTime
	if w.run.Interrupted != nil && w.run.Interrupted() {
		if w.outside { // nobody waits for what a hypervisor says of VMs that are to go
			return err
		}
		limit = interruptedTime
	}
	var nodes cluster.Nodes
	if phase.InTurn(ctx, func() error { nodes = w.run.Record.Nodes; return nil }) != nil { // nobody waits any more
		return err
	}
	gather, cancel := w.run.detached(ctx, limit)
	defer cancel()
	w.run.Gather(gather, cluster.Phase(w.Name()), nodes, !w.outside)
	return err
}

// Skip passes on the phase's own wish to be skipped.
func (w collectOnFailure) Skip(ctx context.Context) (string, bool, error) { return skip(ctx, w.Phase) }

// detached is a context that outlives what failed, for limit, but not the user's second wish to stop.
func (r *Job) detached(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	gather, cancel := phase.After(ctx, limit, fmt.Errorf("it took more than %s", limit))
	if r.Abort == nil {
		return gather, cancel
	}
	stop := context.AfterFunc(r.Abort, cancel)
	return gather, func() { stop(); cancel() }
}

// Gather writes what every one of these nodes can tell into the run's directory, in parallel, best effort, and lists it
// in index.json: over SSH where inside is true, and of the VM what its hypervisor says, from within it too where SSH
// does not reach. A VM that its hypervisor says is dead is not waited for.
func (r *Job) Gather(ctx context.Context, p cluster.Phase, nodes cluster.Nodes, inside bool) {
	sink := r.sink(p)
	hosts, handle := map[string]*remote.Host{}, (*hive.Cluster)(nil)
	var unreachable error
	watched := &machineWatch{}
	follows := inside && (r.Interrupted == nil || !r.Interrupted())
	if follows {
		Follow(ctx, r, FollowTime) // what has moved tells its part where it is
	}
	var record *cluster.Record // as it is now: the run goes on where gathering takes too long
	if phase.InTurn(ctx, func() error {
		record = r.Record.Clone()
		if follows {
			nodes = placed(record.Nodes, nodes)
		}
		if inside {
			watched = r.watchMachines(ctx, 0)
			hosts, handle, unreachable = r.hosts(sink, watched)
		}
		return nil
	}) != nil {
		return // it has gone on already
	}
	defer watched.Stop()
	items := make([][]Item, len(nodes)+1)
	var all sync.WaitGroup
	for i, node := range nodes {
		all.Go(func() {
			g := gatherer{
				Job: r, record: record, node: node, host: hosts[node.Name], handle: handle, why: unreachable, inside: inside,
				watched: watched,
			}
			items[i] = g.gather(ctx)
		})
	}
	all.Go(func() { items[len(nodes)] = r.keepPlan(ctx) })
	all.Wait()
	for _, list := range items {
		r.remember(list)
	}
	if err := r.WriteIndex(); err != nil {
		progress.Warnf(sink, "the evidence has no index: %v", err)
	}
	r.summarize(sink, nodes)
}

// FollowTime is how long it may take to find out where nodes are before something goes on without.
const FollowTime = 5 * time.Second

// placed are nodes as they are listed in all, where they are.
func placed(all, nodes cluster.Nodes) cluster.Nodes {
	now := slices.Clone(nodes)
	for i, node := range nodes {
		if at := slices.IndexFunc(all, func(n cluster.Node) bool { return n.Name == node.Name }); at >= 0 {
			now[i] = all[at]
		}
	}
	return now
}

// hosts are the connections to the nodes by name.
func (r *Job) hosts(sink progress.Sink, watched *machineWatch) (map[string]*remote.Host, *hive.Cluster, error) {
	hosts := map[string]*remote.Host{}
	group, err := r.group()
	if err != nil {
		return hosts, nil, err
	}
	handle, err := r.hiveWithin(sink, watched.Monitor)
	for _, host := range group {
		hosts[host.Name()] = host
	}
	return hosts, handle, err
}

// gatherer asks one node and its hypervisor.
type gatherer struct {
	*Job
	record *cluster.Record
	node   cluster.Node
	host   *remote.Host
	handle *hive.Cluster
	why    error // why there is no host or handle
	inside bool

	watched *machineWatch // over all nodes, where inside is true
}

func (g gatherer) gather(ctx context.Context) []Item {
	var own, outside []Item
	var both sync.WaitGroup
	if g.inside {
		both.Go(func() { own = g.within(ctx) })
	}
	if g.Deploy.Diagnose != nil {
		both.Go(func() { outside = g.keep(g.Deploy.Diagnose.Describe(ctx, g.record, g.node)) })
	}
	both.Wait()
	return append(own, outside...)
}

// within gathers from the node over SSH, and what that does not reach through its guest agent.
func (g gatherer) within(ctx context.Context) []Item {
	patience := connectTime
	if deadline, ok := ctx.Deadline(); ok {
		patience = min(patience, time.Until(deadline)/2)
	}
	limited, cancel := context.WithTimeoutCause(
		ctx, patience, fmt.Errorf("no answer within %s", patience.Round(time.Millisecond)),
	)
	defer cancel()
	var items []Item
	err := g.noWay()
	if err == nil {
		if err = g.host.Connect(limited); err == nil {
			items, err = g.overSSH(ctx)
		}
		if dead := g.watched.Unreachable(g.node.Name); err != nil && dead != nil {
			err = dead
		}
	}
	if err != nil {
		items = append(items, Item{Node: g.node.Name, What: "ssh", Why: err.Error()})
		if g.Deploy.Diagnose != nil {
			items = append(items, g.keep(g.Deploy.Diagnose.DescribeGuest(ctx, g.record, g.node))...)
		}
	}
	return items
}

// connectTime is how long a node may take to answer over SSH before its guest agent is asked. Where there is little
// time for all of it, it is half of that.
const connectTime = 5 * time.Second

// noWay is why SSH is not even tried.
func (g gatherer) noWay() error {
	switch {
	case g.why != nil:
		return g.why
	case !g.node.Management.IsValid():
		return errors.New("its address is not known")
	case g.host == nil:
		return errors.New("it cannot be reached over SSH")
	}
	return nil
}

// overSSH gathers from the node itself.
func (g gatherer) overSSH(ctx context.Context) ([]Item, error) {
	collected, err := g.handle.Collect(ctx, g.host, g.Evidence.Path("nodes", g.node.Name))
	items := make([]Item, 0, len(collected))
	for _, c := range collected {
		item := Item{Node: g.node.Name, What: c.What, Got: c.File != "" && c.Why == "", Why: c.Why}
		if c.File != "" {
			item.File = filepath.ToSlash(filepath.Join("nodes", g.node.Name, c.File))
		}
		items = append(items, item)
	}
	return items, err
}

// keep writes what a hypervisor told of the node.
func (g gatherer) keep(told []deploy.Diagnostic) []Item {
	var items []Item
	for _, t := range told {
		item := Item{Node: g.node.Name, What: "pve/" + t.What}
		if t.Err != nil {
			item.Why = t.Err.Error()
		}
		if t.Text != "" {
			name := filepath.Join("nodes", g.node.Name, "pve", t.What)
			if filepath.Ext(name) == "" {
				name += ".txt"
			}
			if err := g.keepFile(name, t.Text); err != nil {
				item.Why = err.Error()
			} else {
				item.File, item.Got = filepath.ToSlash(name), t.Err == nil
			}
		}
		items = append(items, item)
	}
	return items
}

// keepFile writes a file below the run's directory, without secrets.
func (r *Job) keepFile(name, text string) error {
	path := r.Evidence.Path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("making an evidence directory: %w", err)
	}
	if err := os.WriteFile(path, []byte(r.Secrets.Mask(text)), 0o600); err != nil {
		return fmt.Errorf("writing evidence: %w", err)
	}
	return nil
}

// planFile is the name of the last plan as text.
const planFile = "plan.txt"

// keepPlan writes the cluster's last plan as text.
func (r *Job) keepPlan(ctx context.Context) []Item {
	item := Item{What: "plan"}
	var text string
	var err error
	if r.Deploy.Plans != nil {
		text, err = r.Deploy.Plans.PlanText(ctx, deploy.Request{
			Dir: r.Store.Path(r.Record.Name, ""), Name: r.Record.Name,
		})
	}
	if err == nil && text != "" {
		err = r.keepFile(planFile, text)
		item.File, item.Got = planFile, err == nil
	}
	switch {
	case err != nil:
		item.Why = err.Error()
	case !item.Got:
		item.Why = "nothing was planned"
	}
	return []Item{item}
}

// remember adds items to those of this run. What was got earlier, before it was destroyed, is not given up for a
// failure to get it again.
func (r *Job) remember(items []Item) {
	r.shared.Lock()
	defer r.shared.Unlock()
	for _, item := range items {
		at := slices.IndexFunc(r.gathered, func(o Item) bool { return o.Node == item.Node && o.What == item.What })
		switch {
		case at < 0:
			r.gathered = append(r.gathered, item)
		case item.Got || !r.gathered[at].Got:
			r.gathered[at] = item
		}
	}
}

// Gathered are the items of this run's nodes so far.
func (r *Job) Gathered() []Item {
	r.shared.Lock()
	defer r.shared.Unlock()
	return slices.Clone(r.gathered)
}

// WriteIndex writes index.json as it is now. It does nothing for a run that gathered nothing.
func (r *Job) WriteIndex() error {
	if len(r.Gathered()) == 0 {
		return nil
	}
	index, err := r.Index()
	if err != nil {
		return err
	}
	raw, err := json.MarshalIndent(index, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the index: %w", err)
	}
	return r.keepFile(IndexFile, string(raw)+"\n")
}

// Index lists what was gathered, and what else is in the run's directory now.
func (r *Job) Index() (Index, error) {
	index := Index{Schema: indexSchema, Cluster: r.Record.Name, Items: r.Gathered()}
	listed := map[string]bool{IndexFile: true}
	for i := range index.Items {
		item := &index.Items[i]
		item.Why = r.Secrets.Mask(item.Why)
		listed[item.File] = true
		if info, err := os.Stat(r.Evidence.Path(filepath.FromSlash(item.File))); err == nil && item.File != "" {
			item.Bytes = info.Size()
		}
	}
	files, err := r.runFiles(listed)
	index.Items = append(index.Items, files...)
	return index, err
}

// runFiles are the files of the run itself: its events, tofu's log, reports, what suites left. Those that each run has
// are named where they are missing, too.
func (r *Job) runFiles(listed map[string]bool) ([]Item, error) {
	root := r.Evidence.Path()
	var items []Item
	found := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		found[name] = true
		if listed[name] || strings.HasPrefix(name, "nodes/") {
			return nil
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		items = append(items, Item{What: "run", File: name, Bytes: info.Size(), Got: true})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing the run's directory: %w", err)
	}
	for name, why := range map[string]string{
		"events.jsonl": "this is no run of a verb with phases", "tofu.log": "tofu did not run",
	} {
		if !found[name] {
			items = append(items, Item{What: "run", File: "", Why: name + ": " + why})
		}
	}
	slices.SortStableFunc(items, func(a, b Item) int { return strings.Compare(a.File+a.Why, b.File+b.Why) })
	return items, nil
}

// summarize says in one line where the evidence is, and which nodes told nothing.
func (r *Job) summarize(sink progress.Sink, nodes cluster.Nodes) {
	got := 0
	silent := r.Silent(nodes)
	for _, item := range r.Gathered() {
		if item.Got && item.Node != "" {
			got++
		}
	}
	if len(silent) > 0 {
		progress.Warnf(
			sink, "nothing could be gathered of %s: %s says why", strings.Join(silent, ", "),
			r.Evidence.Path(IndexFile),
		)
	}
	if got > 0 {
		sink.Emit(progress.Event{
			Kind: progress.Info, Evidence: []string{"nodes/", IndexFile}, Message: fmt.Sprintf(
				"evidence of %s is in %s", progress.Count(len(nodes)-len(silent), "node"), r.Evidence.Path("nodes"),
			),
		})
	}
}

// Silent are the names of the nodes of which nothing was got.
func (r *Job) Silent(nodes cluster.Nodes) []string {
	var names []string
	gathered := r.Gathered()
	for _, node := range nodes {
		if !slices.ContainsFunc(gathered, func(i Item) bool { return i.Got && i.Node == node.Name }) {
			names = append(names, node.Name)
		}
	}
	return names
}
