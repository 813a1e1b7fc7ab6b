package ec2

import (
	"net/netip"

	"hive-test/pkg/gateway/wire"
)

// VPCs and subnets have from 16 to 65,536 addresses.
const (
	leastBits = 16
	mostBits  = 28
)

// block reads a CIDR block of IPv4, and returns it as AWS keeps it: without the bits after its mask.
func block(text string) (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(text)
	if err != nil || !prefix.Addr().Is4() {
		return prefix, invalid("Value (%s) for parameter cidrBlock is invalid. This is not a valid CIDR block.", text)
	}
	return prefix.Masked(), nil
}

// sized is block with an error where it has too few or too many addresses for a VPC or a subnet.
func sized(text, code string) (netip.Prefix, error) {
	prefix, err := block(text)
	if err == nil && (prefix.Bits() < leastBits || prefix.Bits() > mostBits) {
		err = wire.Errorf(code, "The CIDR '%s' is invalid.", text)
	}
	return prefix, err
}

// within reports whether a block lies in another.
func within(inner, outer netip.Prefix) bool {
	return outer.Bits() <= inner.Bits() && outer.Contains(inner.Addr())
}
