package pve

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

func (s *Server) snapshotJSON(v *vm, sn *snapshot) map[string]any {
	out := s.configJSON(sn.ownConfig())
	out["snaptime"] = sn.Time
	if disks := drives(sn.Config); sn.VMState && len(disks) > 0 {
		store, _, _ := strings.Cut(s.drive(disks[0], sn.Config[disks[0]]).file(), ":")
		out["vmstate"] = fmt.Sprintf("%s:%d/vm-%d-state-%s.raw", store, v.ID, v.ID, sn.Name)
	}
	if sn.Parent != "" {
		out["parent"] = sn.Parent
	}
	return out
}

func snapshotList(s *Server, c *call) (any, error) {
	v, err := s.vmOn(c.node, c.vmid)
	if err != nil {
		return nil, err
	}
	rows := []map[string]any{}
	for _, sn := range v.Snapshots {
		row := map[string]any{
			"name": sn.Name, "description": sn.Description, "snaptime": sn.Time, "vmstate": btoi(sn.VMState),
		}
		if sn.Parent != "" {
			row["parent"] = sn.Parent
		}
		if sn.State != "" {
			row["snapstate"] = sn.State
		}
		rows = append(rows, row)
	}
	current := map[string]any{
		"name": "current", "description": "You are here!", "running": btoi(s.running(v)), "digest": v.digest(),
	}
	if v.Parent != "" {
		current["parent"] = v.Parent
	}
	return append(rows, current), nil
}

func snapshotIndex(*Server, *call) (any, error) {
	return []map[string]any{{"cmd": "rollback"}, {"cmd": "config"}}, nil
}

func snapshotCreate(s *Server, c *call) (any, error) {
	name := c.get("snapname")
	if strings.EqualFold(name, "pending") || name == "current" {
		return nil, failf("unable to use snapshot name '%s' (reserved name)", strings.ToLower(name))
	}
	if _, err := s.vmOn(c.node, c.vmid); err != nil {
		return nil, err
	}
	return s.vmTask(c, "qmsnapshot", c.vmid, func(t *task) error { return s.takeSnapshot(t, c, name) }), nil
}

// withVMLocked sets the configuration's lock while run works, as PVE does for snapshots.
func (s *Server) withVMLocked(c *call, lock string, run func(*vm) error) error {
	s.mu.Lock()
	v, err := s.vmOn(c.node, c.vmid)
	if err == nil {
		err = v.checkLock()
	}
	if err == nil {
		err = s.writable(v)
	}
	if err != nil {
		s.mu.Unlock()
		return err
	}
	v.Config["lock"] = lock
	s.mu.Unlock()
	err = run(v)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, stays := errors.AsType[imageError](err); !stays {
		delete(v.Config, "lock")
	}
	s.changed()
	return err
}

// imageError is a failure of qemu-img, after which the lock stays (observed).
type imageError struct{ error }

// withoutImage is the failure of a command of qemu-img for a snapshot that the VM's first disk image has lost.
func (s *Server) withoutImage(t *task, v *vm, option, name, log string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.addLog("qemu-img: " + log)
	file := ""
	for _, k := range drives(v.Config) {
		if d := s.drive(k, v.Config[k]); !d.cdrom() {
			store, volume, _ := strings.Cut(d.file(), ":")
			file = s.state.Storages[store].Path + "/images/" + volume
			break
		}
	}
	return imageError{failf("command '/usr/bin/qemu-img snapshot %s %s %s' failed: exit code 1", option, name, file)}
}

