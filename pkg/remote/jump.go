package remote

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"slices"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"hive-test/pkg/cluster"
)

// jumpKeys is how many keys a jump host is offered at most: OpenSSH hangs up after six that it refuses (MaxAuthTries).
const jumpKeys = 5

// jumpHosts makes the hosts that connections go through, each reached through the one before. They share what nodes
// have: the known_hosts file with its rule of the first use, timeouts, and one connection each, which is made anew when
// it is lost.
func (d *Dialer) jumpHosts() []*Host {
	var hops []*Host
	for i, jump := range d.cfg.ProxyJump {
		h := &Host{
			dialer: d, node: cluster.Node{Name: "jump host " + jump.String()}, slots: make(chan struct{}, maxSessions),
			jump: &d.cfg.ProxyJump[i],
		}
		if i > 0 {
			h.via = hops[i-1]
		}
		hops = append(hops, h)
	}
	return hops
}

// last is the host that nodes are reached through; nil: directly.
func (d *Dialer) last() *Host {
	if len(d.jumps) == 0 {
		return nil
	}
	return d.jumps[len(d.jumps)-1]
}

// DialContext connects to addr as nodes are reached: from here, or from the last of the jump hosts. The connections of
// the latter know no deadlines.
func (d *Dialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	return dialVia(ctx, d.last(), network, addr)
}

func dialVia(ctx context.Context, via *Host, network, addr string) (net.Conn, error) {
	if via == nil {
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	}
	conn, err := via.dialFrom(ctx, network, addr)
	if err != nil {
		return nil, fmt.Errorf("%s: connecting to %s: %w", via.node.Name, addr, err)
	}
	return conn, nil
}

// signersOf are the keys for a host: the cluster's own, and for a jump host its identity files and what its agent
// holds.
func (d *Dialer) signersOf(jump *cluster.JumpHost) ([]ssh.Signer, func()) {
	signers, done := slices.Clone(d.signers), func() {}
	if jump == nil {
		return signers, done
	}
	offer := func(more ...ssh.Signer) {
		for _, s := range more {
			same := func(other ssh.Signer) bool { return sameKey(other.PublicKey(), s.PublicKey()) }
			if len(signers) < jumpKeys && !slices.ContainsFunc(signers, same) {
				signers = append(signers, s)
			}
		}
	}
	for _, file := range jump.IdentityFiles {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		if s, err := ssh.ParsePrivateKey(text); err == nil { // one with a passphrase is the agent's
			offer(s)
		}
	}
	if socket := cmp.Or(jump.AgentSocket, d.cfg.AgentSocket); socket != "" {
		if conn, err := net.Dial("unix", socket); err == nil {
			done = func() { _ = conn.Close() }
			held, _ := agent.NewClient(conn).Signers()
			offer(held...)
		}
	}
	return signers, done
}

// login is the user there, the host's address, and how it is named in a message about a refused login.
func (h *Host) login() (user, addr, with string, err error) {
	if h.jump != nil {
		return h.jump.User, h.jump.Address(), "the cluster's key, its identity files and the SSH agent", nil
	}
	addr, err = address(h.node)
	with = "key " + h.dialer.cfg.KeyPath
	if h.dialer.cfg.KeyPath == "" {
		with = "the SSH agent's keys"
	}
	return h.dialer.cfg.User, addr, with, err
}

// refusal is what a login that is refused means. A node may still boot, and its user come; a jump host is there
// already.
func (h *Host) refusal(user, with string) error {
	if h.jump != nil {
		return fmt.Errorf("it refused the SSH login of user %s with %s", user, with)
	}
	return fmt.Errorf("%w as user %s with %s", ErrAuth, user, with)
}
