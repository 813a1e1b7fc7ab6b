package cluster

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Ways in which a node gets its operating system's essentials.
const (
	CloudInitSnippet = "snippet" // cloud-init vendor data, uploaded to the hypervisors over SSH
	CloudInitNone    = "none"    // the first step of configure; nothing is uploaded
)

// Network is how nodes get their addresses. Everything empty: both NICs use DHCP.
type Network struct {
	// Addresses and DataAddresses are ranges FIRST-LAST/PREFIX that static addresses of the first and the second NIC
	// are chosen from. An empty one means DHCP.
	Addresses     string `json:"addresses,omitempty"`
	DataAddresses string `json:"data_addresses,omitempty"`
	// Gateway is the default route of nodes whose first NIC has a static address; empty: none.
	Gateway string `json:"gateway,omitempty"`
}

// Static tells whether any NIC has a static address.
func (n Network) Static() bool { return n.Addresses != "" || n.DataAddresses != "" }

// Validate returns every problem at once, or nil. nodes is how many addresses are needed of each range.
func (n Network) Validate(nodes int) []error {
	var problems []error
	management, err := checkRange("network.addresses", n.Addresses, nodes)
	problems = appendError(problems, err)
	data, err := checkRange("network.data_addresses", n.DataAddresses, nodes)
	problems = appendError(problems, err)
	if management.Overlaps(data) {
		problems = append(
			problems,
			fmt.Errorf("network.addresses %s and network.data_addresses %s overlap", n.Addresses, n.DataAddresses),
		)
	}
	if n.Gateway == "" {
		return problems
	}
	gateway, err := netip.ParseAddr(n.Gateway)
	switch {
	case err != nil:
		problems = append(problems, fmt.Errorf("network.gateway %q is not an IP address", n.Gateway))
	case n.Addresses == "":
		problems = append(
			problems,
			errors.New("network.gateway is set without network.addresses: with DHCP the gateway comes from there"),
		)
	case management.First.IsValid() && !management.Prefix().Contains(gateway):
		problems = append(
			problems,
			fmt.Errorf("network.gateway %s is not in %s, the network of "+
				"network.addresses", gateway, management.Prefix()),
		)
	case management.Holds(gateway):
		problems = append(
			problems,
			fmt.Errorf("network.gateway %s is one of network.addresses %s, which nodes get", gateway, n.Addresses),
		)
	}
	return problems
}

func appendError(list []error, err error) []error {
	if err != nil {
		list = append(list, err)
	}
	return list
}

func checkRange(name, text string, nodes int) (AddressRange, error) {
	if text == "" {
		return AddressRange{}, nil
	}
	r, err := ParseAddressRange(text)
	if err != nil {
		return AddressRange{}, fmt.Errorf("%s: %w", name, err)
	}
	if size := r.Size(nodes); size < nodes {
		return r, fmt.Errorf("%s: %s is too short: it holds %d of the %d that nodes need", name, text, size, nodes)
	}
	return r, nil
}

// AddressRange is an inclusive range of addresses of one network of Bits prefix length. The zero value holds none.
type AddressRange struct {
	First, Last netip.Addr
	Bits        int
}

// ParseAddressRange reads FIRST-LAST/PREFIX, like 10.0.0.10-10.0.0.19/24. Both ends must be usable by a host: neither
// the network's own address nor its broadcast address.
func ParseAddressRange(text string) (AddressRange, error) {
	wrong := func(why string) (AddressRange, error) {
		return AddressRange{}, fmt.Errorf("%q is no range of addresses like 10.0.0.10-10.0.0.19/24: %s", text, why)
	}
	ends, bits, found := strings.Cut(text, "/")
	first, last, ranged := strings.Cut(ends, "-")
	if !found || !ranged {
		return wrong("it is not of the form FIRST-LAST/PREFIX")
	}
	var r AddressRange
	var err error
	if r.First, err = netip.ParseAddr(strings.TrimSpace(first)); err != nil {
		return wrong(err.Error())
	}
	if r.Last, err = netip.ParseAddr(strings.TrimSpace(last)); err != nil {
		return wrong(err.Error())
	}
	if r.Bits, err = strconv.Atoi(strings.TrimSpace(bits)); err != nil || r.Bits < 1 || r.Bits >= r.First.BitLen() {
		return wrong("the prefix length " + bits + " cannot be")
	}
	switch network := r.Prefix(); {
	case r.First.Is4() != r.Last.Is4() || r.Last.Less(r.First):
		return wrong("the last address is not behind the first")
	case !network.Contains(r.Last):
		return wrong(fmt.Sprintf("%s is not in %s", r.Last, network))
	case r.First == network.Addr() || r.First.Is4() && !network.Contains(r.Last.Next()):
		return wrong("it holds the address of the network itself, or of its broadcast")
	}
	return r, nil
}

// Prefix is the network that the range is part of.
func (r AddressRange) Prefix() netip.Prefix { return netip.PrefixFrom(r.First, r.Bits).Masked() }

// Holds tells whether the address is in the range.
func (r AddressRange) Holds(a netip.Addr) bool {
	return r.First.IsValid() && !a.Less(r.First) && !r.Last.Less(a)
}

// Overlaps tells whether the ranges have an address in common.
func (r AddressRange) Overlaps(o AddressRange) bool {
	return r.First.IsValid() && o.First.IsValid() && (r.Holds(o.First) || o.Holds(r.First))
}

// Size is how many addresses the range holds, counted up to limit.
func (r AddressRange) Size(limit int) int {
	n := 0
	for a := r.First; n < limit && r.Holds(a); a = a.Next() {
		n++
	}
	return n
}

// Free is the first address of the range that taken does not hold, with its prefix length, or the zero Prefix.
func (r AddressRange) Free(taken map[netip.Addr]string) netip.Prefix {
	for a := r.First; r.Holds(a); a = a.Next() {
		if _, used := taken[a]; !used {
			return netip.PrefixFrom(a, r.Bits)
		}
	}
	return netip.Prefix{}
}
