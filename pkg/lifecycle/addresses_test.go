package lifecycle

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/progress"
	"hive-test/pkg/remote"
)

// at is a node, or what its agent tells, with a management and a data address; empty: none.
func at(management, data string) (netip.Addr, netip.Addr) {
	m, _ := netip.ParseAddr(management)
	d, _ := netip.ParseAddr(data)
	return m, d
}

func TestMoved(t *testing.T) {
	for _, tc := range []struct {
		name           string
		recorded, told [2]string
		static         string
		want           string // the addresses that it has moved to; empty: it has not moved
	}{
		{"where it was", [2]string{"10.0.0.1", "10.1.0.1"}, [2]string{"10.0.0.1", "10.1.0.1"}, "", ""},
		{"both NICs", [2]string{"10.0.0.1", "10.1.0.1"}, [2]string{"10.0.0.2", "10.1.0.2"}, "", "10.0.0.2 10.1.0.2"},
		{"one NIC", [2]string{"10.0.0.1", "10.1.0.1"}, [2]string{"10.0.0.1", "10.1.0.2"}, "", "10.0.0.1 10.1.0.2"},
		{"an agent that is silent", [2]string{"10.0.0.1", "10.1.0.1"}, [2]string{"", ""}, "", ""},
		{"a NIC without an address yet", [2]string{"10.0.0.1", "10.1.0.1"}, [2]string{"10.0.0.2", ""}, "", "10.0.0.2 10.1.0.1"},
		{"IPv6 alone, while it boots", [2]string{"10.0.0.1", "10.1.0.1"}, [2]string{"fd00::1", "fd01::1"}, "", ""},
		{"IPv6 for IPv6", [2]string{"fd00::1", "10.1.0.1"}, [2]string{"fd00::2", "10.1.0.1"}, "", "fd00::2 10.1.0.1"},
		{"static", [2]string{"10.0.0.1", "10.1.0.1"}, [2]string{"10.0.0.2", "10.1.0.1"}, "10.0.0.1/24", ""},
		{"not found yet", [2]string{"10.0.0.1", ""}, [2]string{"10.0.0.2", "10.1.0.2"}, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			node, power := cluster.Node{Name: "ci-1-1"}, deploy.Power{}
			node.Management, node.Data = at(tc.recorded[0], tc.recorded[1])
			node.StaticManagement, _ = netip.ParsePrefix(tc.static)
			power.Management, power.Data = at(tc.told[0], tc.told[1])
			got := ""
			for _, m := range moved(cluster.Nodes{node}, []deploy.Power{power}) {
				got = m.To.Management.String() + " " + m.To.Data.String()
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestFollow(t *testing.T) {
	held := errors.New("another run holds the cluster")
	for _, tc := range []struct {
		name    string
		told    [2]string // what the first of two nodes tells
		hold    error
		other   bool // the cluster was changed by another run before the lock was had
		want    []string
		warning string
	}{
		{"written down", [2]string{"10.0.0.9", "10.1.0.9"}, nil, false, []string{"hold", "save up done", "inventory", "write ssh_config", "write env.sh", "release"}, ""},
		{"another run holds the cluster", [2]string{"10.0.0.9", "10.1.0.9"}, held, false, []string{"hold"}, held.Error()},
		{"another run has changed the cluster", [2]string{"10.0.0.9", "10.1.0.9"}, nil, true, []string{"hold", "release"}, "meanwhile"},
		{"an address of another node", [2]string{"10.0.0.2", "10.1.0.9"}, nil, false, []string{"hold", "release"}, "ci-1-1 and ci-1-2 both report address 10.0.0.2"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Chdir(t.TempDir()) // where the store of these tests is
			w := &world{}
			job := w.job(t)
			first, second := cluster.Node{
				Name: "ci-1-1", Index: 1, Placement: placement.VM{VMID: 20000}.Document(),
			}, cluster.Node{Name: "ci-1-2", Index: 2, Placement: placement.VM{VMID: 20001}.Document()}
			first.Management, first.Data = at("10.0.0.1", "10.1.0.1")
			second.Management, second.Data = at("10.0.0.2", "10.1.0.2")
			job.Record.Nodes = cluster.Nodes{first, second}
			w.saved = job.Record.Clone()
			if tc.other {
				w.saved.Nodes = w.saved.Nodes[:1]
			}
			job.Hold = func() (func(), error) {
				w.log("hold")
				return func() { w.log("release") }, tc.hold
			}
			var said progress.Memory
			job.Sink = &said
			told := deploy.Power{}
			told.Management, told.Data = at(tc.told[0], tc.told[1])
			moves := moved(job.Record.Nodes, []deploy.Power{told})
			if written := job.follow(t.Context(), moves); written != (tc.warning == "") {
				t.Errorf("written: %v", written)
			}
			if diff := cmp.Diff(tc.want, w.done); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			want := tc.told[0]
			if tc.warning != "" {
				want = "10.0.0.1"
			}
			if got := w.saved.Nodes[0].Management.String(); got != want {
				t.Errorf("the record says %s, want %s", got, want)
			}
			if says := func(e progress.Event) bool { return strings.Contains(e.Message, tc.warning) }; !slices.ContainsFunc(said.Events(), says) {
				t.Errorf("no warning says %q: %v", tc.warning, said.Events())
			}
			if _, err := os.Stat(w.Path("ci-1", knownHostsFile)); (err == nil) != (tc.warning == "") {
				t.Errorf("the host keys: %v", err)
			}
		})
	}
}

// silent is an SSH server's address that takes connections and says nothing, as it looks where a node was before DHCP
// moved it, or before it died.
func silent(t *testing.T) netip.AddrPort {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return netip.MustParseAddrPort(listener.Addr().String())
}

// dialling makes a job dial its nodes really.
func dialling(t *testing.T, job *Job) {
	t.Helper()
	dir := t.TempDir()
	key := filepath.Join(dir, "key")
	if err := remote.GenerateKey(key); err != nil {
		t.Fatal(err)
	}
	job.Dial = func(*cluster.Record) (Remote, error) {
		return remote.NewDialer(remote.Config{
			User: "nobody", KeyPath: key, KnownHosts: filepath.Join(dir, "known_hosts"),
		})
	}
	t.Cleanup(func() { _ = job.Close() })
}

// A node that DHCP has moved, or that is dead, is waited for no longer than it takes to ask its hypervisor.
func TestWhatIsNotThereIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	there := netip.MustParseAddr("127.0.0.2") // nothing listens there
	for _, tc := range []struct {
		name  string
		power deploy.Power
		now   netip.Addr
		says  string
	}{
		{"moved", deploy.Power{Power: "running", Management: there}, there, "connection refused"},
		{"dead", deploy.Power{Power: "stopped"}, netip.MustParseAddr("127.0.0.1"), "its VM is stopped"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := &world{path: t.TempDir()}
			job := w.job(t)
			dialling(t, job)
			old := silent(t)
			node := &job.Record.Nodes[0]
			node.Management, node.Data, node.SSHPort = old.Addr(), netip.MustParseAddr("10.1.0.1"), int(old.Port())
			job.Deploy = deploy.Of(slow{world: w, tell: map[string]deploy.Power{node.Name: tc.power}})
			began := time.Now()
			group, failures, err := Reach(t.Context(), job)
			if err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > remote.DefaultConnectTimeout/2 {
				t.Errorf("it took %s", took)
			}
			if got := group[0].Node().Management; got != tc.now {
				t.Errorf("it was reached for at %s, not %s", got, tc.now)
			}
			if failures[0] == nil || !strings.Contains(failures[0].Error(), tc.says) {
				t.Errorf("got %v, which does not say %q", failures[0], tc.says)
			}
		})
	}
}

// Whether a cluster is configured already, and healthy while suites run, is known without the time that a dead node
// would take.
func TestADeadNodeIsKnownNotToBeHealthy(t *testing.T) {
	t.Parallel()
	w := &world{path: t.TempDir()}
	job := w.job(t)
	dialling(t, job)
	node := &job.Record.Nodes[0]
	old := silent(t)
	node.Management, node.Data, node.SSHPort = old.Addr(), netip.MustParseAddr("10.1.0.1"), int(old.Port())
	job.Deploy = deploy.Of(slow{world: w, tell: map[string]deploy.Power{node.Name: {Power: "stopped"}}})
	job.Hive.Binary = filepath.Join(t.TempDir(), "hive")
	if err := os.WriteFile(job.Hive.Binary, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	c := &configure{Job: job, machines: []deploy.Machine{{ID: "m"}}}
	inputs, err := c.wanted()
	if err != nil || inputs == "" {
		t.Fatalf("the inputs are %q, %v", inputs, err)
	}
	job.Record.Begin(cluster.PhaseConfigure, inputs, time.Now())
	job.Record.End(cluster.PhaseConfigure, nil, time.Now())
	handle, err := job.hive(job.Sink)
	if err != nil {
		t.Fatal(err)
	}
	l := &lossMonitor{Job: job, sink: job.Sink, handle: handle}
	began := time.Now()
	if _, skip, err := c.Skip(t.Context()); skip || err != nil {
		t.Errorf("skipped: %v, %v", skip, err)
	}
	if l.check(t.Context()).Formed {
		t.Error("it is taken for healthy")
	}
	if took := time.Since(began); took > remote.DefaultConnectTimeout/2 {
		t.Errorf("it took %s", took)
	}
}
