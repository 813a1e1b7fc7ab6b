package ec2

import (
	"context"
	"slices"
	"strings"

	"hive-test/pkg/gateway/wire"
)

func (s *Service) gatewayActions() map[string]handler {
	return map[string]handler{
		"CreateInternetGateway": s.createGateway, "DeleteInternetGateway": s.deleteGateway,
		"AttachInternetGateway": s.attachGateway, "DetachInternetGateway": s.detachGateway,
		"DescribeInternetGateways": func(ctx context.Context, in wire.Object) (wire.Object, error) {
			return s.describe(ctx, gatewayKind(), in)
		},
	}
}

func (s *Service) createGateway(ctx context.Context, in wire.Object) (wire.Object, error) {
	tags, err := tagsFor(in, gatewayKind().bucket)
	if err != nil {
		return nil, err
	}
	made, err := s.create(ctx, gatewayKind(), in, wire.Object{
		"InternetGatewayId": newID(ctx, "igw"), "OwnerId": s.Account, "Attachments": []any{}, "Tags": tags,
	})
	return wire.Object{"InternetGateway": made}, err
}

// attachGateway attaches a gateway to a VPC that has none. It is noted in the VPC before: of two that are attached to it at
// once, one is refused.
func (s *Service) attachGateway(ctx context.Context, in wire.Object) (wire.Object, error) {
	if err := require(in, "InternetGatewayId", "VpcId"); err != nil {
		return nil, err
	}
	id, vpc := in.Text("InternetGatewayId"), in.Text("VpcId")
	gateway, err := s.get(ctx, gatewayKind(), id)
	if err == nil {
		err = notAttached(gateway)
	}
	if err != nil {
		return nil, err
	}
	// Each attempt has its own note: one that fails must not take away that of one that does not.
	ref := gatewayKind().ref(id) + "/" + newID(ctx, "attach")
	if err := s.link(ctx, vpcKind(), vpc, ref, hasNoGateway); err != nil {
		return nil, err
	}
	_, err = s.change(ctx, gatewayKind(), id, func(gateway wire.Object) error {
		if err := notAttached(gateway); err != nil {
			return err
		}
		gateway[attachedMember] = ref
		gateway["Attachments"] = wire.List(wire.Object{"State": "attaching", "VpcId": vpc})
		s.later(gateway, wire.Object{"Attachments": wire.List(wire.Object{"State": "available", "VpcId": vpc})})
		return nil
	})
	if err != nil {
		s.unuse(ctx, vpcKind(), vpc, ref)
	}
	return returned(), err
}

// attachedMember is the note of a gateway in the VPC that it is attached to.
const attachedMember = "_attached"

// notAttached is an error where a gateway is attached to a VPC.
func notAttached(gateway wire.Object) error {
	if vpc := gatewayVPC(gateway); vpc != "" {
		return wire.Errorf("Resource.AlreadyAssociated", "resource %s is already attached to network %s",
			gateway.Text("InternetGatewayId"), vpc)
	}
	return nil
}

// gatewayVPC returns the id of the VPC that an internet gateway, of either kind, is attached to; empty where it is to none.
func gatewayVPC(gateway wire.Object) string {
	for _, attachment := range gateway.Objects("Attachments") {
		return attachment.Text("VpcId")
	}
	return ""
}

// hasNoGateway is an error where an internet gateway is attached to a VPC.
func hasNoGateway(vpc wire.Object, uses map[string]any) error {
	for ref := range uses {
		if strings.HasPrefix(ref, gatewayKind().ref("")) {
			return invalid("Network %s already has an internet gateway attached", vpc.Text("VpcId"))
		}
	}
	return nil
}

func (s *Service) detachGateway(ctx context.Context, in wire.Object) (wire.Object, error) {
	if err := require(in, "InternetGatewayId", "VpcId"); err != nil {
		return nil, err
	}
	id, vpc := in.Text("InternetGatewayId"), in.Text("VpcId")
	if _, err := s.get(ctx, vpcKind(), vpc); err != nil {
		return nil, err
	}
	var was wire.Object
	_, err := s.change(ctx, gatewayKind(), id, func(gateway wire.Object) error {
		if gatewayVPC(gateway) != vpc {
			return wire.Errorf("Gateway.NotAttached", "resource %s is not attached to network %s", id, vpc)
		}
		if err := s.unmapped(ctx, vpc); err != nil {
			return err
		}
		was = gateway.Clone()
		gateway["Attachments"] = []any{}
		for _, name := range []string{attachedMember, tableMember, dueMember, thenMember} {
			delete(gateway, name)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.unuse(ctx, vpcKind(), vpc, was.Text(attachedMember))
	s.leaveTable(ctx, gatewayKind(), was)
	return returned(), nil
}

// unmapped is an error where a network interface in a VPC has a public address: an Elastic IP address, or one that its
// instance has while it runs.
func (s *Service) unmapped(ctx context.Context, vpc string) error {
	list, err := s.all(ctx, interfaceKind())
	if err == nil {
		list, err = s.withAddresses(ctx, list)
	}
	if err != nil {
		return err
	}
	if slices.ContainsFunc(list, func(eni wire.Object) bool { return eni.Text("VpcId") == vpc && hasPublic(eni) }) {
		return wire.Errorf("DependencyViolation", "Network %s has some mapped public address(es). "+
			"Please unmap those public address(es) before detaching the gateway.", vpc)
	}
	return nil
}

// hasPublic reports whether one of an interface's addresses is associated with a public one.
func hasPublic(eni wire.Object) bool {
	return slices.ContainsFunc(eni.Objects("PrivateIpAddresses"), func(o wire.Object) bool { return o.Has("Association") })
}

func (s *Service) deleteGateway(ctx context.Context, in wire.Object) (wire.Object, error) {
	if err := require(in, "InternetGatewayId"); err != nil {
		return nil, err
	}
	id := in.Text("InternetGatewayId")
	err := s.remove(ctx, gatewayKind(), id, func(gateway wire.Object) error {
		if gatewayVPC(gateway) != "" {
			return wire.Errorf("DependencyViolation",
				"The internetGateway '%s' has dependencies and cannot be deleted.", id)
		}
		return nil
	})
	return returned(), err
}
