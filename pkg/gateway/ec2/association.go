package ec2

import (
	"context"

	"hive-test/pkg/gateway/wire"
)

// tableMember is the association with a route table: of a subnet or an internet gateway that has one of its own, and of
// a VPC with its main one. As it is there and not in the table, each has one, and it goes with whoever has it.
const tableMember = "_table"

// tableUser is a resource that has an association.
type tableUser struct {
	kind kind
	of   wire.Object
}

// vpc returns the id of the VPC that the resource is in.
func (u tableUser) vpc() string {
	if u.kind.bucket == gatewayKind().bucket {
		return gatewayVPC(u.of)
	}
	return u.of.Text("VpcId")
}

// association returns a new one with a table.
func (s *Service) association(ctx context.Context, table string) wire.Object {
	return wire.Object{
		"RouteTableId": table, "RouteTableAssociationId": newID(ctx, "rtbassoc"), dueMember: s.Now().Add(s.Lag).UnixMicro(),
	}
}

// tableUsers returns all that is associated with a table.
func (s *Service) tableUsers(ctx context.Context) ([]tableUser, error) {
	var users []tableUser
	for _, k := range []kind{vpcKind(), subnetKind(), gatewayKind()} {
		list, err := s.all(ctx, k)
		if err != nil {
			return nil, err
		}
		for _, o := range list {
			if o.Has(tableMember) {
				users = append(users, tableUser{k, o})
			}
		}
	}
	return users, nil
}

// userOf returns what has an association.
func (s *Service) userOf(ctx context.Context, association string) (tableUser, error) {
	users, err := s.tableUsers(ctx)
	if err != nil {
		return tableUser{}, err
	}
	for _, user := range users {
		if user.of.Object(tableMember).Text("RouteTableAssociationId") == association {
			return user, nil
		}
	}
	return tableUser{}, noAssociation(association)
}

func noAssociation(id string) error {
	return wire.Errorf("InvalidAssociationID.NotFound", "The association ID '%s' does not exist", id)
}

// associationState is that of an association by now.
func (s *Service) associationState(association wire.Object) wire.Object {
	if association.Int(dueMember) > s.Now().UnixMicro() {
		return wire.Object{"State": "associating"}
	}
	return wire.Object{"State": "associated"}
}

// shownAssociation returns the association that a VPC, a subnet or a gateway has as DescribeRouteTables tells of it.
func (s *Service) shownAssociation(of wire.Object) wire.Object {
	association := of.Object(tableMember)
	shown := wire.Object{
		"Main": false, "RouteTableId": association["RouteTableId"],
		"RouteTableAssociationId": association["RouteTableAssociationId"],
		"AssociationState":        s.associationState(association),
	}
	switch {
	case of.Has("SubnetId"):
		shown["SubnetId"] = of["SubnetId"]
	case of.Has("InternetGatewayId"):
		shown["GatewayId"] = of["InternetGatewayId"]
	default:
		shown["Main"] = true
	}
	return shown
}

func (s *Service) associateTable(ctx context.Context, in wire.Object) (wire.Object, error) {
	if err := require(in, "RouteTableId"); err != nil {
		return nil, err
	}
	if in.Has("SubnetId") == in.Has("GatewayId") {
		return nil, wire.Errorf("InvalidParameterCombination", "Exactly one of subnetId and gatewayId must be given")
	}
	table := in.Text("RouteTableId")
	user, err := s.userToBe(ctx, in)
	if err == nil {
		err = s.sameNetwork(ctx, table, user)
	}
	if err != nil {
		return nil, err
	}
	made, err := s.useTable(ctx, user.kind, user.of.Text(user.kind.id), table, func(o wire.Object) error {
		if o.Has(tableMember) {
			return wire.Errorf("Resource.AlreadyAssociated",
				"the specified association for route table %s conflicts with an existing association", table)
		}
		return nil
	})
	return wire.Object{
		"AssociationId": made["RouteTableAssociationId"], "AssociationState": s.associationState(made),
	}, err
}

// userToBe returns the subnet or gateway that a request is to associate with a table.
func (s *Service) userToBe(ctx context.Context, in wire.Object) (user tableUser, err error) {
	user.kind = subnetKind()
	id := in.Text("SubnetId")
	if in.Has("GatewayId") {
		user.kind = gatewayKind()
		user.kind.code, user.kind.called = "InvalidGatewayID.NotFound", "gateway ID"
		id = in.Text("GatewayId")
	}
	user.of, err = s.get(ctx, user.kind, id)
	return user, err
}

