package sops

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"filippo.io/age"
	"filippo.io/age/armor"
	"go.yaml.in/yaml/v3"
)

// Recipient is whom a file is encrypted for: a public key of age as it is written, and what it was parsed to.
type Recipient struct {
	Text string
	Key  age.Recipient
}

// Set gives the value at some keys another text. Keys that are not there are made, as mappings; the number after a
// list's last adds an item. Other values stay encrypted as they are.
func (d *Document) Set(path []string, value string) error {
	if d.format == Binary && len(path) == 0 {
		path = []string{"data"}
	}
	if len(path) == 0 || slices.Contains(path, "") {
		return &PathError{Path: path, Why: "a key is empty"}
	}
	if path[0] == metadataKey {
		return &PathError{Path: path, Why: "that key is SOPS's own"}
	}
	node, bound, err := d.make(path)
	if err != nil {
		return err
	}
	if node.Kind != 0 && node.Kind != yaml.ScalarNode {
		return &PathError{path, "it has further keys: name one of them", keysOf(node)}
	}
	return errors.Join(d.put(leaf{node, bound}, plain{value, typeString}), d.sign())
}

// make finds the node at some keys, or makes it, and what its value is bound to.
func (d *Document) make(path []string) (node *yaml.Node, bound []string, err error) {
	node = d.document.Content[0]
	for i, key := range path {
		next := child(node, key)
		switch {
		case next != nil:
		case node.Kind == yaml.MappingNode:
			next = new(yaml.Node)
			node.Content = append(node.Content, text(key), next)
		case node.Kind == yaml.SequenceNode && key == strconv.Itoa(len(node.Content)):
			next = new(yaml.Node)
			node.Content = append(node.Content, next)
		default:
			return nil, nil, &PathError{path[:i+1], "there is no such key, and none can be added", keysOf(node)}
		}
		if node.Kind == yaml.MappingNode {
			bound = append(bound, key)
		}
		if next.Kind == 0 && i+1 < len(path) {
			next.Kind = yaml.MappingNode
		}
		node = next
	}
	return node, bound, nil
}

// put gives a leaf a value, encrypted where it is to be.
func (d *Document) put(l leaf, p plain) error {
	d.values[l.node] = p
	if !d.covers(l.path) {
		show(l.node, p)
		return nil
	}
	sealed, err := d.key.seal(p, contextOf(l.path))
	l.node.Style = 0
	l.node.SetString(sealed)
	return err
}

// show writes a value as it is.
func show(node *yaml.Node, p plain) {
	node.Kind, node.Style, node.Value = yaml.ScalarNode, 0, p.text
	switch p.kind {
	case typeInt:
		node.Tag = "!!int"
	case typeFloat:
		node.Tag = "!!float"
		if !strings.ContainsAny(p.text, ".IN") { // else it would be read as a whole number
			node.Value += ".0"
		}
	case typeTime:
		node.Tag = "!!timestamp"
	case typeBool:
		node.Tag, node.Value = "!!bool", map[bool]string{true: "true", false: "false"}[p.text == "True" || p.text == "true"]
	default:
		node.SetString(p.text)
	}
}

// sign writes the MAC of what the values are now.
func (d *Document) sign() error {
	sum, err := d.mac()
	if err != nil {
		return err
	}
	d.about.modified = time.Now().UTC().Truncate(time.Second)
	modified := d.about.modified.Format(time.RFC3339)
	if d.about.mac, err = d.key.seal(plain{sum, typeString}, modified); err != nil {
		return err
	}
	d.about.set("lastmodified", text(modified))
	d.about.set("mac", text(d.about.mac))
	return nil
}

// Plain is the decrypted text, with comments, for an editor.
func (d *Document) Plain() ([]byte, error) {
	document := clone(d.document, d.values, func(node *yaml.Node, p plain) { show(node, p) })
	if d.format == Binary {
		content, err := d.Get(nil)
		return []byte(content), err
	}
	err := comments(document, document.Content[0], func(line, context string) (string, error) {
		if !isEncrypted(line) {
			return line, nil
		}
		p, err := d.key.open(line, context)
		return p.text, err
	})
	if err != nil {
		return nil, fmt.Errorf("a comment: %w", err)
	}
	return d.format.emit(document)
}

// clone copies a tree, and lets change see the copies of nodes that have a value.
func clone(node *yaml.Node, values map[*yaml.Node]plain, change func(*yaml.Node, plain)) *yaml.Node {
	copied := *node
	copied.Content = nil
	for _, below := range node.Content {
		copied.Content = append(copied.Content, clone(below, values, change))
	}
	if p, there := values[node]; there {
		head, line, foot := copied.HeadComment, copied.LineComment, copied.FootComment
		change(&copied, p)
		copied.HeadComment, copied.LineComment, copied.FootComment = head, line, foot
	}
	return &copied
}

