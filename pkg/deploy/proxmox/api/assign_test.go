package api

import (
	"context"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy/placement"
)

// fewGuests is a Proxmox VE that has these fewGuests.
type fewGuests []VM

func (g fewGuests) VMs(context.Context) ([]VM, error) { return g, nil }

func (g fewGuests) Live(_ context.Context, listed VM) (VM, error) {
	for _, vm := range g {
		if vm.VMID == listed.VMID {
			return vm, nil
		}
	}
	return VM{}, ErrNotFound
}

func TestAssign(t *testing.T) {
	static := func(text string) netip.Prefix { return netip.MustParsePrefix(text) }
	there := fewGuests{
		{VMID: 9000, Type: "qemu", Hypervisor: "pve3", Template: true, Disks: []Disk{{Slot: "scsi0"}}},
		{VMID: 20100, Type: "qemu", Hypervisor: "pve1", Tags: []string{cluster.Tag}, Static: []netip.Addr{netip.MustParseAddr("10.0.0.11")}},
		{VMID: 300, Type: "qemu", Hypervisor: "pve1", Static: []netip.Addr{netip.MustParseAddr("10.0.0.12")}}, // nobody of ours
	}
	spec := cluster.Spec{
		Hosts:   placement.Hosts([]placement.Hypervisor{{Name: "pve1", TemplateVMID: 9000}, {Name: "pve2"}}),
		Network: cluster.Network{Addresses: "10.0.0.10-10.0.0.19/24", Gateway: "10.0.0.10"},
	}
	nodes := cluster.Nodes{{Name: "a-1", Placement: placement.VM{Hypervisor: "pve1"}.Document()}, {Name: "a-2", Placement: placement.VM{Hypervisor: "pve2"}.Document()}, {
		Name: "a-3", Placement: placement.VM{Hypervisor: "pve1"}.Document(), StaticManagement: static("10.0.0.13/24"),
	}}
	got, err := Assign(t.Context(), there, AssignRequest{
		Spec: spec, Nodes: nodes, Taken: map[netip.Addr]string{netip.MustParseAddr("10.0.0.14"): "b-1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := cluster.Nodes{
		{Name: "a-1", Placement: placement.VM{Hypervisor: "pve1", Template: 9000, TemplateHypervisor: "pve3", TemplateDisk: "scsi0"}.Document(), StaticManagement: static("10.0.0.12/24")},
		{Name: "a-2", Placement: placement.VM{Hypervisor: "pve2"}.Document(), StaticManagement: static("10.0.0.15/24")},
		{Name: "a-3", Placement: placement.VM{Hypervisor: "pve1", Template: 9000, TemplateHypervisor: "pve3", TemplateDisk: "scsi0"}.Document(), StaticManagement: static("10.0.0.13/24")},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Prefix{}, netip.Addr{})); diff != "" {
		t.Errorf("assigned (-want +got):\n%s", diff)
	}
	if placement.Of(nodes[0]).Template != 0 {
		t.Error("the nodes of the request were changed")
	}
	again, err := Assign(t.Context(), nil, AssignRequest{Spec: spec, Nodes: cluster.Nodes{got[0], got[2]}})
	if err != nil ||
		!cmp.Equal(again, cluster.Nodes{got[0], got[2]}, cmpopts.EquateComparable(netip.Prefix{}, netip.Addr{})) {
		t.Errorf("what was chosen is chosen again: %v %v", again, err)
	}
}

func TestAssignOfAFullRangeSaysWhoHasIt(t *testing.T) {
	_, err := Assign(t.Context(), fewGuests{}, AssignRequest{
		Spec:  cluster.Spec{Network: cluster.Network{DataAddresses: "10.0.0.10-10.0.0.11/24"}},
		Nodes: cluster.Nodes{{Name: "a-1"}, {Name: "a-2"}},
		Taken: map[netip.Addr]string{netip.MustParseAddr("10.0.0.10"): "b-1"},
	})
	if err == nil || !strings.Contains(err.Error(), "10.0.0.10 is of b-1, 10.0.0.11 is of a-1") {
		t.Errorf("error %v", err)
	}
}

func TestClashes(t *testing.T) {
	node := cluster.Node{Name: "a-1", Placement: placement.VM{VMID: 20000}.Document(), StaticManagement: netip.MustParsePrefix("10.0.0.10/24")}
	mine := VM{
		VMID: 20000, Type: "qemu", Tags: []string{cluster.Tag}, Static: []netip.Addr{node.StaticManagement.Addr()},
	}
	other := VM{VMID: 20100, Name: "b-1", Type: "qemu", Tags: []string{cluster.Tag}, Static: mine.Static}
	if err := Clashes(t.Context(), fewGuests{mine}, cluster.Nodes{node}); err != nil {
		t.Errorf("a node clashes with itself: %v", err)
	}
	if err := Clashes(t.Context(), fewGuests{mine, other}, cluster.Nodes{node}); err == nil ||
		!strings.Contains(err.Error(), "20100 b-1") {
		t.Errorf("error %v", err)
	}
}

func TestDisksAndAddressesOfAConfig(t *testing.T) {
	config := map[string]text{
		"boot": "order=scsi1;net0", "scsi0": "local-lvm:vm-9000-disk-1,size=512M",
		"scsi1": "ceph:base-9000-disk-0,discard=on,size=3G",
		"ide2":  "local:9000/vm-9000-cloudinit.qcow2,media=cdrom", "ide0": "none,media=cdrom",
		"scsihw": "virtio-scsi-pci", "unused0": "local-lvm:vm-9000-disk-2",
		"ipconfig0": "gw=10.0.0.1,ip=10.0.0.10/24", "ipconfig1": "ip=dhcp,ip6=fd00::10/64",
	}
	want := []Disk{{"scsi1", "ceph", 3 << 30}, {"scsi0", "local-lvm", 512 << 20}}
	if diff := cmp.Diff(want, disks(config)); diff != "" {
		t.Errorf("disks (-want +got):\n%s", diff)
	}
	if got := statics(config); len(got) != 2 || got[0].String() != "10.0.0.10" || got[1].String() != "fd00::10" {
		t.Errorf("addresses %v", got)
	}
}
