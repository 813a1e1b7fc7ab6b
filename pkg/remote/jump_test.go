package remote

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"hive-test/pkg/cluster"
)

func (s *server) jump(user string, files ...string) cluster.JumpHost {
	return cluster.JumpHost{User: user, Host: s.addr.IP.String(), Port: s.addr.Port, IdentityFiles: files}
}

// Nodes that nobody reaches but the last of two jump hosts, which itself only the first one reaches.
func TestJumpHosts(t *testing.T) {
	t.Parallel()
	node, inner, outer := newServer(t), newServer(t), newServer(t)
	inner.beyond = map[string]string{
		"192.0.2.1:22": node.addr.String(), "192.0.2.1:9999": "127.0.0.1:1", "192.0.2.2:22": "127.0.0.1:1",
	}
	outer.beyond = map[string]string{"inner.example:2222": inner.addr.String()}
	cfg := testConfig(t)
	cfg.ProxyJump = cluster.JumpHosts{outer.jump("ops"), {User: "ops", Host: "inner.example", Port: 2222}}
	d := newDialer(t, cfg)
	h := d.Host(cluster.Node{Name: "ci-1", Index: 1, Management: netip.MustParseAddr("192.0.2.1")})
	for range 3 {
		got, err := h.Run(t.Context(), Command{Argv: []string{"echo", "there"}})
		if err != nil || string(got.Stdout) != "there\n" {
			t.Fatalf("got %q, %v", got.Stdout, err)
		}
	}
	if outer.conns.Load() != 1 || inner.conns.Load() != 1 || node.conns.Load() != 1 {
		t.Errorf("%d, %d and %d connections, not one each", outer.conns.Load(), inner.conns.Load(), node.conns.Load())
	}
	known, err := os.ReadFile(cfg.KnownHosts)
	for _, name := range []string{"[" + outer.addr.IP.String() + "]:", "[inner.example]:2222 ", "192.0.2.1 "} {
		if err != nil || !strings.Contains(string(known), name) {
			t.Errorf("no key of %s is pinned: %v\n%s", name, err, known)
		}
	}

	// A port of a node goes the same way, and what does not answer behind it is told from it.
	_, err = d.DialContext(t.Context(), "tcp", "192.0.2.1:9999")
	contains(t, err, "jump host ops@inner.example:2222: connecting to 192.0.2.1:9999", "refused")
	err = d.Host(cluster.Node{
		Name: "ci-2", Index: 2, Management: netip.MustParseAddr("192.0.2.2"),
	}).Connect(t.Context())
	contains(t, err, "ci-2", "jump host ops@inner.example:2222: connecting to 192.0.2.2:22")

	// It is another machine behind the name now.
	inner.key = newHostKey(t)
	inner.restart()
	h.Drop(errors.New("test"))
	wrong := newDialer(t, cfg).Host(h.Node())
	err = wrong.WaitReady(t.Context(), nil)
	changed, ok := errors.AsType[*HostKeyError](err)
	if !ok || changed.Address != "inner.example:2222" {
		t.Errorf("a jump host with another key: %v", err)
	}
}

// A jump host takes other keys than nodes do, and one that takes none is named.
func TestJumpHostKeys(t *testing.T) {
	t.Parallel()
	node, bastion := newServer(t), newServer(t)
	cfg := testConfig(t)
	file := filepath.Join(t.TempDir(), "id_other")
	if err := GenerateKey(file); err != nil {
		t.Fatal(err)
	}
	public, err := os.ReadFile(file + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	other, _, _, _, err := ssh.ParseAuthorizedKey(public)
	if err != nil {
		t.Fatal(err)
	}
	bastion.allow = func(key ssh.PublicKey) bool { return string(key.Marshal()) == string(other.Marshal()) }
	node.allow = func(key ssh.PublicKey) bool { return string(key.Marshal()) != string(other.Marshal()) }

	cfg.ProxyJump = cluster.JumpHosts{bastion.jump("ops")}
	err = newDialer(t, cfg).Host(node.node(1)).Connect(t.Context())
	contains(t, err, "ci-1", "jump host ops@127.0.0.1:", "refused the SSH login of user ops")
	cfg.ProxyJump = cluster.JumpHosts{bastion.jump("ops", filepath.Join(t.TempDir(), "missing"), file)}
	if err := newDialer(t, cfg).Host(node.node(1)).Connect(t.Context()); err != nil {
		t.Error(err)
	}
}

// A jump host that cannot be reached is what is said, not the node behind it.
func TestJumpHostAway(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	_ = l.Close()
	cfg := testConfig(t)
	cfg.ProxyJump = cluster.JumpHosts{{User: "ops", Host: "127.0.0.1", Port: port}}
	err = newDialer(t, cfg).Host(newServer(t).node(1)).Connect(t.Context())
	contains(t, err, "ci-1", "jump host ops@127.0.0.1:", "connection refused")
}
