package api

import (
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
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
	for endpoint, want := range map[string]string{server.URL: "", "https://0.0.0.0" + port: "set proxmox.endpoint to https://example.com" + port} {
		if got := CheckPinnedName(t.Context(), endpoint, pin); len(got) != 1 || (got[0].Status == Fail) != (want != "") || !strings.HasPrefix(got[0].Fix, want) {
			t.Errorf("%s: %+v", endpoint, got)
		}
	}
	other := strings.Repeat("00:", 31) + "00"
	if raw, err := PinnedCertificate(t.Context(), server.URL, other); err == nil || !isTLS(err) {
		t.Errorf("another certificate than the pinned one: %q, %v", raw, err)
	}
}
