package api_test

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hive-test/pkg/deploy/proxmox/api"
	"hive-test/pkg/progress"
	"hive-test/pkg/sim/pve"
)

// situation is one row: what is wrong, what is called, and what the caller must see of it.
type situation struct {
	name   string
	fault  string                                // for the simulator, as JSON
	before func(*lab)                            // what else is to be the case
	client func(*lab, *api.Options)              // how the client differs from the usual one
	call   func(context.Context, *look) error    // with a client of its own
	limit  time.Duration                         // of the caller's context; 0 is none that matters
	status int                                   // of the *APIError; 0 if the error is none
	task   string                                // exit status of the *TaskError; "" if the error is none
	log    string                                // a line that the *TaskError keeps
	is     []error                               // all sentinels that match
	text   string                                // that the error says
	again  bool                                  // Passing: a second try may help
	fine   bool                                  // no error
	warned []string                              // beginnings of the warnings that are told
	check  func(t *testing.T, l *lab, err error) // what else must be so
}

// look is what a row's call works with.
type look struct {
	*lab
	c *api.Client
}

func sentinels() []error {
	return []error{
		api.ErrUnauthorized, api.ErrForbidden, api.ErrNotFound, api.ErrExists, api.ErrUnreachable, api.ErrTLS,
		api.ErrLocked, api.ErrAgentDisabled, api.ErrAgentNotRunning, api.ErrNotRunning,
	}
}

// TestConformance makes everything go wrong that was seen to go wrong between a client and a Proxmox VE, and checks
// that the caller can tell what it was: the class of the error, PVE's own words, and never the token's secret.
func TestConformance(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	l := conformanceLab(t, pve.Version84)
	conform(t, l, slices.Concat(answers(), noAnswers(), trust(), tasks(), managed()))
}

// TestConformanceOf92 is the same with what Proxmox VE 9.2 says otherwise.
func TestConformanceOf92(t *testing.T) {
	conform(t, conformanceLab(t, pve.Version92), slices.Concat(of92(), managed()))
}

func conform(t *testing.T, l *lab, rows []situation) {
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) { row.run(t, &lab{t: t, endpoint: l.endpoint, Client: l.Client}) })
	}
}

func (row situation) run(t *testing.T, l *lab) {
	l.request("DELETE", l.endpoint.URL+"/sim/faults", "", "")
	if row.fault != "" {
		l.fault(row.fault)
	}
	opts := l.options(l.endpoint.Token)
	if row.before != nil {
		row.before(l)
	}
	if row.client != nil {
		row.client(l, &opts)
	}
	var warned []string
	opts.Warn = func(text string) { warned = append(warned, text) }
	c, err := api.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := t.Context()
	if row.limit > 0 {
		limited, cancel := context.WithTimeout(ctx, row.limit)
		defer cancel()
		ctx = limited
	}
	err = row.call(ctx, &look{lab: l, c: c})
	if row.fine != (err == nil) {
		t.Fatalf("error: %v", err)
	}
	if err != nil {
		row.compare(t, opts, err)
	}
	if !slices.EqualFunc(warned, row.warned, strings.HasPrefix) {
		t.Errorf("warned of %q, want %q", warned, row.warned)
	}
	if row.check != nil {
		row.check(t, l, err)
	}
}

func (row situation) compare(t *testing.T, opts api.Options, err error) {
	t.Helper()
	for _, sentinel := range sentinels() {
		if want := slices.Contains(row.is, sentinel); errors.Is(err, sentinel) != want {
			t.Errorf("errors.Is(%v, %v) is %v", err, sentinel, !want)
		}
	}
	status := 0
	if api, ok := errors.AsType[*api.APIError](err); ok {
		status = api.Status
	}
	task, log := "", ""
	if failed, ok := errors.AsType[*api.TaskError](err); ok {
		task, log = failed.ExitStatus, strings.Join(failed.Log, "\n")
	}
	if status != row.status || task != row.task || !strings.Contains(log, row.log) {
		t.Errorf("status %d, task %q, log %q of %v", status, task, log, err)
	}
	if api.IsTransient(err) != row.again {
		t.Errorf("Passing(%v) is %v", err, !row.again)
	}
	_, secret, _ := strings.Cut(opts.Token, "=")
	told := err.Error() + progress.HintOf(err)
	if !strings.Contains(told, row.text) || strings.Contains(told, secret) {
		t.Errorf("it says %q, want %q in it and not the secret", told, row.text)
	}
}

