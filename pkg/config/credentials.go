package config

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"hive-test/pkg/secret"
)

// The programs that credentials are given to, each its own.
const (
	CredentialsTofu   = "tofu"   // OpenTofu that makes the VMs, for its providers
	CredentialsState  = "state"  // the same, for where its state is
	CredentialsPacker = "packer" // Packer that builds a template
)

// CredentialOwners returns all of them.
func CredentialOwners() []string {
	return []string{CredentialsTofu, CredentialsState, CredentialsPacker}
}

// Credential is a variable of the environment of one program.
type Credential struct {
	Owner string // one of CredentialOwners
	Name  string // of the variable
	Place string // FILE:LINE, or a line
	value Secret // empty where it is a reference
	ref   secret.Reference
}

// Reference is where the value is; named is false where the settings hold it.
func (c Credential) Reference() (ref secret.Reference, named bool) { return c.ref, c.ref.Kind != "" }

// String is the variable with where its value is.
func (c Credential) String() string {
	if ref, named := c.Reference(); named {
		return ref.String()
	}
	return c.value.String()
}

// credentials reads a mapping of programs to mappings of variables.
func (r *fileReader) credentials(key string, node *yaml.Node) []Credential {
	if node.Kind != yaml.MappingNode {
		r.problem(node.Line, "%s: it must be a mapping of %s to variables, not %s", key, strings.Join(CredentialOwners(), ", "), describeNode(node))
		return nil
	}
	var list []Credential
	for i := 0; i+1 < len(node.Content); i += 2 {
		owner, variables := node.Content[i], node.Content[i+1]
		switch variables, given := followed(variables); {
		case !slices.Contains(CredentialOwners(), owner.Value):
			r.problem(owner.Line, "%s: %q is none of %s", key, owner.Value, strings.Join(CredentialOwners(), ", "))
		case !given:
		case variables.Kind != yaml.MappingNode:
			r.problem(variables.Line, "%s.%s: it must be a mapping of variables to values, not %s", key, owner.Value, describeKind(variables))
		default:
			list = append(list, r.credentialsOf(key+"."+owner.Value, owner.Value, variables)...)
		}
	}
	return list
}

// describeKind is describeNode without what may be a secret.
func describeKind(node *yaml.Node) string {
	if node.Kind == yaml.ScalarNode {
		return "a text"
	}
	return describeNode(node)
}

func (r *fileReader) credentialsOf(key, owner string, node *yaml.Node) []Credential {
	var list []Credential
	for i := 0; i+1 < len(node.Content); i += 2 {
		name, value := node.Content[i], node.Content[i+1]
		c := Credential{Owner: owner, Name: name.Value, Place: fmt.Sprintf("%s:%d", r.path, name.Line)}
		err := checkCredential(c)
		if slices.ContainsFunc(list, func(other Credential) bool { return other.Name == c.Name }) {
			err = fmt.Errorf("it is there twice")
		}
		if err == nil {
			err = r.credential(&c, value)
		}
		if err != nil {
			r.problem(name.Line, "%s.%s: %w", key, name.Value, err)
			continue
		}
		list = append(list, c)
	}
	return list
}

func (r *fileReader) credential(c *Credential, node *yaml.Node) (err error) {
	node, given := followed(node)
	switch {
	case !given:
		return fmt.Errorf("it has no value")
	case node.Kind == yaml.MappingNode:
		c.ref, err = referenceFromMapping(node)
	case node.Kind == yaml.ScalarNode:
		var found bool
		if c.ref, found, err = secret.Parse(node.Value); !found {
			c.value = NewSecret(node.Value)
		}
	default:
		return fmt.Errorf("it must be a string or a reference, not %s", describeNode(node))
	}
	c.ref = c.ref.In(r.base, r.home)
	return err
}

// checkCredential refuses names that are none, and those that hive-test gives these programs itself, or that would have
// them do something else.
func checkCredential(c Credential) error {
	begins := func(prefixes ...string) bool {
		return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(c.Name, prefix) })
	}
	switch {
	case strings.Contains(c.Name, "=") || !variablePattern.MatchString(c.Name):
		return fmt.Errorf("it is no name of a variable")
	case slices.Contains([]string{"PROXMOX_VE_ENDPOINT", "PROXMOX_VE_API_TOKEN", "PROXMOX_VE_INSECURE", "PROXMOX_URL", "PROXMOX_USERNAME", "PROXMOX_PASSWORD", "PROXMOX_TOKEN"}, c.Name):
		return fmt.Errorf("hive-test says itself where Proxmox VE is and who asks: set proxmox.endpoint and proxmox.token")
	case begins("TF_VAR_", "TF_CLI_", "TF_LOG", "TF_DATA_DIR", "TF_WORKSPACE", "TF_INPUT", "TF_IN_AUTOMATION", "TF_REATTACH_",
		"TF_PLUGIN_", "TF_APPEND_", "TF_ENCRYPTION", "PKR_VAR_", "PACKER_", "HIVE_TEST_", "LD_", "DYLD_", "CHECKPOINT_"),
		slices.Contains([]string{"PATH", "HOME", "TMPDIR", "SHELL", "IFS", "ENV", "BASH_ENV"}, c.Name):
		return fmt.Errorf("it is no credential: it would change what the program does")
	}
	return nil
}

// CredentialsOf reads the variables of some programs, those of the later over the earlier. Hidden are values that
// nothing may show, whatever the error. It may be called again: what is read, is read once.
func (s Settings) CredentialsOf(ctx context.Context, owners ...string) (variables map[string]string, hidden []string, err error) {
	variables = map[string]string{}
	var problems []error
	for _, owner := range owners {
		for _, c := range s.Credentials {
			if c.Owner != owner {
				continue
			}
			value, err := s.credential(ctx, c)
			if err != nil {
				problems = append(problems, err)
				continue
			}
			variables[c.Name] = value
			if !slices.Contains(switches(), strings.ToLower(value)) {
				hidden = append(hidden, value)
			}
		}
	}
	return variables, hidden, joined(problems)
}

// switches are values that are no secrets: they would be hidden wherever the word stands.
func switches() []string { return []string{"true", "false", "none", "null"} }

func (s Settings) credential(ctx context.Context, c Credential) (string, error) {
	ref, named := c.Reference()
	if !named {
		return c.value.Reveal(), nil
	}
	value, err := s.resolver.Read(ctx, ref)
	if err != nil {
		return "", fmt.Errorf("credentials.%s.%s (%s): %w", c.Owner, c.Name, c.Place, err)
	}
	return value, nil
}

// HeldCredentials are the values of credentials that the settings hold themselves, and that nothing may show.
func (s Settings) HeldCredentials() []string {
	var values []string
	for _, c := range s.Credentials {
		if value := c.value.Reveal(); len(value) >= shortestSecret {
			values = append(values, value)
		}
	}
	return values
}

// ownersOf are the programs that have credentials, with the names of their variables, for people.
func ownersOf(list []Credential) string {
	names := map[string][]string{}
	for _, c := range list {
		names[c.Owner] = append(names[c.Owner], c.Name)
	}
	var parts []string
	for _, owner := range slices.Sorted(maps.Keys(names)) {
		parts = append(parts, owner+": "+strings.Join(names[owner], " "))
	}
	return strings.Join(parts, ", ")
}
