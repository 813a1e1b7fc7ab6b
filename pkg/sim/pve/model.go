package pve

import (
	"cmp"
	"crypto/sha1" // as PVE's digests of configurations are
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30
)

// cluster is everything that the API shows and that survives a restart.
type cluster struct {
	Schema   int
	Nodes    []*node
	Storages map[string]*storage
	Volumes  []*volume
	VMs      map[int]*vm
	Pools    map[string]*pool
	Tasks    []*taskRecord
	Access   access
	NextPID  int
	Expected int `json:",omitempty"` // votes that `pvecm expected` has set, until a hypervisor comes back

	Datacenter datacenter
}

// node is a hypervisor.
type node struct {
	Name    string
	Cores   int
	Memory  int64 // bytes
	Bridges []string
	Online  bool
	SSHPort int
	NoSudo  bool `json:",omitempty"` // users other than root may run nothing with sudo
}

// storage is an entry of storage.cfg. Path is empty for block storages, whose volumes have no file.
type storage struct {
	ID       string
	Type     string // one of storageKinds
	Path     string
	Options  map[string]string `json:",omitempty"` // of its type: vgname, pool, export and the like
	Content  []string
	Shared   bool
	Nodes    []string `json:",omitempty"` // hypervisors that have it; empty: all
	Capacity int64    // bytes, per hypervisor
}

// on says why a hypervisor has no such storage, or nothing.
func (s *storage) on(node string) error {
	if len(s.Nodes) == 0 || slices.Contains(s.Nodes, node) {
		return nil
	}
	return failf("storage '%s' is not available on node '%s'", s.ID, node)
}

// place is the hypervisor that a volume of the storage is on, which is none for a shared one's.
func (s *storage) place(node string) string {
	if s.Shared {
		return ""
	}
	return node
}

func (s *storage) holds(content string) bool { return slices.Contains(s.Content, content) }

// volume is one image, ISO file or snippet. Node is empty on a shared storage.
type volume struct {
	Node    string
	Storage string
	Name    string // what follows "storage:" in the volume id
	Content string
	Format  string
	Size    int64 // virtual size of images, else bytes of the file
	Used    int64
	VMID    int    `json:",omitempty"`
	Parent  string `json:",omitempty"` // name of the base image of a linked clone
	CTime   int64
	Data    []byte `json:",omitempty"` // of snippets
	Blank   bool   `json:",omitempty"` // a disk without a system on it
}

func (v *volume) id() string { return v.Storage + ":" + v.Name }

// vm is a guest: its configuration and what is known of its machine.
type vm struct {
	ID        int
	Node      string
	Config    vmConfig
	Live      vmConfig `json:",omitempty"` // the configuration that the running machine was started with
	Snapshots []*snapshot
	Parent    string // snapshot that the current state descends from
	PowerOn   bool   // was started and not stopped since; started again with the simulator
	Machine   bool   // has been started at least once: the host manager has a disk of it
	Started   time.Time
	PID       int

	console    *console // of an installer that waits for keys
	restarting bool     // the guest boots anew by itself
}

// snapshot is a saved configuration. Machine tells whether a copy of the disk exists.
type snapshot struct {
	Name        string
	Description string
	Time        int64
	Parent      string
	VMState     bool
	Machine     bool
	Config      vmConfig
	Lost        bool   `json:",omitempty"` // no disk image has it any more
	State       string `json:",omitempty"` // what was cut off: delete
}

// ownConfig is the configuration that a snapshot stands for: with its own description in place of the VM's.
func (s *snapshot) ownConfig() vmConfig {
	config := maps.Clone(s.Config)
	delete(config, "description")
	if s.Description != "" {
		config["description"] = s.Description
	}
	return config
}

func (v *vm) machineID() string { return strconv.Itoa(v.ID) }

// snapshotID names the copy of a machine's disk; names of machines are short.
func (v *vm) snapshotID(name string) string {
	sum := sha1.Sum([]byte(name)) // no secret
	return strconv.Itoa(v.ID) + "-snap-" + hex.EncodeToString(sum[:4])
}

func (v *vm) snapshot(name string) *snapshot {
	for _, s := range v.Snapshots {
		if s.Name == name {
			return s
		}
	}
	return nil
}

// vmConfig is the body of a VM's configuration file.
type vmConfig map[string]string

// text is the configuration as PVE writes it to disk.
func (c vmConfig) text() string {
	var b strings.Builder
	for _, k := range sortedKeys(c) {
		b.WriteString(k + ": " + c[k] + "\n")
	}
	return b.String()
}

func (v *vm) digest() string {
	text := v.Config.text() + "parent: " + v.Parent + "\n"
	for _, s := range v.Snapshots {
		text += "[" + s.Name + "]\n" + s.Description + "\n" + s.Config.text()
	}
	sum := sha1.Sum([]byte(text)) // as above
	return hex.EncodeToString(sum[:])
}

func (c vmConfig) int(key string, def int64) int64 {
	n, err := strconv.ParseInt(c[key], 10, 64)
	if err != nil {
		return def
	}
	return n
}

func (c vmConfig) template() bool { return c["template"] == "1" }

func (c vmConfig) vcpus() int64 {
	return c.int("sockets", 1) * c.int("cores", 1)
}

// memory is in bytes; PVE's default is 512 MiB.
func (c vmConfig) memory() int64 {
	text := c["memory"]
	if keys, msg := parseProps(memoryKeys(), text, "memory"); msg == "" && keys["current"] != "" {
		text = keys["current"]
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		n = 512
	}
	return n * mib
}

func memoryKeys() map[string]*property {
	return map[string]*property{"current": {Type: "integer", Optional: true, DefaultKey: true}}
}

func (v *vm) name() string {
	if n := v.Config["name"]; n != "" {
		return n
	}
	return "VM " + strconv.Itoa(v.ID)
}

// pool groups VMs and storages.
type pool struct {
	ID       string
	Comment  string
	VMs      []int
	Storages []string
}

func (c *cluster) node(name string) *node {
	for _, n := range c.Nodes {
		if n.Name == name {
			return n
		}
	}
	return nil
}

func (c *cluster) poolOf(vmid int) string {
	for _, id := range sortedKeys(c.Pools) {
		if slices.Contains(c.Pools[id].VMs, vmid) {
			return id
		}
	}
	return ""
}

// volume finds a volume as a hypervisor sees it.
func (c *cluster) volume(node, volid string) *volume {
	st, name, _ := strings.Cut(volid, ":")
	for _, v := range c.Volumes {
		if v.Storage == st && v.Name == name && (v.Node == node || v.Node == "") {
			return v
		}
	}
	return nil
}

func (c *cluster) removeVolume(v *volume) {
	c.Volumes = slices.DeleteFunc(c.Volumes, func(o *volume) bool { return o == v })
}

// used is how much of a storage is taken on a hypervisor. Images count with their whole virtual size: the simulator's
// storages run out when what they promise exceeds what they have, which a thin one would only do later.
func (c *cluster) used(node, storage string) int64 {
	var n int64
	for _, v := range c.Volumes {
		if v.Storage == storage && (v.Node == node || v.Node == "") {
			n += v.occupies()
		}
	}
	return n
}

func (v *volume) occupies() int64 {
	if v.Content == "images" && v.Parent == "" {
		return v.Size
	}
	return v.Used
}

func (c *cluster) vmIDs() []int { return slices.Sorted(maps.Keys(c.VMs)) }

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
