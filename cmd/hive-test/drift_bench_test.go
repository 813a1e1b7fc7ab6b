package main_test

import (
	"os/exec"
	"testing"
	"time"
)

// BenchmarkDrift compares a look at an unchanged cluster of three nodes with tofu's plan alone, in the cluster's directory and
// environment. The look asks Proxmox VE besides what no plan sees. It also looks whether the simulator runs and where, as it does for no
// cluster on a Proxmox VE: the ratio without that is told, too.
func BenchmarkDrift(b *testing.B) {
	e := newBench(b)
	e.hiveTest("up", "same", "--sim", "--node-count=3")
	defer e.hiveTest("down", "same")
	tofu := e.tofuIn(e.path("same", "tofu"))
	plan := func() *exec.Cmd {
		return tofu("plan", "-detailed-exitcode", "-lock=false", "-parallelism=10", "-var-file=../terraform.tfvars.json")
	}
	sim := e.program("hive-sim")
	find := func() time.Duration {
		return e.timed(e.command(sim, "pve", "start", "--clusters-dir", e.clusters())) +
			e.timed(e.command(sim, "pve", "env", "--clusters-dir", e.clusters(), "--format", "json"))
	}
	var looks, plans, finds []time.Duration
	for b.Loop() {
		for range 9 {
			looks = append(looks, e.hiveTest("drift", "same"))
			plans = append(plans, e.timed(plan()))
			finds = append(finds, find())
		}
	}
	look, alone, finding := median(looks), median(plans), median(finds)
	b.ReportMetric(ratio(look, alone), "drift/plan")
	b.ReportMetric(ratio(look-finding, alone), "drift-sim/plan")
	b.Logf("drift of 3 nodes: %s, %s of it to find the simulator; tofu plan alone: %s; ratio %.2f, without that %.2f (wanted: at most 1.3)",
		look.Round(time.Millisecond), finding.Round(time.Millisecond), alone.Round(time.Millisecond), ratio(look, alone), ratio(look-finding, alone))
}
