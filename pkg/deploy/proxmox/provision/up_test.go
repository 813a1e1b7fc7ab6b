package provision

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/opentofu"
	"hive-test/pkg/phase"
	"hive-test/pkg/process"
	"hive-test/pkg/progress"
	module "hive-test/tofu"
)

const testToken = "tester@pve!ci=11112222-3333-4444-5555-666677778888"

// bench is one machine with one cluster directory, a mirror and a place for VMs.
type bench struct {
	t        *testing.T
	host     string // where the VMs are
	request  deploy.Request
	options  Options
	events   *progress.Memory
	provider *Provisioner
}

// eachProgram runs a test with a real tofu or terraform that this machine has; with every one, where HIVE_TEST_SOAK is set.
func eachProgram(t *testing.T, test func(t *testing.T, program string)) {
	t.Helper()
	programs := map[string]string{}
	for _, name := range []string{"tofu", "terraform"} {
		if path, err := exec.LookPath(name); err == nil {
			programs[name] = path
		}
	}
	if built, err := filepath.Abs("../../../../bin/tofu"); err == nil && programs["tofu"] == "" {
		if _, err := os.Stat(built); err == nil {
			programs["tofu"] = built
		}
	}
	if len(programs) == 0 {
		t.Skip("neither tofu nor terraform is on PATH, nor was `make tofu` run")
	}
	names := slices.Sorted(maps.Keys(programs))
	if os.Getenv("HIVE_TEST_SOAK") == "" {
		names = names[len(names)-1:] // tofu, where it is there
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, programs[name])
		})
	}
}

func newBench(t *testing.T, program string, nodes int) *bench {
	t.Helper()
	root := t.TempDir()
	b := &bench{t: t, host: filepath.Join(root, "host"), events: &progress.Memory{}}
	mirror := filepath.Join(root, "mirror")
	provider, err := providerBinary()
	if err != nil {
		t.Fatal(err)
	}
	for _, flavor := range []string{opentofu.OpenTofu, opentofu.Terraform} {
		link(
			t, provider,
			filepath.Join(providerDir(mirror, flavor), "terraform-provider-proxmox_v"+module.ProviderVersion),
		)
	}
	key := filepath.Join(root, "key")
	write(
		t, key,
		"-----BEGIN OPENSSH PRIVATE KEY-----\nc2VjcmV0LXByaXZhdGUta2V5LWJvZHk\n-----END OPENSSH PRIVATE KEY-----\n",
	)
	if err := os.MkdirAll(b.host, 0o755); err != nil {
		t.Fatal(err)
	}
	env := []string{
		"PATH=" + os.Getenv("PATH"), "TMPDIR=" + root, "HOME=" + root, "TF_VAR_cluster_name=leaked",
		"TF_CLI_CONFIG_FILE=" + filepath.Join(root, "missing"), "TF_CLI_ARGS=-bogus",
	}
	b.options = Options{
		Tofu: opentofu.Options{
			Find: opentofu.FindOptions{Explicit: program, Env: env, CacheDir: filepath.Join(root, "cache")}, Env: env,
			ProviderMirror: mirror, CacheDir: filepath.Join(root, "cache"), OwnerID: root,
			LogPath: filepath.Join(root, "tofu.log"), Sink: b.events,
		},
		Endpoint: "https://fake.invalid" + b.host, Token: testToken, SSHUser: "root", SSHPrivateKeyPath: key,
	}
	b.provider = New(b.options)
	b.request = testRequest(filepath.Join(root, "clusters", "ci-1"), nodes)
	return b
}

func providerDir(mirror, flavor string) string {
	registry := map[string]string{
		opentofu.OpenTofu: "registry.opentofu.org", opentofu.Terraform: "registry.terraform.io",
	}
	return filepath.Join(
		mirror, registry[flavor], module.ProviderSource, module.ProviderVersion, runtime.GOOS+"_"+runtime.GOARCH,
	)
}

