package ec2

import (
	"context"
	"maps"
	"math/rand/v2"
	"net/netip"

	"hive-test/pkg/gateway/wire"
)

func (s *Service) addressActions() map[string]handler {
	return map[string]handler{
		"AllocateAddress": s.allocateAddress, "ReleaseAddress": s.releaseAddress, "AssociateAddress": s.associateAddress,
		"DisassociateAddress": s.disassociateAddress, "DescribeAddressesAttribute": s.describeAddressesAttribute,
		"DescribeAddresses": s.describeAddresses,
	}
}

// slotsMember is, in a network interface, the last association of an Elastic IP address with each private one. An
// association is in force as long as it is both there and in the address: an interface that is deleted ends it.
const slotsMember = "_addresses"

// associationMembers are the members of an address that it has while it is associated.
func associationMembers() []string {
	return []string{
		"AssociationId", "NetworkInterfaceId", "NetworkInterfaceOwnerId", "PrivateIpAddress", "InstanceId",
	}
}

// allocateAddress makes an address. As the store knows ids only, an address that another one has turned out to have is
// given back, and another one is tried.
func (s *Service) allocateAddress(ctx context.Context, in wire.Object) (wire.Object, error) {
	tags, err := tagsFor(in, addressKind().bucket)
	if err == nil {
		err = s.allocatable(in)
	}
	if err != nil {
		return nil, err
	}
	for {
		made := wire.Object{
			"AllocationId": newID(ctx, "eipalloc"), "PublicIp": randomAddress(), "Domain": "vpc", "PublicIpv4Pool": "amazon",
			"NetworkBorderGroup": s.Region, "Tags": tags,
		}
		if _, err := s.create(ctx, addressKind(), nil, made); err != nil {
			return nil, err
		}
		list, err := s.addressesWith(ctx, "PublicIp", made.Text("PublicIp"))
		if err != nil {
			return nil, err
		}
		if len(list) == 1 {
			delete(made, "Tags")
			return made, nil
		}
		if err := s.remove(ctx, addressKind(), made.Text("AllocationId"), nil); err != nil {
			return nil, err
		}
	}
}

// allocatable is an error where a request asks for what there is not.
func (s *Service) allocatable(in wire.Object) error {
	if domain := in.Text("Domain"); domain != "" && domain != "vpc" {
		return invalid("Value (%s) for parameter domain is invalid.", domain)
	}
	if group := in.Text("NetworkBorderGroup"); group != "" && group != s.Region {
		return invalid("Value (%s) for parameter networkBorderGroup is invalid.", group)
	}
	if pool := in.Text("PublicIpv4Pool"); pool != "" && pool != "amazon" {
		return wire.Errorf("InvalidPublicIpv4PoolID.NotFound", "The publicIpv4Pool ID '%s' does not exist", pool)
	}
	if in.Has("Address") {
		return noAddress(in.Text("Address"))
	}
	return nil
}

// randomAddress returns one of 198.18.0.0/15, which is for benchmarks and routed nowhere.
func randomAddress() string {
	n := 1 + rand.IntN(1<<17-2)
	return netip.AddrFrom4([4]byte{198, byte(18 + n>>16), byte(n >> 8), byte(n)}).String()
}

func noAddress(ip string) error {
	return wire.Errorf("InvalidAddress.NotFound", "Address '%s' not found.", ip)
}

// addressesWith returns those of which a member has a value.
func (s *Service) addressesWith(ctx context.Context, member, value string) ([]wire.Object, error) {
	list, err := s.all(ctx, addressKind())
	return matching(list, func(o wire.Object) bool { return o.Text(member) == value }), err
}

