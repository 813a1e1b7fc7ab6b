package opentofu

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// registry is a registry on this machine.
func registry(t *testing.T, handle http.HandlerFunc) (Registry, *httptest.Server) {
	t.Helper()
	server := httptest.NewTLSServer(handle)
	t.Cleanup(server.Close)
	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	return Registry{Host: server.Listener.Addr().String(), TLS: &tls.Config{RootCAs: pool}}, server
}

func TestARegistryIsAskedWhatItOffers(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		want   string // of the error; empty: none
	}{
		{"is one", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/.well-known/terraform.json" {
				t.Errorf("asked for %s", r.URL.Path)
			}
			_, _ = w.Write([]byte(`{"modules.v1":"/v1/modules/","providers.v1":"/v1/providers/"}`))
		}, ""},
		{"a proxy that forbids it", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
		}, "cannot be used: it answers 403 Forbidden"},
		{"a page to log in to the network", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("<html>"))
		}, "what answers there is no registry of providers"},
		{"another service", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"modules.v1":"/v1/modules/"}`))
		}, "what answers there is no registry of providers"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, _ := registry(t, c.answer)
			err := r.Check(t.Context())
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestARegistryThatCannotBeReached(t *testing.T) {
	r, server := registry(t, nil)
	distrusted := Registry{Host: r.Host}
	server.Config.ErrorLog = nil
	if err := distrusted.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("got %v", err)
	}
	server.Close()
	err := r.Check(t.Context())
	if want := r.Host + " cannot be reached: "; err == nil || !strings.HasPrefix(err.Error(), want) ||
		!strings.Contains(err.Error(), "refused") || strings.Contains(err.Error(), "https://") {
		t.Errorf("got %v", err)
	}
	silent, _ := registry(t, func(http.ResponseWriter, *http.Request) { <-t.Context().Done() }) // longer than the client waits
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := silent.Check(ctx); err == nil || !strings.Contains(err.Error(), "no answer") {
		t.Errorf("got %v", err)
	}
}

func TestTheUsersOwnWayToProviders(t *testing.T) {
	home := t.TempDir()
	env := []string{"HOME=" + home}
	if got := InstallationConfig(env, OpenTofu); got != "" {
		t.Errorf("got %s", got)
	}
	file := filepath.Join(home, ".tofurc")
	write(t, file, "plugin_cache_dir = \"/cache\"\n")
	if got := InstallationConfig(env, OpenTofu); got != "" {
		t.Errorf("got %s", got)
	}
	write(t, file, "provider_installation {\n  network_mirror {}\n}\n")
	if got := InstallationConfig(env, OpenTofu); got != file {
		t.Errorf("got %s", got)
	}
	if got := InstallationConfig(env, Terraform); got != "" {
		t.Errorf("got %s", got)
	}
}
