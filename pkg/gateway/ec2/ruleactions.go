package ec2

import (
	"context"
	"slices"
	"strings"

	"hive-test/pkg/gateway/wire"
)

func (s *Service) ruleActions() map[string]handler {
	return map[string]handler{
		"AuthorizeSecurityGroupIngress": s.authorize(false), "AuthorizeSecurityGroupEgress": s.authorize(true),
		"RevokeSecurityGroupIngress": s.revoke(false), "RevokeSecurityGroupEgress": s.revoke(true),
		"UpdateSecurityGroupRuleDescriptionsIngress": s.describeRulesAnew(false),
		"UpdateSecurityGroupRuleDescriptionsEgress":  s.describeRulesAnew(true),
		"DescribeSecurityGroupRules":                 s.describeRules, "ModifySecurityGroupRules": s.modifyRules,
	}
}

// authorize adds rules to a group, all or none. The groups that they name note it before.
func (s *Service) authorize(egress bool) handler {
	return func(ctx context.Context, in wire.Object) (wire.Object, error) {
		tags, err := tagsFor(in, ruleKind().bucket)
		if err != nil {
			return nil, err
		}
		group, rules, err := s.asked(ctx, in, egress)
		if err != nil {
			return nil, err
		}
		for _, rule := range rules {
			s.complete(ctx, rule, group, egress, tags)
		}
		if repeated(rules) != nil {
			return nil, invalid("The same permission must not appear multiple times")
		}
		if err := s.notePeers(ctx, group, rules); err != nil {
			return nil, err
		}
		_, err = s.change(ctx, groupKind(), group.Text("GroupId"), func(group wire.Object) error {
			all := append(group.Objects(rulesMember), rules...)
			setRules(group, all)
			return fit(all)
		})
		if err != nil {
			s.forgetPeers(ctx, rules)
			return nil, err
		}
		return wire.Object{"Return": true, "SecurityGroupRules": wire.List(rules...)}, nil
	}
}

// revoke takes rules from a group, all or none.
func (s *Service) revoke(egress bool) handler {
	return func(ctx context.Context, in wire.Object) (wire.Object, error) {
		group, wanted, err := s.asked(ctx, in, egress)
		if err != nil {
			return nil, err
		}
		var revoked []wire.Object
		_, err = s.change(ctx, groupKind(), group.Text("GroupId"), func(group wire.Object) error {
			revoked = nil // of a try before
			rules := group.Objects(rulesMember)
			for _, rule := range wanted {
				i, err := findRule(rules, rule)
				if err != nil {
					return err
				}
				revoked = append(revoked, rules[i])
				rules = slices.Delete(rules, i, i+1)
			}
			setRules(group, rules)
			return nil
		})
		if err != nil {
			return nil, err
		}
		s.forgetPeers(ctx, revoked)
		return wire.Object{
			"Return": true, "RevokedSecurityGroupRules": revokedRules(revoked), "UnknownIpPermissions": []any{},
		}, nil
	}
}

// revokedRules tells of rules as they were.
func revokedRules(rules []wire.Object) []any {
	var all []wire.Object
	for _, rule := range rules {
		was := wire.Object{}
		for _, name := range []string{
			"SecurityGroupRuleId", "GroupId", "IsEgress", "IpProtocol", "FromPort", "ToPort", "CidrIpv4", "CidrIpv6",
			"PrefixListId", "Description",
		} {
			was[name] = rule[name]
		}
		if peer := rule.Object("ReferencedGroupInfo"); peer != nil {
			was["ReferencedGroupId"] = peer["GroupId"]
		}
		all = append(all, was)
	}
	return wire.List(all...)
}

// describeRulesAnew sets descriptions of rules of a group, all or none.
func (s *Service) describeRulesAnew(egress bool) handler {
	return func(ctx context.Context, in wire.Object) (wire.Object, error) {
		group, wanted, err := s.asked(ctx, in, egress)
		if err != nil {
			return nil, err
		}
		_, err = s.change(ctx, groupKind(), group.Text("GroupId"), func(group wire.Object) error {
			rules := group.Objects(rulesMember)
			for _, rule := range wanted {
				i, err := findRule(rules, rule)
				if err != nil {
					return err
				}
				if err := describeRule(rules[i], rule.Text("Description")); err != nil {
					return err
				}
			}
			setRules(group, rules)
			return nil
		})
		return returned(), err
	}
}

