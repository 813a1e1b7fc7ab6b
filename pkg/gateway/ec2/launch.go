package ec2

import (
	"context"
	"crypto/sha256"
	"net/netip"
	"strings"

	"hive-test/pkg/gateway/wire"
)

// findInterfaces finds where the network interfaces of instances go: those that a request has, or one in its subnet.
// Without a subnet that is the first of the groups' VPC, or of the account; where there is none, instances are in no VPC.
func (s *Service) findInterfaces(ctx context.Context, l *launch) error {
	specs := wire.Object{"I": l.in["NetworkInterfaces"]}.Clone().Objects("I")
	if len(specs) == 0 {
		spec := pick(l.in, "SubnetId", "PrivateIpAddress")
		spec["DeviceIndex"], spec["Groups"] = int64(0), l.in["SecurityGroupIds"]
		specs = []wire.Object{spec}
	}
	if most := l.info.Object("NetworkInfo").Int("MaximumNetworkInterfaces"); int64(len(specs)) > most {
		return tooManyInterfaces(l.info.Text("InstanceType"), int64(len(specs)))
	}
	indexes := map[int64]bool{}
	for _, spec := range specs {
		there, err := s.placeInterface(ctx, spec)
		if err != nil {
			return err
		}
		if !there {
			return nil
		}
		index := spec.Int("DeviceIndex")
		if indexes[index] {
			return invalid("Each network interface requires a unique device index.")
		}
		indexes[index] = true
	}
	if !indexes[0] {
		return invalid("A network interface at device index 0 must be specified.")
	}
	l.interfaces = specs
	return s.namedGroups(ctx, l)
}

func tooManyInterfaces(typeName string, count int64) error {
	return wire.Errorf("AttachmentLimitExceeded", "Interface count %d exceeds the limit for %s", count, typeName)
}

// placeInterface sets the subnet of a network interface; false: there is none in the account.
func (s *Service) placeInterface(ctx context.Context, spec wire.Object) (bool, error) {
	if id := spec.Text("NetworkInterfaceId"); id != "" {
		eni, err := s.get(ctx, interfaceKind(), id)
		if err == nil && attached(eni) {
			err = interfaceInUse(id)
		}
		spec["SubnetId"] = eni.Text("SubnetId")
		return true, err
	}
	if id := spec.Text("SubnetId"); id != "" {
		subnet, err := s.get(ctx, subnetKind(), id)
		if err == nil {
			_, err = s.groupsIn(ctx, subnet, spec.Texts("Groups"))
		}
		return true, err
	}
	vpc := ""
	if groups := spec.Texts("Groups"); len(groups) > 0 {
		group, err := s.get(ctx, groupKind(), groups[0])
		if err != nil {
			return false, err
		}
		vpc = group.Text("VpcId")
	}
	all, err := s.all(ctx, subnetKind())
	if err != nil {
		return false, err
	}
	for _, subnet := range all {
		if vpc == "" || subnet.Text("VpcId") == vpc {
			spec["SubnetId"] = subnet.Text("SubnetId")
			return true, nil
		}
	}
	if vpc != "" {
		return false, wire.Errorf("MissingInput", "No subnets found for the VPC '%s'. Please specify a subnet.", vpc)
	}
	return false, nil
}

// namedGroups adds the security groups that a request has by name.
func (s *Service) namedGroups(ctx context.Context, l *launch) error {
	names := l.in.Texts("SecurityGroups")
	if len(names) == 0 {
		return nil
	}
	spec := l.interfaces[0]
	subnet, err := s.get(ctx, subnetKind(), spec.Text("SubnetId"))
	if err != nil {
		return err
	}
	ids := spec.Texts("Groups")
	for _, name := range names {
		group, err := s.groupNamed(ctx, subnet.Text("VpcId"), name)
		if err != nil {
			return err
		}
		ids = append(ids, group.Text("GroupId"))
	}
	spec["Groups"] = wire.Strings(ids...)
	return nil
}

// devicesOf is how many network interfaces or volumes the ids of one instance are for.
const devicesOf = 100

// launchOne makes the nth instance of a request, after all that comes with it.
func (s *Service) launchOne(ctx context.Context, l launch, n int64) (wire.Object, error) {
	instance := s.newInstance(ctx, l, n)
	id, uses := instance.Text("InstanceId"), wire.Object{}
	if made, err := s.get(ctx, instanceKind(), id); err == nil {
		return made, nil // by the same request before
	}
	instance[usesMember] = uses
	err := s.place(ctx, l, id)
	for i, spec := range l.interfaces {
		if err == nil {
			err = s.launchInterface(ctx, l, spec, instance, int(n)*devicesOf+i)
		}
	}
	for i, m := range l.mappings {
		if err == nil {
			err = s.launchVolume(ctx, l, m, instance, int(n)*devicesOf+i)
		}
	}
	var made wire.Object
	if err == nil {
		made, err = s.create(ctx, instanceKind(), l.in, instance)
	}
	if err != nil {
		s.unmake(ctx, instance)
		s.unplace(ctx, instance)
		return nil, err
	}
	return made, nil
}

