package api_test

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hive-test/pkg/deploy/proxmox/api"
)

func myRun() api.RunLease {
	return api.RunLease{
		Lease: api.Lease{Cluster: "ci-1", OwnerID: "me", Who: "me@here"}, Verb: "full",
		Place: "here", PID: 7, Start: "9", Destroys: true, Provisioning: true,
	}
}

// beat starts the heartbeat of a run and gathers what it warns of.
func (l *lab) beat(edit func(*api.HeartbeatOptions)) (h *api.Heartbeat, warnings func() []error) {
	var mu sync.Mutex
	var told []error
	o := api.HeartbeatOptions{
		Pools: l.Client, Now: l.Now, Alive: 90 * time.Millisecond,
		Lease: myRun(),
		Warn: func(err error) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, err)
		},
	}
	if edit != nil {
		edit(&o)
	}
	return api.StartHeartbeat(l.t.Context(), o), func() []error {
		mu.Lock()
		defer mu.Unlock()
		return told
	}
}

// eventually asks until the answer is yes.
func eventually(t *testing.T, what string, ask func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ask(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not so within 10 s: " + what)
		}
	}
}

func (l *lab) mark() (api.RunLease, bool) {
	l.t.Helper()
	m, found, err := api.ReadRunLease(l.t.Context(), l.Client, "me")
	if err != nil {
		l.t.Fatal(err)
	}
	return m, found
}

func TestHeartbeat(t *testing.T) {
	l := newLab(t, nil)
	h, warnings := l.beat(func(o *api.HeartbeatOptions) { o.Alive = 3 * time.Second })
	if err := h.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	first, _ := l.mark()
	want := myRun()
	want.Until = first.Until
	if diff := cmp.Diff(want, first); diff != "" || !first.Until.After(time.Now()) {
		t.Errorf("the mark (-want +got), until %s:\n%s", first.Until, diff)
	}
	eventually(t, "the mark is refreshed", func() bool { m, _ := l.mark(); return m.Until.After(first.Until) })
	h.Update(func(m *api.RunLease) { m.Provisioning = false })
	eventually(t, "the mark says that the cluster is made", func() bool { m, _ := l.mark(); return !m.Provisioning })
	traces, err := api.ReadTraces(t.Context(), l.Client)
	if err != nil || len(traces.RunLeases) != 1 || len(traces.IDLeases) != 0 {
		t.Errorf("traces %v, %v", traces, err)
	}
	if err := api.DropRunLease(t.Context(), l.Client, "me"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a mark that somebody deleted is made again", func() bool { _, found := l.mark(); return found })
	h.Stop(t.Context(), false)
	if _, found := l.mark(); found || len(warnings()) > 0 {
		t.Errorf("after the end: mark %v, warnings %v", found, warnings())
	}
}

// The mark of a run that died is taken over by the next run of the cluster, and stays where that leaves something.
func TestHeartbeatTakesOverAndStays(t *testing.T) {
	l := newLab(t, nil)
	dead, _ := l.beat(nil)
	if err := dead.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	dead.Stop(t.Context(), true)
	next, _ := l.beat(func(o *api.HeartbeatOptions) { o.Lease.Verb = "down" })
	if err := next.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	next.Stop(t.Context(), true)
	if m, found := l.mark(); !found || m.Verb != "down" {
		t.Errorf("mark %v %v", m, found)
	}
}

// That the mark cannot be kept is told once, and no more than told.
func TestHeartbeatThatFails(t *testing.T) {
	l := newLab(t, nil)
	l.fault(
		`[{"path":"/pools/*","method":"PUT","times":1000,"status":500,"reason":"cfs-lock 'file-user_cfg' error: no quorum!"}]`,
	)
	h, warnings := l.beat(nil)
	if err := h.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a warning", func() bool { return len(warnings()) > 0 })
	h.Stop(t.Context(), false)
	if told := warnings(); len(told) != 1 || !strings.Contains(told[0].Error(), "no quorum") {
		t.Errorf("told %v", told)
	}
	if _, found := l.mark(); found {
		t.Error("the mark is still there")
	}
}

func TestHeartbeatWithoutThePrivilege(t *testing.T) {
	l := newLab(t, nil)
	l.fault(
		`[{"path":"/pools","method":"POST","status":403,"reason":"Permission check failed (/pool/hive-test-run-me, Pool.Allocate)"}]`,
	)
	h, warnings := l.beat(nil)
	if err := h.Wait(t.Context()); !errors.Is(err, api.ErrForbidden) {
		t.Error(err)
	}
	h.Update(func(*api.RunLease) {})
	h.Stop(t.Context(), false)
	if len(warnings()) > 0 { // the warning about claims tells it
		t.Errorf("told %v", warnings())
	}
}

// The clock that counts is that of Proxmox VE, also where the first answer tells it.
func TestHeartbeatByTheClockOfProxmox(t *testing.T) {
	l := newLab(t, nil)
	l.request("POST", l.endpoint.URL+"/sim/clock", "application/json", `{"skew":"-2h"}`)
	l.Client = l.client(l.endpoint.Token) // one that has heard nothing yet
	h, _ := l.beat(func(o *api.HeartbeatOptions) { o.Alive = time.Minute })
	eventually(t, "the mark is by the other clock", func() bool { m, _ := l.mark(); return m.Until.Before(time.Now().Add(-time.Hour)) })
	h.Stop(t.Context(), false)
}

// Marks and claims that people have written by hand, or a later version, are read as far as they can be.
func TestReadTraces(t *testing.T) {
	l := newLab(t, nil)
	for id, comment := range map[string]string{
		"hive-test-run-x":     "mine; disks=24000@pve1:local+nfs.1,24001@../x:local,99@pve1:local,24002@pve1:,x,24003@pve2:zfs",
		"hive-test-ids-20010": "cluster=ci owner=o by=me@here until=2026-01-02T03:04:05Z site=s.",
		"hive-test-ids-x":     "", "other": "",
	} {
		l.send("POST", "/pools", url.Values{"poolid": {id}, "comment": {comment}})
	}
	traces, err := api.ReadTraces(t.Context(), l.Client)
	if err != nil || len(traces.RunLeases) != 1 || len(traces.IDLeases) != 1 {
		t.Fatalf("%v, %v", traces, err)
	}
	if m := traces.RunLeases[0]; m.OwnerID != "x" || !m.Until.IsZero() || m.Destroys || m.Provisioning {
		t.Errorf("read %v", m)
	}
	disks := []api.Origin{
		{VMID: 24000, Hypervisor: "pve1", Storages: []string{"local", "nfs.1"}},
		{VMID: 24003, Hypervisor: "pve2", Storages: []string{"zfs"}},
	}
	if diff := cmp.Diff(disks, traces.RunLeases[0].Disks); diff != "" {
		t.Errorf("disks (-want +got)\n%s", diff)
	}
	if got := traces.IDLeases[0].Lease; got.Cluster != "ci" || got.OwnerID != "o" {
		t.Errorf("read %v", got)
	}
	if !traces.Leased("o", 20019) || traces.Leased("o", 20020) || traces.Leased("x", 20010) {
		t.Error("a claim is not read as what it is")
	}
	if err := api.DropIDLease(t.Context(), l.Client, api.IDLease{Pool: "hive-test-ids-20010"}); err != nil {
		t.Fatal(err)
	}
	if len(l.pools()) != 4 {
		t.Error("a claim that is another's by now was dropped")
	}
	if err := api.DropIDLease(t.Context(), l.Client, traces.IDLeases[0]); err != nil || len(l.pools()) != 3 {
		t.Errorf("%v, left %s", err, fmt.Sprint(l.pools()))
	}
}

// A run that was suspended for longer than its mark lasts says so when it goes on, once each time.
func TestHeartbeatAfterASleep(t *testing.T) {
	for name, row := range map[string]struct {
		slept  time.Duration
		reaped bool
		want   []string
	}{
		"awake":              {slept: 0},
		"shorter than marks": {slept: 20 * time.Second},
		"long":               {slept: 12 * time.Minute, want: []string{"12m0s false"}},
		"long, and reaped":   {slept: 12 * time.Minute, reaped: true, want: []string{"12m0s true"}},
		"the clock set back": {slept: -time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, nil)
			var asleep atomic.Int64
			told := make(chan string, 9)
			h, warnings := l.beat(func(o *api.HeartbeatOptions) {
				o.Alive = time.Minute // the next beat is the one that Update asks for
				o.Now = func() time.Time { return l.Now().Add(time.Duration(asleep.Load())) }
				o.Woke = func(slept time.Duration, gone bool) {
					told <- fmt.Sprint(slept.Round(10*time.Second), " ", gone)
				}
			})
			eventually(t, "the mark is there", func() bool { _, found := l.mark(); return found })
			time.Sleep(50 * time.Millisecond) // until it waits for the next beat
			if row.reaped {
				if err := api.DropRunLease(t.Context(), l.Client, "me"); err != nil {
					t.Fatal(err)
				}
			}
			asleep.Store(int64(row.slept))
			for _, verb := range []string{"one", "two"} {
				h.Update(func(m *api.RunLease) { m.Verb = verb })
				eventually(t, "it goes on", func() bool { m, _ := l.mark(); return m.Verb == verb })
			}
			h.Stop(t.Context(), false)
			close(told)
			var got []string
			for s := range told {
				got = append(got, s)
			}
			if diff := cmp.Diff(row.want, got); diff != "" || len(warnings()) > 0 {
				t.Errorf("told (-want +got), warnings %v:\n%s", warnings(), diff)
			}
		})
	}
}

