package deploy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/progress"
)

// Orphan is a VM on Proxmox VE that says that it is of hive-test, and whose.
type Orphan struct {
	VMRef
	Cluster cluster.Name
	Owner   string    // its id
	Expires time.Time // zero: never
	Created time.Time // of the cluster; zero: not known
	Held    bool
}

// RunStatus is what is known of a run of a cluster: of the one at work, or of the last one if that died.
type RunStatus struct {
	Cluster cluster.Name
	Owner   string
	// What is the run, for people: "full of cluster ci-1 by me@host".
	What string
	// Until is when it counts as dead unless it says again that it runs.
	Until time.Time
	// Dead says that its process is known to have ended, whatever Until is.
	Dead bool
	// Destroys says that it meant to destroy the cluster, Making that the cluster was never up.
	Destroys, Provisioning bool
}

// Alive tells whether the run may be at work.
func (l RunStatus) Alive(now time.Time) bool {
	return !l.Dead && (l.Until.IsZero() || now.Before(l.Until))
}

// Unfinished tells whether the run, if it is dead, has left what it did not want to leave.
func (l RunStatus) Unfinished() bool { return l.Destroys || l.Provisioning }

// ReapRule says which clusters reap looks at, and what it deletes of them beside what is expired or orphaned.
type ReapRule struct {
	// Name is the one cluster to look at, Prefix begins the names of those; empty: all.
	Name   cluster.Name
	Prefix string
	// OlderThan deletes also what was made longer ago; 0: nothing for its age.
	OlderThan time.Duration
	// Now is the time by the clock that expiries and leases of runs are compared with.
	Now time.Time
}

// Covers tells whether reap looks at a cluster. Names of VMs are never looked at: ci-1 is not ci-10.
func (r ReapRule) Covers(name cluster.Name) bool {
	return (r.Name == "" || r.Name == name) && strings.HasPrefix(string(name), r.Prefix)
}

// ReapAction is what reap does, or has done, to a VM.
type ReapAction string

// The actions. Delete becomes Deleted or Failed.
const (
	ReapDelete  ReapAction = "delete"
	ReapSkip    ReapAction = "skip"
	ReapKeep    ReapAction = "keep"
	ReapDeleted ReapAction = "deleted"
	ReapFailed  ReapAction = "failed"
)

// Orphaned is the reason for what a run that died should have destroyed, or never finished.
const Orphaned = "orphaned"

// Decision is what reap does to one VM, and why: Reason is one word, Detail tells people.
type Decision struct {
	Orphan
	Action         ReapAction
	Reason, Detail string
	// Here says that the directory of its cluster is in this machine's clusters directory: down needs no more. Namesake
	// says that one of another cluster is, of the same name.
	Here, Namesake bool
}

// Stranded reports whether neither reap nor a directory that is here will ever end the VM.
func (d Decision) Stranded() bool {
	return !d.Here && (d.Action == ReapKeep && d.Expires.IsZero() || d.Action == ReapSkip && (d.Held || d.Guarded))
}

// Evaluate decides on every VM that the rule covers. VMs of one owner share one fate: what one of them says holds for
// all, and the latest of their expiries counts.
func Evaluate(orphans []Orphan, runs []RunStatus, rule ReapRule) []Decision {
	var decisions []Decision
	for _, s := range orphans {
		if !rule.Covers(s.Cluster) {
			continue
		}
		var siblings []Orphan
		for _, other := range orphans {
			if other.Owner == s.Owner && other.Cluster == s.Cluster {
				siblings = append(siblings, other)
			}
		}
		v := Decision{Orphan: s}
		v.Action, v.Reason, v.Detail = decideAll(siblings, runs, rule)
		decisions = append(decisions, v)
	}
	slices.SortStableFunc(decisions, func(a, b Decision) int {
		return cmp.Or(
			strings.Compare(string(a.Cluster), string(b.Cluster)), strings.Compare(a.Owner, b.Owner), a.VMID-b.VMID,
		)
	})
	return decisions
}

