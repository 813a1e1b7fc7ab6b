package ec2

import (
	"fmt"
	"strings"

	"hive-test/pkg/gateway/wire"
)

// kind is what is common to all resources of a sort.
type kind struct {
	bucket string // of the store, and what tag specifications call it
	prefix string // of ids
	id     string // member that is the id, in the resource
	ids    string // member that names some, in requests of Describe
	list   string // member that holds them, in answers to Describe
	code   string // error code of an id that is not there
	called string // in that error's message
	// malformed is the error code of what is no id at all; empty: the same as of one that is not there.
	malformed string
	// filters are the paths of the members that filters look at, by the filters' names. Those about tags are there for all.
	filters map[string]string
}

// kinds are all sorts of resources. The buckets' names are what users of NATS see.
func kinds() []kind {
	return []kind{
		vpcKind(), subnetKind(), groupKind(), gatewayKind(), tableKind(), aclKind(),
		instanceKind(), volumeKind(), snapshotKind(), imageKind(), interfaceKind(),
		egressKind(), addressKind(),
		keyKind(), placementKind(),
	}
}

// Kinds returns the names of the buckets that a store needs.
func Kinds() []string {
	var names []string
	for _, k := range kinds() {
		names = append(names, k.bucket)
	}
	return names
}

// kindOf returns the kind that an id is of.
func (s *Service) kindOf(id string) (kind, bool) {
	prefix, _, _ := strings.Cut(id, "-")
	k, known := s.byPrefix[prefix]
	return k, known
}

func (k kind) missingError(id string) error {
	if k.malformed != "" && !k.wellFormed(id) {
		return wire.Errorf(k.malformed, `Invalid id: "%s" (expecting "%s-...")`, id, k.prefix)
	}
	return wire.Errorf(k.code, "The %s '%s' does not exist", k.called, id)
}

// wellFormed reports whether a text is an id of the kind, which may be a short one as AWS once gave them.
func (k kind) wellFormed(id string) bool {
	digits, ours := strings.CutPrefix(id, k.prefix+"-")
	const short = 8
	return ours && (len(digits) == short || len(digits) == idDigits) && strings.Trim(digits, "0123456789abcdef") == ""
}

func vpcKind() kind {
	return kind{
		bucket: "vpc", prefix: "vpc", id: "VpcId", ids: "VpcIds", list: "Vpcs",
		code: "InvalidVpcID.NotFound", called: "vpc ID",
		filters: map[string]string{
			"cidr": "CidrBlock", "cidr-block-association.cidr-block": "CidrBlockAssociationSet.CidrBlock",
			"cidr-block-association.association-id": "CidrBlockAssociationSet.AssociationId",
			"cidr-block-association.state":          "CidrBlockAssociationSet.CidrBlockState.State",
			"dhcp-options-id":                       "DhcpOptionsId", "is-default": "IsDefault", "owner-id": "OwnerId",
			"state": "State", "vpc-id": "VpcId",
		},
	}
}

func subnetKind() kind {
	return kind{
		bucket: "subnet", prefix: "subnet", id: "SubnetId", ids: "SubnetIds", list: "Subnets",
		code: "InvalidSubnetID.NotFound", called: "subnet ID",
		filters: map[string]string{
			"availability-zone": "AvailabilityZone", "availabilityZone": "AvailabilityZone",
			"availability-zone-id": "AvailabilityZoneId", "available-ip-address-count": "AvailableIpAddressCount",
			"cidr": "CidrBlock", "cidr-block": "CidrBlock", "cidrBlock": "CidrBlock", "default-for-az": "DefaultForAz",
			"defaultForAz": "DefaultForAz", "map-public-ip-on-launch": "MapPublicIpOnLaunch", "owner-id": "OwnerId",
			"state": "State", "subnet-arn": "SubnetArn", "subnet-id": "SubnetId", "vpc-id": "VpcId",
		},
	}
}

func groupKind() kind {
	return kind{
		bucket: "security-group", prefix: "sg", id: "GroupId", ids: "GroupIds", list: "SecurityGroups",
		code: "InvalidGroup.NotFound", called: "security group",
		filters: groupFilters(),
	}
}

func gatewayKind() kind {
	return kind{
		bucket: "internet-gateway", prefix: "igw", id: "InternetGatewayId", ids: "InternetGatewayIds",
		list: "InternetGateways", code: "InvalidInternetGatewayID.NotFound", called: "internetGateway ID",
		filters: map[string]string{
			"attachment.state": "Attachments.State", "attachment.vpc-id": "Attachments.VpcId",
			"internet-gateway-id": "InternetGatewayId", "owner-id": "OwnerId",
		},
	}
}

