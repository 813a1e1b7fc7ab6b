package ec2

import (
	"context"

	"hive-test/pkg/gateway/wire"
)

// modifyRules has the cluster take other rules in place of rules, which it knows no ids of: the old ones are revoked, and the
// new ones authorized.
func (f *Front) modifyRules(ctx context.Context, l life, in wire.Object) (wire.Object, error) {
	there, err := f.inCluster(ctx, l, in)
	if err != nil {
		return nil, err
	}
	if !there {
		return f.Service.Do(ctx, "ModifySecurityGroupRules", in)
	}
	group, err := f.Service.get(ctx, groupKind(), in.Text("GroupId"))
	if err != nil {
		return nil, err
	}
	before := group.Clone().Objects(rulesMember)
	answer, err := f.Service.Do(ctx, "ModifySecurityGroupRules", in) // which checks them
	if err != nil {
		return nil, err
	}
	if group, err = f.Service.get(ctx, groupKind(), in.Text("GroupId")); err != nil {
		return nil, err
	}
	for _, update := range in.Objects("SecurityGroupRules") {
		if err := f.replaceRule(ctx, before, group, update.Text("SecurityGroupRuleId")); err != nil {
			return nil, err
		}
	}
	return answer, nil
}

// replaceRule has the cluster allow what a rule of a group allows now in place of what it did. Descriptions are here alone.
func (f *Front) replaceRule(ctx context.Context, before []wire.Object, group wire.Object, id string) error {
	byID := wire.Object{"SecurityGroupRuleId": id}
	was, err := findRule(before, byID)
	if err != nil {
		return err
	}
	rules := group.Objects(rulesMember)
	is, err := findRule(rules, byID)
	if err != nil || ruleKey(before[was]) == ruleKey(rules[is]) {
		return err
	}
	direction := "Ingress"
	if rules[is].Bool("IsEgress") {
		direction = "Egress"
	}
	for _, call := range []struct {
		action string
		rule   wire.Object
	}{{"AuthorizeSecurityGroup", rules[is]}, {"RevokeSecurityGroup", before[was]}} {
		_, err := f.cluster.Call(ctx, call.action+direction, wire.Object{
			"GroupId": group.Text("GroupId"), "IpPermissions": permissionsToSend([]wire.Object{call.rule}),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// permissionsToSend are rules of both directions as permissions of a request.
func permissionsToSend(rules []wire.Object) []any {
	all := append(permissions(rules, false), permissions(rules, true)...)
	for _, p := range all {
		for name, v := range wire.AsObject(p) {
			if empty(v) {
				delete(wire.AsObject(p), name)
			}
		}
	}
	return all
}
