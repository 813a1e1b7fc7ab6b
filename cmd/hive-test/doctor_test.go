package main_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"hive-test/pkg/cluster"
)

// testEnv is a simulated Proxmox VE that is set up wrongly in many ways, one after the other, and the user who asks
// doctor.
type testEnv struct {
	testing.TB
	dir    string
	bin    string
	tofu   string
	sim    simEnv
	client *http.Client
	token  string          // of the user: a separated one whose role doctor itself prints
	ran    map[string]bool // steps that were run on hypervisors
}

func newWard(t testing.TB) *testEnv {
	t.Helper()
	w := startWard(t, "8", "1")
	w.must("PUT", "/access/acl", "path=/", "tokens=hive@pve!ci", "roles=HiveTest")
	return w
}

// startWard starts a simulator and makes the role that is printed for a version, with a user and a token that have it.
func startWard(t testing.TB, major, privsep string, flags ...string) *testEnv {
	t.Helper()
	w := startSimulator(t, flags...)
	w.token = w.wayB(major, "hive@pve", "ci", privsep)
	return w
}

// startSimulator starts a simulator of its own, which ends with the test.
func startSimulator(t testing.TB, flags ...string) *testEnv {
	t.Helper()
	skipInShort(t)
	found := tofus()
	if len(found) == 0 {
		t.Fatal("neither tofu nor terraform is there: run `make tofu`, or `make test`, which does it")
	}
	w := &testEnv{
		TB: t, dir: t.TempDir(), bin: os.Getenv("HIVE_TEST_BIN_DIR"), tofu: first(found), ran: map[string]bool{},
	}
	t.Cleanup(func() { w.program("hive-sim", "pve", "stop", "--clusters-dir", w.clusters(), "--wipe") })
	w.program("hive-sim", append([]string{"pve", "start", "--clusters-dir", w.clusters()}, flags...)...)
	if err := json.Unmarshal(
		w.program("hive-sim", "pve", "env", "--clusters-dir", w.clusters(), "--format", "json"), &w.sim,
	); err != nil {
		t.Fatal(err)
	}
	pem, err := os.ReadFile(w.sim.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, MaxIdleConnsPerHost: 8}
	t.Cleanup(transport.CloseIdleConnections)
	w.client = &http.Client{Transport: transport}
	return w
}

func (w *testEnv) clusters() string { return filepath.Join(w.dir, "clusters") }

// wayB makes the role as printed for a version, and a user and a token that have it.
func (w *testEnv) wayB(major, user, token, privsep string) string {
	w.Helper()
	script := string(w.program("hive-test", "doctor", "--print-role"))
	_, script, _ = strings.Cut(script, "# Proxmox VE "+major+":")
	privs := regexp.MustCompile(`pveum role add HiveTest --privs '([^']+)'`).FindStringSubmatch(script)
	if privs == nil {
		w.Fatalf("no role is printed:\n%s", script)
	}
	w.must("POST", "/access/roles", "roleid=HiveTest", "privs="+privs[1])
	w.must("POST", "/access/users", "userid="+user)
	w.must("PUT", "/access/acl", "path=/", "users="+user, "roles=HiveTest")
	var made struct {
		Data struct {
			Value string `json:"value"`
		} `json:"data"`
	}
	if err := json.Unmarshal(
		w.must("POST", "/access/users/"+user+"/token/"+token, "privsep="+privsep), &made,
	); err != nil {
		w.Fatal(err)
	}
	return user + "!" + token + "=" + made.Data.Value
}

// program runs one of the programs, which must succeed, and returns its standard output.
func (w *testEnv) program(name string, args ...string) []byte {
	w.Helper()
	command := exec.Command(filepath.Join(w.bin, name), args...)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		w.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, stderr.String())
	}
	return out
}

// call asks the simulator as root: a path below /sim is the simulator's own, and its body is JSON.
func (w *testEnv) call(method, path string, pairs ...string) (int, []byte) {
	w.Helper()
	kind, body, prefix := "application/x-www-form-urlencoded", "", "/api2/json"
	if strings.HasPrefix(path, "/sim/") {
		kind, body, prefix = "application/json", strings.Join(pairs, ""), ""
	} else {
		form := url.Values{}
		for _, pair := range pairs {
			name, value, _ := strings.Cut(pair, "=")
			form.Set(name, value)
		}
		body = form.Encode()
	}
	if method == http.MethodGet || method == http.MethodDelete {
		body = ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, w.sim.Endpoint+prefix+path, strings.NewReader(body))
	if err != nil {
		w.Fatal(err)
	}
	request.Header.Set("Authorization", "PVEAPIToken="+w.sim.Token)
	request.Header.Set("Content-Type", kind)
	response, err := w.client.Do(request)
	if err != nil {
		w.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		w.Fatal(err)
	}
	return response.StatusCode, answer
}

