package iac

import (
	"bytes"
	"encoding/xml"
	"net/url"

	"hive-test/pkg/gateway/wire"
)

// resources are those of the provider that are tried, in an order in which each finds what it needs.
func resources() []resource {
	return []resource{
		identity(), regions(), zones(), images(), types(), offerings(),
		vpc(), subnet(), internetGateway(), egressGateway(), routeTable(), route(), tableAssociation(), mainAssociation(),
		securityGroup(), ingressRule(), egressRule(), oldRule(), defaultGroup(), keyPair(), placementGroup(),
		networkInterface(), instance(), instanceState(), volume(), attachment(), snapshot(), address(), addressAssociation(),
		interfaceAttachment(), // from then on the instance has more than one, and its address cannot be told by its id alone
		tag(),
	}
}

// identityAnswer is what the provider reads of the answer to GetCallerIdentity.
type identityAnswer struct {
	XMLName xml.Name `xml:"GetCallerIdentityResponse"`
	Account string   `xml:"GetCallerIdentityResult>Account"`
	Arn     string   `xml:"GetCallerIdentityResult>Arn"`
}

// identity is what the provider asks of STS whenever it starts.
func identity() resource {
	return resource{name: "provider", sdk: SDKv2, parts: map[string]func(*step){"read": func(s *step) {
		const call = "GetCallerIdentity"
		form := url.Values{"Action": {call}, "Version": {"2011-06-15"}}
		status, body, err := s.endpoint.post(s.ctx, s.sdk, "sts", []byte(form.Encode()))
		if err != nil {
			s.judge(call, err)
			return
		}
		var answer identityAnswer
		if status != 200 {
			_, err := wire.DecodeXML("DescribeVpcs", status, bytes.NewReader(body), false) // errors of all services are read alike
			s.judge(call, err)
			return
		}
		if err := xml.Unmarshal(body, &answer); err != nil {
			s.fail(WrongShape, call, "%v", err)
			return
		}
		if answer.Account == "" || answer.Arn == "" {
			s.fail(WrongShape, call, "the answer has no Account and Arn")
		}
	}}}
}

func regions() resource {
	return resource{name: "data.aws_regions", sdk: SDKv1, parts: map[string]func(*step){"read": func(s *step) {
		const call = "DescribeRegions"
		s.has(s.do(call, wire.Object{"AllRegions": false}), call, "Regions.RegionName", "Regions.Endpoint", "Regions.OptInStatus")
	}}}
}

func zones() resource {
	return resource{name: dataZone, sdk: SDKv1, parts: map[string]func(*step){"read": func(s *step) {
		const call = "DescribeAvailabilityZones"
		out := s.do(call, wire.Filtered("state", "available"))
		s.found(dataZone, out, "AvailabilityZones.ZoneName")
		s.has(out, call, "AvailabilityZones.ZoneName", "AvailabilityZones.ZoneId", "AvailabilityZones.GroupName",
			"AvailabilityZones.OptInStatus")
	}}}
}

