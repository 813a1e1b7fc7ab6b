package pve

import (
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"hive-test/pkg/sim/host"
)

// vmOn finds a VM on the call's hypervisor. A VM elsewhere is as missing as one that does not exist (observed).
func (s *Server) vmOn(node string, vmid int) (*vm, error) {
	v := s.state.VMs[vmid]
	if v == nil || v.Node != node {
		return nil, failf("Configuration file 'nodes/%s/qemu-server/%d.conf' does not exist", node, vmid)
	}
	return v, nil
}

// vmFile is vmOn with the text that status changes and clones use.
func (s *Server) vmFile(node string, vmid int) (*vm, error) {
	v := s.state.VMs[vmid]
	if v == nil || v.Node != node {
		return nil, failf("unable to find configuration file for VM %d on node '%s'", vmid, node)
	}
	return v, nil
}

func (s *Server) running(v *vm) bool {
	return v.Machine && (v.restarting || s.opt.Machines.State(v.machineID()) == host.Running)
}

func (v *vm) checkLock() error {
	if l := v.Config["lock"]; l != "" {
		return failf("VM is locked (%s)", l)
	}
	return nil
}

func (s *Server) checkPool(c *call) error {
	if p := c.get("pool"); p != "" && s.state.Pools[p] == nil {
		return &apiError{status: 403, message: "Permission check failed (pool '" + p + "' does not exist)"}
	}
	return nil
}

// vmPriv checks a privilege on a VM or on the pool that it is to be made in.
func (s *Server) vmPriv(c *call, vmid int, pool, priv string) error {
	p := "/vms/" + strconv.Itoa(vmid)
	anyOf := strings.Split(priv, "|")
	if s.can(c.who, p, true, anyOf...) || (pool != "" && s.can(c.who, "/pool/"+pool, true, anyOf...)) {
		return nil
	}
	return forbidden(p, anyOf...)
}

// createVM is POST /nodes/{node}/qemu.
func createVM(s *Server, c *call) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pool := c.get("pool")
	if err := checkSSHKeys(c.get("sshkeys")); err != nil {
		return nil, err
	}
	if err := s.checkPool(c); err != nil {
		return nil, err
	}
	if err := s.need(c.who, "/", "Sys.Console"); err != nil && c.bool("ha-managed") {
		return nil, err
	}
	if s.vmPriv(c, c.vmid, pool, "VM.Allocate") != nil {
		return nil, &apiError{status: 403, message: "Permission check failed"}
	}
	if c.has("archive") {
		return nil, failf("volume '%s' does not exist", c.get("archive"))
	}
	config, err := s.newConfig(c, pool)
	if err != nil {
		return nil, err
	}
	if err := s.waitForNew(c); err != nil {
		return nil, err
	}
	if old := s.state.VMs[c.vmid]; old != nil {
		return nil, failf("unable to create VM %d - VM %d already exists on node '%s'", c.vmid, c.vmid, old.Node)
	}
	v := &vm{ID: c.vmid, Node: c.node, Config: vmConfig{"lock": "create"}}
	s.state.VMs[c.vmid] = v
	s.changed()
	start := c.bool("start")
	return s.vmTask(c, "qmcreate", c.vmid, func(t *task) error {
		if err := inTask(s.makeVM(t, v, config, pool)); err != nil {
			s.mu.Lock()
			delete(s.state.VMs, v.ID)
			s.mu.Unlock()
			return fmt.Errorf("unable to create VM %d - %w", v.ID, err)
		}
		if c.bool("ha-managed") {
			s.addManaged(t, v, start)
		}
		if start {
			s.autostart(t, v)
		}
		return nil
	}), nil
}

// waitForNew waits until nobody holds the lock of the VM that is to be made, half as long as others wait (observed). It
// is called with the server's mutex held and lets go of it meanwhile.
func (s *Server) waitForNew(c *call) error {
	s.mu.Unlock()
	unlock, err := s.lockVM(c.ctx, c.vmid, s.opt.LockTimeout/2)
	s.mu.Lock()
	if err != nil {
		return failf("unable to create VM %d - %s", c.vmid, err)
	}
	unlock()
	return nil
}

// onlyRoot refuses what no token may set.
func onlyRoot(k string) error {
	if strings.HasPrefix(k, "hostpci") {
		return failf("only root can set '%s' config for non-mapped devices", k)
	}
	return failf("only root can set '%s' config", k)
}

