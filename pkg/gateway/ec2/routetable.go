package ec2

import (
	"context"
	"maps"

	"hive-test/pkg/gateway/wire"
)

func (s *Service) tableActions() map[string]handler {
	return map[string]handler{
		"CreateRouteTable": s.createTable, "DeleteRouteTable": s.deleteTable,
		"AssociateRouteTable": s.associateTable, "DisassociateRouteTable": s.disassociateTable,
		"ReplaceRouteTableAssociation": s.replaceAssociation,
		"DescribeRouteTables": func(ctx context.Context, in wire.Object) (wire.Object, error) {
			return s.describeAs(ctx, tableKind(), in, s.showTables)
		},
	}
}

// createMainTable makes the route table that comes with a VPC, and is its main one by an association that the VPC will
// have.
func (s *Service) createMainTable(ctx context.Context, vpc, cidr string, main wire.Object) error {
	table := s.newTable(main.Text("RouteTableId"), vpc, []any{localRoute("DestinationCidrBlock", cidr)}, []any{})
	ref := vpcKind().ref(vpc) + "/" + main.Text("RouteTableAssociationId")
	table[usesMember] = wire.Object{ref: s.note(wire.Object{namedMember: table["RouteTableId"]})}
	_, err := s.create(ctx, tableKind(), nil, table)
	return err
}

// newTable is a table as it is made. It goes with its VPC: that can be deleted when it has no table but its main one.
func (s *Service) newTable(id, vpc string, routes, tags []any) wire.Object {
	return wire.Object{
		"RouteTableId": id, "VpcId": vpc, "OwnerId": s.Account, "Tags": tags, "PropagatingVgws": []any{},
		"Routes": routes, "Associations": []any{}, partMember: vpc,
	}
}

// createTable makes a table that is nobody's main one.
func (s *Service) createTable(ctx context.Context, in wire.Object) (wire.Object, error) {
	if err := require(in, "VpcId"); err != nil {
		return nil, err
	}
	tags, err := tagsFor(in, tableKind().bucket)
	if err != nil {
		return nil, err
	}
	id, vpc := s.idFor(ctx, "rtb", in, 0), in.Text("VpcId")
	var routes []any
	err = s.link(ctx, vpcKind(), vpc, tableKind().ref(id), func(vpc wire.Object, _ map[string]any) error {
		routes = localRoutes(vpc)
		return nil
	})
	if err != nil {
		return nil, err
	}
	made, err := s.create(ctx, tableKind(), in, s.newTable(id, vpc, routes, tags))
	answer := wire.Object{"RouteTable": made}
	if in.Has("ClientToken") {
		answer["ClientToken"] = in["ClientToken"]
	}
	return answer, err
}

// deleteTable deletes a table that nothing is associated with.
func (s *Service) deleteTable(ctx context.Context, in wire.Object) (wire.Object, error) {
	if err := require(in, "RouteTableId"); err != nil {
		return nil, err
	}
	id := in.Text("RouteTableId")
	table, err := s.get(ctx, tableKind(), id)
	if err == nil {
		err = s.remove(ctx, tableKind(), id, s.unused(ctx, tableKind(), id))
	}
	if err != nil {
		return nil, err
	}
	s.unuse(ctx, vpcKind(), table.Text("VpcId"), tableKind().ref(id))
	return returned(), nil
}

// showTables returns route tables with what is associated with them, and with what has become of their routes' targets.
func (s *Service) showTables(ctx context.Context, list []wire.Object) ([]wire.Object, error) {
	users, err := s.tableUsers(ctx)
	if err != nil {
		return nil, err
	}
	asked := map[string]bool{}
	for _, o := range list {
		asked[o.Text("RouteTableId")] = true
	}
	of := map[string][]wire.Object{}
	for _, user := range users {
		if id := user.of.Object(tableMember).Text("RouteTableId"); asked[id] {
			of[id] = append(of[id], s.shownAssociation(user.of))
		}
	}
	state, err := s.targetStates(ctx, list)
	if err != nil {
		return nil, err
	}
	shown := make([]wire.Object, len(list))
	for i, o := range list {
		table := maps.Clone(o)
		table["Associations"] = wire.List(of[table.Text("RouteTableId")]...)
		routes := make([]wire.Object, 0, len(table.Objects("Routes")))
		for _, route := range table.Objects("Routes") {
			routes = append(routes, state(route, table.Text("VpcId")))
		}
		table["Routes"] = wire.List(routes...)
		shown[i] = table
	}
	return shown, nil
}
