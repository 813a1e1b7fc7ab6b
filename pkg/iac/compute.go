package iac

import (
	"encoding/base64"
	"slices"
	"strings"

	"hive-test/pkg/gateway/wire"
)

// What is only read, and others take names from: an image, a type of instances, a zone.
const dataImage, dataType, dataZone = "data.aws_ami", "data.aws_ec2_instance_type", "data.aws_availability_zones"

// instanceType is the one that is asked for where the endpoint has it, else the first that it lists.
const instanceType = "t3.micro"

func types() resource {
	const call = "DescribeInstanceTypes"
	return resource{name: dataType, sdk: SDKv1, parts: map[string]func(*step){"read": func(s *step) {
		out := s.do(call, wire.Object{})
		s.found(dataType, out, "InstanceTypes.InstanceType")
		if slices.Contains(out.At("InstanceTypes.InstanceType"), instanceType) {
			s.ids[dataType] = instanceType
		}
		s.has(out, call, "InstanceTypes.InstanceType", "InstanceTypes.VCpuInfo.DefaultVCpus", "InstanceTypes.MemoryInfo.SizeInMiB")
		s.one(call, wire.Chosen("InstanceTypes", s.ids[dataType]), "InstanceTypes")
	}}}
}

func offerings() resource {
	const call = "DescribeInstanceTypeOfferings"
	return resource{
		name: "data.aws_ec2_instance_type_offerings", needs: []string{dataType}, sdk: SDKv1, parts: map[string]func(*step){"read": func(s *step) {
			out := s.do(call, wire.Filtered("instance-type", s.ids[dataType]))
			s.is(out, call, "InstanceTypeOfferings.InstanceType", s.ids[dataType])
			s.has(out, call, "InstanceTypeOfferings.Location", "InstanceTypeOfferings.LocationType")
		}},
	}
}

func images() resource {
	const call = "DescribeImages"
	return resource{name: dataImage, sdk: SDKv1, parts: map[string]func(*step){"read": func(s *step) {
		out := s.do(call, wire.Object{"IncludeDeprecated": false})
		s.found(dataImage, out, "Images.ImageId")
		s.has(out, call, "Images.ImageId", "Images.Name", "Images.CreationDate", "Images.State", "Images.RootDeviceName")
		if s.failed() {
			return
		}
		name := out.At("Images.Name")[0]
		found := s.do(call, wire.Filtered("name", name[:max(0, len(name)-1)]+"*"))
		s.is(found, call, "Images.ImageId", s.ids[dataImage])
	}}}
}

