package api

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/placement"
)

// world is a Proxmox cluster of plain data.
type world struct {
	API      // what Preflight never calls
	version  string
	err      error
	hosts    []Hypervisor
	vms      []VM
	hidden   map[int]bool
	storages map[string][]Storage
	content  map[string][]Volume
	bridges  map[string][]string
	privs    map[string]map[string]bool
	status   ClusterStatus
	token    TokenInfo
	tokenErr error
	pools    []string
	skew     time.Duration
	tags     TagRules
}

func (w *world) Version(context.Context) (Version, error)          { return Version{Version: w.version}, w.err }
func (w *world) Hypervisors(context.Context) ([]Hypervisor, error) { return w.hosts, nil }
func (w *world) VMs(context.Context) ([]VM, error)                 { return w.vms, nil }
func (w *world) Permissions(context.Context) (map[string]map[string]bool, error) {
	return w.privs, nil
}
func (w *world) Bridges(_ context.Context, h string) ([]string, error) { return w.bridges[h], nil }
func (w *world) CheckID(_ context.Context, id int) (bool, error)       { return !w.hidden[id], nil }
func (w *world) ClusterStatus(context.Context) (ClusterStatus, error)  { return w.status, nil }
func (w *world) Token(context.Context) (TokenInfo, error)              { return w.token, w.tokenErr }
func (w *world) Skew() (time.Duration, bool)                           { return w.skew, true }
func (w *world) TagRules(context.Context) (TagRules, error)            { return w.tags, nil }
func (w *world) StoragePaths(context.Context) (map[string]string, error) {
	return map[string]string{"local": "/srv/vz"}, nil
}

func (w *world) HasPool(_ context.Context, name string) error {
	if slices.Contains(w.pools, name) {
		return nil
	}
	return &APIError{Status: 500, Reason: "pool '" + name + "' does not exist"}
}
func (w *world) Live(_ context.Context, listed VM) (VM, error) { return listed, nil }
func (w *world) Content(_ context.Context, h, s, kind string) ([]Volume, error) {
	return w.content[h+"/"+s+"/"+kind], nil
}

func (w *world) Storages(_ context.Context, h string) ([]Storage, error) {
	if s, found := w.storages[h]; found {
		return s, nil
	}
	return nil, &APIError{Status: 595, Reason: "Connection refused", Method: "GET", Path: "/nodes/" + h + "/storage"}
}

func goodWorld() *world {
	all := map[string]bool{}
	for _, p := range []string{
		"VM.Allocate", "VM.Audit", "VM.PowerMgmt", "VM.Monitor", "VM.Config.Disk", "VM.Config.CPU", "VM.Config.Memory",
		"VM.Config.Network",
		"VM.Config.HWType", "VM.Config.Options", "VM.Config.CDROM", "VM.Config.Cloudinit", "Datastore.AllocateSpace",
		"Datastore.Allocate", "SDN.Use", "Datastore.Audit", "VM.Clone", "Pool.Allocate", "Pool.Audit", "Sys.Audit",
	} {
		all[p] = true
	}
	w := &world{
		version: "8.4.21", hidden: map[int]bool{}, storages: map[string][]Storage{}, content: map[string][]Volume{},
		bridges: map[string][]string{},
		privs:   map[string]map[string]bool{"/": all}, status: ClusterStatus{Clustered: true, Quorate: true},
		token: TokenInfo{Separated: true}, pools: []string{"ci"},
	}
	for _, name := range []string{"pve1", "pve2"} {
		w.hosts = append(w.hosts, Hypervisor{
			Name: name, Online: true, CPUs: 8, MemoryTotal: 32 << 30, MemoryUsed: 2 << 30,
		})
		w.storages[name] = []Storage{
			{Name: "local", Content: []string{"iso", "snippets"}, Active: true, Available: 10 << 30, Capacity: 20 << 30},
			{Name: "local-lvm", Content: []string{"images"}, Active: true, Available: 100 << 30, Capacity: 200 << 30},
		}
		w.content[name+"/local/iso"] = []Volume{{ID: "local:iso/debian.img"}}
		w.bridges[name] = []string{"vmbr0", "vmbr1"}
	}
	return w
}

// on92 makes the world one of Proxmox VE 9.2.
func (w *world) on92() {
	w.version, w.privs["/"]["VM.GuestAgent.Audit"] = "9.2.11", true
}

func goodRequest() PreflightRequest {
	return PreflightRequest{
		Spec: cluster.Spec{
			NodeCount: 3, CPUCores: 4, MemoryMB: 8192, DiskSizeGB: 32, OSImage: "local:iso/debian.img",
			ManagementBridge: "vmbr0", DataBridge: "vmbr1",
			Hosts: placement.Hosts([]placement.Hypervisor{{Name: "pve1", Datastore: "local-lvm"}, {
				Name: "pve2", Datastore: "local-lvm",
			}}),
		},
		Nodes: cluster.Nodes{
			{Name: "ci-1", Index: 1, Placement: placement.VM{VMID: 201, Hypervisor: "pve1"}.Document()}, {Name: "ci-2", Index: 2, Placement: placement.VM{VMID: 202, Hypervisor: "pve2"}.Document()}, {Name: "ci-3", Index: 3, Placement: placement.VM{VMID: 203, Hypervisor: "pve1"}.Document()},
		},
		TokenID: testTokenID, Endpoint: "https://pve1:8006",
	}
}

