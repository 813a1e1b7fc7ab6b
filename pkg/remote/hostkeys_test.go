package remote

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"

	"hive-test/pkg/cluster"
)

func knownLines(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

func runTrue(t *testing.T, cfg Config, node cluster.Node) error {
	t.Helper()
	d, err := NewDialer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	_, err = d.Host(node).Run(t.Context(), Command{Argv: []string{"true"}})
	return err
}

func TestFirstContactPinsTheKey(t *testing.T) {
	s := newServer(t)
	cfg := testConfig(t)
	if err := runTrue(t, cfg, s.node(1)); err != nil {
		t.Fatal(err)
	}
	want := "[127.0.0.1]:" + s.addr.AddrPort().String()[len("127.0.0.1:"):] + " " +
		strings.TrimSpace(string(ssh.MarshalAuthorizedKey(s.key.PublicKey())))
	if got := knownLines(t, cfg.KnownHosts); len(got) != 1 || got[0] != want {
		t.Errorf("known_hosts holds %q, want %q", got, want)
	}
	if info, _ := os.Stat(cfg.KnownHosts); info.Mode().Perm() != 0o600 {
		t.Errorf("its mode is %v", info.Mode())
	}
	if err := runTrue(t, cfg, s.node(1)); err != nil {
		t.Errorf("the second contact: %v", err)
	}
}

func TestChangedHostKeyIsRefused(t *testing.T) {
	for name, newKey := range map[string]func(testing.TB) ssh.Signer{
		"same kind": newHostKey, "other kind": newECDSAHostKey,
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			cfg := testConfig(t)
			if err := runTrue(t, cfg, s.node(1)); err != nil {
				t.Fatal(err)
			}
			s.key = newKey(t)
			s.restart()
			err := runTrue(t, cfg, s.node(1))
			changed, ok := errors.AsType[*HostKeyError](err)
			if !ok {
				t.Fatalf("got %v", err)
			}
			contains(
				t, err, "ci-1: ", "host key of 127.0.0.1:", "has changed", ssh.FingerprintSHA256(s.key.PublicKey()),
				cfg.KnownHosts,
			)
			if !strings.Contains(changed.Hint(), "ssh-keygen -f "+cfg.KnownHosts+" -R '[127.0.0.1]:") {
				t.Errorf("the hint is %q", changed.Hint())
			}
			start := time.Now()
			d := newDialer(t, cfg)
			if err := d.Host(s.node(1)).WaitReady(t.Context(), nil); !errors.As(err, &changed) ||
				time.Since(start) > 2*time.Second {
				t.Errorf("WaitReady: %v after %s", err, time.Since(start))
			}
			if err := ForgetHostKeys(cfg.KnownHosts, s.node(1)); err != nil {
				t.Fatal(err)
			}
			if err := runTrue(t, cfg, s.node(1)); err != nil {
				t.Errorf("after forgetting the key: %v", err)
			}
		})
	}
}

