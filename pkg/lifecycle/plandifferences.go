package lifecycle

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/placement"
)

func sortedKeys[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }

// lookedAt are attributes of a VM that a live look tells of.
func lookedAt() []string {
	return []string{"name", "description", "tags", "started", "node_name", "pool_id", "vm_id", "id"}
}

// ofPlan are what a plan sees and no look does. What differs from the state and from what is wanted is told once.
func (e DriftEvidence) ofPlan() []Difference {
	if e.Refreshed == nil {
		return nil
	}
	var list []Difference
	at := map[[2]string]int{}
	put := func(d Difference) {
		key := [2]string{d.Node + " " + d.Resource, d.Attribute}
		if i, told := at[key]; told {
			list[i].Recorded = d.Recorded // what is wanted now
			return
		}
		at[key] = len(list)
		list = append(list, d)
	}
	for _, change := range e.Refreshed.Drifted {
		for _, d := range e.ofChange(change) {
			put(d)
		}
	}
	for _, change := range e.Refreshed.Wanted {
		for _, d := range e.ofChange(reversed(change)) {
			put(d)
		}
	}
	return list
}

// reversed is the change that would undo another one.
func reversed(c deploy.Change) deploy.Change {
	switch c.Action {
	case deploy.Create:
		c.Action = deploy.Delete
	case deploy.Delete:
		c.Action = deploy.Create
	}
	c.Attributes = slices.Clone(c.Attributes)
	for i, a := range c.Attributes {
		c.Attributes[i].Before, c.Attributes[i].After = a.After, a.Before
	}
	return c
}

// ofChange is what has become of a resource, unless a look tells of it.
func (e DriftEvidence) ofChange(c deploy.Change) []Difference {
	node, recorded := e.node(c.Node)
	if recorded && !e.wasMade(node) {
		return nil
	}
	gone, moved := e.fate(node)
	d := Difference{Kind: KindSettings, Node: c.Node, Resource: c.Address}
	switch {
	case c.VM && (gone || !recorded): // the look, or the state, says so
		return nil
	case c.VM:
		d.Resource = vmWord(placement.Of(node).VMID)
	case recorded && moved: // its snippet is where it was made
		return nil
	case recorded:
		d.Resource = "snippet"
	}
	if !c.VM && (c.Action == deploy.Create || c.Action == deploy.Delete) {
		d.Attribute, d.Recorded, d.Real = "file", "there", nothing
		if c.Action == deploy.Create {
			d.Recorded, d.Real = nothing, "there"
		}
		return []Difference{d}
	}
	var list []Difference
	for _, a := range c.Attributes {
		top, _, _ := strings.Cut(a.Name, ".")
		if c.VM && slices.Contains(lookedAt(), top) {
			continue
		}
		d.Attribute, d.Recorded, d.Real = a.Name, a.Before, a.After
		list = append(list, d)
	}
	return list
}

// fate tells whether the machine of a node is gone, or somebody else's, and whether it was moved.
func (e DriftEvidence) fate(node cluster.Node) (gone, moved bool) {
	for _, seen := range e.Seen {
		if seen.Node == node.Name && seen.Node != "" {
			return seen.Gone || !seen.Owned, seen.Hypervisor != placement.Of(node).Hypervisor
		}
	}
	return false, false
}

// ofState compares the record with the machines of the state.
func (e DriftEvidence) ofState() []Difference {
	if e.Refreshed == nil {
		return nil
	}
	var list []Difference
	add := func(node, attribute, recorded, real string) {
		if recorded != real {
			list = append(list, Difference{
				Kind: KindState, Node: node, Resource: "state", Attribute: attribute, Recorded: recorded, Real: real,
			})
		}
	}
	for _, node := range e.Record.Nodes {
		at := placement.Of(node)
		i := slices.IndexFunc(e.Refreshed.Machines, func(vm deploy.VMRef) bool { return vm.Name == node.Name })
		gone, _ := e.fate(node)
		switch {
		case !e.wasMade(node) || gone:
		case i < 0:
			add(node.Name, "vm", vmWord(at.VMID), nothing)
		default:
			vm := e.Refreshed.Machines[i]
			add(node.Name, "vm", vmWord(at.VMID), vmWord(vm.VMID))
			add(node.Name, "hypervisor", at.Hypervisor, vm.Hypervisor)
		}
	}
	for _, vm := range e.Refreshed.Machines {
		if _, recorded := e.node(vm.Name); !recorded {
			add("", "vm", nothing, vm.String())
		}
	}
	return list
}

// ofInventory compares the record with the inventory of a cluster that is up.
func (e DriftEvidence) ofInventory() []Difference {
	if e.Record.Phases[cluster.PhaseUp].Status != cluster.PhaseDone {
		return nil
	}
	var list []Difference
	add := func(node, attribute, recorded, real string) {
		if recorded != real {
			list = append(list, Difference{
				Kind: KindInventory, Node: node, Resource: "inventory.json", Attribute: attribute, Recorded: recorded, Real: real,
			})
		}
	}
	if e.Inventory == nil {
		add("", "file", "there", nothing)
		return list
	}
	named := func(nodes cluster.Nodes, name string) int {
		return slices.IndexFunc(nodes, func(n cluster.Node) bool { return n.Name == name })
	}
	for _, node := range e.Record.Nodes {
		i := named(e.Inventory.Nodes, node.Name)
		if i < 0 {
			add(node.Name, "node", node.Name, nothing)
			continue
		}
		there := e.Inventory.Nodes[i]
		add(node.Name, "management", fmt.Sprint(node.Management), fmt.Sprint(there.Management))
		add(node.Name, "data", fmt.Sprint(node.Data), fmt.Sprint(there.Data))
	}
	for _, there := range e.Inventory.Nodes {
		if named(e.Record.Nodes, there.Name) < 0 {
			add("", "node", nothing, there.Name)
		}
	}
	return list
}
