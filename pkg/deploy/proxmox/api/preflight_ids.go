package api

import (
	"fmt"
	"slices"
	"strings"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/placement"
)

// ids asks for every chosen id, since ids of VMs that the token cannot see are missing in the listing.
func (p *preflight) ids() []deploy.Finding {
	c := &check{id: "pve-vmids", title: "VM ids are free", needless: p.complete()}
	if p.vmsErr != nil {
		c.unknown("who holds VM ids", p.vmsErr)
	}
	if p.namedOnly {
		return p.room(c)
	}
	holders := map[int]VM{}
	for _, vm := range p.vms {
		holders[vm.VMID] = vm
	}
	for _, t := range p.targets {
		for _, n := range t.nodes {
			p.idFree(placement.Of(n).VMID, n.Name, holders, c)
		}
	}
	return c.done("%d free", len(p.req.Nodes)-len(p.req.OwnIDs))
}

func (p *preflight) idFree(vmid int, node string, holders map[int]VM, c *check) {
	const fix = "let hive-test choose (unset proxmox.vmid_base), or set another proxmox.vmid_base or proxmox.vmid_range"
	if vm, taken := holders[vmid]; taken {
		c.add(deploy.Fail, fix, "VM id %d, chosen for %s, is taken by %s", vmid, node, describeVM(vm))
		return
	}
	free, err := p.api.CheckID(p.ctx, vmid)
	switch {
	case err != nil:
		c.unknown(fmt.Sprintf("VM id %d", vmid), err)
	case !free:
		c.add(
			deploy.Fail, fix, "VM id %d, chosen for %s, is taken by a guest that the API token may not see", vmid, node,
		)
	}
}

// room looks whether ids could be chosen now.
func (p *preflight) room(c *check) []deploy.Finding {
	if p.vmsErr != nil || len(p.targets) == 0 {
		return c.done("not looked at")
	}
	request := ReserveRequest{
		Name: "doctor", Count: p.req.Spec.NodeCount, Range: p.req.IDRange, Base: p.req.IDBase, Existing: p.vms, Seed: 1,
	}
	for _, t := range p.targets {
		request.Hypervisors = append(request.Hypervisors, t.spec.Name)
	}
	const tries = 3 // of what may be taken out of sight
	for range tries {
		nodes, err := Reserve(request)
		if err != nil {
			fix := "set proxmox.vmid_range to 30000-39999, or any other range with room"
			if p.req.IDBase != 0 {
				fix = "set proxmox.vmid_base to 0, then ids are chosen"
			}
			c.add(deploy.Fail, fix, "%s", err)
			return c.done("")
		}
		hidden, err := takenNow(p.ctx, p.api, nodes)
		if err != nil {
			c.unknown("whether VM ids are free", err)
			return c.done("")
		}
		if len(hidden) == 0 {
			return c.done("%d from %d on", len(nodes), placement.Of(nodes[0]).VMID)
		}
		request.Taken, request.Seed = append(request.Taken, hidden...), request.Seed+1
	}
	c.add(
		deploy.Warn, "set proxmox.vmid_range to ids of your own",
		"many ids are taken by guests that the token may not see",
	)
	return c.done("")
}

// leftovers are VMs that carry the cluster's name and are none of its nodes as known here.
func (p *preflight) leftovers() []deploy.Finding {
	c := &check{id: "leftovers", title: "nothing is left of a cluster of this name"}
	name := p.req.Name
	if name == "" {
		c.skip("no name was given")
		return c.done("")
	}
	if p.vmsErr != nil {
		c.unknown("what is left of "+string(name), p.vmsErr)
		return c.done("")
	}
	known := map[int]bool{}
	for _, n := range p.req.Nodes {
		known[placement.Of(n).VMID] = true
	}
	var strange []VM
	for _, vm := range p.vms {
		if known[vm.VMID] || vm.Type != "qemu" || !vm.HasTag(cluster.Tag) || !vm.HasTag(string(name)) {
			continue
		}
		strange = append(strange, vm)
	}
	owners := p.ownersOf(strange)
	var found, ways []string
	for i, vm := range strange {
		if owners[i] != "" && owners[i] == p.req.OwnerID { // of a node that leaves, or was to be made once
			continue
		}
		found = append(found, fmt.Sprintf("%d %s", vm.VMID, describeVM(vm)))
		if way := p.wayOut(vm, owners[i]); !slices.Contains(ways, way) {
			ways = append(ways, way)
		}
	}
	if len(found) > 0 {
		otherwise := "take another name"
		if len(p.req.OwnIDs) > 0 {
			otherwise = "`hive-test reap` shows whose they are"
		}
		c.add(deploy.Warn, otherwise+"; or, if nobody needs them: "+strings.Join(ways, "; "),
			"there are VMs of a cluster %s that this clusters directory knows nothing of: %s", name, strings.Join(found, ", "))
	}
	if len(known) > 0 {
		return c.done("all VMs of a cluster of this name are known here")
	}
	return c.done("no VM of a cluster of this name is on Proxmox VE")
}

// ownersOf returns the owner id of the cluster's name that each VM's description has; empty: none, or it cannot be read.
func (p *preflight) ownersOf(vms []VM) []string {
	owners := make([]string, len(vms))
	_ = each(len(vms), func(i int) error {
		vm, err := p.api.Live(p.ctx, vms[i])
		if name, owner, ok := cluster.ParseOwner(vm.Description); err == nil && ok && name == p.req.Name {
			owners[i] = owner
		}
		return nil
	})
	return owners
}

// wayOut is how a VM goes that nobody needs: with all of its owner, or, where it names none, alone.
func (p *preflight) wayOut(vm VM, owner string) string {
	if owner == "" {
		return fmt.Sprintf("on %s: qm stop %d; qm destroy %d --purge", vm.Hypervisor, vm.VMID, vm.VMID)
	}
	way := fmt.Sprintf("hive-test down %s --owner %s", p.req.Name, owner)
	if p.req.Simulated {
		way += " --sim"
	}
	if len(p.req.OwnIDs) > 0 { // the name is another owner's here
		way += " --clusters-dir DIR, which is empty"
	}
	return way
}
