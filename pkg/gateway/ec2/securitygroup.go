package ec2

import (
	"context"

	"hive-test/pkg/gateway/wire"
)

// createDefaultGroup makes the security group that comes with a VPC.
func (s *Service) createDefaultGroup(ctx context.Context, vpc string) error {
	id := newID("sg")
	_, err := s.create(ctx, groupKind(), nil, wire.Object{
		"GroupId": id, "GroupName": "default", "Description": "default VPC security group", "VpcId": vpc,
		"OwnerId": s.Account, "SecurityGroupArn": s.arn("security-group/" + id), "Tags": []any{}, partMember: vpc,
	})
	return err
}
