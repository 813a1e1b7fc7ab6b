package config

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Suite is a suite that has a name in the file. Either Command or Path says what it runs.
type Suite struct {
	Name    string
	Command string // a line for the shell
	Path    string // a script, a directory whose executable files are run, or a pattern of such; usable from anywhere
	Results string // of what its cases are read, one of ResultKinds; empty: found out
	On      string // the node that it runs on, by name or number; empty: as --on says
	Dir     string // where it runs; empty: the working directory
	Env     []string
	Timeout time.Duration // 0: none of its own
	Retries int           // how often what failed is run again; -1: as the setting retries says
	Needs   Needs
	// Fault goes wrong on FaultNodes (none: all) while it runs, for FaultFor at most (0: as long as it may take).
	Fault      string
	FaultNodes []string
	FaultFor   time.Duration
}

// Needs are what a cluster must have for a suite to run on it.
type Needs struct {
	Nodes    int // at least
	KVM, OVN bool
}

// Quarantine are cases whose failures do not decide.
type Quarantine struct {
	Suite  string // empty: any
	Case   string // a name, in which * stands for anything and ? for one character
	Reason string
	Until  time.Time // the end of the day that was named; zero: for ever
}

// ResultKinds returns what cases of a suite can be read of.
func ResultKinds() []string { return []string{"command", "junit", "tap", "gotest"} }

