package main_test

import (
	"os/exec"
	"testing"
	"time"
)

// BenchmarkDrift compares a look at an unchanged cluster of three nodes with tofu's plan alone, in the cluster's directory and
// environment. The look asks Proxmox VE besides what no plan sees.
func BenchmarkDrift(b *testing.B) {
	e := newBench(b)
	e.hiveTest("up", "same", "--sim", "--node-count=3")
	defer e.hiveTest("down", "same")
	tofu := e.tofuIn(e.path("same", "tofu"))
	plan := func() *exec.Cmd {
		return tofu("plan", "-detailed-exitcode", "-lock=false", "-parallelism=10", "-var-file=../terraform.tfvars.json")
	}
	var looks, plans []time.Duration
	for b.Loop() {
		for range 9 {
			looks = append(looks, e.hiveTest("drift", "same"))
			plans = append(plans, e.timed(plan()))
		}
	}
	look, alone := median(looks), median(plans)
	b.ReportMetric(ratio(look, alone), "drift/plan")
	b.Logf("drift of 3 nodes: %s; tofu plan alone: %s; ratio %.2f (wanted: at most 1.3)", look.Round(time.Millisecond),
		alone.Round(time.Millisecond), ratio(look, alone))
}
