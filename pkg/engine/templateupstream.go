package engine

import (
	"os"
	"path/filepath"

	"hive-test/pkg/config"
	"hive-test/pkg/template"
)

// upstreamMakefile is the input that says by which Makefile the system was made ready for hive.
const upstreamMakefile = "hive's Makefile"

// upstreamOf is the Makefile of the source of hive that the settings name. A directory whose Makefile cannot install what hive needs
// has none; of a repository that is seen on the node.
func upstreamOf(settings config.Settings) template.Upstream {
	source := sourceOf(settings)
	if source.SourceDir != "" {
		path := filepath.Join(source.SourceDir, "Makefile")
		text, err := os.ReadFile(path)
		if err != nil || !template.HasTargets(string(text)) {
			return template.Upstream{}
		}
		return template.Upstream{Path: path, SHA256: template.HashOf(string(text))}
	}
	return template.Upstream{Repo: source.Repo, Ref: source.Ref}
}

// withUpstream has the layers that install the system for hive do so as the Makefile says.
func withUpstream(layers []template.Layer, settings config.Settings) []template.Layer {
	for i, layer := range layers {
		if layer.Name == template.Base || layer.Name == template.Single {
			layers[i].Upstream = upstreamOf(settings)
		}
	}
	return layers
}

// upstreamInput says for people, and for the gate, which Makefile a layer is made by; empty: none.
func upstreamInput(u template.Upstream) string {
	if u.Path != "" {
		return u.SHA256
	}
	if u.Repo != "" {
		return "repository " + hiddenPassword(u.Repo) + " at " + u.Ref
	}
	return ""
}