func instance() resource {
	const name, call = "aws_instance", "DescribeInstances"
	describe := func(s *step) wire.Object {
		out := s.one(call, wire.Chosen("InstanceIds", s.ids[name]), "Reservations")
		list := out.Objects("Instances")
		if len(list) != 1 {
			s.fail(Stub, call, "the reservation has %d instances, and should have one", len(list))
			return nil
		}
		return list[0]
	}
	read := func(s *step) {
		one := describe(s)
		s.is(one, call, "SubnetId", s.ids["aws_subnet"])
		s.only(one, call, "SecurityGroups.GroupId", groupsOf(s)...)
		if group := s.ids["aws_placement_group"]; group != "" {
			s.is(one, call, "Placement.GroupName", s.prefix) // what is forgotten has the provider make another instance
		}
		s.is(one, call, "ImageId", s.ids[dataImage])
		s.is(one, call, "InstanceType", s.ids[dataType])
		s.is(one, call, "KeyName", s.prefix)
		s.is(one, call, "Tags.Value", s.prefix)
		s.has(one, call, "Placement.AvailabilityZone", "Placement.Tenancy", "RootDeviceName", "BlockDeviceMappings.Ebs.VolumeId",
			"NetworkInterfaces.NetworkInterfaceId", "NetworkInterfaces.Attachment.DeviceIndex", "PrivateIpAddress",
			"Monitoring.State", "SourceDestCheck", "MetadataOptions.HttpTokens", "CpuOptions.CoreCount", "VpcId")
		s.one("DescribeInstanceTypes", wire.Chosen("InstanceTypes", s.ids[dataType]), "InstanceTypes")
		s.do("DescribeTags", wire.Filtered("key", "aws:ec2launchtemplate:id", "resource-id", s.ids[name]))
		s.one("DescribeVpcs", wire.Chosen("VpcIds", s.ids["aws_vpc"]), "Vpcs")
		for _, member := range []string{"InstanceInitiatedShutdownBehavior", "DisableApiStop", "DisableApiTermination"} {
			attribute := strings.ToLower(member[:1]) + member[1:]
			out := s.do("DescribeInstanceAttribute", wire.Object{"InstanceId": s.ids[name], "Attribute": attribute})
			s.has(out, "DescribeInstanceAttribute", member+".Value") // the provider crashes on one without a value
		}
		s.hasUserData(s.ids[name])
		s.do("DescribeVolumes", wire.Object{"Filters": wire.Filtered("attachment.instance-id", s.ids[name])["Filters"]})
		if s.ids[dataType] == instanceType {
			const credits = "DescribeInstanceCreditSpecifications"
			one := s.one(credits, wire.Chosen("InstanceIds", s.ids[name]), "InstanceCreditSpecifications")
			s.is(one, credits, "CpuCredits", s.ids["credits"])
		}
	}
	return resource{
		name: name, needs: []string{dataImage, dataType, "aws_subnet", "aws_security_group", "aws_key_pair"}, sdk: SDKv1,
		parts: map[string]func(*step){
			"create": func(s *step) {
				in := instanceRequest(s)
				out := s.do("RunInstances", in)
				s.id(name, out, "RunInstances", "Instances.InstanceId")
				again := s.do("RunInstances", in) // SDKs send again what was not answered
				s.is(again, "RunInstances with the same ClientToken", "Instances.InstanceId", s.ids[name])
				s.until(call, wire.Chosen("InstanceIds", s.ids[name]), "Reservations.Instances.State.Name", "running")
			},
			"read": read, "no diff": unchanged(read),
			"update": func(s *step) {
				s.retag(s.ids[name], func() wire.Object { return describe(s) })
				changeUserData(s, s.ids[name])
				changeGroups(s, describe)
				s.do("ModifyInstanceAttribute", wire.Object{"InstanceId": s.ids[name], "DisableApiTermination": wire.Value(true)})
				s.until("DescribeInstanceAttribute", wire.Object{"InstanceId": s.ids[name], "Attribute": "disableApiTermination"},
					"DisableApiTermination.Value", "true")
				changeInstance(s, s.ids[name], describe)
				s.refused("TerminateInstances", wire.Chosen("InstanceIds", s.ids[name]), "OperationNotPermitted")
			},
			"delete": func(s *step) {
				s.do("ModifyInstanceAttribute", wire.Object{"InstanceId": s.ids[name], "DisableApiTermination": wire.Value(false)})
				s.do("TerminateInstances", wire.Chosen("InstanceIds", s.ids[name]))
				s.until(call, wire.Chosen("InstanceIds", s.ids[name]), "Reservations.Instances.State.Name", "terminated")
			},
		},
	}
}

// instanceRequest is an instance as the provider asks for it: what is not set has an empty value, or the one that it has
// without being asked for.
func instanceRequest(s *step) wire.Object {
	s.ids["user data"], s.ids["credits"] = "#!/bin/sh\n", "unlimited"
	in := wire.Object{
		"ImageId": s.ids[dataImage], "InstanceType": s.ids[dataType], "MinCount": 1, "MaxCount": 1, "KeyName": s.prefix,
		"ClientToken": s.prefix + "-i", "SubnetId": s.ids["aws_subnet"],
		"SecurityGroupIds": wire.Strings(groupsOf(s)...), "DisableApiTermination": false,
		"EbsOptimized": false, "Monitoring": wire.Object{"Enabled": false},
		"UserData":          base64.StdEncoding.EncodeToString([]byte(s.ids["user data"])),
		"TagSpecifications": s.tags("instance"), "Placement": wire.Object{"AvailabilityZone": ""},
	}
	if s.ids["aws_placement_group"] != "" {
		in.Object("Placement")["GroupName"] = s.prefix
	}
	if s.ids[dataType] == instanceType {
		in["CreditSpecification"] = wire.Object{"CpuCredits": s.ids["credits"]}
	}
	return in
}