// place notes in a placement group that an instance uses it.
func (s *Service) place(ctx context.Context, l launch, id string) error {
	if l.groupID == "" {
		return nil
	}
	return s.use(ctx, placementKind(), l.groupID, instanceKind().ref(id), nil, nil)
}

func (s *Service) unplace(ctx context.Context, instance wire.Object) {
	if id := instance.Object("Placement").Text("GroupId"); id != "" {
		s.unuse(ctx, placementKind(), id, instanceKind().ref(instance.Text("InstanceId")))
	}
}

// launchInterface makes a network interface for an instance, or takes one that is there.
func (s *Service) launchInterface(ctx context.Context, l launch, spec, instance wire.Object, nth int) error {
	index := spec.Int("DeviceIndex")
	attachment := s.attachmentTo(s.idFor(ctx, "eni-attach", l.in, nth), instance.Text("InstanceId"), index, "attached",
		orBool(spec, "DeleteOnTermination", !spec.Has("NetworkInterfaceId")))
	id := spec.Text("NetworkInterfaceId")
	subnet, err := s.get(ctx, subnetKind(), spec.Text("SubnetId"))
	if err != nil {
		return err
	}
	if id != "" {
		err = s.occupy(ctx, id, attachment)
	} else {
		id = s.idFor(ctx, "eni", l.in, nth)
		more := wire.Object{
			"Status": "in-use", "Attachment": attachment, "Tags": l.tags["network-interface"],
			partMember: instance.Text("InstanceId"),
		}
		if index == 0 && orBool(spec, "AssociatePublicIpAddress", subnet.Bool("MapPublicIpOnLaunch")) {
			more[publicMember] = true
			more["Association"] = s.publicAddress(ctx, subnet.Text("VpcId"), id)
		}
		_, err = s.makeInterface(ctx, l.in, spec, id, more)
	}
	if err != nil {
		return err
	}
	if index == 0 {
		instance["SubnetId"], instance["VpcId"] = subnet.Text("SubnetId"), subnet.Text("VpcId")
	}
	instance.Object(usesMember)[interfaceKind().ref(id)] = s.note(index)
	return nil
}

// publicMember is true of a network interface whose instance has a public address while it runs.
const publicMember = "_public"

// publicAddress is the association of a network interface with an address that AWS lends to it, a new one each time.
func (s *Service) publicAddress(ctx context.Context, vpc, id string) wire.Object {
	sum := sha256.Sum256([]byte(id + stamp(s.Now())))
	address := netip.AddrFrom4([4]byte{100, 64 + sum[0]>>2, sum[1], sum[2]}).String() // nobody's on the Internet
	association := wire.Object{"IpOwnerId": amazon, "PublicIp": address, "PublicDnsName": ""}
	if o, err := s.get(ctx, vpcKind(), vpc); err == nil && o.Object(attributesMember).Bool("EnableDnsHostnames") {
		association["PublicDnsName"] = s.publicName(address)
	}
	return association
}

// launchVolume makes a volume for an instance.
func (s *Service) launchVolume(ctx context.Context, l launch, m, instance wire.Object, nth int) error {
	ebs, device, id := m.Object("Ebs"), m.Text("DeviceName"), s.idFor(ctx, "vol", l.in, nth)
	volume, err := s.volumeOf(ctx, id, volumeRequest(ebs))
	if err != nil {
		return err
	}
	ends := orBool(ebs, "DeleteOnTermination", device == instance.Text("RootDeviceName"))
	volume["State"], volume["Tags"], volume[partMember] = "in-use", l.tags["volume"], instance.Text("InstanceId")
	volume["Attachments"] = wire.List(s.attachmentOf(id, instance.Text("InstanceId"), device, "attached", ends))
	if _, err := s.create(ctx, volumeKind(), l.in, volume); err != nil {
		return err
	}
	instance.Object(usesMember)[volumeKind().ref(id)] = s.note(device)
	return nil
}

// unmake deletes what was made for an instance that is not, and lets go what was there before.
func (s *Service) unmake(ctx context.Context, instance wire.Object) {
	for ref := range instance.Object(usesMember) {
		bucket, id, _ := strings.Cut(ref, "/")
		o, err := s.Store.Get(ctx, bucket, id)
		switch {
		case err != nil:
		case o.Text(partMember) != instance.Text("InstanceId"):
			_ = s.vacate(ctx, id, o.Object("Attachment").Text("AttachmentId"))
		default:
			_ = s.Store.Delete(ctx, bucket, id, nil)
			if bucket == interfaceKind().bucket {
				s.forgetInterface(ctx, o)
			}
		}
	}
}

