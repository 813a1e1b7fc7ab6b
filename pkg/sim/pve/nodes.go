package pve

import (
	"cmp"
	"slices"
	"strconv"
	"time"
)

func index(names ...string) handler {
	return func(*Server, *call) (any, error) {
		out := []map[string]any{}
		for _, n := range names {
			out = append(out, map[string]any{"name": n})
		}
		return out, nil
	}
}

func version(s *Server, _ *call) (any, error) { return s.versionInfo(), nil }

func (s *Server) versionInfo() map[string]any {
	if s.version == Version84 {
		return map[string]any{"version": "8.4.21", "release": "8.4", "repoid": "2606ac850d46da29"}
	}
	return map[string]any{"version": "9.2.11", "release": "9.2", "repoid": "5ac30304265fbd8e"}
}

func (s *Server) pveversion() string {
	v := s.versionInfo()
	return "pve-manager/" + v["version"].(string) + "/" + v["repoid"].(string)
}

// load is what runs on a hypervisor.
func (s *Server) nodeLoad(n *node) (memory, disk, diskSize int64) {
	memory = n.Memory / 16
	for _, v := range s.state.VMs {
		if v.Node == n.Name && s.running(v) {
			memory += s.current(v).memory()
		}
	}
	if st := s.state.Storages["local"]; st != nil {
		disk, diskSize = s.state.used(n.Name, st.ID), st.Capacity
	}
	return min(memory, n.Memory), disk, diskSize
}

func (s *Server) nodeRow(n *node, audit bool) map[string]any {
	if n.Online && s.state.Datacenter.Unknown[n.Name] { // observed on 9.2, for 12 s after its daemons began
		return map[string]any{"id": "node/" + n.Name, "node": n.Name, "type": "node", "status": "unknown"}
	}
	row := map[string]any{"id": "node/" + n.Name, "node": n.Name, "type": "node", "level": "", "status": "offline"}
	memory, disk, size := s.nodeLoad(n)
	if audit {
		row["maxcpu"], row["maxmem"], row["maxdisk"] = n.Cores, n.Memory, size
	}
	if n.Online {
		row["status"] = "online"
		if audit {
			row["cpu"], row["mem"], row["disk"], row["uptime"] = 0.02, memory, disk, s.uptime()
		}
	}
	return row
}

func (s *Server) uptime() int64 { return int64(time.Since(s.started).Seconds()) + 3600 }

func nodeList(s *Server, c *call) (any, error) {
	rows := []map[string]any{}
	for _, n := range s.state.Nodes {
		row := s.nodeRow(n, s.can(c.who, "/nodes/"+n.Name, false, "Sys.Audit"))
		row["ssl_fingerprint"] = s.files.fingerprint()
		rows = append(rows, row)
	}
	return rows, nil
}

func nodeStatus(s *Server, c *call) (any, error) {
	n := s.state.node(c.node)
	memory, disk, size := s.nodeLoad(n)
	return map[string]any{
		"uptime": s.uptime(), "cpu": 0.02, "wait": 0, "idle": 0, "loadavg": []string{"0.10", "0.10", "0.10"},
		"kversion":   "Linux 6.8.12-9-pve #1 SMP PREEMPT_DYNAMIC PMX 6.8.12-9",
		"pveversion": s.pveversion(),
		"memory":     map[string]any{"total": n.Memory, "used": memory, "free": n.Memory - memory},
		"swap":       map[string]any{"total": 0, "used": 0, "free": 0},
		"rootfs":     map[string]any{"total": size, "used": disk, "avail": size - disk, "free": size - disk},
		"ksm":        map[string]any{"shared": 0},
		"boot-info":  map[string]any{"mode": "legacy-bios"},
		"current-kernel": map[string]any{
			"sysname": "Linux", "release": "6.8.12-9-pve", "machine": "x86_64", "version": "#1 SMP",
		},
		"cpuinfo": map[string]any{
			"cpus": n.Cores, "cores": n.Cores, "sockets": 1, "model": "simulated", "mhz": "2000.000", "hvm": "1",
			"user_hz": 100,
			"flags":   "lm vmx",
		},
	}, nil
}

