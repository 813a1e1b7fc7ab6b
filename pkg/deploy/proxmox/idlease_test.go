package proxmox

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/deploy/proxmox/api"
	"hive-test/pkg/progress"
	"hive-test/pkg/sim/host"
	"hive-test/pkg/sim/pve"
)

// nowhere has no machines: VMs here are never started.
type nowhere struct{ host.Machines }

func (nowhere) Kind() host.Kind                      { return host.KindProcess }
func (nowhere) SSHPort() int                         { return 22 }
func (nowhere) Close() error                         { return nil }
func (nowhere) State(string) host.PowerState         { return host.Stopped }
func (nowhere) Remove(context.Context, string) error { return nil }

// site is one simulated Proxmox VE that several machines use.
type site struct {
	t        *testing.T
	server   *pve.Server
	endpoint pve.Endpoint
	http     *http.Client
}

func newSite(t *testing.T) *site {
	t.Helper()
	server, err := pve.New(pve.Options{Dir: t.TempDir(), Machines: nowhere{}, AuthDelay: -1, OfflineDelay: -1})
	if err != nil {
		t.Fatal(err)
	}
	endpoint, err := server.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pem, err := os.ReadFile(endpoint.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	s := &site{
		t: t, server: server, endpoint: endpoint,
		http: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}},
	}
	t.Cleanup(func() {
		s.http.CloseIdleConnections()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// call is a plain request of any client; it returns PVE's data, or its message as an error.
func (s *site) call(method, path string, form url.Values) (any, error) {
	req, err := http.NewRequest(method, s.endpoint.URL+"/api2/json"+path, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "PVEAPIToken="+s.endpoint.Token)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := s.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	var body struct {
		Data    any    `json:"data"`
		Message string `json:"message"`
	}
	_ = json.Unmarshal(raw, &body)
	if resp.StatusCode >= 300 {
		return nil, fmt.Errorf("%d %s %s", resp.StatusCode, resp.Status, body.Message)
	}
	return body.Data, nil
}

func (s *site) must(method, path string, form url.Values) any {
	s.t.Helper()
	data, err := s.call(method, path, form)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	return data
}

// machine is one machine that up runs on: it shares nothing with others but the Proxmox VE.
type machine struct {
	*site
	fleet   *Fleet
	mu      sync.Mutex
	adopted []int
}

func (s *site) machine(locks string, ids api.IDRange) *machine {
	s.t.Helper()
	client, err := api.New(api.Options{Endpoint: s.endpoint.URL, Token: s.endpoint.Token, CAFile: s.endpoint.CAFile})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(client.Close)
	return &machine{site: s, fleet: New(Options{Client: client, IDRange: ids, LockDir: locks, ClaimLasts: time.Hour})}
}

func record(name, owner string, nodes int) *cluster.Record {
	return &cluster.Record{
		Name: cluster.Name(name), Owner: cluster.Owner{ID: owner, User: "me", Host: name},
		Spec: cluster.Spec{
			Deployer: deploy.Proxmox, NodeCount: nodes,
			Hosts: placement.Hosts([]placement.Hypervisor{{Name: "pve1"}, {Name: "pve2"}, {Name: "pve3"}}),
		},
	}
}

// up is what up does about ids, with the habit of the real provider in the middle: a create that is refused because the
// VM exists counts as done.
func (m *machine) up(ctx context.Context, r *cluster.Record, meet func()) error {
	nodes, err := m.fleet.Reserve(ctx, r)
	if err != nil {
		return err
	}
	r.Nodes = nodes
	meet()
	if err := m.fleet.Acquire(ctx, r, nil, progress.Discard); err != nil {
		return err
	}
	var names []string
	for _, n := range r.Nodes {
		names = append(names, n.Name)
	}
	if err := errors.Join(
		m.fleet.CheckOwnership(ctx, r), m.fleet.EnsureFree(ctx, r, names, progress.Discard),
	); err != nil {
		return err
	}
	failures := make([]error, len(r.Nodes))
	m.fleet.forEach(len(r.Nodes), func(i int) { failures[i] = m.create(ctx, r, r.Nodes[i]) })
	if err := errors.Join(failures...); err != nil {
		return err
	}
	if err := m.fleet.Verify(ctx, r); err != nil {
		return err
	}
	m.fleet.Release(ctx, r, progress.Discard)
	return nil
}

func (m *machine) create(ctx context.Context, r *cluster.Record, n cluster.Node) error {
	at := placement.Of(n)
	upid, err := m.call("POST", "/nodes/"+at.Hypervisor+"/qemu", url.Values{
		"vmid": {strconv.Itoa(at.VMID)}, "name": {n.Name}, "tags": {strings.Join(cluster.Tags(r.Name), ";")},
		"description": {cluster.Description(r.Name, r.Owner)},
	})
	if err != nil && strings.Contains(err.Error(), "already exists") {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.adopted = append(m.adopted, at.VMID)
		return nil
	}
	if err != nil {
		return err
	}
	err = m.fleet.Client.WaitTask(ctx, upid.(string))
	return err
}

func (m *machine) down(ctx context.Context, r *cluster.Record) error {
	left, err := m.fleet.Remaining(ctx, r)
	if err != nil {
		return err
	}
	err = m.fleet.Destroy(ctx, r, left)
	m.fleet.ReleaseAll(ctx, r, progress.Discard)
	return err
}

// Two machines make clusters at once, and the ids that are handed out collide every time. Each VM ends up in one
// cluster, and a VM of somebody else in the middle of the range stays as it is.
func TestTwoMachinesAtOnce(t *testing.T) {
	s := newSite(t)
	const theirs = 20002
	s.must("POST", "/nodes/pve2/qemu", url.Values{
		"vmid": {strconv.Itoa(theirs)}, "name": {"theirs"}, "memory": {"512"},
	})
	config := func() any { return s.must("GET", "/nodes/pve2/qemu/20002/config", nil) }
	for config().(map[string]any)["lock"] != nil {
		time.Sleep(time.Millisecond)
	}
	before := config()
	// Two nodes fit at 20000 and at 20003, and nowhere else.
	ids := api.IDRange{First: 20000, Last: 20004}
	locks := []string{t.TempDir(), t.TempDir()}
	lost := 0
	for round := range 20 {
		var meeting, group sync.WaitGroup
		records := make([]*cluster.Record, 2)
		machines := make([]*machine, 2)
		meeting.Add(2)
		for i := range records {
			records[i] = record(fmt.Sprintf("c%d-%d", round, i), fmt.Sprintf("owner-%d-%d", round, i), 2)
			machines[i] = s.machine(locks[i], ids)
		}
		wanted := make([]int, 2)
		errs := make([]error, 2)
		for i, m := range machines {
			meet := func() {
				for at := range 2 { // both chose the same
					placement.Change(&records[i].Nodes[at], func(v *placement.VM) { v.VMID = 20000 + at })
				}
				wanted[i] = 20000
				meeting.Done()
				meeting.Wait()
			}
			group.Go(func() { errs[i] = m.up(t.Context(), records[i], meet) })
		}
		group.Wait()
		owners := map[int]string{}
		for i, m := range machines {
			if errs[i] != nil || len(m.adopted) > 0 {
				t.Fatalf("round %d, machine %d: %v, took over %v", round, i, errs[i], m.adopted)
			}
			for _, n := range records[i].Nodes {
				at := placement.Of(n)
				if other, twice := owners[at.VMID]; twice || at.VMID == theirs {
					t.Fatalf("round %d: VM %d is in %s and %q", round, at.VMID, n.Name, other)
				}
				owners[at.VMID] = n.Name
			}
			if placement.Of(records[i].Nodes[0]).VMID != wanted[i] {
				lost++
			}
		}
		for i, m := range machines {
			if err := m.down(t.Context(), records[i]); err != nil {
				t.Fatal(err)
			}
		}
	}
	if lost != 20 {
		t.Errorf("in 20 rounds %d machines gave way", lost)
	}
	if diff := cmp.Diff(before, config()); diff != "" {
		t.Errorf("somebody's VM changed: %s", diff)
	}
	if pools := s.must("GET", "/pools", nil).([]any); len(pools) != 0 {
		t.Errorf("claims are left: %v", pools)
	}
	if left := s.must("GET", "/cluster/resources?type=vm", nil).([]any); len(left) != 1 {
		t.Errorf("VMs are left: %v", left)
	}
}

// A run that died left a VM half made, which tofu's state does not know: the next run deletes it, and nothing else.
func TestFreeDeletesWhatIsHalfMade(t *testing.T) {
	s := newSite(t)
	m := s.machine(t.TempDir(), api.DefaultIDRange())
	r := record("ci", "me", 1)
	r.Nodes = cluster.Nodes{{Name: "ci-1", Index: 1, Placement: placement.VM{VMID: 20000, Hypervisor: "pve1"}.Document()}}
	if err := m.fleet.EnsureFree(t.Context(), r, []string{"ci-1"}, progress.Discard); err != nil {
		t.Fatal(err)
	}
	if err := m.create(t.Context(), r, r.Nodes[0]); err != nil {
		t.Fatal(err)
	}
	complete := *r
	complete.Nodes = cluster.Nodes{r.Nodes[0]}
	complete.Nodes[0].Management = netip.MustParseAddr("10.0.0.1")
	if err := m.fleet.EnsureFree(t.Context(), &complete, []string{"ci-1"}, progress.Discard); err == nil ||
		!strings.Contains(err.Error(), "complete") {
		t.Errorf("a VM that was complete once: %v", err)
	}
	var told progress.Memory
	if err := m.fleet.EnsureFree(t.Context(), r, []string{"ci-1"}, &told); err != nil || len(told.Events()) != 1 {
		t.Errorf("%v, told %v", err, told.Events())
	}
	if _, err := s.call("GET", "/nodes/pve1/qemu/20000/config", nil); err == nil {
		t.Error("the half-made VM is still there")
	}
	s.must("POST", "/nodes/pve2/qemu", url.Values{"vmid": {"20000"}, "name": {"ci-1"}, "tags": {"hive-test;ci"}})
	err := m.fleet.EnsureFree(t.Context(), r, []string{"ci-1"}, progress.Discard)
	if _, taken := errors.AsType[*api.TakenError](err); !taken {
		t.Errorf("somebody's VM: %v", err)
	}
	s.must("GET", "/nodes/pve2/qemu/20000/config", nil)
}

// When all VMs are made, a hypervisor that is away for a moment is waited for.
func TestVerifyAsksAgain(t *testing.T) {
	s := newSite(t)
	m := s.machine(t.TempDir(), api.DefaultIDRange())
	r := record("ci", "me", 1)
	r.Nodes = cluster.Nodes{{Name: "ci-1", Index: 1, Placement: placement.VM{VMID: 20000, Hypervisor: "pve1"}.Document()}}
	if err := m.create(t.Context(), r, r.Nodes[0]); err != nil {
		t.Fatal(err)
	}
	s.fault(`{"path":"/nodes/*/qemu/*/config","method":"GET","times":1,"status":595,"reason":"No route to host"}`)
	if err := m.fleet.Verify(t.Context(), r); err != nil {
		t.Error(err)
	}
}

// Deleting tries again what passes, also where the first try did its work and its answer was lost.
func TestDestroyTriesAgain(t *testing.T) {
	s := newSite(t)
	m := s.machine(t.TempDir(), api.DefaultIDRange())
	m.fleet.Parallelism = 2
	r := record("ci", "me", 3)
	for i := range 3 {
		r.Nodes = append(r.Nodes, cluster.Node{
			Name: r.Name.Node(i + 1), Index: i + 1, Placement: placement.VM{VMID: 20000 + i, Hypervisor: "pve1"}.Document(),
		})
		if err := m.create(t.Context(), r, r.Nodes[i]); err != nil {
			t.Fatal(err)
		}
	}
	s.fault(`[
		{"path":"/nodes/*/qemu/20000","method":"DELETE","nth":1,"status":500,"reason":"got no worker upid - start worker failed"},
		{"path":"/nodes/*/qemu/20001","method":"DELETE","nth":1,"task_error":"can't lock file '/var/lock/qemu-server/lock-20001.conf' - got timeout"},
		{"path":"/nodes/*/qemu/20002","method":"DELETE","nth":1,"status":596,"reason":"Broken pipe"}]`)
	if err := m.down(t.Context(), r); err != nil {
		t.Error(err)
	}
	if left := s.must("GET", "/cluster/resources?type=vm", nil).([]any); len(left) != 0 {
		t.Errorf("VMs are left: %v", left)
	}
}

func (s *site) fault(document string) {
	s.t.Helper()
	req, err := http.NewRequest("POST", s.endpoint.URL+"/sim/faults", strings.NewReader(document))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "PVEAPIToken="+s.endpoint.Token)
	resp, err := s.http.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		s.t.Fatal(resp.Status)
	}
}
