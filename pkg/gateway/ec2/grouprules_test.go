package ec2_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"hive-test/pkg/gateway/wire"
)

func TestRules(t *testing.T) {
	a := newAccount(t, 0)
	id := a.group(a.vpc("10.0.0.0/16"), "web")
	out := a.must("AuthorizeSecurityGroupIngress", wire.Object{
		"GroupId": id,
		"TagSpecifications": wire.List(
			wire.Object{"ResourceType": "security-group-rule", "Tags": wire.List(wire.Object{"Key": "a", "Value": "b"})}),
		"IpPermissions": wire.List(
			wire.Object{
				"IpProtocol": "6", "FromPort": 80, "ToPort": 81,
				"IpRanges": wire.List(
					wire.Object{"CidrIp": "10.1.2.3/8", "Description": "inside"}, wire.Object{"CidrIp": "192.0.2.1/32"}),
				"Ipv6Ranges": wire.List(wire.Object{"CidrIpv6": "2001:DB8::1/32"}),
			},
			wire.Object{
				"IpProtocol": "tcp", "FromPort": 80, "ToPort": 81, "PrefixListIds": wire.List(wire.Object{"PrefixListId": "pl-1"}),
				"UserIdGroupPairs": wire.List(wire.Object{"GroupId": id, "Description": "self"}),
			},
			wire.Object{"IpProtocol": "icmpv6", "Ipv6Ranges": wire.List(wire.Object{"CidrIpv6": "::/0"})},
			wire.AsObject(allow(id, "50", 1, 2, "0.0.0.0/0")["IpPermissions"].([]any)[0]),
			wire.AsObject(allow(id, "ICMP", 8, -1, "0.0.0.0/0")["IpPermissions"].([]any)[0]),
		),
	})
	answered := out.Objects("SecurityGroupRules")
	if len(answered) != 8 || !out.Bool("Return") {
		t.Fatalf("answer: %v", out)
	}
	expect(t, short(a.described(id).Objects("IpPermissions")),
		"50 - [0.0.0.0/0]", "icmp 8--1 [0.0.0.0/0]", "icmpv6 -1--1 [::/0]",
		"tcp 80-81 [10.0.0.0/8=inside 192.0.2.1/32 2001:db8::/32 pl-1 "+id+"=self]")
	kept := a.rulesOf(id)
	if len(kept) != 9 {
		t.Fatalf("rules: %v", kept)
	}
	for i, rule := range answered {
		if !regexp.MustCompile(`^sgr-[0-9a-f]{17}$`).MatchString(rule.Text("SecurityGroupRuleId")) ||
			rule.Bool("IsEgress") || rule.Text("GroupId") != id || rule.Objects("Tags")[0].Text("Value") != "b" ||
			!strings.HasSuffix(rule.Text("SecurityGroupRuleArn"), "/"+rule.Text("SecurityGroupRuleId")) {
			t.Errorf("rule: %v", rule)
		}
		if kept[i+1].Text("SecurityGroupRuleId") != rule.Text("SecurityGroupRuleId") {
			t.Errorf("rule %d is %v, answered was %v", i, kept[i+1], rule)
		}
	}
	if out := kept[0]; !out.Bool("IsEgress") || out.Int("FromPort") != -1 || out.Int("ToPort") != -1 ||
		out.Text("CidrIpv4") != "0.0.0.0/0" {
		t.Errorf("the rule that each group has: %v", out)
	}
	self := answered[4].Object("ReferencedGroupInfo")
	if self.Text("GroupId") != id || self.Text("UserId") != "000000000000" {
		t.Errorf("the group itself as a peer: %v", answered[4])
	}
}

