package sops

import (
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"fmt"
	"hash"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// leaf is a scalar of a document, at the keys that lead to it; items of a list have the list's.
type leaf struct {
	node *yaml.Node
	path []string
}

// context is what a value is bound to: it cannot be moved to another place.
func contextOf(path []string) string { return strings.Join(path, ":") + ":" }

// leaves returns all scalars of a mapping in their order, but for those that are null.
func leaves(root *yaml.Node) ([]leaf, error) {
	var found []leaf
	return found, walk(root, nil, func(node *yaml.Node, path []string) error {
		if node.Kind == yaml.ScalarNode && node.ShortTag() != "!!null" {
			found = append(found, leaf{node, path})
		}
		return nil
	})
}

// mostDepth bounds how deep a document may be.
const mostDepth = 200

// walk visits every value of a mapping in order, the mapping itself first.
func walk(node *yaml.Node, path []string, visit func(node *yaml.Node, path []string) error) error {
	if len(path) > mostDepth {
		return errors.New("it is nested too deeply")
	}
	if err := visit(node, path); err != nil {
		return err
	}
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			key := node.Content[i]
			if key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str" {
				return fmt.Errorf("line %d: the key %q is no string: put it in quotes", key.Line, key.Value)
			}
			if err := walk(node.Content[i+1], append(path[:len(path):len(path)], key.Value), visit); err != nil {
				return err
			}
		}
	case yaml.SequenceNode:
		return walkItems(node, path, visit)
	case yaml.AliasNode:
		return fmt.Errorf("line %d: anchors and aliases cannot be encrypted: write the value out", node.Line)
	}
	return nil
}

func walkItems(list *yaml.Node, path []string, visit func(node *yaml.Node, path []string) error) error {
	for _, item := range list.Content {
		if err := walk(item, path, visit); err != nil {
			return err
		}
	}
	return nil
}

// comments calls change with each line of each comment of a document, and puts there what it returns. A comment is
// bound to the mapping or list in which it stands.
func comments(document, root *yaml.Node, change func(line, context string) (string, error)) error {
	if err := changeComments(document, contextOf(nil), change); err != nil {
		return err
	}
	return walk(root, nil, func(node *yaml.Node, path []string) error {
		at := contextOf(path)
		switch node.Kind {
		case yaml.MappingNode:
			for i := 0; i+1 < len(node.Content); i += 2 {
				key, value := node.Content[i], node.Content[i+1]
				if err := changeComments(key, at, change); err != nil {
					return err
				}
				within := at
				if value.Kind != yaml.ScalarNode {
					within = contextOf(append(path[:len(path):len(path)], key.Value))
				}
				if err := changeComments(value, within, change); err != nil {
					return err
				}
			}
		case yaml.SequenceNode:
			for _, item := range node.Content {
				if err := changeComments(item, at, change); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func changeComments(node *yaml.Node, context string, change func(line, context string) (string, error)) error {
	for _, comment := range []*string{&node.HeadComment, &node.LineComment, &node.FootComment} {
		if *comment == "" {
			continue
		}
		lines := strings.Split(*comment, "\n")
		for i, line := range lines {
			text, given := strings.CutPrefix(line, "#")
			if !given {
				continue
			}
			changed, err := change(text, context)
			if err != nil {
				return err
			}
			lines[i] = "#" + changed
		}
		*comment = strings.Join(lines, "\n")
	}
	return nil
}

// rule says which values are encrypted. At most one of its texts is set.
type rule struct {
	unencryptedSuffix, encryptedSuffix string
	unencryptedRegex, encryptedRegex   string
}

// usualRule is in force where a document names none.
const usualRule = "_unencrypted"

// compile returns what tells whether the value at some keys is encrypted.
func (r rule) compile() (func(path []string) bool, error) {
	anyOf := func(found bool, matches func(key string) bool) func([]string) bool {
		return func(path []string) bool {
			for _, key := range path {
				if matches(key) {
					return found
				}
			}
			return !found
		}
	}
	switch {
	case r.encryptedSuffix != "":
		return anyOf(true, func(key string) bool { return strings.HasSuffix(key, r.encryptedSuffix) }), nil
	case r.unencryptedRegex != "":
		pattern, err := regexp.Compile(r.unencryptedRegex)
		if err != nil {
			return nil, fmt.Errorf("unencrypted_regex: %w", err)
		}
		return anyOf(false, pattern.MatchString), nil
	case r.encryptedRegex != "":
		pattern, err := regexp.Compile(r.encryptedRegex)
		if err != nil {
			return nil, fmt.Errorf("encrypted_regex: %w", err)
		}
		return anyOf(true, pattern.MatchString), nil
	}
	suffix := r.unencryptedSuffix
	if suffix == "" {
		suffix = usualRule
	}
	return anyOf(false, func(key string) bool { return strings.HasSuffix(key, suffix) }), nil
}

// newMAC returns what sums up the values of a document: all, or those alone that are encrypted, which begins otherwise.
func newMAC(onlyEncrypted bool) hash.Hash {
	h := sha512.New()
	if onlyEncrypted {
		start := sha256.Sum256([]byte("sops"))
		h.Write(start[:])
	}
	return h
}
