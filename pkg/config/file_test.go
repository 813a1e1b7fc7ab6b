package config

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
)

func TestOneDocument(t *testing.T) {
	for text, line := range map[string]string{ // no line: it is read
		"":                                      "",
		"# nothing\n":                           "",
		"---\nnode_count: 2\n---\n":             "",
		"---\nnode_count: 2\n...\n":             "",
		"node_count: 2\n---\n# nothing\n":       "",
		"node_count: 2\n---\ncpu_cores: 8\n":    "3",
		"---\n---\nnode_count: 2\n---\n\n- a\n": "6",
	} {
		path := write(t, filepath.Join(t.TempDir(), "x.yaml"), text)
		_, err := Load(LoadOptions{ConfigPath: path, Env: env()})
		if line == "" && err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if want := path + ":" + line + ": here a second YAML document begins"; line != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	path := write(t, filepath.Join(t.TempDir(), "hosts.yaml"), "nodes: [{name: a, management: 10.0.0.1}]\n---\nssh_user: root\n")
	if _, err := LoadHosts(context.Background(), path, SSHConfig{}); err == nil || !strings.HasPrefix(err.Error(), path+":3: here a second") {
		t.Error(err)
	}
}
