package lifecycle

import (
	"errors"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hive-test/pkg/cluster"
	"hive-test/pkg/progress"
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
			node, power := cluster.Node{Name: "ci-1-1"}, Power{}
			node.Management, node.Data = at(tc.recorded[0], tc.recorded[1])
			node.StaticManagement, _ = netip.ParsePrefix(tc.static)
			power.Management, power.Data = at(tc.told[0], tc.told[1])
			got := ""
			for _, m := range moved(cluster.Nodes{node}, []Power{power}) {
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
			first, second := cluster.Node{Name: "ci-1-1", Index: 1, VMID: 20000}, cluster.Node{Name: "ci-1-2", Index: 2, VMID: 20001}
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
			told := Power{}
			told.Management, told.Data = at(tc.told[0], tc.told[1])
			moves := moved(job.Record.Nodes, []Power{told})
			if written := job.follow(moves); written != (tc.warning == "") {
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
