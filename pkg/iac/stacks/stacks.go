// Package stacks holds Terraform configurations of AWS's provider such as users write, one for each thing that an EC2
// endpoint must be able to do.
package stacks

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
)

//go:embed provider.tf */*.tf
var files embed.FS

// Stack is a configuration.
type Stack struct {
	Name string
	// NeedsImage means that it starts an instance.
	NeedsImage bool
}

// All returns the stacks, the smallest first.
func All() []Stack {
	return []Stack{{Name: "keypair"}, {Name: "vpc"}, {Name: "instance", NeedsImage: true}, {Name: "tags"}}
}

// Files returns the stack's files by name, all for one directory: its own, and what all stacks share.
func (s Stack) Files() (map[string][]byte, error) {
	own, err := fs.Glob(files, s.Name+"/*.tf")
	if err != nil || len(own) == 0 {
		return nil, fmt.Errorf("there is no stack %s: %w", s.Name, fs.ErrNotExist)
	}
	all := map[string][]byte{}
	for _, name := range append(own, "provider.tf") {
		if all[path.Base(name)], err = files.ReadFile(name); err != nil {
			return nil, err
		}
	}
	return all, nil
}
