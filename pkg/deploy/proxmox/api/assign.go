package api

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy/placement"
)

// AssignRequest is what Assign depends on.
type AssignRequest struct {
	Spec  cluster.Spec
	Nodes cluster.Nodes
	// Taken are addresses that must not be chosen, with who has them: those of other clusters.
	Taken map[netip.Addr]string
}

// Guests lists guests and reads them live.
type Guests interface {
	VMs(ctx context.Context) ([]VM, error)
	Live(ctx context.Context, listed VM) (VM, error)
}

// Assign fills in what of reserved nodes is still open: where the template is that each is cloned from, and its static
// addresses, which are in use neither in req.Taken nor by any VM of hive-test on this Proxmox VE. What was chosen
// before stays. It asks nothing of the API if nothing is open. A template that cannot be found is left to Preflight to
// explain.
func Assign(ctx context.Context, c Guests, req AssignRequest) (cluster.Nodes, error) {
	nodes := slices.Clone(req.Nodes)
	templates, addresses := open(req)
	if !templates && !addresses {
		return nodes, nil
	}
	listed, err := c.VMs(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing the VMs: %w", err)
	}
	if templates {
		locate(ctx, c, listed, req.Spec, nodes)
	}
	if addresses {
		taken, err := inUse(ctx, c, listed, req)
		if err != nil {
			return nil, err
		}
		return nodes, chooseAddresses(req.Spec.Network, nodes, taken)
	}
	return nodes, nil
}

// open tells whether a template or an address is still to be chosen.
func open(req AssignRequest) (templates, addresses bool) {
	for _, n := range req.Nodes {
		at := placement.Of(n)
		templates = templates || placement.TemplateOf(req.Spec, at.Hypervisor) != 0 && at.Template == 0
		addresses = addresses || req.Spec.Network.Addresses != "" && !n.StaticManagement.IsValid() ||
			req.Spec.Network.DataAddresses != "" && !n.StaticData.IsValid()
	}
	return templates, addresses
}

func locate(ctx context.Context, c Guests, listed []VM, spec cluster.Spec, nodes cluster.Nodes) {
	read := map[int]VM{}
	for i := range nodes {
		n := &nodes[i]
		id := placement.TemplateOf(spec, placement.Of(*n).Hypervisor)
		at := slices.IndexFunc(listed, func(vm VM) bool { return vm.VMID == id })
		if id == 0 || placement.Of(*n).Template != 0 || at < 0 {
			continue
		}
		if _, known := read[id]; !known {
			read[id] = listed[at]
			if vm, err := c.Live(ctx, listed[at]); err == nil {
				read[id] = vm
			}
		}
		placement.Change(n, func(v *placement.VM) {
			v.Template, v.TemplateHypervisor = id, listed[at].Hypervisor
			if disks := read[id].Disks; len(disks) > 0 {
				v.TemplateDisk = disks[0].Slot
			}
		})
	}
}

// inUse are the addresses that cannot be chosen: those that the request names, the gateway, those of the nodes
// themselves and those of every other VM of ours.
func inUse(ctx context.Context, c Guests, listed []VM, req AssignRequest) (map[netip.Addr]string, error) {
	taken := map[netip.Addr]string{}
	maps.Copy(taken, req.Taken)
	if gateway, err := netip.ParseAddr(req.Spec.Network.Gateway); err == nil {
		taken[gateway] = "the gateway"
	}
	live, err := oursLive(ctx, c, listed)
	for _, vm := range live {
		for _, a := range vm.Static {
			if _, known := taken[a]; !known {
				taken[a] = fmt.Sprintf("VM %d %s on %s", vm.VMID, vm.Name, vm.Hypervisor)
			}
		}
	}
	for _, n := range req.Nodes {
		for _, p := range []netip.Prefix{n.StaticManagement, n.StaticData} {
			if p.IsValid() {
				taken[p.Addr()] = n.Name
			}
		}
	}
	return taken, err
}

// oursLive reads every VM of hive-test, of whatever cluster, at once.
func oursLive(ctx context.Context, c Guests, listed []VM) ([]VM, error) {
	ours := slices.DeleteFunc(
		slices.Clone(listed), func(vm VM) bool { return vm.Type != "qemu" || !vm.HasTag(cluster.Tag) },
	)
	live := make([]VM, len(ours))
	err := each(len(ours), func(i int) error {
		vm, err := c.Live(ctx, ours[i])
		if err != nil && !errors.Is(err, ErrNotFound) {
			return fmt.Errorf("reading which addresses VM %d on %s has: %w", ours[i].VMID, ours[i].Hypervisor, err)
		}
		live[i] = vm
		return nil
	})
	return live, err
}

// Clashes is an error that names every static address of the nodes that another VM of hive-test has too.
func Clashes(ctx context.Context, c Guests, nodes cluster.Nodes) error {
	listed, err := c.VMs(ctx)
	if err != nil {
		return fmt.Errorf("listing the VMs: %w", err)
	}
	live, err := oursLive(ctx, c, listed)
	if err != nil {
		return err
	}
	var clashes []error
	for _, n := range nodes {
		for _, vm := range live {
			for _, a := range []netip.Addr{n.StaticManagement.Addr(), n.StaticData.Addr()} {
				if vm.VMID != placement.Of(n).VMID && a.IsValid() && slices.Contains(vm.Static, a) {
					clashes = append(clashes, fmt.Errorf("%s and VM %d %s on %s both have the address %s: remove one of the two clusters, and give each clusters directory a range of its own",
						n.Name, vm.VMID, vm.Name, vm.Hypervisor, a))
				}
			}
		}
	}
	return errors.Join(clashes...)
}

func chooseAddresses(network cluster.Network, nodes cluster.Nodes, taken map[netip.Addr]string) error {
	for i := range nodes {
		n := &nodes[i]
		err := errors.Join(
			chooseAddress("network.addresses", network.Addresses, n.Name, &n.StaticManagement, taken),
			chooseAddress("network.data_addresses", network.DataAddresses, n.Name, &n.StaticData, taken),
		)
		if err != nil {
			return err
		}
	}
	return nil
}

// chooseAddress takes a free address of a range for a NIC that has none. An empty range is DHCP.
func chooseAddress(setting, ranged, node string, nic *netip.Prefix, taken map[netip.Addr]string) error {
	if ranged == "" || nic.IsValid() {
		return nil
	}
	r, err := cluster.ParseAddressRange(ranged)
	if err != nil {
		return fmt.Errorf("%s: %w", setting, err)
	}
	free := r.Free(taken)
	if !free.IsValid() {
		return fmt.Errorf("%s: no address of %s is free for %s: %s", setting, ranged, node, addressHolders(r, taken))
	}
	*nic, taken[free.Addr()] = free, node
	return nil
}

// addressHolders says who has the first addresses of a range.
func addressHolders(r cluster.AddressRange, taken map[netip.Addr]string) string {
	const shown = 10
	text := ""
	for n, a := 0, r.First; r.Holds(a); n, a = n+1, a.Next() {
		switch {
		case n == shown:
			return text + ", ..."
		case n > 0:
			text += ", "
		}
		text += fmt.Sprintf("%s is of %s", a, taken[a])
	}
	return text
}
