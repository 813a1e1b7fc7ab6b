package api_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/deploy/proxmox/api"
	"hive-test/pkg/progress"
	"hive-test/pkg/sim/host"
	"hive-test/pkg/sim/pve"
)

// The same client against the simulated Proxmox VE, which refuses what the real one refuses.

// machines are hosts that exist in memory only: the client cares for what their agents say.
type machines struct {
	host.Machines
	mu    sync.Mutex
	specs map[string]host.Spec // of those that run
}

func (m *machines) Kind() host.Kind { return host.KindProcess }
func (m *machines) SSHPort() int    { return 22 }
func (m *machines) Close() error    { return nil }

func (m *machines) Start(_ context.Context, spec host.Spec) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.specs[spec.ID] = spec
	return nil
}

func (m *machines) State(id string) host.PowerState {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, runs := m.specs[id]; runs {
		return host.Running
	}
	return host.Stopped
}

func (m *machines) Booted(string) time.Time { return time.Time{} }

func (m *machines) Stop(_ context.Context, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.specs, id)
	return nil
}

func (m *machines) Shutdown(ctx context.Context, id string) error { return m.Stop(ctx, id) }

func (m *machines) Remove(ctx context.Context, id string) error { return m.Stop(ctx, id) }

func (m *machines) Interfaces(_ context.Context, id string) ([]host.Interface, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	spec, runs := m.specs[id]
	if !runs || !spec.Agent {
		return nil, host.ErrAgentNotRunning
	}
	found := []host.Interface{{
		Name: "lo", MAC: "00:00:00:00:00:00", Addresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/8")},
	}}
	number, _ := strconv.Atoi(id)
	for i, nic := range spec.NICs {
		address := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i), byte(number >> 8), byte(number)}), 16)
		found = append(found, host.Interface{
			Name: "eth" + strconv.Itoa(i), MAC: strings.ToLower(nic.MAC), Addresses: []netip.Prefix{address},
		})
	}
	return found, nil
}

func (m *machines) ReadFile(_ context.Context, _, path string) ([]byte, error) {
	if path == "/etc/hostname" {
		return []byte("näme\n"), nil
	}
	return nil, errors.New("failed to open file '" + path + "' (mode: 'r'): No such file or directory")
}

// lab is a simulated Proxmox VE and a client of it.
type lab struct {
	t        *testing.T
	endpoint pve.Endpoint
	*api.Client
}

func newLab(t *testing.T, edit func(*pve.Options)) *lab {
	t.Helper()
	opts := pve.Options{
		Dir: t.TempDir(), Machines: &machines{specs: map[string]host.Spec{}}, AuthDelay: -1, AgentTimeout: -1,
		OfflineDelay: -1, LockTimeout: 100 * time.Millisecond,
	}
	if edit != nil {
		edit(&opts)
	}
	server, err := pve.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	endpoint, err := server.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	l := &lab{t: t, endpoint: endpoint}
	l.Client = l.client(endpoint.Token)
	return l
}

func (l *lab) options(token string) api.Options {
	return api.Options{Endpoint: l.endpoint.URL, Token: token, CAFile: l.endpoint.CAFile}
}

func (l *lab) client(token string) *api.Client {
	l.t.Helper()
	c, err := api.New(l.options(token))
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(c.Close)
	return c
}

// send is a plain request of a form, as any other client would make it.
func (l *lab) send(method, path string, form url.Values) string {
	l.t.Helper()
	base := l.endpoint.URL + "/api2/json"
	if strings.HasPrefix(path, "/sim/") {
		base = l.endpoint.URL
	}
	return l.request(method, base+path, "application/x-www-form-urlencoded", form.Encode())
}

