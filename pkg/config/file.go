package config

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"hive-test/pkg/deploy/placement"
)

// FileName is the config file that is looked for in the working directory.
const FileName = "hive-test.yaml"

// findFile returns the config file to read: the one that is named, which must exist, else the first of the usual places
// that exists, else none.
func findFile(named, workDir string, env func(string) string) (string, error) {
	if named != "" {
		path := resolve(named, workDir, env("HOME"))
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("config file cannot be read: %w", err)
		}
		return path, nil
	}
	places := []string{filepath.Join(workDir, FileName)}
	if xdg := env("XDG_CONFIG_HOME"); xdg != "" {
		places = append(places, filepath.Join(xdg, "hive-test", "config.yaml"))
	} else if home := env("HOME"); home != "" {
		places = append(places, filepath.Join(home, ".config", "hive-test", "config.yaml"))
	}
	for _, path := range places {
		switch _, err := os.Stat(path); {
		case err == nil:
			return path, nil
		case !errors.Is(err, fs.ErrNotExist):
			return "", fmt.Errorf("config file cannot be read: %w", err)
		}
	}
	return "", nil
}

// fileValue is a value of the file with the line that it stands on.
type fileValue struct {
	value any
	line  int
}

// ReadWithin returns what read returns, or why ctx ended where that comes first: a file that a user names may be a pipe
// into which nobody writes.
func ReadWithin[T any](ctx context.Context, read func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := read()
		done <- result{value, err}
	}()
	select {
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	case r := <-done:
		return r.value, r.err
	}
}

// readFile reads a config file into values by key; what has keys of its own has its paths resolved from base and home.
// Every problem names file and line.
func readFile(path, base, home string, table []Setting) (map[string]fileValue, []error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, []error{fmt.Errorf("config file cannot be read: %w", err)}
	}
	document, err := onlyDocument(path, raw)
	if err != nil {
		return nil, []error{err}
	}
	r := &fileReader{path: path, base: base, home: home, table: table, references: true, values: map[string]fileValue{}}
	if document != nil {
		r.mapping("", document)
	}
	return r.values, r.problems
}

// onlyDocument returns what the YAML document of a file holds; nil: nothing. A second one would be read by nobody.
func onlyDocument(path string, raw []byte) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(raw))
	var only *yaml.Node
	for {
		var document yaml.Node
		if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
			return only, nil
		} else if err != nil {
			return nil, syntaxError(path, raw, err)
		}
		content, given := followed(document.Content[0])
		switch {
		case !given: // as after a last line ---
		case only != nil:
			return nil, fmt.Errorf("%s:%d: here a second YAML document begins: put all into the first one", path, content.Line)
		default:
			only = content
		}
	}
}

// syntaxError gives the YAML parser's "yaml: line 3: text" the form file:3: text. Of a tab it says only that no token can
// start there, or that indentation is violated, on the line before at times.
func syntaxError(path string, raw []byte, err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 0
	if rest, found := strings.CutPrefix(text, "line "); found {
		number, _, _ := strings.Cut(rest, ":")
		line, _ = strconv.Atoi(number)
		text = rest
	} else {
		text = " " + text
	}
	if strings.Contains(text, "cannot start any token") || strings.Contains(text, "tab character") {
		if line := tabbedLine(string(raw), line); line > 0 {
			return fmt.Errorf("%s:%d: a tab stands where blanks belong: YAML takes only blanks there", path, line)
		}
	}
	return fmt.Errorf("%s:%s", path, text)
}

// tabbedLine returns the number of the first line, from the one before on, that has a tab where a key or a value would
// begin; 0: none has.
func tabbedLine(text string, from int) int {
	for i, line := range strings.Split(text, "\n") {
		head, tail, found := strings.Cut(line, "\t")
		head = strings.TrimSpace(head)
		begins := head == "" || strings.HasSuffix(head, ":") || strings.HasSuffix(head, "-")
		if found && begins && strings.TrimSpace(tail) != "" && i+1 >= from-1 {
			return i + 1
		}
	}
	return 0
}

type fileReader struct {
	path     string
	base     string // what relative paths are relative to; empty: the working directory
	home     string
	table    []Setting
	values   map[string]fileValue
	problems []error

	references bool   // values may be references
	within     string // the environment that is read; empty: the file
}

func (r *fileReader) problem(line int, format string, args ...any) {
	lead := ""
	if r.within != "" {
		lead = r.within + ": "
	}
	r.problems = append(r.problems, fmt.Errorf("%s:%d: %s%w", r.path, line, lead, fmt.Errorf(format, args...)))
}

// mapping reads the keys below prefix.
func (r *fileReader) mapping(prefix string, node *yaml.Node) {
	node, given := followed(node)
	if !given {
		return
	}
	if node.Kind != yaml.MappingNode {
		what := cmp.Or(strings.TrimSuffix(prefix, "."), "the file")
		if prefix == "" && r.within != "" {
			what = "it"
		}
		r.problem(node.Line, "%s must be a list of keys with values", what)
		return
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		r.entry(prefix+node.Content[i].Value, node.Content[i].Line, node.Content[i+1])
	}
}

// followed is what a node stands for, and whether that is a value at all.
func followed(node *yaml.Node) (value *yaml.Node, given bool) {
	for node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	return node, node.Kind != yaml.ScalarNode || node.Tag != "!!null"
}

