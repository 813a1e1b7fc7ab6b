package ec2

import (
	"context"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"hive-test/pkg/gateway/wire"
)

func (s *Service) routeActions() map[string]handler {
	return map[string]handler{
		"CreateRoute": s.createRoute, "ReplaceRoute": s.replaceRoute, "DeleteRoute": s.deleteRoute,
	}
}

// localOrigin is the origin of routes to a VPC's own addresses, which come with each of its tables and stay.
const localOrigin = "CreateRouteTable"

// localRoute is the route to a block of a VPC.
func localRoute(member, cidr string) wire.Object {
	return wire.Object{member: cidr, "GatewayId": "local", "Origin": localOrigin, "State": "active"}
}

// localRoutes are those to all blocks of a VPC.
func localRoutes(vpc wire.Object) []any {
	var routes []any
	for _, a := range vpc.Objects("CidrBlockAssociationSet") {
		routes = append(routes, localRoute("DestinationCidrBlock", a.Text("CidrBlock")))
	}
	for _, a := range vpc.Objects("Ipv6CidrBlockAssociationSet") {
		routes = append(routes, localRoute("DestinationIpv6CidrBlock", a.Text("Ipv6CidrBlock")))
	}
	return routes
}

// destination is what a route is for, which tells it from the others of its table.
type destination struct{ member, value string }

// parameter is what AWS's messages call the member.
func (d destination) parameter() string { return strings.ToLower(d.member[:1]) + d.member[1:] }

// words are what AWS's message about a route that is not there calls the member.
func (d destination) words() string {
	return map[string]string{
		"DestinationCidrBlock": "destination-cidr-block", "DestinationIpv6CidrBlock": "destination-ipv6-cidr-block",
		"DestinationPrefixListId": "destination-prefix-list-id",
	}[d.member]
}

// among returns which of the routes is for the destination; -1: none.
func (d destination) among(routes []wire.Object) int {
	return slices.IndexFunc(routes, func(route wire.Object) bool { return route.Text(d.member) == d.value })
}

// destinationOf returns the one of a request: blocks without the bits after their masks.
func destinationOf(in wire.Object) (d destination, err error) {
	given := 0
	for _, member := range []string{"DestinationCidrBlock", "DestinationIpv6CidrBlock", "DestinationPrefixListId"} {
		if in.Has(member) {
			d = destination{member, in.Text(member)}
			given++
		}
	}
	switch {
	case given == 0:
		return d, wire.Errorf(wire.MissingParameter, "The request must contain exactly one of destinationCidrBlock, "+
			"destinationIpv6CidrBlock, destinationPrefixListId")
	case given > 1:
		return d, wire.Errorf("InvalidParameterCombination", "Exactly one of destinationCidrBlock, "+
			"destinationIpv6CidrBlock, destinationPrefixListId must be given")
	case d.member == "DestinationPrefixListId":
		if !regexp.MustCompile(`^pl-[0-9a-f]+$`).MatchString(d.value) {
			err = wire.Errorf("InvalidPrefixListId.Malformed", "Invalid id: %q (expecting \"pl-...\")", d.value)
		}
		return d, err
	}
	prefix, err := netip.ParsePrefix(d.value)
	if err != nil || prefix.Addr().Is4() != (d.member == "DestinationCidrBlock") {
		return d, invalid(
			"Value (%s) for parameter %s is invalid. This is not a valid CIDR block.", d.value, d.parameter())
	}
	d.value = prefix.Masked().String()
	return d, nil
}

// otherTargets are the members of routes' targets that no resource is there for, with the codes that say so.
func otherTargets() map[string]string {
	return map[string]string{
		"CarrierGatewayId": "InvalidCarrierGatewayID.NotFound", "CoreNetworkArn": "InvalidCoreNetworkArn.NotFound",
		"LocalGatewayId": "InvalidLocalGatewayID.NotFound", "NatGatewayId": "InvalidNatGatewayID.NotFound",
		"OdbNetworkArn": "InvalidOdbNetworkArn.NotFound", "TransitGatewayId": "InvalidTransitGatewayID.NotFound",
		"VpcEndpointId": "InvalidVpcEndpointId.NotFound", "VpcPeeringConnectionId": "InvalidVpcPeeringConnectionID.NotFound",
	}
}

// targetMembers are the members of routes and requests that say where a route leads to.
func targetMembers() []string {
	return append(
		slices.Sorted(maps.Keys(otherTargets())),
		"GatewayId", "EgressOnlyInternetGatewayId", "InstanceId", "NetworkInterfaceId",
	)
}

