package fault

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"hive-test/pkg/cluster"
	"hive-test/pkg/remote"
)

// host answers scripts with what it says, by their names.
type host struct {
	name  string
	says  map[string]string
	fails map[string]error
	ran   []string
}

func (h *host) Name() string       { return h.name }
func (h *host) Node() cluster.Node { return cluster.Node{Name: h.name} }

func (h *host) Run(_ context.Context, cmd remote.Command) (remote.Result, error) {
	name := strings.TrimPrefix(cmd.Name, "fault ")
	h.ran = append(h.ran, name)
	return remote.Result{Stdout: []byte(h.says[name])}, h.fails[name]
}

func request(t *testing.T, text string, hosts ...*host) Request {
	t.Helper()
	spec, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	r := Request{ID: "1-x", Spec: spec, For: DefaultTime, Cluster: "dev1"}
	for _, h := range hosts {
		r.Nodes, r.All = append(r.Nodes, h), append(r.All, h.Node())
	}
	return r
}

// Nodes that share a kernel, with one another or with this machine, share its clock: it is stepped on none of them.
func TestSharedClocksAreNotStepped(t *testing.T) {
	for text, says := range map[string][]string{
		"n2: its clock is that of n1, too":      {"kernel a\n", "kernel a\n"},
		"n1: its clock is that of this machine": {"kernel " + ownKernel() + "\n", "kernel b\n"},
	} {
		one := &host{name: "n1", says: map[string]string{"check": says[0]}}
		two := &host{name: "n2", says: map[string]string{"check": says[1]}}
		err := Apply(t.Context(), request(t, "clock:+1h", one, two))
		if _, refused := errors.AsType[*RefusedError](err); !refused || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want %q", err, text)
		}
		if len(one.ran) != 1 || len(two.ran) != 1 {
			t.Errorf("they ran %v and %v", one.ran, two.ran)
		}
	}
	one := &host{name: "n1", says: map[string]string{"check": "kernel a\n"}}
	two := &host{name: "n2", says: map[string]string{"check": "kernel b\n"}}
	if err := Apply(t.Context(), request(t, "clock:+1h", one, two)); err != nil || len(one.ran) != 2 {
		t.Errorf("nodes of their own: %v, ran %v", err, one.ran)
	}
}

// What fails on one node is healed on all; what is refused by one is done on none, and told with what installs it.
func TestAllOrNone(t *testing.T) {
	one := &host{name: "n1"}
	two := &host{name: "n2", fails: map[string]error{"apply": errors.New("n2: no")}}
	err := Apply(t.Context(), request(t, "disk:/x", one, two))
	if err == nil || strings.Join(one.ran, " ") != "check apply heal-now" || strings.Join(two.ran, " ") != "check apply heal-now" {
		t.Errorf("%v, ran %v and %v", err, one.ran, two.ran)
	}
	one = &host{name: "n1", says: map[string]string{"check": "lacks nftables\nproblem no\n"}}
	two = &host{name: "n2", says: map[string]string{"check": "lacks iproute2\nlacks nftables\n"}}
	err = Apply(t.Context(), request(t, "wan", one, two))
	refused, ok := errors.AsType[*RefusedError](err)
	if !ok || len(one.ran) != 1 {
		t.Fatalf("%v, ran %v", err, one.ran)
	}
	const text = "n1, n2: it needs nftables; n1: no; n2: it needs iproute2"
	if !strings.HasSuffix(refused.Error(), text) {
		t.Errorf("it says %q, want %q", refused, text)
	}
	const hint = "hive-test exec dev1 --nodes n1,n2 -- sudo apt-get install -y nftables iproute2"
	if refused.Hint() != hint {
		t.Errorf("hint %q, want %q", refused.Hint(), hint)
	}
}

// Who is parted from whom, as each node has it.
func TestPartitionPeers(t *testing.T) {
	var all cluster.Nodes
	for i, name := range []string{"n-1", "n-2", "n-3", "n-4"} {
		all = append(all, cluster.Node{Name: name, Index: i + 1, Management: address(i + 1)})
	}
	for text, want := range map[string][]string{
		"partition:1,2|3": {"10.0.0.3", "10.0.0.3", "10.0.0.1 10.0.0.2", ""},
		"partition:n-2":   {"10.0.0.2", "10.0.0.1 10.0.0.3 10.0.0.4", "10.0.0.2", "10.0.0.2"},
		"partition:1|2|3": {"10.0.0.2 10.0.0.3", "10.0.0.1 10.0.0.3", "10.0.0.1 10.0.0.2", ""},
		"link:loss=1%":    {"10.0.0.2 10.0.0.3 10.0.0.4", "10.0.0.1 10.0.0.3 10.0.0.4", "10.0.0.1 10.0.0.2 10.0.0.4", "10.0.0.1 10.0.0.2 10.0.0.3"},
	} {
		spec, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		r := Request{Spec: spec, All: all}
		involved := 0
		for i, node := range all {
			got := strings.Join(r.peers(node), " ")
			if got != want[i] {
				t.Errorf("%s: %s has %q, want %q", text, node.Name, got, want[i])
			}
			if got != "" {
				involved++
			}
		}
		if n := len(spec.Involved(all)); spec.Kind == Partition && n != involved {
			t.Errorf("%s: %d nodes have to do with it, want %d", text, n, involved)
		}
	}
}

func address(n int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, byte(n)}) }
