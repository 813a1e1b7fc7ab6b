package engine

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hive-test/pkg/cluster"
	"hive-test/pkg/config"
	"hive-test/pkg/target"
)

func nodes() cluster.Nodes {
	var list cluster.Nodes
	for i := range 3 {
		list = append(list, cluster.Node{
			Name: fmt.Sprintf("ci-1-%d", i+1), Index: i + 1,
			Management: netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}),
			Data:       netip.AddrFrom4([4]byte{10, 1, 0, byte(i + 1)}),
		})
	}
	return list
}

func TestChooseNodes(t *testing.T) {
	for _, tc := range []struct {
		which string
		want  []int // nil: an error
	}{
		{"", []int{1, 2, 3}},
		{"2", []int{2}},
		{"3,1", []int{3, 1}},
		{"1, 2", []int{1, 2}},
		{"2,2", []int{2}},
		{"4", nil},
		{"0", nil},
		{"x", nil},
		{"1,,2", nil},
		{"1-3", nil},
	} {
		chosen, err := listed(tc.which)(nodes())
		var got []int
		for _, n := range chosen {
			got = append(got, n.Index)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" || (err == nil) != (tc.want != nil) {
			t.Errorf("--nodes %q: %v, %v", tc.which, got, err)
		}
		if err != nil && CodeOf(t.Context(), err) != ExitUsage {
			t.Errorf("--nodes %q: %v is no usage error", tc.which, err)
		}
	}
}

// Wherever a node is meant, its number and its names mean it, and what is neither is an error that says so.
func TestNodesByNumberOrName(t *testing.T) {
	ways := map[string]func(word string) (cluster.Nodes, error){
		"ssh NAME":     func(word string) (cluster.Nodes, error) { return one(word)(nodes()) },
		"--nodes":      func(word string) (cluster.Nodes, error) { return listed(word)(nodes()) },
		"--only-nodes": func(word string) (cluster.Nodes, error) { return choose(nodes(), "--only-nodes", word) },
		"cp source":    func(word string) (cluster.Nodes, error) { return copied(word+":a", ".") },
		"cp target":    func(word string) (cluster.Nodes, error) { return copied(".", word+":") },
		"--on": func(word string) (cluster.Nodes, error) {
			s := &session{Target: &target.Target{
				Record: &cluster.Record{Nodes: nodes()}, Settings: config.Settings{SuiteOn: word},
			}}
			node, _ := nodes().Named(word) // as lifecycle finds it
			return cluster.Nodes{node}, s.checkSuites()
		},
	}
	for way, find := range ways {
		for _, word := range []string{"2", "ci-1-2", "node2"} {
			if got, err := find(word); err != nil || !slices.Equal(got.Names(), []string{"ci-1-2"}) {
				t.Errorf("%s %s: %v, %v", way, word, got.Names(), err)
			}
		}
		for _, word := range []string{"4", "0", "ci-1-22", "two"} {
			_, err := find(word)
			want := fmt.Sprintf("there is no node %q: the cluster has 3 nodes", word)
			if err == nil || !strings.Contains(err.Error(), want) || CodeOf(t.Context(), err) != ExitUsage {
				t.Errorf("%s %s: %v, want a usage error with %s", way, word, err, want)
			}
		}
	}
}

// copied are the nodes that a cp would work on.
func copied(operands ...string) (cluster.Nodes, error) {
	asked, err := ParseCopy(operands, "")
	if err != nil {
		return nil, err
	}
	paths, err := asked.paths(nodes())
	var found cluster.Nodes
	for index := range paths {
		node, _ := nodes().ByIndex(index)
		found = append(found, node)
	}
	return found, err
}
