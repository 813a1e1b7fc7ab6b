package ec2_test

import (
	"testing"
	"time"

	"hive-test/pkg/gateway/wire"
)

func (a *account) nic(id string) wire.Object {
	a.t.Helper()
	return a.must("DescribeNetworkInterfaces", ids("NetworkInterfaceIds", id)).Objects("NetworkInterfaces")[0]
}

// newNIC makes a network interface and returns its id.
func (a *account) newNIC(subnet string, more wire.Object) string {
	a.t.Helper()
	in := wire.Object{"SubnetId": subnet}
	for name, v := range more {
		in[name] = v
	}
	return a.must("CreateNetworkInterface", in).Object("NetworkInterface").Text("NetworkInterfaceId")
}

func private(addresses ...string) []any {
	var list []wire.Object
	for i, address := range addresses {
		list = append(list, wire.Object{"PrivateIpAddress": address, "Primary": i == 0})
	}
	return wire.List(list...)
}

func TestNetworkInterfaces(t *testing.T) {
	a := newAccount(t, lag)
	vpc := a.vpc("10.0.0.0/16")
	subnet := a.subnet(vpc, "10.0.1.0/24")
	id := a.newNIC(subnet, wire.Object{
		"PrivateIpAddresses": private("10.0.1.10", "10.0.1.11"), "Description": "one", "TagSpecifications": wire.List(
			wire.Object{"ResourceType": "network-interface", "Tags": wire.List(wire.Object{"Key": "Name", "Value": "n"})}),
	})
	if o := a.nic(id); o.Text("Status") != "pending" || o.Objects("Groups")[0].Text("GroupName") != "default" {
		t.Errorf("made: %v", o)
	}
	a.pass(lag)
	a.found("DescribeNetworkInterfaces", "NetworkInterfaces", map[string]string{
		"status": "available", "subnet-id": subnet, "vpc-id": vpc, "description": "one", "tag:Name": "n",
		"addresses.private-ip-address": "10.0.1.11", "private-ip-address": "10.0.1.10", "group-name": "default",
	}, 1)
	a.refused("DependencyViolation", "DeleteSubnet", wire.Object{"SubnetId": subnet})

	group, other := a.group(vpc, "web"), a.group(vpc, "db")
	modify := func(more wire.Object) wire.Object {
		in := wire.Object{"NetworkInterfaceId": id}
		for name, v := range more {
			in[name] = v
		}
		return in
	}
	a.must("ModifyNetworkInterfaceAttribute", modify(wire.Object{"Groups": wire.Strings(group, other)}))
	a.refused("DependencyViolation", "DeleteSecurityGroup", wire.Object{"GroupId": other})
	a.must("ModifyNetworkInterfaceAttribute", modify(wire.Object{"Groups": wire.Strings(group)}))
	a.must("DeleteSecurityGroup", wire.Object{"GroupId": other})
	a.must("ModifyNetworkInterfaceAttribute", modify(wire.Object{"Description": wire.Object{"Value": "two"}}))
	a.must("ModifyNetworkInterfaceAttribute", modify(wire.Object{"SourceDestCheck": wire.Object{"Value": false}}))
	if o := a.nic(id); o.Text("Description") != "two" || o.Bool("SourceDestCheck") {
		t.Errorf("modified: %v", o)
	}
	a.refused("InvalidGroup.NotFound", "ModifyNetworkInterfaceAttribute", modify(wire.Object{"Groups": wire.Strings(other)}))
	a.refused("MissingParameter", "ModifyNetworkInterfaceAttribute", modify(nil))
	a.refused("InvalidParameterCombination", "ModifyNetworkInterfaceAttribute", modify(wire.Object{
		"Groups": wire.Strings(group), "Description": wire.Object{"Value": "three"},
	}))
	a.must("DeleteNetworkInterface", wire.Object{"NetworkInterfaceId": id})
	a.refused("InvalidNetworkInterfaceID.NotFound", "DescribeNetworkInterfaces", ids("NetworkInterfaceIds", id))
	a.refused("InvalidNetworkInterfaceID.NotFound", "DeleteNetworkInterface", modify(nil))
	a.refused("InvalidNetworkInterfaceID.NotFound", "ModifyNetworkInterfaceAttribute",
		modify(wire.Object{"Description": wire.Object{"Value": "four"}}))
	a.must("DeleteSecurityGroup", wire.Object{"GroupId": group})
	a.must("DeleteSubnet", wire.Object{"SubnetId": subnet})

	token := wire.Object{"SubnetId": a.subnet(vpc, "10.0.2.0/24"), "ClientToken": "once"}
	a.must("CreateNetworkInterface", token)
	a.must("CreateNetworkInterface", token)
	if n := a.count("DescribeNetworkInterfaces", "NetworkInterfaces", nil); n != 1 {
		t.Errorf("one token makes %d network interfaces", n)
	}
}