// conformanceLab has a VM of each kind: 100 runs with an agent, 101 is off, 102 runs without agent, 103 with one that
// is not there, 104 is protected, 105 has no bridge to be started with, and 106 has a disk. Hypervisor pve3 is away.
func conformanceLab(t *testing.T, version string) *lab {
	t.Helper()
	l := newLab(t, func(o *pve.Options) { o.Version, o.HADelay = version, 100*time.Millisecond })
	for vmid, form := range map[string]url.Values{
		"100": {"agent": {"1"}}, "101": {"agent": {"1"}}, "102": {}, "104": {"protection": {"1"}},
		"105": {"net0": {"virtio,bridge=vmbr99"}},
		"106": {"scsi0": {"local-lvm:1"}},
	} {
		form.Set("vmid", vmid)
		form.Set("memory", "64")
		l.task(l.send("POST", "/nodes/pve1/qemu", form))
	}
	for _, vmid := range []string{"100", "102"} {
		l.task(l.send("POST", "/nodes/pve1/qemu/"+vmid+"/status/start", nil))
	}
	l.send("POST", "/pools", url.Values{"poolid": {"taken"}})
	l.request("POST", l.endpoint.URL+"/sim/nodes/pve3", "application/json", `{"online":false}`)
	return l
}

func version(ctx context.Context, l *look) error { return second(l.c.Version(ctx)) }

func nodes(ctx context.Context, l *look) error { return second(l.c.Hypervisors(ctx)) }

func read(node string, vmid int) func(context.Context, *look) error {
	return func(ctx context.Context, l *look) error { return second(l.c.VM(ctx, node, vmid)) }
}

func interfaces(vmid int) func(context.Context, *look) error {
	return func(ctx context.Context, l *look) error { return second(l.c.Interfaces(ctx, "pve1", vmid)) }
}

func stop(vmid int) func(context.Context, *look) error {
	return func(ctx context.Context, l *look) error { return l.c.Stop(ctx, "pve1", vmid) }
}

func start(vmid int) func(context.Context, *look) error {
	return func(ctx context.Context, l *look) error {
		return l.c.WaitTask(ctx, upidIn(l.send("POST", fmt.Sprintf("/nodes/pve1/qemu/%d/status/start", vmid), nil)))
	}
}

func destroy(vmid int) func(context.Context, *look) error {
	return func(ctx context.Context, l *look) error { return l.c.Delete(ctx, "pve1", vmid) }
}

// with gives the client another token, made by form for root@pam.
func with(name string, form url.Values) func(*lab, *api.Options) {
	return func(l *lab, o *api.Options) {
		answer := l.send("POST", "/access/users/root@pam/token/"+name, form)
		_, rest, _ := strings.Cut(answer, `"value":"`)
		secret, _, _ := strings.Cut(rest, `"`)
		o.Token = "root@pam!" + name + "=" + secret
	}
}

// answered is the fault that a call is answered with a status.
func answered(path, status, reason string) string {
	return `{"path":"` + path + `","status":` + status + `,"reason":"` + reason + `"}`
}

