package lifecycle

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/remote"
)

// tofu is a Provisioner that answers as it is told.
type tofu struct {
	*world
	result deploy.Result
	err    error
	asked  deploy.Request
}

func (f *tofu) Up(_ context.Context, r deploy.Request) (deploy.Result, error) {
	f.asked = r
	return f.result, f.err
}

// changing is a job on a cluster of three nodes that is up, of which another number is asked for.
func changing(t *testing.T, w *world, count int) (*Job, *tofu) {
	t.Helper()
	job := w.job(t)
	job.Record.Spec.NodeCount = 3
	job.Record.SSHKeyPath = filepath.Join(t.TempDir(), "key")
	if err := remote.GenerateKey(job.Record.SSHKeyPath); err != nil {
		t.Fatal(err)
	}
	job.Record.Nodes = nil
	for i := range 3 {
		job.Record.Nodes = append(job.Record.Nodes, cluster.Node{
			Name: cluster.Name("ci-1").Node(i + 1), Index: i + 1, Placement: placement.VM{VMID: 20000 + i, Hypervisor: "pve1"}.Document(),
			Management: netip.MustParseAddr("127.0.0.1"),
		})
	}
	job.Before = job.Record.Clone()
	job.Record.Spec.NodeCount, job.Record.Spec.MemoryMB = count, 4096
	made := &tofu{world: w, result: deploy.Result{Changed: true}}
	job.Deploy = deploy.Of(made)
	t.Chdir(t.TempDir()) // where the store of these tests is
	return job, made
}

func TestWhatIsRefusedIsForgotten(t *testing.T) {
	job, made := changing(t, &world{}, 2)
	made.result, made.err = deploy.Result{}, &deploy.RefusedError{Changes: []deploy.Change{{
		Node: "ci-1-1", VM: true, Action: deploy.Replace,
	}}}
	err := Up(job).Run(t.Context())
	if _, ok := errors.AsType[*deploy.RefusedError](err); !ok {
		t.Fatalf("got %v", err)
	}
	if cluster.Hash(job.Before) != cluster.Hash(job.Record) {
		t.Errorf("the record after it differs from before: %+v", job.Record)
	}
	if diff := cmp.Diff([]string{"ci-1-3"}, made.asked.Leaving); diff != "" {
		t.Error(diff)
	}
}

func TestWhatIsHalfDoneIsRemembered(t *testing.T) {
	job, made := changing(t, &world{}, 2)
	made.err = errors.New("the third cannot be deleted")
	if err := Up(job).Run(t.Context()); err == nil {
		t.Fatal("no error")
	}
	if r := job.Record; r.Spec.NodeCount != 2 || r.Spec.MemoryMB != 4096 || len(r.Nodes) != 3 {
		t.Errorf("the record forgot what was begun: %+v", r)
	}
}

func TestNodesThatLeaveAreProvedGone(t *testing.T) {
	third := deploy.VMRef{VMID: 20002, Name: "ci-1-3", Hypervisor: "pve1"}
	for _, tc := range []struct {
		name  string
		world world
		nodes int
		error string
	}{
		{"gone", world{}, 2, ""},
		{"not in tofu's state", world{vms: []deploy.VMRef{third}}, 2, ""},
		{"still there", world{vms: []deploy.VMRef{third}, stuck: true}, 3, "VM 20002 ci-1-3 on pve1"},
		{"others of ours are left alone", world{vms: []deploy.VMRef{{VMID: 20000}}, stuck: true}, 2, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := &tc.world
			job, _ := changing(t, w, 2)
			err := Up(job).Run(t.Context())
			if (err == nil) != (tc.error == "") || err != nil && !strings.Contains(err.Error(), tc.error) {
				t.Errorf("error %v, want %q", err, tc.error)
			}
			if len(job.Record.Nodes) != tc.nodes {
				t.Errorf("the record names %v", job.Record.Nodes.Names())
			}
		})
	}
}

func TestRestartsAreAskedFor(t *testing.T) {
	for _, allowed := range []bool{false, true} {
		w := &world{}
		job, _ := changing(t, w, 3)
		job.Allow.Restart = allowed
		if err := Up(job).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		var restarted []string
		for _, done := range w.done {
			if strings.HasPrefix(done, "restart ") {
				restarted = append(restarted, done)
			}
		}
		if allowed != slices.Equal(restarted, []string{"restart ci-1-1", "restart ci-1-2", "restart ci-1-3"}) ||
			!allowed && len(restarted) > 0 {
			t.Errorf("allowed %v: %q", allowed, restarted)
		}
	}
}