func (w *testEnv) must(method, path string, pairs ...string) []byte {
	w.Helper()
	status, answer := w.call(method, path, pairs...)
	if status >= 400 {
		w.Fatalf("%s %s: %d %s", method, path, status, answer)
	}
	return answer
}

// vm makes a VM and waits until it is there.
func (w *testEnv) vm(id int, pairs ...string) {
	w.Helper()
	var task struct{ Data string }
	if err := json.Unmarshal(
		w.must("POST", "/nodes/pve1/qemu", append([]string{"vmid=" + strconv.Itoa(id)}, pairs...)...), &task,
	); err != nil {
		w.Fatal(err)
	}
	w.until(func() bool {
		return bytes.Contains(
			w.must("GET", "/nodes/pve1/tasks/"+url.PathEscape(task.Data)+"/status"), []byte(`"stopped"`),
		)
	})
}

func (w *testEnv) until(done func() bool) {
	w.Helper()
	for wait := 5 * time.Millisecond; !done(); wait = min(wait*2, 200*time.Millisecond) {
		time.Sleep(wait)
	}
}

// settings are what the user has configured, all of it right.
type settings struct {
	file  map[string]any
	pve   map[string]any // proxmox.*
	token string
	name  string // argument of doctor
}

func (w *testEnv) settings() *settings {
	var hosts []map[string]any
	for _, h := range w.sim.Hypervisors {
		copied := map[string]any{}
		for key, value := range h {
			copied[key] = value
		}
		copied["datastore_id"] = "local-lvm"
		hosts = append(hosts, copied)
	}
	pve := map[string]any{
		"endpoint": w.sim.Endpoint, "ca_file": w.sim.CAFile, "hypervisors": hosts, "ssh_username": "ops",
		"ssh_private_key_path": w.sim.SSHPrivateKey,
		"call_timeout":         "3500ms", // so that what hangs is found within the time of the test
	}
	return &settings{
		file: map[string]any{"tofu_bin": w.tofu, "provider_mirror": w.sim.ProviderMirror, "proxmox": pve}, pve: pve,
		token: w.token,
	}
}

// set is `set KEY to VALUE` of a fix; nil unsets.
func (s *settings) set(key string, value any) {
	into := s.file
	if rest, nested := strings.CutPrefix(key, "proxmox."); nested {
		into, key = s.pve, rest
	}
	if value == nil {
		delete(into, key)
		return
	}
	into[key] = value
}

type finding struct{ ID, Title, Status, Detail, Fix string }

type diagnosis struct {
	Schema  int
	OK      bool
	Checks  []finding
	code    int
	elapsed time.Duration
	stderr  string
}

// trouble is what is not well.
func (d diagnosis) trouble() []finding {
	return slices.DeleteFunc(
		slices.Clone(d.Checks), func(f finding) bool { return f.Status == "pass" || f.Status == "skip" },
	)
}

func (w *testEnv) doctor(s *settings) diagnosis {
	w.Helper()
	raw, err := yaml.Marshal(s.file)
	if err != nil {
		w.Fatal(err)
	}
	config := filepath.Join(w.dir, "config.yaml")
	if err := os.WriteFile(config, raw, 0o600); err != nil {
		w.Fatal(err)
	}
	args := []string{"doctor", "--config", config, "-o", "json"}
	if s.name != "" {
		args = append(args, s.name)
	}
	command := exec.Command(filepath.Join(w.bin, "hive-test"), args...)
	command.Env = append(
		plainEnviron(), "PROXMOX_VE_API_TOKEN="+s.token, "HOME="+w.dir, "XDG_CACHE_HOME="+filepath.Join(w.dir, "cache"),
		"HIVE_TEST_CLUSTERS_DIR="+filepath.Join(w.dir, "mine"),
	)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	start := time.Now()
	if err := command.Run(); command.ProcessState == nil {
		w.Fatal(err)
	}
	d := diagnosis{elapsed: time.Since(start), code: command.ProcessState.ExitCode(), stderr: stderr.String()}
	if err := json.Unmarshal(stdout.Bytes(), &d); err != nil {
		w.Fatalf("doctor wrote %q, %q: %v", stdout.String(), stderr.String(), err)
	}
	return d
}

