package pve

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"hive-test/pkg/sim/host"
)

func statusIndex(*Server, *call) (any, error) {
	var out []map[string]any
	for _, n := range []string{"current", "start", "stop", "reset", "shutdown", "suspend", "reboot", "resume"} {
		out = append(out, map[string]any{"subdir": n})
	}
	return out, nil
}

func statusCurrent(s *Server, c *call) (any, error) {
	v, err := s.vmOn(c.node, c.vmid)
	if err != nil {
		return nil, err
	}
	out := s.vmStatus(v)
	out["ha"] = map[string]any{"managed": 0}
	if state, managed := s.haState(v); managed {
		ha := map[string]any{"managed": 1, "state": state}
		if s.version == Version84 {
			ha["group"] = nil
			if g := s.state.Datacenter.HAResources[vmSID(v.ID)]["group"]; g != "" {
				ha["group"] = g
			}
		}
		out["ha"] = ha
	}
	if agentEnabled(s.current(v)["agent"]) {
		out["agent"] = 1
	}
	out["qmpstatus"] = out["status"]
	return out, nil
}

// current is the configuration that the machine runs with, or would be started with.
func (s *Server) current(v *vm) vmConfig {
	if v.Live != nil && s.running(v) { // a guest can power itself off
		return v.Live
	}
	return v.Config
}

// vmStatus is what the list of VMs and status/current have in common.
func (s *Server) vmStatus(v *vm) map[string]any {
	c := s.current(v)
	out := map[string]any{
		"vmid": v.ID, "name": v.name(), "status": "stopped", "cpus": c.vcpus(), "cpu": 0, "maxmem": c.memory(),
		"mem":     0,
		"maxdisk": s.bootDiskSize(v), "disk": 0, "uptime": 0, "netin": 0, "netout": 0, "diskread": 0, "diskwrite": 0,
	}
	if t := strings.TrimSpace(v.Config["tags"]); t != "" {
		out["tags"] = v.Config["tags"]
	}
	if v.Config.template() {
		out["template"] = 1
	}
	if l := v.Config["lock"]; l != "" {
		out["lock"] = l
	}
	if s.version != Version84 {
		out["memhost"] = 0
	}
	if s.running(v) {
		out["status"], out["pid"] = "running", v.PID
		out["uptime"] = int64(time.Since(v.Started).Seconds())
		out["mem"], out["cpu"] = c.memory()/8, 0.01
		s.pressure(out)
	}
	return out
}

// pressure is what 9 tells more of a VM that runs.
func (s *Server) pressure(out map[string]any) {
	if s.version == Version84 {
		return
	}
	out["memhost"] = out["mem"]
	for _, of := range []string{"cpu", "io", "memory"} {
		out["pressure"+of+"some"], out["pressure"+of+"full"] = 0, 0
	}
}

// bootDiskSize is the size of the first disk in the boot order, or of the first disk at all.
func (s *Server) bootDiskSize(v *vm) int64 {
	keys := drives(v.Config)
	if order, ok := strings.CutPrefix(v.Config["boot"], "order="); ok {
		keys = append(strings.Split(order, ";"), keys...)
	}
	for _, k := range keys {
		if !isDrive(k) || v.Config[k] == "" {
			continue
		}
		if d := s.drive(k, v.Config[k]); !d.cdrom() {
			return parseSize(d["size"])
		}
	}
	return 0
}

func agentEnabled(text string) bool {
	props, _ := parseProps(map[string]*property{
		"enabled": {Type: "boolean", Optional: true, DefaultKey: true}, "fstrim_cloned_disks": {Optional: true},
		"type": {Optional: true}, "freeze-fs-on-backup": {Optional: true}, "freeze-fs": {Optional: true},
		"guest-fsfreeze": {Optional: true},
	}, text, "agent")
	return props["enabled"] == "1"
}

func noSkiplock(c *call) error {
	if c.has("skiplock") {
		return badParam("skiplock", "Only root may use this option.")
	}
	return nil
}

// start answers with a task; all refusals are in the task (observed).
func start(s *Server, c *call) (any, error) {
	if err := noSkiplock(c); err != nil {
		return nil, err
	}
	return s.startByWho(c, func(t *task) error { return s.startVM(t, c.node, c.vmid) }), nil
}

// startByWho starts the task that starts a VM, or the one that asks the HA manager to.
func (s *Server) startByWho(c *call, do func(*task) error) string {
	if after, managed := s.byHA(c); managed {
		return s.haTask(c, "start", "started", after, func() { s.vmTask(c.byManager(), "qmstart", c.vmid, do) })
	}
	return s.vmTask(c, "qmstart", c.vmid, do)
}

// startVM powers a VM on. The checks are in the order of the real server.
func (s *Server) startVM(t *task, node string, vmid int) error {
	return s.startOrResume(t, node, vmid, false)
}

