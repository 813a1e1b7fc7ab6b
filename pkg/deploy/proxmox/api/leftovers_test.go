package api

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// shelf is storages with volumes, by "hypervisor storage kind".
type shelf struct {
	volumes map[string][]Volume
	errs    map[string]error
	privs   map[string]map[string]bool
	taken   []int
}

func (s shelf) Content(_ context.Context, hypervisor, storage, kind string) ([]Volume, error) {
	return s.volumes[hypervisor+" "+storage+" "+kind], s.errs[storage]
}

func (s shelf) Permissions(context.Context) (map[string]map[string]bool, error) { return s.privs, nil }

func (s shelf) CheckID(_ context.Context, vmid int) (bool, error) {
	return !slices.Contains(s.taken, vmid), nil
}

func TestLeftovers(t *testing.T) {
	all := map[string]map[string]bool{"/": {"VM.Audit": true, "Datastore.Allocate": true}}
	origins := []Origin{
		{VMID: 20000, Hypervisor: "pve1", Storages: []string{"fast"}, Snippets: []string{"local:snippets/ci-1-vendor.yaml"}},
		{VMID: 20001, Hypervisor: "pve1", Storages: []string{"fast"}},
	}
	volumes := map[string][]Volume{
		"pve1 fast images": {
			{ID: "fast:vm-20000-disk-0", VMID: 20000},
			{ID: "fast:vm-20001-disk-0", VMID: 20001},
			{ID: "fast:vm-20002-disk-0", VMID: 20002},
		},
		"pve1 local snippets": {{ID: "local:snippets/ci-1-vendor.yaml"}, {ID: "local:snippets/ci-10-vendor.yaml"}},
		"pve2 fast images":    {{ID: "fast:vm-20000-disk-0", VMID: 20000}},
	}
	disk := func(id int, volume string) Leftover { return Leftover{Hypervisor: "pve1", Volume: volume, VMID: id} }
	first, second := disk(20000, "fast:vm-20000-disk-0"), disk(20001, "fast:vm-20001-disk-0")
	snippet := disk(0, "local:snippets/ci-1-vendor.yaml")
	for _, tc := range []struct {
		name   string
		shelf  shelf
		want   []Leftover
		kept   string
		unseen string
	}{
		{"all of ours, and nothing else", shelf{volumes: volumes, privs: all}, []Leftover{first, second, snippet}, "", ""},
		{"an id that somebody took", shelf{volumes: volumes, privs: all, taken: []int{20001}}, []Leftover{first, snippet}, "fast:vm-20001-disk-0 on pve1: another VM has the id 20001 now", ""},
		{"a storage that is gone", shelf{volumes: volumes, privs: all, errs: map[string]error{"fast": &APIError{Status: 500, Reason: "storage 'fast' does not exist"}}}, []Leftover{snippet}, "", ""},
		{"a storage that is forbidden", shelf{volumes: volumes, privs: all, errs: map[string]error{"fast": &APIError{Status: 403, Reason: "Permission check failed"}}}, []Leftover{snippet}, "", "images on fast of pve1"},
		{"no right to see snippets", shelf{volumes: volumes, privs: map[string]map[string]bool{"/vms": {"VM.Audit": true}}}, []Leftover{first, second}, "", "snippets on local of pve1: the token lacks Datastore.Allocate"},
		{"no right to see disks of VMs that are gone", shelf{volumes: volumes, privs: map[string]map[string]bool{"/storage/local": {"Datastore.Allocate": true}}}, []Leftover{snippet}, "", "disks on fast of pve1: the token lacks VM.Audit"},
	} {
		rest, err := Leftovers(t.Context(), tc.shelf, origins)
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
		if diff := cmp.Diff(tc.want, rest.Volumes); diff != "" {
			t.Errorf("%s: %s", tc.name, diff)
		}
		if got := strings.Join(rest.Kept, "\n"); got != tc.kept {
			t.Errorf("%s: kept %q", tc.name, got)
		}
		if got := strings.Join(rest.Unseen, "\n"); (tc.unseen == "") != (got == "") ||
			!strings.Contains(got, tc.unseen) {
			t.Errorf("%s: unseen %q", tc.name, got)
		}
	}
	unreachable := shelf{privs: all, errs: map[string]error{"fast": &APIError{Status: 595, Reason: "No route to host"}}}
	if _, err := Leftovers(t.Context(), unreachable, origins); err == nil {
		t.Error("a hypervisor that does not answer proves nothing")
	}
}

func TestWhereAVMHasItsVolumes(t *testing.T) {
	config := map[string]text{
		"virtio0": "fast:vm-20000-disk-0,size=8G", "ide2": "local:20000/vm-20000-cloudinit.qcow2,media=cdrom",
		"efidisk0": "file=slow:vm-20000-disk-1,size=4M",
		"unused0":  "old:vm-20000-disk-2", "net0": "virtio=BC:24:11:00:00:01,bridge=vmbr0", "ide3": "none,media=cdrom",
		"cicustom": "vendor=local:snippets/ci-1-vendor.yaml,user=local:snippets/own.yaml",
	}
	if diff := cmp.Diff([]string{"fast", "local", "old", "slow"}, storagesOf(config)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(
		[]string{"local:snippets/ci-1-vendor.yaml", "local:snippets/own.yaml"}, snippetsOf(config),
	); diff != "" {
		t.Error(diff)
	}
}
