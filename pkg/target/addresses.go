package target

import (
	"errors"
	"fmt"
	"net/netip"

	"hive-test/pkg/state"
)

// otherAddresses are the addresses that other clusters of this clusters directory have, with who has each. A record
// that cannot be read is of no cluster that could be used.
func (t *Target) otherAddresses() (map[netip.Addr]string, error) {
	names, err := t.Store.List()
	if err != nil {
		return nil, fmt.Errorf("listing the clusters: %w", err)
	}
	taken := map[netip.Addr]string{}
	for _, name := range names {
		r, err := t.Store.Load(name)
		if newer, ok := errors.AsType[*state.NewerError](err); ok { // it may have addresses that are not known here
			return nil, newer
		}
		if err != nil || r.Owner.ID == t.Record.Owner.ID {
			continue
		}
		for _, n := range r.Nodes {
			for _, a := range []netip.Addr{n.Management, n.Data, n.StaticManagement.Addr(), n.StaticData.Addr()} {
				if a.IsValid() {
					taken[a] = n.Name
				}
			}
		}
	}
	return taken, nil
}
