package lifecycle

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/placement"
)

// evidenceOfTwo is a cluster of two nodes in which nothing differs.
func evidenceOfTwo() DriftEvidence {
	r := &cluster.Record{
		Name: "d", Owner: cluster.Owner{ID: "me"}, Snapshots: map[string]cluster.SnapshotRecord{},
		Phases: map[cluster.Phase]cluster.PhaseRecord{cluster.PhaseUp: {
			Status: cluster.PhaseDone, Nodes: map[string]cluster.NodeProgress{"d-1": {Machine: "m1"}, "d-2": {Machine: "m2"}},
		}},
	}
	r.Target.Place = placement.Target{Pool: "tests"}.Document()
	e := DriftEvidence{Record: r, Refreshed: &deploy.Refreshed{}, Inventory: &cluster.Inventory{}}
	for i := range 2 {
		name, host, vmid := fmt.Sprintf("d-%d", i+1), fmt.Sprintf("pve%d", i+1), 101+i
		r.Nodes = append(r.Nodes, cluster.Node{
			Name: name, Index: i + 1, Management: netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}),
			Placement: placement.VM{VMID: vmid, Hypervisor: host}.Document(),
		})
		e.Seen = append(e.Seen, deploy.Seen{
			VMID: vmid, Node: name, Owned: true, Name: name, Hypervisor: host, Pool: "tests", Power: "running",
			Description: cluster.Description(r.Name, r.Owner) + "\n", Tags: r.Owner.Tags(r.Name),
		})
		e.Refreshed.Machines = append(e.Refreshed.Machines, deploy.VMRef{VMID: vmid, Name: name, Hypervisor: host})
	}
	e.Inventory.Nodes = slices.Clone(r.Nodes)
	return e
}

