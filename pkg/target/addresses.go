package target

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"hive-test/pkg/cluster"
	"hive-test/pkg/progress"
	"hive-test/pkg/state"
)

// otherAddresses are the addresses that other clusters of this clusters directory have, with who has each.
func (t *Target) otherAddresses() (map[netip.Addr]string, error) {
	others, err := t.otherClusters()
	taken := map[netip.Addr]string{}
	for _, r := range others {
		for _, n := range r.Nodes {
			for _, a := range addressesOf(n) {
				taken[a] = n.Name
			}
		}
	}
	return taken, err
}

// CheckHosts refuses hosts that another cluster of this clusters directory has: what is done to them is done to its
// nodes. Where both are reached by jump hosts, and by others, the same address is another host's.
func (t *Target) CheckHosts() error {
	others, err := t.otherClusters()
	if err != nil {
		return configError(err)
	}
	var taken []string
	var owner cluster.Name
	for _, r := range others {
		if theirs, ours := r.ProxyJump.String(), t.Record.ProxyJump.String(); theirs != "" && ours != "" && theirs != ours {
			continue
		}
		for _, n := range r.Nodes {
			for _, a := range addressesOf(n) {
				if t.hasAddress(a) {
					owner = r.Name
					taken = append(taken, fmt.Sprintf("%s is %s of cluster %q", a, n.Name, r.Name))
				}
			}
		}
	}
	if len(taken) == 0 {
		return nil
	}
	return usageError(progress.WithHint(
		fmt.Errorf("the hosts of cluster %q are another cluster's: %s", t.Name, strings.Join(slices.Compact(taken), ", ")),
		fmt.Sprintf("name other hosts, or end that cluster first: hive-test down %s", owner),
	))
}

func (t *Target) hasAddress(a netip.Addr) bool {
	return slices.ContainsFunc(t.Record.Nodes, func(n cluster.Node) bool { return slices.Contains(addressesOf(n), a) })
}

// addressesOf are the addresses that a node has, or is about to have.
func addressesOf(n cluster.Node) []netip.Addr {
	all := []netip.Addr{n.Management, n.Data, n.StaticManagement.Addr(), n.StaticData.Addr()}
	return slices.DeleteFunc(all, func(a netip.Addr) bool { return !a.IsValid() })
}

// otherClusters are the records of the other clusters of this clusters directory. One that cannot be read is of no
// cluster that could be used.
func (t *Target) otherClusters() ([]*cluster.Record, error) {
	names, err := t.Store.List()
	if err != nil {
		return nil, fmt.Errorf("listing the clusters: %w", err)
	}
	var others []*cluster.Record
	for _, name := range names {
		r, err := t.Store.Load(name)
		if newer, ok := errors.AsType[*state.NewerError](err); ok { // it may have addresses that are not known here
			return nil, newer
		}
		if err != nil || r.Owner.ID == t.Record.Owner.ID {
			continue
		}
		others = append(others, r)
	}
	return others, nil
}
