package engine

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hive-test/pkg/matrix"
	"hive-test/pkg/progress"
	"hive-test/pkg/target"
)

// waiting is a matrix whose first cell runs, and whose others begin as soon as there is room.
func waiting(limits matrix.Limits, sizes ...matrix.Size) (*matrixRun, *progress.Memory) {
	told := new(progress.Memory)
	m := &matrixRun{
		session: &session{Target: &target.Target{Sink: told}}, plan: MatrixPlan{Limits: limits}, held: map[int]bool{},
		running: map[int]context.CancelFunc{0: func() {}}, pending: map[int]bool{},
		free: func(context.Context, PlannedCell) (int, bool) { return 0, false },
	}
	m.load.Add(sizes[0])
	for i, size := range sizes {
		m.plan.Cells = append(m.plan.Cells, PlannedCell{Cell: matrix.Cell{Name: fmt.Sprintf("m-%d", i)}, Size: size})
		if i > 0 {
			m.left = append(m.left, i)
		}
	}
	return m, told
}

// shown are the waits that were told, for people.
func shown(told *progress.Memory) []string {
	var lines []string
	for _, e := range told.Events() {
		if e.Kind == progress.Wait && e.Status != "" {
			lines = append(lines, e.Node+" no longer waits")
		} else if e.Kind == progress.Wait {
			lines = append(lines, fmt.Sprintf("%s: %s (%s)", e.Node, e.Message, e.Error))
		}
	}
	return lines
}

// Each cell that does not begin is told with what it waits for, those that wait for the same at once, and nothing twice.
func TestWaitsOfCells(t *testing.T) {
	one := matrix.Size{MemoryMB: 1024, Cores: 4, VMs: 1}
	three := matrix.Size{MemoryMB: 3072, Cores: 12, VMs: 3}
	for name, c := range map[string]struct {
		limits matrix.Limits
		sizes  []matrix.Size
		full   string
		want   []string
	}{
		"max_parallel": {
			matrix.Limits{MaxParallel: 1},
			[]matrix.Size{one, one, one},
			"",
			[]string{"m-1: waits for a cell to end (at most 1 at once, by max_parallel; so does m-2)"},
		},
		"VMs": {
			matrix.Limits{Budget: matrix.Size{VMs: 3}},
			[]matrix.Size{one, three},
			"",
			[]string{"m-1: waits for the budget of vms (it takes 3 of 3 VMs, of which 2 are left)"},
		},
		"memory and cores": {
			matrix.Limits{Budget: matrix.Size{MemoryMB: 4000, Cores: 15}},
			[]matrix.Size{one, three},
			"",
			[]string{"m-1: waits for the budget of memory_mb and cores (it takes 3072 of 4000 MiB, of which 2976 are left; " +
				"it takes 12 of 15 cores, of which 11 are left)"},
		},
		"many, for several things": {
			matrix.Limits{Budget: matrix.Size{Cores: 4, VMs: 3}},
			[]matrix.Size{one, three, one, three, one, one, one, one},
			"",
			[]string{
				"m-1: waits for the budget of cores and vms (it takes 12 of 4 cores, of which 0 are left; it takes 3 of 3 VMs, of which 2 are " +
					"left; so does m-3)",
				"m-2: waits for the budget of cores (it takes 4 of 4 cores, of which 0 are left; so do m-4, m-5, m-6 and 1 more)",
			},
		},
		"refused": {
			matrix.Limits{},
			[]matrix.Size{one, one, one, one},
			"no ids",
			[]string{"m-1: waits for what other cells have (no ids; so do m-2, m-3)"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			m, told := waiting(c.limits, c.sizes...)
			m.full = c.full
			m.startCells(t.Context())
			m.startCells(t.Context()) // nothing is new
			if diff := cmp.Diff(c.want, shown(told)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if m.tellWaits(nil); len(shown(told)) != 2*len(c.want) {
				t.Errorf("waits are not ended: %v", shown(told))
			}
		})
	}
}

// Proxmox VE is asked for its free memory once a round, however many cells wait for it.
func TestFreeMemoryIsAskedOnceARound(t *testing.T) {
	size := matrix.Size{MemoryMB: 8192, VMs: 1}
	m, told := waiting(matrix.Limits{}, size, size, size, size)
	asked, free := 0, 4096
	m.free = func(context.Context, PlannedCell) (int, bool) {
		asked++
		return free, true
	}
	m.startCells(t.Context())
	m.pending[0], free = true, 12000
	m.startCells(t.Context())
	if asked != 2 {
		t.Errorf("it was asked %d times in 2 rounds", asked)
	}
	want := []string{
		"m-1: waits for 8192 MiB of memory on the hypervisors (4096 MiB are free; so do m-2, m-3)",
		"m-1: waits for 8192 MiB of memory on the hypervisors (12000 MiB are free, and cells whose VMs are being made take 8192 MiB; " +
			"so do m-2, m-3)",
	}
	if diff := cmp.Diff(want, shown(told)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
