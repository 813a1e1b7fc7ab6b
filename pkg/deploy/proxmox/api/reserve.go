package api

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/progress"
)

// IDRange is an inclusive range of VM ids.
type IDRange struct{ First, Last int }

// DefaultIDRange is where clusters take their VM ids from when nothing else is set.
func DefaultIDRange() IDRange { return IDRange{First: 20000, Last: 29999} }

// Bounds of a VM id in PVE.
const minVMID, maxVMID = 100, 999999999

// ParseIDRange reads "20000-29999".
func ParseIDRange(s string) (IDRange, error) {
	var r IDRange
	if n, err := fmt.Sscanf(s, "%d-%d", &r.First, &r.Last); err != nil || n != 2 ||
		fmt.Sprintf("%d-%d", r.First, r.Last) != s {
		return IDRange{}, fmt.Errorf("vm id range %q is not of the form FIRST-LAST, like 20000-29999", s)
	}
	return r, r.Validate()
}

// Validate says whether PVE could use every id of the range.
func (r IDRange) Validate() error {
	if r.First < minVMID || r.Last > maxVMID || r.First > r.Last {
		return fmt.Errorf("vm id range %s is not valid: it must lie within %d-%d, low end first", r, minVMID, maxVMID)
	}
	return nil
}

// String is the form that ParseIDRange reads.
func (r IDRange) String() string { return fmt.Sprintf("%d-%d", r.First, r.Last) }

// ReserveRequest is everything that a reservation depends on.
type ReserveRequest struct {
	Name        cluster.Name
	Count       int           // of nodes to choose
	Present     cluster.Nodes // that the cluster has already: the new ones continue their numbers, ids and round
	Hypervisors []string      // in the order of the specification; nodes go round-robin over them, unless Hosts are set
	Hosts       []string      // of the nodes to choose, one each; nil: round-robin
	Range       IDRange       // zero: DefaultIDRange
	Base        int           // not 0: node 1 gets this id, node 2 the next, wherever the range is
	Existing    []VM          // the listing; containers share the id space with VMs
	Taken       []int         // ids that are known to be taken otherwise, such as by VMs that the token cannot see
	MACs        []string      // MACs that are in use, any case
	Seed        uint64        // decides where the search starts and the MACs; random in real use
}

// Reserve chooses ids, MACs and hypervisors for a new cluster's nodes: consecutive free ids from a random start in the
// range, so that two runs that choose at the same time seldom choose alike, and MACs of Proxmox's own prefix
// BC:24:11. It is pure: whether the ids are still free is to be asked right before they are used.
func Reserve(req ReserveRequest) (cluster.Nodes, error) {
	if len(req.Hypervisors) == 0 {
		return nil, fmt.Errorf("no hypervisor to place nodes on: set proxmox.hypervisors, or avoid fewer of them")
	}
	taken := takenIDs(req)
	rng := rand.New(rand.NewPCG(req.Seed, sum64(string(req.Name))))
	first, err := firstID(req, taken, rng)
	if err != nil {
		return nil, err
	}
	macs := newMACs(req.macs(), rng)
	nodes := make(cluster.Nodes, req.Count)
	for i := range nodes {
		number := len(req.Present) + i
		nodes[i] = cluster.Node{
			Name: req.Name.Node(number + 1), Index: number + 1,
			Placement: placement.VM{
				VMID: first + i, Hypervisor: req.host(i),
				ManagementMAC: macs.next(), DataMAC: macs.next(),
			}.Document(),
		}
	}
	return nodes, nil
}

// host is the hypervisor of a node to choose.
func (req ReserveRequest) host(index int) string {
	if index < len(req.Hosts) {
		return req.Hosts[index]
	}
	return req.Hypervisors[(len(req.Present)+index)%len(req.Hypervisors)]
}

// macs are those in use, the cluster's own included.
func (req ReserveRequest) macs() []string {
	used := slices.Clone(req.MACs)
	for _, n := range req.Present {
		at := placement.Of(n)
		used = append(used, at.ManagementMAC, at.DataMAC)
	}
	return used
}

func takenIDs(req ReserveRequest) map[int]string {
	taken := map[int]string{}
	for _, n := range req.Present {
		taken[placement.Of(n).VMID] = n.Name + " of this cluster"
	}
	for _, id := range req.Taken {
		taken[id] = "a VM that the token cannot see"
	}
	for _, vm := range req.Existing {
		taken[vm.VMID] = describeVM(vm)
	}
	return taken
}

