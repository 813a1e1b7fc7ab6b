package sops

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// metadataPrefix begins the names of variables that say how the rest is encrypted.
const metadataPrefix = "sops_"

// What stands between the parts of such a name.
const (
	belowMap  = "__map_"
	belowList = "__list_"
)

// parseDotenv reads lines NAME=value. A comment is that of the variable after it. What the file says of its encryption is
// put below the key sops, as other formats have it.
func parseDotenv(raw []byte) (*yaml.Node, error) {
	root, about := &yaml.Node{Kind: yaml.MappingNode}, &yaml.Node{Kind: yaml.MappingNode}
	document := wrap(root)
	var comment []string
	names := map[string]bool{}
	number := 0
	for line := range strings.Lines(string(raw)) {
		number++
		line = strings.TrimSuffix(line, "\n")
		name, value, assigned := strings.Cut(line, "=")
		switch {
		case line == "":
		case line[0] == '#':
			comment = append(comment, line)
		case !assigned || names[name]:
			return nil, fmt.Errorf("line %d is not of the form NAME=value, with a name that is there once", number)
		case strings.HasPrefix(name, metadataPrefix):
			if err := place(about, strings.TrimPrefix(name, metadataPrefix), inLines(value)); err != nil {
				return nil, fmt.Errorf("line %d: %w", number, err)
			}
		default:
			key := text(name)
			key.HeadComment = strings.Join(comment, "\n")
			root.Content, comment = append(root.Content, key, text(inLines(value))), nil
		}
		names[name] = assigned
	}
	document.FootComment = strings.Join(comment, "\n")
	if len(about.Content) > 0 {
		root.Content = append(root.Content, text(metadataKey), about)
	}
	return document, nil
}

// inLines is a value whose line ends are written as \n.
func inLines(value string) string { return strings.ReplaceAll(value, `\n`, "\n") }

// errMetadata means that a line about the encryption says nothing that can be read.
var errMetadata = errors.New("what it says of its encryption cannot be read")

// mostItems bounds how many keys a file may be encrypted with.
const mostItems = 1000

// place puts a value where its name says, as in age__list_0__map_enc.
func place(at *yaml.Node, name, value string) error {
	first, rest := cutName(name)
	node := entry(at, first)
	for rest != "" {
		switch {
		case strings.HasPrefix(rest, belowMap):
			if node.Kind == 0 {
				node.Kind = yaml.MappingNode
			}
			first, rest = cutName(rest[len(belowMap):])
			if node.Kind != yaml.MappingNode {
				return errMetadata
			}
			node = entry(node, first)
		default:
			first, rest = cutName(rest[len(belowList):])
			index, err := strconv.Atoi(first)
			if node.Kind == 0 {
				node.Kind = yaml.SequenceNode
			}
			if err != nil || index < 0 || index > mostItems || node.Kind != yaml.SequenceNode {
				return errMetadata
			}
			for len(node.Content) <= index {
				node.Content = append(node.Content, new(yaml.Node))
			}
			node = node.Content[index]
		}
	}
	if node.Kind != 0 {
		return errMetadata
	}
	*node = *text(value)
	return nil
}

// cutName returns the first part of a name, and the rest with what separates them.
func cutName(name string) (first, rest string) {
	end := len(name)
	for _, separator := range []string{belowMap, belowList} {
		if at := strings.Index(name, separator); at >= 0 && at < end {
			end = at
		}
	}
	return name[:end], name[end:]
}

// entry is the value of a key, a new one where there is none.
func entry(mapping *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	node := new(yaml.Node)
	mapping.Content = append(mapping.Content, text(key), node)
	return node
}

func emitDotenv(document *yaml.Node) ([]byte, error) {
	var out bytes.Buffer
	comment := func(lines string) {
		if lines != "" {
			out.WriteString(lines + "\n")
		}
	}
	comment(document.HeadComment)
	root := document.Content[0]
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		comment(key.HeadComment)
		switch {
		case key.Value == metadataKey:
			flatten(&out, metadataPrefix, value)
		case value.Kind != yaml.ScalarNode:
			return nil, fmt.Errorf("%s: a file of variables has texts only", key.Value)
		case strings.ContainsAny(key.Value, "=\n#") || strings.HasPrefix(key.Value, metadataPrefix):
			return nil, fmt.Errorf("%q is no name of a variable that can stand there", key.Value)
		default:
			assign(&out, key.Value, value.Value)
		}
	}
	comment(document.FootComment)
	return out.Bytes(), nil
}

func assign(out *bytes.Buffer, name, value string) {
	out.WriteString(name + "=" + strings.ReplaceAll(value, "\n", `\n`) + "\n")
}

// flatten writes what place reads.
func flatten(out *bytes.Buffer, name string, node *yaml.Node) {
	prefix := name
	if name != metadataPrefix {
		prefix += belowMap
	}
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			flatten(out, prefix+node.Content[i].Value, node.Content[i+1])
		}
	case yaml.SequenceNode:
		for i, item := range node.Content {
			flatten(out, name+belowList+strconv.Itoa(i), item)
		}
	case yaml.ScalarNode:
		assign(out, name, node.Value)
	}
}
