package api

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
)

// templateOf is what nodes on the target are cloned from, 0 if they are made of an image.
func (p *preflight) templateOf(t target) int {
	return cmp.Or(t.spec.TemplateVMID, p.req.Spec.Template)
}

// template looks at each template that is cloned: the listing tells where it is, one live call what it is.
func (p *preflight) template() []deploy.Finding {
	c := &check{id: "pve-template", title: "template can be cloned", needless: p.complete()}
	if c.needless {
		return c.done("")
	}
	users := map[int][]string{}
	var ids []int
	for _, t := range p.targets {
		if id := p.templateOf(t); id != 0 {
			if users[id] == nil {
				ids = append(ids, id)
			}
			users[id] = append(users[id], t.spec.Name)
		}
	}
	if len(ids) == 0 {
		c.skip("nodes are made of an image")
		return c.done("")
	}
	parts := make([]check, len(ids))
	_ = each(len(ids), func(i int) error {
		parts[i] = check{id: c.id, title: c.title}
		p.templateIs(ids[i], strings.Join(users[ids[i]], ", "), &parts[i])
		return nil
	})
	for _, part := range parts {
		c.findings = append(c.findings, part.findings...)
	}
	return c.done("%s", strings.Trim(strings.Join(strings.Fields(fmt.Sprint(ids)), ", "), "[]"))
}

func (p *preflight) templateIs(id int, users string, c *check) {
	if p.vmsErr != nil {
		c.unknown(fmt.Sprintf("template %d", id), p.vmsErr)
		return
	}
	at := slices.IndexFunc(p.vms, func(vm VM) bool { return vm.VMID == id })
	if at < 0 {
		c.add(
			deploy.Fail, "set template (or the hypervisor's template_vmid) to one of: "+p.templates(),
			"template %d, for %s, does not exist, or the token has no VM.Audit on it", id, users,
		)
		return
	}
	if where := p.vms[at].Hypervisor; slices.ContainsFunc(p.hosts, func(h Hypervisor) bool { return h.Name == where && !h.Online }) {
		c.add(deploy.Fail, fmt.Sprintf("start %s, or name a template that is elsewhere", where),
			"template %d, for %s, is on %s, which is offline", id, users, where)
		return
	}
	vm, err := p.api.Live(p.ctx, p.vms[at])
	switch {
	case err != nil:
		c.unknown(fmt.Sprintf("template %d", id), err)
	case !vm.Template:
		c.add(
			deploy.Fail, fmt.Sprintf("on %s: qm template %d", vm.Hypervisor, id),
			"VM %d (%s), for %s, is not a template", id, vm.Name, users,
		)
	case !vm.AgentEnabled && p.askAgents():
		c.add(
			deploy.Fail, fmt.Sprintf("on %s: qm set %d --agent enabled=1", vm.Hypervisor, id),
			"template %d (%s) has no guest agent enabled", id, vm.Name,
		)
	case vm.Lock != "":
		c.add(
			deploy.Fail, fmt.Sprintf("wait, or, where the lock is stale, on %s: qm unlock %d", vm.Hypervisor, id),
			"template %d (%s) is locked (%s)", id, vm.Name, vm.Lock,
		)
	default:
		p.templateFits(vm, users, c)
		p.templateReach(vm, c)
		p.templateLinks(vm, c)
	}
}

func (p *preflight) templates() string {
	var list []string
	for _, vm := range p.vms {
		if vm.Template && vm.Type == "qemu" {
			list = append(list, fmt.Sprint(vm.VMID))
		}
	}
	if len(list) == 0 {
		return "none is there"
	}
	return strings.Join(list, ", ")
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

// templateLinks looks at what a linked clone needs: it stays on the storage of its template's disk, which its hypervisor
// must have, too (PVE::API2::Qemu: no storage can be named for one).
func (p *preflight) templateLinks(vm VM, c *check) {
	if p.req.Spec.Clone != cluster.CloneLinked {
		return
	}
	for _, t := range p.usable() {
		switch {
		case p.templateOf(t) != vm.VMID:
		case p.migrates(t):
			c.addOn(t.spec.Name, deploy.Fail, "set template_vmid of hypervisor {host} to a template of its own, or clone to full",
				"template %d is on %s, and the storage of its disk is not on {host}: clones there cannot be linked", vm.VMID, vm.Hypervisor)
		case len(vm.Disks) > 0 && vm.Disks[0].Storage != t.spec.Datastore:
			c.addOn(t.spec.Name, deploy.Fail, fmt.Sprintf("set datastore_id of hypervisor {host} to %s, or clone to full", vm.Disks[0].Storage),
				"linked clones of template %d are on %s, where its disk is, and not on %s", vm.VMID, vm.Disks[0].Storage, t.spec.Datastore)
		}
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
