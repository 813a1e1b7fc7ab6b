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
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/uuid"

	"hive-test/pkg/cluster"
)

// A claim is the right to use one block of VM ids until VMs hold them. It has two halves. On this machine it is a
// locked file, which no run can hold twice and which is free when its process is dead. Between machines it is a
// resource pool of a fixed name: PVE keeps pools in one file for the whole cluster, so that of all who make a pool of
// one name, on whatever node, exactly one succeeds (observed on PVE 8.4). Its comment says whose it is and until when.
//
// A pool that was asked for may be made when nobody waits for the answer any more, even when the run has ended and its
// mark is gone. So a pool is asked for with an end that is near, and gets its real one when it is seen made: one that
// comes late has lapsed, and is anybody's to take away.

const (
	// blockSize is how many ids one claim covers: the largest cluster fits into one.
	blockSize = cluster.MaxNodes
	// claimPrefix begins the name of every claim's pool; the first id of the block follows.
	claimPrefix = "hive-test-ids-"
	// brokenPrefix begins the name of the pool that is made while a claim whose owner is dead is taken over.
	brokenPrefix = "hive-test-over-"
	// claimTime is how long making one claim, or giving it up, may take.
	claimTime = 10 * time.Second
	// askedTime is how long a claim counts from when it is asked for until it is seen made: longer than claimTime by what
	// clocks may differ.
	askedTime = claimTime + 10*time.Second
)

// Pool is a resource pool.
type Pool struct {
	ID      string
	Comment string
}

// Pools is what claims need of a Proxmox VE. Errors are those of this package.
type Pools interface {
	Pools(ctx context.Context) ([]Pool, error)
	ReadPool(ctx context.Context, id string) (Pool, error)
	MakePool(ctx context.Context, p Pool) error
	UpdatePool(ctx context.Context, p Pool) error
	DeletePool(ctx context.Context, id string) error
}

// ClaimedError says that another run has claimed ids that were wanted. Waiting helps: claims are given up when VMs hold
// the ids, or the owner is dead.
type ClaimedError struct {
	Block  int // first id of the block
	Holder Holder
}

// Error names the holder.
func (e *ClaimedError) Error() string {
	return fmt.Sprintf("VM ids %d-%d are claimed by %s", e.Block, e.Block+blockSize-1, e.Holder)
}

// Holder is who holds a claim, as its comment says. Unknown parts are empty.
type Holder struct {
	Cluster cluster.Name
	OwnerID string
	Who     string    // user@host
	Until   time.Time // when the claim ends whatever happens
	Site    string    // the directory of locks of the machine that it was made on
}

// String is for people.
func (h Holder) String() string {
	if h.Cluster == "" {
		return "another run"
	}
	text := fmt.Sprintf("cluster %s of %s", h.Cluster, h.Who)
	if !h.Until.IsZero() {
		text += " until " + h.Until.UTC().Format(time.RFC3339)
	}
	return text
}

func (h Holder) comment(block int) string {
	return fmt.Sprintf("hive-test makes VMs with ids %d-%d; cluster=%s owner=%s by=%s until=%s site=%s. Safe to delete if no hive-test runs.",
		block, block+blockSize-1, h.Cluster, h.OwnerID, h.Who, h.Until.UTC().Format(time.RFC3339), h.Site)
}

// parseHolder reads a claim's comment. What it does not hold stays empty.
func parseHolder(comment string) Holder {
	fields := commentFields(comment)
	name, _ := cluster.ParseName(fields["cluster"]) // anybody may write there
	h := Holder{Cluster: name, OwnerID: fields["owner"], Who: fields["by"], Site: fields["site"]}
	h.Until, _ = time.Parse(time.RFC3339, fields["until"])
	return h
}

var commentField = regexp.MustCompile(`\b([a-z]+)=([^\s;]+)`)

// commentFields are the fields, key=value, of a comment of ours: people read the rest of it.
func commentFields(comment string) map[string]string {
	fields := map[string]string{}
	for _, m := range commentField.FindAllStringSubmatch(comment, -1) {
		fields[m[1]] = strings.TrimSuffix(m[2], ".")
	}
	return fields
}

// ClaimOptions say who claims, and where.
type ClaimOptions struct {
	Pools Pools
	// Endpoint names the Proxmox VE; runs on this machine that name another never meet in the locks.
	Endpoint string
	// LockDir is shared by all runs on this machine, whoever's they are. It is made if need be.
	LockDir string
	// Cluster, OwnerID and Who are whose the claims are.
	Cluster cluster.Name
	OwnerID string
	Who     string
	// For is how long a claim of a run that vanished keeps others away; it is longer than any run needs.
	For time.Duration
	// Now is the clock of Proxmox VE, as far as it is known; nil is the system's.
	Now func() time.Time
}

// Claims are the claims of one run. It is not safe for concurrent use.
type Claims struct {
	ClaimOptions
	site  string
	locks map[int]*flock.Flock
	pools map[int]bool // blocks whose pool is ours, or may be, which is to be given up then
	// Unshared is why claims hold on this machine only, nil if PVE holds them too.
	Unshared error
}

