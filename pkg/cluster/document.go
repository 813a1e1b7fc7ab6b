package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// Document is what a deployer keeps of a cluster or of a node for itself, in JSON: nobody else reads it. The zero value
// is none. Documents are values: they are compared by == and shared by copies.
type Document string

// NewDocument returns the document of a value: plain data that encoding/json can write. A value that has nothing to
// tell (null, {} or []) is no document.
func NewDocument(value any) Document {
	raw, err := json.Marshal(value)
	if err != nil { // plain data always encodes; a value that does not is a programming error
		panic(err)
	}
	switch text := string(raw); text {
	case "null", "{}", "[]":
		return ""
	default:
		return Document(text)
	}
}

// Read decodes the document into a pointer. No document leaves it as it is.
func (d Document) Read(into any) error {
	if d == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(d), into); err != nil {
		return fmt.Errorf("what the deployer has kept: %w", err)
	}
	return nil
}

// MarshalJSON returns the document as it is.
func (d Document) MarshalJSON() ([]byte, error) {
	if d == "" {
		return []byte("null"), nil
	}
	return []byte(d), nil
}

// UnmarshalJSON keeps the value, whatever it is.
func (d *Document) UnmarshalJSON(raw []byte) error {
	*d = NewDocument(json.RawMessage(raw))
	return nil
}

// join returns one JSON object with the members of several, in their order.
func join(parts ...any) ([]byte, error) {
	var members [][]byte
	for _, part := range parts {
		raw, err := json.Marshal(part)
		if err != nil {
			return nil, err
		}
		if raw[0] == '{' && len(raw) > len("{}") {
			members = append(members, raw[1:len(raw)-1])
		}
	}
	return append(append([]byte("{"), bytes.Join(members, []byte(","))...), '}'), nil
}

// others returns the members of a JSON object that no field of a struct takes, in their order.
func others(raw []byte, taken any) (Document, error) {
	own := map[string]bool{}
	for _, field := range reflect.VisibleFields(reflect.TypeOf(taken)) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		own[strings.ToLower(name)] = true // as encoding/json compares names
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	if _, err := decoder.Token(); err != nil {
		return "", err
	}
	var members [][]byte
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return "", err
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return "", err
		}
		if name := key.(string); !own[strings.ToLower(name)] { // an object's keys are strings
			quoted, _ := json.Marshal(name) // strings always encode
			members = append(members, append(append(quoted, ':'), value...))
		}
	}
	if len(members) == 0 {
		return "", nil
	}
	return NewDocument(json.RawMessage("{" + string(bytes.Join(members, []byte(","))) + "}")), nil
}
