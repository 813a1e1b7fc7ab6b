package pve

import (
	"testing"
	"time"
)

// TestMonitor: who may give which command to a machine's monitor and keyboard, and what they say.
func TestMonitor(t *testing.T) {
	const vm = "/nodes/pve1/qemu/150"
	for _, version := range []string{Version84, Version92} {
		t.Run(version, func(t *testing.T) {
			_, c, _ := startServer(t, Options{Version: version})
			c.task("POST", "/nodes/pve1/qemu", "vmid=150&memory=64")
			audit := map[string]string{Version84: "VM.Monitor", Version92: "Sys.Audit"}[version]
			reader := c.as(c.grant("reader@pve", map[string][]string{"/": {audit, "VM.Console"}}))
			nobody := c.as(c.grant("nobody@pve", map[string][]string{"/": {"VM.Audit"}}))
			if got := c.ok("POST", vm+"/monitor", "command=info%20status"); got != "ERROR: VM 150 is not running\n" {
				t.Errorf("stopped: %q", got)
			}
			refused := map[string]string{
				Version84: "Permission check failed (/vms/150, VM.Monitor)",
				Version92: "Permission check failed (/, Sys.Audit|Sys.Modify)",
			}[version]
			change := map[string]string{
				Version84: "Permission check failed (/, Sys.Modify)",
				Version92: "command 'stop' non-existent or not assigned a required permission yet, " +
					"limiting to root user",
			}[version]
			for _, row := range []struct {
				who                *client
				method, path, form string
				want               string
			}{
				{c, "PUT", vm + "/sendkey", "key=ret", "VM 150 not running"},
				{nobody, "PUT", vm + "/sendkey", "key=ret", "Permission check failed (/vms/150, VM.Console)"},
				{reader, "PUT", vm + "/sendkey", "", "Parameter verification failed."},
				{nobody, "POST", vm + "/monitor", "command=info%20status", refused},
				{reader, "POST", vm + "/monitor", "command=stop", change},
				{reader, "POST", vm + "/monitor", "", "Parameter verification failed."},
				{c, "POST", "/nodes/pve1/qemu/151/monitor", "command=info%20status", "Configuration file 'nodes/pve1/qemu-server/151.conf' does not exist"},
				{nobody, "GET", "/nodes/pve1/config", "", "Permission check failed (/, Sys.Audit)"},
				{c, "GET", "/nodes/pve1/config?property=nope", "", "Parameter verification failed."},
			} {
				var form any
				if row.form != "" {
					form = row.form
				}
				if a := row.who.do(row.method, row.path, form); a.Reason != row.want {
					t.Errorf("%s %s %s = %d %s, want %s", row.method, row.path, row.form, a.Status, a.Reason, row.want)
				}
			}
			c.task("POST", vm+"/status/start", nil)
			for command, want := range map[string]string{
				"info%20status": "VM status: running\r\n", "info%20nope": "unknown command: 'info nope'\r\n",
			} {
				if got := reader.ok("POST", vm+"/monitor", "command="+command); got != want {
					t.Errorf("%s: %q, want %q", command, got, want)
				}
			}
			reader.ok("PUT", vm+"/sendkey", "key=ctrl-alt-delete")
		})
	}
}

// A VM that the HA manager has is moved by it: the call only asks.
func TestHAMigrate(t *testing.T) {
	_, c, _ := startServer(t, Options{HADelay: -1})
	c.task("POST", "/nodes/pve1/qemu", "vmid=150&memory=64")
	c.ok("POST", "/cluster/ha/resources", "sid=vm:150&state=stopped")
	upid, _ := c.ok("POST", "/nodes/pve1/qemu/150/migrate", "target=pve2").(string)
	if exit := c.wait(upid); exit != "OK" {
		t.Errorf("the request ends %q", exit)
	}
	rows, _ := c.ok("GET", "/nodes/pve1/tasks/"+upid+"/log", nil).([]any)
	if len(rows) == 0 || field(rows[0], "t") != "Requesting HA migration for VM 150 to node pve2" {
		t.Errorf("its log is %v", rows)
	}
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if a := c.do("GET", "/nodes/pve2/qemu/150/config", nil); a.Status == 200 {
			return
		} else if time.Now().After(end) {
			t.Fatalf("it is not moved: %s", a.Reason)
		}
	}
}
