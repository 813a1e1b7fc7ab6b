package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/google/renameio/v2"
)

// leases is the simulator's DHCP server: which card has which address, kept in a file so that a restart gives the same.
// Safe for concurrent use.
type leases struct {
	path string
	mu   sync.Mutex
	data leaseFile
	nets map[string]netip.Prefix // by bridge, of IPv4
	six  map[string]netip.Prefix // of IPv6; empty where there is none
}

type leaseFile struct {
	Subnet int              `json:"subnet"`         // number of both networks
	IPv6   bool             `json:"ipv6,omitempty"` // addresses are of IPv6
	Leases map[string]lease `json:"leases"`         // by "MAC bridge"
}

type lease struct {
	ID      string     `json:"id"` // machine
	Address netip.Addr `json:"address"`
}

// errLeasesExhausted means that a /24 is full.
var errLeasesExhausted = errors.New("no free address is left; remove machines")

func openLeases(dir string) (*leases, error) {
	l := &leases{path: filepath.Join(dir, "leases.json"), data: leaseFile{Leases: map[string]lease{}}}
	b, err := os.ReadFile(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read address leases: %w", err)
	}
	if err := json.Unmarshal(b, &l.data); err != nil {
		return nil, fmt.Errorf(
			"address leases %s are corrupt (delete the file; machines then get new addresses): %w", l.path, err,
		)
	}
	if l.data.Leases == nil {
		l.data.Leases = map[string]lease{}
	}
	return l, nil
}

// setSubnet records which subnet is used. Leases of another one are moved: only the last byte stays.
func (l *leases) setSubnet(k int, nets, six map[string]netip.Prefix) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.data.Subnet, l.nets, l.six = k, nets, six
	for key, v := range l.data.Leases {
		_, bridge, _ := strings.Cut(key, " ")
		p := nets[bridge]
		if v.Address.Is6() {
			p = six[bridge]
		}
		if p.IsValid() {
			last := v.Address.AsSlice()
			v.Address = numbered(p, last[len(last)-1])
			l.data.Leases[key] = v
		}
	}
	return l.save()
}

// numbered is the address of a network with a last byte.
func numbered(p netip.Prefix, last byte) netip.Addr {
	b := p.Addr().AsSlice()
	b[len(b)-1] = last
	addr, _ := netip.AddrFromSlice(b)
	return addr
}

// setIPv6 chooses the family of the addresses that cards get from now on.
func (l *leases) setIPv6(on bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if on && len(l.six) == 0 {
		return errors.New("hosts of kind process have IPv4 only")
	}
	l.data.IPv6 = on
	return l.save()
}

// network is what a bridge's cards get addresses of. It is to be called with mu held.
func (l *leases) network(bridge string) netip.Prefix {
	if l.data.IPv6 {
		return l.six[bridge]
	}
	return l.nets[bridge]
}

func (l *leases) subnet() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.data.Subnet
}

// get returns the address of a card of machine id on a bridge, taking a free one if it has none. Of the last byte, 1 is
// the simulator's own and 2 to 9 are left for static addresses.
func (l *leases) get(id, mac, bridge string) (netip.Prefix, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.network(bridge)
	key := mac + " " + bridge
	if v, ok := l.data.Leases[key]; ok && v.ID == id && p.Contains(v.Address) {
		return netip.PrefixFrom(v.Address, p.Bits()), nil
	}
	addr, err := l.free(p)
	if err != nil {
		return netip.Prefix{}, err
	}
	l.data.Leases[key] = lease{ID: id, Address: addr}
	return netip.PrefixFrom(addr, p.Bits()), l.save()
}

// free is the first address of p that nobody has. It is to be called with mu held.
func (l *leases) free(p netip.Prefix) (netip.Addr, error) {
	taken := map[netip.Addr]bool{}
	for _, v := range l.data.Leases {
		taken[v.Address] = true
	}
	for n := 10; n < 255; n++ {
		if addr := numbered(p, byte(n)); !taken[addr] {
			return addr, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("network %s: %w", p, errLeasesExhausted)
}

// renew gives every card of a machine that has a lease another address of its network.
func (l *leases) renew(id string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, v := range l.data.Leases {
		_, bridge, _ := strings.Cut(key, " ")
		if v.ID != id {
			continue
		}
		addr, err := l.free(l.network(bridge))
		if err != nil {
			return err
		}
		l.data.Leases[key] = lease{ID: id, Address: addr}
	}
	return l.save()
}

// release forgets the addresses of a machine.
func (l *leases) release(id string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.data.Leases)
	for key, v := range l.data.Leases {
		if v.ID == id {
			delete(l.data.Leases, key)
		}
	}
	if len(l.data.Leases) == n {
		return nil
	}
	return l.save()
}

// save is to be called with mu held.
func (l *leases) save() error {
	b, err := json.MarshalIndent(l.data, "", "  ")
	if err != nil {
		return fmt.Errorf("encode address leases: %w", err)
	}
	if err := renameio.WriteFile(l.path, b, 0o600); err != nil {
		return fmt.Errorf("write address leases: %w", err)
	}
	return nil
}
