package state

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/placement"
)

func sample(name cluster.Name) *cluster.Record {
	return &cluster.Record{
		Schema: cluster.RecordSchema, Name: name,
		Owner: cluster.Owner{
			ID: "0b6ad1a2", User: "u", Host: "h", Created: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		},
		Spec:  cluster.Spec{Deployer: deploy.Proxmox, NodeCount: 1},
		Nodes: cluster.Nodes{{Name: name.Node(1), Index: 1, Placement: placement.VM{VMID: 20001}.Document()}},
	}
}

func open(t *testing.T) *Store {
	t.Helper()
	store, err := Open(filepath.Join(t.TempDir(), "clusters"))
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func TestRecordSurvives(t *testing.T) {
	store := open(t)
	want := sample("ci-1")
	want.Begin(cluster.PhaseUp, "abc", time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	if err := store.Save(want); err != nil {
		t.Fatal(err)
	}
	got, err := store.Load("ci-1")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b cluster.Node) bool { return a == b })); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
	info, err := os.Stat(store.Path("ci-1", "cluster.json"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("cluster.json: %v, %v; want mode 0600", info.Mode(), err)
	}
}

func TestLoadSaysWhatIsWrong(t *testing.T) {
	whole := `{"schema":1,"name":"ci-1","owner":{"id":"x"},"spec":{"deployer":"proxmox","node_count":1},"nodes":[{"name":"ci-1-1","index":1}]}`
	for _, tc := range []struct{ name, content, want string }{
		{"empty", "", "damaged"},
		{"truncated", whole[:40], "damaged"},
		{"another cluster's", strings.Replace(whole, "ci-1", "ci-2", 1), `"ci-2"`},
		{"an earlier schema", strings.Replace(whole, `"schema":1`, `"schema":0`, 1), "its schema is 0"},
		{"a name that is a path", strings.Replace(whole, `"ci-1-1"`, `"../ci-1-1"`, 1), "is not valid"},
		{"a name with a line of its own", strings.Replace(whole, `"ci-1-1"`, `"x\n    ProxyCommand y"`, 1), "is not valid"},
		{"a hypervisor that is a path", strings.Replace(whole, `"index":1`, `"index":1,"hypervisor":"../access"`, 1), "is not valid"},
		{"an address with a line of its own", strings.Replace(whole, `"index":1`, `"index":1,"management":"fe80::1%x\ny"`, 1), "zone"},
		{"a user with a line of its own", strings.Replace(whole, `"proxmox"`, `"existing","ssh_user":"x\ny"`, 1), "no user name"},
		{"a jump host with a line of its own", strings.Replace(whole, `"nodes"`, `"proxy_jump":[{"user":"u","host":"x\ny"}],"nodes"`, 1), "proxy_jump"},
		{"no owner", strings.Replace(whole, `"id":"x"`, `"id":""`, 1), "no owner id"},
		{"no nodes", regexp.MustCompile(`"nodes":\[[^\]]*\]`).ReplaceAllString(whole, `"nodes":[]`), "names no node"},
		{"nodes out of order", strings.Replace(whole, `"index":1`, `"index":2`, 1), "has index 2"},
		{"no number of nodes", strings.Replace(whole, `"node_count":1`, `"node_count":0`, 1), "node_count is 0, and not between 1 and 10"},
		{"too many nodes", strings.Replace(whole, `"node_count":1`, `"node_count":11`, 1), "node_count is 11"},
		{"unknown deployer", strings.Replace(whole, "proxmox", "abacus", 1), "abacus"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			store := open(t)
			if err := store.Write("ci-1", "cluster.json", []byte(tc.content)); err != nil {
				t.Fatal(err)
			}
			_, err := store.Load("ci-1")
			if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v; want ErrCorrupt with %q", err, tc.want)
			}
			if left, _ := os.ReadFile(store.Path("ci-1", "cluster.json")); string(left) != tc.content {
				t.Errorf("the damaged file was changed to %q", left)
			}
			bad := new(cluster.Record)
			if json.Unmarshal([]byte(tc.content), bad) == nil && len(bad.Validate()) > 0 && store.Save(bad) == nil {
				t.Error("it can be written")
			}
		})
	}
	for _, file := range []string{
		"terraform.tfstate", "terraform.tfvars.json", "cluster.json.bak", "cluster.json/in-the-way",
	} {
		store := open(t)
		if err := store.Write("ci-1", file, []byte(whole)); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Load("ci-1"); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "cluster.json") {
			t.Errorf("%s without a record: got %v, want ErrCorrupt", file, err)
		}
		if names, err := store.List(); err != nil || len(names) != 1 {
			t.Errorf("%s without a record: the list is %v, %v", file, names, err)
		}
		spare, err := store.Backup("ci-1")
		if has := file == "cluster.json.bak"; has != (err == nil) || has && spare.Name != "ci-1" ||
			!has && !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: the spare record is %v, %v", file, spare, err)
		}
	}
	if _, err := open(t).Load("nope"); !errors.Is(err, ErrNotFound) {
		t.Errorf("a missing cluster: got %v, want ErrNotFound", err)
	}
}