func testRequest(dir string, nodes int) deploy.Request {
	r := deploy.Request{
		Dir: dir, Name: "ci-1", Owner: cluster.Owner{ID: "0f1e2d3c"}, Target: cluster.Target{Place: placement.Target{Pool: "ci"}.Document()},
		SSHPublicKey: "ssh-ed25519 AAAA somebody\n",
		Spec: cluster.Spec{
			Deployer: deploy.Proxmox, NodeCount: nodes, CPUCores: 2, MemoryMB: 2048, DiskSizeGB: 8,
			OSImage:          "local:iso/debian.img",
			ManagementBridge: "vmbr0", DataBridge: "vmbr1", SSHUser: "tf-user",
			Hosts: placement.Hosts([]placement.Hypervisor{
				{Name: "pve1", Address: "127.0.0.1", Port: 2201, Datastore: "fast", SnippetStore: "snips"},
				{Name: "pve2"},
			}),
		},
	}
	for i := range nodes {
		r.Nodes = append(r.Nodes, cluster.Node{
			Name: r.Name.Node(i + 1), Index: i + 1, Placement: placement.VM{VMID: 9000 + i + 1, Hypervisor: []string{"pve1", "pve2"}[i%2], ManagementMAC: fmt.Sprintf("bc:24:11:00:00:%02x", i), DataMAC: fmt.Sprintf("bc:24:11:00:01:%02x", i)}.Document(),
		})
	}
	return r
}

func (b *bench) up() deploy.Result {
	b.t.Helper()
	result, err := b.provider.Up(b.t.Context(), b.request)
	if err != nil {
		b.t.Fatalf("up: %v\n%s", err, b.log())
	}
	return result
}

func (b *bench) log() string {
	raw, _ := os.ReadFile(b.options.Tofu.LogPath)
	return string(raw)
}

// vms returns the ids of what exists on the host.
func (b *bench) vms() []string {
	b.t.Helper()
	found, err := filepath.Glob(filepath.Join(b.host, "vm-*"))
	if err != nil {
		b.t.Fatal(err)
	}
	for i := range found {
		found[i] = strings.TrimPrefix(filepath.Base(found[i]), "vm-")
	}
	return found
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestLifeOfACluster(t *testing.T) {
	eachProgram(t, func(t *testing.T, program string) {
		b := newBench(t, program, 3)
		for _, stage := range []struct {
			name string
			does func(*testing.T, *bench)
		}{
			{"a plan does nothing", onlyPlanned},
			{"up makes the VMs", made},
			{"a second up changes nothing", unchanged},
			{"what would replace or delete is refused", refused},
			{"a change that needs a restart is refused unless allowed", restarted},
			{"a node may leave", left},
			{"a provider that changes in the mirror is taken up", renewed},
			{"the check stops up and sees what vanished", vanished},
			{"down removes everything", removed},
		} {
			start := time.Now()
			if !t.Run(stage.name, func(t *testing.T) { b.t = t; stage.does(t, b) }) {
				t.Fatalf("after %q:\n%s", stage.name, b.log())
			}
			t.Logf("%-50s %.2fs", stage.name, time.Since(start).Seconds())
		}
	})
}

func onlyPlanned(t *testing.T, b *bench) {
	plan, err := b.provider.Plan(t.Context(), b.request)
	if err != nil {
		t.Fatal(err)
	}
	if got := plan.Nodes(deploy.Create); len(got) != 3 {
		t.Errorf("plan: %v", got)
	}
	if left, _ := os.ReadDir(b.host); len(left) != 0 {
		t.Errorf("made: %v", left)
	}
	if _, err := os.Stat(b.request.Dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a plan left something in the cluster's directory: %v", err)
	}
	if err := b.provider.Down(t.Context(), b.request); err != nil {
		t.Errorf("down of what was only planned: %v", err)
	}
}

func made(t *testing.T, b *bench) {
	result := b.up()
	if diff := cmp.Diff([]string{"ci-1-1", "ci-1-2", "ci-1-3"}, result.Created); diff != "" || !result.Changed {
		t.Errorf("created: %s", diff)
	}
	var vm map[string]any
	raw, err := os.ReadFile(filepath.Join(b.host, "vm-9002"))
	if err != nil || json.Unmarshal(raw, &vm) != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"name": "ci-1-2", "node": "pve2", "description": "Managed by Terraform - cluster: ci-1 - owner: 0f1e2d3c",
		"tags":   []any{"ci-1", "hive", "hive-test", "terraform"},
		"macs":   []any{"BC:24:11:00:00:01", "BC:24:11:00:01:01"},
		"memory": 2048.0, "wait_disabled": true, "pool": "ci",
	}
	if diff := cmp.Diff(want, vm); diff != "" {
		t.Errorf("VM 9002 (-want +got):\n%s", diff)
	}
	b.mustBePrivate()
	b.mustTell()
}