func TestPrivateAddresses(t *testing.T) {
	a := newAccount(t, 0)
	subnet := a.subnet(a.vpc("10.0.0.0/16"), "10.0.1.0/28")
	id, other := a.newNIC(subnet, nil), a.newNIC(subnet, nil)
	if first, second := a.nic(id).Text("PrivateIpAddress"), a.nic(other).Text("PrivateIpAddress"); first == second {
		t.Errorf("two have %s", first)
	}
	assign := func(addresses ...string) wire.Object {
		return wire.Object{"NetworkInterfaceId": id, "PrivateIpAddresses": wire.Strings(addresses...)}
	}
	more := func(n int) wire.Object {
		return wire.Object{"NetworkInterfaceId": id, "SecondaryPrivateIpAddressCount": n}
	}
	a.must("AssignPrivateIpAddresses", assign("10.0.1.9"))
	got := a.must("AssignPrivateIpAddresses", more(2)).Objects("AssignedPrivateIpAddresses")
	if len(got) != 2 || len(a.nic(id).Objects("PrivateIpAddresses")) != 4 {
		t.Errorf("assigned: %v", got)
	}
	a.refused("InvalidIPAddress.InUse", "AssignPrivateIpAddresses", assign(a.nic(other).Text("PrivateIpAddress")))
	a.refused("InvalidParameterValue", "AssignPrivateIpAddresses", assign("10.0.1.3"))
	a.refused("InvalidParameterValue", "AssignPrivateIpAddresses", assign("10.0.1.15"))
	a.refused("InvalidParameterValue", "AssignPrivateIpAddresses", assign("10.0.2.5"))
	a.refused("InsufficientFreeAddressesInSubnet", "AssignPrivateIpAddresses", more(9))
	a.refused("InvalidParameterCombination", "AssignPrivateIpAddresses", wire.Object{"NetworkInterfaceId": id})
	a.refused("InvalidIPAddress.InUse", "CreateNetworkInterface", wire.Object{"SubnetId": subnet, "PrivateIpAddress": "10.0.1.9"})
	a.refused("InvalidParameterValue", "UnassignPrivateIpAddresses", assign(a.nic(id).Text("PrivateIpAddress")))
	a.refused("InvalidParameterValue", "UnassignPrivateIpAddresses", assign("10.0.1.14"))
	a.must("UnassignPrivateIpAddresses", assign("10.0.1.9"))
	a.newNIC(subnet, wire.Object{"PrivateIpAddress": "10.0.1.9"})
	if n := atOnce(10, func(int) error { _, err := a.try("AssignPrivateIpAddresses", more(1)); return err }); n != 6 {
		t.Errorf("%d addresses were assigned at once of 6 that are left", n)
	}
	seen := map[string]bool{}
	for _, o := range a.must("DescribeNetworkInterfaces", nil).Objects("NetworkInterfaces") {
		for _, address := range o.Objects("PrivateIpAddresses") {
			seen[address.Text("PrivateIpAddress")] = true
		}
	}
	if len(seen) != 11 {
		t.Errorf("addresses: %v", seen)
	}
}

