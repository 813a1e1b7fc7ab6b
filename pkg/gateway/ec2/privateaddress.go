package ec2

import (
	"context"
	"net/netip"
	"slices"

	"hive-test/pkg/gateway/wire"
)

// addressesMember holds the addresses of a network interface in the note of its use of a subnet.
const addressesMember = "Addresses"

// pool is what a subnet has left.
type pool struct {
	prefix netip.Prefix
	taken  map[netip.Addr]bool
}

func poolOf(subnet wire.Object, uses map[string]any) (pool, error) {
	prefix, err := block(subnet.Text("CidrBlock"))
	p := pool{prefix: prefix, taken: map[netip.Addr]bool{}}
	for _, with := range uses {
		for _, text := range wire.AsObject(with).Texts(addressesMember) {
			if address, err := netip.ParseAddr(text); err == nil {
				p.taken[address] = true
			}
		}
	}
	return p, err
}

// reserved reports whether an address is one of AWS's: the first four of a subnet and the last.
func (p pool) reserved(address netip.Addr) bool {
	first := p.prefix.Addr()
	for range ownAddresses - 1 {
		if address == first {
			return true
		}
		first = first.Next()
	}
	return !p.prefix.Contains(address.Next())
}

// take takes an address that is asked for.
func (p pool) take(text string) error {
	address, err := netip.ParseAddr(text)
	switch {
	case err != nil || !address.Is4():
		return invalid("invalid value for parameter address: %s", text)
	case !p.prefix.Contains(address):
		return invalid("Address %s does not fall within the subnet's address range", text)
	case p.reserved(address):
		return invalid("Address %s is in subnet's reserved address range", text)
	case p.taken[address]:
		return wire.Errorf("InvalidIPAddress.InUse", "Address %s is in use.", text)
	}
	p.taken[address] = true
	return nil
}

// next takes the first address that is free.
func (p pool) next() (string, error) {
	for address := p.prefix.Addr(); p.prefix.Contains(address); address = address.Next() {
		if !p.taken[address] && !p.reserved(address) {
			p.taken[address] = true
			return address.String(), nil
		}
	}
	return "", wire.Errorf("InsufficientFreeAddressesInSubnet",
		"The specified subnet does not have enough free addresses to satisfy the request.")
}

// addressRequest is what addresses a network interface is asked to have: a first one, that is free where it is empty,
// others, and so many more that are free.
type addressRequest struct {
	first  string
	others []string
	more   int64
}

func askedAddresses(spec wire.Object) (addressRequest, error) {
	asked := addressRequest{first: spec.Text("PrivateIpAddress"), more: spec.Int("SecondaryPrivateIpAddressCount")}
	for _, a := range spec.Objects("PrivateIpAddresses") {
		address := a.Text("PrivateIpAddress")
		switch {
		case !a.Bool("Primary"):
			asked.others = append(asked.others, address)
		case asked.first != "" && asked.first != address:
			return asked, wire.Errorf("InvalidParameterCombination", "Only one primary private IP address can be specified.")
		default:
			asked.first = address
		}
	}
	if asked.more > 0 && len(asked.others) > 0 {
		return asked, wire.Errorf("InvalidParameterCombination",
			"The parameter secondaryPrivateIpAddressCount cannot be used with secondary privateIpAddresses")
	}
	return asked, nil
}

// from takes the addresses from what a subnet has left.
func (r addressRequest) from(p pool) (addresses []string, err error) {
	for _, address := range slices.Concat([]string{r.first}, r.others) {
		if address != "" {
			if err := p.take(address); err != nil {
				return nil, err
			}
		}
	}
	first := r.first
	if first == "" {
		if first, err = p.next(); err != nil {
			return nil, err
		}
	}
	addresses = append([]string{first}, r.others...)
	for range r.more {
		address, err := p.next()
		if err != nil {
			return nil, err
		}
		addresses = append(addresses, address)
	}
	return addresses, nil
}

// reserve notes in a subnet that a network interface, by its ref, has other addresses than before. Choose is told which it
// has, and takes others from what is left: of two that ask for one at once, one is refused.
func (s *Service) reserve(
	ctx context.Context, subnet, ref string, choose func(own []string, left pool) ([]string, error),
) error {
	note := wire.Object{} // filled once the others' uses are known
	return s.use(ctx, subnetKind(), subnet, ref, note, func(o wire.Object, uses map[string]any) error {
		left, err := poolOf(o, uses)
		if err != nil {
			return err
		}
		own := o.Object(usesMember).Object(ref).Object("With").Texts(addressesMember)
		for _, text := range own {
			if address, err := netip.ParseAddr(text); err == nil {
				left.taken[address] = true
			}
		}
		addresses, err := choose(own, left)
		note[addressesMember] = wire.Strings(addresses...)
		return err
	})
}

