package ec2_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hive-test/pkg/gateway/wire"
)

// put has the store have a resource of another part of the service.
func (a *account) put(bucket, id string, o wire.Object) {
	a.t.Helper()
	if err := a.Store.Create(a.t.Context(), bucket, id, o); err != nil {
		a.t.Fatal(err)
	}
}

// eni puts a network interface into the store, and the instance that it is attached to, where that is no empty id.
func (a *account) eni(id, vpc, instance string, private ...string) {
	a.t.Helper()
	addresses := make([]wire.Object, len(private))
	for i, ip := range private {
		addresses[i] = wire.Object{"PrivateIpAddress": ip, "Primary": i == 0}
	}
	o := wire.Object{
		"NetworkInterfaceId": id, "VpcId": vpc, "PrivateIpAddress": private[0], "PrivateIpAddresses": wire.List(addresses...),
	}
	if instance != "" {
		o["Attachment"] = wire.Object{"InstanceId": instance, "Status": "attached"}
		if _, err := a.Store.Get(a.t.Context(), "instance", instance); err != nil {
			a.put("instance", instance, wire.Object{"InstanceId": instance, "State": wire.Object{"Name": "running"}})
		}
	}
	a.put("network-interface", id, o)
}

// gateway makes an internet gateway and returns its id. It is attached to a VPC, where that is no empty id.
func (a *account) gateway(vpc string) string {
	a.t.Helper()
	id := a.must("CreateInternetGateway", wire.Object{}).Object("InternetGateway").Text("InternetGatewayId")
	if vpc != "" {
		a.must("AttachInternetGateway", wire.Object{"InternetGatewayId": id, "VpcId": vpc})
	}
	return id
}

// count returns how many resources an action tells of.
func (a *account) count(action, list string, in wire.Object) int {
	a.t.Helper()
	return len(a.must(action, in).Objects(list))
}

// found proves how many resources filters let through.
func (a *account) found(action, list string, filters map[string]string, want int) {
	a.t.Helper()
	for name, value := range filters {
		if n := a.count(action, list, with(name, value)); n != want {
			a.t.Errorf("%s: filter %s=%s finds %d, want %d", action, name, value, n, want)
		}
	}
}

// atOnce does the same n times at once, and returns how often it succeeded.
func atOnce(n int, do func(i int) error) int {
	var all sync.WaitGroup
	var done atomic.Int32
	for i := range n {
		all.Go(func() {
			if do(i) == nil {
				done.Add(1)
			}
		})
	}
	all.Wait()
	return int(done.Load())
}

