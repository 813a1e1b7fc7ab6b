package ec2_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"hive-test/pkg/gateway/wire"
)

// address allocates an Elastic IP address and returns its id.
func (a *account) address() string {
	a.t.Helper()
	return a.must("AllocateAddress", wire.Object{"Domain": "vpc"}).Text("AllocationId")
}

// describeAddress returns what is told of an address.
func (a *account) describeAddress(id string) wire.Object {
	a.t.Helper()
	return a.must("DescribeAddresses", wire.Object{"AllocationIds": wire.Strings(id)}).Objects("Addresses")[0]
}

// associate associates an address with an interface and returns the association's id.
func (a *account) associate(id, eni string) string {
	a.t.Helper()
	return a.must("AssociateAddress", wire.Object{"AllocationId": id, "NetworkInterfaceId": eni}).Text("AssociationId")
}

func TestAddresses(t *testing.T) {
	a := newAccount(t, time.Second)
	made := a.must("AllocateAddress", wire.Object{"Domain": "vpc", "TagSpecifications": wire.List(wire.Object{
		"ResourceType": "elastic-ip", "Tags": wire.List(wire.Object{"Key": "Name", "Value": "one"}),
	})})
	id, ip := made.Text("AllocationId"), made.Text("PublicIp")
	if !strings.HasPrefix(ip, "198.1") || made.Text("Domain") != "vpc" || made.Text("PublicIpv4Pool") != "amazon" {
		t.Errorf("made: %v", made)
	}
	vpc := a.vpc("10.0.0.0/16")
	a.eni("eni-00000001", vpc, "i-00000001", "10.0.0.4", "10.0.0.5")
	in := wire.Object{"AllocationId": id, "InstanceId": "i-00000001"}
	a.refused("Gateway.NotAttached", "AssociateAddress", in)
	igw := a.gateway(vpc)
	association := a.must("AssociateAddress", in).Text("AssociationId")
	if again := a.must("AssociateAddress", in).Text("AssociationId"); again != association {
		t.Errorf("associated by %s, and the same again by %s", association, again)
	}
	a.found("DescribeAddresses", "Addresses", map[string]string{
		"allocation-id": id, "association-id": association, "domain": "vpc", "instance-id": "i-00000001",
		"network-border-group": a.Region, "network-interface-id": "eni-00000001",
		"network-interface-owner-id": a.Account, "private-ip-address": "10.0.0.4", "public-ip": ip, "tag:Name": "one",
		"tag-key": "Name",
	}, 1)
	if n := a.count("DescribeAddresses", "Addresses", wire.Object{"PublicIps": wire.Strings(ip)}); n != 1 {
		t.Errorf("%d have that public address", n)
	}

	far := a.vpc("10.1.0.0/16")
	a.eni("eni-00000002", far, "i-00000002", "10.1.0.4")
	a.eni("eni-00000003", vpc, "i-00000003", "10.0.0.6")
	a.eni("eni-00000004", vpc, "i-00000003", "10.0.0.7")
	a.put("instance", "i-00000004", wire.Object{"InstanceId": "i-00000004", "State": wire.Object{"Name": "pending"}})
	other, both := a.address(), func(more ...any) wire.Object {
		in := wire.Object{"AllocationId": id}
		for i := 0; i < len(more); i += 2 {
			in[more[i].(string)] = more[i+1]
		}
		return in
	}
	for _, c := range []struct {
		code, action string
		in           wire.Object
	}{
		{"InvalidParameterValue", "AllocateAddress", wire.Object{"Domain": "standard"}},
		{"InvalidParameterValue", "AllocateAddress", wire.Object{"NetworkBorderGroup": "moon"}},
		{"InvalidPublicIpv4PoolID.NotFound", "AllocateAddress", wire.Object{"PublicIpv4Pool": "ipv4pool-1"}},
		{"InvalidAddress.NotFound", "AllocateAddress", wire.Object{"Address": "1.2.3.4"}},
		{"Gateway.NotAttached", "AssociateAddress", both("InstanceId", "i-00000002")},
		{"InvalidInstanceID", "AssociateAddress", both("InstanceId", "i-00000003")},
		{"InvalidInstanceID", "AssociateAddress", both("InstanceId", "i-00000004")},
		{"InvalidInstanceID.NotFound", "AssociateAddress", both("InstanceId", "i-00000009")},
		{"InvalidNetworkInterfaceID.NotFound", "AssociateAddress", both("NetworkInterfaceId", "eni-00000009")},
		{
			"InvalidParameterValue", "AssociateAddress",
			both("NetworkInterfaceId", "eni-00000003", "PrivateIpAddress", "10.0.0.9"),
		},
		{
			"InvalidParameterCombination", "AssociateAddress",
			both("NetworkInterfaceId", "eni-00000003", "InstanceId", "i-00000003"),
		},
		{"MissingParameter", "AssociateAddress", both()},
		{"MissingParameter", "AssociateAddress", wire.Object{"InstanceId": "i-00000001"}},
		{
			"InvalidAllocationID.NotFound", "AssociateAddress",
			wire.Object{"AllocationId": "eipalloc-1", "InstanceId": "i-00000001"},
		},
		{
			"InvalidAddress.NotFound", "AssociateAddress",
			wire.Object{"PublicIp": "1.2.3.4", "InstanceId": "i-00000001"},
		},
		{
			"Resource.AlreadyAssociated", "AssociateAddress",
			both("NetworkInterfaceId", "eni-00000003", "AllowReassociation", false),
		},
		{
			"Resource.AlreadyAssociated", "AssociateAddress",
			wire.Object{"AllocationId": other, "InstanceId": "i-00000001", "AllowReassociation": false},
		},
		{"InvalidIPAddress.InUse", "ReleaseAddress", wire.Object{"AllocationId": id}},
		{"InvalidParameterValue", "ReleaseAddress", wire.Object{"PublicIp": ip}},
		{"InvalidAllocationID.NotFound", "ReleaseAddress", wire.Object{"AllocationId": "eipalloc-1"}},
		{"MissingParameter", "ReleaseAddress", wire.Object{}},
		{"InvalidParameterValue", "DisassociateAddress", wire.Object{"PublicIp": ip}},
		{"InvalidAddress.NotFound", "DisassociateAddress", wire.Object{"PublicIp": "1.2.3.4"}},
		{"InvalidAssociationID.NotFound", "DisassociateAddress", wire.Object{"AssociationId": "eipassoc-1"}},
		{"MissingParameter", "DisassociateAddress", wire.Object{}},
		{"InvalidAllocationID.NotFound", "DescribeAddresses", wire.Object{"AllocationIds": wire.Strings("eipalloc-1")}},
		{"InvalidAddress.NotFound", "DescribeAddresses", wire.Object{"PublicIps": wire.Strings("1.2.3.4")}},
		{"InvalidParameterValue", "DescribeAddressesAttribute", wire.Object{"Attribute": "colour"}},
		{
			"InvalidAllocationID.NotFound", "DescribeAddressesAttribute",
			wire.Object{"AllocationIds": wire.Strings("eipalloc-1")},
		},
		{"DependencyViolation", "DetachInternetGateway", wire.Object{"InternetGatewayId": igw, "VpcId": vpc}},
	} {
		a.refused(c.code, c.action, c.in)
	}

	if got := a.must("DescribeAddressesAttribute", wire.Object{
		"AllocationIds": wire.Strings(id), "Attribute": "domain-name",
	}).Objects("Addresses"); len(got) != 1 || got[0].Text("PublicIp") != ip || got[0].Has("PtrRecord") {
		t.Errorf("attributes: %v", got)
	}
	a.must("DisassociateAddress", wire.Object{"AssociationId": association})
	a.refused("InvalidAssociationID.NotFound", "DisassociateAddress", wire.Object{"AssociationId": association})
	a.found("DescribeAddresses", "Addresses", map[string]string{
		"association-id": association, "instance-id": "i-00000001", "private-ip-address": "10.0.0.4",
	}, 0)
	a.must("DetachInternetGateway", wire.Object{"InternetGatewayId": igw, "VpcId": vpc})
	a.must("ReleaseAddress", wire.Object{"AllocationId": id})
	a.refused("InvalidAllocationID.NotFound", "ReleaseAddress", wire.Object{"AllocationId": id})
	a.refused("InvalidAllocationID.NotFound", "DescribeAddresses", wire.Object{"AllocationIds": wire.Strings(id)})
}

