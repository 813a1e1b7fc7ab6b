package pve

import (
	"bytes"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"hive-test/pkg/sim/host"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAuthentication(t *testing.T) {
	const delay = 60 * time.Millisecond
	_, c, _ := startServer(t, Options{AuthDelay: delay})
	tests := []struct {
		name, token, reason string
	}{
		{"none", "", "No ticket"},
		{"wrong secret", "root@pam!sim=11111111-2222-3333-4444-555555555555", "Authentication failed!"},
		{"unknown token", "root@pam!nope=11111111-2222-3333-4444-555555555555", "Authentication failed!"},
		{"unknown user", "nobody@pve!x=1", "Authentication failed!"},
		{"malformed", "garbage", "Authentication failed!"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			start := time.Now()
			a := c.as(tt.token).do("GET", "/version", nil)
			if a.Status != 401 || a.Reason != tt.reason || a.Body != "" {
				t.Errorf("= %d %s %q, want 401 %s without a body", a.Status, a.Reason, a.Body, tt.reason)
			}
			if time.Since(start) < delay {
				t.Error("was not held back")
			}
		})
	}
}

func TestTickets(t *testing.T) {
	_, c, _ := startServer(t, Options{})
	c.ok("POST", "/access/users", url.Values{"userid": {"tick@pve"}, "password": {"secret12"}})
	if a := c.as("").do("POST", "/access/ticket", url.Values{
		"username": {"tick@pve"}, "password": {"wrong"},
	}); a.Status != 401 ||
		a.Message != "authentication failure\n" {
		t.Errorf("wrong password = %+v", a)
	}
	data, _ := c.as("").ok("POST", "/access/ticket", url.Values{
		"username": {"tick@pve"}, "password": {"secret12"},
	}).(map[string]any)
	h := http.Header{"Cookie": {"PVEAuthCookie=" + url.QueryEscape(data["ticket"].(string))}}
	if a := c.raw("GET", full("/version"), h, nil); a.Status != 200 {
		t.Errorf("with ticket = %+v", a)
	}
	inHeader := http.Header{"Authorization": {h.Get("Cookie")}} // as some clients send it
	if a := c.raw("GET", full("/version"), inHeader, nil); a.Status != 200 {
		t.Errorf("with the ticket in the header Authorization = %+v", a)
	}
	form := strings.NewReader("poolid=tp")
	h.Set("Content-Type", "application/x-www-form-urlencoded")
	if a := c.raw("POST", full("/pools"), h, form); a.Status != 401 ||
		a.Reason != "Permission denied - invalid csrf token" {
		t.Errorf("without CSRF token = %+v", a)
	}
	h.Set("CSRFPreventionToken", data["CSRFPreventionToken"].(string))
	if a := c.raw("POST", full("/pools"), h, strings.NewReader("poolid=tp")); a.Status != 403 ||
		a.Reason != "Permission check failed (/pool/tp, Pool.Allocate)" {
		t.Errorf("with CSRF token = %+v", a)
	}
}

func TestTokenPrivileges(t *testing.T) {
	_, c, _ := startServer(t, Options{})
	c.grant("u@pve", map[string][]string{"/": {"VM.Allocate", "VM.Audit", "VM.Config.Memory", "VM.Config.Options"}})
	made, _ := c.ok("POST", "/access/users/u@pve/token/sep", "privsep=1").(map[string]any)
	sep := c.as("u@pve!sep=" + made["value"].(string))
	if got := sep.ok("GET", "/access/permissions", nil); !cmp.Equal(got, map[string]any{}) {
		t.Errorf("a separated token without its own grants may %v", got)
	}
	if a := sep.do("POST", "/nodes/pve1/qemu", "vmid=180&memory=64"); a.Status != 403 ||
		a.Reason != "Permission check failed" {
		t.Errorf("create = %d %s", a.Status, a.Reason)
	}
	c.ok("PUT", "/access/acl", url.Values{"path": {"/"}, "roles": {"Administrator"}, "tokens": {"u@pve!sep"}})
	if exit := sep.task("POST", "/nodes/pve1/qemu", "vmid=180&memory=64"); exit != "OK" {
		t.Errorf("create = %s", exit)
	}
	if a := sep.do("POST", "/pools", "poolid=zz"); a.Reason != "Permission check failed (/pool/zz, Pool.Allocate)" {
		t.Errorf("the token may more than its user: %+v", a)
	}
	c.ok("PUT", "/access/acl", url.Values{"path": {"/vms"}, "roles": {"PVEAuditor"}, "tokens": {"u@pve!sep"}})
	if a := sep.do(
		"DELETE", "/nodes/pve1/qemu/180", nil,
	); a.Reason != "Permission check failed (/vms/180, VM.Allocate)" {
		t.Errorf("the deeper grant does not replace the one above: %+v", a)
	}
}