// autostart starts a new VM in a task of its own, as PVE does: the create task does not wait for it.
func (s *Server) autostart(t *task, v *vm) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.addLog("Execute autostart")
	c := &call{who: t.who, node: v.Node, vmid: v.ID}
	s.startByWho(c, func(st *task) error { return s.startVM(st, v.Node, v.ID) })
}

// newConfig checks the options of a new VM in PVE's order and returns them, drives not yet allocated.
func (s *Server) newConfig(c *call, pool string) (vmConfig, error) {
	config := vmConfig{}
	for _, k := range sortedKeys(c.params) {
		if createOnly(k) {
			continue
		}
		config[k] = c.get(k)
		if rootOnly(k) && c.who.name() != superuser {
			return nil, onlyRoot(k)
		}
		if isDrive(k) {
			if err := s.checkDrive(c, k, s.drive(k, config[k])); err != nil {
				return nil, err
			}
		}
	}
	for _, k := range sortedKeys(config) {
		for _, priv := range s.optionPrivs(k, config[k], true) {
			if err := s.vmPriv(c, c.vmid, pool, priv); err != nil {
				return nil, err
			}
		}
		if err := s.checkNet(c, k, config); err != nil {
			return nil, err
		}
	}
	return config, nil
}

// checkNet wants a bridge that the caller may use, and writes the card as PVE stores it.
func (s *Server) checkNet(c *call, k string, config vmConfig) error {
	if !isNet(k) {
		return nil
	}
	props, _ := parseProps(s.option(k).Keys, config[k], k)
	if props["bridge"] == "" {
		return failf("no sdn vnet ID specified")
	}
	if err := s.need(c.who, "/sdn/zones/localnetwork/"+props["bridge"], "SDN.Use"); err != nil {
		return err
	}
	config[k] = nic(props)
	return nil
}

