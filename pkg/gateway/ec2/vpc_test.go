package ec2_test

import (
	"fmt"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hive-test/pkg/gateway/wire"
)

func TestVPC(t *testing.T) {
	a := newAccount(t, time.Second)
	made := a.must("CreateVpc", wire.Object{
		"CidrBlock": "10.0.1.2/16", "TagSpecifications": wire.List(
			wire.Object{"ResourceType": "vpc", "Tags": wire.List(wire.Object{"Key": "Name", "Value": "one"})},
			wire.Object{"ResourceType": "subnet", "Tags": wire.List(wire.Object{"Key": "Name", "Value": "other"})}),
	}).Object("Vpc")
	id := made.Text("VpcId")
	if !regexp.MustCompile(`^vpc-[0-9a-f]{17}$`).MatchString(id) {
		t.Errorf("id %q", id)
	}
	if made.Text("State") != "pending" || made.Text("CidrBlock") != "10.0.0.0/16" {
		t.Errorf("made: %v", made)
	}
	a.pass(2 * time.Second)
	found := a.must("DescribeVpcs", with("tag:Name", "o?e")).Objects("Vpcs")
	if len(found) != 1 || found[0].Text("State") != "available" || found[0].Text("VpcId") != id {
		t.Errorf("found by its tag: %v", found)
	}
	for _, cidr := range []string{"10.0.0.0/15", "10.0.0.0/29"} {
		a.refused("InvalidVpc.Range", "CreateVpc", wire.Object{"CidrBlock": cidr})
	}
	a.refused("InvalidParameterValue", "CreateVpc", wire.Object{"CidrBlock": "ten"})
	a.refused("MissingParameter", "CreateVpc", wire.Object{})
	a.refused("InvalidVpcID.NotFound", "DescribeVpcs", wire.Object{"VpcIds": wire.Strings("vpc-1")})
	a.refused("InvalidParameterValue", "DescribeVpcs", with("colour", "red"))
	a.refused("DryRunOperation", "CreateVpc", wire.Object{"CidrBlock": "10.0.0.0/16", "DryRun": true})

	attribute := func(name string) bool {
		out := a.must("DescribeVpcAttribute", wire.Object{"VpcId": id, "Attribute": name})
		return out.Object("EnableDns" + name[len("enableDns"):]).Bool("Value")
	}
	if !attribute("enableDnsSupport") || attribute("enableDnsHostnames") {
		t.Error("attributes are not AWS's defaults")
	}
	a.must("ModifyVpcAttribute", wire.Object{"VpcId": id, "EnableDnsHostnames": wire.Object{"Value": true}})
	if !attribute("enableDnsHostnames") {
		t.Error("an attribute that was changed is not")
	}
	a.must("CreateTags", wire.Object{"Resources": wire.Strings(id), "Tags": wire.List(wire.Object{"Key": "a", "Value": ""})})
	if tags := a.must("DescribeTags", with("resource-id", id)).Objects("Tags"); len(tags) != 2 {
		t.Errorf("tags: %v", tags)
	}
	a.must("DeleteTags", wire.Object{"Resources": wire.Strings(id), "Tags": wire.List(wire.Object{"Key": "Name"})})
	if tags := a.must("DescribeTags", with("key", "Name")).Objects("Tags"); len(tags) != 0 {
		t.Errorf("tags after deletion: %v", tags)
	}
	a.must("DeleteVpc", wire.Object{"VpcId": id})
	a.refused("InvalidVpcID.NotFound", "DescribeVpcs", wire.Object{"VpcIds": wire.Strings(id)})
}