func TestAuthorizeRefuses(t *testing.T) {
	a := newAccount(t, 0)
	id := a.group(a.vpc("10.0.0.0/16"), "web")
	a.must("AuthorizeSecurityGroupIngress", allow(id, "tcp", 80, 80, "10.0.0.0/8"))
	bare := func(p wire.Object) wire.Object {
		p["IpRanges"] = wire.List(wire.Object{"CidrIp": "10.0.0.0/8"})
		return about(id, p)
	}
	described := about(id, wire.Object{"IpProtocol": "-1", "IpRanges": wire.List(
		wire.Object{"CidrIp": "10.0.0.0/8", "Description": "für alle"})})
	for _, test := range []struct {
		code, message string
		in            wire.Object
	}{
		{
			"InvalidPermission.Duplicate", `"peer: 10.0.0.0/8, TCP, from port: 80, to port: 80, ALLOW" already exists`,
			allow(id, "6", 80, 80, "10.9.9.9/8"),
		},
		{"InvalidParameterValue", "multiple times", allow(id, "tcp", 81, 81, "10.0.0.0/9", "10.0.0.1/9")},
		{"InvalidParameterValue", "port (65536) out of range", allow(id, "tcp", 1, 65536, "10.0.0.0/8")},
		{"InvalidParameterValue", "port (-1) out of range", allow(id, "udp", -1, -1, "10.0.0.0/8")},
		{"InvalidParameterValue", "range (2:1)", allow(id, "tcp", 2, 1, "10.0.0.0/8")},
		{"InvalidParameterValue", "both from and to ports", bare(wire.Object{"IpProtocol": "tcp", "FromPort": 1})},
		{"InvalidParameterValue", "both type and code", bare(wire.Object{"IpProtocol": "icmp"})},
		{"InvalidParameterValue", "type (256)", allow(id, "icmp", 256, 0, "10.0.0.0/8")},
		{"InvalidParameterValue", "code (256)", allow(id, "icmp", 8, 256, "10.0.0.0/8")},
		{"InvalidParameterValue", "all types", allow(id, "icmp", -1, 0, "10.0.0.0/8")},
		{"InvalidParameterValue", "Unknown protocol", allow(id, "tcpip", 1, 1, "10.0.0.0/8")},
		{"InvalidParameterValue", "Unknown protocol", allow(id, "256", 1, 1, "10.0.0.0/8")},
		{"InvalidParameterValue", "must specify protocols", bare(wire.Object{})},
		{"InvalidParameterValue", "CIDR block 10.0.0.0 is malformed", allow(id, "tcp", 1, 1, "10.0.0.0")},
		{"InvalidParameterValue", "CIDR block ::/0 is malformed", allow(id, "tcp", 1, 1, "::/0")},
		{"InvalidParameterValue", "Invalid rule description", described},
		{"InvalidPrefixListId.Malformed", "", about(id, wire.Object{
			"IpProtocol": "-1", "PrefixListIds": wire.List(wire.Object{"PrefixListId": "list"}),
		})},
		{"MissingParameter", "", about(id, wire.Object{"IpProtocol": "-1"})},
		{"MissingParameter", "", wire.Object{"GroupId": id}},
		{"MissingParameter", "", wire.Object{"IpProtocol": "-1", "CidrIp": "0.0.0.0/0"}},
	} {
		a.refused(test.code, "AuthorizeSecurityGroupIngress", test.in)
		_, err := a.try("AuthorizeSecurityGroupIngress", test.in)
		if err == nil || !strings.Contains(err.Error(), test.message) {
			t.Errorf("%v: %v, want %q", test.in, err, test.message)
		}
	}
	expect(t, short(a.described(id).Objects("IpPermissions")), "tcp 80-80 [10.0.0.0/8]")
	a.refused("InvalidPermission.Duplicate", "AuthorizeSecurityGroupEgress", allow(id, "-1", 0, 0, "0.0.0.0/0"))
	a.must("AuthorizeSecurityGroupEgress", allow(id, "tcp", 80, 80, "10.0.0.0/8")) // the other direction
}

