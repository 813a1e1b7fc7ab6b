package proxmox

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// More is read at a time where that costs no time, and not where it does.
func TestReadEach(t *testing.T) {
	const way = 2 * time.Second // to a hypervisor and back
	for _, tc := range []struct {
		name string
		work func(atOnce int64) time.Duration // of one read among so many
		want time.Duration
		most int64
	}{
		{"a long way", func(int64) time.Duration { return way }, 10 * way, 128},
		{"a hypervisor that is busy", func(atOnce int64) time.Duration { return time.Duration(atOnce) * 100 * time.Millisecond }, 0, 64},
		{"one that is very busy", func(atOnce int64) time.Duration { return time.Duration(atOnce) * time.Second }, 0, 32},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var running, most atomic.Int64
				done := make([]int, 1000)
				began := time.Now()
				readEach(len(done), func(i int) {
					running.Add(1)
					time.Sleep(time.Millisecond) // until all of the round run
					atOnce := running.Load()
					most.Store(max(most.Load(), atOnce))
					time.Sleep(tc.work(atOnce) - time.Millisecond)
					running.Add(-1)
					done[i]++
				})
				want := make([]int, 1000)
				for i := range want {
					want[i] = 1
				}
				if diff := cmp.Diff(want, done); diff != "" {
					t.Errorf("(-want +got)\n%s", diff)
				}
				if took := time.Since(began); tc.want > 0 && took != tc.want {
					t.Errorf("it took %s, want %s", took, tc.want)
				}
				if most.Load() != tc.most {
					t.Errorf("%d at a time, want %d", most.Load(), tc.most)
				}
			})
		})
	}
}