// groupsOf are the security groups that the instance was asked to have: at first two, of which a network interface that is
// attached to it has one only.
func groupsOf(s *step) []string {
	own, more := s.ids["aws_security_group"], s.ids["aws_default_security_group"]
	switch left := s.ids["group left"]; {
	case left != "":
		return []string{left}
	case more == "":
		return []string{own}
	}
	return []string{own, more}
}

func instanceState() resource {
	return resource{name: "aws_ec2_instance_state", needs: []string{"aws_instance"}, sdk: SDKv1, parts: map[string]func(*step){
		"read": func(s *step) {
			out := s.do("DescribeInstanceStatus", wire.Object{
				"InstanceIds": wire.Strings(s.ids["aws_instance"]), "IncludeAllInstances": true,
			})
			s.has(out, "DescribeInstanceStatus", "InstanceStatuses.InstanceState.Name")
		},
		"update": func(s *step) {
			s.stopped(s.ids["aws_instance"], func() {})
		},
	}}
}

func volume() resource {
	const name, call = "aws_ebs_volume", "DescribeVolumes"
	describe := func(s *step) wire.Object { return s.one(call, wire.Chosen("VolumeIds", s.ids[name]), "Volumes") }
	read := func(s *step) {
		one := describe(s)
		s.is(one, call, "AvailabilityZone", s.ids[dataZone])
		s.is(one, call, "Tags.Value", s.prefix)
		s.has(one, call, "Size", "VolumeType", "Encrypted", "CreateTime")
	}
	return resource{name: name, needs: []string{dataZone}, sdk: SDKv1, parts: map[string]func(*step){
		"create": func(s *step) {
			out := s.do("CreateVolume", wire.Object{
				"AvailabilityZone": s.ids[dataZone], "Size": 1, "VolumeType": "gp3", "ClientToken": s.prefix + "-vol",
				"TagSpecifications": s.tags("volume"),
			})
			s.id(name, out, "CreateVolume", "VolumeId")
			s.until(call, wire.Chosen("VolumeIds", s.ids[name]), "Volumes.State", "available")
		},
		"read": read, "no diff": unchanged(read),
		"update": func(s *step) {
			s.do("ModifyVolume", wire.Object{"VolumeId": s.ids[name], "Size": 2})
			s.until(call, wire.Chosen("VolumeIds", s.ids[name]), "Volumes.Size", "2")
			s.retag(s.ids[name], func() wire.Object { return describe(s) })
		},
		"delete": func(s *step) {
			s.do("DeleteVolume", wire.Object{"VolumeId": s.ids[name]})
			s.gone(call, wire.Chosen("VolumeIds", s.ids[name]), "", "InvalidVolume.NotFound")
		},
	}}
}

func attachment() resource {
	const name, call, device = "aws_volume_attachment", "DescribeVolumes", "/dev/sdf"
	found := func(s *step) wire.Object {
		in := wire.Filtered("attachment.device", device, "attachment.instance-id", s.ids["aws_instance"])
		in["VolumeIds"] = wire.Strings(s.ids["aws_ebs_volume"])
		return in
	}
	read := func(s *step) {
		one := s.one(call, found(s), "Volumes")
		s.is(one, call, "Attachments.InstanceId", s.ids["aws_instance"])
		s.is(one, call, "Attachments.Device", device)
	}
	return resource{
		name: name, needs: []string{"aws_instance", "aws_ebs_volume"}, sdk: SDKv1, parts: map[string]func(*step){
			"create": func(s *step) {
				if out := s.do(call, found(s)); len(out.Objects("Volumes")) > 0 {
					s.fail(Stub, call, "filters find a volume that is not attached")
				}
				s.do("AttachVolume", wire.Object{
					"Device": device, "InstanceId": s.ids["aws_instance"], "VolumeId": s.ids["aws_ebs_volume"],
				})
				s.until(call, found(s), "Volumes.Attachments.State", "attached")
			},
			"read": read, "no diff": unchanged(read),
			"delete": func(s *step) {
				s.do("DetachVolume", wire.Object{
					"Device": device, "Force": false, "InstanceId": s.ids["aws_instance"], "VolumeId": s.ids["aws_ebs_volume"],
				})
				s.gone(call, found(s), "Volumes", "")
			},
		},
	}
}

