package host

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"runtime"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

const (
	managementBridge = "vmbr0"
	dataBridge       = "vmbr1"
	claimPort        = 7777 // UDP port of 127.77.K.1 whose owner owns subnet number K
)

// subnets are both networks of number k, and kind's way of writing them.
func subnets(kind Kind, k int) map[string]netip.Prefix {
	first := byte(10)
	if kind == KindProcess {
		first = 127
	}
	return map[string]netip.Prefix{
		managementBridge: netip.PrefixFrom(netip.AddrFrom4([4]byte{first, 77, byte(k), 0}), 24),
		dataBridge:       netip.PrefixFrom(netip.AddrFrom4([4]byte{first, 78, byte(k), 0}), 24),
	}
}

// subnets6 are the networks of IPv6 beside them: number 77 has fd00:77:77::/64 and fd00:78:77::/64.
func subnets6(k int) map[string]netip.Prefix {
	return map[string]netip.Prefix{
		managementBridge: netip.MustParsePrefix(fmt.Sprintf("fd00:77:%d::/64", k)),
		dataBridge:       netip.MustParsePrefix(fmt.Sprintf("fd00:78:%d::/64", k)),
	}
}

// claimSubnet takes a subnet number that no other simulator on this machine has, for as long as the socket it returns
// is open: binding an address is atomic, needs no file, and ends with the process however it ends. Number want is tried
// first, then those from seed on.
func claimSubnet(ctx context.Context, want, seed int, usable func(k int) bool) (int, net.PacketConn, error) {
	var lc net.ListenConfig
	candidates := []int{}
	if want > 0 {
		candidates = append(candidates, want)
	}
	for i := range 254 {
		candidates = append(candidates, 1+(seed+i)%254)
	}
	var last error
	for _, k := range candidates {
		c, err := lc.ListenPacket(ctx, "udp4", fmt.Sprintf("127.77.%d.1:%d", k, claimPort))
		if err != nil {
			last = err
			continue
		}
		if usable(k) {
			return k, c, nil
		}
		_ = c.Close()
	}
	return 0, nil, fmt.Errorf("no free network in 10.77.0.0/16 and 10.78.0.0/16 (127.77.0.0/16 for kind process): %w",
		errors.Join(last, ctx.Err()))
}

// dirTag is a short name for a state directory, the same in every run.
func dirTag(dir string) (tag string, seed int) {
	h := sha256.Sum256([]byte(filepath.Clean(dir)))
	return fmt.Sprintf("hs%x", h[:4]), int(h[5])
}

// fabric is the networks of one simulator with machines of kind netns: two bridges in a network namespace of its own,
// and one veth pair for each into the namespace that the simulator runs in. The namespace has no name and no process;
// it is held open by this process alone, so that the kernel removes all of it when this process ends.
type fabric struct {
	tag     string
	nets    map[string]netip.Prefix
	six     map[string]netip.Prefix
	ns      netns.NsHandle
	outside *netlink.Handle
	inside  *netlink.Handle
	bridges map[string]int // link index inside
}

// removeLeftovers deletes what a killed simulator with the same state directory may have left for a moment.
func removeLeftovers(h *netlink.Handle, tag string) error {
	for _, name := range uplinks(tag) {
		link, err := h.LinkByName(name)
		if err != nil {
			continue
		}
		if err := h.LinkDel(link); err != nil && !errors.Is(err, unix.ENODEV) {
			return fmt.Errorf("remove left-over interface %s: %w", name, err)
		}
	}
	return nil
}

func uplinks(tag string) map[string]string {
	return map[string]string{managementBridge: tag + "m", dataBridge: tag + "d"}
}

// subnetFree tells whether no route or address of this machine overlaps the networks of number k.
func subnetFree(h *netlink.Handle, k int) bool {
	routes, err := h.RouteList(nil, netlink.FAMILY_V4)
	if err != nil {
		return false
	}
	for _, p := range subnets(KindNetns, k) {
		for _, r := range routes {
			if r.Dst == nil {
				continue
			}
			a, ok := netip.AddrFromSlice(r.Dst.IP.To4())
			ones, _ := r.Dst.Mask.Size()
			// A default route in its explicit form overlaps everything and says nothing.
			if ok && ones > 0 && netip.PrefixFrom(a, ones).Overlaps(p) {
				return false
			}
		}
	}
	return true
}

