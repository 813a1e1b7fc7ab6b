package remote

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"hive-test/pkg/cluster"
)

// TestOpenSSH does against a real server what the other tests do against the simulator's. HIVE_TEST_OPENSSH names it as
// user@address:port, HIVE_TEST_OPENSSH_KEY the private key.
func TestOpenSSH(t *testing.T) {
	user, at, ok := strings.Cut(os.Getenv("HIVE_TEST_OPENSSH"), "@")
	if !ok {
		t.Skip("HIVE_TEST_OPENSSH names no server (user@address:port)")
	}
	addr, err := netip.ParseAddrPort(at)
	if err != nil {
		t.Fatal(err)
	}
	cfg := testConfig(t)
	cfg.User, cfg.KeyPath = user, os.Getenv("HIVE_TEST_OPENSSH_KEY")
	h := newDialer(t, cfg).Host(cluster.Node{
		Name: "ci-1", Index: 1, Management: addr.Addr(), SSHPort: int(addr.Port()),
	})
	if err := h.WaitReady(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()

	t.Run("script", func(t *testing.T) {
		got, err := h.Run(t.Context(), Command{Script: `echo "$1 $T"; cat; exit 3`, Args: []string{"a b"}, Env: map[string]string{"T": "it's"}, Stdin: strings.NewReader("in")})
		if string(got.Stdout) != "a b it's\nin" || got.ExitCode != 3 {
			t.Errorf("got %q, %d, %v", got.Stdout, got.ExitCode, err)
		}
	})
	t.Run("deadline", func(t *testing.T) {
		for script, signal := range map[string]string{
			"echo $$ > " + Quote(dir) + "/pid; exec sleep 60":                    "TERM",
			"trap '' TERM; echo $$ > " + Quote(dir) + "/pid; sleep 60; sleep 60": "KILL",
		} {
			got, err := h.Run(t.Context(), Command{Script: script, Timeout: time.Second})
			if !errors.Is(err, context.DeadlineExceeded) || got.Signal != signal {
				t.Errorf("%s: signal %q, error %v", script, got.Signal, err)
			}
			pid, _ := os.ReadFile(filepath.Join(dir, "pid"))
			if _, err := os.Stat("/proc/" + strings.TrimSpace(string(pid))); err == nil {
				t.Errorf("%s: still runs", script)
			}
		}
	})
	t.Run("background", func(t *testing.T) {
		wantWithin(t, 5*time.Second, func() {
			got, err := h.Run(t.Context(), Command{Script: "sleep 20 & echo begun"})
			if err != nil || string(got.Stdout) != "begun\n" {
				t.Errorf("got %q, %v", got.Stdout, err)
			}
		})
	})
	t.Run("many sessions", func(t *testing.T) {
		var all sync.WaitGroup
		for range 60 {
			all.Go(func() {
				if got, err := h.Run(t.Context(), Command{Argv: []string{"echo", "x"}}); err != nil ||
					string(got.Stdout) != "x\n" {
					t.Errorf("got %q, %v", got.Stdout, err)
				}
			})
		}
		all.Wait()
	})
	t.Run("much output", func(t *testing.T) {
		got, err := h.Run(t.Context(), Command{Script: "head -c 20000000 /dev/zero"})
		if err != nil || len(got.Stdout) != 20000000 {
			t.Errorf("got %d bytes, %v", len(got.Stdout), err)
		}
	})
	t.Run("files", func(t *testing.T) {
		local, content := randomFile(t, 60<<20)
		target := filepath.Join(dir, "deep", "file")
		for _, want := range []bool{true, false} {
			begun := time.Now()
			changed, err := h.Upload(t.Context(), local, target, 0o755)
			if err != nil || changed != want {
				t.Errorf("changed %v, %v", changed, err)
			}
			t.Logf("60 MiB, changed %v: %s", changed, time.Since(begun))
		}
		checkFile(t, target, content, 0o755)
		back := filepath.Join(t.TempDir(), "back")
		begun := time.Now()
		if err := h.Download(t.Context(), target, back); err != nil {
			t.Fatal(err)
		}
		t.Logf("back: %s", time.Since(begun))
		checkFile(t, back, content, 0o600)
	})
}
