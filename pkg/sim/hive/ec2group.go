package simhive

import (
	"cmp"
	"slices"
	"strings"
)

// groupActions are those about security groups, which spx has (spinifex/handlers/ec2/vpc/security_group.go).
//
//	CreateSecurityGroup   :55 GroupName and VpcId; InvalidGroup.Duplicate; a rule for everything out
//	DeleteSecurityGroup   :144 by GroupId, whoever uses it
//	Authorize…            :309 InvalidPermission.Duplicate (409); of a permission protocol, ports, CidrIp and GroupId are
//	                      kept: Description, Ipv6Ranges, PrefixListIds and rule tags are dropped, and a permission of those
//	                      only becomes a rule for nothing; the older parameters (IpProtocol, CidrIp beside GroupId) are
//	                      ignored: 200 and nothing changed. The answer has no securityGroupRuleSet
//	Revoke…               :409 a rule that there is not is no error; SecurityGroupRuleId is ignored
//	DescribeSecurityGroups :187 GroupName is ignored
//
// There are no rules of their own (DescribeSecurityGroupRules, ModifySecurityGroupRules).
func groupActions() map[string]ec2Action {
	return map[string]ec2Action{
		"CreateSecurityGroup": createGroup, "DeleteSecurityGroup": deleteGroup, "DescribeSecurityGroups": describeGroups,
		"AuthorizeSecurityGroupIngress": authorize("_ingress"), "AuthorizeSecurityGroupEgress": authorize("_egress"),
		"RevokeSecurityGroupIngress": revoke("_ingress"), "RevokeSecurityGroupEgress": revoke("_egress"),
	}
}

func createGroup(c *ec2Call) item {
	if c.missing("GroupName", "VpcId") {
		return nil
	}
	if c.get(vpcs, c.text("VpcId")) == nil {
		return c.refuse("InvalidVpcID.NotFound")
	}
	for _, other := range c.all(groups) {
		if other.text("vpcId") == c.text("VpcId") && other.text("groupName") == c.text("GroupName") {
			return c.refuse("InvalidGroup.Duplicate")
		}
	}
	group := c.newGroup(newID("sg"), c.text("GroupName"), c.text("GroupDescription"), c.text("VpcId"))
	group["tagSet"] = c.tags("security-group")
	c.put(groups, group.text("groupId"), group)
	return item{"groupId": group["groupId"]}
}

// everything is the rule of a new group.
func everything() item {
	return item{"protocol": "-1", "from": 0, "to": 0, "cidr": "0.0.0.0/0", "group": ""}
}

func (c *ec2Call) newGroup(id, name, description, vpc string) item {
	return item{
		"groupId": id, "groupName": name, "groupDescription": description, "vpcId": vpc, "ownerId": c.account,
		"_ingress": []any{}, "_egress": []any{everything()},
	}
}

// askedGroup is the group that a call names; nil if it is refused.
func (c *ec2Call) askedGroup() item {
	if c.missing("GroupId") {
		return nil
	}
	group := c.get(groups, c.text("GroupId"))
	if group == nil {
		return c.refuse("InvalidGroup.NotFound")
	}
	return group
}

func deleteGroup(c *ec2Call) item {
	group := c.askedGroup()
	if group == nil {
		return nil
	}
	c.drop(groups, group.text("groupId"))
	return item{}
}

func describeGroups(c *ec2Call) item {
	return c.describe(described{
		kind: groups, id: "groupId", ids: "GroupId", set: "securityGroupInfo", missing: "InvalidGroup.NotFound",
		filters: map[string]string{
			"group-id": "groupId", "group-name": "groupName", "vpc-id": "vpcId", "description": "groupDescription",
			"ip-permission.cidr": "_ingress.cidr",
		},
		show: func(_ *ec2Call, group item) item {
			group["ipPermissions"] = permissions(group.items("_ingress"))
			group["ipPermissionsEgress"] = permissions(group.items("_egress"))
			return group
		},
	})
}

// permissions tells of rules, those of the same protocol and ports together.
func permissions(rules []item) []any {
	var order []string
	together := map[string]item{}
	for _, rule := range rules {
		key := strings.Join([]string{rule.text("protocol"), rule.text("from"), rule.text("to")}, "|")
		if together[key] == nil {
			together[key] = item{
				"ipProtocol": rule["protocol"], "fromPort": rule.number("from"), "toPort": rule.number("to"),
			}
			order = append(order, key)
		}
		permission := together[key]
		if rule.text("cidr") != "" {
			ranges, _ := permission["ipRanges"].([]any)
			permission["ipRanges"] = append(ranges, item{"cidrIp": rule["cidr"]})
		}
		if rule.text("group") != "" {
			pairs, _ := permission["groups"].([]any)
			permission["groups"] = append(pairs, item{"groupId": rule["group"]})
		}
	}
	list := []any{}
	for _, key := range order {
		list = append(list, together[key])
	}
	return list
}

// rules are those that a call asks for.
func (c *ec2Call) rules() []item {
	var rules []item
	for _, permission := range c.each("IpPermissions") {
		from, _ := permission.number("FromPort")
		to, _ := permission.number("ToPort")
		c.malformed = c.malformed || permission.malformed
		add := func(cidr, group string) {
			rules = append(rules, item{
				"protocol": cmp.Or(permission.text("IpProtocol"), "-1"), "from": from, "to": to, "cidr": cidr, "group": group,
			})
		}
		ranges, pairs := permission.each("IpRanges"), permission.each("Groups")
		for _, one := range ranges {
			if one.has("CidrIp") {
				add(one.text("CidrIp"), "")
			}
		}
		for _, one := range pairs {
			if one.has("GroupId") {
				add("", one.text("GroupId"))
			}
		}
		if len(ranges) == 0 && len(pairs) == 0 {
			add("", "")
		}
	}
	return rules
}

func sameRule(a, b item) bool {
	for _, name := range []string{"protocol", "from", "to", "cidr", "group"} {
		if a.text(name) != b.text(name) {
			return false
		}
	}
	return true
}

func hasRule(rules []item, rule item) bool {
	return slices.ContainsFunc(rules, func(other item) bool { return sameRule(rule, other) })
}

func authorize(direction string) ec2Action {
	return func(c *ec2Call) item {
		group, rules := c.askedGroup(), c.rules()
		if group == nil || c.malformed {
			return nil
		}
		kept := group.items(direction)
		for _, rule := range rules {
			if hasRule(kept, rule) {
				return c.refuse("InvalidPermission.Duplicate")
			}
		}
		group[direction] = present(append(kept, rules...))
		c.put(groups, group.text("groupId"), group)
		return item{"return": true}
	}
}

func revoke(direction string) ec2Action {
	return func(c *ec2Call) item {
		group, rules := c.askedGroup(), c.rules()
		if group == nil || c.malformed {
			return nil
		}
		kept := slices.DeleteFunc(group.items(direction), func(rule item) bool { return hasRule(rules, rule) })
		group[direction] = present(kept)
		c.put(groups, group.text("groupId"), group)
		return item{"return": true}
	}
}
