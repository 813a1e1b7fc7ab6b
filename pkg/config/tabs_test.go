package config

import (
	"testing"

	"go.yaml.in/yaml/v3"
)

func TestATabInAFileIsToldOf(t *testing.T) {
	const tab = "a tab stands where blanks belong: YAML takes only blanks there"
	for _, c := range []struct{ text, want string }{
		{"proxmox:\n\tendpoint: x\n", "f:2: " + tab},
		{"proxmox:\n  endpoint: x\n\tca_file: y\n", "f:3: " + tab},
		{"nodes:\n  - name: a\n\t- name: b\n", "f:3: " + tab},
		{"a: 1\n# a comment\n\n\tb: 2\n", "f:4: " + tab},
		{"a: @b\n", "f: found character that cannot start any token"},
	} {
		var document yaml.Node
		err := yaml.Unmarshal([]byte(c.text), &document)
		if err == nil {
			t.Errorf("%q is taken", c.text)
			continue
		}
		if got := syntaxError("f", []byte(c.text), err).Error(); got != c.want {
			t.Errorf("%q: got %q, want %q (%v)", c.text, got, c.want, err)
		}
	}
}