// late is a world whose listings of bridges come too late.
type late struct{ *world }

func (late) Bridges(ctx context.Context, _ string) ([]string, error) {
	return nil, &callError{method: "GET", path: "/nodes/pve1/network", err: context.Cause(ctx)}
}

// What was not asked when timed out is neither good nor bad, and said to be neither.
func TestPreflightTellsWhatWasNotChecked(t *testing.T) {
	ctx, end := context.WithCancelCause(t.Context())
	end(fmt.Errorf("%w (2m0s)", deploy.ErrTimeUp))
	r := goodRequest()
	r.Login = func(context.Context, placement.Hypervisor, string) (string, string) { return "a refused login", "" }
	r.change(0, func(h *placement.Hypervisor) { h.Address = "10.0.0.1" })
	r.change(1, func(h *placement.Hypervisor) { h.Address = "10.0.0.2" })
	findings := Preflight(ctx, late{goodWorld()}, r)
	var got []string
	for _, f := range deploy.Unmade(findings) {
		got = append(got, f.ID+" "+string(f.Status)+" "+f.Detail)
	}
	want := []string{
		"pve-ssh warn not checked: pve1: the time for all checks was up (2m0s)",
		"pve-ssh warn not checked: pve2: the time for all checks was up (2m0s)",
		"pve-bridges warn not checked: the bridges of pve1: GET /nodes/pve1/network at : the time for all checks was up (2m0s)",
		"pve-bridges warn not checked: the bridges of pve2: GET /nodes/pve1/network at : the time for all checks was up (2m0s)",
	}
	if diff := cmp.Diff(want, got); diff != "" || len(deploy.Failed(findings)) > 0 {
		t.Errorf("%s, failed %v", diff, deploy.Failed(findings))
	}
}

// slow is a world in which pve2 does not list its storages in time.
type slow struct{ *world }

func (s slow) Storages(ctx context.Context, h string) ([]Storage, error) {
	if h == "pve2" {
		return nil, &callError{
			method: "GET", path: "/nodes/pve2/storage", endpoint: "https://pve1:8006", kind: ErrUnreachable,
			err: errors.New("no answer within 10s"), timedOut: true,
		}
	}
	return s.world.Storages(ctx, h)
}

