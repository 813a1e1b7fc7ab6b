package provision

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/opentofu"
	"hive-test/pkg/progress"
)

// The texts are those of PVE 8.4 and bpg/proxmox 0.111.
func TestWhatPasses(t *testing.T) {
	failure := func(step string, details ...string) error {
		f := &deploy.Failure{Step: step}
		for _, d := range details {
			f.Problems = append(f.Problems, problem(opentofu.Diagnostic{Summary: "VM start", Detail: d}, nil))
		}
		return f
	}
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"VM lock": {
			failure(
				"tofu apply",
				`task "UPID:pve1:0:0:0:qmstart:20001:root@pam!x:" failed to complete with exit code: can't lock file '/var/lock/qemu-server/lock-20001.conf' - got timeout`,
			),
			true,
		},
		"wrapped": {
			failure("tofu apply", "can't lock file '/var/lock/qemu-server/lock-20001.conf' - got\ntimeout"), true,
		},
		"storage lock": {
			failure(
				"tofu apply",
				`unable to create VM 20001 - can't lock file '/var/lock/pve-manager/pve-storage-local' - got timeout`,
			),
			true,
		},
		"user.cfg lock": {
			failure(
				"tofu apply", `can't add VM 362 to pool 'pp': cfs-lock 'file-user_cfg' error: got lock request timeout`,
			),
			true,
		},
		"no worker": {
			failure(
				"tofu destroy",
				`error deleting VM: received an HTTP 500 response - Reason: got no worker upid - start worker failed`,
			),
			true,
		},
		"node away":   {failure("tofu plan", `received an HTTP 595 response - Reason: No route to host`), true},
		"proxy":       {failure("tofu destroy", `received an HTTP 502 response - Reason: Bad Gateway`), true},
		"certificate": {failure("tofu apply", `received an HTTP 596 response - Reason: Broken pipe`), true},
		"lost answer": {
			failure(
				"tofu apply",
				`error starting VM: failed to perform HTTP POST request (path: nodes/pve1/qemu/20001/status/start) - Reason: Post "https://127.0.0.1:8006/api2/json/nodes/pve1/qemu/20001/status/start": EOF`,
			),
			true,
		},
		"SSH refused": {
			failure(
				"tofu apply",
				`failed SSH handshake: read tcp 10.0.0.1:4711->10.0.0.2:22: read: connection reset by peer`,
			),
			true,
		},

		"id taken": {
			failure(
				"tofu apply",
				`received an HTTP 500 response - Reason: unable to create VM 20001 - VM 20001 already exists on node 'pve1'`,
			),
			false,
		},
		"taken after lock": {
			failure(
				"tofu apply",
				"#1: can't lock file '/var/lock/qemu-server/lock-1.conf' - got timeout\n#2: VM 1 already exists on "+
					"node 'pve1'",
			),
			false,
		},
		"guest ignores": {failure("tofu destroy", `VM quit/powerdown failed - got timeout`), false},
		"config lock":   {failure("tofu apply", `VM is locked (backup)`), false},
		"no right": {
			failure(
				"tofu apply",
				`received an HTTP 403 response - Reason: Permission check failed (/vms/9002, VM.Allocate)`,
			),
			false,
		},
		"one of two passes": {failure("tofu apply", `got no worker upid`, `storage 'fast' does not exist`), false},
		"no quorum":         {failure("tofu apply", `cfs-lock 'file-user_cfg' error: no quorum!`), false},
		"init":              {failure("tofu init", `connection reset by peer`), false},
		"a refusal":         {&deploy.RefusedError{}, false},
		"nothing known":     {&deploy.Failure{Step: "tofu apply", Err: errors.New("exit status 1")}, false},
	} {
		if got := passing(tc.err); got != tc.want {
			t.Errorf("%s: passing is %v", name, got)
		}
	}
}

// healer takes away what makes the provider fail, once up says that it will try again.
type healer struct {
	*progress.Memory
	mu    sync.Mutex
	after int
	bad   []string
	tries []string
}

func (h *healer) Emit(e progress.Event) {
	h.Memory.Emit(e)
	if e.Kind != progress.Warning || !strings.Contains(e.Message, "trying again") {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tries = append(h.tries, e.Message)
	if len(h.tries) == h.after {
		for _, path := range h.bad {
			_ = os.Remove(path)
		}
	}
}

func TestUpTriesAgain(t *testing.T) {
	const locked = "can't lock file '/var/lock/qemu-server/lock-9002.conf' - got timeout"
	eachProgram(t, func(t *testing.T, program string) {
		b := newBench(t, program, 3)
		heal := &healer{Memory: b.events, after: 2}
		b.options.Tofu.Sink, b.options.Tofu.Pause = heal, time.Millisecond
		b.provider = New(b.options)
		if err := os.MkdirAll(b.host, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, node := range []string{"ci-1-2", "ci-1-3"} {
			heal.bad = append(heal.bad, filepath.Join(b.host, "fail-"+node))
			write(t, heal.bad[len(heal.bad)-1], locked)
		}
		result := b.up()
		if want := []string{"ci-1-1", "ci-1-2", "ci-1-3"}; !slices.Equal(result.Created, want) || !result.Changed {
			t.Errorf("one call made %+v", result)
		}
		if len(heal.tries) != 2 || !strings.Contains(heal.tries[0], "ci-1-2, ci-1-3") ||
			!strings.Contains(heal.tries[1], "try 3 of 5") {
			t.Errorf("told: %q", heal.tries)
		}

		// What never passes ends, and says what is missing.
		for _, path := range heal.bad {
			write(t, path, locked)
		}
		if err := b.provider.Down(t.Context(), b.request); err != nil {
			t.Fatal(err)
		}
		_, err := b.provider.Up(t.Context(), b.request)
		failure, ok := errors.AsType[*deploy.Failure](err)
		if !ok || !strings.Contains(err.Error(), "after 5 tries: tofu apply failed: ci-1-2, ci-1-3: ") ||
			!slices.Equal(failure.Missing, []string{"ci-1-2", "ci-1-3"}) {
			t.Errorf("got %v", err)
		}
	})
}

func TestHintsNameTheHypervisor(t *testing.T) {
	nodes := cluster.Nodes{{Name: "a-1", Placement: placement.VM{Hypervisor: "pve1"}.Document()}, {Name: "a-2", Placement: placement.VM{Hypervisor: "pve2"}.Document()}, {
		Name: "a-3", Placement: placement.VM{Hypervisor: "pve2"}.Document(),
	}}
	for _, row := range []struct {
		text string
		of   []string
		want string
	}{
		{"bridge 'vmbr9' does not exist", []string{"a-2", "a-3"}, "there is no bridge vmbr9 on pve2: set the management or data bridge"},
		{"bridge 'vmbr9' does not exist", []string{"a-1", "a-3"}, "there is no bridge vmbr9 on that hypervisor: set the management or data bridge"},
		{"received an HTTP 595 response - Reason: No route to host", []string{"a-1"}, "pve1 is down, or not reachable from the API server: bring it back (pvecm status); a cluster that has no node on it yet can leave it out of proxmox.hypervisors"},
		{"unable to open file '/etc/pve/nodes/pve1/qemu-server/101.conf.tmp.77' - Permission denied", []string{"a-1"}, "the Proxmox cluster has no quorum: bring enough of its hosts back"},
	} {
		p := problem(opentofu.Diagnostic{Summary: "VM start", Detail: row.text}, knownErrors())
		p.Nodes = row.of
		if got := placed(p, nodes); got != row.want {
			t.Errorf("%s:\ngot  %s\nwant %s", row.text, got, row.want)
		}
	}
}
