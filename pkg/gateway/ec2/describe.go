package ec2

import (
	"context"
	"encoding/base64"
	"slices"
	"strings"

	"hive-test/pkg/gateway/wire"
)

// describe answers a Describe of a kind: those with the ids, or all, that the filters let through, in pages.
func (s *Service) describe(ctx context.Context, k kind, in wire.Object) (wire.Object, error) {
	return s.describeAs(ctx, k, in, nil)
}

// view makes what is told of resources from what is kept of them.
type view func(ctx context.Context, list []wire.Object) ([]wire.Object, error)

// describeAs is describe of resources as a view, which may be nil, shows them; filters look at that.
func (s *Service) describeAs(ctx context.Context, k kind, in wire.Object, as view) (wire.Object, error) {
	list, err := s.chosenAs(ctx, k, in, as)
	if err != nil {
		return nil, err
	}
	return page(k.list, list, in, k.id)
}

// chosen are the resources of a kind with the ids of a request, or all, that its filters let through.
func (s *Service) chosen(ctx context.Context, k kind, in wire.Object) ([]wire.Object, error) {
	return s.chosenAs(ctx, k, in, nil)
}

func (s *Service) chosenAs(ctx context.Context, k kind, in wire.Object, as view) ([]wire.Object, error) {
	match, err := filter(k.filters, in)
	if err != nil {
		return nil, err
	}
	list, err := s.named(ctx, k, in.Texts(k.ids))
	if err == nil && as != nil {
		list, err = as(ctx, sooner(k, in, list))
	}
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list, func(o wire.Object) bool { return !match(o) }), nil
}

// sooner returns those of a list that the filters by members which no view changes let through: the ids of a resource and
// of the VPC that it is in. What is asked for by one of them is found without a view of all.
func sooner(k kind, in wire.Object, list []wire.Object) []wire.Object {
	var filters []wire.Object
	for _, f := range in.Objects("Filters") {
		if path := k.filters[f.Text("Name")]; path == k.id || path == "VpcId" {
			filters = append(filters, f)
		}
	}
	if len(filters) == 0 {
		return list
	}
	match, err := filter(k.filters, wire.Object{"Filters": wire.List(filters...)})
	if err != nil {
		return list
	}
	return matching(list, match)
}

// named returns the resources with the ids, or all where there are no ids.
func (s *Service) named(ctx context.Context, k kind, ids []string) ([]wire.Object, error) {
	if len(ids) == 0 {
		return s.all(ctx, k)
	}
	var list []wire.Object
	for _, id := range ids {
		o, err := s.get(ctx, k, id)
		if err != nil {
			return nil, err
		}
		list = append(list, o)
	}
	return list, nil
}

// filter returns what reports whether a resource has what all filters of a request ask for. Names are those of the table,
// which gives the path of the member that is looked at, and tag:KEY, tag-key and tag-value.
func filter(names map[string]string, in wire.Object) (func(wire.Object) bool, error) {
	type wanted struct {
		path, tag string
		values    []string
	}
	var all []wanted
	for _, f := range in.Objects("Filters") {
		name := f.Text("Name")
		w := wanted{path: names[name], values: f.Texts("Values")}
		if key, isTag := strings.CutPrefix(name, "tag:"); isTag {
			w.tag = key
		} else if w.path == "" {
			switch name {
			case "tag-key":
				w.path = "Tags.Key"
			case "tag-value":
				w.path = "Tags.Value"
			default:
				return nil, invalid("The filter '%s' is invalid", name)
			}
		}
		all = append(all, w)
	}
	return func(o wire.Object) bool {
		for _, w := range all {
			var found []string
			if w.tag != "" {
				found = tagValues(o, w.tag)
			} else {
				found = o.At(w.path)
			}
			if !slices.ContainsFunc(found, func(v string) bool { return anyMatches(w.values, v) }) {
				return false
			}
		}
		return true
	}, nil
}

func tagValues(o wire.Object, key string) (values []string) {
	for _, tag := range o.Objects("Tags") {
		if tag.Text("Key") == key {
			values = append(values, tag.Text("Value"))
		}
	}
	return values
}

func anyMatches(patterns []string, value string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, value) })
}

// matches reports whether a value is what a pattern stands for: * is anything, ? one character, and \ takes that from
// what follows it.
func matches(pattern, value string) bool {
	p, v := []rune(pattern), []rune(value)
	star, mark := -1, 0
	for i, j := 0, 0; ; {
		switch {
		case i < len(p) && p[i] == '*':
			star, mark = i, j
			i++
			continue
		case j == len(v) && i == len(p):
			return true
		case i < len(p) && j < len(v) && p[i] == '?':
			i, j = i+1, j+1
			continue
		case i < len(p) && j < len(v):
			literal := i
			if p[i] == '\\' && i+1 < len(p) {
				literal++
			}
			if p[literal] == v[j] {
				i, j = literal+1, j+1
				continue
			}
		}
		if star < 0 || mark >= len(v) {
			return false
		}
		mark++
		i, j = star+1, mark
	}
}

// Pages have from 5 to 1,000 resources.
const (
	leastResults = 5
	mostResults  = 1000
)

// page answers with a part of a list where a request has MaxResults, and with what asks for the next. What is in the list
// is told apart by the members that key names.
func page(member string, list []wire.Object, in wire.Object, key ...string) (wire.Object, error) {
	begin := 0
	if token := in.Text("NextToken"); token != "" {
		after, err := base64.URLEncoding.DecodeString(token)
		if err != nil || !strings.HasPrefix(string(after), member+"/") {
			return nil, wire.Errorf("InvalidNextToken", "The token '%s' is invalid", token)
		}
		next := strings.TrimPrefix(string(after), member)
		begin = slices.IndexFunc(list, func(o wire.Object) bool { return keyOf(o, key) == next })
		if begin < 0 {
			begin = len(list) // it is gone, and with it where to go on
		}
	}
	end := len(list)
	answer := wire.Object{}
	if in.Has("MaxResults") {
		most := in.Int("MaxResults")
		if most < leastResults || most > mostResults {
			return nil, invalid("Value ( %d ) for parameter maxResults is invalid. Expecting a value between %d and %d.",
				most, leastResults, mostResults)
		}
		if end > begin+int(most) {
			end = begin + int(most)
			answer["NextToken"] = base64.URLEncoding.EncodeToString([]byte(member + keyOf(list[end], key)))
		}
	}
	answer[member] = wire.List(list[begin:end]...)
	return answer, nil
}

// keyOf tells a resource of a list from all others by the members with these names.
func keyOf(o wire.Object, names []string) string {
	var key strings.Builder
	for _, name := range names {
		key.WriteString("/" + o.Text(name))
	}
	return key.String()
}