func TestAgentPrivilegesOf92(t *testing.T) {
	_, c, _ := startServer(t, Options{Version: Version92})
	if v, _ := c.ok("GET", "/version", nil).(map[string]any); v["release"] != "9.2" {
		t.Errorf("version = %v", v)
	}
	c.task("POST", "/nodes/pve1/qemu", "vmid=150&agent=1&memory=64")
	c.task("POST", "/nodes/pve1/qemu/150/status/start", nil)
	audit := c.as(c.grant("a@pve", map[string][]string{"/": {"VM.GuestAgent.Audit"}}))
	audit.ok("GET", "/nodes/pve1/qemu/150/agent/network-get-interfaces", nil)
	if a := audit.do(
		"POST", "/nodes/pve1/qemu/150/agent/exec", map[string]any{"command": []string{"id"}},
	); a.Reason != "Permission check failed (/vms/150, VM.GuestAgent.Unrestricted)" {
		t.Errorf("exec = %+v", a)
	}
	if a := c.do("POST", "/access/roles", "roleid=R&privs=VM.Monitor"); a.Status != 400 {
		t.Errorf("9.2 still knows VM.Monitor: %+v", a)
	}
}

// What 8.4 answers otherwise (observed on both).
func TestWhatIsOtherIn92(t *testing.T) {
	for _, row := range []struct{ version, pool, start string }{
		{Version84, "", "start failed: QEMU exited with code 1"},
		{Version92, "create pool failed: pool name must start with a letter", "bridge 'vmbr9' does not exist"},
	} {
		_, c, _ := startServer(t, Options{Version: row.version})
		if a := c.do("POST", "/pools", url.Values{"poolid": {"1abc"}}); a.Reason != row.pool &&
			(a.Status != 200 || row.pool != "") {
			t.Errorf("%s: pool: %+v", row.version, a)
		}
		c.task("POST", "/nodes/pve1/qemu", "vmid=151&memory=64&net0=virtio,bridge%3Dvmbr9")
		upid, _ := c.ok("POST", "/nodes/pve1/qemu/151/status/start", nil).(string)
		if got := c.wait(upid); got != row.start {
			t.Errorf("%s: start: %q", row.version, got)
		}
	}
}

func TestEncodings(t *testing.T) {
	_, c, _ := startServer(t, Options{})
	c.task("POST", "/nodes/pve1/qemu?vmid=331", "memory=64")
	put := func(ctype, body string) answer {
		h := http.Header{"Authorization": {"PVEAPIToken=" + c.token}, "Content-Type": {ctype}}
		return c.raw("PUT", full("/nodes/pve1/qemu/331/config"), h, strings.NewReader(body))
	}
	tests := []struct {
		name, ctype, body string
		status            int
		reason            string
	}{
		{"JSON bool", "application/json", `{"onboot":true}`, 200, "OK"},
		{"JSON null is absent", "application/json", `{"description":null,"cores":1}`, 200, "OK"},
		{"JSON list", "application/json", `{"boot":["order=virtio0"]}`, 400, msgParams},
		{"JSON that is no object", "application/json", `[]`, 500, "Not a HASH reference at /usr/share/perl5/PVE/APIServer/AnyEvent.pm line 957."},
		{"text", "text/plain", "cores=1", 506, "upload 'Content-Type 'text/plain' not implemented"},
		{"repeated key", "application/x-www-form-urlencoded", "tags=b&tags=a", 200, "OK"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if a := put(tt.ctype, tt.body); a.Status != tt.status || a.Reason != tt.reason {
				t.Errorf("= %d %s %v", a.Status, a.Reason, a.Errors)
			}
		})
	}
	if got := c.config("/nodes/pve1/qemu/331")["tags"]; got != "a;b" {
		t.Errorf("tags = %v", got)
	}
	upid, _ := c.ok("POST", "/nodes/pve1/qemu/331/status/start", nil).(string)
	for _, form := range []string{upid, strings.ReplaceAll(upid, "!", "%21"), url.QueryEscape(upid)} {
		if a := c.do("GET", "/nodes/pve1/tasks/"+form+"/log", nil); a.Status != 200 {
			t.Errorf("task %s = %d %s", form, a.Status, a.Reason)
		}
	}
}