// plainEnviron is this process's environment without settings.
func plainEnviron() []string {
	return slices.DeleteFunc(os.Environ(), func(pair string) bool {
		return strings.HasPrefix(pair, "HIVE_TEST_") || strings.HasPrefix(pair, "PROXMOX_VE_") ||
			strings.HasPrefix(pair, "TF_VAR_")
	})
}

// applyFix does what the first part of a fix says, as a user would: commands for a hypervisor, a local ssh-keygen, or
// settings. It reports whether it could.
func (w *testEnv) applyFix(fix string, s *settings) bool {
	w.Helper()
	if match := regexp.MustCompile(
		`(?:^|, or )set (proxmox\.[a-z_]+|os_image|cpu_cores|memory_mb|disk_size_gb)(?: to| of)? (?:one (?:that is there|of): )?([^ ,]+)`,
	).FindStringSubmatch(fix); match != nil && !strings.Contains(fix, "pve-root-ca") {
		s.set(match[1], number(match[2]))
		return true
	}
	if match := regexp.MustCompile(`set (proxmox\.fingerprint) \(.*\) to (\S+)`).FindStringSubmatch(fix); match != nil {
		s.set(match[1], match[2])
		return true
	}
	if match := regexp.MustCompile(`^unset (\w+)`).FindStringSubmatch(fix); match != nil {
		s.set(match[1], nil)
		return true
	}
	if strings.HasPrefix(fix, "ssh-keygen") {
		command, _, _ := strings.Cut(fix, ",")
		if out, err := exec.Command("sh", "-c", command).CombinedOutput(); err != nil {
			w.Fatalf("%s: %v %s", command, err, out)
		}
		w.ran["ssh-keygen"] = true
		return true
	}
	return w.administer(fix) > 0
}

// administer runs the commands for hypervisors that a fix names, and returns how many there are.
func (w *testEnv) administer(fix string) int {
	w.Helper()
	steps := hostSteps(fix)
	for _, step := range steps {
		// it may be stopped already
		if w.onHypervisor(step.host, step.command) != 0 && !strings.Contains(step.command, "qm stop") {
			w.Errorf("on %s, %s fails", step.host, step.command)
		}
	}
	return len(steps)
}

func number(text string) any {
	if n, err := strconv.Atoi(text); err == nil {
		return n
	}
	return text
}

// onHypervisor runs a command as root on a hypervisor, and returns its status.
func (w *testEnv) onHypervisor(host, command string) int {
	w.Helper()
	out, status, err := w.sim.onHypervisor(host, command)
	if err != nil {
		w.Fatalf("on %s, %s: %v", host, command, err)
	}
	w.Logf("on %s, %s: %d %s", host, command, status, out)
	for _, step := range stepsIn(command) {
		w.ran[step] = true
	}
	return status
}

// mistake is something that makes up fail. Where mend is nil, the printed fix is carried out as it stands; else its
// commands for hypervisors are run, and mend does what the fix, which must contain advice, tells a person to do.
type mistake struct {
	name   string
	make   func(w *testEnv, s *settings)
	id     string
	warn   bool
	advice string
	mend   func(w *testEnv, s *settings)
	after  func(w *testEnv, s *settings) // for the next one
}

func write(w *testEnv, name, text string) string {
	path := filepath.Join(w.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		w.Fatal(err)
	}
	return path
}

