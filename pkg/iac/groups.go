package iac

import (
	"encoding/base64"

	"hive-test/pkg/gateway/wire"
)

// permission is a set of rules as the provider sends it.
func permission(protocol string, from, to int, cidr, description string) wire.Object {
	source := wire.Object{"CidrIp": cidr}
	if description != "" {
		source["Description"] = description
	}
	return wire.Object{"IpProtocol": protocol, "FromPort": from, "ToPort": to, "IpRanges": wire.List(source)}
}

// rules are what is asked for with permissions of a group.
func rules(group string, permissions ...wire.Object) wire.Object {
	return wire.Object{"GroupId": group, "IpPermissions": wire.List(permissions...)}
}

func securityGroup() resource {
	const name, call = "aws_security_group", "DescribeSecurityGroups"
	describe := func(s *step) wire.Object { return s.one(call, wire.Chosen("GroupIds", s.ids[name]), "SecurityGroups") }
	read := func(s *step) {
		one := describe(s)
		s.is(one, call, "GroupName", s.prefix)
		s.is(one, call, "Description", "of the probe")
		s.is(one, call, "VpcId", s.ids["aws_vpc"])
		s.is(one, call, "IpPermissions.IpRanges.CidrIp", "192.0.2.0/24")
		s.is(one, call, "IpPermissions.IpRanges.Description", "web")
		s.is(one, call, "IpPermissions.FromPort", "80")
		s.is(one, call, "IpPermissionsEgress.IpProtocol", "-1")
		s.is(one, call, "Tags.Value", s.prefix)
		s.has(one, call, "OwnerId")
	}
	return resource{name: name, needs: []string{"aws_vpc"}, sdk: SDKv1, parts: map[string]func(*step){
		"create": func(s *step) {
			out := s.do("CreateSecurityGroup", wire.Object{
				"GroupName": s.prefix, "Description": "of the probe", "VpcId": s.ids["aws_vpc"],
				"TagSpecifications": s.tags("security-group"),
			})
			s.id(name, out, "CreateSecurityGroup", "GroupId")
			for range 3 {
				describe(s)
			}
			id := s.ids[name]
			// The provider takes away what a new group lets out, with ports that do not matter for all protocols.
			s.do("RevokeSecurityGroupEgress", rules(id, permission("-1", 0, 0, "0.0.0.0/0", "")))
			s.tolerated("RevokeSecurityGroupEgress", rules(id, wire.Object{
				"IpProtocol": "-1", "FromPort": 0, "ToPort": 0, "Ipv6Ranges": wire.List(wire.Object{"CidrIpv6": "::/0"}),
			}), "InvalidPermission.NotFound", "InvalidParameterValue")
			s.do("AuthorizeSecurityGroupIngress", rules(id,
				permission("tcp", 80, 80, "192.0.2.0/24", "web"), permission("tcp", 22, 22, "198.51.100.0/24", ""),
				wire.Object{
					"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, "Ipv6Ranges": wire.List(wire.Object{"CidrIpv6": "2001:db8::/32"}),
				}))
			s.do("AuthorizeSecurityGroupEgress", rules(id, permission("-1", 0, 0, "0.0.0.0/0", "")))
			s.is(describe(s), "AuthorizeSecurityGroupIngress", "IpPermissions.Ipv6Ranges.CidrIpv6", "2001:db8::/32")
		},
		"read": read, "no diff": unchanged(read),
		"update": func(s *step) {
			id := s.ids[name]
			s.refused("AuthorizeSecurityGroupIngress", rules(id, permission("tcp", 80, 80, "192.0.2.0/24", "web")),
				"InvalidPermission.Duplicate")
			s.do("RevokeSecurityGroupIngress", rules(id, permission("tcp", 22, 22, "198.51.100.0/24", "")))
			s.refused("RevokeSecurityGroupIngress", rules(id, permission("tcp", 22, 22, "198.51.100.0/24", "")),
				"InvalidPermission.NotFound")
			s.do("AuthorizeSecurityGroupIngress", rules(id, permission("udp", 53, 53, "198.51.100.0/24", "")))
			s.is(describe(s), "AuthorizeSecurityGroupIngress", "IpPermissions.IpProtocol", "udp")
			s.retag(id, func() wire.Object { return describe(s) })
		},
		"delete": func(s *step) {
			s.do("DescribeNetworkInterfaces", wire.Filtered("group-id", s.ids[name]))
			s.do("DeleteSecurityGroup", wire.Object{"GroupId": s.ids[name]})
			s.gone(call, wire.Chosen("GroupIds", s.ids[name]), "", "InvalidGroup.NotFound")
		},
	}}
}

