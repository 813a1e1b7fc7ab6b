package matrix

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Job is a cell that is to be run.
type Job struct {
	Size    Size
	Seconds float64 // that it is expected to take
}

// Limits bound what runs at once; the zero value does not.
type Limits struct {
	MaxParallel int
	Budget      Size
}

// Load is what runs. The zero value is nothing.
type Load struct {
	cells int
	size  Size
}

// Fits reports whether a cell may be added.
func (l Load) Fits(size Size, limits Limits) bool {
	return (limits.MaxParallel == 0 || l.cells < limits.MaxParallel) && l.size.plus(size).Within(limits.Budget)
}

// Lack says what a cell that does not fit has to wait for, and why; empty: it fits.
func (l Load) Lack(size Size, limits Limits) (what, why string) {
	if limits.MaxParallel > 0 && l.cells >= limits.MaxParallel {
		return "a cell to end", fmt.Sprintf("at most %d at once, by max_parallel", limits.MaxParallel)
	}
	var names, parts []string
	for _, part := range []struct {
		name, unit          string
		takes, used, budget int
	}{
		{"memory_mb", "MiB", size.MemoryMB, l.size.MemoryMB, limits.Budget.MemoryMB},
		{"cores", "cores", size.Cores, l.size.Cores, limits.Budget.Cores},
		{"vms", "VMs", size.VMs, l.size.VMs, limits.Budget.VMs},
	} {
		if part.budget > 0 && part.used+part.takes > part.budget {
			names = append(names, part.name)
			parts = append(parts, fmt.Sprintf("it takes %d of %d %s, of which %d are left",
				part.takes, part.budget, part.unit, max(0, part.budget-part.used)))
		}
	}
	if len(names) == 0 {
		return "", ""
	}
	return "the budget of " + strings.Join(names, " and "), strings.Join(parts, "; ")
}

// Add adds a cell, and Remove takes it out again.
func (l *Load) Add(size Size)    { l.cells, l.size = l.cells+1, l.size.plus(size) }
func (l *Load) Remove(size Size) { l.cells, l.size = l.cells-1, l.size.minus(size) }

// Hold adds the size of a cluster that stays though nothing runs on it, and Drop takes it out again.
func (l *Load) Hold(size Size) { l.size = l.size.plus(size) }
func (l *Load) Drop(size Size) { l.size = l.size.minus(size) }

// Size is what all that runs, and all that stays, has together.
func (l Load) Size() Size { return l.size }

// Schedule is when each job would begin if all took as long as expected, in seconds, and how long all take.
type Schedule struct {
	Begins  []float64 // by job
	Seconds float64
}

// Simulate returns the schedule of jobs that are taken in that order: whenever there is room, the first of those left that
// fits it begins. Each must fit alone.
func Simulate(jobs []Job, order []int, limits Limits) Schedule {
	s := Schedule{Begins: make([]float64, len(jobs))}
	var load Load
	var running []int // by their ends
	end := func(job int) float64 { return s.Begins[job] + jobs[job].Seconds }
	left := slices.Clone(order)
	for now := 0.0; len(left)+len(running) > 0; {
		left = slices.DeleteFunc(left, func(job int) bool {
			if !load.Fits(jobs[job].Size, limits) {
				return false
			}
			load.Add(jobs[job].Size)
			s.Begins[job] = now
			at, _ := slices.BinarySearchFunc(running, end(job), func(other int, t float64) int { return cmp.Compare(end(other), t) })
			running = slices.Insert(running, at, job)
			return true
		})
		if len(running) == 0 { // none of those left fits ever
			break
		}
		now = end(running[0])
		for len(running) > 0 && end(running[0]) <= now {
			load.Remove(jobs[running[0]].Size)
			running = running[1:]
		}
		s.Seconds = now
	}
	return s
}

// swaps bounds how long a better order is looked for: so many times a schedule is simulated with two jobs swapped.
const swaps = 4000

// Order returns the order in which jobs are taken that makes the whole short: the longest first, or those that take most
// of the budget, whichever is better, and better still by swaps. It is always the same for the same jobs.
func Order(jobs []Job, limits Limits) []int {
	by := func(weigh func(Job) float64) []int {
		order := make([]int, len(jobs))
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(weigh(jobs[b]), weigh(jobs[a])) })
		return order
	}
	share := func(j Job) float64 { return j.Size.share(limits.Budget) }
	var best []int
	shortest := 0.0
	for _, order := range [][]int{
		by(func(j Job) float64 { return j.Seconds }),
		by(func(j Job) float64 { return j.Seconds * share(j) }),
		by(share),
	} {
		if seconds := Simulate(jobs, order, limits).Seconds; best == nil || seconds < shortest {
			best, shortest = order, seconds
		}
	}
	if len(jobs) < 2 {
		return best
	}
	random := rand.New(rand.NewPCG(1, 2))
	current, length := best, shortest // swaps that change nothing may lead to better ones
	tries := min(swaps, 4_000_000/(len(jobs)*len(jobs)))
	for range tries {
		a, b := random.IntN(len(jobs)), random.IntN(len(jobs))
		tried := slices.Clone(current)
		tried[a], tried[b] = tried[b], tried[a]
		if seconds := Simulate(jobs, tried, limits).Seconds; seconds <= length {
			current, length = tried, seconds
		}
		if length < shortest {
			best, shortest = current, length
		}
	}
	return best
}