// makeVM allocates drives and writes the configuration.
func (s *Server) makeVM(t *task, v *vm, config vmConfig, pool string) error {
	if err := t.work(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var m made
	for _, k := range drives(config) {
		text, err := s.makeDrive(v.Node, v.ID, k, s.drive(k, config[k]), config.template(), &m)
		if err != nil {
			s.undo(&m)
			t.addLog(m.log...)
			return err
		}
		config[k] = text
	}
	if err := s.newTags(t.who, v.ID, config); err != nil {
		s.undo(&m)
		t.addLog(m.log...)
		return err
	}
	if pool != "" {
		p := s.state.Pools[pool]
		if p == nil {
			s.undo(&m)
			return fmt.Errorf("can't add VM %d to pool '%s': pool does not exist", v.ID, pool)
		}
		p.VMs = append(p.VMs, v.ID)
	}
	t.addLog(m.log...)
	now := time.Now().Unix()
	config["meta"] = fmt.Sprintf("creation-qemu=%s,ctime=%d", qemuVersion(s.version), now)
	setDefault(config, "smbios1", "uuid="+newUUID())
	setDefault(config, "vmgenid", newUUID())
	setDefault(config, "boot", s.bootOrder(config))
	v.Config = config
	s.changed()
	return nil
}

func qemuVersion(version string) string {
	if version == Version84 {
		return "9.2.0"
	}
	return "11.0.0"
}

func setDefault(c vmConfig, key, value string) {
	if c[key] == "" {
		c[key] = value
	}
}

// getConfig is GET …/config.
func getConfig(s *Server, c *call) (any, error) {
	v, err := s.vmOn(c.node, c.vmid)
	if err != nil {
		return nil, err
	}
	config := v.Config
	if name := c.get("snapshot"); name != "" {
		sn := v.snapshot(name)
		if sn == nil {
			return nil, failf("snapshot '%s' does not exist", name)
		}
		out := s.snapshotJSON(v, sn)
		out["digest"] = v.digest()
		return out, nil
	}
	if c.bool("current") {
		config = s.current(v)
	}
	out := s.configJSON(config)
	out["digest"] = v.digest()
	if v.Parent != "" {
		out["parent"] = v.Parent
	}
	return out, nil
}

func pending(s *Server, c *call) (any, error) {
	v, err := s.vmOn(c.node, c.vmid)
	if err != nil {
		return nil, err
	}
	live := s.current(v)
	keys := maps.Clone(live)
	maps.Copy(keys, v.Config)
	rows := []map[string]any{}
	shown, next := s.configJSON(live), s.configJSON(v.Config)
	for _, k := range sortedKeys(keys) {
		row := map[string]any{"key": k}
		if cur, ok := shown[k]; ok {
			row["value"] = cur
		}
		if v.Config[k] != live[k] {
			if val, ok := next[k]; ok {
				row["pending"] = val
			} else {
				row["delete"] = 1
			}
		}
		rows = append(rows, row)
	}
	return append(rows, map[string]any{"key": "digest", "value": v.digest()}), nil
}

// putConfig changes a configuration at once; postConfig does it in a task.
func putConfig(s *Server, c *call) (any, error) {
	if err := s.checkChange(c); err != nil {
		return nil, err
	}
	unlock, err := s.lockVM(c.ctx, c.vmid, s.opt.LockTimeout)
	if err != nil {
		return nil, err
	}
	defer unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err = s.change(c)
	return nil, err
}

func postConfig(s *Server, c *call) (any, error) {
	if err := s.checkChange(c); err != nil {
		return nil, err
	}
	unlock, err := s.lockVM(c.ctx, c.vmid, s.opt.LockTimeout)
	if err != nil {
		return nil, err
	}
	unlock() // the task takes it again
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.vmTask(c, "qmconfig", c.vmid, func(t *task) error {
		t.logf("update VM %d: %s", c.vmid, changeText(c))
		if err := t.work(); err != nil {
			return err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		log, err := s.change(c)
		t.addLog(log...)
		return inTask(err)
	}), nil
}

func changeText(c *call) string {
	var out []string
	for _, k := range sortedKeys(c.params) {
		if k == "node" || k == "vmid" || k == "digest" {
			continue
		}
		v := c.get(k)
		if k == "cipassword" {
			v = "<hidden>"
		}
		out = append(out, "-"+k+" "+v)
	}
	return strings.Join(out, " ")
}

// checkChange is all that is refused of a change before it waits for the VM's lock.
func (s *Server) checkChange(c *call) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.has("skiplock") {
		return badParam("skiplock", "Only root may use this option.")
	}
	if err := checkSSHKeys(c.get("sshkeys")); err != nil {
		return err
	}
	changes := 0
	for _, k := range sortedKeys(c.params) {
		if createOnly(k) && k != "delete" && k != "revert" {
			continue
		}
		changes++
		if rootOnly(k) && c.who.name() != superuser {
			return onlyRoot(k)
		}
	}
	if changes == 0 {
		return failf("no options specified")
	}
	if err := s.checkDelete(c); err != nil {
		return err
	}
	if err := s.checkChangePrivs(c); err != nil {
		return err
	}
	v, err := s.vmOn(c.node, c.vmid)
	if err != nil {
		return err
	}
	if c.has("digest") && c.get("digest") != v.digest() {
		return failf("checksum mismatch (file change by other user?)")
	}
	return v.checkLock()
}

func (s *Server) checkDelete(c *call) error {
	for _, k := range splitList(c.get("delete")) {
		if c.has(k) {
			return badParam("delete", "you can't use '-%s' and -delete %s' at the same time", k, k)
		}
		if s.option(k) == nil && !isUnused(k) {
			return badParam("delete", "unknown option '%s'", k)
		}
		if rootOnly(k) && c.who.name() != superuser {
			return onlyRoot(k)
		}
	}
	return nil
}

func (s *Server) checkChangePrivs(c *call) error {
	config := vmConfig{}
	v := s.state.VMs[c.vmid]
	var needed []string
	for _, k := range sortedKeys(c.params) {
		if createOnly(k) {
			continue
		}
		config[k] = c.get(k)
		if isDrive(k) {
			if err := s.checkDrive(c, k, s.drive(k, config[k])); err != nil {
				return err
			}
		}
		needed = append(needed, s.optionPrivs(k, config[k], false)...)
		if err := s.checkNet(c, k, config); err != nil {
			return err
		}
	}
	for _, k := range splitList(c.get("delete")) {
		old := ""
		if v != nil {
			old = v.Config[k]
		}
		if isDrive(k) && old == "" {
			continue
		}
		needed = append(needed, s.optionPrivs(k, old, false)...)
	}
	for _, priv := range needed {
		if err := s.vmPriv(c, c.vmid, "", priv); err != nil {
			return err
		}
	}
	return nil
}

// change applies a change. Called with the mutex and the VM's lock held; it looks again at what may have changed while
// it waited.
func (s *Server) change(c *call) ([]string, error) {
	v, err := s.vmOn(c.node, c.vmid)
	if err != nil {
		return nil, err
	}
	if c.has("digest") && c.get("digest") != v.digest() {
		return nil, failf("checksum mismatch (file change by other user?)")
	}
	if err := v.checkLock(); err != nil {
		return nil, err
	}
	next := maps.Clone(v.Config)
	for _, k := range splitList(c.get("delete")) {
		if err := s.deleteOption(c, v, next, k); err != nil {
			return nil, err
		}
	}
	var m made
	for _, k := range sortedKeys(c.params) {
		if createOnly(k) {
			continue
		}
		if err := s.setOption(c, v, next, k, &m); err != nil {
			s.undo(&m)
			return m.log, err
		}
	}
	if err := s.writable(v); err != nil {
		s.undo(&m)
		return nil, err
	}
	if v.Live != nil {
		for k, old := range v.Live {
			if needsRestart(k) && next[k] != old {
				continue
			}
			if _, ok := next[k]; !ok {
				delete(v.Live, k)
			}
		}
		for k, val := range next {
			if !needsRestart(k) {
				v.Live[k] = val
			}
		}
	}
	v.Config = next
	s.changed()
	return m.log, nil
}

func (s *Server) setOption(c *call, v *vm, next vmConfig, k string, m *made) error {
	text := c.get(k)
	switch {
	case k == "tags":
		err := s.checkTags(c.who, v.ID, splitList(next[k]), splitList(text))
		next[k] = normalTags(text)
		return err
	case isNet(k):
		next[k] = text
		return s.checkNet(c, k, next)
	case k == "boot":
		return s.setBoot(next, text)
	case !isDrive(k):
		next[k] = text
		return nil
	}
	d := s.drive(k, text)
	if d.cloudinit() {
		for _, other := range drives(next) {
			if other != k && s.drive(other, next[other]).cloudinit() {
				return failf("%s - cloud-init drive is already attached at '%s'", k, other)
			}
		}
	}
	made, err := s.makeDrive(v.Node, v.ID, k, d, false, m)
	if err != nil {
		return failf("%s", err)
	}
	if old := next[k]; old != "" && s.drive(k, old).file() != s.drive(k, made).file() {
		s.detach(v, next, k)
	}
	for _, u := range sortedKeys(next) {
		if isUnused(u) && next[u] == s.drive(k, made).file() {
			delete(next, u)
		}
	}
	next[k] = made
	return nil
}

func (s *Server) setBoot(next vmConfig, text string) error {
	props, _ := parseProps(namedPropertyStrings()["pve-qm-boot"], text, "boot")
	for _, dev := range strings.FieldsFunc(props["order"], func(r rune) bool { return r == ';' }) {
		if next[dev] == "" {
			return failf("invalid bootorder: device '%s' does not exist'", dev)
		}
	}
	next["boot"] = text
	return nil
}

func (s *Server) deleteOption(c *call, v *vm, next vmConfig, k string) error {
	if k == "tags" {
		if err := s.checkTags(c.who, v.ID, splitList(next[k]), nil); err != nil {
			return err
		}
	}
	if isDrive(k) && next[k] != "" {
		if next["protection"] == "1" {
			return failf("can't remove drive '%s' - protection mode enabled", k)
		}
		s.detach(v, next, k)
		next["boot"] = withoutBoot(next["boot"], k)
		return nil
	}
	if isUnused(k) && next[k] != "" {
		if vol := s.state.volume(v.Node, next[k]); vol != nil {
			if inSnapshot(v, next[k]) {
				return failf("unable to delete '%s' - volume is still in use (snapshot?)", next[k])
			}
			s.state.removeVolume(vol)
		}
	}
	delete(next, k)
	return nil
}

func inSnapshot(v *vm, volid string) bool {
	for _, sn := range v.Snapshots {
		if uses(sn.Config, volid) {
			return true
		}
	}
	return false
}

// detach takes a drive out of a configuration: a disk becomes unusedN, a cloud-init drive is deleted.
func (s *Server) detach(v *vm, next vmConfig, k string) {
	d := s.drive(k, next[k])
	delete(next, k)
	vol := s.state.volume(v.Node, d.file())
	switch {
	case d.cloudinit() && vol != nil:
		s.state.removeVolume(vol)
	case !d.cdrom() && d.file() != "":
		addUnused(next, d.file())
	}
}

func addUnused(c vmConfig, volid string) string {
	for n := range indexed("unused") {
		k := "unused" + strconv.Itoa(n)
		if c[k] == volid {
			return k
		}
		if c[k] == "" {
			c[k] = volid
			return k
		}
	}
	return ""
}

// resizeDisk is PUT …/resize: it answers at once; everything is checked in the task (observed).
func resizeDisk(s *Server, c *call) (any, error) {
	if c.has("skiplock") {
		return nil, badParam("skiplock", "Only root may use this option.")
	}
	return s.vmTask(c, "resize", c.vmid, func(t *task) error { return s.resize(t, c) }), nil
}

func (s *Server) resize(t *task, c *call) error {
	if err := t.work(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	log, err := s.resizeNow(c.who, c.node, c.vmid, c.get("disk"), c.get("size"), c.get("digest"))
	t.addLog(log...)
	return err
}

func (s *Server) resizeNow(who identity, node string, vmid int, disk, size, digest string) ([]string, error) {
	v, err := s.vmOn(node, vmid)
	if err != nil {
		return nil, err
	}
	if digest != "" && digest != v.digest() {
		return nil, failf("checksum mismatch (file change by other user?)")
	}
	if err := v.checkLock(); err != nil {
		return nil, err
	}
	if v.Config[disk] == "" {
		return nil, failf("disk '%s' does not exist", disk)
	}
	d := s.drive(disk, v.Config[disk])
	if d.cdrom() {
		return nil, failf("you can't resize a cdrom")
	}
	vol := s.state.volume(v.Node, d.file())
	if vol == nil {
		return nil, failf("volume '%s' does not exist", d.file())
	}
	if err := s.need(who, "/storage/"+vol.Storage, "Datastore.AllocateSpace"); err != nil {
		return nil, inTask(err)
	}
	want := parseSize(strings.TrimPrefix(size, "+"))
	if strings.HasPrefix(size, "+") {
		want += vol.Size
	}
	switch {
	case want < vol.Size:
		return nil, failf("shrinking disks is not supported")
	case want == vol.Size:
		return nil, nil
	}
	if st := s.state.Storages[vol.Storage]; s.free(node, st) < want-vol.Size {
		if st.block() {
			return nil, failf("%s", st.kind().stuck(st, path.Base(vol.Name)))
		}
		return []string{"qemu-img: No space left on device"},
			failf(
				"command '/usr/bin/qemu-img resize -f %s %s %d' failed: exit code 1", vol.Format, s.filePath(vol), want,
			)
	}
	vol.Size = want
	if err := s.writable(v); err != nil {
		return nil, err // the image has grown already (observed)
	}
	d["size"] = formatSize(want)
	v.Config[disk] = d.text()
	if v.Live != nil {
		v.Live[disk] = d.text()
	}
	s.changed()
	return []string{"Image resized."}, nil
}

// regenerate is PUT …/cloudinit.
func regenerate(s *Server, c *call) (any, error) {
	unlock, err := s.lockVM(c.ctx, c.vmid, s.opt.LockTimeout)
	if err != nil {
		return nil, err
	}
	defer unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.vmOn(c.node, c.vmid)
	if err != nil {
		return nil, err
	}
	return nil, v.checkLock()
}

func cloudinitPending(s *Server, c *call) (any, error) {
	v, err := s.vmOn(c.node, c.vmid)
	if err != nil {
		return nil, err
	}
	rows := []map[string]any{}
	for _, k := range sortedKeys(v.Config) {
		if k == "name" ||
			slices.Contains(s.optionPrivs(k, v.Config[k], false), "VM.Config.Cloudinit|VM.Config.Network") {
			rows = append(rows, map[string]any{"key": k, "value": s.configJSON(v.Config)[k]})
		}
	}
	return rows, nil
}

func cloudinitDump(s *Server, c *call) (any, error) {
	v, err := s.vmOn(c.node, c.vmid)
	if err != nil {
		return nil, err
	}
	switch c.get("type") {
	case "meta":
		return "instance-id: " + v.digest() + "\n", nil
	case "network":
		return "version: 1\nconfig: []\n", nil
	}
	out := "#cloud-config\nhostname: " + v.name() + "\nmanage_etc_hosts: true\nfqdn: " + v.name() + "\n"
	if u := v.Config["ciuser"]; u != "" {
		out += "user: " + u + "\n"
	}
	if keys := sshKeys(v.Config); len(keys) > 0 {
		out += "ssh_authorized_keys:\n"
		for _, k := range keys {
			out += "  - " + k + "\n"
		}
	}
	return out + "chpasswd:\n  expire: False\nusers:\n  - default\npackage_upgrade: true\n", nil
}

func sshKeys(c vmConfig) []string {
	text, err := url.PathUnescape(c["sshkeys"])
	if err != nil {
		return nil
	}
	var out []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, line)
		}
	}
	return out
}

