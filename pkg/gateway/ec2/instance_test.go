package ec2_test

import (
	"testing"
	"time"

	"hive-test/pkg/gateway/wire"
)

const lag = 2 * time.Second

// ami returns the id of a stock image.
func (a *account) ami() string {
	a.t.Helper()
	in := with("name", "debian-12-amd64-*")
	in["Owners"] = wire.Strings("amazon")
	images := a.must("DescribeImages", in).Objects("Images")
	if len(images) != 1 {
		a.t.Fatalf("stock images: %v", images)
	}
	return images[0].Text("ImageId")
}

// asked is a request to run an instance in a subnet, and what else is given.
func (a *account) asked(subnet string, more wire.Object) wire.Object {
	in := wire.Object{"ImageId": a.ami(), "InstanceType": "t3.micro", "MinCount": 1, "MaxCount": 1}
	if subnet != "" {
		in["SubnetId"] = subnet
	}
	for name, v := range more {
		in[name] = v
	}
	return in
}

// run runs an instance until it is running, and returns it as it is described.
func (a *account) run(subnet string, more wire.Object) wire.Object {
	a.t.Helper()
	id := a.must("RunInstances", a.asked(subnet, more)).Objects("Instances")[0].Text("InstanceId")
	a.pass(lag)
	return a.instance(id)
}

func (a *account) instance(id string) wire.Object {
	a.t.Helper()
	all := a.must("DescribeInstances", wire.Object{"InstanceIds": wire.Strings(id)}).Objects("Reservations")
	if len(all) != 1 || len(all[0].Objects("Instances")) != 1 {
		a.t.Fatalf("instance %s: %v", id, all)
	}
	return all[0].Objects("Instances")[0]
}

func (a *account) inState(id, want string) {
	a.t.Helper()
	if got := a.instance(id).Object("State").Text("Name"); got != want {
		a.t.Errorf("instance %s is %s, want %s", id, got, want)
	}
}

func ids(member, id string) wire.Object { return wire.Object{member: wire.Strings(id)} }

func TestInstanceIsMadeWhole(t *testing.T) {
	a := newAccount(t, lag)
	vpc := a.vpc("10.0.0.0/16")
	subnet := a.subnet(vpc, "10.0.1.0/24")
	group := a.group(vpc, "web")
	a.must("CreatePlacementGroup", wire.Object{"GroupName": "near", "Strategy": "cluster"})
	a.must("CreateKeyPair", wire.Object{"KeyName": "mine"})
	made := a.must("RunInstances", a.asked(subnet, wire.Object{
		"SecurityGroupIds": wire.Strings(group), "KeyName": "mine", "Placement": wire.Object{"GroupName": "near"},
		"TagSpecifications": wire.List(
			wire.Object{"ResourceType": "instance", "Tags": wire.List(wire.Object{"Key": "Name", "Value": "one"})},
			wire.Object{"ResourceType": "volume", "Tags": wire.List(wire.Object{"Key": "of", "Value": "one"})}),
	}))
	id := made.Objects("Instances")[0].Text("InstanceId")
	a.inState(id, "pending")
	a.pass(lag)
	o := a.instance(id)
	nic := o.Objects("NetworkInterfaces")[0]
	root := o.Objects("BlockDeviceMappings")[0]
	for what, ok := range map[string]bool{
		"state":     o.Object("State").Text("Name") == "running",
		"address":   o.Text("PrivateIpAddress") == "10.0.1.4" && o.Text("PrivateDnsName") != "",
		"network":   o.Text("SubnetId") == subnet && o.Text("VpcId") == vpc && o.Bool("SourceDestCheck"),
		"group":     o.Objects("SecurityGroups")[0].Text("GroupId") == group,
		"placement": o.Object("Placement").Text("GroupName") == "near",
		"zone":      o.Object("Placement").Text("AvailabilityZone") == "ap-southeast-2a",
		"device":    nic.Object("Attachment").Int("DeviceIndex") == 0 && nic.Text("Status") == "in-use",
		"root":      root.Text("DeviceName") == o.Text("RootDeviceName") && root.Object("Ebs").Bool("DeleteOnTermination"),
		"cpus":      o.Object("CpuOptions").Int("CoreCount") == 1 && o.Object("MetadataOptions").Text("HttpTokens") == "optional",
	} {
		if !ok {
			t.Errorf("%s: %v", what, o)
		}
	}
	volume := a.must("DescribeVolumes", with("attachment.instance-id", id)).Objects("Volumes")
	if len(volume) != 1 || volume[0].Text("State") != "in-use" || volume[0].Objects("Tags")[0].Text("Key") != "of" {
		t.Errorf("root volume: %v", volume)
	}
	for _, name := range []string{"instance-id", "vpc-id", "key-name", "tag:Name", "network-interface.network-interface-id"} {
		value := map[string]string{
			"instance-id": id, "vpc-id": vpc, "key-name": "mine", "tag:Name": "one",
			"network-interface.network-interface-id": nic.Text("NetworkInterfaceId"),
		}[name]
		a.found("DescribeInstances", "Reservations", map[string]string{name: value}, 1)
		a.found("DescribeInstances", "Reservations", map[string]string{name: value + "x"}, 0)
	}
	subnets := a.must("DescribeSubnets", ids("SubnetIds", subnet)).Objects("Subnets")
	if subnets[0].Int("AvailableIpAddressCount") != 250 {
		t.Errorf("subnet: %v", subnets)
	}
}

