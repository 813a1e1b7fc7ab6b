package pve

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The recorders left out requests that tidied up between two records, and did some things by hand. arrange brings the
// VM that a record is about into the state that the recorded answer tells of: there or not, running or not, locked or
// not, its guest alive or not. What the simulator answers in that state is what is compared.

var (
	vmCall  = regexp.MustCompile(`^/api2/json/nodes/([^/]+)/qemu/(\d+)([^?]*)`)
	lockIs  = regexp.MustCompile(`VM is locked \(([a-z-]+)\)`)
	lockNow = regexp.MustCompile(`lock=([a-z-]+)`)
	takenID = regexp.MustCompile(`VM (\d+) already exists`)
	onNode  = regexp.MustCompile(`already exists on node '([^']+)'`)
	sized   = regexp.MustCompile(`\bsize=(\d+)([GM])`)
	fileIn  = regexp.MustCompile(`\blocal:((?:import|snippets|iso)/[A-Za-z0-9._-]+)`)
	vmLock  = regexp.MustCompile(`can't lock file '/var/lock/qemu-server/lock-(\d+)\.conf'`)
	// toolErr are failures of the programs of the machine on which the records were made, and of its network.
	toolErr = regexp.MustCompile(
		`/usr/bin/qemu-img|genisoimage|got no worker upid|qmp command|EFI base image|unable to find command|qemu-img: Could not open|Connecting to 10\.91|Can't connect to 10\.91|migration aborted|checksum mismatch: got`,
	)
)

// circumstance is what a record tells of the VM that it is about.
type circumstance struct {
	node, leaf string
	vmid       int
	text       string // PVE's refusal, by the call or by the task that it started
	ok         bool   // neither refused
}

// arrange makes the situation of a record, as far as it is told of.
func (p *player) arrange(r *fullRecord) {
	p.t.Helper()
	if r.Seq != p.lastSeq+1 && p.crowd == nil {
		clear(p.touched)
	}
	p.arrangeNew(r)
	p.arrangePools(r)
	p.arrangeFiles(r)
	m := vmCall.FindStringSubmatch(r.Path)
	if m == nil {
		return
	}
	vmid, _ := strconv.Atoi(m[2])
	c := circumstance{node: m[1], vmid: vmid, leaf: strings.TrimRight(m[3], "/"), text: r.Reason}
	if r.Status == 200 {
		upid := upidOf(r)
		c.text = p.exits[upid]
		c.ok = !strings.HasPrefix(upid, "UPID:") || c.text == "OK"
		if !c.ok && c.text == "" {
			return // its end was not recorded
		}
	}
	if r.Status == 400 || r.Status == 401 || r.Status == 403 || r.Status == 501 || r.Status >= 595 ||
		strings.Contains(r.Reason, "no quorum?") {
		return
	}
	fresh := p.mayArrange(vmid)
	if fresh {
		p.arrangeExistence(r, c)
	}
	p.arrangeLock(r, c)
	p.arrangeGuest(r, c)
	p.arrangePower(r, c, fresh)
}

func upidOf(r *fullRecord) string {
	upid, _ := r.answer()["data"].(string)
	return upid
}

// arrangeNew makes room for the VM that a record makes, or has it there where PVE said so.
func (p *player) arrangeNew(r *fullRecord) {
	p.t.Helper()
	if m := takenID.FindStringSubmatch(fmt.Sprint(r.answer()["errors"])); m != nil {
		vmid, _ := strconv.Atoi(m[1])
		p.want(vmid, "pve1")
	}
	if r.Method != http.MethodPost ||
		!strings.HasSuffix(strings.Split(r.Path, "?")[0], "/qemu") && !strings.HasSuffix(r.Path, "/clone") {
		return
	}
	params := paramsOf(r)
	id := params.Get("vmid")
	if strings.HasSuffix(r.Path, "/clone") {
		id = params.Get("newid")
	}
	vmid, err := strconv.Atoi(id)
	taken := strings.Contains(r.Reason, "already exists")
	if err != nil || r.Status != 200 && !taken || !p.mayArrange(vmid) {
		return
	}
	switch {
	case taken && p.crowd == nil:
		node := "pve1"
		if m := onNode.FindStringSubmatch(r.Reason); m != nil {
			node = m[1]
		}
		p.want(vmid, node)
	case p.kept[vmid]:
		delete(p.kept, vmid)
	default:
		p.gone(vmid)
	}
}

