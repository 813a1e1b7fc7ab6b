package gateway_test

import (
	"context"

	"hive-test/pkg/gateway"
	"hive-test/pkg/gateway/wire"
)

// faultyEndpoints are what may be wrong with an endpoint: what the provider does when an answer is missing or empty, and
// the rules that an endpoint must keep.
func faultyEndpoints() map[string]faulty {
	all := map[string]faulty{
		// The provider warns of missing network ACLs, and goes on.
		"DescribeNetworkAcls missing": {faults: missing("DescribeNetworkAcls"), cells: map[string]string{"aws_vpc read": "works", "aws_vpc no diff": "works"}},
		"DescribeNetworkAcls empty":   {faults: empty("DescribeNetworkAcls"), cells: map[string]string{"aws_vpc read": "works"}},
		"DescribeTags missing": {faults: missing("DescribeTags"), cells: map[string]string{
			"aws_instance read": "missing DescribeTags", "aws_ec2_tag read": "missing DescribeTags",
		}},
		"DescribeTags empty": {faults: empty("DescribeTags"), cells: map[string]string{
			"aws_instance read": "works", "aws_ec2_tag read": "stub DescribeTags",
		}},
		"GetCallerIdentity missing": {faults: missing("GetCallerIdentity"), cells: map[string]string{"provider read": "missing GetCallerIdentity"}},
		"GetCallerIdentity empty":   {faults: empty("GetCallerIdentity"), cells: map[string]string{"provider read": "wrong shape GetCallerIdentity"}},
		// Errors as IAM answers them: SDK v1 does not read them, v2 does.
		"ErrorResponse to SDK v1": {
			faults: []gateway.Fault{{Action: "*", Root: "ErrorResponse"}},
			cells:  map[string]string{"aws_placement_group delete": "wrong shape DescribePlacementGroups"},
		},
		"ErrorResponse to SDK v2": {
			faults: []gateway.Fault{{Action: "*", Root: "ErrorResponse"}},
			cells:  map[string]string{"aws_key_pair delete": "works"},
		},
		// SDKs send again what is throttled, and give up at last.
		"throttled thrice": {
			faults: []gateway.Fault{{Action: "ImportKeyPair", Code: "RequestLimitExceeded", Status: 503, Times: 3}},
			cells:  map[string]string{"aws_key_pair create": "works"},
		},
		"throttled always": {
			faults: []gateway.Fault{{Action: "ImportKeyPair", Code: "RequestLimitExceeded", Status: 503}},
			cells:  map[string]string{"aws_key_pair create": "fails ImportKeyPair"}, stuck: true,
		},
		"refused by a fault of the client": {
			faults: []gateway.Fault{{Action: "ImportKeyPair", Code: "UnauthorizedOperation", Status: 403, Times: 1}},
			cells:  map[string]string{"aws_key_pair create": "fails ImportKeyPair"},
		},
		"a VPC pends forever": {
			spoil: after("DescribeVpcs", func(_, out wire.Object, err error) (wire.Object, error) {
				for _, vpc := range out.Objects("Vpcs") {
					vpc["State"] = "pending"
				}
				return out, err
			}),
			cells: map[string]string{"aws_vpc create": "stub DescribeVpcs"}, stuck: true,
		},
		"a subnet does not tell its zone": {
			spoil: drop("DescribeSubnets", "Subnets.AvailabilityZone"),
			cells: map[string]string{"aws_subnet read": "wrong shape DescribeSubnets"},
		},
		"filters are not honoured": {
			spoil: before("DescribeRouteTables", func(in wire.Object) { delete(in, "Filters") }),
			cells: map[string]string{"aws_vpc read": "stub DescribeRouteTables"},
		},
		"a volume's filters are not honoured": {
			spoil: before("DescribeVolumes", func(in wire.Object) { delete(in, "Filters") }),
			cells: map[string]string{"aws_volume_attachment create": "stub DescribeVolumes"},
		},
		"a VPC brings no default group": {
			spoil: after("DescribeSecurityGroups", func(in, out wire.Object, err error) (wire.Object, error) {
				if in.Has("Filters") {
					return wire.Object{"SecurityGroups": []any{}}, nil
				}
				return out, err
			}),
			cells: map[string]string{"aws_vpc read": "stub DescribeSecurityGroups", "aws_default_security_group create": "stub DescribeSecurityGroups"},
		},
		"ports count for all protocols": {
			spoil: func(well actions) actions {
				return func(ctx context.Context, action string, in wire.Object) (wire.Object, error) {
					if action == "RevokeSecurityGroupEgress" && len(in.Objects("IpPermissions")) > 0 {
						return nil, wire.Errorf("InvalidPermission.NotFound", "no such rule")
					}
					return well(ctx, action, in)
				}
			},
			cells: map[string]string{"aws_security_group create": "fails RevokeSecurityGroupEgress"},
		},
		"Authorize answers without rules": {
			spoil: drop("AuthorizeSecurityGroupIngress", "SecurityGroupRules"),
			cells: map[string]string{
				"aws_security_group create":                  "works",
				"aws_vpc_security_group_ingress_rule create": "wrong shape AuthorizeSecurityGroupIngress",
				"aws_vpc_security_group_egress_rule create":  "works",
			},
		},
		"descriptions of rules are dropped": {
			spoil: drop("DescribeSecurityGroups", "SecurityGroups.IpPermissions.IpRanges.Description"),
			cells: map[string]string{"aws_security_group read": "stub DescribeSecurityGroups"},
		},
		"IPv6 is dropped": {
			spoil: drop("DescribeSecurityGroups", "SecurityGroups.IpPermissions.Ipv6Ranges"),
			cells: map[string]string{"aws_security_group create": "stub AuthorizeSecurityGroupIngress"},
		},
		"a rule is authorized twice": {
			spoil: otherCode("AuthorizeSecurityGroupIngress", "InvalidPermission.Duplicate", "InvalidPermission.Exists"),
			cells: map[string]string{"aws_security_group update": "fails AuthorizeSecurityGroupIngress"},
		},
		"a ClientToken is not looked at": {
			spoil: before("RunInstances", func(in wire.Object) { delete(in, "ClientToken") }),
			cells: map[string]string{"aws_instance create": "stub RunInstances with the same ClientToken"},
		},
		"an instance has no network interface": {
			spoil: drop("DescribeInstances", "Reservations.Instances.NetworkInterfaces"),
			cells: map[string]string{"aws_instance read": "wrong shape DescribeInstances"},
		},
		"an instance that was terminated is not told of": {
			spoil: after("DescribeInstances", func(in, out wire.Object, err error) (wire.Object, error) {
				for _, state := range out.At("Reservations.Instances.State.Name") {
					if state == "terminated" {
						return nil, wire.Errorf("InvalidInstanceID.NotFound", "it is gone")
					}
				}
				return out, err
			}),
			cells: map[string]string{"aws_instance delete": "fails DescribeInstances"},
		},
		"an address that is in use no more": {
			spoil: otherCode("DisassociateAddress", "InvalidAssociationID.NotFound", "InvalidAddress.NotFound"),
			cells: map[string]string{"aws_eip_association delete": "fails DisassociateAddress"},
		},
	}
	leaves := map[string]faulty{
		"missing": {cells: map[string]string{}}, "empty": {cells: map[string]string{}, stuck: true},
	}
	for _, d := range describes() {
		lost, hollow := missing(d.action), empty(d.action)
		lostCell, hollowCell := "missing "+d.action, d.empty+" "+d.action
		if !d.leaf {
			all[d.action+" missing"] = faulty{faults: lost, cells: map[string]string{d.cell: lostCell}}
			all[d.action+" empty"] = faulty{faults: hollow, cells: map[string]string{d.cell: hollowCell}, stuck: true}
			continue
		}
		for name, more := range map[string][]gateway.Fault{"missing": lost, "empty": hollow} {
			row := leaves[name]
			row.faults = append(row.faults, more...)
			row.cells[d.cell] = map[string]string{"missing": lostCell, "empty": hollowCell}[name]
			leaves[name] = row
		}
	}
	all["what nothing depends on is missing"], all["what nothing depends on is empty"] = leaves["missing"], leaves["empty"]
	called := faulty{cells: map[string]string{}}
	for _, n := range notFound() {
		called.cells[n.cell] = "fails " + n.action
		spoil := otherCode(n.action, n.code, "NotFound")
		if inner := called.spoil; inner != nil {
			called.spoil = func(well actions) actions { return spoil(inner(well)) }
		} else {
			called.spoil = spoil
		}
	}
	all["what is gone is called otherwise"] = called
	return all
}

