package api

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestNewChecksItsOptions(t *testing.T) {
	good := "root@pam!x=abc-123"
	for _, tc := range []struct {
		name string
		opts Options
		want string
	}{
		{"no endpoint", Options{Token: good}, "no proxmox endpoint"},
		{"http", Options{Endpoint: "http://pve:8006", Token: good}, "not https"},
		{"no host", Options{Endpoint: "pve1", Token: good}, "not a URL"},
		{"password in URL", Options{Endpoint: "https://u:hunter2@pve:8006", Token: good}, "must not contain a user"},
		{"a path", Options{Endpoint: "https://pve:8006/pve", Token: good}, "more than a host and a port: the API is asked at /api2/json there; write it like https://pve:8006"},
		{"a path below the API's", Options{Endpoint: "https://pve:8006/api2/json/nodes", Token: good}, "more than a host and a port"},
		{"a page of the web interface", Options{Endpoint: "https://pve:8006/#v1:0:18:4", Token: good}, "more than a host and a port"},
		{"no token", Options{Endpoint: "https://pve:8006"}, "PROXMOX_VE_API_TOKEN, like user@realm!name=secret, or proxmox.token_file (--proxmox-token-file)"},
		{"no secret", Options{Endpoint: "https://pve:8006", Token: "root@pam!x"}, "no '='"},
		{"no realm", Options{Endpoint: "https://pve:8006", Token: "root!x=s3cret"}, "no realm"},
		{"no token name", Options{Endpoint: "https://pve:8006", Token: "root@pam=s3cret"}, "no token name"},
		{"an empty secret", Options{Endpoint: "https://pve:8006", Token: "root@pam!x="}, "is empty, after its '='"},
		{"blank in it", Options{Endpoint: "https://pve:8006", Token: "root@pam!x=s3 cret"}, "malformed"},
		{"CA file missing", Options{Endpoint: "https://pve:8006", Token: good, CAFile: "/nonexistent/ca.pem"}, "CA file"},
		{"CA file without PEM", Options{Endpoint: "https://pve:8006", Token: good, CAFile: "/dev/null"}, "no PEM"},
		{"short fingerprint", Options{Endpoint: "https://pve:8006", Token: good, Fingerprint: "AB:CD"}, "not a SHA-256"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := New(tc.opts)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("got %v, want something with %q", err, tc.want)
			}
			for _, secret := range []string{"s3cret", "s3 cret", "hunter2", "abc-123"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("the error shows the secret: %v", err)
				}
			}
		})
	}
	for _, endpoint := range []string{
		"https://pve1:8006/", "https://pve1:8006/api2/json", "https://pve1:8006/api2/json/",
	} {
		c := mustClient(t, Options{Endpoint: endpoint, Token: good})
		if c.Endpoint() != "https://pve1:8006" || c.TokenID() != "root@pam!x" ||
			strings.TrimRight(BaseURL(endpoint), "/") != c.Endpoint() {
			t.Errorf("%s: got %q %q %q", endpoint, c.Endpoint(), c.TokenID(), BaseURL(endpoint))
		}
	}
}