func TestNetworkInterfaceAttachment(t *testing.T) {
	a := newAccount(t, lag)
	subnet := a.subnet(a.vpc("10.0.0.0/16"), "10.0.1.0/24")
	instance := a.run(subnet, nil).Text("InstanceId")
	id, other := a.newNIC(subnet, nil), a.newNIC(subnet, nil)
	a.pass(lag)
	attach := func(id string, index int) wire.Object {
		return wire.Object{"NetworkInterfaceId": id, "InstanceId": instance, "DeviceIndex": index}
	}
	attachment := a.must("AttachNetworkInterface", attach(id, 1)).Text("AttachmentId")
	byAttachment := func() wire.Object {
		all := a.must("DescribeNetworkInterfaces", with("attachment.attachment-id", attachment)).Objects("NetworkInterfaces")
		if len(all) != 1 {
			t.Fatalf("attachment: %v", all)
		}
		return all[0]
	}
	status := func(want string) {
		t.Helper()
		if got := byAttachment().Object("Attachment").Text("Status"); got != want {
			t.Errorf("attachment is %s, want %s", got, want)
		}
	}
	status("attaching")
	a.pass(lag)
	status("attached")
	if nics := a.instance(instance).Objects("NetworkInterfaces"); len(nics) != 2 || nics[1].Text("NetworkInterfaceId") != id {
		t.Errorf("of the instance: %v", nics)
	}
	a.refused("InvalidNetworkInterface.InUse", "AttachNetworkInterface", attach(id, 2))
	a.refused("InvalidParameterValue", "AttachNetworkInterface", attach(other, 1))
	a.refused("InvalidInstanceID.NotFound", "AttachNetworkInterface",
		wire.Object{"NetworkInterfaceId": other, "InstanceId": "i-00000000000000000", "DeviceIndex": 1})
	a.refused("InvalidParameterValue", "DeleteNetworkInterface", wire.Object{"NetworkInterfaceId": id})
	a.refused("InvalidNetworkInterface.InUse", "RunInstances", a.asked("", wire.Object{
		"NetworkInterfaces": wire.List(wire.Object{"DeviceIndex": 0, "NetworkInterfaceId": id}),
	}))
	primary := a.instance(instance).Objects("NetworkInterfaces")[0].Object("Attachment").Text("AttachmentId")
	a.refused("OperationNotPermitted", "DetachNetworkInterface", wire.Object{"AttachmentId": primary})
	a.refused("InvalidAttachmentID.NotFound", "DetachNetworkInterface", wire.Object{"AttachmentId": "eni-attach-1"})
	a.must("DetachNetworkInterface", wire.Object{"AttachmentId": attachment, "Force": true})
	status("detaching")
	a.pass(lag)
	status("detached")
	if o := a.nic(id); o.Text("Status") != "available" || o.Has("Attachment") {
		t.Errorf("detached: %v", o)
	}
	a.pass(time.Minute)
	a.found("DescribeNetworkInterfaces", "NetworkInterfaces", map[string]string{"attachment.attachment-id": attachment}, 0)
	a.must("AttachNetworkInterface", attach(other, 1))
	a.pass(lag)

	// One that was there before stays when its instance is terminated, unless it is told to go.
	a.must("TerminateInstances", ids("InstanceIds", instance))
	a.pass(lag)
	if o := a.nic(other); o.Text("Status") != "available" {
		t.Errorf("of a terminated instance: %v", o)
	}
	a.must("DeleteNetworkInterface", wire.Object{"NetworkInterfaceId": id})

	second := a.run("", wire.Object{"NetworkInterfaces": wire.List(wire.Object{"DeviceIndex": 0, "NetworkInterfaceId": other})})
	if second.Text("PrivateIpAddress") != a.nic(other).Text("PrivateIpAddress") || second.Text("SubnetId") != subnet {
		t.Errorf("run with a network interface: %v", second)
	}
	ends := wire.Object{"AttachmentId": a.nic(other).Object("Attachment").Text("AttachmentId"), "DeleteOnTermination": true}
	a.must("ModifyNetworkInterfaceAttribute", wire.Object{"NetworkInterfaceId": other, "Attachment": ends})
	a.must("TerminateInstances", ids("InstanceIds", second.Text("InstanceId")))
	a.pass(lag)
	a.refused("InvalidNetworkInterfaceID.NotFound", "DescribeNetworkInterfaces", ids("NetworkInterfaceIds", other))
	a.must("DeleteSubnet", wire.Object{"SubnetId": subnet})
}

// An Elastic IP address shows in its network interface and in the instance.
func TestElasticAddressOfInstance(t *testing.T) {
	a := newAccount(t, 0)
	vpc := a.vpc("10.0.0.0/16")
	a.gateway(vpc)
	instance := a.run(a.subnet(vpc, "10.0.1.0/24"), nil).Text("InstanceId")
	address := a.must("AllocateAddress", wire.Object{"Domain": "vpc"})
	a.must("AssociateAddress", wire.Object{"AllocationId": address.Text("AllocationId"), "InstanceId": instance})
	o := a.instance(instance)
	if o.Text("PublicIpAddress") != address.Text("PublicIp") {
		t.Errorf("instance: %v", o)
	}
	a.found("DescribeNetworkInterfaces", "NetworkInterfaces", map[string]string{
		"association.public-ip": address.Text("PublicIp"), "association.allocation-id": address.Text("AllocationId"),
	}, 1)
}