func TestFaults(t *testing.T) {
	_, c, _ := startServer(t, Options{})
	post := func(f map[string]any) { c.ok("POST", "/sim/faults", f) }
	post(map[string]any{"path": "/cluster/nextid", "nth": 2, "status": 500, "reason": "no space"})
	post(map[string]any{"path": "/nodes/*/qemu", "method": "POST", "times": 1, "task_error": "disk on fire"})
	post(map[string]any{"path": "/pools", "drop": true})
	post(map[string]any{"path": "/nodes/pve2/", "status": 595, "reason": "No route to host", "delay": "20ms"})
	var got []string
	for range 3 {
		a := c.do("GET", "/cluster/nextid", nil)
		got = append(got, fmt.Sprint(a.Status, " ", a.Reason))
	}
	if diff := cmp.Diff([]string{"200 OK", "500 no space", "200 OK"}, got); diff != "" {
		t.Errorf("second request only (-want +got):\n%s", diff)
	}
	if exit := c.task("POST", "/nodes/pve1/qemu", "vmid=100"); exit != "unable to create VM 100 - disk on fire" {
		t.Errorf("task = %s", exit)
	}
	if exit := c.task("POST", "/nodes/pve1/qemu", "vmid=100"); exit != "OK" {
		t.Errorf("the next task = %s", exit)
	}
	if a := c.do("POST", "/pools", "poolid=x"); a.Status != 0 {
		t.Errorf("dropped = %+v", a)
	}
	start := time.Now()
	if a := c.do("GET", "/nodes/pve2/status", nil); a.Status != 595 || a.Body != "" ||
		time.Since(start) < 20*time.Millisecond {
		t.Errorf("595 = %+v", a)
	}
	post(map[string]any{"path": "/cluster/resources", "data": []any{}})
	if a := c.do("GET", "/cluster/resources", nil); a.Status != 200 || a.Body != `{"data":[]}` {
		t.Errorf("a listing that shows nothing = %+v", a)
	}
	for _, useless := range []map[string]any{{"path": "/x"}, {"path": "/nodes/*/qm**", "method": "SSH", "drop": true}} {
		if a := c.do("POST", "/sim/faults", useless); a.Status != 400 {
			t.Errorf("a fault without an effect, %v = %+v", useless, a)
		}
	}
	if a := c.as("x").do("GET", "/sim/faults", nil); a.Status != 401 {
		t.Errorf("faults without the token = %d", a.Status)
	}
	c.ok("DELETE", "/sim/faults", nil)
	c.ok("POST", "/pools", "poolid=x")
}

func TestJournal(t *testing.T) {
	_, c, _ := startServer(t, Options{})
	c.ok("POST", "/access/users", url.Values{"userid": {"a@pve"}, "password": {"topsecret"}})
	c.do("GET", "/nope", nil)
	a := c.do("GET", "/sim/journal", nil)
	if strings.Contains(a.Body, "topsecret") || strings.Contains(a.Body, strings.Split(c.token, "=")[1]) {
		t.Error("the journal holds a secret")
	}
	rows, _ := a.Data.([]any)
	if len(rows) != 2 || rows[0].(map[string]any)["user"] != "root@pam!sim" ||
		rows[1].(map[string]any)["status"] != 501.0 {
		t.Errorf("journal = %v", rows)
	}
	c.ok("DELETE", "/sim/journal", nil)
	if rows, _ := c.ok("GET", "/sim/journal", nil).([]any); len(rows) != 0 {
		t.Errorf("journal after DELETE = %v", rows)
	}
}

func TestOfflineHypervisor(t *testing.T) {
	_, c, _ := startServer(t, Options{})
	c.task("POST", "/nodes/pve2/qemu", "vmid=400&name=on2")
	c.ok("POST", "/sim/nodes/pve2", map[string]any{"online": false})
	for _, path := range []string{
		"/nodes/pve2/status", "/nodes/pve2/qemu/400/config", "/nodes/pve2/storage/local/content",
	} {
		if a := c.do("GET", path, nil); a.Status != 595 || a.Reason != "No route to host" || a.Body != "" {
			t.Errorf("%s = %d %s %q", path, a.Status, a.Reason, a.Body)
		}
	}
	for _, row := range c.ok("GET", "/nodes", nil).([]any) {
		n := row.(map[string]any)
		if (n["status"] == "offline") != (n["node"] == "pve2") || (n["uptime"] == nil) != (n["node"] == "pve2") {
			t.Errorf("node = %v", n)
		}
	}
	if a := c.do(
		"POST", "/nodes/pve1/qemu", "vmid=400",
	); a.Reason != "unable to create VM 400 - VM 400 already exists on node 'pve2'" {
		t.Errorf("create = %+v", a)
	}
	c.ok("POST", "/sim/nodes/pve2", map[string]any{"online": true})
	c.config("/nodes/pve2/qemu/400")
}

