package simhive

import (
	"maps"
	"slices"
	"strings"
)

// described says how the resources of a kind are told.
type described struct {
	kind    string
	id      string // the member that is its id
	ids     string // the parameter that ids are asked for with
	set     string // the answer's element that they are in
	missing string // what an id that there is not is answered with; empty: nothing
	// filters that spx knows, and where they look
	filters map[string]string
	// filters that pre honours: their first value, whatever is in it. It ignores all others.
	honoured []string
	empty    bool // the element is there if nothing is in it
	show     func(c *ec2Call, i item) item
}

// describe answers a Describe call.
func (c *ec2Call) describe(d described) item {
	filters := c.known(d.filters)
	if !c.spx() {
		filters = c.first(d.honoured)
	}
	asked := c.list(d.ids)
	var found []item
	seen := map[string]bool{}
	for _, i := range c.all(d.kind) {
		if len(asked) > 0 && !slices.Contains(asked, i.text(d.id)) || !c.matches(i, d.filters, filters) {
			continue
		}
		seen[i.text(d.id)] = true
		if d.show != nil {
			i = d.show(c, i)
		}
		found = append(found, i)
	}
	for _, id := range asked {
		if !seen[id] && d.missing != "" {
			return c.refuse(d.missing)
		}
	}
	if d.empty {
		return item{d.set: present(found)}
	}
	return item{d.set: listOf(found)}
}

// known are the filters that are asked for. One that spx does not know is refused (filterutil/filterutil.go:29).
func (c *ec2Call) known(filters map[string]string) map[string][]string {
	asked := c.filters()
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		if _, there := filters[name]; c.spx() && !there && !strings.HasPrefix(name, "tag:") {
			c.refuse("InvalidParameterValue")
		}
	}
	return asked
}

// first are those filters that pre honours, with their first value, the last filter of a name winning.
func (c *ec2Call) first(honoured []string) map[string][]string {
	asked := map[string][]string{}
	for _, f := range c.each("Filter") {
		if values := f.list("Value"); len(values) > 0 && slices.Contains(honoured, f.text("Name")) {
			asked[f.text("Name")] = values[:1]
		}
	}
	return asked
}

// matches tells whether a resource is what filters ask for: where is the path that a filter looks at, which may be
// several, with | between.
func (c *ec2Call) matches(i item, where map[string]string, filters map[string][]string) bool {
	for name, values := range filters {
		if key, isTag := strings.CutPrefix(name, "tag:"); isTag {
			value, there := i.tags()[key]
			if !there || !c.anyOf(values, value) {
				return false
			}
			continue
		}
		var found []string
		for path := range strings.SplitSeq(where[name], "|") {
			found = append(found, i.at(path)...)
		}
		if len(found) == 0 {
			found = []string{""}
		}
		if !slices.ContainsFunc(found, func(value string) bool { return c.anyOf(values, value) }) {
			return false
		}
	}
	return true
}

// anyOf tells whether a value is what one of a filter's values asks for. A filter without values asks for nothing.
func (c *ec2Call) anyOf(values []string, value string) bool {
	return len(values) == 0 || slices.ContainsFunc(values, func(pattern string) bool {
		return pattern == value || c.spx() && wildcard(pattern, value)
	})
}

// wildcard tells whether a value is what a pattern with * says.
func wildcard(pattern, value string) bool {
	head, tail, more := strings.Cut(pattern, "*")
	if !more {
		return pattern == value
	}
	rest, ok := strings.CutPrefix(value, head)
	if !ok {
		return false
	}
	for i := range len(rest) + 1 {
		if wildcard(tail, rest[i:]) {
			return true
		}
	}
	return false
}
