package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/phase"
	"hive-test/pkg/progress"
	"hive-test/pkg/remote"
)

// world is a cluster, its store, its tofu and its Proxmox VE in memory, with a log of what was done in which order.
type world struct {
	done      []string
	vms       []deploy.VMRef // ours that exist
	foreign   error
	tofuFails error
	tofuHalf  bool // tofu fails when the VMs are gone
	upFails   error
	stuck     bool           // VMs that cannot be deleted
	unseen    []deploy.VMRef // ours that cannot be read
	noQuorum  error
	litter    error // what cannot be swept up
	swept     []deploy.VMRef
	late      int // a VM appears when it is looked for the n-th time
	unlocks   int // the lock of the first VM goes when it is looked at for the n-th time
	saved     *cluster.Record
	machines  []deploy.Machine // nil: not known
	removed   bool
	path      string // of the clusters' files; empty: below the working directory
}

func (w *world) log(what string) { w.done = append(w.done, what) }

// Store.
func (w *world) Save(r *cluster.Record) error {
	p, status := r.Current()
	w.log("save " + string(p) + " " + string(status))
	w.saved = r
	return nil
}
func (w *world) Load(cluster.Name) (*cluster.Record, error) { return w.saved.Clone(), nil }
func (w *world) SaveInventory(cluster.Inventory) error      { w.log("inventory"); return nil }
func (w *world) Write(_ cluster.Name, file string, _ []byte) error {
	w.log("write " + file)
	return nil
}

func (w *world) Path(name cluster.Name, file string) string {
	return filepath.Join(cmp.Or(w.path, "nowhere"), string(name), file)
}

func (w *world) Remove(cluster.Name) error { w.log("remove directory"); w.removed = true; return nil }
func (w *world) KeepResults(string) error  { return nil }
func (w *world) DropResults() error        { return nil }
func (w *world) SaveResults() error        { w.log("save results"); return nil }
func (w *world) CheckOwnership(context.Context, *cluster.Record) error {
	w.log("foreign?")
	if w.foreign == nil {
		return w.blind()
	}
	return errors.Join(w.foreign, w.blind())
}

func (w *world) blind() error {
	if len(w.unseen) == 0 {
		return nil
	}
	return &deploy.UnseenError{VMs: w.unseen, Cause: errors.New("HTTP 595")}
}
func (w *world) Verify(context.Context, *cluster.Record) error { w.log("verify"); return nil }
func (w *world) Acquire(context.Context, *cluster.Record, *cluster.Record, progress.Sink) error {
	return nil
}
func (w *world) InUse(context.Context, *cluster.Record, []string) error { return nil }
func (w *world) EnsureFree(context.Context, *cluster.Record, []string, progress.Sink) error {
	return nil
}
func (w *world) Release(context.Context, *cluster.Record, progress.Sink)    { w.log("release") }
func (w *world) ReleaseAll(context.Context, *cluster.Record, progress.Sink) { w.log("forget") }
func (w *world) Power(context.Context, *cluster.Record) []deploy.Power      { return nil }
func (w *world) PlanText(context.Context, deploy.Request) (string, error)   { return "", nil }
func (w *world) Describe(context.Context, *cluster.Record, cluster.Node) []deploy.Diagnostic {
	return []deploy.Diagnostic{{What: "config", Text: "name: ci-1-1\n"}, {What: "tasks", Err: errors.New("not now")}}
}

func (w *world) DescribeGuest(context.Context, *cluster.Record, cluster.Node) []deploy.Diagnostic {
	return []deploy.Diagnostic{{What: "agent", Text: "status: running\n"}}
}

func (w *world) Plan(context.Context, deploy.Request) (deploy.Plan, error) {
	return deploy.Plan{}, nil
}

func (w *world) Preflight(context.Context, *cluster.Record, bool) ([]deploy.Finding, error) {
	return nil, nil
}