func TestStateSurvivesARestart(t *testing.T) {
	dir, f := t.TempDir(), newFake()
	s, c, _ := startServer(t, Options{Dir: dir, Machines: f})
	c.task("POST", "/nodes/pve1/qemu", "vmid=100&name=on&net0=virtio,bridge%3Dvmbr0")
	c.task("POST", "/nodes/pve1/qemu", "vmid=101&name=off")
	c.task("POST", "/nodes/pve1/qemu/100/status/start", nil)
	c.ok("POST", "/pools", "poolid=kept")
	before := c.config("/nodes/pve1/qemu/100")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	checkPrivate(t, dir)
	_, c2, _ := startServer(t, Options{Dir: dir, Machines: f})
	if c2.e.URL != c.e.URL || c2.e.Token != c.e.Token || !cmp.Equal(c2.e.Hypervisors, c.e.Hypervisors) {
		t.Errorf("endpoint = %+v, was %+v", c2.e, c.e)
	}
	if diff := cmp.Diff(before, c2.config("/nodes/pve1/qemu/100")); diff != "" {
		t.Errorf("configuration (-before +after):\n%s", diff)
	}
	c2.ok("GET", "/pools/kept", nil)
	deadline := time.Now().Add(5 * time.Second)
	for f.State("100") != host.Running && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	if f.State("100") != host.Running || f.State("101") == host.Running {
		t.Errorf("after the restart 100 is %s and 101 is %s", f.State("100"), f.State("101"))
	}
}

// checkPrivate wants secrets readable by the owner only.
func checkPrivate(t *testing.T, dir string) {
	t.Helper()
	for _, name := range []string{"state.json", "server-key.pem", "id_ed25519", "ssh_host_pve1_ed25519"} {
		st, err := os.Stat(filepath.Join(dir, name))
		if err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, st, err)
		}
	}
}

func TestCapacity(t *testing.T) {
	_, c, _ := startServer(t, Options{Nodes: []NodeSpec{{Name: "pve1", Cores: 4, MemoryGB: 4, StorageGB: 100}}})
	const qemu = "/nodes/pve1/qemu"
	if exit := c.task("POST", qemu, "vmid=100&memory=3072&virtio0=local:60"); exit != "OK" {
		t.Fatal(exit)
	}
	if exit := c.task(
		"POST", qemu, "vmid=101&memory=3072&virtio0=local:60",
	); !strings.Contains(exit, "No space left on device") {
		t.Errorf("disk that does not fit: %s", exit)
	}
	if a := c.do("GET", qemu+"/101/config", nil); a.Status != 500 {
		t.Errorf("the VM that could not be made is there: %+v", a)
	}
	if exit := c.task(
		"POST", qemu, "vmid=102&virtio0=local-lvm:200",
	); !strings.Contains(exit, "insufficient free space") {
		t.Errorf("block storage: %s", exit)
	}
	if exit := c.task(
		"PUT", qemu+"/100/resize", "disk=virtio0&size=120G",
	); !strings.Contains(exit, "failed: exit code 1") {
		t.Errorf("resize that does not fit: %s", exit)
	}
	c.task("POST", qemu, "vmid=101&memory=3072&virtio0=local:1")
	c.task("POST", qemu, "vmid=103&cores=8")
	if exit := c.task("POST", qemu+"/100/status/start", nil); exit != "OK" {
		t.Errorf("start: %s", exit)
	}
	if exit := c.task("POST", qemu+"/101/status/start", nil); exit != "start failed: QEMU exited with code 1" {
		t.Errorf("memory that does not fit: %s", exit)
	}
	if exit := c.task("POST", qemu+"/103/status/start", nil); exit != "MAX 4 vcpus allowed per VM on this node" {
		t.Errorf("cores: %s", exit)
	}
}