// decideAll decides on all VMs of one owner.
func decideAll(siblings []Orphan, runs []RunStatus, rule ReapRule) (action ReapAction, reason, detail string) {
	if slices.ContainsFunc(siblings, func(s Orphan) bool { return s.Held }) {
		return ReapSkip, "held", "tagged " + cluster.HoldTag
	}
	if slices.ContainsFunc(siblings, func(s Orphan) bool { return s.Guarded }) {
		return ReapSkip, "protected", "tagged " + cluster.ProtectTag
	}
	if i := slices.IndexFunc(siblings, func(s Orphan) bool { return s.Protected }); i >= 0 {
		return ReapSkip, "protected", fmt.Sprintf("VM %d has its protection on", siblings[i].VMID)
	}
	var dead *RunStatus
	for _, l := range runs {
		if l.Owner != siblings[0].Owner {
			continue
		}
		if l.Alive(rule.Now) {
			return ReapSkip, "live", l.What + " is at work" + lastSeen(l)
		}
		if l.Unfinished() {
			dead = &l
		}
	}
	expires := expiry(siblings)
	age := rule.Now.Sub(siblings[0].Created)
	switch {
	case !expires.IsZero() && !rule.Now.Before(expires):
		return ReapDelete, "expired",
			fmt.Sprintf(
				"%s ago, at %s", progress.FormatLimit(rule.Now.Sub(expires).Truncate(time.Second)),
				expires.UTC().Format(time.RFC3339),
			)
	case dead != nil:
		return ReapDelete, Orphaned, orphaned(*dead)
	case rule.OlderThan > 0 && !siblings[0].Created.IsZero() && age > rule.OlderThan:
		return ReapDelete, "old", "made " + progress.FormatLimit(age.Truncate(time.Second)) + " ago"
	case !expires.IsZero():
		return ReapKeep, "kept", "expires " + expires.UTC().Format(time.RFC3339)
	}
	return ReapKeep, "kept", "no expiry, and no run of it died"
}

func lastSeen(l RunStatus) string {
	if l.Until.IsZero() {
		return ""
	}
	return ", as far as is known until " + l.Until.UTC().Format(time.RFC3339)
}

func orphaned(l RunStatus) string {
	switch {
	case l.Provisioning:
		return "died before it was up: " + l.What
	default:
		return "died before its end: " + l.What
	}
}

// expiry is the latest of those of VMs of one owner; zero if one of them has none.
func expiry(siblings []Orphan) time.Time {
	latest := siblings[0].Expires
	for _, s := range siblings {
		if s.Expires.IsZero() {
			return s.Expires
		}
		if s.Expires.After(latest) {
			latest = s.Expires
		}
	}
	return latest
}

// Ended are the runs of clusters that the rule covers which died unfinished and of which no VM is seen: their VMs may
// still be in the making.
func Ended(orphans []Orphan, runs []RunStatus, rule ReapRule) []RunStatus {
	return slices.DeleteFunc(slices.Clone(runs), func(l RunStatus) bool {
		return !l.Unfinished() || !rule.Covers(l.Cluster) ||
			slices.ContainsFunc(runs, func(o RunStatus) bool { return o.Owner == l.Owner && o.Alive(rule.Now) }) ||
			slices.ContainsFunc(orphans, func(s Orphan) bool { return s.Owner == l.Owner })
	})
}

// Reaper is where orphans are found and what runs have left is taken away.
type Reaper interface {
	// Alive is a *LiveError if a run is at work on the cluster now.
	Alive(ctx context.Context, r *cluster.Record) error
	// Hold lets others see that the cluster is being reaped, until release is called with how that ended. What a reap
	// that dies or fails leaves is found by the next one, VMs or none.
	Hold(ctx context.Context, r *cluster.Record, sink progress.Sink) (release func(err error))
	// Gone are VMs of the cluster that an earlier reap has deleted, and maybe not swept up after.
	Gone(r *cluster.Record) []VMRef
	// Settle waits until no VM is in the making any more on the ids that the cluster has claimed, and marks those that
	// turn out to be its as such. With patience it waits also for those that may still appear.
	Settle(ctx context.Context, r *cluster.Record, patience bool, sink progress.Sink) error
	// Clear takes away what else the cluster's runs have left: snippets of VMs that were never made, and, last, the
	// mark of a run.
	Clear(ctx context.Context, r *cluster.Record) error
}

// LiveError says that a cluster that was to be reaped is at work again.
type LiveError struct{ What string }

// Error names the run.
func (e *LiveError) Error() string { return e.What + " has begun meanwhile: it stays" }

