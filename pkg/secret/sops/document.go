// Package sops reads and writes files that SOPS encrypts for age keys: YAML, JSON and variables. What it writes, the
// program sops reads, and the other way round. A file is refused as a whole where anything of it was changed, or is not
// understood. It neither knows where keys come from nor runs any program.
package sops

import (
	"bytes"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"filippo.io/age"
	"filippo.io/age/armor"
	"go.yaml.in/yaml/v3"
)

// formatVersion is the version of SOPS whose form is written.
const formatVersion = "3.9.0"

// Document is an encrypted file that was opened. Its methods are not safe for concurrent use.
type Document struct {
	format   Format
	document *yaml.Node // as it is in the file, without what stands below sops
	about    metadata
	key      dataKey
	covers   func(path []string) bool // whether a value is to be encrypted
	values   map[*yaml.Node]plain     // of every leaf
}

// Open decrypts a file. Its errors are ErrPlain, ErrMAC, *KeyError and *UnsupportedError, or say what is wrong with it.
func Open(format Format, raw []byte, identities []age.Identity) (*Document, error) {
	d, err := read(format, raw)
	if err != nil {
		return nil, err
	}
	if d.key, err = d.about.open(identities); err != nil {
		return nil, err
	}
	return d, d.decrypt()
}

// Recipients are the public keys of age that a file is encrypted for, and kinds of its further keys. Nothing is decrypted.
func Recipients(format Format, raw []byte) (recipients, others []string, err error) {
	d, err := read(format, raw)
	if err != nil {
		return nil, nil, err
	}
	return d.about.recipients(), d.about.others, nil
}

// New encrypts a text for recipients: keys of age as they are written, by what they are parsed to.
func New(format Format, raw []byte, recipients []Recipient) (*Document, error) {
	document, err := format.parse(raw)
	if err != nil {
		return nil, err
	}
	if cut(document.Content[0], metadataKey) != nil {
		return nil, errors.New("the key sops is taken by SOPS itself")
	}
	d := &Document{format: format, document: document, values: map[*yaml.Node]plain{}}
	d.about.raw = &yaml.Node{Kind: yaml.MappingNode}
	d.about.set("age", &yaml.Node{Kind: yaml.SequenceNode})
	d.about.set("lastmodified", text(""))
	d.about.set("mac", text(""))
	d.about.set("unencrypted_suffix", text(usualRule))
	d.about.set("version", text(formatVersion))
	if d.covers, err = d.about.compile(); err != nil {
		return nil, err
	}
	plainText, err := readPlain(document)
	if err != nil {
		return nil, err
	}
	d.values = plainText
	return d, d.Rotate(recipients)
}

// read reads a file as far as no key is needed.
func read(format Format, raw []byte) (*Document, error) {
	document, err := format.parse(raw)
	if err != nil {
		return nil, err
	}
	d := &Document{format: format, document: document, values: map[*yaml.Node]plain{}}
	if key := keyNode(document.Content[0], metadataKey); key != nil { // what stands above it is the last of the rest
		document.FootComment = strings.Join(append(nonEmpty(key.HeadComment), nonEmpty(document.FootComment)...), "\n")
	}
	about := cut(document.Content[0], metadataKey)
	if about == nil {
		return nil, ErrPlain
	}
	if d.about, err = readMetadata(about); err != nil {
		return nil, err
	}
	d.covers, err = d.about.compile()
	return d, err
}

// keyNode is the node of a key itself; nil: it is not there.
func keyNode(mapping *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i]
		}
	}
	return nil
}

// cut takes a key out of a mapping, and returns its value; nil: it is not there.
func cut(mapping *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			value := mapping.Content[i+1]
			mapping.Content = slices.Delete(mapping.Content, i, i+2)
			return value
		}
	}
	return nil
}

func (m *metadata) recipients() []string {
	var list []string
	for _, key := range m.age {
		list = append(list, key.recipient)
	}
	return list
}

// open decrypts the data key by the first of the identities that can.
func (m *metadata) open(identities []age.Identity) (dataKey, error) {
	for _, key := range m.age {
		if len(identities) == 0 {
			break
		}
		reader, err := age.Decrypt(armor.NewReader(strings.NewReader(key.enc)), identities...)
		if err != nil {
			continue
		}
		opened, err := io.ReadAll(io.LimitReader(reader, 1<<10))
		if err == nil && len(opened) == 32 {
			return opened, nil
		}
		return nil, errors.New("its data key is damaged")
	}
	return nil, &KeyError{m.recipients(), m.others}
}

// decrypt decrypts every value, and checks the MAC of them all.
func (d *Document) decrypt() error {
	found, err := leaves(d.document.Content[0])
	if err != nil {
		return err
	}
	for _, l := range found {
		if d.values[l.node], err = d.decrypted(l); err != nil {
			return fmt.Errorf("%s: %w", JoinPath(l.path), err)
		}
	}
	d.liftComments(d.document.Content[0])
	sum, err := d.mac()
	if err != nil {
		return err
	}
	written, err := d.key.open(d.about.mac, d.about.modified.Format(time.RFC3339))
	if err != nil || subtle.ConstantTimeCompare([]byte(written.text), []byte(sum)) != 1 {
		return ErrMAC
	}
	return nil
}

