package main_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rhysd/actionlint"
	"go.yaml.in/yaml/v3"
)

// actionFile is the composite action, from the directory of the tests.
const actionFile = "../../.github/actions/hive-test/action.yml"

// action is what GitHub documents that the file of a composite action has, as far as ours uses it.
type action struct {
	Name        string                  `yaml:"name"`
	Description string                  `yaml:"description"`
	Inputs      map[string]actionInput  `yaml:"inputs"`
	Outputs     map[string]actionOutput `yaml:"outputs"`
	Runs        struct {
		Using string       `yaml:"using"`
		Steps []actionStep `yaml:"steps"`
	} `yaml:"runs"`
}

type actionInput struct {
	Description string `yaml:"description"`
	Default     string `yaml:"default"`
}

type actionOutput struct {
	Description string `yaml:"description"`
	Value       string `yaml:"value"`
}

type actionStep struct {
	Name  string            `yaml:"name,omitempty"`
	ID    string            `yaml:"id,omitempty"`
	If    string            `yaml:"if,omitempty"`
	Shell string            `yaml:"shell,omitempty"`
	Dir   string            `yaml:"working-directory,omitempty"`
	Env   map[string]string `yaml:"env,omitempty"`
	Run   string            `yaml:"run,omitempty"`
	Uses  string            `yaml:"uses,omitempty"`
	With  map[string]string `yaml:"with,omitempty"`
}

// readAction reads the action's file, in which nothing else may be.
func readAction(t testing.TB) action {
	t.Helper()
	raw, err := os.ReadFile(actionFile)
	if err != nil {
		t.Fatal(err)
	}
	var a action
	decoder := yaml.NewDecoder(bytes.NewReader(raw))
	decoder.KnownFields(true)
	if err := decoder.Decode(&a); err != nil {
		t.Fatal(err)
	}
	return a
}

// actionJob is a job that runs the action's steps as GitHub's runner does: each script by bash, with files for what it
// tells; of a step that fails, the job's others are left out but for those that always run; a step that is cancelled is
// told so as the documentation of workflow cancellation says.
type actionJob struct {
	testing.TB
	action    action
	inputs    map[string]string
	contexts  map[string]map[string]string // github, strategy
	workspace string
	temp      string // RUNNER_TEMP
	env       map[string]string
	path      []string
	// cancel tells, while a step runs, when it is to be cancelled; nil: never.
	cancel map[string]func() bool

	failed, cancelled bool
	steps             map[string]map[string]string // outputs, by the id of the step
	ran               map[string]string            // how each step ended, by its name
	uploads           []map[string]string          // what upload-artifact was called with
	summary           string
	log               lockedBuffer
	signals           []string // that were needed to cancel
}

// lockedBuffer is what processes print, read while they do.
type lockedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