func (r *fileReader) entry(key string, line int, node *yaml.Node) {
	s, known := find(r.table, key)
	switch {
	case known && s.NoFile:
		r.problem(line, "%s cannot be set in the file: use --%s or %s", key, s.Flag, s.Env[0])
		return
	case !known && r.isGroup(key):
		r.mapping(key+".", node)
		return
	case !known && r.within != "" && ofEnvironments(key):
		r.problem(line, "an environment cannot have %s: which counts is said beside environments", key)
		return
	case !known:
		r.problem(line, "unknown key %q%s", key, suggestion(key, r.table))
		return
	}
	if earlier, twice := r.values[key]; twice {
		r.problem(line, "%s is set twice, first on line %d", key, earlier.line)
		return
	}
	node, given := followed(node)
	if !given {
		return // a key without a value is not set
	}
	if value, found := r.structured(s, node); found {
		r.values[key] = fileValue{value, line}
		return
	}
	value, err := r.value(s, node)
	if err != nil {
		r.problem(node.Line, "%s: %w", key, err)
		return
	}
	r.values[key] = fileValue{value, line}
}

// value is the value of a setting, checked, or a reference to it.
func (r *fileReader) value(s Setting, node *yaml.Node) (any, error) {
	if ref, found, err := r.reference(s, node); found {
		return ref, err
	}
	value, err := s.fromYAML(node)
	if err == nil {
		err = s.check(value)
	}
	return value, err
}

func (r *fileReader) isGroup(key string) bool {
	return slices.ContainsFunc(r.table, func(s Setting) bool { return strings.HasPrefix(s.Key, key+".") })
}

// fromYAML reads a value of the file with the type of the setting.
func (s Setting) fromYAML(node *yaml.Node) (any, error) {
	if s.Kind == List {
		return listFromYAML(node)
	}
	if node.Kind != yaml.ScalarNode {
		return nil, s.unlike(node)
	}
	switch s.Kind {
	case Int:
		var n int
		if err := node.Decode(&n); err != nil || node.Tag != "!!int" {
			return nil, s.unlike(node)
		}
		return n, nil
	case Bool:
		var b bool
		if err := node.Decode(&b); err != nil {
			return nil, s.unlike(node)
		}
		return b, nil
	case Duration:
		if node.Value == "0" {
			return ParseDuration("0s")
		}
		return ParseDuration(node.Value)
	case Date:
		return parseDate(node.Value)
	case Word:
		return node.Value, nil
	}
	if s.Secret {
		return node.Value, nil
	}
	if node.Tag != "!!str" {
		// A word such as 10 or no would be read as something else: whoever means the text quotes it.
		return nil, fmt.Errorf("%w (put it in quotes)", s.unlike(node))
	}
	return node.Value, nil
}

// unlike says what a value of the setting would be like.
func (s Setting) unlike(node *yaml.Node) error {
	nouns := map[Kind]string{
		Int: s.wholeNumber(), Bool: "true or false", Duration: "a duration, like 90s, 1h30m, 2d or 1w",
	}
	return fmt.Errorf("it must be %s, not %s", cmp.Or(nouns[s.Kind], "a string"), describeNode(node))
}

func describeNode(node *yaml.Node) string {
	switch node.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	return fmt.Sprintf("%q", node.Value)
}

func listFromYAML(node *yaml.Node) (any, error) {
	if node.Kind == yaml.ScalarNode {
		return []string{node.Value}, nil
	}
	var list []string
	for _, item := range node.Content {
		if node.Kind != yaml.SequenceNode || item.Kind != yaml.ScalarNode {
			return nil, fmt.Errorf("each item must be a string, not %s", describeNode(item))
		}
		list = append(list, item.Value)
	}
	return list, nil
}

// hypervisors reads a list of names or of mappings.
func (r *fileReader) hypervisors(key string, node *yaml.Node) []placement.Hypervisor {
	if node.Kind != yaml.SequenceNode {
		r.problem(node.Line, "%s: it must be a list of hypervisors, not %s", key, describeNode(node))
		return nil
	}
	var list []placement.Hypervisor
	for _, item := range node.Content {
		if item.Kind == yaml.ScalarNode {
			list = append(list, placement.Hypervisor{Name: item.Value})
			continue
		}
		list = append(list, r.hypervisor(item))
	}
	return list
}

func (r *fileReader) hypervisor(node *yaml.Node) placement.Hypervisor {
	one := r.below([]Setting{
		{Key: "name", Kind: Text},
		{Key: "address", Kind: Text},
		{Key: "port", Kind: Int, Min: 1, Max: 65535},
		{Key: "datastore_id", Kind: Text},
		{Key: "snippet_store", Kind: Text},
		{Key: "template_vmid", Kind: Int, Min: 100, Max: 999999999},
	}, node)
	text := func(key string) string { return valueOf[string](one, key) }
	number := func(key string) int { return valueOf[int](one, key) }
	return placement.Hypervisor{
		Name: text("name"), Address: text("address"), Port: number("port"), Datastore: text("datastore_id"),
		SnippetStore: text("snippet_store"),
		TemplateVMID: number("template_vmid"),
	}
}

// suggestion names the known key that is most like an unknown one, if any is.
func suggestion(key string, table []Setting) string {
	var names []string
	keys := map[string]string{}
	for _, s := range table {
		if s.NoFile {
			continue
		}
		names, keys[s.Key] = append(names, s.Key), s.Key
		if _, leaf, nested := strings.Cut(s.Key, "."); nested && keys[leaf] == "" { // written on the wrong level
			names, keys[leaf] = append(names, leaf), s.Key
		}
	}
	near := Nearest(strings.ReplaceAll(key, "-", "_"), names)
	if len(near) == 0 {
		return ""
	}
	return fmt.Sprintf(": did you mean %q?", keys[near[0]])
}
