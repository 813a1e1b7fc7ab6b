package cluster

import (
	"net/netip"
	"strings"
	"testing"
)

func TestNetworkValidate(t *testing.T) {
	for name, tc := range map[string]struct {
		network Network
		nodes   int
		want    string // part of the only problem; empty: none
	}{
		"dhcp": {Network{}, 3, ""},
		"static": {
			Network{Addresses: "10.0.0.10-10.0.0.19/24", DataAddresses: "10.1.0.10-10.1.0.19/24", Gateway: "10.0.0.1"},
			10, "",
		},
		"management only": {Network{Addresses: "10.0.0.10-10.0.0.12/24"}, 3, ""},
		"ipv6":            {Network{Addresses: "fd00::10-fd00::1f/64", Gateway: "fd00::1"}, 3, ""},
		"too few":         {Network{Addresses: "10.0.0.10-10.0.0.11/24"}, 3, "is too short: it holds 2 of the 3 that nodes need"},
		"not a range":     {Network{Addresses: "10.0.0.10/24"}, 1, "FIRST-LAST/PREFIX"},
		"backwards":       {Network{Addresses: "10.0.0.10-10.0.0.9/24"}, 1, "not behind the first"},
		"two networks":    {Network{Addresses: "10.0.0.250-10.0.1.9/24"}, 1, "is not in 10.0.0.0/24"},
		"broadcast":       {Network{Addresses: "10.0.0.250-10.0.0.255/24"}, 1, "broadcast"},
		"network address": {Network{Addresses: "10.0.0.0-10.0.0.9/24"}, 1, "address of the network itself"},
		"overlap": {
			Network{Addresses: "10.0.0.10-10.0.0.19/24", DataAddresses: "10.0.0.19-10.0.0.29/24"}, 1, "overlap",
		},
		"gateway elsewhere": {
			Network{Addresses: "10.0.0.10-10.0.0.19/24", Gateway: "10.0.1.1"}, 1, "is not in 10.0.0.0/24",
		},
		"gateway inside":    {Network{Addresses: "10.0.0.10-10.0.0.19/24", Gateway: "10.0.0.12"}, 1, "which nodes get"},
		"gateway alone":     {Network{Gateway: "10.0.0.1"}, 1, "without network.addresses"},
		"gateway malformed": {Network{Addresses: "10.0.0.10-10.0.0.19/24", Gateway: "gw"}, 1, "not an IP address"},
	} {
		t.Run(name, func(t *testing.T) {
			problems := tc.network.Validate(tc.nodes)
			if tc.want == "" && len(problems) == 0 {
				return
			}
			if tc.want == "" || len(problems) != 1 || !strings.Contains(problems[0].Error(), tc.want) {
				t.Errorf("problems %v, want one with %q", problems, tc.want)
			}
		})
	}
}

func TestAddressRangeFree(t *testing.T) {
	r, err := ParseAddressRange("10.0.0.10-10.0.0.12/24")
	if err != nil {
		t.Fatal(err)
	}
	taken := map[netip.Addr]string{netip.MustParseAddr("10.0.0.10"): "other"}
	if got := r.Free(taken); got.String() != "10.0.0.11/24" {
		t.Errorf("the first free address is %s", got)
	}
	taken[netip.MustParseAddr("10.0.0.11")], taken[netip.MustParseAddr("10.0.0.12")] = "a", "b"
	if got := r.Free(taken); got.IsValid() {
		t.Errorf("%s is free of a range that is full", got)
	}
}