// answers are those of PVE itself: every class of status, with its text. go-proxmox by itself takes 404, 502 to 504,
// 595, 596 and 599 for successes, with no data or a crash after them, drops the text of 401 and 403, keeps the first
// line of 500 only, swallows 403 where it reads a hypervisor, and knows a dead guest agent by one text of several.
func answers() []situation {
	var (
		unauthorized = []error{api.ErrUnauthorized}
		forbidden    = []error{api.ErrForbidden}
		notFound     = []error{api.ErrNotFound}
		unreachable  = []error{api.ErrUnreachable}
		wrong        = func(_ *lab, o *api.Options) { o.Token = "root@pam!sim=00000000-0000-4000-8000-000000000000" }
	)
	return []situation{
		{name: "200", call: version, fine: true},
		{name: "200, an empty list", call: func(ctx context.Context, l *look) error {
			return second(l.c.Content(ctx, "pve1", "local", "backup"))
		}, fine: true},
		{
			name:   "400 names the parameter",
			call:   func(ctx context.Context, l *look) error { return second(l.c.CheckID(ctx, 7)) },
			status: 400,
			text:   "400 Parameter verification failed. (vmid: invalid format - value does not look like a valid VM ID)",
		},
		{name: "400 of a taken id is no failure", call: func(ctx context.Context, l *look) error {
			if free, err := l.c.CheckID(ctx, 100); free || err != nil {
				return errors.Join(errors.New("it is said to be free"), err)
			}
			return nil
		}, fine: true},
		{name: "200 of a free id", call: func(ctx context.Context, l *look) error {
			if free, err := l.c.CheckID(ctx, 4711); !free || err != nil {
				return errors.Join(errors.New("it is said to be taken"), err)
			}
			return nil
		}, fine: true},
		{name: "400 of an unknown task", call: func(ctx context.Context, l *look) error {
			return l.c.WaitTask(ctx, "UPID:pve1:00000001:00000001:6B0A0000:qmstop:100:root@pam!sim:")
		}, status: 400, is: notFound, text: "(upid: no such task)"},
		{name: "401, wrong secret", client: wrong, call: version, status: 401, is: unauthorized, text: "401 Authentication failed!"},
		{name: "401, expired", client: with("old", url.Values{"expire": {"1"}}), call: version, status: 401, is: unauthorized, text: "401 Authentication failed!"},
		{name: "401 that repeats the secret", client: func(l *lab, o *api.Options) {
			_, secret, _ := strings.Cut(o.Token, "=")
			l.fault(answered("/version", "401", "no such token '"+secret+"'"))
		}, call: version, status: 401, is: unauthorized, text: "401 no such token '***'"},
		{
			name: "403 names the privilege", client: with("bare", url.Values{"privsep": {"1"}}),
			call:   read("pve1", 100),
			status: 403, is: forbidden, text: "403 Permission check failed (/vms/100, VM.Audit)",
		},
		{
			name: "403 of a VM out of sight proves no absence", client: with("blind", url.Values{"privsep": {"1"}}),
			call:   read("pve1", 999),
			status: 403, is: forbidden, text: "(/vms/999, VM.Audit)",
		},
		{
			name:  "403 of the hypervisors is not swallowed",
			fault: answered("/nodes", "403", "Permission check failed (/nodes, Sys.Audit)"), call: nodes,
			status: 403, is: forbidden, text: "Permission check failed (/nodes, Sys.Audit)",
		},
		{
			name:  "403 of an unknown pool",
			fault: answered("/nodes", "403", "Permission check failed (pool 'p' does not exist)"), call: nodes,
			status: 403, is: []error{api.ErrForbidden, api.ErrNotFound}, text: "pool 'p' does not exist",
		},
		{name: "404", fault: answered("/version", "404", "Not Found"), call: version, status: 404, is: notFound, text: "404 Not Found"},
		{name: "500, no such VM", call: read("pve1", 999), status: 500, is: notFound, text: "Configuration file 'nodes/pve1/qemu-server/999.conf' does not exist"},
		{name: "500, the VM is on another hypervisor", call: read("pve2", 100), status: 500, is: notFound, text: "nodes/pve2/qemu-server/100.conf' does not exist"},
		{name: "500, no such pool", call: func(ctx context.Context, l *look) error { return l.c.HasPool(ctx, "nope") }, status: 500, is: notFound, text: "pool 'nope' does not exist"},
		{
			name:   "500, it exists",
			call:   func(ctx context.Context, l *look) error { return l.c.MakePool(ctx, api.Pool{ID: "taken"}) },
			status: 500, is: []error{api.ErrExists}, text: "create pool failed: pool 'taken' already exists",
		},
		{name: "500, running", call: destroy(100), status: 500, text: "VM 100 is running - destroy failed"},
		{name: "500, protected", call: destroy(104), status: 500, text: "can't remove VM 104 - protection mode enabled"},
		{name: "500, more than one line", fault: answered("/version", "500", `first\nsecond line`), call: version, status: 500, text: "500 first second line"},
		{
			name:   "500, a lock was not free in time",
			fault:  answered("/version", "500", "can't lock file '/var/lock/qemu-server/lock-320.conf' - got timeout"),
			call:   version,
			status: 500, again: true, text: "got timeout",
		},
		{name: "500, VM locked", fault: answered("/version", "500", "VM is locked (backup)"), call: version, status: 500, is: []error{api.ErrLocked}, text: "VM is locked (backup)"},
		{name: "500, agent not configured", call: interfaces(102), status: 500, is: []error{api.ErrAgentDisabled}, text: "No QEMU guest agent configured"},
		{name: "500, VM off", call: interfaces(101), status: 500, is: []error{api.ErrNotRunning}, text: "VM 101 is not running"},
		{
			name:   "500, agent dead",
			fault:  answered("/nodes/*/qemu/*/agent/**", "500", "QEMU guest agent is not running"),
			call:   interfaces(100),
			status: 500, is: []error{api.ErrAgentNotRunning}, text: "QEMU guest agent is not running",
		},
		{name: "501", fault: answered("/version", "501", "Method 'GET /version' not implemented"), call: version, status: 501, text: "501 Method 'GET /version' not implemented"},
		{name: "502", fault: answered("/version", "502", "Bad Gateway"), call: version, status: 502, is: unreachable, text: "502 Bad Gateway"},
		{name: "503", fault: answered("/version", "503", "Service Unavailable"), call: version, status: 503, is: unreachable, text: "503"},
		{name: "504", fault: answered("/version", "504", "Gateway Time-out"), call: version, status: 504, is: unreachable, text: "504"},
		{name: "595, the hypervisor is away", call: read("pve3", 100), status: 595, is: unreachable, again: true, text: "595 No route to host"},
		{name: "595 proves no absence", fault: answered("/version", "595", "host 'pve9' does not exist"), call: version, status: 595, is: unreachable, again: true, text: "pve9"},
		{name: "596, its certificate is of another name", call: read("PVE1", 100), status: 596, is: unreachable, again: true, text: "596"},
		{name: "599", fault: answered("/version", "599", "Too many redirections"), call: version, status: 599, is: unreachable, again: true, text: "599 Too many redirections"},
		{name: "a redirect is not followed", fault: answered("/version", "301", "Moved Permanently"), call: version, status: 301, text: "301 Moved Permanently"},
	}
}