// mayArrange tells whether a VM may have been changed by requests that were not recorded: it was not spoken of since
// numbers of records were last missing.
func (p *player) mayArrange(vmid int) bool {
	seen := p.touched
	if p.crowd != nil {
		seen = p.crowd.touched
	}
	first := !seen[vmid]
	seen[vmid], p.touched[vmid] = true, true
	return first
}

func (p *player) arrangeExistence(r *fullRecord, c circumstance) {
	p.t.Helper()
	missing := strings.Contains(c.text, "/"+strconv.Itoa(c.vmid)+".conf' does not exist") ||
		strings.Contains(c.text, "unable to find configuration file for VM "+strconv.Itoa(c.vmid))
	v := p.vm(c.vmid)
	switch {
	case missing && v != nil && v.Node == c.node:
		p.gone(c.vmid)
	case !missing && v == nil:
		p.want(c.vmid, c.node)
		if strings.HasPrefix(c.leaf, "/agent") && !strings.Contains(c.text, "No QEMU guest agent") &&
			p.vm(c.vmid).Config["agent"] == "" {
			p.c.ok("PUT", "/nodes/"+c.node+"/qemu/"+strconv.Itoa(c.vmid)+"/config", "agent=1")
		}
	}
}

// arrangeLock sets the lock that a note or a refusal tells of, once for all records that tell of the same.
func (p *player) arrangeLock(r *fullRecord, c circumstance) {
	lock := ""
	if m := lockNow.FindStringSubmatch(r.Note); m != nil {
		lock = m[1]
	} else if m := lockIs.FindStringSubmatch(c.text); m != nil {
		lock = m[1]
	}
	situation := strconv.Itoa(c.vmid) + lock + strings.Split(r.Note+"]", "]")[0]
	if lock != "" && p.lockedFor == situation {
		return
	}
	p.lockedFor = situation
	p.setLock(c.vmid, lock)
}

func (p *player) setLock(vmid int, lock string) {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	v := p.s.state.VMs[vmid]
	switch {
	case v == nil:
	case lock == "":
		delete(v.Config, "lock")
	default:
		v.Config["lock"] = lock
	}
}

func (p *player) arrangeGuest(r *fullRecord, c circumstance) {
	p.f.mu.Lock()
	defer p.f.mu.Unlock()
	if content := field(r.answer()["data"], "content"); c.leaf == "/agent/file-read" && c.ok {
		p.f.files = map[string]string{paramsOf(r).Get("file"): content}
	}
	p.f.agentOff = strings.Contains(c.text, "QEMU guest agent is not running")
	p.f.deaf = strings.Contains(c.text, "VM quit/powerdown failed")
	p.f.startErr = nil
	if strings.HasPrefix(c.text, "start failed: ") {
		p.f.startErr = errors.New("the machine did not start")
	}
}

