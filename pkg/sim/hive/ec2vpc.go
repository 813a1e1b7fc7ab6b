package simhive

import (
	"net/netip"
	"strings"
)

// vpcActions are those about VPCs and subnets (handlers/ec2/vpc/service_impl.go).
//
//	CreateVpc       :145 CidrBlock, /16 to /28, else InvalidVpcRange; overlapping VPCs are fine; at once "available";
//	                tenancy and IPv6 are ignored. spx makes a main route table (:254), pre nothing else; neither a default
//	                security group nor a network ACL
//	DeleteVpc       :209 DependencyViolation if it has subnets, and for nothing else; spx leaves its route tables behind
//	CreateSubnet    :320 /16 to /28 that begins in the VPC, else InvalidSubnet.Range; InvalidSubnet.Conflict;
//	                AvailabilityZone is taken as it is
//	DeleteSubnet    :448 whatever is in it
//	DescribeVpcs    :257, DescribeSubnets :477 an id that there is not is an error; pre honours vpc-id of subnets only
func vpcActions(Era) map[string]ec2Action {
	return map[string]ec2Action{
		"CreateVpc": createVPC, "DeleteVpc": deleteVPC, "DescribeVpcs": describeVPCs,
		"CreateSubnet": createSubnet, "DeleteSubnet": deleteSubnet, "DescribeSubnets": describeSubnets,
	}
}

// makeDefaults makes what daemons make when they start: a default VPC with a subnet, for the system's account, and in
// spx for the admin's as well, there with an internet gateway, a route to it and a security group
// (pre daemon/daemon.go:516; spx daemon/daemon.go:821, daemon_handlers_vpc.go:87).
func (c *ec2Call) makeDefaults() {
	if c.account != systemAccount && !(c.spx() && c.account == adminAccount) || c.get(accounts, "made") != nil {
		return
	}
	vpc := c.newVPC(fixedID("vpc", c.account), "172.31.0.0/16", true, tagList(map[string]string{"Name": "default"}))
	subnet := c.newSubnet(fixedID("subnet", c.account), vpc, "172.31.0.0/20", tagList(map[string]string{"Name": "default"}))
	subnet["availabilityZone"], subnet["defaultForAz"] = c.g.config.self().AZ, true
	subnet["mapPublicIpOnLaunch"] = c.spx()
	c.put(subnets, subnet.text("subnetId"), subnet)
	if c.spx() {
		c.makeDefaultNetwork(vpc)
	}
	c.put(accounts, "made", item{"_made": true})
}

func createVPC(c *ec2Call) item {
	if c.missing("CidrBlock") {
		return nil
	}
	cidr, ok := network4(c.text("CidrBlock"))
	if !ok {
		return c.refuse("InvalidVpcRange")
	}
	return item{"vpc": c.newVPC(newID("vpc"), cidr.String(), false, c.tags("vpc"))}
}

func (c *ec2Call) newVPC(id, cidr string, isDefault bool, tags []any) item {
	vpc := item{
		"vpcId": id, "cidrBlock": cidr, "state": "available", "isDefault": isDefault, "ownerId": c.account,
		"dhcpOptionsId": "dopt-default", "instanceTenancy": "default", "tagSet": tags,
		"cidrBlockAssociationSet": []any{item{
			"cidrBlock": cidr, "cidrBlockState": item{"state": "associated"},
			"associationId": "vpc-cidr-assoc-" + strings.TrimPrefix(id, "vpc-"),
		}},
		"_enableDnsSupport": true, "_enableDnsHostnames": isDefault, "_enableNetworkAddressUsageMetrics": false,
	}
	c.put(vpcs, id, vpc)
	if c.spx() {
		c.newRouteTable(vpc, true)
	}
	return vpc
}

func deleteVPC(c *ec2Call) item {
	if c.missing("VpcId") {
		return nil
	}
	id := c.text("VpcId")
	if c.get(vpcs, id) == nil {
		return c.refuse("InvalidVpcID.NotFound")
	}
	for _, subnet := range c.all(subnets) {
		if subnet.text("vpcId") == id {
			return c.refuse("DependencyViolation")
		}
	}
	c.drop(vpcs, id)
	return item{}
}

func describeVPCs(c *ec2Call) item {
	return c.describe(described{
		kind: vpcs, id: "vpcId", ids: "VpcId", set: "vpcSet", missing: "InvalidVpcID.NotFound",
		filters: map[string]string{
			"vpc-id": "vpcId", "state": "state", "cidr-block": "cidrBlock", "is-default": "isDefault", "owner-id": "ownerId",
		},
	})
}

func createSubnet(c *ec2Call) item {
	if c.missing("VpcId", "CidrBlock") {
		return nil
	}
	vpc := c.get(vpcs, c.text("VpcId"))
	if vpc == nil {
		return c.refuse("InvalidVpcID.NotFound")
	}
	cidr, ok := network4(c.text("CidrBlock"))
	whole, _ := network4(vpc.text("cidrBlock"))
	if !ok || !whole.Contains(cidr.Addr()) {
		return c.refuse("InvalidSubnet.Range")
	}
	for _, other := range c.all(subnets) {
		taken, _ := network4(other.text("cidrBlock"))
		if other.text("vpcId") == vpc.text("vpcId") && taken.Overlaps(cidr) {
			return c.refuse("InvalidSubnet.Conflict")
		}
	}
	subnet := c.newSubnet(newID("subnet"), vpc, cidr.String(), c.tags("subnet"))
	subnet["availabilityZone"] = c.g.config.self().AZ
	if c.has("AvailabilityZone") { // even if it is empty
		subnet["availabilityZone"] = c.text("AvailabilityZone")
	}
	c.put(subnets, subnet.text("subnetId"), subnet)
	return item{"subnet": subnet}
}

func (c *ec2Call) newSubnet(id string, vpc item, cidr string, tags []any) item {
	network, _ := network4(cidr)
	return item{
		"subnetId": id, "vpcId": vpc.text("vpcId"), "cidrBlock": cidr, "state": "available", "defaultForAz": false,
		"availableIpAddressCount": max(1<<(32-network.Bits())-5, 0), "ownerId": c.account, "mapPublicIpOnLaunch": false,
		"tagSet": tags,
	}
}

func deleteSubnet(c *ec2Call) item {
	if c.missing("SubnetId") {
		return nil
	}
	if c.get(subnets, c.text("SubnetId")) == nil {
		return c.refuse("InvalidSubnetID.NotFound")
	}
	c.drop(subnets, c.text("SubnetId"))
	return item{}
}

func describeSubnets(c *ec2Call) item {
	return c.describe(described{
		kind: subnets, id: "subnetId", ids: "SubnetId", set: "subnetSet", missing: "InvalidSubnetID.NotFound",
		honoured: []string{"vpc-id"},
		filters: map[string]string{
			"subnet-id": "subnetId", "vpc-id": "vpcId", "availability-zone": "availabilityZone",
			"cidr-block": "cidrBlock", "state": "state", "default-for-az": "defaultForAz",
		},
	})
}

// network4 reads the CIDR of a VPC or subnet.
func network4(text string) (netip.Prefix, bool) {
	cidr, err := netip.ParsePrefix(text)
	if err != nil || !cidr.Addr().Is4() || cidr.Bits() < 16 || cidr.Bits() > 28 {
		return netip.Prefix{}, false
	}
	return cidr.Masked(), true
}
