package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/progress"
)

// slowAnswer is when the time of an answer is worth a word.
const slowAnswer = time.Second

func (p *preflight) hypervisors() []deploy.Finding {
	c := &check{id: "pve-hypervisors", title: "hypervisors exist and are online"}
	if p.hostsErr != nil {
		c.unknown("the list of hypervisors", p.hostsErr)
		return c.done("")
	}
	if len(placement.Hypervisors(p.req.Spec)) == 0 {
		c.add(
			deploy.Fail, "set proxmox.hypervisors (or TF_VAR_nodes) to some of: "+p.hostNames(),
			"no hypervisor is configured",
		)
		return c.done("")
	}
	for _, t := range p.targets {
		switch {
		case !t.known:
			c.add(
				deploy.Fail, "set proxmox.hypervisors to some of: "+p.hostNames(),
				"hypervisor %s does not exist in this Proxmox cluster", t.spec.Name,
			)
		case !t.host.Online:
			c.add(
				deploy.Fail,
				fmt.Sprintf(
					"start %[1]s, or keep new nodes away (--avoid-hypervisor %[1]s), or remove it from proxmox.hypervisors; see: pvecm status",
					t.spec.Name,
				),
				"hypervisor %s is offline", t.spec.Name,
			)
		case t.usable && TimedOut(t.err):
			c.unmade("the storages of "+t.spec.Name, t.err)
		case !t.usable:
			fix := fmt.Sprintf("check on %s: systemctl status pveproxy pvedaemon", t.spec.Name)
			if TimedOut(t.err) {
				fix += "; " + CallTimeoutFix
			}
			c.add(deploy.Fail, fix, "hypervisor %s does not answer: %s", t.spec.Name, t.err)
		case t.host.Unknown:
			c.add(deploy.Warn, fmt.Sprintf(
				"ask again in some seconds; if it stays so, on %s: systemctl status pvestatd", t.spec.Name,
			),
				"hypervisor %s answers, and tells nothing of its CPUs and memory yet, as for some seconds after a start (its status is unknown)", t.spec.Name)
		}
	}
	names := p.targetNames()
	if p.complete() {
		names = strings.Join(p.onlineOf(p.req.Nodes), ", ")
		c.needless = names == "" // what is away is told where its VMs are asked for
	}
	return c.done("%s online", names)
}

// onlineOf are the hypervisors that nodes are on, as far as they are online.
func (p *preflight) onlineOf(nodes cluster.Nodes) []string {
	var names []string
	for _, h := range p.hosts {
		here := func(n cluster.Node) bool { return placement.Of(n).Hypervisor == h.Name }
		if h.Online && slices.ContainsFunc(nodes, here) {
			names = append(names, h.Name)
		}
	}
	return names
}

func (p *preflight) hostNames() string {
	var names []string
	for _, h := range p.hosts {
		names = append(names, h.Name)
	}
	return strings.Join(names, ", ")
}

func (p *preflight) targetNames() string {
	var names []string
	for _, t := range p.targets {
		names = append(names, t.spec.Name)
	}
	return strings.Join(names, ", ")
}

// cpu compares with what one VM can have and with what runs there already; stopped VMs and templates need none.
func (p *preflight) cpu() []deploy.Finding {
	c := &check{id: "pve-cpu", title: "hypervisors have enough CPUs"}
	factor := p.req.CPUOvercommit
	if factor == 0 {
		factor = DefaultCPUOvercommit
	}
	for _, t := range p.judged(c) {
		if t.host.CPUs == 0 { // not visible, which the check of the memory says
			continue
		}
		need, running := len(t.nodes)*p.req.Spec.CPUCores, p.running(t.spec.Name)
		switch allowed := t.host.CPUs * factor; {
		// PVE refuses to start a VM with more cores than the host has CPUs, however idle they are.
		case p.req.Spec.CPUCores > t.host.CPUs:
			c.addOn(
				t.spec.Name, deploy.Fail, fmt.Sprintf("set cpu_cores to %d or less", t.host.CPUs),
				"a node needs %s; there are %d on {each}", progress.Count(p.req.Spec.CPUCores, "core"), t.host.CPUs,
			)
		case need+running > allowed:
			c.addOn(t.spec.Name, deploy.Fail,
				fmt.Sprintf(
					"set proxmox.cpu_overcommit to %d, or use fewer nodes, fewer cpu_cores or more hypervisors",
					(need+running+t.host.CPUs-1)/t.host.CPUs,
				),
				"%s %s %s on {each}, where %d run already and %s can have %d (proxmox.cpu_overcommit is %d)",
				count(len(t.nodes)), needs(len(t.nodes)), progress.Count(need, "core"), running,
				progress.Count(t.host.CPUs, "CPU"), allowed, factor)
		}
	}
	return c.done("%d a node, up to %d for each CPU of a hypervisor", p.req.Spec.CPUCores, factor)
}