// An address that is associated anew leaves what it was with; so does one whose place another takes, and one whose
// interface is deleted.
func TestAddressesMove(t *testing.T) {
	a := newAccount(t, 0)
	vpc := a.vpc("10.0.0.0/16")
	a.gateway(vpc)
	a.eni("eni-00000001", vpc, "", "10.0.0.4", "10.0.0.5")
	a.eni("eni-00000002", vpc, "", "10.0.0.6")
	one, two := a.address(), a.address()
	first := a.associate(one, "eni-00000001")
	second := a.associate(one, "eni-00000002")
	a.refused("InvalidAssociationID.NotFound", "DisassociateAddress", wire.Object{"AssociationId": first})
	if o := a.describeAddress(one); o.Text("AssociationId") != second || o.Text("NetworkInterfaceId") != "eni-00000002" {
		t.Errorf("after it was associated anew: %v", o)
	}
	third := a.associate(two, "eni-00000002")
	if o := a.describeAddress(one); o.Has("AssociationId") || o.Has("PrivateIpAddress") {
		t.Errorf("after another has taken its place: %v", o)
	}
	a.refused("InvalidAssociationID.NotFound", "DisassociateAddress", wire.Object{"AssociationId": second})
	a.must("AssociateAddress", wire.Object{ // each private address has its own
		"AllocationId": one, "NetworkInterfaceId": "eni-00000001", "PrivateIpAddress": "10.0.0.5",
		"AllowReassociation": false,
	})
	if o := a.describeAddress(one); o.Text("PrivateIpAddress") != "10.0.0.5" {
		t.Errorf("with a second private address: %v", o)
	}
	if err := a.Store.Delete(t.Context(), "network-interface", "eni-00000002", nil); err != nil {
		t.Fatal(err)
	}
	if o := a.describeAddress(two); o.Has("AssociationId") {
		t.Errorf("after its interface was deleted: %v", o)
	}
	a.refused("InvalidAssociationID.NotFound", "DisassociateAddress", wire.Object{"AssociationId": third})
	a.must("ReleaseAddress", wire.Object{"AllocationId": two})
}

