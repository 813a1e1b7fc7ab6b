package sops

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// metadata is what a document says of its encryption.
type metadata struct {
	rule
	age           []ageKey
	others        []string // kinds of further keys that the data key is encrypted with
	modified      time.Time
	mac           string
	onlyEncrypted bool       // the MAC is of encrypted values alone
	raw           *yaml.Node // all of it, as it is written
}

// ageKey is the data key, encrypted for one recipient.
type ageKey struct{ recipient, enc string }

// otherKeys are the fields of keys that are none of age.
func otherKeys() []string {
	return []string{"kms", "gcp_kms", "hckms", "azure_kv", "hc_vault", "pgp", "key_groups"}
}

// fieldsKnown are all fields that may be there: another could change what the rest means.
func fieldsKnown() []string {
	return append(otherKeys(), "age", "lastmodified", "mac", "version", "unencrypted_suffix", "encrypted_suffix",
		"unencrypted_regex", "encrypted_regex", "unencrypted_comment_regex", "encrypted_comment_regex", "mac_only_encrypted",
		"shamir_threshold")
}

// readMetadata reads the mapping that stands below the key sops.
func readMetadata(raw *yaml.Node) (metadata, error) {
	m := metadata{raw: raw}
	if raw.Kind != yaml.MappingNode {
		return m, errors.New("what stands below the key sops is not SOPS's")
	}
	for i := 0; i+1 < len(raw.Content); i += 2 {
		if err := m.field(raw.Content[i].Value, raw.Content[i+1]); err != nil {
			return m, err
		}
	}
	switch {
	case m.mac == "":
		return m, errors.New("it has no MAC: whether it was changed cannot be told")
	case m.modified.IsZero():
		return m, errors.New("it does not say when it was changed last")
	case len(m.age) == 0 && len(m.others) == 0:
		return m, errors.New("it names no key that it is encrypted with")
	}
	return m, m.oneRule()
}

// oneRule refuses several rules: which would count is nowhere said.
func (m *metadata) oneRule() error {
	given := 0
	for _, text := range []string{m.unencryptedSuffix, m.encryptedSuffix, m.unencryptedRegex, m.encryptedRegex} {
		if text != "" {
			given++
		}
	}
	if given > 1 {
		return errors.New("it has several rules of which values are encrypted")
	}
	return nil
}

func (m *metadata) field(name string, value *yaml.Node) (err error) {
	if !slices.Contains(fieldsKnown(), name) {
		return fmt.Errorf("it says %q of its encryption, which is not known here", name)
	}
	empty := value.ShortTag() == "!!null" || value.Kind == yaml.SequenceNode && len(value.Content) == 0
	if texts := map[string]*string{
		"mac": &m.mac, "unencrypted_suffix": &m.unencryptedSuffix, "encrypted_suffix": &m.encryptedSuffix,
		"unencrypted_regex": &m.unencryptedRegex, "encrypted_regex": &m.encryptedRegex,
	}; texts[name] != nil {
		*texts[name] = value.Value
		return nil
	}
	switch {
	case empty || name == "version" || name == "shamir_threshold" && (value.Value == "0" || value.Value == ""):
	case strings.HasSuffix(name, "_comment_regex"):
		if value.Value != "" {
			return &UnsupportedError{What: "comments decide which of its values are encrypted (" + name + ")"}
		}
	case name == "shamir_threshold" || name == "key_groups":
		return &UnsupportedError{What: "its key is shared among groups of keys (" + name + ")"}
	case name == "mac_only_encrypted":
		m.onlyEncrypted = value.Value == "true"
	case name == "lastmodified":
		if m.modified, err = time.Parse(time.RFC3339, value.Value); err != nil {
			return errors.New("when it was changed last cannot be read")
		}
	case name == "age":
		return m.ageKeys(value)
	default:
		m.others = append(m.others, name)
	}
	return nil
}

func (m *metadata) ageKeys(list *yaml.Node) error {
	var keys []map[string]string
	if err := list.Decode(&keys); err != nil {
		return errors.New("its age keys cannot be read")
	}
	for _, key := range keys {
		if key["enc"] == "" {
			return errors.New("an age key of it is empty")
		}
		m.age = append(m.age, ageKey{key["recipient"], key["enc"]})
	}
	return nil
}

// set writes a field, a new one at the end.
func (m *metadata) set(name string, value *yaml.Node) {
	for i := 0; i+1 < len(m.raw.Content); i += 2 {
		if m.raw.Content[i].Value == name {
			m.raw.Content[i+1] = value
			return
		}
	}
	m.raw.Content = append(m.raw.Content, text(name), value)
}

// setAge writes the keys of age.
func (m *metadata) setAge(keys []ageKey) {
	list := &yaml.Node{Kind: yaml.SequenceNode}
	for _, key := range keys {
		enc := text(key.enc)
		enc.Style = yaml.LiteralStyle
		list.Content = append(list.Content, &yaml.Node{
			Kind: yaml.MappingNode, Content: []*yaml.Node{text("recipient"), text(key.recipient), text("enc"), enc},
		})
	}
	m.age = keys
	m.set("age", list)
}

// text is a node of a string.
func text(value string) *yaml.Node {
	node := new(yaml.Node)
	node.SetString(value)
	return node
}