func TestMostRules(t *testing.T) {
	a := newAccount(t, 0)
	id := a.group(a.vpc("10.0.0.0/16"), "web")
	var cidrs []string
	for i := range 60 {
		cidrs = append(cidrs, fmt.Sprintf("10.0.%d.0/24", i))
	}
	a.refused("RulesPerSecurityGroupLimitExceeded", "AuthorizeSecurityGroupIngress",
		allow(id, "tcp", 80, 80, append(cidrs, "192.0.2.0/24")...))
	a.must("AuthorizeSecurityGroupIngress", allow(id, "tcp", 80, 80, cidrs...))
	a.refused("RulesPerSecurityGroupLimitExceeded", "AuthorizeSecurityGroupIngress", allow(id, "tcp", 1, 1, "10.0.0.0/8"))
	a.must("AuthorizeSecurityGroupIngress", about(id, wire.Object{
		"IpProtocol": "-1", "Ipv6Ranges": wire.List(wire.Object{"CidrIpv6": "::/0"}),
	}))
	a.refused("RulesPerSecurityGroupLimitExceeded", "AuthorizeSecurityGroupIngress", about(id, pair("tcp", 1, id)))
	a.must("AuthorizeSecurityGroupEgress", allow(id, "tcp", 1, 1, "10.0.0.0/8"))
}

func TestRevoke(t *testing.T) {
	a := newAccount(t, 0)
	id := a.group(a.vpc("10.0.0.0/16"), "web")
	// As the provider does with a new group.
	out := a.must("RevokeSecurityGroupEgress", allow(id, "-1", 0, 0, "0.0.0.0/0"))
	if gone := out.Objects("RevokedSecurityGroupRules"); len(gone) != 1 || gone[0].Text("CidrIpv4") != "0.0.0.0/0" ||
		!gone[0].Bool("IsEgress") {
		t.Errorf("revoked: %v", out)
	}
	a.refused("InvalidPermission.NotFound", "RevokeSecurityGroupEgress", about(id, wire.Object{
		"IpProtocol": "-1", "FromPort": 0, "ToPort": 0, "Ipv6Ranges": wire.List(wire.Object{"CidrIpv6": "::/0"}),
	}))
	made := a.must("AuthorizeSecurityGroupIngress", allow(id, "tcp", 80, 80, "10.0.0.0/8", "11.0.0.0/8", "12.0.0.0/8"))
	rule := made.Objects("SecurityGroupRules")[0].Text("SecurityGroupRuleId")
	for _, in := range []wire.Object{
		allow(id, "tcp", 80, 81, "10.0.0.0/8"), allow(id, "udp", 80, 80, "10.0.0.0/8"),
		allow(id, "tcp", 80, 80, "10.0.0.0/9"),
		allow(id, "tcp", 80, 80, "10.0.0.0/8", "13.0.0.0/8"), about(id, pair("tcp", 80, id)),
	} {
		a.refused("InvalidPermission.NotFound", "RevokeSecurityGroupIngress", in)
	}
	byID := wire.Object{"GroupId": id, "SecurityGroupRuleIds": wire.Strings(rule)}
	a.refused("InvalidSecurityGroupRuleId.NotFound", "RevokeSecurityGroupEgress", byID)
	a.refused("InvalidSecurityGroupRuleId.NotFound", "RevokeSecurityGroupIngress", wire.Object{
		"GroupId": id, "SecurityGroupRuleIds": wire.Strings(rule, "sgr-1"),
	})
	both := allow(id, "tcp", 80, 80, "11.0.0.0/8")
	both["SecurityGroupRuleIds"] = wire.Strings(rule)
	a.refused("InvalidParameterCombination", "RevokeSecurityGroupIngress", both)
	expect(t, short(a.described(id).Objects("IpPermissions")), "tcp 80-80 [10.0.0.0/8 11.0.0.0/8 12.0.0.0/8]")
	a.must("RevokeSecurityGroupIngress", byID)
	a.refused("InvalidSecurityGroupRuleId.NotFound", "DescribeSecurityGroupRules", wire.Object{
		"SecurityGroupRuleIds": wire.Strings(rule),
	})
	withText := allow(id, "6", 80, 80, "11.0.0.0/8")
	withText.Objects("IpPermissions")[0].Objects("IpRanges")[0]["Description"] = "not what it has"
	a.must("RevokeSecurityGroupIngress", withText)
	expect(t, short(a.described(id).Objects("IpPermissions")), "tcp 80-80 [12.0.0.0/8]")
}