// A VPC may have more blocks: subnets may lie in them, and all its tables have a route to each.
func TestBlocks(t *testing.T) {
	a := newAccount(t, 0)
	vpc := a.vpc("10.0.0.0/16")
	associate := func(cidr string) wire.Object { return wire.Object{"VpcId": vpc, "CidrBlock": cidr} }
	own := a.must("CreateRouteTable", wire.Object{"VpcId": vpc}).Object("RouteTable").Text("RouteTableId")
	made := a.must("AssociateVpcCidrBlock", associate("10.1.0.0/20")).Object("CidrBlockAssociation")
	id := made.Text("AssociationId")
	if made.Object("CidrBlockState").Text("State") != "associated" || made.Text("CidrBlock") != "10.1.0.0/20" {
		t.Errorf("made: %v", made)
	}
	a.refused("InvalidVpc.Range", "AssociateVpcCidrBlock", associate("10.0.128.0/17"))
	a.refused("InvalidVpc.Range", "AssociateVpcCidrBlock", associate("10.9.0.0/15"))
	a.refused("InvalidVpcID.NotFound", "AssociateVpcCidrBlock", wire.Object{"VpcId": "vpc-1", "CidrBlock": "10.2.0.0/16"})
	found := a.must("DescribeVpcs", with("cidr-block-association.association-id", id)).Objects("Vpcs")
	if len(found) != 1 || len(found[0].Objects("CidrBlockAssociationSet")) != 2 {
		t.Errorf("found by it: %v", found)
	}
	routes := func() (n int) {
		for _, table := range a.must("DescribeRouteTables", with("vpc-id", vpc)).Objects("RouteTables") {
			for _, cidr := range table.At("Routes.DestinationCidrBlock") {
				if cidr == "10.1.0.0/20" {
					n++
				}
			}
		}
		return n
	}
	if n := routes(); n != 2 {
		t.Errorf("%d of the main table and %s have a route to it", n, own)
	}
	subnet := a.subnet(vpc, "10.1.1.0/24")
	a.refused("InvalidSubnet.Range", "CreateSubnet", associate("10.1.15.0/19"))
	a.refused("DependencyViolation", "DisassociateVpcCidrBlock", wire.Object{"AssociationId": id})
	a.must("DeleteSubnet", wire.Object{"SubnetId": subnet})
	first := found[0].Objects("CidrBlockAssociationSet")[0].Text("AssociationId")
	a.refused("OperationNotPermitted", "DisassociateVpcCidrBlock", wire.Object{"AssociationId": first})
	a.must("DisassociateVpcCidrBlock", wire.Object{"AssociationId": id})
	a.refused("InvalidVpcCidrBlockAssociationID.NotFound", "DisassociateVpcCidrBlock", wire.Object{"AssociationId": id})
	if n := routes(); n != 0 {
		t.Errorf("%d tables have a route to what is gone", n)
	}
	for i := range 4 {
		a.must("AssociateVpcCidrBlock", associate(fmt.Sprintf("10.%d.0.0/16", i+2)))
	}
	a.refused("CidrBlockLimitExceeded", "AssociateVpcCidrBlock", associate("10.99.0.0/16"))
}

func TestSubnets(t *testing.T) {
	a := newAccount(t, 0)
	vpc := a.vpc("10.0.0.0/16")
	id := a.subnet(vpc, "10.0.1.0/24")
	a.refused("InvalidSubnet.Conflict", "CreateSubnet", wire.Object{"VpcId": vpc, "CidrBlock": "10.0.1.128/25"})
	a.refused("InvalidSubnet.Range", "CreateSubnet", wire.Object{"VpcId": vpc, "CidrBlock": "10.1.0.0/24"})
	a.refused("DependencyViolation", "DeleteVpc", wire.Object{"VpcId": vpc})
	found := a.must("DescribeSubnets", with("vpc-id", vpc)).Objects("Subnets")
	if len(found) != 1 || found[0].Int("AvailableIpAddressCount") != 251 {
		t.Errorf("found: %v", found)
	}
	a.must("ModifySubnetAttribute", wire.Object{"SubnetId": id, "MapPublicIpOnLaunch": wire.Object{"Value": true}})
	if !a.must("DescribeSubnets", wire.Object{"SubnetIds": wire.Strings(id)}).Objects("Subnets")[0].Bool("MapPublicIpOnLaunch") {
		t.Error("an attribute that was changed is not")
	}
	a.must("DeleteSubnet", wire.Object{"SubnetId": id})
	a.must("DeleteVpc", wire.Object{"VpcId": vpc})
}

// Of subnets that overlap and are asked for at once, one is made.
func TestOverlaps(t *testing.T) {
	a := newAccount(t, 0)
	vpc := a.vpc("10.0.0.0/16")
	var made atomic.Int32
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			if _, err := a.try("CreateSubnet", wire.Object{"VpcId": vpc, "CidrBlock": fmt.Sprintf("10.0.%d.0/22", i%4)}); err == nil {
				made.Add(1)
			}
		})
	}
	all.Wait()
	if made.Load() != 1 {
		t.Errorf("%d were made", made.Load())
	}
}

func TestPages(t *testing.T) {
	a := newAccount(t, 0)
	for i := range 12 {
		a.vpc(fmt.Sprintf("10.%d.0.0/16", i))
	}
	seen := map[string]bool{}
	in := wire.Object{"MaxResults": 5}
	for range 3 {
		out := a.must("DescribeVpcs", in)
		for _, vpc := range out.Objects("Vpcs") {
			seen[vpc.Text("VpcId")] = true
		}
		in["NextToken"] = out["NextToken"]
	}
	if len(seen) != 12 || in["NextToken"] != nil {
		t.Errorf("%d in three pages, next %v", len(seen), in["NextToken"])
	}
	a.refused("InvalidParameterValue", "DescribeVpcs", wire.Object{"MaxResults": 4})
	a.refused("InvalidNextToken", "DescribeVpcs", wire.Object{"NextToken": "next"})
}
