package simhive

import (
	"encoding/xml"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// item is a resource or a part of one, by the names that its members have in answers. Those whose names begin with _
// are in no answer. Members are texts, booleans, numbers, items, and lists ([]any) of them; nil is left out.
type item map[string]any

// asItem is a member that is an item; nil where it is none.
func asItem(v any) item {
	switch v := v.(type) {
	case item:
		return v
	case map[string]any:
		return v
	}
	return nil
}

func (i item) text(name string) string { return scalarText(i[name]) }

func (i item) flag(name string) bool {
	value, _ := i[name].(bool)
	return value
}

func (i item) number(name string) int64 {
	switch n := i[name].(type) {
	case int:
		return int64(n)
	case int64:
		return n
	case float64: // as JSON has it
		return int64(n)
	}
	return 0
}

func (i item) items(name string) []item {
	list, _ := i[name].([]any)
	items := make([]item, len(list))
	for n, v := range list {
		items[n] = asItem(v)
	}
	return items
}

// at are the texts at a path of members with dots between, of which each may be a list.
func (i item) at(path string) []string {
	name, rest, more := strings.Cut(path, ".")
	list, isList := i[name].([]any)
	switch {
	case i[name] == nil:
		return nil
	case !more:
		return []string{i.text(name)}
	case !isList:
		return asItem(i[name]).at(rest)
	}
	var found []string
	for _, v := range list {
		found = append(found, asItem(v).at(rest)...)
	}
	return found
}

// tags are those that a resource tells of.
func (i item) tags() map[string]string {
	tags := map[string]string{}
	for _, tag := range i.items("tagSet") {
		tags[tag.text("key")] = tag.text("value")
	}
	return tags
}

// tagList is a resource's tagSet, which is left out where there are no tags.
func tagList(tags map[string]string) []any {
	var list []any
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		list = append(list, item{"key": key, "value": tags[key]})
	}
	return list
}

// listOf is a list that is left out where it is empty.
func listOf(items []item) any {
	if len(items) == 0 {
		return nil
	}
	return present(items)
}

// present is a list that is an empty element where it is empty.
func present(items []item) []any {
	list := make([]any, len(items))
	for n, i := range items {
		list[n] = i
	}
	return list
}

func moment(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.999999999Z") }

func scalarText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case bool:
		return strconv.FormatBool(v)
	case int:
		return strconv.Itoa(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return ""
}

// ec2Answer is an action's answer.
type ec2Answer struct {
	name    string
	content item
}

// MarshalXML writes it, with its elements sorted, where hive's come in any order.
func (a ec2Answer) MarshalXML(e *xml.Encoder, _ xml.StartElement) error {
	return writeElement(e, a.name, a.content)
}

func writeElement(e *xml.Encoder, name string, v any) error {
	start := xml.StartElement{Name: xml.Name{Local: name}}
	members := asItem(v)
	list, isList := v.([]any)
	if members == nil && !isList {
		if name != "" && v != nil && scalarText(v) != "" {
			return e.EncodeElement(scalarText(v), start)
		}
	}
	if err := e.EncodeToken(start); err != nil {
		return err
	}
	for _, one := range list {
		if err := writeElement(e, "item", one); err != nil {
			return err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(members)) {
		if strings.HasPrefix(key, "_") || members[key] == nil {
			continue
		}
		if inner, ok := members[key].([]any); ok && inner == nil {
			continue
		}
		if err := writeElement(e, key, members[key]); err != nil {
			return err
		}
	}
	return e.EncodeToken(start.End())
}