// targetOf returns where a request has a route of a table lead to, as members of the route. It must be there, and in the
// table's VPC.
func (s *Service) targetOf(ctx context.Context, in, table wire.Object, d destination) (wire.Object, error) {
	var given []string
	for _, member := range targetMembers() {
		if in.Has(member) {
			given = append(given, member)
		}
	}
	if len(given) == 0 {
		return nil, wire.Errorf(wire.MissingParameter, "The request must contain exactly one of gatewayId, natGatewayId, "+
			"networkInterfaceId, vpcPeeringConnectionId, egressOnlyInternetGatewayId, transitGatewayId, instanceId")
	}
	if len(given) > 1 {
		return nil, wire.Errorf("InvalidParameterCombination", "A route has one target, and not %s",
			strings.Join(given, " and "))
	}
	member, id := given[0], in.Text(given[0])
	if code := otherTargets()[member]; code != "" {
		return nil, wire.Errorf(code, "The %s '%s' does not exist", strings.ToLower(member[:1])+member[1:], id)
	}
	target, vpc, called, err := s.target(ctx, member, id)
	if err != nil {
		return nil, err
	}
	if vpc != table.Text("VpcId") {
		return nil, invalid("route table %s and %s %s belong to different networks",
			table.Text("RouteTableId"), called, id)
	}
	if member == "EgressOnlyInternetGatewayId" && d.member == "DestinationCidrBlock" {
		return nil, invalid("An egress-only internet gateway is a target of IPv6 destinations only")
	}
	return target, nil
}

// target returns the members of a route that leads to a resource, with the VPC of that, and what AWS's message calls it.
func (s *Service) target(ctx context.Context, member, id string) (route wire.Object, vpc, called string, err error) {
	var found wire.Object
	route = wire.Object{member: id}
	switch member {
	case "GatewayId":
		k := gatewayKind()
		k.code, k.called = "InvalidGatewayID.NotFound", "gateway ID"
		found, err = s.get(ctx, k, id)
		return route, gatewayVPC(found), "network gateway", err
	case "EgressOnlyInternetGatewayId":
		found, err = s.get(ctx, egressKind(), id)
		return route, gatewayVPC(found), "network gateway", err
	case "InstanceId":
		found, err = s.onlyInterface(ctx, id)
	default:
		found, err = s.get(ctx, interfaceKind(), id)
	}
	// A route to an instance is one to its interface.
	return wire.Object{"NetworkInterfaceId": found["NetworkInterfaceId"]}, found.Text("VpcId"), "interface", err
}

func (s *Service) createRoute(ctx context.Context, in wire.Object) (wire.Object, error) {
	d, table, target, err := s.routeOf(ctx, in)
	if err != nil {
		return nil, err
	}
	_, err = s.change(ctx, tableKind(), table, func(table wire.Object) error {
		routes := table.Objects("Routes")
		if d.among(routes) >= 0 {
			return wire.Errorf("RouteAlreadyExists", "The route identified by %s already exists.", d.value)
		}
		if err := d.allowed(routes, target); err != nil {
			return err
		}
		route := wire.Object{d.member: d.value, "Origin": "CreateRoute", "State": "active"}
		maps.Copy(route, target)
		table["Routes"] = append(wire.List(routes...), route)
		return nil
	})
	return returned(), err
}

// routeOf returns what a request says of a route, which must be right.
func (s *Service) routeOf(ctx context.Context, in wire.Object) (d destination, id string, target wire.Object, err error) {
	if err = require(in, "RouteTableId"); err != nil {
		return d, "", nil, err
	}
	if d, err = destinationOf(in); err != nil {
		return d, "", nil, err
	}
	id = in.Text("RouteTableId")
	table, err := s.get(ctx, tableKind(), id)
	if err != nil {
		return d, "", nil, err
	}
	if in.Bool("LocalTarget") {
		return d, id, wire.Object{"GatewayId": "local"}, nil
	}
	target, err = s.targetOf(ctx, in, table, d)
	return d, id, target, err
}

// allowed is an error where a destination is in the VPC, and the target is none that traffic inside of one can go to.
func (d destination) allowed(routes []wire.Object, target wire.Object) error {
	prefix, err := netip.ParsePrefix(d.value)
	if err != nil || target.Has("NetworkInterfaceId") {
		return nil // prefix lists are of addresses outside
	}
	for _, route := range routes {
		local, err := netip.ParsePrefix(route.Text(d.member))
		if err == nil && route.Text("Origin") == localOrigin && within(prefix, local) {
			return invalid("The destination CIDR block %s is equal to or more specific than one of this VPC's CIDR blocks. "+
				"This route can target only an interface or an instance.", d.value)
		}
	}
	return nil
}

