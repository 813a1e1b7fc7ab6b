package lifecycle

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/placement"
)

// Difference is one thing that is not as it is recorded.
type Difference struct {
	Kind DifferenceKind `json:"kind"`
	// Node is the name of the node that it is about; empty: it is about none of the record's.
	Node string `json:"node,omitempty"`
	// Resource is the VM, the snippet, the snapshot, the state or the file that differs.
	Resource  string `json:"resource"`
	Attribute string `json:"attribute"`
	Recorded  string `json:"recorded"` // or wanted; a dash: nothing
	Real      string `json:"real"`     // a dash: nothing
}

// String is the difference in words.
func (d Difference) String() string {
	return fmt.Sprintf("%s: %s: recorded %s, real %s", cmp.Or(d.Node, d.Resource), d.Attribute, d.Recorded, d.Real)
}

// DifferenceKind says what kind of thing differs.
type DifferenceKind string

// The kinds. Settings are what a plan sees: of the VM, of its snippet, of anything else that the module makes.
const (
	KindMissing     DifferenceKind = "missing"     // the VM is gone
	KindExtra       DifferenceKind = "extra"       // a VM carries the cluster's owner id, and no node has it
	KindOwner       DifferenceKind = "owner"       // the VM does not say that it is the cluster's
	KindPower       DifferenceKind = "power"       // it does not run
	KindMoved       DifferenceKind = "moved"       // it is on another hypervisor
	KindName        DifferenceKind = "name"        // it has another name
	KindPool        DifferenceKind = "pool"        // it is in another pool
	KindTags        DifferenceKind = "tags"        // it lost tags, or others gave it some
	KindDescription DifferenceKind = "description" // it says whose it is, and something else
	KindSnapshot    DifferenceKind = "snapshot"    // one that nobody asked for, or that is gone
	KindSettings    DifferenceKind = "settings"    // anything else that a plan sees
	KindState       DifferenceKind = "state"       // OpenTofu's state does not have what is recorded
	KindInventory   DifferenceKind = "inventory"   // the inventory does not
)

// DifferenceKinds returns all of them.
func DifferenceKinds() []DifferenceKind {
	return []DifferenceKind{
		KindMissing, KindExtra, KindOwner, KindPower, KindMoved, KindName, KindPool, KindTags, KindDescription, KindSnapshot,
		KindSettings, KindState, KindInventory,
	}
}

// DriftEvidence is all that was found of a cluster.
type DriftEvidence struct {
	Record *cluster.Record
	// Seen is what a live look has found; nil: nobody can be asked.
	Seen []deploy.Seen
	// Refreshed is what the deployer's own records say; nil: it keeps none.
	Refreshed *deploy.Refreshed
	// Inventory is the file of that name; nil: it is not there.
	Inventory *cluster.Inventory
}

// nothing stands for what is not there.
const nothing = "-"

// Differences compares what is recorded with what was found, in the order of the nodes. What hive-test has not finished
// making, or does not know yet, is no difference, and what is known by a look is not told again where a plan sees it.
func Differences(e DriftEvidence) []Difference {
	list := e.ofMachines()
	list = append(list, e.ofPlan()...)
	list = append(list, e.ofState()...)
	list = append(list, e.ofInventory()...)
	at := map[string]int{"": len(e.Record.Nodes)}
	for i, node := range e.Record.Nodes {
		at[node.Name] = i
	}
	slices.SortStableFunc(list, func(a, b Difference) int { return at[a.Node] - at[b.Node] })
	return list
}

// wasMade tells whether a node was up: then its machine is there but for what others do.
func (e DriftEvidence) wasMade(node cluster.Node) bool { return node.Management.IsValid() }

func (e DriftEvidence) node(name string) (cluster.Node, bool) {
	i := slices.IndexFunc(e.Record.Nodes, func(n cluster.Node) bool { return n.Name == name })
	if i < 0 {
		return cluster.Node{}, false
	}
	return e.Record.Nodes[i], true
}