func TestLocks(t *testing.T) {
	s, c, f := startServer(t, Options{LockTimeout: 50 * time.Millisecond})
	const vm = "/nodes/pve1/qemu/320"
	c.task("POST", "/nodes/pve1/qemu", "vmid=320&virtio0=local:1")
	c.task("POST", vm+"/status/start", nil)
	s.mu.Lock()
	s.state.VMs[320].Config["lock"] = "backup"
	s.mu.Unlock()
	if a := c.do("PUT", vm+"/config", "name=x"); a.Status != 500 || a.Reason != "VM is locked (backup)" {
		t.Errorf("config = %+v", a)
	}
	for _, call := range [][3]string{{"POST", vm + "/status/stop", ""}, {
		"PUT", vm + "/resize", "disk=virtio0&size=2G",
	}} {
		if exit := c.task(call[0], call[1], call[2]); exit != "VM is locked (backup)" {
			t.Errorf("%s = %s", call[1], exit)
		}
	}
	s.mu.Lock()
	delete(s.state.VMs[320].Config, "lock")
	s.mu.Unlock()
	f.mu.Lock()
	f.deaf = true
	f.mu.Unlock()
	upid, _ := c.ok("POST", vm+"/status/shutdown", "timeout=1&forceStop=1").(string)
	waitForLock(t, s, 320)
	if a := c.do(
		"PUT", vm+"/config", "name=x",
	); a.Reason != "can't lock file '/var/lock/qemu-server/lock-320.conf' - got timeout" {
		t.Errorf("config during a shutdown = %+v", a)
	}
	if exit := c.wait(upid); exit != "OK" {
		t.Errorf("forced shutdown = %s", exit)
	}
	log, _ := c.ok("GET", "/nodes/pve1/tasks/"+url.PathEscape(upid)+"/log", nil).([]any)
	if len(log) != 2 || log[0].(map[string]any)["t"] != "VM still running - terminating now with SIGTERM" {
		t.Errorf("log = %v", log)
	}
}