func mistakes() []mistake {
	set := func(key string, value any) func(*testEnv, *settings) {
		return func(_ *testEnv, s *settings) { s.set(key, value) }
	}
	online := func(value string, hosts ...string) func(*testEnv, *settings) {
		return func(w *testEnv, _ *settings) {
			for _, h := range hosts {
				w.must("POST", "/sim/nodes/"+h, `{"online":`+value+`}`)
			}
		}
	}
	hosts := func(s *settings) []map[string]any { return s.pve["hypervisors"].([]map[string]any) }
	return []mistake{
		{name: "no such tofu", make: set("tofu_bin", "/nonexistent/tofu"), id: "tofu", advice: "unset tofu_bin", mend: func(w *testEnv, s *settings) { s.set("tofu_bin", w.tofu) }},
		{name: "a mirror without the provider", make: func(w *testEnv, s *settings) { s.set("provider_mirror", w.dir) }, id: "provider", advice: "mirror", mend: func(w *testEnv, s *settings) { s.set("provider_mirror", w.sim.ProviderMirror) }},
		{name: "public key of another pair", make: func(w *testEnv, s *settings) {
			for _, name := range []string{"one", "two"} {
				if out, err := exec.Command(
					"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(w.dir, name),
				).CombinedOutput(); err != nil {
					w.Skipf("no key pair can be made: %v %s", err, out)
				}
			}
			s.set("ssh_private_key_path", filepath.Join(w.dir, "one"))
			if err := os.Rename(filepath.Join(w.dir, "two.pub"), filepath.Join(w.dir, "one.pub")); err != nil {
				w.Fatal(err)
			}
		}, id: "ssh-key"},
		{name: "no hypervisors", make: set("proxmox.hypervisors", nil), id: "settings", advice: "set proxmox.hypervisors", mend: func(w *testEnv, s *settings) { s.set("proxmox.hypervisors", w.settings().pve["hypervisors"]) }},
		{name: "no token", make: func(_ *testEnv, s *settings) { s.token = "" }, id: "settings", advice: "PROXMOX_VE_API_TOKEN", mend: func(w *testEnv, s *settings) { s.token = w.token }},
		{name: "a token without its user", make: func(_ *testEnv, s *settings) { s.token = "ci=00000000" }, id: "pve-token", advice: "user@realm!name=secret", mend: func(w *testEnv, s *settings) { s.token = w.token }},
		{name: "a wrong secret", make: func(w *testEnv, s *settings) {
			s.token = strings.Split(w.token, "=")[0] + "=00000000-0000-0000-0000-000000000000"
		}, id: "pve-token", advice: "pveum user token list hive@pve", mend: func(w *testEnv, s *settings) { s.token = w.token }},
		{name: "nobody there", make: set("proxmox.endpoint", "https://127.0.0.1:1"), id: "pve-endpoint", advice: "check proxmox.endpoint", mend: func(w *testEnv, s *settings) { s.set("proxmox.endpoint", w.sim.Endpoint) }},
		{name: "an unknown CA", make: set("proxmox.ca_file", nil), id: "pve-tls"},
		{name: "a CA file that is none", make: func(w *testEnv, s *settings) { s.set("proxmox.ca_file", write(w, "not.pem", "nothing")) }, id: "pve-tls", advice: "pve-root-ca.pem", mend: func(w *testEnv, s *settings) { s.set("proxmox.ca_file", w.sim.CAFile) }},
		{name: "a pinned certificate of another name", make: func(w *testEnv, s *settings) {
			fingerprint, err := w.sim.fingerprint()
			if err != nil {
				w.Fatal(err)
			}
			s.set("proxmox.ca_file", nil)
			s.set("proxmox.fingerprint", fingerprint)
			s.set("proxmox.endpoint", strings.Replace(w.sim.Endpoint, "127.0.0.1", "0.0.0.0", 1))
		}, id: "pve-tls-name"},
		{name: "a CA's certificate of another name", make: func(w *testEnv, s *settings) {
			s.set("proxmox.endpoint", strings.Replace(w.sim.Endpoint, "127.0.0.1", "0.0.0.0", 1))
		}, id: "pve-tls"},
		{name: "an endpoint with a path", make: func(w *testEnv, s *settings) { s.set("proxmox.endpoint", w.sim.Endpoint+"/pve") }, id: "pve-endpoint"},
		{name: "a clock that is wrong", make: func(w *testEnv, _ *settings) { w.must("POST", "/sim/clock", `{"skew":"-3m"}`) }, id: "clock"},
		{name: "no such hypervisor", make: func(_ *testEnv, s *settings) { hosts(s)[2]["name"] = "pve9" }, id: "pve-hypervisors", advice: "some of: pve1, pve2, pve3", mend: func(_ *testEnv, s *settings) { hosts(s)[2]["name"] = "pve3" }},
		{name: "a hypervisor that is off", make: online("false", "pve3"), id: "pve-hypervisors", advice: "start pve3", mend: online("true", "pve3")},
		{name: "a hypervisor that hangs", make: func(w *testEnv, _ *settings) {
			w.must("POST", "/sim/faults", `{"path":"/nodes/pve2/**","delay":"20s"}`)
		}, id: "pve-hypervisors", advice: "systemctl status pveproxy", mend: func(w *testEnv, _ *settings) { w.must("DELETE", "/sim/faults") }},
		{name: "no quorum", make: func(w *testEnv, s *settings) {
			online("false", "pve2", "pve3")(w, s)
			s.set("proxmox.hypervisors", hosts(s)[:1])
		}, id: "pve-quorum", after: online("true", "pve2", "pve3")},
		{name: "a separated token without an ACL", make: func(w *testEnv, _ *settings) {
			w.must("PUT", "/access/acl", "path=/", "tokens=hive@pve!ci", "roles=HiveTest", "delete=1")
		}, id: "pve-privileges"},
		{name: "a user without an ACL", make: func(w *testEnv, _ *settings) {
			w.must("PUT", "/access/acl", "path=/", "users=hive@pve", "roles=HiveTest", "delete=1")
		}, id: "pve-privileges"},
		{name: "a separated token of root's without an ACL", make: func(w *testEnv, s *settings) { s.token = w.madeToken("root@pam", "bare", "privsep=1") }, id: "pve-privileges"},
		{name: "a token that ends soon", make: func(w *testEnv, s *settings) {
			s.token = w.madeToken(
				"root@pam", "brief", "privsep=0", fmt.Sprint("expire=", time.Now().Add(time.Hour).Unix()),
			)
		}, id: "pve-privileges", warn: true},
		{name: "a role without what asks guest agents", make: func(w *testEnv, _ *settings) {
			w.must("PUT", "/access/roles/HiveTest", "privs="+w.without("VM.Monitor"))
		}, id: "pve-privileges"},
		{name: "tags that are registered", make: func(w *testEnv, s *settings) {
			w.vm(903, "name=debian", "agent=enabled=1", "scsi0=local-lvm:2", "template=1")
			s.set("template", 903)
			s.set("proxmox.hypervisors", hosts(s)[:1])
			w.must("PUT", "/access/roles/HiveTest", "privs="+w.without("Sys.Modify"))
			w.must("PUT", "/cluster/options", "registered-tags=hive-test;prod")
		}, id: "pve-tags"},
		{name: "a tag that is the only one registered", make: func(w *testEnv, s *settings) {
			s.set("template", 903)
			s.set("proxmox.hypervisors", hosts(s)[:1])
			w.must("PUT", "/cluster/options", "registered-tags=hive-test")
		}, id: "pve-tags"},
		{name: "tags that users may not choose", make: func(w *testEnv, s *settings) {
			s.set("template", 903)
			s.set("proxmox.hypervisors", hosts(s)[:1])
			w.must("PUT", "/cluster/options", "user-tag-access=user-allow=list")
		}, id: "pve-tags"},
		{name: "no pool", make: set("proxmox.pool", "qa"), id: "pve-pool"},
		{name: "no such image", make: set("os_image", "local:iso/nope.img"), id: "pve-image", advice: "set os_image to one that is there", mend: set("os_image", nil)},
		{name: "no such template", make: set("template", 9999), id: "pve-template", advice: "set template", mend: set("template", nil)},
		{name: "a template that is a VM", make: func(w *testEnv, s *settings) {
			w.vm(900, "name=debian", "agent=enabled=1", "scsi0=local-lvm:2")
			s.set("template", 900)
		}, id: "pve-template"},
		{name: "a template without agent", make: func(w *testEnv, s *settings) {
			w.vm(901, "name=debian", "scsi0=local-lvm:2", "template=1")
			s.set("template", 901)
		}, id: "pve-template"},
		{name: "a template that is locked", make: func(w *testEnv, s *settings) {
			w.vm(904, "name=debian", "agent=enabled=1", "scsi0=local-lvm:2", "template=1")
			w.must("POST", "/sim/vms/904", `{"lock":"backup"}`)
			s.set("template", 904)
		}, id: "pve-template"},
		{name: "a hypervisor that tells nothing of itself", make: func(w *testEnv, _ *settings) {
			w.must("POST", "/sim/nodes/pve2", `{"unknown":true}`)
		}, id: "pve-hypervisors", warn: true, advice: "on pve2: systemctl status pvestatd", mend: func(w *testEnv, _ *settings) { w.must("POST", "/sim/nodes/pve2", `{"unknown":false}`) }},
		{name: "a storage that is not active", make: func(w *testEnv, _ *settings) {
			var listed struct{ Data []map[string]any }
			if err := json.Unmarshal(w.must("GET", "/nodes/pve2/storage"), &listed); err != nil {
				w.Fatal(err)
			}
			for _, row := range listed.Data {
				if row["storage"] == "local-lvm" {
					row["active"] = 0
				}
			}
			fault, err := json.Marshal(map[string]any{
				"path": "/nodes/pve2/storage", "method": "GET", "status": 200, "data": listed.Data,
			})
			if err != nil {
				w.Fatal(err)
			}
			w.must("POST", "/sim/faults", string(fault))
		}, id: "pve-datastore", advice: "on pve2 look at: pvesm status --storage local-lvm", mend: func(w *testEnv, _ *settings) { w.must("DELETE", "/sim/faults") }},
		{name: "a datastore that takes no disks", make: func(w *testEnv, _ *settings) { w.must("PUT", "/storage/local-lvm", "content=rootdir") }, id: "pve-datastore"},
		{name: "a storage that takes no snippets", make: func(w *testEnv, _ *settings) { w.must("PUT", "/storage/local", "content=iso,vztmpl,import,images") }, id: "pve-snippets"},
		{name: "no such bridge", make: set("data_bridge", "vmbr9"), id: "pve-bridges", advice: "data_bridge to one of: vmbr0, vmbr1", mend: set("data_bridge", "vmbr1")},
		{name: "hypervisors that know another key", make: func(w *testEnv, s *settings) {
			key := filepath.Join(w.dir, "stranger")
			if out, err := exec.Command(
				"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key,
			).CombinedOutput(); err != nil {
				w.Skipf("no key pair can be made: %v %s", err, out)
			}
			s.set("proxmox.ssh_private_key_path", key)
		}, id: "pve-ssh", advice: "ssh-copy-id -i", mend: func(w *testEnv, s *settings) { s.set("proxmox.ssh_private_key_path", w.sim.SSHPrivateKey) }},
		{name: "another hypervisor's address", make: func(_ *testEnv, s *settings) { hosts(s)[1]["port"] = hosts(s)[0]["port"] }, id: "pve-ssh", advice: "set address of hypervisor pve2 to its own", mend: func(w *testEnv, s *settings) { s.set("proxmox.hypervisors", w.settings().pve["hypervisors"]) }},
		{name: "no sudo on a hypervisor", make: func(w *testEnv, _ *settings) { w.must("POST", "/sim/nodes/pve2", `{"sudo":false}`) }, id: "pve-ssh", advice: "on pve2 as root: echo 'ops ALL=(root) NOPASSWD: /usr/sbin/pvesm, /usr/sbin/qm, /usr/bin/tee /var/lib/vz/snippets/", mend: func(w *testEnv, _ *settings) { w.must("POST", "/sim/nodes/pve2", `{"sudo":true}`) }},
		{name: "an id that is taken", make: func(w *testEnv, s *settings) {
			w.vm(25001, "name=db")
			s.set("proxmox.vmid_base", 25000)
		}, id: "pve-vmids"},
		{name: "a range that is full", make: set("proxmox.vmid_range", "25000-25002"), id: "pve-vmids"},
		{name: "too many cores for a host", make: set("cpu_cores", 65), id: "pve-cpu"},
		{name: "too many cores for all", make: func(_ *testEnv, s *settings) {
			s.set("cpu_cores", 60)
			s.set("node_count", 10)
			s.set("proxmox.cpu_overcommit", 3)
		}, id: "pve-cpu"},
		{name: "too much memory", make: set("memory_mb", 300000), id: "pve-memory"},
		{name: "too much disk", make: set("disk_size_gb", 3000), id: "pve-disk"},
		{name: "leftovers", make: func(w *testEnv, s *settings) {
			w.vm(902, "name=ci-1", "tags="+strings.Join(cluster.Tags("ci"), ";"))
			s.name = "ci"
		}, id: "leftovers", warn: true},
	}
}

