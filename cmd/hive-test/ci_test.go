package main_test

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// blocks are the texts of a page that are of a language.
func blocks(page, language string) []string {
	var found []string
	for _, block := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(page, -1) {
		found = append(found, block[1])
	}
	return found
}

// What pages show of the action, of the workflow and of the template is what those know.
func TestPagesShowCIAsItIs(t *testing.T) {
	a := readAction(t)
	workflow := workflowInputs(t)
	shown := map[string]int{}
	for _, name := range []string{"README.md", "docs/ci.md"} {
		for _, block := range blocks(page(t, name), "yaml") {
			var document any
			if err := yaml.Unmarshal([]byte(block), &document); err != nil {
				t.Errorf("%s: %v:\n%s", name, err, block)
			}
			eachUse(document, func(uses string, with map[string]any) {
				var known []string
				switch {
				case strings.Contains(uses, "/.github/actions/hive-test@"):
					known = slices.Collect(maps.Keys(a.Inputs))
				case strings.Contains(uses, "/.github/workflows/cluster.yml@"):
					known = workflow
				default:
					return
				}
				shown[uses]++
				for input := range with {
					if !slices.Contains(known, input) {
						t.Errorf("%s gives %s the input %s, which it does not have", name, uses, input)
					}
				}
			})
		}
	}
	if len(shown) != 2 {
		t.Errorf("shown are %v", shown)
	}
	ci := page(t, "docs/ci.md")
	for name := range a.Inputs {
		if !regexp.MustCompile("(?m)^\\| [^|]*`" + name + "`[^|]* \\|").MatchString(ci) {
			t.Errorf("docs/ci.md does not list the input %s", name)
		}
	}
	for name := range a.Outputs {
		if !strings.Contains(ci, "`"+name+"`") {
			t.Errorf("docs/ci.md does not name the output %s", name)
		}
	}
}

// workflowInputs are those of the workflow that others call.
func workflowInputs(t *testing.T) []string {
	t.Helper()
	var workflow struct {
		On struct {
			WorkflowCall struct {
				Inputs map[string]any `yaml:"inputs"`
			} `yaml:"workflow_call"`
		} `yaml:"on"`
	}
	if err := yaml.Unmarshal([]byte(page(t, ".github/workflows/cluster.yml")), &workflow); err != nil {
		t.Fatal(err)
	}
	return slices.Collect(maps.Keys(workflow.On.WorkflowCall.Inputs))
}

// eachUse calls f with all that a document uses.
func eachUse(document any, f func(uses string, with map[string]any)) {
	switch d := document.(type) {
	case []any:
		for _, element := range d {
			eachUse(element, f)
		}
	case map[string]any:
		if uses, is := d["uses"].(string); is {
			with, _ := d["with"].(map[string]any)
			f(uses, with)
		}
		for _, element := range d {
			eachUse(element, f)
		}
	}
}

// gitlabJob is the part of GitLab's template that runs.
type gitlabJob struct {
	Interruptible bool              `yaml:"interruptible"`
	Timeout       string            `yaml:"timeout"`
	Variables     map[string]string `yaml:"variables"`
	Script        []string          `yaml:"script"`
	AfterScript   []string          `yaml:"after_script"`
	Artifacts     struct {
		Name     string            `yaml:"name"`
		When     string            `yaml:"when"`
		ExposeAs string            `yaml:"expose_as"`
		Paths    []string          `yaml:"paths"`
		Reports  map[string]string `yaml:"reports"`
	} `yaml:"artifacts"`
}

// GitLab's job makes a cluster whose name is the job's own, and one that is cancelled leaves nothing but results.
func TestGitLabJobIsCancelled(t *testing.T) {
	var template map[string]gitlabJob
	decoder := yaml.NewDecoder(strings.NewReader(page(t, ".ci/gitlab.yml")))
	decoder.KnownFields(true)
	if err := decoder.Decode(&template); err != nil {
		t.Fatal(err)
	}
	job := template[".hive-test"]
	// expose_as has no effect on paths with variables or wildcards.
	paths := strings.Join(job.Artifacts.Paths, "")
	if !job.Interruptible || job.Artifacts.When != "always" || strings.ContainsAny(paths, "$*") {
		t.Errorf("%+v", job)
	}
	s := newShellJob(t)
	maps.Copy(s.env, map[string]string{"CI_PIPELINE_ID": "17", "CI_JOB_ID": "4", "CI_PROJECT_DIR": s.dir})
	for name, value := range job.Variables {
		s.env[name] = os.Expand(value, func(name string) string { return s.env[name] })
	}
	s.env["HIVE_TEST_CLUSTERS_DIR"] = s.sim.clusters() // where the simulator is
	delete(s.env, "HIVE_TEST_SOURCE_DIR")
	// Runners of GitLab signal the group of processes of a script.
	if _, code := s.cut("set -eo pipefail\n"+strings.Join(job.Script, "\n"), true); code == 0 {
		t.Errorf("the script ended with %d", code)
	}
	log, _ := s.run("set -eo pipefail\n" + strings.Join(job.AfterScript[:2], "\n"))
	if !strings.Contains(log, "no VMs of cluster ci-17-4 found") {
		t.Errorf("after_script:\n%s", log)
	}
	for _, name := range []string{job.Artifacts.Reports["junit"], job.Artifacts.Paths[0] + "ci-17-4"} {
		if _, err := os.Stat(filepath.Join(s.dir, name)); err != nil {
			t.Error(err)
		}
	}
	s.noVMs()
}

