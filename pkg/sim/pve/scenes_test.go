package pve

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// scene is what was around the records of one subject: what existed when they began, and what was done by other hands
// than the API's in between.
type scene struct {
	prepare func(*player)
	before  func(*player, *fullRecord) string // why the record cannot be replayed, "" if it can
	login   func(*player, *fullRecord, http.Header) bool
	hold    func(p *player, crowd string) func() // takes what the crowd has to wait for; the result gives it back
}

func (s scene) enter(p *player, r *fullRecord) string {
	if s.before == nil {
		return ""
	}
	return s.before(p, r)
}

// The VMs of the laboratory, as their configurations were recorded.
const (
	templateForm = "vmid=120&name=tpl&memory=64&agent=1&boot=order%3Dvirtio0&net0=virtio,bridge%3Dvmbr0&virtio0=local:1,format%3Dqcow2"
	stoppedForm  = "vmid=161&memory=64&virtio0=local:1&ide2=local:cloudinit&net0=virtio,bridge%3Dvmbr0"
	runningForm  = "vmid=150&name=run&agent=1&memory=64&virtio0=local:1&boot=order%3Dvirtio0"
)

func (p *player) makeTemplate() {
	p.t.Helper()
	p.c.task("POST", "/nodes/pve1/qemu", templateForm)
	p.c.task("POST", "/nodes/pve1/qemu/120/template", nil)
}

func (p *player) makeRunning() {
	p.t.Helper()
	p.c.task("POST", "/nodes/pve1/qemu", runningForm)
	p.c.task("POST", "/nodes/pve1/qemu/150/status/start", nil)
}

func (p *player) usual() {
	p.t.Helper()
	p.makeTemplate()
	p.makeRunning()
}

// makeUser makes a user with a password; a token only if it is given one to make.
func (p *player) makeUser(name, password string) {
	p.t.Helper()
	p.c.ok("POST", "/access/users", url.Values{"userid": {name}, "password": {password}})
}

func (p *player) makeToken(user, name string, privsep string) {
	p.t.Helper()
	made, _ := p.c.ok("POST", "/access/users/"+user+"/token/"+name, url.Values{"privsep": {privsep}}).(map[string]any)
	p.secrets[user+"!"+name], _ = made["value"].(string)
}

func scenes() map[string]scene {
	usual := scene{prepare: (*player).usual}
	template := scene{prepare: (*player).makeTemplate}
	return map[string]scene{
		"01-basics":         {prepare: (*player).usual, login: ticketByNote},
		"03-config":         {},
		"08-permissions":    {prepare: preparePermissionRecords, before: forPermissions},
		"10-auth":           {prepare: prepareAuth, before: forAuth, login: ticketByNote},
		"09-agent":          {before: forPermissions},
		"11-concurrency":    {prepare: (*player).usual, before: withoutFileLocks, hold: holdVM},
		"12-node-offline":   {prepare: (*player).usual, before: thirdNode},
		"13-no-quorum":      {prepare: prepareQuorum, before: quorumByNote},
		"14-misc":           usual,
		"18-checks":         {prepare: (*player).usual, before: withoutFileLocks},
		"19-guest":          {before: insideGuest},
		"bpg-guest":         {before: driftOfGuest},
		"02-lifecycle":      {before: race},
		"18-snapshots":      {prepare: prepareSnapshots, before: snapshotsByNote},
		"goproxmox":         {prepare: prepareGo, login: ticketByNote},
		"bpg-b-clone":       template,
		"bpg-g-autoid":      usual,
		"bpg-minrole-clone": template,
		"v52-b-clone":       template,
		"bpg-a-fileid":      {before: importByShell},
		"v52-a-fileid":      {before: importByShell},
	}
}

func noted(r *fullRecord, mark string) bool { return strings.Contains(r.Note, mark) }

func prepareAuth(p *player) {
	p.usual()
	p.makeUser("scoped@pve", "secret12")
	p.makeToken("scoped@pve", "tok", "0")
}

