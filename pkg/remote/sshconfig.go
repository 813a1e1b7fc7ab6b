package remote

import (
	"bytes"
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"hive-test/pkg/cluster"
)

// SSHConfig returns an ssh_config text with one entry per node of inv, for use as "ssh -F FILE NAME-1". It takes host
// keys from knownHostsPath and from nowhere else. Nodes go by their addresses too, for programs that know no more of
// them; those without an address are left out. Paths with a line break cannot be expressed in ssh_config and come out
// without it.
func SSHConfig(inv cluster.Inventory, knownHostsPath string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Cluster %s. Use: ssh -F FILE NODE\n", inv.ClusterName)
	for i, jump := range inv.ProxyJump {
		writeJump(&b, inv, i, jump, knownHostsPath)
	}
	for _, n := range inv.Nodes {
		if !n.Management.IsValid() {
			continue
		}
		fmt.Fprintf(&b, "\nHost %s %s\n", n.Name, n.Management)
		writeHost(&b, n.Management.String(), cmp.Or(n.SSHPort, 22), inv.SSHUser, inv.SSHKeyPath)
		b.WriteString("    IdentitiesOnly yes\n")
		writeWay(&b, inv.SSHAgent, len(inv.ProxyJump), knownHostsPath)
	}
	return b.Bytes()
}

// jumpName is how the ssh_config calls a jump host: no node is called so.
func jumpName(i int) string { return "hive-test-jump-" + strconv.Itoa(i+1) }

func writeJump(b *bytes.Buffer, inv cluster.Inventory, i int, jump cluster.JumpHost, knownHostsPath string) {
	fmt.Fprintf(b, "\nHost %s\n", jumpName(i))
	writeHost(b, jump.Host, jump.Port, jump.User, append([]string{inv.SSHKeyPath}, jump.IdentityFiles...)...)
	writeWay(b, jump.AgentSocket, i, knownHostsPath)
}

// writeHost says who is logged in where. An IPv6 address may have a zone, after %.
func writeHost(b *bytes.Buffer, host string, port int, user string, keys ...string) {
	fmt.Fprintf(b, "    HostName %s\n    Port %d\n    User %s\n", strings.ReplaceAll(host, "%", "%%"), port, user)
	for _, file := range keys {
		fmt.Fprintf(b, "    IdentityFile %s\n", configPath(file))
	}
}

// writeWay says what else it takes to get there: through so many jump hosts.
func writeWay(b *bytes.Buffer, agentSocket string, jumps int, knownHostsPath string) {
	if agentSocket != "" {
		fmt.Fprintf(b, "    IdentityAgent %s\n", configPath(agentSocket))
	}
	if jumps > 0 {
		fmt.Fprintf(b, "    ProxyJump %s\n", jumpName(jumps-1))
	}
	fmt.Fprintf(b, "    UserKnownHostsFile %s\n", configPath(knownHostsPath))
	b.WriteString("    GlobalKnownHostsFile /dev/null\n")
	b.WriteString("    StrictHostKeyChecking yes\n")
	b.WriteString("    UpdateHostKeys no\n")
}

// configPath quotes a path for ssh_config, where % begins a token and a backslash keeps a quote (OpenSSH 8.7 and
// later).
func configPath(p string) string {
	p = strings.NewReplacer("%", "%%", `\`, `\\`, `"`, `\"`, "\n", "", "\r", "").Replace(p)
	return `"` + p + `"`
}