func snapshot() resource {
	const name, call = "aws_ebs_snapshot", "DescribeSnapshots"
	describe := func(s *step) wire.Object { return s.one(call, wire.Chosen("SnapshotIds", s.ids[name]), "Snapshots") }
	read := func(s *step) {
		one := describe(s)
		s.is(one, call, "VolumeId", s.ids["aws_ebs_volume"])
		s.is(one, call, "Description", "of the probe")
		s.is(one, call, "Tags.Value", s.prefix)
		s.has(one, call, "OwnerId", "VolumeSize", "Encrypted", "StartTime")
	}
	return resource{name: name, needs: []string{"aws_ebs_volume"}, sdk: SDKv1, parts: map[string]func(*step){
		"create": func(s *step) {
			out := s.do("CreateSnapshot", wire.Object{
				"VolumeId": s.ids["aws_ebs_volume"], "Description": "of the probe", "TagSpecifications": s.tags("snapshot"),
			})
			s.id(name, out, "CreateSnapshot", "SnapshotId")
			s.until(call, wire.Chosen("SnapshotIds", s.ids[name]), "Snapshots.State", "completed")
		},
		"read": read, "no diff": unchanged(read),
		"update": func(s *step) { s.retag(s.ids[name], func() wire.Object { return describe(s) }) },
		"delete": func(s *step) {
			s.do("DeleteSnapshot", wire.Object{"SnapshotId": s.ids[name]})
			s.gone(call, wire.Chosen("SnapshotIds", s.ids[name]), "", "InvalidSnapshot.NotFound")
		},
	}}
}

func address() resource {
	const name, call = "aws_eip", "DescribeAddresses"
	describe := func(s *step) wire.Object { return s.one(call, wire.Chosen("AllocationIds", s.ids[name]), "Addresses") }
	read := func(s *step) {
		one := describe(s)
		s.is(one, call, "Domain", "vpc")
		s.is(one, call, "Tags.Value", s.prefix)
		s.has(one, call, "PublicIp")
		// Its name in DNS, which may be none; from 5.5x on the provider asks for it, and 5.55 fails where the action is missing.
		s.do("DescribeAddressesAttribute", wire.Object{
			"AllocationIds": wire.Strings(s.ids[name]), "Attribute": "domain-name",
		})
	}
	return resource{name: name, sdk: SDKv1, parts: map[string]func(*step){
		"create": func(s *step) {
			out := s.do("AllocateAddress", wire.Object{"Domain": "vpc", "TagSpecifications": s.tags("elastic-ip")})
			s.id(name, out, "AllocateAddress", "AllocationId")
		},
		"read": read, "no diff": unchanged(read),
		"update": func(s *step) { s.retag(s.ids[name], func() wire.Object { return describe(s) }) },
		"delete": func(s *step) {
			s.do("ReleaseAddress", wire.Object{"AllocationId": s.ids[name]})
			s.gone(call, wire.Chosen("AllocationIds", s.ids[name]), "", "InvalidAllocationID.NotFound")
		},
	}}
}