// Before 8.4 the reason is in the status line only, and a proxy may replace that: then the status, and other questions,
// have to do.
func TestReasonsThatAreLost(t *testing.T) {
	for _, tc := range []struct {
		name   string
		reason string // of the status line of what reads a VM
		free   bool   // as nextid says
		gone   bool
		want   string
	}{
		{"in the status line", "Configuration file 'nodes/pve1/qemu-server/201.conf' does not exist", false, true, "does not exist"},
		{"lost, and the id is free", "Internal Server Error", true, true, "its id is free"},
		{"lost altogether, and the id is free", "", true, true, "its id is free"},
		{"lost, and the id is taken", "Internal Server Error", false, false, "500 Internal Server Error (its reason was lost on the way)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFakePVE(t)
			for _, leaf := range []string{"config", "status/current"} {
				f.on(
					"GET /nodes/pve1/qemu/201/"+leaf,
					func(w http.ResponseWriter, _ *http.Request) { answer(w, 500, tc.reason, `{"data":null}`) },
				)
			}
			f.on("GET /cluster/nextid", func(w http.ResponseWriter, _ *http.Request) {
				if tc.free {
					writeData(w, "201")
					return
				}
				answer(w, 400, "Bad Request", `{"data":null,"errors":{"vmid":"VM 201 already exists"}}`)
			})
			_, err := f.client(t).VM(t.Context(), "pve1", 201)
			if errors.Is(err, ErrNotFound) != tc.gone || err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestWhoATokenIs(t *testing.T) {
	for _, tc := range []struct{ token, user, name string }{
		{"root@pam!x=abc-123", "root@pam", "x"},
		{"jane.doe@example.com@entra!ci=abc-123", "jane.doe@example.com@entra", "ci"},
		{"o'neil!a=b@my-ldap.2!ci_1.x=abc-123", "o'neil!a=b@my-ldap.2", "ci_1.x"},
		{"EXAMPLE\\jane@ad!ci=abc-123", "EXAMPLE\\jane@ad", "ci"},
		{"a/b@pve!x=abc-123", "", ""},
		{"a:b@pve!x=abc-123", "", ""},
		{"a@1pve!x=abc-123", "", ""},
		{"a@pve!x y=abc-123", "", ""},
	} {
		id := TokenID(tc.token)
		if tc.user == "" {
			if id != "" {
				t.Errorf("%s is taken for %s", tc.token, id)
			}
			continue
		}
		if user, name := splitToken(id); user != tc.user || name != tc.name {
			t.Errorf("%s: %q, %q", tc.token, user, name)
		}
	}
}

func TestAnAnswerWithoutReason(t *testing.T) {
	f := newFakePVE(t)
	f.on("GET /nodes", func(w http.ResponseWriter, _ *http.Request) { answer(w, 500, "", "") })
	if _, err := f.client(t).Hypervisors(t.Context()); err == nil ||
		err.Error() != "GET /nodes: 500 Internal Server Error (its reason was lost on the way)" {
		t.Errorf("got %v", err)
	}
}

// What only reads is asked again where that may help, and says how often it was.
func TestReadsAreMadeAgain(t *testing.T) {
	t.Parallel()
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { answer(w, code, "Connection refused", "") }
	}
	cut := func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_ = conn.Close()
	}
	short := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = w.Write([]byte(`{"data":`))
	}
	for _, tc := range []struct {
		name  string
		wrong http.HandlerFunc
		times int // how often it goes wrong
		asked int
		want  string // of the error; empty: none
	}{
		{"502 once", status(502), 1, 2, ""},
		{"503 three times", status(503), 3, 4, ""},
		{"504", status(504), 2, 3, ""},
		{"595", status(595), 1, 2, ""},
		{"596", status(596), 3, 4, ""},
		{"599", status(599), 1, 2, ""},
		{"cut before the answer", cut, 2, 3, ""},
		{"cut within the answer", short, 1, 2, ""},
		{"for good", status(596), 99, 4, "596 Connection refused (asked 4 times)"},
		{"cut for good", cut, 99, 4, "(asked 4 times)"},
		{"401", status(401), 99, 1, "401"},
		{"403", status(403), 99, 1, "403"},
		{"500", status(500), 99, 1, "500"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := newFakePVE(t)
			var asked atomic.Int32
			f.on("GET /cluster/resources", func(w http.ResponseWriter, r *http.Request) {
				if int(asked.Add(1)) <= tc.times {
					tc.wrong(w, r)
					return
				}
				writeData(w, []any{})
			})
			_, err := f.client(t).VMs(t.Context())
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v", err)
			}
			if got := int(asked.Load()); got != tc.asked {
				t.Errorf("asked %d times, not %d", got, tc.asked)
			}
		})
	}
}

