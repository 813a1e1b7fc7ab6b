package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/uuid"

	"hive-test/pkg/cluster"
)

// A lease of VM ids is the right to use one block of them until VMs have them. It has two halves. On this machine it is
// a locked file, which no run can lock twice and which is free when its process is dead. Between machines it is a pool,
// whose name follows from the block. What users read calls it a claim.
//
// A pool that was asked for may be made when nobody waits for the answer any more, even when the run has ended and its
// run lease is gone. So a pool is asked for with an end that is near, and gets its real one when it is seen made: one
// that comes late has expired, and is anybody's to take away.

const (
	// blockSize is how many ids one lease covers: the largest cluster fits into one.
	blockSize = cluster.MaxNodes
	// idLeasePrefix begins the name of every lease's pool; the first id of the block follows.
	idLeasePrefix = "hive-test-ids-"
	// takeOverPrefix begins the name of the pool that is made while a lease whose owner is dead is taken over.
	takeOverPrefix = "hive-test-over-"
	// idLeaseTime is how long making one lease, or giving it up, may take.
	idLeaseTime = 10 * time.Second
	// askedTime is how long a lease counts from when it is asked for until it is seen made: longer than idLeaseTime by
	// what clocks may differ.
	askedTime = idLeaseTime + 10*time.Second
)

// LeasedError says that another run has leased ids that were wanted. Waiting helps: leases are given up when VMs hold
// the ids, or the owner is dead.
type LeasedError struct {
	Block int   // first id of the block
	By    Lease // as its comment says
}

// Error names the run.
func (e *LeasedError) Error() string {
	return fmt.Sprintf("VM ids %d-%d are claimed by %s", e.Block, e.Block+blockSize-1, e.By)
}

// IDLeaseOptions say who leases VM ids, and where.
type IDLeaseOptions struct {
	Pools Pools
	// Endpoint names the Proxmox VE; runs on this machine that name another never meet in the locks.
	Endpoint string
	// LockDir is shared by all runs on this machine, whoever's they are. It is made if need be.
	LockDir string
	// Cluster, OwnerID and Who are whose the leases are.
	Cluster cluster.Name
	OwnerID string
	Who     string
	// For is how long a lease of a run that vanished keeps others away; it is longer than any run needs.
	For time.Duration
	// Now is the clock of Proxmox VE, as far as it is known; nil is the system's.
	Now func() time.Time
}

// IDLeases are the leases of VM ids of one run. It is not safe for concurrent use.
type IDLeases struct {
	IDLeaseOptions
	site  string
	locks map[int]*flock.Flock
	pools map[int]bool // blocks whose pool is ours, or may be, which is to be given up then
	// Unshared is why the leases count on this machine only, nil if PVE has them too.
	Unshared error
}

// NewIDLeases prepares the directory of locks. Nothing is leased yet.
func NewIDLeases(o IDLeaseOptions) (*IDLeases, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	site, err := prepareLocks(o.LockDir)
	if err != nil {
		return nil, fmt.Errorf("the directory of locks on VM ids cannot be used, name another with --lock-dir: %w", err)
	}
	return &IDLeases{IDLeaseOptions: o, site: site, locks: map[int]*flock.Flock{}, pools: map[int]bool{}}, nil
}

// siteFile names the file that tells one directory of locks from every other.
const siteFile = "site"

// prepareLocks makes the directory, for all users like the one of temporary files, and returns its identity.
func prepareLocks(dir string) (string, error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	switch err := os.Mkdir(dir, 0o777); {
	case err == nil:
		if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil { // whatever the umask is
			return "", err
		}
	case !errors.Is(err, os.ErrExist):
		return "", err
	}
	// One that is there stays as it is; where a link leads, whoever has put it there knows.
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
		return "", errors.Join(fmt.Errorf("%s is no directory, or a link to one", dir), err)
	}
	path := filepath.Join(dir, siteFile)
	for range 3 {
		if raw, err := readPlain(path); err == nil && len(raw) > 0 {
			return strings.TrimSpace(string(raw)), nil
		}
		// A link is made whole or not at all, and by one of all who try.
		draft, err := os.CreateTemp(dir, siteFile+"-*")
		if err != nil {
			return "", err
		}
		_, err = draft.WriteString(uuid.NewString() + "\n")
		err = errors.Join(err, draft.Chmod(0o644), draft.Close())
		if err == nil {
			err = os.Link(draft.Name(), path)
		}
		_ = os.Remove(draft.Name())
		if err != nil && !errors.Is(err, os.ErrExist) {
			return "", err
		}
	}
	return "", fmt.Errorf("%s cannot be read", path)
}