func newFabric(outside *netlink.Handle, tag string, k int) (*fabric, error) {
	f := &fabric{
		tag: tag, nets: subnets(KindNetns, k), six: subnets6(k), outside: outside, ns: netns.None(),
		bridges: map[string]int{},
	}
	var err error
	if f.ns, err = newNamespace(); err != nil {
		return nil, err
	}
	if f.inside, err = netlink.NewHandleAt(f.ns, unix.NETLINK_ROUTE); err != nil {
		f.close()
		return nil, fmt.Errorf("open the networks' namespace: %w", err)
	}
	for bridge, uplink := range uplinks(tag) {
		if err := f.addNetwork(bridge, uplink); err != nil {
			f.close()
			return nil, fmt.Errorf("make network %s %s: %w", bridge, f.nets[bridge], err)
		}
	}
	return f, nil
}

// newNamespace makes a network namespace that lives as long as its handle.
func newNamespace() (netns.NsHandle, error) {
	runtime.LockOSThread()
	home, err := netns.Get()
	if err != nil {
		runtime.UnlockOSThread()
		return netns.None(), fmt.Errorf("open this thread's network namespace: %w", err)
	}
	defer func() { _ = home.Close() }()
	ns, err := netns.New()
	if err != nil {
		runtime.UnlockOSThread()
		return netns.None(), fmt.Errorf("make a network namespace: %w", err)
	}
	// A thread that cannot get back stays locked, so that it serves nothing else and ends with its goroutine.
	if err := netns.Set(home); err != nil {
		_ = ns.Close()
		return netns.None(), fmt.Errorf("return to this thread's network namespace: %w", err)
	}
	runtime.UnlockOSThread()
	return ns, nil
}

func (f *fabric) addNetwork(bridge, uplink string) error {
	br := &netlink.Bridge{LinkAttrs: netlink.NewLinkAttrs()}
	br.Name = bridge
	if err := f.inside.LinkAdd(br); err != nil {
		return fmt.Errorf("add bridge: %w", err)
	}
	f.bridges[bridge] = br.Attrs().Index
	if err := f.inside.LinkSetUp(br); err != nil {
		return fmt.Errorf("set bridge up: %w", err)
	}
	veth := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: "up" + bridge, PeerNamespace: netlink.NsFd(f.ns)}
	veth.Name = uplink
	if err := f.outside.LinkAdd(veth); err != nil {
		return fmt.Errorf("add interface %s: %w", uplink, err)
	}
	peer, err := f.inside.LinkByName(veth.PeerName)
	if err != nil {
		return fmt.Errorf("find the bridge's end of %s: %w", uplink, err)
	}
	if err := f.inside.LinkSetMasterByIndex(peer, br.Attrs().Index); err != nil {
		return fmt.Errorf("connect %s to its bridge: %w", uplink, err)
	}
	if err := f.inside.LinkSetUp(peer); err != nil {
		return fmt.Errorf("set the bridge's end of %s up: %w", uplink, err)
	}
	gw := f.nets[bridge].Addr().Next()
	if err := f.outside.AddrAdd(veth, address(netip.PrefixFrom(gw, f.nets[bridge].Bits()))); err != nil {
		return fmt.Errorf("give %s address %s: %w", uplink, gw, err)
	}
	if err := f.outside.LinkSetUp(veth); err != nil {
		return fmt.Errorf("set %s up: %w", uplink, err)
	}
	return nil
}