// addressOf returns the one that a request names by its id or by its IP address.
func (s *Service) addressOf(ctx context.Context, in wire.Object) (wire.Object, error) {
	if in.Has("AllocationId") {
		return s.get(ctx, addressKind(), in.Text("AllocationId"))
	}
	if !in.Has("PublicIp") {
		return nil, wire.Errorf(wire.MissingParameter, "Either public IP or allocation id must be specified")
	}
	list, err := s.addressesWith(ctx, "PublicIp", in.Text("PublicIp"))
	if err == nil && len(list) == 0 {
		err = noAddress(in.Text("PublicIp"))
	}
	if err != nil {
		return nil, err
	}
	return list[0], nil
}

func (s *Service) describeAddresses(ctx context.Context, in wire.Object) (wire.Object, error) {
	wanted := in.Texts("PublicIps")
	if len(wanted) == 0 {
		return s.describeAs(ctx, addressKind(), in, s.showAddresses)
	}
	in = maps.Clone(in)
	ids := in.Texts("AllocationIds")
	for _, ip := range wanted {
		address, err := s.addressOf(ctx, wire.Object{"PublicIp": ip})
		if err != nil {
			return nil, err
		}
		ids = append(ids, address.Text("AllocationId"))
	}
	in["AllocationIds"] = wire.Strings(ids...)
	return s.describeAs(ctx, addressKind(), in, s.showAddresses)
}

// showAddresses returns addresses with the associations that are in force.
func (s *Service) showAddresses(ctx context.Context, list []wire.Object) ([]wire.Object, error) {
	interfaces := map[string]wire.Object{}
	if len(matching(list, func(o wire.Object) bool { return o.Has("AssociationId") })) > 0 {
		all, err := s.all(ctx, interfaceKind())
		if err != nil {
			return nil, err
		}
		for _, eni := range all {
			interfaces[eni.Text("NetworkInterfaceId")] = eni
		}
	}
	shown := make([]wire.Object, len(list))
	for i, address := range list {
		shown[i] = showAddress(address, interfaces[address.Text("NetworkInterfaceId")])
	}
	return shown, nil
}

// showAddress returns an address with its association with an interface, which may be nil, or without it where that is not
// in force any more.
func showAddress(address, eni wire.Object) wire.Object {
	shown := maps.Clone(address)
	if !inForce(address, eni) {
		for _, member := range associationMembers() {
			delete(shown, member)
		}
	} else if instance := instanceOf(eni); instance != "" {
		shown["InstanceId"] = instance
	}
	return shown
}

// inForce reports whether an address is associated with an interface.
func inForce(address, eni wire.Object) bool {
	private := address.Text("PrivateIpAddress")
	return address.Has("AssociationId") && hasAddress(eni, private) &&
		slotOf(eni, private).Text("AssociationId") == address.Text("AssociationId")
}

func slotOf(eni wire.Object, private string) wire.Object {
	return eni.Object(slotsMember).Object(private)
}

// mappedAddresses returns the addresses that are associated with an interface.
func (s *Service) mappedAddresses(ctx context.Context) ([]wire.Object, error) {
	list, err := s.all(ctx, addressKind())
	if err == nil {
		list, err = s.showAddresses(ctx, list)
	}
	return matching(list, func(o wire.Object) bool { return o.Has("AssociationId") }), err
}

// current returns an address with its association, where it has one that is in force.
func (s *Service) current(ctx context.Context, address wire.Object) (wire.Object, error) {
	if !address.Has("AssociationId") {
		return address, nil
	}
	eni, err := s.get(ctx, interfaceKind(), address.Text("NetworkInterfaceId"))
	if err != nil && !interfaceKind().isMissing(err) {
		return nil, err
	}
	return showAddress(address, eni), nil
}

