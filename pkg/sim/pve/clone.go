package pve

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
)

// cloneVM is POST …/clone. All that it refuses is refused before it answers, except what the disks meet.
func cloneVM(s *Server, c *call) (any, error) {
	newid := c.int("newid", 0)
	if err := s.checkPool(c); err != nil {
		return nil, err
	}
	src, err := s.vmFile(c.node, c.vmid)
	if err != nil {
		return nil, err
	}
	config := src.Config
	if name := c.get("snapname"); name != "" {
		sn := src.snapshot(name)
		if sn == nil {
			return nil, failf("snapshot '%s' does not exist", name)
		}
		config = sn.ownConfig()
	}
	full := c.bool("full") || (!c.has("full") && !src.Config.template())
	target := c.node
	if t := c.get("target"); t != "" {
		target = t
	}
	if err := s.checkClone(c, src, config, full, target, newid); err != nil {
		return nil, err
	}
	config = maps.Clone(config)
	s.state.VMs[newid] = &vm{ID: newid, Node: target, Config: vmConfig{"lock": "create"}}
	return s.startTask(c.who, c.node, "qmclone", strconv.Itoa(c.vmid), c, func(t *task) error {
		unlock, err := s.lockClone(t, src.ID, newid)
		if err == nil {
			defer unlock()
			if err = s.copyVM(t, c, src, config, full, newid); err != nil {
				err = fmt.Errorf("clone failed: %w", err)
			}
		}
		if err != nil {
			s.mu.Lock()
			delete(s.state.VMs, newid)
			s.mu.Unlock()
		}
		return err
	}), nil
}

// lockClone takes the lock of the new VM. The source's lock is shared between clones of it, so that they do not wait
// for one another: it is enough that nobody else has it when they begin.
func (s *Server) lockClone(t *task, source, newid int) (func(), error) {
	unlock, err := s.lockVM(t.ctx, source, s.opt.LockTimeout)
	if err != nil {
		return nil, err
	}
	unlock()
	return s.lockVM(t.ctx, newid, s.opt.LockTimeout)
}

func (s *Server) checkClone(c *call, src *vm, config vmConfig, full bool, target string, newid int) error {
	if s.state.node(target) == nil {
		return failf("no such cluster node '%s'", target)
	}
	if !full && c.has("storage") {
		return failf("parameter 'storage' not allowed for linked clones")
	}
	if id := c.get("storage"); id != "" {
		if err := s.checkImages(id); err != nil {
			return err
		}
	}
	if err := src.checkLock(); err != nil {
		return err
	}
	for _, k := range drives(config) {
		if err := s.checkCloneDrive(c, config, k, full, target); err != nil {
			return err
		}
	}
	for _, k := range sortedKeys(config) {
		if isNet(k) {
			props, _ := parseProps(s.option(k).Keys, config[k], k)
			if err := s.need(c.who, "/sdn/zones/localnetwork/"+props["bridge"], "SDN.Use"); err != nil {
				return err
			}
		}
	}
	if s.state.VMs[newid] != nil {
		return failf("unable to create VM %d: config file already exists", newid)
	}
	return nil
}

func (s *Server) checkCloneDrive(c *call, config vmConfig, k string, full bool, target string) error {
	d := s.drive(k, config[k])
	if !strings.Contains(d.file(), ":") || (d.cdrom() && !d.cloudinit()) {
		return nil
	}
	storageID, name, _ := strings.Cut(d.file(), ":")
	st := s.state.Storages[storageID]
	if st == nil {
		return failf("storage '%s' does not exist", storageID)
	}
	if target != c.node && !st.Shared {
		return failf("can't clone VM to node '%s' (VM uses local storage)", target)
	}
	dest := storageID
	if id := c.get("storage"); id != "" {
		dest = id
	}
	if err := s.need(c.who, "/storage/"+dest, "Datastore.AllocateSpace"); err != nil {
		return err
	}
	if !full && !d.cloudinit() && !strings.Contains(name, "base-") {
		return failf("Linked clone feature is not supported for '%s' (%s)", d.file(), k)
	}
	return nil
}

