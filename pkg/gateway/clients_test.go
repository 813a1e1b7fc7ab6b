package gateway_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hive-test/pkg/gateway/wire"
	"hive-test/pkg/iac"
)

// awsPrograms are the AWS CLIs that are installed.
func awsPrograms() []string {
	home, _ := os.UserHomeDir()
	found, _ := filepath.Glob(filepath.Join(home, ".pyenv/versions/*/bin/aws"))
	if _, err := os.Stat("/usr/bin/aws"); err == nil {
		found = append(found, "/usr/bin/aws")
	}
	return found
}

// cliEnv is what AWS's clients in Python take the endpoint and its keys from, and nothing of the user's.
func cliEnv(t *testing.T, endpoint iac.Endpoint) []string {
	return append(os.Environ(), "AWS_ACCESS_KEY_ID="+accessKey, "AWS_SECRET_ACCESS_KEY="+secretKey,
		"AWS_DEFAULT_REGION="+region, "AWS_ENDPOINT_URL="+endpoint.URL, "AWS_EC2_METADATA_DISABLED=true", "AWS_PAGER=",
		"AWS_CONFIG_FILE="+filepath.Join(t.TempDir(), "none"), "AWS_SHARED_CREDENTIALS_FILE="+filepath.Join(t.TempDir(), "none"))
}

// pythons are the Python programs that are installed and have boto3.
func pythons() []string {
	home, _ := os.UserHomeDir()
	found, _ := filepath.Glob(filepath.Join(home, ".pyenv/versions/*/bin/python"))
	return slices.DeleteFunc(append(found, "/usr/bin/python3"), func(program string) bool {
		const hasIt = "import sys, boto3; sys.exit(sys.version_info < (3, 8))"
		return exec.Command(program, "-c", hasIt).Run() != nil
	})
}

// boto3 reads what the gateway answers: values by their types, lists that are empty, pages, errors by their codes; its
// waiters end.
func TestBoto3(t *testing.T) {
	if os.Getenv("HIVE_TEST_SOAK") == "" {
		t.Skip("it takes some seconds: with HIVE_TEST_SOAK=yes")
	}
	programs := pythons()
	if len(programs) == 0 {
		t.Skip("there is no Python with boto3")
	}
	for _, program := range programs {
		t.Run(program, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, program, "testdata/boto3_client.py", account)
			cmd.Env = cliEnv(t, newEndpoint(t, ""))
			if out, err := cmd.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "read" {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// The AWS CLI reads what the gateway answers, waits by it, and tells of its errors by their codes.
func TestAWSCommandLine(t *testing.T) {
	if os.Getenv("HIVE_TEST_SOAK") == "" {
		t.Skip("it takes a minute or more: with HIVE_TEST_SOAK=yes")
	}
	programs := awsPrograms()
	if len(programs) == 0 {
		t.Skip("there is no AWS CLI")
	}
	for _, program := range programs {
		t.Run(program, func(t *testing.T) {
			endpoint := newEndpoint(t, "")
			env := cliEnv(t, endpoint)
			aws := func(args ...string) (string, error) {
				cmd := exec.Command(program, append([]string{"--endpoint-url", endpoint.URL, "--output", "text", "ec2"}, args...)...)
				cmd.Env = env
				out, err := cmd.CombinedOutput()
				return strings.TrimSpace(string(out)), err
			}
			must := func(args ...string) string {
				t.Helper()
				out, err := aws(args...)
				if err != nil {
					t.Fatalf("aws ec2 %v: %v: %s", args, err, out)
				}
				return out
			}
			vpc := must("create-vpc", "--cidr-block", "10.0.0.0/16", "--query", "Vpc.VpcId")
			must("wait", "vpc-available", "--vpc-ids", vpc)
			group := must("create-security-group", "--group-name", "g", "--description", "d", "--vpc-id", vpc, "--query", "GroupId")
			must("authorize-security-group-ingress", "--group-id", group, "--protocol", "tcp", "--port", "80", "--cidr", "192.0.2.0/24")
			if cidr := must("describe-security-groups", "--group-ids", group, "--query",
				"SecurityGroups[0].IpPermissions[0].IpRanges[0].CidrIp"); cidr != "192.0.2.0/24" {
				t.Errorf("the rule is of %q", cidr)
			}
			for range 6 {
				if _, err := endpoint.Call(t.Context(), iac.SDKv2, "CreateVpc", wire.Object{"CidrBlock": "10.1.0.0/16"}); err != nil {
					t.Fatal(err)
				}
			}
			if all := must("describe-vpcs", "--page-size", "5", "--query", "Vpcs[].VpcId"); len(strings.Fields(all)) != 7 {
				t.Errorf("in pages there are the VPCs %s", all)
			}
			if out, err := aws("delete-vpc", "--vpc-id", vpc); err == nil || !strings.Contains(out, "(DependencyViolation)") {
				t.Errorf("a VPC that is in use: %v: %s", err, out)
			}
			if out, err := aws("describe-vpcs", "--vpc-ids", "vpc-00000000000000000"); err == nil ||
				!strings.Contains(out, "(InvalidVpcID.NotFound)") {
				t.Errorf("a VPC that is not there: %v: %s", err, out)
			}
			runByCommandLine(t, must, vpc, group)
		})
	}
}

// runByCommandLine has an instance run and end, by commands that must succeed.
func runByCommandLine(t *testing.T, must func(args ...string) string, vpc, group string) {
	t.Helper()
	subnet := must("create-subnet", "--vpc-id", vpc, "--cidr-block", "10.0.1.0/24", "--query", "Subnet.SubnetId")
	image := must("describe-images", "--query", "Images[0].ImageId")
	run := []string{
		"run-instances", "--image-id", image, "--instance-type", "t3.micro", "--subnet-id", subnet, "--security-group-ids", group,
		"--client-token", "once", "--tag-specifications", "ResourceType=instance,Tags=[{Key=Name,Value=by hand}]",
		"--query", "Instances[].InstanceId",
	}
	instance := must(run...)
	if again := must(run...); again != instance {
		t.Errorf("with the same client token there is %s, and was %s", again, instance)
	}
	must("wait", "instance-running", "--instance-ids", instance)
	const told = "Reservations[].Instances[].[InstanceId,State.Name,SecurityGroups[0].GroupId]"
	found := must("describe-instances", "--filters", "Name=tag:Name,Values=by*", "Name=vpc-id,Values="+vpc,
		"Name=instance-state-name,Values=running", "--query", told)
	if want := strings.Join([]string{instance, "running", group}, "\t"); found != want {
		t.Errorf("filters find %q, want %q", found, want)
	}
	must("terminate-instances", "--instance-ids", instance)
	must("wait", "instance-terminated", "--instance-ids", instance)
	if found := must("describe-instances", "--filters", "Name=instance-state-name,Values=running", "--query", told); found != "" {
		t.Errorf("after all have ended, there runs %q", found)
	}
}
