package api

import (
	"fmt"
	"slices"
	"strings"
)

// RoleName is how the role that hive-test needs is called in the commands that make it.
const RoleName = "HiveTest"

// runInGuest is the privilege to run commands through guest agents on Proxmox VE 9; on 8 it is part of VM.Monitor.
const runInGuest = "VM.GuestAgent.Unrestricted"

// RolePrivileges are the privileges of the role for a major version of Proxmox VE: what creating, watching and deleting
// VMs needs of an image or a template, and nothing that concerns users. VM.Monitor is gone in 9, where asking guest
// agents has privileges of its own; of these the one to run commands is left out (RoleScript says what that costs).
func RolePrivileges(major int) []string {
	privs := []string{
		"Datastore.Allocate", "Datastore.AllocateSpace", "Datastore.AllocateTemplate", "Datastore.Audit",
		"Pool.Allocate", "Pool.Audit",
		"SDN.Use", "Sys.Audit", "Sys.Console", "Sys.Modify",
		"VM.Allocate", "VM.Audit", "VM.Clone", "VM.Config.CDROM", "VM.Config.CPU", "VM.Config.Cloudinit",
		"VM.Config.Disk", "VM.Config.HWType",
		"VM.Config.Memory", "VM.Config.Network", "VM.Config.Options", "VM.Console", "VM.Migrate", "VM.PowerMgmt",
		"VM.Snapshot",
	}
	if major >= 9 {
		privs = append(privs, "VM.GuestAgent.Audit", "VM.GuestAgent.FileRead")
	} else {
		privs = append(privs, "VM.Monitor")
	}
	slices.Sort(privs)
	return privs
}

// makeRole is the command that makes the role, or mends it where it is there.
func makeRole(major int) string {
	privs := "'" + strings.Join(RolePrivileges(major), ",") + "'"
	return fmt.Sprintf(
		"pveum role modify %s --privs %s || pveum role add %s --privs %s", RoleName, privs, RoleName, privs,
	)
}

// RoleScript is what an administrator runs on a hypervisor to let hive-test in, for a major version of Proxmox VE: the
// role, and two ways to a token that has it. tokenID is the token of the first way, user@realm!name.
func RoleScript(major int, tokenID string) string {
	if tokenID == "" {
		tokenID = "root@pam!hive-test"
	}
	user, name := splitToken(tokenID)
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# Proxmox VE %d: run as root on one hypervisor.", major)
	line("pveum role add %s --privs '%s'", RoleName, strings.Join(RolePrivileges(major), ","))
	if major >= 9 {
		line("# %s is left out: it runs any command as root in every VM that it is given for.", runInGuest)
		line(
			"# Without it, evidence of a node that SSH does not reach is some files, in place of what commands tell. " +
				"To give it:",
		)
		line("# pveum role modify %s --append 1 --privs %s", RoleName, runInGuest)
	}
	line("")
	line(
		"# Way A: a token of a user that is there, with privilege separation: it has what it is given here (and its " +
			"user has).",
	)
	line("# Leave out the first line if the token exists.")
	line("pveum user token add %s %s --privsep 1", user, name)
	line("pveum acl modify / --tokens '%s' --roles %s", tokenID, RoleName)
	line("")
	line("# Way B: a user of its own whose token has the user's privileges.")
	line("pveum user add hive-test@pve")
	line("pveum acl modify / --users hive-test@pve --roles %s", RoleName)
	line("pveum user token add hive-test@pve hive-test --privsep 0")
	return b.String()
}

// splitToken parts user@realm!name.
func splitToken(id string) (user, name string) {
	user = id
	if at := strings.LastIndex(id, "!"); at >= 0 { // a user's name may hold one, the token's does not
		user, name = id[:at], id[at+1:]
	}
	if user == "" {
		user = "USER@REALM"
	}
	if name == "" {
		name = "NAME"
	}
	return user, name
}

// TokenID is what names a token, user@realm!name, without its secret; empty if it has another form.
func TokenID(token string) string {
	match := tokenPattern.FindStringSubmatch(token)
	if match == nil {
		return ""
	}
	return match[1]
}
