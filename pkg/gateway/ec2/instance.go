package ec2

import (
	"context"
	"slices"

	"hive-test/pkg/gateway/wire"
)

// Members of an instance that it is found by, but does not tell.
const (
	ownerMember       = "_owner"
	reservationMember = "_reservation"
)

func (s *Service) instanceActions() map[string]handler {
	return map[string]handler{
		"RunInstances": s.runInstances, "DescribeInstances": s.describeInstances,
		"DescribeInstanceStatus": s.describeInstanceStatus,
	}
}

// describeInstances tells of instances in the reservations that they were launched in.
func (s *Service) describeInstances(ctx context.Context, in wire.Object) (wire.Object, error) {
	answer, err := s.describeAs(ctx, instanceKind(), in, s.withDevices)
	if err != nil {
		return nil, err
	}
	answer["Reservations"] = reservations(answer.Objects("Instances"))
	delete(answer, "Instances")
	return answer, nil
}

func reservations(instances []wire.Object) []any {
	var list []wire.Object
	for _, o := range instances {
		id := o.Text(reservationMember)
		i := slices.IndexFunc(list, func(r wire.Object) bool { return r.Text("ReservationId") == id })
		if i < 0 {
			i = len(list)
			list = append(list, wire.Object{
				"ReservationId": id, "OwnerId": o.Text(ownerMember), "Groups": []any{}, "Instances": []any{},
			})
		}
		all, _ := list[i]["Instances"].([]any)
		list[i]["Instances"] = append(all, o)
	}
	return wire.List(list...)
}

// withDevices returns instances with what is attached to them: the volumes and network interfaces know where they are, and
// an instance tells of them as its own.
func (s *Service) withDevices(ctx context.Context, list []wire.Object) ([]wire.Object, error) {
	volumes, err := s.all(ctx, volumeKind())
	if err != nil {
		return nil, err
	}
	interfaces, err := s.all(ctx, interfaceKind())
	if err == nil {
		interfaces, err = s.withAddresses(ctx, interfaces)
	}
	if err != nil {
		return nil, err
	}
	mappings, nics := map[string][]wire.Object{}, map[string][]wire.Object{}
	for _, volume := range volumes {
		for _, a := range volume.Objects("Attachments") {
			mappings[a.Text("InstanceId")] = append(mappings[a.Text("InstanceId")], mappingOf(a))
		}
	}
	for _, eni := range interfaces {
		if attached(eni) {
			id := eni.Object("Attachment").Text("InstanceId")
			nics[id] = append(nics[id], interfaceOf(eni))
		}
	}
	shown := make([]wire.Object, len(list))
	for i, o := range list {
		id := o.Text("InstanceId")
		shown[i] = withThose(o.Clone(), mappings[id], nics[id])
	}
	return shown, nil
}

// mappingOf is a volume's attachment as the instance tells of it.
func mappingOf(a wire.Object) wire.Object {
	return wire.Object{"DeviceName": a.Text("Device"), "Ebs": wire.Object{
		"VolumeId": a.Text("VolumeId"), "Status": a.Text("State"), "AttachTime": a.Text("AttachTime"),
		"DeleteOnTermination": a.Bool("DeleteOnTermination"),
	}}
}

// interfaceOf is a network interface as the instance that has it tells of it.
func interfaceOf(eni wire.Object) wire.Object {
	association := func(o wire.Object) {
		if a := o.Object("Association"); a != nil {
			o["Association"] = pick(a, "PublicIp", "PublicDnsName", "IpOwnerId", "CarrierIp")
		}
	}
	nic := pick(eni.Clone(), "NetworkInterfaceId", "SubnetId", "VpcId", "Description", "OwnerId", "Status", "MacAddress",
		"PrivateIpAddress", "PrivateDnsName", "SourceDestCheck", "Groups", "PrivateIpAddresses", "Ipv6Addresses",
		"InterfaceType", "Association")
	association(nic)
	for _, a := range nic.Objects("PrivateIpAddresses") {
		association(a)
	}
	nic["Attachment"] = pick(eni.Object("Attachment"),
		"AttachmentId", "AttachTime", "DeleteOnTermination", "DeviceIndex", "NetworkCardIndex", "Status")
	return nic
}