func (w *world) Reserve(context.Context, *cluster.Record) (cluster.Nodes, error) {
	return cluster.Nodes{{Name: "ci-1-1", Index: 1, Placement: placement.VM{VMID: 20000}.Document()}}, nil
}

func (w *world) Assign(_ context.Context, r *cluster.Record) (cluster.Nodes, error) {
	return r.Nodes, nil
}

func (w *world) Addresses(_ context.Context, r *cluster.Record, _ progress.Sink) (cluster.Nodes, error) {
	return r.Nodes, nil
}

func (w *world) HostKeys(context.Context, *cluster.Record, cluster.Node) ([]string, error) {
	return nil, nil
}

func (w *world) Machines(_ context.Context, r *cluster.Record) []deploy.Machine {
	if w.machines == nil {
		return make([]deploy.Machine, len(r.Nodes))
	}
	return w.machines
}

func (w *world) Restart(_ context.Context, _ *cluster.Record, n cluster.Node) (bool, error) {
	w.log("restart " + n.Name)
	return true, nil
}
func (w *world) UpdateMetadata(context.Context, *cluster.Record) error { w.log("mark"); return nil }

func (w *world) Warnings(context.Context, *cluster.Record, time.Time) { w.log("warnings") }
func (w *world) Remaining(context.Context, *cluster.Record) ([]deploy.VMRef, error) {
	w.log("remaining?")
	if w.late--; w.late == 0 {
		w.vms = []deploy.VMRef{mine}
	}
	if w.unlocks--; w.unlocks == 0 {
		w.vms[0].Lock = ""
	}
	return slices.Clone(w.vms), w.blind()
}

func (w *world) Destroy(_ context.Context, _ *cluster.Record, vms []deploy.VMRef) error {
	w.log("api destroy")
	if !w.stuck {
		w.vms = nil
	}
	return nil
}
func (w *world) Quorum(context.Context) error { return w.noQuorum }
func (w *world) Unprotect(_ context.Context, _ *cluster.Record, vm deploy.VMRef) error {
	w.log("unprotect " + vm.Name)
	w.vms[0].Protected = false
	return nil
}

func (w *world) CleanUp(_ context.Context, _ *cluster.Record, gone []deploy.VMRef, _ progress.Sink) error {
	w.log("sweep")
	w.swept = gone
	return w.litter
}

func (w *world) Up(context.Context, deploy.Request) (deploy.Result, error) {
	w.log("tofu apply")
	return deploy.Result{Changed: true}, w.upFails
}

func (w *world) Down(context.Context, deploy.Request) error {
	w.log("tofu destroy")
	if w.tofuHalf || w.tofuFails == nil && !w.stuck {
		w.vms = nil
	}
	return w.tofuFails
}

type place struct {
	*world
	dir string
}

func (p place) Path(elem ...string) string {
	return filepath.Join(append([]string{p.dir}, elem...)...)
}

type nobody struct{}

func (nobody) Group(cluster.Nodes) remote.Group { return nil }
func (nobody) Close() error                     { return nil }
func (nobody) DialContext(context.Context, string, string) (net.Conn, error) {
	return nil, errors.ErrUnsupported
}

func (w *world) job(t *testing.T) *Job {
	return &Job{
		Record: &cluster.Record{
			Name: "ci-1", Owner: cluster.Owner{ID: "me"}, Spec: cluster.Spec{Deployer: deploy.Proxmox, NodeCount: 1},
			Nodes:  cluster.Nodes{{Name: "ci-1-1", Index: 1, Placement: placement.VM{VMID: 20000, Hypervisor: "pve1"}.Document()}},
			Phases: map[cluster.Phase]cluster.PhaseRecord{cluster.PhaseUp: {Status: cluster.PhaseDone}},
		},
		Store: w, Evidence: place{w, t.TempDir()}, Deploy: deploy.Of(w), Sink: progress.Discard, Now: time.Now,
		Dial: func(*cluster.Record) (Remote, error) { return nobody{}, nil },
	}
}

