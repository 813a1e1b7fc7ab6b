package api

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"hive-test/pkg/cluster"
)

// A lease is a resource pool: its name says what is leased, a block of VM ids or a cluster to a run, and its comment to
// whom and until when. PVE keeps pools in one file for the whole cluster, so that of all who make a pool of one name,
// on whatever node, exactly one succeeds (observed on PVE 8.4). It does not end pools: a lease that has expired is
// there until somebody takes it over, or away.

// Pool is a resource pool.
type Pool struct {
	ID      string
	Comment string
}

// Pools is what leases need of a Proxmox VE. Errors are those of this package.
type Pools interface {
	Pools(ctx context.Context) ([]Pool, error)
	ReadPool(ctx context.Context, id string) (Pool, error)
	MakePool(ctx context.Context, p Pool) error
	UpdatePool(ctx context.Context, p Pool) error
	DeletePool(ctx context.Context, id string) error
}

// Lease is what the comment of a lease says. Unknown parts are empty: anybody may write there.
type Lease struct {
	Cluster cluster.Name
	OwnerID string
	Who     string    // user@host
	Until   time.Time // when it ends unless it is renewed, by the clock of Proxmox VE
	Site    string    // of VM ids: the directory of locks of the machine that it was made on
}

// Expired reports whether the lease has ended by now. One that does not say when never does.
func (l Lease) Expired(now time.Time) bool { return !l.Until.IsZero() && !now.Before(l.Until) }

// String is for people.
func (l Lease) String() string {
	if l.Cluster == "" {
		return "another run"
	}
	text := fmt.Sprintf("cluster %s of %s", l.Cluster, l.Who)
	if !l.Until.IsZero() {
		text += " until " + l.until()
	}
	return text
}

// who is Who as a comment has it.
func (l Lease) who() string { return strings.Join(strings.Fields(l.Who), "_") }

// until is Until as a comment has it.
func (l Lease) until() string { return l.Until.UTC().Format(time.RFC3339) }

// readLease reads a lease's comment.
func readLease(comment string) Lease {
	fields := commentFields(comment)
	name, _ := cluster.ParseName(fields["cluster"])
	l := Lease{Cluster: name, OwnerID: fields["owner"], Who: fields["by"], Site: fields["site"]}
	l.Until, _ = time.Parse(time.RFC3339, fields["until"])
	return l
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

// leaser acquires, renews and takes over one lease for a run.
type leaser struct {
	pools   Pools
	now     func() time.Time // by the clock of Proxmox VE
	name    string           // of the pool
	comment func(until time.Time) string
}

// conflictError says that another one has the lease.
type conflictError struct{ by Lease }

func (e *conflictError) Error() string { return "leased by " + e.by.String() }

func (l leaser) pool(lasts time.Duration) Pool {
	return Pool{ID: l.name, Comment: l.comment(l.now().Add(lasts))}
}

// acquire makes the lease, for so long from now. The error matches ErrExists if there is one.
func (l leaser) acquire(ctx context.Context, lasts time.Duration) error {
	return l.pools.MakePool(ctx, l.pool(lasts))
}

// renew lets the lease, whosever it is, be this run's for so long from now. The error matches ErrNotFound if there is
// none.
func (l leaser) renew(ctx context.Context, lasts time.Duration) error {
	return l.pools.UpdatePool(ctx, l.pool(lasts))
}

// takeOver replaces old, a lease that nobody stands behind any more. Several may try: the one that makes the pool named
// right, which follows from the old lease, may delete it, and only if it is still the old one. The others get a
// *conflictError.
func (l leaser) takeOver(ctx context.Context, old Pool, right string, lasts time.Duration) error {
	err := l.pools.MakePool(ctx, Pool{ID: right, Comment: l.pool(lasts).Comment})
	if errors.Is(err, ErrExists) {
		if there, err := l.pools.ReadPool(ctx, right); err == nil && l.now().After(readLease(there.Comment).Until) {
			_ = l.pools.DeletePool(ctx, right) // of a run that died in the middle; whoever asks next finds the way free
		}
		return &conflictError{readLease(old.Comment)}
	}
	if err != nil {
		return err
	}
	err = l.replace(ctx, old, lasts)
	return errors.Join(err, l.pools.DeletePool(context.WithoutCancel(ctx), right))
}

func (l leaser) replace(ctx context.Context, old Pool, lasts time.Duration) error {
	now, err := l.pools.ReadPool(ctx, old.ID)
	if err == nil && now.Comment != old.Comment {
		return &conflictError{readLease(now.Comment)}
	}
	if err == nil {
		err = l.pools.DeletePool(ctx, old.ID)
	}
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	return l.createOrConflict(ctx, lasts)
}

// createOrConflict acquires the lease unless somebody was faster: that is a *conflictError.
func (l leaser) createOrConflict(ctx context.Context, lasts time.Duration) error {
	err := l.acquire(ctx, lasts)
	if errors.Is(err, ErrExists) {
		return &conflictError{l.owner()}
	}
	return err
}

// owner is who has the lease, as far as can be told quickly.
func (l leaser) owner() Lease {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if pool, err := l.pools.ReadPool(ctx, l.name); err == nil {
		return readLease(pool.Comment)
	}
	return Lease{}
}

// release deletes a lease: whosever it is, or, where ours is given, only if ours says so of it. That there is none is
// no error.
func release(ctx context.Context, p Pools, name string, ours func(Lease) bool) error {
	if ours != nil {
		pool, err := p.ReadPool(ctx, name)
		if err == nil && !ours(readLease(pool.Comment)) || errors.Is(err, ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	if err := p.DeletePool(ctx, name); !errors.Is(err, ErrNotFound) {
		return err
	}
	return nil
}