// ofMachines compares the nodes with what a live look has found.
func (e DriftEvidence) ofMachines() []Difference {
	var list []Difference
	for _, seen := range e.Seen {
		node, recorded := e.node(seen.Node)
		switch {
		case seen.Err != nil:
		case !recorded:
			list = append(list, Difference{
				Kind: KindExtra, Resource: vmWord(seen.VMID), Attribute: "vm", Recorded: nothing,
				Real: fmt.Sprintf("%s on %s", seen.Name, seen.Hypervisor),
			})
		case e.wasMade(node):
			list = append(list, e.ofMachine(node, seen)...)
		}
	}
	return list
}

func vmWord(vmid int) string { return fmt.Sprintf("VM %d", vmid) }

// ofMachine compares a node with what is found under the id of its machine.
func (e DriftEvidence) ofMachine(node cluster.Node, seen deploy.Seen) (list []Difference) {
	at, r := placement.Of(node), e.Record
	differs := func(kind DifferenceKind, attribute, recorded, real string) {
		if recorded != real {
			list = append(list, Difference{
				Kind: kind, Node: node.Name, Resource: vmWord(at.VMID), Attribute: attribute,
				Recorded: cmp.Or(recorded, nothing), Real: cmp.Or(real, nothing),
			})
		}
	}
	if seen.Gone {
		differs(KindMissing, "vm", fmt.Sprintf("%s on %s", node.Name, at.Hypervisor), nothing)
		return list
	}
	if !seen.Owned {
		_, owner, _ := cluster.ParseOwner(seen.Description)
		if owner == r.Owner.ID {
			owner += " of another cluster"
		}
		differs(KindOwner, "owner", r.Owner.ID, owner)
		return list
	}
	differs(KindMoved, "hypervisor", at.Hypervisor, seen.Hypervisor)
	if seen.Power != "unknown" {
		differs(KindPower, "power", "running", seen.Power)
	}
	differs(KindName, "name", node.Name, seen.Name)
	if pool := placement.TargetOf(r.Target).Pool; pool != "" {
		differs(KindPool, "pool", pool, seen.Pool)
	}
	differs(KindTags, "tags", strings.Join(r.Owner.Tags(r.Name), ";"), strings.Join(seen.Tags, ";"))
	differs(KindDescription, "description", cluster.Description(r.Name, r.Owner), strings.TrimSpace(seen.Description))
	return append(list, e.ofSnapshots(node, seen)...)
}

// ofSnapshots compares the snapshots of a machine with those that were made.
func (e DriftEvidence) ofSnapshots(node cluster.Node, seen deploy.Seen) (list []Difference) {
	add := func(name, recorded, real string) {
		list = append(list, Difference{
			Kind: KindSnapshot, Node: node.Name, Resource: "snapshot " + name, Attribute: "snapshot", Recorded: recorded, Real: real,
		})
	}
	for _, s := range seen.Snapshots {
		_, recorded := e.Record.Snapshots[s.Name]
		switch {
		case !s.Owned:
			add(s.Name, nothing, "made by others")
		case !recorded:
			add(s.Name, nothing, "there")
		}
	}
	for _, tag := range sortedKeys(e.Record.Snapshots) {
		named := func(s deploy.SeenSnapshot) bool { return s.Name == tag && s.Owned }
		if !slices.ContainsFunc(seen.Snapshots, named) && e.hadSnapshot(node, tag) {
			add(tag, "there", nothing)
		}
	}
	return list
}

// hadSnapshot tells whether a snapshot was made of the machine that a node has now: one that was made since has none. Where that was not
// noted, a snapshot that any machine has still is missing nowhere.
func (e DriftEvidence) hadSnapshot(node cluster.Node, tag string) bool {
	then, now := e.Record.Snapshots[tag].Machines[node.Name], e.Record.Phases[cluster.PhaseUp].Nodes[node.Name].Machine
	return then != "" && then == now || e.nowhere(tag)
}

// nowhere tells whether no machine has a snapshot any more.
func (e DriftEvidence) nowhere(tag string) bool {
	return !slices.ContainsFunc(e.Seen, func(seen deploy.Seen) bool {
		return slices.ContainsFunc(seen.Snapshots, func(s deploy.SeenSnapshot) bool { return s.Name == tag && s.Owned })
	})
}