var (
	mine    = deploy.VMRef{VMID: 20000, Name: "ci-1-1", Hypervisor: "pve1"}
	guarded = deploy.VMRef{VMID: 20000, Name: "ci-1-1", Hypervisor: "pve1", Protected: true}
	dark    = deploy.VMRef{VMID: 20001, Name: "ci-1-2", Hypervisor: "pve3"}
	locked  = deploy.VMRef{VMID: 20000, Name: "ci-1-1", Hypervisor: "pve1", Lock: "backup"}
)

func TestDown(t *testing.T) {
	for _, tc := range []struct {
		name    string
		world   world
		force   bool
		results bool
		want    []string // what is done, in order
		leak    string   // what the error names; empty: no error
		hint    string
	}{
		{
			name: "tofu destroys, the API proves it, then the directory goes", world: world{vms: []deploy.VMRef{mine}},
			want: []string{"save down running", "foreign?", "remaining?", "tofu destroy", "warnings", "remaining?", "sweep", "forget", "remove directory"},
		},
		{
			name: "results are saved before the directory goes", world: world{}, results: true,
			want: []string{"save down running", "foreign?", "remaining?", "remaining?", "sweep", "forget", "save results", "remove directory"},
		},
		{
			name: "somebody else's VM under our id: tofu never runs, nothing is removed", world: world{foreign: errors.New("VM 20000 is theirs")},
			want: []string{"save down running", "foreign?", "remaining?", "save down failed"}, leak: "VM 20000 is theirs",
		},
		{
			name: "the same with force: only ours are deleted, without tofu", world: world{foreign: errors.New("theirs"), vms: []deploy.VMRef{mine}}, force: true,
			want: []string{"save down running", "foreign?", "remaining?", "remaining?", "api destroy", "remaining?", "sweep", "forget", "remove directory"},
		},
		{
			name: "tofu fails: what remains is named, the directory stays", world: world{vms: []deploy.VMRef{mine}, tofuFails: errors.New("HTTP 595")},
			want: []string{"save down running", "foreign?", "remaining?", "tofu destroy", "warnings", "remaining?", "save down failed"}, leak: "VM 20000 ci-1-1 on pve1",
		},
		{
			name:  "tofu has no time left for what the VMs have left: the proof tells what that is",
			world: world{vms: []deploy.VMRef{mine}, tofuFails: fmt.Errorf("interrupted (%w)", errPart), tofuHalf: true, litter: errors.New("HTTP 500 for a snippet")},
			want:  []string{"save down running", "foreign?", "remaining?", "tofu destroy", "warnings", "remaining?", "remaining?", "sweep", "save down failed"}, leak: "HTTP 500 for a snippet",
		},
		{
			name: "tofu has no time left, and a VM is there: nothing else deletes it unasked", world: world{vms: []deploy.VMRef{mine}, tofuFails: fmt.Errorf("interrupted (%w)", errPart)},
			want: []string{"save down running", "foreign?", "remaining?", "tofu destroy", "warnings", "remaining?", "remaining?", "save down failed"}, leak: "VM 20000 ci-1-1 on pve1",
		},
		{
			name: "tofu fails with force: the API goes on", world: world{vms: []deploy.VMRef{mine}, tofuFails: errors.New("HTTP 595")}, force: true,
			want: []string{"save down running", "foreign?", "remaining?", "tofu destroy", "warnings", "remaining?", "api destroy", "remaining?", "foreign?", "sweep", "forget", "remove directory"},
		},
		{
			name:  "tofu's files are damaged: the API goes on unasked",
			world: world{vms: []deploy.VMRef{mine}, tofuFails: fmt.Errorf("the state: %w", deploy.ErrUnusable)},
			want:  []string{"save down running", "foreign?", "remaining?", "tofu destroy", "warnings", "remaining?", "api destroy", "remaining?", "foreign?", "sweep", "forget", "remove directory"},
		},
		{
			name: "tofu says it is done and a VM is still there", world: world{vms: []deploy.VMRef{mine}, stuck: true},
			want: []string{"save down running", "foreign?", "remaining?", "tofu destroy", "warnings", "remaining?", "api destroy", "remaining?", "save down failed"}, leak: "VM 20000",
		},
		{
			name: "a protected VM: nothing is touched", world: world{vms: []deploy.VMRef{guarded}},
			want: []string{"save down running", "foreign?", "remaining?", "remaining?", "save down failed"}, leak: "VM 20000 ci-1-1 on pve1 is protected",
		},
		{
			name: "a protected VM with force", world: world{vms: []deploy.VMRef{guarded}}, force: true,
			want: []string{"save down running", "foreign?", "remaining?", "unprotect ci-1-1", "tofu destroy", "warnings", "remaining?", "sweep", "forget", "remove directory"},
		},
		{
			name: "no quorum: nothing is touched, for disks would go and VMs stay", world: world{vms: []deploy.VMRef{mine}, noQuorum: errors.New("no quorum")},
			want: []string{"save down running", "foreign?", "remaining?", "remaining?", "save down failed"}, leak: "nothing was deleted: no quorum",
		},
		{
			name: "a disk that stays keeps the directory", world: world{vms: []deploy.VMRef{mine}, litter: errors.New("vm-20000-disk-0 is still there")},
			want: []string{"save down running", "foreign?", "remaining?", "tofu destroy", "warnings", "remaining?", "sweep", "save down failed"}, leak: "vm-20000-disk-0",
		},
		{
			name: "one of two cannot be read: the other goes, without tofu, and the directory stays", world: world{vms: []deploy.VMRef{mine}, unseen: []deploy.VMRef{dark}},
			want: []string{"save down running", "foreign?", "remaining?", "remaining?", "api destroy", "remaining?", "sweep", "save down failed"},
			leak: "not seen, and may be there: VM 20001 ci-1-2 on pve3: HTTP 595", hint: "bring back pve3\nthen: hive-test down ci-1",
		},
		{
			name: "one cannot be read, and the other stays: both are named", world: world{vms: []deploy.VMRef{mine}, unseen: []deploy.VMRef{dark}, stuck: true}, force: true,
			want: []string{"save down running", "foreign?", "remaining?", "remaining?", "api destroy", "remaining?", "save down failed"},
			leak: "still there: VM 20000 ci-1-1 on pve1; not seen, and may be there: VM 20001 ci-1-2 on pve3: delete succeeded but the VM still exists",
		},
		{
			name: "one is somebody else's, and another cannot be read: nothing is touched", world: world{foreign: errors.New("VM 20000 is theirs"), unseen: []deploy.VMRef{dark}},
			want: []string{"save down running", "foreign?", "remaining?", "save down failed"}, leak: "VM 20000 is theirs",
		},
		{
			name: "nothing is left but one that cannot be read: that is not taken for gone", world: world{unseen: []deploy.VMRef{dark}},
			want: []string{"save down running", "foreign?", "remaining?", "remaining?", "sweep", "save down failed"}, leak: "VM 20001 ci-1-2 on pve3",
		},
		{
			name: "a lock is waited for", world: world{vms: []deploy.VMRef{locked}, unlocks: 3},
			want: []string{"save down running", "foreign?", "remaining?", "remaining?", "remaining?", "tofu destroy", "warnings", "remaining?", "sweep", "forget", "remove directory"},
		},
		{
			name: "a lock that stays", world: world{vms: []deploy.VMRef{locked}},
			want: []string{"save down running", "foreign?", "save down failed"}, leak: "VM 20000 ci-1-1 on pve1 is locked (backup)", hint: "qm unlock 20000",
		},
		{
			name: "a lock that stays, with force: the others go, without tofu, and it is named", world: world{vms: []deploy.VMRef{locked}, stuck: true}, force: true,
			want: []string{"save down running", "foreign?", "api destroy", "save down failed"}, leak: "VM 20000 ci-1-1 on pve1", hint: "on pve1: qm unlock 20000\nthen: hive-test down ci-1 --force",
		},
		{
			name: "the API cannot with force either: the same is no advice by itself", world: world{vms: []deploy.VMRef{mine}, stuck: true}, force: true,
			want: []string{"save down running", "foreign?", "remaining?", "tofu destroy", "warnings", "remaining?", "api destroy", "remaining?", "save down failed"},
			leak: "delete succeeded but the VM still exists", hint: "see in this run's evidence, and in the tasks of Proxmox VE, what stands in the way\nthen: hive-test down ci-1 --force",
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := tc.world
			job := w.job(t)
			job.Force, job.KeepResults = tc.force, tc.results
			err := Down(job).Run(t.Context())
			if len(w.vms) > 0 && w.vms[0].Lock != "" { // how often it is looked at, while it is locked, does not matter
				w.done = slices.DeleteFunc(w.done, func(what string) bool { return what == "remaining?" })
			}
			if !slices.Equal(w.done, tc.want) {
				t.Errorf("%s: did  %q\nwant %q", tc.name, w.done, tc.want)
			}
			if !strings.Contains(progress.HintOf(err), tc.hint) {
				t.Errorf("%s: the hint is %q", tc.name, progress.HintOf(err))
			}
			leak, isLeak := errors.AsType[*deploy.LeakError](err)
			switch {
			case tc.leak == "" && err != nil:
				t.Errorf("unexpected error: %v", err)
			case tc.leak != "" && (!isLeak || !strings.Contains(err.Error(), tc.leak)):
				t.Errorf("got %v, want a LeakError that names %q", err, tc.leak)
			case tc.leak != "" && !strings.Contains(leak.Hint(), "hive-test down ci-1"):
				t.Errorf("the hint %q names no command", leak.Hint())
			}
			if tc.leak == "" && tc.world.vms != nil && len(w.swept) != 1 {
				t.Errorf("%s: swept up after %v", tc.name, w.swept)
			}
			if w.removed != (tc.leak == "") {
				t.Errorf("directory removed: %v", w.removed)
			}
		})
	}
}

