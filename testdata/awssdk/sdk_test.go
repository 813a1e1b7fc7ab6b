package awssdk_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"

	"hive-test/pkg/gateway"
	"hive-test/pkg/gateway/ec2"
	"hive-test/pkg/gateway/store"
)

const (
	accessKey = "AKIAEXAMPLE"
	secretKey = "secret"
	region    = "ap-southeast-2"
	account   = "000000000000"
)

// newEndpoint serves a gateway that stands alone, and returns its address.
func newEndpoint(t testing.TB, faults *gateway.Faults) string {
	kept, closeStore, err := store.OpenEmbedded(context.Background(), t.TempDir(), ec2.Kinds()...)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(gateway.Handler(gateway.Options{
		EC2:     ec2.New(ec2.Options{Store: kept, Region: region, Account: account, Now: time.Now, Lag: 30 * time.Millisecond}),
		Account: account, Now: time.Now, Faults: faults,
		Secret: func(key string) (string, bool) { return secretKey, key == accessKey },
	}))
	t.Cleanup(func() { server.Close(); closeStore() })
	return server.URL
}

// sdkClient is a client of aws-sdk-go-v2.
func sdkClient(url string) *awsec2.Client {
	return awsec2.New(awsec2.Options{
		BaseEndpoint: aws.String(url), Region: region, RetryMaxAttempts: 1,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: accessKey, SecretAccessKey: secretKey}, nil
		}),
	})
}

// aws-sdk-go-v2 reads what the gateway answers, results and errors, and its waiters end.
func TestSDK(t *testing.T) {
	ctx := t.Context()
	client := sdkClient(newEndpoint(t, nil))
	made, err := client.CreateVpc(ctx, &awsec2.CreateVpcInput{
		CidrBlock: aws.String("10.0.0.0/16"), TagSpecifications: []types.TagSpecification{{
			ResourceType: types.ResourceTypeVpc, Tags: []types.Tag{{Key: aws.String("Name"), Value: aws.String("a <b> & c")}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	id := made.Vpc.VpcId
	in := &awsec2.DescribeVpcsInput{VpcIds: []string{*id}}
	if err := awsec2.NewVpcAvailableWaiter(client, func(o *awsec2.VpcAvailableWaiterOptions) {
		o.MinDelay, o.MaxDelay = 10*time.Millisecond, 20*time.Millisecond
	}).Wait(ctx, in, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	found, err := client.DescribeVpcs(ctx, in)
	if err != nil || len(found.Vpcs) != 1 {
		t.Fatalf("found %v, %v", found, err)
	}
	vpc := found.Vpcs[0]
	if *vpc.CidrBlock != "10.0.0.0/16" || *vpc.Tags[0].Value != "a <b> & c" || vpc.InstanceTenancy != types.TenancyDefault {
		t.Errorf("read %+v", vpc)
	}
	group, err := client.CreateSecurityGroup(ctx, &awsec2.CreateSecurityGroupInput{
		GroupName: aws.String("web"), Description: aws.String("web"), VpcId: id,
	})
	if err != nil {
		t.Fatal(err)
	}
	rules, err := client.AuthorizeSecurityGroupIngress(ctx, &awsec2.AuthorizeSecurityGroupIngressInput{
		GroupId: group.GroupId, IpPermissions: []types.IpPermission{{
			IpProtocol: aws.String("tcp"), FromPort: aws.Int32(80), ToPort: aws.Int32(81),
			IpRanges: []types.IpRange{{CidrIp: aws.String("192.0.2.0/24")}},
		}},
	})
	if err != nil || len(rules.SecurityGroupRules) != 1 || *rules.SecurityGroupRules[0].ToPort != 81 {
		t.Errorf("rules %+v, %v", rules, err)
	}
	_, err = client.DescribeVpcs(ctx, &awsec2.DescribeVpcsInput{VpcIds: []string{"vpc-1"}})
	if failure, ok := errors.AsType[smithy.APIError](err); !ok || failure.ErrorCode() != "InvalidVpcID.NotFound" {
		t.Errorf("a VPC that is not there: %v", err)
	}
	pages := awsec2.NewDescribeSecurityGroupsPaginator(client, &awsec2.DescribeSecurityGroupsInput{MaxResults: aws.Int32(5)})
	groups := 0
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			t.Fatal(err)
		}
		groups += len(page.SecurityGroups)
	}
	if groups != 2 {
		t.Errorf("%d groups", groups)
	}
}
