package simhive

import "slices"

// accountActions are those about the account and its region.
//
//	DescribeAvailabilityZones gateway/ec2/zone/AvailabilityZone.go:8 one zone, whatever is asked for
//	DescribeAccountAttributes gateway/ec2/account/DescribeAccountAttributes.go:11
//	…EbsEncryptionByDefault, …SerialConsoleAccess… handlers/ec2/account/service_impl.go:98
func accountActions(Era) map[string]ec2Action {
	return map[string]ec2Action{
		"DescribeAvailabilityZones": describeZones, "DescribeAccountAttributes": describeAccount,
		"EnableEbsEncryptionByDefault":  setting("ebsEncryptionByDefault", true, true),
		"DisableEbsEncryptionByDefault": setting("ebsEncryptionByDefault", true, false),
		"GetEbsEncryptionByDefault":     setting("ebsEncryptionByDefault", false, false),
		"EnableSerialConsoleAccess":     setting("serialConsoleAccessEnabled", true, true),
		"DisableSerialConsoleAccess":    setting("serialConsoleAccessEnabled", true, false),
		"GetSerialConsoleAccessStatus":  setting("serialConsoleAccessEnabled", false, false),
	}
}

func describeZones(c *ec2Call) item {
	self := c.g.config.self()
	return item{"availabilityZoneInfo": []any{item{
		"zoneState": "available", "optInStatus": "opt-in-not-required", "regionName": self.Region, "zoneName": self.AZ,
		"zoneId": c.g.program.settings.name() + "z1", "groupName": self.Region, "networkBorderGroup": self.Region,
		"zoneType": "availability-zone", "messageSet": []any{},
	}}}
}

func describeAccount(c *ec2Call) item {
	asked := c.list("AttributeName")
	var found []item
	for _, attribute := range [][2]string{
		{"supported-platforms", "VPC"},
		{"default-vpc", "none"},
		{"max-instances", "100"},
		{"vpc-max-security-groups-per-interface", "5"},
		{"max-elastic-ips", "5"},
		{"vpc-max-elastic-ips", "20"},
	} {
		if len(asked) == 0 || slices.Contains(asked, attribute[0]) {
			found = append(found, item{
				"attributeName": attribute[0], "attributeValueSet": []any{item{"attributeValue": attribute[1]}},
			})
		}
	}
	return item{"accountAttributeSet": listOf(found)}
}

// setting is an action that reads a setting of the account, or sets it first.
func setting(name string, set, value bool) ec2Action {
	return func(c *ec2Call) item {
		kept := c.get(accounts, "settings")
		if kept == nil {
			kept = item{}
		}
		if set {
			kept[name] = value
			c.put(accounts, "settings", kept)
		}
		return item{name: kept.flag(name)}
	}
}
