package api_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/deploy/proxmox/api"
	"hive-test/pkg/sim/host"
	"hive-test/pkg/sim/pve"
)

// guests are machines whose agents run commands: what was asked, and one that ends at the second look.
type guests struct {
	machines
	mu    sync.Mutex
	asked []string
	looks int
}

func (g *guests) Exec(_ context.Context, _ string, argv []string, _ []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked = argv
	return 77, nil
}

func (g *guests) ExecStatus(_ context.Context, _ string, pid int) (host.ExecResult, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.looks++; g.looks < 2 || pid != 77 {
		return host.ExecResult{}, nil
	}
	return host.ExecResult{Exited: true, ExitCode: 3, Stdout: []byte("größer\n"), Stderr: []byte("no\n")}, nil
}

func TestWhatAHypervisorTellsOfAVM(t *testing.T) {
	agents := &guests{machines: machines{specs: map[string]host.Spec{}}}
	l := newLab(t, func(o *pve.Options) { o.Machines = agents })
	nodes := l.choose(spec(1))
	n := nodes[0]
	began := time.Now()
	l.make("ci-1", "owner", n)
	config, err := l.Config(t.Context(), placement.Of(n).Hypervisor, placement.Of(n).VMID)
	if err != nil || !strings.Contains(config, "name: ci-1-1\n") || !strings.Contains(config, "memory: 1024\n") {
		t.Errorf("config %q, %v", config, err)
	}
	status, err := l.Status(t.Context(), placement.Of(n).Hypervisor, placement.Of(n).VMID)
	if err != nil || !strings.Contains(status, "status: running\n") {
		t.Errorf("status %q, %v", status, err)
	}
	l.fault(`[{"path": "/nodes/*/qemu/*/status/stop", "method": "POST", "task_error": "it would not stop"}]`)
	if err := l.Stop(t.Context(), placement.Of(n).Hypervisor, placement.Of(n).VMID); err == nil {
		t.Error("the stop did not fail")
	}
	tasks, err := l.TaskLogs(t.Context(), placement.Of(n).Hypervisor, placement.Of(n).VMID, began.Add(-time.Minute), 10)
	logs := api.TaskText(tasks)
	if err != nil || !strings.Contains(logs, "TASK ERROR: it would not stop") ||
		!strings.Contains(logs, " qmcreate by ") || !strings.Contains(logs, " qmstart by ") {
		t.Errorf("tasks %q, %v", logs, err)
	}
	if logs, err := l.TaskLogs(t.Context(), placement.Of(n).Hypervisor, placement.Of(n).VMID, time.Now().Add(time.Hour), 10); len(logs) > 0 ||
		err != nil {
		t.Errorf("tasks since later %v, %v", logs, err)
	}
	if tasks, err := l.Tasks(t.Context(), placement.Of(n).Hypervisor, placement.Of(n).VMID, time.Time{}, 1); err != nil || len(tasks) != 1 {
		t.Errorf("tasks %+v, %v", tasks, err)
	}
	result, err := l.Exec(t.Context(), placement.Of(n).Hypervisor, placement.Of(n).VMID, "df -h; exit 3")
	if err != nil || result.ExitCode != 3 || string(result.Stdout) != "größer\n" || string(result.Stderr) != "no\n" {
		t.Errorf("got %+v, %v", result, err)
	}
	if got := strings.Join(agents.asked, "|"); got != "/bin/sh|-c|df -h; exit 3" {
		t.Errorf("asked for %s", got)
	}
}

func TestAGuestThatMayNotBeAskedToRunCommands(t *testing.T) {
	l := newLab(t, func(o *pve.Options) { o.Version = pve.Version92 })
	nodes := l.choose(spec(1))
	l.make("ci-1", "owner", nodes[0])
	l.fault(
		`[{"path": "/nodes/*/qemu/*/agent/exec", "method": "POST", "status": 403, "reason": "Permission check failed (/vms/1, VM.GuestAgent.Unrestricted)"}]`,
	)
	if _, err := l.Exec(t.Context(), placement.Of(nodes[0]).Hypervisor, placement.Of(nodes[0]).VMID, "date"); !errors.Is(err, api.ErrForbidden) {
		t.Errorf("got %v", err)
	}
	if _, err := l.Config(t.Context(), placement.Of(nodes[0]).Hypervisor, 99999); !errors.Is(err, api.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}
