package simhive

import "slices"

// routeActions are those about route tables, which spx has (spinifex/handlers/ec2/routetable/service_impl.go).
//
//	CreateRouteTable    :209 tags are dropped: its tagSet is never there
//	DeleteRouteTable    :231 DependencyViolation for a main one, or with an association
//	DescribeRouteTables :276
//	CreateRoute         :344 to a DestinationCidrBlock as it is written, by GatewayId, which must be of the VPC
//	                    (InvalidParameterValue), or NatGatewayId; any other target is InvalidParameterValue
//	ReplaceRoute        :481 by GatewayId only; DeleteRoute :437
//	AssociateRouteTable :546 a subnet of the VPC; Resource.AlreadyAssociated; no gateway
//	ReplaceRouteTableAssociation :677 a new id; to the table that it is of already, the old one remains beside it (:689
//	                    reads the table before :739 writes it), and that table is not to be deleted any more
func routeActions() map[string]ec2Action {
	return map[string]ec2Action{
		"CreateRouteTable": createRouteTable, "DeleteRouteTable": deleteRouteTable, "DescribeRouteTables": describeRouteTables,
		"CreateRoute": createRoute, "DeleteRoute": deleteRoute, "ReplaceRoute": replaceRoute,
		"AssociateRouteTable": associateRouteTable, "DisassociateRouteTable": disassociateRouteTable,
		"ReplaceRouteTableAssociation": replaceAssociation,
		"CreateNatGateway":             stub, "DeleteNatGateway": stub, "DescribeNatGateways": nothing,
	}
}

// newRouteTable makes the table of a VPC.
func (c *ec2Call) newRouteTable(vpc item, main bool) item {
	table := item{
		"routeTableId": newID("rtb"), "vpcId": vpc["vpcId"], "ownerId": c.account,
		"routeSet": []any{item{
			"destinationCidrBlock": vpc["cidrBlock"], "gatewayId": "local", "state": "active", "origin": "CreateRouteTable",
		}},
	}
	if main {
		table["associationSet"] = []any{association(table, "", true)}
	}
	c.keepTable(table)
	return table
}

func (c *ec2Call) keepTable(table item) {
	if len(table.items("associationSet")) == 0 {
		delete(table, "associationSet")
	}
	c.put(routeTables, table.text("routeTableId"), table)
}

func association(table item, subnet string, main bool) item {
	a := item{
		"routeTableAssociationId": newID("rtbassoc"), "routeTableId": table["routeTableId"], "main": main,
		"associationState": item{"state": "associated"},
	}
	if subnet != "" {
		a["subnetId"] = subnet
	}
	return a
}

func isMain(table item) bool { return slices.Contains(table.at("associationSet.main"), "true") }

// askedTable is the table that a call names; nil if it is refused.
func (c *ec2Call) askedTable() item {
	table := c.get(routeTables, c.text("RouteTableId"))
	if table == nil {
		return c.refuse("InvalidRouteTableID.NotFound")
	}
	return table
}

func createRouteTable(c *ec2Call) item {
	if c.missing("VpcId") {
		return nil
	}
	vpc := c.get(vpcs, c.text("VpcId"))
	if vpc == nil {
		return c.refuse("InvalidVpcID.NotFound")
	}
	return item{"routeTable": c.newRouteTable(vpc, false)}
}

func deleteRouteTable(c *ec2Call) item {
	if c.missing("RouteTableId") {
		return nil
	}
	table := c.askedTable()
	switch {
	case table == nil:
		return nil
	case len(table.items("associationSet")) > 0:
		return c.refuse("DependencyViolation")
	}
	c.drop(routeTables, table.text("routeTableId"))
	return item{}
}

func describeRouteTables(c *ec2Call) item {
	return c.describe(described{
		kind: routeTables, id: "routeTableId", ids: "RouteTableId", set: "routeTableSet",
		missing: "InvalidRouteTableID.NotFound",
		filters: map[string]string{
			"vpc-id": "vpcId", "route-table-id": "routeTableId", "association.main": "associationSet.main",
			"association.route-table-association-id": "associationSet.routeTableAssociationId",
			"association.subnet-id":                  "associationSet.subnetId",
			"route.destination-cidr-block":           "routeSet.destinationCidrBlock",
			"route.gateway-id":                       "routeSet.gatewayId", "route.nat-gateway-id": "routeSet.natGatewayId",
			"route.state": "routeSet.state", "route.origin": "routeSet.origin", "owner-id": "ownerId",
		},
	})
}

// target is the internet gateway that a route is to go to; empty if it is refused.
func (c *ec2Call) target(table item) string {
	if c.text("GatewayId") == "" {
		if c.text("NatGatewayId") != "" && c.action == "CreateRoute" {
			c.refuse("InvalidNatGatewayID.NotFound")
		}
		c.refuse("InvalidParameterValue")
		return ""
	}
	igw := c.get(gateways, c.text("GatewayId"))
	switch {
	case igw == nil:
		c.refuse("InvalidInternetGatewayID.NotFound")
		return ""
	case igwVPC(igw) != table.text("vpcId"):
		c.refuse("InvalidParameterValue")
		return ""
	}
	return igw.text("internetGatewayId")
}

