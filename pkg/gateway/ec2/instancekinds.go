package ec2

func instanceKind() kind {
	return kind{
		bucket: "instance", prefix: "i", id: "InstanceId", ids: "InstanceIds", list: "Instances",
		code: "InvalidInstanceID.NotFound", called: "instance ID", malformed: "InvalidInstanceID.Malformed",
		filters: map[string]string{
			"affinity": "Placement.Affinity", "architecture": "Architecture",
			"availability-zone": "Placement.AvailabilityZone", "availability-zone-id": "Placement.AvailabilityZoneId",
			"block-device-mapping.attach-time":           "BlockDeviceMappings.Ebs.AttachTime",
			"block-device-mapping.delete-on-termination": "BlockDeviceMappings.Ebs.DeleteOnTermination",
			"block-device-mapping.device-name":           "BlockDeviceMappings.DeviceName",
			"block-device-mapping.status":                "BlockDeviceMappings.Ebs.Status",
			"block-device-mapping.volume-id":             "BlockDeviceMappings.Ebs.VolumeId",
			"client-token":                               "ClientToken", "dns-name": "PublicDnsName", "hypervisor": "Hypervisor",
			"group-id": "SecurityGroups.GroupId", "group-name": "SecurityGroups.GroupName",
			"hibernation-options.configured": "HibernationOptions.Configured",
			"iam-instance-profile.arn":       "IamInstanceProfile.Arn", "iam-instance-profile.id": "IamInstanceProfile.Id",
			"image-id": "ImageId", "instance-id": "InstanceId", "instance-lifecycle": "InstanceLifecycle",
			"instance-state-code": "State.Code", "instance-state-name": "State.Name", "instance-type": "InstanceType",
			"instance.group-id": "SecurityGroups.GroupId", "instance.group-name": "SecurityGroups.GroupName",
			"ip-address": "PublicIpAddress", "key-name": "KeyName", "launch-index": "AmiLaunchIndex",
			"launch-time": "LaunchTime", "metadata-options.http-endpoint": "MetadataOptions.HttpEndpoint",
			"metadata-options.http-put-response-hop-limit": "MetadataOptions.HttpPutResponseHopLimit",
			"metadata-options.http-tokens":                 "MetadataOptions.HttpTokens", "monitoring-state": "Monitoring.State",
			"network-interface.addresses.association.public-ip": "NetworkInterfaces.PrivateIpAddresses.Association.PublicIp",
			"network-interface.addresses.primary":               "NetworkInterfaces.PrivateIpAddresses.Primary",
			"network-interface.addresses.private-ip-address":    "NetworkInterfaces.PrivateIpAddresses.PrivateIpAddress",
			"network-interface.association.public-ip":           "NetworkInterfaces.Association.PublicIp",
			"network-interface.attachment.attachment-id":        "NetworkInterfaces.Attachment.AttachmentId",
			"network-interface.attachment.device-index":         "NetworkInterfaces.Attachment.DeviceIndex",
			"network-interface.attachment.status":               "NetworkInterfaces.Attachment.Status",
			"network-interface.description":                     "NetworkInterfaces.Description",
			"network-interface.group-id":                        "NetworkInterfaces.Groups.GroupId",
			"network-interface.group-name":                      "NetworkInterfaces.Groups.GroupName",
			"network-interface.mac-address":                     "NetworkInterfaces.MacAddress",
			"network-interface.network-interface-id":            "NetworkInterfaces.NetworkInterfaceId",
			"network-interface.owner-id":                        "NetworkInterfaces.OwnerId",
			"network-interface.private-dns-name":                "NetworkInterfaces.PrivateDnsName",
			"network-interface.source-dest-check":               "NetworkInterfaces.SourceDestCheck",
			"network-interface.status":                          "NetworkInterfaces.Status",
			"network-interface.subnet-id":                       "NetworkInterfaces.SubnetId",
			"network-interface.vpc-id":                          "NetworkInterfaces.VpcId", "owner-id": ownerMember,
			"placement-group-name": "Placement.GroupName", "placement-partition-number": "Placement.PartitionNumber",
			"platform": "Platform", "platform-details": "PlatformDetails", "private-dns-name": "PrivateDnsName",
			"private-ip-address": "PrivateIpAddress", "reason": "StateTransitionReason",
			"reservation-id": reservationMember, "root-device-name": "RootDeviceName",
			"root-device-type": "RootDeviceType", "source-dest-check": "SourceDestCheck",
			"state-reason-code": "StateReason.Code", "subnet-id": "SubnetId", "tenancy": "Placement.Tenancy",
			"usage-operation": "UsageOperation", "virtualization-type": "VirtualizationType", "vpc-id": "VpcId",
		},
	}
}

