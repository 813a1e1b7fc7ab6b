package api_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy/proxmox/api"
)

// claimant is one run's claims: site is its machine's directory of locks.
func (l *lab) claimant(site, owner string, edit func(*api.IDLeaseOptions)) *api.IDLeases {
	l.t.Helper()
	o := api.IDLeaseOptions{
		Pools: l.Client, Endpoint: l.Endpoint(), LockDir: site, Cluster: cluster.Name("ci-" + owner), OwnerID: owner,
		Who: "me@" + filepath.Base(site), For: time.Hour,
	}
	if edit != nil {
		edit(&o)
	}
	c, err := api.NewIDLeases(o)
	if err != nil {
		l.t.Fatal(err)
	}
	return c
}

func mustAcquire(t *testing.T, c *api.IDLeases, ids ...int) {
	t.Helper()
	if err := c.Acquire(t.Context(), ids); err != nil {
		t.Fatal(err)
	}
}

// mustConflict wants the claim refused because of the owner.
func mustConflict(t *testing.T, c *api.IDLeases, owner string, ids ...int) {
	t.Helper()
	err := c.Acquire(t.Context(), ids)
	if claimed, ok := errors.AsType[*api.LeasedError](err); !ok || claimed.By.OwnerID != owner {
		t.Fatalf("got %v", err)
	}
	for _, id := range ids {
		if c.Has(id) {
			t.Errorf("half of a refused claim is held: %d", id)
		}
	}
}

func (l *lab) pools() []string {
	l.t.Helper()
	pools, err := l.Pools(l.t.Context())
	if err != nil {
		l.t.Fatal(err)
	}
	var ids []string
	for _, p := range pools {
		ids = append(ids, p.ID)
	}
	return ids
}

func TestClaims(t *testing.T) {
	l := newLab(t, nil)
	here, there := t.TempDir(), t.TempDir()
	a := l.claimant(here, "aaaa", nil)
	mustAcquire(t, a, 20008, 20009, 20010)
	if want := []string{"hive-test-ids-20000", "hive-test-ids-20010"}; !slices.Equal(l.pools(), want) {
		t.Fatalf("pools %v", l.pools())
	}
	if !a.Has(20015) || a.Has(20020) {
		t.Error("the wrong ids are held")
	}
	pool, err := l.ReadPool(t.Context(), "hive-test-ids-20000")
	if err != nil || !strings.Contains(pool.Comment, "cluster=ci-aaaa owner=aaaa by=me@") {
		t.Fatalf("comment %q, %v", pool.Comment, err)
	}
	mustAcquire(t, a, 20009) // again
	mustConflict(t, l.claimant(here, "bbbb", nil), "aaaa", 20003)
	b := l.claimant(there, "bbbb", nil)
	mustConflict(t, b, "aaaa", 20003, 20020)
	if foreign, err := api.LeasedIDs(t.Context(), l.Client, "bbbb"); err != nil || len(foreign) != 20 ||
		foreign[0] != 20000 {
		t.Errorf("foreign ids %v, %v", foreign, err)
	}
	if err := a.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustAcquire(t, b, 20003, 20020)
	if err := errors.Join(b.Release(t.Context()), b.Release(t.Context())); err != nil || len(l.pools()) != 0 {
		t.Errorf("left %v, %v", l.pools(), err)
	}
}

// A claim that nobody stands behind keeps nobody away: one of a dead run of this machine, one whose time is up, one of
// the cluster itself.
func TestStaleClaims(t *testing.T) {
	l := newLab(t, nil)
	here, there := t.TempDir(), t.TempDir()
	leave := func(site, owner string, length time.Duration) {
		t.Helper()
		comment := fmt.Sprintf(
			"cluster=ci-%s owner=%s by=me until=%s site=%s", owner, owner,
			time.Now().Add(length).UTC().Format(time.RFC3339), site,
		)
		l.send("POST", "/pools", url.Values{"poolid": {"hive-test-ids-20000"}, "comment": {comment}})
	}
	mustAcquire(t, l.claimant(here, "x", nil), 30000) // makes the site
	for name, tc := range map[string]struct {
		site, owner string
		length      time.Duration
		yields      bool
	}{
		"dead, here":        {site: siteOf(t, here), owner: "dead", length: time.Hour},
		"alive, elsewhere":  {site: "elsewhere", owner: "alive", length: time.Hour, yields: true},
		"time up":           {site: "elsewhere", owner: "late", length: -time.Second},
		"ours":              {site: "elsewhere", owner: "mine", length: time.Hour},
		"ours, and time up": {site: "elsewhere", owner: "mine", length: -time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			leave(tc.site, tc.owner, tc.length)
			c := l.claimant(here, "mine", nil)
			if tc.yields {
				mustConflict(t, c, tc.owner, 20001)
				l.send("DELETE", "/pools/hive-test-ids-20000", nil)
				return
			}
			mustAcquire(t, c, 20001)
			mustConflict(t, l.claimant(there, "other", nil), "mine", 20001)
			if err := errors.Join(c.Release(t.Context()), api.ReleaseOwned(t.Context(), c.Pools, c.OwnerID)); err != nil {
				t.Fatal(err)
			}
		})
	}
	if want := []string{"hive-test-ids-30000"}; !slices.Equal(l.pools(), want) {
		t.Errorf("left: %v", l.pools())
	}
}

