package ec2_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"hive-test/pkg/gateway/wire"
)

// table makes a route table and returns its id.
func (a *account) table(vpc string) string {
	a.t.Helper()
	return a.must("CreateRouteTable", wire.Object{"VpcId": vpc}).Object("RouteTable").Text("RouteTableId")
}

// tables are the route tables that a filter lets through.
func (a *account) tables(filter, value string) []wire.Object {
	a.t.Helper()
	return a.must("DescribeRouteTables", with(filter, value)).Objects("RouteTables")
}

// main returns the VPC's main table, and the association that makes it so.
func (a *account) main(vpc string) (table, association string) {
	a.t.Helper()
	found := a.must("DescribeRouteTables", wire.Object{"Filters": wire.List(
		wire.Object{"Name": "association.main", "Values": wire.Strings("true")},
		wire.Object{"Name": "vpc-id", "Values": wire.Strings(vpc)},
	)}).Objects("RouteTables")
	if len(found) != 1 {
		a.t.Fatalf("main tables: %v", found)
	}
	for _, o := range found[0].Objects("Associations") {
		if o.Bool("Main") {
			association = o.Text("RouteTableAssociationId")
		}
	}
	return found[0].Text("RouteTableId"), association
}

// routes are those of a table, as destination, target and state.
func (a *account) routes(table string) []string {
	a.t.Helper()
	var lines []string
	for _, r := range a.tables("route-table-id", table)[0].Objects("Routes") {
		lines = append(lines, fmt.Sprintf("%s %s %s",
			r.Text("DestinationCidrBlock")+r.Text("DestinationIpv6CidrBlock")+r.Text("DestinationPrefixListId"),
			r.Text("GatewayId")+r.Text("EgressOnlyInternetGatewayId")+r.Text("InstanceId")+r.Text("NetworkInterfaceId"),
			r.Text("State")))
	}
	return lines
}

func (a *account) wantRoutes(table string, want ...string) {
	a.t.Helper()
	if got := a.routes(table); !slices.Equal(got, want) {
		a.t.Errorf("routes:\n%q, want\n%q", got, want)
	}
}

func TestRouteTables(t *testing.T) {
	a := newAccount(t, 0)
	vpc := a.vpc("10.0.0.0/16")
	in := wire.Object{"VpcId": vpc, "ClientToken": "token", "TagSpecifications": wire.List(wire.Object{
		"ResourceType": "route-table", "Tags": wire.List(wire.Object{"Key": "Name", "Value": "one"}),
	})}
	id := a.must("CreateRouteTable", in).Object("RouteTable").Text("RouteTableId")
	if again := a.must("CreateRouteTable", in).Object("RouteTable").Text("RouteTableId"); again != id {
		t.Errorf("made %s, and with the same token %s", id, again)
	}
	a.refused("IdempotentParameterMismatch", "CreateRouteTable", wire.Object{"VpcId": vpc, "ClientToken": "token"})
	a.refused("InvalidVpcID.NotFound", "CreateRouteTable", wire.Object{"VpcId": "vpc-1"})
	a.refused("MissingParameter", "CreateRouteTable", wire.Object{})
	a.wantRoutes(id, "10.0.0.0/16 local active")
	a.found("DescribeRouteTables", "RouteTables", map[string]string{
		"route-table-id": id, "tag:Name": "one", "tag-key": "Name", "association.main": "true",
	}, 1)
	a.found("DescribeRouteTables", "RouteTables", map[string]string{
		"vpc-id": vpc, "owner-id": a.Account, "route.destination-cidr-block": "10.0.0.0/16", "route.gateway-id": "local",
		"route.origin": "CreateRouteTable", "route.state": "active",
	}, 2)
	main, _ := a.main(vpc)
	a.refused("DependencyViolation", "DeleteRouteTable", wire.Object{"RouteTableId": main})
	a.pass(time.Minute) // the note that the main table was made with is not new any more
	a.refused("DependencyViolation", "DeleteRouteTable", wire.Object{"RouteTableId": main})
	a.refused("DependencyViolation", "DeleteVpc", wire.Object{"VpcId": vpc})
	a.must("DeleteRouteTable", wire.Object{"RouteTableId": id})
	a.refused("InvalidRouteTableID.NotFound", "DeleteRouteTable", wire.Object{"RouteTableId": id})
	a.refused("InvalidRouteTableID.NotFound", "DescribeRouteTables", wire.Object{"RouteTableIds": wire.Strings(id)})
	a.must("DeleteVpc", wire.Object{"VpcId": vpc})
	a.refused("InvalidRouteTableID.NotFound", "DescribeRouteTables", wire.Object{"RouteTableIds": wire.Strings(main)})
}