func firstID(req ReserveRequest, taken map[int]string, rng *rand.Rand) (int, error) {
	if req.Count < 1 {
		return 0, fmt.Errorf("a cluster needs at least one node, not %d", req.Count)
	}
	if req.Base != 0 {
		return pinned(req, taken)
	}
	ids := req.Range
	if ids == (IDRange{}) {
		ids = DefaultIDRange()
	}
	if err := ids.Validate(); err != nil {
		return 0, err
	}
	starts := ids.Last - ids.First + 1 - (req.Count - 1)
	if starts < 1 {
		return 0, fmt.Errorf(
			"vm id range %s has no room for %s: widen proxmox.vmid_range", ids, progress.Count(req.Count, "node"),
		)
	}
	offset := rng.IntN(starts)
	if next := req.next(); next >= ids.First && next < ids.First+starts {
		offset = next - ids.First
	}
	for tried := range starts {
		start := ids.First + (offset+tried)%starts
		if allFree(start, req.Count, taken) {
			return start, nil
		}
	}
	return 0, fmt.Errorf(
		"no %d consecutive free vm ids in %s: delete old clusters or widen proxmox.vmid_range", req.Count, ids,
	)
}

// next is the id after those that the cluster has, 0 if it has none.
func (req ReserveRequest) next() int {
	next := 0
	for _, n := range req.Present {
		next = max(next, placement.Of(n).VMID+1)
	}
	return next
}

func allFree(start, count int, taken map[int]string) bool {
	for id := start; id < start+count; id++ {
		if _, found := taken[id]; found {
			return false
		}
	}
	return true
}

func pinned(req ReserveRequest, taken map[int]string) (int, error) {
	first := req.Base + len(req.Present)
	ids := IDRange{First: first, Last: first + req.Count - 1}
	if err := ids.Validate(); err != nil {
		return 0, fmt.Errorf("proxmox.vmid_base %d: %w", req.Base, err)
	}
	var clashes []string
	for id := ids.First; id <= ids.Last; id++ {
		if who, found := taken[id]; found {
			clashes = append(clashes, fmt.Sprintf("%d is %s", id, who))
		}
	}
	if len(clashes) > 0 {
		return 0, fmt.Errorf(
			"proxmox.vmid_base %d: vm ids %s are not all free: %s", req.Base, ids, strings.Join(clashes, "; "),
		)
	}
	return first, nil
}

func describeVM(vm VM) string {
	name := vm.Name
	if name == "" {
		name = "without a name yet"
	}
	return fmt.Sprintf("%s (%s on %s)", name, vm.Type, vm.Hypervisor)
}

// macs draws addresses that are not in use.
type macs struct {
	used map[string]bool
	rng  *rand.Rand
}

func newMACs(used []string, rng *rand.Rand) *macs {
	m := &macs{used: map[string]bool{}, rng: rng}
	for _, mac := range used {
		m.used[strings.ToUpper(mac)] = true
	}
	return m
}

func (m *macs) next() string {
	for {
		n := m.rng.Uint32()
		mac := fmt.Sprintf("BC:24:11:%02X:%02X:%02X", byte(n>>16), byte(n>>8), byte(n))
		if !m.used[mac] {
			m.used[mac] = true
			return mac
		}
	}
}

func sum64(s string) uint64 {
	sum := sha256.Sum256([]byte(s))
	return binary.BigEndian.Uint64(sum[:8])
}

// FreeIDs is what Choose needs.
type FreeIDs interface {
	VMs(ctx context.Context) ([]VM, error)
	CheckID(ctx context.Context, vmid int) (free bool, err error)
}

// Choose reserves with what the API says now: it lists the guests, reserves, and asks for every chosen id whether it
// is really free, since the listing hides VMs that the token may not see; on a clash it reserves elsewhere. The caller
// holds the lock that keeps other runs from choosing at the same time. Existing and Taken of req are filled in.
func Choose(ctx context.Context, c FreeIDs, req ReserveRequest) (cluster.Nodes, error) {
	existing, err := c.VMs(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing the VMs before choosing ids: %w", err)
	}
	req.Existing = existing
	for {
		nodes, err := Reserve(req)
		if err != nil {
			return nil, err
		}
		hidden, err := takenNow(ctx, c, nodes)
		if err != nil {
			return nil, fmt.Errorf("checking that the chosen vm ids are free: %w", err)
		}
		if len(hidden) == 0 {
			return nodes, nil
		}
		req.Taken = append(req.Taken, hidden...)
		req.Seed++
	}
}

func takenNow(ctx context.Context, c FreeIDs, nodes cluster.Nodes) ([]int, error) {
	free := make([]bool, len(nodes))
	err := each(len(nodes), func(i int) error {
		var err error
		free[i], err = c.CheckID(ctx, placement.Of(nodes[i]).VMID)
		return err
	})
	if err != nil {
		return nil, err
	}
	var taken []int
	for i, ok := range free {
		if !ok {
			taken = append(taken, placement.Of(nodes[i]).VMID)
		}
	}
	return taken, nil
}