// mustTell checks that the events say which step ran and what happened to which node.
func (b *bench) mustTell() {
	b.t.Helper()
	steps, nodes := map[string]bool{}, map[string]bool{}
	for _, e := range b.events.Events() {
		if e.Kind == progress.StepEnd && e.Status == progress.Passed && e.Seconds > 0 {
			steps[e.Step] = true
		}
		if e.Kind == progress.Output && e.Step == "tofu apply" {
			nodes[e.Node] = true
		}
	}
	for _, step := range []string{"tofu init", "tofu plan", "tofu apply"} {
		if !steps[step] {
			b.t.Errorf("no event says that %s ended", step)
		}
	}
	if !nodes["ci-1-1"] || !nodes["ci-1-3"] {
		b.t.Errorf("no output is told to be about a node: %v", nodes)
	}
}

func unchanged(t *testing.T, b *bench) {
	again := b.up()
	if again.Changed || again.Seconds["init"] != 0 || again.Seconds["apply"] != 0 {
		t.Errorf("a second up did something: %+v", again)
	}
}

func refused(t *testing.T, b *bench) {
	kept, err := os.ReadFile(filepath.Join(b.request.Dir, "terraform.tfvars.json"))
	if err != nil {
		t.Fatal(err)
	}
	other := b.request
	other.Spec.OSImage = "local:iso/other.img"
	other.Spec.NodeCount, other.Nodes = 2, b.request.Nodes[:2]
	_, err = b.provider.Up(t.Context(), other)
	refusal, ok := errors.AsType[*deploy.RefusedError](err)
	if !ok {
		t.Fatalf("got %v", err)
	}
	var got []string
	for _, c := range refusal.Changes {
		got = append(got, string(c.Action)+" "+c.Node)
	}
	slices.Sort(got)
	if diff := cmp.Diff(
		[]string{"delete ci-1-3", "delete ci-1-3", "replace ci-1-1", "replace ci-1-2"}, got,
	); diff != "" {
		t.Errorf("refused (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"9001", "9002", "9003"}, b.vms()); diff != "" {
		t.Errorf("VMs: %s", diff)
	}
	after, err := os.ReadFile(filepath.Join(b.request.Dir, "terraform.tfvars.json"))
	if err != nil || string(after) != string(kept) {
		t.Errorf("a refused plan changed what is recorded: %v", err)
	}
}

func restarted(t *testing.T, b *bench) {
	b.request.Spec.MemoryMB = 4096
	_, err := b.provider.Up(t.Context(), b.request)
	refusal, ok := errors.AsType[*deploy.RefusedError](err)
	if !ok {
		t.Fatalf("got %v", err)
	}
	const want = "update ci-1-1 (memory 2048 -> 4096 MiB, needs a restart)"
	if len(refusal.Changes) != 3 || refusal.Changes[0].String() != want ||
		!strings.Contains(refusal.Hint(), "--allow-restart") {
		t.Errorf("refused: %v; hint: %s", refusal, refusal.Hint())
	}
	b.request.Allow.Restart = true
	if result := b.up(); !slices.Equal(result.Updated, []string{"ci-1-1", "ci-1-2", "ci-1-3"}) {
		t.Errorf("%+v", result)
	}
	b.request.Allow.Restart = false
}

func left(t *testing.T, b *bench) {
	fewer := b.request
	fewer.Spec.NodeCount, fewer.Nodes, fewer.Leaving = 2, b.request.Nodes[:2], []string{"ci-1-3"}
	result, err := b.provider.Up(t.Context(), fewer)
	if err != nil || !slices.Equal(result.Deleted, []string{"ci-1-3"}) || len(result.Updated) != 0 {
		t.Errorf("%+v %v", result, err)
	}
	if result := b.up(); !slices.Equal(result.Created, []string{"ci-1-3"}) || len(result.Updated) != 0 {
		t.Errorf("back again: %+v", result)
	}
}

func renewed(t *testing.T, b *bench) {
	for _, flavor := range []string{opentofu.OpenTofu, opentofu.Terraform} {
		write(
			t, filepath.Join(providerDir(b.options.Tofu.ProviderMirror, flavor), "README"),
			"other content, so other checksums",
		)
	}
	if result := b.up(); result.Changed || result.Seconds["init"] == 0 {
		t.Errorf("%+v", result)
	}
}

func vanished(t *testing.T, b *bench) {
	if err := os.Remove(filepath.Join(b.host, "vm-9001")); err != nil {
		t.Fatal(err)
	}
	stop := errors.New("the id is taken")
	checked := b.request
	checked.Check = func(_ context.Context, p deploy.Plan) error {
		if diff := cmp.Diff([]string{"ci-1-1"}, p.Vanished()); diff != "" {
			t.Errorf("vanished: %s", diff)
		}
		return stop
	}
	if _, err := b.provider.Up(t.Context(), checked); !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
	if diff := cmp.Diff([]string{"9002", "9003"}, b.vms()); diff != "" {
		t.Errorf("VMs: %s", diff)
	}
	write(t, filepath.Join(b.host, "vm-9001"), "back again")
}

func removed(t *testing.T, b *bench) {
	// Down needs nothing but the directory.
	if err := b.provider.Down(t.Context(), deploy.Request{Dir: b.request.Dir}); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(b.host); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	if err := b.provider.Down(t.Context(), deploy.Request{Dir: b.request.Dir}); err != nil {
		t.Errorf("a second down: %v", err)
	}
}

// mustBePrivate checks that no secret was written, and that nobody else can read what was.
func (b *bench) mustBePrivate() {
	b.t.Helper()
	for _, dir := range []string{b.request.Dir, b.options.Tofu.LogPath} {
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() || strings.Contains(path, ".terraform/") {
				return err
			}
			raw, err := os.ReadFile(path)
			for _, secret := range []string{"11112222-3333", "c2VjcmV0LXByaXZhdGUta2V5LWJvZHk"} {
				if strings.Contains(string(raw), secret) {
					b.t.Errorf("%s holds a secret", path)
				}
			}
			return err
		})
		if err != nil {
			b.t.Error(err)
		}
	}
	for _, path := range []string{"terraform.tfstate", "terraform.tfvars.json"} {
		info, err := os.Stat(filepath.Join(b.request.Dir, path))
		if err != nil || info.Mode().Perm() != 0o600 {
			b.t.Errorf("%s: %v %v", path, info.Mode(), err)
		}
	}
}

