package pve

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestStorageKinds holds each type of storage to what Proxmox VE's plugin of it does: what an entry needs and shows,
// what images are called, copied and linked, and the words for what does not fit.
func TestStorageKinds(t *testing.T) {
	tests := []struct {
		entry  string // what an entry of the type needs
		shows  map[string]any
		disk   string // a new disk of VM 100
		init   string // its cloud-init drive
		base   string // the disk once it is a template's
		linked string // that of a linked clone
		format string // of a disk that is asked for as qcow2, "" where that is refused
		path   string // of a disk, as pvesm says it
		full   string
		stuck  string
		upload bool
		snaps  bool // a raw disk can have snapshots
		alloc  string
	}{
		{
			entry: "type=dir&path=/srv/s&content=images,snippets,iso",
			shows: map[string]any{"type": "dir", "path": "/srv/s", "content": "images,iso,snippets"},
			disk:  "st:100/vm-100-disk-0.raw", init: "st:100/vm-100-cloudinit.qcow2", base: "st:100/base-100-disk-0.raw",
			linked: "st:100/base-100-disk-0.raw/101/vm-101-disk-0.qcow2", format: "qcow2",
			path: "/srv/s/images/100/vm-100-disk-0.raw",
			full: "No space left on device", stuck: "exit code 1", upload: true, alloc: "vm-100-extra.qcow2",
		},
		{
			entry: "type=nfs&server=10.0.0.9&export=/srv/vms&content=images,snippets,iso,none",
			shows: map[string]any{
				"type": "nfs", "path": "/mnt/pve/st", "server": "10.0.0.9", "export": "/srv/vms",
				"content": "images,iso,snippets", "shared": 1.0,
			},
			disk: "st:100/vm-100-disk-0.raw", init: "st:100/vm-100-cloudinit.qcow2",
			base:   "st:100/base-100-disk-0.raw",
			linked: "st:100/base-100-disk-0.raw/101/vm-101-disk-0.qcow2", format: "qcow2",
			path: "/mnt/pve/st/images/100/vm-100-disk-0.raw",
			full: "No space left on device", stuck: "exit code 1", upload: true, alloc: "vm-100-extra.qcow2",
		},
		{
			entry: "type=lvmthin&vgname=fast&thinpool=thin",
			shows: map[string]any{"type": "lvmthin", "vgname": "fast", "thinpool": "thin", "content": "images,rootdir"},
			disk:  "st:vm-100-disk-0", init: "st:vm-100-cloudinit", base: "st:base-100-disk-0",
			linked: "st:vm-101-disk-0", path: "/dev/fast/vm-100-disk-0",
			full:  "lvcreate 'fast/vm-102-disk-0' error:   Volume group \"fast\" has insufficient free space",
			stuck: "error resizing volume '/dev/fast/vm-100-disk-0'",
			snaps: true, alloc: "vm-100-extra",
		},
		{
			entry: "type=zfspool&pool=rpool/data&sparse=1",
			shows: map[string]any{"type": "zfspool", "pool": "rpool/data", "sparse": "1", "content": "images,rootdir"},
			disk:  "st:vm-100-disk-0", init: "st:vm-100-cloudinit", base: "st:base-100-disk-0",
			linked: "st:base-100-disk-0/vm-101-disk-0",
			path:   "/dev/zvol/rpool/data/vm-100-disk-0",
			full:   "zfs error: cannot create 'rpool/data/vm-102-disk-0': out of space",
			stuck:  "zfs error: cannot set property for 'rpool/data/vm-100-disk-0'", snaps: true, alloc: "vm-100-extra",
		},
		{
			entry: "type=rbd&pool=vms&krbd=0",
			shows: map[string]any{"type": "rbd", "pool": "vms", "krbd": "0", "content": "images", "shared": 1.0},
			disk:  "st:vm-100-disk-0", init: "st:vm-100-cloudinit", base: "st:base-100-disk-0",
			linked: "st:base-100-disk-0/vm-101-disk-0", format: "raw",
			path: "rbd:vms/vm-100-disk-0:conf=/etc/pve/ceph.conf", full: "rbd create 'vm-102-disk-0' error",
			stuck: "rbd resize 'vm-100-disk-0' error",
			snaps: true, alloc: "vm-100-extra",
		},
	}
	for _, tt := range tests {
		kind, _, _ := strings.Cut(strings.TrimPrefix(tt.entry, "type="), "&")
		t.Run(kind, func(t *testing.T) {
			s, c, _ := startServer(t, Options{})
			const qemu = "/nodes/pve1/qemu"
			task := func(method, path, body, want string) {
				t.Helper()
				if exit := c.task(method, path, body); !strings.Contains(exit, want) {
					t.Errorf("%s %s %s: %s, want %s", method, path, body, exit, want)
				}
			}
			option := func(vmid int, key, want string) {
				t.Helper()
				got, _, _ := strings.Cut(fmt.Sprint(c.config(fmt.Sprintf("%s/%d", qemu, vmid))[key]), ",")
				if got != want {
					t.Errorf("%s of %d: %s, want %s", key, vmid, got, want)
				}
			}
			c.ok("POST", "/storage", "storage=st&"+tt.entry)
			shown, _ := c.ok("GET", "/storage/st", nil).(map[string]any)
			delete(shown, "digest")
			tt.shows["storage"] = "st"
			if diff := cmp.Diff(tt.shows, shown); diff != "" {
				t.Errorf("entry (-want +got):\n%s", diff)
			}

			task("POST", qemu, "vmid=100&virtio0=st:4&ide2=st:cloudinit", "OK")
			option(100, "virtio0", tt.disk)
			option(100, "ide2", tt.init)
			if _, vmid, err := s.state.Storages["st"].parse(strings.TrimPrefix(tt.disk, "st:")); err != nil ||
				vmid != 100 {
				t.Errorf("parse: VM %d, %v", vmid, err)
			}
			if got, _, code := run(
				t, c.login(0, "root"), "pvesm path "+tt.disk, "",
			); strings.TrimSpace(got) != tt.path ||
				code != 0 {
				t.Errorf("path: %s (%d), want %s", got, code, tt.path)
			}
			snap := c.task("POST", qemu+"/100/snapshot", "snapname=one")
			if (snap == "OK") != tt.snaps {
				t.Errorf("snapshot: %s", snap)
			}
			if tt.snaps {
				task("DELETE", qemu+"/100/snapshot/one", "", "OK")
			}

			other := c.ok("GET", "/nodes/pve2/storage/st/content", nil).([]any)
			if want := 2 * btoi(tt.shows["shared"] != nil); len(other) != want {
				t.Errorf("on the other hypervisor: %v", other)
			}
			task("POST", qemu, "vmid=102&virtio0=st:10000", tt.full)
			task("PUT", qemu+"/100/resize", "disk=virtio0&size=10000G", tt.stuck)
			if tt.format == "" {
				task("POST", qemu, "vmid=103&virtio0=st:1,format=qcow2", "unsupported format 'qcow2'")
			} else {
				task("POST", qemu, "vmid=103&virtio0=st:1,format=qcow2", "OK")
			}
			task("POST", qemu, "vmid=104&virtio0=st:0,import-from="+SeedImport, "OK")
			if up := c.do(
				"POST", "/nodes/pve1/storage/st/download-url", "content=iso&filename=a.iso&url=http://10.0.0.1/a.iso",
			); (up.Status == 200) != tt.upload {
				t.Errorf("download: %+v", up)
			}
			if got := c.ok(
				"POST", "/nodes/pve1/storage/st/content", "filename="+tt.alloc+"&size=1G&vmid=100",
			); !strings.HasSuffix(got.(string), tt.alloc) {
				t.Errorf("disk by name: %v", got)
			}

			task("POST", qemu+"/100/template", "", "OK")
			option(100, "virtio0", tt.base)
			task("POST", qemu+"/100/clone", "newid=101", "OK")
			option(101, "virtio0", tt.linked)
			task("DELETE", "/nodes/pve1/storage/st/content/"+tt.base, "", "base volume")
			task("POST", qemu+"/100/clone", "newid=105&full=1&format=qcow2", "OK")
			for _, vmid := range []int{101, 105, 100} {
				task("DELETE", fmt.Sprintf("%s/%d", qemu, vmid), "", "OK")
			}
		})
	}
}

