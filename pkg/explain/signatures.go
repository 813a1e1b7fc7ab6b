package explain

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Where a text that may match stands.
const (
	InError  = "error"  // what a phase, step or case failed with
	InOutput = "output" // what children and nodes said in the phase that failed
	InFiles  = "files"  // the logs that were gathered
)

// Signature is what is known of one kind of failure: how it looks, what it means and what to do. Cause and Next may name
// {name}, the cluster, and {node}. Where Next is empty, the hint of what failed says it best.
type Signature struct {
	ID       string   `json:"id"`
	Patterns []string `json:"patterns"` // regular expressions; one that matches is enough
	Phases   []string `json:"phases"`   // none: any
	Steps    []string `json:"steps"`    // none: any
	Where    []string `json:"where"`    // none: error and output
	Cause    string   `json:"cause"`
	Next     string   `json:"next"`

	compiled []*regexp.Regexp
}

//go:embed signatures.json
var table []byte

// Signatures are all that are known, the more particular ones first.
func Signatures() ([]Signature, error) {
	var list []Signature
	if err := json.Unmarshal(table, &list); err != nil {
		return nil, fmt.Errorf("reading the signatures: %w", err)
	}
	for i := range list {
		s := &list[i]
		if len(s.Where) == 0 {
			s.Where = []string{InError, InOutput}
		}
		for _, pattern := range s.Patterns {
			compiled, err := regexp.Compile(pattern)
			if err != nil {
				return nil, fmt.Errorf("signature %s: %w", s.ID, err)
			}
			s.compiled = append(s.compiled, compiled)
		}
	}
	return list, nil
}

// applies tells whether the signature is one of failures in that phase and step. What is not known applies.
func (s Signature) applies(phase, step string) bool {
	fits := func(list []string, value string) bool {
		return len(list) == 0 || value == "" || slices.Contains(list, value)
	}
	return fits(s.Phases, phase) && fits(s.Steps, step)
}

// find returns where the signature's text begins in text, or -1.
func (s Signature) find(text string) int {
	for _, pattern := range s.compiled {
		if at := pattern.FindStringIndex(text); at != nil {
			return at[0]
		}
	}
	return -1
}

// fill puts the names of this failure into a text of the table.
func fill(text, name, node string) string {
	if node == "" {
		node = "*"
	}
	return strings.NewReplacer("{name}", name, "{node}", node).Replace(text)
}
