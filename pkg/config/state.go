package config

import (
	"go.yaml.in/yaml/v3"
)

// Local is the backend that is none: the state of each cluster is a file in its directory.
const Local = "local"

// State is where clusters' states are kept.
type State struct {
	// Backend is the type, as OpenTofu calls it; empty or Local: the clusters directory.
	Backend string
	// Config are the backend's own settings, with {name} for the name of a cluster.
	Config map[string]any
}

// Remote reports whether states are kept elsewhere than in the clusters directory.
func (s State) Remote() bool { return s.Backend != "" && s.Backend != Local }

// state reads a mapping of the backend and its own settings.
func (r *fileReader) state(key string, node *yaml.Node) State {
	var all map[string]any
	if node.Kind != yaml.MappingNode || node.Decode(&all) != nil {
		r.problem(node.Line, "%s: it must be a mapping of backend and the backend's own settings, not %s", key, describeNode(node))
		return State{}
	}
	backend, _ := all["backend"].(string)
	delete(all, "backend")
	switch {
	case backend == "":
		r.problem(node.Line, "%s: it needs backend, the type of a backend of OpenTofu", key)
	case backend == Local && len(all) > 0:
		r.problem(node.Line, "%s: the backend local has no settings: states are in the clusters directory", key)
	}
	return State{backend, all}
}
