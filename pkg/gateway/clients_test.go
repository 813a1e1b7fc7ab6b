package gateway_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

// The AWS CLI reads what the gateway answers, waits by it, and tells of its errors by their codes.
func TestAWSCommandLine(t *testing.T) {
	if os.Getenv("HIVE_TEST_SOAK") == "" {
		t.Skip("it takes half a minute: with HIVE_TEST_SOAK=yes")
	}
	programs := awsPrograms()
	if len(programs) == 0 {
		t.Skip("there is no AWS CLI")
	}
	for _, program := range programs {
		t.Run(program, func(t *testing.T) {
			endpoint := newEndpoint(t, "")
			aws := func(args ...string) (string, error) {
				cmd := exec.Command(program, append([]string{"--endpoint-url", endpoint.URL, "--output", "text", "ec2"}, args...)...)
				cmd.Env = append(os.Environ(), "AWS_ACCESS_KEY_ID="+accessKey, "AWS_SECRET_ACCESS_KEY="+secretKey,
					"AWS_DEFAULT_REGION="+region, "AWS_EC2_METADATA_DISABLED=true", "AWS_PAGER=", "HOME="+t.TempDir())
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
				must("create-vpc", "--cidr-block", "10.1.0.0/16")
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
		})
	}
}

// Moto's faults that the real provider has met are in its table. (In ours, TestProbe finds none.)
func TestMotosFaults(t *testing.T) {
	if os.Getenv("HIVE_TEST_SOAK") == "" {
		t.Skip("it takes a minute: with HIVE_TEST_SOAK=yes")
	}
	moto, there := startMoto(t)
	if !there {
		t.Skip("there is no moto_server")
	}
	table := iac.Probe(t.Context(), moto, iac.Options{Patience: 2 * time.Second})
	for _, row := range table.Rows {
		for _, part := range iac.Phases() {
			if cell, there := row.Cells[part]; there && cell.Verdict != iac.Works {
				t.Logf("%s, %s: %s", row.Resource, part, cell)
			}
		}
	}
	// It has no placement groups, and answers a page of HTML.
	if got := cellOf(table, "aws_placement_group create"); got != "wrong shape CreatePlacementGroup" {
		t.Errorf("placement groups: %s", got)
	}
}