// A record of a later program is not damaged, whatever has become of its shape: it says who reads it.
func TestARecordOfALaterProgram(t *testing.T) {
	store := open(t)
	store.Version = "v1.2"
	if err := store.Save(sample("ci-1")); err != nil {
		t.Fatal(err)
	}
	if raw, err := os.ReadFile(store.Path("ci-1", "cluster.json")); err != nil ||
		!strings.Contains(string(raw), `"version": "v1.2"`) {
		t.Errorf("%s, %v", raw, err)
	}
	for content, want := range map[string]string{
		`{"schema":9,"version":"v3.0","nodes":{"a":1}}`: "hive-test v3.0",
		`{"schema":9,"name":["x"]}`:                     "a later hive-test",
	} {
		if err := store.Write("ci-1", "cluster.json", []byte(content)); err != nil {
			t.Fatal(err)
		}
		_, err := store.Load("ci-1")
		newer, ok := errors.AsType[*NewerError](err)
		if !ok || errors.Is(err, ErrCorrupt) || !strings.Contains(newer.Error(), want+": its schema is 9") ||
			!strings.HasSuffix(newer.Hint(), want) {
			t.Errorf("%s: %v", content, err)
		}
	}
}

// What a run that is killed leaves of the file at any byte is read as a whole record, or refused with the spare copy
// there: never as half of one.
func TestARecordIsReadAfterACrashAtAnyByte(t *testing.T) {
	store := open(t)
	record := sample("ci-1")
	record.Begin(cluster.PhaseConfigure, "abc", time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	record.SetProgress(cluster.PhaseConfigure, "ci-1-1", cluster.NodeProgress{
		Step: "install", Status: cluster.PhaseRunning, Inputs: map[string]string{"cloud-init": "1"}, Machine: "one",
	})
	if err := store.Save(record); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(store.Path("ci-1", "cluster.json"))
	if err != nil {
		t.Fatal(err)
	}
	same := cmp.Comparer(func(a, b cluster.Node) bool { return a == b })
	for length := range len(whole) + 1 {
		if err := os.WriteFile(store.Path("ci-1", "cluster.json"), whole[:length], 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := store.Load("ci-1")
		if err != nil && !errors.Is(err, ErrCorrupt) {
			t.Fatalf("%d bytes: %v is no ErrCorrupt", length, err)
		}
		if err == nil {
			if diff := cmp.Diff(record, got, same); diff != "" {
				t.Fatalf("%d bytes are read as half a record:\n%s", length, diff)
			}
			continue
		}
		if length >= len(whole)-1 {
			t.Fatalf("%d bytes: %v", length, err)
		}
		spare, err := store.Backup("ci-1")
		if diff := cmp.Diff(record, spare, same); err != nil || diff != "" {
			t.Fatalf("%d bytes: the spare copy: %v\n%s", length, err, diff)
		}
	}
	// Atomic writing leaves a half file beside the record at most.
	if err := os.WriteFile(filepath.Join(store.Dir("ci-1"), ".cluster.json123"), whole[:20], 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := store.Load("ci-1"); err != nil || got.Owner.ID != record.Owner.ID {
		t.Errorf("with a half file beside it: %v", err)
	}
}

// Records of earlier releases, which knew nothing of nodes, are read.
func TestRecordsOfEarlierReleasesAreRead(t *testing.T) {
	store := open(t)
	raw, err := os.ReadFile(filepath.Join("testdata", "cluster-schema-1.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Write("ci-1", "cluster.json", raw); err != nil {
		t.Fatal(err)
	}
	record, err := store.Load("ci-1")
	if err != nil {
		t.Fatal(err)
	}
	if !record.Done(cluster.PhaseConfigure, "80acd6ef1e4b6c43") || len(record.Nodes) != 2 ||
		record.Phases[cluster.PhaseConfigure].Nodes != nil {
		t.Errorf("%+v", record)
	}
	copied := record.Clone()
	record.SetProgress(cluster.PhaseConfigure, "ci-1-2", cluster.NodeProgress{
		Step: "install", Status: cluster.PhaseDone,
	})
	if len(copied.Phases[cluster.PhaseConfigure].Nodes) != 0 {
		t.Error("what is noted in a record is in its copies")
	}
	if err := store.Save(record); err != nil {
		t.Fatal(err)
	}
	if again, err := store.Load("ci-1"); err != nil ||
		again.Phases[cluster.PhaseConfigure].Nodes["ci-1-2"].Step != "install" ||
		!again.Phases[cluster.PhaseConfigure].Started.Equal(copied.Phases[cluster.PhaseConfigure].Started) {
		t.Errorf("%+v, %v", again, err)
	}
}

func TestLockNamesItsHolder(t *testing.T) {
	store := open(t)
	holder := Holder{PID: 4242, Host: "here", Command: "hive-test test ci-1", Started: time.Now()}
	lock, err := store.Lock("ci-1", holder)
	if err != nil {
		t.Fatal(err)
	}
	_, err = store.Lock("ci-1", Holder{PID: 1})
	locked, ok := errors.AsType[*LockedError](err)
	if !ok || locked.Holder.PID != 4242 || !strings.Contains(err.Error(), "hive-test test ci-1") {
		t.Fatalf("second lock: got %v, want a LockedError that names pid 4242 and its command", err)
	}
	if other, err := store.Lock("ci-2", holder); err != nil {
		t.Errorf("another cluster is not held: %v", err)
	} else if err := other.Release(); err != nil {
		t.Error(err)
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(store.Dir("ci-1")); !os.IsNotExist(err) {
		t.Errorf("a directory in which nothing was made stays behind: %v", err)
	}
	if got, life := store.Holder("ci-1"); got.PID != 0 || life != Nobody {
		t.Errorf("a released lock still has holder %+v %s", got, life)
	}
}

func TestLockSurvivesRemovalByItsHolder(t *testing.T) {
	store := open(t)
	if err := store.Save(sample("ci-1")); err != nil {
		t.Fatal(err)
	}
	first, err := store.Lock("ci-1", Holder{PID: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Remove("ci-1"); err != nil {
		t.Fatal(err)
	}
	second, err := store.Lock("ci-1", Holder{PID: 2})
	if err != nil {
		t.Fatalf("a new cluster of the same name is not held by the old one's lock: %v", err)
	}
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
	if got, life := store.Holder("ci-1"); got.PID != 2 || life != Alive {
		t.Errorf("holder is %+v after the old lock's release, want pid 2", got)
	}
	if err := second.Release(); err != nil {
		t.Fatal(err)
	}
}

func TestListSkipsWhatIsNoCluster(t *testing.T) {
	store := open(t)
	for _, name := range []cluster.Name{"b", "a"} {
		if err := store.Save(sample(name)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := store.NewRun("a", "up", time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(store.Root(), "not a name"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(store.Root(), "c"), 0o700); err != nil { // its record cannot be looked at
		t.Fatal(err)
	}
	if err := os.Symlink("cluster.json", store.Path("c", "cluster.json")); err != nil {
		t.Fatal(err)
	}
	got, err := store.List()
	if diff := cmp.Diff([]cluster.Name{"a", "b", "c"}, got); diff != "" || err != nil {
		t.Errorf("list (-want +got):\n%s%v", diff, err)
	}
}

func TestTheClustersOwnKeyIsFoundWhereItsDirectoryIsNow(t *testing.T) {
	tests := map[string]struct {
		key     func(store *Store) string
		follows bool
	}{
		"its own":      {func(store *Store) string { return store.Path("a", "id_ed25519") }, true},
		"the user's":   {func(*Store) string { return "/nowhere/.ssh/id_ed25519" }, false},
		"another file": {func(store *Store) string { return store.Path("a", "id_rsa") }, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			store := open(t)
			record := sample("a")
			record.SSHKeyPath = test.key(store)
			if err := store.Save(record); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(store.Path("a", "id_ed25519"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			moved := filepath.Join(t.TempDir(), "moved")
			if err := os.Rename(store.Root(), moved); err != nil {
				t.Fatal(err)
			}
			store, err := Open(moved)
			if err != nil {
				t.Fatal(err)
			}
			want := record.SSHKeyPath
			if test.follows {
				want = store.Path("a", "id_ed25519")
			}
			for what, load := range map[string]func(cluster.Name) (*cluster.Record, error){
				"record": store.Load, "spare": store.Backup,
			} {
				if got, err := load("a"); err != nil || got.SSHKeyPath != want {
					t.Errorf("%s: got %v, %v, want %s", what, got, err, want)
				}
			}
		})
	}
}

func TestRunsOutliveTheCluster(t *testing.T) {
	store := open(t)
	if err := store.Save(sample("a")); err != nil {
		t.Fatal(err)
	}
	dirs, now := map[string]bool{}, time.Now()
	for range 3 { // in one millisecond
		run, err := store.NewRun("a", "full", now)
		if err != nil {
			t.Fatal(err)
		}
		dirs[run.Dir] = true
	}
	if len(dirs) != 3 {
		t.Errorf("three runs have the directories %v", dirs)
	}
	run, err := store.NewRun("a", "down", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Write("nodes/a-1/log", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := store.Remove("a"); err != nil {
		t.Fatal(err)
	}
	latest := filepath.Join(store.Root(), ".runs", "a", "latest")
	if got, err := os.Readlink(latest); err != nil || got != filepath.Base(run.Dir) {
		t.Errorf("latest is %s (%v), want %s", got, err, filepath.Base(run.Dir))
	}
	if ignored, _ := os.ReadFile(filepath.Join(store.Root(), ".gitignore")); string(ignored) != "*\n" {
		t.Errorf("the clusters directory does not ignore itself: %q", ignored)
	}
}

func TestResultsAreCopiedWhateverSuitesLeave(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "kept")
	if err := os.MkdirAll(filepath.Join(from, "e2e", "deep"), 0o700); err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string]string{"e2e/output.log": "said", "e2e/deep/junit.xml": "<x/>"} {
		if err := os.WriteFile(filepath.Join(from, file), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(
		os.Symlink("/", filepath.Join(from, "e2e", "root")), os.Symlink("loop", filepath.Join(from, "e2e", "loop")),
	); err != nil {
		t.Fatal(err)
	}
	socket, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(from, "s")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = socket.Close() }()
	if err := CopyTo(from, to); err != nil {
		t.Fatal(err)
	}
	var got []string
	err = filepath.WalkDir(to, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			got = append(got, strings.TrimPrefix(path, to+"/"))
		}
		return err
	})
	if diff := cmp.Diff([]string{"e2e/deep/junit.xml", "e2e/output.log"}, got); diff != "" || err != nil {
		t.Errorf("copied (-want +got):\n%s%v", diff, err)
	}
	if raw, _ := os.ReadFile(filepath.Join(to, "e2e/output.log")); string(raw) != "said" {
		t.Errorf("the copy is %q", raw)
	}
}
