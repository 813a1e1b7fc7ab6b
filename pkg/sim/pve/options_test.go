package pve

import (
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRestrictedTags sets tags with a token that may not modify the system, under every rule there is for them.
func TestRestrictedTags(t *testing.T) {
	const (
		refusedA = "Permission check failed (/, Sys.Modify for modifying tag 'a')"
		// As Proxmox VE 9.2 refuses any tag of a new VM where tags are not free.
		refusedAny = "unable to create VM 201 - 403 Permission check failed (/, Sys.Modify for modifying tag 'HASH(0x55a547ef54b8)')"
	)
	for _, row := range []struct {
		name, registered, access string
		tags                     string
		create84, create92       string // how the task ends that makes a VM with these tags
		change                   string // the reason of a change to them from "z", which another VM has, too
		allowed                  []any
	}{
		{name: "nothing is set", tags: "a", create84: "OK", create92: "OK", change: "OK", allowed: []any{"z"}},
		{name: "registered", registered: "a;b", tags: "a", create84: "OK", create92: "unable to create VM 201 - 403 " + refusedA, change: refusedA, allowed: []any{"z"}},
		{name: "another is registered", registered: "b", tags: "a", create84: "OK", create92: "OK", change: "OK", allowed: []any{"z"}},
		{
			name: "what is taken away is registered", registered: "z", tags: "a", create84: "OK", create92: "OK",
			change: "Permission check failed (/, Sys.Modify for modifying tag 'z')", allowed: []any{},
		},
		{name: "none", access: "user-allow=none,user-allow-list=a", tags: "a", create84: "OK", create92: refusedAny, change: refusedA, allowed: []any{}},
		{name: "list", access: "user-allow=list,user-allow-list=a;z", tags: "a", create84: "OK", create92: refusedAny, change: "OK", allowed: []any{"a", "z"}},
		{name: "not in the list", access: "user-allow=list,user-allow-list=z", tags: "a", create84: "OK", create92: refusedAny, change: refusedA, allowed: []any{"z"}},
		{name: "existing", access: "user-allow=existing", tags: "z", create84: "OK", create92: refusedAny, change: "OK", allowed: []any{"z"}},
		{name: "not existing", access: "user-allow=existing", tags: "a", create84: "OK", create92: refusedAny, change: refusedA, allowed: []any{"z"}},
		{name: "listed and registered", registered: "a", access: "user-allow=list,user-allow-list=a", tags: "z;a", create84: "OK", create92: refusedAny, change: refusedA, allowed: []any{}},
		{name: "free", access: "user-allow=free", tags: "a", create84: "OK", create92: "OK", change: "OK", allowed: []any{"z"}},
	} {
		for version, create := range map[string]string{Version84: row.create84, Version92: row.create92} {
			t.Run(row.name+" on "+version, func(t *testing.T) {
				_, c, _ := startServer(t, Options{Version: version})
				user := c.as(c.grant(
					"plain@pve", map[string][]string{"/vms": {"VM.Allocate", "VM.Audit", "VM.Config.Options"}},
				))
				for _, id := range []string{"100", "200"} {
					c.task("POST", "/nodes/pve1/qemu", url.Values{"vmid": {id}, "tags": {"z"}})
				}
				for k, text := range map[string]string{registeredTags: row.registered, userTagAccess: row.access} {
					if text != "" {
						c.ok("PUT", "/cluster/options", url.Values{k: {text}})
					}
				}
				got := user.ok("GET", "/cluster/options", nil)
				if diff := cmp.Diff(map[string]any{"allowed-tags": row.allowed}, got); diff != "" {
					t.Errorf("options (-want +got):\n%s", diff)
				}
				if a := user.do(
					"PUT", "/nodes/pve1/qemu/200/config", url.Values{"tags": {row.tags}},
				); a.Reason != row.change {
					t.Errorf("change = %d %s, want %s", a.Status, a.Reason, row.change)
				}
				upid, _ := user.ok("POST", "/nodes/pve1/qemu", url.Values{"vmid": {"201"}, "tags": {row.tags}}).(string)
				if exit := c.wait(upid); exit != create {
					t.Errorf("create ends %q, want %q", exit, create)
				}
				if exit := c.task("POST", "/nodes/pve1/qemu/200/config", url.Values{"tags": {row.tags}}); exit != "OK" {
					t.Errorf("who may modify the system is refused: %s", exit)
				}
			})
		}
	}
}

func TestOptions(t *testing.T) {
	s, c, _ := startServer(t, Options{})
	if a := c.do("PUT", "/cluster/options", "user-tag-access=user-allow%3Dsome"); a.Status != 400 {
		t.Errorf("an unknown rule: %d %s", a.Status, a.Reason)
	}
	if a := c.do("PUT", "/cluster/options", "mac_prefix=BC:24:12"); a.Status != 501 {
		t.Errorf("an option that is not simulated: %d %s", a.Status, a.Reason)
	}
	if a := c.as(c.grant(
		"audit@pve", map[string][]string{"/": {"Sys.Audit"}},
	)).do("PUT", "/cluster/options", "description=x"); a.Reason != "Permission check failed (/, Sys.Modify)" {
		t.Errorf("without Sys.Modify: %d %s", a.Status, a.Reason)
	}
	c.ok("PUT", "/cluster/options", url.Values{registeredTags: {"b;a"}, userTagAccess: {"user-allow=list,user-allow-list=c"}})
	want := map[string]any{
		"description": "", "mac_prefix": "BC:24:11", registeredTags: []any{"b", "a"},
		"allowed-tags": []any{"a", "b", "c"},
		userTagAccess:  map[string]any{"user-allow": "list", "user-allow-list": []any{"c"}},
	}
	if diff := cmp.Diff(want, c.ok("GET", "/cluster/options", nil)); diff != "" {
		t.Errorf("options (-want +got):\n%s", diff)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, c, _ = startServer(t, Options{Dir: s.opt.Dir, Machines: s.opt.Machines})
	if diff := cmp.Diff(want, c.ok("GET", "/cluster/options", nil)); diff != "" {
		t.Errorf("after a restart (-want +got):\n%s", diff)
	}
	c.ok("PUT", "/cluster/options", url.Values{"delete": {"registered-tags,user-tag-access"}})
	if diff := cmp.Diff(
		map[string]any{"description": "", "mac_prefix": "BC:24:11", "allowed-tags": []any{}},
		c.ok("GET", "/cluster/options", nil),
	); diff != "" {
		t.Errorf("deleted (-want +got):\n%s", diff)
	}
}
