package pve

import (
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A VM becomes the HA manager's, is started and stopped by it, and is deleted, by API calls alone.
func TestHAManagedVM(t *testing.T) {
	for _, version := range []string{Version84, Version92} {
		t.Run(version, func(t *testing.T) {
			_, c, _ := startServer(t, Options{Version: version, HADelay: -1})
			const vm, resources = "/nodes/pve1/qemu/150", "/cluster/ha/resources"
			c.task("POST", "/nodes/pve1/qemu", "vmid=150&memory=64&scsi0=local-lvm:1")
			c.ok("POST", resources, url.Values{"sid": {"vm:150"}, "comment": {"ours"}, "max_restart": {"2"}})
			c.await(vm, "running", "started")
			got, _ := c.ok("GET", resources+"/150", nil).(map[string]any)
			if got["digest"] == "" || got["sid"] != "vm:150" || got["type"] != "vm" || got["max_restart"] != 2.0 ||
				got["comment"] != "ours" {
				t.Errorf("the resource is %v", got)
			}
			if rows, _ := c.ok("GET", resources, nil).([]any); len(rows) != 1 {
				t.Errorf("resources: %v", rows)
			}
			if exit := c.task("POST", vm+"/status/stop", nil); exit != "OK" {
				t.Errorf("the request to stop ends %q", exit)
			}
			c.await(vm, "stopped", "stopped")
			if exit := c.task("POST", vm+"/status/start", nil); exit != "OK" {
				t.Errorf("the request to start ends %q", exit)
			}
			c.await(vm, "running", "started")
			if exit := c.task("POST", vm+"/status/shutdown", "timeout=5"); exit != "OK" {
				t.Errorf("the request to shut down ends %q", exit)
			}
			c.await(vm, "stopped", "stopped")
			var types []string
			rows, _ := c.ok("GET", "/nodes/pve1/tasks?vmid=150", nil).([]any)
			for _, row := range rows {
				types = append(types, field(row, "type"))
			}
			if diff := cmp.Diff(
				[]string{"qmshutdown", "hastop", "qmstart", "hastart", "qmstop", "hastop", "qmstart", "qmcreate"},
				types,
			); diff != "" {
				t.Errorf("tasks (-want +got):\n%s", diff)
			}
			if a := c.do("DELETE", vm, nil); a.Reason != "unable to remove VM 150 - used in HA resources and purge parameter not set." {
				t.Errorf("delete = %d %s", a.Status, a.Reason)
			}
			c.ok("PUT", resources+"/vm:150", "state=ignored")
			if exit := c.task("POST", vm+"/status/start", nil); exit != "OK" || c.status(vm)["status"] != "running" {
				t.Errorf("one that is ignored is not started at once: %q", exit)
			}
			c.task("POST", vm+"/status/stop", nil)
			if exit := c.task("DELETE", vm+"?purge=1", nil); exit != "OK" {
				t.Errorf("delete ends %q", exit)
			}
			if rows, _ := c.ok("GET", resources, nil).([]any); len(rows) != 0 {
				t.Errorf("left: %v", rows)
			}
		})
	}
}

// await waits until a VM has a state of power and of the HA manager's.
func (c *client) await(vm, power, ha string) {
	c.t.Helper()
	var last map[string]any
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		if last = c.status(vm); last["status"] == power && field(last["ha"], "state") == ha {
			return
		}
	}
	c.t.Fatalf("%s never is %s and %s: %v", vm, power, ha, last)
}

func (c *client) status(vm string) map[string]any {
	c.t.Helper()
	status, _ := c.ok("GET", vm+"/status/current", nil).(map[string]any)
	return status
}

// What the HA manager's calls refuse, with the words of the version.
func TestHARefusals(t *testing.T) {
	const resources, groups = "/cluster/ha/resources", "/cluster/ha/groups"
	for _, version := range []string{Version84, Version92} {
		_, c, _ := startServer(t, Options{Version: version, HADelay: -1})
		c.task("POST", "/nodes/pve1/qemu", "vmid=150&memory=64")
		for _, row := range []struct {
			method, path, form string
			on84, on92         string // reasons; "" is none
		}{
			{"GET", "/cluster/ha/rules", "", "Method 'GET /cluster/ha/rules' not implemented", "OK"},
			{"GET", groups, "", "OK", "cannot index groups: ha groups have been migrated to rules"},
			{"POST", groups, "group=x&nodes=pve1", "Parameter verification failed.", "Parameter verification failed."},
			{"POST", groups, "group=gg&nodes=pve1:x", "Parameter verification failed.", "Parameter verification failed."},
			{"POST", groups, "group=gg&nodes=pve1:1,pve2", "OK", "cannot create group: ha groups have been migrated to rules"},
			{"POST", groups, "group=gg&nodes=pve1", "create ha group failed: ha group ID 'gg' already defined", "cannot create group: ha groups have been migrated to rules"},
			{"GET", groups + "/gg", "", "OK", "cannot read group: ha groups have been migrated to rules"},
			{"GET", groups + "/hh", "", "no such ha group 'hh'", "cannot read group: ha groups have been migrated to rules"},
			{"GET", resources + "/vm:150", "", "no such resource 'vm:150'", "no such resource 'vm:150'"},
			{"GET", resources + "/151", "", "unable to detect SID from VMID - VM/CT 151 does not exist", "unable to detect SID from VMID - VM/CT 151 does not exist"},
			{"POST", resources, "sid=vm150", "Parameter verification failed.", "Parameter verification failed."},
			{"POST", resources, "sid=vm:151", "resource 'vm:151' does not exist in cluster", "resource 'vm:151' does not exist in cluster"},
			{"POST", resources, "sid=vm:150&type=ct", "types does not match", "types does not match"},
			{"POST", resources, "sid=150&state=stopped&group=gg", "OK", "invalid parameter 'group': ha groups have been migrated to rules"},
			{"PUT", resources + "/150", "group=hh", "HA group 'hh' does not exist", "invalid parameter 'group': ha groups have been migrated to rules"},
			{"DELETE", groups + "/gg", "", "delete ha group failed: ha group is used by service 'vm:150'", "cannot delete group: ha groups have been migrated to rules"},
			{"PUT", resources + "/vm:150", "delete=group", "OK", "update resources config failed: no such resource 'vm:150'"},
			{"DELETE", groups + "/gg", "", "OK", "cannot delete group: ha groups have been migrated to rules"},
			{"DELETE", resources + "/vm:150", "", "OK", "cannot delete service 'vm:150', not HA managed!"},
			{"POST", resources, "sid=vm:150&state=stopped", "OK", "OK"},
			{"POST", resources, "sid=vm:150", "create resource failed: resource ID 'vm:150' already defined", "create resource failed: resource ID 'vm:150' already defined"},
		} {
			var form any
			if row.form != "" {
				form = row.form
			}
			want := map[string]string{Version84: row.on84, Version92: row.on92}[version]
			if a := c.do(row.method, row.path, form); a.Reason != want {
				t.Errorf(
					"%s: %s %s %s = %d %s %v, want %s", version, row.method, row.path, row.form, a.Status, a.Reason,
					a.Errors, want,
				)
			}
		}
	}
}
