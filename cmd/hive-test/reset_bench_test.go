package main_test

import (
	"strings"
	"testing"
	"time"
)

// BenchmarkResetBetween compares what each further suite costs that begins on a clean cluster: a reset to a snapshot of
// the disks, or of disks and memory, with a cluster that is made anew for it. VMs of the simulator boot for 10 s, and
// those that go on from memory do not; their hive is started in both cases, as the simulator keeps no processes.
func BenchmarkResetBetween(b *testing.B) {
	e := newBench(b, "--task-duration", "0s", "--boot-delay", "10s")
	var rebuilds, disks, memories []time.Duration
	resets := func(name string, flags ...string) []time.Duration {
		suites := []string{"--suite", "true", "--suite", "true ", "--suite", "true  "}
		e.hiveTest(append(append([]string{"full", name, "--sim", "--node-count=3", "--reset-between", "suite"}, suites...), flags...)...)
		var took []time.Duration
		for _, s := range e.steps(name) {
			if strings.HasPrefix(s.name, "reset for suite") {
				took = append(took, s.end.Sub(s.begin))
			}
		}
		if len(took) != 2 {
			b.Fatalf("%d resets were made for three suites", len(took))
		}
		return took
	}
	for b.Loop() {
		rebuilds = append(rebuilds, e.hiveTest("full", "anew", "--sim", "--node-count=3", "--suite", "true"))
		disks = append(disks, resets("disks", "--reset-memory=false")...)
		memories = append(memories, resets("memory")...)
	}
	whole, disk, memory := median(rebuilds), median(disks), median(memories)
	b.ReportMetric(ratio(disk, whole), "disks/rebuild")
	b.ReportMetric(ratio(memory, whole), "memory/rebuild")
	b.Logf("a suite on a clean cluster of 3 nodes, boots of 10 s: made anew %s; reset of disks %s, ratio %.3f; of disks and "+
		"memory %s, ratio %.3f (wanted: under 0.15)", whole.Round(time.Millisecond),
		disk.Round(time.Millisecond), ratio(disk, whole), memory.Round(time.Millisecond), ratio(memory, whole))
}
