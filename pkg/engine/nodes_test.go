package engine

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hive-test/pkg/cluster"
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
		chosen, err := choose(nodes(), "nodes", tc.which)
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