func TestInternetGateways(t *testing.T) {
	a := newAccount(t, time.Second)
	vpc, other := a.vpc("10.0.0.0/16"), a.vpc("10.1.0.0/16")
	id := a.must("CreateInternetGateway", wire.Object{"TagSpecifications": wire.List(wire.Object{
		"ResourceType": "internet-gateway", "Tags": wire.List(wire.Object{"Key": "Name", "Value": "one"}),
	})}).Object("InternetGateway").Text("InternetGatewayId")
	both := wire.Object{"InternetGatewayId": id, "VpcId": vpc}
	a.refused("Gateway.NotAttached", "DetachInternetGateway", both)
	a.must("AttachInternetGateway", both)
	describe := func() []wire.Object {
		return a.must("DescribeInternetGateways", wire.Object{"InternetGatewayIds": wire.Strings(id)}).
			Objects("InternetGateways")[0].Objects("Attachments")
	}
	if state := describe()[0].Text("State"); state != "attaching" {
		t.Errorf("at first the attachment is %s", state)
	}
	a.pass(time.Second)
	if state := describe()[0].Text("State"); state != "available" {
		t.Errorf("then the attachment is %s", state)
	}
	a.found("DescribeInternetGateways", "InternetGateways", map[string]string{
		"attachment.state": "available", "attachment.vpc-id": vpc, "internet-gateway-id": id, "owner-id": a.Account,
		"tag:Name": "one", "tag-key": "Name",
	}, 1)
	a.found("DescribeInternetGateways", "InternetGateways", map[string]string{"attachment.vpc-id": other}, 0)

	for _, c := range []struct {
		code, action string
		in           wire.Object
	}{
		{"Resource.AlreadyAssociated", "AttachInternetGateway", both},
		{"Resource.AlreadyAssociated", "AttachInternetGateway", wire.Object{"InternetGatewayId": id, "VpcId": other}},
		{"InvalidParameterValue", "AttachInternetGateway", wire.Object{"InternetGatewayId": a.gateway(""), "VpcId": vpc}},
		{"InvalidVpcID.NotFound", "AttachInternetGateway", wire.Object{"InternetGatewayId": a.gateway(""), "VpcId": "vpc-1"}},
		{
			"InvalidInternetGatewayID.NotFound", "AttachInternetGateway",
			wire.Object{"InternetGatewayId": "igw-1", "VpcId": vpc},
		},
		{"MissingParameter", "AttachInternetGateway", wire.Object{"InternetGatewayId": id}},
		{"Gateway.NotAttached", "DetachInternetGateway", wire.Object{"InternetGatewayId": id, "VpcId": other}},
		{"InvalidVpcID.NotFound", "DetachInternetGateway", wire.Object{"InternetGatewayId": id, "VpcId": "vpc-1"}},
		{
			"InvalidInternetGatewayID.NotFound", "DetachInternetGateway",
			wire.Object{"InternetGatewayId": "igw-1", "VpcId": vpc},
		},
		{"DependencyViolation", "DeleteInternetGateway", wire.Object{"InternetGatewayId": id}},
		{"DependencyViolation", "DeleteVpc", wire.Object{"VpcId": vpc}},
		{"InvalidInternetGatewayID.NotFound", "DeleteInternetGateway", wire.Object{"InternetGatewayId": "igw-1"}},
		{
			"InvalidInternetGatewayID.NotFound", "DescribeInternetGateways",
			wire.Object{"InternetGatewayIds": wire.Strings("igw-1")},
		},
	} {
		a.refused(c.code, c.action, c.in)
	}
	a.must("DetachInternetGateway", both)
	a.pass(time.Minute)
	if left := describe(); len(left) != 0 {
		t.Errorf("after it was detached: %v", left)
	}
	a.must("DeleteInternetGateway", wire.Object{"InternetGatewayId": id})
	a.refused("InvalidInternetGatewayID.NotFound", "DeleteInternetGateway", wire.Object{"InternetGatewayId": id})
	a.must("DeleteVpc", wire.Object{"VpcId": vpc})
}

// Of gateways that are attached to one VPC at once, and of VPCs that one is attached to, one wins; and a gateway that is
// being attached to a VPC that is being deleted leaves neither half done.
func TestAttachAtOnce(t *testing.T) {
	a := newAccount(t, 0)
	vpc := a.vpc("10.0.0.0/16")
	if n := atOnce(20, func(int) error {
		id := a.gateway("")
		_, err := a.try("AttachInternetGateway", wire.Object{"InternetGatewayId": id, "VpcId": vpc})
		return err
	}); n != 1 {
		t.Errorf("%d gateways were attached to one VPC", n)
	}
	id, vpcs := a.gateway(""), make([]string, 20)
	for i := range vpcs {
		vpcs[i] = a.vpc("10.0.0.0/16")
	}
	if n := atOnce(20, func(i int) error {
		_, err := a.try("AttachInternetGateway", wire.Object{"InternetGatewayId": id, "VpcId": vpcs[i]})
		return err
	}); n != 1 {
		t.Errorf("one gateway was attached to %d VPCs", n)
	}
	deleted := atOnce(20, func(i int) error {
		_, err := a.try("DeleteVpc", wire.Object{"VpcId": vpcs[i]})
		return err
	})
	if deleted != 19 {
		t.Errorf("of 20 VPCs, of which one has a gateway, %d were deleted", deleted)
	}
	for range 10 {
		vpc, id := a.vpc("10.0.0.0/16"), a.gateway("")
		if n := atOnce(2, func(i int) error {
			if i == 0 {
				_, err := a.try("DeleteVpc", wire.Object{"VpcId": vpc})
				return err
			}
			_, err := a.try("AttachInternetGateway", wire.Object{"InternetGatewayId": id, "VpcId": vpc})
			return err
		}); n != 1 {
			t.Errorf("of attaching to a VPC and deleting it, %d were done", n)
		}
	}
}