func TestTroubleWhileMaking(t *testing.T) {
	eachProgram(t, func(t *testing.T, program string) {
		b := newBench(t, program, 2)
		for _, stage := range []struct {
			name string
			does func(*testing.T, *bench)
		}{
			{"what was interrupted is recorded", interrupted},
			{"what failed is named and finished later", failed},
			{"what a kill leaves of tofu's lock is no lock", leftLock},
			{"what does not stop is killed in time, with all that it has started", deaf},
		} {
			if !t.Run(stage.name, func(t *testing.T) { b.t = t; stage.does(t, b) }) {
				t.Fatalf("after %q:\n%s", stage.name, b.log())
			}
		}
	})
}

// whenThere calls do, which is to end ctx, when a file is there, unless ctx ends before.
func whenThere(ctx context.Context, file string, do func()) {
	for ctx.Err() == nil {
		if _, err := os.Stat(file); err == nil {
			do()
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// started is there when the provider has begun to make a VM.
func (b *bench) started() string { return filepath.Join(b.host, "started") }

func interrupted(t *testing.T, b *bench) {
	slow := filepath.Join(b.host, "slow")
	write(t, slow, "")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go whenThere(ctx, b.started(), cancel)
	if _, err := b.provider.Up(ctx, b.request); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	if len(b.vms()) == 0 { // how many were begun before the interruption depends on the machine
		t.Fatal("the provider's work in hand is lost")
	}
	if err := b.provider.Down(t.Context(), b.request); err != nil || len(b.vms()) != 0 {
		t.Errorf("down: %v, left %v", err, b.vms())
	}
	if err := os.Remove(slow); err != nil {
		t.Fatal(err)
	}
}

func deaf(t *testing.T, b *bench) {
	if err := os.Remove(filepath.Join(b.host, "started")); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(b.host, "deaf")
	write(t, file, "")
	limited, cancel := phase.Limited(t.Context(), 32*time.Second, errors.New("too slow to begin"))
	defer cancel()
	ctx, stop := context.WithCancelCause(limited)
	go whenThere(ctx, b.started(), func() { stop(errors.New("stopped")) })
	_, err := b.provider.Up(ctx, b.request)
	if err == nil || !strings.Contains(err.Error(), "was killed: its state may lack what it did last (stopped)") {
		t.Errorf("got %v", err)
	}
	for _, pid := range process.All() {
		if slices.Contains(process.Environment(pid), "HIVE_TEST_OWNER="+b.options.Tofu.OwnerID) {
			t.Errorf("still at work: %v", process.Arguments(pid))
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
}

func failed(t *testing.T, b *bench) {
	bad := filepath.Join(b.host, "fail-ci-1-2")
	write(
		t, bad,
		"All attempts fail:\n#1: error creating VM: received an HTTP 403 response - Reason: Permission\ncheck failed "+
			"(/vms/9002, VM.Allocate)",
	)
	result, err := b.provider.Up(t.Context(), b.request)
	failure, ok := errors.AsType[*deploy.Failure](err)
	if !ok {
		t.Fatalf("got %v", err)
	}
	const want = "tofu apply failed: ci-1-2: VM create: error creating VM: HTTP 403 Permission check failed (/vms/9002, VM.Allocate)"
	if failure.Error() != want {
		t.Errorf("message:\n got %s\nwant %s", failure, want)
	}
	if !strings.Contains(failure.Hint(), "lacks VM.Allocate on /vms/9002") {
		t.Errorf("hint: %s", failure.Hint())
	}
	if diff := cmp.Diff([]string{"ci-1-1"}, result.Created); diff != "" {
		t.Errorf("created before it: %s", diff)
	}
	if err := os.Remove(bad); err != nil {
		t.Fatal(err)
	}
	// The half-made VM is made anew; the other is left alone.
	var checked deploy.Plan
	again := b.request
	again.Check = func(_ context.Context, p deploy.Plan) error { checked = p; return nil }
	if result, err = b.provider.Up(t.Context(), again); err != nil ||
		!slices.Equal(result.Created, []string{"ci-1-2"}) {
		t.Errorf("second up: %+v %v", result, err)
	}
	if len(checked.Changes) != 1 || !checked.Changes[0].Unfinished {
		t.Errorf("plan: %+v", checked)
	}
}

// The lock of a local state is the operating system's, which ends with the process; the file beside it only says whose
// it was.
func leftLock(t *testing.T, b *bench) {
	left := filepath.Join(b.request.Dir, ".terraform.tfstate.lock.info")
	write(
		t, left,
		`{"ID":"5d0a9c2e-1111-2222-3333-444444444444","Operation":"OperationTypeApply","Who":"somebody@elsewhere","Version":"1.12.0","Created":"2026-01-02T03:04:05Z","Path":"../terraform.tfstate"}`,
	)
	if result := b.up(); len(result.Created) != 0 {
		t.Errorf("up made %v", result.Created)
	}
	write(t, left, "{")
	if err := b.provider.Down(t.Context(), b.request); err != nil || len(b.vms()) != 0 {
		t.Errorf("down: %v, left %v", err, b.vms())
	}
	for _, text := range []string{"Lock Info", "state lock"} {
		if strings.Contains(b.log(), text) {
			t.Errorf("tofu complained of the lock: %s", b.log())
		}
	}
}

func TestClustersShareOneProvider(t *testing.T) {
	eachProgram(t, func(t *testing.T, program string) {
		b := newBench(t, program, 1)
		// A mirror that the user has configured for tofu is treated as the registry is.
		root := filepath.Dir(b.host)
		write(
			t, filepath.Join(root, ".terraformrc"),
			fmt.Sprintf("provider_installation {\n  filesystem_mirror {\n    path = %q\n  "+
				"}\n}\n", b.options.Tofu.ProviderMirror),
		)
		b.options.Tofu.ProviderMirror = ""
		b.provider = New(b.options)
		var both sync.WaitGroup
		var locks [2]string
		for i := range locks {
			both.Go(func() {
				r := b.request
				r.Dir = filepath.Join(root, "clusters", fmt.Sprint(i))
				if _, err := b.provider.Up(t.Context(), r); err != nil {
					t.Error(err)
				}
				raw, err := os.ReadFile(filepath.Join(r.Dir, "tofu", ".terraform.lock.hcl"))
				if err != nil {
					t.Error(err)
				}
				locks[i] = string(raw)
			})
		}
		both.Wait()
		kept, err := filepath.Glob(filepath.Join(b.options.Tofu.CacheDir, "providers", "*.lock.hcl"))
		if err != nil || len(kept) != 1 {
			t.Fatalf("kept %v, %v\n%s", kept, err, b.log())
		}
		raw, err := os.ReadFile(kept[0])
		if err != nil || locks[0] != string(raw) || locks[1] != string(raw) || !strings.Contains(locks[0], "h1:") {
			t.Errorf("lock files differ: %v\n%s\n%s\n%s", err, raw, locks[0], locks[1])
		}
	})
}

func TestDownOfNothingNeedsNoProgram(t *testing.T) {
	p := New(Options{})
	if err := p.Down(t.Context(), deploy.Request{Dir: filepath.Join(t.TempDir(), "never")}); err != nil {
		t.Error(err)
	}
}
