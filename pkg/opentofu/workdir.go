package opentofu

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"

	"hive-test/cloudinit"
	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/progress"
	module "hive-test/tofu"
)

// workdir knows where everything of one cluster is kept.
type workdir struct{ cluster string }

func (w workdir) dir() string          { return filepath.Join(w.cluster, "tofu") }
func (w workdir) file(n string) string { return filepath.Join(w.dir(), n) }
func (w workdir) home() string         { return w.file("home") }
func (w workdir) lockFile() string     { return w.file(".terraform.lock.hcl") }
func (w workdir) stamp() string        { return w.file(".init.json") }
func (w workdir) caBundle() string     { return w.file("ca-bundle.pem") }
func (w workdir) cliConfig() string    { return w.file("cli.tfrc") }
func (w workdir) state() string        { return filepath.Join(w.cluster, "terraform.tfstate") }
func (w workdir) variables() string    { return filepath.Join(w.cluster, "terraform.tfvars.json") }

// Names inside the working directory. The state is named relative to it, so that a clusters directory can be moved.
const (
	relativeState     = "../terraform.tfstate"
	relativeVariables = "../terraform.tfvars.json"
	plannedVariables  = "planned.tfvars.json"
	planFile          = "plan.bin"
)

// prepare makes the directories and writes the module's files, touching only what differs.
func (w workdir) prepare() error {
	for _, dir := range []string{w.cluster, w.dir(), w.home()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("%w: make tofu's working directory: %w", deploy.ErrUnusable, err)
		}
	}
	if err := w.writeModule(); err != nil {
		return fmt.Errorf("%w: write the module: %w", deploy.ErrUnusable, err)
	}
	// tofu creates its state with the umask's mode, and keeps the mode of a file that exists.
	f, err := os.OpenFile(w.state(), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("prepare the state file: %w", err)
	}
	return f.Close()
}

func (w workdir) writeModule() error {
	sources, err := moduleFiles()
	if err != nil {
		return err
	}
	stale, err := filepath.Glob(w.file("*.tf"))
	if err != nil {
		return err
	}
	for _, path := range stale {
		if _, ok := sources[filepath.Base(path)]; !ok {
			if err := os.Remove(path); err != nil {
				return err
			}
		}
	}
	for name, content := range sources {
		if err := replace(w.file(name), content); err != nil {
			return err
		}
	}
	return nil
}

// moduleFiles returns the embedded module by file name.
func moduleFiles() (map[string][]byte, error) {
	entries, err := fs.ReadDir(module.Files, ".")
	if err != nil {
		return nil, err
	}
	sources := map[string][]byte{}
	for _, e := range entries {
		if sources[e.Name()], err = module.Files.ReadFile(e.Name()); err != nil {
			return nil, err
		}
	}
	return sources, nil
}

// replace writes a file atomically, for its owner only, unless it already holds content.
func replace(path string, content []byte) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, content) {
		return nil
	}
	return renameio.WriteFile(path, content, 0o600)
}

// variables is the content of terraform.tfvars.json: the module's variables, and never a secret.
type variables struct {
	Endpoint         string               `json:"endpoint"`
	Hypervisors      []hypervisorVariable `json:"hypervisors"`
	ClusterName      string               `json:"cluster_name"`
	OwnerID          string               `json:"owner_id"`
	NodeCount        int                  `json:"node_count"`
	Nodes            []nodeVariable       `json:"nodes"`
	CPUCores         int                  `json:"cpu_cores"`
	MemoryMB         int                  `json:"memory_mb"`
	DiskSizeGB       int                  `json:"disk_size_gb"`
	OSImage          string               `json:"os_image"`
	ManagementBridge string               `json:"management_bridge"`
	DataBridge       string               `json:"data_bridge"`
	SSHUser          string               `json:"ssh_user"`
	SSHPublicKey     string               `json:"ssh_public_key"`
	Description      string               `json:"description"`
	Tags             []string             `json:"tags"`
	PoolID           string               `json:"pool_id"`
	VendorData       string               `json:"vendor_data"`
	CloudInit        string               `json:"cloud_init"`
	Gateway          string               `json:"gateway"`
}

type hypervisorVariable struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	Port    int    `json:"port"`
}

type nodeVariable struct {
	Name          string `json:"name"`
	Index         int    `json:"index"`
	VMID          int    `json:"vmid"`
	Hypervisor    string `json:"hypervisor"`
	ManagementMAC string `json:"management_mac"`
	DataMAC       string `json:"data_mac"`
	DatastoreID   string `json:"datastore_id"`
	SnippetStore  string `json:"snippet_store"`

	TemplateVMID      int    `json:"template_vmid"`
	TemplateNode      string `json:"template_node"`
	DiskInterface     string `json:"disk_interface"`
	ManagementAddress string `json:"management_address"`
	DataAddress       string `json:"data_address"`
}

