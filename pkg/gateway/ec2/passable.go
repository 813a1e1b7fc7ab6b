package ec2

import (
	"context"
	"maps"
	"slices"

	"hive-test/pkg/gateway/wire"
)

// learn has the cluster's resources that a request names, and that are not known here, be known.
func (f *Front) learn(ctx context.Context, in wire.Object) error {
	unknown := map[string]bool{}
	walk(in, func(text string) {
		k, is := f.kindOf(text)
		if !is || !f.home[k.bucket] || !k.wellFormed(text) {
			return
		}
		if _, err := f.Service.get(ctx, k, text); err != nil {
			unknown[k.bucket] = true
		}
	})
	for _, l := range f.lives { // what is named by a name
		if name := in.Text(l.named); l.named != "" && name != "" && f.home[l.kind.bucket] {
			if _, err := f.Service.get(ctx, l.kind, f.namedID(l.kind, name)); err != nil {
				unknown[l.kind.bucket] = true
			}
		}
	}
	if name := in.Object("Placement").Text("GroupName"); name != "" && f.home[placementKind().bucket] {
		unknown[placementKind().bucket] = true
	}
	return f.refresh(ctx, slices.Collect(maps.Keys(unknown))...)
}

// passable is a request as the cluster can be asked: without what names resources that are here alone. Those must be there.
func (f *Front) passable(ctx context.Context, in wire.Object) (wire.Object, error) {
	out, err := f.without(ctx, in.Clone())
	if err != nil {
		return nil, err
	}
	passed := wire.AsObject(out)
	if passed == nil {
		passed = wire.Object{}
	}
	if !f.home[keyKind().bucket] {
		delete(passed, "KeyName")
	}
	if placement := passed.Object("Placement"); placement != nil && !f.home[placementKind().bucket] {
		delete(placement, "GroupName")
		delete(placement, "GroupId")
	}
	if !f.home[groupKind().bucket] {
		delete(passed, "SecurityGroups")
	}
	return passed, nil
}

// without returns a value without the ids of what is here alone; nil: nothing of it is left.
func (f *Front) without(ctx context.Context, v any) (any, error) {
	switch v := v.(type) {
	case string:
		alone, err := f.isHere(ctx, v)
		if err != nil || alone {
			return nil, err
		}
		return v, nil
	case []any:
		var left []any
		for _, e := range v {
			kept, err := f.without(ctx, e)
			if err != nil {
				return nil, err
			}
			if kept != nil {
				left = append(left, kept)
			}
		}
		if left == nil {
			return nil, nil
		}
		return left, nil
	case wire.Object:
		for name, e := range v {
			kept, err := f.without(ctx, e)
			if err != nil {
				return nil, err
			}
			if kept == nil {
				delete(v, name)
			}
			if kept != nil {
				v[name] = kept
			}
		}
		if len(v) == 0 {
			return nil, nil
		}
	}
	return v, nil
}

// isHere reports whether a text is the id of a resource that is here alone.
func (f *Front) isHere(ctx context.Context, text string) (bool, error) {
	k, is := f.kindOf(text)
	if !is || !k.wellFormed(text) {
		return false, nil
	}
	o, err := f.Service.get(ctx, k, text)
	if err != nil {
		if f.home[k.bucket] {
			return false, nil // the cluster knows better
		}
		return false, err
	}
	return !o.Bool(homeMember), nil
}

// inTermsOf is a request in the terms that hive takes: it has no ids of rules, and key pairs by their names.
func (f *Front) inTermsOf(ctx context.Context, l life, action string, in wire.Object) (wire.Object, error) {
	switch action {
	case "RevokeSecurityGroupIngress", "RevokeSecurityGroupEgress":
		return f.byPermissions(ctx, in)
	case "DeleteKeyPair":
		if id := in.Text("KeyPairId"); id != "" && !in.Has("KeyName") {
			pair, err := f.Service.get(ctx, l.kind, id)
			return wire.Object{"KeyName": pair.Text("KeyName")}, err
		}
	}
	return in, nil
}

// byPermissions is a request to revoke rules that names them by what they allow.
func (f *Front) byPermissions(ctx context.Context, in wire.Object) (wire.Object, error) {
	ids := in.Texts("SecurityGroupRuleIds")
	if len(ids) == 0 {
		return in, nil
	}
	group, err := f.Service.get(ctx, groupKind(), in.Text("GroupId"))
	if err != nil {
		return nil, err
	}
	rules := group.Objects(rulesMember)
	var wanted []wire.Object
	for _, id := range ids {
		i, err := findRule(rules, wire.Object{"SecurityGroupRuleId": id})
		if err != nil {
			return nil, err
		}
		wanted = append(wanted, rules[i])
	}
	return wire.Object{"GroupId": in.Text("GroupId"), "IpPermissions": permissionsToSend(wanted)}, nil
}

// callChange makes a call that changes something. Where hive does that wrong, it is asked for it in another way.
func (f *Front) callChange(ctx context.Context, action string, in wire.Object) (wire.Object, error) {
	if action == "ReplaceRouteTableAssociation" {
		user, err := f.userOf(ctx, in.Text("AssociationId"))
		if err != nil {
			return nil, err
		}
		same := user.of.Object(tableMember).Text("RouteTableId") == in.Text("RouteTableId")
		if same && user.kind.bucket == subnetKind().bucket {
			return f.associateAnew(ctx, user.of, in)
		}
	}
	return f.cluster.Call(ctx, action, in)
}

// associateAnew has a subnet be associated with the table that it is associated with by a new association. Replaced, hive
// keeps the old one beside it, and the table can never be deleted (hive a216d6f5, handlers/ec2/routetable/service_impl.go).
func (f *Front) associateAnew(ctx context.Context, subnet, in wire.Object) (wire.Object, error) {
	_, err := f.cluster.Call(ctx, "DisassociateRouteTable", wire.Object{"AssociationId": in["AssociationId"]})
	if err != nil {
		return nil, err
	}
	return f.cluster.Call(ctx, "AssociateRouteTable", wire.Object{
		"SubnetId": subnet["SubnetId"], "RouteTableId": in["RouteTableId"],
	})
}