// madeToken makes a token, and returns what hive-test is told of it.
func (w *testEnv) madeToken(user, name string, pairs ...string) string {
	var made struct{ Data struct{ Value string } }
	if err := json.Unmarshal(w.must("POST", "/access/users/"+user+"/token/"+name, pairs...), &made); err != nil {
		w.Fatal(err)
	}
	return user + "!" + name + "=" + made.Data.Value
}

// without is the role as printed, but for one privilege.
func (w *testEnv) without(priv string) string {
	var role struct{ Data map[string]int }
	if err := json.Unmarshal(w.must("GET", "/access/roles/HiveTest"), &role); err != nil {
		w.Fatal(err)
	}
	var left []string
	for name := range role.Data {
		if name != priv {
			left = append(left, name)
		}
	}
	return strings.Join(left, ",")
}

// Every mistake is found, and only it, in under 5 s; and what is printed mends it.
func TestDoctorFindsMistakes(t *testing.T) {
	w := newWard(t)
	if d := w.doctor(w.settings()); !d.OK || d.code != 0 || len(d.trouble()) > 0 || d.Schema != 1 {
		t.Fatalf("not well before anything was done: %+v", d)
	}
	tried := 0
	for _, m := range mistakes() {
		t.Run(m.name, func(t *testing.T) {
			tried++
			w := *w
			w.TB = t
			w.tryMistake(m)
		})
	}
	if tried == len(mistakes()) {
		w.ranAll(doctorSteps())
	}
}

