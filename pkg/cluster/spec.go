package cluster

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bounds and defaults of a Spec. Sizes are those of a Hive development cluster.
const (
	MinNodes, MaxNodes, DefaultNodes = 1, 10, 3
	DefaultCPUCores                  = 4
	DefaultMemoryMB                  = 8192
	DefaultDiskSizeGB                = 32
	DefaultSSHUser                   = "tf-user"
)

// DeployerExisting is the deployer of hosts that were there before: it makes nothing, so that sizes mean nothing.
const DeployerExisting = "existing"

// NICs and CPUs of machines, where nothing else is asked for.
const (
	DefaultNICModel = "virtio"
	DefaultCPUType  = "host"
)

// NICModels returns the models that a NIC can be of.
func NICModels() []string { return []string{DefaultNICModel, "e1000", "e1000e", "rtl8139", "vmxnet3"} }

// Ways to clone a template.
const (
	CloneFull   = "full"
	CloneLinked = "linked" // the clone's disk needs the template's
	CloneAuto   = "auto"   // linked where every hypervisor can, else full: what a cluster is asked for, and never has
)

// Ways to choose the host of a new machine.
const (
	PlaceSpread = "spread" // each in turn
	PlacePack   = "pack"   // the first that has the memory
	PlaceMemory = "memory" // the one with most free memory
)

// Spec is what a user asks for: it never changes behind the user's back once recorded.
type Spec struct {
	Deployer   string `json:"deployer"`
	NodeCount  int    `json:"node_count"`
	CPUCores   int    `json:"cpu_cores"`
	MemoryMB   int    `json:"memory_mb"`
	DiskSizeGB int    `json:"disk_size_gb"`
	OSImage    string `json:"os_image"` // in the deployer's own form
	// Hosts are what machines may land on, as the deployer knows them; none: any.
	Hosts            Document `json:"hypervisors,omitempty"`
	ManagementBridge string   `json:"management_bridge"`
	DataBridge       string   `json:"data_bridge"`
	SSHUser          string   `json:"ssh_user"`
	// What follows is empty where it is the default, as in records of before it could be chosen.
	ManagementVLAN  int    `json:"management_vlan,omitempty"`  // tag of the first NIC; 0: none
	DataVLAN        int    `json:"data_vlan,omitempty"`        // tag of the second NIC; 0: none
	ManagementModel string `json:"management_model,omitempty"` // one of NICModels; empty: DefaultNICModel
	DataModel       string `json:"data_model,omitempty"`
	CPUType         string `json:"cpu_type,omitempty"`  // empty: DefaultCPUType
	Clone           string `json:"clone,omitempty"`     // CloneLinked, or empty: CloneFull
	PlaceBy         string `json:"placement,omitempty"` // PlacePack, PlaceMemory, or empty: PlaceSpread

	Template int `json:"template,omitempty"` // id of the template to clone; 0: OSImage is used
	// TemplateName is what the template was asked for by: its layer, or its version; empty: its id, or none was.
	TemplateName string `json:"template_name,omitempty"`
	// KeepHostKeys leaves SSH host keys that the template has, so that they can be seen: it should have none.
	KeepHostKeys bool    `json:"keep_host_keys,omitempty"`
	CloudInit    string  `json:"cloud_init,omitempty"` // CloudInitSnippet (or empty) or CloudInitNone
	Network      Network `json:"network,omitzero"`
}

// Snippets tells whether nodes get cloud-init vendor data.
func (s Spec) Snippets() bool { return s.CloudInit != CloudInitNone }

// SameOrigin reports whether the machines of both are made of the same image or template, in the same way.
func (s Spec) SameOrigin(other Spec) bool {
	return s.OSImage == other.OSImage && s.Template == other.Template && s.TemplateName == other.TemplateName && s.Clone == other.Clone &&
		s.Snippets() == other.Snippets()
}

// Validate returns every problem of the spec at once, or nil.
func (s Spec) Validate() []error {
	var problems []error
	bound := func(name string, value, low, high int) {
		if value < low || value > high {
			problems = append(problems, fmt.Errorf("%s is %d: it must be between %d and %d", name, value, low, high))
		}
	}
	bound("node-count", s.NodeCount, MinNodes, MaxNodes)
	problems = append(problems, s.Network.Validate(s.NodeCount)...)
	if err := CheckUser(s.SSHUser); err != nil {
		problems = append(problems, fmt.Errorf("ssh-user: %w", err))
	}
	if s.Deployer != DeployerExisting {
		bound("cpu-cores", s.CPUCores, 1, 128)
		bound("memory-mb", s.MemoryMB, 512, 4<<20)
		bound("disk-size-gb", s.DiskSizeGB, 2, 64<<10)
	}
	return problems
}

// Owner identifies whose VMs a cluster's VMs are: the id is random and written into each VM's description.
type Owner struct {
	ID      string    `json:"id"`
	User    string    `json:"user"`
	Host    string    `json:"host"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"`
	// Held keeps reap away, whatever else it finds.
	Held bool `json:"held,omitempty"`
	// Protected keeps all that destroys away, but for who names the cluster with --i-know.
	Protected bool `json:"protected,omitempty"`
}

