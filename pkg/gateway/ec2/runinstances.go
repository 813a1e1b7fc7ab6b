package ec2

import (
	"context"
	"encoding/base64"
	"maps"
	"slices"

	"hive-test/pkg/gateway/wire"
)

// launch is what all instances of a request to run some have in common.
type launch struct {
	in, image, info wire.Object
	placement       wire.Object
	interfaces      []wire.Object // as asked for; none: the instances are in no VPC
	mappings        []wire.Object // the image's, with what the request changes
	tags            map[string][]any
	groupID         string // of the placement group
	reservation     string
}

// runInstances launches from MinCount to MaxCount instances, with their volumes and network interfaces. Those come with the
// instance that is made last: without it they are not there.
func (s *Service) runInstances(ctx context.Context, in wire.Object) (wire.Object, error) {
	least, most, err := counts(in)
	if err != nil {
		return nil, err
	}
	if made, err := s.launched(ctx, in, most); err != nil || made != nil {
		return made, err
	}
	l, err := s.launchOf(ctx, in)
	if err != nil {
		return nil, err
	}
	if most > 1 && slices.ContainsFunc(l.interfaces, namesOne) {
		return nil, wire.Errorf("InvalidParameterCombination",
			"A network interface or a private address cannot be given to more than one instance.")
	}
	var made []wire.Object
	for n := range most {
		instance, err := s.launchOne(ctx, l, n)
		if err != nil && int64(len(made)) < least {
			s.undo(ctx, made)
			return nil, err
		}
		if err != nil {
			break
		}
		made = append(made, instance)
	}
	return s.reservationOf(ctx, made)
}

// namesOne reports whether only one network interface can be as it is asked for.
func namesOne(spec wire.Object) bool {
	return spec.Has("NetworkInterfaceId") || spec.Has("PrivateIpAddress") || spec.Has("PrivateIpAddresses")
}

func counts(in wire.Object) (least, most int64, err error) {
	if err := require(in, "MinCount", "MaxCount"); err != nil {
		return 0, 0, err
	}
	const limit = 1000
	least, most = in.Int("MinCount"), in.Int("MaxCount")
	if least < 1 || most < least || most > limit {
		err = invalid("Invalid value '%d' for maxCount: it must be from minCount, which is at least 1, to %d.", most, limit)
	}
	return least, most, err
}

// launched returns the reservation that the same request has made before; nil: there is none.
func (s *Service) launched(ctx context.Context, in wire.Object, most int64) (wire.Object, error) {
	if !in.Has("ClientToken") {
		return nil, nil
	}
	var made []wire.Object
	for n := range int(most) {
		if o, err := s.get(ctx, instanceKind(), s.idFor(ctx, "i", in, n)); err == nil {
			if err := sameRequest(o, in); err != nil {
				return nil, err
			}
			made = append(made, o)
		}
	}
	if int64(len(made)) < in.Int("MinCount") {
		return nil, nil // none, or the gateway has died over it: what is missing is made
	}
	return s.reservationOf(ctx, made)
}

func (s *Service) reservationOf(ctx context.Context, instances []wire.Object) (wire.Object, error) {
	shown, err := s.withDevices(ctx, instances)
	if err != nil {
		return nil, err
	}
	return wire.AsObject(reservations(shown)[0]), nil
}

// undo takes back instances of a request that fails.
func (s *Service) undo(ctx context.Context, made []wire.Object) {
	for _, o := range made {
		s.unmake(ctx, o)
		s.unplace(ctx, o)
		_ = s.remove(ctx, instanceKind(), o.Text("InstanceId"), nil)
	}
}

// launchOf checks a request, and finds what it names.
func (s *Service) launchOf(ctx context.Context, in wire.Object) (launch, error) {
	l, err := newLaunch(in)
	if err != nil {
		return l, err
	}
	l.reservation = s.idFor(ctx, "r", in, 0)
	var known bool
	if l.info, known = instanceType(orText(in, "InstanceType", "m5.large")); !known {
		return l, invalid("Invalid value '%s' for InstanceType.", in.Text("InstanceType"))
	}
	for _, find := range []func(context.Context, *launch) error{
		s.findImage, s.findKey, s.findPlacement, s.findInterfaces,
	} {
		if err := find(ctx, &l); err != nil {
			return l, err
		}
	}
	return l, nil
}

// newLaunch checks what of a request needs no look at what there is, and reads its tags.
func newLaunch(in wire.Object) (launch, error) {
	l := launch{in: in, tags: map[string][]any{}}
	if err := checkLaunch(in); err != nil {
		return l, err
	}
	for _, resource := range []string{"instance", "volume", "network-interface"} {
		tags, err := tagsFor(in, resource)
		if err != nil {
			return l, err
		}
		l.tags[resource] = tags
	}
	return l, nil
}

