package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// How long Proxmox VE is taken to need for a disk of some GiB on an SSD. A linked clone takes what any task does.
const (
	benchImport    = 20 * time.Second
	benchFullClone = 15 * time.Second
	benchTask      = time.Second
	benchInstall   = 60 * time.Second
)

// newTemplateBench starts a simulator, and has a configuration with a layer that has nothing but hive.
func newTemplateBench(b *testing.B) *testEnv {
	b.Helper()
	w := startSimulator(b, "--task-duration", benchTask.String(), "--boot-delay", "0s", "--auth-delay", "0s")
	text := "sim: true\ndeployer: simhosts\ntemplates:\n  whole:\n    hive: true\n"
	if err := os.WriteFile(filepath.Join(w.dir, "hive-test.yaml"), []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	return w
}

// took runs hive-test, which must succeed, and returns how long that took.
func (w *testEnv) took(args ...string) time.Duration {
	w.Helper()
	command := exec.Command(filepath.Join(w.bin, "hive-test"), args...)
	command.Dir = w.dir
	command.Env = append(os.Environ(), "HOME="+w.dir, "XDG_CONFIG_HOME=", "HIVE_TEST_CLUSTERS_DIR="+w.clusters(), "HIVE_TEST_TOFU_BIN="+w.tofu)
	begun := time.Now()
	if out, err := command.CombinedOutput(); err != nil {
		w.Fatalf("hive-test %v: %v\n%s", args, err, out)
	}
	return time.Since(begun)
}

// slowed has all requests of one kind answered later, and no others.
func (w *testEnv) slowed(path string, delay time.Duration) {
	w.Helper()
	w.must("DELETE", "/sim/faults")
	if delay > 0 {
		w.must("POST", "/sim/faults", fmt.Sprintf(`[{"path":%q,"method":"POST","delay":%q}]`, path, delay))
	}
}

// BenchmarkUpFromTemplate compares up of five nodes that are linked clones of a template which each hypervisor has with up of full
// clones, and of nodes whose disks are made of an image. Tasks take the time above.
func BenchmarkUpFromTemplate(b *testing.B) {
	w := newTemplateBench(b)
	w.took("template", "build", "whole")
	w.took("template", "distribute", "whole")
	up := func(name string, flags ...string) time.Duration {
		took := w.took(append([]string{"up", name, "--node-count", "5"}, flags...)...)
		w.slowed("", 0)
		w.took("down", name)
		return took
	}
	var imports, fulls, links []time.Duration
	for b.Loop() {
		w.slowed("/nodes/*/qemu", benchImport)
		imports = append(imports, up("imported"))
		w.slowed("/nodes/*/qemu/*/clone", benchFullClone)
		fulls = append(fulls, up("copied", "--template", "whole", "--clone", "full"))
		links = append(links, up("linked", "--template", "whole", "--clone", "linked"))
	}
	imported, full, linked := median(imports), median(fulls), median(links)
	b.ReportMetric(ratio(linked, full), "linked/full")
	b.ReportMetric(ratio(linked, imported), "linked/import")
	b.Logf("up of 5 nodes, where an import takes %s, a full clone %s and any other task %s: linked clones %s, full clones %s, imports %s; "+
		"linked/full %.2f, linked/import %.2f", benchImport, benchFullClone, benchTask, linked.Round(time.Millisecond),
		full.Round(time.Millisecond), imported.Round(time.Millisecond), ratio(linked, full), ratio(linked, imported))
}

// BenchmarkFullFromTemplate compares full of a node that is cloned from a template which has all with one that installs packages, which
// takes a minute.
func BenchmarkFullFromTemplate(b *testing.B) {
	w := newTemplateBench(b)
	script, err := os.ReadFile("../../pkg/hive/scripts/os-essentials.sh")
	if err != nil {
		b.Fatal(err)
	}
	scripts := filepath.Join(w.dir, "scripts")
	if err := os.MkdirAll(scripts, 0o700); err != nil {
		b.Fatal(err)
	}
	text := fmt.Sprintf("sleep %d\n%s", int(benchInstall.Seconds()), script)
	if err := os.WriteFile(filepath.Join(scripts, "os-essentials.sh"), []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	w.took("template", "build", "whole", "--scripts-dir", scripts, "--packages", "coreutils")
	full := func(name string, flags ...string) time.Duration {
		return w.took(append([]string{"full", name, "--node-count", "1", "--suite", "true", "--scripts-dir", scripts, "--packages", "coreutils"}, flags...)...)
	}
	var colds, warms []time.Duration
	for b.Loop() {
		colds = append(colds, full("cold"))
		warms = append(warms, full("warm", "--template", "whole", "--clone", "linked"))
	}
	cold, warm := median(colds), median(warms)
	b.ReportMetric(ratio(warm, cold), "template/cold")
	b.Logf("full of a node, installing packages takes %s: cold %s, from a template %s, ratio %.2f", benchInstall, cold.Round(time.Millisecond),
		warm.Round(time.Millisecond), ratio(warm, cold))
}