func (p *player) arrangePower(r *fullRecord, c circumstance, fresh bool) {
	p.t.Helper()
	if p.crowd != nil {
		return
	}
	v := p.vm(c.vmid)
	if v == nil || v.Node != c.node {
		return
	}
	status := field(r.answer()["data"], "status")
	switch {
	case fresh && c.leaf == "/status/current" && status != "":
		p.power(v, status == "running")
	case noted(r, "[running VM]"), noted(r, "[stopped VM]"):
		if p.poweredFor != strings.Split(r.Note, ":")[0] {
			p.poweredFor = strings.Split(r.Note, ":")[0]
			p.power(v, noted(r, "[running VM]"))
		}
	case strings.Contains(c.text, "not running") && !strings.Contains(c.text, "agent"), c.leaf == "/status/start" && c.ok, c.leaf == "/status/start" && strings.HasPrefix(c.text, "start failed"),
		c.leaf == "" && r.Method == http.MethodDelete && c.ok, c.leaf == "/template" && r.Status == 200:
		p.power(v, false)
	case strings.Contains(c.text, "is running") || strings.Contains(
		c.text, "already running",
	), strings.HasPrefix(c.leaf, "/agent/") && r.Status == 200,
		strings.Contains(c.text, "agent is not running"), strings.Contains(c.text, "powerdown failed"):
		p.power(v, true)
	}
}

func (p *player) vm(vmid int) *vm {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return p.s.state.VMs[vmid]
}

// power switches a VM without the API, which its lock could forbid.
func (p *player) power(v *vm, on bool) {
	p.t.Helper()
	p.s.mu.Lock()
	running := p.s.running(v)
	if running == on {
		p.s.mu.Unlock()
		return
	}
	lock := v.Config["lock"]
	delete(v.Config, "lock")
	p.s.mu.Unlock()
	defer p.quorum()()
	base := "/nodes/" + v.Node + "/qemu/" + strconv.Itoa(v.ID) + "/status/"
	if on {
		p.c.task("POST", base+"start", nil)
	} else {
		p.c.task("POST", base+"stop", nil)
	}
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	if lock != "" {
		v.Config["lock"] = lock
	}
}

// quorum brings all hypervisors back for what is to be arranged; the result takes those away again that were gone.
func (p *player) quorum() func() {
	p.t.Helper()
	var gone []string
	p.s.mu.Lock()
	for _, n := range p.s.state.Nodes {
		if !n.Online {
			gone = append(gone, n.Name)
			n.Online = true
		}
	}
	p.s.mu.Unlock()
	return func() {
		for _, name := range gone {
			p.online(name, false)
		}
	}
}

func (p *player) want(vmid int, node string) {
	p.t.Helper()
	if p.vm(vmid) != nil {
		return
	}
	defer p.quorum()()
	form := url.Values{"memory": {"64"}, "boot": {"order=virtio0"}, "virtio0": {"local:1,format=qcow2"}}
	if vmid == 511 {
		form.Set("virtio0", "local:1") // as its note says: raw
	}
	if config := p.configs[vmid]; config != nil {
		form = formOf(config)
	}
	p.arrangeVolumes(node, form.Get("cicustom"))
	form.Set("vmid", strconv.Itoa(vmid))
	p.c.task("POST", "/nodes/"+node+"/qemu", form)
	if config := p.configs[vmid]; config["template"] == float64(1) {
		p.c.task("POST", "/nodes/"+node+"/qemu/"+strconv.Itoa(vmid)+"/template", nil)
	}
}

// formOf are the parameters with which a VM of that configuration is made.
func formOf(config map[string]any) url.Values {
	form := url.Values{}
	for k, v := range config {
		text := formText(v)
		switch {
		case slices.Contains(
			[]string{"digest", "meta", "smbios1", "vmgenid", "lock", "parent", "snaptime", "vmstate", "cipassword"}, k,
		) || k == "template" && text == "1" || strings.HasPrefix(k, "unused"):
			continue
		case strings.Contains(text, "cloudinit"):
			text = "local:cloudinit"
		case strings.HasPrefix(text, "local:") && sized.MatchString(text):
			text = newDisk(text)
		}
		form.Set(k, text)
	}
	return form
}

// newDisk allocates what a drive of a configuration is.
func newDisk(text string) string {
	volume, options, _ := strings.Cut(text, ",")
	size := "1"
	if m := sized.FindStringSubmatch(options); m != nil && m[2] == "G" {
		size = m[1]
	}
	options = strings.Trim(sized.ReplaceAllString(","+options, ""), ",")
	return strings.Trim("local:"+size+",format="+strings.TrimPrefix(filepath.Ext(volume), ".")+","+options, ",")
}