// associateAddress associates an address with a private one of an interface. First the interface has the association, and
// with it the address that was there has none any more; then the address has it.
func (s *Service) associateAddress(ctx context.Context, in wire.Object) (wire.Object, error) {
	address, err := s.addressOf(ctx, in)
	if err != nil {
		return nil, err
	}
	eni, private, err := s.endOf(ctx, in)
	if err != nil {
		return nil, err
	}
	move := !in.Has("AllowReassociation") || in.Bool("AllowReassociation")
	made := wire.Object{
		"AssociationId": newID(ctx, "eipassoc"), "NetworkInterfaceId": eni.Text("NetworkInterfaceId"),
		"NetworkInterfaceOwnerId": s.Account, "PrivateIpAddress": private,
	}
	was, err := s.current(ctx, address)
	if err != nil {
		return nil, err
	}
	if was.Text("NetworkInterfaceId") == eni.Text("NetworkInterfaceId") && was.Text("PrivateIpAddress") == private {
		return wire.Object{"AssociationId": was["AssociationId"]}, nil
	}
	if err := s.hasGateway(ctx, eni.Text("VpcId")); err != nil {
		return nil, err
	}
	if err := s.takeSlot(ctx, made, move); err != nil {
		return nil, err
	}
	was, err = s.putAssociation(ctx, address.Text("AllocationId"), made, move)
	if err != nil {
		s.leaveSlot(ctx, made)
		return nil, err
	}
	s.leaveSlot(ctx, was)
	return wire.Object{"AssociationId": made["AssociationId"]}, nil
}

// endOf returns the interface that a request is to associate an address with, and which of its private addresses.
func (s *Service) endOf(ctx context.Context, in wire.Object) (eni wire.Object, private string, err error) {
	switch {
	case in.Has("NetworkInterfaceId") && in.Has("InstanceId"):
		err = wire.Errorf("InvalidParameterCombination",
			"You may specify instance id or network interface id, but not both in the same call")
	case in.Has("NetworkInterfaceId"):
		eni, err = s.get(ctx, interfaceKind(), in.Text("NetworkInterfaceId"))
	case in.Has("InstanceId"):
		eni, err = s.onlyInterface(ctx, in.Text("InstanceId"))
	default:
		err = wire.Errorf(wire.MissingParameter, "Either instance id or network interface id must be specified")
	}
	if err != nil {
		return nil, "", err
	}
	private = in.Text("PrivateIpAddress")
	if private == "" {
		private = eni.Text("PrivateIpAddress")
	}
	if !hasAddress(eni, private) {
		err = invalid("Value (%s) for parameter privateIpAddress is invalid. It is no address of interface %s.",
			private, eni.Text("NetworkInterfaceId"))
	}
	return eni, private, err
}

// hasGateway is an error where a VPC has no way to the internet.
func (s *Service) hasGateway(ctx context.Context, vpc string) error {
	list, err := s.all(ctx, gatewayKind())
	if err == nil && len(matching(list, func(o wire.Object) bool { return gatewayVPC(o) == vpc })) == 0 {
		err = wire.Errorf("Gateway.NotAttached", "Network %s is not attached to any internet gateway", vpc)
	}
	return err
}

func alreadyAssociated(resource, association string) error {
	return wire.Errorf("Resource.AlreadyAssociated",
		"resource %s is already associated with associate-id %s", resource, association)
}

// takeSlot has the interface of an association have it, in place of another one where that may move.
func (s *Service) takeSlot(ctx context.Context, made wire.Object, move bool) error {
	id, private := made.Text("NetworkInterfaceId"), made.Text("PrivateIpAddress")
	_, err := s.change(ctx, interfaceKind(), id, func(eni wire.Object) error {
		if !hasAddress(eni, private) {
			return interfaceKind().missingError(id)
		}
		if !move {
			if err := s.slotFree(ctx, id, slotOf(eni, private)); err != nil {
				return err
			}
		}
		slots := eni.Object(slotsMember)
		if slots == nil {
			slots = wire.Object{}
		}
		slots[private] = wire.Object{"AssociationId": made["AssociationId"], "Since": s.Now().UnixMicro()}
		eni[slotsMember] = slots
		return nil
	})
	return err
}