// readPlain reads a file that is no link.
func readPlain(path string) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return io.ReadAll(io.LimitReader(file, 1<<10))
}

// Site is the identity of this machine's directory of locks.
func (c *IDLeases) Site() string { return c.site }

// Has reports whether this run has leased the id.
func (c *IDLeases) Has(vmid int) bool { return c.locks[blockOf(vmid)] != nil }

// Acquire leases all the ids for this run, or none: then a *LeasedError says who has some of them. Ids that this run
// has leased already stay leased. An earlier lease of the same cluster, or of a run that is dead, is taken over. If the
// token may not make pools, the lease counts on this machine only, and Unshared says why.
func (c *IDLeases) Acquire(ctx context.Context, ids []int) error {
	var taken []int
	for _, block := range blocksOf(ids) { // always in ascending order, so that no two runs wait for each other
		if c.locks[block] != nil {
			continue
		}
		if err := c.acquire(ctx, block); err != nil {
			return errors.Join(err, c.release(context.WithoutCancel(ctx), taken))
		}
		taken = append(taken, block)
	}
	return nil
}

func blockOf(vmid int) int { return vmid - vmid%blockSize }

func blocksOf(ids []int) []int {
	blocks := make([]int, len(ids))
	for i, id := range ids {
		blocks[i] = blockOf(id)
	}
	slices.Sort(blocks)
	return slices.Compact(blocks)
}

func (c *IDLeases) acquire(ctx context.Context, block int) error {
	lock, err := c.lock(block)
	if err != nil {
		return err
	}
	c.locks[block] = lock
	if err := c.acquirePool(ctx, block); err != nil {
		return errors.Join(err, c.unlock(block))
	}
	return nil
}

// lock takes the file of a block, which may be another user's: then it can be opened for reading only.
func (c *IDLeases) lock(block int) (*flock.Flock, error) {
	sum := sha256.Sum256([]byte(c.Endpoint))
	path := filepath.Join(c.LockDir, hex.EncodeToString(sum[:6])+"-"+strconv.Itoa(block)+".lock")
	var failures []error
	for _, flag := range []int{os.O_CREATE | os.O_RDONLY, os.O_RDONLY} {
		lock := flock.New(path, flock.SetPermissions(0o644), flock.SetFlag(flag|syscall.O_NOFOLLOW))
		got, err := lock.TryLock()
		if err == nil && !got {
			return nil, &LeasedError{Block: block, By: c.lease(block).owner()}
		}
		if err == nil {
			return lock, nil
		}
		failures = append(failures, err)
	}
	return nil, fmt.Errorf("locking VM ids %d-%d: %w", block, block+blockSize-1, errors.Join(failures...))
}

func poolName(block int) string { return idLeasePrefix + strconv.Itoa(block) }

// acquirePool makes the half that is a pool. An interruption does not cut that off: a lease that was asked for and not
// seen made may be there all the same.
func (c *IDLeases) acquirePool(ctx context.Context, block int) error {
	if c.Unshared != nil || ctx.Err() != nil {
		return context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), idLeaseTime)
	defer cancel()
	lease := c.lease(block)
	err := lease.acquire(ctx, askedTime)
	if errors.Is(err, ErrExists) {
		err = c.takeOver(ctx, block, lease)
	}
	if errors.Is(err, ErrForbidden) {
		c.Unshared = err
		return nil
	}
	if leased, ok := errors.AsType[*conflictError](err); ok {
		return &LeasedError{Block: block, By: leased.by}
	}
	if err == nil {
		err = lease.renew(ctx, c.For)
	}
	if err != nil {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), idLeaseTime)
		defer cancel()
		// One that is made only after that ends by itself, and soon.
		c.pools[block] = c.deleteOwn(ending, lease.name) != nil
		return fmt.Errorf("claiming VM ids %d-%d: %w", block, block+blockSize-1, err)
	}
	c.pools[block] = true
	return nil
}