// absent is an action without whose answers the provider does not go on.
type absent struct {
	action, cell, empty string
	leaf                bool // nothing else of the table depends on it: such faults are tried at once
}

// describes are the actions without whose answers the provider does not go on, the cell that is the first to show it, and
// its verdict where the answer is empty.
func describes() []absent {
	return []absent{
		{"DescribeSecurityGroupRules", "aws_vpc_security_group_ingress_rule read", "stub", true},
		{"DescribeInstanceTypes", "data.aws_ec2_instance_type read", "wrong shape", false},
		{"DescribeInstanceCreditSpecifications", "aws_instance read", "stub", false},
		{"DescribeInstanceAttribute", "aws_instance read", "wrong shape", false},
		{"DescribeVpcAttribute", "aws_vpc create", "stub", false},
		{"DescribeVpcs", "aws_vpc create", "stub", false},
		{"DescribeSubnets", "aws_subnet create", "stub", false},
		{"DescribeRouteTables", "aws_vpc read", "stub", false},
		{"DescribeSecurityGroups", "aws_vpc read", "stub", false},
		{"DescribeInternetGateways", "aws_internet_gateway create", "stub", false},
		{"DescribeInstances", "aws_instance create", "stub", false},
		{"DescribeVolumes", "aws_ebs_volume create", "stub", false},
		{"DescribeAddresses", "aws_eip read", "stub", true},
		{"DescribeNetworkInterfaces", "aws_network_interface create", "stub", true},
		{"DescribeKeyPairs", "aws_key_pair read", "stub", true},
		{"DescribePlacementGroups", "aws_placement_group create", "stub", true},
		{"DescribeSnapshots", "aws_ebs_snapshot create", "stub", true},
		{"DescribeImages", "data.aws_ami read", "wrong shape", false},
		{"DescribeAvailabilityZones", "data.aws_availability_zones read", "wrong shape", false},
	}
}