func vpc() resource {
	read := func(s *step) {
		id := s.ids["aws_vpc"]
		one := s.one("DescribeVpcs", wire.Chosen("VpcIds", id), "Vpcs")
		s.is(one, "DescribeVpcs", "CidrBlock", "10.113.0.0/16")
		s.is(one, "DescribeVpcs", "InstanceTenancy", "default")
		s.is(one, "DescribeVpcs", "Tags.Value", s.prefix)
		s.has(one, "DescribeVpcs", "State", "OwnerId", "DhcpOptionsId")
		for name, member := range map[string]string{
			"enableDnsHostnames": "EnableDnsHostnames", "enableDnsSupport": "EnableDnsSupport",
			"enableNetworkAddressUsageMetrics": "EnableNetworkAddressUsageMetrics",
		} {
			out := s.do("DescribeVpcAttribute", wire.Object{"VpcId": id, "Attribute": name})
			s.has(out, "DescribeVpcAttribute", member+".Value")
		}
		s.tolerated("DescribeNetworkAcls", wire.Filtered("default", "true", "vpc-id", id), wire.InvalidAction)
		s.one("DescribeRouteTables", wire.Filtered("association.main", "true", "vpc-id", id), "RouteTables")
		s.one("DescribeSecurityGroups", wire.Filtered("group-name", "default", "vpc-id", id), "SecurityGroups")
	}
	return resource{name: "aws_vpc", sdk: SDKv2, parts: map[string]func(*step){
		"create": func(s *step) {
			out := s.do("CreateVpc", wire.Object{
				"CidrBlock": "10.113.0.0/16", "InstanceTenancy": "default", "AmazonProvidedIpv6CidrBlock": false,
				"TagSpecifications": s.tags("vpc"),
			})
			s.id("aws_vpc", out, "CreateVpc", "Vpc.VpcId")
			id := s.ids["aws_vpc"]
			s.until("DescribeVpcs", wire.Chosen("VpcIds", id), "Vpcs.State", "available")
			s.do("ModifyVpcAttribute", wire.Object{"VpcId": id, "EnableDnsHostnames": wire.Value(true)})
			s.until("DescribeVpcAttribute", wire.Object{"VpcId": id, "Attribute": "enableDnsHostnames"},
				"EnableDnsHostnames.Value", "true")
		},
		"read": read, "no diff": unchanged(read),
		"update": func(s *step) {
			id := s.ids["aws_vpc"]
			s.retag(id, func() wire.Object { return s.one("DescribeVpcs", wire.Chosen("VpcIds", id), "Vpcs") })
			s.do("ModifyVpcAttribute", wire.Object{"VpcId": id, "EnableDnsHostnames": wire.Value(false)})
			s.until("DescribeVpcAttribute", wire.Object{"VpcId": id, "Attribute": "enableDnsHostnames"},
				"EnableDnsHostnames.Value", "false")
		},
		"delete": func(s *step) {
			s.do("DeleteVpc", wire.Object{"VpcId": s.ids["aws_vpc"]})
			s.gone("DescribeVpcs", wire.Chosen("VpcIds", s.ids["aws_vpc"]), "", "InvalidVpcID.NotFound")
		},
	}}
}

func subnet() resource {
	describe := func(s *step) wire.Object {
		return s.one("DescribeSubnets", wire.Chosen("SubnetIds", s.ids["aws_subnet"]), "Subnets")
	}
	read := func(s *step) {
		one := describe(s)
		s.is(one, "DescribeSubnets", "CidrBlock", "10.113.1.0/24")
		s.is(one, "DescribeSubnets", "VpcId", s.ids["aws_vpc"])
		s.is(one, "DescribeSubnets", "MapPublicIpOnLaunch", "true")
		s.is(one, "DescribeSubnets", "Tags.Value", s.prefix)
		s.has(one, "DescribeSubnets", "AvailabilityZone", "AvailabilityZoneId", "SubnetArn", "OwnerId",
			"AssignIpv6AddressOnCreation")
	}
	mapping := func(s *step, on bool, text string) {
		s.do("ModifySubnetAttribute", wire.Object{"SubnetId": s.ids["aws_subnet"], "MapPublicIpOnLaunch": wire.Value(on)})
		s.until("DescribeSubnets", wire.Chosen("SubnetIds", s.ids["aws_subnet"]), "Subnets.MapPublicIpOnLaunch", text)
	}
	return resource{name: "aws_subnet", needs: []string{"aws_vpc"}, sdk: SDKv1, parts: map[string]func(*step){
		"create": func(s *step) {
			out := s.do("CreateSubnet", wire.Object{
				"CidrBlock": "10.113.1.0/24", "VpcId": s.ids["aws_vpc"], "TagSpecifications": s.tags("subnet"),
			})
			s.id("aws_subnet", out, "CreateSubnet", "Subnet.SubnetId")
			s.until("DescribeSubnets", wire.Chosen("SubnetIds", s.ids["aws_subnet"]), "Subnets.State", "available")
			mapping(s, true, "true")
		},
		"read": read, "no diff": unchanged(read),
		"update": func(s *step) {
			s.retag(s.ids["aws_subnet"], func() wire.Object { return describe(s) })
			mapping(s, false, "false")
			mapping(s, true, "true")
		},
		"delete": func(s *step) {
			s.do("DescribeNetworkInterfaces", wire.Filtered("subnet-id", s.ids["aws_subnet"]))
			s.do("DeleteSubnet", wire.Object{"SubnetId": s.ids["aws_subnet"]})
			s.gone("DescribeSubnets", wire.Chosen("SubnetIds", s.ids["aws_subnet"]), "", "InvalidSubnetID.NotFound")
		},
	}}
}