func addressAssociation() resource {
	const name, call = "aws_eip_association", "DescribeAddresses"
	read := func(s *step) {
		one := s.one(call, wire.Filtered("association-id", s.ids[name]), "Addresses")
		s.is(one, call, "InstanceId", s.ids["aws_instance"])
		s.has(one, call, "NetworkInterfaceId", "PrivateIpAddress")
	}
	return resource{name: name, needs: []string{"aws_eip", "aws_instance", "aws_internet_gateway"}, sdk: SDKv1, parts: map[string]func(*step){
		"create": func(s *step) {
			out := s.do("AssociateAddress", wire.Object{"AllocationId": s.ids["aws_eip"], "InstanceId": s.ids["aws_instance"]})
			s.id(name, out, "AssociateAddress", "AssociationId")
		},
		"read": read, "no diff": unchanged(read),
		"delete": func(s *step) {
			s.do("DisassociateAddress", wire.Object{"AssociationId": s.ids[name]})
			s.refused("DisassociateAddress", wire.Object{"AssociationId": s.ids[name]}, "InvalidAssociationID.NotFound")
		},
	}}
}

func networkInterface() resource {
	const name, call = "aws_network_interface", "DescribeNetworkInterfaces"
	describe := func(s *step) wire.Object {
		return s.one(call, wire.Chosen("NetworkInterfaceIds", s.ids[name]), "NetworkInterfaces")
	}
	read := func(s *step) {
		one := describe(s)
		s.is(one, call, "SubnetId", s.ids["aws_subnet"])
		s.only(one, call, "Groups.GroupId", s.ids["aws_security_group"])
		s.is(one, call, "Tags.Value", s.prefix)
		s.has(one, call, "PrivateIpAddress", "MacAddress", "SourceDestCheck", "OwnerId", "PrivateIpAddresses.PrivateIpAddress")
	}
	return resource{
		name: name, needs: []string{"aws_subnet", "aws_security_group"}, sdk: SDKv2, parts: map[string]func(*step){
			"create": func(s *step) {
				out := s.do("CreateNetworkInterface", wire.Object{
					"SubnetId": s.ids["aws_subnet"], "Groups": wire.Strings(s.ids["aws_security_group"]),
					"ClientToken": s.prefix + "-eni", "TagSpecifications": s.tags("network-interface"),
				})
				s.id(name, out, "CreateNetworkInterface", "NetworkInterface.NetworkInterfaceId")
				s.until(call, wire.Chosen("NetworkInterfaceIds", s.ids[name]), "NetworkInterfaces.Status", "available")
			},
			"read": read, "no diff": unchanged(read),
			"update": func(s *step) {
				s.do("ModifyNetworkInterfaceAttribute", wire.Object{
					"NetworkInterfaceId": s.ids[name], "SourceDestCheck": wire.Value(false),
				})
				s.until(call, wire.Chosen("NetworkInterfaceIds", s.ids[name]), "NetworkInterfaces.SourceDestCheck", "false")
				changeAddresses(s, s.ids[name])
			},
			"delete": func(s *step) {
				s.do("DeleteNetworkInterface", wire.Object{"NetworkInterfaceId": s.ids[name]})
				s.gone(call, wire.Chosen("NetworkInterfaceIds", s.ids[name]), "", "InvalidNetworkInterfaceID.NotFound")
			},
		},
	}
}

func tag() resource {
	const name, call = "aws_ec2_tag", "DescribeTags"
	read := func(s *step) {
		one := s.one(call, wire.Filtered("resource-id", s.ids["aws_vpc"], "key", "extra"), "Tags")
		s.is(one, call, "Value", "yes")
	}
	return resource{name: name, needs: []string{"aws_vpc"}, sdk: SDKv2, parts: map[string]func(*step){
		"create": func(s *step) {
			s.do("CreateTags", wire.Object{
				"Resources": wire.Strings(s.ids["aws_vpc"]), "Tags": wire.List(s.tag("extra", "yes")),
			})
		},
		"read": read, "no diff": unchanged(read),
		"delete": func(s *step) {
			s.do("DeleteTags", wire.Object{
				"Resources": wire.Strings(s.ids["aws_vpc"]), "Tags": wire.List(s.tag("extra", "yes")),
			})
			s.gone(call, wire.Filtered("resource-id", s.ids["aws_vpc"], "key", "extra"), "Tags", "")
		},
	}}
}
