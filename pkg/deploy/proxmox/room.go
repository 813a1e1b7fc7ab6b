package proxmox

import (
	"context"
	"slices"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy/placement"
)

// FreeMemory is what the hypervisors that are online have left by what they use, or by what they have promised to guests
// that run, whichever is less, in MiB.
func (f *Fleet) FreeMemory(ctx context.Context, r *cluster.Record) (int, error) {
	hosts, err := f.Client.Hypervisors(ctx)
	if err != nil {
		return 0, err
	}
	vms, err := f.Client.VMs(ctx)
	if err != nil {
		return 0, err
	}
	promised := map[string]uint64{}
	for _, vm := range vms {
		if vm.Status == "running" && !vm.Template {
			promised[vm.Hypervisor] += vm.Memory
		}
	}
	names := placement.Hypervisors(r.Spec)
	free := uint64(0)
	for _, host := range hosts {
		listed := slices.ContainsFunc(names, func(h placement.Hypervisor) bool { return h.Name == host.Name })
		if used := max(host.MemoryUsed, promised[host.Name]); listed && host.Online && used < host.MemoryTotal {
			free += host.MemoryTotal - used
		}
	}
	return int(free >> 20), nil
}
