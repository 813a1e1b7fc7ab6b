package iac

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"hive-test/pkg/gateway/wire"
)

// changeInstance changes what the provider changes of an instance that runs, each by a call of its own, and proves that
// reads tell of it. Describe reads the instance.
func changeInstance(s *step, id string, describe func(*step) wire.Object) {
	const call = "DescribeInstances"
	for _, change := range []struct{ action, state string }{{"MonitorInstances", "enabled"}, {"UnmonitorInstances", "disabled"}} {
		s.do(change.action, wire.Chosen("InstanceIds", id))
		s.until(call, wire.Chosen("InstanceIds", id), "Reservations.Instances.Monitoring.State", change.state)
	}
	s.do("ModifyInstanceMetadataOptions", wire.Object{
		"InstanceId": id, "HttpEndpoint": "enabled", "HttpTokens": "required", "HttpPutResponseHopLimit": 2,
		"InstanceMetadataTags": "disabled",
	})
	s.until(call, wire.Chosen("InstanceIds", id), "Reservations.Instances.MetadataOptions.State", "applied")
	one := describe(s)
	s.is(one, call, "MetadataOptions.HttpTokens", "required")
	s.is(one, call, "MetadataOptions.HttpPutResponseHopLimit", "2")
	if s.ids[dataType] == instanceType {
		const credits, other = "DescribeInstanceCreditSpecifications", "standard"
		s.do("ModifyInstanceCreditSpecification", wire.Object{"InstanceCreditSpecifications": wire.List(
			wire.Object{"InstanceId": id, "CpuCredits": other},
		)})
		s.changed("credits", other)
		s.is(s.do(credits, wire.Chosen("InstanceIds", id)), credits, "InstanceCreditSpecifications.CpuCredits", other)
	}
	growRoot(s, one)
}

// changed notes what a change has succeeded in: later reads are to tell it.
func (s *step) changed(what, to string) {
	if !s.failed() {
		s.ids[what] = to
	}
}

// changeGroups leaves an instance one of its security groups.
func changeGroups(s *step, describe func(*step) wire.Object) {
	one := describe(s)
	if s.has(one, "DescribeInstances", "NetworkInterfaces.NetworkInterfaceId"); s.failed() {
		return
	}
	left := cmp.Or(s.ids["aws_default_security_group"], s.ids["aws_security_group"])
	s.do("ModifyNetworkInterfaceAttribute", wire.Object{
		"NetworkInterfaceId": one.At("NetworkInterfaces.NetworkInterfaceId")[0], "Groups": wire.Strings(left),
	})
	s.changed("group left", left)
	s.only(describe(s), "ModifyNetworkInterfaceAttribute", "SecurityGroups.GroupId", left)
}

// changeUserData gives an instance other user data, while it is stopped.
func changeUserData(s *step, id string) {
	const other = "b"
	s.stopped(id, func() {
		s.do("ModifyInstanceAttribute", wire.Object{
			"InstanceId": id, "UserData": wire.Value(base64.StdEncoding.EncodeToString([]byte(other))),
		})
		s.changed("user data", other)
	})
	s.hasUserData(id)
}

// stopped stops an instance, does what is done then, and starts it, whatever came of that: others need it.
func (s *step) stopped(id string, do func()) {
	const call, path = "DescribeInstances", "Reservations.Instances.State.Name"
	s.do("StopInstances", wire.Chosen("InstanceIds", id))
	if s.until(call, wire.Chosen("InstanceIds", id), path, "stopped"); s.failed() {
		return
	}
	do()
	verdict, decided, why := s.verdict, s.call, s.why
	s.verdict = ""
	s.do("StartInstances", wire.Chosen("InstanceIds", id))
	s.until(call, wire.Chosen("InstanceIds", id), path, "running")
	if verdict != "" {
		s.verdict, s.call, s.why = verdict, decided, why
	}
}

// hasUserData reads an instance's user data. The provider compares what is told as base64 with what it asked for.
func (s *step) hasUserData(id string) {
	const call = "DescribeInstanceAttribute"
	out := s.do(call, wire.Object{"InstanceId": id, "Attribute": "userData"})
	text, err := base64.StdEncoding.DecodeString(out.Object("UserData").Text("Value"))
	if !s.failed() && (err != nil || string(text) != s.ids["user data"]) {
		s.fail(Stub, call, "the user data is not what was asked for as base64")
	}
}