// privateAddresses are a network interface's, as it tells them. The first is its primary one.
func (s *Service) privateAddresses(addresses []string) []any {
	list := make([]any, len(addresses))
	for i, a := range addresses {
		list[i] = wire.Object{"PrivateIpAddress": a, "PrivateDnsName": s.privateName(a), "Primary": i == 0}
	}
	return list
}

// addressesOf are those that a network interface tells.
func addressesOf(eni wire.Object) []string {
	var list []string
	for _, a := range eni.Objects("PrivateIpAddresses") {
		list = append(list, a.Text("PrivateIpAddress"))
	}
	return list
}

// assignAddresses gives a network interface more private addresses.
func (s *Service) assignAddresses(ctx context.Context, in wire.Object) (wire.Object, error) {
	if err := require(in, "NetworkInterfaceId"); err != nil {
		return nil, err
	}
	id, wanted, count := in.Text("NetworkInterfaceId"), in.Texts("PrivateIpAddresses"), in.Int("SecondaryPrivateIpAddressCount")
	if (len(wanted) > 0) == (count > 0) {
		return nil, wire.Errorf("InvalidParameterCombination",
			"Exactly one of privateIpAddresses and secondaryPrivateIpAddressCount must be specified")
	}
	eni, err := s.get(ctx, interfaceKind(), id)
	if err != nil {
		return nil, err
	}
	var added []string
	err = s.reserve(ctx, eni.Text("SubnetId"), interfaceKind().ref(id), func(own []string, left pool) ([]string, error) {
		added = nil
		for _, address := range wanted {
			if slices.Contains(own, address) {
				continue // it has it
			}
			if err := left.take(address); err != nil {
				return nil, err
			}
			added = append(added, address)
		}
		for range count {
			address, err := left.next()
			if err != nil {
				return nil, err
			}
			added = append(added, address)
		}
		return slices.Concat(own, added), nil
	})
	if err != nil {
		return nil, err
	}
	_, err = s.change(ctx, interfaceKind(), id, func(o wire.Object) error {
		has, _ := o["PrivateIpAddresses"].([]any)
		o["PrivateIpAddresses"] = append(has, s.secondaries(added)...)
		return nil
	})
	answer := wire.Object{"NetworkInterfaceId": id, "AssignedPrivateIpAddresses": []any{}, "AssignedIpv4Prefixes": []any{}}
	for _, a := range added {
		list, _ := answer["AssignedPrivateIpAddresses"].([]any)
		answer["AssignedPrivateIpAddresses"] = append(list, wire.Object{"PrivateIpAddress": a})
	}
	return answer, err
}

// secondaries are addresses as a network interface tells them, none of them its primary one.
func (s *Service) secondaries(addresses []string) []any {
	list := s.privateAddresses(addresses)
	for _, a := range list {
		wire.AsObject(a)["Primary"] = false
	}
	return list
}

// unassignAddresses takes secondary private addresses from a network interface.
func (s *Service) unassignAddresses(ctx context.Context, in wire.Object) (wire.Object, error) {
	if err := require(in, "NetworkInterfaceId", "PrivateIpAddresses"); err != nil {
		return nil, err
	}
	id, away := in.Text("NetworkInterfaceId"), in.Texts("PrivateIpAddresses")
	eni, err := s.change(ctx, interfaceKind(), id, func(o wire.Object) error {
		has := addressesOf(o)
		for _, address := range away {
			switch {
			case !slices.Contains(has, address):
				return invalid("Some of the specified addresses are not assigned to interface %s", id)
			case address == o.Text("PrivateIpAddress"):
				return invalid("The primary private IP address %s of interface %s cannot be unassigned", address, id)
			}
		}
		list, _ := o["PrivateIpAddresses"].([]any)
		o["PrivateIpAddresses"] = slices.DeleteFunc(list, func(a any) bool {
			return slices.Contains(away, wire.AsObject(a).Text("PrivateIpAddress"))
		})
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = s.reserve(ctx, eni.Text("SubnetId"), interfaceKind().ref(id), func(own []string, _ pool) ([]string, error) {
		return slices.DeleteFunc(own, func(a string) bool { return slices.Contains(away, a) }), nil
	})
	return returned(), err
}
