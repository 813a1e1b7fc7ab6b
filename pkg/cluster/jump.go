package cluster

import (
	"errors"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// JumpHost is a host that SSH connections to nodes go through: a bastion.
type JumpHost struct {
	User string `json:"user"`
	Host string `json:"host"` // a name or an IP address
	Port int    `json:"port"`
	// IdentityFiles are private keys that may open it, besides the cluster's own and what the SSH agent holds.
	IdentityFiles []string `json:"identity_files,omitempty"`
	// AgentSocket is its own SSH agent; empty: the user's.
	AgentSocket string `json:"agent_socket,omitempty"`
}

// Address is host and port, for dialling and for known_hosts alike.
func (j JumpHost) Address() string { return net.JoinHostPort(j.Host, strconv.Itoa(j.Port)) }

// String is user@host:port, as OpenSSH's ProxyJump has it.
func (j JumpHost) String() string { return j.User + "@" + j.Address() }

// Validate says what is wrong with a jump host that others have written; nil: nothing.
func (j JumpHost) Validate() error {
	address, err := netip.ParseAddr(j.Host)
	if err == nil {
		err = checkAddress(address)
	} else {
		_, err = ParseHostName(j.Host)
	}
	// A user of a bastion may have an @: it is told from the host by the last one.
	return errors.Join(err, CheckUser(strings.ReplaceAll(j.User, "@", "")))
}

// JumpHosts are in the order in which they are gone through.
type JumpHosts []JumpHost

// String is all of them with commas, as OpenSSH's ProxyJump has it.
func (j JumpHosts) String() string {
	parts := make([]string, len(j))
	for i, host := range j {
		parts[i] = host.String()
	}
	return strings.Join(parts, ",")
}
