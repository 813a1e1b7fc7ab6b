package config

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Environment is a named set of values that count over the rest of the file where it is chosen.
type Environment struct {
	Name   string
	values map[string]fileValue // by key
}

// environmentName is what an environment may be called: it is recorded of clusters, and shown as part of commands.
var environmentName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$`)

// environments reads a mapping of names to values. All are checked, whichever is chosen.
func (r *fileReader) environments(key string, node *yaml.Node) []Environment {
	if node.Kind != yaml.MappingNode {
		r.problem(node.Line, "%s: it must be a mapping of names to values, not %s", key, describeNode(node))
		return nil
	}
	var list []Environment
	for i := 0; i+1 < len(node.Content); i += 2 {
		name, line := node.Content[i].Value, node.Content[i].Line
		switch {
		case !environmentName.MatchString(name):
			r.problem(line, "%s: %q is no name of an environment: letters, digits, dots, hyphens and underscores", key, name)
		case slices.ContainsFunc(list, func(e Environment) bool { return e.Name == name }):
			r.problem(line, "%s: %s is there twice", key, name)
		default:
			list = append(list, Environment{name, r.environment(key+"."+name, node.Content[i+1])})
		}
	}
	return list
}

// environment reads the values of one.
func (r *fileReader) environment(key string, node *yaml.Node) map[string]fileValue {
	own := &fileReader{
		path: r.path, base: r.base, home: r.home, references: r.references, values: map[string]fileValue{}, within: key,
		table: slices.DeleteFunc(Table(), func(s Setting) bool { return ofEnvironments(s.Key) }),
	}
	own.mapping("", node)
	r.problems = append(r.problems, own.problems...)
	return own.values
}

// ofEnvironments reports whether a setting says what environments there are, or which is chosen: none of them can.
func ofEnvironments(key string) bool { return key == "environment" || key == "environments" }

// inEnvironment stands in the source of a value between its place and the name of the environment that it is of.
const inEnvironment = ", environments."

// fromEnvironment lays the values of the environment that is chosen over those of the file. Which it is, and which there
// are, must be known before flags and variables are read, but these say it, too, with the precedence that they have.
func (l *loader) fromEnvironment() {
	list, _ := l.values["environments"].([]Environment)
	place := l.file
	row, _ := find(l.table, "environments")
	if said := l.outside(row); said.given {
		value, err := row.parse(said.text)
		if err != nil {
			return // it is told with all that comes from there
		}
		list, _ = value.([]Environment)
		place = said.source
	}
	name, _ := l.values["environment"].(string)
	told := func(err error) error { return fmt.Errorf("%s: environment: %w", l.sources["environment"], err) }
	row, _ = find(l.table, "environment")
	if said := l.outside(row); said.given {
		name, told = said.text, said.problem
	}
	if name == "" {
		return
	}
	i := slices.IndexFunc(list, func(e Environment) bool { return e.Name == name })
	if i < 0 {
		l.problems = append(l.problems, told(unknownEnvironment(name, list)))
		return
	}
	l.take(list[i].values, place, inEnvironment+name)
}

func unknownEnvironment(name string, list []Environment) error {
	if len(list) == 0 {
		return fmt.Errorf("there is no environment %q, for the config file has no environments", name)
	}
	names := EnvironmentNames(list)
	meant := ""
	if near := Nearest(name, names); len(near) > 0 {
		meant = fmt.Sprintf(": did you mean %q?", near[0])
	}
	slices.Sort(names)
	return fmt.Errorf("there is no environment %q, but %s%s", name, strings.Join(names, ", "), meant)
}

// EnvironmentNames are the names of environments, in their order.
func EnvironmentNames(list []Environment) []string {
	names := make([]string, len(list))
	for i, e := range list {
		names[i] = e.Name
	}
	return names
}

// said is what a program, a flag or a variable says of a setting, the strongest of them.
type said struct {
	given        bool
	text, source string
	problem      func(error) error // as a problem with it is told
}

// outside is what is said of a setting elsewhere than in the file.
func (l *loader) outside(s Setting) said {
	if text, set := l.opts.Values[s.Key]; set {
		place := l.opts.Places[s.Key]
		return said{true, text, cmp.Or(place, byProgram), func(err error) error {
			if place == "" {
				return fmt.Errorf("%s: %w", s.Key, err)
			}
			return fmt.Errorf("%s: %s: %w", place, s.Key, err)
		}}
	}
	if l.opts.Flags != nil && s.Flag != "" {
		if flag := l.opts.Flags.Lookup(s.Flag); flag != nil && flag.Changed && OfSetting(flag) {
			return said{true, flag.Value.String(), "flag --" + s.Flag, func(err error) error { return &FlagError{Flag: s.Flag, Err: err} }}
		}
	}
	for _, name := range s.Env {
		if text := l.env(name); text != "" {
			source := "environment " + name
			return said{true, text, source, func(err error) error { return fmt.Errorf("%s: %w", source, err) }}
		}
	}
	return said{}
}

// keepProtected does not let what is said for one run take the protection off that the file has.
func (l *loader) keepProtected(settings *Settings, inFile bool, source string) {
	if inFile && !settings.Protected {
		l.problem(settings, "protected", fmt.Errorf("%s protects what is made here, and only there can that be taken off", source))
		settings.Protected = true
	}
}
