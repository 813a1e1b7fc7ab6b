package provision

import (
	"bytes"
	"context"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hive-test/pkg/opentofu"
)

// environmentOf returns a working directory and what the provider is told there.
func environmentOf(t *testing.T, o Options) (string, map[string]string) {
	t.Helper()
	p, dir := New(o), t.TempDir()
	env, err := p.environment(dir, p.ca(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	return dir, env.Variables
}

func TestWhatTheProviderIsTold(t *testing.T) {
	_, env := environmentOf(t, Options{
		Token: testToken, SSHUser: "root", Insecure: true,
		Tofu: opentofu.Options{Env: []string{"SSH_AUTH_SOCK=/agent", "PROXMOX_VE_API_TOKEN=other"}},
	})
	want := map[string]string{
		"PROXMOX_VE_API_TOKEN": testToken, "PROXMOX_VE_INSECURE": "true", "PROXMOX_VE_SSH_USERNAME": "root",
		"PROXMOX_VE_SSH_AGENT": "true", "SSH_AUTH_SOCK": "/agent",
	}
	if diff := cmp.Diff(want, env); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}

func TestBundleHoldsTheCAAndTheSystems(t *testing.T) {
	dir := t.TempDir()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("ours")})
	system := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("theirs")})
	write(t, filepath.Join(dir, "ca.pem"), string(ca))
	write(t, filepath.Join(dir, "system.pem"), string(system))
	work, env := environmentOf(t, Options{
		CAFile: filepath.Join(dir, "ca.pem"),
		Tofu:   opentofu.Options{Env: []string{"SSL_CERT_FILE=" + filepath.Join(dir, "system.pem")}},
	})
	got, err := os.ReadFile(env["SSL_CERT_FILE"])
	if err != nil || env["SSL_CERT_FILE"] != filepath.Join(work, "ca-bundle.pem") ||
		!bytes.Equal(got, append(ca, system...)) {
		t.Errorf("%v\n%s", err, got)
	}
	fetched := Options{CAFile: "/nonexistent", FetchCA: func(context.Context) string { return filepath.Join(dir, "ca.pem") }, Tofu: opentofu.Options{Env: []string{"SSL_CERT_FILE=" + filepath.Join(dir, "system.pem")}}}
	_, env = environmentOf(t, fetched)
	if got, err := os.ReadFile(env["SSL_CERT_FILE"]); err != nil || !bytes.Equal(got, append(ca, system...)) {
		t.Errorf("one that is fetched: %v\n%s", err, got)
	}
	write(t, filepath.Join(dir, "ca.pem"), "nothing of the kind")
	if _, err := New(Options{CAFile: filepath.Join(
		dir, "ca.pem",
	)}).environment(dir, filepath.Join(dir, "ca.pem")); err == nil ||
		!strings.Contains(err.Error(), "no certificate") {
		t.Errorf("got %v", err)
	}
}