func siteOf(t *testing.T, dir string) string {
	t.Helper()
	c, err := api.NewIDLeases(api.IDLeaseOptions{LockDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return c.Site()
}

// What somebody has put in the way of locks, where anybody may, is not followed.
func TestLocksFollowNoLink(t *testing.T) {
	elsewhere, dir := t.TempDir(), filepath.Join(t.TempDir(), "locks")
	if err := os.Symlink(elsewhere, dir); err != nil {
		t.Fatal(err)
	}
	if _, err := api.NewIDLeases(api.IDLeaseOptions{LockDir: dir}); err == nil ||
		!strings.Contains(err.Error(), "a link") {
		t.Errorf("a directory that is a link: %v", err)
	}
	if err := errors.Join(
		os.Remove(dir), os.Mkdir(dir, 0o700), os.Symlink(filepath.Join(elsewhere, "site"), filepath.Join(dir, "site")),
	); err != nil {
		t.Fatal(err)
	}
	if _, err := api.NewIDLeases(api.IDLeaseOptions{LockDir: dir}); err == nil {
		t.Error("a file that is a link is read")
	}
	if err := os.Remove(filepath.Join(dir, "site")); err != nil {
		t.Fatal(err)
	}
	l := newLab(t, nil)
	siteOf(t, dir)
	c := l.claimant(dir, "mine", nil)
	mustAcquire(t, c, 20000)
	locks, err := filepath.Glob(filepath.Join(dir, "*.lock"))
	if err = errors.Join(err, c.Release(t.Context())); err != nil || len(locks) != 1 {
		t.Fatal(locks, err)
	}
	if err := errors.Join(os.Remove(locks[0]), os.Symlink(filepath.Join(elsewhere, "made"), locks[0])); err != nil {
		t.Fatal(err)
	}
	if err := l.claimant(dir, "mine", nil).Acquire(t.Context(), []int{20000}); err == nil {
		t.Error("a lock that is a link is taken")
	}
	if left, _ := os.ReadDir(elsewhere); len(left) > 0 {
		t.Errorf("where the links lead there is %v", left)
	}
}

// A token that may not make pools is no obstacle: then the claim holds on this machine.
func TestClaimsWithoutPools(t *testing.T) {
	l := newLab(t, nil)
	answer := l.send("POST", "/access/users/root@pam/token/poor", url.Values{"privsep": {"1"}})
	_, secret, _ := strings.Cut(answer, `"value":"`)
	client := l.client("root@pam!poor=" + secret[:strings.Index(secret, `"`)])
	here, there := t.TempDir(), t.TempDir()
	a := l.claimant(here, "aaaa", func(o *api.IDLeaseOptions) { o.Pools = client })
	mustAcquire(t, a, 20000)
	if a.Unshared == nil || !strings.Contains(a.Unshared.Error(), "Pool.Allocate") || len(l.pools()) != 0 {
		t.Errorf("unshared: %v, pools %v", a.Unshared, l.pools())
	}
	mustConflict(t, l.claimant(here, "bbbb", nil), "", 20001)
	mustAcquire(t, l.claimant(there, "cccc", nil), 20001) // nothing tells the other machine
	if err := a.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A claim whose answer was lost, or that nobody waits for any more, is not left behind.
func TestClaimsThatWereCutOff(t *testing.T) {
	for name, fault := range map[string]string{
		"the answer is lost":  `{"path":"/pools","method":"POST","nth":1,"lost":true}`,
		"the run is ended":    `{"path":"/pools","method":"POST","nth":1,"delay":"200ms"}`,
		"the answer is wrong": `{"path":"/pools","method":"POST","nth":1,"status":500,"reason":"seeded"}`,
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, nil)
			l.fault(fault)
			a := l.claimant(t.TempDir(), "aaaa", nil)
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if err := a.Acquire(ctx, []int{20000}); err == nil {
				if err := a.Release(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if left := l.pools(); len(left) != 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// slow makes pools whose names begin so only when nobody waits for them any more.
type slow struct {
	*api.Client
	prefix string
	late   []api.Pool
}

func (s *slow) MakePool(ctx context.Context, p api.Pool) error {
	if !strings.HasPrefix(p.ID, s.prefix) {
		return s.Client.MakePool(ctx, p)
	}
	s.late = append(s.late, p)
	return api.ErrUnreachable
}

// A claim that is made when its run has given it up has lapsed, or is about to: everybody sees that, and it keeps
// nobody away.
func TestClaimsThatComeLate(t *testing.T) {
	for name, tc := range map[string]struct {
		prefix string
		stale  bool
	}{
		"a claim":    {prefix: "hive-test-ids-"},
		"a takeover": {prefix: "hive-test-over-", stale: true},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, nil)
			if tc.stale {
				l.send("POST", "/pools", url.Values{
					"poolid": {"hive-test-ids-20000"}, "comment": {"owner=dead until=2020-01-01T00:00:00Z site=gone"},
				})
			}
			pools := &slow{Client: l.Client, prefix: tc.prefix}
			a := l.claimant(t.TempDir(), "aaaa", func(o *api.IDLeaseOptions) { o.Pools = pools })
			soon := time.Now().Add(30 * time.Second)
			if err := errors.Join(
				a.Acquire(t.Context(), []int{20000}), a.Release(t.Context()),
			); !errors.Is(err, api.ErrUnreachable) {
				t.Fatalf("got %v", err)
			}
			for _, p := range pools.late {
				l.send("POST", "/pools", url.Values{"poolid": {p.ID}, "comment": {p.Comment}})
			}
			traces, err := api.ReadTraces(t.Context(), l.Client)
			if err != nil {
				t.Fatal(err)
			}
			late := slices.DeleteFunc(traces.IDLeases, func(c api.IDLease) bool { return c.OwnerID != "aaaa" })
			if len(late) != 1 || !late[0].Covers(20009) || late[0].Covers(20010) || late[0].Until.After(soon) {
				t.Fatalf("seen: %v", traces.IDLeases)
			}
			b := l.claimant(t.TempDir(), "bbbb", func(o *api.IDLeaseOptions) {
				o.Now = func() time.Time { return time.Now().Add(30 * time.Second) }
			})
			if tc.stale {
				mustConflict(t, b, "dead", 20000) // and finds the way free the next time
			}
			mustAcquire(t, b, 20000)
			if err := b.Release(t.Context()); err != nil || len(l.pools()) != 0 {
				t.Errorf("left %v, %v", l.pools(), err)
			}
		})
	}
}

// A claim that was seen made lasts as long as was asked for, by the clock of Proxmox VE.
func TestClaimsLast(t *testing.T) {
	l := newLab(t, nil)
	at := func(later time.Duration) func(*api.IDLeaseOptions) {
		return func(o *api.IDLeaseOptions) {
			o.Now = func() time.Time { return time.Now().Add(later - 2*time.Hour) }
		}
	}
	mustAcquire(t, l.claimant(t.TempDir(), "aaaa", at(0)), 20000)
	mustConflict(t, l.claimant(t.TempDir(), "bbbb", at(59*time.Minute)), "aaaa", 20000)
	mustAcquire(t, l.claimant(t.TempDir(), "cccc", at(61*time.Minute)), 20000)
}

// A claim that cannot be made to last is given up, and tried to as often as Release is called.
func TestClaimsThatDoNotLast(t *testing.T) {
	l := newLab(t, nil)
	l.fault(
		`[{"path":"/pools/*","method":"PUT","status":500,"reason":"seeded"},{"path":"/pools/*","method":"DELETE","nth":2,"times":2,"status":500,"reason":"seeded too"}]`,
	)
	a := l.claimant(t.TempDir(), "aaaa", nil)
	for _, left := range []int{0, 1} { // the second time it cannot be given up at once
		if err := a.Acquire(t.Context(), []int{20000}); err == nil || !strings.Contains(err.Error(), "seeded") ||
			a.Has(20000) || len(l.pools()) != left {
			t.Fatalf("%v, left %v", err, l.pools())
		}
	}
	if err := a.Release(t.Context()); err == nil || !strings.Contains(err.Error(), "seeded too") {
		t.Errorf("got %v", err)
	}
	if err := a.Release(t.Context()); err != nil || len(l.pools()) != 0 {
		t.Errorf("%v, left %v", err, l.pools())
	}
}

// Many machines want the same stale claim, and then each other's: one at a time has it.
func TestClaimsRace(t *testing.T) {
	l := newLab(t, nil)
	l.send("POST", "/pools", url.Values{
		"poolid": {"hive-test-ids-20000"}, "comment": {"owner=dead until=2020-01-01T00:00:00Z site=gone"},
	})
	const machines, rounds = 6, 4
	var group sync.WaitGroup
	var mu sync.Mutex
	holders, had := 0, 0
	for m := range machines {
		c := l.claimant(t.TempDir(), fmt.Sprintf("m%d", m), nil)
		group.Go(func() {
			for range rounds {
				for err := c.Acquire(
					t.Context(), []int{20005},
				); err != nil; err = c.Acquire(t.Context(), []int{20005}) {
					if _, ok := errors.AsType[*api.LeasedError](err); !ok {
						t.Error(err)
						return
					}
					time.Sleep(rand.N(5 * time.Millisecond))
				}
				mu.Lock()
				holders, had = holders+1, had+1
				if holders != 1 {
					t.Errorf("%d machines hold one claim", holders)
				}
				mu.Unlock()
				time.Sleep(time.Millisecond)
				mu.Lock()
				holders--
				mu.Unlock()
				if err := c.Release(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if had != machines*rounds || len(l.pools()) != 0 {
		t.Errorf("claims %d, left %v", had, l.pools())
	}
}