// checkLaunch is an error where a request to run instances cannot be met, whatever there is.
func checkLaunch(in wire.Object) error {
	if in.Has("LaunchTemplate") {
		return wire.Errorf("UnsupportedOperation", "There are no launch templates.")
	}
	if err := require(in, "ImageId"); err != nil {
		return err
	}
	const longest = 16384
	data, err := base64.StdEncoding.DecodeString(in.Text("UserData"))
	switch {
	case err != nil:
		return invalid("Invalid BASE64 encoding of user data.")
	case len(data) > longest:
		return invalid("User data is limited to 16384 bytes")
	}
	if in.Has("NetworkInterfaces") {
		switch {
		case in.Has("SubnetId"):
			return wire.Errorf("InvalidParameterCombination",
				"Network interfaces and an instance-level subnet ID may not be specified on the same request")
		case in.Has("SecurityGroupIds") || in.Has("SecurityGroups"):
			return wire.Errorf("InvalidParameterCombination",
				"Network interfaces and an instance-level security groups may not be specified on the same request")
		}
	}
	if err := oneOf(in, "InstanceInitiatedShutdownBehavior", "stop", "terminate"); err != nil {
		return err
	}
	if err := oneOf(in.Object("CreditSpecification"), "CpuCredits", "standard", "unlimited"); err != nil {
		return err
	}
	return checkMetadata(in.Object("MetadataOptions"))
}

func (s *Service) findImage(ctx context.Context, l *launch) error {
	image, err := s.image(ctx, l.in.Text("ImageId"))
	if err != nil {
		return err
	}
	if image.Text("State") != "available" {
		return wire.Errorf("InvalidAMIID.Unavailable", "The image ID '%s' is not available", image.Text("ImageId"))
	}
	architecture := image.Text("Architecture")
	if !slices.Contains(l.info.Object("ProcessorInfo").Texts("SupportedArchitectures"), architecture) {
		return wire.Errorf("Unsupported", "The architecture '%s' of the specified AMI is not supported by '%s'",
			architecture, l.info.Text("InstanceType"))
	}
	l.image = image
	l.mappings, err = merged(image, l.in.Objects("BlockDeviceMappings"))
	if err != nil {
		return err
	}
	for i, m := range l.mappings { // faults of volumes are told before any is made
		if _, err := s.volumeOf(ctx, s.idFor(ctx, "vol", l.in, i), volumeRequest(m.Object("Ebs"))); err != nil {
			return err
		}
	}
	return nil
}

// merged are the volumes of an image as a request changes and adds to them.
func merged(image wire.Object, asked []wire.Object) ([]wire.Object, error) {
	list := image.Clone().Objects("BlockDeviceMappings")
	for _, m := range asked {
		device := m.Text("DeviceName")
		if device == "" {
			return nil, require(m, "DeviceName")
		}
		i := slices.IndexFunc(list, func(o wire.Object) bool { return o.Text("DeviceName") == device })
		switch {
		case m.Has("NoDevice") && i >= 0:
			list = slices.Delete(list, i, i+1)
		case !m.Has("Ebs"): // an instance store, which no type here has
		case i < 0:
			list = append(list, m.Clone())
		default:
			was := list[i].Object("Ebs")
			if t := m.Object("Ebs").Text("VolumeType"); t != "" && t != was.Text("VolumeType") {
				delete(was, "Iops")
				delete(was, "Throughput")
			}
			maps.Copy(was, m.Object("Ebs").Clone())
		}
	}
	return list, nil
}

// volumeRequest is what CreateVolume is asked for by the volume of a block device mapping.
func volumeRequest(ebs wire.Object) wire.Object {
	asked := ebs.Clone()
	asked["Size"] = ebs.Int("VolumeSize")
	return asked
}

// findKey is an error where a request names a key pair that is not there.
func (s *Service) findKey(ctx context.Context, l *launch) error {
	name := l.in.Text("KeyName")
	if name == "" {
		return nil
	}
	_, err := s.get(ctx, keyKind(), s.namedID(keyKind(), name))
	if err == nil {
		return nil
	}
	return wire.Errorf("InvalidKeyPair.NotFound", "The key pair '%s' does not exist", name)
}

func (s *Service) findPlacement(ctx context.Context, l *launch) error {
	asked := l.in.Object("Placement")
	if zone := asked.Text("AvailabilityZone"); zone != "" && zone != s.Region+"a" {
		return invalid("Invalid availability zone: [%s]", zone)
	}
	if err := oneOf(asked, "Tenancy", "default", "dedicated", "host"); err != nil {
		return err
	}
	l.placement = wire.Object{
		"AvailabilityZone": s.Region + "a", "AvailabilityZoneId": zoneID(s.Region), "Tenancy": orText(asked, "Tenancy", "default"),
		"GroupName": "",
	}
	name, id := asked.Text("GroupName"), asked.Text("GroupId")
	switch {
	case name != "":
		id = s.namedID(placementKind(), name)
	case id != "":
		name = id
	default:
		return nil
	}
	group, err := s.get(ctx, placementKind(), id)
	if err != nil {
		return wire.Errorf("InvalidPlacementGroup.Unknown", "The Placement Group '%s' is unknown.", name)
	}
	l.groupID = group.Text("GroupId")
	l.placement["GroupName"], l.placement["GroupId"] = group.Text("GroupName"), l.groupID
	if asked.Has("PartitionNumber") {
		l.placement["PartitionNumber"] = asked["PartitionNumber"]
	}
	return nil
}
