package main_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The crash matrix: a run of full is ended in every way and at many moments, and afterwards nothing is left of it that
// a machine which has only credentials could not remove. `make crash` takes 100 moments of each way (HIVE_TEST_CRASH);
// `make test` a sample.

// crashWay is a way to end a process, each signal so long after the one before.
type crashWay struct {
	name    string
	signals []crashSignal
}

type crashSignal struct {
	after  time.Duration
	signal syscall.Signal
	// tree sends it to all that the process has started too.
	tree bool
}

func crashWays() []crashWay {
	return []crashWay{
		{"KILL", []crashSignal{{0, syscall.SIGKILL, false}}},
		{"INT", []crashSignal{{0, syscall.SIGINT, false}}},
		{"TERM", []crashSignal{{0, syscall.SIGTERM, false}}},
		{"HUP", []crashSignal{{0, syscall.SIGHUP, false}}},
		{"INT+INT", []crashSignal{{0, syscall.SIGINT, false}, {150 * time.Millisecond, syscall.SIGINT, false}}},
		{"GitHub", []crashSignal{{0, syscall.SIGINT, false}, {7500 * time.Millisecond, syscall.SIGTERM, false}, {2500 * time.Millisecond, syscall.SIGKILL, true}}},
	}
}

// crashPoint is the moment at which a run is ended: when its nth event is told, or some part of a whole run's time
// after it began.
type crashPoint struct {
	event int
	part  float64
}

func (p crashPoint) String() string {
	if p.event > 0 {
		return fmt.Sprintf("event %d", p.event)
	}
	return fmt.Sprintf("%.0f %% of the time", 100*p.part)
}

func (p crashPoint) sooner() crashPoint { return crashPoint{p.event * 9 / 10, p.part * 0.9} }

const crashSeed = 20261128

func TestCrash(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes")
	}
	points := 1
	if text := os.Getenv("HIVE_TEST_CRASH"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("HIVE_TEST_CRASH is the number of moments of each way, not %q", text)
		}
		points = n
	}
	tally := &crashTally{runs: map[string]int{}, ended: map[string]int{}}
	for i, way := range crashWays() {
		t.Run(way.name, func(t *testing.T) {
			if points == 1 && i > 0 {
				t.Skip("takes minutes: make crash tries it")
			}
			t.Parallel()
			c := newCrasher(t)
			random := rand.New(rand.NewPCG(crashSeed, uint64(i)))
			for n := range points {
				c.crash(way, n, (float64(n)+random.Float64())/float64(points), tally)
			}
		})
	}
	t.Cleanup(func() { t.Log(tally.String()) })
}

// crashTally counts what came of it.
type crashTally struct {
	mu    sync.Mutex
	runs  map[string]int
	ended map[string]int // by way: how many had ended by themselves before
	leaks []string
}

func (c *crashTally) add(way string, over bool, leaks []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs[way]++
	if over {
		c.ended[way]++
	}
	c.leaks = append(c.leaks, leaks...)
}

func (c *crashTally) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var text strings.Builder
	for _, way := range crashWays() {
		fmt.Fprintf(
			&text, "%-8s %4d runs, %d of them over before they could be ended\n", way.name, c.runs[way.name],
			c.ended[way.name],
		)
	}
	fmt.Fprintf(&text, "leaks: %d", len(c.leaks))
	return "\n" + text.String()
}

// crashHarness has an arena and knows how long a run takes, and how many events it has.
type crashHarness struct {
	*testbed
	events int
	length time.Duration
}

func newCrasher(t *testing.T) *crashHarness {
	c := &crashHarness{testbed: newArena(t)}
	start := time.Now()
	run := c.start(c.full())
	if code := run.wait(); code != 0 {
		t.Fatalf("a whole run ends with %d:\n%s", code, run.log())
	}
	c.events, c.length = run.count(), time.Since(start)
	if leaks := c.leaks(); len(leaks) > 0 {
		t.Fatalf("a whole run leaves %s", strings.Join(leaks, "; "))
	}
	return c
}

const crashed = "crash"

func (c *crashHarness) full() *exec.Cmd { return c.here("full", crashed, "--sim", "--node-count=3") }