// doctorSteps are the next steps that TestDoctorFindsMistakes runs where doctor prints them.
func doctorSteps() []string {
	return []string{
		"pvecm expected", "pvecm status",
		"pvesh set /cluster --delete", "pvesh set /cluster --registered-tags", "pvesh set /cluster --user-tag-access",
		"pvesm path", "pvesm set --content", "pvesm status --storage",
		"pveum acl modify --roles", "pveum pool add", "pveum role add --privs", "pveum role modify --privs",
		"pveum user token list", "pveum user token modify --expire", "pveum user token modify --privsep",
		"qm destroy --purge", "qm set --agent", "qm stop", "qm template", "qm unlock",
		"ssh-keygen", "systemctl status", "timedatectl set-ntp",
	}
}

// roleSteps are those that TestDoctorIsContentWithTheRoleItPrints and the test after it run.
func roleSteps() []string {
	return []string{
		"pveum acl modify --roles --tokens", "pveum acl modify --roles --users", "pveum role add --privs",
		"pveum role modify --append --privs",
		"pveum user add", "pveum user token add --privsep",
	}
}

// ranAll holds that these steps were run, with these flags and maybe others.
func (w *testEnv) ranAll(steps []string) {
	w.Helper()
	for _, step := range steps {
		covered := slices.ContainsFunc(
			slices.Collect(maps.Keys(w.ran)), func(ran string) bool { return covers(ran, step) },
		)
		if !covered {
			w.Errorf("%s was not run", step)
		}
	}
}

