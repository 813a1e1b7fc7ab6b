package simhive

import (
	"strconv"
	"strings"
)

// params are the parameters of a call, read as hive's parser does (awsec2query/parser.go).
type params struct {
	values    map[string]string
	malformed bool // a number or boolean is none
}

func (p *params) text(name string) string { return p.values[name] }

func (p *params) has(name string) bool {
	_, there := p.values[name]
	return there
}

// given tells whether a parameter or one below it is there.
func (p *params) given(name string) bool {
	if p.has(name) {
		return true
	}
	for key := range p.values {
		if strings.HasPrefix(key, name+".") {
			return true
		}
	}
	return false
}

// number is a parameter that is a number, and whether it is there.
func (p *params) number(name string) (int64, bool) {
	if !p.has(name) {
		return 0, false
	}
	n, err := strconv.ParseInt(p.text(name), 10, 64)
	p.malformed = p.malformed || err != nil
	return n, err == nil
}

// flag is a parameter that is a boolean, and whether it is there.
func (p *params) flag(name string) (value, there bool) {
	if !p.has(name) {
		return false, false
	}
	value, err := strconv.ParseBool(p.text(name))
	p.malformed = p.malformed || err != nil
	return value, err == nil
}

// list are the values NAME.1, NAME.2 and so on, up to the first that is not there.
func (p *params) list(name string) []string {
	var values []string
	for i := 1; p.has(name + "." + strconv.Itoa(i)); i++ {
		values = append(values, p.text(name+"."+strconv.Itoa(i)))
	}
	return values
}

// each are the parameters below NAME.1, NAME.2 and so on, up to the first that is not there.
func (p *params) each(name string) []*params {
	var all []*params
	for i := 1; ; i++ {
		prefix := name + "." + strconv.Itoa(i) + "."
		one := &params{values: map[string]string{}}
		for key, value := range p.values {
			if rest, ok := strings.CutPrefix(key, prefix); ok {
				one.values[rest] = value
			}
		}
		if len(one.values) == 0 {
			return all
		}
		all = append(all, one)
	}
}

// tags are those of the TagSpecifications for one type of resource.
func (p *params) tags(resource string) []any {
	tags := map[string]string{}
	for _, specification := range p.each("TagSpecification") {
		if specification.text("ResourceType") != resource {
			continue
		}
		for _, tag := range specification.each("Tag") {
			if tag.has("Key") && tag.has("Value") {
				tags[tag.text("Key")] = tag.text("Value")
			}
		}
	}
	return tagList(tags)
}

// filters are the values that each filter asks for.
func (p *params) filters() map[string][]string {
	filters := map[string][]string{}
	for _, f := range p.each("Filter") {
		if f.has("Name") {
			filters[f.text("Name")] = append(filters[f.text("Name")], f.list("Value")...)
		}
	}
	return filters
}
