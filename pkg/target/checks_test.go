package target

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/opentofu"
)

func TestDoctorAsksTheRegistry(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"providers.v1":"/v1/providers/"}`))
	}))
	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	registry := opentofu.Registry{Host: server.Listener.Addr().String(), TLS: &tls.Config{RootCAs: pool}}
	if f := registryFinding(t.Context(), registry); f.Status != deploy.Pass || f.Detail != "from "+registry.Host {
		t.Errorf("%+v", f)
	}
	server.Close()
	f := registryFinding(t.Context(), registry)
	if f.Status != deploy.Warn || !strings.Contains(f.Detail, "refused") || !strings.Contains(f.Fix, "--provider-mirror") {
		t.Errorf("%+v", f)
	}
}

func TestUpAsksNoRegistry(t *testing.T) {
	made := &Target{Record: &cluster.Record{}}
	f := made.providerFinding(t.Context(), opentofu.Terraform, false)
	if f.Status != deploy.Skip || f.Detail != "it comes from registry.terraform.io" {
		t.Errorf("%+v", f)
	}
}