// A cluster that was up before is not destroyed because a change of it failed, whatever the policy is for new ones.
func TestAFailedChangeKeepsTheCluster(t *testing.T) {
	for _, before := range []bool{false, true} {
		w := &world{vms: []deploy.VMRef{mine}}
		job, made := changing(t, w, 2)
		made.err = errors.New("no")
		if !before {
			job.Before = nil
		}
		entry := UpOnly(job, KeepNever)[0].Phase.(rollbackOnFailure)
		if err := entry.CleanUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		if w.removed == before {
			t.Errorf("up before this run: %v, removed: %v", before, w.removed)
		}
	}
}

func TestADryRunNeedsNoKey(t *testing.T) {
	job, _ := changing(t, &world{}, 3)
	job.Record.SSHKeyPath = filepath.Join(t.TempDir(), "none")
	reading, err := DryRun(t.Context(), job)
	if err != nil || !strings.HasPrefix(reading.Request.SSHPublicKey, "ssh-ed25519 ") {
		t.Errorf("%+v %v", reading.Request, err)
	}
	if _, err := os.Stat(job.Record.SSHKeyPath); err == nil {
		t.Error("a key was made")
	}
}

// Hive does not start with its VMs: a plan that restarts some says so, and how it is started.
func TestAPlanThatStopsHiveSaysSo(t *testing.T) {
	restart := deploy.Change{VM: true, Node: "ci-1-2", Action: deploy.Update, Restarts: true}
	start := deploy.Change{
		VM: true, Node: "ci-1-3", Action: deploy.Update, Attributes: []deploy.Attribute{{Name: "started", After: "true"}},
	}
	harmless := deploy.Change{VM: true, Node: "ci-1-1", Action: deploy.Update}
	job, _ := changing(t, &world{}, 3)
	plan := deploy.Plan{Changes: []deploy.Change{harmless, restart, start}}
	if got := job.stops(plan); len(got) > 0 {
		t.Errorf("no hive was formed, and on %q it stops", got)
	}
	job.Record.Form()
	got := Reading{Stops: job.stops(plan)}.Notes("ci")
	want := []string{
		"hive does not start with a VM, and would be down on ci-1-2, ci-1-3 until: hive-test configure ci --from start",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestMigrated: a VM that others have moved is told of, with where it was; no other is.
func TestMigrated(t *testing.T) {
	before := cluster.Nodes{{Name: "ci-1", Placement: placement.VM{VMID: 100, Hypervisor: "pve1"}.Document()}, {
		Name: "ci-2", Placement: placement.VM{VMID: 101, Hypervisor: "pve2"}.Document(),
	}}
	now := slices.Clone(before)
	placement.Change(&now[1], func(v *placement.VM) { v.Hypervisor = "pve3" })
	found := migrated(before, now)
	if len(found) != 1 || found[0].Status != deploy.Warn ||
		!strings.Contains(found[0].Detail, "VM 101 of ci-2 was moved from pve2 to pve3") {
		t.Errorf("told = %+v", found)
	}
}

// findings is a preflight that finds the same whatever it is asked, and keeps which nodes that was about.
type findings struct {
	list  []deploy.Finding
	asked *cluster.Nodes
}

func (f findings) Preflight(_ context.Context, r *cluster.Record, anew bool) ([]deploy.Finding, error) {
	if *f.asked = r.Nodes; !anew {
		return nil, nil
	}
	return f.list, nil
}

// A plan that deletes a VM to make it anew is not begun where that would fail.
func TestWhatIsMadeAnewIsLookedAtFirst(t *testing.T) {
	lost := deploy.Change{Node: "b", Action: deploy.Replace, VM: true}
	half, snippet := lost, lost
	half.Unfinished, snippet.VM = true, false
	broken := []deploy.Finding{{Status: deploy.Warn}, {Status: deploy.Fail, Detail: "no image"}}
	for name, tc := range map[string]struct {
		change  deploy.Change
		allowed bool
		found   []deploy.Finding
		want    string // the nodes that are looked at
		fails   bool
	}{
		"it fails":               {lost, true, broken, "b", true},
		"it can be made":         {lost, true, broken[:1], "b", false},
		"it is refused anyway":   {lost, false, broken, "", false},
		"nothing is on it":       {half, true, broken, "", false},
		"its snippet is written": {snippet, true, broken, "", false},
	} {
		var asked cluster.Nodes
		r := &Job{
			Record: &cluster.Record{Nodes: cluster.Nodes{{Name: "a"}, {Name: "b"}}},
			Allow:  deploy.Allowed{Replace: tc.allowed}, Deploy: deploy.Capable{Preflight: findings{tc.found, &asked}},
		}
		err := r.makeable(t.Context(), deploy.Plan{Changes: []deploy.Change{tc.change}})
		_, failed := errors.AsType[*deploy.PreflightError](err)
		if got := strings.Join(asked.Names(), " "); got != tc.want || failed != tc.fails {
			t.Errorf("%s: looked at %q, want %q; %v", name, got, tc.want, err)
		}
	}
}
