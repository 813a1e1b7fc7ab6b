package main_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/rhysd/actionlint"
	"go.yaml.in/yaml/v3"
	"mvdan.cc/sh/v3/syntax"
)

// The action has what GitHub documents of composite actions, and its scripts take inputs from the environment only.
func TestActionIsWellFormed(t *testing.T) {
	a := readAction(t)
	if a.Name == "" || a.Description == "" || a.Runs.Using != "composite" {
		t.Errorf("name %q, description %q, using %q", a.Name, a.Description, a.Runs.Using)
	}
	for name, input := range a.Inputs {
		if input.Description == "" {
			t.Errorf("the input %s has no description", name)
		}
	}
	for name, output := range a.Outputs {
		if output.Description == "" || output.Value == "" {
			t.Errorf("the output %s has no description, or no value", name)
		}
	}
	for _, step := range a.Runs.Steps {
		switch {
		case step.Name == "" || (step.Run == "") == (step.Uses == ""):
			t.Errorf("step %q needs a name, and either run or uses", step.Name)
		case step.Run != "" && step.Shell != "bash":
			t.Errorf("step %s needs shell: bash", step.Name)
		case strings.Contains(step.Run, "${{"):
			t.Errorf("step %s has an expression in its script, which would run what an input says", step.Name)
		}
		parseBash(t, step.Name, step.Run)
	}
}

func parseBash(t *testing.T, name, script string) {
	t.Helper()
	if _, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(script), name); err != nil {
		t.Error(err)
	}
}

