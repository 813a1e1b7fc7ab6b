package proxmox

import (
	"context"
	"slices"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/deploy/proxmox/api"
)

// FreeMemory is what the hypervisors of the record that are online have left, in MiB.
func (f *Fleet) FreeMemory(ctx context.Context, r *cluster.Record) (int, error) {
	hosts, err := f.Client.Hypervisors(ctx)
	if err != nil {
		return 0, err
	}
	vms, err := f.Client.VMs(ctx)
	if err != nil {
		return 0, err
	}
	names := placement.Hypervisors(r.Spec)
	free := uint64(0)
	for _, host := range hosts {
		listed := slices.ContainsFunc(names, func(h placement.Hypervisor) bool { return h.Name == host.Name })
		if listed && host.Online {
			free += api.FreeMemory(host, vms)
		}
	}
	return int(free >> 20), nil
}
