package wire

import (
	"net/url"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// DecodeQuery reads what an action is asked for from a form. A parameter that is empty counts as not set, as the AWS
// provider sends Placement.AvailabilityZone=. One that the action does not have is an error, as are values that are not
// of its type.
func DecodeQuery(name string, form url.Values) (Object, error) {
	a, err := actionOf(name)
	if err != nil {
		return nil, err
	}
	root := &node{}
	for key, values := range form {
		if key != "Action" && key != "Version" && !strings.HasPrefix(key, "X-Amz-") {
			root.add(key, values)
		}
	}
	return root.object(a.in, "")
}

// node is a parameter, and those whose names go on after a dot.
type node struct {
	value    string
	children map[string]*node
}

func (n *node) add(key string, values []string) {
	if len(values) == 0 || values[0] == "" {
		return
	}
	for part := range strings.SplitSeq(key, ".") {
		child := n.children[part]
		if child == nil {
			child = &node{}
			if n.children == nil {
				n.children = map[string]*node{}
			}
			n.children[part] = child
		}
		n = child
	}
	n.value = values[0]
}

// object reads the members of a shape.
func (n *node) object(shape, path string) (Object, error) {
	out := Object{}
	known := map[string]member{}
	for _, m := range members(shape) {
		known[m.query] = m
	}
	for key, child := range n.children {
		m, there := known[key]
		if !there {
			return nil, Errorf(UnknownParameter, "The parameter %s is not recognized", path+key)
		}
		v, err := child.read(m.kind, path+key)
		if err != nil {
			return nil, err
		}
		out[m.name] = v
	}
	return out, nil
}

func (n *node) read(k kind, path string) (any, error) {
	switch {
	case k.list:
		return n.list(k.element(), path)
	case k.scalar() && n.children != nil:
		return nil, Errorf(UnknownParameter, "The parameter %s is not recognized", path+"."+n.first())
	case k.scalar():
		return scalar(k.name, n.value, path)
	case n.value != "":
		return nil, Errorf(UnknownParameter, "The parameter %s is not recognized", path)
	}
	return n.object(k.name, path+".")
}

// first is the name of a child, always the same one.
func (n *node) first() string {
	names := make([]string, 0, len(n.children))
	for name := range n.children {
		names = append(names, name)
	}
	return slices.Min(names)
}

// list reads elements in the order of their numbers.
func (n *node) list(k kind, path string) (any, error) {
	if n.value != "" {
		return nil, Errorf(UnknownParameter, "The parameter %s is not recognized", path)
	}
	numbers := make([]int, 0, len(n.children))
	for key := range n.children {
		number, err := strconv.Atoi(key)
		if err != nil || number < 0 || strconv.Itoa(number) != key {
			return nil, Errorf(UnknownParameter, "The parameter %s is not recognized", path+"."+key)
		}
		numbers = append(numbers, number)
	}
	sort.Ints(numbers)
	list := make([]any, 0, len(numbers))
	for _, number := range numbers {
		key := strconv.Itoa(number)
		v, err := n.children[key].read(k, path+"."+key)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

// scalar reads a value of a type.
func scalar(kind, value, path string) (any, error) {
	var v any
	var err error
	switch kind {
	case "bool":
		switch value {
		case "true", "True", "1":
			return true, nil
		case "false", "False", "0":
			return false, nil
		}
		err = strconv.ErrSyntax
	case "int":
		v, err = strconv.ParseInt(value, 10, 64)
	case "float":
		v, err = strconv.ParseFloat(value, 64)
	default:
		v = value
	}
	if err != nil {
		return nil, Errorf(InvalidParameterValue, "Value (%s) for parameter %s is invalid.", value, path)
	}
	return v, nil
}

// EncodeQuery writes what an action is asked for as a form. A member that the action does not have is an error.
func EncodeQuery(name string, in Object) (url.Values, error) {
	a, err := actionOf(name)
	if err != nil {
		return nil, err
	}
	form := url.Values{"Action": {name}, "Version": {Version}}
	return form, addTo(form, a.in, "", in)
}

func addTo(form url.Values, shape, path string, o Object) error {
	for name, v := range o {
		if strings.HasPrefix(name, "_") || v == nil {
			continue
		}
		m, err := memberNamed(shape, name)
		if err != nil {
			return err
		}
		if err := addValue(form, m.kind, path+m.query, v); err != nil {
			return err
		}
	}
	return nil
}

func addValue(form url.Values, k kind, path string, v any) error {
	switch {
	case k.list:
		list, _ := v.([]any)
		for i, e := range list {
			if err := addValue(form, k.element(), path+"."+strconv.Itoa(i+1), e); err != nil {
				return err
			}
		}
	case k.scalar():
		form.Set(path, text(v))
	default:
		return addTo(form, k.name, path+".", object(v))
	}
	return nil
}