func tableKind() kind {
	return kind{
		bucket: "route-table", prefix: "rtb", id: "RouteTableId", ids: "RouteTableIds", list: "RouteTables",
		code: "InvalidRouteTableID.NotFound", called: "routeTable ID",
		filters: map[string]string{
			"association.gateway-id": "Associations.GatewayId", "association.main": "Associations.Main",
			"association.route-table-association-id": "Associations.RouteTableAssociationId",
			"association.route-table-id":             "Associations.RouteTableId",
			"association.subnet-id":                  "Associations.SubnetId", "owner-id": "OwnerId",
			"route-table-id": "RouteTableId", "route.destination-cidr-block": "Routes.DestinationCidrBlock",
			"route.destination-ipv6-cidr-block": "Routes.DestinationIpv6CidrBlock", "route.gateway-id": "Routes.GatewayId",
			"route.destination-prefix-list-id":      "Routes.DestinationPrefixListId",
			"route.egress-only-internet-gateway-id": "Routes.EgressOnlyInternetGatewayId",
			"route.nat-gateway-id":                  "Routes.NatGatewayId",
			"route.transit-gateway-id":              "Routes.TransitGatewayId",
			"route.vpc-peering-connection-id":       "Routes.VpcPeeringConnectionId",
			"route.instance-id":                     "Routes.InstanceId", "route.origin": "Routes.Origin", "route.state": "Routes.State",
			"vpc-id": "VpcId",
		},
	}
}

func aclKind() kind {
	return kind{
		bucket: "network-acl", prefix: "acl", id: "NetworkAclId", ids: "NetworkAclIds", list: "NetworkAcls",
		code: "InvalidNetworkAclID.NotFound", called: "networkAcl ID",
		filters: map[string]string{
			"association.association-id": "Associations.NetworkAclAssociationId",
			"association.network-acl-id": "Associations.NetworkAclId", "association.subnet-id": "Associations.SubnetId",
			"default": "IsDefault", "network-acl-id": "NetworkAclId", "owner-id": "OwnerId", "vpc-id": "VpcId",
			"entry.cidr": "Entries.CidrBlock", "entry.egress": "Entries.Egress", "entry.icmp.code": "Entries.IcmpTypeCode.Code",
			"entry.icmp.type": "Entries.IcmpTypeCode.Type", "entry.ipv6-cidr": "Entries.Ipv6CidrBlock",
			"entry.port-range.from": "Entries.PortRange.From", "entry.port-range.to": "Entries.PortRange.To",
			"entry.protocol": "Entries.Protocol", "entry.rule-action": "Entries.RuleAction",
			"entry.rule-number": "Entries.RuleNumber",
		},
	}
}

// egressKind is that of egress-only internet gateways, of which AWS documents filters by tags only.
func egressKind() kind {
	return kind{
		bucket: "egress-only-internet-gateway", prefix: "eigw", id: "EgressOnlyInternetGatewayId",
		ids: "EgressOnlyInternetGatewayIds", list: "EgressOnlyInternetGateways",
		code: "InvalidGatewayID.NotFound", called: "eigw ID",
	}
}

func addressKind() kind {
	return kind{
		bucket: "elastic-ip", prefix: "eipalloc", id: "AllocationId", ids: "AllocationIds", list: "Addresses",
		code: "InvalidAllocationID.NotFound", called: "allocation ID",
		filters: map[string]string{
			"allocation-id": "AllocationId", "association-id": "AssociationId", "domain": "Domain",
			"instance-id": "InstanceId", "network-border-group": "NetworkBorderGroup",
			"network-interface-id": "NetworkInterfaceId", "network-interface-owner-id": "NetworkInterfaceOwnerId",
			"private-ip-address": "PrivateIpAddress", "public-ip": "PublicIp",
		},
	}
}

func keyKind() kind {
	return kind{
		bucket: "key-pair", prefix: "key", id: "KeyPairId", ids: "KeyPairIds", list: "KeyPairs",
		code: "InvalidKeyPair.NotFound", called: "key pair",
		filters: map[string]string{
			"fingerprint": "KeyFingerprint", "key-name": "KeyName", "key-pair-id": "KeyPairId",
		},
	}
}

func placementKind() kind {
	return kind{
		bucket: "placement-group", prefix: "pg", id: "GroupId", ids: "GroupIds", list: "PlacementGroups",
		code: "InvalidPlacementGroup.Unknown", called: "Placement Group",
		filters: map[string]string{
			"group-arn": "GroupArn", "group-name": "GroupName", "spread-level": "SpreadLevel", "state": "State",
			"strategy": "Strategy",
		},
	}
}

// ref is how a resource is named among those that another one is used by.
func (k kind) ref(id string) string { return fmt.Sprintf("%s/%s", k.bucket, id) }
