package ec2

import (
	"context"
	"net/netip"
	"slices"

	"hive-test/pkg/gateway/wire"
)

// mostBlocks is how many blocks of IPv4 a VPC may have, AWS's quota where nobody has asked for more.
const mostBlocks = 5

// blocksMember holds the blocks of IPv4 of a VPC, each with the id of its association. The first is the VPC's own.
const blocksMember = "CidrBlockAssociationSet"

// associateBlock gives a VPC one more block of IPv4, for subnets, and a route to it in each of its tables.
func (s *Service) associateBlock(ctx context.Context, in wire.Object) (wire.Object, error) {
	if err := require(in, "VpcId", "CidrBlock"); err != nil {
		return nil, err
	}
	cidr, err := sized(in.Text("CidrBlock"), "InvalidVpc.Range")
	if err != nil {
		return nil, err
	}
	made := s.newBlock(ctx, cidr)
	vpc, err := s.change(ctx, vpcKind(), in.Text("VpcId"), func(vpc wire.Object) error {
		have := vpc.Objects(blocksMember)
		if len(have) >= mostBlocks {
			return wire.Errorf("CidrBlockLimitExceeded", "The VPC '%s' has %d CIDR blocks, which is the limit", in.Text("VpcId"), len(have))
		}
		for _, other := range blocksOf(vpc) {
			if other.Overlaps(cidr) {
				return wire.Errorf("InvalidVpc.Range", "The CIDR '%s' conflicts with another block of the VPC: '%s'", cidr, other)
			}
		}
		vpc[blocksMember] = append(listIn(vpc, blocksMember), made)
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = s.eachTable(ctx, vpc, func(table wire.Object) {
		table["Routes"] = append([]any{localRoute("DestinationCidrBlock", cidr.String())}, listIn(table, "Routes")...)
	})
	return wire.Object{"VpcId": vpc["VpcId"], "CidrBlockAssociation": made}, err
}

// newBlock is a block of a VPC.
func (s *Service) newBlock(ctx context.Context, cidr netip.Prefix) wire.Object {
	return wire.Object{
		"AssociationId": newID(ctx, "vpc-cidr-assoc"), "CidrBlock": cidr.String(),
		"CidrBlockState": wire.Object{"State": "associated"},
	}
}

// blocksOf are the blocks of IPv4 of a VPC.
func blocksOf(vpc wire.Object) []netip.Prefix {
	var blocks []netip.Prefix
	for _, association := range vpc.Objects(blocksMember) {
		if prefix, err := netip.ParsePrefix(association.Text("CidrBlock")); err == nil {
			blocks = append(blocks, prefix)
		}
	}
	return blocks
}

// disassociateBlock takes a block from a VPC in which no subnet lies.
func (s *Service) disassociateBlock(ctx context.Context, in wire.Object) (wire.Object, error) {
	if err := require(in, "AssociationId"); err != nil {
		return nil, err
	}
	id := in.Text("AssociationId")
	vpcs, err := s.all(ctx, vpcKind())
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(vpcs, func(vpc wire.Object) bool { return slices.Contains(vpc.At(blocksMember+".AssociationId"), id) })
	if at < 0 {
		return nil, noBlock(id)
	}
	var gone wire.Object
	vpc, err := s.change(ctx, vpcKind(), vpcs[at].Text("VpcId"), func(vpc wire.Object) error {
		i := slices.IndexFunc(vpc.Objects(blocksMember), func(a wire.Object) bool { return a.Text("AssociationId") == id })
		if i < 0 {
			return noBlock(id)
		}
		gone = vpc.Objects(blocksMember)[i].Clone()
		if i == 0 {
			return wire.Errorf("OperationNotPermitted", "The vpc CIDR block with association ID %s may not be disassociated. "+
				"It is the primary IPv4 CIDR block of the VPC", id)
		}
		if s.occupied(ctx, vpc, gone.Text("CidrBlock")) {
			return wire.Errorf("DependencyViolation", "The vpc CIDR block with association ID %s has dependencies and cannot be "+
				"disassociated", id)
		}
		vpc[blocksMember] = slices.Delete(listIn(vpc, blocksMember), i, i+1)
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = s.eachTable(ctx, vpc, func(table wire.Object) {
		table["Routes"] = slices.DeleteFunc(listIn(table, "Routes"), func(v any) bool {
			route := wire.AsObject(v)
			return route.Text("DestinationCidrBlock") == gone.Text("CidrBlock") && route.Text("GatewayId") == "local"
		})
	})
	gone["CidrBlockState"] = wire.Object{"State": "disassociating"}
	return wire.Object{"VpcId": vpc["VpcId"], "CidrBlockAssociation": gone}, err
}

// listIn is a list that an object has; nil where it has none.
func listIn(o wire.Object, member string) []any {
	list, _ := o[member].([]any)
	return list
}

func noBlock(id string) error {
	return wire.Errorf("InvalidVpcCidrBlockAssociationID.NotFound", "The vpc CIDR block association ID '%s' does not exist", id)
}

// occupied reports whether a subnet lies in a block of its VPC.
func (s *Service) occupied(ctx context.Context, vpc wire.Object, cidr string) bool {
	outer, err := netip.ParsePrefix(cidr)
	if err != nil {
		return false
	}
	for _, with := range s.uses(ctx, vpc) {
		text, _ := with.(string)
		if inner, err := netip.ParsePrefix(text); err == nil && within(inner, outer) {
			return true
		}
	}
	return false
}

// eachTable changes all route tables of a VPC.
func (s *Service) eachTable(ctx context.Context, vpc wire.Object, edit func(table wire.Object)) error {
	tables, err := s.all(ctx, tableKind())
	if err != nil {
		return err
	}
	for _, table := range tables {
		if table.Text("VpcId") != vpc.Text("VpcId") {
			continue
		}
		_, err := s.change(ctx, tableKind(), table.Text("RouteTableId"), func(table wire.Object) error {
			edit(table)
			return nil
		})
		if err != nil && !tableKind().isMissing(err) { // one that is deleted meanwhile needs no change
			return err
		}
	}
	return nil
}
