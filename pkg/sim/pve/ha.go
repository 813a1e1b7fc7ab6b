package pve

import (
	"crypto/sha1" // as PVE's digests of configurations are
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// What follows is as in the source of pve-ha-manager 4.0.7 and 5.2.0; of all that a manager does the simulated one
// starts and stops VMs.

const groupsMigrated = "ha groups have been migrated to rules"

func haIndex(s *Server, _ *call) (any, error) {
	rows := []map[string]any{{"id": "status"}, {"id": "resources"}, {"id": "groups"}}
	if s.version != Version84 {
		rows = append(rows, map[string]any{"id": "rules"})
	}
	return rows, nil
}

// haRules are none: groups of before 9 were never there, and none can be made.
func haRules(*Server, *call) (any, error) { return []any{}, nil }

// sid is the id of the resource that a call is about; a VM's number stands for its own.
func (s *Server) sid(c *call) (string, error) {
	sid := c.get("sid")
	if !digitsPattern.MatchString(sid) {
		return sid, nil
	}
	if vmid, _ := strconv.Atoi(sid); s.state.VMs[vmid] == nil {
		return "", failf("unable to detect SID from VMID - VM/CT %s does not exist", sid)
	}
	return "vm:" + sid, nil
}

func vmSID(vmid int) string { return "vm:" + strconv.Itoa(vmid) }

// section is a part of a configuration file as the API shows it.
func section(kind, id, key string, file map[string]map[string]string) map[string]any {
	text := ""
	for _, name := range sortedKeys(file) {
		text += kind + ": " + name + "\n" + vmConfig(file[name]).text()
	}
	sum := sha1.Sum([]byte(text)) // no secret
	out := map[string]any{key: id, "type": kind, "digest": hex.EncodeToString(sum[:])}
	for k, v := range file[id] {
		out[k] = v
		if n, err := strconv.Atoi(v); err == nil && k != "comment" {
			out[k] = n
		}
	}
	return out
}

func (s *Server) haResource(sid string) map[string]any {
	resources := s.state.Datacenter.HAResources
	out := section("vm", sid, "sid", resources)
	if g, ok := out["group"]; ok && s.state.Datacenter.HAGroups[fmt.Sprint(g)] == nil {
		out["errors"] = map[string]any{"group": fmt.Sprintf("group '%v' does not exist", g)}
	}
	return out
}

func haResourceList(s *Server, c *call) (any, error) {
	rows := []any{}
	for _, sid := range sortedKeys(s.state.Datacenter.HAResources) {
		if !c.has("type") || c.get("type") == "vm" {
			rows = append(rows, s.haResource(sid))
		}
	}
	return rows, nil
}

func haResourceGet(s *Server, c *call) (any, error) {
	sid, err := s.sid(c)
	if err == nil && s.state.Datacenter.HAResources[sid] == nil {
		err = failf("no such resource '%s'", sid)
	}
	if err != nil {
		return nil, err
	}
	out := s.haResource(sid)
	delete(out, "errors")
	return out, nil
}

func haResourceAdd(s *Server, c *call) (any, error) {
	sid, err := s.sid(c)
	if err != nil {
		return nil, err
	}
	kind, name, _ := strings.Cut(sid, ":")
	vmid, _ := strconv.Atoi(name)
	switch {
	case c.has("type") && c.get("type") != kind:
		return nil, failf("types does not match")
	case c.has("group") && s.version != Version84:
		return nil, failf("invalid parameter 'group': %s", groupsMigrated)
	case kind != "vm" && kind != "ct":
		return nil, failf("unknown section type '%s'", kind)
	case !vmidPattern.MatchString(name):
		return nil, failf("invalid VMID")
	case kind == "ct" || s.state.VMs[vmid] == nil: // there are no containers
		return nil, failf("resource '%s' does not exist in cluster", sid)
	case s.state.Datacenter.HAResources[sid] != nil:
		return nil, failf("create resource failed: resource ID '%s' already defined", sid)
	}
	s.setResource(sid, given(c, "sid", "type"))
	s.haFollow(vmid, s.opt.HADelay)
	return nil, nil
}

// given are the parameters of a call but for some.
func given(c *call, but ...string) map[string]string {
	out := map[string]string{}
	for k := range c.params {
		if !slices.Contains(but, k) {
			out[k] = c.get(k)
		}
	}
	return out
}

func (s *Server) setResource(sid string, options map[string]string) {
	if s.state.Datacenter.HAResources == nil {
		s.state.Datacenter.HAResources = map[string]map[string]string{}
	}
	s.state.Datacenter.HAResources[sid] = options
	s.changed()
}

func haResourceSet(s *Server, c *call) (any, error) {
	sid, err := s.sid(c)
	if err != nil {
		return nil, err
	}
	const failed = "update resources config failed: "
	old := s.state.Datacenter.HAResources[sid]
	switch group := c.get("group"); {
	case group != "" && s.version != Version84:
		return nil, failf("invalid parameter 'group': %s", groupsMigrated)
	case group != "" && s.state.Datacenter.HAGroups[group] == nil:
		return nil, failf("HA group '%s' does not exist", group)
	case old == nil:
		return nil, failf(failed+"no such resource '%s'", sid)
	case c.has("digest") && c.get("digest") != s.haResource(sid)["digest"]:
		return nil, failf(failed + "detected modified configuration - file changed by other user? Try again.")
	}
	next := maps.Clone(old)
	maps.Copy(next, given(c, "sid", "digest", "delete"))
	for _, k := range splitList(c.get("delete")) {
		if p := s.table["/cluster/ha/resources"]["POST"].props[k]; p == nil || k == "sid" || k == "type" {
			return nil, failf(failed+"no such option '%s'", k)
		}
		delete(next, k)
	}
	s.setResource(sid, next)
	s.haFollow(vmOfSID(sid), s.opt.HADelay)
	return nil, nil
}

func vmOfSID(sid string) int {
	vmid, _ := strconv.Atoi(strings.TrimPrefix(sid, "vm:"))
	return vmid
}

func haResourceDelete(s *Server, c *call) (any, error) {
	sid, err := s.sid(c)
	if err == nil && s.state.Datacenter.HAResources[sid] == nil {
		err = failf("cannot delete service '%s', not HA managed!", sid)
	}
	if err == nil {
		delete(s.state.Datacenter.HAResources, sid)
	}
	return nil, err
}

func haGroupList(s *Server, _ *call) (any, error) {
	if s.version != Version84 {
		return nil, failf("cannot index groups: %s", groupsMigrated)
	}
	rows := []any{}
	groups := s.state.Datacenter.HAGroups
	for _, id := range sortedKeys(groups) {
		rows = append(rows, section("group", id, "group", groups))
	}
	return rows, nil
}

func haGroupGet(s *Server, c *call) (any, error) {
	groups, id := s.state.Datacenter.HAGroups, c.get("group")
	switch {
	case s.version != Version84:
		return nil, failf("cannot read group: %s", groupsMigrated)
	case groups[id] == nil:
		return nil, failf("no such ha group '%s'", id)
	}
	return section("group", id, "group", groups), nil
}

func haGroupAdd(s *Server, c *call) (any, error) {
	id := c.get("group")
	switch {
	case s.version != Version84:
		return nil, failf("cannot create group: %s", groupsMigrated)
	case s.state.Datacenter.HAGroups[id] != nil:
		return nil, failf("create ha group failed: ha group ID '%s' already defined", id)
	case s.state.Datacenter.HAGroups == nil:
		s.state.Datacenter.HAGroups = map[string]map[string]string{}
	}
	s.state.Datacenter.HAGroups[id] = given(c, "group", "type")
	return nil, nil
}

func haGroupDelete(s *Server, c *call) (any, error) {
	id := c.get("group")
	if s.version != Version84 {
		return nil, failf("cannot delete group: %s", groupsMigrated)
	}
	for sid, options := range s.state.Datacenter.HAResources {
		if options["group"] == id {
			return nil, failf("delete ha group failed: ha group is used by service '%s'", sid)
		}
	}
	delete(s.state.Datacenter.HAGroups, id)
	return nil, nil
}

// wanted is the state that the HA manager is to bring a VM to; managed reports whether it is one of its own at all.
func (s *Server) wanted(vmid int) (on, managed bool) {
	options := s.state.Datacenter.HAResources[vmSID(vmid)]
	switch state := options["state"]; {
	case options == nil || state == "ignored":
		return false, false
	default:
		return state == "" || state == "started" || state == "enabled", true
	}
}

// haState is what the manager says of a VM of its own.
func (s *Server) haState(v *vm) (state string, managed bool) {
	on, managed := s.wanted(v.ID)
	switch running := s.running(v); {
	case !managed:
		return "", false
	case on && !running:
		return "request_start", true
	case on:
		return "started", true
	case running:
		return "request_stop", true
	}
	return "stopped", true
}

// byHA reports whether the VM that the call is about is one of the HA manager's, and after which time that does what is
// asked.
func (s *Server) byHA(c *call) (after time.Duration, managed bool) {
	if c.fault != nil && c.fault.HA != 0 {
		return time.Duration(c.fault.HA), true
	}
	_, managed = s.wanted(c.vmid)
	return s.opt.HADelay, managed
}

// byManager is the call as the HA manager makes it, as root.
func (c *call) byManager() *call {
	own := *c
	own.fault, own.who = nil, identity{user: "root@pam"}
	return &own
}

// haTask is what a VM of the HA manager gets in place of a task that starts or stops it: one that asks the manager, and
// ends (PVE::API2::Qemu; not observed). The manager looks at its requests every ten seconds.
func (s *Server) haTask(c *call, what, state string, after time.Duration, do func()) string {
	_, known := s.wanted(c.vmid)
	if known {
		s.state.Datacenter.HAResources[vmSID(c.vmid)]["state"] = state
		s.haStops[c.vmid] = nil
		if state == "stopped" {
			s.haStops[c.vmid] = do
		}
	}
	return s.startTask(c.who, c.node, "ha"+what, strconv.Itoa(c.vmid), nil, func(t *task) error {
		t.logf("Requesting HA %s for VM %d", what, c.vmid)
		if known {
			s.haFollow(c.vmid, after)
			return nil
		}
		s.wg.Go(func() { // by a fault alone: nobody looks whether it is still wanted
			if sleep(s.ctx, after) {
				s.mu.Lock()
				defer s.mu.Unlock()
				do()
			}
		})
		return nil
	})
}

// haRest is the least time between two looks of the manager at one VM.
const haRest = 20 * time.Millisecond

// haFollow lets the manager look at a VM, in rounds that last a while each, until it is as it is wanted.
func (s *Server) haFollow(vmid int, after time.Duration) {
	s.wg.Go(func() {
		for sleep(s.ctx, max(after, haRest)) {
			s.mu.Lock()
			settled := s.haRound(vmid)
			s.mu.Unlock()
			if settled {
				return
			}
		}
	})
}

// haRound reports whether nothing is left to do for a VM.
func (s *Server) haRound(vmid int) (settled bool) {
	v := s.state.VMs[vmid]
	on, managed := s.wanted(vmid)
	if v == nil || !managed {
		return true
	}
	for _, t := range s.active {
		if t.rec.ID == strconv.Itoa(vmid) && strings.HasPrefix(t.rec.Type, "qm") {
			return false
		}
	}
	c := (&call{ctx: s.ctx, node: v.Node, vmid: vmid}).byManager()
	switch {
	case on == s.running(v):
		return true
	case on:
		s.vmTask(c, "qmstart", vmid, func(t *task) error { return s.startVM(t, v.Node, vmid) })
	case s.haStops[vmid] != nil:
		s.haStops[vmid]()
	default:
		s.vmTask(c, "qmstop", vmid, func(t *task) error { return s.powerOff(t.ctx, v, false) })
	}
	return false
}

// addManaged makes a new VM one of the HA manager's.
func (s *Server) addManaged(t *task, v *vm, start bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := "stopped"
	if start {
		state = "started"
	}
	t.addLog("Add as HA resource")
	s.setResource(vmSID(v.ID), map[string]string{"state": state})
}