// An answer that is late is none of a hypervisor that is down, and each check that needed it was not made. Those that a
// hypervisor which is down cannot be asked for are said to be left out.
func TestPreflightTellsSlowFromBroken(t *testing.T) {
	const late = ": GET /nodes/pve2/storage at https://pve1:8006: no answer within 10s"
	findings := Preflight(t.Context(), slow{goodWorld()}, goodRequest())
	var got []string
	for _, f := range deploy.Unmade(findings) {
		got = append(got, f.ID+" "+string(f.Status)+" "+f.Detail)
		if f.Fix != CallTimeoutFix {
			t.Errorf("%s: fix %q", f.ID, f.Fix)
		}
	}
	want := []string{
		"pve-hypervisors warn not checked: the storages of pve2" + late,
		"pve-image warn not checked: image local:iso/debian.img on pve2" + late,
		"pve-datastore warn not checked: storage local-lvm on pve2" + late,
		"pve-snippets warn not checked: storage local on pve2" + late,
		"pve-disk warn not checked: the space on pve2" + late,
	}
	if diff := cmp.Diff(want, got); diff != "" || len(deploy.Failed(findings)) > 0 {
		t.Errorf("%s, failed %v", diff, deploy.Failed(findings))
	}
	down := goodWorld()
	down.hosts[1].Online = false
	got = nil
	for _, f := range Preflight(t.Context(), down, goodRequest()) {
		if strings.Contains(f.Detail, "not checked on pve2, which cannot be used") {
			got = append(got, f.ID+" "+string(f.Status))
		}
	}
	if want := []string{
		"pve-image skip", "pve-datastore skip", "pve-snippets skip", "pve-ssh skip", "pve-bridges skip", "pve-cpu skip",
		"pve-memory skip", "pve-disk skip",
	}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPreflightPasses(t *testing.T) {
	findings := Preflight(t.Context(), goodWorld(), goodRequest())
	seen := map[string]bool{}
	for _, f := range findings {
		if f.Status != deploy.Pass && f.Status != deploy.Skip || f.Title == "" || f.Detail == "" || f.Fix != "" {
			t.Errorf("%+v", f)
		}
		seen[f.ID] = true
	}
	if len(seen) != 18 || len(deploy.Failed(findings)) > 0 {
		t.Errorf("checks made: %v", seen)
	}
}

func TestPreflightFindsEverythingThatIsWrong(t *testing.T) {
	for _, tc := range []struct {
		name   string
		edit   func(*world, *PreflightRequest)
		id     string
		status deploy.Status
		detail string
		fix    string
	}{
		{"old version", func(w *world, _ *PreflightRequest) { w.version = "7.4" }, "pve-access", deploy.Fail, "7.4", "upgrade"},
		{"unknown hypervisor", func(_ *world, r *PreflightRequest) {
			r.change(1, func(h *placement.Hypervisor) { h.Name = "pve9" })
			placement.Change(&r.Nodes[1], func(v *placement.VM) { v.Hypervisor = "pve9" })
		}, "pve-hypervisors", deploy.Fail, "pve9 does not exist", "pve1, pve2"},
		{"no hypervisor", func(_ *world, r *PreflightRequest) { r.Spec.Hosts, r.Nodes = "", nil }, "pve-hypervisors", deploy.Fail, "no hypervisor", "TF_VAR_nodes"},
		{"hypervisor down", func(w *world, _ *PreflightRequest) { w.hosts[1].Online = false }, "pve-hypervisors", deploy.Fail, "pve2 is offline", "proxmox.hypervisors"},
		{"hypervisor that has just begun", func(w *world, _ *PreflightRequest) {
			w.hosts[1] = Hypervisor{Name: "pve2", Online: true, Unknown: true}
		}, "pve-hypervisors", deploy.Warn, "hypervisor pve2 answers, and tells nothing of its CPUs and memory yet", "ask again in some seconds"},
		{"memory of a hypervisor that has just begun", func(w *world, _ *PreflightRequest) {
			w.hosts[1] = Hypervisor{Name: "pve2", Online: true, Unknown: true}
		}, "pve-memory", deploy.Skip, "pve2 tells nothing of it yet", ""},
		{"hypervisor down, not noticed by the others yet", func(w *world, _ *PreflightRequest) { delete(w.storages, "pve2") }, "pve-hypervisors", deploy.Fail, "595 Connection refused", "pveproxy"},
		{"image missing on one", func(w *world, _ *PreflightRequest) {
			w.content["pve2/local/iso"] = []Volume{{ID: "local:iso/other.img"}}
		}, "pve-image", deploy.Fail, "local:iso/debian.img does not exist on pve2", "local:iso/other.img"},
		{"image without a kind", func(_ *world, r *PreflightRequest) { r.Spec.OSImage = "debian.img" }, "pve-image", deploy.Fail, "not of the form", "os_image"},
		{"image of an unknown storage", func(_ *world, r *PreflightRequest) { r.Spec.OSImage = "nas:iso/debian.img" }, "pve-image", deploy.Fail, "storage nas", "local"},
		{"image kind not enabled", func(_ *world, r *PreflightRequest) { r.Spec.OSImage = "local:import/debian.qcow2" }, "pve-image", deploy.Fail, "content import", "pvesm set local --content iso,snippets,import"},
		{"unknown datastore", func(_ *world, r *PreflightRequest) {
			r.change(0, func(h *placement.Hypervisor) { h.Datastore = "fast" })
		}, "pve-datastore", deploy.Fail, "fast does not exist on pve1", "local-lvm"},
		{"datastore without images", func(_ *world, r *PreflightRequest) {
			r.change(0, func(h *placement.Hypervisor) { h.Datastore = "local" })
		}, "pve-datastore", deploy.Fail, "content images", "pvesm set local --content iso,snippets,images"},
		{"datastore down", func(w *world, _ *PreflightRequest) { w.storages["pve1"][1].Active = false }, "pve-datastore", deploy.Fail, "not active", "pvesm status"},
		{"storage without snippets", func(w *world, _ *PreflightRequest) { w.storages["pve2"][0].Content = []string{"iso"} }, "pve-snippets", deploy.Fail, "content snippets", "pvesm set local --content iso,snippets"},
		{"bridge missing", func(w *world, _ *PreflightRequest) { w.bridges["pve1"] = []string{"vmbr0"} }, "pve-bridges", deploy.Fail, "vmbr1 does not exist on pve1", "vmbr0"},
		{"id taken", func(w *world, _ *PreflightRequest) {
			w.vms = []VM{{VMID: 202, Name: "db", Type: "qemu", Hypervisor: "pve2"}}
		}, "pve-vmids", deploy.Fail, "202, chosen for ci-2, is taken by db (qemu on pve2)", "vmid_base"},
		{"id taken out of sight", func(w *world, _ *PreflightRequest) { w.hidden[203] = true }, "pve-vmids", deploy.Fail, "203, chosen for ci-3", "vmid_range"},
		{"too many cores", func(_ *world, r *PreflightRequest) { r.Spec.CPUCores = 9 }, "pve-cpu", deploy.Fail, "there are 8 on each of pve1, pve2", "cpu_cores to 8"},
		{"memory", func(w *world, _ *PreflightRequest) {
			w.hosts[0].MemoryUsed = 20 << 30
			w.vms = []VM{{VMID: 5, Type: "qemu", Hypervisor: "pve1", Status: "running", Memory: 20 << 30}}
		}, "pve-memory", deploy.Fail, "2 nodes need 16.0 GiB of memory on pve1, where 12.0 GiB is left of 32.0 GiB", "memory_mb to 6144"},
		{"memory only promised", func(w *world, _ *PreflightRequest) {
			w.vms = []VM{{VMID: 5, Type: "qemu", Hypervisor: "pve1", Status: "running", Memory: 20 << 30}}
		}, "pve-memory", deploy.Warn, "promised 20.0 GiB", "memory_mb"},
		{"memory out of sight", func(w *world, _ *PreflightRequest) { w.hosts[0].MemoryTotal = 0 }, "pve-memory", deploy.Warn, "not visible", "Sys.Audit"},
		{"disk", func(w *world, _ *PreflightRequest) { w.storages["pve1"][1].Available = 40 << 30 }, "pve-disk", deploy.Fail, "2 nodes need 64.0 GiB of space on datastore local-lvm on pve1, where 40.0 GiB is left", "disk_size_gb to 20"},
		{"shared disk", func(w *world, _ *PreflightRequest) {
			for h := range w.storages {
				w.storages[h][1].Shared, w.storages[h][1].Available = true, 90<<30
			}
		}, "pve-disk", deploy.Fail, "3 nodes need 96.0 GiB of space on datastore local-lvm (shared)", "disk_size_gb to 30"},
		{"too many running cores", func(w *world, _ *PreflightRequest) {
			w.vms = []VM{
				{VMID: 5, Type: "qemu", Hypervisor: "pve1", Status: "running", CPUs: 60},
				{VMID: 6, Type: "qemu", Hypervisor: "pve1", CPUs: 60},
				{VMID: 7, Type: "qemu", Hypervisor: "pve2", Status: "running", Template: true, CPUs: 64},
			}
		}, "pve-cpu", deploy.Fail, "2 nodes need 8 cores on pve1, where 60 run already and 8 CPUs can have 64", "proxmox.cpu_overcommit to 9"},
		{"no quorum", func(w *world, _ *PreflightRequest) { w.status.Quorate = false }, "pve-quorum", deploy.Fail, "no quorum", "pvecm status"},
		{"no pool", func(_ *world, r *PreflightRequest) { r.Pool = "qa" }, "pve-pool", deploy.Fail, "qa", "pveum pool add qa"},
		{"wrong clock", func(w *world, _ *PreflightRequest) { w.skew = -2 * time.Minute }, "clock", deploy.Fail, "2m0s behind", "timedatectl"},
		{"a clock that drifts", func(w *world, _ *PreflightRequest) { w.skew = 9 * time.Second }, "clock", deploy.Warn, "9s ahead of", "timedatectl"},
		{"claims that nobody else sees", func(w *world, _ *PreflightRequest) { delete(w.privs["/"], "Pool.Allocate") }, "pve-privileges", deploy.Warn, "lacks Pool.Allocate on /pool", "pveum acl modify /pool"},
		{"marks of runs that are not seen", func(w *world, _ *PreflightRequest) { delete(w.privs["/"], "Pool.Audit") }, "pve-privileges", deploy.Warn, "lacks Pool.Audit on /pool", "pveum acl modify /pool"},
		{"token that ends", func(w *world, _ *PreflightRequest) { w.token.Expires = time.Now().Add(time.Hour) }, "pve-privileges", deploy.Warn, "expires at", "pveum user token modify hive@pve ci --expire 0"},
		{"no template", func(_ *world, r *PreflightRequest) { r.Spec.Template = 900 }, "pve-template", deploy.Fail, "template 900, for pve1, pve2, does not exist", "none is there"},
		{"template that is a VM", func(w *world, r *PreflightRequest) {
			r.change(1, func(h *placement.Hypervisor) { h.TemplateVMID = 900 })
			w.vms = []VM{{VMID: 900, Name: "debian", Type: "qemu", Hypervisor: "pve1", AgentEnabled: true}}
		}, "pve-template", deploy.Fail, "VM 900 (debian), for pve2, is not a template", "on pve1: qm template 900"},
		{"template that is larger", func(w *world, r *PreflightRequest) {
			r.Spec.Template = 900
			w.vms = []VM{{
				VMID: 900, Name: "debian", Type: "qemu", Hypervisor: "pve1", Template: true, AgentEnabled: true,
				Disks: []Disk{{"scsi0", "local", 4 << 40}},
			}}
		}, "pve-template", deploy.Fail, "the disk of template 900 (debian), for pve1, pve2, has 4096.0 GiB", "set disk_size_gb to 4096 or more"},
		{"template out of reach", func(w *world, r *PreflightRequest) {
			r.Spec.Template = 900
			w.storages["pve2"] = append(slices.Clone(w.storages["pve2"]), Storage{
				Name: "fast", Content: []string{"images"}, Active: true, Available: 1 << 50,
			})
			r.change(1, func(h *placement.Hypervisor) { h.Datastore = "fast" })
			w.privs["/storage/fast"] = map[string]bool{"Datastore.AllocateSpace": true}
			w.vms = []VM{{
				VMID: 900, Name: "debian", Type: "qemu", Hypervisor: "pve1", Template: true, AgentEnabled: true,
			}}
		}, "pve-template", deploy.Fail, "template 900, for pve2, is on pve1, which has no storage fast", "set datastore_id of hypervisor pve2"},
		{"template away", func(w *world, r *PreflightRequest) {
			w.hosts[0].Online = false
			r.change(1, func(h *placement.Hypervisor) { h.TemplateVMID = 900 })
			w.vms = []VM{{VMID: 900, Type: "qemu", Hypervisor: "pve1", Status: "unknown"}}
		}, "pve-template", deploy.Fail, "template 900, for pve2, is on pve1, which is offline", "start pve1, or name a template that is elsewhere"},
		{"template to migrate from", func(w *world, r *PreflightRequest) {
			r.Spec.Template = 900
			w.vms = []VM{{
				VMID: 900, Name: "debian", Type: "qemu", Hypervisor: "pve1", Template: true, AgentEnabled: true,
				Disks: []Disk{{"scsi0", "local-lvm", 1 << 30}},
			}}
		}, "pve-privileges", deploy.Fail, "lacks VM.Migrate on /vms", "pveum acl modify"},
		{"import volume on an old release", func(w *world, r *PreflightRequest) {
			r.Spec.OSImage, w.version = "local:import/debian-12.qcow2", "8.3.2"
		}, "pve-image", deploy.Fail, "needs Proxmox VE 8.4; this is 8.3.2", "upgrade to Proxmox VE 8.4"},
		{"template without agent", func(w *world, r *PreflightRequest) {
			r.Spec.Template = 900
			w.vms = []VM{{VMID: 900, Name: "debian", Type: "qemu", Hypervisor: "pve1", Template: true}}
		}, "pve-template", deploy.Fail, "no guest agent", "qm set 900 --agent enabled=1"},
		{"no SSH", func(_ *world, r *PreflightRequest) {
			r.Login = func(_ context.Context, h placement.Hypervisor, dir string) (string, string) {
				if h.Name == "pve2" && dir == "/srv/vz/snippets" {
					return "no login on pve2", "mend it"
				}
				return "", ""
			}
			r.change(0, func(h *placement.Hypervisor) { h.Address = "192.0.2.1" })
			r.change(1, func(h *placement.Hypervisor) { h.Address = "192.0.2.2" })
		}, "pve-ssh", deploy.Fail, "no login on pve2", "mend it"},
		{"a registered tag", func(w *world, r *PreflightRequest) {
			w.on92()
			w.tags, r.Name = TagRules{Registered: []string{"prod", "hive", "ci"}}, "ci"
		}, "pve-tags", deploy.Fail, "only a token with Sys.Modify on / may set tags ci, hive, which", "pvesh set /cluster/options --registered-tags 'prod'; or"},
		{"no other registered tag", func(w *world, r *PreflightRequest) {
			w.on92()
			w.tags, r.Name = TagRules{Registered: []string{"hive"}}, "ci"
		}, "pve-tags", deploy.Fail, "may set tag hive, which", "pvesh set /cluster/options --delete registered-tags"},
		{"a registered tag that is not checked of a new VM", func(w *world, r *PreflightRequest) {
			w.tags, r.Name = TagRules{Registered: []string{"hive"}}, "ci"
		}, "pve-tags", deploy.Warn, "a new VM gets them all the same", "--delete registered-tags"},
		{"a registered tag of a clone", func(w *world, r *PreflightRequest) {
			r.Spec.Template, w.privs["/"]["VM.Migrate"] = 900, true
			w.vms = []VM{{
				VMID: 900, Type: "qemu", Hypervisor: "pve1", Template: true, AgentEnabled: true,
				Disks: []Disk{{"scsi0", "local-lvm", 1 << 30}},
			}}
			w.tags, r.Name = TagRules{Registered: []string{"hive"}}, "ci"
		}, "pve-tags", deploy.Fail, "may set tag hive, which", "--delete registered-tags"},
		{"a registered tag and an administrator", func(w *world, r *PreflightRequest) {
			w.tags, r.Name, w.privs["/"]["Sys.Modify"] = TagRules{
				Registered: []string{"hive"}, Allow: "none",
			}, "ci", true
		}, "pve-tags", deploy.Pass, "may set any", ""},
		{"no tags for users", func(w *world, r *PreflightRequest) {
			w.on92()
			w.tags, r.Name = TagRules{Allow: "none", List: []string{"a", "b"}}, "ci"
		}, "pve-tags", deploy.Fail, "not let the token set tags ci, hive, hive-test, terraform (user-allow is none)", "--user-tag-access 'user-allow=free,user-allow-list=a;b'"},
		{"tags that are there already", func(w *world, r *PreflightRequest) {
			w.on92()
			w.tags, r.Name = TagRules{Allow: "existing", Allowed: []string{"hive", "hive-test", "terraform"}}, "ci"
		}, "pve-tags", deploy.Fail, "not let the token set tag ci (user-allow is existing)", "--user-tag-access 'user-allow=free'"},
		{"tags of a list that has all", func(w *world, r *PreflightRequest) {
			w.on92()
			w.tags, r.Name = TagRules{Allow: "list", Allowed: cluster.Tags("ci")}, "ci"
		}, "pve-tags", deploy.Warn, "9.2 may refuse any tag of a new VM", "--user-tag-access 'user-allow=free'"},
		{"tags of a list, and no name yet", func(w *world, _ *PreflightRequest) {
			w.tags = TagRules{Allow: "list", Allowed: cluster.Tags("ci")}
		}, "pve-tags", deploy.Warn, "a cluster's name is a tag", "--user-tag-access 'user-allow=free'"},
		{"registered tags, and nothing to make", func(w *world, r *PreflightRequest) {
			w.tags, r.Name, r.OwnIDs = TagRules{Registered: []string{"hive"}}, "ci", []int{201, 202, 203}
		}, "pve-tags", deploy.Skip, "no VM is to be made", ""},
		{"rules for tags that are not visible", func(w *world, r *PreflightRequest) {
			delete(w.privs["/"], "Sys.Audit")
			r.Name = "ci"
		}, "pve-tags", deploy.Skip, "not visible to the token", ""},
		{"leftovers", func(w *world, r *PreflightRequest) {
			r.Name = "ci"
			w.vms = []VM{
				{VMID: 600, Name: "ci-1", Type: "qemu", Hypervisor: "pve1", Tags: cluster.Tags("ci")},
				{VMID: 601, Type: "qemu", Hypervisor: "pve1", Tags: cluster.Tags("other")},
			}
		}, "leftovers", deploy.Warn, "600 ci-1 (qemu on pve1)", "on pve1: qm stop 600; qm destroy 600 --purge"},
		{
			"leftovers of one owner", func(w *world, r *PreflightRequest) {
				r.Name, r.OwnerID, r.Simulated = "ci", "mine", true
				vm := VM{
					VMID: 600, Name: "ci-1", Type: "qemu", Hypervisor: "pve1", Tags: cluster.Tags("ci"),
					Description: cluster.Description("ci", cluster.Owner{ID: "theirs"}),
				}
				other := vm
				other.VMID, other.Name = 601, "ci-2"
				w.vms = []VM{vm, other}
			}, "leftovers", deploy.Warn, "600 ci-1 (qemu on pve1), 601 ci-2",
			"if nobody needs them: hive-test down ci --owner theirs --sim",
		},
		{"range that is full", func(w *world, r *PreflightRequest) {
			r.Nodes, r.IDRange = nil, IDRange{300, 303}
			w.vms = []VM{{VMID: 301}}
		}, "pve-vmids", deploy.Fail, "300-303", "set proxmox.vmid_range to 30000-39999"},
		{"base that is taken", func(w *world, r *PreflightRequest) {
			r.Nodes, r.IDBase = nil, 300
			w.vms = []VM{{VMID: 301, Name: "db"}}
		}, "pve-vmids", deploy.Fail, "301 is db", "set proxmox.vmid_base to 0"},
		{"no privilege", func(w *world, _ *PreflightRequest) { w.privs = nil }, "pve-privileges", deploy.Fail, "no privilege at all", "pveum acl modify / --tokens 'hive@pve!ci' --users hive@pve --roles HiveTest"},
		{"one privilege less", func(w *world, _ *PreflightRequest) { delete(w.privs["/"], "VM.Config.CPU") }, "pve-privileges", deploy.Fail, "lacks VM.Config.CPU on /vms", "pveum role add"},
		{"a nearer ACL replaces the inherited one", func(w *world, _ *PreflightRequest) { w.privs["/vms"] = map[string]bool{"VM.Audit": true} }, "pve-privileges", deploy.Fail, "lacks VM.Allocate", "pveum acl modify /vms --tokens 'hive@pve!ci'"},
		{"not propagated", func(w *world, _ *PreflightRequest) { w.privs["/"]["SDN.Use"] = false }, "pve-privileges", deploy.Fail, "lacks SDN.Use on /sdn/zones/localnetwork/vmbr0", ""},
		{"9 takes a wider privilege for the agent", func(w *world, _ *PreflightRequest) {
			w.version, w.privs["/"]["VM.GuestAgent.Unrestricted"] = "9.1.1", true
		}, "pve-privileges", deploy.Pass, "the token has", ""},
		{"a pool's rights will do", func(w *world, r *PreflightRequest) {
			r.Pool = "ci"
			w.privs["/pool/ci"], w.privs["/vms"] = w.privs["/"], map[string]bool{}
		}, "pve-privileges", deploy.Pass, "the token has", ""},
		{"9 wants another privilege for the agent", func(w *world, _ *PreflightRequest) { w.version = "9.1.1" }, "pve-privileges", deploy.Fail, "VM.GuestAgent.Audit", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w, req := goodWorld(), goodRequest()
			tc.edit(w, &req)
			findings := Preflight(t.Context(), w, req)
			if !has(findings, tc.id, tc.status, tc.detail, tc.fix) {
				t.Errorf("no such finding in:\n%s", list(findings))
			}
			if failed := len(deploy.Failed(findings)) > 0; failed != (tc.status == deploy.Fail) {
				t.Errorf("failed is %v:\n%s", failed, list(findings))
			}
		})
	}
}