// The script for any other CI, told to stop alone, stops hive-test, and ends with its code.
func TestShellRecipeIsStopped(t *testing.T) {
	soak(t)
	recipe := blocks(page(t, "docs/ci.md"), "bash")
	if len(recipe) != 1 {
		t.Fatalf("docs/ci.md has %d scripts", len(recipe))
	}
	parseBash(t, "docs/ci.md", recipe[0])
	s := newShellJob(t)
	s.env["BUILD_NUMBER"] = "9"
	log, code := s.cut(recipe[0], false)
	if code != 143 || !strings.Contains(log, "no VMs of cluster ci-9 found") {
		t.Errorf("code %d:\n%s", code, log)
	}
	if _, err := os.Stat(filepath.Join(s.dir, "results", "junit.xml")); err != nil {
		t.Error(err)
	}
	s.noVMs()

	s.env["HIVE_TEST_SUITE"] = "exit 1"
	if log, code := s.run(recipe[0]); code != 6 {
		t.Errorf("code %d of a suite that fails:\n%s", code, log)
	}
}

// shellJob runs scripts by bash, on a simulated Proxmox VE.
type shellJob struct {
	simJob
	dir string
}

func newShellJob(t *testing.T) shellJob {
	t.Helper()
	j := newSimJob(t, map[string]string{})
	j.env["HIVE_TEST_SUITE"], j.env["HIVE_TEST_NODE_COUNT"] = "touch started; exec sleep 60", "1"
	j.env["PATH"] = j.sim.bin + ":" + os.Getenv("PATH")
	return shellJob{j, j.workspace}
}

func (s shellJob) command(script string) (*exec.Cmd, *lockedBuffer) {
	command := exec.Command("bash", "-c", script)
	command.Dir, command.SysProcAttr = s.dir, &syscall.SysProcAttr{Setpgid: true}
	command.Env = plainEnviron()
	for name, value := range s.env {
		command.Env = append(command.Env, name+"="+value)
	}
	var log lockedBuffer
	command.Stdout, command.Stderr = &log, &log
	command.WaitDelay = 5 * time.Second
	return command, &log
}

// run runs a script, and returns what it has printed and its exit code.
func (s shellJob) run(script string) (string, int) {
	s.Helper()
	command, log := s.command(script)
	if err := command.Run(); command.ProcessState == nil {
		s.Fatal(err)
	}
	return log.String(), command.ProcessState.ExitCode()
}

// cut runs a script, and tells it, or its whole group of processes, to stop when the suite runs.
func (s shellJob) cut(script string, group bool) (string, int) {
	s.Helper()
	command, log := s.command(script)
	if err := command.Start(); err != nil {
		s.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = command.Wait() }()
	for started := s.exists("started"); !started(); {
		select {
		case <-ended:
			s.Fatalf("the script ended too soon:\n%s", log.String())
		case <-time.After(20 * time.Millisecond):
		}
	}
	pid := command.Process.Pid
	if group {
		pid = -pid
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		s.Error(err)
	}
	<-ended
	return log.String(), command.ProcessState.ExitCode()
}

// Templates and scripts of the repository are YAML and bash that can be read.
func TestCIFilesCanBeRead(t *testing.T) {
	raw, err := os.ReadFile("../../.ci/run")
	if err != nil {
		t.Fatal(err)
	}
	parseBash(t, ".ci/run", string(raw))
	for _, pattern := range []string{"../../.ci/*.y*ml", "../../.github/workflows/*.yml"} {
		files, _ := filepath.Glob(pattern)
		if len(files) == 0 {
			t.Errorf("there is no %s", pattern)
		}
		for _, file := range files {
			raw, err := os.ReadFile(file)
			if err == nil {
				err = yaml.NewDecoder(bytes.NewReader(raw)).Decode(new(any))
			}
			if err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
}

// The action installs what releases are made of, and they tell their version. (`make snapshot` makes one.)
func TestReleasesAreWhatTheActionInstalls(t *testing.T) {
	var release struct {
		Builds []struct {
			Binary  string   `yaml:"binary"`
			LDFlags []string `yaml:"ldflags"`
		} `yaml:"builds"`
		Archives []struct {
			Formats []string `yaml:"formats"`
			Name    string   `yaml:"name_template"`
			Wrap    bool     `yaml:"wrap_in_directory"`
		} `yaml:"archives"`
	}
	if err := yaml.Unmarshal([]byte(page(t, ".ci/goreleaser.yaml")), &release); err != nil {
		t.Fatal(err)
	}
	install := readAction(t).Runs.Steps[1].Run
	if a := release.Archives[0]; a.Name != "{{ .ProjectName }}_{{ .Version }}_{{ .Os }}_{{ .Arch }}" || a.Wrap ||
		!slices.Equal(a.Formats, []string{"tar.gz"}) ||
		!strings.Contains(install, "hive-test_${INPUT_VERSION#v}_${os}_$arch.tar.gz") {
		t.Errorf("the archives are %+v", a)
	}
	image := page(t, ".ci/Dockerfile")
	for _, b := range release.Builds {
		if !strings.Contains(image, "$TARGETPLATFORM/"+b.Binary+" ") {
			t.Errorf("the image lacks %s", b.Binary)
		}
		if !slices.ContainsFunc(b.LDFlags, func(f string) bool {
			return strings.Contains(f, "-X hive-test/pkg/cli.version={{ .Version }}")
		}) {
			t.Errorf("%s does not get its version", b.Binary)
		}
	}
	if len(release.Builds) != 3 {
		t.Errorf("%d programs are built", len(release.Builds))
	}
}
