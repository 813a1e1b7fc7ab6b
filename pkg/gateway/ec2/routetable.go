package ec2

import (
	"context"

	"hive-test/pkg/gateway/wire"
)

// createMainTable makes the route table that comes with a VPC.
func (s *Service) createMainTable(ctx context.Context, vpc, cidr string) error {
	id := newID("rtb")
	_, err := s.create(ctx, tableKind(), nil, wire.Object{
		"RouteTableId": id, "VpcId": vpc, "OwnerId": s.Account, "Tags": []any{}, "PropagatingVgws": []any{},
		"Routes": wire.List(localRoute(cidr)), partMember: vpc,
		"Associations": wire.List(wire.Object{
			"Main": true, "RouteTableAssociationId": newID("rtbassoc"), "RouteTableId": id,
			"AssociationState": wire.Object{"State": "associated"},
		}),
	})
	return err
}

// localRoute is the route to a VPC's own addresses, which each of its tables has.
func localRoute(cidr string) wire.Object {
	return wire.Object{
		"DestinationCidrBlock": cidr, "GatewayId": "local", "Origin": "CreateRouteTable", "State": "active",
	}
}
