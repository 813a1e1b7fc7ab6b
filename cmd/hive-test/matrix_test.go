package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"hive-test/pkg/matrix"
	"hive-test/pkg/progress"
	"hive-test/pkg/report"
)

// matrixLab is a simulator and the file of a matrix.
type matrixLab struct {
	*testbed
	file string
}

func newMatrixLab(t *testing.T, content string, flags ...string) *matrixLab {
	t.Helper()
	a := newArena(t, flags...)
	m := &matrixLab{a, filepath.Join(a.dir, "matrix.yaml")}
	if err := os.WriteFile(m.file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *matrixLab) matrix(args ...string) *exec.Cmd {
	return m.here(append([]string{"matrix", "run", m.file, "--sim", "--deployer=simhosts"}, args...)...)
}

// report is that of the latest run.
func (m *matrixLab) report(name string) report.Report {
	m.Helper()
	raw, err := os.ReadFile(filepath.Join(m.clusters(), ".runs", name, "latest", report.JSONFile))
	if err != nil {
		m.Fatal(err)
	}
	var r report.Report
	if err := json.Unmarshal(raw, &r); err != nil {
		m.Fatal(err)
	}
	return r
}

// cells are the jobs that a run has done, and when each began, in seconds after the run.
func cellsOf(r report.Report) (jobs []matrix.Job, begins []float64) {
	for _, cell := range r.Matrix.Cells {
		for _, step := range r.Phases[0].Steps {
			if step.Node == cell.Name && step.Status != progress.Skipped {
				size := matrix.Size{MemoryMB: cell.MemoryMB, Cores: cell.Cores, VMs: cell.VMs}
				jobs = append(jobs, matrix.Job{Size: size, Seconds: step.Seconds})
				begins = append(begins, step.Started.Sub(r.Started).Seconds())
			}
		}
	}
	return jobs, begins
}

// A matrix whose budget forces cells to wait runs all of them, never exceeds it, and takes hardly longer than the best
// schedule for the times that its cells took.
func TestMatrixKeepsItsBudget(t *testing.T) {
	soak(t)
	const axes, vms = "axes: {node_count: [1, 3, 5], cpu_cores: [4, 8], suite: [smoke, 'true']}", 8
	m := newMatrixLab(t, fmt.Sprintf(
		"name: budget\n%s\nbudget: {vms: %d, cores: 40}\nmax_parallel: 3\nsettings: {memory_mb: 512}\n", axes, vms))
	limits := matrix.Limits{MaxParallel: 3, Budget: matrix.Size{VMs: vms, Cores: 40}}
	for run := range 2 { // the second knows how long cells take
		if ended := m.run(m.matrix()); ended.code != 0 {
			t.Fatalf("it ends with %d:\n%s", ended.code, ended.stderr)
		}
		r := m.report("budget")
		for _, cell := range r.Matrix.Cells {
			if cell.Status != progress.Passed {
				t.Errorf("%s: %s %s", cell.Label, cell.Status, cell.Why)
			}
		}
		jobs, begins := cellsOf(r)
		if len(jobs) != r.Matrix.Total {
			t.Fatalf("%d of %d cells have run", len(jobs), r.Matrix.Total)
		}
		total := 0.0
		for i, begin := range begins {
			total = max(total, begin+jobs[i].Seconds)
			var size matrix.Size
			cells := 0
			for j := range jobs {
				if begins[j] <= begin && begin < begins[j]+jobs[j].Seconds {
					cells++
					size = matrix.Size{
						MemoryMB: size.MemoryMB + jobs[j].Size.MemoryMB, Cores: size.Cores + jobs[j].Size.Cores,
						VMs: size.VMs + jobs[j].Size.VMs,
					}
				}
			}
			if cells > limits.MaxParallel || !size.Within(limits.Budget) {
				t.Errorf("after %.1f s %d cells run, with %s", begin, cells, size)
			}
		}
		best := bestSchedule(jobs, limits)
		t.Logf("run %d: %d cells took %.1f s, the best schedule for them %.1f s: ratio %.3f", run+1, len(jobs), total, best, total/best)
		// Cells that know of no earlier run are ordered by guesses, and those of a second or two by chance.
		if run == 1 && total > 1.15*best {
			t.Errorf("it took %.3f times as long as the best schedule", total/best)
		}
	}
	if leaks := m.leaks(); len(leaks) > 0 {
		t.Errorf("left: %s", strings.Join(leaks, "; "))
	}
}

// Without a budget, no more cells run than Proxmox VE has memory for, those counted whose VMs are still being made.
func TestMatrixWaitsForMemory(t *testing.T) {
	soak(t)
	m := newMatrixLab(t, "name: room\naxes: {cpu_cores: [4, 5, 6]}\nsettings: {node_count: 1, memory_mb: 8192, suite: 'true'}\n",
		"--hypervisors", "1", "--node-memory-gb", "20")
	if ended := m.run(m.matrix()); ended.code != 0 {
		t.Fatalf("it ends with %d:\n%s", ended.code, ended.stderr)
	}
	jobs, begins := cellsOf(m.report("room"))
	most := 0
	for _, begin := range begins {
		at := 0
		for j := range jobs {
			if begins[j] <= begin && begin < begins[j]+jobs[j].Seconds {
				at++
			}
		}
		most = max(most, at)
	}
	if len(jobs) != 3 || most != 2 {
		t.Errorf("%d cells have run, %d at once, where there is memory for 2", len(jobs), most)
	}
	told, err := os.ReadFile(filepath.Join(m.clusters(), ".runs", "room", "latest", "events.jsonl"))
	if err != nil || !strings.Contains(string(told), `"message":"waits for 8192 MiB of memory on the hypervisors"`) {
		t.Errorf("it is not told that a cell waits for memory: %v", err)
	}
	idle := 0 // cells that the live view shows no longer
	for line := range strings.Lines(string(told)) {
		if strings.Contains(line, `"kind":"node_state"`) && !strings.Contains(line, `"message"`) {
			idle++
		}
	}
	if idle != 3 {
		t.Errorf("of %d cells it is told that they do nothing more", idle)
	}
}

// bestSchedule is how long the shortest schedule takes, found by trying all orders but those that cannot be shorter than
// the best so far, in seconds.
func bestSchedule(jobs []matrix.Job, limits matrix.Limits) float64 {
	order := matrix.Order(jobs, limits)
	best := matrix.Simulate(jobs, order, limits).Seconds
	least := 0.0 // no schedule is shorter
	for _, part := range []struct {
		most int
		of   func(matrix.Size) int
	}{
		{limits.Budget.VMs, func(s matrix.Size) int { return s.VMs }},
		{limits.Budget.Cores, func(s matrix.Size) int { return s.Cores }},
		{limits.MaxParallel, func(matrix.Size) int { return 1 }},
	} {
		area := 0.0
		for _, job := range jobs {
			area += job.Seconds * float64(part.of(job.Size))
			least = max(least, job.Seconds)
		}
		if part.most > 0 {
			least = max(least, area/float64(part.most))
		}
	}
	deadline := time.Now().Add(20 * time.Second)
	var try func(from int)
	try = func(from int) {
		if best <= least*1.001 || time.Now().After(deadline) {
			return
		}
		if from == len(order) {
			best = min(best, matrix.Simulate(jobs, order, limits).Seconds)
			return
		}
		for i := from; i < len(order); i++ {
			order[from], order[i] = order[i], order[from]
			if matrix.Simulate(jobs, order[:from+1], limits).Seconds < best {
				try(from + 1)
			}
			order[from], order[i] = order[i], order[from]
		}
	}
	try(0)
	return best
}

// A matrix that is killed at any moment goes on: no cell is lost, none that had come to its end runs again, and in the end
// nothing is left.
func TestKilledMatrixGoesOn(t *testing.T) {
	soak(t)
	const moments = 10
	m := newMatrixLab(t, "name: killed\naxes: {cpu_cores: [4, 5, 6, 7]}\nsettings: {node_count: 1, memory_mb: 512, suite: 'true'}\nmax_parallel: 2\n")
	whole := m.start(m.matrix())
	if code := whole.wait(); code != 0 {
		t.Fatalf("it ends with %d:\n%s", code, whole.log())
	}
	for i := range moments {
		m.killAt(whole.count()*(i+1)/(moments+1), "killed")
	}
	// A cell that was killed before it had a record may leave the sign of its run, which reap finds dead, and nothing else.
	for _, left := range m.leaksNow() {
		if !strings.HasPrefix(left, "pools ") {
			t.Errorf("left: %s", left)
		}
	}
	if reaped := m.run(m.there("reap", "--yes")); reaped.code != 0 {
		t.Errorf("reap ends with %d:\n%s", reaped.code, reaped.stderr)
	}
	if leaks := m.leaks(); len(leaks) > 0 {
		t.Errorf("left: %s", strings.Join(leaks, "; "))
	}
}

// killAt kills a run of the matrix after so many of its events, and lets it go on to its end.
func (m *matrixLab) killAt(after int, name string) {
	m.Helper()
	before := m.fulls(name)
	run := m.start(m.matrix())
	if !run.until(func() bool { return run.told >= after && strings.Contains(run.text.String(), `"run_start"`) }) {
		m.Fatalf("it has ended before event %d:\n%s", after, run.log())
	}
	_ = run.command.Process.Kill()
	<-run.done
	ended := m.run(m.matrix("--resume"))
	if ended.code == 2 && strings.Contains(ended.stderr, "came to its end") { // it was quicker
		return
	}
	if ended.code != 0 {
		m.Fatalf("killed after event %d, it ends with %d:\n%s", after, ended.code, ended.stderr)
	}
	r := m.report(name)
	for _, cell := range r.Matrix.Cells {
		if cell.Status != progress.Passed {
			m.Errorf("killed after event %d: %s: %s %s", after, cell.Label, cell.Status, cell.Why)
		}
	}
	for cell, runs := range m.fulls(name) {
		passed := 0
		for _, result := range runs[len(before[cell]):] {
			if result == progress.Passed {
				passed++
			}
		}
		if passed != 1 {
			m.Errorf("killed after event %d: %s has passed %d times: %v", after, cell, passed, runs[len(before[cell]):])
		}
	}
}

// fulls are the results of all runs of each cell, the oldest first; empty where a run has no report.
func (m *matrixLab) fulls(name string) map[string][]progress.Status {
	m.Helper()
	dirs, err := filepath.Glob(filepath.Join(m.clusters(), ".runs", name+"-*", "*-full"))
	if err != nil {
		m.Fatal(err)
	}
	slices.Sort(dirs)
	all := map[string][]progress.Status{}
	for _, dir := range dirs {
		var r report.Report
		if raw, err := os.ReadFile(filepath.Join(dir, report.JSONFile)); err == nil {
			_ = json.Unmarshal(raw, &r)
		}
		cell := filepath.Base(filepath.Dir(dir))
		all[cell] = append(all[cell], r.Result)
	}
	return all
}

// INT begins no further cell and destroys the clusters of those that run.
func TestInterruptedMatrixLeavesNothing(t *testing.T) {
	skipInShort(t)
	if !soaking() { // where times count it runs alone
		t.Parallel()
	}
	m := newMatrixLab(t, "name: cut\naxes: {cpu_cores: [4, 5, 6]}\nsettings: {node_count: 1, memory_mb: 512, suite: sleep 60}\nmax_parallel: 2\n")
	run := m.start(m.matrix())
	if !run.until(func() bool { return strings.Count(run.text.String(), `"message":"test"`) == 2 }) {
		t.Fatalf("no suite has begun:\n%s", run.log())
	}
	_ = run.command.Process.Signal(syscall.SIGINT)
	if code := run.wait(); code != 130 {
		t.Fatalf("it ends with %d:\n%s", code, run.log())
	}
	r := m.report("cut")
	var got []string
	for _, cell := range r.Matrix.Cells {
		got = append(got, string(cell.Status))
	}
	begun := 0
	for _, step := range r.Phases[0].Steps {
		if step.Status == progress.Interrupted {
			begun++
		}
	}
	if !strings.Contains(r.Explanation.Next, "--resume") {
		t.Errorf("what comes next is %q", r.Explanation.Next)
	}
	if begun != 2 || !slices.Equal(got, []string{"interrupted", "interrupted", "interrupted"}) {
		t.Errorf("%d cells have begun, and they are %v", begun, got)
	}
	if leaks := m.leaks(); len(leaks) > 0 {
		t.Errorf("left: %s", strings.Join(leaks, "; "))
	}
}

// One hive-test runs many cells in little memory.
func TestMatrixOfManyCells(t *testing.T) {
	soak(t)
	const cells, parallel = 24, 12
	var cores []string
	for n := range cells {
		cores = append(cores, fmt.Sprint(n+4))
	}
	m := newMatrixLab(t, fmt.Sprintf(
		"name: many\naxes: {cpu_cores: [%s]}\nsettings: {node_count: 1, memory_mb: 512}\nmax_parallel: %d\n",
		strings.Join(cores, ", "), parallel))
	run := m.start(m.matrix("--timeout-configure", "10m"))
	memory := highWater(run)
	if code := run.wait(); code != 0 {
		t.Fatalf("it ends with %d:\n%s", code, run.log())
	}
	t.Logf("%d cells, %d at once: %d MB", cells, parallel, memory>>20)
	limit := int64(150 << 20)
	if os.Getenv("HIVE_TEST_COVER_DIR") != "" { // the race detector's program needs three times as much and more
		limit *= 4
	}
	if memory > limit {
		t.Errorf("it took %d MB of memory", memory>>20)
	}
}
