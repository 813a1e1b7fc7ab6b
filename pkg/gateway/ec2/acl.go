package ec2

import (
	"context"

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
		"NetworkAclId": newID("acl"), "VpcId": vpc, "OwnerId": s.Account, "IsDefault": true, "Tags": []any{},
		"Associations": []any{}, partMember: vpc,
		"Entries": wire.List(
			entry(true, 100, "allow"), entry(true, last, "deny"), entry(false, 100, "allow"), entry(false, last, "deny"),
		),
	})
	return err
}
