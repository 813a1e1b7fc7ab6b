package provision

import (
	"slices"
	"strings"

	"hive-test/pkg/deploy"
	"hive-test/pkg/opentofu"
)

// The module's resources. Each is keyed by the name of its node.
const (
	vmType   = "proxmox_virtual_environment_vm"
	fileType = "proxmox_virtual_environment_file" // snippets
)

// nodeOf returns the node name in an address like proxmox_virtual_environment_vm.node["ci-1"], or nothing.
func nodeOf(address string) string {
	_, rest, ok := strings.Cut(address, `["`)
	if !ok {
		return ""
	}
	name, _, ok := strings.Cut(rest, `"]`)
	if !ok {
		return ""
	}
	return name
}

// stateOf says what is done with a node while its VM or its snippet undergoes action, or after it.
func stateOf(resourceType, action string, done bool) string {
	states := map[deploy.Action][2]string{
		deploy.Create: {"creating", "booting"}, deploy.Update: {"changing", "changed"}, deploy.Delete: {"deleting", "deleted"},
	}[deploy.Action(action)]
	switch {
	case resourceType == fileType && !done && deploy.Action(action) == deploy.Create:
		return "writing its snippet"
	case resourceType != vmType:
		return ""
	case done:
		return states[1]
	}
	return states[0]
}

// planOf says what a plan means for nodes, some of which were made before.
func planOf(plan opentofu.Plan, made []opentofu.Resource) deploy.Plan {
	var p deploy.Plan
	for _, c := range plan.Changes {
		change := deploy.Change{
			Address: c.Address, Node: nodeOf(c.Address), Action: deploy.Action(c.Action), VM: c.Type == vmType,
			Reason: c.Reason,
		}
		change.Unfinished = change.Action == deploy.Replace && c.Reason == "tainted"
		change.Vanished = change.VM && change.Action == deploy.Create && holds(made, change.Node)
		for _, a := range c.Attributes {
			if !seen(a.Name) {
				change.Attributes = append(change.Attributes, deploy.Attribute(a))
			}
		}
		change.Restarts = change.VM && change.Action == deploy.Update &&
			slices.ContainsFunc(change.Attributes, restarts)
		p.Changes = append(p.Changes, change)
	}
	deploy.SortChanges(p.Changes)
	return p
}

// holds reports whether a node's VM is among the resources of a state.
func holds(made []opentofu.Resource, node string) bool {
	return slices.ContainsFunc(made, func(r opentofu.Resource) bool { return r.Type == vmType && r.Key == node })
}

// seen reports whether an attribute is only ever read from the guest.
func seen(name string) bool {
	top, _, _ := strings.Cut(name, ".")
	return slices.Contains(
		[]string{"ipv4_addresses", "ipv6_addresses", "network_interface_names", "mac_addresses"}, top,
	)
}

// restarts reports whether a change of the attribute takes effect with a restart only. What is not known to be harmless
// does (bpg/proxmox 0.111.1, vmUpdate).
func restarts(a deploy.Attribute) bool {
	top, _, _ := strings.Cut(a.Name, ".")
	switch top {
	case "name", "description", "tags", "on_boot", "started", "protection", "network_device", "pool_id", "startup",
		"hook_script_file_id", "stop_on_destroy", "reboot_after_update", "purge_on_destroy",
		"delete_unreferenced_disks_on_destroy":
		return false
	case "disk":
		return !strings.HasSuffix(a.Name, ".size")
	}
	return !strings.HasPrefix(top, "timeout_")
}
