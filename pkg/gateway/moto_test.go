package gateway_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"hive-test/pkg/gateway/wire"
	"hive-test/pkg/iac"
)

// Moto's faults that the real provider has met are in its table. (In ours, TestProbe finds none.)
func TestMotosFaults(t *testing.T) {
	if os.Getenv("HIVE_TEST_SOAK") == "" {
		t.Skip("it takes a minute: with HIVE_TEST_SOAK=yes")
	}
	moto, there := startMoto(t)
	if !there {
		t.Skip("there is no moto_server")
	}
	for _, c := range []struct {
		name  string
		at    iac.Endpoint
		only  []string
		cells map[string]string // by "RESOURCE PART" the verdict and its call, then what is in the reason
	}{
		{name: "as it is", at: moto, cells: map[string]string{
			// It has no placement groups, and answers a page of HTML.
			"aws_placement_group create": "wrong shape CreatePlacementGroup: no XML",
			// It refuses user data that is base64 as it should be.
			"aws_instance update":                     "fails ModifyInstanceAttribute: InvalidUserData",
			"aws_network_interface_attachment create": "works:",
			// An instance's groups are added to what is attached to it; what is detached is not told of for a moment.
			"aws_network_interface_attachment read":   "stub DescribeNetworkInterfaces: Groups.GroupId",
			"aws_network_interface_attachment delete": `stub DescribeNetworkInterfaces: never "detached"`,
			// It tells no group of a zone; with the zone that it tells there are volumes.
			"data.aws_availability_zones read": "wrong shape DescribeAvailabilityZones: GroupName",
			"aws_ebs_volume read":              "works:", "aws_ebs_volume no diff": "works:",
			// And more than the provider has stopped at.
			"aws_instance create": "stub RunInstances with the same ClientToken: InstanceId",
			"aws_instance read":   "wrong shape DescribeInstances: CpuOptions",
		}},
		// The placement group of an instance is dropped. To see that takes one who has such.
		{
			name: "with our placement groups", at: mended(t, moto, newEndpoint(t, "")),
			only: []string{"aws_placement_group", "aws_instance"}, cells: map[string]string{
				"aws_placement_group create": "works:", "aws_placement_group read": "works:",
				"aws_instance read": "stub DescribeInstances: Placement.GroupName",
			},
		},
		// Credits are "standard", whatever was asked for. To see that takes the members that are read before.
		{
			name: "with options of the processor", at: mended(t, moto, moto), only: []string{"aws_instance"}, cells: map[string]string{
				"aws_instance read": "stub DescribeInstanceCreditSpecifications: CpuCredits is \"standard\"",
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := iac.Probe(t.Context(), c.at, iac.Options{Patience: 2 * time.Second, Only: c.only})
			for cell, want := range c.cells {
				verdict, why, _ := strings.Cut(want, ": ")
				got, reason := cellOf(table, cell), whyOf(table, cell)
				if got != strings.TrimSuffix(verdict, ":") || !strings.Contains(reason, why) {
					t.Errorf("%s: %q (%s), want %q", cell, got, reason, want)
				}
			}
		})
	}
	// It verifies no signatures. The provider signs all that it sends as it should, so that no probe shows it.
	moto.Key.SecretKey = "wrong"
	if _, err := moto.Call(t.Context(), iac.SDKv2, "DescribeVpcs", wire.Object{}); err != nil {
		t.Errorf("with a wrong secret: %v", err)
	}
}

// mended is moto with what hides another fault mended: placement groups are those of another endpoint, where that is
// another one; else instances tell of their processors.
func mended(t *testing.T, moto, other iac.Endpoint) iac.Endpoint {
	t.Helper()
	const processor = "<cpuOptions><coreCount>1</coreCount></cpuOptions>"
	behind := moto.URL
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			at := behind
			if strings.Contains(r.Out.Header.Get("Action"), "PlacementGroup") {
				at = other.URL
			}
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", strings.TrimPrefix(at, "http://"), r.In.Host // as it is signed
		},
		ModifyResponse: func(r *http.Response) error {
			if other.URL != behind || r.Request.Header.Get("Action") != "DescribeInstances" {
				return nil
			}
			body, err := io.ReadAll(r.Body)
			body = bytes.ReplaceAll(body, []byte("<instanceType>"), []byte(processor+"<instanceType>"))
			r.Body = io.NopCloser(bytes.NewReader(body))
			r.ContentLength = int64(len(body))
			r.Header.Set("Content-Length", fmt.Sprint(len(body)))
			return err
		},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		form, _ := url.ParseQuery(string(body))
		r.Header.Set("Action", form.Get("Action")) // for those above
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	moto.URL = server.URL
	return moto
}

// whyOf is the reason of the verdict of "RESOURCE PART".
func whyOf(table iac.Table, cell string) string {
	name, part, _ := strings.Cut(cell, " ")
	for _, row := range table.Rows {
		if row.Resource == name {
			return row.Cells[part].Why
		}
	}
	return ""
}