// forAuth leaves out tickets that were made with the cluster's own key, which is not in the records.
func forAuth(_ *player, r *fullRecord) string {
	if noted(r, "ticket 1h58") || noted(r, "ticket 2h02") || noted(r, "ticket from the future") {
		return "a forged ticket"
	}
	return ""
}

// ticketByNote logs in with the ticket that was got last, where no token was used.
func ticketByNote(p *player, r *fullRecord, h http.Header) bool {
	switch {
	case r.Auth != "":
		return false
	case noted(r, "bad ticket"):
		h.Set("Cookie", "PVEAuthCookie=PVE:root@pam:00000000::bm8=")
		return true
	case noted(r, "no auth") || noted(
		r, "ticket in Authorization",
	) || noted(r, "login") || p.ticket == "" || r.Reason == "No ticket":
		return true
	}
	h.Set("Cookie", "PVEAuthCookie="+url.QueryEscape(p.ticket))
	switch {
	case noted(r, "bad CSRF"):
		h.Set("CSRFPreventionToken", "00000000:bm8")
	case r.Method != http.MethodGet && !noted(r, "without CSRF"):
		h.Set("CSRFPreventionToken", p.csrf)
	}
	return true
}

func prepareGo(p *player) {
	p.usual()
	p.makeUser("tick@pve", "secret12")
}

func preparePermissionRecords(p *player) {
	prepareForPermissions(p.c)
	p.c.ok("PUT", "/nodes/pve1/qemu/150/config", "name=run")
	for _, priv := range append(privilegesOfRecords(), "") {
		rest := slices.DeleteFunc(privilegesOfRecords(), func(other string) bool { return other == priv })
		user := "no" + strings.ToLower(strings.ReplaceAll(priv, ".", "")) + "@pve"
		if priv == "" {
			user = "all@pve"
		}
		_, secret, _ := strings.Cut(p.c.grant(user, map[string][]string{"/": rest}), "=")
		p.secrets[user+"!t1"] = secret
	}
}

// privilegesOfRecords are those that the recorded tokens lacked, one each.
func privilegesOfRecords() []string {
	return []string{
		"VM.Allocate", "VM.Audit", "VM.Clone", "VM.PowerMgmt", "VM.Migrate", "VM.Monitor", "VM.Console", "VM.Backup",
		"VM.Snapshot",
		"VM.Config.Disk", "VM.Config.CPU", "VM.Config.Memory", "VM.Config.Network", "VM.Config.HWType",
		"VM.Config.Options",
		"VM.Config.CDROM", "VM.Config.Cloudinit", "Datastore.AllocateSpace", "Datastore.Audit",
		"Datastore.AllocateTemplate",
		"Datastore.Allocate", "SDN.Use", "SDN.Audit", "Pool.Audit", "Pool.Allocate", "Sys.Audit", "Sys.Modify",
		"Sys.AccessNetwork",
	}
}

func forPermissions(p *player, r *fullRecord) string {
	if variant, _, found := strings.Cut(r.Note, "]"); found && variant != p.variant {
		p.variant = variant
		p.gone(161)
		p.c.task("POST", "/nodes/pve1/qemu", stoppedForm)
	}
	if noted(r, "exec") && strings.Contains(r.Reason, "has not been found") {
		return "what a stand-in for a guest agent said"
	}
	return ""
}

// insideGuest leaves out what only a real guest can say, and what refers to it.
func insideGuest(p *player, r *fullRecord) string {
	p.moved = p.moved || noted(r, "move_disk running")
	switch {
	case p.moved && strings.HasSuffix(r.Path, "/qemu/500/config") && r.Method == http.MethodGet:
		return "a configuration after a call that is not simulated"
	case strings.Contains(r.Path, "/agent/exec"), realAgent.MatchString(r.Path), noted(r, "frozen"), noted(r, "/dev/zero"), noted(r, "file-read directory"):
		return "what a real guest's agent said"
	case paramsOf(r).Has("digest"):
		return "a digest of a request that was not recorded"
	}
	return ""
}

