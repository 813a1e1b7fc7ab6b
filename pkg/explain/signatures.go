package explain

import (
	"cmp"
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

// Signature is what is known of one kind of failure: how it looks, what it means and what to do. Cause and Next may
// name {name}, the cluster, and {node}. Where Next is empty, the hint of what failed says it best.
type Signature struct {
	ID       string   `json:"id"`
	Patterns []string `json:"patterns"` // regular expressions; one that matches is enough
	Phases   []string `json:"phases"`   // none: any
	Steps    []string `json:"steps"`    // none: any
	Where    []string `json:"where"`    // none: error and output
	Cause    string   `json:"cause"`
	Next     string   `json:"next"`
	// Unless is a regular expression: a text that matches it is another failure. Empty: none is.
	Unless string `json:"unless"`
	// Needs is a regular expression that what failed has to match where the text stands in a file: a log keeps what was
	// healed long ago.
	Needs string `json:"needs"`
	// Early says that a run may be refused so before it begins: Remedy knows it, too.
	Early bool `json:"early"`
	// Hosts are what is said of a cluster of hosts that were there before; nil: the same. An empty cause is the same.
	Hosts *Advice `json:"hosts"`
	// Only is "proxmox" where clusters of such hosts cannot fail so.
	Only string `json:"only"`

	compiled []*regexp.Regexp
	needs    *regexp.Regexp
	unless   *regexp.Regexp // nil: Unless is empty
}

// Advice is a cause and what to do.
type Advice struct {
	Cause string `json:"cause"`
	Next  string `json:"next"`
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
		needs, err := regexp.Compile(s.Needs)
		if err != nil {
			return nil, fmt.Errorf("signature %s: %w", s.ID, err)
		}
		if s.needs = needs; s.Unless == "" {
			continue
		}
		if s.unless, err = regexp.Compile(s.Unless); err != nil {
			return nil, fmt.Errorf("signature %s: %w", s.ID, err)
		}
	}
	return list, nil
}

// applies tells whether the signature is one of failures in that phase and step of such a cluster. What is not known
// applies.
func (s Signature) applies(f *failure) bool {
	fits := func(list []string, value string) bool {
		return len(list) == 0 || value == "" || slices.Contains(list, value)
	}
	return fits(s.Phases, f.phase) && fits(s.Steps, f.step) && (s.Only == "" || !f.hosts)
}

// find returns where the signature's text begins in text, or -1.
func (s Signature) find(text string) int {
	if s.unless != nil && s.unless.MatchString(text) {
		return -1
	}
	for _, pattern := range s.compiled {
		if at := pattern.FindStringIndex(text); at != nil {
			return at[0]
		}
	}
	return -1
}

// Remedy returns what to do about an error that has kept a run from its begin; empty: it is not known. Name is that of the cluster.
func Remedy(err, name string) string {
	list, failure := Signatures()
	if failure != nil {
		return ""
	}
	text := strings.Join(strings.Fields(err), " ") // programs break lines as they like
	for _, s := range list {
		if s.Early && s.find(text) >= 0 {
			return fill(s.Next, name, "")
		}
	}
	return ""
}

// fill puts the names of this failure into a text of the table: {node} stands in paths, {host} in commands.
func fill(text, name, node string) string {
	return strings.NewReplacer("{name}", name, "{node}", cmp.Or(node, "*"), "{host}", cmp.Or(node, "NODE")).Replace(text)
}