// liftComments makes comments of items of lists that are comments: so the program sops writes those before an item.
func (d *Document) liftComments(node *yaml.Node) {
	var pending []string
	node.Content = slices.DeleteFunc(node.Content, func(below *yaml.Node) bool {
		if node.Kind == yaml.SequenceNode && d.values[below].kind == typeComment {
			pending = append(pending, "#"+below.Value)
			delete(d.values, below)
			return true
		}
		if len(pending) > 0 {
			below.HeadComment = strings.Join(append(pending, nonEmpty(below.HeadComment)...), "\n")
			pending = nil
		}
		d.liftComments(below)
		return false
	})
	if len(pending) > 0 && len(node.Content) > 0 {
		last := node.Content[len(node.Content)-1]
		last.FootComment = strings.Join(append(nonEmpty(last.FootComment), pending...), "\n")
	}
}

func nonEmpty(text string) []string {
	if text == "" {
		return nil
	}
	return []string{text}
}

func (d *Document) decrypted(l leaf) (plain, error) {
	if d.covers(l.path) {
		if l.node.ShortTag() != "!!str" {
			return plain{}, errors.New("it is not encrypted, and should be")
		}
		return d.key.open(l.node.Value, contextOf(l.path))
	}
	return scalar(l.node)
}

// scalar is the value of a node that is not encrypted.
func scalar(node *yaml.Node) (plain, error) {
	var value any
	if err := node.Decode(&value); err != nil {
		return plain{}, errors.New("it cannot be read")
	}
	return plainOf(value)
}

// mac sums up all values.
func (d *Document) mac() (string, error) {
	found, err := leaves(d.document.Content[0])
	if err != nil {
		return "", err
	}
	sum := newMAC(d.about.onlyEncrypted)
	for _, l := range found {
		p := d.values[l.node]
		if p.kind != typeComment && (!d.about.onlyEncrypted || d.covers(l.path)) {
			sum.Write([]byte(p.text))
		}
	}
	return fmt.Sprintf("%X", sum.Sum(nil)), nil
}

// Get returns the value at some keys, as text: true and false, numbers as they are written. An item of a list has its
// number, from 0. Of a Binary file no keys are its content. Its error is a *PathError.
func (d *Document) Get(path []string) (string, error) {
	if d.format == Binary && len(path) == 0 {
		path = []string{"data"}
	}
	node, err := d.find(path)
	if err != nil {
		return "", err
	}
	p, there := d.values[node]
	switch {
	case node.Kind != yaml.ScalarNode:
		return "", &PathError{path, "it has further keys: name one of them", keysOf(node)}
	case !there:
		return "", &PathError{Path: path, Why: "it has no value"}
	case p.kind == typeBool:
		return strings.ToLower(p.text), nil
	}
	return p.text, nil
}

// Values returns the texts of all values that are encrypted.
func (d *Document) Values() []string {
	found, _ := leaves(d.document.Content[0])
	var texts []string
	for _, l := range found {
		if d.covers(l.path) {
			texts = append(texts, d.values[l.node].text)
		}
	}
	return texts
}

func (d *Document) find(path []string) (*yaml.Node, error) {
	node := d.document.Content[0]
	for i, key := range path {
		next := child(node, key)
		if next == nil {
			return nil, &PathError{path[:i+1], "there is no such key", keysOf(node)}
		}
		node = next
	}
	return node, nil
}

// child is the value of a key, or of a number in a list; nil: there is none.
func child(node *yaml.Node, key string) *yaml.Node {
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == key {
				return node.Content[i+1]
			}
		}
	case yaml.SequenceNode:
		if n, err := strconv.Atoi(key); err == nil && n >= 0 && n < len(node.Content) {
			return node.Content[n]
		}
	}
	return nil
}

// mostKeys is how many keys an error names.
const mostKeys = 10

// keysOf are the first of what child takes.
func keysOf(node *yaml.Node) []string {
	var keys []string
	for i := range node.Content {
		if node.Kind == yaml.SequenceNode {
			keys = append(keys, strconv.Itoa(i))
		} else if i%2 == 0 {
			keys = append(keys, JoinPath([]string{node.Content[i].Value}))
		}
		if len(keys) == mostKeys {
			break
		}
	}
	return keys
}

// Bytes is the encrypted file.
func (d *Document) Bytes() ([]byte, error) {
	root := d.document.Content[0]
	whole := *d.document
	copied, key := *root, text(metadataKey)
	key.HeadComment, whole.FootComment = whole.FootComment, ""
	copied.Content = append(slices.Clone(root.Content), key, d.about.raw)
	whole.Content = []*yaml.Node{&copied}
	raw, err := d.format.emit(&whole)
	if err != nil {
		return nil, err
	}
	return bytes.TrimLeft(raw, "\n"), nil
}