// realAgent are the commands that the agents of simulated guests do not know.
var realAgent = regexp.MustCompile(`/agent/(?:get-(?:fsinfo|memory|timezone|users|vcpus)|fsfreeze-|fstrim|set-user-password)`)

// driftOfGuest leaves out a configuration that was changed between two flows.
func driftOfGuest(p *player, r *fullRecord) string {
	if strings.HasSuffix(r.Path, "/config") &&
		(strings.HasPrefix(p.now.name, "bpg-guest-03") || strings.HasPrefix(p.now.name, "bpg-guest-04")) {
		return "a configuration that was changed by requests that were not recorded"
	}
	return ""
}

// withoutFileLocks leaves out what waited for lock files that the simulator does not have.
func withoutFileLocks(_ *player, r *fullRecord) string {
	if noted(r, "storage lock held") || noted(r, "user.cfg cfs lock held") || noted(r, "while user.cfg locked") ||
		noted(r, "does the VM exist after that failure") {
		return "a lock file was held by hand"
	}
	if noted(r, "2 concurrent deletes") {
		return "a race in which one request came between the check and the task of another"
	}
	return ""
}

var lockHeld = regexp.MustCompile(`VM config lock held|lock of new vmid held`)

// holdVM holds the lock of the VM that a crowd works on.
func holdVM(p *player, crowd string) func() {
	if !lockHeld.MatchString(crowd) {
		return nil
	}
	vmid := 320
	if strings.Contains(crowd, "new vmid") {
		vmid = 322
	}
	if vmid == 320 {
		p.want(vmid, "pve1")
	}
	unlock, err := p.s.lockVM(p.t.Context(), vmid, p.s.opt.LockTimeout)
	if err != nil {
		p.t.Fatal(err)
	}
	return unlock
}

// thirdNode takes the third hypervisor off the network as the records say. That only one of its daemons is down cannot
// be.
func thirdNode(p *player, r *fullRecord) string {
	daemon := noted(r, "[pveproxy3 down]") || noted(r, "[pvedaemon3")
	if daemon && strings.Contains(r.Path, "/pve3/") {
		return "one daemon of a hypervisor is down"
	}
	if r.Reason == "Connection timed out" {
		return "the first request after a hypervisor's network went down"
	}
	p.online("pve3", !noted(r, "[pve3 link down]"))
	return ""
}

func (p *player) online(node string, up bool) {
	p.t.Helper()
	if err := p.s.SetOnline(node, up); err != nil {
		p.t.Fatal(err)
	}
}

func prepareQuorum(p *player) {
	p.usual()
	p.c.task("POST", "/nodes/pve3/qemu", "vmid=400&name=on3&memory=64&boot=order%3Dvirtio0&virtio0=local:1")
	p.makeUser("tick@pve", "secret12")
}

func quorumByNote(p *player, r *fullRecord) string {
	if noted(r, "task-") {
		return "" // as it was for the request
	}
	p.online("pve2", !noted(r, "[no quorum]"))
	p.online("pve3", !noted(r, "[no quorum]"))
	return ""
}

// prepareSnapshots makes the tokens of one user that may each do something else.
func prepareSnapshots(p *player) {
	all := []string{"VM.Snapshot", "VM.Snapshot.Rollback", "VM.Audit", "VM.PowerMgmt"}
	p.c.grant("snap@pve", map[string][]string{"/": all})
	for name, privs := range map[string]string{
		"snap": "VM.Snapshot", "roll": "VM.Snapshot.Rollback", "audit": "VM.Audit", "snapaudit": "VM.Snapshot,VM.Audit",
		"rollpow": "VM.Snapshot.Rollback,VM.PowerMgmt", "power": "VM.PowerMgmt", "none": "",
	} {
		p.makeToken("snap@pve", name, "1")
		if privs == "" {
			continue
		}
		p.c.ok("POST", "/access/roles", url.Values{"roleid": {"Token" + name}, "privs": {privs}})
		p.c.ok("PUT", "/access/acl", url.Values{
			"path": {"/"}, "roles": {"Token" + name}, "tokens": {"snap@pve!" + name},
		})
	}
}

