package simhive

import (
	"crypto/sha256"
	"fmt"
	"net"
	"slices"
)

// interfaceActions are those about network interfaces (handlers/ec2/vpc/eni.go).
//
//	CreateNetworkInterface    :40 PrivateIpAddress is taken as it is, else the lowest that is free from .4 on
//	                          (vpc/ipam.go:168); PrivateIpAddresses is ignored; pre drops SecurityGroupId, spx keeps it
//	                          unread; at once "available"
//	DeleteNetworkInterface    :123 InvalidNetworkInterface.InUse while an instance has it, which in pre it never has
//	DescribeNetworkInterfaces :165 pre honours subnet-id, vpc-id and attachment.instance-id
//	ModifyNetworkInterfaceAttribute spx, vpc/eni.go:172 groups and description; anything else alone is
//	                          InvalidParameterValue. There is no attaching and detaching
func interfaceActions(era Era) map[string]ec2Action {
	actions := map[string]ec2Action{
		"CreateNetworkInterface": createInterface, "DeleteNetworkInterface": deleteInterface,
		"DescribeNetworkInterfaces": describeInterfaces,
	}
	if era == EraSpx {
		actions["ModifyNetworkInterfaceAttribute"] = modifyInterface
	}
	return actions
}

func createInterface(c *ec2Call) item {
	if c.missing("SubnetId") {
		return nil
	}
	eni := c.newInterface(c.text("SubnetId"), c.text("PrivateIpAddress"), c.text("Description"), c.tags("network-interface"))
	if eni == nil {
		return nil
	}
	if c.spx() {
		eni["groupSet"] = groupSet(c.list("SecurityGroupId"))
		c.put(interfaces, eni.text("networkInterfaceId"), eni)
	}
	return item{"networkInterface": eni}
}

func groupSet(ids []string) []any {
	var list []item
	for _, id := range ids {
		list = append(list, item{"groupId": id})
	}
	return present(list)
}

// newInterface makes an interface in a subnet; nil if it is refused.
func (c *ec2Call) newInterface(subnetID, address, description string, tags []any) item {
	subnet := c.get(subnets, subnetID)
	if subnet == nil {
		return c.refuse("InvalidSubnetID.NotFound")
	}
	if address == "" {
		if address = c.freeAddress(subnet); address == "" {
			return c.refuse("ServerInternal")
		}
	}
	id := newID("eni")
	eni := item{
		"networkInterfaceId": id, "subnetId": subnetID, "vpcId": subnet.text("vpcId"),
		"availabilityZone": subnet.text("availabilityZone"), "privateIpAddress": address, "macAddress": c.mac(id),
		"description": description, "status": "available", "ownerId": c.account, "interfaceType": "interface",
		"sourceDestCheck": true, "groupSet": []any{}, "tagSet": tags,
		"privateIpAddressesSet": []any{item{"primary": true, "privateIpAddress": address}}, "_detached": "detached",
	}
	if c.spx() {
		eni["requesterManaged"] = false
	}
	c.put(interfaces, id, eni)
	return eni
}

// freeAddress is the lowest address of a subnet that no interface has; empty if there is none.
func (c *ec2Call) freeAddress(subnet item) string {
	var taken []string
	for _, eni := range c.all(interfaces) {
		if eni.text("subnetId") == subnet.text("subnetId") {
			taken = append(taken, eni.text("privateIpAddress"))
		}
	}
	cidr, _ := network4(subnet.text("cidrBlock"))
	for address, n := cidr.Addr(), 0; cidr.Contains(address.Next()); address, n = address.Next(), n+1 {
		if n >= 4 && !slices.Contains(taken, address.String()) {
			return address.String()
		}
	}
	return ""
}

// mac is an interface's hardware address, which its id decides (pre vpc/eni.go:367, spx utils/utils.go:307).
func (c *ec2Call) mac(id string) string {
	if c.spx() {
		sum := sha256.Sum256([]byte(id))
		return net.HardwareAddr(append([]byte{2}, sum[:5]...)).String()
	}
	var h uint32
	for _, char := range id {
		h = h*31 + uint32(char)
	}
	return fmt.Sprintf("02:00:00:%02x:%02x:%02x", h>>16&0xff, h>>8&0xff, h&0xff)
}

func deleteInterface(c *ec2Call) item {
	if c.missing("NetworkInterfaceId") {
		return nil
	}
	eni := c.get(interfaces, c.text("NetworkInterfaceId"))
	switch {
	case eni == nil:
		return c.refuse("InvalidNetworkInterfaceID.NotFound")
	case eni.text("status") == "in-use":
		return c.refuse("InvalidNetworkInterface.InUse")
	}
	c.drop(interfaces, eni.text("networkInterfaceId"))
	return item{}
}

func describeInterfaces(c *ec2Call) item {
	return c.describe(described{
		kind: interfaces, id: "networkInterfaceId", ids: "NetworkInterfaceId", set: "networkInterfaceSet",
		missing: "InvalidNetworkInterfaceID.NotFound", empty: c.spx(),
		honoured: []string{"subnet-id", "vpc-id", "attachment.instance-id"},
		filters: map[string]string{
			"network-interface-id": "networkInterfaceId", "subnet-id": "subnetId", "vpc-id": "vpcId", "status": "status",
			"private-ip-address": "privateIpAddress", "availability-zone": "availabilityZone",
			"group-id": "groupSet.groupId", "mac-address": "macAddress", "description": "description",
			"attachment.attachment-id": "attachment.attachmentId", "attachment.instance-id": "attachment.instanceId",
			"attachment.status": "attachment.status|_detached",
		},
	})
}

func modifyInterface(c *ec2Call) item {
	if c.missing("NetworkInterfaceId") {
		return nil
	}
	ids := c.list("SecurityGroupId")
	if len(ids) == 0 && !c.given("Description") {
		return c.refuse("InvalidParameterValue")
	}
	eni := c.get(interfaces, c.text("NetworkInterfaceId"))
	if eni == nil {
		return c.refuse("InvalidNetworkInterfaceID.NotFound")
	}
	if len(ids) > 0 {
		eni["groupSet"] = groupSet(ids)
	}
	if c.has("Description.Value") {
		eni["description"] = c.text("Description.Value")
	}
	c.put(interfaces, eni.text("networkInterfaceId"), eni)
	return item{}
}

// attachTo gives an interface to an instance, as its first.
func (c *ec2Call) attachTo(eni item, instance string) {
	eni["status"] = "in-use"
	delete(eni, "_detached")
	eni["attachment"] = item{
		"attachmentId": newID("eni-attach"), "instanceId": instance, "deviceIndex": 0, "status": "attached",
		"deleteOnTermination": true,
	}
	c.put(interfaces, eni.text("networkInterfaceId"), eni)
}