func volumeKind() kind {
	return kind{
		bucket: "volume", prefix: "vol", id: "VolumeId", ids: "VolumeIds", list: "Volumes",
		code: "InvalidVolume.NotFound", called: "volume",
		filters: map[string]string{
			"attachment.attach-time":           "Attachments.AttachTime",
			"attachment.delete-on-termination": "Attachments.DeleteOnTermination",
			"attachment.device":                "Attachments.Device", "attachment.instance-id": "Attachments.InstanceId",
			"attachment.status": "Attachments.State", "availability-zone": "AvailabilityZone",
			"availability-zone-id": "AvailabilityZoneId", "create-time": "CreateTime", "encrypted": "Encrypted",
			"fast-restored": "FastRestored", "multi-attach-enabled": "MultiAttachEnabled", "size": "Size",
			"snapshot-id": "SnapshotId", "status": "State", "volume-id": "VolumeId", "volume-type": "VolumeType",
		},
	}
}

func snapshotKind() kind {
	return kind{
		bucket: "snapshot", prefix: "snap", id: "SnapshotId", ids: "SnapshotIds", list: "Snapshots",
		code: "InvalidSnapshot.NotFound", called: "snapshot",
		filters: map[string]string{
			"description": "Description", "encrypted": "Encrypted", "owner-alias": "OwnerAlias", "owner-id": "OwnerId",
			"progress": "Progress", "snapshot-id": "SnapshotId", "start-time": "StartTime", "status": "State",
			"storage-tier": "StorageTier", "volume-id": "VolumeId", "volume-size": "VolumeSize",
		},
	}
}

func imageKind() kind {
	return kind{
		bucket: "image", prefix: "ami", id: "ImageId", ids: "ImageIds", list: "Images",
		code: "InvalidAMIID.NotFound", called: "image id", malformed: "InvalidAMIID.Malformed",
		filters: map[string]string{
			"architecture": "Architecture",
			"block-device-mapping.delete-on-termination": "BlockDeviceMappings.Ebs.DeleteOnTermination",
			"block-device-mapping.device-name":           "BlockDeviceMappings.DeviceName",
			"block-device-mapping.encrypted":             "BlockDeviceMappings.Ebs.Encrypted",
			"block-device-mapping.snapshot-id":           "BlockDeviceMappings.Ebs.SnapshotId",
			"block-device-mapping.volume-size":           "BlockDeviceMappings.Ebs.VolumeSize",
			"block-device-mapping.volume-type":           "BlockDeviceMappings.Ebs.VolumeType",
			"creation-date":                              "CreationDate", "description": "Description",
			"ena-support": "EnaSupport", "hypervisor": "Hypervisor", "image-id": "ImageId", "image-type": "ImageType",
			"is-public": "Public", "manifest-location": "ImageLocation", "name": "Name",
			"owner-alias": "ImageOwnerAlias", "owner-id": "OwnerId", "platform": "Platform",
			"root-device-name": "RootDeviceName", "root-device-type": "RootDeviceType",
			"source-instance-id": "SourceInstanceId", "sriov-net-support": "SriovNetSupport", "state": "State",
			"virtualization-type": "VirtualizationType",
		},
	}
}

func interfaceKind() kind {
	return kind{
		bucket: "network-interface", prefix: "eni", id: "NetworkInterfaceId", ids: "NetworkInterfaceIds",
		list: "NetworkInterfaces", code: "InvalidNetworkInterfaceID.NotFound", called: "networkInterface ID",
		filters: map[string]string{
			"addresses.association.public-ip":  "PrivateIpAddresses.Association.PublicIp",
			"addresses.primary":                "PrivateIpAddresses.Primary",
			"addresses.private-ip-address":     "PrivateIpAddresses.PrivateIpAddress",
			"association.allocation-id":        "Association.AllocationId",
			"association.association-id":       "Association.AssociationId",
			"association.ip-owner-id":          "Association.IpOwnerId",
			"association.public-dns-name":      "Association.PublicDnsName",
			"association.public-ip":            "Association.PublicIp",
			"attachment.attach-time":           "Attachment.AttachTime",
			"attachment.attachment-id":         "Attachment.AttachmentId",
			"attachment.delete-on-termination": "Attachment.DeleteOnTermination",
			"attachment.device-index":          "Attachment.DeviceIndex",
			"attachment.instance-id":           "Attachment.InstanceId",
			"attachment.instance-owner-id":     "Attachment.InstanceOwnerId",
			"attachment.status":                "Attachment.Status",
			"availability-zone":                "AvailabilityZone",
			"availability-zone-id":             "AvailabilityZoneId",
			"description":                      "Description",
			"group-id":                         "Groups.GroupId",
			"group-name":                       "Groups.GroupName",
			"interface-type":                   "InterfaceType",
			"ipv6-addresses.ipv6-address":      "Ipv6Addresses.Ipv6Address",
			"mac-address":                      "MacAddress",
			"network-interface-id":             "NetworkInterfaceId",
			"owner-id":                         "OwnerId",
			"private-dns-name":                 "PrivateDnsName",
			"private-ip-address":               "PrivateIpAddress",
			"requester-id":                     "RequesterId",
			"requester-managed":                "RequesterManaged",
			"source-dest-check":                "SourceDestCheck",
			"status":                           "Status",
			"subnet-id":                        "SubnetId",
			"vpc-id":                           "VpcId",
		},
	}
}
