package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// runPrefix begins the name of the pool that a run of a cluster holds while it lives; the cluster's owner id follows.
const runPrefix = "hive-test-run-"

// RunLease says that a run is at work on a cluster: a resource pool that every machine with the token sees. Of a run
// that died it stays, and tells what that run had in hand.
type RunLease struct {
	Lease
	Verb string
	// Place, PID and Start tell the process from all others: processes of one place see each other's ids.
	Place string
	PID   int
	Start string
	// Destroys says that the run destroys the cluster at its end, whatever happens.
	Destroys bool
	// Disks are where the disks are of VMs that the run deletes: of one that died between both, nothing else tells.
	Disks []Origin
	// Provisioning says that the cluster was never up so far.
	Provisioning bool
}

// String is for people.
func (m RunLease) String() string {
	return m.Verb + " of cluster " + string(m.Cluster) + " by " + m.Who
}

// Pool is the name of the lease's pool.
func (m RunLease) Pool() string { return runPrefix + m.OwnerID }

func (m RunLease) comment() string {
	yes := map[bool]string{true: "yes", false: "no"}
	return fmt.Sprintf(
		"hive-test %s runs; cluster=%s owner=%s verb=%s by=%s place=%s pid=%d start=%s destroys=%s making=%s "+
			"disks=%s until=%s. Safe to delete if no hive-test runs.",
		m.Verb, m.Cluster, m.OwnerID, m.Verb, m.who(), m.Place, m.PID, m.Start, yes[m.Destroys], yes[m.Provisioning],
		disksText(m.Disks), m.until())
}

func parseRunLease(p Pool) (RunLease, bool) {
	owner, found := strings.CutPrefix(p.ID, runPrefix)
	if !found {
		return RunLease{}, false
	}
	fields := commentFields(p.Comment)
	m := RunLease{
		Lease: readLease(p.Comment), Verb: fields["verb"], Place: fields["place"], Start: fields["start"],
		Destroys: fields["destroys"] == "yes", Provisioning: fields["making"] == "yes",
	}
	m.OwnerID = owner
	m.PID, _ = strconv.Atoi(fields["pid"])
	m.Disks = parseDisks(fields["disks"])
	return m, true
}

// disksText is ID@HYPERVISOR:STORAGE+STORAGE for each VM.
func disksText(disks []Origin) string {
	var list []string
	for _, d := range disks {
		list = append(list, fmt.Sprintf("%d@%s:%s", d.VMID, d.Hypervisor, strings.Join(d.Storages, "+")))
	}
	return cmp.Or(strings.Join(list, ","), "none")
}

var diskPlace = regexp.MustCompile(`^([1-9][0-9]{2,8})@([A-Za-z0-9-]+):([A-Za-z][A-Za-z0-9._+-]*)$`)

// parseDisks reads what it can: anybody may write there.
func parseDisks(text string) (disks []Origin) {
	for _, field := range strings.Split(text, ",") {
		if m := diskPlace.FindStringSubmatch(field); m != nil {
			id, _ := strconv.Atoi(m[1])
			disks = append(disks, Origin{VMID: id, Hypervisor: m[2], Storages: strings.Split(m[3], "+")})
		}
	}
	return disks
}

// Traces are what runs have left on Proxmox VE for other machines to see, as far as the token may see it (Pool.Audit).
type Traces struct {
	RunLeases []RunLease
	IDLeases  []IDLease
}

// IDLease is a lease of a block of VM ids as others see it.
type IDLease struct {
	Lease
	First, Last int // the ids
	Pool        string
}

// Covers reports whether the lease is of the id.
func (c IDLease) Covers(vmid int) bool { return c.First <= vmid && vmid <= c.Last }

// ReadTraces lists the traces of all runs.
func ReadTraces(ctx context.Context, p Pools) (Traces, error) {
	pools, err := p.Pools(ctx)
	if err != nil {
		return Traces{}, fmt.Errorf("looking for marks and claims of runs: %w", err)
	}
	var t Traces
	for _, pool := range pools {
		if m, ok := parseRunLease(pool); ok {
			t.RunLeases = append(t.RunLeases, m)
		}
		if first, ok := leasedBlock(pool.ID); ok {
			lease := readLease(pool.Comment)
			t.IDLeases = append(t.IDLeases, IDLease{
				Lease: lease, First: first, Last: first + blockSize - 1, Pool: pool.ID,
			})
		}
	}
	return t, nil
}

// leasedBlock is the block that a lease's pool is for, or one that was made to take a lease over.
func leasedBlock(id string) (first int, ok bool) {
	rest, ok := strings.CutPrefix(id, idLeasePrefix)
	if over, takeover := strings.CutPrefix(id, takeOverPrefix); takeover {
		rest, _, ok = strings.Cut(over, "-")
	}
	first, err := strconv.Atoi(rest)
	return first, ok && err == nil
}

// Leased reports whether the owner has leased the id.
func (t Traces) Leased(owner string, vmid int) bool {
	for _, c := range t.IDLeases {
		if c.OwnerID == owner && c.Covers(vmid) {
			return true
		}
	}
	return false
}

// ReadRunLease reads the lease of an owner's cluster as it is now; found is false if there is none.
func ReadRunLease(ctx context.Context, p Pools, owner string) (mark RunLease, found bool, err error) {
	pool, err := p.ReadPool(ctx, runPrefix+owner)
	if errors.Is(err, ErrNotFound) {
		return RunLease{}, false, nil
	}
	mark, found = parseRunLease(pool)
	return mark, found && err == nil, err
}

// DropRunLease deletes the lease of an owner's cluster. That there is none is no error.
func DropRunLease(ctx context.Context, p Pools, owner string) error {
	return release(ctx, p, runPrefix+owner, nil)
}

// DropIDLease deletes a lease unless it has become another's meanwhile.
func DropIDLease(ctx context.Context, p Pools, c IDLease) error {
	return release(ctx, p, c.Pool, func(l Lease) bool { return l == c.Lease })
}