func TestRoutes(t *testing.T) {
	a := newAccount(t, 0)
	vpc, other := a.vpc("10.0.0.0/16"), a.vpc("10.1.0.0/16")
	id, igw := a.table(vpc), a.gateway(vpc)
	eigw := a.must("CreateEgressOnlyInternetGateway", wire.Object{"VpcId": vpc}).
		Object("EgressOnlyInternetGateway").Text("EgressOnlyInternetGatewayId")
	a.eni("eni-00000001", vpc, "i-00000001", "10.0.0.4")
	a.eni("eni-00000002", vpc, "", "10.0.0.5")
	a.eni("eni-00000003", other, "", "10.1.0.4")
	a.eni("eni-00000004", vpc, "i-00000004", "10.0.0.6")
	a.eni("eni-00000005", vpc, "i-00000004", "10.0.0.7")
	route := func(more ...any) wire.Object {
		in := wire.Object{"RouteTableId": id}
		for i := 0; i < len(more); i += 2 {
			in[more[i].(string)] = more[i+1]
		}
		return in
	}
	v4, v6, list := "DestinationCidrBlock", "DestinationIpv6CidrBlock", "DestinationPrefixListId"
	a.must("CreateRoute", route(v4, "0.0.0.0/0", "GatewayId", igw))
	a.must("CreateRoute", route(v4, "10.2.3.4/16", "InstanceId", "i-00000001"))
	a.must("CreateRoute", route(v4, "10.3.0.0/16", "NetworkInterfaceId", "eni-00000002"))
	a.must("CreateRoute", route(v4, "10.0.1.0/24", "NetworkInterfaceId", "eni-00000001"))
	a.must("CreateRoute", route(v6, "2001:DB8::1/32", "EgressOnlyInternetGatewayId", eigw))
	a.must("CreateRoute", route(list, "pl-0123abcd", "GatewayId", igw))
	a.wantRoutes(id,
		"10.0.0.0/16 local active", "0.0.0.0/0 "+igw+" active", "10.2.0.0/16 i-00000001eni-00000001 active",
		"10.3.0.0/16 eni-00000002 blackhole", "10.0.1.0/24 i-00000001eni-00000001 active", "2001:db8::/32 "+eigw+" active",
		"pl-0123abcd "+igw+" active")
	a.found("DescribeRouteTables", "RouteTables", map[string]string{
		"route.destination-ipv6-cidr-block": "2001:db8::/32", "route.destination-prefix-list-id": "pl-0123abcd",
		"route.egress-only-internet-gateway-id": eigw, "route.instance-id": "i-00000001", "route.state": "blackhole",
		"route.gateway-id": igw, "route.origin": "CreateRoute",
	}, 1)

	for _, c := range []struct {
		code, action string
		in           wire.Object
	}{
		{"RouteAlreadyExists", "CreateRoute", route(v4, "0.0.0.0/0", "NetworkInterfaceId", "eni-00000002")},
		{"RouteAlreadyExists", "CreateRoute", route(v4, "10.0.0.0/16", "GatewayId", igw)},
		{"RouteAlreadyExists", "CreateRoute", route(v6, "2001:db8::/32", "GatewayId", igw)},
		{"RouteAlreadyExists", "CreateRoute", route(list, "pl-0123abcd", "GatewayId", igw)},
		{"InvalidParameterValue", "CreateRoute", route(v4, "10.0.2.0/24", "GatewayId", igw)},
		{"InvalidParameterValue", "CreateRoute", route(v4, "ten", "GatewayId", igw)},
		{"InvalidParameterValue", "CreateRoute", route(v4, "2001:db8::/32", "GatewayId", igw)},
		{"InvalidParameterValue", "CreateRoute", route(v6, "10.9.0.0/16", "GatewayId", igw)},
		{"InvalidPrefixListId.Malformed", "CreateRoute", route(list, "list", "GatewayId", igw)},
		{"InvalidParameterValue", "CreateRoute", route(v4, "10.9.0.0/16", "EgressOnlyInternetGatewayId", eigw)},
		{"InvalidParameterValue", "CreateRoute", route(v4, "10.9.0.0/16", "GatewayId", a.gateway(""))},
		{"InvalidParameterValue", "CreateRoute", route(v4, "10.9.0.0/16", "GatewayId", a.gateway(other))},
		{"InvalidParameterValue", "CreateRoute", route(v4, "10.9.0.0/16", "NetworkInterfaceId", "eni-00000003")},
		{"InvalidInstanceID", "CreateRoute", route(v4, "10.9.0.0/16", "InstanceId", "i-00000004")},
		{"InvalidGatewayID.NotFound", "CreateRoute", route(v4, "10.9.0.0/16", "GatewayId", "igw-1")},
		{"InvalidGatewayID.NotFound", "CreateRoute", route(v4, "10.9.0.0/16", "GatewayId", "local")},
		{"InvalidGatewayID.NotFound", "CreateRoute", route(v6, "::/0", "EgressOnlyInternetGatewayId", "eigw-1")},
		{"InvalidInstanceID.NotFound", "CreateRoute", route(v4, "10.9.0.0/16", "InstanceId", "i-00000009")},
		{"InvalidNetworkInterfaceID.NotFound", "CreateRoute", route(v4, "10.9.0.0/16", "NetworkInterfaceId", "eni-00000009")},
		{"InvalidNatGatewayID.NotFound", "CreateRoute", route(v4, "10.9.0.0/16", "NatGatewayId", "nat-1")},
		{"InvalidTransitGatewayID.NotFound", "CreateRoute", route(v4, "10.9.0.0/16", "TransitGatewayId", "tgw-1")},
		{"InvalidVpcEndpointId.NotFound", "CreateRoute", route(v4, "10.9.0.0/16", "VpcEndpointId", "vpce-1")},
		{
			"InvalidVpcPeeringConnectionID.NotFound", "CreateRoute",
			route(v4, "10.9.0.0/16", "VpcPeeringConnectionId", "pcx-1"),
		},
		{"MissingParameter", "CreateRoute", route(v4, "10.9.0.0/16")},
		{"MissingParameter", "CreateRoute", route("GatewayId", igw)},
		{"MissingParameter", "CreateRoute", wire.Object{v4: "10.9.0.0/16", "GatewayId": igw}},
		{"InvalidParameterCombination", "CreateRoute", route(v4, "10.9.0.0/16", v6, "::/0", "GatewayId", igw)},
		{
			"InvalidParameterCombination", "CreateRoute",
			route(v4, "10.9.0.0/16", "GatewayId", igw, "NetworkInterfaceId", "eni-00000001"),
		},
		{
			"InvalidRouteTableID.NotFound", "CreateRoute",
			wire.Object{"RouteTableId": "rtb-1", v4: "0.0.0.0/0", "GatewayId": igw},
		},
		{"InvalidParameterValue", "ReplaceRoute", route(v4, "10.9.0.0/16", "GatewayId", igw)},
		{"InvalidParameterValue", "ReplaceRoute", route(v4, "10.0.0.0/16", "GatewayId", igw)},
		{"InvalidParameterValue", "ReplaceRoute", route(v4, "0.0.0.0/0", "LocalTarget", true)},
		{"InvalidGatewayID.NotFound", "ReplaceRoute", route(v4, "0.0.0.0/0", "GatewayId", "igw-1")},
		{"InvalidParameterValue", "DeleteRoute", route(v4, "10.0.0.0/16")},
		{"InvalidRoute.NotFound", "DeleteRoute", route(v4, "10.9.0.0/16")},
		{"InvalidRoute.NotFound", "DeleteRoute", route(v6, "::/0")},
		{"InvalidRoute.NotFound", "DeleteRoute", route(list, "pl-1")},
		{"MissingParameter", "DeleteRoute", route()},
		{"InvalidRouteTableID.NotFound", "DeleteRoute", wire.Object{"RouteTableId": "rtb-1", v4: "0.0.0.0/0"}},
	} {
		a.refused(c.code, c.action, c.in)
	}

	a.must("ReplaceRoute", route(v4, "0.0.0.0/0", "NetworkInterfaceId", "eni-00000001"))
	a.must("ReplaceRoute", route(v4, "10.0.0.0/16", "NetworkInterfaceId", "eni-00000001"))
	a.must("DeleteRoute", route(v4, "10.2.0.1/16"))
	a.must("DeleteRoute", route(v4, "10.3.0.0/16"))
	a.must("DeleteRoute", route(v4, "10.0.1.0/24"))
	a.must("DeleteEgressOnlyInternetGateway", wire.Object{"EgressOnlyInternetGatewayId": eigw})
	a.must("DetachInternetGateway", wire.Object{"InternetGatewayId": igw, "VpcId": vpc})
	a.wantRoutes(id, "10.0.0.0/16 i-00000001eni-00000001 active", "0.0.0.0/0 i-00000001eni-00000001 active", "2001:db8::/32 "+eigw+" blackhole",
		"pl-0123abcd "+igw+" blackhole")
	a.must("ReplaceRoute", route(v4, "10.0.0.0/16", "LocalTarget", true))
	a.must("DeleteRoute", route(list, "pl-0123abcd"))
	a.must("DeleteRoute", route(v6, "2001:db8::/32"))
	a.wantRoutes(id, "10.0.0.0/16 local active", "0.0.0.0/0 i-00000001eni-00000001 active")
	a.refused("InvalidRoute.NotFound", "DeleteRoute", route(list, "pl-0123abcd"))
}