// snapshotsByNote makes and removes what the recorder made and removed unseen.
func snapshotsByNote(p *player, r *fullRecord) string {
	p.t.Helper()
	switch {
	case noted(
		r, "image lacks the snapshot",
	), p.vm(525) != nil && strings.Contains(r.Path, "/qemu/525/") && r.Method == http.MethodGet && !noted(r, "list"):
		return "a disk image that lost its snapshot"
	case noted(r, "status of the paused VM"), noted(r, "clone config"):
		return "a VM that was made anew by requests that were not recorded"
	case noted(r, "delete other snapshot while one runs") && r.Method == http.MethodDelete:
		p.c.task("DELETE", "/nodes/pve1/qemu/500/snapshot/live1", nil)
		return "a moment of a running task"
	case noted(r, "while snapshot runs"), noted(r, "while one runs"):
		return "a moment of a running task"
	case noted(r, "no disk at all"), noted(r, "snapshot of template"), noted(
		r, "one qcow2 and one raw",
	), noted(r, "raw with backup=0"):
		return "a VM that was made anew by requests that were not recorded"
	case noted(r, "config after move"), noted(r, "rollback after move"), r.Seq == 382 && r.Note == "config":
		return "a configuration after a call that is not simulated"
	case noted(r, "delete parent of p2") && r.Method == http.MethodDelete:
		p.haveSnapshot(510, "p1")
		p.haveSnapshot(510, "p2")
	case strings.HasPrefix(r.Note, "[") && p.vm(513) == nil:
		p.want(513, "pve1")
		p.haveSnapshot(513, "base")
	}
	if r.Method == "" || noted(r, "task-") {
		return ""
	}
	for _, name := range p.names {
		p.c.do("DELETE", "/nodes/pve1/qemu/510/snapshot/"+name, nil)
	}
	p.names = nil
	if strings.HasPrefix(r.Note, "name '") && r.Status == 200 {
		p.names = []string{paramsOf(r).Get("snapname")}
	}
	return ""
}

func (p *player) haveSnapshot(vmid int, name string) {
	p.t.Helper()
	if v := p.vm(vmid); v != nil && v.snapshot(name) == nil {
		p.c.task("POST", "/nodes/"+v.Node+"/qemu/"+strconv.Itoa(vmid)+"/snapshot", "snapname="+name)
	}
}

// race leaves out a request that came while the task of another was under way.
func race(_ *player, r *fullRecord) string {
	if r.Seq == 143 {
		return "a race in which one request came between the check and the task of another"
	}
	return ""
}

// importByShell does what the provider did by SSH between making a VM from an image file and growing its disk.
func importByShell(p *player, r *fullRecord) string {
	p.t.Helper()
	m := vmInPath.FindStringSubmatch(r.Path)
	if m == nil || r.Method == http.MethodPost && strings.HasSuffix(r.Path, "/qemu") {
		return ""
	}
	id, _ := strconv.Atoi(m[1])
	p.s.mu.Lock()
	v := p.s.state.VMs[id]
	bare := v != nil && v.Config["virtio0"] == ""
	p.s.mu.Unlock()
	if !bare {
		return ""
	}
	node, _, _ := strings.Cut(strings.TrimPrefix(r.Path, "/api2/json/nodes/"), "/")
	number, _ := strconv.Atoi(strings.TrimPrefix(node, "pve"))
	if _, errOut, rc := run(
		p.t, p.c.login(number-1, "root"), importCommand("0", "local:iso/cloud.img", "local", m[1]), "",
	); rc != 0 {
		p.t.Fatalf("import: %s", errOut)
	}
	if strings.HasPrefix(p.now.name, "v52-") { // that one grew the disk by SSH too
		run(p.t, p.c.login(number-1, "root"), "qm resize "+m[1]+" virtio0 3G", "")
	}
	return ""
}

var vmInPath = regexp.MustCompile(`/qemu/(\d+)`)