// waitForLock returns when a task holds a VM's lock.
func waitForLock(t *testing.T, s *Server, vmid int) {
	t.Helper()
	for range 1000 {
		s.mu.Lock()
		held := len(s.vmLocks[vmid]) == 1
		s.mu.Unlock()
		if held {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("nobody locks the VM")
}

func TestAgent(t *testing.T) {
	_, c, f := startServer(t, Options{})
	const vm = "/nodes/pve1/qemu/170"
	ifs := func() answer { return c.do("GET", vm+"/agent/network-get-interfaces", nil) }
	c.task("POST", "/nodes/pve1/qemu", "vmid=170&name=guest&net0=virtio,bridge%3Dvmbr0&ipconfig0=ip%3D10.0.0.5/24")
	if a := ifs(); a.Reason != "No QEMU guest agent configured" {
		t.Errorf("without agent = %+v", a)
	}
	c.ok("PUT", vm+"/config", "agent=1")
	if a := ifs(); a.Reason != "VM 170 is not running" {
		t.Errorf("stopped = %+v", a)
	}
	c.task("POST", vm+"/status/start", nil)
	if a := ifs(); a.Status != 200 || !strings.Contains(a.Body, `"ip-address":"10.0.0.5"`) {
		t.Errorf("running = %+v", a)
	}
	exec, _ := c.ok("POST", vm+"/agent/exec", map[string]any{
		"command": []string{"echo", "a b"}, "input-data": "in",
	}).(map[string]any)
	status := vm + fmt.Sprintf("/agent/exec-status?pid=%v", exec["pid"])
	if got := c.ok("GET", status, nil); !cmp.Equal(got, map[string]any{
		"exited": 1.0, "exitcode": 0.0, "out-data": "a b\nin", "out-truncated": 0.0,
	}) {
		t.Errorf("exec-status = %v", got)
	}
	if a := c.do("GET", status, nil); a.Reason != "Agent error: Invalid parameter 'pid'" {
		t.Errorf("second exec-status = %+v", a)
	}
	if a := c.do("POST", vm+"/agent/exec", "command=/nope"); a.Status != 596 || a.Body != "" {
		t.Errorf("missing program = %+v", a)
	}
	if got := c.ok("GET", vm+"/agent/file-read?file=/etc/hostname", nil); !cmp.Equal(got, map[string]any{
		"content": "guest\n", "bytes-read": 6.0,
	}) {
		t.Errorf("file-read = %v", got)
	}
	if a := c.do(
		"GET", vm+"/agent/file-read?file=/nope", nil,
	); a.Reason != "Agent error: failed to open file '/nope' (mode: 'r'): No such file or directory" {
		t.Errorf("missing file = %+v", a)
	}
	f.mu.Lock()
	f.agentOff = true
	f.mu.Unlock()
	if a := ifs(); a.Reason != "QEMU guest agent is not running" {
		t.Errorf("dead agent = %+v", a)
	}
}

// What is written by the guest agent is there, byte by byte (as observed with a real agent on 8.4).
func TestAgentWritesFiles(t *testing.T) {
	_, c, _ := startServer(t, Options{})
	const vm = "/nodes/pve1/qemu/170"
	c.task("POST", "/nodes/pve1/qemu", "vmid=170&agent=1")
	c.task("POST", vm+"/status/start", nil)
	for _, row := range []struct {
		form   url.Values
		reason string
		bytes  float64 // that are read back
		text   string
	}{
		{url.Values{"file": {"/tmp/w1"}, "content": {"hello\nworld \u00fc\n"}}, "OK", 14, "hello\nworld \u00fc\n"},
		{url.Values{"file": {"/tmp/w2"}, "content": {"AAEC/w=="}, "encode": {"0"}}, "OK", 4, "\x00\x01\x02\u00ff"},
		{url.Values{"file": {"/tmp/w3"}, "content": {""}}, "OK", 0, ""},
		{url.Values{"file": {"/nope/x"}, "content": {"x"}}, "Agent error: failed to open file '/nope/x' (mode: 'wb'): No such file or directory", 0, ""},
		{url.Values{"file": {"/tmp/big"}, "content": {strings.Repeat("x", 61441)}}, "Parameter verification failed.", 0, ""},
	} {
		if a := c.do("POST", vm+"/agent/file-write", row.form); a.Reason != row.reason {
			t.Errorf("%s = %d %s %v, want %s", row.form.Get("file"), a.Status, a.Reason, a.Errors, row.reason)
			continue
		}
		if row.reason != "OK" {
			continue
		}
		want := map[string]any{"content": row.text, "bytes-read": row.bytes}
		if diff := cmp.Diff(want, c.ok("GET", vm+"/agent/file-read?file="+row.form.Get("file"), nil)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row.form.Get("file"), diff)
		}
	}
	if a := c.do(
		"POST", vm+"/agent/set-user-password", "username=root&password=12345",
	); a.Reason != "Agent error: The command guest-set-user-password has not been found" {
		t.Errorf("set-user-password = %+v", a)
	}
	if got := c.ok("POST", vm+"/agent/fstrim", nil); !strings.Contains(
		fmt.Sprint(got), "guest-fstrim has not been found",
	) {
		t.Errorf("fstrim = %v", got)
	}
}

func TestPendingChanges(t *testing.T) {
	_, c, _ := startServer(t, Options{})
	const vm = "/nodes/pve1/qemu/171"
	c.task("POST", "/nodes/pve1/qemu", "vmid=171&memory=64&name=old")
	c.task("POST", vm+"/status/start", nil)
	c.ok("PUT", vm+"/config", "memory=128&name=new")
	live, _ := c.ok("GET", vm+"/config?current=1", nil).(map[string]any)
	if next := c.config(vm); next["memory"] != "128" || live["memory"] != "64" || live["name"] != "new" {
		t.Errorf("pending %v, live %v", next, live)
	}
	c.task("POST", vm+"/status/reboot", "timeout=5")
	live, _ = c.ok("GET", vm+"/config?current=1", nil).(map[string]any)
	if live["memory"] != "128" {
		t.Errorf("after a reboot: %v", live)
	}
}

func TestResourcesLag(t *testing.T) {
	_, c, _ := startServer(t, Options{ResourcesLag: time.Hour})
	c.ok("GET", "/cluster/resources?type=vm", nil)
	c.task("POST", "/nodes/pve1/qemu", "vmid=200&name=late&tags=t")
	want := []any{map[string]any{
		"id": "qemu/200", "node": "pve1", "type": "qemu", "vmid": 200.0, "tags": "t", "status": "unknown",
	}}
	if diff := cmp.Diff(want, c.ok("GET", "/cluster/resources?type=vm", nil)); diff != "" {
		t.Errorf("a new VM (-want +got):\n%s", diff)
	}
}

func TestUpload(t *testing.T) {
	_, c, _ := startServer(t, Options{})
	upload := func(storage, name string, content []byte, fields ...[2]string) answer {
		var b bytes.Buffer
		w := multipart.NewWriter(&b)
		for _, f := range fields {
			_ = w.WriteField(f[0], f[1])
		}
		p, _ := w.CreateFormFile("filename", name)
		_, _ = p.Write(content)
		_ = w.Close()
		h := http.Header{"Authorization": {"PVEAPIToken=" + c.token}, "Content-Type": {w.FormDataContentType()}}
		return c.raw("POST", full("/nodes/pve1/storage/"+storage+"/upload"), h, &b)
	}
	c.ok("POST", "/storage", "storage=store2&type=dir&path=/mnt/store2&content=iso")
	head := append([]byte("QFI\xfb"), make([]byte, 60)...)
	head[28] = 0x40 // 1 GiB
	tests := []struct {
		name, storage, file, content string
		body                         []byte
		want                         string
	}{
		{"iso", "local", "up.iso", "iso", []byte("x"), "OK"},
		{"image", "local", "up.qcow2", "import", head, "OK"},
		{"no image", "local", "bad.qcow2", "import", []byte("x"), "Image is not in qcow2 format"},
		{"wrong extension", "local", "up.txt", "iso", []byte("x"), "wrong file extension"},
		{"snippets", "local", "a.yaml", "snippets", []byte("x"), "value 'snippets' does not have a value in the enumeration 'iso, vztmpl, import'"},
		{"storage without the content", "store2", "up.qcow2", "import", head, "storage 'store2' does not support 'import' content"},
		{"storage without files", "local-lvm", "up.iso", "iso", []byte("x"), "can't upload to storage type 'lvmthin'"},
		{"unknown storage", "nope", "up.iso", "iso", []byte("x"), "storage 'nope' does not exist"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := upload(tt.storage, tt.file, tt.body, [2]string{"content", tt.content})
			got := a.Reason + fmt.Sprint(a.Errors)
			if upid, ok := a.Data.(string); ok {
				got = c.wait(upid)
			}
			if !strings.Contains(got, tt.want) {
				t.Errorf("= %s, want %s", got, tt.want)
			}
		})
	}
	if a := upload("local", "x.iso", []byte("x"), [2]string{"bogus", "1"}); a.Status != 400 ||
		a.Reason != "Bad Request" || a.Body != "" {
		t.Errorf("unknown field = %+v", a)
	}
	if exit := c.task(
		"POST", "/nodes/pve1/qemu", "vmid=100&virtio0=local:0,import-from%3Dlocal:import/up.qcow2",
	); exit != "OK" {
		t.Errorf("use of the upload: %s", exit)
	}
	if got := c.config("/nodes/pve1/qemu/100")["virtio0"]; got != "local:100/vm-100-disk-0.qcow2,size=1G" {
		t.Errorf("disk = %v", got)
	}
}