func (s *Service) replaceRoute(ctx context.Context, in wire.Object) (wire.Object, error) {
	d, table, target, err := s.routeOf(ctx, in)
	if err != nil {
		return nil, err
	}
	_, err = s.change(ctx, tableKind(), table, func(table wire.Object) error {
		routes := table.Objects("Routes")
		i := d.among(routes)
		if i < 0 {
			return invalid("There is no route defined for '%s' in the route table. Use CreateRoute instead.", d.value)
		}
		local := routes[i].Text("Origin") == localOrigin
		if in.Bool("LocalTarget") && !local {
			return invalid("The route identified by %s is not a local route", d.value)
		}
		if !in.Bool("LocalTarget") {
			if err := d.allowed(routes, target); err != nil {
				return err
			}
		}
		for _, member := range targetMembers() {
			delete(routes[i], member)
		}
		maps.Copy(routes[i], target)
		table["Routes"] = wire.List(routes...)
		return nil
	})
	return returned(), err
}

func (s *Service) deleteRoute(ctx context.Context, in wire.Object) (wire.Object, error) {
	if err := require(in, "RouteTableId"); err != nil {
		return nil, err
	}
	d, err := destinationOf(in)
	if err != nil {
		return nil, err
	}
	id := in.Text("RouteTableId")
	_, err = s.change(ctx, tableKind(), id, func(table wire.Object) error {
		routes := table.Objects("Routes")
		i := d.among(routes)
		switch {
		case i < 0:
			return wire.Errorf("InvalidRoute.NotFound", "no route with %s %s in route table %s", d.words(), d.value, id)
		case routes[i].Text("Origin") == localOrigin:
			return invalid("cannot remove local route %s in route table %s", d.value, id)
		}
		table["Routes"] = wire.List(slices.Delete(routes, i, i+1)...)
		return nil
	})
	return returned(), err
}

// targetStates returns what shows a route of a table in a VPC: active where its target is there, else a blackhole. It reads
// the resources that the routes of the tables lead to.
func (s *Service) targetStates(
	ctx context.Context, tables []wire.Object,
) (func(route wire.Object, vpc string) wire.Object, error) {
	attached := map[string]string{}
	for _, k := range []kind{gatewayKind(), egressKind()} {
		list, err := s.all(ctx, k)
		if err != nil {
			return nil, err
		}
		for _, gateway := range list {
			attached[gateway.Text(k.id)] = gatewayVPC(gateway)
		}
	}
	instances, err := s.routedInstances(ctx, tables)
	return func(route wire.Object, vpc string) wire.Object {
		shown := maps.Clone(route)
		up := route.Text("GatewayId") == "local"
		switch {
		case route.Has("NetworkInterfaceId"):
			instance := instances[route.Text("NetworkInterfaceId")]
			if up = instance != nil; up {
				shown["InstanceId"], shown["InstanceOwnerId"] = instance["InstanceId"], s.Account
			}
		case !up:
			up = attached[route.Text("GatewayId")+route.Text("EgressOnlyInternetGatewayId")] == vpc
		}
		if !up {
			shown["State"] = "blackhole"
		}
		return shown
	}, err
}

// routedInstances returns the instances that run, by the interfaces that routes lead to.
func (s *Service) routedInstances(ctx context.Context, tables []wire.Object) (map[string]wire.Object, error) {
	running := map[string]wire.Object{}
	if !slices.ContainsFunc(tables, func(table wire.Object) bool {
		return slices.ContainsFunc(table.Objects("Routes"), func(r wire.Object) bool { return r.Has("NetworkInterfaceId") })
	}) {
		return running, nil
	}
	interfaces, err := s.all(ctx, interfaceKind())
	if err != nil {
		return nil, err
	}
	instances, err := s.all(ctx, instanceKind())
	if err != nil {
		return nil, err
	}
	for _, eni := range interfaces {
		i := slices.IndexFunc(instances, func(o wire.Object) bool { return o.Text("InstanceId") == instanceOf(eni) })
		if i >= 0 && instances[i].Object("State").Text("Name") == "running" {
			running[eni.Text("NetworkInterfaceId")] = instances[i]
		}
	}
	return running, nil
}