// readPlain reads the values of a document that is not encrypted.
func readPlain(document *yaml.Node) (map[*yaml.Node]plain, error) {
	found, err := leaves(document.Content[0])
	if err != nil {
		return nil, err
	}
	values := map[*yaml.Node]plain{}
	for _, l := range found {
		if values[l.node], err = scalar(l.node); err != nil {
			return nil, fmt.Errorf("%s: %w", JoinPath(l.path), err)
		}
		if isEncrypted(l.node.Value) {
			return nil, fmt.Errorf("%s: what is encrypted already cannot be encrypted again", JoinPath(l.path))
		}
		if l.node.Anchor != "" {
			return nil, fmt.Errorf("%s: anchors and aliases cannot be encrypted: write the value out", JoinPath(l.path))
		}
	}
	return values, nil
}

// earlier are the ciphertexts of a document by value and place: what did not change stays as it is written.
type earlier map[string]string

func earlierKey(p plain, context string) string { return p.kind + "\x00" + context + "\x00" + p.text }

// earlier returns those of all encrypted values and comments.
func (d *Document) earlier() (earlier, error) {
	known := earlier{}
	found, err := leaves(d.document.Content[0])
	if err != nil {
		return nil, err
	}
	for _, l := range found {
		if d.covers(l.path) {
			known[earlierKey(d.values[l.node], contextOf(l.path))] = l.node.Value
		}
	}
	return known, comments(d.document, d.document.Content[0], func(line, context string) (string, error) {
		if p, err := d.key.open(line, context); err == nil && line != "" {
			known[earlierKey(p, context)] = line
		}
		return line, nil
	})
}

// Replace makes the document what a text is, which Plain has returned and somebody has changed. Changed is false where
// it says the same.
func (d *Document) Replace(raw []byte) (changed bool, err error) {
	before, err := d.Plain()
	if err != nil || bytes.Equal(before, raw) {
		return false, err
	}
	if d.format == Binary {
		return true, d.Set(nil, string(raw))
	}
	document, err := d.format.parse(raw)
	if err != nil {
		return false, err
	}
	if cut(document.Content[0], metadataKey) != nil {
		return false, errors.New("the key sops is taken by SOPS itself")
	}
	values, err := readPlain(document)
	if err != nil {
		return false, err
	}
	known, err := d.earlier()
	if err != nil {
		return false, err
	}
	d.document, d.values = document, values
	return true, errors.Join(d.encrypt(known), d.sign())
}

// encrypt encrypts every value and comment that is to be; what is known has its ciphertext already.
func (d *Document) encrypt(known earlier) error {
	root := d.document.Content[0]
	found, err := leaves(root)
	if err != nil {
		return err
	}
	for _, l := range found {
		p := d.values[l.node]
		if sealed, there := known[earlierKey(p, contextOf(l.path))]; there && d.covers(l.path) {
			l.node.Style = 0
			l.node.SetString(sealed)
			continue
		}
		if err := d.put(l, p); err != nil {
			return err
		}
	}
	return d.encryptComments(root, known)
}

// encryptComments encrypts those where values are encrypted.
func (d *Document) encryptComments(root *yaml.Node, known earlier) error {
	covered := map[string]bool{contextOf(nil): d.covers(nil)}
	if err := walk(root, nil, func(_ *yaml.Node, path []string) error {
		covered[contextOf(path)] = d.covers(path)
		return nil
	}); err != nil {
		return err
	}
	return comments(d.document, root, func(line, context string) (string, error) {
		p := plain{line, typeComment}
		if !covered[context] {
			return line, nil
		}
		if sealed, there := known[earlierKey(p, context)]; there {
			return sealed, nil
		}
		return d.key.seal(p, context)
	})
}

// Rotate encrypts everything anew, with a new data key, for recipients. A file that has other keys than those of age
// cannot be rotated here.
func (d *Document) Rotate(recipients []Recipient) error {
	if len(d.about.others) > 0 {
		return &UnsupportedError{What: "its other keys would be lost: " + fmt.Sprint(d.about.others)}
	}
	if len(recipients) == 0 {
		return errors.New("there is nobody to encrypt it for")
	}
	if d.key != nil { // comments are encrypted with the old one
		if err := d.openComments(); err != nil {
			return err
		}
	}
	key, err := newDataKey()
	if err != nil {
		return err
	}
	var keys []ageKey
	for _, r := range recipients {
		enc, err := encryptFor(r.Key, key)
		if err != nil {
			return fmt.Errorf("%s: %w", r.Text, err)
		}
		keys = append(keys, ageKey{r.Text, enc})
	}
	d.key = key
	d.about.setAge(keys)
	return errors.Join(d.encrypt(nil), d.sign())
}

func (d *Document) openComments() error {
	return comments(d.document, d.document.Content[0], func(line, context string) (string, error) {
		if !isEncrypted(line) {
			return line, nil
		}
		p, err := d.key.open(line, context)
		return p.text, err
	})
}

func encryptFor(recipient age.Recipient, content []byte) (string, error) {
	var out bytes.Buffer
	armored := armor.NewWriter(&out)
	w, err := age.Encrypt(armored, recipient)
	if err != nil {
		return "", err
	}
	_, err = w.Write(content)
	err = errors.Join(err, w.Close(), armored.Close())
	return out.String(), err
}