// modifyRules makes other rules of rules, which keep their ids, tags and direction.
func (s *Service) modifyRules(ctx context.Context, in wire.Object) (wire.Object, error) {
	if err := require(in, "GroupId", "SecurityGroupRules"); err != nil {
		return nil, err
	}
	group, err := s.get(ctx, groupKind(), in.Text("GroupId"))
	if err != nil {
		return nil, err
	}
	wanted, err := updates(in)
	if err != nil {
		return nil, err
	}
	if err := s.notePeers(ctx, group, wanted); err != nil {
		return nil, err
	}
	var before []wire.Object
	_, err = s.change(ctx, groupKind(), group.Text("GroupId"), func(group wire.Object) error {
		before = nil // of a try before
		rules := group.Objects(rulesMember)
		for _, rule := range wanted {
			i, err := findRule(rules, rule)
			if err != nil {
				return err
			}
			before = append(before, rules[i])
			rules[i] = replaced(rules[i], rule)
		}
		setRules(group, rules)
		return fit(rules)
	})
	if err != nil {
		s.forgetPeers(ctx, wanted)
		return nil, err
	}
	s.forgetPeers(ctx, before)
	return returned(), nil
}

// updates are the rules that ModifySecurityGroupRules asks for, with their ids.
func updates(in wire.Object) ([]wire.Object, error) {
	var wanted []wire.Object
	seen := map[string]bool{}
	for _, update := range in.Objects("SecurityGroupRules") {
		if err := require(update, "SecurityGroupRuleId", "SecurityGroupRule"); err != nil {
			return nil, err
		}
		id := update.Text("SecurityGroupRuleId")
		if seen[id] {
			return nil, invalid("The same security group rule ID must not appear multiple times")
		}
		seen[id] = true
		p, err := permissionOf(update.Object("SecurityGroupRule"))
		if err != nil {
			return nil, err
		}
		rules, err := rulesOf(p)
		if err != nil {
			return nil, err
		}
		rules[0]["SecurityGroupRuleId"] = id
		wanted = append(wanted, rules[0])
	}
	return wanted, nil
}

// replaced is a new rule with what stays of the old one.
func replaced(before, rule wire.Object) wire.Object {
	rule = rule.Clone()
	for _, name := range []string{"SecurityGroupRuleArn", "GroupId", "GroupOwnerId", "IsEgress", "Tags", ofMember} {
		rule[name] = before[name]
	}
	return rule
}

// describeRules answers with the rules of all groups.
func (s *Service) describeRules(ctx context.Context, in wire.Object) (wire.Object, error) {
	match, err := filter(ruleKind().filters, in)
	if err != nil {
		return nil, err
	}
	rules, err := s.rules(ctx)
	if err != nil {
		return nil, err
	}
	if ids := in.Texts(ruleKind().ids); len(ids) > 0 {
		var chosen []wire.Object
		for _, id := range ids {
			i, err := findRule(rules, wire.Object{"SecurityGroupRuleId": id})
			if err != nil {
				return nil, err
			}
			chosen = append(chosen, rules[i])
		}
		rules = chosen
	}
	rules = slices.DeleteFunc(rules, func(rule wire.Object) bool { return !match(rule) })
	return page(ruleKind().list, rules, in, ruleKind().id)
}

// rules returns those of all groups.
func (s *Service) rules(ctx context.Context) ([]wire.Object, error) {
	groups, err := s.all(ctx, groupKind())
	if err != nil {
		return nil, err
	}
	var rules []wire.Object
	for _, group := range groups {
		rules = append(rules, group.Objects(rulesMember)...)
	}
	return rules, nil
}

// isRule reports whether an id is that of a rule.
func isRule(id string) bool { return strings.HasPrefix(id, ruleKind().prefix+"-") }

// groupOf returns the id of the group that has a rule.
func (s *Service) groupOf(ctx context.Context, rule string) (string, error) {
	rules, err := s.rules(ctx)
	if err != nil {
		return "", err
	}
	i, err := findRule(rules, wire.Object{"SecurityGroupRuleId": rule})
	if err != nil {
		return "", err
	}
	return rules[i].Text("GroupId"), nil
}

// changeRule changes a rule in its group.
func (s *Service) changeRule(ctx context.Context, id string, change func(rule wire.Object) error) error {
	group, err := s.groupOf(ctx, id)
	if err != nil {
		return err
	}
	_, err = s.change(ctx, groupKind(), group, func(group wire.Object) error {
		rules := group.Objects(rulesMember)
		i, err := findRule(rules, wire.Object{"SecurityGroupRuleId": id})
		if err != nil {
			return err
		}
		if err := change(rules[i]); err != nil {
			return err
		}
		setRules(group, rules)
		return nil
	})
	return err
}

// asked returns the group that a request is about, and the rules: as permissions, by their ids, or by the parameters
// from before there were permissions.
func (s *Service) asked(ctx context.Context, in wire.Object, egress bool) (wire.Object, []wire.Object, error) {
	group, err := s.groupFor(ctx, in)
	if err != nil {
		return nil, nil, err
	}
	rules := in.Objects("SecurityGroupRuleDescriptions")
	for _, id := range in.Texts(ruleKind().ids) {
		rules = append(rules, wire.Object{"SecurityGroupRuleId": id})
	}
	all := append(in.Objects("IpPermissions"), oldPermissions(in)...)
	switch {
	case len(all) > 0 && len(rules) > 0:
		return nil, nil, wire.Errorf("InvalidParameterCombination",
			"IP permissions and security group rule IDs cannot be specified together")
	case len(all)+len(rules) == 0:
		return nil, nil, wire.Errorf(wire.MissingParameter, "The request must contain the parameter ipPermissions")
	}
	for _, p := range all {
		more, err := rulesOf(p)
		if err != nil {
			return nil, nil, err
		}
		rules = append(rules, more...)
	}
	for _, rule := range rules {
		rule["IsEgress"] = egress
		if err := s.resolvePeer(ctx, group, rule); err != nil {
			return nil, nil, err
		}
	}
	return group, rules, nil
}