// noAnswers are what comes in place of an answer of PVE.
func noAnswers() []situation {
	unreachable := []error{api.ErrUnreachable}
	return []situation{
		{name: "dropped connection", fault: `{"path":"/version","drop":true}`, call: version, is: unreachable},
		{
			name: "answer lost after the work", fault: `{"path":"/pools","method":"POST","lost":true}`,
			call: func(ctx context.Context, l *look) error { return l.c.MakePool(ctx, api.Pool{ID: "made"}) },
			is:   unreachable,
			check: func(t *testing.T, l *lab, _ error) {
				if err := l.HasPool(t.Context(), "made"); err != nil {
					t.Errorf("the pool was made: %v", err)
				}
			},
		},
		{name: "no JSON", fault: `{"path":"/version","body":"<html>login</html>"}`, call: version, text: "not JSON"},
		{name: "no body", fault: `{"path":"/version","body":""}`, call: version, text: "not JSON"},
		{name: "an error page of a proxy", fault: `{"path":"/version","status":502,"reason":"Bad Gateway","body":"<html>"}`, call: version, status: 502, is: unreachable, text: "502 Bad Gateway"},
		{name: "no task where one was expected", fault: `{"path":"/nodes/*/qemu/*/status/stop","body":"{\"data\":null}"}`, call: stop(101), text: "where a task id was expected"},
		{
			name: "a stall ends with the client's own limit", fault: `{"path":"/version","delay":"5s"}`,
			client: func(_ *lab, o *api.Options) { o.Timeout = 100 * time.Millisecond }, call: version, is: unreachable,
			text: "no answer within 100ms",
		},
		{
			name: "a stall ends with the caller's deadline", fault: `{"path":"/version","delay":"5s"}`,
			limit: 100 * time.Millisecond, call: version,
			text: context.DeadlineExceeded.Error(), check: func(t *testing.T, _ *lab, err error) {
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v is no deadline", err)
				}
			},
		},
		{name: "the caller's cancel", call: func(ctx context.Context, l *look) error {
			ctx, cancel := context.WithCancelCause(ctx)
			cancel(errors.New("no longer wanted"))
			return second(l.c.Version(ctx))
		}, text: "no longer wanted"},
		{name: "closed port", client: func(l *lab, o *api.Options) { o.Endpoint = "https://" + closedPort(l.t) }, call: version, is: unreachable, text: "127.0.0.1"},
		{name: "a server without TLS", client: func(l *lab, o *api.Options) {
			plain := httptest.NewServer(http.NotFoundHandler())
			l.t.Cleanup(plain.Close)
			o.Endpoint = strings.Replace(plain.URL, "http:", "https:", 1)
		}, call: version, is: unreachable},
	}
}

