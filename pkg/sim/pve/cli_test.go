package pve

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAdminPrograms: qm, pvesm, pveum and pvesh do as root what the API does, and are as strict. Those of 340 and 999
// are records.
func TestTablesShowObjectsAsJSON(t *testing.T) {
	var out strings.Builder
	printTable(stdio{out: &out}, map[string]any{"info": map[string]any{"privsep": "1"}, "value": "x"})
	const want = `+-------+-----------------+
| key   | value           |
+=======+=================+
| info  | {"privsep":"1"} |
+-------+-----------------+
| value | x               |
+-------+-----------------+
`
	if out.String() != want {
		t.Errorf("got\n%s", out.String())
	}
}

func TestAdminPrograms(t *testing.T) {
	_, c, _ := startServer(t, Options{})
	root, other := c.login(0, "root"), c.login(0, "admin")
	c.task("POST", "/nodes/pve1/qemu", "vmid=340&name=cli&memory=64&serial0=socket&scsi0=local-lvm:1")
	c.task("POST", "/nodes/pve1/qemu", "vmid=341&name=plain&memory=64&scsi0=local-lvm:1")
	conf := "Configuration file 'nodes/pve1/qemu-server/999.conf' does not exist\n"
	tests := []struct {
		command     string
		out, errOut string
		rc          int
	}{
		{command: "pvesh get /cluster/nextid", out: "100\n"},
		{command: "pvesh get /nope", errOut: "No 'get' handler defined for '/nope'\n", rc: 255},
		{command: "pvesh set /cluster/options --registered-tags 'a;b'"},
		{command: "pvesh set /cluster/options --nope 1", errOut: "Unknown option: nope\n400 unable to parse option\npvesh set [OPTIONS]\n", rc: 255},
		{command: "pveum role add Test --privs 'VM.Audit,Sys.Audit'"},
		{command: "pveum role add Test --privs VM.Audit", errOut: "create role failed: role 'Test' already exists\n", rc: 255},
		{command: "pveum role modify Nope --privs VM.Audit || pveum role add Nope --privs VM.Audit", errOut: "update role failed: role 'Nope' does not exist\n"},
		{command: "pveum role modify Test --append 1 --privs VM.Console"},
		{command: "pveum role modify Test --privs VM.Nope", errOut: "400 Parameter verification failed.\nprivs: invalid format - invalid privilege 'VM.Nope'\n\npveum role modify [OPTIONS]\n", rc: 255},
		{command: "pveum role add", errOut: "400 not enough arguments\npveum role add [OPTIONS]\n", rc: 255},
		{command: "pveum user add who@pve"},
		{command: "pveum user token modify who@pve ci --privsep 0", errOut: "no such token 'ci' for user 'who@pve'\n", rc: 255},
		{command: "pveum acl modify / --users who@pve --roles Test"},
		{command: "pveum acl modify / --tokens 'who@pve!ci' --roles Test", errOut: "ACL update failed: token 'who@pve!ci' does not exist\n", rc: 255},
		{command: "pveum acl list", out: `+------+-----------+--------+------+---------+
| path | propagate | roleid | type | ugid    |
+======+===========+========+======+=========+
| /    | 1         | Test   | user | who@pve |
+------+-----------+--------+------+---------+
`},
		{command: "pveum pool add qa"},
		{command: "pvesh delete /pools/qa"},
		{command: "pvesm set local --content iso,snippets"},
		{command: "pvesm set nope --content iso", errOut: "update storage failed: storage 'nope' does not exist\n", rc: 255},
		{command: "pvesm free local:iso/none.img", out: "disk image '/var/lib/vz/template/iso/none.img' does not exist\nRemoved volume 'local:iso/none.img'\n"},
		{command: "qm terminal 340", errOut: "VM 340 not running\n", rc: 255},
		{command: "qm terminal 341", errOut: "unable to find a serial interface\n", rc: 255},
		{command: "qm terminal 999", errOut: conf, rc: 2},
		{command: "qm start 340"},
		{command: "qm status 340", out: "status: running\n"},
		{command: "qm terminal 340", out: "starting serial terminal on interface serial0 (press Ctrl+O to exit)\n"},
		{command: "qm start 999", errOut: conf, rc: 255},
		{command: "qm start x", errOut: "400 Parameter verification failed.\nvmid: type check ('integer') failed - got 'x'\nqm start [OPTIONS]\n", rc: 255},
		{command: "qm resume 340"},
		{command: "qm stop 340"},
		{command: "qm resume 340", errOut: "VM 340 not running\n", rc: 255},
		{command: "qm destroy 340 --purge", out: "purging VM 340 from related configurations..\n"},
		{command: "qm destroy 340", errOut: strings.ReplaceAll(conf, "999", "340"), rc: 2},
		{command: "qm template 341"},
		{command: "qm dance 341", errOut: "ERROR: unknown command 'qm dance 341'\n", rc: 255},
		{command: "timedatectl set-ntp true"},
		{command: "pvecm expected 1", errOut: "Unable to set expected votes: CS_ERR_INVALID_PARAM\n", rc: 255},
		{command: "ha-manager status", out: "quorum OK\n"},
		{command: "systemctl status nope", errOut: "Unit nope.service could not be found.\n", rc: 4},
	}
	for _, tt := range tests {
		out, errOut, rc := run(t, root, tt.command, "")
		if diff := cmp.Diff([]any{tt.out, tt.errOut, tt.rc}, []any{out, errOut, rc}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.command, diff)
		}
	}
	for _, program := range []string{
		"qm start 341", "pvesm status", "pveum acl list", "pvesh get /version", "pvecm status", "ha-manager status",
	} {
		if _, errOut, rc := run(t, other, program, ""); rc != 255 || errOut != "please run as root\n" {
			t.Errorf("%s by a user: %d %q", program, rc, errOut)
		}
	}
	out, _, rc := run(t, other, "sudo pvesm status --storage local", "")
	if first, rest, _ := strings.Cut(out, "\n"); rc != 0 ||
		strings.Join(strings.Fields(first), " ") != "Name Type Status Total Used Available %" ||
		!strings.HasPrefix(rest, "local ") {
		t.Errorf("pvesm status: %d\n%s", rc, out)
	}
	c.ok("POST", "/sim/nodes/pve2", map[string]any{"online": false})
	c.ok("POST", "/sim/nodes/pve3", map[string]any{"online": false})
	if out, _, rc := run(t, root, "pvecm status; pvecm expected 1", ""); rc != 0 ||
		!strings.Contains(out, "Quorate:          No") {
		t.Errorf("pvecm status without a quorum: %d\n%s", rc, out)
	}
	if out, _, rc := run(t, root, "pvecm status", ""); rc != 0 || !strings.Contains(out, "Quorate:          Yes") {
		t.Errorf("pvecm status: %d\n%s", rc, out)
	}
}
