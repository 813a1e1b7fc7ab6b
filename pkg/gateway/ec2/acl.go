package ec2

import (
	"context"
	"maps"
	"strings"

	"hive-test/pkg/gateway/wire"
)

// createDefaultACL makes the network ACL that comes with a VPC, and lets everything through.
func (s *Service) createDefaultACL(ctx context.Context, vpc string) error {
	entry := func(egress bool, number int64, action string) wire.Object {
		return wire.Object{
			"CidrBlock": "0.0.0.0/0", "Egress": egress, "Protocol": "-1", "RuleAction": action, "RuleNumber": number,
		}
	}
	const last = 32767
	_, err := s.create(ctx, aclKind(), nil, wire.Object{
		"NetworkAclId": newID(ctx, "acl"), "VpcId": vpc, "OwnerId": s.Account, "IsDefault": true, "Tags": []any{},
		"Associations": []any{}, partMember: vpc,
		"Entries": wire.List(
			entry(true, 100, "allow"), entry(true, last, "deny"), entry(false, 100, "allow"), entry(false, last, "deny"),
		),
	})
	return err
}

func (s *Service) aclActions() map[string]handler {
	return map[string]handler{
		"DescribeNetworkAcls": func(ctx context.Context, in wire.Object) (wire.Object, error) {
			return s.describeAs(ctx, aclKind(), in, s.showACLs)
		},
	}
}

// showACLs returns network ACLs with the subnets that they are of: all of the VPC's, as each VPC has but the one that came
// with it.
func (s *Service) showACLs(ctx context.Context, list []wire.Object) ([]wire.Object, error) {
	subnets, err := s.all(ctx, subnetKind())
	if err != nil {
		return nil, err
	}
	of := map[string][]wire.Object{}
	for _, subnet := range subnets {
		id, vpc := subnet.Text("SubnetId"), subnet.Text("VpcId")
		of[vpc] = append(of[vpc], wire.Object{
			"NetworkAclAssociationId": "aclassoc" + strings.TrimPrefix(id, "subnet"), "SubnetId": id,
		})
	}
	shown := make([]wire.Object, len(list))
	for i, o := range list {
		acl := maps.Clone(o)
		for _, association := range of[acl.Text("VpcId")] {
			association["NetworkAclId"] = acl["NetworkAclId"]
		}
		acl["Associations"] = wire.List(of[acl.Text("VpcId")]...)
		shown[i] = acl
	}
	return shown, nil
}