func TestUpNeverRunsTofuOverAForeignVM(t *testing.T) {
	w := &world{foreign: errors.New("VM 20000 is theirs")}
	job := w.job(t)
	job.Record.SSHKeyPath = filepath.Join(t.TempDir(), "key")
	if err := remote.GenerateKey(job.Record.SSHKeyPath); err != nil {
		t.Fatal(err)
	}
	err := Up(job).Run(t.Context())
	if err == nil || slices.Contains(w.done, "tofu apply") {
		t.Errorf("did %q, error %v", w.done, err)
	}
	if w.done[0] != "save up running" {
		t.Errorf("the intent was not saved before the act: %q", w.done)
	}
}

// What Proxmox VE may still be making when tofu was killed is not taken for gone: it is waited for, where there is the
// time, and the next down still knows.
func TestWhatAKilledApplyMayStillMake(t *testing.T) {
	killed := fmt.Errorf("tofu apply: %w", deploy.ErrKilled)
	for name, tc := range map[string]struct {
		vms   []deploy.VMRef
		late  int // it appears when it is looked for that often
		ends  error
		limit time.Duration // of down
		waits bool
		leak  bool
	}{
		"killed, and nothing appears":              {ends: killed, waits: true},
		"killed, and there is no time to wait":     {ends: killed, limit: 30 * time.Second, leak: true},
		"killed, and the VM appears at once":       {vms: []deploy.VMRef{mine}, ends: killed},
		"killed, and the VM appears after a while": {late: 8, ends: killed},
		"ended by itself, and nothing made":        {ends: errors.New("tofu apply: no")},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := &world{vms: tc.vms, upFails: tc.ends, late: tc.late}
			job := w.job(t)
			job.Record.Phases = map[cluster.Phase]cluster.PhaseRecord{}
			job.Record.SSHKeyPath = filepath.Join(t.TempDir(), "key")
			if err := remote.GenerateKey(job.Record.SSHKeyPath); err != nil {
				t.Fatal(err)
			}
			list := Full(job, KeepNever)
			list[len(list)-1].Timeout = tc.limit
			began := time.Now()
			outcomes, err := (&phase.Manager{Phases: list}).Run(t.Context())
			down := outcomes[len(outcomes)-1]
			if !errors.Is(err, tc.ends) || down.Name != "down" {
				t.Fatalf("%s: got %v, %+v", name, err, down)
			}
			leak, isLeak := errors.AsType[*deploy.LeakError](down.Err)
			if isLeak != tc.leak || w.removed == tc.leak {
				t.Errorf("%s: down ended with %v, directory removed: %v", name, down.Err, w.removed)
			}
			if tc.leak && (!strings.Contains(leak.Error(), "may appear yet") || leak.Hint() != "wait a minute\nthen: hive-test down ci-1") {
				t.Errorf("%s: %q, hint %q", name, leak, leak.Hint())
			}
			if took := time.Since(began); (took >= settleTime) != tc.waits {
				t.Errorf("%s: it took %s", name, took)
			}
			if tc.late > 0 && !slices.Contains(w.done, "api destroy") {
				t.Errorf("%s: did %q", name, w.done)
			}
			if tc.leak { // the next run has nothing but the record
				again := w.job(t)
				again.Record = w.saved.Clone()
				w.late = 5
				if err := Down(again).Run(t.Context()); err != nil || !w.removed || !slices.Contains(w.done, "api destroy") {
					t.Errorf("%s: the next down: %v, did %q", name, err, w.done)
				}
			}
		})
	}
}

