package ec2

import (
	"context"
	"maps"
	"slices"

	"hive-test/pkg/gateway/wire"
)

func (s *Service) interfaceActions() map[string]handler {
	return map[string]handler{
		"CreateNetworkInterface": s.createInterface, "DeleteNetworkInterface": s.deleteInterface,
		"DescribeNetworkInterfaces":       s.describeInterfaces,
		"ModifyNetworkInterfaceAttribute": s.modifyInterface,
		"AttachNetworkInterface":          s.attachInterface, "DetachNetworkInterface": s.detachInterface,
		"AssignPrivateIpAddresses": s.assignAddresses, "UnassignPrivateIpAddresses": s.unassignAddresses,
	}
}

func (s *Service) createInterface(ctx context.Context, in wire.Object) (wire.Object, error) {
	if err := require(in, "SubnetId"); err != nil {
		return nil, err
	}
	tags, err := tagsFor(in, "network-interface")
	if err != nil {
		return nil, err
	}
	id := s.idFor(ctx, "eni", in, 0)
	more := wire.Object{"Status": "pending", "Tags": tags}
	s.later(more, wire.Object{"Status": "available"})
	eni, err := s.makeInterface(ctx, in, in, id, more)
	if err != nil {
		return nil, err
	}
	answer := wire.Object{"NetworkInterface": eni}
	if in.Has("ClientToken") {
		answer["ClientToken"] = in.Text("ClientToken")
	}
	return answer, nil
}

// makeInterface makes a network interface as spec asks for one, in the names that CreateNetworkInterface and RunInstances
// have in common. That it uses its addresses and its groups is noted before; where it is not made, that is taken back.
func (s *Service) makeInterface(
	ctx context.Context, in, spec wire.Object, id string, more wire.Object,
) (wire.Object, error) {
	subnet, err := s.get(ctx, subnetKind(), spec.Text("SubnetId"))
	if err != nil {
		return nil, err
	}
	groups, err := s.groupsIn(ctx, subnet, spec.Texts("Groups"))
	if err != nil {
		return nil, err
	}
	asked, err := askedAddresses(spec)
	if err != nil {
		return nil, err
	}
	var addresses []string
	ref, subnetID := interfaceKind().ref(id), subnet.Text("SubnetId")
	err = s.reserve(ctx, subnetID, ref, func(own []string, left pool) (_ []string, err error) {
		if addresses = own; len(own) == 0 { // else the request is made again
			addresses, err = asked.from(left)
		}
		return addresses, err
	})
	if err != nil {
		return nil, err
	}
	if err := s.useGroups(ctx, groups, ref); err != nil {
		s.unuse(ctx, subnetKind(), subnetID, ref)
		return nil, err
	}
	eni := s.interfaceIn(subnet, id, addresses, groups)
	eni["Description"] = spec.Text("Description")
	maps.Copy(eni, more)
	made, err := s.create(ctx, interfaceKind(), in, eni)
	if err != nil && made == nil {
		s.forgetInterface(ctx, eni)
	}
	return made, err
}

// interfaceIn is a new network interface.
func (s *Service) interfaceIn(subnet wire.Object, id string, addresses []string, groups []wire.Object) wire.Object {
	return wire.Object{
		"NetworkInterfaceId": id, "SubnetId": subnet.Text("SubnetId"), "VpcId": subnet.Text("VpcId"),
		"AvailabilityZone":   subnet.Text("AvailabilityZone"),
		"AvailabilityZoneId": subnet.Text("AvailabilityZoneId"), "OwnerId": s.Account, "RequesterId": s.Account,
		"RequesterManaged": false, "InterfaceType": "interface", "MacAddress": macOf(id), "SourceDestCheck": true,
		"PrivateIpAddress": addresses[0], "PrivateDnsName": s.privateName(addresses[0]),
		"PrivateIpAddresses": s.privateAddresses(addresses), "Groups": wire.List(groups...), "Tags": []any{},
		"Ipv6Addresses": []any{}, "Status": "available",
	}
}