// A gateway is not detached while an instance in its VPC has a public address that is lent to it.
func TestDetachWithLentAddress(t *testing.T) {
	a := newAccount(t, 0)
	vpc := a.vpc("10.0.0.0/16")
	both := wire.Object{"InternetGatewayId": a.gateway(vpc), "VpcId": vpc}
	a.put("network-interface", "eni-00000001", wire.Object{
		"NetworkInterfaceId": "eni-00000001", "VpcId": vpc, "PrivateIpAddress": "10.0.0.4",
		"PrivateIpAddresses": wire.List(wire.Object{"PrivateIpAddress": "10.0.0.4"}),
		"Association":        wire.Object{"PublicIp": "198.51.100.1", "IpOwnerId": "amazon"},
	})
	a.refused("DependencyViolation", "DetachInternetGateway", both)
	if err := a.Store.Delete(t.Context(), "network-interface", "eni-00000001", nil); err != nil {
		t.Fatal(err)
	}
	a.must("DetachInternetGateway", both)
}

// A gateway that has died between the note in the VPC and the attachment is in the way of the VPC's deletion for a while.
func TestLinkOfTheDead(t *testing.T) {
	a := newAccount(t, 0)
	vpc, id := a.vpc("10.0.0.0/16"), a.gateway("")
	if _, err := a.Store.Change(t.Context(), "vpc", vpc, func(o wire.Object) error {
		o["_uses"] = wire.Object{"internet-gateway/" + id + "/attach-1": wire.Object{
			"With": wire.Object{"Named": vpc}, "Since": a.now.UnixMicro(),
		}}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	a.refused("DependencyViolation", "DeleteVpc", wire.Object{"VpcId": vpc})
	a.pass(11 * time.Second)
	a.must("AttachInternetGateway", wire.Object{"InternetGatewayId": id, "VpcId": vpc})
	a.must("DetachInternetGateway", wire.Object{"InternetGatewayId": id, "VpcId": vpc})
	a.must("DeleteVpc", wire.Object{"VpcId": vpc})
}

func TestEgressGateways(t *testing.T) {
	a := newAccount(t, time.Second)
	vpc := a.vpc("10.0.0.0/16")
	in := wire.Object{"VpcId": vpc, "ClientToken": "token", "TagSpecifications": wire.List(wire.Object{
		"ResourceType": "egress-only-internet-gateway", "Tags": wire.List(wire.Object{"Key": "Name", "Value": "out"}),
	})}
	made := a.must("CreateEgressOnlyInternetGateway", in)
	id := made.Object("EgressOnlyInternetGateway").Text("EgressOnlyInternetGatewayId")
	if again := a.must("CreateEgressOnlyInternetGateway", in).Object("EgressOnlyInternetGateway"); again.Text(
		"EgressOnlyInternetGatewayId") != id || made.Text("ClientToken") != "token" {
		t.Errorf("made %v, and with the same token %v", made, again)
	}
	other := a.vpc("10.0.0.0/16")
	a.refused("IdempotentParameterMismatch", "CreateEgressOnlyInternetGateway",
		wire.Object{"VpcId": other, "ClientToken": "token"})
	a.refused("InvalidVpcID.NotFound", "CreateEgressOnlyInternetGateway", wire.Object{"VpcId": "vpc-1"})
	a.refused("MissingParameter", "CreateEgressOnlyInternetGateway", wire.Object{})
	a.refused("DependencyViolation", "DeleteVpc", wire.Object{"VpcId": vpc})
	list, action := "EgressOnlyInternetGateways", "DescribeEgressOnlyInternetGateways"
	found := a.must(action, wire.Object{"EgressOnlyInternetGatewayIds": wire.Strings(id)}).Objects(list)
	if len(found) != 1 || found[0].Objects("Attachments")[0].Text("State") != "attached" {
		t.Errorf("found: %v", found)
	}
	a.found(action, list, map[string]string{"tag:Name": "out", "tag-key": "Name"}, 1)
	a.found(action, list, map[string]string{"tag:Name": "in"}, 0)
	a.refused("InvalidParameterValue", action, with("vpc-id", vpc))
	if !a.must("DeleteEgressOnlyInternetGateway", wire.Object{"EgressOnlyInternetGatewayId": id}).Bool("ReturnCode") {
		t.Error("it was deleted, and the answer says it was not")
	}
	a.refused("InvalidGatewayID.NotFound", "DeleteEgressOnlyInternetGateway",
		wire.Object{"EgressOnlyInternetGatewayId": id})
	if n := a.count(action, list, wire.Object{"EgressOnlyInternetGatewayIds": wire.Strings(id)}); n != 0 {
		t.Errorf("%d are there after it was deleted", n)
	}
	a.must("DeleteVpc", wire.Object{"VpcId": vpc})
	a.pass(11 * time.Second) // the refused request's note is old by now
	a.must("DeleteVpc", wire.Object{"VpcId": other})
}

func TestNetworkACLs(t *testing.T) {
	a := newAccount(t, 0)
	vpc, other := a.vpc("10.0.0.0/16"), a.vpc("10.1.0.0/16")
	one, two := a.subnet(vpc, "10.0.1.0/24"), a.subnet(vpc, "10.0.2.0/24")
	a.subnet(other, "10.1.1.0/24")
	acls := a.must("DescribeNetworkAcls", wire.Object{"Filters": wire.List(
		wire.Object{"Name": "default", "Values": wire.Strings("true")},
		wire.Object{"Name": "vpc-id", "Values": wire.Strings(vpc)},
	)}).Objects("NetworkAcls")
	if len(acls) != 1 {
		t.Fatalf("default ACLs: %v", acls)
	}
	var subnets []string
	for _, association := range acls[0].Objects("Associations") {
		subnets = append(subnets, association.Text("SubnetId"))
		if association.Text("NetworkAclId") != acls[0].Text("NetworkAclId") {
			t.Errorf("association: %v", association)
		}
	}
	if !slices.Equal(subnets, []string{one, two}) {
		t.Errorf("subnets of the ACL: %v", subnets)
	}
	id := acls[0].Text("NetworkAclId")
	association := acls[0].Objects("Associations")[0].Text("NetworkAclAssociationId")
	a.found("DescribeNetworkAcls", "NetworkAcls", map[string]string{
		"association.association-id": association, "association.network-acl-id": id, "association.subnet-id": two,
		"network-acl-id": id, "vpc-id": vpc,
	}, 1)
	a.found("DescribeNetworkAcls", "NetworkAcls", map[string]string{
		"entry.cidr": "0.0.0.0/0", "entry.egress": "true", "entry.protocol": "-1", "entry.rule-action": "deny",
		"entry.rule-number": "100", "owner-id": a.Account,
	}, 2)
	a.refused("InvalidNetworkAclID.NotFound", "DescribeNetworkAcls", wire.Object{"NetworkAclIds": wire.Strings("acl-1")})
	a.must("DeleteSubnet", wire.Object{"SubnetId": one})
	a.found("DescribeNetworkAcls", "NetworkAcls", map[string]string{"association.subnet-id": one}, 0)
	a.must("DeleteSubnet", wire.Object{"SubnetId": two})
	a.must("DeleteVpc", wire.Object{"VpcId": vpc})
	a.refused("InvalidNetworkAclID.NotFound", "DescribeNetworkAcls", wire.Object{"NetworkAclIds": wire.Strings(id)})
}
