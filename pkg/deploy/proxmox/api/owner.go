package api

import (
	"fmt"

	"hive-test/pkg/cluster"
)

// Ours tells whether vm, read by Live (only the listing knows the pool), belongs to the cluster: a QEMU VM in the pool
// (if one is set) with both tags and the owner id in its description. Name, id and address decide nothing. If it is not
// ours, why says what is missing.
func Ours(vm VM, name cluster.Name, ownerID, pool string) (ours bool, why string) {
	described, owner, ok := cluster.ParseOwner(vm.Description)
	switch {
	case ownerID == "":
		return false, "the cluster has no owner id"
	case vm.Type != "qemu":
		return false, fmt.Sprintf("it is a guest of type %q, not a QEMU VM", vm.Type)
	case pool != "" && vm.Pool != pool:
		return false, fmt.Sprintf("it is in pool %q, not %q", vm.Pool, pool)
	case !vm.HasTag(cluster.Tag):
		return false, fmt.Sprintf("it is not tagged %s", cluster.Tag)
	case !vm.HasTag(string(name)):
		return false, fmt.Sprintf("it is not tagged %s", name)
	case !ok:
		return false, "its description names no owner, or more than one"
	case owner != ownerID:
		return false, fmt.Sprintf("it belongs to owner %s (cluster %s)", owner, described)
	case described != name:
		return false, fmt.Sprintf("its description names cluster %s", described)
	}
	return true, ""
}