// growRoot makes an instance's root volume larger by one GiB.
func growRoot(s *step, instance wire.Object) {
	const call = "DescribeVolumesModifications"
	if s.failed() {
		return
	}
	root := wire.Chosen("VolumeIds", instance.At("BlockDeviceMappings.Ebs.VolumeId")[0])
	volume := s.one("DescribeVolumes", root, "Volumes")
	size := volume.Int("Size") + 1
	s.do("ModifyVolume", wire.Object{"VolumeId": volume.Text("VolumeId"), "Size": size})
	s.poll(call, root, func(out wire.Object, _ error) (bool, string) {
		states := out.At("VolumesModifications.ModificationState")
		ready := slices.Contains(states, "completed") || slices.Contains(states, "optimizing")
		return ready, fmt.Sprintf("ModificationState is %q, and never %q", strings.Join(states, ", "), "completed")
	})
	s.is(s.one("DescribeVolumes", root, "Volumes"), "DescribeVolumes", "Size", fmt.Sprint(size))
}

// changeAddresses gives a network interface a second private address, and takes it away.
func changeAddresses(s *step, id string) {
	const call, path = "DescribeNetworkInterfaces", "NetworkInterfaces.PrivateIpAddresses.PrivateIpAddress"
	addresses := func() []string {
		found := s.do(call, wire.Chosen("NetworkInterfaceIds", id)).At(path)
		slices.Sort(found)
		return found
	}
	before := addresses()
	s.do("AssignPrivateIpAddresses", wire.Object{"NetworkInterfaceId": id, "SecondaryPrivateIpAddressCount": 1})
	more := addresses()
	added := slices.DeleteFunc(slices.Clone(more), func(address string) bool { return slices.Contains(before, address) })
	if !s.failed() && len(added) != 1 {
		s.fail(Stub, "AssignPrivateIpAddresses", "%d private addresses were added, and should be one", len(added))
	}
	s.do("UnassignPrivateIpAddresses", wire.Object{"NetworkInterfaceId": id, "PrivateIpAddresses": wire.Strings(added...)})
	if after := addresses(); !s.failed() && !slices.Equal(after, before) {
		s.fail(Stub, "UnassignPrivateIpAddresses", "a private address that was taken away is still told of")
	}
}

// interfaceAttachment is a second network interface of an instance.
func interfaceAttachment() resource {
	const name, call = "aws_network_interface_attachment", "DescribeNetworkInterfaces"
	found := func(s *step) wire.Object { return wire.Filtered("attachment.attachment-id", s.ids[name]) }
	read := func(s *step) {
		one := s.one(call, found(s), "NetworkInterfaces")
		s.is(one, call, "NetworkInterfaceId", s.ids["aws_network_interface"])
		s.is(one, call, "Attachment.InstanceId", s.ids["aws_instance"])
		s.is(one, call, "Attachment.DeviceIndex", "1")
		s.only(one, call, "Groups.GroupId", s.ids["aws_security_group"]) // not the instance's
	}
	return resource{
		name: name, needs: []string{"aws_instance", "aws_network_interface"}, sdk: SDKv2, parts: map[string]func(*step){
			"create": func(s *step) {
				out := s.do("AttachNetworkInterface", wire.Object{
					"NetworkInterfaceId": s.ids["aws_network_interface"], "InstanceId": s.ids["aws_instance"], "DeviceIndex": 1,
				})
				s.id(name, out, "AttachNetworkInterface", "AttachmentId")
				s.until(call, found(s), "NetworkInterfaces.Attachment.Status", "attached")
			},
			"read": read, "no diff": unchanged(read),
			"delete": func(s *step) {
				s.do("DetachNetworkInterface", wire.Object{"AttachmentId": s.ids[name], "Force": true})
				// Where it is not told of as detached for a while, the provider asks for minutes.
				s.until(call, found(s), "NetworkInterfaces.Attachment.Status", "detached")
				s.until(call, wire.Chosen("NetworkInterfaceIds", s.ids["aws_network_interface"]), "NetworkInterfaces.Status", "available")
				s.refused("DetachNetworkInterface", wire.Object{"AttachmentId": s.ids[name], "Force": true},
					"InvalidAttachmentID.NotFound")
			},
		},
	}
}