// What an instance uses is not deleted, until the instance is terminated.
func TestInstanceUses(t *testing.T) {
	a := newAccount(t, lag)
	vpc := a.vpc("10.0.0.0/16")
	subnet := a.subnet(vpc, "10.0.1.0/24")
	group := a.group(vpc, "web")
	a.must("CreatePlacementGroup", wire.Object{"GroupName": "near", "Strategy": "cluster"})
	id := a.run(subnet, wire.Object{
		"SecurityGroupIds": wire.Strings(group), "Placement": wire.Object{"GroupName": "near"},
	}).Text("InstanceId")
	deletions := func(do func(code, action string, in wire.Object)) {
		do("DependencyViolation", "DeleteSubnet", wire.Object{"SubnetId": subnet})
		do("DependencyViolation", "DeleteSecurityGroup", wire.Object{"GroupId": group})
		do("InvalidPlacementGroup.InUse", "DeletePlacementGroup", wire.Object{"GroupName": "near"})
	}
	deletions(a.refused)
	a.must("TerminateInstances", ids("InstanceIds", id))
	deletions(a.refused) // it is shutting down
	a.pass(lag)
	a.inState(id, "terminated")
	deletions(func(_, action string, in wire.Object) { a.must(action, in) })
	a.must("DeleteVpc", wire.Object{"VpcId": vpc})
	if n := a.count("DescribeVolumes", "Volumes", nil) + a.count("DescribeNetworkInterfaces", "NetworkInterfaces", nil); n != 0 {
		t.Errorf("%d volumes and network interfaces are left", n)
	}
	a.inState(id, "terminated")
	a.pass(time.Hour)
	a.refused("InvalidInstanceID.NotFound", "DescribeInstances", ids("InstanceIds", id))
}