// Of routes to one destination that are made at once, one is; those to others are all there.
func TestRoutesAtOnce(t *testing.T) {
	a := newAccount(t, 0)
	vpc := a.vpc("10.0.0.0/16")
	id, igw := a.table(vpc), a.gateway(vpc)
	if n := atOnce(40, func(i int) error {
		_, err := a.try("CreateRoute", wire.Object{
			"RouteTableId": id, "GatewayId": igw, "DestinationCidrBlock": fmt.Sprintf("11.%d.0.0/16", i%20),
		})
		return err
	}); n != 20 || len(a.routes(id)) != 21 {
		t.Errorf("%d were made, and there are %d", n, len(a.routes(id)))
	}
}

func TestAssociations(t *testing.T) {
	a := newAccount(t, time.Second)
	vpc, other := a.vpc("10.0.0.0/16"), a.vpc("10.1.0.0/16")
	subnet, far, igw := a.subnet(vpc, "10.0.1.0/24"), a.subnet(other, "10.1.1.0/24"), a.gateway(vpc)
	one, two, distant := a.table(vpc), a.table(vpc), a.table(other)
	made := a.must("AssociateRouteTable", wire.Object{"RouteTableId": one, "SubnetId": subnet})
	id := made.Text("AssociationId")
	by := "association.route-table-association-id"
	state := func() string {
		found := a.tables(by, id)
		if len(found) != 1 || len(found[0].Objects("Associations")) != 1 {
			t.Fatalf("associated: %v", found)
		}
		return found[0].Objects("Associations")[0].Object("AssociationState").Text("State")
	}
	if first := made.Object("AssociationState").Text("State"); first != "associating" || state() != first {
		t.Errorf("at first the association is %s and %s", first, state())
	}
	a.pass(time.Second)
	if state() != "associated" {
		t.Errorf("then the association is %s", state())
	}
	edge := a.must("AssociateRouteTable", wire.Object{"RouteTableId": two, "GatewayId": igw}).Text("AssociationId")
	a.found("DescribeRouteTables", "RouteTables", map[string]string{
		"association.subnet-id": subnet, "association.route-table-id": one, "association.gateway-id": igw,
		by: edge,
	}, 1)
	mainTable, main := a.main(vpc)

	for _, c := range []struct {
		code, action string
		in           wire.Object
	}{
		{"Resource.AlreadyAssociated", "AssociateRouteTable", wire.Object{"RouteTableId": two, "SubnetId": subnet}},
		{"Resource.AlreadyAssociated", "AssociateRouteTable", wire.Object{"RouteTableId": one, "GatewayId": igw}},
		{"InvalidParameterValue", "AssociateRouteTable", wire.Object{"RouteTableId": one, "SubnetId": far}},
		{"InvalidParameterValue", "AssociateRouteTable", wire.Object{"RouteTableId": one, "GatewayId": a.gateway("")}},
		{"InvalidSubnetID.NotFound", "AssociateRouteTable", wire.Object{"RouteTableId": one, "SubnetId": "subnet-1"}},
		{"InvalidGatewayID.NotFound", "AssociateRouteTable", wire.Object{"RouteTableId": one, "GatewayId": "igw-1"}},
		{"InvalidRouteTableID.NotFound", "AssociateRouteTable", wire.Object{"RouteTableId": "rtb-1", "SubnetId": subnet}},
		{"InvalidParameterCombination", "AssociateRouteTable", wire.Object{"RouteTableId": one}},
		{"MissingParameter", "AssociateRouteTable", wire.Object{"SubnetId": subnet}},
		{"InvalidAssociationID.NotFound", "DisassociateRouteTable", wire.Object{"AssociationId": "rtbassoc-1"}},
		{"InvalidParameterValue", "DisassociateRouteTable", wire.Object{"AssociationId": main}},
		{"MissingParameter", "DisassociateRouteTable", wire.Object{}},
		{
			"InvalidAssociationID.NotFound", "ReplaceRouteTableAssociation",
			wire.Object{"AssociationId": "rtbassoc-1", "RouteTableId": two},
		},
		{
			"InvalidRouteTableID.NotFound", "ReplaceRouteTableAssociation",
			wire.Object{"AssociationId": id, "RouteTableId": "rtb-1"},
		},
		{
			"InvalidParameterValue", "ReplaceRouteTableAssociation",
			wire.Object{"AssociationId": main, "RouteTableId": distant},
		},
		{"DependencyViolation", "DeleteRouteTable", wire.Object{"RouteTableId": one}},
		{"DependencyViolation", "DeleteRouteTable", wire.Object{"RouteTableId": two}},
	} {
		a.refused(c.code, c.action, c.in)
	}

	next := a.must("ReplaceRouteTableAssociation", wire.Object{"AssociationId": id, "RouteTableId": mainTable}).
		Text("NewAssociationId")
	a.refused("InvalidAssociationID.NotFound", "DisassociateRouteTable", wire.Object{"AssociationId": id})
	if found := a.tables("association.subnet-id", subnet); next == id || len(found) != 1 ||
		found[0].Text("RouteTableId") != mainTable || len(a.tables(by, id)) != 0 {
		t.Errorf("after %s was replaced by %s: %v", id, next, found)
	}
	a.must("DeleteRouteTable", wire.Object{"RouteTableId": one})
	a.must("DisassociateRouteTable", wire.Object{"AssociationId": next})
	a.refused("InvalidAssociationID.NotFound", "DisassociateRouteTable", wire.Object{"AssociationId": next})
	a.must("DetachInternetGateway", wire.Object{"InternetGatewayId": igw, "VpcId": vpc})
	a.refused("InvalidAssociationID.NotFound", "DisassociateRouteTable", wire.Object{"AssociationId": edge})
	a.must("AssociateRouteTable", wire.Object{"RouteTableId": two, "SubnetId": subnet})
	a.must("DeleteSubnet", wire.Object{"SubnetId": subnet})
	if left := a.tables("association.subnet-id", subnet); len(left) != 0 {
		t.Errorf("of a subnet that is deleted: %v", left)
	}
	a.must("DeleteRouteTable", wire.Object{"RouteTableId": two})
	a.must("DeleteVpc", wire.Object{"VpcId": vpc})
}