func (s *Server) takeSnapshot(t *task, c *call, name string) error {
	if err := s.canSnapshot(c, name); err != nil {
		return err
	}
	return s.withVMLocked(c, "snapshot", func(v *vm) error {
		if err := t.work(); err != nil {
			return err
		}
		sn := &snapshot{
			Name: name, Description: c.get("description"), Time: time.Now().Unix(), Parent: v.Parent,
			VMState: c.bool("vmstate") && s.running(v),
		}
		if v.Machine {
			if err := s.opt.Machines.Snapshot(t.ctx, v.machineID(), v.snapshotID(name)); err != nil {
				return fmt.Errorf("snapshot of the machine's disk: %w", err)
			}
			sn.Machine = true
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		sn.Config = maps.Clone(v.Config)
		delete(sn.Config, "lock")
		for _, k := range drives(v.Config) {
			if d := s.drive(k, v.Config[k]); !d.cdrom() {
				t.addLog(fmt.Sprintf("snapshotting 'drive-%s' (%s)", k, d.file()))
			}
		}
		v.Snapshots = append(v.Snapshots, sn)
		v.Parent = name
		return nil
	})
}

func (s *Server) canSnapshot(c *call, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.vmOn(c.node, c.vmid)
	if err != nil {
		return err
	}
	if v.Config.template() {
		return failf("you can't take a snapshot if it's a template")
	}
	if err := v.checkLock(); err != nil {
		return err
	}
	if v.snapshot(name) != nil {
		return failf("snapshot name '%s' already used", name)
	}
	if !s.snapshotable(v, v.Config) {
		return failf("snapshot feature is not available")
	}
	return nil
}

// snapshotable reports whether every disk of a configuration is where a snapshot can be made of it.
func (s *Server) snapshotable(v *vm, config vmConfig) bool {
	return !slices.ContainsFunc(drives(config), func(k string) bool {
		d := s.drive(k, config[k])
		vol := s.state.volume(v.Node, d.file())
		return !d.cdrom() && vol != nil && !s.state.Storages[vol.Storage].block() && vol.Format != "qcow2"
	})
}

// feature tells whether something could be done with a VM. Only snapshots are asked for here.
func feature(s *Server, c *call) (any, error) {
	v, err := s.vmOn(c.node, c.vmid)
	if err != nil {
		return nil, err
	}
	config := v.Config
	if name := c.get("snapname"); name != "" {
		sn := v.snapshot(name)
		if sn == nil {
			return nil, failf("snapshot '%s' does not exist", name)
		}
		config = sn.Config
	}
	has := c.get("feature") != "snapshot" || s.snapshotable(v, config)
	return map[string]any{"hasFeature": btoi(has), "nodes": []string{v.Node}}, nil
}

func snapshotDelete(s *Server, c *call) (any, error) {
	name := c.get("snapname")
	return s.vmTask(c, "qmdelsnapshot", c.vmid, func(t *task) error {
		if err := s.hasSnapshot(c, name); err != nil {
			return err
		}
		return s.withVMLocked(c, "snapshot-delete", func(v *vm) error {
			if err := t.work(); err != nil {
				return err
			}
			sn := v.snapshot(name)
			if sn.Lost && !c.bool("force") {
				sn.State = "delete"
				return s.withoutImage(t, v, "-d", name, "Could not delete snapshot '"+name+"': snapshot not found")
			}
			if sn.Machine {
				if err := s.opt.Machines.Remove(t.ctx, v.snapshotID(name)); err != nil {
					return err
				}
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			v.dropSnapshot(sn)
			return nil
		})
	}), nil
}

// dropSnapshot removes a snapshot; its children get its parent.
func (v *vm) dropSnapshot(sn *snapshot) {
	v.Snapshots = slices.DeleteFunc(v.Snapshots, func(o *snapshot) bool { return o == sn })
	for _, o := range v.Snapshots {
		if o.Parent == sn.Name {
			o.Parent = sn.Parent
		}
	}
	if v.Parent == sn.Name {
		v.Parent = sn.Parent
	}
}

func (s *Server) hasSnapshot(c *call, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.vmOn(c.node, c.vmid)
	if err != nil {
		return err
	}
	if err := v.checkLock(); err != nil {
		return err
	}
	if v.snapshot(name) == nil {
		return failf("snapshot '%s' does not exist", name)
	}
	return nil
}

// rollback brings back disks and the whole configuration, only the description stays (observed). A running VM without
// saved memory stays stopped unless start is given. The simulator saves no memory: a VM that has some goes on without a
// boot, with processes that start afresh.
func rollback(s *Server, c *call) (any, error) {
	name := c.get("snapname")
	return s.vmTask(c, "qmrollback", c.vmid, func(t *task) error {
		if err := s.hasSnapshot(c, name); err != nil {
			return err
		}
		restart, resumed := c.bool("start"), false
		err := s.withVMLocked(c, "rollback", func(v *vm) error {
			if err := t.work(); err != nil {
				return err
			}
			sn := v.snapshot(name)
			if sn.Lost {
				return s.withoutImage(t, v, "-a", name, "Could not apply snapshot '"+name+
					"': Failed to load snapshot: No such file or directory")
			}
			restart, resumed = restart || sn.VMState, sn.VMState
			return s.rollbackTo(t, v, sn)
		})
		if err != nil || !restart {
			return err
		}
		if _, managed := s.byHA(c); managed && !resumed { // PVE::API2::Qemu: vm_start asks the manager, and the task ends
			s.mu.Lock()
			defer s.mu.Unlock()
			s.startByWho(c, func(t *task) error { return s.startVM(t, c.node, c.vmid) })
			return nil
		}
		return s.startOrResume(t, c.node, c.vmid, resumed)
	}), nil
}

func (s *Server) rollbackTo(t *task, v *vm, sn *snapshot) error {
	if s.running(v) {
		if err := s.powerOff(t.ctx, v, false); err != nil {
			return err
		}
	}
	var err error
	switch {
	case sn.Machine:
		err = s.opt.Machines.Rollback(t.ctx, v.snapshotID(sn.Name), v.machineID())
	case v.Machine: // it was never started then
		err = s.opt.Machines.Remove(t.ctx, v.machineID())
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	v.Machine = sn.Machine
	next := maps.Clone(sn.Config)
	for _, k := range sortedKeys(v.Config) {
		if !isDrive(k) && !isUnused(k) {
			continue
		}
		if d := s.drive(k, v.Config[k]); !d.cdrom() && !uses(next, d.file()) {
			addUnused(next, d.file())
		}
	}
	if desc, ok := v.Config["description"]; ok {
		next["description"] = desc
	}
	next["vmgenid"] = newUUID()
	v.Config, v.Live, v.Parent = next, nil, sn.Name
	return nil
}

// uses tells whether a configuration has a volume in one of its options.
func uses(c vmConfig, volid string) bool {
	for _, text := range c {
		if text == volid || strings.HasPrefix(text, volid+",") {
			return true
		}
	}
	return false
}

func snapshotConfig(s *Server, c *call) (any, error) {
	v, err := s.vmOn(c.node, c.vmid)
	if err != nil {
		return nil, err
	}
	sn := v.snapshot(c.get("snapname"))
	if sn == nil {
		return nil, failf("snapshot '%s' does not exist", c.get("snapname"))
	}
	return s.snapshotJSON(v, sn), nil
}

func snapshotDescribe(s *Server, c *call) (any, error) {
	v, err := s.vmOn(c.node, c.vmid)
	if err != nil {
		return nil, err
	}
	sn := v.snapshot(c.get("snapname"))
	if sn == nil {
		return nil, failf("snapshot '%s' does not exist", c.get("snapname"))
	}
	if err := v.checkLock(); err != nil {
		return nil, err
	}
	if c.has("description") {
		sn.Description = c.get("description")
	}
	return nil, nil
}
