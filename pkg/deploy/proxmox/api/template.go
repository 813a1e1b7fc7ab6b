package api

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"hive-test/pkg/deploy"
)

// before tells whether the version is older than major.minor; an unreadable one is not.
func (v Version) before(major, minor int) bool {
	parts := strings.Split(v.Version, ".")
	if len(parts) < 2 {
		return false
	}
	m, err := strconv.Atoi(parts[1])
	return err == nil && (v.Major() < major || v.Major() == major && m < minor)
}

// askAgents tells whether the addresses of nodes come from their guest agents alone.
func (p *preflight) askAgents() bool {
	network := p.req.Spec.Network
	return network.Addresses == "" || network.DataAddresses == ""
}

// templateFits looks at what clones inherit and cannot be changed later.
func (p *preflight) templateFits(vm VM, users string, c *check) {
	if len(vm.Disks) > 0 && vm.Disks[0].Size > uint64(p.req.Spec.DiskSizeGB)<<30 {
		c.add(deploy.Fail, fmt.Sprintf("set disk_size_gb to %d or more", (vm.Disks[0].Size+1<<30-1)>>30),
			"the disk of template %d (%s), for %s, has %s: a clone's disk cannot shrink to %d GiB", vm.VMID, vm.Name, users, size(vm.Disks[0].Size), p.req.Spec.DiskSizeGB)
	}
}

// templateReach looks at what a clone on another hypervisor needs. Where the template's storage is not shared it is
// cloned beside it first, onto the datastore of that name there, and then migrated.
func (p *preflight) templateReach(vm VM, c *check) {
	away := slices.DeleteFunc(
		p.usable(), func(t target) bool { return p.templateOf(t) != vm.VMID || t.spec.Name == vm.Hypervisor },
	)
	if len(away) == 0 {
		return
	}
	if i := slices.IndexFunc(
		p.hosts, func(h Hypervisor) bool { return h.Name == vm.Hypervisor },
	); i >= 0 && !p.hosts[i].Online {
		c.add(
			deploy.Fail,
			fmt.Sprintf("start %s, or set template_vmid of the other hypervisors to templates of their "+
				"own", vm.Hypervisor),
			"template %d is on %s, which is offline", vm.VMID, vm.Hypervisor,
		)
		return
	}
	storages, err := p.api.Storages(p.ctx, vm.Hypervisor)
	if err != nil {
		c.unknown(fmt.Sprintf("the storages of %s, where template %d is", vm.Hypervisor, vm.VMID), err)
		return
	}
	there := target{storages: storages}
	for _, t := range away {
		if _, found := there.storage(t.spec.Datastore); !found {
			c.addOn(t.spec.Name, deploy.Fail, fmt.Sprintf(
				"set datastore_id of hypervisor {host} to a storage that %s has too (%s), or its template_vmid to a "+
					"template of its own",
				vm.Hypervisor, there.storageNames("images"),
			),
				"template %d, for {host}, is on %s, which has no storage %s to clone it onto", vm.VMID, vm.Hypervisor, t.spec.Datastore)
		}
	}
}

// migrates tells whether a clone must be migrated to reach the target: its template is on the storage of another
// hypervisor alone.
func (p *preflight) migrates(t target) bool {
	id := p.templateOf(t)
	i := slices.IndexFunc(p.vms, func(vm VM) bool { return vm.VMID == id })
	if id == 0 || i < 0 || p.vms[i].Hypervisor == t.spec.Name {
		return false
	}
	live, err := p.api.Live(p.ctx, p.vms[i])
	if err != nil {
		return false // the check of the template says so
	}
	return slices.ContainsFunc(live.Disks, func(d Disk) bool {
		s, found := t.storage(d.Storage)
		return !found || !s.Shared
	})
}