func TestTheRoleHoldsWhatIsChecked(t *testing.T) {
	for major, version := range map[int]string{8: "8.4.21", 9: "9.1.4"} {
		for _, template := range []int{0, 900} {
			w, req := goodWorld(), goodRequest()
			req.Spec.Template, req.Pool = template, "ci"
			p := &preflight{ctx: t.Context(), api: w, req: req, version: Version{Version: version}}
			p.targets = p.plan()
			role := RolePrivileges(major)
			for _, n := range p.neededPrivileges() {
				for _, priv := range n.privs {
					if !slices.Contains(role, first(priv)) {
						t.Errorf("Proxmox VE %d: the role lacks %s, which is checked for on %v", major, priv, n.paths)
					}
				}
			}
		}
	}
}

func TestClocksAreComparedAsFarAsDatesTell(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 700e6, time.UTC)
	for _, tc := range []struct {
		date string
		want time.Duration
	}{
		{"Fri, 02 Jan 2026 03:04:05 GMT", 0},
		{"Fri, 02 Jan 2026 03:04:04 GMT", -700 * time.Millisecond},
		{"Fri, 02 Jan 2026 03:06:06 GMT", 2*time.Minute + 200*time.Millisecond},
		{"Fri, 02 Jan 2026 02:04:05 GMT", -time.Hour + 300*time.Millisecond},
	} {
		var c clock
		c.note("no date", now, now)
		if _, known := c.read(); known {
			t.Error("a clock is known without a date")
		}
		c.note(tc.date, now, now.Add(100*time.Millisecond))
		if got, known := c.read(); !known || got != tc.want {
			t.Errorf("%s: %s, want %s", tc.date, got, tc.want)
		}
	}
}