// actionlint reads workflows only: the action's steps are shown to it as those of a workflow with the same inputs.
func TestActionIsLinted(t *testing.T) {
	a := readAction(t)
	inputs := map[string]any{}
	for name := range a.Inputs {
		inputs[name] = map[string]any{"type": "string"}
	}
	outputs := map[string]string{}
	for name, output := range a.Outputs {
		outputs[name] = output.Value
	}
	workflow, err := yaml.Marshal(map[string]any{
		"on": map[string]any{"workflow_call": map[string]any{"inputs": inputs}},
		"jobs": map[string]any{"action": map[string]any{
			"runs-on": "ubuntu-latest", "outputs": outputs, "steps": a.Runs.Steps,
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	shellcheck, _ := exec.LookPath("shellcheck") // without it, scripts are parsed only
	var out bytes.Buffer
	linter, err := actionlint.NewLinter(&out, &actionlint.LinterOptions{
		Shellcheck: shellcheck, Color: actionlint.ColorOptionKindNever,
	})
	if err != nil {
		t.Fatal(err)
	}
	found, err := linter.Lint("action.yml", workflow, nil)
	if err != nil || len(found) > 0 {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// simJob is a job with a simulated Proxmox VE.
type simJob struct {
	*actionJob
	sim *testEnv
}

func newSimJob(t *testing.T, inputs map[string]string) simJob {
	t.Helper()
	t.Parallel()
	sim := startSimulator(t, "--task-duration", "0s", "--boot-delay", "0s")
	inputs["program"], inputs["node-count"] = filepath.Join(sim.bin, "hive-test"), "1"
	j := newJob(t, sim.dir, inputs)
	for name, value := range map[string]string{
		"HOME": filepath.Join(sim.dir, "home"), "XDG_CACHE_HOME": filepath.Join(sim.dir, "cache"),
		"GOGC":                   os.Getenv("GOGC"),
		"HIVE_TEST_CLUSTERS_DIR": sim.clusters(), "HIVE_TEST_SIM": "true", "HIVE_TEST_DEPLOYER": "simhosts",
		"HIVE_TEST_TOFU_BIN": sim.tofu,
	} {
		j.env[name] = value
	}
	if err := os.MkdirAll(j.env["HOME"], 0o700); err != nil {
		t.Fatal(err)
	}
	return simJob{j, sim}
}

// noVMs fails the test if Proxmox VE has one.
func (j simJob) noVMs() {
	j.Helper()
	var listed struct{ Data []struct{ Name string } }
	if err := json.Unmarshal(j.sim.must("GET", "/cluster/resources?type=vm"), &listed); err != nil {
		j.Fatal(err)
	}
	if len(listed.Data) > 0 {
		j.Errorf("VMs are left: %v", listed.Data)
	}
}

// expect compares how the job went: how its steps ended, and some of its outputs.
func (j *actionJob) expect(outputs map[string]string, steps, wanted map[string]string) {
	j.Helper()
	for name, end := range steps {
		if j.ran[name] != end {
			j.Errorf("step %s: %q, not %q", name, j.ran[name], end)
		}
	}
	for name, value := range wanted {
		if outputs[name] != value {
			j.Errorf("output %s: %q, not %q", name, outputs[name], value)
		}
	}
	if j.Failed() {
		j.Logf("the job's log:\n%s\nits summary:\n%s", j.log.String(), j.summary)
	}
}

// uploaded fails the test if what was uploaded lacks one of these files of the run.
func (j *actionJob) uploaded(name string, files ...string) {
	j.Helper()
	results := filepath.Join(j.workspace, "hive-test-results")
	if len(j.uploads) != 1 || j.uploads[0]["name"] != "hive-test-"+name || j.uploads[0]["path"] != results {
		j.Errorf("uploaded: %v", j.uploads)
	}
	for _, file := range files {
		if found, _ := filepath.Glob(filepath.Join(results, file)); len(found) != 1 {
			j.Errorf("of %s there are %q", file, found)
		}
	}
}

func TestActionPasses(t *testing.T) {
	j := newSimJob(t, map[string]string{"suites": "smoke\necho \"as one  command\" | tee $ARTIFACTS/said\n"})
	outputs := j.run()
	j.expect(outputs, map[string]string{
		"hive-test full": "passed", "hive-test reap": "passed", "report": "passed", "upload results": "passed",
	}, map[string]string{"result": "passed", "exit-code": "0", "name": "ci-4711-2"})
	j.uploaded("ci-4711-2", "junit.xml", "ci-4711-2/*-full/report.json", "ci-4711-2/*-full/suites/*/said")
	if strings.Count(j.summary, "ci-4711-2: passed") != 1 {
		t.Errorf("the job summary:\n%s", j.summary)
	}
	if _, err := os.Stat(outputs["report"]); err != nil || filepath.Base(outputs["report"]) != "report.html" {
		t.Errorf("the report %q: %v", outputs["report"], err)
	}
	j.noVMs()
}

func TestActionFails(t *testing.T) {
	j := newSimJob(t, map[string]string{
		"suites": `printf '::set-output name=x::y\n::error::no\n'; exit 3`, "args": "-v",
	})
	j.expect(j.run(), map[string]string{
		"hive-test full": "failed", "hive-test reap": "passed", "report": "passed", "upload results": "passed",
	}, map[string]string{"result": "failed", "exit-code": "6"})
	j.uploaded("ci-4711-2", "junit.xml", "ci-4711-2/*-full/report.json")
	log := j.log.String()
	if !strings.Contains(log, "\n::error title=") || !strings.Contains(log, "::set-output name=x::y") ||
		strings.Contains(log, "\n::set-output") || strings.Contains(log, "\n::error::no") {
		t.Errorf("the log:\n%s", log)
	}
	if strings.Count(j.summary, "ci-4711-2: failed") != 1 {
		t.Errorf("the job summary:\n%s", j.summary)
	}
	j.noVMs()
}

// A job is cancelled while a suite runs: hive-test has the time to destroy the cluster itself.
func TestActionIsCancelled(t *testing.T) {
	j := newSimJob(t, map[string]string{"suites": "touch started; exec sleep 60"})
	j.cancel = map[string]func() bool{"hive-test full": j.exists("started")}
	j.expect(j.run(), map[string]string{
		"hive-test full": "cancelled", "hive-test reap": "passed", "report": "passed", "upload results": "passed",
	}, map[string]string{"result": "interrupted", "exit-code": "130"})
	// A busy machine may need longer than the runner waits before it says so again.
	if told := []string{"interrupt", "terminated"}; len(j.signals) == 0 || len(j.signals) > 2 ||
		!slices.Equal(j.signals, told[:len(j.signals)]) {
		t.Errorf("signals: %v", j.signals)
	}
	j.uploaded("ci-4711-2", "junit.xml", "ci-4711-2/*-full/report.json")
	j.noVMs()
}

// slowStop makes the next stopping of a VM take longer than the runner waits.
const slowStop = `[{"path": "/nodes/*/qemu/*/status/stop", "method": "POST", "nth": 1, "delay": "20s"}]`

// Proxmox VE takes longer to delete VMs than the runner waits: what hive-test leaves, reap deletes.
func TestActionIsCancelledAndKilled(t *testing.T) {
	soak(t)
	j := newSimJob(t, map[string]string{"suites": "touch started; exec sleep 60"})
	started := j.exists("started")
	j.cancel = map[string]func() bool{"hive-test full": func() bool {
		if !started() {
			return false
		}
		j.sim.must("POST", "/sim/faults", slowStop)
		return true
	}}
	j.expect(j.run(), map[string]string{
		"hive-test full": "cancelled", "hive-test reap": "passed", "report": "passed", "upload results": "passed",
	}, map[string]string{})
	if len(j.signals) < 2 {
		t.Errorf("signals: %v", j.signals)
	}
	if !strings.Contains(j.log.String(), "1 VM deleted, 0 failed") {
		t.Errorf("reap has deleted nothing:\n%s", j.log.String())
	}
	j.uploaded("ci-4711-2", "ci-4711-2/*-full/events.jsonl")
	if !strings.Contains(j.summary, "ci-4711-2") {
		t.Errorf("the job summary:\n%s", j.summary)
	}
	j.noVMs()
}

// exists reports whether a file of the workspace is there.
func (j *actionJob) exists(name string) func() bool {
	return func() bool {
		_, err := os.Stat(filepath.Join(j.workspace, name))
		return err == nil
	}
}

// fakeHiveTest stands in for hive-test where only is looked at how it is called: it prints its arguments.
const fakeHiveTest = "#!/bin/sh\nprintf '<%s>' \"$0\" \"$@\" | sed 's|^<[^>]*/|<|'; echo\n"

func newFakeJob(t *testing.T, inputs map[string]string) *actionJob {
	t.Helper()
	dir := t.TempDir()
	writeProgram(t, filepath.Join(dir, "bin", "hive-test"), []byte(fakeHiveTest))
	if _, given := inputs["program"]; !given {
		inputs["program"] = filepath.Join(dir, "bin", "hive-test")
	}
	return newJob(t, dir, inputs)
}

func TestActionPassesInputsAsTheyAre(t *testing.T) {
	j := newFakeJob(t, map[string]string{
		"name": "ci-1", "node-count": "$(touch injected)", "source-dir": "a b;touch injected",
		"results": "out $(touch injected)", "suites": "  smoke\n\n./e2e.sh \"$HOME\" '*'\n",
		"args": "--sim\n\n--suite-env A=b c\n--timeout-up=5m\n--config \"$(touch injected)\"\n-v",
	})
	outputs := j.run()
	results := filepath.Join(j.workspace, "out $(touch injected)")
	wanted := "<hive-test><full><ci-1><--evidence-dir=" + results + "><--junit=" + results + "/junit.xml>" +
		"<--node-count=$(touch injected)><--source-dir=a b;touch injected><--suite=smoke>" +
		`<--suite=./e2e.sh "$HOME" '*'><--sim><--suite-env=A=b c><--timeout-up=5m><--config="$(touch injected)"><-v>`
	if log := j.log.String(); !strings.Contains(log, wanted) || !strings.Contains(log, "<hive-test><reap><--yes><ci-1>") {
		t.Errorf("the log:\n%s\ndoes not have %s", log, wanted)
	}
	if outputs["results"] != results || j.exists("injected")() {
		t.Errorf("results: %s, injected: %v", outputs["results"], j.exists("injected")())
	}
}

// What is seen from the workspace is found by all steps, wherever they run: the program, clusters of the job's environment,
// and in them the run that was killed.
func TestActionWorksInADirectory(t *testing.T) {
	for _, clusters := range []string{"kept/clusters", "~/kept/clusters"} {
		j := newFakeJob(t, map[string]string{"program": "tools/hive-test", "working-directory": "source"})
		absolute := filepath.Join(j.workspace, "kept", "clusters")
		if strings.HasPrefix(clusters, "~") {
			j.env["HOME"] = j.workspace
		}
		j.env["HIVE_TEST_CLUSTERS_DIR"] = clusters
		writeProgram(t, filepath.Join(j.workspace, "tools", "hive-test"), []byte(`#!/bin/sh
echo "$1 in ${PWD##*/} with $HIVE_TEST_CLUSTERS_DIR"
[ "$1" != full ] || { mkdir -p "$HIVE_TEST_CLUSTERS_DIR/.runs/$2/1-full" && exit 137; }
[ "$1" != report ] || echo "the report of $2"
`))
		if err := os.MkdirAll(filepath.Join(j.workspace, "source"), 0o700); err != nil {
			t.Fatal(err)
		}
		j.expect(j.run(), map[string]string{
			"install hive-test": "passed", "hive-test full": "failed", "hive-test reap": "passed", "report": "passed",
		}, map[string]string{"result": "killed", "results": filepath.Join(j.workspace, "source", "hive-test-results")})
		for _, verb := range []string{"full", "reap"} {
			if line := verb + " in source with " + absolute + "\n"; !strings.Contains(j.log.String(), line) {
				t.Errorf("%s: there is no %q in the log:\n%s", clusters, line, j.log.String())
			}
		}
		if want := "report in source with " + absolute + "\nthe report of ci-4711-2\n"; j.summary != want {
			t.Errorf("%s: the job summary is %q", clusters, j.summary)
		}
		if _, err := os.Stat(filepath.Join(j.workspace, "source", "hive-test-results", "ci-4711-2", "1-full")); err != nil {
			t.Error(err)
		}
	}
}

func TestActionsNames(t *testing.T) {
	j := newFakeJob(t, map[string]string{"reap": "false"})
	j.contexts["strategy"] = map[string]string{"job-index": "1", "job-total": "3"}
	j.expect(j.run(), map[string]string{"hive-test reap": "skipped"}, map[string]string{
		"name": "ci-4711-2-1", "result": "failed",
	})

	for _, name := range []string{"../up", "$(touch injected)", "a\nname=b", "A", "-a", strings.Repeat("a", 41)} {
		j := newFakeJob(t, map[string]string{"name": name})
		j.expect(j.run(), map[string]string{
			"prepare": "failed", "hive-test full": "skipped", "hive-test reap": "skipped", "report": "skipped",
			"upload results": "skipped",
		}, nil)
		if !strings.Contains(j.log.String(), "::error::name: ") || j.exists("injected")() {
			t.Errorf("%q:\n%s", name, j.log.String())
		}
	}
}

// A release is installed only if it is the one whose sum was given.
func TestActionInstallsARelease(t *testing.T) {
	var archive bytes.Buffer
	zipped := gzip.NewWriter(&archive)
	packed := tar.NewWriter(zipped)
	err := packed.WriteHeader(&tar.Header{Name: "hive-test", Mode: 0o755, Size: int64(len(fakeHiveTest))})
	if err == nil {
		_, err = packed.Write([]byte(fakeHiveTest))
	}
	if err != nil || packed.Close() != nil || zipped.Close() != nil {
		t.Fatal(err)
	}
	path := "/download/v1.2.3/hive-test_1.2.3_" + runtime.GOOS + "_" + runtime.GOARCH + ".tar.gz"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != path {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(archive.Bytes())
	}))
	t.Cleanup(server.Close)
	right := fmt.Sprintf("%x", sha256.Sum256(archive.Bytes()))

	for _, c := range []struct{ version, sum, end, log string }{
		{"v1.2.3", right, "passed", "<hive-test><full><ci-4711-2>"},
		{"v1.2.3", strings.Repeat("0", 64), "failed", "another SHA-256, " + right + ", and was not unpacked"},
		{"v1.2.4", right, "failed", "could not be downloaded"},
		{"v1.2.3", "", "failed", "needs release-url and sha256"},
	} {
		j := newFakeJob(t, map[string]string{
			"program": "", "version": c.version, "sha256": c.sum, "release-url": server.URL + "/download",
		})
		j.run()
		j.expect(nil, map[string]string{"install hive-test": c.end}, nil)
		if !strings.Contains(j.log.String(), c.log) {
			t.Errorf("%+v:\n%s", c, j.log.String())
		}
		_, err := os.Stat(filepath.Join(j.temp, "hive-test", "bin", "hive-test"))
		if installed := err == nil; installed != (c.end == "passed") {
			t.Errorf("%+v: installed: %v", c, installed)
		}
	}
}

// A checkout is built by its Makefile, and one that is named is found on PATH.
func TestActionBuilds(t *testing.T) {
	dir := t.TempDir()
	writeProgram(t, filepath.Join(dir, "hive-test.sh"), []byte(fakeHiveTest))
	makefile := "build:\n\tmkdir -p bin && cp hive-test.sh bin/hive-test\n"
	if err := os.WriteFile(filepath.Join(dir, "Makefile"), []byte(makefile), 0o600); err != nil {
		t.Fatal(err)
	}
	j := newFakeJob(t, map[string]string{"program": "", "build": dir})
	j.run()
	j.expect(nil, map[string]string{"install hive-test": "passed", "hive-test full": "passed"}, nil)
	if !slices.Contains(j.path, filepath.Join(dir, "bin")) {
		t.Errorf("PATH gets %v", j.path)
	}

	j = newFakeJob(t, map[string]string{"program": "", "build": "own", "working-directory": "source"})
	for _, made := range []string{filepath.Join(j.workspace, "source"), filepath.Join(j.workspace, "own")} {
		if err := os.MkdirAll(made, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"Makefile", "hive-test.sh"} {
		if err := os.Link(filepath.Join(dir, name), filepath.Join(j.workspace, "own", name)); err != nil {
			t.Fatal(err)
		}
	}
	j.run()
	j.expect(nil, map[string]string{"install hive-test": "passed", "hive-test full": "passed"}, nil)

	j = newFakeJob(t, map[string]string{"program": "hive-test-of-nobody"})
	j.run()
	j.expect(nil, map[string]string{"install hive-test": "failed", "hive-test reap": "skipped", "report": "skipped"}, nil)
}
