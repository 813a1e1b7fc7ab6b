package matrix

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// MaxName keeps the names of cells, with what is added to them, names of clusters.
const MaxName = 26

// MaxCells bounds a matrix, against a file with one axis too many.
const MaxCells = 1000

var namePattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)

// Parse reads a file, YAML or JSON, which people know by that name. The error tells of all that is wrong with it, a line
// each, with its place: FILE:LINE.
func Parse(r io.Reader, file string) (Matrix, error) {
	raw, err := io.ReadAll(r)
	if err != nil {
		return Matrix{}, err
	}
	var document yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(raw))
	if err := decoder.Decode(&document); err != nil {
		if errors.Is(err, io.EOF) {
			return Matrix{}, fmt.Errorf("%s: it is empty: it needs axes", file)
		}
		return Matrix{}, fmt.Errorf("%s:%s", file, yamlProblem(err))
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return Matrix{}, fmt.Errorf("%s: it holds more than one document", file)
	}
	p := &parser{m: Matrix{File: file, Lines: map[string]int{}}}
	p.document(document.Content[0])
	return p.m, errors.Join(p.problems...)
}

// yamlProblem is what the YAML parser says, "yaml: line 3: text", as it follows the name of a file: "3: text".
func yamlProblem(err error) string {
	text := " " + strings.TrimPrefix(err.Error(), "yaml: ")
	return strings.TrimPrefix(text, " line ")
}

type parser struct {
	m        Matrix
	problems []error
}

func (p *parser) problem(node *yaml.Node, format string, args ...any) {
	p.problems = append(p.problems, fmt.Errorf("%s:%d: %s", p.m.File, node.Line, fmt.Sprintf(format, args...)))
}

// setting notes where the file names a setting first.
func (p *parser) setting(key string, name *yaml.Node) {
	if p.m.Lines[key] == 0 {
		p.m.Lines[key] = name.Line
	}
}

// keys are those of a file.
const keys = "name, axes, include, exclude, settings, max_parallel, budget, fail_fast, repeat, grid"

func (p *parser) document(root *yaml.Node) {
	p.mapping(root, "the file", func(key string, name, value *yaml.Node) {
		switch key {
		case "name":
			p.name(value)
		case "axes":
			p.axes(value)
		case "include":
			p.m.Include = p.combinations(value, key)
		case "exclude":
			p.m.Exclude = p.combinations(value, key)
		case "settings":
			p.m.Settings = p.combination(value, key)
		case "max_parallel":
			p.m.MaxParallel = p.number(value, key)
		case "budget":
			p.budget(value)
		case "fail_fast":
			p.decode(value, key, "true or false", &p.m.FailFast)
		case "repeat":
			p.m.Repeat = p.number(value, key)
		case "grid":
			p.decode(value, key, "a list of two axes", &p.m.Grid)
		default:
			p.problem(name, "unknown key %q: there are %s", key, keys)
		}
	})
	p.judge(root)
}

// judge looks at what several keys say together.
func (p *parser) judge(root *yaml.Node) {
	axis := func(name string) bool {
		return slices.ContainsFunc(p.m.Axes, func(a Axis) bool { return a.Name == name })
	}
	cells := 1
	for _, a := range p.m.Axes {
		cells *= max(1, len(a.Values))
		if cells > MaxCells {
			p.problem(root, "there are more than %d combinations", MaxCells)
			break
		}
	}
	if len(p.problems) > 0 {
		return
	}
	switch {
	case p.m.Name == "":
		p.problem(root, "it has no name, which begins the names of its clusters")
	case len(p.m.Axes)+len(p.m.Include) == 0:
		p.problem(root, "it has no axes: give settings with the values that they take, like node_count: [1, 3]")
	case len(p.m.Grid) != 0 && (len(p.m.Grid) != 2 || p.m.Grid[0] == p.m.Grid[1]):
		p.problem(root, "grid needs two axes, rows and columns")
	case cells*max(1, p.m.Repeat) > MaxCells:
		p.problem(root, "there are more than %d cells", MaxCells)
	}
	for _, name := range p.m.Grid {
		if !axis(name) {
			p.problem(root, "grid: %q is no axis", name)
		}
	}
	for _, c := range p.m.Exclude {
		for key := range c {
			if !axis(key) {
				p.problem(root, "exclude: %q is no axis", key)
			}
		}
	}
	for _, a := range p.m.Axes {
		if _, both := p.m.Settings[a.Name]; both {
			p.problem(root, "settings: %s is an axis", a.Name)
		}
	}
}

