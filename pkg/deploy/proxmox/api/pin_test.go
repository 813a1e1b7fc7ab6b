package api

import (
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hive-test/pkg/deploy"
)

func TestPinnedCertificate(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	pin := Fingerprint(server.Certificate())
	raw, err := PinnedCertificate(t.Context(), server.URL, pin)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(raw)
	got, err := x509.ParseCertificate(block.Bytes)
	if err != nil || Fingerprint(got) != pin {
		t.Errorf("got a certificate with fingerprint %s, %v; want %s", Fingerprint(got), err, pin)
	}
	port := strings.TrimPrefix(server.URL, "https://127.0.0.1")
	for endpoint, want := range map[string]string{
		server.URL: "", "https://0.0.0.0" + port: "set proxmox.endpoint to https://example.com" + port,
	} {
		if got := CheckPinnedName(t.Context(), endpoint, pin); len(got) != 1 ||
			(got[0].Status == deploy.Fail) != (want != "") || !strings.HasPrefix(got[0].Fix, want) {
			t.Errorf("%s: %+v", endpoint, got)
		}
	}
	other := strings.Repeat("00:", 31) + "00"
	if raw, err := PinnedCertificate(t.Context(), server.URL, other); err == nil || !isTLS(err) {
		t.Errorf("another certificate than the pinned one: %q, %v", raw, err)
	}
}

// The command that is printed tells the fingerprint of what the API shows: an administrator's or ACME's certificate, if
// there is one.
func TestTheFingerprintCommandIsOfWhatTheAPIShows(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("no openssl is here")
	}
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	shown := server.Certificate()
	_, err := PinnedCertificate(t.Context(), server.URL, strings.Repeat("00:", 31)+"00")
	fix := tlsFix(err, server.URL)
	if !strings.Contains(fix, fingerprintCommand) || !strings.HasSuffix(fix, Fingerprint(shown)) {
		t.Errorf("the fix is %q, %v", fix, err)
	}
	raw := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: shown.Raw})
	for name, files := range map[string]map[string][]byte{
		"ACME beside the cluster's own": {"pveproxy-ssl.pem": raw, "pve-ssl.pem": []byte("not asked")},
		"the cluster's own alone":       {"pve-ssl.pem": raw},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, content := range files {
				if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			command := strings.Replace(fingerprintCommand, "/etc/pve/local", dir, 1)
			out, err := exec.Command("sh", "-c", command).CombinedOutput()
			_, printed, _ := strings.Cut(strings.TrimSpace(string(out)), "=")
			if err != nil || printed != Fingerprint(shown) {
				t.Errorf("%s prints %q, %v; want %s", command, out, err, Fingerprint(shown))
			}
		})
	}
}