// startOrResume is startVM, for one that goes on from saved memory, too.
func (s *Server) startOrResume(t *task, node string, vmid int, resumed bool) error {
	if s.backedUp(node, vmid) {
		return nil // the backup's QEMU goes on as the guest's (observed)
	}
	spec, v, err := s.startSpec(t, node, vmid)
	if err != nil {
		return err
	}
	if err := t.work(); err != nil {
		return err
	}
	spec.Resumed = resumed
	if err := s.opt.Machines.Start(t.ctx, spec); err != nil {
		t.logf("%s", err)
		return fmt.Errorf("start failed: QEMU exited with code 1")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.NextPID++
	if v.Config["lock"] == "suspended" {
		delete(v.Config, "lock")
	}
	v.PowerOn, v.Machine, v.Started, v.PID = true, true, time.Now(), s.state.NextPID
	v.console = nil
	if spec.Unbooted && s.hasInstaller(v) {
		v.console = &console{}
	}
	v.Live = vmConfig{}
	for k, val := range v.Config {
		v.Live[k] = val
	}
	s.changed()
	return nil
}

// backedUp tells whether a VM runs for a backup.
func (s *Server) backedUp(node string, vmid int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.vmOn(node, vmid)
	return err == nil && v.Config["lock"] == "backup" && s.running(v)
}

func (s *Server) startSpec(t *task, node string, vmid int) (host.Spec, *vm, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.vmOn(node, vmid)
	if err != nil {
		return host.Spec{}, nil, err
	}
	if v.Config.template() {
		return host.Spec{}, nil, failf("you can't start a vm if it's a template")
	}
	if v.Config["lock"] != "suspended" {
		if err := v.checkLock(); err != nil {
			return host.Spec{}, nil, err
		}
	}
	if s.running(v) {
		return host.Spec{}, nil, failf("VM %d already running", vmid)
	}
	vendor, err := s.snippet(v, "vendor")
	if err != nil {
		return host.Spec{}, nil, err
	}
	n := s.state.node(node)
	if v.Config.vcpus() > int64(n.Cores) {
		return host.Spec{}, nil, failf("MAX %d vcpus allowed per VM on this node", n.Cores)
	}
	for _, k := range drives(v.Config) {
		if d := s.drive(k, v.Config[k]); strings.Contains(d.file(), ":") && s.state.volume(node, d.file()) == nil {
			return host.Spec{}, nil, failf("volume '%s' does not exist", d.file())
		}
	}
	if slices.ContainsFunc(drives(v.Config), func(k string) bool { return s.drive(k, v.Config[k]).cloudinit() }) {
		t.addLog("generating cloud-init ISO")
	}
	if err := s.fits(t, n, v); err != nil {
		return host.Spec{}, nil, err
	}
	spec, err := s.spec(t, n, v)
	spec.CloudInit.VendorData = vendor
	return spec, v, err
}

// fits refuses a VM whose memory the hypervisor does not have, as QEMU would when it cannot allocate it.
func (s *Server) fits(t *task, n *node, v *vm) error {
	need := v.Config.memory()
	for _, o := range s.state.VMs {
		if o.Node == n.Name && o.ID != v.ID && s.running(o) {
			need += s.current(o).memory()
		}
	}
	if need > n.Memory {
		t.addLog("qemu-system-x86_64: cannot set up guest memory 'pc.ram': Cannot allocate memory")
		return failf("start failed: QEMU exited with code 1")
	}
	return nil
}

// spec is what the host manager needs of a VM.
func (s *Server) spec(t *task, n *node, v *vm) (host.Spec, error) {
	spec := host.Spec{ID: v.machineID(), Agent: agentEnabled(v.Config["agent"]), Unbooted: !s.boots(v)}
	spec.CloudInit = host.CloudInit{Hostname: v.name(), User: v.Config["ciuser"], SSHKeys: sshKeys(v.Config)}
	for i := range indexed("net") {
		num := strconv.Itoa(i)
		text := v.Config["net"+num]
		if text == "" {
			continue
		}
		props, _ := parseProps(s.option("net0").Keys, text, "net"+num)
		if missing := !slices.Contains(n.Bridges, props["bridge"]); missing && s.version != Version84 {
			return spec, failf("bridge '%s' does not exist", props["bridge"]) // before QEMU starts
		} else if missing {
			t.addLog("bridge '"+props["bridge"]+"' does not exist",
				fmt.Sprintf("qemu-system-x86_64: -netdev type=tap,id=net%s,ifname=tap%di%s: network script "+
					"/usr/libexec/qemu-server/pve-bridge failed with status 512", num, v.ID, num))
			return spec, failf("start failed: QEMU exited with code 1")
		}
		spec.NICs = append(spec.NICs, host.NIC{
			MAC: strings.ToUpper(props["macaddr"]), Bridge: props["bridge"], Address: address(v.Config, num),
		})
	}
	return spec, nil
}

// snippet is the content of the file that cicustom names for a kind of data, nil if it names none.
func (s *Server) snippet(v *vm, kind string) ([]byte, error) {
	props, _ := parseProps(namedPropertyStrings()["pve-qm-cicustom"], v.Config["cicustom"], "cicustom")
	var out []byte
	for _, k := range sortedKeys(props) {
		vol := s.state.volume(v.Node, props[k])
		if vol == nil {
			return nil, failf("volume '%s' does not exist", props[k])
		}
		if k == kind {
			out = vol.Data
		}
	}
	return out, nil
}

// stop ends a machine at once. A missing VM and a locked running one fail in the task; a stopped one is fine.
func stop(s *Server, c *call) (any, error) {
	return s.endTask(c, "qmstop", func(t *task, v *vm) error { return s.powerOff(t.ctx, v, false) })
}

// endTask is a task that ends a machine which runs.
func (s *Server) endTask(c *call, kind string, end func(*task, *vm) error) (any, error) {
	if err := noSkiplock(c); err != nil {
		return nil, err
	}
	do := func(t *task) error {
		v, on, err := s.forPower(c)
		if err != nil || !on {
			return err
		}
		if err := t.work(); err != nil {
			return err
		}
		return end(t, v)
	}
	if after, managed := s.byHA(c); managed {
		return s.haTask(c, "stop", "stopped", after, func() { s.vmTask(c.byManager(), kind, c.vmid, do) }), nil
	}
	return s.vmTask(c, kind, c.vmid, do), nil
}

// forPower finds a VM for a change of power and tells whether it runs.
func (s *Server) forPower(c *call) (*vm, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.vmFile(c.node, c.vmid)
	if err != nil {
		return nil, false, err
	}
	on := s.running(v)
	if on {
		err = v.checkLock()
	}
	return v, on, err
}

// powerOff stops a machine, gently if asked.
func (s *Server) powerOff(ctx context.Context, v *vm, gently bool) error {
	off := s.opt.Machines.Stop
	if gently {
		off = s.opt.Machines.Shutdown
	}
	if err := off(ctx, v.machineID()); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	v.PowerOn, v.Live, v.PID = false, nil, 0
	s.changed()
	return nil
}

// shutdownTimeout is PVE's default for shutdown and reboot.
const shutdownTimeout = 180

func shutdown(s *Server, c *call) (any, error) {
	return s.endTask(c, "qmshutdown", func(t *task, v *vm) error {
		timeout := time.Duration(c.int("timeout", shutdownTimeout)) * time.Second
		err := s.shutdownWithin(t, v, timeout)
		if err == nil || t.ctx.Err() != nil {
			return err
		}
		if !c.bool("forceStop") {
			return fmt.Errorf("VM quit/powerdown failed - got timeout")
		}
		t.logf("VM still running - terminating now with SIGTERM")
		return s.powerOff(t.ctx, v, false)
	})
}

func (s *Server) shutdownWithin(t *task, v *vm, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(t.ctx, timeout)
	defer cancel()
	return s.powerOff(ctx, v, true)
}

// reboot is a shutdown after which the VM is started again, with its pending changes.
func reboot(s *Server, c *call) (any, error) {
	v, err := s.vmFile(c.node, c.vmid)
	if err != nil {
		return nil, err
	}
	if !s.running(v) {
		return nil, failf("VM %d not running", c.vmid)
	}
	return s.vmTask(c, "qmreboot", c.vmid, func(t *task) error {
		v, on, err := s.forPower(c)
		if err == nil && !on {
			err = failf("VM %d not running", c.vmid)
		}
		if err != nil {
			return err
		}
		if err := t.work(); err != nil {
			return err
		}
		if err := s.shutdownWithin(t, v, time.Duration(c.int("timeout", shutdownTimeout))*time.Second); err != nil {
			return fmt.Errorf("VM quit/powerdown failed - got timeout")
		}
		return s.startVM(t, c.node, c.vmid)
	}), nil
}

// reset is a hard stop and a start.
func reset(s *Server, c *call) (any, error) {
	if err := noSkiplock(c); err != nil {
		return nil, err
	}
	if _, err := s.vmFile(c.node, c.vmid); err != nil {
		return nil, err
	}
	return s.vmTask(c, "qmreset", c.vmid, func(t *task) error {
		v, on, err := s.forPower(c)
		if err == nil && !on {
			err = failf("VM %d not running", c.vmid)
		}
		if err != nil {
			return err
		}
		if err := s.powerOff(t.ctx, v, false); err != nil {
			return err
		}
		return s.startVM(t, c.node, c.vmid)
	}), nil
}

// unpause lets a machine that QEMU has paused go on. None is ever really paused here.
func unpause(s *Server, c *call) (any, error) {
	if err := noSkiplock(c); err != nil {
		return nil, err
	}
	if _, err := s.vmFile(c.node, c.vmid); err != nil {
		return nil, err
	}
	return s.vmTask(c, "qmresume", c.vmid, func(t *task) error { // whatever its lock (observed)
		s.mu.Lock()
		v, err := s.vmFile(c.node, c.vmid)
		if err == nil && !s.running(v) {
			err = failf("VM %d not running", c.vmid)
		}
		s.mu.Unlock()
		if err != nil {
			return err
		}
		return t.work()
	}), nil
}