// oldPermissions are those of a request that says in its own parameters what permissions say since. A group as the
// source stands for all of TCP, UDP and ICMP.
func oldPermissions(in wire.Object) []wire.Object {
	if name := in.Text("SourceSecurityGroupName"); name != "" {
		pair := wire.List(wire.Object{"GroupName": name, "UserId": in["SourceSecurityGroupOwnerId"]})
		return []wire.Object{
			{"IpProtocol": "tcp", "FromPort": 0, "ToPort": mostPort, "UserIdGroupPairs": pair},
			{"IpProtocol": "udp", "FromPort": 0, "ToPort": mostPort, "UserIdGroupPairs": pair},
			{"IpProtocol": "icmp", "FromPort": anyPort, "ToPort": anyPort, "UserIdGroupPairs": pair},
		}
	}
	if !in.Has("CidrIp") && !in.Has("IpProtocol") {
		return nil
	}
	p := wire.Object{"IpProtocol": in["IpProtocol"], "FromPort": in["FromPort"], "ToPort": in["ToPort"]}
	if in.Has("CidrIp") {
		p["IpRanges"] = wire.List(wire.Object{"CidrIp": in["CidrIp"]})
	}
	return []wire.Object{p}
}

// complete sets what a new rule of a group has beside what it allows.
func (s *Service) complete(ctx context.Context, rule, group wire.Object, egress bool, tags []any) {
	id := newID(ctx, ruleKind().prefix)
	rule["SecurityGroupRuleId"], rule["SecurityGroupRuleArn"] = id, s.arn("security-group-rule/"+id)
	rule["GroupId"], rule["GroupOwnerId"], rule["IsEgress"] = group["GroupId"], s.Account, egress
	rule["Tags"], rule[ofMember] = tags, group["GroupName"]
}

// resolvePeer finds the group that a rule names by its name: one of the same VPC.
func (s *Service) resolvePeer(ctx context.Context, group, rule wire.Object) error {
	peer, name := rule.Object("ReferencedGroupInfo"), rule.Text(peerMember)
	if peer == nil || peer.Text("GroupId") != "" {
		return nil
	}
	all, err := s.all(ctx, groupKind())
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(o wire.Object) bool {
		return o.Text("VpcId") == group.Text("VpcId") && o.Text("GroupName") == name
	})
	if i < 0 {
		return groupKind().missingError(name)
	}
	peer["GroupId"] = all[i].Text("GroupId")
	return nil
}

// notePeers has the groups that rules name note that, all or none.
func (s *Service) notePeers(ctx context.Context, group wire.Object, rules []wire.Object) error {
	for _, rule := range rules {
		if !rule.Has("ReferencedGroupInfo") {
			continue
		}
		if err := s.notePeer(ctx, group, rule); err != nil {
			s.forgetPeers(ctx, rules)
			return err
		}
	}
	return nil
}

// notePeer has the group that a rule names note that, unless it is the rule's own. The note is the rule's as it is now:
// when the rule is changed, the new one has another.
func (s *Service) notePeer(ctx context.Context, group, rule wire.Object) error {
	peer := rule.Object("ReferencedGroupInfo")
	id := peer.Text("GroupId")
	if user := peer.Text("UserId"); user != "" && user != s.Account {
		return groupKind().missingError(id)
	}
	peer["UserId"] = s.Account
	if id == group.Text("GroupId") {
		rule[peerMember] = group.Text("GroupName")
		return nil
	}
	note := groupKind().ref(group.Text("GroupId")) + "/" + newID(ctx, "use")
	err := s.use(ctx, groupKind(), id, note, nil, func(other wire.Object, _ map[string]any) error {
		rule[peerMember] = other.Text("GroupName")
		if other.Text("VpcId") != group.Text("VpcId") {
			return wire.Errorf("InvalidGroup.NotFound",
				"You have specified two resources that belong to different networks.")
		}
		return nil
	})
	if err == nil {
		rule[noteMember] = note
	}
	return err
}

// forgetPeers has the groups that rules named note that they do not any more.
func (s *Service) forgetPeers(ctx context.Context, rules []wire.Object) {
	for _, rule := range rules {
		if note := rule.Text(noteMember); note != "" {
			s.unuse(ctx, groupKind(), rule.Object("ReferencedGroupInfo").Text("GroupId"), note)
		}
	}
}