func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// trust is the server's certificate: it is verified in one of three ways, and a refusal names the one that was seen.
func trust() []situation {
	refused := []error{api.ErrTLS}
	other := strings.Repeat("AB", 32)
	named := func(t *testing.T, l *lab, err error) {
		pin := l.pin()
		if seen, ok := api.SeenFingerprint(err); !ok || seen != pin || !strings.Contains(err.Error(), pin) ||
			!strings.Contains(progress.HintOf(err), pin) {
			t.Errorf("the certificate that was seen is not named: %v (%s)", err, progress.HintOf(err))
		}
	}
	pinned := func(form func(string) string) func(*lab, *api.Options) {
		return func(l *lab, o *api.Options) { o.CAFile, o.Fingerprint = "", form(l.pin()) }
	}
	return []situation{
		{name: "TLS: insecure", client: func(_ *lab, o *api.Options) { o.CAFile, o.Insecure = "", true }, call: version, fine: true},
		{name: "TLS: fingerprint", client: pinned(func(pin string) string { return pin }), call: version, fine: true},
		{name: "TLS: fingerprint as openssl prints it", client: pinned(func(pin string) string { return "sha256 Fingerprint=" + pin }), call: version, fine: true},
		{name: "TLS: fingerprint in lower case without colons", client: pinned(func(pin string) string {
			return strings.ToLower(strings.ReplaceAll(pin, ":", ""))
		}), call: version, fine: true},
		{name: "TLS: other fingerprint", client: pinned(func(string) string { return other }), call: version, is: refused, text: "another fingerprint", check: named},
		{name: "TLS: the system's roots", client: func(_ *lab, o *api.Options) { o.CAFile = "" }, call: version, is: refused, text: "proxmox.ca_file", check: named},
		{name: "TLS: other CA", client: func(l *lab, o *api.Options) { o.CAFile = otherCA(l.t) }, call: version, is: refused, text: "proxmox.ca_file", check: named},
	}
}

// pin is the fingerprint of the simulator's certificate.
func (l *lab) pin() string {
	l.t.Helper()
	opts := l.options(l.endpoint.Token)
	opts.CAFile = ""
	c, err := api.New(opts)
	if err != nil {
		l.t.Fatal(err)
	}
	defer c.Close()
	seen, ok := api.SeenFingerprint(second(c.Version(l.t.Context())))
	if !ok {
		l.t.Fatal("no fingerprint was seen")
	}
	return seen
}