// Of addresses that are associated with one interface at once, one has it, also where each may take another's place; and
// of interfaces that one address is associated with, one.
func TestAddressesAtOnce(t *testing.T) {
	a := newAccount(t, 0)
	vpc := a.vpc("10.0.0.0/16")
	a.gateway(vpc)
	a.eni("eni-00000001", vpc, "", "10.0.0.4")
	addresses, interfaces := make([]string, 10), "23456789ab"
	ips := map[string]bool{}
	for i := range addresses {
		addresses[i] = a.address()
		ips[a.describeAddress(addresses[i]).Text("PublicIp")] = true
		a.eni("eni-0000000"+interfaces[i:i+1], vpc, "", fmt.Sprintf("10.0.1.%d", 4+i))
	}
	if len(ips) != len(addresses) {
		t.Errorf("%d addresses have %d IPs", len(addresses), len(ips))
	}
	for _, move := range []bool{false, true} {
		n := atOnce(10, func(i int) error {
			_, err := a.try("AssociateAddress", wire.Object{
				"AllocationId": addresses[i], "NetworkInterfaceId": "eni-00000001", "AllowReassociation": move,
			})
			return err
		})
		if !move && n != 1 || move && n != 10 {
			t.Errorf("%d of 10 were associated, reassociation %v", n, move)
		}
		a.found("DescribeAddresses", "Addresses", map[string]string{"network-interface-id": "eni-00000001"}, 1)
	}
	free := a.address()
	if n := atOnce(10, func(i int) error {
		_, err := a.try("AssociateAddress", wire.Object{
			"AllocationId": free, "NetworkInterfaceId": "eni-0000000" + interfaces[i:i+1], "AllowReassociation": false,
		})
		return err
	}); n != 1 {
		t.Errorf("one address was associated %d times", n)
	}
}
