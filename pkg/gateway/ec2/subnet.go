package ec2

import (
	"context"
	"net/netip"
	"slices"

	"hive-test/pkg/gateway/wire"
)

// ownAddresses is how many addresses of a subnet are AWS's.
const ownAddresses = 5

func (s *Service) subnetActions() map[string]handler {
	return map[string]handler{
		"CreateSubnet": s.createSubnet, "DeleteSubnet": s.deleteSubnet, "ModifySubnetAttribute": s.modifySubnetAttribute,
		"DescribeSubnets": func(ctx context.Context, in wire.Object) (wire.Object, error) {
			return s.describeAs(ctx, subnetKind(), in, s.withCounts)
		},
	}
}

// zone returns the zone of that name or id, or the region's first.
func (s *Service) zone(in wire.Object) (name, id string, err error) {
	name, id = s.Region+"a", zoneID(s.Region)
	if asked := in.Text("AvailabilityZone"); asked != "" && asked != name {
		return "", "", invalid("Value (%s) for parameter availabilityZone is invalid. Subnets can currently only be created in "+
			"the following availability zones: %s.", asked, name)
	}
	if asked := in.Text("AvailabilityZoneId"); asked != "" && asked != id {
		return "", "", invalid("Value (%s) for parameter availabilityZoneId is invalid.", asked)
	}
	return name, id, nil
}

// createSubnet makes a subnet in a VPC, where none overlaps it. Its block is noted in the VPC before: of two that overlap
// and are asked for at once, one is refused.
func (s *Service) createSubnet(ctx context.Context, in wire.Object) (wire.Object, error) {
	if err := require(in, "VpcId", "CidrBlock"); err != nil {
		return nil, err
	}
	cidr, err := sized(in.Text("CidrBlock"), "InvalidSubnet.Range")
	if err != nil {
		return nil, err
	}
	zone, zoneID, err := s.zone(in)
	if err != nil {
		return nil, err
	}
	tags, err := tagsFor(in, "subnet")
	if err != nil {
		return nil, err
	}
	id, vpc := newID(ctx, "subnet"), in.Text("VpcId")
	err = s.use(ctx, vpcKind(), vpc, subnetKind().ref(id), cidr.String(), fits(cidr))
	if err != nil {
		return nil, err
	}
	subnet := wire.Object{
		"SubnetId": id, "VpcId": vpc, "CidrBlock": cidr.String(), "State": "pending", "OwnerId": s.Account,
		"AvailabilityZone": zone, "AvailabilityZoneId": zoneID, "SubnetArn": s.arn("subnet/" + id), "Tags": tags,
		"AvailableIpAddressCount": int64(1)<<(32-cidr.Bits()) - ownAddresses,
		"DefaultForAz":            false, "MapPublicIpOnLaunch": false, "AssignIpv6AddressOnCreation": false,
		"MapCustomerOwnedIpOnLaunch": false, "EnableDns64": false, "Ipv6Native": false,
		"Ipv6CidrBlockAssociationSet": []any{},
		"PrivateDnsNameOptionsOnLaunch": wire.Object{
			"HostnameType": "ip-name", "EnableResourceNameDnsARecord": false, "EnableResourceNameDnsAAAARecord": false,
		},
	}
	s.later(subnet, wire.Object{"State": "available"})
	made, err := s.create(ctx, subnetKind(), in, subnet)
	return wire.Object{"Subnet": made}, err
}

// withCounts returns subnets with how many addresses network interfaces leave.
func (s *Service) withCounts(ctx context.Context, list []wire.Object) ([]wire.Object, error) {
	interfaces, err := s.all(ctx, interfaceKind())
	taken := map[string]int64{}
	for _, eni := range interfaces {
		taken[eni.Text("SubnetId")] += int64(len(eni.Objects("PrivateIpAddresses")))
	}
	shown := make([]wire.Object, len(list))
	for i, subnet := range list {
		shown[i] = subnet
		if n := taken[subnet.Text("SubnetId")]; n > 0 {
			shown[i] = subnet.Clone()
			shown[i]["AvailableIpAddressCount"] = subnet.Int("AvailableIpAddressCount") - n
		}
	}
	return shown, err
}

// fits is an error where a block is in none of the VPC's, or overlaps that of a subnet.
func fits(cidr netip.Prefix) func(wire.Object, map[string]any) error {
	return func(vpc wire.Object, uses map[string]any) error {
		if !slices.ContainsFunc(blocksOf(vpc), func(outer netip.Prefix) bool { return within(cidr, outer) }) {
			return wire.Errorf("InvalidSubnet.Range", "The CIDR '%s' is invalid.", cidr)
		}
		for _, with := range uses {
			text, _ := with.(string)
			if other, err := netip.ParsePrefix(text); err == nil && other.Overlaps(cidr) {
				return wire.Errorf("InvalidSubnet.Conflict", "The CIDR '%s' conflicts with another subnet", cidr)
			}
		}
		return nil
	}
}

func (s *Service) deleteSubnet(ctx context.Context, in wire.Object) (wire.Object, error) {
	if err := require(in, "SubnetId"); err != nil {
		return nil, err
	}
	id := in.Text("SubnetId")
	subnet, err := s.get(ctx, subnetKind(), id)
	if err == nil {
		err = s.remove(ctx, subnetKind(), id, s.unused(ctx, subnetKind(), id))
	}
	if err != nil {
		return nil, err
	}
	s.unuse(ctx, vpcKind(), subnet.Text("VpcId"), subnetKind().ref(id))
	s.leaveTable(ctx, subnetKind(), subnet)
	return returned(), nil
}

// modifySubnetAttribute changes one attribute of a subnet.
func (s *Service) modifySubnetAttribute(ctx context.Context, in wire.Object) (wire.Object, error) {
	if err := require(in, "SubnetId"); err != nil {
		return nil, err
	}
	_, err := s.change(ctx, subnetKind(), in.Text("SubnetId"), func(subnet wire.Object) error {
		changed := 0
		for _, name := range []string{
			"MapPublicIpOnLaunch", "AssignIpv6AddressOnCreation", "MapCustomerOwnedIpOnLaunch", "EnableDns64",
		} {
			if in.Has(name) {
				subnet[name] = in.Object(name).Bool("Value")
				changed++
			}
		}
		options := subnet.Object("PrivateDnsNameOptionsOnLaunch")
		for member, name := range map[string]string{
			"EnableResourceNameDnsARecordOnLaunch":    "EnableResourceNameDnsARecord",
			"EnableResourceNameDnsAAAARecordOnLaunch": "EnableResourceNameDnsAAAARecord",
		} {
			if in.Has(member) {
				options[name] = in.Object(member).Bool("Value")
				changed++
			}
		}
		if kind := in.Text("PrivateDnsHostnameTypeOnLaunch"); kind != "" {
			options["HostnameType"] = kind
			changed++
		}
		subnet["PrivateDnsNameOptionsOnLaunch"] = options
		if changed != 1 {
			return wire.Errorf("InvalidParameterCombination", "Exactly one attribute can be modified at a time")
		}
		return nil
	})
	return returned(), err
}
