package sops

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Format is how a document is written.
type Format string

// The formats. Binary is a file of any content, which is one encrypted value within JSON.
const (
	YAML   Format = "yaml"
	JSON   Format = "json"
	Dotenv Format = "dotenv"
	INI    Format = "ini" // which only the program sops reads
	Binary Format = "binary"
)

// FormatOf is the format of a file, by its name.
func FormatOf(path string) Format {
	switch name := filepath.Base(path); {
	case strings.HasSuffix(name, ".yaml"), strings.HasSuffix(name, ".yml"):
		return YAML
	case strings.HasSuffix(name, ".json"):
		return JSON
	case strings.HasSuffix(name, ".env"):
		return Dotenv
	case strings.HasSuffix(name, ".ini"):
		return INI
	}
	return Binary
}

// metadataKey is where a document says how it is encrypted.
const metadataKey = "sops"

// parse reads the text of a document. The root is its mapping, and the document what has the comments around that.
func (f Format) parse(raw []byte) (document *yaml.Node, err error) {
	switch f {
	case YAML:
		return parseYAML(raw)
	case JSON, Binary:
		return parseJSON(raw)
	case Dotenv:
		return parseDotenv(raw)
	}
	return nil, &UnsupportedError{What: "it is an " + string(f) + " file"}
}

// emit writes a document.
func (f Format) emit(document *yaml.Node) ([]byte, error) {
	switch f {
	case JSON, Binary:
		var out bytes.Buffer
		err := writeJSON(&out, document.Content[0], "")
		out.WriteByte('\n')
		return out.Bytes(), err
	case Dotenv:
		return emitDotenv(document)
	}
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(4)
	if err := encoder.Encode(document); err != nil {
		return nil, err
	}
	return out.Bytes(), encoder.Close()
}

// wrap makes a document of a mapping.
func wrap(root *yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{root}}
}

func parseYAML(raw []byte) (*yaml.Node, error) {
	var unique map[string]any // nodes alone would take a key twice
	decoder := yaml.NewDecoder(bytes.NewReader(raw))
	if err := yaml.NewDecoder(bytes.NewReader(raw)).Decode(&unique); err != nil && !errors.Is(err, io.EOF) {
		return nil, yamlError(err)
	}
	document := new(yaml.Node)
	if err := decoder.Decode(document); errors.Is(err, io.EOF) {
		return wrap(&yaml.Node{Kind: yaml.MappingNode}), nil
	} else if err != nil {
		return nil, yamlError(err)
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, &UnsupportedError{What: "it has several YAML documents"}
	}
	root := document.Content[0]
	if root.Kind == yaml.ScalarNode && root.ShortTag() == "!!null" {
		document.Content[0] = &yaml.Node{Kind: yaml.MappingNode}
	} else if root.Kind != yaml.MappingNode {
		return nil, errors.New("it must be a mapping of keys to values")
	}
	return document, nil
}

// yamlError is why something is no YAML, without what stands there: it may be a secret.
func yamlError(err error) error {
	line, found := strings.CutPrefix(strings.TrimPrefix(err.Error(), "yaml: "), "line ")
	if number, _, cut := strings.Cut(line, ":"); found && cut {
		return fmt.Errorf("line %s is not YAML that can be read here", number)
	}
	if kind, ok := errors.AsType[*yaml.TypeError](err); ok && strings.Contains(kind.Error(), "already defined") {
		return errors.New("a key is there twice")
	}
	return errors.New("it is not a YAML mapping of strings to values")
}

func parseJSON(raw []byte) (*yaml.Node, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	root, err := readJSON(decoder, 0)
	if err == nil {
		if _, after := decoder.Token(); !errors.Is(after, io.EOF) {
			err = errors.New("something follows its end")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("it is not JSON that can be read here, at byte %d", decoder.InputOffset())
	}
	if root.Kind != yaml.MappingNode {
		return nil, errors.New("it must be a JSON object")
	}
	return wrap(root), nil
}

func readJSON(decoder *json.Decoder, depth int) (*yaml.Node, error) {
	token, err := decoder.Token()
	if err != nil || depth > mostDepth {
		return nil, errors.Join(err, errors.New("too deep"))
	}
	switch value := token.(type) {
	case json.Delim:
		node := &yaml.Node{Kind: map[json.Delim]yaml.Kind{'{': yaml.MappingNode, '[': yaml.SequenceNode}[value]}
		keys := map[string]bool{}
		for decoder.More() {
			if value == '{' {
				key, err := readJSON(decoder, depth+1)
				if err != nil || keys[key.Value] {
					return nil, errors.Join(err, errors.New("a key twice"))
				}
				keys[key.Value] = true
				node.Content = append(node.Content, key)
			}
			item, err := readJSON(decoder, depth+1)
			if err != nil {
				return nil, err
			}
			node.Content = append(node.Content, item)
		}
		_, err := decoder.Token() // its end
		return node, err
	case json.Number:
		return jsonNumber(value)
	case string:
		return text(value), nil
	}
	node := new(yaml.Node)
	return node, node.Encode(token)
}

// jsonNumber is a whole number where it is one that an int can hold, else a float.
func jsonNumber(n json.Number) (*yaml.Node, error) {
	node := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!float", Value: n.String()}
	if _, err := strconv.Atoi(n.String()); err == nil {
		node.Tag = "!!int"
	}
	_, err := n.Float64()
	return node, err
}

func writeJSON(out *bytes.Buffer, node *yaml.Node, indent string) error {
	var value any
	switch node.Kind {
	case yaml.MappingNode, yaml.SequenceNode:
		return writeJSONMany(out, node, indent)
	case yaml.ScalarNode:
		if tag := node.ShortTag(); (tag == "!!int" || tag == "!!float") && json.Valid([]byte(node.Value)) {
			out.WriteString(node.Value)
			return nil
		}
		if err := node.Decode(&value); err != nil {
			return err
		}
	}
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	out.Truncate(out.Len() - 1) // the line's end
	return err
}

func writeJSONMany(out *bytes.Buffer, node *yaml.Node, indent string) error {
	begin, end, step := "[", "]", 1
	if node.Kind == yaml.MappingNode {
		begin, end, step = "{", "}", 2
	}
	out.WriteString(begin)
	for i := 0; i+step <= len(node.Content); i += step {
		if i > 0 {
			out.WriteByte(',')
		}
		out.WriteString("\n" + indent + "\t")
		if step == 2 {
			if err := writeJSON(out, text(node.Content[i].Value), ""); err != nil {
				return err
			}
			out.WriteString(": ")
		}
		if err := writeJSON(out, node.Content[i+step-1], indent+"\t"); err != nil {
			return err
		}
	}
	if len(node.Content) > 0 {
		out.WriteString("\n" + indent)
	}
	out.WriteString(end)
	return nil
}