// Another table is the main one, is so no more, and with which a VPC goes.
func TestMainTable(t *testing.T) {
	a := newAccount(t, 0)
	vpc := a.vpc("10.0.0.0/16")
	first, association := a.main(vpc)
	second := a.table(vpc)
	next := a.must("ReplaceRouteTableAssociation", wire.Object{"AssociationId": association, "RouteTableId": second}).
		Text("NewAssociationId")
	if table, found := a.main(vpc); table != second || found != next || next == association {
		t.Errorf("the main table is %s by %s, want %s by %s", table, found, second, next)
	}
	a.refused("DependencyViolation", "DeleteRouteTable", wire.Object{"RouteTableId": second})
	a.refused("DependencyViolation", "DeleteVpc", wire.Object{"VpcId": vpc})
	back := a.must("ReplaceRouteTableAssociation", wire.Object{"AssociationId": next, "RouteTableId": first}).
		Text("NewAssociationId")
	a.must("DeleteRouteTable", wire.Object{"RouteTableId": second})
	third := a.table(vpc)
	a.must("ReplaceRouteTableAssociation", wire.Object{"AssociationId": back, "RouteTableId": third})
	a.must("DeleteRouteTable", wire.Object{"RouteTableId": first})
	a.must("DeleteVpc", wire.Object{"VpcId": vpc})
	if n := a.count("DescribeRouteTables", "RouteTables", wire.Object{}); n != 0 {
		t.Errorf("%d tables are left", n)
	}
	a.refused("InvalidRouteTableID.NotFound", "DescribeRouteTables", wire.Object{"RouteTableIds": wire.Strings(third)})
}