// suiteName is what a suite may be called: part of the name of a directory, and no command line.
var suiteName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// templateName is what a layer, or a version of one, may be called; a VM id is of the same form.
var templateName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$`)

// suites reads a mapping of names to suites.
func (r *fileReader) suites(key string, node *yaml.Node) []Suite {
	if node.Kind != yaml.MappingNode {
		r.problem(node.Line, "%s: it must be a mapping of names to suites, not %s", key, describeNode(node))
		return nil
	}
	var list []Suite
	for i := 0; i+1 < len(node.Content); i += 2 {
		name, line := node.Content[i].Value, node.Content[i].Line
		switch known := func(s Suite) bool { return s.Name == name }; {
		case slices.Contains(BuiltinSuites(), name):
			r.problem(line, "%s: %s is a built-in suite: give this one another name", key, name)
		case !suiteName.MatchString(name):
			r.problem(line, "%s: %q is no name of a suite: letters, digits, dots, hyphens and underscores", key, name)
		case slices.ContainsFunc(list, known):
			r.problem(line, "%s: %s is there twice", key, name)
		default:
			list = append(list, r.suite(key+"."+name, name, node.Content[i+1]))
		}
	}
	return list
}

func (r *fileReader) suite(key, name string, node *yaml.Node) Suite {
	one := r.below([]Setting{
		{Key: "command", Kind: Text},
		{Key: "path", Kind: Text},
		{Key: "results", Kind: Text, OneOf: ResultKinds()},
		{Key: "on", Kind: Word},
		{Key: "dir", Kind: Text},
		{Key: "env", Kind: List, entry: checkVariable},
		{Key: "timeout", Kind: Duration},
		{Key: "retries", Kind: Int, Max: mostRetries},
		{Key: "fault", Kind: Text},
		{Key: "fault_nodes", Kind: List},
		{Key: "fault_for", Kind: Duration},
		{Key: "needs.nodes", Kind: Int, Max: 1000},
		{Key: "needs.kvm", Kind: Bool},
		{Key: "needs.ovn", Kind: Bool},
	}, node)
	s := Suite{
		Name: name, Command: valueOf[string](one, "command"), Path: valueOf[string](one, "path"),
		Results: valueOf[string](one, "results"), On: valueOf[string](one, "on"), Dir: valueOf[string](one, "dir"),
		Env: valueOf[[]string](one, "env"), Timeout: valueOf[time.Duration](one, "timeout"), Retries: -1,
		Needs: Needs{valueOf[int](one, "needs.nodes"), valueOf[bool](one, "needs.kvm"), valueOf[bool](one, "needs.ovn")},
		Fault: valueOf[string](one, "fault"), FaultNodes: valueOf[[]string](one, "fault_nodes"),
		FaultFor: valueOf[time.Duration](one, "fault_for"),
	}
	if s.Fault == "" && (len(s.FaultNodes) > 0 || s.FaultFor != 0) {
		r.problem(node.Line, "%s: fault_nodes and fault_for say of which nodes a fault is, and for how long: there is no fault", key)
	}
	if n, given := one.values["retries"].value.(int); given {
		s.Retries = n
	}
	if slices.Contains(BuiltinSuites(), s.Command) {
		r.problem(node.Line, "%s: %s is built in: --suite %s runs it", key, s.Command, s.Command)
	}
	if len(one.problems) == 0 && (strings.TrimSpace(s.Command) == "") == (s.Path == "") {
		r.problem(node.Line, "%s: it needs either command, a line for the shell, or path, a script or a directory of them", key)
	}
	s.Path, s.Dir = r.resolve(s.Path), r.resolve(s.Dir)
	return s
}

// resolve makes a path of the file usable from where the program runs.
func (r *fileReader) resolve(path string) string { return resolve(path, r.base, r.home) }

// quarantine reads a list of mappings.
func (r *fileReader) quarantine(key string, node *yaml.Node) []Quarantine {
	if node.Kind != yaml.SequenceNode {
		r.problem(node.Line, "%s: it must be a list of cases, each with case and reason, not %s", key, describeNode(node))
		return nil
	}
	var list []Quarantine
	for _, item := range node.Content {
		one := r.below([]Setting{
			{Key: "suite", Kind: Text}, {Key: "case", Kind: Text}, {Key: "reason", Kind: Text}, {Key: "until", Kind: Date},
		}, item)
		q := Quarantine{
			Suite: valueOf[string](one, "suite"), Case: valueOf[string](one, "case"), Reason: valueOf[string](one, "reason"),
			Until: valueOf[time.Time](one, "until"),
		}
		switch {
		case len(one.problems) > 0:
		case q.Case == "":
			r.problem(item.Line, "%s: it names no case", key)
		case strings.TrimSpace(q.Reason) == "":
			r.problem(item.Line, "%s: %s has no reason: say why its failures do not count", key, q.Case)
		default:
			list = append(list, q)
		}
	}
	return list
}

// mostRetries bounds how often what failed is run again.
const mostRetries = 100

// below reads a mapping that has keys of its own.
func (r *fileReader) below(table []Setting, node *yaml.Node) *fileReader {
	one := &fileReader{path: r.path, values: map[string]fileValue{}, table: table}
	one.mapping("", node)
	r.problems = append(r.problems, one.problems...)
	return one
}

// valueOf returns the value of a key; the zero value where it is not set.
func valueOf[T any](r *fileReader, key string) T {
	value, _ := r.values[key].value.(T)
	return value
}

func checkVariable(entry string) error {
	name, _, _ := strings.Cut(entry, "=")
	if name == "ARTIFACTS" || name == "ARTIFACT_DIR" {
		return fmt.Errorf("%s is where results of the suite are read from: only hive-test sets it", name)
	}
	if variablePattern.MatchString(entry) {
		return nil
	}
	return fmt.Errorf("%q is no name of a variable: give NAME or NAME=value", name)
}

func checkTemplate(text string) error {
	if !templateName.MatchString(text) {
		return fmt.Errorf("%q is neither the name of a template, like hive-dev, nor a VM id", text)
	}
	return nil
}

func checkPattern(text string) error {
	if _, err := regexp.Compile(text); err != nil {
		return fmt.Errorf("%q is no regular expression: %w", text, err)
	}
	return nil
}

// parseDate reads a day, and returns its end here.
func parseDate(text string) (time.Time, error) {
	day, err := time.ParseInLocation(time.DateOnly, text, time.Local)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is no date, like 2027-01-31", text)
	}
	return day.AddDate(0, 0, 1), nil
}

// structured reads a value of a kind that has keys of its own; found is false for other kinds.
func (r *fileReader) structured(s Setting, node *yaml.Node) (value any, found bool) {
	switch s.Kind {
	case Hypervisors:
		return r.hypervisors(s.Key, node), true
	case Suites:
		return r.suites(s.Key, node), true
	case QuarantineList:
		return r.quarantine(s.Key, node), true
	case Layers:
		return r.layers(s.Key, node), true
	case StateBackend:
		return r.state(s.Key, node), true
	case Credentials:
		return r.credentials(s.Key, node), true
	case EnvironmentList:
		return r.environments(s.Key, node), true
	case downloadList:
		return r.downloads(s.Key, node), true
	case layerFiles:
		return r.layerFiles(s.Key, node), true
	}
	return nil, false
}

// parseStructured reads the same as a program or a variable of the environment has it: as YAML, or JSON.
func (s Setting) parseStructured(text string) (any, error) {
	var document yaml.Node
	if err := yaml.NewDecoder(bytes.NewReader([]byte(text))).Decode(&document); err != nil {
		return nil, fmt.Errorf("it is neither YAML nor JSON: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	r := &fileReader{path: "line"}
	value, _ := r.structured(s, document.Content[0])
	return value, errors.Join(r.problems...)
}

// Files returns what a suite's Path stands for: the file itself, or the executable files in the directory, or those that
// match the pattern, in the order of their names.
func (s Suite) Files() ([]string, error) {
	found, err := filepath.Glob(s.Path)
	if err != nil {
		return nil, fmt.Errorf("path %s is no pattern: %w", s.Path, err)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("path %s: there is no such file", s.Path)
	}
	var files []string
	for _, name := range found {
		inside, err := executables(name)
		if err != nil {
			return nil, err
		}
		files = append(files, inside...)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("path %s: there is no executable file in it", s.Path)
	}
	return files, nil
}

// executables returns the executable files in a directory, or the file itself.
func executables(name string) ([]string, error) {
	info, err := os.Stat(name)
	if err != nil || !info.IsDir() {
		return []string{name}, err
	}
	entries, err := os.ReadDir(name)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, entry := range entries {
		file := filepath.Join(name, entry.Name())
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0 {
			files = append(files, file)
		}
	}
	return files, nil
}
