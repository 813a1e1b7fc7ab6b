package pve

import (
	"encoding/json"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
)

// recordedPermissions are calls made with tokens that lack exactly one privilege: what each refused.
type recordedPermissions struct {
	Calls []struct {
		Note, Method, Path string
		Params             map[string]any
	}
	Lacking map[string]map[string][2]any // privilege, note: status and text
}

func TestEachMissingPrivilegeIsRefusedAsRecorded(t *testing.T) {
	b, err := os.ReadFile("../../../testdata/pve/permissions.json")
	if err != nil {
		t.Fatal(err)
	}
	var rec recordedPermissions
	if err := json.Unmarshal(b, &rec); err != nil {
		t.Fatal(err)
	}
	c := lab(t, nil)
	all := sortedKeys(rec.Lacking)
	for i, priv := range all {
		t.Run(priv, func(t *testing.T) {
			prepareForPermissions(c)
			rest := slices.DeleteFunc(slices.Clone(all), func(p string) bool { return p == priv })
			limited := c.as(c.grant("limited"+itoa(i)+"@pve", map[string][]string{"/": rest}))
			for _, call := range rec.Calls {
				checkPermission(
					t, c, limited, call.Note, call.Method, call.Path, call.Params, rec.Lacking[priv][call.Note],
				)
			}
		})
	}
}

func checkPermission(t *testing.T, admin, c *client, note, method, path string, params map[string]any, want [2]any) {
	t.Helper()
	var form any
	if params != nil {
		form = body(params)
	}
	a := c.send(method, path, form)
	status, text := a.Status, a.Reason
	upid, isTask := a.Data.(string)
	exit := ""
	if isTask && strings.HasPrefix(upid, "UPID") {
		exit = admin.wait(upid)
	}
	wantText, _ := want[1].(string)
	switch {
	case strings.HasPrefix(wantText, "TASK:"):
		if exit != strings.TrimPrefix(wantText, "TASK:") {
			t.Errorf("%s: task = %q, want %s", note, exit, wantText)
		}
	case want[0] != nil:
		if float64(status) != want[0] || text != wantText {
			t.Errorf("%s = %d %s, want %v %s", note, status, text, want[0], wantText)
		}
	case status == 403 || strings.Contains(exit, "Permission"):
		t.Errorf("%s = %d %s (task %q), want no refusal", note, status, text, exit)
	}
	if strings.HasPrefix(note, "create") || strings.HasPrefix(note, "clone") {
		admin.remove("160", "162")
	}
}

func (c *client) remove(vmids ...string) {
	c.t.Helper()
	for _, id := range vmids {
		if d := c.do("DELETE", "/nodes/pve1/qemu/"+id, nil); d.Status == 200 {
			c.wait(d.Data.(string))
		}
	}
}

// prepareForPermissions makes what the recorded calls are about: a running VM 150, a stopped VM 161, a template 120.
func prepareForPermissions(c *client) {
	c.t.Helper()
	c.task("POST", "/nodes/pve1/qemu/150/status/stop", nil)
	c.remove("150", "161", "120", "160", "162")
	c.do("DELETE", "/pools/pp", nil)
	c.do("DELETE", "/pools/px", nil)
	c.ok("POST", "/pools", "poolid=pp")
	c.task("POST", "/nodes/pve1/qemu", "vmid=150&agent=1&memory=64&virtio0=local:1&boot=order%3Dvirtio0")
	c.task("POST", "/nodes/pve1/qemu/150/status/start", nil)
	c.task(
		"POST", "/nodes/pve1/qemu",
		"vmid=161&memory=64&virtio0=local:1&ide2=local:cloudinit&net0=virtio,bridge%3Dvmbr0",
	)
	c.task("POST", "/nodes/pve1/qemu", "vmid=120&memory=64&virtio0=local:1&net0=virtio,bridge%3Dvmbr0")
	c.task("POST", "/nodes/pve1/qemu/120/template", nil)
}

// grant makes a user with privileges on paths, and a token of it without privilege separation.
func (c *client) grant(user string, on map[string][]string) string {
	c.t.Helper()
	c.ok("POST", "/access/users", url.Values{"userid": {user}})
	for i, path := range sortedKeys(on) {
		name, _, _ := strings.Cut(user, "@")
		role := "R" + name + itoa(i)
		c.ok("POST", "/access/roles", url.Values{"roleid": {role}, "privs": {strings.Join(on[path], ",")}})
		c.ok("PUT", "/access/acl", url.Values{"path": {path}, "roles": {role}, "users": {user}})
	}
	t, _ := c.ok("POST", "/access/users/"+user+"/token/t1", "privsep=0").(map[string]any)
	return user + "!t1=" + t["value"].(string)
}