// deleteVM is DELETE /nodes/{node}/qemu/{vmid}.
func deleteVM(s *Server, c *call) (any, error) {
	v, err := s.vmOn(c.node, c.vmid)
	if err != nil {
		return nil, err
	}
	switch {
	case c.has("skiplock"):
		return nil, badParam("skiplock", "Only root may use this option.")
	case v.Config["protection"] == "1":
		return nil, failf("can't remove VM %d - protection mode enabled", c.vmid)
	case s.state.Datacenter.HAResources[vmSID(c.vmid)] != nil && !c.bool("purge"):
		return nil, failf("unable to remove VM %d - used in HA resources and purge parameter not set.", c.vmid)
	case s.running(v):
		return nil, failf("VM %d is running - destroy failed", c.vmid)
	}
	return s.vmTask(c, "qmdestroy", c.vmid, func(t *task) error { return s.destroyFaulty(t, c) }), nil
}

func (s *Server) destroy(t *task, c *call) error {
	if err := s.canDestroy(c); err != nil {
		return err
	}
	if err := t.work(); err != nil {
		return err
	}
	s.mu.Lock()
	v, err := s.vmOn(c.node, c.vmid)
	var copies []string
	if err == nil {
		if err = s.writable(v); err != nil {
			s.dropDisks(v) // they are gone, and the configuration stays (observed)
		}
	}
	if err == nil {
		v.Config["lock"] = "destroyed"
		for _, sn := range v.Snapshots {
			if sn.Machine {
				copies = append(copies, v.snapshotID(sn.Name))
			}
		}
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if v.Machine {
		copies = append(copies, v.machineID())
	}
	for _, id := range copies {
		if err := s.opt.Machines.Remove(t.ctx, id); err != nil {
			return fmt.Errorf("could not remove the machine of VM %d: %w", v.ID, err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(t, v, c.bool("purge"))
	return nil
}

// dropDisks removes the images of a VM.
func (s *Server) dropDisks(v *vm) {
	s.state.Volumes = slices.DeleteFunc(s.state.Volumes, func(vol *volume) bool {
		return vol.Content == "images" && vol.VMID == v.ID && (vol.Node == "" || vol.Node == v.Node)
	})
}

func (s *Server) canDestroy(c *call) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.vmOn(c.node, c.vmid)
	if err != nil {
		return err
	}
	if l := v.Config["lock"]; l != "" && l != "suspended" && l != "destroyed" {
		return failf("VM is locked (%s)", l)
	}
	if s.running(v) {
		return failf("VM %d is running - destroy failed", c.vmid)
	}
	for _, vol := range s.state.Volumes {
		if vol.Parent == "" {
			continue
		}
		if base := s.state.volume(v.Node, vol.Storage+":"+vol.Parent); base != nil && base.VMID == v.ID {
			return failf("base volume '%s' is still in use by linked cloned", base.id())
		}
	}
	return nil
}

// forget removes a VM, its volumes, its pool membership and its ACL entries.
func (s *Server) forget(t *task, v *vm, purge bool) {
	for _, k := range drives(v.Config) {
		d := s.drive(k, v.Config[k])
		if !d.cdrom() && s.state.volume(v.Node, d.file()) == nil {
			st, name, _ := strings.Cut(d.file(), ":")
			t.addLog("disk image '" + s.filePath(&volume{Storage: st, Name: name}) + "' does not exist")
		}
	}
	s.dropDisks(v)
	if purge {
		t.addLog(fmt.Sprintf("purging VM %d from related configurations..", v.ID))
		if sid := vmSID(v.ID); s.state.Datacenter.HAResources[sid] != nil {
			delete(s.state.Datacenter.HAResources, sid)
			t.addLog(fmt.Sprintf("NOTE: removed VM %d from HA resource configuration.", v.ID))
		}
	}
	delete(s.state.VMs, v.ID)
	for _, p := range s.state.Pools {
		p.VMs = slices.DeleteFunc(p.VMs, func(id int) bool { return id == v.ID })
	}
	path := "/vms/" + strconv.Itoa(v.ID)
	s.state.Access.ACL = slices.DeleteFunc(s.state.Access.ACL, func(e aclEntry) bool { return e.Path == path })
	s.changed()
}