// otherCA is a file with a certificate that has signed nothing of the simulator's.
func otherCA(t *testing.T) string {
	t.Helper()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pemOf(server.Certificate()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func pemOf(cert *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
}

// tasks are those that do not end well. An answer of 200 is not the end of it, and nor is a task that has stopped:
// go-proxmox by itself takes a failed task for done, tries nothing again, and sleeps on when the caller has gone.
func tasks() []situation {
	failing := func(text string) string { return `{"path":"/nodes/*/qemu/*/status/stop","task_error":"` + text + `"}` }
	const (
		gone    = "Configuration file 'nodes/pve1/qemu-server/102.conf' does not exist"
		lacking = "403 Permission check failed (/storage/local, Datastore.AllocateSpace)"
		held    = "can't lock file '/var/lock/qemu-server/lock-102.conf' - got timeout"
		noStart = "start failed: QEMU exited with code 1"
	)
	return []situation{
		{name: "task: OK", call: stop(101), fine: true},
		{
			name: "task: refused", fault: failing("VM is locked (backup)"), call: stop(102),
			task: "VM is locked (backup)", is: []error{api.ErrLocked},
			log:  "TASK ERROR: VM is locked (backup)",
			text: "task qmstop of VM 102 on pve1 failed: VM is locked (backup)",
		},
		{name: "task: unexpected status", fault: failing("unexpected status"), call: stop(102), task: "unexpected status", text: "failed: unexpected status"},
		{
			name:  "task: warnings are success",
			fault: `{"path":"/nodes/*/qemu/*/status/start","task_warnings":["no swtpm","no swtpm","iothread is only valid with virtio disk"]}`,
			call:  start(101), fine: true,
			warned: []string{"task qmstart of VM 101 on pve1 went well, with warnings: no swtpm; iothread is only valid with virtio disk"},
		},
		{
			name: "task: warnings whose log cannot be read",
			fault: `[{"path":"/nodes/*/qemu/*/status/stop","task_warnings":["no swtpm"]},` + answered(
				"/nodes/*/tasks/*/log", "500", "no",
			) + `]`,
			call: stop(101), fine: true,
			warned: []string{
				"task qmstop of VM 101 on pve1 went well, with warnings: the task's log cannot be read: GET " +
					"/nodes/pve1/tasks",
			},
		},
		{
			name:  "task: a start that is asked of the HA manager is waited for",
			fault: `{"path":"/nodes/*/qemu/*/status/start","ha":"300ms"}`, fine: true,
			call: func(ctx context.Context, l *look) error {
				if err := l.c.Restart(ctx, "pve1", 101); err != nil {
					return err
				}
				vm, err := l.c.VM(ctx, "pve1", 101)
				if vm.Status != "running" {
					return fmt.Errorf("it is %q: %w", vm.Status, err)
				}
				return err
			},
		},
		{
			name: "task: the HA manager does nothing", fault: `{"path":"/nodes/*/qemu/*/status/stop","ha":"1h"}`,
			limit: 300 * time.Millisecond, call: stop(101),
			text: "waiting for the HA manager to have VM 101 on pve1 stopped: ", check: func(
				t *testing.T, _ *lab, err error,
			) {
				if !errors.Is(err, context.DeadlineExceeded) ||
					!strings.Contains(progress.HintOf(err), "ha-manager status") {
					t.Errorf("got %v, hint %q", err, progress.HintOf(err))
				}
			},
		},
		{
			name:  "task: a stop that is asked of the HA manager is waited for",
			fault: `{"path":"/nodes/*/qemu/*/status/stop","ha":"300ms"}`, fine: true,
			call: func(ctx context.Context, l *look) error {
				if err := l.c.Stop(ctx, "pve1", 101); err != nil {
					return err
				}
				vm, err := l.c.VM(ctx, "pve1", 101)
				if vm.Status != "stopped" {
					return fmt.Errorf("it is %q: %w", vm.Status, err)
				}
				return err
			},
		},
		{name: "task: what it was for is gone", fault: failing(gone), call: stop(102), task: gone, is: []error{api.ErrNotFound}, text: gone},
		{name: "task: privilege", fault: failing(lacking), call: stop(102), task: lacking, is: []error{api.ErrForbidden}, text: "Datastore.AllocateSpace"},
		{name: "task: a lock that was not free is waited for", fault: `{"path":"/nodes/*/qemu/*/status/stop","task_error":"` + held + `","nth":1}`, call: stop(101), fine: true},
		{name: "task: the cause is in the log", call: func(ctx context.Context, l *look) error {
			answer := l.send("POST", "/nodes/pve1/qemu/105/status/start", nil)
			return l.c.WaitTask(ctx, upidIn(answer))
		}, task: noStart, log: "bridge 'vmbr99' does not exist", text: "\n  bridge 'vmbr99' does not exist"},
		{
			name: "task: its log cannot be read",
			fault: `[` + failing("VM is locked (backup)") + `,` + answered(
				"/nodes/*/tasks/*/log", "595", "No route to host",
			) + `]`,
			call: stop(102), task: "VM is locked (backup)", is: []error{api.ErrLocked},
			log: "the task's log cannot be read", text: "595 No route to host",
		},
		{name: "task: its hypervisor is away for a moment", fault: `{"path":"/nodes/*/tasks/*/status","status":595,"reason":"Connection refused","nth":1}`, call: stop(101), fine: true},
		{
			name:  "task: the wait ends with the caller's deadline",
			fault: answered("/nodes/*/tasks/*/status", "595", "No route to host"), limit: 300 * time.Millisecond,
			call: stop(101), status: 595, is: []error{api.ErrUnreachable}, again: true, text: "waiting for task UPID:pve1:", check: func(t *testing.T, _ *lab, err error) {
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v is no deadline", err)
				}
			},
		},
		{name: "task: its worker vanished", call: vanishing, task: "unexpected status", text: "task qmcreate of VM 100 on pve1 failed: unexpected status"},
		{name: "task: none", call: func(ctx context.Context, l *look) error { return l.c.WaitTask(ctx, "nonsense") }, text: "nonsense"},
		{name: "task: the log of an unknown one", call: func(ctx context.Context, l *look) error {
			return second(l.c.TaskLog(ctx, "UPID:pve1:00000001:00000001:6B0A0000:qmstop:100:root@pam!sim:"))
		}, text: "unable to open file"},
	}
}

// managed are VMs of the HA manager's, made so through the API.
func managed() []situation {
	const vmid = 101
	manage := func(l *lab) {
		if answer := l.send(
			"POST", "/cluster/ha/resources", url.Values{"sid": {"vm:101"}},
		); !strings.Contains(answer, `"data":null`) {
			l.t.Fatal(answer)
		}
	}
	status := func(ctx context.Context, l *look, want string) error {
		vm, err := l.c.VM(ctx, "pve1", vmid)
		if err == nil && vm.Status != want {
			err = fmt.Errorf("it is %q", vm.Status)
		}
		return err
	}
	return []situation{
		{name: "HA: what the manager starts and stops is waited for", before: manage, fine: true, call: func(ctx context.Context, l *look) error {
			if err := errors.Join(l.c.Stop(ctx, "pve1", vmid), status(ctx, l, "stopped")); err != nil {
				return err
			}
			return errors.Join(l.c.Restart(ctx, "pve1", vmid), status(ctx, l, "running"))
		}},
		{name: "HA: a VM that is deleted is nobody's any more", fine: true, call: func(ctx context.Context, l *look) error {
			return errors.Join(l.c.Stop(ctx, "pve1", vmid), l.c.Delete(ctx, "pve1", vmid))
		}, check: func(t *testing.T, l *lab, _ error) {
			if answer := l.send("GET", "/cluster/ha/resources", nil); !strings.Contains(answer, `"data":[]`) {
				t.Error(answer)
			}
		}},
	}
}

// of92 are answers that 9.2 gives otherwise than 8.4.
func of92() []situation {
	const unlink = "unlink '/dev/pve/vm-106-disk-0' failed - Operation not permitted"
	return []situation{
		{
			name: "9.2: 403 names every privilege that would do", client: with("bare", url.Values{"privsep": {"1"}}),
			call:   interfaces(100),
			status: 403, is: []error{api.ErrForbidden},
			text: "403 Permission check failed (/vms/100, VM.GuestAgent.Audit|VM.GuestAgent.Unrestricted)",
		},
		{
			name:   "9.2: a pool begins with a letter",
			call:   func(ctx context.Context, l *look) error { return l.c.MakePool(ctx, api.Pool{ID: "1abc"}) },
			status: 500, text: "pool name must start with a letter",
		},
		{
			name: "9.2: a missing bridge is the task's own end", call: start(105),
			task: "bridge 'vmbr99' does not exist",
			is:   []error{api.ErrNotFound}, text: "failed: bridge 'vmbr99' does not exist",
		},
		{
			name:  "9.2: disks that a deletion leaves are warned of",
			fault: `{"path":"/nodes/*/qemu/106","method":"DELETE","disks_kept":"` + unlink + `"}`, call: destroy(106),
			fine: true,
			warned: []string{
				"task qmdestroy of VM 106 on pve1 went well, with warnings: Could not remove disk " +
					"'local-lvm:vm-106-disk-0', check manually: " + unlink + "; " + unlink,
			},
		},
		{name: "9.2: a hypervisor that has just begun is not taken for offline", fine: true, before: func(l *lab) {
			l.request("POST", l.endpoint.URL+"/sim/nodes/pve2", "application/json", `{"unknown":true}`)
		}, call: func(ctx context.Context, l *look) error {
			hosts, err := l.c.Hypervisors(ctx)
			if err == nil &&
				(!hosts[1].Online || !hosts[1].Unknown || !hosts[0].Online || hosts[0].Unknown || hosts[2].Online) {
				err = fmt.Errorf("%+v", hosts)
			}
			return err
		}},
		{name: "9.2: rules for tags", fine: true, call: func(ctx context.Context, l *look) error {
			l.send("PUT", "/cluster/options", url.Values{
				"registered-tags": {"prod"}, "user-tag-access": {"user-allow=list,user-allow-list=ci"},
			})
			rules, err := l.c.TagRules(ctx)
			want := api.TagRules{
				Registered: []string{"prod"}, Allow: "list", List: []string{"ci"}, Allowed: []string{"ci", "prod"},
			}
			if diff := cmp.Diff(want, rules); diff != "" {
				err = errors.Join(err, errors.New(diff))
			}
			return err
		}},
	}
}

func upidIn(answer string) string {
	_, upid, _ := strings.Cut(answer, `"data":"`)
	upid, _, _ = strings.Cut(upid, `"`)
	return upid
}

// vanishing asks a server that was killed during a task, and came back without its worker.
func vanishing(ctx context.Context, l *look) error {
	dir, crashed := l.t.TempDir(), l.t.TempDir()
	before := newLab(l.t, func(o *pve.Options) { o.Dir, o.TaskDuration = dir, time.Hour })
	upid := upidIn(before.send("POST", "/nodes/pve1/qemu", url.Values{"vmid": {"100"}, "memory": {"64"}}))
	state := awaitState(l.t, filepath.Join(dir, "state.json"), upid)
	if err := os.WriteFile(filepath.Join(crashed, "state.json"), state, 0o600); err != nil {
		return err
	}
	after := newLab(l.t, func(o *pve.Options) { o.Dir = crashed })
	return after.WaitTask(ctx, upid)
}

// awaitState returns what the simulator has written of its state once that has the task in it.
func awaitState(t *testing.T, file, upid string) []byte {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if b, err := os.ReadFile(file); err == nil && strings.Contains(string(b), upid) {
			return b
		}
	}
	t.Fatalf("%s never has %s", file, upid)
	return nil
}