// groupsIn are security groups of a subnet's VPC by their ids; its default one where there are no ids.
func (s *Service) groupsIn(ctx context.Context, subnet wire.Object, ids []string) ([]wire.Object, error) {
	vpc := subnet.Text("VpcId")
	if len(ids) == 0 {
		group, err := s.groupNamed(ctx, vpc, "default")
		return []wire.Object{group}, err
	}
	var groups []wire.Object
	for _, id := range ids {
		group, err := s.get(ctx, groupKind(), id)
		if err != nil {
			return nil, err
		}
		if group.Text("VpcId") != vpc {
			return nil, wire.Errorf("InvalidParameter", "Security group %s and subnet %s belong to different networks.",
				id, subnet.Text("SubnetId"))
		}
		groups = append(groups, pick(group, "GroupId", "GroupName"))
	}
	return groups, nil
}

// groupNamed is a security group of a VPC by its name.
func (s *Service) groupNamed(ctx context.Context, vpc, name string) (wire.Object, error) {
	all, err := s.all(ctx, groupKind())
	if err != nil {
		return nil, err
	}
	for _, group := range all {
		if group.Text("VpcId") == vpc && group.Text("GroupName") == name {
			return pick(group, "GroupId", "GroupName"), nil
		}
	}
	return nil, wire.Errorf("InvalidGroup.NotFound", "The security group '%s' does not exist in VPC '%s'", name, vpc)
}

func (s *Service) useGroups(ctx context.Context, groups []wire.Object, ref string) error {
	for _, group := range groups {
		if err := s.use(ctx, groupKind(), group.Text("GroupId"), ref, nil, nil); err != nil {
			return err
		}
	}
	return nil
}

// forgetInterface takes back what a network interface that is gone has used.
func (s *Service) forgetInterface(ctx context.Context, eni wire.Object) {
	ref := interfaceKind().ref(eni.Text("NetworkInterfaceId"))
	s.unuse(ctx, subnetKind(), eni.Text("SubnetId"), ref)
	for _, group := range eni.Objects("Groups") {
		s.unuse(ctx, groupKind(), group.Text("GroupId"), ref)
	}
}