func TestReads(t *testing.T) {
	f := newFakePVE(t)
	f.data("GET /nodes", []any{
		map[string]any{"node": "pve2", "status": "offline"},
		map[string]any{"node": "pve1", "status": "online", "maxcpu": 8, "maxmem": 1 << 34, "mem": 1 << 30},
	})
	f.data("GET /cluster/resources", []any{
		map[string]any{"vmid": 101, "type": "qemu", "node": "pve1", "status": "unknown", "tags": "b;a,c d;a"},
		map[string]any{
			"vmid": 100, "type": "qemu", "node": "pve1", "name": "t", "status": "running", "template": 1, "pool": "p",
			"maxmem": 1024, "maxcpu": 2,
		},
	})
	f.data("GET /nodes/pve1/qemu/100/config", map[string]any{
		"name": "ci-1", "tags": "hive-test;ci", "description": "text\n", "agent": "enabled=1,type=virtio",
		"protection": 1, "lock": "backup",
		"net0": "virtio=bc:24:11:00:00:01,bridge=vmbr0,firewall=0",
		"net1": "model=virtio,macaddr=BC:24:11:00:00:02,bridge=vmbr1", "netless": "x", "memory": 2048,
	})
	f.data("GET /nodes/pve1/qemu/100/status/current", map[string]any{"status": "running", "cpus": 2, "maxmem": 1024})
	f.data(
		"GET /nodes/pve1/storage",
		[]any{map[string]any{
			"storage": "local", "type": "dir", "content": "snippets,images,iso", "active": 1, "avail": 10,
			"total": "20",
		}},
	)
	f.data(
		"GET /nodes/pve1/storage/local/content",
		[]any{map[string]any{"volid": "local:iso/x.img", "content": "iso", "size": 7}},
	)
	f.data("GET /nodes/pve1/network", []any{map[string]any{"iface": "vmbr1"}, map[string]any{"iface": "vmbr0"}})
	f.data("GET /access/permissions", map[string]any{"/": map[string]any{"VM.Audit": 1, "Sys.Audit": 0}})
	c := f.client(t)

	hosts, err := c.Hypervisors(t.Context())
	same(t, err, hosts, []Hypervisor{
		{Name: "pve1", Online: true, CPUs: 8, MemoryTotal: 1 << 34, MemoryUsed: 1 << 30}, {Name: "pve2"},
	})
	vms, err := c.VMs(t.Context())
	same(t, err, vms, []VM{
		{VMID: 100, Type: "qemu", Hypervisor: "pve1", Name: "t", Status: "running", Template: true, Pool: "p", Memory: 1024, CPUs: 2},
		{VMID: 101, Type: "qemu", Hypervisor: "pve1", Status: "unknown", Tags: []string{"a", "b", "c", "d"}},
	})
	vm, err := c.Live(t.Context(), vms[0])
	same(t, err, vm, VM{
		VMID: 100, Type: "qemu", Hypervisor: "pve1", Name: "ci-1", Status: "running", Pool: "p",
		Tags: []string{"ci", "hive-test"}, CPUs: 2, Memory: 1024,
		Description: "text\n", Lock: "backup", Protection: true, AgentEnabled: true,
		NICs: []NIC{{"net0", "BC:24:11:00:00:01", "vmbr0"}, {"net1", "BC:24:11:00:00:02", "vmbr1"}},
	})
	storages, err := c.Storages(t.Context(), "pve1")
	same(
		t, err, storages,
		[]Storage{{
			Name: "local", Type: "dir", Content: []string{"images", "iso", "snippets"}, Active: true, Available: 10,
			Capacity: 20,
		}},
	)
	volumes, err := c.Content(t.Context(), "pve1", "local", "iso")
	same(t, err, volumes, []Volume{{ID: "local:iso/x.img", Kind: "iso", Size: 7}})
	bridges, err := c.Bridges(t.Context(), "pve1")
	same(t, err, bridges, []string{"vmbr0", "vmbr1"})
	perms, err := c.Permissions(t.Context())
	same(t, err, perms, map[string]map[string]bool{"/": {"VM.Audit": true, "Sys.Audit": false}})
	if _, err := c.VM(t.Context(), "pve1", 5); err == nil || !strings.Contains(err.Error(), "VM 5 on pve1") {
		t.Errorf("got %v", err)
	}
}

