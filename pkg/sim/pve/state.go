package pve

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"time"

	"github.com/google/renameio/v2"
)

const (
	stateSchema = 1
	adminToken  = "sim"

	// SeedImage is the cloud image that every hypervisor holds from the start. It has a size, but no bytes.
	SeedImage = "local:iso/debian-12-genericcloud-amd64.img"
	// SeedImport is the same image as an import volume, for disks that are made without SSH.
	SeedImport = "local:import/debian-12-genericcloud-amd64.qcow2"

	// saveDelay gathers changes; it is also how much a crash can lose.
	saveDelay = 50 * time.Millisecond

	seedFileSize    = 345 * mib
	seedVirtualSize = 2 * gib
)

func (s *Server) load() error {
	b, err := os.ReadFile(s.stateFile())
	if errors.Is(err, fs.ErrNotExist) {
		s.state = seed(s.opt.Nodes)
		return s.save()
	}
	if err != nil {
		return fmt.Errorf("read the simulator's state: %w", err)
	}
	var c cluster
	if err := json.Unmarshal(b, &c); err != nil {
		return fmt.Errorf("read the simulator's state from %s: %w", s.stateFile(), err)
	}
	if c.Schema > stateSchema {
		return fmt.Errorf("the simulator's state in %s was written by a later hive-sim: its schema is %d, this program knows %d: use that one",
			s.stateFile(), c.Schema, stateSchema)
	}
	if c.Schema != stateSchema {
		return fmt.Errorf("the simulator's state in %s has schema %d, this program knows %d: stop it with --wipe",
			s.stateFile(), c.Schema, stateSchema)
	}
	s.state = &c
	s.endLostTasks()
	return nil
}

// seed is a new cluster: three kinds of storage content, two bridges, one image, one token with all rights.
func seed(nodes []NodeSpec) *cluster {
	c := &cluster{
		Schema: stateSchema, VMs: map[int]*vm{}, Pools: map[string]*pool{}, NextPID: 4096,
		Storages: map[string]*storage{},
		Access: access{
			Roles: map[string][]string{}, Secret: []byte(randomHex(32)),
			Users: map[string]*user{"root@pam": {ID: "root@pam", Tokens: map[string]*token{
				adminToken: {ID: adminToken, Secret: newUUID(), Comment: "made by the simulator"},
			}}},
		},
	}
	now := time.Now().Unix()
	for _, n := range nodes {
		c.Nodes = append(c.Nodes, &node{
			Name: n.Name, Cores: n.Cores, Memory: int64(n.MemoryGB) * gib, Online: true,
			Bridges: []string{"vmbr0", "vmbr1"},
		})
		capacity := int64(n.StorageGB) * gib
		c.Storages["local"] = &storage{
			ID: "local", Type: "dir", Path: "/var/lib/vz", Capacity: capacity,
			Content: []string{"backup", "images", "import", "iso", "snippets", "vztmpl"},
		}
		c.Storages["local-lvm"] = &storage{
			ID: "local-lvm", Type: "lvmthin", Capacity: capacity, Content: []string{"images", "rootdir"},
			Options: map[string]string{"vgname": "pve", "thinpool": "data"},
		}
		for _, id := range []string{SeedImage, SeedImport} {
			c.Volumes = append(c.Volumes, seedVolume(n.Name, id, now))
		}
	}
	return c
}

func seedVolume(node, volid string, now int64) *volume {
	name := volid[len("local:"):]
	v := &volume{
		Node: node, Storage: "local", Name: name, Content: path.Dir(name), Format: "iso", CTime: now,
		Size: seedFileSize, Used: seedFileSize,
	}
	if v.Content == "import" {
		v.Format = "qcow2"
	}
	return v
}

// changed asks for the state to be written. Called with the mutex held.
func (s *Server) changed() {
	select {
	case s.dirty <- struct{}{}:
	default:
	}
}

// saver writes the state soon after changes; many changes at once cost one write.
func (s *Server) saver() {
	defer close(s.saved)
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.dirty:
		}
		if !sleep(s.ctx, saveDelay) {
			return // Close writes what is left
		}
		s.mu.Lock()
		b, err := json.Marshal(s.state)
		s.mu.Unlock()
		if err == nil {
			err = renameio.WriteFile(s.stateFile(), b, 0o600)
		}
		if err != nil {
			s.log.Error("the simulator's state was not written", "error", err)
		}
	}
}

// save writes the state at once. Called with the mutex held or before there are other users.
func (s *Server) save() error {
	b, err := json.Marshal(s.state)
	if err == nil {
		err = renameio.WriteFile(s.stateFile(), b, 0o600)
	}
	if err != nil {
		return fmt.Errorf("write the simulator's state: %w", err)
	}
	return nil
}

// resume powers on what was running when the server was closed.
func (s *Server) resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range s.state.vmIDs() {
		v := s.state.VMs[id]
		if !v.PowerOn || s.running(v) {
			continue
		}
		s.startTask(identity{user: "root@pam"}, v.Node, "qmstart", strconv.Itoa(id), nil, func(t *task) error {
			return s.startVM(t, v.Node, id)
		})
	}
}

func (s *Server) adminSecret() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.Access.Users["root@pam"].Tokens[adminToken].Secret
}
