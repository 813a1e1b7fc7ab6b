package wire

import (
	"bufio"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

var (
	//go:embed actions.txt
	actionsText string
	//go:embed shapes.txt
	shapesText string
)

// member is what a shape says of one of its members.
type member struct {
	name, xml, query string
	kind             kind
}

// kind is a type: a scalar, a shape by its name, or a list of one of them.
type kind struct {
	name string
	list bool
}

// scalar reports whether values of the kind, or of a list's elements, are texts on the wire.
func (k kind) scalar() bool {
	switch k.name {
	case "string", "bool", "int", "float", "time", "blob":
		return true
	}
	return false
}

// element is the kind of a list's elements.
func (k kind) element() kind { return kind{name: k.name} }

// table is what is known of the API.
type table struct {
	actions map[string]action
	shapes  map[string][]member
}

type action struct{ in, out string }

// known reads the table once.
var known = sync.OnceValue(func() table {
	t := table{actions: map[string]action{}, shapes: map[string][]member{}}
	for _, words := range records(actionsText) {
		t.actions[words[0]] = action{words[1], words[2]}
	}
	for _, words := range records(shapesText) {
		name := strings.TrimSuffix(words[0], ":")
		members := make([]member, 0, len(words)-1)
		for _, word := range words[1:] {
			members = append(members, memberOf(word))
		}
		t.shapes[name] = members
	}
	return t
})

// records are the words of each line, of which one goes on where the next begins with a tab.
func records(text string) (all [][]string) {
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		line := lines.Text()
		switch words := strings.Fields(line); {
		case strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "\t"):
			all[len(all)-1] = append(all[len(all)-1], words...)
		case len(words) > 0:
			all = append(all, words)
		}
	}
	return all
}

// memberOf reads NAME[@XML][?QUERY][:TYPE].
func memberOf(word string) member {
	word, typed, _ := strings.Cut(word, ":")
	word, query, _ := strings.Cut(word, "?")
	name, xml, _ := strings.Cut(word, "@")
	m := member{name: name, xml: xml, query: query, kind: kind{name: "string"}}
	if m.xml == "" {
		m.xml = strings.ToLower(name[:1]) + name[1:]
	}
	if m.query == "" {
		m.query = name
	}
	if typed != "" {
		inner, list := strings.CutPrefix(typed, "[")
		m.kind = kind{strings.TrimSuffix(inner, "]"), list}
	}
	return m
}

// Actions returns the names of all actions of the table, sorted.
func Actions() []string { return slices.Sorted(maps.Keys(known().actions)) }

// Knows reports whether the table has an action.
func Knows(name string) bool {
	_, there := known().actions[name]
	return there
}

// Takes reports whether requests of an action can have a member.
func Takes(name, member string) bool {
	_, err := memberNamed(known().actions[name].in, member)
	return err == nil
}

func actionOf(name string) (action, error) {
	a, there := known().actions[name]
	if !there {
		return a, Errorf(InvalidAction, "The action %s is not valid for this web service.", name)
	}
	return a, nil
}

// members returns those of a shape. A shape that the table lacks is a mistake in the table, which its test finds.
func members(shape string) []member { return known().shapes[shape] }

// memberNamed returns the member of a shape that has a name.
func memberNamed(shape, name string) (member, error) {
	for _, m := range members(shape) {
		if m.name == name {
			return m, nil
		}
	}
	return member{}, fmt.Errorf("shape %s has no member %s", shape, name)
}
