package cluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNodesBeyondTheCountLeave(t *testing.T) {
	r := &Record{Spec: Spec{NodeCount: 2}, Phases: map[Phase]PhaseRecord{}}
	for i := range 4 {
		r.Nodes = append(r.Nodes, Node{Name: Name("ci").Node(i + 1), Index: i + 1})
	}
	if diff := cmp.Diff([]string{"ci-1", "ci-2"}, r.Staying().Names()); diff != "" {
		t.Errorf("staying: %s", diff)
	}
	if diff := cmp.Diff([]string{"ci-3", "ci-4"}, r.Leaving().Names()); diff != "" {
		t.Errorf("leaving: %s", diff)
	}
	before := r.Clone()
	r.Nodes[0].SSHPort, r.Spec.NodeCount = 7, 4
	r.Phases[PhaseUp] = PhaseRecord{}
	if before.Nodes[0].SSHPort != 0 || before.Spec.NodeCount != 2 || len(before.Phases) != 0 {
		t.Errorf("a clone shares something: %+v", before)
	}
}
