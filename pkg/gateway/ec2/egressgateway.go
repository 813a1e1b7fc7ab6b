package ec2

import (
	"context"
	"slices"

	"hive-test/pkg/gateway/wire"
)

func (s *Service) egressActions() map[string]handler {
	return map[string]handler{
		"CreateEgressOnlyInternetGateway":    s.createEgress,
		"DeleteEgressOnlyInternetGateway":    s.deleteEgress,
		"DescribeEgressOnlyInternetGateways": s.describeEgress,
	}
}

// createEgress makes an egress-only internet gateway, which is attached to its VPC at once and as long as it is there.
func (s *Service) createEgress(ctx context.Context, in wire.Object) (wire.Object, error) {
	if err := require(in, "VpcId"); err != nil {
		return nil, err
	}
	tags, err := tagsFor(in, egressKind().bucket)
	if err != nil {
		return nil, err
	}
	id, vpc := s.idFor(ctx, "eigw", in, 0), in.Text("VpcId")
	if err := s.link(ctx, vpcKind(), vpc, egressKind().ref(id), nil); err != nil {
		return nil, err
	}
	made, err := s.create(ctx, egressKind(), in, wire.Object{
		"EgressOnlyInternetGatewayId": id, "Tags": tags,
		"Attachments": wire.List(wire.Object{"State": "attached", "VpcId": vpc}),
	})
	answer := wire.Object{"EgressOnlyInternetGateway": made}
	if in.Has("ClientToken") {
		answer["ClientToken"] = in["ClientToken"]
	}
	return answer, err
}

func (s *Service) deleteEgress(ctx context.Context, in wire.Object) (wire.Object, error) {
	if err := require(in, "EgressOnlyInternetGatewayId"); err != nil {
		return nil, err
	}
	id := in.Text("EgressOnlyInternetGatewayId")
	gateway, err := s.get(ctx, egressKind(), id)
	if err == nil {
		err = s.remove(ctx, egressKind(), id, nil)
	}
	if err != nil {
		return nil, err
	}
	s.unuse(ctx, vpcKind(), gatewayVPC(gateway), egressKind().ref(id))
	return wire.Object{"ReturnCode": true}, nil
}

// describeEgress tells of the gateways that are there. Unlike others, an id that is not is no error: AWS's provider takes
// one for a failure.
func (s *Service) describeEgress(ctx context.Context, in wire.Object) (wire.Object, error) {
	match, err := filter(egressKind().filters, in)
	if err != nil {
		return nil, err
	}
	list, err := s.all(ctx, egressKind())
	if err != nil {
		return nil, err
	}
	ids := in.Texts("EgressOnlyInternetGatewayIds")
	return page(egressKind().list, matching(list, func(o wire.Object) bool {
		return match(o) && (len(ids) == 0 || slices.Contains(ids, o.Text("EgressOnlyInternetGatewayId")))
	}), in, egressKind().id)
}