func (l *lab) request(method, address, kind, body string) string {
	l.t.Helper()
	req, err := http.NewRequestWithContext(l.t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		l.t.Fatal(err)
	}
	req.Header.Set("Authorization", "PVEAPIToken="+l.endpoint.Token)
	req.Header.Set("Content-Type", kind)
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		l.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, _ := io.ReadAll(resp.Body)
	if resp.StatusCode >= 300 {
		l.t.Fatalf("%s %s: %s %s", method, address, resp.Status, answer)
	}
	return string(answer)
}

func (l *lab) fault(json string) {
	l.t.Helper()
	l.request("POST", l.endpoint.URL+"/sim/faults", "application/json", json)
}

// make creates and starts a VM of a cluster and waits until both are done.
func (l *lab) make(name cluster.Name, owner string, n cluster.Node) {
	at := placement.Of(n)
	l.t.Helper()
	l.task(l.send("POST", "/nodes/"+at.Hypervisor+"/qemu", url.Values{
		"vmid": {strconv.Itoa(at.VMID)}, "name": {n.Name}, "memory": {"1024"}, "agent": {"enabled=1"},
		"tags":        {strings.Join(cluster.Tags(name), ";")},
		"description": {cluster.Description(name, cluster.Owner{ID: owner})},
		"net0":        {"virtio=" + at.ManagementMAC + ",bridge=vmbr0"},
		"net1":        {"virtio=" + at.DataMAC + ",bridge=vmbr1"},
	}))
	l.task(l.send("POST", "/nodes/"+at.Hypervisor+"/qemu/"+strconv.Itoa(at.VMID)+"/status/start", nil))
}

func (l *lab) task(answer string) {
	l.t.Helper()
	upid := answer[strings.Index(answer, "UPID"):]
	if err := l.WaitTask(l.t.Context(), upid[:strings.Index(upid, `"`)]); err != nil {
		l.t.Fatal(err)
	}
}

func spec(nodes int) cluster.Spec {
	s := cluster.Spec{
		Deployer: deploy.Proxmox, NodeCount: nodes, CPUCores: 2, MemoryMB: 1024, DiskSizeGB: 4,
		OSImage: placement.DefaultImage, ManagementBridge: "vmbr0", DataBridge: "vmbr1",
	}
	for _, name := range []string{"pve1", "pve2", "pve3"} {
		s.Hosts = placement.Hosts(append(placement.Hypervisors(s), placement.Hypervisor{
			Name: name, Datastore: "local", SnippetStore: "local",
		}))
	}
	return s
}

func (l *lab) preflight(s cluster.Spec, nodes cluster.Nodes, c *api.Client) []deploy.Finding {
	return api.Preflight(l.t.Context(), c, api.PreflightRequest{
		Spec: s, Nodes: nodes, TokenID: c.TokenID(), Endpoint: c.Endpoint(),
	})
}

func (l *lab) choose(s cluster.Spec) cluster.Nodes {
	l.t.Helper()
	req := api.ReserveRequest{Name: "ci-1", Count: s.NodeCount, Seed: 7}
	for _, h := range placement.Hypervisors(s) {
		req.Hypervisors = append(req.Hypervisors, h.Name)
	}
	nodes, err := api.Choose(l.t.Context(), l, req)
	if err != nil {
		l.t.Fatal(err)
	}
	return nodes
}

