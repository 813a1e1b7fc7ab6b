package gateway_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"hive-test/pkg/awsauth"
	"hive-test/pkg/gateway"
	"hive-test/pkg/gateway/ec2"
	"hive-test/pkg/gateway/store"
	"hive-test/pkg/iac"
)

const (
	accessKey = "AKIAEXAMPLE"
	secretKey = "secret"
	region    = "ap-southeast-2"
	account   = "000000000000"
)

// newEndpoint serves a gateway that stands alone.
func newEndpoint(t testing.TB, faults string) iac.Endpoint {
	kept, closeStore, err := store.OpenEmbedded(context.Background(), t.TempDir(), ec2.Kinds()...)
	if err != nil {
		t.Fatal(err)
	}
	o := gateway.Options{
		EC2:     ec2.New(ec2.Options{Store: kept, Region: region, Account: account, Now: time.Now, Lag: 30 * time.Millisecond}),
		Account: account, Now: time.Now,
		Secret: func(key string) (string, bool) { return secretKey, key == accessKey },
	}
	if faults != "" {
		file := filepath.Join(t.TempDir(), "faults.json")
		if err := os.WriteFile(file, []byte(faults), 0o600); err != nil {
			t.Fatal(err)
		}
		if o.Faults, err = gateway.ReadFaults(file); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewServer(gateway.Handler(o))
	t.Cleanup(func() { server.Close(); closeStore() })
	return iac.Endpoint{
		URL: server.URL, Key: awsauth.Key{AccessKey: accessKey, SecretKey: secretKey, Region: region}, Client: &http.Client{},
	}
}

// All that the provider calls, in its order, works.
func TestProbe(t *testing.T) {
	table := iac.Probe(t.Context(), newEndpoint(t, ""), iac.Options{Patience: 5 * time.Second})
	for _, row := range table.Rows {
		for _, phase := range iac.Phases() {
			if cell, there := row.Cells[phase]; there && cell.Verdict != iac.Works {
				t.Errorf("%s, %s: %s (%s)", row.Resource, phase, cell, cell.Why)
			}
		}
	}
	t.Logf("%d calls", table.Calls)
}