// running is how many virtual CPUs the guests that run on a hypervisor have.
func (p *preflight) running(hypervisor string) int {
	sum := 0
	for _, vm := range p.vms {
		if vm.Hypervisor == hypervisor && vm.Status == "running" && !vm.Template {
			sum += vm.CPUs
		}
	}
	return sum
}

// memory compares with what is left by either measure: what the host uses now (file caches and ZFS's ARC included) and
// what its running VMs may grow to. It fails if both say no and warns if one does.
func (p *preflight) memory() []deploy.Finding {
	c := &check{id: "pve-memory", title: "hypervisors have enough memory"}
	for _, t := range p.judged(c) {
		if t.host.Unknown {
			c.skip("%s tells nothing of it yet", t.spec.Name)
			continue
		}
		if t.host.MemoryTotal == 0 && p.privsErr == nil && empty(p.privs) {
			c.skip("memory is not visible to the token")
			continue
		}
		if t.host.MemoryTotal == 0 {
			c.addOn(
				t.spec.Name, deploy.Warn, "give the token Sys.Audit on /nodes",
				"memory of {host} is not visible to the token",
			)
			continue
		}
		need := uint64(len(t.nodes)) * uint64(p.req.Spec.MemoryMB) << 20
		promised := promisedOn(t.spec.Name, p.vms)
		best := left(t.host.MemoryTotal, min(t.host.MemoryUsed, promised))
		worst := FreeMemory(t.host, p.vms)
		fix := func(left uint64) string {
			if worst >= 512<<20 { // what is enough by both measures, where that is enough for a VM at all
				left = worst
			}
			return fmt.Sprintf(
				"set memory_mb to %d or less, use fewer nodes or more hypervisors, or stop VMs on {host}",
				left/uint64(len(t.nodes))>>20,
			)
		}
		switch {
		case need > best:
			c.addOn(
				t.spec.Name, deploy.Fail, fix(best), "%s %s %s of memory on {each}, where %s is left of %s",
				count(len(t.nodes)), needs(len(t.nodes)), size(need), size(best), size(t.host.MemoryTotal),
			)
		case need > worst:
			c.addOn(t.spec.Name, deploy.Warn, fix(worst), "%s %s %s of memory on {each}: of %s it uses %s and has promised %s to running VMs", count(len(t.nodes)), needs(len(t.nodes)), size(need),
				size(t.host.MemoryTotal), size(t.host.MemoryUsed), size(promised))
		}
	}
	return c.done("enough for %d MiB a node", p.req.Spec.MemoryMB)
}

// FreeMemory is what a hypervisor has left of its memory, in bytes, by what it uses, or by what it has promised to the
// guests that run there, whichever is less.
func FreeMemory(host Hypervisor, vms []VM) uint64 {
	return left(host.MemoryTotal, max(host.MemoryUsed, promisedOn(host.Name, vms)))
}

// promisedOn is the memory of the guests that run on a hypervisor; stopped ones and templates need none.
func promisedOn(hypervisor string, vms []VM) uint64 {
	var sum uint64
	for _, vm := range vms {
		if vm.Hypervisor == hypervisor && vm.Status == "running" && !vm.Template {
			sum += vm.Memory
		}
	}
	return sum
}

func left(total, used uint64) uint64 {
	if used >= total {
		return 0
	}
	return total - used
}

func size(bytes uint64) string { return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30)) }

// onEach runs one check on every target at once and keeps the findings in the targets' order.
func onEach(targets []target, into *check, one func(t target, c *check)) {
	parts := make([]check, len(targets))
	_ = each(len(targets), func(i int) error {
		parts[i] = check{id: into.id, title: into.title}
		one(targets[i], &parts[i])
		return nil
	})
	for _, part := range parts {
		for _, f := range part.findings {
			if f.Unmade {
				into.findings = append(into.findings, f)
				continue
			}
			into.addOn(f.hosts[0], f.Status, f.Fix, "%s", f.Detail)
		}
	}
}

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

// ssh tries what the provider does on a hypervisor, where it does anything there: images and snippets have no API.
func (p *preflight) ssh() []deploy.Finding {
	c := &check{id: "pve-ssh", title: "hypervisors can be worked on over SSH"}
	var targets []target
	for _, t := range p.judged(c) {
		spec := p.req.Spec
		spec.Hosts = placement.Hosts([]placement.Hypervisor{t.spec})
		if placement.NeedsHypervisorSSH(spec, t.spec.Name) {
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

// before tells whether the version is older than major.minor; an unreadable one is not.
func (v Version) before(major, minor int) bool {
	parts := strings.Split(v.Version, ".")
	if len(parts) < 2 {
		return false
	}
	m, err := strconv.Atoi(parts[1])
	return err == nil && (v.Major() < major || v.Major() == major && m < minor)
}
