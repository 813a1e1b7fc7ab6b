package wire

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Version is the one of the API that this package speaks.
const Version = "2016-11-15"

const namespace = "http://ec2.amazonaws.com/doc/" + Version + "/"

// EncodeXML writes an action's answer. A member that it does not have is an error.
func EncodeXML(name, requestID string, result Object) ([]byte, error) {
	a, err := actionOf(name)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	out.WriteString(xml.Header + "<" + name + `Response xmlns="` + namespace + `">`)
	element(&out, "requestId", requestID)
	if a.out == "-" {
		element(&out, "return", "true")
	} else if err := writeMembers(&out, a.out, result); err != nil {
		return nil, fmt.Errorf("the answer to %s: %w", name, err)
	}
	out.WriteString("</" + name + "Response>")
	return out.Bytes(), nil
}

func writeMembers(out *bytes.Buffer, shape string, o Object) error {
	for _, m := range members(shape) {
		if v := o[m.name]; v != nil {
			if err := writeValue(out, m.xml, m.kind, v); err != nil {
				return err
			}
		}
	}
	return unknownMember(shape, o)
}

// unknownMember is an error where an object has a member that its shape lacks.
func unknownMember(shape string, o Object) error {
	for name, v := range o {
		if v != nil && !strings.HasPrefix(name, "_") {
			if _, err := memberNamed(shape, name); err != nil {
				return err
			}
		}
	}
	return nil
}

func writeValue(out *bytes.Buffer, name string, k kind, v any) error {
	if k.scalar() && !k.list {
		element(out, name, text(v))
		return nil
	}
	out.WriteString("<" + name + ">")
	if k.list {
		list, _ := v.([]any)
		for _, e := range list {
			if err := writeValue(out, "item", k.element(), e); err != nil {
				return err
			}
		}
	} else if err := writeMembers(out, k.name, object(v)); err != nil {
		return err
	}
	out.WriteString("</" + name + ">")
	return nil
}

// DecodeXML reads an action's answer: its result, or the *Error that it is. Elements that are not known are passed over,
// as clients do. Strict takes no error with another root than <Response>, as SDK v1 does.
func DecodeXML(name string, status int, body io.Reader, strict bool) (Object, error) {
	a, err := actionOf(name)
	if err != nil {
		return nil, err
	}
	root, err := parse(body)
	if err != nil {
		return nil, fmt.Errorf("the answer to %s is no XML: %w", name, err)
	}
	if status >= 300 {
		return nil, root.failure(status, strict)
	}
	if want := name + "Response"; root.name != want {
		return nil, fmt.Errorf("the answer to %s is a <%s>, and not a <%s>", name, root.name, want)
	}
	if a.out == "-" {
		return Object{}, nil
	}
	return root.object(a.out)
}

// DecodeError reads an answer that is an error, with any root, and returns that, too.
func DecodeError(status int, body []byte) (failure *Error, root string, err error) {
	document, err := parse(bytes.NewReader(body))
	if err != nil {
		return nil, "", fmt.Errorf("the answer with status %d is no XML: %w", status, err)
	}
	err = document.failure(status, false)
	if failure, is := errors.AsType[*Error](err); is {
		return failure, document.name, nil
	}
	return nil, document.name, err
}

// tree is an element.
type tree struct {
	name     string
	text     string
	children []*tree
}

// depthLimit is more than any answer has.
const depthLimit = 32

func parse(body io.Reader) (*tree, error) {
	decoder := xml.NewDecoder(body)
	open := []*tree{{}}
	for {
		token, err := decoder.Token()
		switch {
		case errors.Is(err, io.EOF) && len(open) == 1 && len(open[0].children) == 1:
			return open[0].children[0], nil
		case errors.Is(err, io.EOF):
			return nil, io.ErrUnexpectedEOF
		case err != nil:
			return nil, err
		}
		top := open[len(open)-1]
		switch token := token.(type) {
		case xml.StartElement:
			if len(open) > depthLimit {
				return nil, errors.New("its elements are too deep")
			}
			child := &tree{name: token.Name.Local}
			top.children = append(top.children, child)
			open = append(open, child)
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			top.text += string(token)
		}
	}
}

func (t *tree) child(names ...string) *tree {
	for _, name := range names {
		var found *tree
		for _, c := range t.children {
			if c.name == name {
				found = c
				break
			}
		}
		if found == nil {
			return &tree{}
		}
		t = found
	}
	return t
}

// failure reads an answer that is an error.
func (t *tree) failure(status int, strict bool) error {
	detail := t.child("Errors", "Error")
	switch {
	case t.name == "Response":
	case strict:
		return fmt.Errorf("an error is a <%s>, and not a <Response>, which clients of SDK v1 do not read", t.name)
	case t.name == "ErrorResponse":
		detail = t.child("Error")
		if detail.name == "" {
			detail = t.child("Errors", "Error")
		}
	}
	code := detail.child("Code").text
	if code == "" {
		return fmt.Errorf("the answer has status %d and no error code", status)
	}
	return &Error{Code: code, Message: detail.child("Message").text, Status: status}
}

func (t *tree) object(shape string) (Object, error) {
	known := map[string]member{}
	for _, m := range members(shape) {
		known[m.xml] = m
	}
	out := Object{}
	for _, c := range t.children {
		m, there := known[c.name]
		if !there {
			continue
		}
		v, err := c.read(m.kind)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		out[m.name] = v
	}
	return out, nil
}

func (t *tree) read(k kind) (any, error) {
	switch {
	case k.list:
		list := []any{}
		for _, c := range t.children {
			if c.name != "item" {
				return nil, fmt.Errorf("a list has an element <%s>, and not <item>", c.name)
			}
			v, err := c.read(k.element())
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	case k.scalar():
		return scalarOf(k.name, t.text)
	}
	return t.object(k.name)
}

func scalarOf(kind, value string) (any, error) {
	if kind == "string" || kind == "blob" {
		return value, nil
	}
	v, err := scalar(kind, strings.TrimSpace(value), "")
	if err != nil {
		return nil, fmt.Errorf("%q is no %s", value, kind)
	}
	return v, nil
}