// Whoever may write comments of pools cannot name a cluster that is none: names become paths and commands.
func TestTracesWithHostileNames(t *testing.T) {
	l := newLab(t, nil)
	names := []string{
		"../../etc", "a/b", "ci\n../x", "-rf", "ci$(reboot)", "CI", ".", "ci\x1b[31m", strings.Repeat("a", 200),
	}
	for i, name := range names {
		t.Run(fmt.Sprintf("%q", name), func(t *testing.T) {
			run, ids := fmt.Sprintf("hive-test-run-x%d", i), fmt.Sprintf("hive-test-ids-%d", 20000+10*i)
			for _, id := range []string{run, ids} {
				comment := "hive-test runs; cluster=" + name + " owner=o\n until=2026-01-02T03:04:05Z"
				l.send("POST", "/pools", url.Values{"poolid": {id}, "comment": {comment}})
			}
			traces, err := api.ReadTraces(t.Context(), l.Client)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range traces.RunLeases {
				if m.Cluster != "" && m.Cluster != "ci" {
					t.Errorf("a mark is of cluster %q", m.Cluster)
				}
			}
			for _, c := range traces.IDLeases {
				if c.Cluster != "" && c.Cluster != "ci" {
					t.Errorf("a claim is of cluster %q", c.Cluster)
				}
			}
			if len(traces.RunLeases) != i+1 || len(traces.IDLeases) != i+1 {
				t.Errorf("read %d marks and %d claims", len(traces.RunLeases), len(traces.IDLeases))
			}
		})
	}
}