func (s *Service) deleteInterface(ctx context.Context, in wire.Object) (wire.Object, error) {
	if err := require(in, "NetworkInterfaceId"); err != nil {
		return nil, err
	}
	id := in.Text("NetworkInterfaceId")
	var eni wire.Object
	err := s.remove(ctx, interfaceKind(), id, func(o wire.Object) error {
		if eni = o; o.Text("Status") == "in-use" {
			return invalid("Network interface '%s' is currently in use.", id)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.forgetInterface(ctx, eni)
	return returned(), nil
}

// describeInterfaces tells of an attachment that has ended only who asks for it: the provider waits until it is detached.
func (s *Service) describeInterfaces(ctx context.Context, in wire.Object) (wire.Object, error) {
	asksFor := slices.ContainsFunc(in.Objects("Filters"), func(f wire.Object) bool {
		return f.Text("Name") == "attachment.attachment-id"
	})
	return s.describeAs(ctx, interfaceKind(), in, func(ctx context.Context, list []wire.Object) ([]wire.Object, error) {
		shown, err := s.withAddresses(ctx, list)
		for _, eni := range shown {
			if !asksFor && eni.Object("Attachment").Text("Status") == "detached" {
				delete(eni, "Attachment")
			}
		}
		return shown, err
	})
}

// withAddresses returns network interfaces with the Elastic IP addresses that are associated with them.
func (s *Service) withAddresses(ctx context.Context, list []wire.Object) ([]wire.Object, error) {
	mapped, err := s.mappedAddresses(ctx)
	if err != nil {
		return nil, err
	}
	shown, byID := make([]wire.Object, len(list)), map[string]wire.Object{}
	for i, eni := range list {
		shown[i] = eni.Clone()
		if lent := shown[i].Object("Association"); lent != nil {
			associate(shown[i], shown[i].Text("PrivateIpAddress"), lent)
		}
		byID[eni.Text("NetworkInterfaceId")] = shown[i]
	}
	for _, address := range mapped {
		association := pick(address, "AllocationId", "AssociationId", "PublicIp")
		association["IpOwnerId"], association["PublicDnsName"] = s.Account, s.publicName(address.Text("PublicIp"))
		if eni := byID[address.Text("NetworkInterfaceId")]; eni != nil {
			associate(eni, address.Text("PrivateIpAddress"), association)
		}
	}
	return shown, nil
}

// associate sets what a private address of a network interface is associated with.
func associate(eni wire.Object, private string, association wire.Object) {
	for _, a := range eni.Objects("PrivateIpAddresses") {
		if a.Text("PrivateIpAddress") == private {
			a["Association"] = association
		}
	}
	if eni.Text("PrivateIpAddress") == private {
		eni["Association"] = association
	}
}

// modifyInterface changes one attribute of a network interface.
func (s *Service) modifyInterface(ctx context.Context, in wire.Object) (wire.Object, error) {
	if err := require(in, "NetworkInterfaceId"); err != nil {
		return nil, err
	}
	id, asked := in.Text("NetworkInterfaceId"), 0
	for _, name := range []string{
		"Groups", "Description", "SourceDestCheck", "Attachment", "AssociatePublicIpAddress",
		"ConnectionTrackingSpecification", "EnaSrdSpecification", "EnablePrimaryIpv6",
	} {
		if in.Has(name) {
			asked++
		}
	}
	switch {
	case asked == 0:
		return nil, wire.Errorf(wire.MissingParameter, "The request must contain an attribute")
	case asked > 1:
		return nil, wire.Errorf("InvalidParameterCombination", "Exactly one attribute can be modified at a time")
	case in.Has("Groups"):
		return returned(), s.setGroups(ctx, id, in.Texts("Groups"))
	}
	_, err := s.change(ctx, interfaceKind(), id, func(eni wire.Object) error {
		switch {
		case in.Has("Description"):
			eni["Description"] = in.Object("Description").Text("Value")
		case in.Has("SourceDestCheck"):
			eni["SourceDestCheck"] = in.Object("SourceDestCheck").Bool("Value")
		case in.Has("Attachment"):
			asked, attachment := in.Object("Attachment"), eni.Object("Attachment")
			if attachment.Text("AttachmentId") != asked.Text("AttachmentId") {
				return missingAttachment(asked.Text("AttachmentId"))
			}
			attachment["DeleteOnTermination"] = asked.Bool("DeleteOnTermination")
			if next := eni.Object(thenMember).Object("Attachment"); next != nil {
				next["DeleteOnTermination"] = asked.Bool("DeleteOnTermination")
			}
		}
		return nil
	})
	return returned(), err
}

// setGroups gives a network interface other security groups. That it uses them is noted before, and what it does not use
// any more is taken away after.
func (s *Service) setGroups(ctx context.Context, id string, ids []string) error {
	eni, err := s.get(ctx, interfaceKind(), id)
	if err != nil {
		return err
	}
	groups, err := s.groupsIn(ctx, eni, ids)
	if err != nil {
		return err
	}
	ref := interfaceKind().ref(id)
	if err := s.useGroups(ctx, groups, ref); err != nil {
		return err
	}
	var before []wire.Object
	_, err = s.change(ctx, interfaceKind(), id, func(o wire.Object) error {
		before = o.Clone().Objects("Groups")
		o["Groups"] = wire.List(groups...)
		return nil
	})
	if err != nil {
		before = groups
	}
	for _, group := range before {
		s.dropGroup(ctx, id, group.Text("GroupId"))
	}
	return err
}

// dropGroup takes away the note that a network interface uses a group, unless it does.
func (s *Service) dropGroup(ctx context.Context, id, group string) {
	_, _ = s.change(ctx, groupKind(), group, func(o wire.Object) error {
		eni, err := s.get(ctx, interfaceKind(), id)
		uses := func(g wire.Object) bool { return g.Text("GroupId") == group }
		if err == nil && slices.ContainsFunc(eni.Objects("Groups"), uses) {
			return nil
		}
		delete(o.Object(usesMember), interfaceKind().ref(id))
		return nil
	})
}