func TestRunRefuses(t *testing.T) {
	a := newAccount(t, 0)
	vpc := a.vpc("10.0.0.0/16")
	subnet := a.subnet(vpc, "10.0.1.0/28")
	other := a.group(a.vpc("10.1.0.0/16"), "other")
	for _, c := range []struct {
		code string
		more wire.Object
	}{
		{"InvalidParameterValue", wire.Object{"InstanceType": "t9.huge"}},
		{"InvalidAMIID.NotFound", wire.Object{"ImageId": "ami-00000000000000000"}},
		{"InvalidAMIID.Malformed", wire.Object{"ImageId": "debian"}},
		{"MissingParameter", wire.Object{"ImageId": nil}},
		{"MissingParameter", wire.Object{"MinCount": nil}},
		{"InvalidParameterValue", wire.Object{"MinCount": 2}},
		{"InvalidSubnetID.NotFound", wire.Object{"SubnetId": "subnet-00000000000000000"}},
		{"InvalidGroup.NotFound", wire.Object{"SecurityGroupIds": wire.Strings("sg-00000000000000000")}},
		{"InvalidParameter", wire.Object{"SecurityGroupIds": wire.Strings(other)}},
		{"InvalidKeyPair.NotFound", wire.Object{"KeyName": "none"}},
		{"InvalidPlacementGroup.Unknown", wire.Object{"Placement": wire.Object{"GroupName": "none"}}},
		{"InvalidParameterValue", wire.Object{"Placement": wire.Object{"AvailabilityZone": "us-east-1a"}}},
		{"InvalidParameterValue", wire.Object{"UserData": "%"}},
		{"InvalidParameterValue", wire.Object{"PrivateIpAddress": "10.9.9.9"}},
		{"InvalidParameterValue", wire.Object{"PrivateIpAddress": "10.0.1.1"}},
		{"InvalidParameterCombination", wire.Object{"NetworkInterfaces": wire.List(wire.Object{"DeviceIndex": 0})}},
		{"InvalidParameterValue", wire.Object{"CreditSpecification": wire.Object{"CpuCredits": "many"}}},
		{"Unsupported", wire.Object{"InstanceType": "t4g.nano"}},
		{"UnsupportedOperation", wire.Object{"LaunchTemplate": wire.Object{"LaunchTemplateName": "one"}}},
		{"InsufficientFreeAddressesInSubnet", wire.Object{"MinCount": 12, "MaxCount": 12}},
		{"InvalidBlockDeviceMapping", wire.Object{"BlockDeviceMappings": wire.List(
			wire.Object{"DeviceName": "/dev/xvda", "Ebs": wire.Object{"VolumeSize": 1}})}},
	} {
		a.refused(c.code, "RunInstances", a.asked(subnet, c.more))
	}
	left := a.count("DescribeVolumes", "Volumes", nil) + a.count("DescribeNetworkInterfaces", "NetworkInterfaces", nil) +
		a.count("DescribeInstances", "Reservations", nil)
	if left != 0 {
		t.Errorf("%d things are left of refused requests", left)
	}
	out := a.must("RunInstances", a.asked(subnet, wire.Object{"MinCount": 1, "MaxCount": 20}))
	if n := len(out.Objects("Instances")); n != 11 {
		t.Errorf("%d instances in a subnet with 11 addresses", n)
	}
}

// Empty parameters are not set, and without a subnet there is no VPC to be in.
func TestInstanceWithoutVPC(t *testing.T) {
	a := newAccount(t, 0)
	o := a.run("", wire.Object{"Placement": wire.Object{"AvailabilityZone": ""}})
	if o.Has("VpcId") || len(o.Objects("NetworkInterfaces")) != 0 || len(o.Objects("BlockDeviceMappings")) != 1 {
		t.Errorf("instance: %v", o)
	}
	subnet := a.subnet(a.vpc("10.0.0.0/16"), "10.0.1.0/24")
	if o := a.run("", nil); o.Text("SubnetId") != subnet {
		t.Errorf("instance where there is a subnet: %v", o)
	}
}