// arrangePools has the pools that are answered about, and not those that are made.
func (p *player) arrangePools(r *fullRecord) {
	p.t.Helper()
	params := paramsOf(r)
	id := params.Get("poolid")
	switch {
	case r.Status != 200 || !strings.HasPrefix(r.Path, "/api2/json/pools"):
		if pool := params.Get("pool"); r.Status == 200 && pool != "" {
			p.havePool(pool)
		}
	case id == "":
	case r.Method == http.MethodPost:
		if r.Seq != p.lastSeq+1 {
			p.s.mu.Lock()
			delete(p.s.state.Pools, id)
			p.s.mu.Unlock()
		}
	case r.Method == http.MethodPut && params.Get("delete") == "" && r.Seq != p.lastSeq+1:
		p.havePool(id)
		vmid, _ := strconv.Atoi(params.Get("vms"))
		p.s.mu.Lock()
		pool := p.s.state.Pools[id]
		pool.VMs = slices.DeleteFunc(pool.VMs, func(other int) bool { return other == vmid })
		p.s.mu.Unlock()
	default:
		p.havePool(id)
	}
}

func (p *player) havePool(id string) {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	if p.s.state.Pools[id] == nil {
		p.s.state.Pools[id] = &pool{ID: id, Comment: p.comments[id]}
	}
}

// arrangeFiles has the files that a record uses without having been refused, and not those that it makes.
func (p *player) arrangeFiles(r *fullRecord) {
	p.t.Helper()
	exit := p.exits[upidOf(r)]
	if r.Status != 200 || exit != "" && exit != "OK" || r.Method == http.MethodGet {
		return
	}
	node, _, _ := strings.Cut(strings.TrimPrefix(r.Path, "/api2/json/nodes/"), "/")
	params := paramsOf(r)
	if name := params.Get("filename"); strings.HasSuffix(r.Path, "/content") {
		p.s.mu.Lock()
		if v := p.s.state.volume(node, "local:"+params.Get("vmid")+"/"+name); v != nil {
			p.s.state.removeVolume(v)
		}
		p.s.mu.Unlock()
	}
	for _, values := range params {
		p.arrangeVolumes(node, strings.Join(values, " "))
	}
}

func (p *player) arrangeVolumes(node, text string) {
	for _, m := range fileIn.FindAllStringSubmatch(text, -1) {
		if strings.Contains(p.refusals, m[1]+"' does not exist") {
			continue
		}
		p.s.mu.Lock()
		if p.s.state.volume(node, "local:"+m[1]) == nil {
			content, _, _ := contentOf(m[1])
			p.s.state.Volumes = append(p.s.state.Volumes, &volume{
				Node: node, Storage: "local", Name: m[1], Content: content,
				Format: strings.TrimPrefix(filepath.Ext(m[1]), "."), Size: 2 * gib,
			})
		}
		p.s.mu.Unlock()
	}
}

// hold takes the lock of a VM for a request whose task waited for it in vain.
func (p *player) hold(r *fullRecord) func() {
	p.t.Helper()
	m := vmLock.FindStringSubmatch(p.exits[upidOf(r)])
	if m == nil || p.crowd != nil {
		return func() {}
	}
	vmid, _ := strconv.Atoi(m[1])
	unlock, err := p.s.lockVM(p.t.Context(), vmid, p.s.opt.LockTimeout)
	if err != nil {
		p.t.Fatal(err)
	}
	return unlock
}

func (p *player) gone(vmid int) {
	p.t.Helper()
	v := p.vm(vmid)
	if v == nil {
		return
	}
	defer p.quorum()()
	p.power(v, false)
	p.s.mu.Lock()
	delete(v.Config, "lock")
	delete(v.Config, "protection")
	p.s.mu.Unlock()
	p.c.task("DELETE", "/nodes/"+v.Node+"/qemu/"+strconv.Itoa(vmid), nil)
}