// copyVM copies disks, configuration and the machine's files.
func (s *Server) copyVM(t *task, c *call, src *vm, config vmConfig, full bool, newid int) error {
	if err := t.work(); err != nil {
		return err
	}
	s.mu.Lock()
	dst := s.state.VMs[newid]
	var m made
	err := s.copyDrives(c, src, dst, config, full, &m)
	t.addLog(m.log...)
	from, cerr := s.machineToCopy(c, src)
	s.mu.Unlock()
	if err == nil {
		err = cerr
	}
	if err == nil && from != "" {
		err = s.opt.Machines.Clone(t.ctx, from, dst.machineID())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	dst.Machine = err == nil && from != ""
	if err != nil {
		s.undo(&m)
		return err
	}
	s.finishClone(c, src, dst, config)
	return nil
}

// machineToCopy is the machine whose disk a clone gets, empty if the source has never been started.
func (s *Server) machineToCopy(c *call, src *vm) (string, error) {
	name := c.get("snapname")
	switch {
	case name != "":
		if sn := src.snapshot(name); sn != nil && sn.Machine {
			return src.snapshotID(name), nil
		}
		return "", nil
	case s.running(src):
		return "", fmt.Errorf("VM %d is running: the simulator copies the disks of stopped VMs only", src.ID)
	case src.Machine:
		return src.machineID(), nil
	}
	return "", nil
}

func (s *Server) copyDrives(c *call, src, dst *vm, config vmConfig, full bool, m *made) error {
	for _, k := range drives(config) {
		d := s.drive(k, config[k])
		old := s.state.volume(src.Node, d.file())
		if d.cdrom() && !d.cloudinit() || !strings.Contains(d.file(), ":") {
			continue
		}
		if old == nil {
			return fmt.Errorf("volume '%s' does not exist", d.file())
		}
		v, err := s.copyVolume(c, dst, k, d, old, full, m)
		if err != nil {
			return err
		}
		d["file"], d["size"] = v.id(), formatSize(v.Size)
		config[k] = d.text()
	}
	return nil
}

func (s *Server) copyVolume(c *call, dst *vm, k string, d drive, old *volume, full bool, m *made) (*volume, error) {
	storageID, format, kind := old.Storage, old.Format, "disk"
	if id := c.get("storage"); id != "" {
		storageID = id
	}
	if f := c.get("format"); f != "" {
		format = f
	}
	if d.cloudinit() {
		kind = "cloudinit"
	}
	linked := !full && kind == "disk"
	size := old.Size
	if linked {
		format, size = "qcow2", 0 // takes no room of its own
	}
	v, err := s.allocateNamed(dst.Node, storageID, dst.ID, kind, format, size)
	if err != nil {
		return nil, err
	}
	v.Blank = old.Blank
	m.volumes = append(m.volumes, v)
	if !linked {
		m.log = append(m.log, fmt.Sprintf("create full clone of drive %s (%s)", k, old.id()), s.formatting(v))
		if kind == "disk" {
			m.log = append(m.log, s.copied(v)...)
		}
		return v, nil
	}
	v.Size, v.Parent = old.Size, old.Name
	v.Name = s.state.Storages[storageID].linked(old.Name, v.Name)
	m.log = append(m.log, fmt.Sprintf("create linked clone of drive %s (%s)", k, old.id()))
	return v, nil
}

func (s *Server) finishClone(c *call, src, dst *vm, config vmConfig) {
	for _, k := range []string{"template", "lock", "parent", "snaptime", "protection"} {
		delete(config, k)
	}
	for _, k := range sortedKeys(config) {
		if isNet(k) {
			props, _ := parseProps(s.option(k).Keys, config[k], k)
			delete(props, "macaddr")
			config[k] = nic(props)
		}
		if isUnused(k) {
			delete(config, k)
		}
	}
	config["smbios1"], config["vmgenid"] = "uuid="+newUUID(), newUUID()
	config["name"] = c.get("name")
	if config["name"] == "" {
		config["name"] = "Copy-of-VM-" + strings.ReplaceAll(src.name(), " ", "-")
	}
	if c.has("description") {
		config["description"] = c.get("description")
	}
	dst.Config = config
	if p := s.state.Pools[c.get("pool")]; p != nil {
		p.VMs = append(p.VMs, dst.ID)
	}
	s.changed()
}

// makeTemplate is POST …/template.
func makeTemplate(s *Server, c *call) (any, error) {
	v, err := s.vmOn(c.node, c.vmid)
	if err != nil {
		return nil, err
	}
	switch {
	case v.checkLock() != nil:
		return nil, v.checkLock()
	case len(v.Snapshots) > 0:
		return nil, failf("unable to create template, because VM contains snapshots")
	case v.Config.template() && !c.has("disk"):
		return nil, failf("you can't convert a template to a template")
	case s.running(v):
		return nil, failf("you can't convert a VM to template if VM is running")
	}
	return s.vmTask(c, "qmtemplate", c.vmid, func(t *task) error {
		if err := t.work(); err != nil {
			return err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if err := s.writable(v); err != nil {
			return err
		}
		s.toTemplate(v)
		return nil
	}), nil
}

func (s *Server) toTemplate(v *vm) {
	for _, k := range drives(v.Config) {
		d := s.drive(k, v.Config[k])
		vol := s.state.volume(v.Node, d.file())
		if vol == nil || d.cdrom() {
			continue
		}
		vol.Name = strings.Replace(vol.Name, "vm-"+strconv.Itoa(v.ID)+"-", "base-"+strconv.Itoa(v.ID)+"-", 1)
		d["file"] = vol.id()
		v.Config[k] = d.text()
	}
	v.Config["template"] = "1"
	s.changed()
}

func migrateCheck(s *Server, c *call) (any, error) {
	v, err := s.vmOn(c.node, c.vmid)
	if err != nil {
		return nil, err
	}
	running := 0
	if s.running(v) {
		running = 1
	}
	local := []map[string]any{}
	for _, k := range drives(v.Config) {
		d := s.drive(k, v.Config[k])
		if vol := s.state.volume(v.Node, d.file()); vol != nil && vol.Node != "" {
			local = append(local, map[string]any{
				"volid": vol.id(), "size": vol.Size, "cdrom": btoi(d.cdrom()), "drivename": k, "shared": 0,
				"replicate":   1,
				"is_attached": 1, "is_unused": 0, "is_vmstate": 0, "is_tpmstate": 0,
			})
		}
	}
	allowed, others := []string{}, map[string]any{}
	for _, n := range s.state.Nodes {
		if n.Name != v.Node {
			allowed, others[n.Name] = append(allowed, n.Name), map[string]any{}
		}
	}
	answer := map[string]any{
		"running": running, "local_disks": local, "local_resources": []string{}, "mapped-resources": []string{},
		"mapped-resource-info": map[string]any{},
	}
	if running == 0 {
		answer["allowed_nodes"], answer["not_allowed_nodes"] = allowed, others
	}
	return answer, nil
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// migrate moves a VM to another hypervisor. A running one needs online=1 and keeps running.
func migrate(s *Server, c *call) (any, error) {
	target := c.get("target")
	if target == c.node {
		return nil, badParam("target", "target is local node.")
	}
	n := s.state.node(target)
	if n == nil {
		return nil, failf("no such cluster node '%s'", target)
	}
	v, err := s.vmOn(c.node, c.vmid)
	if err != nil {
		return nil, err
	}
	if err := v.checkLock(); err != nil {
		return nil, err
	}
	if s.running(v) && !c.bool("online") {
		return nil, failf("can't migrate running VM without --online")
	}
	if after, managed := s.byHA(c); managed {
		return s.haMigrate(c, n, after), nil
	}
	return s.vmTask(c, "qmigrate", c.vmid, func(t *task) error { return s.moveVM(t, c, n) }), nil
}

func (s *Server) moveVM(t *task, c *call, n *node) error {
	t.logf("starting migration of VM %d to node '%s' (127.0.0.1)", c.vmid, n.Name)
	if err := t.work(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.vmOn(c.node, c.vmid)
	if err != nil {
		return err
	}
	if !n.Online {
		return fmt.Errorf(
			"migration aborted (duration 00:00:03): Can't connect to destination address using public key",
		)
	}
	for _, vol := range s.state.Volumes {
		if vol.Content != "images" || vol.VMID != v.ID || vol.Node != v.Node {
			continue
		}
		if err := s.room(n.Name, s.state.Storages[vol.Storage], vol); err != nil {
			return fmt.Errorf("migration aborted: storage migration for '%s' failed - %w", vol.id(), err)
		}
		t.addLog("found local disk '" + vol.id() + "' (attached)")
	}
	for _, vol := range s.state.Volumes {
		if vol.Content == "images" && vol.VMID == v.ID && vol.Node == v.Node {
			vol.Node = n.Name
		}
	}
	v.Node = n.Name
	t.addLog("migration finished successfully (duration 00:00:01)")
	s.changed()
	return nil
}