// lease is the pool that leases a block.
func (c *IDLeases) lease(block int) leaser {
	return leaser{pools: c.Pools, now: c.Now, name: poolName(block), comment: func(until time.Time) string {
		l := Lease{Cluster: c.Cluster, OwnerID: c.OwnerID, Who: c.Who, Until: until, Site: c.site}
		return fmt.Sprintf("hive-test makes VMs with ids %d-%d; cluster=%s owner=%s by=%s until=%s site=%s. "+
			"Safe to delete if no hive-test runs.", block, block+blockSize-1, l.Cluster, l.OwnerID, l.who(), l.until(), l.Site)
	}}
}

// takeOver replaces a lease that nobody stands behind any more.
func (c *IDLeases) takeOver(ctx context.Context, block int, lease leaser) error {
	old, err := c.Pools.ReadPool(ctx, lease.name)
	switch {
	case errors.Is(err, ErrNotFound): // given up just now
		return lease.createOrConflict(ctx, askedTime)
	case errors.Is(err, ErrForbidden): // it can be made but not looked at
		return &conflictError{}
	case err != nil:
		return err
	}
	// This cluster's own lease is one of a run before. And we hold the lock of this machine: a lease that was made here
	// is one of a dead run, too.
	by := readLease(old.Comment)
	if by.OwnerID != c.OwnerID && by.Site != c.site && !by.Expired(c.Now()) {
		return &conflictError{by}
	}
	sum := sha256.Sum256([]byte(old.Comment))
	return lease.takeOver(ctx, old, takeOverPrefix+strconv.Itoa(block)+"-"+hex.EncodeToString(sum[:4]), askedTime)
}

// Release gives all leases of this run up. It can be called again.
func (c *IDLeases) Release(ctx context.Context) error {
	blocks := slices.AppendSeq(slices.Collect(maps.Keys(c.locks)), maps.Keys(c.pools))
	slices.Sort(blocks)
	return c.release(ctx, slices.Compact(blocks))
}

func (c *IDLeases) release(ctx context.Context, blocks []int) error {
	var failures []error
	for _, block := range blocks {
		if c.pools[block] {
			err := c.deleteOwn(ctx, poolName(block))
			c.pools[block] = err != nil
			failures = append(failures, err)
		}
		if c.locks[block] != nil {
			failures = append(failures, c.unlock(block))
		}
	}
	return errors.Join(failures...)
}

func (c *IDLeases) unlock(block int) error {
	err := c.locks[block].Close()
	delete(c.locks, block)
	return err
}

// deleteOwn deletes a lease if it is this cluster's: it may have been taken over meanwhile.
func (c *IDLeases) deleteOwn(ctx context.Context, id string) error {
	return deleteOwned(ctx, c.Pools, c.OwnerID, id)
}

func deleteOwned(ctx context.Context, p Pools, owner, id string) error {
	err := release(ctx, p, id, func(l Lease) bool { return l.OwnerID == owner })
	if errors.Is(err, ErrForbidden) { // it can be made but not looked at
		err = release(ctx, p, id, nil)
	}
	if err != nil {
		return fmt.Errorf("giving up the claim %s: %w", id, err)
	}
	return nil
}

// ReleaseOwned deletes every lease of an owner, whichever run made it: for when all its VMs exist, or none do.
func ReleaseOwned(ctx context.Context, p Pools, owner string) error {
	pools, err := p.Pools(ctx)
	if err != nil {
		return fmt.Errorf("looking for claims of VM ids: %w", err)
	}
	for _, pool := range pools {
		if isIDLease(pool) && readLease(pool.Comment).OwnerID == owner {
			err = errors.Join(err, deleteOwned(ctx, p, owner, pool.ID))
		}
	}
	return err
}

func isIDLease(p Pool) bool {
	return strings.HasPrefix(p.ID, idLeasePrefix) || strings.HasPrefix(p.ID, takeOverPrefix)
}

// releaseNew gives up the leases on ids, except those that cover any of held.
func (c *IDLeases) releaseNew(ctx context.Context, held, ids []int) error {
	keep := blocksOf(held)
	return c.release(ctx, slices.DeleteFunc(blocksOf(ids), func(b int) bool {
		return slices.Contains(keep, b) || c.locks[b] == nil
	}))
}

// LeasedIDs returns the ids that others than the owner have leased, as far as the token may see.
func LeasedIDs(ctx context.Context, p Pools, owner string) ([]int, error) {
	traces, err := ReadTraces(ctx, p)
	if err != nil {
		return nil, err
	}
	var ids []int
	for _, c := range traces.IDLeases {
		for id := c.First; c.OwnerID != owner && id <= c.Last; id++ {
			ids = append(ids, id)
		}
	}
	return ids, nil
}