func TestAgent(t *testing.T) {
	f := newFakePVE(t)
	const agent = "GET /nodes/pve1/qemu/100/agent/"
	f.data(agent+"network-get-interfaces", map[string]any{"result": []any{
		map[string]any{
			"name": "lo", "hardware-address": "00:00:00:00:00:00",
			"ip-addresses": []any{map[string]any{"ip-address": "127.0.0.1", "prefix": 8}},
		},
		map[string]any{"name": "eth0", "hardware-address": "bc:24:11:aa:bb:cc", "ip-addresses": []any{
			map[string]any{"ip-address": "fe80::1", "prefix": 64},
			map[string]any{"ip-address": "bogus"},
			map[string]any{"ip-address": "10.0.0.5", "prefix": 24},
		}},
		map[string]any{"name": "eth1"},
	}})
	f.data("GET /nodes/pve1/qemu/101/agent/network-get-interfaces", map[string]any{"result": map[string]any{"error": map[string]any{
		"class": "CommandNotFound",
		"desc":  "Command guest-network-get-interfaces has been disabled: the agent is in frozen state",
	}}})
	f.data(agent+"file-read", map[string]any{"content": "a\u00fc\u00ff", "bytes-read": 3})
	f.data("GET /nodes/pve1/qemu/101/agent/file-read", map[string]any{"content": "a", "truncated": true})
	c := f.client(t)
	interfaces, err := c.Interfaces(t.Context(), "pve1", 100)
	same(t, err, interfaces, []Interface{
		{Name: "lo", MAC: "00:00:00:00:00:00", Prefixes: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/8")}},
		{Name: "eth0", MAC: "BC:24:11:AA:BB:CC", Prefixes: []netip.Prefix{netip.MustParsePrefix("fe80::1/64"), netip.MustParsePrefix("10.0.0.5/24")}},
		{Name: "eth1"},
	})
	if _, err := c.Interfaces(t.Context(), "pve1", 101); err == nil || !strings.Contains(err.Error(), "frozen state") {
		t.Errorf("frozen guest: got %v", err)
	}
	data, err := c.ReadFile(t.Context(), "pve1", 100, "/etc/x")
	same(t, err, data, []byte{'a', 0xfc, 0xff})
	if _, err := c.ReadFile(t.Context(), "pve1", 101, "/etc/x"); err == nil ||
		!strings.Contains(err.Error(), "too large") {
		t.Errorf("cut file: got %v", err)
	}
}

func same[T any](t *testing.T, err error, got, want T) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestRequestsAreLogged(t *testing.T) {
	var log bytes.Buffer
	f := newFakePVE(t)
	f.data("GET /version", map[string]string{"version": "8.4.1", "hidden": "answer"})
	opts := f.options(t)
	opts.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	c := mustClient(t, opts)
	if err := c.get(t.Context(), "/version", url.Values{"a": {"hidden"}}, nil); err != nil {
		t.Fatal(err)
	}
	if err := c.call(
		t.Context(), "POST", "/nodes/pve1/qemu", nil, map[string]string{"name": "hidden"}, nil,
	); err == nil {
		t.Error("it passed")
	}
	f.Close()
	if err := c.get(t.Context(), "/gone", nil, nil); err == nil {
		t.Error("it passed")
	}
	for _, want := range []string{
		`msg="pve request" method=GET path=/version status=200 ms=`, `method=POST path=/nodes/pve1/qemu status=501 ms=`,
		`path=/gone status=0 ms=`, `error="`,
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %s in\n%s", want, &log)
		}
	}
	if text := log.String(); strings.Contains(text, "hidden") || strings.Contains(text, testSecret) {
		t.Errorf("more than it should is in\n%s", text)
	}
}

