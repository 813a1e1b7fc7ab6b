package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
)

// Differences between the clocks. Certificates and signed requests to hive are judged by time; a minute is where the
// first of them begin to be refused.
const (
	skewFail = time.Minute
	skewWarn = 5 * time.Second
)

func (p *preflight) clock() []deploy.Finding {
	c := &check{id: "clock", title: "clocks agree"}
	skew, known := p.api.Skew()
	if !known {
		c.skip("the API's answers carry no date")
		return c.done("")
	}
	if skew.Abs() >= skewWarn {
		status, side := deploy.Warn, "behind"
		if skew.Abs() >= skewFail {
			status = deploy.Fail
		}
		if skew > 0 {
			side = "ahead of"
		}
		c.add(status, "timedatectl set-ntp true, on the one of the two whose clock is wrong (compare with: date -u)",
			"the clock of Proxmox VE is %s %s this machine's", skew.Abs().Round(time.Second), side)
	}
	return c.done("less than %s apart", skewWarn)
}

// quorum is asked for by itself: without one everything still answers, but nothing can be created.
func (p *preflight) quorum() []deploy.Finding {
	c := &check{id: "pve-quorum", title: "hypervisors have a quorum"}
	switch {
	case errors.Is(p.statusErr, ErrForbidden):
		c.skip("not visible to the token: it needs Sys.Audit on /")
	case p.statusErr != nil:
		c.unknown("the quorum", p.statusErr)
	case !p.status.Clustered:
		return c.done("a single hypervisor needs none")
	case !p.status.Quorate:
		c.add(deploy.Fail, "bring the other hypervisors back (see: pvecm status); only if they never come back: pvecm expected 1",
			"the hypervisors have no quorum: nothing can be created or changed%s", p.offline())
	}
	return c.done("quorate")
}

func (p *preflight) offline() string {
	var names []string
	for _, h := range p.hosts {
		if !h.Online {
			names = append(names, h.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return " (offline: " + strings.Join(names, ", ") + ")"
}

func (p *preflight) pool() []deploy.Finding {
	c := &check{id: "pve-pool", title: "resource pool exists"}
	name := p.req.Pool
	if name == "" {
		c.skip("no pool is set")
		return c.done("")
	}
	switch err := p.api.HasPool(p.ctx, name); {
	case errors.Is(err, ErrNotFound):
		c.add(deploy.Fail, "pveum pool add "+name, "pool %s does not exist", name)
	case err != nil:
		c.unknown("pool "+name, err)
	}
	return c.done("%s", name)
}

// templateOf is what nodes on the target are cloned from, 0 if they are made of an image.
func (p *preflight) templateOf(t target) int {
	if t.spec.TemplateVMID != 0 {
		return t.spec.TemplateVMID
	}
	return p.req.Spec.Template
}

// template looks at each template that is cloned: the listing tells where it is, one live call what it is.
func (p *preflight) template() []deploy.Finding {
	c := &check{id: "pve-template", title: "template can be cloned"}
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

// ssh tries what the provider does on a hypervisor, where it does anything there: images and snippets have no API.
func (p *preflight) ssh() []deploy.Finding {
	c := &check{id: "pve-ssh", title: "hypervisors can be worked on over SSH"}
	var targets []target
	for _, t := range p.judged(c) {
		spec := p.req.Spec
		spec.Hypervisors = []cluster.Hypervisor{t.spec}
		if spec.NeedsHypervisorSSH(t.spec.Name) {
			targets = append(targets, t)
		}
	}
	switch {
	case len(targets) == 0 && len(p.usable()) == 0:
		return c.done("")
	case len(targets) == 0:
		c.skip("nothing is done there over SSH")
		return c.done("")
	case p.req.Login == nil:
		c.skip("not looked at: no private key for the hypervisors is set")
		return c.done("")
	}
	paths, _ := p.api.StoragePaths(p.ctx) // where it does not tell, the usual path is as good a guess as any
	onEach(targets, c, func(t target, c *check) {
		h := t.spec
		if h.Address == "" {
			h.Address = p.status.Addresses[h.Name]
		}
		if h.Address == "" {
			c.skip("the address of %s is not visible to the token: set address of hypervisor %s", h.Name, h.Name)
			return
		}
		dir := paths[t.spec.SnippetStore]
		if dir == "" {
			dir = "/var/lib/vz"
		}
		problem, fix := "", ""
		if p.ctx.Err() == nil {
			problem, fix = p.req.Login(p.ctx, h, dir+"/snippets")
		}
		switch {
		case p.ctx.Err() != nil: // what was seen until then may be its own end only
			c.unmade(h.Name, context.Cause(p.ctx))
		case problem != "":
			c.addOn(h.Name, deploy.Fail, fix, "%s", problem)
		}
	})
	return c.done("%s let the provider run what it needs", p.targetNames())
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
			return c.done("%d from %d on", len(nodes), nodes[0].VMID)
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
		known[n.VMID] = true
	}
	var found, fixes []string
	for _, vm := range p.vms {
		if known[vm.VMID] || vm.Type != "qemu" || !vm.HasTag(cluster.Tag) || !vm.HasTag(string(name)) {
			continue
		}
		found = append(found, fmt.Sprintf("%d %s", vm.VMID, describeVM(vm)))
		fixes = append(fixes, fmt.Sprintf("on %s: qm stop %d; qm destroy %d --purge", vm.Hypervisor, vm.VMID, vm.VMID))
	}
	if len(found) > 0 {
		c.add(deploy.Warn, "take another name; or, if nobody needs them: "+strings.Join(fixes, "; "),
			"there are VMs of a cluster %s that this clusters directory knows nothing of: %s", name, strings.Join(found, ", "))
	}
	return c.done("no VM of %s is unknown here", name)
}