func TestInstanceStates(t *testing.T) {
	a := newAccount(t, lag)
	subnet := a.subnet(a.vpc("10.0.0.0/16"), "10.0.1.0/24")
	a.must("ModifySubnetAttribute", wire.Object{"SubnetId": subnet, "MapPublicIpOnLaunch": wire.Object{"Value": true}})
	id := a.must("RunInstances", a.asked(subnet, nil)).Objects("Instances")[0].Text("InstanceId")
	one := ids("InstanceIds", id)
	a.refused("IncorrectInstanceState", "StopInstances", one)
	a.pass(lag)
	public := a.instance(id).Text("PublicIpAddress")
	if status := a.must("DescribeInstanceStatus", one).Objects("InstanceStatuses"); len(status) != 1 {
		t.Errorf("status: %v", status)
	}
	a.must("RebootInstances", one)
	change := a.must("StopInstances", one).Objects("StoppingInstances")[0]
	if change.Object("PreviousState").Text("Name") != "running" || change.Object("CurrentState").Text("Name") != "stopping" {
		t.Errorf("stopping: %v", change)
	}
	a.refused("IncorrectInstanceState", "StartInstances", one)
	a.pass(lag)
	a.inState(id, "stopped")
	if got := a.instance(id).Text("PublicIpAddress"); public == "" || got != "" {
		t.Errorf("public address %q, and %q when stopped", public, got)
	}
	a.refused("IncorrectInstanceState", "RebootInstances", one)
	if status := a.must("DescribeInstanceStatus", one).Objects("InstanceStatuses"); len(status) != 0 {
		t.Errorf("status of a stopped one: %v", status)
	}
	all := ids("InstanceIds", id)
	all["IncludeAllInstances"] = true
	if status := a.must("DescribeInstanceStatus", all).Objects("InstanceStatuses"); len(status) != 1 {
		t.Errorf("status of all: %v", status)
	}
	a.must("StartInstances", one)
	a.inState(id, "pending")
	a.pass(lag)
	a.inState(id, "running")
	if got := a.instance(id).Text("PublicIpAddress"); got == "" || got == public {
		t.Errorf("public address %q, and %q when started again", public, got)
	}
	a.must("MonitorInstances", one)
	if m := a.instance(id).Object("Monitoring").Text("State"); m != "enabled" {
		t.Errorf("monitoring %s", m)
	}
	a.must("UnmonitorInstances", one)
	protect := func(member string, on bool) {
		a.must("ModifyInstanceAttribute", wire.Object{"InstanceId": id, member: wire.Object{"Value": on}})
	}
	protect("DisableApiTermination", true)
	protect("DisableApiStop", true)
	a.refused("OperationNotPermitted", "TerminateInstances", one)
	a.refused("OperationNotPermitted", "StopInstances", one)
	protect("DisableApiTermination", false)
	a.must("TerminateInstances", one)
	a.inState(id, "shutting-down")
	a.must("TerminateInstances", one)
	a.pass(lag)
	a.inState(id, "terminated")
	a.refused("IncorrectInstanceState", "StartInstances", one)
	for _, action := range []string{"StartInstances", "StopInstances", "TerminateInstances", "RebootInstances", "MonitorInstances"} {
		a.refused("InvalidInstanceID.NotFound", action, ids("InstanceIds", "i-00000000000000000"))
		a.refused("InvalidInstanceID.Malformed", action, ids("InstanceIds", "one"))
		a.refused("MissingParameter", action, wire.Object{})
	}
}

// One request sent twice, at once, runs one instance; another one with its token is refused.
func TestRunToken(t *testing.T) {
	a := newAccount(t, 0)
	subnet := a.subnet(a.vpc("10.0.0.0/16"), "10.0.1.0/24")
	in := a.asked(subnet, wire.Object{"ClientToken": "once"})
	if n := atOnce(8, func(int) error { _, err := a.try("RunInstances", in); return err }); n == 0 {
		t.Error("none has succeeded")
	}
	if n := a.count("DescribeInstances", "Reservations", nil); n != 1 {
		t.Errorf("%d reservations", n)
	}
	if n := a.count("DescribeNetworkInterfaces", "NetworkInterfaces", nil) + a.count("DescribeVolumes", "Volumes", nil); n != 2 {
		t.Errorf("%d network interfaces and volumes", n)
	}
	a.refused("IdempotentParameterMismatch", "RunInstances", a.asked(subnet,
		wire.Object{"ClientToken": "once", "InstanceType": "t3.nano"}))
}

// Of instances that are run at once, no two have one address.
func TestPrivateAddressesAtOnce(t *testing.T) {
	a := newAccount(t, 0)
	subnet := a.subnet(a.vpc("10.0.0.0/16"), "10.0.1.0/28")
	if n := atOnce(20, func(int) error { _, err := a.try("RunInstances", a.asked(subnet, nil)); return err }); n != 11 {
		t.Errorf("%d instances in a subnet with 11 addresses", n)
	}
	seen := map[string]bool{}
	for _, r := range a.must("DescribeInstances", wire.Object{}).Objects("Reservations") {
		seen[r.Objects("Instances")[0].Text("PrivateIpAddress")] = true
	}
	if len(seen) != 11 {
		t.Errorf("addresses: %v", seen)
	}
}
