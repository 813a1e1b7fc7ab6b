package gateway_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"hive-test/pkg/awsauth"
	"hive-test/pkg/gateway"
	"hive-test/pkg/gateway/ec2"
	"hive-test/pkg/gateway/store"
	"hive-test/pkg/gateway/wire"
	"hive-test/pkg/iac"
)

// partial is a cluster that does some actions only, and tells no tags and no filters of them.
type partial struct {
	*ec2.Service
	does []string
}

func (p partial) Does(action string) bool { return slices.Contains(p.does, action) }

func (p partial) Call(ctx context.Context, action string, in wire.Object) (wire.Object, error) {
	if !p.Does(action) {
		return nil, wire.Errorf(wire.InvalidAction, "")
	}
	form, err := wire.EncodeQuery(action, in)
	if err != nil {
		return nil, err
	}
	asked, err := wire.DecodeQuery(action, form)
	if err != nil {
		return nil, err
	}
	return p.Do(ctx, action, asked)
}

func newService(t testing.TB) *ec2.Service {
	kept, closeStore, err := store.OpenEmbedded(context.Background(), t.TempDir(), ec2.Kinds()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(closeStore)
	return ec2.New(ec2.Options{Store: kept, Region: region, Account: account, Now: time.Now, Lag: 30 * time.Millisecond})
}

func TestProbeInFront(t *testing.T) {
	early := []string{
		"AttachInternetGateway", "AttachVolume", "CreateInternetGateway", "CreateKeyPair", "CreateNetworkInterface",
		"CreateSnapshot", "CreateSubnet", "CreateTags", "CreateVolume", "CreateVpc", "DeleteInternetGateway", "DeleteKeyPair",
		"DeleteNetworkInterface", "DeleteSnapshot", "DeleteSubnet", "DeleteTags", "DeleteVolume", "DeleteVpc",
		"DescribeAvailabilityZones", "DescribeImages", "DescribeInstanceTypes", "DescribeInstances",
		"DescribeInternetGateways", "DescribeKeyPairs", "DescribeNetworkInterfaces", "DescribeRegions", "DescribeSnapshots",
		"DescribeSubnets", "DescribeTags", "DescribeVolumeStatus", "DescribeVolumes", "DescribeVpcs", "DetachInternetGateway",
		"DetachVolume", "ImportKeyPair", "ModifyInstanceAttribute", "ModifyVolume", "RunInstances", "StartInstances",
		"StopInstances", "TerminateInstances",
	}
	for name, does := range map[string][]string{
		"no more than three": {"DescribeRegions", "DescribeInstanceTypes", "DescribeInstances"},
		"early":              early, "all": wire.Actions(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			front := ec2.NewFront(newService(t), partial{newService(t), does})
			server := httptest.NewServer(gateway.Handler(gateway.Options{
				EC2: front, Account: account, Now: time.Now,
				Secret: func(key string) (string, bool) { return secretKey, key == accessKey },
			}))
			t.Cleanup(server.Close)
			endpoint := iac.Endpoint{
				URL: server.URL, Key: awsauth.Key{AccessKey: accessKey, SecretKey: secretKey, Region: region}, Client: &http.Client{},
			}
			table := iac.Probe(t.Context(), endpoint, iac.Options{Patience: 5 * time.Second})
			for _, row := range table.Rows {
				for _, phase := range iac.Phases() {
					if cell, there := row.Cells[phase]; there && cell.Verdict != iac.Works {
						t.Errorf("%s, %s: %s (%s)", row.Resource, phase, cell, cell.Why)
					}
				}
			}
			t.Logf("%d calls", table.Calls)
		})
	}
}