func TestDifferences(t *testing.T) {
	vmOf := func(node string, action deploy.Action, attributes ...deploy.Attribute) deploy.Change {
		return deploy.Change{Address: "vm." + node, Node: node, VM: true, Action: action, Attributes: attributes}
	}
	for name, test := range map[string]struct {
		change func(*DriftEvidence)
		want   []string // kind, then the difference in words
	}{
		"none":     {func(*DriftEvidence) {}, nil},
		"gone":     {func(e *DriftEvidence) { e.Seen[1] = deploy.Seen{VMID: 102, Node: "d-2", Gone: true} }, []string{"missing d-2: vm: recorded d-2 on pve2, real -"}},
		"stopped":  {func(e *DriftEvidence) { e.Seen[0].Power = "stopped" }, []string{"power d-1: power: recorded running, real stopped"}},
		"no power": {func(e *DriftEvidence) { e.Seen[0].Power = "unknown" }, nil},
		"moved":    {func(e *DriftEvidence) { e.Seen[0].Hypervisor = "pve7" }, []string{"moved d-1: hypervisor: recorded pve1, real pve7"}},
		"renamed":  {func(e *DriftEvidence) { e.Seen[0].Name = "x" }, []string{"name d-1: name: recorded d-1, real x"}},
		"pool":     {func(e *DriftEvidence) { e.Seen[0].Pool = "" }, []string{"pool d-1: pool: recorded tests, real -"}},
		"tags": {func(e *DriftEvidence) { e.Seen[0].Tags = []string{"hive"} }, []string{
			"tags d-1: tags: recorded d;hive;hive-test;terraform, real hive",
		}},
		"held elsewhere": {func(e *DriftEvidence) { e.Record.Owner.Held = true }, []string{
			"tags d-1: tags: recorded d;hive;hive-test;hive-test-hold;terraform, real d;hive;hive-test;terraform",
			"tags d-2: tags: recorded d;hive;hive-test;hive-test-hold;terraform, real d;hive;hive-test;terraform",
		}},
		"description": {func(e *DriftEvidence) { e.Seen[0].Description += "mine" }, []string{
			"description d-1: description: recorded Managed by Terraform - cluster: d - owner: me, real Managed by Terraform - cluster: d - owner: me\nmine",
		}},
		"another's": {func(e *DriftEvidence) {
			e.Seen[0] = deploy.Seen{VMID: 101, Node: "d-1", Name: "x", Description: cluster.Description("o", cluster.Owner{ID: "you"})}
		}, []string{"owner d-1: owner: recorded me, real you"}},
		"nobody's": {func(e *DriftEvidence) { e.Seen[0].Owned, e.Seen[0].Description = false, "" }, []string{"owner d-1: owner: recorded me, real -"}},
		"extra": {func(e *DriftEvidence) {
			e.Seen = append(e.Seen, deploy.Seen{VMID: 109, Owned: true, Name: "x", Hypervisor: "pve1"})
		}, []string{"extra VM 109: vm: recorded -, real x on pve1"}},
		"unread": {func(e *DriftEvidence) { e.Seen[0] = deploy.Seen{VMID: 101, Node: "d-1", Err: errors.New("no answer")} }, nil},
		"others' snapshot": {func(e *DriftEvidence) { e.Seen[0].Snapshots = []deploy.SeenSnapshot{{Name: "s"}} }, []string{
			"snapshot d-1: snapshot: recorded -, real made by others",
		}},
		"our snapshot": {func(e *DriftEvidence) {
			e.Record.Snapshots["s"] = cluster.SnapshotRecord{}
			e.Seen[0].Snapshots, e.Seen[1].Snapshots = []deploy.SeenSnapshot{{Name: "s", Owned: true}}, []deploy.SeenSnapshot{{Name: "s", Owned: true}}
		}, nil},
		"a snapshot that nobody asked for": {func(e *DriftEvidence) { e.Seen[0].Snapshots = []deploy.SeenSnapshot{{Name: "s", Owned: true}} }, []string{
			"snapshot d-1: snapshot: recorded -, real there",
		}},
		"a snapshot that is gone, and a node that was made since": {func(e *DriftEvidence) {
			e.Record.Snapshots["s"] = cluster.SnapshotRecord{Machines: map[string]string{"d-1": "m1", "d-2": "before"}}
			e.Record.Snapshots["t"] = cluster.SnapshotRecord{Machines: map[string]string{"d-1": "m1", "d-2": "m2"}}
			e.Seen[0].Snapshots, e.Seen[1].Snapshots = []deploy.SeenSnapshot{{Name: "s", Owned: true}, {Name: "t", Owned: true}}, nil
		}, []string{"snapshot d-2: snapshot: recorded there, real -"}},
		"a snapshot of which it was not noted": {func(e *DriftEvidence) {
			e.Record.Snapshots["s"] = cluster.SnapshotRecord{}
			e.Seen[0].Snapshots = []deploy.SeenSnapshot{{Name: "s", Owned: true}}
		}, nil},
		"resized, as state and plan say": {func(e *DriftEvidence) {
			e.Refreshed.Drifted = []deploy.Change{vmOf("d-1", deploy.Update, deploy.Attribute{Name: "memory.dedicated", Before: "1", After: "2"})}
			e.Refreshed.Wanted = []deploy.Change{vmOf("d-1", deploy.Update, deploy.Attribute{Name: "memory.dedicated", Before: "2", After: "1"})}
		}, []string{"settings d-1: memory.dedicated: recorded 1, real 2"}},
		"resized, and another size is wanted now": {func(e *DriftEvidence) {
			e.Refreshed.Drifted = []deploy.Change{vmOf("d-1", deploy.Update, deploy.Attribute{Name: "memory.dedicated", Before: "1", After: "2"})}
			e.Refreshed.Wanted = []deploy.Change{vmOf("d-1", deploy.Update, deploy.Attribute{Name: "memory.dedicated", Before: "2", After: "3"})}
		}, []string{"settings d-1: memory.dedicated: recorded 3, real 2"}},
		"what a look tells": {func(e *DriftEvidence) {
			e.Seen[0].Power = "stopped"
			e.Refreshed.Drifted = []deploy.Change{vmOf("d-1", deploy.Update,
				deploy.Attribute{Name: "started", Before: "true", After: "false"}, deploy.Attribute{Name: "tags.0", Before: "a", After: "b"},
				deploy.Attribute{Name: "description", Before: "a", After: "b"})}
			e.Refreshed.Wanted = []deploy.Change{vmOf("d-1", deploy.Update, deploy.Attribute{Name: "started", Before: "false", After: "true"})}
		}, []string{"power d-1: power: recorded running, real stopped"}},
		"gone, as the plan says too": {func(e *DriftEvidence) {
			e.Seen[0] = deploy.Seen{VMID: 101, Node: "d-1", Gone: true}
			e.Refreshed.Drifted, e.Refreshed.Wanted = []deploy.Change{vmOf("d-1", deploy.Delete)}, []deploy.Change{vmOf("d-1", deploy.Create)}
		}, []string{"missing d-1: vm: recorded d-1 on pve1, real -"}},
		"a snippet that is gone": {func(e *DriftEvidence) {
			e.Refreshed.Drifted = []deploy.Change{{Address: "file.d-1", Node: "d-1", Action: deploy.Delete}}
			e.Refreshed.Wanted = []deploy.Change{{Address: "file.d-1", Node: "d-1", Action: deploy.Create}}
		}, []string{"settings d-1: file: recorded there, real -"}},
		"a snippet of a VM that was moved": {func(e *DriftEvidence) {
			e.Seen[0].Hypervisor = "pve2"
			e.Refreshed.Wanted = []deploy.Change{{
				Address: "file.d-1", Node: "d-1", Action: deploy.Replace,
				Attributes: []deploy.Attribute{{Name: "node_name", Before: "pve1", After: "pve2"}},
			}}
		}, []string{"moved d-1: hypervisor: recorded pve1, real pve2"}},
		"not in the state": {func(e *DriftEvidence) {
			e.Refreshed.Machines = e.Refreshed.Machines[:1]
			e.Refreshed.Wanted = []deploy.Change{vmOf("d-2", deploy.Create)}
		}, []string{"state d-2: vm: recorded VM 102, real -"}},
		"in the state alone": {func(e *DriftEvidence) {
			e.Refreshed.Machines = append(e.Refreshed.Machines, deploy.VMRef{VMID: 109, Name: "d-3", Hypervisor: "pve1"})
			e.Refreshed.Wanted = []deploy.Change{vmOf("d-3", deploy.Delete)}
		}, []string{"state state: vm: recorded -, real VM 109 d-3 on pve1"}},
		"another id in the state": {func(e *DriftEvidence) { e.Refreshed.Machines[0].VMID = 109 }, []string{"state d-1: vm: recorded VM 101, real VM 109"}},
		"no inventory":            {func(e *DriftEvidence) { e.Inventory = nil }, []string{"inventory inventory.json: file: recorded there, real -"}},
		"other nodes in the inventory": {func(e *DriftEvidence) {
			e.Inventory.Nodes[1].Name = "d-9"
			e.Inventory.Nodes[0].Management = netip.MustParseAddr("10.0.0.9")
		}, []string{
			"inventory d-1: management: recorded 10.0.0.1, real 10.0.0.9", "inventory d-2: node: recorded d-2, real -",
			"inventory inventory.json: node: recorded -, real d-9",
		}},
		"not made yet": {func(e *DriftEvidence) {
			e.Record.Phases = map[cluster.Phase]cluster.PhaseRecord{cluster.PhaseUp: {Status: cluster.PhaseFailed}}
			e.Record.Nodes[1].Management, e.Seen[1] = netip.Addr{}, deploy.Seen{VMID: 102, Node: "d-2", Gone: true}
			e.Refreshed.Machines, e.Inventory = e.Refreshed.Machines[:1], nil
			e.Refreshed.Wanted = []deploy.Change{vmOf("d-2", deploy.Create), {Address: "file.d-2", Node: "d-2", Action: deploy.Create}}
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			e := evidenceOfTwo()
			test.change(&e)
			var got []string
			for _, d := range Differences(e) {
				got = append(got, string(d.Kind)+" "+d.String())
				if !slices.Contains(DifferenceKinds(), d.Kind) {
					t.Errorf("%s is no kind", d.Kind)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("differences (-want +got):\n%s", diff)
			}
		})
	}
}