// ruleResource is one of the two that are a single rule each.
func ruleResource(name, authorize, revoke string) resource {
	const call = "DescribeSecurityGroupRules"
	describe := func(s *step) wire.Object {
		return s.one(call, wire.Chosen("SecurityGroupRuleIds", s.ids[name]), "SecurityGroupRules")
	}
	read := func(s *step) {
		one := describe(s)
		s.is(one, call, "CidrIpv4", "203.0.113.0/24")
		s.is(one, call, "IpProtocol", "tcp")
		s.is(one, call, "FromPort", "8080")
		s.is(one, call, "Description", "one")
		s.has(one, call, "GroupId", "IsEgress", "Tags.Key")
	}
	return resource{name: name, needs: []string{"aws_security_group"}, sdk: SDKv2, parts: map[string]func(*step){
		"create": func(s *step) {
			out := s.do(authorize, rules(s.ids["aws_security_group"], permission("tcp", 8080, 8080, "203.0.113.0/24", "one")))
			s.id(name, out, authorize, "SecurityGroupRules.SecurityGroupRuleId") // the provider crashes where there is none
			s.do("CreateTags", wire.Object{
				"Resources": wire.Strings(s.ids[name]), "Tags": wire.List(s.tag("Name", s.prefix)),
			})
		},
		"read": read, "no diff": unchanged(read),
		"update": func(s *step) {
			s.do("ModifySecurityGroupRules", wire.Object{
				"GroupId": s.ids["aws_security_group"], "SecurityGroupRules": wire.List(wire.Object{
					"SecurityGroupRuleId": s.ids[name], "SecurityGroupRule": wire.Object{
						"CidrIpv4": "203.0.113.0/24", "IpProtocol": "tcp", "FromPort": 8080, "ToPort": 8081, "Description": "one",
					},
				}),
			})
			s.is(describe(s), "ModifySecurityGroupRules", "ToPort", "8081")
		},
		"delete": func(s *step) {
			s.do(revoke, wire.Object{
				"GroupId": s.ids["aws_security_group"], "SecurityGroupRuleIds": wire.Strings(s.ids[name]),
			})
			s.gone(call, wire.Chosen("SecurityGroupRuleIds", s.ids[name]), "", "InvalidSecurityGroupRuleId.NotFound")
		},
	}}
}

func ingressRule() resource {
	return ruleResource("aws_vpc_security_group_ingress_rule", "AuthorizeSecurityGroupIngress", "RevokeSecurityGroupIngress")
}

func egressRule() resource {
	return ruleResource("aws_vpc_security_group_egress_rule", "AuthorizeSecurityGroupEgress", "RevokeSecurityGroupEgress")
}

// oldRule is the older resource that is a rule: it is known by what it allows.
func oldRule() resource {
	const name, call = "aws_security_group_rule", "DescribeSecurityGroups"
	asked := func(s *step, description string) wire.Object {
		return rules(s.ids["aws_security_group"], permission("tcp", 5432, 5432, "203.0.113.0/24", description))
	}
	found := func(s *step) wire.Object {
		group := s.one(call, wire.Chosen("GroupIds", s.ids["aws_security_group"]), "SecurityGroups")
		for _, p := range group.Objects("IpPermissions") {
			if p.Text("FromPort") == "5432" {
				return p
			}
		}
		s.fail(Stub, call, "nothing is found of the rule that was made")
		return nil
	}
	read := func(s *step) {
		s.is(found(s), call, "IpRanges.CidrIp", "203.0.113.0/24")
		out := s.do("DescribeSecurityGroupRules", wire.Filtered("group-id", s.ids["aws_security_group"]))
		s.is(out, "DescribeSecurityGroupRules", "SecurityGroupRules.FromPort", "5432")
	}
	return resource{name: name, needs: []string{"aws_security_group"}, sdk: SDKv1, parts: map[string]func(*step){
		"create": func(s *step) {
			s.do("AuthorizeSecurityGroupIngress", asked(s, "one"))
			s.is(found(s), call, "IpRanges.Description", "one")
		},
		"read": read, "no diff": unchanged(read),
		"update": func(s *step) {
			s.do("UpdateSecurityGroupRuleDescriptionsIngress", asked(s, "two"))
			s.is(found(s), "UpdateSecurityGroupRuleDescriptionsIngress", "IpRanges.Description", "two")
		},
		"delete": func(s *step) {
			s.do("RevokeSecurityGroupIngress", asked(s, "two"))
			s.refused("RevokeSecurityGroupIngress", asked(s, "two"), "InvalidPermission.NotFound")
		},
	}}
}