// newVariables turns a request into variables. The error names every node that lacks something chosen beforehand.
func newVariables(r deploy.Request, endpoint string) (variables, error) {
	vendor, err := cloudinit.VendorData(cloudinit.Params{User: r.Spec.SSHUser})
	if err != nil {
		return variables{}, err
	}
	nodes, err := nodeVariables(r)
	if err != nil {
		return variables{}, err
	}
	return variables{
		Endpoint: endpoint, Hypervisors: hypervisorVariables(r.Spec.Hypervisors),
		ClusterName: string(r.Name), OwnerID: r.Owner.ID,
		NodeCount: r.Spec.NodeCount, Nodes: nodes,
		CPUCores: r.Spec.CPUCores, MemoryMB: r.Spec.MemoryMB, DiskSizeGB: r.Spec.DiskSizeGB, OSImage: r.Spec.OSImage,
		ManagementBridge: r.Spec.ManagementBridge, DataBridge: r.Spec.DataBridge,
		SSHUser: r.Spec.SSHUser, SSHPublicKey: strings.TrimSpace(r.SSHPublicKey),
		Description: cluster.Description(r.Name, r.Owner), Tags: r.Owner.Tags(r.Name), PoolID: r.Pool,
		VendorData: string(vendor), CloudInit: cmp.Or(r.Spec.CloudInit, cluster.CloudInitSnippet), Gateway: r.Spec.Network.Gateway,
	}, nil
}

func hypervisorVariables(hypervisors []cluster.Hypervisor) []hypervisorVariable {
	list := make([]hypervisorVariable, 0, len(hypervisors))
	for _, h := range hypervisors {
		list = append(list, hypervisorVariable{h.Name, h.Address, h.WithDefaults().Port})
	}
	return list
}

func nodeVariables(r deploy.Request) ([]nodeVariable, error) {
	var faults []error
	list := make([]nodeVariable, 0, len(r.Nodes))
	for _, n := range r.Nodes {
		if n.VMID == 0 || n.Hypervisor == "" || n.ManagementMAC == "" || n.DataMAC == "" {
			faults = append(faults, fmt.Errorf("node %s has no id, hypervisor or MAC reserved", n.Name))
			continue
		}
		host, _ := r.Spec.Hypervisor(n.Hypervisor)
		list = append(list, nodeVariable{
			Name: n.Name, Index: n.Index, VMID: n.VMID, Hypervisor: n.Hypervisor,
			ManagementMAC: strings.ToUpper(n.ManagementMAC), DataMAC: strings.ToUpper(n.DataMAC), DatastoreID: host.Datastore, SnippetStore: host.SnippetStore,
			TemplateVMID: n.Template, TemplateNode: n.TemplateHypervisor, DiskInterface: cmp.Or(n.TemplateDisk, defaultDisk),
			ManagementAddress: address(n.StaticManagement), DataAddress: address(n.StaticData),
		})
	}
	if len(r.Nodes) != r.Spec.NodeCount {
		faults = append(faults, fmt.Errorf("%d nodes are reserved where %d are asked for", len(r.Nodes), r.Spec.NodeCount))
	}
	return list, errors.Join(faults...)
}

// defaultDisk is the slot of the boot disk of VMs that are made of an image.
const defaultDisk = "virtio0"

// address is how the module has a NIC's address.
func address(static netip.Prefix) string {
	if !static.IsValid() {
		return "dhcp"
	}
	return static.String()
}

// write puts the variables into a file that only its owner can read.
func (v variables) write(path string) error {
	raw, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("write the variables: %w", err)
	}
	if err := replace(path, append(raw, '\n')); err != nil {
		return fmt.Errorf("write the variables: %w", err)
	}
	return nil
}

func readVariables(path string) (variables, error) {
	var v variables
	raw, err := os.ReadFile(path)
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return v, fmt.Errorf("%s is damaged: %w", path, err)
	}
	return v, nil
}

// recorded is what the state file holds, as far as it matters here.
type recorded struct {
	// VMs are the names of the nodes whose VM is in the state.
	VMs map[string]bool
	// Complete are those of them that were made to the end.
	Complete map[string]bool
	// Resources is the number of things that a destroy would remove.
	Resources int
	// Provider is the address of the provider that made them.
	Provider string
}

// readState reads the state file without a child process. A missing or empty file is an empty state.
func readState(path string) (recorded, error) {
	r := recorded{VMs: map[string]bool{}, Complete: map[string]bool{}}
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(bytes.TrimSpace(raw)) == 0 {
		return r, nil
	}
	if err != nil {
		return r, fmt.Errorf("%w: read the state: %w", deploy.ErrUnusable, err)
	}
	var s struct {
		Resources []struct {
			Mode      string `json:"mode"`
			Type      string `json:"type"`
			Provider  string `json:"provider"`
			Instances []struct {
				Key    any    `json:"index_key"`
				Status string `json:"status"`
			} `json:"instances"`
		} `json:"resources"`
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return r, progress.WithHint(fmt.Errorf("%w: the state %s cannot be decoded: %w", deploy.ErrUnusable, path, err),
			"put a good copy back ("+path+".backup may hold the state before), or remove the cluster with `hive-test down`, which needs none")
	}
	for _, res := range s.Resources {
		if res.Mode != "managed" {
			continue
		}
		r.Resources += len(res.Instances)
		r.Provider = res.Provider
		for _, i := range res.Instances {
			if key, ok := i.Key.(string); ok && res.Type == vmType {
				r.VMs[key] = true
				r.Complete[key] = i.Status != "tainted"
			}
		}
	}
	return r, nil
}
