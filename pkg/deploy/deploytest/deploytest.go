// Package deploytest is what every deployer must do, as a test: it is run on each of them.
package deploytest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/progress"
)

// Run makes the machines of a record whose nodes were chosen, asks all that the deployer can tell of them, removes one,
// then all, and proves that they are gone. What the deployer cannot do is not asked. The record needs two nodes or
// more; r asks for all of them.
func Run(t *testing.T, d deploy.Capable, record *cluster.Record, r deploy.Request) {
	ctx, names := t.Context(), record.Nodes.Names()
	record.Begin(cluster.PhaseUp, "", time.Now())
	if d.Preflight != nil {
		findings, err := d.Preflight.Preflight(ctx, record, false)
		if err != nil || len(deploy.Failed(findings)) > 0 {
			t.Fatalf("preflight: %v, %v", findings, err)
		}
	}
	if d.Makes() {
		wantPower(t, d, record, "missing", names)
	}
	if d.Lease != nil {
		check(t, "acquire the ids", d.Lease.Acquire(ctx, record, nil, progress.Discard))
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := d.Up(cancelled, r); d.Makes() && err == nil {
		t.Error("an up that was cancelled before it began returned no error")
	}

	made := names
	if !d.Makes() {
		made = nil
	}
	plan, err := d.Plan(ctx, r)
	if got := plan.Nodes(deploy.Create); err != nil || !slices.Equal(got, made) {
		t.Errorf("the plan creates %v, want %v (%v)", got, made, err)
	}
	refusal := errors.New("refused by the caller")
	guarded := r
	guarded.Check = func(context.Context, deploy.Plan) error { return refusal }
	if _, err := d.Up(ctx, guarded); d.Makes() && !errors.Is(err, refusal) {
		t.Errorf("an up whose check fails returned %v", err)
	}
	result, err := d.Up(ctx, r)
	if err != nil || !slices.Equal(result.Created, made) || result.Changed != d.Makes() {
		t.Fatalf("up created %v, want %v (%v)", result.Created, made, err)
	}
	nothingToDo(t, d, r)
	if d.Owner != nil {
		check(t, "verify", d.Owner.Verify(ctx, record))
	}
	if d.Lease != nil {
		d.Lease.Release(ctx, record, progress.Discard)
	}
	t.Run("told", func(t *testing.T) { told(t, d, record) })
	t.Run("owned", func(t *testing.T) { owned(t, d, record) })
	t.Run("inspected", func(t *testing.T) { inspected(t, d, record, r) })
	if d.Snapshots != nil {
		t.Run("snapshots", func(t *testing.T) { snapshots(t, d, record) })
	}
	if d.Makes() {
		t.Run("fewer", func(t *testing.T) { fewer(t, d, record, r) })
	}
	t.Run("down", func(t *testing.T) { down(t, d, record, r) })
}

func check(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// wantPower fails unless the named nodes have that power.
func wantPower(t *testing.T, d deploy.Capable, record *cluster.Record, want string, nodes []string) {
	t.Helper()
	powers := d.Power(t.Context(), record)
	if len(powers) != len(record.Nodes) {
		t.Fatalf("the power of %d nodes is told, of %d", len(powers), len(record.Nodes))
	}
	for i, node := range record.Nodes {
		if slices.Contains(nodes, node.Name) && powers[i].Power != want {
			t.Errorf("%s is %s (%s), want %s", node.Name, powers[i].Power, powers[i].Why, want)
		}
	}
}

func nothingToDo(t *testing.T, d deploy.Capable, r deploy.Request) {
	t.Helper()
	if plan, err := d.Plan(t.Context(), r); err != nil || len(plan.Changes) > 0 {
		t.Errorf("a second plan changes %v (%v)", plan.Changes, err)
	}
	if again, err := d.Up(t.Context(), r); err != nil || again.Changed {
		t.Errorf("a second up changed %+v (%v)", again, err)
	}
}

// told asks what a deployer can tell of machines that run.
func told(t *testing.T, d deploy.Capable, record *cluster.Record) {
	ctx := t.Context()
	want := "running"
	if !d.Makes() {
		want = "unknown"
	}
	wantPower(t, d, record, want, record.Nodes.Names())
	if d.Addresses != nil {
		nodes, err := d.Addresses.Addresses(ctx, record, progress.Discard)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range nodes {
			if !n.Management.IsValid() || !n.Data.IsValid() {
				t.Errorf("%s has the addresses %s and %s", n.Name, n.Management, n.Data)
			}
		}
		if shared := nodes.Shared(); len(shared) > 0 {
			t.Errorf("addresses of more than one node: %v", shared)
		}
	}
	if d.Identify != nil {
		first, again := d.Identify.Machines(ctx, record), d.Identify.Machines(ctx, record)
		if !slices.Equal(first, again) {
			t.Errorf("machines are %v, then %v", first, again)
		}
		for i := range first {
			if first[i].ID == "" || i > 0 && first[i].ID == first[0].ID {
				t.Errorf("machine of %s: %+v", record.Nodes[i].Name, first[i])
			}
		}
	}
	for _, node := range record.Nodes {
		if d.HostKeys != nil {
			if keys, err := d.HostKeys.HostKeys(ctx, record, node); err != nil || len(keys) == 0 {
				t.Errorf("host keys of %s: %v (%v)", node.Name, keys, err)
			}
		}
		if d.Diagnose != nil {
			if told := d.Diagnose.Describe(ctx, record, node); len(told) == 0 || told[0].Err != nil {
				t.Errorf("%s is described as %v", node.Name, told)
			}
		}
		if d.Restart != nil {
			if restarted, err := d.Restart.Restart(ctx, record, node); err != nil || restarted {
				t.Errorf("%s, which waits for nothing: restarted %v (%v)", node.Name, restarted, err)
			}
		}
		if d.Switch != nil {
			check(t, "switch on what is on", d.Switch.SwitchOn(ctx, record, node))
		}
	}
}

// inspected looks at machines that are as they were made: nothing differs, and nothing is written.
func inspected(t *testing.T, d deploy.Capable, record *cluster.Record, r deploy.Request) {
	ctx := t.Context()
	if d.Inspect != nil {
		seen, err := d.Inspect.Inspect(ctx, record)
		if err != nil || len(seen) != len(record.Nodes) {
			t.Fatalf("seen: %v (%v)", seen, err)
		}
		for i, node := range record.Nodes {
			s := seen[i]
			if s.Node != node.Name || s.Name != node.Name || !s.Owned || s.Gone || s.Err != nil || s.Power != "running" ||
				!slices.Equal(s.Tags, record.Owner.Tags(record.Name)) || len(s.Snapshots) > 0 {
				t.Errorf("%s is seen as %+v", node.Name, s)
			}
		}
		other := *record
		other.Owner.ID = "01a223b6-0dbf-7137-b0fd-aeb7f27cfc89"
		seen, err = d.Inspect.Inspect(ctx, &other)
		if err != nil || slices.ContainsFunc(seen, func(s deploy.Seen) bool { return s.Owned }) {
			t.Errorf("another owner owns what is seen: %v (%v)", seen, err)
		}
	}
	if d.Refresh != nil {
		refreshed, err := d.Refresh.Refresh(ctx, r)
		if err != nil || len(refreshed.Wanted) > 0 || len(refreshed.Machines) != len(record.Nodes) {
			t.Errorf("refreshed: %+v (%v)", refreshed, err)
		}
	}
}

// owned holds that machines belong to the owner in the record and to nobody else.
func owned(t *testing.T, d deploy.Capable, record *cluster.Record) {
	ctx := t.Context()
	other := *record
	other.Owner.ID = "01a223b6-0dbf-7137-b0fd-aeb7f27cfc89"
	if d.Owner != nil {
		check(t, "check the ownership", d.Owner.CheckOwnership(ctx, record))
		if d.Owner.EnsureFree(ctx, &other, record.Nodes.Names(), progress.Discard) == nil {
			t.Error("ids of machines that exist count as free for another owner")
		}
		if d.Owner.CheckOwnership(ctx, &other) == nil {
			t.Error("another owner's record passes for the machines' own")
		}
		held := *record
		held.Owner.Held = true
		check(t, "say that it is held", d.Owner.UpdateMetadata(ctx, &held))
		check(t, "verify what is held", d.Owner.Verify(ctx, &held))
		check(t, "say that it is not", d.Owner.UpdateMetadata(ctx, record))
	}
	if d.Remove == nil {
		return
	}
	check(t, "quorum", d.Remove.Quorum(ctx))
	if left, err := d.Remove.Remaining(ctx, &other); err == nil && len(left) > 0 {
		t.Errorf("another owner's are %v", left)
	}
	mine, err := d.Remove.Remaining(ctx, record)
	if err != nil || len(mine) != len(record.Nodes) {
		t.Fatalf("remaining: %v (%v)", mine, err)
	}
	if d.Remove.Destroy(ctx, &other, mine) == nil {
		t.Error("another owner's record destroyed machines")
	}
	wantPower(t, d, record, "running", record.Nodes.Names())
}

// snapshots keeps the state of all machines, brings it back and deletes it: of the record's owner alone.
func snapshots(t *testing.T, d deploy.Capable, record *cluster.Record) {
	ctx, s, names := t.Context(), d.Snapshots, record.Nodes.Names()
	other := *record
	other.Owner.ID = "01a223b6-0dbf-7137-b0fd-aeb7f27cfc89"
	tags := func(r *cluster.Record) (tags []string) {
		t.Helper()
		list, err := s.Snapshots(ctx, r)
		check(t, "list the snapshots", err)
		for _, one := range list {
			if tags = append(tags, one.Tag); !slices.Equal(one.Nodes, names) {
				t.Errorf("snapshot %s is of %v, want %v", one.Tag, one.Nodes, names)
			}
		}
		return tags
	}
	check(t, "check that snapshots can be made", s.CheckSnapshots(ctx, record))
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if s.SaveSnapshot(cancelled, record, "cut", false, progress.Discard) == nil {
		t.Error("a save that was cancelled before it began returned no error")
	}
	if got := tags(record); len(got) > 0 {
		t.Errorf("snapshots after one that was cancelled: %v", got)
	}
	check(t, "save", s.SaveSnapshot(ctx, record, "first", false, progress.Discard))
	if s.SaveSnapshot(ctx, record, "first", false, progress.Discard) == nil {
		t.Error("a tag was taken twice")
	}
	if s.CheckSnapshots(ctx, &other) == nil || s.RestoreSnapshot(ctx, &other, "first", nil, progress.Discard) == nil {
		t.Error("another owner's record may do with the machines what it likes")
	}
	if s.RestoreSnapshot(ctx, record, "second", nil, progress.Discard) == nil {
		t.Error("a snapshot that is not there was brought back")
	}
	check(t, "restore", s.RestoreSnapshot(ctx, record, "first", nil, progress.Discard))
	wantPower(t, d, record, "running", names)
	check(t, "say whose they are", d.Owner.UpdateMetadata(ctx, record))
	check(t, "verify", d.Owner.Verify(ctx, record))
	if got := tags(record); !slices.Equal(got, []string{"first"}) {
		t.Errorf("snapshots: %v", got)
	}
	check(t, "delete", s.DeleteSnapshot(ctx, record, "first"))
	check(t, "delete again", s.DeleteSnapshot(ctx, record, "first"))
	if got := tags(record); len(got) > 0 {
		t.Errorf("snapshots that were deleted: %v", got)
	}
}

// fewer takes the last node away: only where that is asked for.
func fewer(t *testing.T, d deploy.Capable, record *cluster.Record, r deploy.Request) {
	last := len(r.Nodes) - 1
	leaving := r.Nodes[last].Name
	r.Nodes, r.Spec.NodeCount = r.Nodes[:last], last
	if _, err := d.Up(t.Context(), r); !isRefused(err) {
		t.Errorf("a plan that deletes a machine nobody gave up returned %v", err)
	}
	wantPower(t, d, record, "running", record.Nodes.Names())
	r.Leaving = []string{leaving}
	if result, err := d.Up(t.Context(), r); err != nil || !slices.Equal(result.Deleted, r.Leaving) {
		t.Errorf("deleted %v, want %v (%v)", result.Deleted, r.Leaving, err)
	}
	wantPower(t, d, record, "missing", r.Leaving)
	nothingToDo(t, d, r)
}

func isRefused(err error) bool {
	_, refused := errors.AsType[*deploy.RefusedError](err)
	return refused
}

// down removes what Up has made, and can be repeated. Machines that were there before stay.
func down(t *testing.T, d deploy.Capable, record *cluster.Record, r deploy.Request) {
	ctx := t.Context()
	check(t, "down", d.Down(ctx, r))
	check(t, "down again", d.Down(ctx, r))
	if d.Lease != nil {
		d.Lease.ReleaseAll(ctx, record, progress.Discard)
	}
	if d.Remove == nil {
		wantPower(t, d, record, "unknown", record.Nodes.Names())
		return
	}
	wantPower(t, d, record, "missing", record.Nodes.Names())
	left, err := d.Remove.Remaining(ctx, record)
	if err != nil || len(left) > 0 {
		t.Errorf("remaining: %v (%v)", left, err)
	}
	check(t, "destroy nothing", d.Remove.Destroy(ctx, record, nil))
	check(t, "clean up", d.Remove.CleanUp(ctx, record, nil, progress.Discard))
	if d.Owner != nil {
		check(t, "the ids are free", d.Owner.EnsureFree(ctx, record, record.Nodes.Names(), progress.Discard))
	}
}