func TestPreflightReportsAllProblemsAtOnce(t *testing.T) {
	w, req := goodWorld(), goodRequest()
	w.content["pve1/local/iso"] = nil
	w.bridges["pve2"] = nil
	w.hidden[201] = true
	req.Spec.CPUCores = 100
	var ids []string
	for _, f := range deploy.Failed(Preflight(t.Context(), w, req)) {
		ids = append(ids, f.ID)
	}
	want := "pve-image pve-bridges pve-bridges pve-vmids pve-cpu"
	if strings.Join(ids, " ") != want {
		t.Errorf("got %v, want %s", ids, want)
	}
}

func TestPreflightOfAClusterThatExists(t *testing.T) {
	w, req := goodWorld(), goodRequest()
	for _, n := range req.Nodes {
		at := placement.Of(n)
		w.vms = append(w.vms, VM{
			VMID: at.VMID, Name: n.Name, Type: "qemu", Hypervisor: at.Hypervisor, Status: "running", Memory: 31 << 30,
		})
		w.hidden[at.VMID] = true
		req.OwnIDs = append(req.OwnIDs, at.VMID)
	}
	if failed := deploy.Failed(Preflight(t.Context(), w, req)); len(failed) > 0 {
		t.Errorf("its own VMs are in its way:\n%s", list(failed))
	}
	req.Name = "ci"
	findings := Preflight(t.Context(), w, req)
	for _, f := range findings {
		if strings.HasSuffix(f.Detail, " ") || strings.HasPrefix(f.Detail, " ") || strings.HasPrefix(f.Detail, "0 ") {
			t.Errorf("%s tells of nothing: %q", f.ID, f.Detail)
		}
	}
	const needless = "nothing is to be made there"
	for id, want := range map[string]string{
		"pve-hypervisors": "pve1, pve2 online", "pve-image": needless, "pve-template": needless,
		"pve-datastore": needless, "pve-ssh": needless, "pve-bridges": needless, "pve-vmids": needless,
		"pve-cpu": needless, "pve-memory": needless, "pve-disk": needless,
		"leftovers": "all VMs of a cluster of this name are known here",
	} {
		status := deploy.Pass
		if want == needless {
			status = deploy.Skip
		}
		if !has(findings, id, status, want, "") {
			t.Errorf("%s is not %s: %s:\n%s", id, status, want, list(findings))
		}
	}
	w.vms = append(w.vms, VM{VMID: 300, Name: "ci-1", Type: "qemu", Hypervisor: "pve2", Tags: []string{cluster.Tag, "ci"}})
	if findings := Preflight(t.Context(), w, req); !has(findings, "leftovers", deploy.Warn, "300 ", "hive-test reap") {
		t.Errorf("another VM of that name is not told:\n%s", list(findings))
	}
	last := &w.vms[len(w.vms)-1]
	last.Description = cluster.Description("ci", cluster.Owner{ID: "theirs"})
	const elsewhere = "hive-test down ci --owner theirs --clusters-dir DIR, which is empty"
	if findings := Preflight(t.Context(), w, req); !has(findings, "leftovers", deploy.Warn, "300 ", elsewhere) {
		t.Errorf("another owner's VM of that name is not told:\n%s", list(findings))
	}
	req.OwnerID = "theirs" // then it is no other's: a node that leaves
	if findings := Preflight(t.Context(), w, req); !has(findings, "leftovers", deploy.Pass, "all VMs of", "") {
		t.Errorf("a VM of the cluster's own is told as another's:\n%s", list(findings))
	}
}

