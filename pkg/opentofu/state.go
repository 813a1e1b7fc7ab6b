package opentofu

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"hive-test/pkg/progress"
)

// Resource is one instance of a resource that a state holds.
type Resource struct {
	Type string
	// Key tells it from other instances of the resource; empty where it is the only one or they are numbered.
	Key string
	// Tainted says that it was not made to the end.
	Tainted bool
	// Provider is the address of the provider that made it.
	Provider string
	// Attributes are a JSON object.
	Attributes json.RawMessage
}

// ReadState returns what a state file says that tofu manages, without a child process. A missing or empty file is an
// empty state.
func ReadState(path string) ([]Resource, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(bytes.TrimSpace(raw)) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w: read the state: %w", ErrUnusable, err)
	}
	var s struct {
		Resources []struct {
			Mode      string `json:"mode"`
			Type      string `json:"type"`
			Provider  string `json:"provider"`
			Instances []struct {
				Key        any             `json:"index_key"`
				Status     string          `json:"status"`
				Attributes json.RawMessage `json:"attributes"`
			} `json:"instances"`
		} `json:"resources"`
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, progress.WithHint(fmt.Errorf("%w: the state %s cannot be decoded: %w", ErrUnusable, path, err),
			"put a good copy back ("+path+".backup may hold the state before), "+
				"or remove the cluster with `hive-test down`, which needs none")
	}
	var list []Resource
	for _, resource := range s.Resources {
		if resource.Mode != "managed" {
			continue
		}
		for _, i := range resource.Instances {
			key, _ := i.Key.(string)
			list = append(list, Resource{
				Type: resource.Type, Key: key, Tainted: i.Status == "tainted",
				Provider: resource.Provider, Attributes: i.Attributes,
			})
		}
	}
	return list, nil
}