func nodeVersion(s *Server, _ *call) (any, error) { return s.versionInfo(), nil }

func nodeTime(*Server, *call) (any, error) {
	now := time.Now()
	return map[string]any{"time": now.Unix(), "localtime": now.Unix(), "timezone": "UTC"}, nil
}

func networkList(s *Server, c *call) (any, error) {
	kind := c.get("type")
	rows := []map[string]any{}
	if kind == "" || kind == "eth" {
		rows = append(rows, map[string]any{
			"iface": "eth0", "type": "eth", "method": "manual", "method6": "manual", "active": 1, "priority": 3,
			"families": []string{"inet"},
		})
	}
	n := s.state.node(c.node)
	at := slices.Index(s.state.Nodes, n) + 1
	for i, b := range n.Bridges {
		if kind != "" && kind != "bridge" && kind != "any_bridge" && kind != "any_local_bridge" {
			continue
		}
		row := map[string]any{
			"iface": b, "type": "bridge", "method": "manual", "method6": "manual", "active": 1, "autostart": 1,
			"priority": 4 + i, "bridge_ports": "", "bridge_stp": "off", "bridge_fd": "0", "families": []string{"inet"},
		}
		if i == 0 {
			addr := "127.0.0." + strconv.Itoa(at)
			row["method"], row["address"], row["netmask"], row["cidr"] = "static", addr, "8", addr+"/8"
			row["bridge_ports"], row["gateway"] = "eth0", "127.0.0.254"
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func qemuList(s *Server, c *call) (any, error) {
	rows := []map[string]any{}
	for _, id := range s.state.vmIDs() {
		v := s.state.VMs[id]
		if v.Node == c.node && s.can(c.who, "/vms/"+strconv.Itoa(id), false, "VM.Audit") {
			row := s.vmStatus(v)
			delete(row, "diskread")
			delete(row, "diskwrite")
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// vmStat is what the status round knows of a VM.
type vmStat struct {
	name, status string
	uptime, mem  any
}

// refresh is the status round that PVE makes every 10 s; without a lag every read makes its own.
func (s *Server) refresh() {
	if s.opt.ResourcesLag > 0 && time.Since(s.statsAt) < s.opt.ResourcesLag {
		return
	}
	s.stats, s.statsAt = map[int]vmStat{}, time.Now()
	for id, v := range s.state.VMs {
		row := s.vmStatus(v)
		s.stats[id] = vmStat{name: v.name(), status: row["status"].(string), uptime: row["uptime"], mem: row["mem"]}
	}
}

func (s *Server) vmRow(v *vm) map[string]any {
	row := map[string]any{
		"id": "qemu/" + strconv.Itoa(v.ID), "type": "qemu", "vmid": v.ID, "node": v.Node, "status": "unknown",
	}
	full := s.vmStatus(v)
	for _, k := range []string{"tags", "lock"} {
		if full[k] != nil {
			row[k] = full[k]
		}
	}
	if p := s.state.poolOf(v.ID); p != "" {
		row["pool"] = p
	}
	if state, managed := s.haState(v); managed {
		row["hastate"] = state
	}
	stat, ok := s.stats[v.ID]
	if !ok || !s.state.node(v.Node).Online || s.state.Datacenter.Unknown[v.Node] {
		return row // as the real one shows a VM that no status round has seen yet
	}
	row["name"], row["status"], row["uptime"], row["mem"] = stat.name, stat.status, stat.uptime, stat.mem
	row["template"] = btoi(v.Config.template())
	row["maxcpu"], row["maxmem"], row["maxdisk"] = full["cpus"], full["maxmem"], full["maxdisk"]
	for _, k := range []string{"cpu", "disk", "netin", "netout", "diskread", "diskwrite"} {
		row[k] = full[k]
	}
	if s.version != Version84 {
		row["memhost"] = full["memhost"]
	}
	return row
}

func resources(s *Server, c *call) (any, error) {
	s.refresh()
	kind := c.get("type")
	rows := []map[string]any{}
	if kind == "" {
		for _, id := range sortedKeys(s.state.Pools) {
			if s.can(c.who, "/pool/"+id, false, "Pool.Audit") {
				rows = append(rows, map[string]any{"id": "/pool/" + id, "pool": id, "type": "pool"})
			}
		}
	}
	if kind == "" || kind == "vm" {
		for _, id := range s.state.vmIDs() {
			if s.can(c.who, "/vms/"+strconv.Itoa(id), false, "VM.Audit") {
				rows = append(rows, s.vmRow(s.state.VMs[id]))
			}
		}
	}
	if kind == "" || kind == "node" {
		for _, n := range s.state.Nodes {
			row := s.nodeRow(n, s.can(c.who, "/nodes/"+n.Name, false, "Sys.Audit"))
			row["cgroup-mode"] = 2
			rows = append(rows, row)
		}
	}
	if kind == "" || kind == "storage" {
		rows = append(rows, s.storageRows(c)...)
	}
	return append(rows, s.networkRows(kind)...), nil
}

// networkRows are the zone that every hypervisor has: since 9 as a network, which cannot be asked for by its type.
func (s *Server) networkRows(kind string) []map[string]any {
	var rows []map[string]any
	for _, n := range s.state.Nodes {
		switch {
		case s.version != Version84 && kind == "":
			rows = append(rows, map[string]any{
				"id": "network/" + n.Name + "/zone/localnetwork", "type": "network", "network-type": "zone",
				"node":    n.Name,
				"network": "localnetwork", "status": "ok",
			})
		case s.version == Version84 && (kind == "" || kind == "sdn"):
			rows = append(rows, map[string]any{
				"id": "sdn/" + n.Name + "/localnetwork", "type": "sdn", "node": n.Name, "sdn": "localnetwork",
				"status": "ok",
			})
		}
	}
	return rows
}

func (s *Server) storageRows(c *call) []map[string]any {
	var rows []map[string]any
	for _, n := range s.state.Nodes {
		for _, id := range sortedKeys(s.state.Storages) {
			if s.can(c.who, "/storage/"+id, true, "Datastore.Audit", "Datastore.AllocateSpace") &&
				s.state.Storages[id].on(n.Name) == nil {
				rows = append(rows, s.storageRow(n, s.state.Storages[id]))
			}
		}
	}
	return rows
}

func (s *Server) storageRow(n *node, st *storage) map[string]any {
	u := s.usage(n.Name, st)
	if s.state.Datacenter.Unknown[n.Name] {
		return map[string]any{
			"id": "storage/" + n.Name + "/" + st.ID, "type": "storage", "storage": st.ID, "node": n.Name,
			"plugintype": st.Type,
			"content":    u["content"], "shared": u["shared"], "status": "unknown",
		}
	}
	return map[string]any{
		"id": "storage/" + n.Name + "/" + st.ID, "type": "storage", "storage": st.ID, "node": n.Name,
		"plugintype": st.Type,
		"content":    u["content"], "shared": u["shared"], "status": "available", "maxdisk": u["total"], "disk": u["used"],
	}
}

// quorate tells whether more than half of the hypervisors are there.
func (s *Server) quorate() bool {
	online := 0
	for _, n := range s.state.Nodes {
		online += btoi(n.Online)
	}
	return 2*online > s.expectedVotes()
}

func (s *Server) expectedVotes() int { return cmp.Or(s.state.Expected, len(s.state.Nodes)) }

// needsQuorum refuses what writes to the cluster's file system while there is no quorum (observed; everything that
// reads still answers, and so does nextid). The configurations of VMs are looked after by writable.
func (s *Server) needsQuorum(r *route) error {
	call := r.method + " " + r.path
	if r.method == "GET" || !asksFirst(call) && clusterFiles()[call] == "" {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.quorate():
		return nil
	case asksFirst(call):
		return failf("cluster not ready - no quorum?")
	}
	return failf("%s error: no quorum!", clusterFiles()[call])
}

// asksFirst are the calls that look for a quorum before anything else.
func asksFirst(call string) bool {
	switch call {
	case "POST /nodes/{node}/qemu", "POST /nodes/{node}/qemu/{vmid}/clone", "POST /nodes/{node}/qemu/{vmid}/status/start",
		"POST /cluster/ha/resources", "POST /cluster/ha/groups":
		return true
	}
	return false
}

// clusterFiles are the calls that write to a file of the whole cluster, and how their refusals begin.
func clusterFiles() map[string]string {
	const users, storages, ha = ": cfs-lock 'file-user_cfg'", ": cfs-lock 'file-storage_cfg'", ": cfs-lock 'domain-ha'"
	return map[string]string{
		"POST /pools": "create pool failed" + users, "PUT /pools": "update pools failed" + users,
		"DELETE /pools":       "delete pool failed" + users,
		"PUT /pools/{poolid}": "update pools failed" + users, "DELETE /pools/{poolid}": "delete pool failed" + users,
		"PUT /cluster/options":               "cfs-lock 'file-datacenter_cfg'",
		"PUT /cluster/ha/resources/{sid}":    "update resources config failed" + ha,
		"DELETE /cluster/ha/resources/{sid}": "delete resource failed" + ha,
		"DELETE /cluster/ha/groups/{group}":  "delete ha group failed" + ha,
		"PUT /access/acl":                    "ACL update failed" + users,
		"POST /access/roles":                 "create role failed" + users,
		"PUT /access/roles/{roleid}":         "update role failed" + users,
		"DELETE /access/roles/{roleid}":      "delete role failed" + users,
		"POST /access/users":                 "create user failed" + users, "PUT /access/users/{userid}": "update user failed" + users,
		"DELETE /access/users/{userid}":                 "delete user failed" + users,
		"POST /access/users/{userid}/token/{tokenid}":   "generating token failed" + users,
		"PUT /access/users/{userid}/token/{tokenid}":    "updating token info failed" + users,
		"DELETE /access/users/{userid}/token/{tokenid}": "deleting token failed" + users,
		"POST /storage":             "create storage failed" + storages,
		"PUT /storage/{storage}":    "update storage failed" + storages,
		"DELETE /storage/{storage}": "delete storage failed" + storages,
	}
}

// writable refuses to write a VM's configuration while there is no quorum (observed).
func (s *Server) writable(v *vm) error {
	if s.quorate() {
		return nil
	}
	s.state.NextPID++
	return failf(
		"unable to open file '/etc/pve/nodes/%s/qemu-server/%d.conf.tmp.%d' - Permission denied", v.Node, v.ID,
		s.state.NextPID,
	)
}

func clusterStatus(s *Server, _ *call) (any, error) {
	rows := []map[string]any{{
		"id": "cluster", "type": "cluster", "name": "sim", "nodes": len(s.state.Nodes), "quorate": btoi(s.quorate()),
		"version": 1,
	}}
	for i, n := range s.state.Nodes {
		rows = append(rows, map[string]any{
			"id": "node/" + n.Name, "type": "node", "name": n.Name, "nodeid": i + 1, "online": btoi(n.Online),
			"local": btoi(i == 0), "ip": "127.0.0.1", "level": "",
		})
	}
	return rows, nil
}

// nextID reserves nothing, as the real one: two callers can get the same id.
func nextID(s *Server, c *call) (any, error) {
	if c.has("vmid") {
		if s.state.VMs[c.vmid] != nil {
			return nil, badParam("vmid", "VM %d already exists", c.vmid)
		}
		return strconv.Itoa(c.vmid), nil
	}
	for id := 100; ; id++ {
		if s.state.VMs[id] == nil {
			return strconv.Itoa(id), nil
		}
	}
}
