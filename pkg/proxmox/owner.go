package proxmox

import (
	"fmt"
	"strings"

	"hive-test/pkg/cluster"
)

// Tag marks every VM that hive-test makes; the cluster's name is a second tag.
const Tag = "hive-test"

const (
	titlePrefix = "hive-test cluster "
	ownerPrefix = "hive-test-owner="
)

// Description is the text that every VM of a cluster carries: the cluster's name and the id of its owner, one a line.
func Description(name cluster.Name, ownerID string) string {
	return titlePrefix + string(name) + "\n" + ownerPrefix + ownerID
}

// ParseOwner reads cluster name and owner id from a description, whatever else it says. ok is false if either is
// missing or the description names two owners.
func ParseOwner(description string) (name cluster.Name, ownerID string, ok bool) {
	for line := range strings.Lines(description) {
		line = strings.TrimSpace(line)
		if title, found := strings.CutPrefix(line, titlePrefix); found && name == "" {
			name = cluster.Name(strings.TrimSpace(title))
		}
		if id, found := strings.CutPrefix(line, ownerPrefix); found {
			if ownerID != "" && ownerID != id {
				return "", "", false
			}
			ownerID = strings.TrimSpace(id)
		}
	}
	return name, ownerID, name != "" && ownerID != ""
}

// Ours tells whether vm, read by Live (only the listing knows the pool), belongs to the cluster: a QEMU VM in the pool (if one is set) with both tags and
// the owner id in its description. Name, id and address decide nothing. If it is not ours, why says what is missing.
func Ours(vm VM, name cluster.Name, ownerID, pool string) (ours bool, why string) {
	described, owner, ok := ParseOwner(vm.Description)
	switch {
	case ownerID == "":
		return false, "the cluster has no owner id"
	case vm.Type != "qemu":
		return false, fmt.Sprintf("it is a guest of type %q, not a QEMU VM", vm.Type)
	case pool != "" && vm.Pool != pool:
		return false, fmt.Sprintf("it is in pool %q, not %q", vm.Pool, pool)
	case !vm.HasTag(Tag):
		return false, fmt.Sprintf("it is not tagged %s", Tag)
	case !vm.HasTag(string(name)):
		return false, fmt.Sprintf("it is not tagged %s", name)
	case !ok:
		return false, "its description names no hive-test owner"
	case owner != ownerID:
		return false, fmt.Sprintf("it belongs to owner %s (cluster %s)", owner, described)
	case described != name:
		return false, fmt.Sprintf("its description names cluster %s", described)
	}
	return true, ""
}