// notFound are codes that the provider takes, and no others, for that something is gone.
func notFound() []struct{ code, action, cell string } {
	return []struct{ code, action, cell string }{
		{"InvalidVpcID.NotFound", "DescribeVpcs", "aws_vpc delete"},
		{"InvalidSubnetID.NotFound", "DescribeSubnets", "aws_subnet delete"},
		{"InvalidInternetGatewayID.NotFound", "DescribeInternetGateways", "aws_internet_gateway delete"},
		{"InvalidRouteTableID.NotFound", "DescribeRouteTables", "aws_route_table delete"},
		{"InvalidRoute.NotFound", "DeleteRoute", "aws_route delete"},
		{"InvalidAssociationID.NotFound", "DisassociateRouteTable", "aws_route_table_association delete"},
		{"InvalidGroup.NotFound", "DescribeSecurityGroups", "aws_security_group delete"},
		{"InvalidPermission.NotFound", "RevokeSecurityGroupIngress", "aws_security_group update"},
		{"InvalidSecurityGroupRuleId.NotFound", "DescribeSecurityGroupRules", "aws_vpc_security_group_ingress_rule delete"},
		{"InvalidKeyPair.NotFound", "DescribeKeyPairs", "aws_key_pair delete"},
		{"InvalidVolume.NotFound", "DescribeVolumes", "aws_ebs_volume delete"},
		{"InvalidSnapshot.NotFound", "DescribeSnapshots", "aws_ebs_snapshot delete"},
		{"InvalidAllocationID.NotFound", "DescribeAddresses", "aws_eip delete"},
		{"InvalidNetworkInterfaceID.NotFound", "DescribeNetworkInterfaces", "aws_network_interface delete"},
		{"InvalidPlacementGroup.Unknown", "DescribePlacementGroups", "aws_placement_group delete"},
	}
}
