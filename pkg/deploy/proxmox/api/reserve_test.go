package api

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy/placement"
)

func TestReserve(t *testing.T) {
	nodes, err := Reserve(ReserveRequest{
		Name: "ci-1", Count: 5, Hypervisors: []string{"pve1", "pve2", "pve3"}, Seed: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	macs := map[string]bool{}
	for i, n := range nodes {
		at := placement.Of(n)
		if n.Index != i+1 || n.Name != cluster.Name("ci-1").Node(i+1) || at.VMID != placement.Of(nodes[0]).VMID+i {
			t.Errorf("node %d is %+v", i, n)
		}
		if want := []string{"pve1", "pve2", "pve3"}[i%3]; at.Hypervisor != want {
			t.Errorf("node %d is on %s, want %s", i+1, at.Hypervisor, want)
		}
		for _, mac := range []string{at.ManagementMAC, at.DataMAC} {
			if !strings.HasPrefix(mac, "BC:24:11:") || len(mac) != 17 || mac != strings.ToUpper(mac) || macs[mac] {
				t.Errorf("bad or repeated MAC %q", mac)
			}
			macs[mac] = true
		}
	}
	if first, last := placement.Of(nodes[0]).VMID, placement.Of(nodes[4]).VMID; first < 20000 || last > 29999 {
		t.Errorf("ids %d-%d are outside the default range", first, last)
	}
	again, _ := Reserve(ReserveRequest{Name: "ci-1", Count: 5, Hypervisors: []string{"pve1", "pve2", "pve3"}, Seed: 1})
	if !slices.Equal(nodes, again) {
		t.Error("the same seed chose differently")
	}
	other, _ := Reserve(ReserveRequest{Name: "ci-1", Count: 5, Hypervisors: []string{"pve1"}, Seed: 2})
	if placement.Of(other[0]).VMID == placement.Of(nodes[0]).VMID {
		t.Error("another seed chose the same ids")
	}
	avoided, _ := Reserve(ReserveRequest{
		Name: "ci-1", Count: 1, Hypervisors: []string{"pve1"}, Seed: 1,
		MACs: []string{strings.ToLower(placement.Of(nodes[0]).ManagementMAC)},
	})
	if placement.Of(avoided[0]).ManagementMAC == placement.Of(nodes[0]).ManagementMAC {
		t.Error("took a MAC that is in use")
	}
}

func TestReserveFindsTheOnlyGap(t *testing.T) {
	var existing []VM
	for id := 200; id <= 230; id++ {
		if id < 210 || id > 212 {
			existing = append(existing, VM{VMID: id, Name: "x", Type: "lxc", Hypervisor: "pve1"})
		}
	}
	req := ReserveRequest{Name: "c", Count: 3, Hypervisors: []string{"p"}, Range: IDRange{200, 230}, Existing: existing}
	for seed := range uint64(40) {
		req.Seed = seed
		nodes, err := Reserve(req)
		if err != nil || placement.Of(nodes[0]).VMID != 210 {
			t.Fatalf("seed %d: %v %v", seed, nodes, err)
		}
	}
	req.Taken = []int{211}
	if _, err := Reserve(req); err == nil || !strings.Contains(err.Error(), "no 3 consecutive free vm ids in 200-230") {
		t.Errorf("got %v", err)
	}
}

func TestReserveRefuses(t *testing.T) {
	for _, tc := range []struct {
		name string
		req  ReserveRequest
		want string
	}{
		{"no hypervisor", ReserveRequest{Count: 1}, "no hypervisor"},
		{"no node", ReserveRequest{Hypervisors: []string{"p"}}, "at least one node"},
		{"small range", ReserveRequest{Count: 3, Hypervisors: []string{"p"}, Range: IDRange{200, 201}}, "no room for 3"},
		{"bad range", ReserveRequest{Count: 1, Hypervisors: []string{"p"}, Range: IDRange{5, 9}}, "must lie within"},
		{"base taken", ReserveRequest{Count: 2, Hypervisors: []string{"p"}, Base: 300, Existing: []VM{{VMID: 301, Name: "db", Type: "qemu", Hypervisor: "pve2"}}}, "301 is db (qemu on pve2)"},
		{"base too low", ReserveRequest{Count: 2, Hypervisors: []string{"p"}, Base: 99}, "vmid_base 99"},
	} {
		if _, err := Reserve(tc.req); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", tc.name, err, tc.want)
		}
	}
	nodes, err := Reserve(ReserveRequest{Count: 2, Hypervisors: []string{"p"}, Base: 300})
	if err != nil || placement.Of(nodes[0]).VMID != 300 || placement.Of(nodes[1]).VMID != 301 {
		t.Errorf("pinned ids: %v %v", nodes, err)
	}
}

func TestParseIDRange(t *testing.T) {
	if r, err := ParseIDRange("20000-29999"); err != nil || r != DefaultIDRange() {
		t.Errorf("got %v %v", r, err)
	}
	for _, bad := range []string{"", "5", "300-200", "1-50", "a-b", "200-300x", "200 - 300"} {
		if _, err := ParseIDRange(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

// hiddenVMs is a cluster whose listing hides VMs that nextid knows of.
type hiddenVMs map[int]bool

func (h hiddenVMs) VMs(context.Context) ([]VM, error)               { return nil, nil }
func (h hiddenVMs) CheckID(_ context.Context, id int) (bool, error) { return !h[id], nil }

func TestChooseAvoidsVMsThatTheTokenCannotSee(t *testing.T) {
	hidden := hiddenVMs{}
	for id := 200; id < 300; id++ {
		hidden[id] = id < 290 || id > 292
	}
	nodes, err := Choose(t.Context(), hidden, ReserveRequest{
		Name: "c", Count: 3, Hypervisors: []string{"p"}, Range: IDRange{200, 299},
	})
	if err != nil || placement.Of(nodes[0]).VMID != 290 {
		t.Fatalf("got %v %v", nodes, err)
	}
}

func TestOurs(t *testing.T) {
	const name, owner = cluster.Name("ci-1"), "2f0c1f6e-0000-4000-8000-000000000001"
	mine := func(edit func(*VM)) VM {
		vm := VM{
			Type: "qemu", Pool: "p", Tags: cluster.Tags(name),
			Description: cluster.Description(name, cluster.Owner{ID: owner}),
		}
		edit(&vm)
		return vm
	}
	for _, tc := range []struct {
		what string
		vm   VM
		why  string
	}{
		{"ours", mine(func(*VM) {}), ""},
		{"renamed by a person", mine(func(v *VM) { v.Name = "x" }), ""},
		{"container", mine(func(v *VM) { v.Type = "lxc" }), "not a QEMU VM"},
		{"other pool", mine(func(v *VM) { v.Pool = "" }), `in pool ""`},
		{"no product tag", mine(func(v *VM) { v.Tags = []string{string(name)} }), "not tagged hive-test"},
		{"other cluster's tag", mine(func(v *VM) { v.Tags = cluster.Tags("ci-2") }), "not tagged ci-1"},
		{"no description", mine(func(v *VM) { v.Description = "" }), "names no owner"},
		{"other owner", mine(func(v *VM) { v.Description = cluster.Description(name, cluster.Owner{ID: "other"}) }), "owner other"},
		{"other cluster, same owner", mine(func(v *VM) { v.Description = cluster.Description("ci-2", cluster.Owner{ID: owner}) }), "cluster ci-2"},
	} {
		ours, why := Ours(tc.vm, name, owner, "p")
		if ours != (tc.why == "") || !strings.Contains(why, tc.why) {
			t.Errorf("%s: %v %q", tc.what, ours, why)
		}
	}
	if ours, _ := Ours(mine(func(*VM) {}), name, "", "p"); ours {
		t.Error("a VM is ours without an owner id")
	}
}

func TestReserveContinuesACluster(t *testing.T) {
	hosts := []string{"pve1", "pve2", "pve3"}
	present, err := Reserve(ReserveRequest{Name: "ci-1", Count: 4, Hypervisors: hosts, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	last := placement.Of(present[3]).VMID
	for _, tc := range []struct {
		name     string
		existing []VM
		first    int
	}{
		{"after the last", nil, last + 1},
		{"past somebody else's", []VM{{VMID: last + 1}}, last + 2},
	} {
		added, err := Reserve(ReserveRequest{
			Name: "ci-1", Count: 2, Present: present, Existing: tc.existing, Hypervisors: hosts, Seed: 9,
		})
		if err != nil {
			t.Fatal(err)
		}
		for i, n := range added {
			at := placement.Of(n)
			if n.Index != 5+i || n.Name != fmt.Sprintf("ci-1-%d", 5+i) || at.VMID != tc.first+i ||
				at.Hypervisor != hosts[(4+i)%3] {
				t.Errorf("%s: node %d is %+v", tc.name, i, n)
			}
			for _, p := range present {
				was := placement.Of(p)
				if at.ManagementMAC == was.ManagementMAC || at.DataMAC == was.DataMAC {
					t.Errorf("%s: %s has a MAC of %s", tc.name, n.Name, p.Name)
				}
			}
		}
	}
	pinned, err := Reserve(ReserveRequest{Name: "ci-1", Count: 1, Present: present, Base: 5000, Hypervisors: hosts})
	if err != nil || placement.Of(pinned[0]).VMID != 5004 {
		t.Errorf("pinned: %+v %v", pinned, err)
	}
}