// withThose is an instance with its devices, and with what it has of its primary network interface.
func withThose(o wire.Object, mappings, nics []wire.Object) wire.Object {
	mappings, nics = ofCluster(o, mappings, nics)
	slices.SortStableFunc(nics, func(a, b wire.Object) int {
		return int(a.Object("Attachment").Int("DeviceIndex") - b.Object("Attachment").Int("DeviceIndex"))
	})
	root := o.Text("RootDeviceName")
	slices.SortStableFunc(mappings, func(a, b wire.Object) int {
		switch {
		case a.Text("DeviceName") == root:
			return -1
		case b.Text("DeviceName") == root:
			return 1
		}
		return 0
	})
	if stateOf(o) == "terminated" { // what it leaves is not its own any more
		mappings, nics = nil, nil
		delete(o, "SubnetId")
		delete(o, "VpcId")
	}
	o["BlockDeviceMappings"], o["NetworkInterfaces"] = wire.List(mappings...), wire.List(nics...)
	o["SecurityGroups"] = []any{}
	if len(nics) == 0 {
		return o
	}
	primary := nics[0]
	for _, name := range []string{"PrivateIpAddress", "PrivateDnsName", "SourceDestCheck"} {
		if !o.Bool(homeMember) || !o.Has(name) { // the cluster knows better
			o[name] = primary[name]
		}
	}
	o["SecurityGroups"] = primary["Groups"]
	if public := primary.Object("Association"); public != nil {
		o["PublicIpAddress"], o["PublicDnsName"] = public["PublicIp"], public["PublicDnsName"]
	}
	return o
}

// shownInstance is an instance by its id, with its devices.
func (s *Service) shownInstance(ctx context.Context, id string) (wire.Object, error) {
	o, err := s.get(ctx, instanceKind(), id)
	if err != nil {
		return nil, err
	}
	shown, err := s.withDevices(ctx, []wire.Object{o})
	if err != nil {
		return nil, err
	}
	return shown[0], nil
}

// describeInstanceStatus tells that instances are well, of running ones where it is not asked of all.
func (s *Service) describeInstanceStatus(ctx context.Context, in wire.Object) (wire.Object, error) {
	k := instanceKind()
	k.list, k.filters = "InstanceStatuses", map[string]string{
		"availability-zone": "AvailabilityZone", "availability-zone-id": "AvailabilityZoneId",
		"event.code": "Events.Code", "instance-state-code": "InstanceState.Code",
		"instance-state-name": "InstanceState.Name", "instance-status.status": "InstanceStatus.Status",
		"instance-status.reachability": "InstanceStatus.Details.Status", "system-status.status": "SystemStatus.Status",
		"system-status.reachability": "SystemStatus.Details.Status",
	}
	return s.describeAs(ctx, k, in, func(_ context.Context, instances []wire.Object) (list []wire.Object, err error) {
		for _, o := range instances {
			if stateOf(o) == "running" || in.Bool("IncludeAllInstances") {
				list = append(list, statusOf(o))
			}
		}
		return list, nil
	})
}

func statusOf(o wire.Object) wire.Object {
	summary := wire.Object{"Status": "not-applicable", "Details": []any{}}
	if stateOf(o) == "running" {
		summary = wire.Object{
			"Status": "ok", "Details": wire.List(wire.Object{"Name": "reachability", "Status": "passed"}),
		}
	}
	status := pick(o.Object("Placement"), "AvailabilityZone", "AvailabilityZoneId")
	status["InstanceId"], status["InstanceState"], status["Events"] = o.Text("InstanceId"), o.Object("State"), []any{}
	status["InstanceStatus"], status["SystemStatus"], status["AttachedEbsStatus"] = summary, summary, summary
	return status
}
