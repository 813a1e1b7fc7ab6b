package simhive

import "strings"

// attributeActions are those that spx has about attributes (below spinifex/).
//
//	ModifyVpcAttribute    handlers/ec2/vpc/service_impl.go:789, DescribeVpcAttribute :837
//	ModifySubnetAttribute :753 MapPublicIpOnLaunch; anything else is taken and forgotten
//	DescribeInstanceAttribute daemon/daemon_handlers_instance.go:1369 InvalidInstanceID.NotFound for a terminated one; the
//	                      same, in real hive, for one that runs on another node than that of the daemon which answers
//	                      (daemon/daemon.go:509), which is not imitated. userData is what ModifyInstanceAttribute set, as
//	                      plain text, and not what the instance was made with; disableApiTermination is always false
//	DescribeInstanceCreditSpecifications gateway/ec2/instance/DescribeInstanceCreditSpecifications.go:13 standard, for
//	                      whatever id
func attributeActions() map[string]ec2Action {
	return map[string]ec2Action{
		"ModifyVpcAttribute": modifyVPCAttribute, "DescribeVpcAttribute": describeVPCAttribute,
		"ModifySubnetAttribute": modifySubnetAttribute, "DescribeInstanceAttribute": describeInstanceAttribute,
		"DescribeInstanceCreditSpecifications": describeCredits,
	}
}

// vpcAttributes are those of a VPC, by what they are called where they are told.
func vpcAttributes() []string {
	return []string{"enableDnsHostnames", "enableDnsSupport", "enableNetworkAddressUsageMetrics"}
}

func upperFirst(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

func modifyVPCAttribute(c *ec2Call) item {
	if c.missing("VpcId") {
		return nil
	}
	given := false
	for _, name := range vpcAttributes() {
		given = given || c.given(upperFirst(name))
	}
	if !given {
		return c.refuse("InvalidParameterValue")
	}
	vpc := c.get(vpcs, c.text("VpcId"))
	if vpc == nil {
		return c.refuse("InvalidVpcID.NotFound")
	}
	for _, name := range vpcAttributes() {
		if value, ok := c.flag(upperFirst(name) + ".Value"); ok {
			vpc["_"+name] = value
		}
	}
	if !c.malformed {
		c.put(vpcs, vpc.text("vpcId"), vpc)
	}
	return item{}
}

func describeVPCAttribute(c *ec2Call) item {
	if c.missing("VpcId", "Attribute") {
		return nil
	}
	vpc := c.get(vpcs, c.text("VpcId"))
	if vpc == nil {
		return c.refuse("InvalidVpcID.NotFound")
	}
	for _, name := range vpcAttributes() {
		if c.text("Attribute") == name {
			return item{"vpcId": vpc["vpcId"], name: item{"value": vpc.flag("_" + name)}}
		}
	}
	return c.refuse("InvalidParameterValue")
}

func modifySubnetAttribute(c *ec2Call) item {
	if c.missing("SubnetId") {
		return nil
	}
	subnet := c.get(subnets, c.text("SubnetId"))
	if subnet == nil {
		return c.refuse("InvalidSubnetID.NotFound")
	}
	if value, ok := c.flag("MapPublicIpOnLaunch.Value"); ok {
		subnet["mapPublicIpOnLaunch"] = value
		c.put(subnets, subnet.text("subnetId"), subnet)
	}
	return item{}
}

func describeInstanceAttribute(c *ec2Call) item {
	if !strings.HasPrefix(c.text("InstanceId"), "i-") {
		return c.refuse("InvalidInstanceID.Malformed")
	}
	if c.missing("Attribute") {
		return nil
	}
	i := c.get(instances, c.text("InstanceId"))
	if i == nil || i.text("_state") == "terminated" {
		return c.refuse("InvalidInstanceID.NotFound")
	}
	name := c.text("Attribute")
	answer := item{"instanceId": i["instanceId"]}
	switch name {
	case "instanceType":
		answer[name] = item{"value": i["instanceType"]}
	case "userData":
		answer[name] = item{"value": i.text("_userData")}
	case "disableApiTermination", "disableApiStop", "ebsOptimized":
		answer[name] = item{"value": false}
	case "instanceInitiatedShutdownBehavior":
		answer[name] = item{"value": "stop"}
	case "enaSupport", "sourceDestCheck":
		answer[name] = item{"value": true}
	case "groupSet":
		answer[name] = []any{}
	default:
		return c.refuse("InvalidParameterValue")
	}
	return answer
}

func describeCredits(c *ec2Call) item {
	var found []item
	for _, id := range c.list("InstanceId") {
		if id != "" {
			found = append(found, item{"instanceId": id, "cpuCredits": "standard"})
		}
	}
	return item{"instanceCreditSpecificationSet": listOf(found)}
}
