package config

import (
	"bytes"
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/progress"
)

// Entry is a setting that a config file is to have.
type Entry struct {
	Key   string
	Value any    // of the Go type of the setting
	Note  string // beside what the setting means, such as what else it could be
}

// Entries returns the settings that were set by the sources that from accepts (see Source), as entries of a config
// file. What belongs into no file is left out: secrets, and how one run is told of.
func (s Settings) Entries(from func(source string) bool) []Entry {
	var entries []Entry
	for _, row := range Table() {
		if row.NoFile || row.Secret || !s.Given(row.Key) || !from(s.Source(row.Key)) || ofOneRun(row.Key) {
			continue
		}
		value := s.values[row.Key]
		if row.Kind == Hypervisors {
			value = s.Proxmox.Hypervisors
		}
		entries = append(entries, Entry{Key: row.Key, Value: value})
	}
	return entries
}

// ofOneRun reports whether a setting says how one run is shown.
func ofOneRun(key string) bool {
	return slices.Contains([]string{"output", "log_format", "verbose", "quiet", "no_color", "timeout", "environment"}, key)
}

// inFile returns a path as a file in dir names it: relative ones are relative to the file there.
func inFile(path, dir string) string {
	if path == "" || strings.HasPrefix(path, "~/") || Absolute(dir) == Absolute(".") {
		return path
	}
	return Absolute(path)
}

// Render returns a config file in dir with the entries, each below what its setting means; of several of a setting the
// last. The settings of later are for people to fill in: they are comments, with their defaults.
func Render(dir, header string, entries []Entry, later ...string) ([]byte, error) {
	w := writer{root: &yaml.Node{Kind: yaml.MappingNode}}
	table := Table()
	order := func(e Entry) int { return slices.IndexFunc(table, func(s Setting) bool { return s.Key == e.Key }) }
	entries = slices.Clone(entries)
	slices.Reverse(entries)
	slices.SortStableFunc(entries, func(a, b Entry) int { return cmp.Compare(order(a), order(b)) })
	entries = slices.CompactFunc(entries, func(a, b Entry) bool { return a.Key == b.Key })
	for _, e := range entries {
		s, known := find(table, e.Key)
		if !known {
			return nil, fmt.Errorf("config: %q is no setting", e.Key)
		}
		if path, ok := e.Value.(string); ok && s.Kind.IsPath() {
			e.Value = inFile(path, dir)
		}
		if err := w.add(s, e); err != nil {
			return nil, err
		}
	}
	var text bytes.Buffer
	comment(&text, header)
	text.WriteByte('\n')
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	if err := encoder.Encode(w.root); err != nil {
		return nil, err
	}
	text.WriteByte('\n')
	for _, key := range later {
		if s, known := find(table, key); known && !slices.ContainsFunc(entries, func(e Entry) bool { return e.Key == key }) {
			comment(&text, fmt.Sprintf("%s: %s # %s", s.Key, s.DefaultText(), s.Help))
		}
	}
	return text.Bytes(), nil
}

func comment(to *bytes.Buffer, text string) {
	for line := range strings.Lines(text) {
		to.WriteString(strings.TrimRight("# "+strings.TrimRight(line, "\n"), " ") + "\n")
	}
}

type writer struct{ root *yaml.Node }

// add puts an entry where its key says, with its meaning above.
func (w writer) add(s Setting, e Entry) error {
	at := w.root
	parts := strings.Split(s.Key, ".")
	for _, part := range parts[:len(parts)-1] {
		at = group(at, part)
	}
	value, err := node(e.Value)
	if err != nil {
		return fmt.Errorf("config: %s: %w", s.Key, err)
	}
	key := &yaml.Node{Kind: yaml.ScalarNode, Value: parts[len(parts)-1], HeadComment: wrap(s.Help)}
	if e.Note != "" {
		key.HeadComment += "\n" + wrap(e.Note)
	}
	at.Content = append(at.Content, key, value)
	return nil
}

// wrap breaks a comment into lines of a readable length.
func wrap(text string) string {
	const width = 96
	line, lines := "", []string{}
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return strings.Join(append(lines, line), "\n")
}

// group returns the mapping below a key, which is made where there is none.
func group(at *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(at.Content); i += 2 {
		if at.Content[i].Value == name {
			return at.Content[i+1]
		}
	}
	below := &yaml.Node{Kind: yaml.MappingNode}
	at.Content = append(at.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: name}, below)
	return below
}

func node(value any) (*yaml.Node, error) {
	n := new(yaml.Node)
	switch v := value.(type) {
	case time.Duration:
		return n, n.Encode(progress.FormatLimit(v))
	case []placement.Hypervisor:
		n.Kind = yaml.SequenceNode
		for _, h := range v {
			one := new(yaml.Node)
			if err := one.Encode(hypervisorEntry(h)); err != nil {
				return nil, err
			}
			one.Style = yaml.FlowStyle
			n.Content = append(n.Content, one)
		}
		return n, nil
	}
	return n, n.Encode(value)
}

// hypervisorEntry is a hypervisor without what it does not say.
func hypervisorEntry(h placement.Hypervisor) any {
	if h.Port == 22 {
		h.Port = 0
	}
	return struct {
		Name         string `yaml:"name"`
		Address      string `yaml:"address,omitempty"`
		Port         int    `yaml:"port,omitempty"`
		Datastore    string `yaml:"datastore_id,omitempty"`
		SnippetStore string `yaml:"snippet_store,omitempty"`
		TemplateVMID int    `yaml:"template_vmid,omitempty"`
	}{h.Name, h.Address, h.Port, h.Datastore, h.SnippetStore, h.TemplateVMID}
}

// TokenPath returns where the token of a config file is kept beside it.
func TokenPath(file string) string {
	if filepath.Ext(file) == ".token" {
		return file + ".token"
	}
	return strings.TrimSuffix(file, filepath.Ext(file)) + ".token"
}