// newJob is a job with these inputs, whose runner's files are below dir.
func newJob(t testing.TB, dir string, inputs map[string]string) *actionJob {
	t.Helper()
	absolute, err := filepath.Abs(filepath.Dir(actionFile))
	if err != nil {
		t.Fatal(err)
	}
	j := &actionJob{
		TB: t, action: readAction(t), inputs: map[string]string{},
		contexts: map[string]map[string]string{
			"github": {"action_path": absolute}, "strategy": {"job-index": "0", "job-total": "1"},
		},
		workspace: filepath.Join(dir, "workspace"), temp: filepath.Join(dir, "runner"),
		steps: map[string]map[string]string{}, ran: map[string]string{},
	}
	for name, input := range j.action.Inputs {
		j.inputs[name] = input.Default
	}
	for name, value := range inputs {
		if _, known := j.inputs[name]; !known {
			t.Fatalf("the action has no input %s", name)
		}
		j.inputs[name] = value
	}
	for _, made := range []string{j.workspace, j.temp} {
		if err := os.MkdirAll(made, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	j.env = map[string]string{
		"CI": "true", "GITHUB_ACTIONS": "true", "GITHUB_RUN_ID": "4711", "GITHUB_RUN_ATTEMPT": "2",
		"GITHUB_WORKSPACE": j.workspace, "GITHUB_ACTION_PATH": absolute, "RUNNER_TEMP": j.temp, "RUNNER_OS": "Linux",
	}
	return j
}

// run runs all steps, and returns the action's outputs.
func (j *actionJob) run() map[string]string {
	j.Helper()
	for _, step := range j.action.Runs.Steps {
		if j.due(step) {
			j.step(step)
		} else {
			j.ran[step.Name] = "skipped"
		}
	}
	outputs := map[string]string{}
	for name, output := range j.action.Outputs {
		outputs[name] = j.expand(output.Value)
	}
	return outputs
}

// due reports whether a step is to run: one without a status function in its condition only when all is well.
func (j *actionJob) due(step actionStep) bool {
	j.Helper()
	well := !j.failed && !j.cancelled
	switch {
	case step.If == "":
		return well
	case !strings.Contains(step.If, "always()"):
		return well && isTrue(j.evaluate(step.If))
	}
	return isTrue(j.evaluate(step.If))
}

// step runs a step, and notes how it ended.
func (j *actionJob) step(step actionStep) {
	j.Helper()
	end := "passed"
	switch {
	case strings.HasPrefix(step.Uses, "actions/upload-artifact@"):
		with := map[string]string{}
		for name, value := range step.With {
			with[name] = j.expand(value)
		}
		j.uploads = append(j.uploads, with)
	case step.Uses != "":
		j.Fatalf("step %s uses %s, which this runner does not know", step.Name, step.Uses)
	case step.Shell != "bash":
		j.Fatalf("step %s has the shell %q, which this runner does not know", step.Name, step.Shell)
	default:
		end = j.script(step)
	}
	j.ran[step.Name] = end
	switch end {
	case "failed":
		j.failed = true
	case "cancelled":
		j.cancelled = true
	}
}

// script runs the script of a step, and takes what it has written into the runner's files.
func (j *actionJob) script(step actionStep) string {
	j.Helper()
	files := map[string]string{}
	for _, name := range []string{"GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_PATH", "GITHUB_STEP_SUMMARY"} {
		files[name] = filepath.Join(j.temp, fmt.Sprintf("%s_%d", strings.ToLower(name), len(j.ran)))
		if err := os.WriteFile(files[name], nil, 0o600); err != nil {
			j.Fatal(err)
		}
	}
	path := filepath.Join(j.temp, fmt.Sprintf("%d.sh", len(j.ran)))
	if err := os.WriteFile(path, []byte(j.expand(step.Run)), 0o600); err != nil {
		j.Fatal(err)
	}
	command := exec.Command("bash", "--noprofile", "--norc", "-e", "-o", "pipefail", path)
	command.Dir, command.Stdout, command.Stderr = filepath.Join(j.workspace, j.expand(step.Dir)), &j.log, &j.log
	command.WaitDelay = 5 * time.Second
	command.Env = j.environ(step, files)
	fmt.Fprintf(&j.log, "--- %s\n", step.Name)
	err := j.wait(command, j.cancel[step.Name])
	j.take(step, files)
	switch exit, _ := errors.AsType[*exec.ExitError](err); {
	case j.signals != nil && !j.cancelled:
		return "cancelled"
	case exit != nil:
		fmt.Fprintf(&j.log, "--- %s: %v\n", step.Name, err)
		return "failed"
	case err != nil:
		j.Fatalf("step %s: %v", step.Name, err)
	}
	return "passed"
}

// environ is the environment of a step: the job's, the step's own, and the runner's files.
func (j *actionJob) environ(step actionStep, files map[string]string) []string {
	all := maps.Clone(j.env)
	for name, value := range step.Env {
		all[name] = j.expand(value)
	}
	maps.Copy(all, files)
	all["PATH"] = strings.Join(append(slices.Clone(j.path), cmp.Or(all["PATH"], os.Getenv("PATH"))), ":")
	environ := plainEnviron()
	for name, value := range all {
		environ = append(environ, name+"="+value)
	}
	return environ
}

// take reads what a step has written into the runner's files.
func (j *actionJob) take(step actionStep, files map[string]string) {
	j.Helper()
	read := func(name string) string {
		raw, err := os.ReadFile(files[name])
		if err != nil {
			j.Fatal(err)
		}
		return string(raw)
	}
	pairs := func(name string, into map[string]string) {
		for line := range strings.Lines(read(name)) {
			key, value, found := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
			if !found {
				j.Fatalf("step %s has written to %s: %q", step.Name, name, line)
			}
			into[key] = value
		}
	}
	outputs := map[string]string{}
	pairs("GITHUB_OUTPUT", outputs)
	if step.ID != "" {
		j.steps[step.ID] = outputs
	}
	pairs("GITHUB_ENV", j.env)
	for line := range strings.Lines(read("GITHUB_PATH")) {
		j.path = slices.Insert(j.path, 0, strings.TrimSpace(line))
	}
	j.summary += read("GITHUB_STEP_SUMMARY")
}

// Times that the runner gives the first process of a step that is cancelled, after INT and after TERM.
const (
	afterINT  = 7500 * time.Millisecond
	afterTERM = 2500 * time.Millisecond
)

// wait runs a command to its end, or, when it is to be cancelled, ends it as the runner does: INT and TERM go to its
// first process alone, then all is killed that it has started.
func (j *actionJob) wait(command *exec.Cmd, cancel func() bool) error {
	j.Helper()
	if err := command.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	for cancel != nil && !cancel() {
		select {
		case err := <-ended:
			j.Fatalf("the step ended before it was to be cancelled: %v\n%s", err, j.log.String())
		case <-time.After(20 * time.Millisecond):
		}
	}
	if cancel == nil {
		return <-ended
	}
	for _, told := range []struct {
		signal syscall.Signal
		within time.Duration
	}{{syscall.SIGINT, afterINT}, {syscall.SIGTERM, afterTERM}} {
		j.signals = append(j.signals, told.signal.String())
		_ = command.Process.Signal(told.signal)
		select {
		case err := <-ended:
			return err
		case <-time.After(told.within):
		}
	}
	j.signals = append(j.signals, syscall.SIGKILL.String())
	for _, pid := range append(descendants(command.Process.Pid), command.Process.Pid) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	return <-ended
}

// expand replaces the expressions of a text by their values.
func (j *actionJob) expand(text string) string {
	j.Helper()
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(text, "${{")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		expression, after, ended := strings.Cut(rest, "}}")
		if !ended {
			j.Fatalf("an expression does not end: %s", text)
		}
		out.WriteString(j.evaluate(expression))
		text = after
	}
}

// evaluate is the value of an expression as text. What the action does not need is refused.
func (j *actionJob) evaluate(expression string) string {
	j.Helper()
	node, err := actionlint.NewExprParser().Parse(actionlint.NewExprLexer(strings.TrimSpace(expression) + "}}"))
	if err != nil {
		j.Fatalf("%s: %v", expression, err)
	}
	value, valueErr := j.value(node)
	if valueErr != nil {
		j.Fatalf("%s: %v", expression, valueErr)
	}
	return value
}

func (j *actionJob) value(node actionlint.ExprNode) (string, error) {
	switch n := node.(type) {
	case *actionlint.StringNode:
		return n.Value, nil
	case *actionlint.FuncCallNode:
		if n.Callee == "always" && len(n.Args) == 0 {
			return "true", nil
		}
		return "", fmt.Errorf("the function %s is not known", n.Callee)
	case *actionlint.LogicalOpNode:
		left, err := j.value(n.Left)
		if err != nil || n.Kind != actionlint.LogicalOpNodeKindAnd {
			return "", cmp.Or(err, errors.New("of the operators between conditions only && is known"))
		}
		if !isTrue(left) {
			return left, nil
		}
		return j.value(n.Right)
	case *actionlint.CompareOpNode:
		return j.compare(n)
	case *actionlint.ObjectDerefNode:
		return j.property(n)
	}
	return "", fmt.Errorf("%T is not known", node)
}

func (j *actionJob) compare(n *actionlint.CompareOpNode) (string, error) {
	left, err := j.value(n.Left)
	if err != nil {
		return "", err
	}
	right, err := j.value(n.Right)
	if err != nil {
		return "", err
	}
	switch n.Kind {
	case actionlint.CompareOpNodeKindEq:
		return fmt.Sprint(strings.EqualFold(left, right)), nil
	case actionlint.CompareOpNodeKindNotEq:
		return fmt.Sprint(!strings.EqualFold(left, right)), nil
	}
	return "", errors.New("of the comparisons only == and != are known")
}

// property is inputs.X, steps.X.outputs.Y or one of the other contexts that a job here has.
func (j *actionJob) property(n *actionlint.ObjectDerefNode) (string, error) {
	var path []string
	for node := actionlint.ExprNode(n); ; {
		switch at := node.(type) {
		case *actionlint.ObjectDerefNode:
			path, node = slices.Insert(path, 0, at.Property), at.Receiver
			continue
		case *actionlint.VariableNode:
			path = slices.Insert(path, 0, at.Name)
		default:
			return "", fmt.Errorf("%T is not known", node)
		}
		break
	}
	switch {
	case len(path) == 2 && path[0] == "inputs":
		if value, known := j.inputs[path[1]]; known {
			return value, nil
		}
	case len(path) == 4 && path[0] == "steps" && path[2] == "outputs":
		if slices.ContainsFunc(j.action.Runs.Steps, func(s actionStep) bool { return s.ID == path[1] }) {
			return j.steps[path[1]][path[3]], nil
		}
	case len(path) == 2:
		if value, known := j.contexts[path[0]][path[1]]; known {
			return value, nil
		}
	}
	return "", fmt.Errorf("%s is not known", strings.Join(path, "."))
}

// isTrue reports whether a value counts as true, as text.
func isTrue(value string) bool { return value != "" && value != "false" }