// crash ends one run, cleans up from elsewhere, and runs it again.
func (c *crashHarness) crash(way crashWay, n int, spread float64, tally *crashTally) {
	c.Helper()
	point := crashPoint{part: spread}
	if n%2 == 0 {
		point = crashPoint{event: 1 + int(spread*float64(c.events))}
	}
	what := fmt.Sprintf("%s at %s", way.name, point)
	run, over := c.cut(way, point)
	code := run.wait()
	owner := c.owner()
	if !over && slices.Contains([]string{"INT", "INT+INT", "GitHub"}, way.name) && code != 130 && code != 0 &&
		code != -1 {
		c.Errorf("%s: exit code %d\n%s", what, code, run.log())
	}
	if !over && slices.Contains([]string{"TERM", "HUP"}, way.name) && code != 143 && code != 0 {
		c.Errorf("%s: exit code %d\n%s", what, code, run.log())
	}
	clean := c.there("reap", "--yes")
	if n%4 >= 2 && owner != "" {
		clean = c.there("down", crashed, "--owner", owner)
	}
	cleaned := c.run(clean)
	if cleaned.code != 0 {
		c.Errorf("%s: %v ends with %d\n%s", what, clean.Args[1:], cleaned.code, cleaned.stderr)
	}
	leaks := c.leaks()
	tally.add(way.name, over, leaks)
	if len(leaks) > 0 {
		c.Errorf(
			"%s: left after %v: %s\nthe run:\n%s\nthe cleaning up:\n%s%s", what, clean.Args[1:],
			strings.Join(leaks, "; "), run.log(), cleaned.stdout, cleaned.stderr,
		)
		c.still = c.look() // told once
	}
	c.again(what, n)
	c.Logf("%s: tried, the %d. moment of this way", what, n+1) // seen at once with -v: the whole matrix takes an hour
}

// cutTries is how often a run is begun that is over before the moment at which it was to be ended.
const cutTries = 4

// cut ends a run at that moment, or sooner where runs are quicker than the one that was measured.
func (c *crashHarness) cut(way crashWay, point crashPoint) (run *liveRun, over bool) {
	c.Helper()
	for range cutTries {
		start := time.Now()
		run = c.start(c.full())
		if over = run.at(point, c.length); !over {
			run.end(way)
			return run, false
		}
		if run.wait() != 0 {
			return run, true
		}
		c.events, c.length = run.count(), time.Since(start)
		point = point.sooner()
	}
	return run, true
}

// again runs the same name once more: where the run was ended, or elsewhere.
func (c *crashHarness) again(what string, n int) {
	c.Helper()
	command := c.full()
	if n%3 == 2 {
		command = c.there("full", crashed, "--node-count=3")
	}
	if again := c.run(command); again.code != 0 {
		c.Errorf("%s: full again (%v) ends with %d\n%s", what, command.Args[1:], again.code, again.stderr)
	}
	if down := c.run(c.here("down", crashed)); down.code != 0 && down.code != 9 {
		c.Errorf("%s: down of what is left on disk ends with %d\n%s", what, down.code, down.stderr)
	}
	if leaks := c.leaks(); len(leaks) > 0 {
		c.Errorf("%s: left after full again: %s", what, strings.Join(leaks, "; "))
		c.still = c.look() // told once
	}
	if _, err := os.Stat(filepath.Join(c.clusters(), crashed)); err == nil {
		c.Errorf("%s: the cluster's directory is still there", what)
	}
}

// owner is the owner id that the cluster's record tells, if there is one.
func (c *crashHarness) owner() string {
	raw, err := os.ReadFile(filepath.Join(c.clusters(), crashed, "cluster.json"))
	if err != nil {
		return ""
	}
	var record struct{ Owner struct{ ID string } }
	if json.Unmarshal(raw, &record) != nil {
		return ""
	}
	return record.Owner.ID
}

// at waits for the moment and tells whether the run was over before.
func (r *liveRun) at(point crashPoint, length time.Duration) (over bool) {
	if point.event == 0 {
		select {
		case <-r.done:
			return true
		case <-time.After(time.Duration(point.part * float64(length))):
			return false
		}
	}
	return !r.until(func() bool { return r.told >= point.event })
}

// end sends the signals of a way until the process has ended.
func (r *liveRun) end(way crashWay) {
	for _, s := range way.signals {
		select {
		case <-r.done:
			return
		case <-time.After(s.after):
		}
		pids := []int{r.command.Process.Pid}
		if s.tree {
			pids = append(pids, descendants(r.command.Process.Pid)...)
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, s.signal)
		}
	}
}