// newInstance is the nth instance of a request.
func (s *Service) newInstance(ctx context.Context, l launch, n int64) wire.Object {
	in, cpus, now := l.in, l.info.Object("VCpuInfo"), stamp(s.Now())
	instance := wire.Object{
		"InstanceId": s.idFor(ctx, "i", in, int(n)), "ImageId": l.image.Text("ImageId"), "AmiLaunchIndex": n, "LaunchTime": now,
		"InstanceType": l.info.Text("InstanceType"), "Architecture": l.image.Text("Architecture"), "Hypervisor": "xen",
		"RootDeviceName": l.image.Text("RootDeviceName"), "RootDeviceType": "ebs", "VirtualizationType": "hvm",
		"Placement": l.placement, "Tags": l.tags["instance"], "ClientToken": in.Text("ClientToken"), "ProductCodes": []any{},
		"EbsOptimized": in.Bool("EbsOptimized"), "EnaSupport": true, "StateTransitionReason": "", "PrivateDnsName": "",
		"PublicDnsName": "", "PlatformDetails": "Linux/UNIX", "UsageOperation": "RunInstances",
		"UsageOperationUpdateTime": now, "BootMode": l.image.Text("BootMode"), "CurrentInstanceBootMode": "legacy-bios",
		"Monitoring": wire.Object{"State": monitoring(in.Object("Monitoring").Bool("Enabled"))},
		"CpuOptions": wire.Object{
			"CoreCount":      orInt(in.Object("CpuOptions"), "CoreCount", cpus.Int("DefaultCores")),
			"ThreadsPerCore": orInt(in.Object("CpuOptions"), "ThreadsPerCore", cpus.Int("DefaultThreadsPerCore")),
		},
		"HibernationOptions":               wire.Object{"Configured": in.Object("HibernationOptions").Bool("Configured")},
		"EnclaveOptions":                   wire.Object{"Enabled": in.Object("EnclaveOptions").Bool("Enabled")},
		"MaintenanceOptions":               wire.Object{"AutoRecovery": orText(in.Object("MaintenanceOptions"), "AutoRecovery", "default")},
		"CapacityReservationSpecification": wire.Object{"CapacityReservationPreference": "open"},
		"PrivateDnsNameOptions": wire.Object{
			"HostnameType":                    orText(in.Object("PrivateDnsNameOptions"), "HostnameType", "ip-name"),
			"EnableResourceNameDnsARecord":    in.Object("PrivateDnsNameOptions").Bool("EnableResourceNameDnsARecord"),
			"EnableResourceNameDnsAAAARecord": in.Object("PrivateDnsNameOptions").Bool("EnableResourceNameDnsAAAARecord"),
		},
		"MetadataOptions": withMetadata(wire.Object{
			"State": "applied", "HttpTokens": "optional", "HttpPutResponseHopLimit": int64(1), "HttpEndpoint": "enabled",
			"HttpProtocolIpv6": "disabled", "InstanceMetadataTags": "disabled",
		}, in.Object("MetadataOptions")),
		ownerMember: s.Account, reservationMember: l.reservation, attributesMember: attributesOf(in),
	}
	if in.Has("KeyName") {
		instance["KeyName"] = in["KeyName"]
	}
	if profile := in.Object("IamInstanceProfile"); profile != nil {
		arn := orText(profile, "Arn", "arn:aws:iam::"+s.Account+":instance-profile/"+profile.Text("Name"))
		instance["IamInstanceProfile"] = wire.Object{"Arn": arn, "Id": profileID(arn)}
	}
	instance["State"] = instanceState("pending")
	s.later(instance, wire.Object{"State": instanceState("running")})
	return instance
}

// profileID is the id of an instance profile, of which nothing is known but its name.
func profileID(arn string) string {
	return "AIPA" + strings.ToUpper(strings.ReplaceAll(macOf(arn)+macOf(arn+"/"), ":", ""))[:17]
}

// attributesOf are what DescribeInstanceAttribute and the like tell of instances of a request, and nothing else does.
func attributesOf(in wire.Object) wire.Object {
	credits := "standard"
	if t := orText(in, "InstanceType", ""); burstable(t) && !strings.HasPrefix(t, "t2.") {
		credits = "unlimited"
	}
	return wire.Object{
		"DisableApiTermination": in.Bool("DisableApiTermination"), "DisableApiStop": in.Bool("DisableApiStop"),
		"InstanceInitiatedShutdownBehavior": orText(in, "InstanceInitiatedShutdownBehavior", "stop"),
		"UserData":                          in.Text("UserData"),
		"CpuCredits":                        orText(in.Object("CreditSpecification"), "CpuCredits", credits),
	}
}

func monitoring(enabled bool) string {
	if enabled {
		return "enabled"
	}
	return "disabled"
}
