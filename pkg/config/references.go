package config

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"hive-test/pkg/secret"
)

// shortestSecret is the length, in characters, from which what a reference stands for is hidden wherever it is the value
// of a setting that is no secret itself: a shorter one, such as a bridge, is part of many words.
const shortestSecret = 8

// referenceForms tells whether the setting may be a reference in the file: as text, and as a mapping.
func (s Setting) referenceForms() (text, mapping bool) {
	switch {
	case s.NoFile || s.Kind != Text && s.Kind != Word || len(s.OneOf) > 0 || s.Key == "ssh.proxy_jump" || s.Key == "environment":
		return false, false
	case slices.Contains(ownColons(), s.Key):
		return false, true
	}
	return true, true
}

// ownColons are settings whose values may begin like a reference: file:///srv/hive.git, a volume of a storage called file, or a pattern.
func ownColons() []string { return []string{"repo", "os_image", "suite_run", "suite_skip", "fault"} }

// reference reads a value that is elsewhere; found is false for one that is here.
func (r *fileReader) reference(s Setting, node *yaml.Node) (ref secret.Reference, found bool, err error) {
	text, mapping := s.referenceForms()
	switch {
	case !r.references:
		return ref, false, nil
	case node.Kind == yaml.ScalarNode && text:
		ref, found, err = secret.Parse(node.Value)
	case node.Kind == yaml.MappingNode && mapping:
		ref, err = referenceFromMapping(node)
		found = true
	}
	return ref.In(r.base, r.home), found, err
}

// referenceFromMapping reads {KIND: WHERE}.
func referenceFromMapping(node *yaml.Node) (secret.Reference, error) {
	if len(node.Content) != 2 || !slices.Contains(secret.Kinds(), secret.Kind(node.Content[0].Value)) {
		return secret.Reference{}, fmt.Errorf("it must be a string, or a mapping of one of env, file, command, sops and age")
	}
	kind, where := secret.Kind(node.Content[0].Value), node.Content[1]
	if kind != secret.Command {
		if where.Kind != yaml.ScalarNode {
			return secret.Reference{}, fmt.Errorf("%s: it must be a string, not %s", kind, describeNode(where))
		}
		return secret.New(kind, where.Value)
	}
	if where.Kind != yaml.SequenceNode {
		return secret.Reference{}, fmt.Errorf("command: it must be a list of the program and its arguments: no shell reads it")
	}
	list, err := listFromYAML(where)
	if err != nil {
		return secret.Reference{}, fmt.Errorf("command: %w", err)
	}
	return secret.NewCommand(list.([]string))
}

func isReference(value any) bool {
	_, named := value.(secret.Reference)
	return named
}

// noteReferences keeps which settings are elsewhere.
func (l *loader) noteReferences(settings *Settings) {
	settings.references = map[string]secret.Reference{}
	for key, value := range l.values {
		if ref, named := value.(secret.Reference); named {
			settings.references[key], settings.values[key] = ref, ref.String()
		}
	}
	if settings.resolver = l.opts.Resolver; settings.resolver == nil {
		settings.resolver = secret.NewResolver(secret.Options{Getenv: l.env, Environ: l.opts.Environ, KeyFile: settings.AgeKeyFile})
	}
}

// Resolver is what reads the references of these settings, each once.
func (s Settings) Resolver() *secret.Resolver { return s.resolver }

// Reference is where the value of a setting is; named is false where the settings hold it, or it is not given.
func (s Settings) Reference(key string) (ref secret.Reference, named bool) {
	ref, named = s.references[key]
	return ref, named
}

// WithReferences returns the settings with the values of the references that any of some verbs uses, but for the API token (see
// WithToken), and for what is about a Proxmox VE of the user's own where a simulated one is asked for. Hidden are values
// that nothing may show, whatever the error.
func (s Settings) WithReferences(ctx context.Context, verbs ...string) (read Settings, hidden []string, err error) {
	var problems []error
	read = s
	for _, row := range Table() {
		ref, named := s.references[row.Key]
		if !named || row.Secret || !slices.ContainsFunc(verbs, row.UsedBy) || s.Sim && row.OfOwnProxmox() {
			continue
		}
		value, err := s.resolver.Read(ctx, ref)
		if len(value) >= shortestSecret {
			hidden = append(hidden, value)
		}
		if err == nil {
			err = row.check(value)
		}
		if err != nil {
			problems = append(problems, s.referenceError(row.Key, err))
			continue
		}
		read.put(row.Key, value)
	}
	return read, hidden, joined(problems)
}

// joined is problems as one error; nil: there are none.
func joined(problems []error) error {
	if len(problems) == 0 {
		return nil
	}
	return &Error{Problems: problems}
}

// referenceError says which setting it is, and where that stands.
func (s Settings) referenceError(key string, err error) error {
	return fmt.Errorf("%s (%s): %w", key, s.Source(key), err)
}

// WithToken returns the settings with the API token, where that is a reference. What failed is Proxmox.TokenErr: not
// everything needs a token.
func (s Settings) WithToken(ctx context.Context) Settings {
	const key = "proxmox.token"
	ref, named := s.references[key]
	if !named || !s.Proxmox.Token.Empty() {
		return s
	}
	value, err := s.resolver.Read(ctx, ref)
	if err != nil {
		s.Proxmox.TokenErr = fmt.Errorf("no API token: %w", s.referenceError(key, err))
		return s
	}
	s.Proxmox.Token, s.Proxmox.TokenErr = NewSecret(strings.TrimSpace(value)), nil
	return s
}

// WithPassphrase returns the settings with the passphrase of states, where that is a reference. What failed is StatePassphraseErr: without a
// backend none is needed.
func (s Settings) WithPassphrase(ctx context.Context) Settings {
	const key = "state_passphrase"
	ref, named := s.references[key]
	if !named || !s.StatePassphrase.Empty() || !s.State.Remote() {
		return s
	}
	value, err := s.resolver.Read(ctx, ref)
	if err != nil {
		s.StatePassphraseErr = s.referenceError(key, err)
		return s
	}
	s.StatePassphrase, s.StatePassphraseErr = NewSecret(strings.TrimSpace(value)), nil
	return s
}

// put gives a text setting a value, in these settings alone.
func (s *Settings) put(key, value string) {
	at := reflect.ValueOf(s).Elem()
	for part := range strings.SplitSeq(key, ".") {
		at = at.FieldByIndex(fieldOf(at.Type(), part))
	}
	at.SetString(value)
}

// fieldOf finds the field of a key.
func fieldOf(of reflect.Type, key string) []int {
	field, _ := of.FieldByNameFunc(func(name string) bool {
		f, _ := of.FieldByName(name)
		return f.Tag.Get("mapstructure") == key
	})
	return field.Index
}