func TestKeepPolicies(t *testing.T) {
	for _, tc := range []struct {
		keep   Keep
		fails  bool
		want   progress.Status
		reason string
	}{
		{KeepNever, false, progress.Passed, ""},
		{KeepNever, true, progress.Passed, ""},
		{KeepOnFailure, false, progress.Passed, ""},
		{KeepOnFailure, true, progress.Skipped, "hive-test down ci-1"},
		{KeepAlways, false, progress.Skipped, "hive-test down ci-1"},
		{KeepAlways, true, progress.Skipped, "hive-test down ci-1"},
	} {
		w := &world{}
		job := w.job(t)
		ending := &teardown{down: down{Job: job}, keep: tc.keep}
		first := phase.New("test", func(context.Context) error {
			if tc.fails {
				return errors.New("no")
			}
			return nil
		})
		manager := &phase.Manager{Phases: []phase.Entry{{Phase: trackFailure{first, ending}}, {Phase: ending, Always: true}}}
		outcomes, _ := manager.Run(t.Context())
		last := outcomes[len(outcomes)-1]
		if last.Status != tc.want || !strings.Contains(last.Reason, tc.reason) {
			t.Errorf("--keep %s, failed %v: down %s (%q), want %s", tc.keep, tc.fails, last.Status, last.Reason, tc.want)
		}
	}
}

// What reap, too, calls: the same end without a directory and without tofu.
func TestDestroy(t *testing.T) {
	w := &world{vms: []deploy.VMRef{mine}}
	d := destroyer{deploy: deploy.Of(w), record: w.job(t).Record}
	if err := d.run(t.Context(), progress.Discard); err != nil {
		t.Fatal(err)
	}
	want := []string{"foreign?", "remaining?", "remaining?", "api destroy", "remaining?", "foreign?", "sweep"}
	if !slices.Equal(w.done, want) || len(w.swept) != 1 {
		t.Errorf("did %q, swept %v", w.done, w.swept)
	}
}

// hostsOf is a job's deployer that can do no more than a deployer must: its machines were there.
func hostsOf(r *Job) deploy.Capable {
	return deploy.Of(struct{ deploy.Deployer }{r.Deploy.Deployer})
}
