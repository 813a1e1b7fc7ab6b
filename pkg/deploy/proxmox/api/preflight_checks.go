package api

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"hive-test/pkg/deploy"
)

// slowAnswer is when the time of an answer is worth a word.
const slowAnswer = time.Second

func (p *preflight) access() []deploy.Finding {
	c := &check{id: "pve-access", title: "Proxmox API can be used"}
	if major := p.version.Major(); major != 0 && major < 8 {
		c.add(
			deploy.Fail, "upgrade the hypervisors to Proxmox VE 8 or 9",
			"the API is of Proxmox VE %s; 8.0 is the oldest that works", p.version.Version,
		)
	}
	late := ""
	if p.slowest >= slowAnswer {
		late = fmt.Sprintf(", and is slow: an answer took %s", p.slowest.Round(100*time.Millisecond))
	}
	return c.done("Proxmox VE %s accepts the API token %s%s", p.version.Version, p.req.TokenID, late)
}

func (p *preflight) hypervisors() []deploy.Finding {
	c := &check{id: "pve-hypervisors", title: "hypervisors exist and are online"}
	if p.hostsErr != nil {
		c.unknown("the list of hypervisors", p.hostsErr)
		return c.done("")
	}
	if len(p.req.Spec.Hypervisors) == 0 {
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
				fmt.Sprintf("start %s, or remove it from proxmox.hypervisors; see: pvecm status", t.spec.Name),
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
	return c.done("%s", p.targetNames()+" online")
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

// image looks for the OS image on every hypervisor: a local storage holds it on some of them only.
func (p *preflight) image() []deploy.Finding {
	c := &check{id: "pve-image", title: "OS image is on every hypervisor"}
	image := p.req.Spec.OSImage
	targets := slices.DeleteFunc(p.judged(c), func(t target) bool { return p.templateOf(t) != 0 })
	if len(targets) == 0 && len(p.usable()) > 0 {
		c.skip("nodes are clones of a template")
		return c.done("")
	}
	store, rest, ok := strings.Cut(image, ":")
	kind, _, isPath := strings.Cut(rest, "/")
	if !ok || !isPath || store == "" {
		c.add(
			deploy.Fail, "set os_image to a volume such as local:iso/debian-12-genericcloud-amd64.img",
			"os_image %q is not of the form STORAGE:iso/FILE or STORAGE:import/FILE", image,
		)
		return c.done("")
	}
	if kind == "import" && p.version.before(8, 4) {
		c.add(
			deploy.Fail, "upgrade to Proxmox VE 8.4 or later, or set os_image to a volume of content iso",
			"%s is an import volume, which needs Proxmox VE 8.4; this is %s", image, p.version.Version,
		)
		return c.done("")
	}
	onEach(targets, c, func(t target, c *check) { p.imageOn(t, store, kind, c) })
	return c.done("%s on %s", image, p.targetNames())
}

func (p *preflight) imageOn(t target, store, kind string, c *check) {
	image := p.req.Spec.OSImage
	if t.err != nil {
		c.unknown("image "+image+" on "+t.spec.Name, t.err)
		return
	}
	s, found := t.storage(store)
	if !found && !p.sees("/storage/"+store, "Datastore.Audit", "Datastore.AllocateSpace") {
		c.skip("storage %s is not visible to the token", store)
		return
	}
	if !found {
		c.addOn(
			t.spec.Name, deploy.Fail, "set os_image to a volume on one of: "+t.storageNames(kind),
			"storage %s of image %s does not exist on {host}", store, image,
		)
		return
	}
	if !s.Holds(kind) {
		c.addOn(
			t.spec.Name, deploy.Fail,
			fmt.Sprintf("pvesm set %s --content %s", store, strings.Join(append(slices.Clone(s.Content), kind), ",")),
			"storage %s on {host} is not configured for content %s", store, kind,
		)
		return
	}
	volumes, err := p.api.Content(p.ctx, t.spec.Name, store, kind)
	if err != nil {
		c.unknown("image "+image+" on "+t.spec.Name, err)
		return
	}
	if slices.ContainsFunc(volumes, func(v Volume) bool { return v.ID == image }) {
		return
	}
	c.addOn(t.spec.Name, deploy.Fail, imageFix(image, volumes), "image %s does not exist on {host}", image)
}

func imageFix(image string, volumes []Volume) string {
	file := image[strings.LastIndex(image, "/")+1:]
	fix := fmt.Sprintf("on {host} put %s where 'pvesm path %s' says", file, image)
	var there []string
	for _, v := range volumes {
		there = append(there, v.ID)
	}
	if len(there) > 5 {
		there = append(there[:5], "...")
	}
	if len(there) > 0 {
		fix += ", or set os_image to one that is there: " + strings.Join(there, ", ")
	}
	return fix
}

func (p *preflight) datastore() []deploy.Finding {
	c := &check{id: "pve-datastore", title: "datastores take VM disks"}
	onEach(p.judged(c), c, func(t target, c *check) { p.store(t, t.spec.Datastore, "images", "datastore_id", c) })
	return c.done("every hypervisor's datastore holds images")
}

func (p *preflight) snippets() []deploy.Finding {
	c := &check{id: "pve-snippets", title: "snippet storages take cloud-init snippets"}
	if !p.req.Spec.Snippets() {
		c.skip("cloud_init is none: nothing is uploaded")
		return c.done("")
	}
	onEach(p.judged(c), c, func(t target, c *check) { p.store(t, t.spec.SnippetStore, "snippets", "snippet_store", c) })
	return c.done("every hypervisor's snippet storage holds snippets")
}

func (p *preflight) store(t target, name, kind, setting string, c *check) {
	if t.err != nil {
		c.unknown(fmt.Sprintf("storage %s on %s", name, t.spec.Name), t.err)
		return
	}
	s, found := t.storage(name)
	switch {
	case !found && !p.sees("/storage/"+name, "Datastore.Audit", "Datastore.AllocateSpace"):
		c.skip("storage %s is not visible to the token", name)
	case !found:
		c.addOn(t.spec.Name, deploy.Fail, fmt.Sprintf(
			"set %s of hypervisor {host} to one of: %s", setting, t.storageNames(kind),
		),
			"storage %s does not exist on {host}, or the token has no privilege on it", name)
	case !s.Holds(kind):
		c.addOn(t.spec.Name, deploy.Fail, fmt.Sprintf(
			"pvesm set %s --content %s", name, strings.Join(append(slices.Clone(s.Content), kind), ","),
		),
			"storage %s on {host} is not configured for content %s (it holds %s)", name, kind, strings.Join(s.Content, ", "))
	case !s.Active:
		c.addOn(
			t.spec.Name, deploy.Fail, "on {host} look at: pvesm status --storage "+name,
			"storage %s on {host} is not active", name,
		)
	}
}

func (p *preflight) bridges() []deploy.Finding {
	c := &check{id: "pve-bridges", title: "network bridges exist"}
	wanted := slices.Compact([]string{p.req.Spec.ManagementBridge, p.req.Spec.DataBridge})
	onEach(p.judged(c), c, func(t target, c *check) {
		if t.bridgesErr != nil {
			c.unknown("the bridges of "+t.spec.Name, t.bridgesErr)
			return
		}
		for _, bridge := range wanted {
			switch {
			case slices.Contains(t.bridges, bridge):
			case strings.HasPrefix(bridge, "vmbr") && !p.sees(
				"/sdn/zones/localnetwork/"+bridge, "SDN.Use", "SDN.Audit",
			):
				c.skip("bridge %s is not visible to the token", bridge)
			default:
				c.addOn(t.spec.Name, deploy.Fail, fmt.Sprintf("create %s on {host} (System > Network), set management_bridge or data_bridge to one of: %s, or give the token SDN.Use on it",
					bridge, strings.Join(t.bridges, ", ")), "bridge %s does not exist on {host}, or the token may not use it", bridge)
			}
		}
	})
	return c.done("%s on %s", strings.Join(wanted, " and "), p.targetNames())
}

// ids asks for every chosen id, since ids of VMs that the token cannot see are missing in the listing.
func (p *preflight) ids() []deploy.Finding {
	c := &check{id: "pve-vmids", title: "VM ids are free"}
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
			p.idFree(n.VMID, n.Name, holders, c)
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
				"a node needs %d cores; there are %d on {each}", p.req.Spec.CPUCores, t.host.CPUs,
			)
		case need+running > allowed:
			c.addOn(t.spec.Name, deploy.Fail,
				fmt.Sprintf(
					"set proxmox.cpu_overcommit to %d, or use fewer nodes, fewer cpu_cores or more hypervisors",
					(need+running+t.host.CPUs-1)/t.host.CPUs,
				),
				"%s %s %d cores on {each}, where %d run already and %d CPUs take %d (proxmox.cpu_overcommit is %d)", count(len(t.nodes)), needs(len(t.nodes)), need, running, t.host.CPUs, allowed, factor)
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
		promised := p.promised(t.spec.Name)
		best := left(t.host.MemoryTotal, min(t.host.MemoryUsed, promised))
		worst := left(t.host.MemoryTotal, max(t.host.MemoryUsed, promised))
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

// promised is the memory of the guests that run on a hypervisor; stopped ones and templates need none.
func (p *preflight) promised(hypervisor string) uint64 {
	var sum uint64
	for _, vm := range p.vms {
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

// disk adds up what the whole cluster needs of each datastore; a shared one serves several hypervisors.
func (p *preflight) disk() []deploy.Finding {
	c := &check{id: "pve-disk", title: "datastores have enough space"}
	type demand struct {
		store Storage
		host  string // empty for a shared one
		nodes int
	}
	demands := map[string]*demand{}
	var order []string
	for _, t := range p.judged(c) {
		if TimedOut(t.err) || errors.Is(t.err, deploy.ErrTimeUp) {
			c.unknown("the space on "+t.spec.Name, t.err)
			continue
		}
		s, found := t.storage(t.spec.Datastore)
		if !found || t.err != nil || !s.Active {
			continue // the check of the datastore itself says so
		}
		key, host := s.Name+" on "+t.spec.Name, t.spec.Name
		if s.Shared {
			key, host = s.Name, ""
		}
		if demands[key] == nil {
			demands[key] = &demand{store: s, host: host}
			order = append(order, key)
		}
		demands[key].nodes += len(t.nodes)
	}
	for _, key := range order {
		d := demands[key]
		need := uint64(d.nodes) * uint64(p.req.Spec.DiskSizeGB) << 30
		where := d.store.Name + " on {each}"
		if d.host == "" {
			where = d.store.Name + " (shared)"
		}
		if need > d.store.Available {
			c.addOn(d.host, deploy.Fail, fmt.Sprintf(
				"set disk_size_gb to %d or less, use fewer nodes, another datastore_id, or free space on %s",
				d.store.Available/uint64(d.nodes)>>30, where,
			),
				"%s %s %s of space on datastore %s, where %s is left of %s", count(d.nodes), needs(d.nodes), size(need), where, size(d.store.Available), size(d.store.Capacity))
		}
	}
	return c.done("enough for %d GiB a node", p.req.Spec.DiskSizeGB)
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

// needed are privileges that the provider or hive-test itself needs (observed on PVE 8.4 with a token that lacked one
// at a time; names of PVE 9 from its published permission checks). They may be held on any of paths; "A|B" is either.
type needed struct {
	paths []string
	privs []string
}

func (p *preflight) privileges() []deploy.Finding {
	c := &check{id: "pve-privileges", title: "API token has the privileges"}
	if p.privsErr != nil {
		c.unknown("the token's privileges", p.privsErr)
		return c.done("")
	}
	if empty(p.privs) {
		fix := p.grant("/")
		if user, name := splitToken(p.req.TokenID); user == "root@pam" {
			fix += "; or let it have its user's rights: pveum user token modify " + user + " " + name + " --privsep 0"
		}
		c.add(
			deploy.Fail, fix,
			"the API token %s has no privilege at all: a token with privilege separation needs its own ACL",
			p.tokenName(),
		)
		return c.done("")
	}
	for _, n := range p.neededPrivileges() {
		var missing []string
		for _, priv := range n.privs {
			if !p.holds(n.paths, priv) {
				missing = append(missing, first(priv))
			}
		}
		if len(missing) > 0 {
			c.add(
				deploy.Fail, p.grant(n.paths[0]), "the API token %s lacks %s on %s", p.tokenName(),
				strings.Join(missing, ", "), n.paths[0],
			)
		}
	}
	if missing := slices.DeleteFunc(
		[]string{"Pool.Allocate", "Pool.Audit"},
		func(priv string) bool { return p.has("/pool/"+idLeasePrefix+"0", priv) },
	); len(missing) > 0 {
		c.add(
			deploy.Warn, p.grant("/pool"),
			"the API token %s lacks %s on /pool: other machines cannot see which VM ids a run is about to use, nor "+
				"reap whether it lives",
			p.tokenName(), strings.Join(missing, ", "),
		)
	}
	if p.tokenErr == nil && !p.token.Expires.IsZero() && time.Until(p.token.Expires) < soon {
		user, name := splitToken(p.req.TokenID)
		c.add(
			deploy.Warn, "pveum user token modify "+user+" "+name+" --expire 0", "the API token %s expires at %s",
			p.tokenName(), p.token.Expires.UTC().Format(time.RFC3339),
		)
	}
	return c.done("the token has what creating and deleting the VMs needs%s", p.separation())
}

// soon is when a token's end is worth a word: a run and what follows it may be longer.
const soon = 24 * time.Hour

func (p *preflight) separation() string {
	switch {
	case p.tokenErr != nil:
		return ""
	case p.token.Separated:
		return " (by its own ACL: privilege separation is on)"
	}
	return " (its user's: privilege separation is off)"
}

func (p *preflight) tokenName() string {
	if p.req.TokenID == "" {
		return "USER@REALM!NAME"
	}
	return p.req.TokenID
}

// grant are the commands that give the token all privileges on a path and below. A token with privilege separation has
// what both it and its user have there; one without has its user's.
func (p *preflight) grant(path string) string {
	user, _ := splitToken(p.tokenName())
	who := ""
	if p.tokenErr != nil || p.token.Separated {
		who = " --tokens '" + p.tokenName() + "'"
	}
	if user != "root@pam" {
		who += " --users " + user
	}
	return makeRole(p.version.Major()) + "; pveum acl modify " + path + who + " --roles " + RoleName
}

// first is the narrower one of alternative privileges.
func first(priv string) string { name, _, _ := strings.Cut(priv, "|"); return name }

func (p *preflight) holds(paths []string, priv string) bool {
	for alternative := range strings.SplitSeq(priv, "|") {
		for _, path := range paths {
			if p.has(path, alternative) {
				return true
			}
		}
	}
	return false
}

func empty(privs map[string]map[string]bool) bool {
	for _, names := range privs {
		if len(names) > 0 {
			return false
		}
	}
	return true
}

func (p *preflight) neededPrivileges() []needed {
	vms := []string{"/vms"}
	if p.req.Pool != "" {
		vms = []string{"/pool/" + p.req.Pool, "/vms"}
	}
	agent := "VM.Monitor"
	if p.version.Major() >= 9 {
		agent = "VM.GuestAgent.Audit|VM.GuestAgent.Unrestricted"
	}
	clone := []string{}
	if slices.ContainsFunc(p.targets, func(t target) bool { return p.templateOf(t) != 0 }) {
		clone = append(clone, "VM.Clone")
	}
	if slices.ContainsFunc(p.usable(), p.migrates) {
		clone = append(clone, "VM.Migrate")
	}
	list := []needed{{vms, append(clone,
		"VM.Allocate", "VM.Audit", "VM.PowerMgmt", agent, "VM.Config.Disk", "VM.Config.CPU", "VM.Config.Memory",
		"VM.Config.Network",
		"VM.Config.HWType", "VM.Config.Options", "VM.Config.CDROM", "VM.Config.Cloudinit",
	)}}
	seen := map[string]bool{}
	add := func(path string, privs ...string) {
		if !seen[path+privs[0]] {
			seen[path+privs[0]] = true
			list = append(list, needed{[]string{path}, privs})
		}
	}
	for _, t := range p.targets {
		add("/storage/"+t.spec.Datastore, "Datastore.AllocateSpace")
		if p.req.Spec.Snippets() {
			add("/storage/"+t.spec.SnippetStore, "Datastore.Allocate")
		}
		if store, _, found := strings.Cut(p.req.Spec.OSImage, ":"); found && p.templateOf(t) == 0 {
			add("/storage/"+store, "Datastore.AllocateSpace|Datastore.Audit")
		}
	}
	for _, bridge := range []string{p.req.Spec.ManagementBridge, p.req.Spec.DataBridge} {
		if strings.HasPrefix(bridge, "vmbr") { // an SDN network's path holds its zone, which is not known here
			add("/sdn/zones/localnetwork/"+bridge, "SDN.Use")
		}
	}
	return list
}

// sees tells whether the token holds any of the privileges on the path; what it does not see cannot be told from what
// is not there.
func (p *preflight) sees(path string, privs ...string) bool {
	return p.privsErr != nil || slices.ContainsFunc(privs, func(priv string) bool { return p.has(path, priv) })
}

func (p *preflight) has(path, priv string) bool { return privileged(p.privs, path, priv) }

// privileged walks up from path: the nearest listed path decides, and what it has counts below only if it propagates.
func privileged(privs map[string]map[string]bool, path, priv string) bool {
	exact := true
	for {
		if names, listed := privs[path]; listed {
			propagates, held := names[priv]
			return held && (exact || propagates)
		}
		if path == "/" {
			return false
		}
		exact = false
		path = path[:strings.LastIndex(path, "/")]
		if path == "" {
			path = "/"
		}
	}
}