func internetGateway() resource {
	describe := func(s *step) wire.Object {
		in := wire.Chosen("InternetGatewayIds", s.ids["aws_internet_gateway"])
		return s.one("DescribeInternetGateways", in, "InternetGateways")
	}
	read := func(s *step) {
		one := describe(s)
		s.is(one, "DescribeInternetGateways", "Attachments.VpcId", s.ids["aws_vpc"])
		s.is(one, "DescribeInternetGateways", "Tags.Value", s.prefix)
		s.has(one, "DescribeInternetGateways", "OwnerId")
	}
	return resource{name: "aws_internet_gateway", needs: []string{"aws_vpc"}, sdk: SDKv1, parts: map[string]func(*step){
		"create": func(s *step) {
			out := s.do("CreateInternetGateway", wire.Object{"TagSpecifications": s.tags("internet-gateway")})
			s.id("aws_internet_gateway", out, "CreateInternetGateway", "InternetGateway.InternetGatewayId")
			id := s.ids["aws_internet_gateway"]
			s.do("AttachInternetGateway", wire.Object{"InternetGatewayId": id, "VpcId": s.ids["aws_vpc"]})
			s.until("DescribeInternetGateways", wire.Chosen("InternetGatewayIds", id), "InternetGateways.Attachments.State",
				"available")
		},
		"read": read, "no diff": unchanged(read),
		"update": func(s *step) { s.retag(s.ids["aws_internet_gateway"], func() wire.Object { return describe(s) }) },
		"delete": func(s *step) {
			id := s.ids["aws_internet_gateway"]
			s.do("DetachInternetGateway", wire.Object{"InternetGatewayId": id, "VpcId": s.ids["aws_vpc"]})
			if one := describe(s); len(one.Objects("Attachments")) > 0 {
				s.fail(Stub, "DetachInternetGateway", "what was detached is still attached")
			}
			s.do("DeleteInternetGateway", wire.Object{"InternetGatewayId": id})
			s.gone("DescribeInternetGateways", wire.Chosen("InternetGatewayIds", id), "", "InvalidInternetGatewayID.NotFound")
		},
	}}
}

func egressGateway() resource {
	const name, call = "aws_egress_only_internet_gateway", "DescribeEgressOnlyInternetGateways"
	read := func(s *step) {
		one := s.one(call, wire.Chosen("EgressOnlyInternetGatewayIds", s.ids[name]), "EgressOnlyInternetGateways")
		s.is(one, call, "Attachments.VpcId", s.ids["aws_vpc"])
		s.is(one, call, "Tags.Value", s.prefix)
	}
	return resource{name: name, needs: []string{"aws_vpc"}, sdk: SDKv1, parts: map[string]func(*step){
		"create": func(s *step) {
			out := s.do("CreateEgressOnlyInternetGateway", wire.Object{
				"VpcId": s.ids["aws_vpc"], "TagSpecifications": s.tags("egress-only-internet-gateway"),
			})
			s.id(name, out, "CreateEgressOnlyInternetGateway", "EgressOnlyInternetGateway.EgressOnlyInternetGatewayId")
		},
		"read": read, "no diff": unchanged(read),
		"delete": func(s *step) {
			s.do("DeleteEgressOnlyInternetGateway", wire.Object{"EgressOnlyInternetGatewayId": s.ids[name]})
			s.gone(call, wire.Chosen("EgressOnlyInternetGatewayIds", s.ids[name]), "EgressOnlyInternetGateways", "")
		},
	}}
}

