package simhive

// gatewayActions are those about internet gateways (handlers/ec2/igw/service_impl.go) and egress-only ones
// (handlers/ec2/eigw/service_impl.go).
//
//	CreateInternetGateway    :72
//	AttachInternetGateway    :200 Resource.AlreadyAssociated if it is attached, to whatever; the state of the attachment is
//	                         "attached" in pre, "available" in spx; a VPC may have several
//	DetachInternetGateway    :266 Gateway.NotAttached if it is not attached to that VPC
//	DeleteInternetGateway    :108 DependencyViolation while it is attached
//	DescribeInternetGateways :141 pre honours no filter
//	CreateEgressOnlyInternetGateway    :69
//	DescribeEgressOnlyInternetGateways :147 an id that there is not is no error
func gatewayActions(Era) map[string]ec2Action {
	return map[string]ec2Action{
		"CreateInternetGateway": createIGW, "DeleteInternetGateway": deleteIGW, "DescribeInternetGateways": describeIGWs,
		"AttachInternetGateway": attachIGW, "DetachInternetGateway": detachIGW,
		"CreateEgressOnlyInternetGateway": createEIGW, "DeleteEgressOnlyInternetGateway": deleteEIGW,
		"DescribeEgressOnlyInternetGateways": describeEIGWs,
	}
}

func createIGW(c *ec2Call) item {
	igw := item{"internetGatewayId": newID("igw"), "tagSet": c.tags("internet-gateway")}
	c.put(gateways, igw.text("internetGatewayId"), igw)
	return item{"internetGateway": igw}
}

// askedIGW is the gateway that a call names; nil if it is refused.
func (c *ec2Call) askedIGW() item {
	igw := c.get(gateways, c.text("InternetGatewayId"))
	if igw == nil {
		return c.refuse("InvalidInternetGatewayID.NotFound")
	}
	return igw
}

// igwVPC is the VPC that a gateway is attached to.
func igwVPC(igw item) string {
	if attachments := igw.items("attachmentSet"); len(attachments) > 0 {
		return attachments[0].text("vpcId")
	}
	return ""
}

func (c *ec2Call) attach(igw item, vpc string) {
	state := "attached"
	if c.spx() {
		state = "available"
	}
	igw["attachmentSet"] = []any{item{"vpcId": vpc, "state": state}}
	c.put(gateways, igw.text("internetGatewayId"), igw)
}

func attachIGW(c *ec2Call) item {
	if c.missing("InternetGatewayId", "VpcId") {
		return nil
	}
	igw := c.askedIGW()
	switch {
	case igw == nil:
		return nil
	case igwVPC(igw) != "":
		return c.refuse("Resource.AlreadyAssociated")
	case c.get(vpcs, c.text("VpcId")) == nil:
		return c.refuse("InvalidVpcID.NotFound")
	}
	c.attach(igw, c.text("VpcId"))
	return item{}
}

func detachIGW(c *ec2Call) item {
	if c.missing("InternetGatewayId", "VpcId") {
		return nil
	}
	igw := c.askedIGW()
	switch {
	case igw == nil:
		return nil
	case igwVPC(igw) != c.text("VpcId"):
		return c.refuse("Gateway.NotAttached")
	}
	delete(igw, "attachmentSet")
	c.put(gateways, igw.text("internetGatewayId"), igw)
	return item{}
}

func deleteIGW(c *ec2Call) item {
	if c.missing("InternetGatewayId") {
		return nil
	}
	igw := c.askedIGW()
	switch {
	case igw == nil:
		return nil
	case igwVPC(igw) != "":
		return c.refuse("DependencyViolation")
	}
	c.drop(gateways, igw.text("internetGatewayId"))
	return item{}
}

func describeIGWs(c *ec2Call) item {
	return c.describe(described{
		kind: gateways, id: "internetGatewayId", ids: "InternetGatewayId", set: "internetGatewaySet",
		missing: "InvalidInternetGatewayID.NotFound",
		filters: map[string]string{
			"internet-gateway-id": "internetGatewayId", "attachment.vpc-id": "attachmentSet.vpcId",
			"attachment.state": "attachmentSet.state",
		},
	})
}

func createEIGW(c *ec2Call) item {
	if c.missing("VpcId") {
		return nil
	}
	if c.get(vpcs, c.text("VpcId")) == nil {
		return c.refuse("InvalidVpcID.NotFound")
	}
	eigw := item{
		"egressOnlyInternetGatewayId": newID("eigw"), "tagSet": c.tags("egress-only-internet-gateway"),
		"attachmentSet": []any{item{"vpcId": c.text("VpcId"), "state": "attached"}},
	}
	c.put(egressOnly, eigw.text("egressOnlyInternetGatewayId"), eigw)
	return item{"egressOnlyInternetGateway": eigw}
}

func deleteEIGW(c *ec2Call) item {
	if c.missing("EgressOnlyInternetGatewayId") {
		return nil
	}
	if c.get(egressOnly, c.text("EgressOnlyInternetGatewayId")) == nil {
		return c.refuse("InvalidEgressOnlyInternetGatewayId.NotFound")
	}
	c.drop(egressOnly, c.text("EgressOnlyInternetGatewayId"))
	return item{"returnCode": true}
}

func describeEIGWs(c *ec2Call) item {
	return c.describe(described{
		kind: egressOnly, id: "egressOnlyInternetGatewayId", ids: "EgressOnlyInternetGatewayId",
		set:     "egressOnlyInternetGatewaySet",
		filters: map[string]string{"egress-only-internet-gateway-id": "egressOnlyInternetGatewayId"},
	})
}