// reachIPv6 gives this machine its address in a bridge's network of IPv6. It is done when a machine needs it: where
// IPv6 is switched off, nothing else is the worse for it.
func (f *fabric) reachIPv6(bridge string) error {
	uplink, err := f.outside.LinkByName(uplinks(f.tag)[bridge])
	if err != nil {
		return fmt.Errorf("find %s: %w", uplinks(f.tag)[bridge], err)
	}
	p := f.six[bridge]
	if err := f.outside.AddrAdd(uplink, address(netip.PrefixFrom(p.Addr().Next(), p.Bits()))); err != nil &&
		!errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("join %s: is IPv6 switched off on this machine? %w", p, err)
	}
	return nil
}

// address is one that is used at once: nobody else is asked whether they have it.
func address(p netip.Prefix) *netlink.Addr {
	a := &netlink.Addr{IPNet: ipNet(p)}
	if p.Addr().Is6() {
		a.Flags = unix.IFA_F_NODAD
	}
	return a
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// tapName is the bridge's end of a machine's card, named as PVE names them.
func tapName(id string, n int) string {
	name := fmt.Sprintf("tap%si%d", id, n)
	if len(name) >= unix.IFNAMSIZ {
		h := sha256.Sum256([]byte(id))
		name = fmt.Sprintf("t%x%d", h[:5], n)
	}
	return name
}

// attach gives the process pid, which has its own network namespace, a card on a bridge.
func (f *fabric) attach(pid int, id string, n int, bridge string, nic guestNIC) error {
	mac, err := net.ParseMAC(nic.MAC)
	if err != nil {
		return fmt.Errorf("card %d: %w", n, err)
	}
	index, ok := f.bridges[bridge]
	if !ok {
		return fmt.Errorf("bridge '%s' does not exist", bridge)
	}
	veth := &netlink.Veth{
		LinkAttrs: netlink.NewLinkAttrs(), PeerName: nic.Name, PeerHardwareAddr: mac, PeerNamespace: netlink.NsPid(pid),
	}
	veth.Name = tapName(id, n)
	veth.MasterIndex = index
	// A machine that was just cut off may still hold the name for a moment, while the kernel takes its namespace down.
	for wait := time.Millisecond; ; wait *= 2 {
		if err = f.inside.LinkAdd(veth); !errors.Is(err, unix.EEXIST) || wait > time.Second {
			break
		}
		f.detach(id, n)
		time.Sleep(wait)
	}
	if err != nil {
		return fmt.Errorf("add interface %s: %w", veth.Name, err)
	}
	if err := f.inside.LinkSetUp(veth); err != nil {
		return fmt.Errorf("set %s up: %w", veth.Name, err)
	}
	f.introduce(bridge, nic.Address.Addr(), mac)
	return nil
}

// introduce tells this machine whose address addr is now. Without it, this machine would look for some seconds at the
// MAC of the machine that had the address before.
func (f *fabric) introduce(bridge string, addr netip.Addr, mac net.HardwareAddr) {
	uplink, err := f.outside.LinkByName(uplinks(f.tag)[bridge])
	if err != nil {
		return
	}
	_ = f.outside.NeighSet(&netlink.Neigh{ // things are slower without it, not wrong
		LinkIndex: uplink.Attrs().Index, Family: family(addr), State: netlink.NUD_REACHABLE, IP: addr.AsSlice(),
		HardwareAddr: mac,
	})
}

// forget makes this machine find out anew who has addr: nobody, where it was just given up.
func (f *fabric) forget(bridge string, addr netip.Addr) {
	uplink, err := f.outside.LinkByName(uplinks(f.tag)[bridge])
	if err != nil {
		return
	}
	_ = f.outside.NeighDel(&netlink.Neigh{LinkIndex: uplink.Attrs().Index, Family: family(addr), IP: addr.AsSlice()})
}

func family(addr netip.Addr) int {
	if addr.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// detach removes a machine's card; the kernel would do so by itself, but later.
func (f *fabric) detach(id string, n int) {
	if link, err := f.inside.LinkByName(tapName(id, n)); err == nil {
		_ = f.inside.LinkDel(link)
	}
}

func (f *fabric) close() {
	_ = removeLeftovers(f.outside, f.tag)
	if f.inside != nil {
		f.inside.Close()
	}
	if f.ns.IsOpen() {
		_ = f.ns.Close()
	}
	f.outside.Close()
}