func routeTable() resource {
	describe := func(s *step) wire.Object {
		return s.one("DescribeRouteTables", wire.Chosen("RouteTableIds", s.ids["aws_route_table"]), "RouteTables")
	}
	read := func(s *step) {
		one := describe(s)
		s.is(one, "DescribeRouteTables", "VpcId", s.ids["aws_vpc"])
		s.is(one, "DescribeRouteTables", "Routes.GatewayId", "local")
		s.is(one, "DescribeRouteTables", "Routes.GatewayId", s.ids["aws_internet_gateway"])
		s.is(one, "DescribeRouteTables", "Tags.Value", s.prefix)
		s.has(one, "DescribeRouteTables", "OwnerId", "Routes.State", "Routes.Origin")
	}
	return resource{
		name: "aws_route_table", needs: []string{"aws_vpc", "aws_internet_gateway"}, sdk: SDKv1, parts: map[string]func(*step){
			"create": func(s *step) {
				out := s.do("CreateRouteTable", wire.Object{
					"VpcId": s.ids["aws_vpc"], "ClientToken": s.prefix + "-rtb", "TagSpecifications": s.tags("route-table"),
				})
				s.id("aws_route_table", out, "CreateRouteTable", "RouteTable.RouteTableId")
				describe(s)
				describe(s)
				s.do("CreateRoute", wire.Object{
					"RouteTableId": s.ids["aws_route_table"], "DestinationCidrBlock": "0.0.0.0/0",
					"GatewayId": s.ids["aws_internet_gateway"],
				})
				s.is(describe(s), "CreateRoute", "Routes.DestinationCidrBlock", "0.0.0.0/0")
			},
			"read": read, "no diff": unchanged(read),
			"update": func(s *step) {
				in := wire.Object{
					"RouteTableId": s.ids["aws_route_table"], "DestinationCidrBlock": "192.0.2.0/24",
					"GatewayId": s.ids["aws_internet_gateway"],
				}
				s.do("CreateRoute", in)
				s.refused("CreateRoute", in, "RouteAlreadyExists")
				s.do("ReplaceRoute", in)
				delete(in, "GatewayId")
				s.do("DeleteRoute", in)
				s.refused("DeleteRoute", in, "InvalidRoute.NotFound")
				s.retag(s.ids["aws_route_table"], func() wire.Object { return describe(s) })
			},
			"delete": func(s *step) {
				describe(s)
				s.do("DeleteRouteTable", wire.Object{"RouteTableId": s.ids["aws_route_table"]})
				s.gone("DescribeRouteTables", wire.Chosen("RouteTableIds", s.ids["aws_route_table"]), "", "InvalidRouteTableID.NotFound")
			},
		},
	}
}