// The parameters from before there were permissions.
func TestOldParameters(t *testing.T) {
	a := newAccount(t, 0)
	vpc := a.vpc("10.0.0.0/16")
	id := a.group(vpc, "web")
	db := a.group(vpc, "db")
	in := wire.Object{"GroupId": id, "IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "CidrIp": "0.0.0.0/0"}
	a.must("AuthorizeSecurityGroupIngress", in)
	a.must("AuthorizeSecurityGroupIngress", wire.Object{"GroupName": "web", "SourceSecurityGroupName": "db"})
	expect(t, short(a.described(id).Objects("IpPermissions")),
		"icmp -1--1 ["+db+"]", "tcp 0-65535 ["+db+"]", "tcp 22-22 [0.0.0.0/0]", "udp 0-65535 ["+db+"]")
	a.must("RevokeSecurityGroupIngress", in)
	a.must("RevokeSecurityGroupIngress", wire.Object{"GroupName": "web", "SourceSecurityGroupName": "db"})
	a.must("RevokeSecurityGroupEgress", wire.Object{"GroupId": id, "IpProtocol": "-1", "CidrIp": "0.0.0.0/0"})
	if left := a.rulesOf(id); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	a.refused("InvalidGroup.NotFound", "AuthorizeSecurityGroupIngress", wire.Object{
		"GroupId": id, "SourceSecurityGroupName": "none",
	})
	a.must("DeleteSecurityGroup", wire.Object{"GroupName": "db"})
}

func TestModifyRules(t *testing.T) {
	a := newAccount(t, 0)
	vpc := a.vpc("10.0.0.0/16")
	id, db := a.group(vpc, "web"), a.group(vpc, "db")
	made := a.must("AuthorizeSecurityGroupIngress", wire.Object{
		"GroupId": id, "IpPermissions": allow(id, "tcp", 80, 80, "10.0.0.0/8", "11.0.0.0/8")["IpPermissions"],
		"TagSpecifications": wire.List(
			wire.Object{"ResourceType": "security-group-rule", "Tags": wire.List(wire.Object{"Key": "a", "Value": "b"})}),
	}).Objects("SecurityGroupRules")
	rule := made[0].Text("SecurityGroupRuleId")
	modify := func(group, rule string, to wire.Object) wire.Object {
		return wire.Object{"GroupId": group, "SecurityGroupRules": wire.List(
			wire.Object{"SecurityGroupRuleId": rule, "SecurityGroupRule": to})}
	}
	toDB := wire.Object{"IpProtocol": "tcp", "FromPort": 1, "ToPort": 2, "ReferencedGroupId": db, "Description": "db"}
	toBlock := func(cidr string) wire.Object {
		return wire.Object{"IpProtocol": "tcp", "FromPort": 80, "ToPort": 80, "CidrIpv4": cidr}
	}
	two := toBlock("10.0.0.0/8")
	two["CidrIpv6"] = "::/0"
	for _, test := range []struct {
		code string
		in   wire.Object
	}{
		{"InvalidPermission.Duplicate", modify(id, rule, toBlock("11.0.0.0/8"))},
		{"InvalidSecurityGroupRuleId.NotFound", modify(id, "sgr-1", toBlock("12.0.0.0/8"))},
		{"InvalidSecurityGroupRuleId.NotFound", modify(db, rule, toDB)},
		{"InvalidGroup.NotFound", modify("sg-1", rule, toDB)},
		{"InvalidGroup.NotFound", modify(id, rule, wire.Object{"IpProtocol": "-1", "ReferencedGroupId": "sg-1"})},
		{"InvalidParameterCombination", modify(id, rule, two)},
		{"InvalidParameterValue", modify(id, rule, toBlock("12.0.0.0"))},
		{"MissingParameter", modify(id, rule, wire.Object{"IpProtocol": "-1"})},
		{"MissingParameter", wire.Object{"GroupId": id}},
	} {
		a.refused(test.code, "ModifySecurityGroupRules", test.in)
	}
	a.must("ModifySecurityGroupRules", modify(id, rule, toDB))
	expect(t, short(a.described(id).Objects("IpPermissions")), "tcp 1-2 ["+db+"=db]", "tcp 80-80 [11.0.0.0/8]")
	kept := a.must("DescribeSecurityGroupRules", wire.Object{
		"SecurityGroupRuleIds": wire.Strings(rule),
	}).Objects("SecurityGroupRules")
	if len(kept) != 1 || kept[0].Objects("Tags")[0].Text("Key") != "a" || kept[0].Has("CidrIpv4") ||
		kept[0].Text("GroupId") != id ||
		kept[0].Object("ReferencedGroupInfo").Text("UserId") != "000000000000" {
		t.Errorf("rule: %v", kept)
	}
	a.refused("DependencyViolation", "DeleteSecurityGroup", wire.Object{"GroupId": db})
	a.must("ModifySecurityGroupRules", modify(id, rule, wire.Object{"IpProtocol": "-1", "CidrIpv6": "::/0"}))
	expect(t, short(a.described(id).Objects("IpPermissions")), "-1 - [::/0]", "tcp 80-80 [11.0.0.0/8]")
	a.must("DeleteSecurityGroup", wire.Object{"GroupId": db})
}

func TestRuleDescriptions(t *testing.T) {
	a := newAccount(t, 0)
	id := a.group(a.vpc("10.0.0.0/16"), "web")
	a.must("AuthorizeSecurityGroupIngress", allow(id, "tcp", 80, 80, "10.0.0.0/8"))
	described := func(cidr, description string) wire.Object {
		in := allow(id, "tcp", 80, 80, cidr)
		in.Objects("IpPermissions")[0].Objects("IpRanges")[0]["Description"] = description
		return in
	}
	a.must("UpdateSecurityGroupRuleDescriptionsIngress", described("10.0.0.0/8", "one"))
	expect(t, short(a.described(id).Objects("IpPermissions")), "tcp 80-80 [10.0.0.0/8=one]")
	a.must("UpdateSecurityGroupRuleDescriptionsIngress", described("10.0.0.0/8", ""))
	expect(t, short(a.described(id).Objects("IpPermissions")), "tcp 80-80 [10.0.0.0/8]")
	a.refused("InvalidPermission.NotFound", "UpdateSecurityGroupRuleDescriptionsIngress", described("11.0.0.0/8", "one"))
	a.refused("InvalidPermission.NotFound", "UpdateSecurityGroupRuleDescriptionsEgress", described("10.0.0.0/8", "one"))
	a.refused("MissingParameter", "UpdateSecurityGroupRuleDescriptionsEgress", wire.Object{"GroupId": id})
	a.refused("InvalidGroup.NotFound", "UpdateSecurityGroupRuleDescriptionsEgress", wire.Object{"GroupId": "sg-1"})

	byID := func(rule, description string) wire.Object {
		return wire.Object{"GroupId": id, "SecurityGroupRuleDescriptions": wire.List(
			wire.Object{"SecurityGroupRuleId": rule, "Description": description})}
	}
	egress := a.rulesOf(id)[0].Text("SecurityGroupRuleId")
	a.must("UpdateSecurityGroupRuleDescriptionsEgress", byID(egress, "all"))
	expect(t, short(a.described(id).Objects("IpPermissionsEgress")), "-1 - [0.0.0.0/0=all]")
	if rule := a.rulesOf(id)[0]; rule.Text("Description") != "all" || rule.Text("SecurityGroupRuleId") != egress {
		t.Errorf("rule: %v", rule)
	}
	a.refused("InvalidSecurityGroupRuleId.NotFound", "UpdateSecurityGroupRuleDescriptionsIngress", byID(egress, "all"))
	a.refused("InvalidParameterValue", "UpdateSecurityGroupRuleDescriptionsEgress", byID(egress, "a|b"))
}

func TestRuleTags(t *testing.T) {
	a := newAccount(t, 0)
	id := a.group(a.vpc("10.0.0.0/16"), "web")
	rule := a.rulesOf(id)[0].Text("SecurityGroupRuleId")
	tag := func(rule string) wire.Object {
		return wire.Object{"Resources": wire.Strings(rule, id), "Tags": wire.List(wire.Object{"Key": "Name", "Value": "out"})}
	}
	a.must("CreateTags", tag(rule))
	a.refused("InvalidSecurityGroupRuleId.NotFound", "CreateTags", tag("sgr-1"))
	found := a.must("DescribeTags", with("resource-id", rule)).Objects("Tags")
	if len(found) != 1 || found[0].Text("ResourceType") != "security-group-rule" || found[0].Text("Value") != "out" {
		t.Errorf("tags: %v", found)
	}
	if found := a.must("DescribeTags", with("key", "Name")).Objects("Tags"); len(found) != 2 {
		t.Errorf("tags: %v", found)
	}
	for name, value := range map[string]string{
		"tag:Name": "out", "tag-key": "Name", "security-group-rule-id": rule, "group-name": "web",
	} {
		rules := a.must("DescribeSecurityGroupRules", with(name, value)).Objects("SecurityGroupRules")
		if len(rules) != 1 || rules[0].Text("SecurityGroupRuleId") != rule {
			t.Errorf("filter %s: %v", name, rules)
		}
	}
	a.must("DeleteTags", wire.Object{"Resources": wire.Strings(rule), "Tags": wire.List(wire.Object{"Key": "Name"})})
	if found := a.must("DescribeTags", with("resource-id", rule)).Objects("Tags"); len(found) != 0 {
		t.Errorf("tags: %v", found)
	}
	a.refused("InvalidParameterValue", "DescribeSecurityGroupRules", with("colour", "red"))
}

func TestGroupFilters(t *testing.T) {
	a := newAccount(t, 0)
	vpc := a.vpc("10.0.0.0/16")
	id := a.group(vpc, "web")
	a.group(vpc, "other")
	peers := wire.Object{
		"IpRanges":         wire.List(wire.Object{"CidrIp": "192.0.2.0/24"}),
		"Ipv6Ranges":       wire.List(wire.Object{"CidrIpv6": "2001:db8::/32"}),
		"PrefixListIds":    wire.List(wire.Object{"PrefixListId": "pl-1"}),
		"UserIdGroupPairs": wire.List(wire.Object{"GroupId": id}),
	}
	for action, port := range map[string]int{"AuthorizeSecurityGroupIngress": 10, "AuthorizeSecurityGroupEgress": 20} {
		p := peers.Clone()
		p["IpProtocol"], p["FromPort"], p["ToPort"] = "tcp", port, port+1
		a.must(action, about(id, p))
	}
	filters := map[string]string{
		"group-id": id, "group-name": "w?b", "description": "of web", "ip-permission.from-port": "10",
		"ip-permission.to-port": "11", "egress.ip-permission.from-port": "20", "egress.ip-permission.to-port": "21",
	}
	for name, value := range map[string]string{
		"cidr": "192.0.2.0/24", "ipv6-cidr": "2001:db8::/32", "prefix-list-id": "pl-1", "group-id": id, "group-name": "web",
		"protocol": "tcp",
	} {
		filters["ip-permission."+name], filters["egress.ip-permission."+name] = value, value
	}
	for name, value := range filters {
		found := a.must("DescribeSecurityGroups", with(name, value)).Objects("SecurityGroups")
		if len(found) != 1 || found[0].Text("GroupId") != id {
			t.Errorf("filter %s: %d found", name, len(found))
		}
		if found := a.must("DescribeSecurityGroups", with(name, "none")).Objects("SecurityGroups"); len(found) != 0 {
			t.Errorf("filter %s: %d have what none has", name, len(found))
		}
	}
	for name, value := range map[string]string{
		"vpc-id": vpc, "owner-id": "000000000000", "egress.ip-permission.protocol": "-1",
	} {
		if found := a.must("DescribeSecurityGroups", with(name, value)).Objects("SecurityGroups"); len(found) != 3 {
			t.Errorf("filter %s: %d found", name, len(found))
		}
	}
	a.must("RevokeSecurityGroupIngress", about(id, wire.Object{
		"IpProtocol": "tcp", "FromPort": 10, "ToPort": 11, "IpRanges": peers["IpRanges"],
	}))
	found := a.must("DescribeSecurityGroups", with("ip-permission.cidr", "192.0.2.0/24")).Objects("SecurityGroups")
	if len(found) != 0 {
		t.Errorf("a rule that was revoked is found: %v", found)
	}
}