// NewClaims prepares the directory of locks. It claims nothing.
func NewClaims(o ClaimOptions) (*Claims, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	site, err := prepareLocks(o.LockDir)
	if err != nil {
		return nil, fmt.Errorf("the directory of locks on VM ids cannot be used, name another with --lock-dir: %w", err)
	}
	return &Claims{ClaimOptions: o, site: site, locks: map[int]*flock.Flock{}, pools: map[int]bool{}}, nil
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
func (c *Claims) Site() string { return c.site }

// Held tells whether this run has claimed the id.
func (c *Claims) Held(vmid int) bool { return c.locks[blockOf(vmid)] != nil }

// Take claims all the ids for this run, or none: then a *ClaimedError says who has some of them. Ids that this run has
// claimed already stay claimed. An earlier claim of the same cluster, or of a run that is dead, is taken over. If the
// token may not make pools, the claim holds on this machine only, and Unshared says why.
func (c *Claims) Take(ctx context.Context, ids []int) error {
	var taken []int
	for _, block := range blocksOf(ids) { // always in ascending order, so that no two runs wait for each other
		if c.locks[block] != nil {
			continue
		}
		if err := c.take(ctx, block); err != nil {
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

func (c *Claims) take(ctx context.Context, block int) error {
	lock, err := c.lock(block)
	if err != nil {
		return err
	}
	c.locks[block] = lock
	if err := c.takePool(ctx, block); err != nil {
		return errors.Join(err, c.unlock(block))
	}
	return nil
}

// lock takes the file of a block, which may be another user's: then it can be opened for reading only.
func (c *Claims) lock(block int) (*flock.Flock, error) {
	sum := sha256.Sum256([]byte(c.Endpoint))
	path := filepath.Join(c.LockDir, hex.EncodeToString(sum[:6])+"-"+strconv.Itoa(block)+".lock")
	var failures []error
	for _, flag := range []int{os.O_CREATE | os.O_RDONLY, os.O_RDONLY} {
		lock := flock.New(path, flock.SetPermissions(0o644), flock.SetFlag(flag|syscall.O_NOFOLLOW))
		got, err := lock.TryLock()
		if err == nil && !got {
			return nil, &ClaimedError{Block: block, Holder: c.inPool(block)}
		}
		if err == nil {
			return lock, nil
		}
		failures = append(failures, err)
	}
	return nil, fmt.Errorf("locking VM ids %d-%d: %w", block, block+blockSize-1, errors.Join(failures...))
}

// inPool is who holds a block that is locked on this machine, as far as can be told quickly.
func (c *Claims) inPool(block int) Holder {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if pool, err := c.Pools.ReadPool(ctx, poolName(block)); err == nil {
		return parseHolder(pool.Comment)
	}
	return Holder{}
}

func poolName(block int) string { return claimPrefix + strconv.Itoa(block) }

// takePool makes the claim that PVE holds. An interruption does not cut that off: a claim that was asked for and not
// seen made may be there all the same.
func (c *Claims) takePool(ctx context.Context, block int) error {
	if c.Unshared != nil || ctx.Err() != nil {
		return context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimTime)
	defer cancel()
	mine := c.pool(block, askedTime)
	err := c.Pools.MakePool(ctx, mine)
	if errors.Is(err, ErrExists) {
		err = c.takeOver(ctx, block, mine)
	}
	if errors.Is(err, ErrForbidden) {
		c.Unshared = err
		return nil
	}
	if claimed, ok := errors.AsType[*ClaimedError](err); ok {
		return claimed
	}
	if err == nil {
		err = c.Pools.UpdatePool(ctx, c.pool(block, c.For))
	}
	if err != nil {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimTime)
		defer cancel()
		// One that is made only after that ends by itself, and soon.
		c.pools[block] = c.deleteOwn(ending, mine.ID) != nil
		return fmt.Errorf("claiming VM ids %d-%d: %w", block, block+blockSize-1, err)
	}
	c.pools[block] = true
	return nil
}

// pool is the claim on a block for so long from now.
func (c *Claims) pool(block int, lasts time.Duration) Pool {
	h := Holder{Cluster: c.Cluster, OwnerID: c.OwnerID, Who: strings.Join(strings.Fields(c.Who), "_"), Until: c.Now().Add(lasts), Site: c.site}
	return Pool{ID: poolName(block), Comment: h.comment(block)}
}

// takeOver replaces a claim that nobody stands behind any more.
func (c *Claims) takeOver(ctx context.Context, block int, mine Pool) error {
	old, err := c.Pools.ReadPool(ctx, mine.ID)
	switch {
	case errors.Is(err, ErrNotFound): // given up just now
		return c.makeOrYield(ctx, block, mine)
	case errors.Is(err, ErrForbidden): // it can be made but not looked at
		return &ClaimedError{Block: block}
	case err != nil:
		return err
	}
	// This cluster's own claim is one of a run before. And we hold the lock of this machine: a claim that was made here is
	// one of a dead run, too.
	holder := parseHolder(old.Comment)
	if holder.OwnerID != c.OwnerID && holder.Site != c.site && (holder.Until.IsZero() || c.Now().Before(holder.Until)) {
		return &ClaimedError{Block: block, Holder: holder}
	}
	return c.replace(ctx, block, old, mine)
}

// replace takes a dead run's claim away. Several may try: the one that makes a pool of a name that follows from the old
// claim may delete it, and only if it is still the old one.
func (c *Claims) replace(ctx context.Context, block int, old, mine Pool) error {
	sum := sha256.Sum256([]byte(old.Comment))
	right := Pool{ID: brokenPrefix + strconv.Itoa(block) + "-" + hex.EncodeToString(sum[:4]), Comment: mine.Comment}
	if err := c.Pools.MakePool(ctx, right); err != nil {
		if !errors.Is(err, ErrExists) {
			return err
		}
		if there, err := c.Pools.ReadPool(ctx, right.ID); err == nil && c.Now().After(parseHolder(there.Comment).Until) {
			_ = c.Pools.DeletePool(ctx, right.ID) // of a run that died in the middle; whoever asks next finds the way free
		}
		return &ClaimedError{Block: block, Holder: parseHolder(old.Comment)}
	}
	err := c.exchange(ctx, block, old, mine)
	return errors.Join(err, c.Pools.DeletePool(context.WithoutCancel(ctx), right.ID))
}

func (c *Claims) exchange(ctx context.Context, block int, old, mine Pool) error {
	now, err := c.Pools.ReadPool(ctx, old.ID)
	if err == nil && now.Comment != old.Comment {
		return &ClaimedError{Block: block, Holder: parseHolder(now.Comment)}
	}
	if err == nil {
		err = c.Pools.DeletePool(ctx, old.ID)
	}
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	return c.makeOrYield(ctx, block, mine)
}

// makeOrYield makes the pool unless somebody was faster.
func (c *Claims) makeOrYield(ctx context.Context, block int, mine Pool) error {
	err := c.Pools.MakePool(ctx, mine)
	if errors.Is(err, ErrExists) {
		return &ClaimedError{Block: block, Holder: c.inPool(block)}
	}
	return err
}

// Release gives all claims of this run up. It can be called again.
func (c *Claims) Release(ctx context.Context) error {
	blocks := slices.AppendSeq(slices.Collect(maps.Keys(c.locks)), maps.Keys(c.pools))
	slices.Sort(blocks)
	return c.release(ctx, slices.Compact(blocks))
}

func (c *Claims) release(ctx context.Context, blocks []int) error {
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

func (c *Claims) unlock(block int) error {
	err := c.locks[block].Close()
	delete(c.locks, block)
	return err
}

// deleteOwn deletes a claim if it is this cluster's: it may have been taken over meanwhile.
func (c *Claims) deleteOwn(ctx context.Context, id string) error {
	pool, err := c.Pools.ReadPool(ctx, id)
	if err == nil && parseHolder(pool.Comment).OwnerID == c.OwnerID || errors.Is(err, ErrForbidden) {
		err = c.Pools.DeletePool(ctx, id)
	}
	if err != nil && !errors.Is(err, ErrNotFound) {
		return fmt.Errorf("giving up the claim %s: %w", id, err)
	}
	return nil
}

// ReleaseAll deletes every claim of the cluster, whichever run made it. It is for the end of a cluster's life.
func (c *Claims) ReleaseAll(ctx context.Context) error {
	err := c.Release(ctx)
	pools, listErr := c.Pools.Pools(ctx)
	if listErr != nil {
		return errors.Join(err, fmt.Errorf("looking for claims of VM ids: %w", listErr))
	}
	for _, pool := range pools {
		if isClaim(pool) && parseHolder(pool.Comment).OwnerID == c.OwnerID {
			err = errors.Join(err, c.deleteOwn(ctx, pool.ID))
		}
	}
	return err
}

func isClaim(p Pool) bool {
	return strings.HasPrefix(p.ID, claimPrefix) || strings.HasPrefix(p.ID, brokenPrefix)
}

// releaseNew gives up the claims on ids, except those that cover any of held.
func (c *Claims) releaseNew(ctx context.Context, held, ids []int) error {
	keep := blocksOf(held)
	return c.release(ctx, slices.DeleteFunc(blocksOf(ids), func(b int) bool { return slices.Contains(keep, b) || c.locks[b] == nil }))
}

// Claimed are the ids that others than the owner have claimed, as far as the token may see.
func Claimed(ctx context.Context, p Pools, owner string) ([]int, error) {
	traces, err := ReadTraces(ctx, p)
	if err != nil {
		return nil, err
	}
	var ids []int
	for _, c := range traces.Claims {
		for id := c.First; c.OwnerID != owner && id <= c.Last; id++ {
			ids = append(ids, id)
		}
	}
	return ids, nil
}
