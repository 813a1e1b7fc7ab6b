package api

import (
	"strings"
	"testing"
)

// Of each disk of which no snapshot can be made it is told why; those that have snapshots, and drives that are no part
// of one, are not named.
func TestUnsnapshotable(t *testing.T) {
	storages := []Storage{
		{Name: "local", Type: "dir"},
		{Name: "share", Type: "nfs"},
		{Name: "thin", Type: "lvmthin"},
		{Name: "thick", Type: "lvm"},
		{Name: "tank", Type: "zfspool"},
		{Name: "sub", Type: "btrfs"},
	}
	for _, tc := range []struct{ slot, value, want string }{
		{"virtio0", "local:100/vm-100-disk-0.qcow2,size=32G", ""},
		{"virtio0", "local:100/vm-100-disk-0.raw,size=32G", "virtio0 is on storage local, where only qcow2 has snapshots (dir)"},
		{"scsi1", "file=share:100/vm-100-disk-1.raw", "scsi1 is on storage share, where only qcow2 has snapshots (nfs)"},
		{"scsi0", "thin:vm-100-disk-0,iothread=1", ""},
		{"scsi0", "thick:vm-100-disk-0", "scsi0 is on storage thick, which has no snapshots (lvm)"},
		{"tpmstate0", "thick:vm-100-disk-1,version=v2.0", "tpmstate0 is on storage thick, which has no snapshots (lvm)"},
		{"tpmstate0", "local:100/vm-100-disk-1.raw", "tpmstate0 is on storage local, where only qcow2 has snapshots (dir)"},
		{"efidisk0", "tank:vm-100-disk-1", ""},
		{"sata0", "sub:100/vm-100-disk-0.raw", ""},
		{"virtio1", "/dev/disk/by-id/nvme-x,size=1T", "virtio1 is /dev/disk/by-id/nvme-x of the hypervisor itself"},
		{"ide2", "local:iso/debian.iso,media=cdrom", ""},
		{"ide2", "local:100/vm-100-cloudinit.raw", ""},
		{"ide3", "none,media=cdrom", ""},
		{"scsihw", "virtio-scsi-pci", ""},
		{"unused0", "local:100/vm-100-disk-9.raw", ""},
		{"virtio0", "gone:vm-100-disk-0", ""},
	} {
		config := map[string]text{"name": "a", tc.slot: text(tc.value)}
		if got := strings.Join(unsnapshotable(config, storages), "; "); got != tc.want {
			t.Errorf("%s: %s: %q, want %q", tc.slot, tc.value, got, tc.want)
		}
	}
}