// TestPreflightOfVMsThatMayBeMadeAnew: what deletes them must not find out afterwards that they cannot be made.
func TestPreflightOfVMsThatMayBeMadeAnew(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(w *world, r *PreflightRequest)
		want   string // id of the only failure
	}{
		"all well":    {func(*world, *PreflightRequest) {}, ""},
		"no image":    {func(_ *world, r *PreflightRequest) { r.Spec.OSImage = "local:iso/nope.img" }, "pve-image"},
		"no template": {func(_ *world, r *PreflightRequest) { r.Spec.Template = 9999 }, "pve-template"},
		"no snippets": {func(_ *world, r *PreflightRequest) {
			r.change(1, func(h *placement.Hypervisor) { h.SnippetStore = "nowhere" })
		}, "pve-snippets"},
		"no datastore": {func(_ *world, r *PreflightRequest) {
			r.change(1, func(h *placement.Hypervisor) { h.Datastore = "nowhere" })
		}, "pve-datastore"},
	} {
		w, req := goodWorld(), goodRequest()
		for _, n := range req.Nodes {
			at := placement.Of(n)
			w.vms = append(w.vms, VM{
				VMID: at.VMID, Name: n.Name, Type: "qemu", Hypervisor: at.Hypervisor, Status: "running", Memory: 31 << 30,
			})
			w.hidden[at.VMID] = true
			req.OwnIDs = append(req.OwnIDs, at.VMID)
		}
		tc.change(w, &req)
		if failed := deploy.Failed(Preflight(t.Context(), w, req)); len(failed) > 0 {
			t.Errorf("%s: it is in the way of VMs that stay:\n%s", name, list(failed))
		}
		req.Anew = true
		failed := deploy.Failed(Preflight(t.Context(), w, req))
		if tc.want == "" && len(failed) > 0 || tc.want != "" && (len(failed) == 0 || failed[0].ID != tc.want) {
			t.Errorf("%s: want %s:\n%s", name, tc.want, list(failed))
		}
	}
}