func route() resource {
	destination := func(s *step) wire.Object {
		return wire.Object{"RouteTableId": s.ids["aws_route_table"], "DestinationCidrBlock": "198.51.100.0/24"}
	}
	read := func(s *step) {
		one := s.one("DescribeRouteTables", wire.Chosen("RouteTableIds", s.ids["aws_route_table"]), "RouteTables")
		s.is(one, "DescribeRouteTables", "Routes.DestinationCidrBlock", "198.51.100.0/24")
		s.is(one, "DescribeRouteTables", "Routes.State", "active")
	}
	return resource{name: "aws_route", needs: []string{"aws_route_table"}, sdk: SDKv1, parts: map[string]func(*step){
		"create": func(s *step) {
			in := destination(s)
			in["GatewayId"] = s.ids["aws_internet_gateway"]
			s.do("CreateRoute", in)
			read(s)
		},
		"read": read, "no diff": unchanged(read),
		"update": func(s *step) {
			in := destination(s)
			in["GatewayId"] = s.ids["aws_internet_gateway"]
			s.do("ReplaceRoute", in)
			read(s)
		},
		"delete": func(s *step) {
			s.do("DeleteRoute", destination(s))
			s.refused("DeleteRoute", destination(s), "InvalidRoute.NotFound")
		},
	}}
}

func tableAssociation() resource {
	const name, path = "aws_route_table_association", "association.route-table-association-id"
	read := func(s *step) {
		one := s.one("DescribeRouteTables", wire.Filtered(path, s.ids[name]), "RouteTables")
		s.is(one, "DescribeRouteTables", "Associations.SubnetId", s.ids["aws_subnet"])
		s.is(one, "DescribeRouteTables", "Associations.RouteTableId", s.ids["aws_route_table"])
	}
	return resource{
		name: name, needs: []string{"aws_route_table", "aws_subnet"}, sdk: SDKv1, parts: map[string]func(*step){
			"create": func(s *step) {
				out := s.do("AssociateRouteTable", wire.Object{
					"RouteTableId": s.ids["aws_route_table"], "SubnetId": s.ids["aws_subnet"],
				})
				s.id(name, out, "AssociateRouteTable", "AssociationId")
				s.until("DescribeRouteTables", wire.Filtered(path, s.ids[name]), "RouteTables.Associations.AssociationState.State",
					"associated")
			},
			"read": read, "no diff": unchanged(read),
			"update": func(s *step) {
				out := s.do("ReplaceRouteTableAssociation", wire.Object{
					"AssociationId": s.ids[name], "RouteTableId": s.ids["aws_route_table"],
				})
				s.id(name, out, "ReplaceRouteTableAssociation", "NewAssociationId")
				s.until("DescribeRouteTables", wire.Filtered(path, s.ids[name]), "RouteTables.Associations.AssociationState.State",
					"associated")
			},
			"delete": func(s *step) {
				s.do("DisassociateRouteTable", wire.Object{"AssociationId": s.ids[name]})
				s.gone("DescribeRouteTables", wire.Filtered(path, s.ids[name]), "RouteTables", "")
				s.refused("DisassociateRouteTable", wire.Object{"AssociationId": s.ids[name]}, "InvalidAssociationID.NotFound")
			},
		},
	}
}

func mainAssociation() resource {
	const name = "aws_main_route_table_association"
	replace := func(s *step, table string) {
		out := s.do("ReplaceRouteTableAssociation", wire.Object{"AssociationId": s.ids[name], "RouteTableId": table})
		s.id(name, out, "ReplaceRouteTableAssociation", "NewAssociationId")
		s.until("DescribeRouteTables", wire.Filtered("association.main", "true", "vpc-id", s.ids["aws_vpc"]),
			"RouteTables.RouteTableId", table)
	}
	return resource{
		name: name, needs: []string{"aws_vpc", "aws_route_table"}, sdk: SDKv1, parts: map[string]func(*step){
			"create": func(s *step) {
				one := s.one("DescribeRouteTables", wire.Filtered("association.main", "true", "vpc-id", s.ids["aws_vpc"]), "RouteTables")
				if s.failed() {
					return
				}
				s.ids["main table"] = one.Text("RouteTableId")
				for _, a := range one.Objects("Associations") {
					if a.Bool("Main") {
						s.ids[name] = a.Text("RouteTableAssociationId")
					}
				}
				replace(s, s.ids["aws_route_table"])
			},
			"delete": func(s *step) { replace(s, s.ids["main table"]) },
		},
	}
}
