package proxmox

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const testUPID = "UPID:pve1:00000286:000880DD:6B0A012B:qmdestroy:112:hive@pve!ci:"

// onTask makes the fake run one task that is polled a few times before it ends.
func onTask(f *fakePVE, polls int32, exit string, log ...string) {
	var asked atomic.Int32
	f.on("GET /nodes/pve1/tasks/"+testUPID+"/status", func(w http.ResponseWriter, _ *http.Request) {
		switch n := asked.Add(1); {
		case n == 1 && polls > 0:
			answer(w, 595, "Connection refused", "")
		case n <= polls:
			writeData(w, map[string]string{"status": "running"})
		default:
			writeData(w, map[string]string{"status": "stopped", "exitstatus": exit})
		}
	})
	rows := []any{}
	for i, line := range log {
		rows = append(rows, map[string]any{"n": i + 1, "t": line})
	}
	f.data("GET /nodes/pve1/tasks/"+testUPID+"/log", rows)
}

func TestDeleteWaitsForItsTask(t *testing.T) {
	f := newFakePVE(t)
	f.data("DELETE /nodes/pve1/qemu/112", testUPID)
	onTask(f, 3, "OK", "Could not remove disk 'local:112/vm-112-disk-0.qcow2', check manually: lock timeout", "TASK OK")
	result, err := f.client(t).Delete(t.Context(), "pve1", 112)
	if err != nil {
		t.Fatal(err)
	}
	if len(result.LeftoverDisks()) != 1 || len(result.Log) != 1 || result.UPID != testUPID {
		t.Errorf("got %+v", result)
	}
	if want := "DELETE /nodes/pve1/qemu/112?destroy-unreferenced-disks=1&purge=1"; f.journal[0] != want {
		t.Errorf("sent %s, want %s", f.journal[0], want)
	}
}

func TestATaskThatFailsKeepsItsTexts(t *testing.T) {
	for _, tc := range []struct {
		name, exit string
		log        []string
		is         error
		text       string
	}{
		{"refused", "VM is locked (backup)", []string{"TASK ERROR: VM is locked (backup)"}, ErrLocked, "task qmdestroy of VM 112 on pve1 failed: VM is locked (backup)"},
		{"gone", "Configuration file 'nodes/pve1/qemu-server/112.conf' does not exist", []string{"trying to acquire lock...", " OK"}, ErrNotFound, "112.conf"},
		{"cause in the log", "start failed: QEMU exited with code 1", []string{"bridge 'vmbr99' does not exist", "TASK ERROR: start failed"}, nil, "\n  bridge 'vmbr99' does not exist"},
		{"warnings", "WARNINGS: 1", []string{"WARN: no efidisk"}, nil, "WARN: no efidisk"},
		{"privilege", "403 Permission check failed (/storage/local, Datastore.AllocateSpace)", nil, ErrForbidden, "Datastore.AllocateSpace"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFakePVE(t)
			f.data("POST /nodes/pve1/qemu/112/status/stop", testUPID)
			onTask(f, 0, tc.exit, tc.log...)
			_, err := f.client(t).Stop(t.Context(), "pve1", 112)
			failed, ok := errors.AsType[*TaskError](err)
			if !ok || failed.ExitStatus != tc.exit || !strings.Contains(err.Error(), tc.text) {
				t.Fatalf("got %v", err)
			}
			if diff := cmp.Diff(append([]string{}, tc.log...), failed.Log); diff != "" {
				t.Errorf("log (-want +got)\n%s", diff)
			}
			if tc.is != nil && !errors.Is(err, tc.is) {
				t.Errorf("%v is not %v", err, tc.is)
			}
		})
	}
}

func TestTaskWaitEndsWithItsContext(t *testing.T) {
	f := newFakePVE(t)
	onTask(f, 1<<30, "")
	ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
	defer cancel()
	_, err := f.client(t).WaitTask(ctx, testUPID)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), testUPID) {
		t.Errorf("got %v", err)
	}
	if _, err := f.client(t).WaitTask(t.Context(), "nonsense"); err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("got %v", err)
	}
}

func TestLogOfAnUnknownTask(t *testing.T) {
	f := newFakePVE(t)
	f.data("GET /nodes/pve1/tasks/"+testUPID+"/log", map[string]any{"n": 1, "t": "unable to open file - No such file or directory"})
	if _, err := f.client(t).TaskLog(t.Context(), testUPID); err == nil || !strings.Contains(err.Error(), "unable to open file") {
		t.Errorf("got %v", err)
	}
}