// What tasks that others have started have warned of is told once, whoever waited for them; the same of several VMs
// together.
func TestWarningsOfOthersTasks(t *testing.T) {
	f := newFakePVE(t)
	var told []string
	options := f.options(t)
	options.Warn = func(text string) { told = append(told, text) }
	c := mustClient(t, options)
	upid := func(node, kind string, vmid int) string {
		return fmt.Sprintf("UPID:%s:0001:0002:0003:%s:%d:hive@pve!ci:", node, kind, vmid)
	}
	rows := map[string][]map[string]any{}
	task := func(node, kind string, vmid int, status, log string) {
		id := upid(node, kind, vmid)
		rows[node] = append(rows[node], map[string]any{
			"upid": id, "type": kind, "id": fmt.Sprint(vmid), "starttime": 1000, "status": status,
		})
		f.data("GET /nodes/"+node+"/tasks/"+id+"/log", []map[string]any{{"n": 1, "t": "start"}, {"n": 2, "t": log}})
		f.data("GET /nodes/"+node+"/tasks/"+id+"/status", map[string]any{"status": "stopped", "exitstatus": status})
	}
	task("pve1", "qmstart", 201, "WARNINGS: 1", "WARN: old EFI certificate")
	task("pve1", "qmcreate", 201, "WARNINGS: 1", "WARN: iothread")
	task("pve1", "qmstop", 201, "WARNINGS: 1", "WARN: waited for")
	task("pve1", "qmstart", 999, "WARNINGS: 1", "WARN: of another cluster")
	task("pve1", "qmstart", 203, "start failed", "ERROR")
	task("pve2", "qmstart", 202, "WARNINGS: 1", "WARN: old EFI certificate")
	var mu sync.Mutex
	asked := map[string]int{}
	for node := range rows {
		f.on("GET /nodes/"+node+"/tasks", func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			asked[node]++
			mu.Unlock()
			if r.FormValue("errors") != "1" || r.FormValue("since") != "900" {
				t.Errorf("asked with %s", r.URL.RawQuery)
			}
			writeData(w, rows[node])
		})
	}
	if err := c.WaitTask(t.Context(), upid("pve1", "qmstop", 201)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := c.ReportWarnings(
			t.Context(), []string{"pve1", "pve2"}, []int{201, 202, 203}, time.Unix(900, 0),
		); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		"task qmstop of VM 201 on pve1 went well, with warnings: waited for",
		"task qmcreate of VM 201 on pve1 went well, with warnings: iothread",
		"task qmstart of VM 201 on pve1, VM 202 on pve2 went well, with warnings: old EFI certificate",
	}
	slices.Sort(told[1:])
	if !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
	if asked["pve1"] != 2 || asked["pve2"] != 2 {
		t.Errorf("asked %v", asked)
	}
}

// What runs is told with how far it is; a clone is a task of the template, and its log names the VM.
func TestRunningTasks(t *testing.T) {
	f := newFakePVE(t)
	c := mustClient(t, f.options(t))
	rows := []map[string]any{}
	task := func(kind string, vmid int, status string, log ...string) {
		id := fmt.Sprintf("UPID:pve1:0001:0002:0003:%s:%d:hive@pve!ci:", kind, vmid)
		rows = append(rows, map[string]any{"upid": id, "type": kind, "starttime": 1000, "status": status})
		lines := []map[string]any{}
		for i, text := range log {
			lines = append(lines, map[string]any{"n": i, "t": text})
		}
		f.data("GET /nodes/pve1/tasks/"+id+"/log", lines)
	}
	task(
		"qmclone", 9000, "", "create full clone of drive scsi0 (local-lvm:base-9000-disk-0)",
		`  Logical volume "vm-201-disk-0" created.`, "transferred 0.0 B of 32.0 GiB (0.00%)", "transferred 12.9 GiB of 32.0 GiB (40.31%)",
	)
	task("qmstart", 202, "RUNNING")
	task("qmcreate", 203, "OK")
	task("qmcreate", 999, "", "transferred 1 GiB of 2 GiB (50.00%)")
	task("vncproxy", 201, "")
	f.data("GET /nodes/pve1/tasks", rows)
	want := map[int]string{201: "cloning 40%", 202: "starting"}
	if got := c.Running(t.Context(), []string{"pve1"}, []int{201, 202, 203}); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