// Version 9 says in a task's log that a disk is there, before it is filled (recorded).
func TestLogOfAnImport(t *testing.T) {
	for version, says := range map[string]bool{Version84: false, Version92: true} {
		_, c, _ := startServer(t, Options{Version: version})
		upid, _ := c.ok("POST", "/nodes/pve1/qemu", "vmid=100&virtio0=local:0,import-from%3D"+SeedImport).(string)
		if exit := c.wait(upid); exit != "OK" {
			t.Fatalf("%s: %s", version, exit)
		}
		log := fmt.Sprint(c.ok("GET", "/nodes/pve1/tasks/"+url.PathEscape(upid)+"/log", nil))
		if got := strings.Contains(log, "allocated target volume 'local:100/vm-100-disk-0.qcow2'"); got != says {
			t.Errorf("%s: %s", version, log)
		}
	}
}

// TestManyAtOnce wants exactly one winner where ids collide, and no damage where they do not.
func TestManyAtOnce(t *testing.T) {
	_, c, _ := startServer(t, Options{TaskDuration: 2 * time.Millisecond})
	var wg sync.WaitGroup
	var mu sync.Mutex
	won := 0
	for i := range 10 {
		node := fmt.Sprintf("/nodes/pve%d/qemu", i%3+1)
		wg.Go(func() {
			if a := c.do("POST", node, "vmid=500"); a.Status == 200 {
				mu.Lock()
				won++
				mu.Unlock()
				c.wait(a.Data.(string))
			}
		})
		wg.Go(func() {
			id := itoa(600 + i)
			vm := node + "/" + id
			for _, step := range [][3]string{
				{"POST", node, "vmid=" + id + "&virtio0=local:1&net0=virtio,bridge%3Dvmbr0"},
				{"PUT", vm + "/resize", "disk=virtio0&size=2G"},
				{"POST", vm + "/status/start", ""},
				{"POST", vm + "/status/stop", ""},
				{"DELETE", vm, ""},
			} {
				a := c.do(step[0], step[1], step[2])
				if a.Status != 200 {
					t.Errorf("%s = %d %s", step[1], a.Status, a.Reason)
					return
				}
				if exit := c.wait(a.Data.(string)); exit != "OK" {
					t.Errorf("%s: %s", step[1], exit)
				}
			}
		})
		wg.Go(func() { c.ok("GET", "/cluster/resources", nil); c.ok("GET", "/sim/journal", nil) })
	}
	wg.Wait()
	if won != 1 {
		t.Errorf("%d of 10 creates of one id succeeded", won)
	}
	rows, _ := c.ok("GET", "/cluster/resources?type=vm", nil).([]any)
	if len(rows) != 1 {
		t.Errorf("left: %v", rows)
	}
}