func TestALifeOnTheSimulator(t *testing.T) {
	for _, version := range []string{pve.Version84, pve.Version92} {
		t.Run(version, func(t *testing.T) {
			l := newLab(t, func(o *pve.Options) { o.Version = version })
			s := spec(4)
			nodes := l.choose(s)
			for _, f := range l.preflight(s, nodes, l.Client) {
				if f.Status != deploy.Pass && f.Status != deploy.Skip {
					t.Errorf("%+v", f)
				}
			}
			const owner = "2f0c1f6e-0000-4000-8000-000000000001"
			for _, n := range nodes {
				l.make("ci-1", owner, n)
			}
			if free, err := l.CheckID(t.Context(), placement.Of(nodes[0]).VMID); free || err != nil {
				t.Errorf("the id of a VM: %v %v", free, err)
			}
			nodes, err := api.WaitAddresses(t.Context(), l, nodes, progress.Discard)
			if err != nil {
				t.Fatal(err)
			}
			vms, err := l.VMs(t.Context())
			if err != nil || len(vms) != 4 {
				t.Fatalf("%v %v", vms, err)
			}
			for i, listed := range vms {
				vm, err := l.Live(t.Context(), listed)
				if err != nil {
					t.Fatal(err)
				}
				if ours, why := api.Ours(vm, "ci-1", owner, ""); !ours || !vm.AgentEnabled || vm.Status != "running" ||
					vm.NICs[1].MAC != placement.Of(nodes[i]).DataMAC || vm.NICs[1].Bridge != "vmbr1" {
					t.Errorf("%+v %s", vm, why)
				}
				if !nodes[i].Management.IsValid() || nodes[i].Management == nodes[i].Data {
					t.Errorf("%+v", nodes[i])
				}
			}
			l.readFiles(nodes[0])
			l.end(nodes)
		})
	}
}

func (l *lab) readFiles(n cluster.Node) {
	at := placement.Of(n)
	l.t.Helper()
	data, err := l.ReadFile(l.t.Context(), at.Hypervisor, at.VMID, "/etc/hostname")
	if err != nil || string(data) != "näme\n" {
		l.t.Errorf("file: %q %v", data, err)
	}
	if _, err := l.ReadFile(l.t.Context(), at.Hypervisor, at.VMID, "/nope"); err == nil ||
		!strings.Contains(err.Error(), "No such file") {
		l.t.Errorf("missing file: %v", err)
	}
}

// end deletes the VMs, and is refused where PVE refuses it.
func (l *lab) end(nodes cluster.Nodes) {
	l.t.Helper()
	ctx, first := l.t.Context(), nodes[0]
	refused, ok := errors.AsType[*api.APIError](l.Delete(ctx, placement.Of(first).Hypervisor, placement.Of(first).VMID))
	if !ok || !strings.Contains(refused.Reason, "is running - destroy failed") {
		l.t.Errorf("deleting a running VM: %v", refused)
	}
	config := "/nodes/" + placement.Of(first).Hypervisor + "/qemu/" + strconv.Itoa(placement.Of(first).VMID) + "/config"
	l.send("PUT", config, url.Values{"protection": {"1"}})
	for _, n := range nodes {
		at := placement.Of(n)
		if err := l.Stop(ctx, at.Hypervisor, at.VMID); err != nil {
			l.t.Fatal(err)
		}
	}
	if err := l.Delete(ctx, placement.Of(first).Hypervisor, placement.Of(first).VMID); err == nil ||
		!strings.Contains(err.Error(), "protection mode") {
		l.t.Errorf("deleting a protected VM: %v", err)
	}
	l.send("PUT", config, url.Values{"protection": {"0"}})
	for _, n := range nodes {
		at := placement.Of(n)
		if err := l.Delete(ctx, at.Hypervisor, at.VMID); err != nil {
			l.t.Error(err)
		}
		if _, err := l.VM(ctx, at.Hypervisor, at.VMID); !errors.Is(err, api.ErrNotFound) {
			l.t.Errorf("a deleted VM: %v", err)
		}
		if err := l.Delete(ctx, at.Hypervisor, at.VMID); !errors.Is(err, api.ErrNotFound) {
			l.t.Errorf("deleting it again: %v", err)
		}
		if err := l.Stop(ctx, at.Hypervisor, at.VMID); !errors.Is(err, api.ErrNotFound) {
			l.t.Errorf("stopping it: %v", err)
		}
	}
	if vms, err := l.VMs(ctx); err != nil || len(vms) > 0 {
		l.t.Errorf("left: %v %v", vms, err)
	}
}

func second[T any](_ T, err error) error { return err }