func TestPreflightTellsWhyTheAPICannotBeUsed(t *testing.T) {
	seen := &seenError{err: x509.UnknownAuthorityError{}, fingerprint: "AA:BB"}
	for _, tc := range []struct {
		name    string
		err     error
		id      string
		in, fix string
	}{
		{"token", &APIError{Status: 401, Reason: "Authentication failed!", Method: "GET", Path: "/version"}, "pve-token", testTokenID, "pveum user token list hive@pve"},
		{"CA", &callError{method: "GET", path: "/version", endpoint: "https://pve1:8006", kind: ErrTLS, err: seen}, "pve-tls", "AA:BB", "HIVE_TEST_PROXMOX_FINGERPRINT) to AA:BB"},
		{"TLS alert", &callError{kind: ErrTLS, err: tls.AlertError(40)}, "pve-tls", "handshake", "pve-root-ca.pem"},
		{"closed", &callError{endpoint: "https://pve1:8006", kind: ErrUnreachable, err: errors.New("connection refused")}, "pve-endpoint", "refused", "curl -k https://pve1:8006/api2/json/version"},
	} {
		if call, ok := tc.err.(*callError); ok && call.endpoint != "" && !strings.Contains(call.Hint(), tc.fix) {
			t.Errorf("%s: the hint is %q", tc.name, call.Hint())
		}
		w := goodWorld()
		w.err = tc.err
		findings := Preflight(t.Context(), w, goodRequest())
		if len(findings) != 2 || !has(findings, tc.id, deploy.Fail, tc.in, tc.fix) ||
			!has(findings, deploy.NotRun, deploy.Skip, "not run", "") {
			t.Errorf("%s:\n%s", tc.name, list(findings))
		}
	}
}

func has(findings []deploy.Finding, id string, status deploy.Status, detail, fix string) bool {
	for _, f := range findings {
		if f.ID == id && f.Status == status && strings.Contains(f.Detail, detail) && strings.Contains(f.Fix, fix) {
			return true
		}
	}
	return false
}

func list(findings []deploy.Finding) string {
	var b strings.Builder
	for _, f := range findings {
		fmt.Fprintf(&b, "%s %s: %s (fix: %s)\n", f.Status, f.ID, f.Detail, f.Fix)
	}
	return b.String()
}

// change changes a hypervisor that is asked for.
func (r *PreflightRequest) change(index int, change func(h *placement.Hypervisor)) {
	hosts := placement.Hypervisors(r.Spec)
	change(&hosts[index])
	r.Spec.Hosts = placement.Hosts(hosts)
}