// Who is the user and the host that made the cluster.
func (o Owner) Who() string { return o.User + "@" + o.Host }

// Node is one member of a cluster. Its addresses are known once it has booted.
type Node struct {
	Name  string `json:"name"`
	Index int    `json:"index"`
	// Placement is where its machine is, as the deployer knows it: chosen before anything is created. In JSON its
	// members follow index, as members of the node.
	Placement  Document   `json:"-"`
	Management netip.Addr `json:"management,omitzero"`
	Data       netip.Addr `json:"data,omitzero"`
	SSHPort    int        `json:"ssh_port,omitempty"`
	// StaticManagement and StaticData are addresses that were chosen for the node; zero: DHCP.
	StaticManagement netip.Prefix `json:"static_management,omitzero"`
	StaticData       netip.Prefix `json:"static_data,omitzero"`
}

// bareNode is a node without its placement.
type bareNode Node

// MarshalJSON returns the node with the members of its placement.
func (n Node) MarshalJSON() ([]byte, error) {
	type identity struct {
		Name  string `json:"name"`
		Index int    `json:"index"`
	}
	rest := struct {
		bareNode
		Name  string `json:"name,omitempty"` // empty, they hide those of bareNode
		Index int    `json:"index,omitempty"`
	}{bareNode: bareNode(n)}
	return join(identity{n.Name, n.Index}, n.Placement, rest)
}

// UnmarshalJSON reads a node. What is not a node's own is its placement.
func (n *Node) UnmarshalJSON(raw []byte) error {
	bare := bareNode(*n)
	if err := json.Unmarshal(raw, &bare); err != nil {
		return err
	}
	var err error
	*n = Node(bare)
	n.Placement, err = others(raw, bare)
	return err
}

// Nodes are the nodes of one cluster in index order.
type Nodes []Node

// Leader is node 1, on which the cluster is formed.
func (n Nodes) Leader() Node { return n[0] }

// WereUp tells whether a run has had any of the nodes up: then an address of it is known.
func (n Nodes) WereUp() bool {
	return slices.ContainsFunc(n, func(node Node) bool { return node.Management.IsValid() })
}

// ByIndex returns the node with the given 1-based index.
func (n Nodes) ByIndex(index int) (Node, bool) {
	for _, node := range n {
		if node.Index == index {
			return node, true
		}
	}
	return Node{}, false
}

// Validate returns every problem of what others have written of the nodes, or nil: names that are none, or that stand
// for two nodes, and addresses with something hidden in their zone.
func (n Nodes) Validate() []error {
	var problems []error
	seen := map[string]string{}
	for _, node := range n {
		wrong := func(err error) {
			if err != nil {
				problems = append(problems, fmt.Errorf("node %d: %w", node.Index, err))
			}
		}
		_, err := ParseHostName(node.Name)
		wrong(err)
		wrong(checkAddress(node.Management))
		wrong(checkAddress(node.Data))
		// Names become directories, which some file systems tell apart by more than case only.
		if other, twice := seen[strings.ToLower(node.Name)]; twice {
			wrong(fmt.Errorf("name %q stands for both it and %s", node.Name, other))
		} else if named, _ := n.Named(strconv.Itoa(node.Index)); named.Index != node.Index {
			wrong(fmt.Errorf("%d is the name of another node: nodes are called by name and by number", node.Index))
		}
		seen[strings.ToLower(node.Name)] = node.Name
	}
	return problems
}

// Shared is an address that two nodes report, named by the first that did and one more.
type Shared struct {
	First, Second string
	Address       netip.Addr
}

// Shared are the addresses that more than one node has; none in a cluster that is sound.
func (n Nodes) Shared() []Shared {
	holders := map[netip.Addr]string{}
	var shared []Shared
	for _, node := range n {
		for _, addr := range []netip.Addr{node.Management, node.Data} {
			switch first := holders[addr]; {
			case !addr.IsValid():
			case first == "":
				holders[addr] = node.Name
			case first != node.Name:
				shared = append(shared, Shared{First: first, Second: node.Name, Address: addr})
			}
		}
	}
	return shared
}

// InventorySchema is the version of the inventory file's shape.
const InventorySchema = 1

// Inventory is all that is needed to reach and use a cluster whose nodes are up.
type Inventory struct {
	Schema      int               `json:"schema"`
	Cluster     Name              `json:"cluster"`
	ClusterName Name              `json:"cluster_name"` // the same, by its first name
	Nodes       Nodes             `json:"nodes"`
	SSHUser     string            `json:"ssh_user"`
	SSHKeyPath  string            `json:"ssh_key_path"`
	ProxyJump   JumpHosts         `json:"proxy_jump,omitempty"`
	SSHAgent    string            `json:"ssh_agent,omitempty"`
	Endpoints   map[string]string `json:"endpoints,omitempty"`
}