// ReapPlan is what was found of all clusters, and what is to become of it.
type ReapPlan struct {
	Decisions []Decision
	Traces    []Trace
	// Unread is the number of VMs that may be of these clusters and could not be read: what is told of them stays.
	Unread int
	// Errs are why clusters could not be reaped, by owner id.
	Errs map[string]error

	Ended []RunStatus // runs that died unfinished and of which no VM is seen
}

// Trace is a lease of a run or of VM ids, or a snippet, of a run that died, of a cluster that has no VM to delete.
type Trace struct {
	Pool    string
	Cluster cluster.Name
	Owner   string
	Detail  string
	Action  ReapAction
	Err     error // why it is still there

	// Drop takes the trace away.
	Drop func(ctx context.Context) error
}

// Something tells whether there is anything to delete.
func (plan *ReapPlan) Something() bool {
	return len(plan.Traces) > 0 || slices.ContainsFunc(
		plan.Decisions, func(v Decision) bool { return v.Action == ReapDelete },
	)
}

// Targets are the clusters to destroy, as records that name owner and VMs, and whether a run of each died unfinished.
func (plan *ReapPlan) Targets(pool string) (records []*cluster.Record, unfinished []bool) {
	at := func(name cluster.Name, owner string) int {
		i := slices.IndexFunc(records, func(r *cluster.Record) bool { return r.Owner.ID == owner && r.Name == name })
		if i < 0 {
			records = append(records, &cluster.Record{
				Name: name, Owner: cluster.Owner{ID: owner}, Target: cluster.Target{
					Place: placement.Target{Pool: pool}.Document(),
				},
			})
			unfinished = append(unfinished, false)
			i = len(records) - 1
		}
		return i
	}
	for _, v := range plan.Decisions {
		if v.Action == ReapDelete {
			i := at(v.Cluster, v.Owner)
			records[i].Nodes = append(records[i].Nodes, cluster.Node{
				Name: v.Name, Placement: placement.VM{VMID: v.VMID, Hypervisor: v.Hypervisor}.Document(),
			})
			unfinished[i] = unfinished[i] || v.Reason == Orphaned
		}
	}
	for _, l := range plan.Ended {
		unfinished[at(l.Cluster, l.Owner)] = true
	}
	return records, unfinished
}

// Note puts down what became of a cluster's VMs, those included that appeared while others were deleted.
func (plan *ReapPlan) Note(r *cluster.Record, met []VMRef, err error) {
	plan.Errs[r.Owner.ID] = err // of one that is at work, too: what it has left is still needed
	for _, vm := range met {
		if !slices.ContainsFunc(plan.Decisions, func(v Decision) bool { return v.VMID == vm.VMID }) {
			plan.Decisions = append(plan.Decisions, Decision{
				Orphan: Orphan{VMRef: vm, Cluster: r.Name, Owner: r.Owner.ID}, Action: ReapDelete,
				Reason: Orphaned, Detail: "appeared meanwhile",
			})
		}
	}
	left := map[int]bool{}
	leak, isLeak := errors.AsType[*LeakError](err)
	if isLeak && leak.Known {
		for _, vm := range leak.VMs {
			left[vm.VMID] = true
		}
	}
	for i := range plan.Decisions {
		v := &plan.Decisions[i]
		if v.Owner != r.Owner.ID || v.Cluster != r.Name || v.Action != ReapDelete {
			continue
		}
		if live, ok := errors.AsType[*LiveError](err); ok {
			v.Action, v.Reason, v.Detail = ReapSkip, "live", live.What+" has begun meanwhile"
			continue
		}
		v.Action = ReapDeleted
		if err != nil && (!isLeak || !leak.Known || left[v.VMID]) {
			v.Action = ReapFailed
		}
	}
}

// DropTraces takes away leases of runs and of ids that died, but for those of clusters that could not be reaped: what
// they tell is still needed.
func (plan *ReapPlan) DropTraces(ctx context.Context) error {
	var failures []error
	for i := range plan.Traces {
		t := &plan.Traces[i]
		if t.Err = plan.Errs[t.Owner]; t.Err == nil {
			t.Err = t.Drop(ctx)
			failures = append(failures, t.Err)
		}
		t.Action = ReapDeleted
		if t.Err != nil {
			t.Action = ReapFailed
		}
	}
	return errors.Join(failures...)
}
