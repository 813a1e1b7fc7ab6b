package wire

import (
	"encoding/json"
	"strconv"
	"strings"
)

// Object holds the members of a shape by name. A member is a string, bool, int64, float64, Object or a []any of one of
// them; of an object that was read from JSON, all numbers are float64. Members whose names begin with _ are for whoever
// keeps the object, and are in no answer.
type Object map[string]any

// Text returns a member as text; empty where it is not set.
func (o Object) Text(name string) string {
	if o[name] == nil {
		return ""
	}
	return text(o[name])
}

// Has reports whether a member is set.
func (o Object) Has(name string) bool { return o[name] != nil }

// Bool reports whether a member is true.
func (o Object) Bool(name string) bool {
	b, _ := o[name].(bool)
	return b
}

// Int returns a member that is a number; 0 where it is none.
func (o Object) Int(name string) int64 {
	switch n := o[name].(type) {
	case int64:
		return n
	case int:
		return int64(n)
	case float64:
		return int64(n)
	}
	return 0
}

// Object returns a member that is an object; nil where it is none, of which all members can be asked for.
func (o Object) Object(name string) Object { return object(o[name]) }

// Objects returns the objects of a list.
func (o Object) Objects(name string) []Object {
	list, _ := o[name].([]any)
	objects := make([]Object, 0, len(list))
	for _, v := range list {
		objects = append(objects, object(v))
	}
	return objects
}

// Texts returns the texts of a list.
func (o Object) Texts(name string) []string {
	list, _ := o[name].([]any)
	texts := make([]string, len(list))
	for i, v := range list {
		texts[i] = text(v)
	}
	return texts
}

// At returns the texts that are at a path of members with dots between, of which each may be a list.
func (o Object) At(path string) (found []string) {
	name, rest, more := strings.Cut(path, ".")
	list, isList := o[name].([]any)
	switch {
	case o[name] == nil:
		return nil
	case !more && isList:
		return o.Texts(name)
	case !more:
		return []string{o.Text(name)}
	case !isList:
		return o.Object(name).At(rest)
	}
	for _, v := range list {
		found = append(found, object(v).At(rest)...)
	}
	return found
}

// Clone returns a copy of which nothing is shared.
func (o Object) Clone() Object {
	if o == nil {
		return nil
	}
	out := make(Object, len(o))
	for name, v := range o {
		out[name] = clone(v)
	}
	return out
}

func clone(v any) any {
	switch v := v.(type) {
	case Object:
		return v.Clone()
	case map[string]any:
		return Object(v).Clone()
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = clone(e)
		}
		return out
	}
	return v
}

// List returns a list of objects, as a member holds it.
func List(objects ...Object) []any {
	list := make([]any, len(objects))
	for i, o := range objects {
		list[i] = o
	}
	return list
}

// Strings returns a list of texts, as a member holds it.
func Strings(texts ...string) []any {
	list := make([]any, len(texts))
	for i, t := range texts {
		list[i] = t
	}
	return list
}

func object(v any) Object {
	switch v := v.(type) {
	case Object:
		return v
	case map[string]any:
		return v
	}
	return nil
}

// text is how a scalar is written in answers and requests.
func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case bool:
		return strconv.FormatBool(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case int:
		return strconv.Itoa(v)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return ""
}

// Parse reads an object from JSON.
func Parse(data []byte) (Object, error) {
	var o Object
	err := json.Unmarshal(data, &o)
	return o, err
}

// AsObject returns an element of a list as an object; nil where it is none.
func AsObject(v any) Object { return object(v) }

// Chosen is a request for those with an id, in a member that holds some.
func Chosen(member, id string) Object { return Object{member: Strings(id)} }

// Filtered is a request for those that filters let through: names and values in turn.
func Filtered(pairs ...string) Object {
	var filters []Object
	for i := 0; i+1 < len(pairs); i += 2 {
		filters = append(filters, Object{"Name": pairs[i], "Values": Strings(pairs[i+1])})
	}
	return Object{"Filters": List(filters...)}
}

// Value is an attribute's value, as calls that modify it take it.
func Value(v any) Object { return Object{"Value": v} }
