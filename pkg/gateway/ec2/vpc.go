package ec2

import (
	"context"
	"errors"
	"sync"

	"hive-test/pkg/gateway/wire"
)

func (s *Service) vpcActions() map[string]handler {
	return map[string]handler{
		"CreateVpc": s.createVPC, "DeleteVpc": s.deleteVPC, "ModifyVpcAttribute": s.modifyVPCAttribute,
		"DescribeVpcAttribute": s.describeVPCAttribute, "ModifyVpcTenancy": s.modifyVPCTenancy,
		"AssociateVpcCidrBlock": s.associateBlock, "DisassociateVpcCidrBlock": s.disassociateBlock,
		"DescribeVpcs": func(ctx context.Context, in wire.Object) (wire.Object, error) {
			return s.describe(ctx, vpcKind(), in)
		},
	}
}

// createVPC makes a VPC with all that comes with one: a main route table, a default security group and a default network
// ACL. They are made before it, and are told of once it is there.
func (s *Service) createVPC(ctx context.Context, in wire.Object) (wire.Object, error) {
	if err := require(in, "CidrBlock"); err != nil {
		return nil, err
	}
	cidr, err := sized(in.Text("CidrBlock"), "InvalidVpc.Range")
	if err != nil {
		return nil, err
	}
	tags, err := tagsFor(in, "vpc")
	if err != nil {
		return nil, err
	}
	id, tenancy := newID(ctx, "vpc"), in.Text("InstanceTenancy")
	if tenancy == "" {
		tenancy = "default"
	}
	main := s.association(ctx, newID(ctx, "rtb"))
	if err := atOnce(
		func() error { return s.createMainTable(ctx, id, cidr.String(), main) },
		func() error { return s.createDefaultGroup(ctx, id) },
		func() error { return s.createDefaultACL(ctx, id) },
	); err != nil {
		return nil, err
	}
	vpc := wire.Object{
		"VpcId": id, "CidrBlock": cidr.String(), "State": "pending", "DhcpOptionsId": "dopt-" + id[len("vpc-"):],
		"OwnerId": s.Account, "InstanceTenancy": tenancy, "IsDefault": false, "Tags": tags,
		blocksMember: wire.List(s.newBlock(ctx, cidr)), "Ipv6CidrBlockAssociationSet": []any{}, tableMember: main,
		attributesMember: wire.Object{
			"EnableDnsSupport": true, "EnableDnsHostnames": false, "EnableNetworkAddressUsageMetrics": false,
		},
	}
	s.later(vpc, wire.Object{"State": "available"})
	made, err := s.create(ctx, vpcKind(), in, vpc)
	return wire.Object{"Vpc": made}, err
}

// atOnce does several things at once, waits for all, and returns their errors.
func atOnce(things ...func() error) error {
	errs := make([]error, len(things))
	var all sync.WaitGroup
	for i, do := range things {
		all.Go(func() { errs[i] = do() })
	}
	all.Wait()
	return errors.Join(errs...)
}

// attributesMember holds what DescribeVpcAttribute tells, by name.
const attributesMember = "_attributes"

// deleteVPC deletes a VPC that nothing is in but what came with it, and that then.
func (s *Service) deleteVPC(ctx context.Context, in wire.Object) (wire.Object, error) {
	if err := require(in, "VpcId"); err != nil {
		return nil, err
	}
	id := in.Text("VpcId")
	if err := s.remove(ctx, vpcKind(), id, s.unused(ctx, vpcKind(), id)); err != nil {
		return nil, err
	}
	for _, k := range []kind{tableKind(), groupKind(), aclKind()} {
		list, err := s.Store.All(ctx, k.bucket)
		if err != nil {
			return nil, err
		}
		for _, o := range list {
			if o.Text(partMember) == id {
				_ = s.Store.Delete(ctx, k.bucket, o.Text(k.id), nil) // one that stays is not told of
			}
		}
	}
	return returned(), nil
}

// vpcAttributes are the names that DescribeVpcAttribute takes, with those of the members that hold them.
func vpcAttributes() map[string]string {
	return map[string]string{
		"enableDnsSupport": "EnableDnsSupport", "enableDnsHostnames": "EnableDnsHostnames",
		"enableNetworkAddressUsageMetrics": "EnableNetworkAddressUsageMetrics",
	}
}

func (s *Service) describeVPCAttribute(ctx context.Context, in wire.Object) (wire.Object, error) {
	if err := require(in, "VpcId", "Attribute"); err != nil {
		return nil, err
	}
	vpc, err := s.get(ctx, vpcKind(), in.Text("VpcId"))
	if err != nil {
		return nil, err
	}
	name, known := vpcAttributes()[in.Text("Attribute")]
	if !known {
		return nil, invalid("Value (%s) for parameter attribute is invalid.", in.Text("Attribute"))
	}
	return wire.Object{
		"VpcId": vpc.Text("VpcId"), name: wire.Object{"Value": vpc.Object(attributesMember).Bool(name)},
	}, nil
}

func (s *Service) modifyVPCAttribute(ctx context.Context, in wire.Object) (wire.Object, error) {
	if err := require(in, "VpcId"); err != nil {
		return nil, err
	}
	_, err := s.change(ctx, vpcKind(), in.Text("VpcId"), func(vpc wire.Object) error {
		attributes := vpc.Object(attributesMember)
		changed := false
		for _, name := range vpcAttributes() {
			if in.Has(name) {
				attributes[name], changed = in.Object(name).Bool("Value"), true
			}
		}
		if !changed {
			return wire.Errorf(wire.MissingParameter, "The request must contain an attribute")
		}
		vpc[attributesMember] = attributes
		return nil
	})
	return returned(), err
}

func (s *Service) modifyVPCTenancy(ctx context.Context, in wire.Object) (wire.Object, error) {
	if err := require(in, "VpcId", "InstanceTenancy"); err != nil {
		return nil, err
	}
	if in.Text("InstanceTenancy") != "default" {
		return nil, invalid("Value (%s) for parameter instanceTenancy is invalid.", in.Text("InstanceTenancy"))
	}
	_, err := s.change(ctx, vpcKind(), in.Text("VpcId"), func(vpc wire.Object) error {
		vpc["InstanceTenancy"] = "default"
		return nil
	})
	return wire.Object{"ReturnValue": true}, err
}
