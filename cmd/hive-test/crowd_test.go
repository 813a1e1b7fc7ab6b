package main_test

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const crowdMemory = 100 << 20 // bytes that one hive-test may take

// soaking reports whether all is to be tried, however long it takes.
func soaking() bool { return os.Getenv("HIVE_TEST_SOAK") != "" }

// soak leaves out a test that takes minutes, unless all is to be tried.
func soak(t testing.TB) {
	t.Helper()
	if !soaking() {
		t.Skip("takes minutes: make soak runs it")
	}
}

// TestCrowd runs ten clusters of five nodes, from up to down, all at once, in one clusters directory.
func TestCrowd(t *testing.T) {
	soak(t)
	const crowdClusters, crowdNodes = 10, 5
	a := newArena(t)
	var wait sync.WaitGroup
	var most int64
	var mu sync.Mutex
	for i := range crowdClusters {
		wait.Go(func() {
			run := a.start(a.here(
				"full", fmt.Sprintf("crowd-%d", i+1), "--sim", fmt.Sprintf("--node-count=%d", crowdNodes),
			))
			memory := highWater(run)
			if code := run.wait(); code != 0 {
				t.Errorf("crowd-%d ends with %d:\n%s", i+1, code, run.log())
			}
			mu.Lock()
			most = max(most, memory)
			mu.Unlock()
		})
	}
	wait.Wait()
	if leaks := a.leaks(); len(leaks) > 0 {
		t.Errorf("left: %s", strings.Join(leaks, "; "))
	}
	t.Logf("%d clusters of %d nodes at once: the largest hive-test took %d MB", crowdClusters, crowdNodes, most>>20)
	limit := uint64(crowdMemory)
	if os.Getenv("HIVE_TEST_COVER_DIR") != "" { // the race detector's program needs three times as much and more
		limit *= 2
	}
	if uint64(most) > limit {
		t.Errorf("one hive-test took %d MB of memory, more than %d", most>>20, limit>>20)
	}
}

var highWaterLine = regexp.MustCompile(`VmHWM:\s*(\d+) kB`)

// highWater is the most memory, in bytes, that a process has had when it ends. It is looked at all the time, as the
// kernel's own account of a child counts what its parent had.
func highWater(run *liveRun) int64 {
	var most int64
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		select {
		case <-run.done:
			tick.Stop()
			return most
		case <-tick.C:
			status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", run.command.Process.Pid))
			if match := highWaterLine.FindSubmatch(status); err == nil && match != nil {
				kilobytes, _ := strconv.ParseInt(string(match[1]), 10, 64)
				most = max(most, kilobytes<<10)
			}
		}
	}
}

// TestLoudSuite runs a suite that prints without measure.
func TestLoudSuite(t *testing.T) {
	soak(t)
	const printed = 100_000_000 // bytes
	a := newArena(t)
	command := a.here(
		"full", "loud", "--sim", "--node-count=1", "--suite",
		fmt.Sprintf("(yes 'a suite that does not know when to stop' || true) | head -c %d", printed),
	)
	var said bytes.Buffer
	command.Stderr = &said
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	run := &liveRun{command: command, done: make(chan struct{})}
	go func() {
		_ = command.Wait() // its state is read afterwards
		close(run.done)
	}()
	memory := highWater(run)
	if code := command.ProcessState.ExitCode(); code != 0 {
		t.Fatalf("it ends with %d:\n%s", code, &said)
	}
	latest := filepath.Join(a.clusters(), ".runs", "loud", "latest")
	size := func(path string) int64 {
		info, err := os.Stat(filepath.Join(latest, path))
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	if got := size("suites/yes/output.log"); got != printed {
		t.Errorf("of %d bytes %d were kept", printed, got)
	}
	if got := size("events.jsonl"); got > 10<<20 {
		t.Errorf("the events take %d MB", got>>20)
	}
	t.Logf("hive-test took %d MB", memory>>20)
	most := int64(crowdMemory)
	if raced(t, a.bin) {
		most *= 3
	}
	if memory > most {
		t.Errorf("hive-test took %d MB of memory, more than %d", memory>>20, most>>20)
	}
}

// raced reports whether the hive-test of a directory was built with the race detector, which takes several times the
// memory.
func raced(t *testing.T, bin string) bool {
	t.Helper()
	info, err := buildinfo.ReadFile(filepath.Join(bin, "hive-test"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}
