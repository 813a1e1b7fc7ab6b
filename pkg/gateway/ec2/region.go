package ec2

import (
	"context"
	"slices"
	"strings"

	"hive-test/pkg/gateway/wire"
)

func (s *Service) regionActions() map[string]handler {
	return map[string]handler{
		"DescribeRegions": s.describeRegions, "DescribeAvailabilityZones": s.describeZones,
		"DescribeAccountAttributes": s.describeAccountAttributes,
	}
}

// zoneID is the id of a region's first zone: ap-southeast-2 has apse2-az1.
func zoneID(region string) string {
	short := map[string]string{
		"north": "n", "south": "s", "east": "e", "west": "w", "central": "c", "northeast": "ne", "northwest": "nw",
		"southeast": "se", "southwest": "sw",
	}
	var id strings.Builder
	for word := range strings.SplitSeq(region, "-") {
		if s, known := short[word]; known {
			word = s
		}
		id.WriteString(word)
	}
	return id.String() + "-az1"
}

// describeRegions tells of the only region that there is.
func (s *Service) describeRegions(_ context.Context, in wire.Object) (wire.Object, error) {
	match, err := filter(map[string]string{
		"endpoint": "Endpoint", "opt-in-status": "OptInStatus", "region-name": "RegionName",
	}, in)
	if err != nil {
		return nil, err
	}
	for _, name := range in.Texts("RegionNames") {
		if name != s.Region {
			return nil, invalid("Invalid region: %s", name)
		}
	}
	region := wire.Object{
		"RegionName": s.Region, "Endpoint": "ec2." + s.Region + ".amazonaws.com", "OptInStatus": "opt-in-not-required",
	}
	return only("Regions", region, match), nil
}

// only answers with one object, or none where it does not match.
func only(member string, o wire.Object, match func(wire.Object) bool) wire.Object {
	if !match(o) {
		return wire.Object{member: []any{}}
	}
	return wire.Object{member: wire.List(o)}
}

// describeZones tells of the region's only zone.
func (s *Service) describeZones(_ context.Context, in wire.Object) (wire.Object, error) {
	match, err := filter(map[string]string{
		"group-name": "GroupName", "message": "Messages.Message", "opt-in-status": "OptInStatus",
		"parent-zone-id": "ParentZoneId", "parent-zone-name": "ParentZoneName", "region-name": "RegionName",
		"state": "State", "zone-id": "ZoneId", "zone-name": "ZoneName", "zone-type": "ZoneType",
	}, in)
	if err != nil {
		return nil, err
	}
	zone := wire.Object{
		"ZoneName": s.Region + "a", "ZoneId": zoneID(s.Region), "RegionName": s.Region, "State": "available",
		"GroupName": s.Region, "NetworkBorderGroup": s.Region, "OptInStatus": "opt-in-not-required", "Messages": []any{},
		"ZoneType": "availability-zone",
	}
	for member, has := range map[string]string{"ZoneNames": "ZoneName", "ZoneIds": "ZoneId"} {
		for _, asked := range in.Texts(member) {
			if asked != zone.Text(has) {
				return nil, invalid("Invalid availability zone: [%s]", asked)
			}
		}
	}
	return only("AvailabilityZones", zone, match), nil
}

// describeAccountAttributes tells the limits that AWS gives to a new account.
func (s *Service) describeAccountAttributes(_ context.Context, in wire.Object) (wire.Object, error) {
	asked := in.Texts("AttributeNames")
	var list []wire.Object
	for _, a := range [][2]string{
		{"supported-platforms", "VPC"},
		{"vpc-max-security-groups-per-interface", "5"},
		{"max-elastic-ips", "5"},
		{"max-instances", "20"},
		{"vpc-max-elastic-ips", "5"},
		{"default-vpc", "none"},
	} {
		if len(asked) == 0 || slices.Contains(asked, a[0]) {
			list = append(list, wire.Object{
				"AttributeName": a[0], "AttributeValues": wire.List(wire.Object{"AttributeValue": a[1]}),
			})
		}
	}
	if len(list) < len(asked) {
		return nil, invalid("Value (%s) for parameter attributeName is invalid.", strings.Join(asked, ", "))
	}
	return wire.Object{"AccountAttributes": wire.List(list...)}, nil
}