func (w *testEnv) tryMistake(m mistake) {
	s := w.settings()
	m.make(w, s)
	d := w.doctor(s)
	trouble := d.trouble()
	other := func(f finding) bool { return f.ID != m.id || f.Fix == "" || !strings.Contains(f.Fix, m.advice) }
	if len(trouble) == 0 || slices.ContainsFunc(trouble, other) {
		w.Errorf("want %s only, with a fix like %q; found %+v", m.id, m.advice, trouble)
	}
	if want := map[bool]int{true: 0, false: 3}[m.warn]; d.code != want || d.OK != m.warn {
		w.Errorf("exit code %d, ok %v", d.code, d.OK)
	}
	if d.elapsed > 5*time.Second {
		w.Errorf("it took %s", d.elapsed)
	}
	w.Logf("%s: %+v", d.elapsed.Round(time.Millisecond), trouble)
	if m.mend != nil {
		for _, f := range trouble {
			w.administer(f.Fix)
		}
		m.mend(w, s)
	} else {
		w.follow(trouble, s)
	}
	deadline := time.Now().Add(5 * time.Second)
	w.until(func() bool { // tasks take their time, and the listing shows a change late
		after := w.doctor(s)
		if after.OK && len(after.trouble()) == 0 {
			return true
		}
		if m.mend == nil {
			w.follow(after.trouble(), s)
		}
		if time.Now().After(deadline) {
			w.Errorf("the fix does not mend it: %+v", after.trouble())
			return true
		}
		return false
	})
	if m.after != nil {
		m.after(w, s)
	}
}

func (w *testEnv) follow(trouble []finding, s *settings) {
	w.Helper()
	for _, f := range trouble {
		if !w.applyFix(f.Fix, s) {
			w.Errorf("nobody can follow %q", f.Fix)
		}
	}
}

// printedRole is what doctor prints for a version, as an administrator pastes it into a shell.
func (w *testEnv) printedRole(major string) string {
	w.Helper()
	script := string(w.program("hive-test", "doctor", "--print-role"))
	_, script, found := strings.Cut(script, "# Proxmox VE "+major+":")
	script, _, _ = strings.Cut(script, "# Proxmox VE ")
	if !found {
		w.Fatalf("no role is printed for %s", major)
	}
	return "#" + script
}

// Both ways of the printed role let doctor, and so up, do everything, on both versions of Proxmox VE.
func TestDoctorIsContentWithTheRoleItPrints(t *testing.T) {
	for major, version := range map[string]string{"8": "8.4", "9": "9.2"} {
		t.Run(version, func(t *testing.T) {
			w := startSimulator(t, "--pve-version", version)
			out, status, err := w.sim.onHypervisor("pve1", w.printedRole(major))
			secrets := regexp.MustCompile(`\| value +\| (\S+)`).FindAllStringSubmatch(out, -1)
			if err != nil || status != 0 || len(secrets) != 2 {
				t.Fatalf("status %d, %v\n%s", status, err, out)
			}
			s := w.settings()
			for i, token := range []string{"root@pam!hive-test", "hive-test@pve!hive-test"} {
				s.token = token + "=" + secrets[i][1]
				if d := w.doctor(s); !d.OK || len(d.trouble()) > 0 {
					t.Errorf("%s: %+v", token, d.trouble())
				}
			}
			for _, step := range stepsIn(w.printedRole(major)) {
				w.ran[step] = true
			}
			steps := roleSteps()
			if major == "8" { // it has no privilege that is left out
				steps = slices.DeleteFunc(steps, func(step string) bool { return strings.Contains(step, "--append") })
			}
			w.ranAll(steps)
		})
	}
}

