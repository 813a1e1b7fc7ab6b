package lifecycle

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/hive"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// slow is hypervisors that take their time: by node, how long for what. What is not told never is.
type slow struct {
	*world
	after map[string]time.Duration
	tell  map[string]deploy.Power
	later time.Time // when the node of that name is stopped
}

func (s slow) Power(ctx context.Context, r *cluster.Record) []deploy.Power {
	powers := make([]deploy.Power, len(r.Nodes))
	for i, node := range r.Nodes {
		power, told := s.tell[node.Name]
		if !told {
			<-ctx.Done()
			continue
		}
		select {
		case <-time.After(s.after[node.Name]):
			powers[i] = power
		case <-ctx.Done():
			powers[i] = deploy.Power{Power: "unknown"}
		}
		if node.Name == "later" && !time.Now().Before(s.later) {
			powers[i] = deploy.Power{Power: "stopped"}
		}
	}
	return powers
}

// What a hypervisor says of a machine ends what is asked of that one, at once, and of no other.
func TestMachineWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world{}
		job := w.job(t)
		job.Record.Nodes = nil
		tell := map[string]deploy.Power{
			"stopped": {Power: "stopped"}, "missing": {Power: "missing"}, "foreign": {Power: "foreign"},
			"running": {Power: "running"}, "unknown": {Power: "unknown"}, "later": {Power: "running"},
		}
		after := map[string]time.Duration{
			"stopped": time.Second, "missing": 2 * time.Second, "foreign": 3 * time.Second,
		}
		for _, name := range []string{"stopped", "missing", "foreign", "running", "unknown", "silent", "later"} {
			job.Record.Nodes = append(job.Record.Nodes, cluster.Node{Name: name})
		}
		job.Deploy = deploy.Of(slow{&w, after, tell, time.Now().Add(watchFirst / 2)})
		const limit = 15 * time.Second
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		began := time.Now()
		v := job.watchMachines(ctx, 0)
		defer v.Stop()
		type end struct {
			At  time.Duration
			Why string
		}
		ends := make([]end, len(job.Record.Nodes))
		done := make(chan struct{})
		for i, node := range job.Record.Nodes {
			go func() {
				own, release := v.Within(ctx, node.Name)
				defer release()
				<-own.Done()
				ends[i] = end{time.Since(began), context.Cause(own).Error()}
				done <- struct{}{}
			}()
		}
		for range ends {
			<-done
		}
		late := end{limit, context.DeadlineExceeded.Error()}
		want := []end{
			{time.Second, "its VM is stopped"},
			{2 * time.Second, "its VM is gone"},
			{3 * time.Second, "its VM is gone, and its id is somebody else's VM"},
			late, late, late,
			{watchFirst, "its VM is stopped"},
		}
		if diff := cmp.Diff(want, ends); diff != "" {
			t.Error(diff)
		}
		v.AwaitFirst()
		if v.Unreachable("running") != nil || v.Unreachable("nobody") != nil || v.Unreachable("stopped") == nil {
			t.Error("it takes the living for the dead")
		}
	})
}

// Of a machine that is dead, a look tells only that: how far it was asked is chance.
func TestTheDeadTellNothing(t *testing.T) {
	job := (&world{}).job(t)
	job.Record.Nodes = cluster.Nodes{{Name: "ci-1-1"}, {Name: "ci-1-2"}}
	told := answers{
		ssh: map[string]string{"ci-1-1": "ok", "ci-1-2": "no route to host"},
		nodes: map[string]hive.NodeHealth{
			"ci-1-1": {Name: "ci-1-1", Code: 200, Error: "it sees 0 of 1 peer"},
			"ci-1-2": {Name: "ci-1-2", Error: "the daemon does not answer: no route to host"},
		},
	}
	got := job.status([]deploy.Power{{Power: "running"}, {Power: "stopped"}}, told, nil)
	want := Status{Record: job.Record, Configure: "hive-test configure ci-1 --binary FILE", Nodes: []NodeStatus{
		{Node: job.Record.Nodes[0], Power: deploy.Power{Power: "running"}, SSH: "ok", Health: told.nodes["ci-1-1"]},
		{Node: job.Record.Nodes[1], Power: deploy.Power{Power: "stopped"}, SSH: "its VM is stopped", Health: hive.NodeHealth{Name: "ci-1-2", Peers: hive.PeersUnknown, Error: "its VM is stopped"}},
	}}
	if diff := cmp.Diff(
		want, got, cmpopts.IgnoreUnexported(hive.NodeHealth{}),
		cmpopts.EquateComparable(cluster.Node{}, deploy.Power{}),
	); diff != "" {
		t.Error(diff)
	}
}
