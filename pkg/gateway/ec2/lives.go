package ec2

import "hive-test/pkg/gateway/wire"

// life is how resources of a kind are made, told of, changed and ended: by which a cluster has the kind, or has it not.
type life struct {
	kind     kind
	parents  []string // buckets of the kinds that must be in the cluster, too
	create   []string // actions that make one; the cluster must do the first
	describe string
	remove   string
	// change are further actions on it. Those that the cluster does are passed on to it, and done here, too.
	change []string
	// whole means that the cluster must do all of change to have the kind.
	whole bool
	// live are the members that the cluster knows better; all others are as they were asked for here.
	live []string
	// told means that what the cluster tells of one is all that there is of it, but for its tags: it has no live.
	told bool
	// named is the member by which there is one of the kind: its id is then another one here than in the cluster.
	named string
}

// lives are those of all kinds that clusters may have, each after its parents. The others, and rules, are always here.
func lives() []life {
	return []life{
		{
			kind: vpcKind(), create: []string{"CreateVpc"}, describe: "DescribeVpcs", remove: "DeleteVpc",
			change: []string{"ModifyVpcAttribute", "ModifyVpcTenancy"}, live: []string{"State", "CidrBlock", "IsDefault"},
		},
		{
			kind: subnetKind(), parents: []string{"vpc"}, create: []string{"CreateSubnet"}, describe: "DescribeSubnets",
			remove: "DeleteSubnet", change: []string{"ModifySubnetAttribute"},
			live: []string{"State", "CidrBlock", "AvailabilityZone", "AvailabilityZoneId", "AvailableIpAddressCount", "DefaultForAz"},
		},
		{
			kind: groupKind(), parents: []string{"vpc"}, create: []string{"CreateSecurityGroup"},
			describe: "DescribeSecurityGroups", remove: "DeleteSecurityGroup", whole: true,
			change: []string{
				"AuthorizeSecurityGroupIngress", "AuthorizeSecurityGroupEgress", "RevokeSecurityGroupIngress",
				"RevokeSecurityGroupEgress",
			},
		},
		{
			kind: gatewayKind(), parents: []string{"vpc"}, create: []string{"CreateInternetGateway"},
			describe: "DescribeInternetGateways", remove: "DeleteInternetGateway", whole: true,
			change: []string{"AttachInternetGateway", "DetachInternetGateway"},
		},
		{
			kind: egressKind(), parents: []string{"vpc"}, create: []string{"CreateEgressOnlyInternetGateway"},
			describe: "DescribeEgressOnlyInternetGateways", remove: "DeleteEgressOnlyInternetGateway",
		},
		{
			kind: tableKind(), parents: []string{"vpc", "subnet", "internet-gateway"}, create: []string{"CreateRouteTable"},
			describe: "DescribeRouteTables", remove: "DeleteRouteTable", whole: true,
			change: []string{
				"CreateRoute", "ReplaceRoute", "DeleteRoute", "AssociateRouteTable", "DisassociateRouteTable",
				"ReplaceRouteTableAssociation",
			},
		},
		{
			kind: keyKind(), told: true, create: []string{"ImportKeyPair", "CreateKeyPair"}, describe: "DescribeKeyPairs",
			remove: "DeleteKeyPair", named: "KeyName",
		},
		{
			kind: placementKind(), create: []string{"CreatePlacementGroup"}, describe: "DescribePlacementGroups",
			remove: "DeletePlacementGroup", live: []string{"State", "Strategy"}, named: "GroupName",
		},
		{
			kind: interfaceKind(), parents: []string{"subnet"}, create: []string{"CreateNetworkInterface"},
			describe: "DescribeNetworkInterfaces", remove: "DeleteNetworkInterface",
			change: []string{
				"ModifyNetworkInterfaceAttribute", "AttachNetworkInterface", "DetachNetworkInterface",
				"AssignPrivateIpAddresses", "UnassignPrivateIpAddresses",
			},
			live: []string{"MacAddress"},
		},
		{
			kind: snapshotKind(), told: true, create: []string{"CreateSnapshot", "CopySnapshot"}, describe: "DescribeSnapshots",
			remove: "DeleteSnapshot",
		},
		{
			kind: volumeKind(), told: true, create: []string{"CreateVolume"}, describe: "DescribeVolumes", remove: "DeleteVolume",
			change: []string{"AttachVolume", "DetachVolume", "ModifyVolume"},
		},
		{
			kind: instanceKind(), create: []string{"RunInstances"}, describe: "DescribeInstances", remove: "TerminateInstances",
			change: []string{
				"StartInstances", "StopInstances", "RebootInstances", "ModifyInstanceAttribute", "MonitorInstances",
				"UnmonitorInstances", "ModifyInstanceCreditSpecification", "ModifyInstanceMetadataOptions",
			},
			live: []string{
				"State", "PrivateIpAddress", "PublicIpAddress", "LaunchTime", "StateReason", "InstanceType",
				"BlockDeviceMappings", "NetworkInterfaces",
			},
		},
		{
			kind: addressKind(), parents: []string{"instance", "network-interface"}, create: []string{"AllocateAddress"},
			describe: "DescribeAddresses", remove: "ReleaseAddress", whole: true,
			change: []string{"AssociateAddress", "DisassociateAddress"}, live: []string{"PublicIp"},
		},
		{
			kind: imageKind(), told: true, describe: "DescribeImages", change: []string{"CreateImage", "DeregisterImage"},
		},
	}
}

// actions are all those of the life.
func (l life) actions() []string {
	all := append(append([]string{}, l.create...), l.describe, l.remove)
	return append(all, l.change...)
}

// needs are the actions that a cluster must do to have the kind.
func (l life) needs() []string {
	needs := []string{l.describe}
	if len(l.create) > 0 {
		needs = append(needs, l.create[0], l.remove)
	}
	if l.whole {
		needs = append(needs, l.change...)
	}
	return needs
}

// keptID is the id that a resource of a cluster has here.
func (s *Service) keptID(l life, told wire.Object) string {
	if l.named != "" {
		return s.namedID(l.kind, told.Text(l.named))
	}
	return told.Text(l.kind.id)
}
