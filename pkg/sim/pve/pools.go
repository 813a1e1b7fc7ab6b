package pve

import (
	"slices"
	"strconv"
	"strings"
)

func poolList(s *Server, c *call) (any, error) {
	if id := c.get("poolid"); id != "" {
		p, err := poolGet(s, c) // no privilege is asked for here (observed)
		if err != nil {
			return nil, err
		}
		return []any{p}, nil
	}
	rows := []map[string]any{}
	for _, id := range sortedKeys(s.state.Pools) {
		if s.can(c.who, "/pool/"+id, false, "Pool.Audit") {
			rows = append(rows, poolRow(s.state.Pools[id]))
		}
	}
	return rows, nil
}

func poolRow(p *pool) map[string]any {
	row := map[string]any{"poolid": p.ID}
	if p.Comment != "" {
		row["comment"] = p.Comment
	}
	return row
}

func poolGet(s *Server, c *call) (any, error) {
	id := c.get("poolid")
	p := s.state.Pools[id]
	if p == nil {
		return nil, failf("pool '%s' does not exist", id)
	}
	s.refresh()
	members := []map[string]any{}
	for _, vmid := range p.VMs {
		if v := s.state.VMs[vmid]; v != nil && c.get("type") != "storage" {
			row := s.vmRow(v)
			delete(row, "pool")
			members = append(members, row)
		}
	}
	for _, st := range p.Storages {
		if s.state.Storages[st] != nil && c.get("type") != "qemu" {
			for _, n := range s.state.Nodes {
				if s.state.Storages[st].on(n.Name) == nil {
					members = append(members, s.storageRow(n, s.state.Storages[st]))
				}
			}
		}
	}
	row := poolRow(p)
	row["members"] = members
	return row, nil
}

func poolCreate(s *Server, c *call) (any, error) {
	id := c.get("poolid")
	if s.version != Version84 && !startsWithLetter(id) {
		return nil, failf("create pool failed: pool name must start with a letter")
	}
	if s.state.Pools[id] != nil {
		return nil, failf("create pool failed: pool '%s' already exists", id)
	}
	if i := strings.LastIndex(id, "/"); i > 0 && s.state.Pools[id[:i]] == nil {
		return nil, failf("create pool failed: parent '%s' of pool '%s' does not exist", id[:i], id)
	}
	s.state.Pools[id] = &pool{ID: id, Comment: c.get("comment")}
	return nil, nil
}

func startsWithLetter(text string) bool {
	return text != "" && (text[0]|0x20 >= 'a' && text[0]|0x20 <= 'z')
}

func poolDelete(s *Server, c *call) (any, error) {
	id := c.get("poolid")
	p := s.state.Pools[id]
	if p == nil {
		return nil, failf("delete pool failed: pool '%s' does not exist", id)
	}
	for other := range s.state.Pools {
		if strings.HasPrefix(other, id+"/") {
			return nil, failf("delete pool failed: pool '%s' is not empty (contains pool '%s')", id, other)
		}
	}
	for _, vmid := range p.VMs {
		if s.state.VMs[vmid] != nil { // a missing VM can be a member, and does not count
			return nil, failf("delete pool failed: pool '%s' is not empty (contains VM %d)", id, vmid)
		}
	}
	if len(p.Storages) > 0 {
		return nil, failf("delete pool failed: pool '%s' is not empty (contains storage '%s')", id, p.Storages[0])
	}
	delete(s.state.Pools, id)
	return nil, nil
}

func poolUpdate(s *Server, c *call) (any, error) {
	p := s.state.Pools[c.get("poolid")]
	if p == nil {
		return nil, failf("update pools failed: pool '%s' does not exist", c.get("poolid"))
	}
	for _, text := range splitList(c.get("vms")) {
		vmid, _ := strconv.Atoi(text)
		if !s.can(c.who, "/vms/"+text, true, "Permissions.Modify", "VM.Allocate") {
			return nil,
				failf("update pools failed: 403 %s", forbidden("/vms/"+text, "Permissions.Modify", "VM.Allocate"))
		}
		if err := s.poolVM(c, p, vmid); err != nil {
			return nil, err
		}
	}
	for _, st := range splitList(c.get("storage")) {
		if c.bool("delete") {
			p.Storages = slices.DeleteFunc(p.Storages, func(o string) bool { return o == st })
		} else if !slices.Contains(p.Storages, st) {
			p.Storages = append(p.Storages, st)
		}
	}
	if c.has("comment") {
		p.Comment = c.get("comment")
	}
	return nil, nil
}

func (s *Server) poolVM(c *call, p *pool, vmid int) error {
	if c.bool("delete") {
		if !slices.Contains(p.VMs, vmid) {
			return failf("update pools failed: VM %d is not a pool member", vmid)
		}
		p.VMs = slices.DeleteFunc(p.VMs, func(o int) bool { return o == vmid })
		return nil
	}
	old := s.state.poolOf(vmid)
	switch {
	case old == p.ID:
		return failf("update pools failed: VM %d is already a pool member", vmid)
	case old != "" && !c.bool("allow-move"):
		return failf("update pools failed: VM %d belongs already to pool '%s' and 'allow-move' is not set", vmid, old)
	case old != "":
		o := s.state.Pools[old]
		o.VMs = slices.DeleteFunc(o.VMs, func(id int) bool { return id == vmid })
	}
	p.VMs = append(p.VMs, vmid)
	return nil
}