// What the printed role of 9 leaves out, the command in its comment adds, and takes nothing away.
func TestThePrintedCommandLetsCommandsBeRunInGuests(t *testing.T) {
	w := startWard(t, "9", "0", "--pve-version", "9.2")
	s := w.settings()
	role := func() (privileges map[string]int) {
		var answer struct{ Data map[string]int }
		if err := json.Unmarshal(w.must("GET", "/access/roles/HiveTest"), &answer); err != nil {
			t.Fatal(err)
		}
		return answer.Data
	}
	want := role()
	if want["VM.GuestAgent.Unrestricted"] != 0 {
		t.Error("the printed role runs commands in guests")
	}
	command := regexp.MustCompile(`(?m)^# (pveum role modify .*)$`).FindStringSubmatch(w.printedRole("9"))
	if command == nil {
		t.Fatal("no command is printed")
	}
	if status := w.onHypervisor("pve1", command[1]); status != 0 {
		t.Fatalf("%s: %d", command[1], status)
	}
	want["VM.GuestAgent.Unrestricted"] = 1
	if diff := cmp.Diff(want, role()); diff != "" {
		t.Errorf("the role (-want +got)\n%s", diff)
	}
	if d := w.doctor(s); !d.OK {
		t.Errorf("doctor: %+v", d.trouble())
	}
}

// Doctor asks for each listing once, and never VM by VM, however many there are.
func TestDoctorAsksOnce(t *testing.T) {
	w := newWard(t)
	w.fill(20)
	w.must("DELETE", "/sim/journal")
	if d := w.doctor(w.settings()); !d.OK {
		t.Fatalf("%+v", d.trouble())
	}
	w.askedOnce()
}

// fill makes VMs.
func (w *testEnv) fill(n int) {
	w.Helper()
	ids := make(chan int)
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for id := range ids {
				if status, answer := w.call(
					"POST", fmt.Sprintf("/nodes/pve%d/qemu", id%3+1), "vmid="+strconv.Itoa(id),
					"name=vm"+strconv.Itoa(id), "memory=16",
				); status != 200 {
					w.Errorf("VM %d: %d %s", id, status, answer)
				}
			}
		})
	}
	for i := range n {
		ids <- 1000 + i
	}
	close(ids)
	workers.Wait()
	w.until(func() bool {
		var listed struct{ Data []struct{ VMID int } }
		return json.Unmarshal(w.must("GET", "/cluster/resources?type=vm"), &listed) == nil && len(listed.Data) >= n
	})
}

func (w *testEnv) askedOnce() {
	w.Helper()
	var journal struct {
		Data []struct {
			Method, Path string
			Params       map[string]string
		}
	}
	if err := json.Unmarshal(w.must("GET", "/sim/journal"), &journal); err != nil {
		w.Fatal(err)
	}
	asked := map[string]int{}
	for _, e := range journal.Data {
		if e.Method == "SSH" {
			continue
		}
		if e.Method != "GET" || strings.Contains(e.Path, "/qemu") {
			w.Errorf("asked %s %s", e.Method, e.Path)
		}
		asked[e.Path+fmt.Sprint(e.Params)]++
	}
	for call, times := range asked {
		if times > 1 {
			w.Errorf("asked %d times: %s", times, call)
		}
	}
	if len(asked) < 10 {
		w.Errorf("only %v was asked", asked)
	}
}

// BenchmarkDoctor measures doctor against 3 hypervisors and 2,000 VMs (wanted: under 2 s and one listing call per
// kind).
func BenchmarkDoctor(b *testing.B) {
	w := newWard(b)
	w.fill(2000)
	var all []time.Duration
	for b.Loop() {
		w.must("DELETE", "/sim/journal")
		d := w.doctor(w.settings())
		if !d.OK {
			b.Fatalf("%+v", d.trouble())
		}
		w.askedOnce()
		all = append(all, d.elapsed)
	}
	slices.Sort(all)
	b.ReportMetric(all[len(all)/2].Seconds(), "doctor-s")
	b.Logf(
		"doctor, 3 hypervisors, 2000 VMs: median of %d: %s (wanted: under 2 s), one listing call per kind", len(all),
		all[len(all)/2].Round(time.Millisecond),
	)
}