func (p *parser) name(value *yaml.Node) {
	switch name := value.Value; {
	case value.Kind != yaml.ScalarNode || !namePattern.MatchString(name):
		p.problem(value, "name: %q is not valid: use lower-case letters, digits and inner hyphens", name)
	case len(name) > MaxName:
		p.problem(value, "name: it has %d characters: at most %d leave room for what the cells' names add", len(name), MaxName)
	default:
		p.m.Name = name
	}
}

func (p *parser) axes(node *yaml.Node) {
	p.mapping(node, "axes", func(key string, name, value *yaml.Node) {
		if value.Kind != yaml.SequenceNode || len(value.Content) == 0 {
			p.problem(name, "axes: %s needs a list of values", key)
			return
		}
		axis := Axis{Name: key}
		for i, entry := range value.Content {
			v := p.value(entry)
			if i == 0 {
				axis.Name = settingOf(key, v)
			} else if settingOf(key, v) != axis.Name {
				p.problem(entry, "axes: %s: some values are suites to run, some say what suites are: use suite for the first", key)
			}
			if slices.ContainsFunc(axis.Values, func(o Value) bool { return o.Text() == v.Text() }) {
				p.problem(entry, "axes: %s has %s twice", key, v.Word())
			}
			axis.Values = append(axis.Values, v)
		}
		if slices.ContainsFunc(p.m.Axes, func(a Axis) bool { return a.Name == axis.Name }) {
			p.problem(name, "axes: %s is there twice", axis.Name)
		}
		p.setting(axis.Name, name)
		p.m.Axes = append(p.m.Axes, axis)
	})
}

// settingOf is the setting that a key stands for: suites to run are those of the setting suite.
func settingOf(key string, v Value) string {
	if key == "suites" && v.plain() {
		return "suite"
	}
	return key
}

func (p *parser) combinations(node *yaml.Node, key string) (list []Combination) {
	if node.Kind != yaml.SequenceNode {
		p.problem(node, "%s: it must be a list of mappings", key)
		return nil
	}
	for _, entry := range node.Content {
		if c := p.combination(entry, key); len(c) > 0 {
			list = append(list, c)
		}
	}
	return list
}

func (p *parser) combination(node *yaml.Node, what string) Combination {
	c := Combination{}
	p.mapping(node, what, func(key string, name, value *yaml.Node) {
		v := p.value(value)
		p.setting(settingOf(key, v), name)
		if _, both := c[settingOf(key, v)]; both {
			p.problem(value, "%s: %s is there twice", what, settingOf(key, v))
		}
		c[settingOf(key, v)] = v
	})
	return c
}

func (p *parser) budget(node *yaml.Node) {
	p.mapping(node, "budget", func(key string, name, value *yaml.Node) {
		switch key {
		case "memory_mb":
			p.m.Budget.MemoryMB = p.number(value, "budget."+key)
		case "cores":
			p.m.Budget.Cores = p.number(value, "budget."+key)
		case "vms":
			p.m.Budget.VMs = p.number(value, "budget."+key)
		default:
			p.problem(name, "budget: unknown key %q: there are memory_mb, cores, vms", key)
		}
	})
}

// mapping hands over the entries of a mapping; one key twice is a mistake.
func (p *parser) mapping(node *yaml.Node, what string, each func(key string, name, value *yaml.Node)) {
	if node.Kind != yaml.MappingNode {
		p.problem(node, "%s: it must be a mapping", what)
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		name := node.Content[i]
		if seen[name.Value] {
			p.problem(name, "%s: %s is there twice", what, name.Value)
			continue
		}
		seen[name.Value] = true
		each(name.Value, name, node.Content[i+1])
	}
}

// number reads a whole number from 1 on.
func (p *parser) number(node *yaml.Node, key string) int {
	n := 0
	if node.Tag != "!!int" { // which the decoder would round
		p.problem(node, "%s: it must be a whole number", key)
	} else if p.decode(node, key, "a whole number", &n) && n < 1 {
		p.problem(node, "%s: it must be 1 or more: leave it out for no bound", key)
	}
	return n
}

func (p *parser) decode(node *yaml.Node, key, what string, into any) bool {
	if err := node.Decode(into); err != nil {
		p.problem(node, "%s: it must be %s", key, what)
		return false
	}
	return true
}

func (p *parser) value(node *yaml.Node) Value {
	var raw any
	if err := node.Decode(&raw); err != nil {
		p.problem(node, "%s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if raw == nil {
		p.problem(node, "a value is empty")
	}
	return Value{raw, node.Line}
}
