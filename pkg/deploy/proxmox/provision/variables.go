package provision

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"

	"hive-test/cloudinit"
	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/placement"
)

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
	ManagementVLAN   int                  `json:"management_vlan"`
	DataVLAN         int                  `json:"data_vlan"`
	ManagementModel  string               `json:"management_model"`
	DataModel        string               `json:"data_model"`
	CPUType          string               `json:"cpu_type"`
	Clone            string               `json:"clone"`
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
	vendor, err := cloudinit.VendorData(cloudinit.Params{
		User: r.Spec.SSHUser, NoUpgrade: r.Spec.TemplateName != "", KeepHostKeys: r.Spec.KeepHostKeys,
	})
	if err != nil {
		return variables{}, err
	}
	nodes, err := nodeVariables(r)
	if err != nil {
		return variables{}, err
	}
	return variables{
		Endpoint: endpoint, Hypervisors: hypervisorVariables(placement.Hypervisors(r.Spec)),
		ClusterName: string(r.Name), OwnerID: r.Owner.ID,
		NodeCount: r.Spec.NodeCount, Nodes: nodes,
		CPUCores: r.Spec.CPUCores, MemoryMB: r.Spec.MemoryMB, DiskSizeGB: r.Spec.DiskSizeGB, OSImage: r.Spec.OSImage,
		ManagementBridge: r.Spec.ManagementBridge, DataBridge: r.Spec.DataBridge,
		ManagementVLAN: r.Spec.ManagementVLAN, DataVLAN: r.Spec.DataVLAN,
		ManagementModel: cmp.Or(r.Spec.ManagementModel, cluster.DefaultNICModel),
		DataModel:       cmp.Or(r.Spec.DataModel, cluster.DefaultNICModel),
		CPUType:         cmp.Or(r.Spec.CPUType, cluster.DefaultCPUType),
		Clone:           cmp.Or(r.Spec.Clone, cluster.CloneFull),
		SSHUser:         r.Spec.SSHUser, SSHPublicKey: strings.TrimSpace(r.SSHPublicKey),
		Description: cluster.Description(r.Name, r.Owner), Tags: r.Owner.Tags(r.Name),
		PoolID:     placement.TargetOf(r.Target).Pool,
		VendorData: string(vendor), CloudInit: cmp.Or(r.Spec.CloudInit, cluster.CloudInitSnippet),
		Gateway: r.Spec.Network.Gateway,
	}, nil
}

func hypervisorVariables(hypervisors []placement.Hypervisor) []hypervisorVariable {
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
		at := placement.Of(n)
		if at.VMID == 0 || at.Hypervisor == "" || at.ManagementMAC == "" || at.DataMAC == "" {
			faults = append(faults, fmt.Errorf("node %s has no id, hypervisor or MAC reserved", n.Name))
			continue
		}
		host, _ := placement.HypervisorNamed(r.Spec, at.Hypervisor)
		list = append(list, nodeVariable{
			Name: n.Name, Index: n.Index, VMID: at.VMID, Hypervisor: at.Hypervisor,
			ManagementMAC: strings.ToUpper(at.ManagementMAC), DataMAC: strings.ToUpper(at.DataMAC),
			DatastoreID: host.Datastore, SnippetStore: host.SnippetStore,
			TemplateVMID: at.Template, TemplateNode: at.TemplateHypervisor,
			DiskInterface:     cmp.Or(at.TemplateDisk, defaultDisk),
			ManagementAddress: address(n.StaticManagement), DataAddress: address(n.StaticData),
		})
	}
	if len(r.Nodes) != r.Spec.NodeCount {
		faults = append(
			faults, fmt.Errorf("nodes reserved: %d, asked for: %d", len(r.Nodes), r.Spec.NodeCount),
		)
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
