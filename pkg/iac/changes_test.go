package iac

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"hive-test/pkg/awsauth"
	"hive-test/pkg/gateway/wire"
)

// The provider goes on without an address's name where AWS's words say that the action is not known, and else does not.
func TestNameOfAddress(t *testing.T) {
	for _, test := range []struct {
		failure *wire.Error
		want    Verdict
	}{
		{wire.Unknown("DescribeAddressesAttribute"), ""},
		{wire.Errorf(wire.InvalidAction, ""), Missing},
		{wire.Errorf("InternalError", "not valid for this web service"), Fails},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(test.failure.Status)
			_, _ = w.Write(test.failure.Document("request"))
		}))
		key := awsauth.Key{AccessKey: "AKIAEXAMPLE", SecretKey: "secret", Region: "ap-southeast-2"}
		s := &step{run: &run{endpoint: Endpoint{URL: server.URL, Key: key, Client: server.Client()}}, ctx: t.Context()}
		s.nameOfAddress("eipalloc-1")
		server.Close()
		if s.verdict != test.want {
			t.Errorf("%v: %q (%s), want %q", test.failure, s.verdict, s.why, test.want)
		}
	}
}