func TestIdle(t *testing.T) {
	s, c, _ := startServer(t, Options{})
	time.Sleep(5 * time.Millisecond)
	if s.Idle() < 5*time.Millisecond {
		t.Error("not idle without requests")
	}
	c.task("POST", "/nodes/pve1/qemu", "vmid=100")
	time.Sleep(5 * time.Millisecond)
	if s.Idle() != 0 {
		t.Error("idle with a VM")
	}
}

func TestReadFaults(t *testing.T) {
	tests := map[string]string{
		`[{"path":"/x","status":500}]`:           "",
		`{"faults":[{"path":"/x","drop":true}]}`: "",
		`{"path":"/x","delay":1.5}`:              "",
		`{"path":"/x","stauts":500}`:             `unknown field "stauts"`,
		`[{"path":"/x","delay":"soon"}]`:         "invalid duration",
	}
	for text, want := range tests {
		file := filepath.Join(t.TempDir(), "faults.json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := ReadFaults(file)
		if (err == nil) != (want == "") || (err != nil && !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// Texts of the real server while most hypervisors are away. What is made or started is refused, what is written too.
func TestWithoutQuorum(t *testing.T) {
	s, c, _ := startServer(t, Options{})
	const vm = "/nodes/pve1/qemu/115"
	c.task("POST", "/nodes/pve1/qemu", "vmid=115&memory=64&virtio0=local:1")
	for _, name := range []string{"pve2", "pve3"} {
		if err := s.SetOnline(name, false); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct{ method, path, body, want string }{
		{"POST", "/nodes/pve1/qemu", "vmid=116", "cluster not ready - no quorum?"},
		{"POST", vm + "/clone", "newid=116", "cluster not ready - no quorum?"},
		{"POST", vm + "/status/start", "", "cluster not ready - no quorum?"},
		{"POST", "/pools", "poolid=p", "create pool failed: cfs-lock 'file-user_cfg' error: no quorum!"},
		{"PUT", "/access/acl", "path=/&roles=PVEAuditor&users=root@pam", "ACL update failed: cfs-lock 'file-user_cfg' error: no quorum!"},
		{"PUT", "/storage/local", "content=iso", "update storage failed: cfs-lock 'file-storage_cfg' error: no quorum!"},
		{"PUT", vm + "/config", "description=x", "unable to open file '/etc/pve/nodes/pve1/qemu-server/115.TEMPORARY' - Permission denied"},
	} {
		if a := c.do(tc.method, tc.path, tc.body); a.Status != 500 || steady(a.Reason) != tc.want {
			t.Errorf("%s %s = %d %s, want 500 %s", tc.method, tc.path, a.Status, a.Reason, tc.want)
		}
	}
	if exit := c.task("DELETE", vm, nil); !strings.HasSuffix(exit, "Permission denied") {
		t.Errorf("delete: task %q", exit)
	}
	if config := c.config(vm); config["description"] != nil || config["virtio0"] == nil {
		t.Errorf("the configuration is %v, want it as it was", config)
	}
	if free := c.ok("GET", "/cluster/nextid?vmid=116", nil); free != "116" {
		t.Errorf("nextid = %v", free)
	}
}