// sameNetwork is an error where a table is not there, or in another VPC.
func (s *Service) sameNetwork(ctx context.Context, id string, user tableUser) error {
	table, err := s.get(ctx, tableKind(), id)
	if err != nil {
		return err
	}
	if table.Text("VpcId") != user.vpc() {
		return invalid("route table %s and %s %s belong to different networks",
			id, user.kind.bucket, user.of.Text(user.kind.id))
	}
	return nil
}

// useTable gives something an association with a table that it is allowed to have, and returns that. It is noted in the
// table before, so that the table is not deleted meanwhile.
func (s *Service) useTable(
	ctx context.Context, k kind, id, table string, allowed func(wire.Object) error,
) (wire.Object, error) {
	made := s.association(ctx, table)
	ref := k.ref(id) + "/" + made.Text("RouteTableAssociationId")
	if err := s.link(ctx, tableKind(), table, ref, nil); err != nil {
		return nil, err
	}
	_, err := s.change(ctx, k, id, func(o wire.Object) error {
		if err := allowed(o); err != nil {
			return err
		}
		if k.bucket == vpcKind().bucket {
			s.moveMain(o, table)
		}
		o[tableMember] = made
		return nil
	})
	if err != nil {
		s.unuse(ctx, tableKind(), table, ref)
	}
	return made, err
}

// moveMain has a VPC be used by the table that was its main one, and not by the one that will be.
func (s *Service) moveMain(vpc wire.Object, table string) {
	uses := vpc.Object(usesMember)
	if uses == nil {
		uses = wire.Object{}
	}
	was := vpc.Object(tableMember).Text("RouteTableId")
	uses[tableKind().ref(was)] = s.note(wire.Object{namedMember: vpc["VpcId"]})
	delete(uses, tableKind().ref(table))
	vpc[usesMember] = uses
}

// leaveTable takes away the note that something has in the table that it was associated with.
func (s *Service) leaveTable(ctx context.Context, k kind, was wire.Object) {
	if association := was.Object(tableMember); association != nil {
		ref := k.ref(was.Text(k.id)) + "/" + association.Text("RouteTableAssociationId")
		s.unuse(ctx, tableKind(), association.Text("RouteTableId"), ref)
	}
}

// stillHas is an error where something has not that association any more.
func stillHas(association string) func(wire.Object) error {
	return func(o wire.Object) error {
		if o.Object(tableMember).Text("RouteTableAssociationId") != association {
			return noAssociation(association)
		}
		return nil
	}
}

func (s *Service) disassociateTable(ctx context.Context, in wire.Object) (wire.Object, error) {
	if err := require(in, "AssociationId"); err != nil {
		return nil, err
	}
	id := in.Text("AssociationId")
	user, err := s.userOf(ctx, id)
	if err != nil {
		return nil, err
	}
	if user.kind.bucket == vpcKind().bucket {
		return nil, invalid("cannot disassociate the main route table association %s", id)
	}
	_, err = s.change(ctx, user.kind, user.of.Text(user.kind.id), func(o wire.Object) error {
		if err := stillHas(id)(o); err != nil {
			return err
		}
		delete(o, tableMember)
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.leaveTable(ctx, user.kind, user.of)
	return returned(), nil
}

// replaceAssociation has what is associated with a table be with another one, by a new association. With that of a VPC
// another table is its main one.
func (s *Service) replaceAssociation(ctx context.Context, in wire.Object) (wire.Object, error) {
	if err := require(in, "AssociationId", "RouteTableId"); err != nil {
		return nil, err
	}
	id, table := in.Text("AssociationId"), in.Text("RouteTableId")
	user, err := s.userOf(ctx, id)
	if err == nil {
		err = s.sameNetwork(ctx, table, user)
	}
	if err != nil {
		return nil, err
	}
	made, err := s.useTable(ctx, user.kind, user.of.Text(user.kind.id), table, stillHas(id))
	if err != nil {
		return nil, err
	}
	s.leaveTable(ctx, user.kind, user.of)
	return wire.Object{
		"NewAssociationId": made["RouteTableAssociationId"], "AssociationState": s.associationState(made),
	}, nil
}