func TestPinHostKeys(t *testing.T) {
	s := newServer(t)
	cfg := testConfig(t)
	line := func(k ssh.Signer) string { return string(ssh.MarshalAuthorizedKey(k.PublicKey())) }
	if err := PinHostKeys(cfg.KnownHosts, Pin{s.node(1), []string{line(newHostKey(t))}}); err != nil {
		t.Fatal(err)
	}
	if err := runTrue(t, cfg, s.node(1)); err == nil {
		t.Error("a key that is not the pinned one was accepted")
	}
	other := s.node(2)
	other.SSHPort = 22
	if err := PinHostKeys(cfg.KnownHosts, Pin{other, []string{line(newHostKey(t))}}); err != nil {
		t.Fatal(err)
	}
	// The server has one of several pinned keys, and not the first.
	pinned := []string{line(newECDSAHostKey(t)), strings.TrimSpace(line(s.key)) + " root@ci-1", ""}
	for range 2 {
		if err := PinHostKeys(cfg.KnownHosts, Pin{s.node(1), pinned}); err != nil {
			t.Fatal(err)
		}
	}
	if err := runTrue(t, cfg, s.node(1)); err != nil {
		t.Errorf("the pinned key was refused: %v", err)
	}
	got := knownLines(t, cfg.KnownHosts)
	if len(got) != 3 || !strings.HasPrefix(got[0], "127.0.0.1 ") {
		t.Errorf("known_hosts holds %q", got)
	}
	for name, lines := range map[string][]string{"none": nil, "no key": {"hello"}} {
		if err := PinHostKeys(cfg.KnownHosts, Pin{s.node(1), lines}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := PinHostKeys(cfg.KnownHosts, Pin{cluster.Node{Name: "ci-9"}, pinned}); err == nil {
		t.Error("a node without address: no error")
	}
}

func TestManyFirstContactsAtOnce(t *testing.T) {
	cfg := testConfig(t)
	var all sync.WaitGroup
	for i := range 8 {
		s := newServer(t)
		for range 2 { // two processes may meet the same host at once
			all.Go(func() {
				if err := runTrue(t, cfg, s.node(i+1)); err != nil {
					t.Error(err)
				}
			})
		}
	}
	all.Wait()
	if got := knownLines(t, cfg.KnownHosts); len(got) != 8 {
		t.Errorf("known_hosts has %d lines: %q", len(got), got)
	}
}

func TestKnownHostsThatIsNotUsable(t *testing.T) {
	s := newServer(t)
	cfg := testConfig(t)
	if err := os.WriteFile(cfg.KnownHosts, []byte("[127.0.0.1]:22 ssh-ed25519 nonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := runTrue(t, cfg, s.node(1))
	if !errors.Is(err, ErrKnownHosts) || !permanent(err) {
		t.Errorf("got %v", err)
	}
	contains(t, err, "ci-1: ", cfg.KnownHosts, "mend or remove it")
}

func TestMoveHostKeys(t *testing.T) {
	at := func(name, addr string) cluster.Node {
		return cluster.Node{Name: name, Management: netip.MustParseAddr(addr)}
	}
	for _, tc := range []struct {
		name  string
		moves []Move
		want  []string
	}{
		{"a node moves", []Move{{at("a", "10.0.0.1"), at("a", "10.0.0.9")}}, []string{"10.0.0.9 ssh-ed25519 A", "10.0.0.9 ecdsa A", "10.0.0.2 ssh-ed25519 B"}},
		{
			"two change places",
			[]Move{{at("a", "10.0.0.1"), at("a", "10.0.0.2")}, {at("b", "10.0.0.2"), at("b", "10.0.0.1")}},
			[]string{"10.0.0.2 ssh-ed25519 A", "10.0.0.2 ecdsa A", "10.0.0.1 ssh-ed25519 B"},
		},
		{"one takes the place of another that is gone", []Move{{at("a", "10.0.0.1"), at("a", "10.0.0.2")}}, []string{"10.0.0.2 ssh-ed25519 A", "10.0.0.2 ecdsa A"}},
		{"moved already", []Move{{at("b", "10.0.0.7"), at("b", "10.0.0.2")}}, []string{"10.0.0.1 ssh-ed25519 A", "10.0.0.1 ecdsa A", "10.0.0.2 ssh-ed25519 B"}},
		{"only its other address", []Move{{at("a", "10.0.0.1"), at("a", "10.0.0.1")}}, []string{"10.0.0.1 ssh-ed25519 A", "10.0.0.1 ecdsa A", "10.0.0.2 ssh-ed25519 B"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "known_hosts")
			before := "10.0.0.1 ssh-ed25519 A\n10.0.0.1 ecdsa A\n10.0.0.2 ssh-ed25519 B\n"
			if err := os.WriteFile(path, []byte(before), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := MoveHostKeys(path, tc.moves); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, knownLines(t, path)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if err := MoveHostKeys(
		filepath.Join(t.TempDir(), "known_hosts"), []Move{{cluster.Node{Name: "a"}, at("a", "10.0.0.1")}},
	); err == nil {
		t.Error("a node without an address was moved")
	}
}