func TestAddressesWithoutThePrivilege(t *testing.T) {
	l := newLab(t, nil)
	n := l.choose(spec(1))[0]
	l.make("ci-1", "x", n)
	l.fault(
		`{"path":"/nodes/*/qemu/*/agent/**","status":403,"reason":"Permission check failed (/vms/1, VM.Monitor)","nth":1}`,
	)
	if _, err := api.WaitAddresses(
		t.Context(), l, cluster.Nodes{n}, progress.Discard,
	); !errors.Is(err, api.ErrForbidden) ||
		!strings.Contains(progress.HintOf(err), "VM.Monitor") {
		t.Errorf("no privilege: %v", err)
	}
}

func TestPreflightOnTheSimulator(t *testing.T) {
	l := newLab(t, func(o *pve.Options) {
		o.Nodes = []pve.NodeSpec{
			{Name: "pve1", Cores: 4, MemoryGB: 8, StorageGB: 20},
			{Name: "pve2", Cores: 4, MemoryGB: 8, StorageGB: 20},
			{Name: "pve3", Cores: 4, MemoryGB: 8, StorageGB: 20},
		}
	})
	s := spec(3)
	nodes := l.choose(s)
	wrong := s
	wrong.CPUCores, wrong.MemoryMB, wrong.DiskSizeGB, wrong.OSImage, wrong.DataBridge = 5, 9000, 30, "local:iso/nope.img", "vmbr9"
	for _, id := range []string{"pve-cpu", "pve-memory", "pve-disk", "pve-image", "pve-bridges"} {
		l.expect(l.preflight(wrong, nodes, l.Client), id, "")
	}
	l.make("other", "x", nodes[1])
	l.expect(l.preflight(s, nodes, l.Client), "pve-vmids", nodes[1].Name)

	l.send("PUT", "/storage/local", url.Values{"content": {"iso,images"}})
	l.expect(l.preflight(s, nodes, l.Client), "pve-snippets", "content snippets")

	l.request("POST", l.endpoint.URL+"/sim/nodes/pve2", "application/json", `{"online":false}`)
	l.expect(l.preflight(s, nodes, l.Client), "pve-hypervisors", "pve2")

	l.expect(
		l.preflight(s, nodes, l.client("root@pam!sim=00000000-0000-0000-0000-000000000000")), "pve-token",
		"Authentication failed!",
	)

	options := l.options(l.endpoint.Token)
	options.CAFile = ""
	untrusting, err := api.New(options)
	if err != nil {
		t.Fatal(err)
	}
	defer untrusting.Close()
	findings := l.preflight(s, nodes, untrusting)
	l.expect(findings, "pve-tls", "fingerprint")
	_, fingerprint, _ := strings.Cut(findings[0].Fix, "HIVE_TEST_PROXMOX_FINGERPRINT) to ")
	options.Fingerprint = fingerprint
	pinned, err := api.New(options)
	if err != nil {
		t.Fatal(err)
	}
	defer pinned.Close()
	if _, err := pinned.Version(t.Context()); err != nil {
		t.Errorf("the fix does not work: %v", err)
	}
}

func (l *lab) expect(findings []deploy.Finding, id, detail string) {
	l.t.Helper()
	for _, f := range findings {
		if f.ID == id && f.Status == deploy.Fail && strings.Contains(f.Detail, detail) && f.Fix != "" {
			return
		}
	}
	l.t.Errorf("no %s with %q in %+v", id, detail, findings)
}

func TestATokenWithoutPrivileges(t *testing.T) {
	l := newLab(t, nil)
	answer := l.send("POST", "/access/users/root@pam/token/poor", url.Values{"privsep": {"1"}})
	_, secret, _ := strings.Cut(answer, `"value":"`)
	poor := l.client("root@pam!poor=" + secret[:strings.Index(secret, `"`)])
	s := spec(1)
	l.expect(l.preflight(s, l.choose(s), poor), "pve-privileges", "no privilege at all")
}