// defaultGroup is that of the VPC: the provider takes its rules over, which takes them all away.
func defaultGroup() resource {
	const name = "aws_default_security_group"
	return resource{name: name, needs: []string{"aws_vpc"}, sdk: SDKv1, parts: map[string]func(*step){
		"create": func(s *step) {
			one := s.one("DescribeSecurityGroups", wire.Filtered("group-name", "default", "vpc-id", s.ids["aws_vpc"]), "SecurityGroups")
			if s.failed() {
				return
			}
			s.ids[name] = one.Text("GroupId")
			out := s.do("DescribeSecurityGroupRules", wire.Filtered("group-id", s.ids[name]))
			for _, rule := range out.Objects("SecurityGroupRules") {
				revoke := "RevokeSecurityGroupIngress"
				if rule.Bool("IsEgress") {
					revoke = "RevokeSecurityGroupEgress"
				}
				s.do(revoke, wire.Object{
					"GroupId": s.ids[name], "SecurityGroupRuleIds": wire.Strings(rule.Text("SecurityGroupRuleId")),
				})
			}
		},
		"read": func(s *step) {
			one := s.one("DescribeSecurityGroups", wire.Chosen("GroupIds", s.ids[name]), "SecurityGroups")
			if len(one.Objects("IpPermissionsEgress")) > 0 {
				s.fail(Stub, "RevokeSecurityGroupEgress", "a rule that was revoked is still told of")
			}
		},
	}}
}

// publicKey is one that nobody has the private half of.
const publicKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJUmr5GgYoZQjZnHPHKyKuLdiK5aE6eIuHNDF3bVXq7e probe"

func keyPair() resource {
	const name, call = "aws_key_pair", "DescribeKeyPairs"
	read := func(s *step) {
		one := s.one(call, wire.Chosen("KeyNames", s.prefix), "KeyPairs")
		s.is(one, call, "KeyName", s.prefix)
		s.is(one, call, "Tags.Value", s.prefix)
		s.has(one, call, "KeyPairId", "KeyFingerprint", "KeyType")
	}
	return resource{name: name, sdk: SDKv2, parts: map[string]func(*step){
		"create": func(s *step) {
			out := s.do("ImportKeyPair", wire.Object{
				"KeyName": s.prefix, "PublicKeyMaterial": base64.StdEncoding.EncodeToString([]byte(publicKey)),
				"TagSpecifications": s.tags("key-pair"),
			})
			s.id(name, out, "ImportKeyPair", "KeyPairId")
		},
		"read": read, "no diff": unchanged(read),
		"update": func(s *step) {
			s.retag(s.ids[name], func() wire.Object { return s.one(call, wire.Chosen("KeyNames", s.prefix), "KeyPairs") })
		},
		"delete": func(s *step) {
			s.do("DeleteKeyPair", wire.Object{"KeyName": s.prefix})
			s.gone(call, wire.Chosen("KeyNames", s.prefix), "", "InvalidKeyPair.NotFound")
		},
	}}
}

func placementGroup() resource {
	const name, call = "aws_placement_group", "DescribePlacementGroups"
	read := func(s *step) {
		one := s.one(call, wire.Chosen("GroupNames", s.prefix), "PlacementGroups")
		s.is(one, call, "Strategy", "spread")
		s.is(one, call, "Tags.Value", s.prefix)
		s.has(one, call, "GroupId", "GroupArn", "SpreadLevel")
	}
	return resource{name: name, sdk: SDKv1, parts: map[string]func(*step){
		"create": func(s *step) {
			out := s.do("CreatePlacementGroup", wire.Object{
				"GroupName": s.prefix, "Strategy": "spread", "TagSpecifications": s.tags("placement-group"),
			})
			s.id(name, out, "CreatePlacementGroup", "PlacementGroup.GroupId")
			s.until(call, wire.Chosen("GroupNames", s.prefix), "PlacementGroups.State", "available")
		},
		"read": read, "no diff": unchanged(read),
		"update": func(s *step) {
			s.retag(s.ids[name], func() wire.Object { return s.one(call, wire.Chosen("GroupNames", s.prefix), "PlacementGroups") })
		},
		"delete": func(s *step) {
			s.do("DeletePlacementGroup", wire.Object{"GroupName": s.prefix})
			s.gone(call, wire.Chosen("GroupNames", s.prefix), "", "InvalidPlacementGroup.Unknown")
		},
	}}
}