// Of tables that one subnet is associated with at once, and of those that its association is replaced by, one wins; and
// a table that is being deleted is not associated.
func TestAssociateAtOnce(t *testing.T) {
	a := newAccount(t, 0)
	vpc := a.vpc("10.0.0.0/16")
	subnet, tables := a.subnet(vpc, "10.0.1.0/24"), make([]string, 10)
	for i := range tables {
		tables[i] = a.table(vpc)
	}
	if n := atOnce(10, func(i int) error {
		_, err := a.try("AssociateRouteTable", wire.Object{"RouteTableId": tables[i], "SubnetId": subnet})
		return err
	}); n != 1 {
		t.Errorf("one subnet was associated with %d tables", n)
	}
	_, main := a.main(vpc)
	if n := atOnce(10, func(i int) error {
		_, err := a.try("ReplaceRouteTableAssociation", wire.Object{"RouteTableId": tables[i], "AssociationId": main})
		return err
	}); n != 1 {
		t.Errorf("one association was replaced %d times", n)
	}
	used := map[string]bool{}
	for _, table := range append(a.tables("association.main", "true"), a.tables("association.subnet-id", subnet)...) {
		used[table.Text("RouteTableId")] = true
	}
	if n := atOnce(10, func(i int) error {
		_, err := a.try("DeleteRouteTable", wire.Object{"RouteTableId": tables[i]})
		return err
	}); n != 10-len(used) {
		t.Errorf("%d of 10 tables were deleted, and %d are used", n, len(used))
	}
	for i := range 10 {
		subnet, table := a.subnet(vpc, fmt.Sprintf("10.0.%d.0/24", 2+i)), a.table(vpc)
		if n := atOnce(2, func(i int) error {
			if i == 0 {
				_, err := a.try("DeleteRouteTable", wire.Object{"RouteTableId": table})
				return err
			}
			_, err := a.try("AssociateRouteTable", wire.Object{"RouteTableId": table, "SubnetId": subnet})
			return err
		}); n != 1 {
			t.Errorf("of associating a table and deleting it, %d were done", n)
		}
	}
}