// route is the table that a call names with its routes, and the place of the one that is named, -1 if there is none;
// nil if the call is refused.
func (c *ec2Call) route() (table item, routes []item, at int) {
	if c.missing("RouteTableId", "DestinationCidrBlock") {
		return nil, nil, 0
	}
	if table = c.askedTable(); table == nil {
		return nil, nil, 0
	}
	routes = table.items("routeSet")
	return table, routes, slices.IndexFunc(routes, func(r item) bool {
		return r.text("destinationCidrBlock") == c.text("DestinationCidrBlock")
	})
}

func createRoute(c *ec2Call) item {
	table, routes, at := c.route()
	if table == nil {
		return nil
	}
	if at >= 0 {
		return c.refuse("RouteAlreadyExists")
	}
	gateway := c.target(table)
	if gateway == "" {
		return nil
	}
	table["routeSet"] = present(append(routes, item{
		"destinationCidrBlock": c.text("DestinationCidrBlock"), "gatewayId": gateway, "state": "active",
		"origin": "CreateRoute",
	}))
	c.keepTable(table)
	return item{"return": true}
}

// changedRoute is like route, and refuses the call if there is no such route or it is the local one.
func (c *ec2Call) changedRoute() (table item, routes []item, at int) {
	table, routes, at = c.route()
	switch {
	case table == nil:
		return nil, nil, 0
	case at < 0:
		c.refuse("InvalidRoute.NotFound")
		return nil, nil, 0
	case routes[at].text("gatewayId") == "local":
		c.refuse("InvalidParameterValue")
		return nil, nil, 0
	}
	return table, routes, at
}

func deleteRoute(c *ec2Call) item {
	table, routes, at := c.changedRoute()
	if table == nil {
		return nil
	}
	table["routeSet"] = present(slices.Delete(routes, at, at+1))
	c.keepTable(table)
	return item{}
}

func replaceRoute(c *ec2Call) item {
	table, routes, at := c.changedRoute()
	if table == nil {
		return nil
	}
	gateway := c.target(table)
	if gateway == "" {
		return nil
	}
	routes[at]["gatewayId"] = gateway
	table["routeSet"] = present(routes)
	c.keepTable(table)
	return item{}
}

func associateRouteTable(c *ec2Call) item {
	if c.missing("RouteTableId", "SubnetId") {
		return nil
	}
	table := c.askedTable()
	if table == nil {
		return nil
	}
	subnet := c.get(subnets, c.text("SubnetId"))
	switch {
	case subnet == nil:
		return c.refuse("InvalidSubnetID.NotFound")
	case subnet.text("vpcId") != table.text("vpcId"):
		return c.refuse("InvalidParameterValue")
	}
	for _, other := range c.all(routeTables) {
		if slices.Contains(other.at("associationSet.subnetId"), c.text("SubnetId")) {
			return c.refuse("Resource.AlreadyAssociated")
		}
	}
	made := association(table, c.text("SubnetId"), false)
	table["associationSet"] = present(append(table.items("associationSet"), made))
	c.keepTable(table)
	return item{"associationId": made["routeTableAssociationId"], "associationState": item{"state": "associated"}}
}

// associated takes an association out of its table, without keeping that; nil if there is none.
func (c *ec2Call) associated(id string) (table, taken item) {
	for _, table := range c.all(routeTables) {
		all := table.items("associationSet")
		for n, one := range all {
			if one.text("routeTableAssociationId") == id {
				table["associationSet"] = present(slices.Delete(all, n, n+1))
				return table, one
			}
		}
	}
	c.refuse("InvalidAssociationID.NotFound")
	return nil, nil
}

func disassociateRouteTable(c *ec2Call) item {
	if c.missing("AssociationId") {
		return nil
	}
	table, taken := c.associated(c.text("AssociationId"))
	switch {
	case table == nil:
		return nil
	case taken.flag("main"):
		return c.refuse("InvalidParameterValue")
	}
	c.keepTable(table)
	return item{}
}

func replaceAssociation(c *ec2Call) item {
	if c.missing("AssociationId", "RouteTableId") {
		return nil
	}
	table := c.askedTable()
	if table == nil {
		return nil
	}
	old, taken := c.associated(c.text("AssociationId"))
	if old == nil {
		return nil
	}
	c.keepTable(old)
	made := association(table, taken.text("subnetId"), taken.flag("main"))
	table["associationSet"] = present(append(table.items("associationSet"), made))
	c.keepTable(table)
	return item{"newAssociationId": made["routeTableAssociationId"], "associationState": item{"state": "associated"}}
}

// makeDefaultNetwork gives the default VPC what spx gives it.
func (c *ec2Call) makeDefaultNetwork(vpc item) {
	id := vpc.text("vpcId")
	igw := item{"internetGatewayId": fixedID("igw", c.account)}
	c.attach(igw, id)
	for _, table := range c.all(routeTables) {
		if table.text("vpcId") == id && isMain(table) {
			table["routeSet"] = present(append(table.items("routeSet"), item{
				"destinationCidrBlock": "0.0.0.0/0", "gatewayId": igw["internetGatewayId"], "state": "active",
				"origin": "CreateRoute",
			}))
			c.keepTable(table)
		}
	}
	group := c.newGroup(fixedID("sg", c.account), "default", "default VPC security group", id)
	group["_ingress"] = []any{item{"protocol": "-1", "from": 0, "to": 0, "cidr": "", "group": group["groupId"]}}
	c.put(groups, group.text("groupId"), group)
}