// A storage that some hypervisors have is not there on the others.
func TestStoragesOfSomeNodes(t *testing.T) {
	_, c, _ := startServer(t, Options{})
	if a := c.do("POST", "/storage", "storage=some&type=dir&path=/srv&content=images&nodes=pve1,pve2"); a.Status != 200 {
		t.Fatalf("%+v", a)
	}
	for node, there := range map[string]bool{"pve1": true, "pve2": true, "pve3": false} {
		list := c.do("GET", "/nodes/"+node+"/storage", nil)
		if got := strings.Contains(fmt.Sprint(list.Data), "storage:some"); got != there {
			t.Errorf("%s: listed is %v", node, got)
		}
		a := c.do("GET", "/nodes/"+node+"/storage/some/content", nil)
		if (a.Status == 200) != there || !there && a.Reason != "storage 'some' is not available on node 'pve3'" {
			t.Errorf("%s: %d %s", node, a.Status, a.Reason)
		}
	}
	if a := c.do("PUT", "/storage/some", "nodes=pve3"); a.Status != 200 {
		t.Fatalf("%+v", a)
	}
	if a := c.do("GET", "/nodes/pve3/storage/some/content", nil); a.Status != 200 {
		t.Errorf("%+v", a)
	}
}

// TestStorageEntries wants of entries that cannot be what Proxmox VE says of them.
func TestStorageEntries(t *testing.T) {
	_, c, _ := startServer(t, Options{})
	for entry, want := range map[string]string{
		"type=dir":                 "missing value for required option 'path'",
		"type=nfs&server=10.0.0.9": "missing value for required option 'export'",
		"type=lvmthin&vgname=pve":  "missing value for required option 'thinpool'",
		"type=zfspool":             "missing value for required option 'pool'",
		"type=rbd&path=/srv":       "unexpected property 'path'",
		"type=lvmthin&vgname=pve&thinpool=d&shared=1": "unexpected property 'shared'",
		"type=zfspool&pool=tank&content=iso":          "storage does not support content type 'none'",
		"type=btrfs&path=/srv":                        "of the types dir, lvmthin, nfs, rbd, zfspool only",
		"type=dir&path=/srv&disable=1":                "the simulator plays no 'disable'",
	} {
		if a := c.do("POST", "/storage", "storage=st&"+entry); a.Status != 500 || !strings.Contains(a.Reason, want) {
			t.Errorf("%s: %d %s, want %s", entry, a.Status, a.Reason, want)
		}
	}
	if a := c.do(
		"GET", "/nodes/pve1/storage/local-lvm/content/local-lvm:garbage", nil,
	); a.Reason != "unable to parse lvm volume name 'garbage'" {
		t.Errorf("a name that is none: %+v", a)
	}
}