// slotFree is an error where an address has the association of a slot, or is about to.
func (s *Service) slotFree(ctx context.Context, eni string, slot wire.Object) error {
	if slot == nil {
		return nil
	}
	association := slot.Text("AssociationId")
	list, err := s.addressesWith(ctx, "AssociationId", association)
	if err != nil {
		return err
	}
	if len(list) > 0 || s.Now().UnixMicro()-slot.Int("Since") < madeSoon.Microseconds() {
		return alreadyAssociated(eni, association)
	}
	return nil
}

// leaveSlot takes an association away from its interface. Where that fails it is not in force, as no address has it.
func (s *Service) leaveSlot(ctx context.Context, was wire.Object) {
	if !was.Has("AssociationId") {
		return
	}
	private := was.Text("PrivateIpAddress")
	_, _ = s.change(ctx, interfaceKind(), was.Text("NetworkInterfaceId"), func(eni wire.Object) error {
		if slotOf(eni, private).Text("AssociationId") == was.Text("AssociationId") {
			delete(eni.Object(slotsMember), private)
		}
		return nil
	})
}

// putAssociation has an address have an association, in place of another one where that may move, and returns the address
// as it was.
func (s *Service) putAssociation(
	ctx context.Context, id string, made wire.Object, move bool,
) (was wire.Object, err error) {
	_, err = s.change(ctx, addressKind(), id, func(address wire.Object) error {
		if was, err = s.current(ctx, address.Clone()); err != nil {
			return err
		}
		if was.Has("AssociationId") && !move {
			return alreadyAssociated(id, was.Text("AssociationId"))
		}
		maps.Copy(address, made)
		return nil
	})
	return was, err
}

func (s *Service) disassociateAddress(ctx context.Context, in wire.Object) (wire.Object, error) {
	association := in.Text("AssociationId")
	if association == "" {
		if _, err := s.addressOf(ctx, in); err != nil {
			return nil, err
		}
		return nil, invalid("You must specify an association id when unmapping an address from a VPC instance")
	}
	list, err := s.mappedAddresses(ctx)
	if err != nil {
		return nil, err
	}
	list = matching(list, func(o wire.Object) bool { return o.Text("AssociationId") == association })
	if len(list) == 0 {
		return nil, noAssociation(association)
	}
	was := list[0]
	_, err = s.change(ctx, addressKind(), was.Text("AllocationId"), func(address wire.Object) error {
		if address.Text("AssociationId") != association {
			return noAssociation(association)
		}
		for _, member := range associationMembers() {
			delete(address, member)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.leaveSlot(ctx, was)
	return returned(), nil
}

func (s *Service) releaseAddress(ctx context.Context, in wire.Object) (wire.Object, error) {
	address, err := s.addressOf(ctx, in)
	if err != nil {
		return nil, err
	}
	if !in.Has("AllocationId") {
		return nil, invalid("You must specify an allocation id when releasing a VPC elastic IP address")
	}
	err = s.remove(ctx, addressKind(), address.Text("AllocationId"), func(address wire.Object) error {
		now, err := s.current(ctx, address)
		if err == nil && now.Has("AssociationId") {
			err = wire.Errorf("InvalidIPAddress.InUse", "Address %s is in use.", address.Text("PublicIp"))
		}
		return err
	})
	return returned(), err
}

// describeAddressesAttribute tells of the addresses' names, of which none has one: the names are not AWS's to give here.
func (s *Service) describeAddressesAttribute(ctx context.Context, in wire.Object) (wire.Object, error) {
	if name := in.Text("Attribute"); name != "" && name != "domain-name" {
		return nil, invalid("Value (%s) for parameter attribute is invalid.", name)
	}
	list, err := s.chosen(ctx, addressKind(), in)
	if err != nil {
		return nil, err
	}
	for i, address := range list {
		list[i] = wire.Object{"AllocationId": address["AllocationId"], "PublicIp": address["PublicIp"]}
	}
	return page("Addresses", list, in, "AllocationId")
}
