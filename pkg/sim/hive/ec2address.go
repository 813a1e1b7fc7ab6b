package simhive

import (
	"fmt"
	"slices"
	"strings"
)

// addressActions are those about Elastic IPs, which spx has (spinifex/handlers/ec2/eip/service_impl.go). Without an
// external network (init --no-external) no daemon answers them: InternalError (daemon/daemon.go:724). With one, but
// without vpcd, none is to be had: InsufficientAddressCapacity (503).
//
//	AllocateAddress     :67 tags of elastic-ip are kept and told
//	AssociateAddress    :158 by AllocationId, to a NetworkInterfaceId or InstanceId; one that is associated is associated
//	                    anew. The interface does not tell of it
//	DisassociateAddress :243 by AssociationId; ReleaseAddress :120 by AllocationId, InvalidAddress.Locked while associated
//	DescribeAddresses   :297; DescribeAddressesAttribute :416
func addressActions() map[string]ec2Action {
	return map[string]ec2Action{
		"AllocateAddress":            external(allocateAddress),
		"ReleaseAddress":             external(releaseAddress, "AllocationId"),
		"AssociateAddress":           external(associateAddress, "AllocationId"),
		"DisassociateAddress":        external(disassociateAddress, "AssociationId"),
		"DescribeAddresses":          external(describeAddresses),
		"DescribeAddressesAttribute": external(describeAddressesAttribute),
	}
}

// external is an action that daemons answer which have an external network, once the gateway has what it needs.
func external(action ec2Action, needs ...string) ec2Action {
	return func(c *ec2Call) item {
		if c.missing(needs...) {
			return nil
		}
		if c.g.config.Network.ExternalMode == "" {
			return c.refuse("InternalError")
		}
		return action(c)
	}
}

// pool is what the external network's addresses are of.
const pool = "wan"

// externalAddress is a public address that nobody has; empty if there is none.
func (c *ec2Call) externalAddress() string {
	if c.g.config.Network.ExternalMode == "" || !c.g.program.faults().OVN {
		return ""
	}
	var taken []string
	for _, address := range c.all(addresses) {
		taken = append(taken, address.text("publicIp"))
	}
	for _, i := range c.all(instances) {
		taken = append(taken, i.text("ipAddress"))
	}
	for n := 10; n < 250; n++ {
		if address := fmt.Sprintf("192.0.2.%d", n); !slices.Contains(taken, address) {
			return address
		}
	}
	return ""
}

// automaticAddress is the public address that an instance gets in a subnet that gives one.
func (c *ec2Call) automaticAddress(eni item) string {
	subnet := c.get(subnets, eni.text("subnetId"))
	if subnet == nil || !subnet.flag("mapPublicIpOnLaunch") {
		return ""
	}
	public := c.externalAddress()
	if public != "" {
		eni["association"] = item{"publicIp": public}
		c.put(interfaces, eni.text("networkInterfaceId"), eni)
	}
	return public
}

func allocateAddress(c *ec2Call) item {
	public := c.externalAddress()
	if asked := c.text("PublicIpv4Pool"); public == "" || asked != "" && asked != pool {
		return c.refuse("InsufficientAddressCapacity")
	}
	address := item{
		"allocationId": newID("eipalloc"), "publicIp": public, "domain": "vpc", "publicIpv4Pool": pool,
		"tagSet": c.tags("elastic-ip"),
	}
	c.put(addresses, address.text("allocationId"), address)
	return item{
		"allocationId": address["allocationId"], "publicIp": public, "domain": "vpc", "publicIpv4Pool": pool,
	}
}

// askedAddress is the address that a call names; nil if it is refused.
func (c *ec2Call) askedAddress() item {
	address := c.get(addresses, c.text("AllocationId"))
	if address == nil {
		return c.refuse("InvalidAllocationID.NotFound")
	}
	return address
}

func releaseAddress(c *ec2Call) item {
	address := c.askedAddress()
	switch {
	case address == nil:
		return nil
	case address.text("associationId") != "":
		return c.refuse("InvalidAddress.Locked")
	}
	c.drop(addresses, address.text("allocationId"))
	return item{}
}

func associateAddress(c *ec2Call) item {
	address := c.askedAddress()
	if address == nil {
		return nil
	}
	eni := c.addressed()
	if eni == nil {
		return nil
	}
	address["associationId"] = newID("eipassoc")
	address["networkInterfaceId"], address["privateIpAddress"] = eni["networkInterfaceId"], eni["privateIpAddress"]
	if c.text("PrivateIpAddress") != "" {
		address["privateIpAddress"] = c.text("PrivateIpAddress")
	}
	delete(address, "instanceId")
	if instance := strings.Join(eni.at("attachment.instanceId"), ""); instance != "" {
		address["instanceId"] = instance
	}
	c.put(addresses, address.text("allocationId"), address)
	return item{"associationId": address["associationId"]}
}

// addressed is the interface that an address is to be associated with; nil if the call is refused.
func (c *ec2Call) addressed() item {
	if id := c.text("NetworkInterfaceId"); id != "" {
		if eni := c.get(interfaces, id); eni != nil {
			return eni
		}
		return c.refuse("InvalidNetworkInterfaceID.NotFound")
	}
	if c.missing("InstanceId") {
		return nil
	}
	for _, eni := range c.all(interfaces) {
		if slices.Contains(eni.at("attachment.instanceId"), c.text("InstanceId")) {
			return eni
		}
	}
	return c.refuse("InvalidInstanceID.NotFound")
}

func disassociateAddress(c *ec2Call) item {
	for _, address := range c.all(addresses) {
		if address.text("associationId") == c.text("AssociationId") {
			for _, name := range []string{"associationId", "networkInterfaceId", "instanceId", "privateIpAddress"} {
				delete(address, name)
			}
			c.put(addresses, address.text("allocationId"), address)
			return item{}
		}
	}
	return c.refuse("InvalidAssociationID.NotFound")
}

func describeAddresses(c *ec2Call) item {
	answer := c.describe(described{
		kind: addresses, id: "allocationId", ids: "AllocationId", set: "addressesSet",
		missing: "InvalidAllocationID.NotFound",
		filters: map[string]string{
			"allocation-id": "allocationId", "public-ip": "publicIp", "instance-id": "instanceId",
			"association-id": "associationId", "domain": "domain",
		},
	})
	if answer == nil || len(c.list("PublicIp")) == 0 {
		return answer
	}
	found := slices.DeleteFunc(answer.items("addressesSet"), func(a item) bool { return !c.among("PublicIp", a.text("publicIp")) })
	return item{"addressesSet": listOf(found)}
}

func describeAddressesAttribute(c *ec2Call) item {
	var found []item
	for _, address := range c.all(addresses) {
		if c.among("AllocationId", address.text("allocationId")) {
			found = append(found, item{"allocationId": address["allocationId"], "publicIp": address["publicIp"]})
		}
	}
	return item{"addressSet": listOf(found)}
}
