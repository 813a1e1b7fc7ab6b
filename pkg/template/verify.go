package template

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Clone is what one machine that was cloned from a template tells of itself.
type Clone struct {
	Name     string
	Left     []string            // what the template has left there: a kind, and a file or the like
	Own      map[string][]string // what no two machines share, by kind
	Versions Inputs
}

// ParseCheck reads what ScriptCheck prints.
func (c *Clone) ParseCheck(text string) {
	c.Own = map[string][]string{}
	for line := range strings.Lines(text) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		kind, value, _ := strings.Cut(rest, " ")
		switch word {
		case "left":
			c.Left = append(c.Left, rest)
		case "own":
			c.Own[kind] = append(c.Own[kind], value)
		}
	}
}

// Fault is something that a template should not be, or have.
type Fault struct {
	Kind string `json:"kind"` // host-key, machine-id, version, ...
	What string `json:"what"`
}

func (f Fault) String() string { return f.Kind + ": " + f.What }

// Faults compares clones of a template with one another and with what was recorded when it was built.
func (i Identity) Faults(clones []Clone) []Fault {
	var faults []Fault
	add := func(f Fault) {
		if !slices.Contains(faults, f) {
			faults = append(faults, f)
		}
	}
	for _, clone := range clones {
		for _, left := range clone.Left {
			kind, what, _ := strings.Cut(left, " ")
			add(Fault{kind, what + " is left of the machine that was built"})
		}
		for _, d := range i.Versions.Differences(clone.Versions) {
			if d.Was != "" { // what a clone has besides is its own affair
				add(Fault{"version", d.String()})
			}
		}
	}
	for _, fault := range shared(clones) {
		if !slices.ContainsFunc(faults, func(f Fault) bool { return f.Kind == fault.Kind }) {
			add(fault)
		}
	}
	return faults
}

// shared are the kinds of which two clones have the same.
func shared(clones []Clone) []Fault {
	var faults []Fault
	seen := map[string]string{}
	for _, clone := range clones {
		for _, kind := range slices.Sorted(maps.Keys(clone.Own)) {
			for _, value := range clone.Own[kind] {
				first, twice := seen[kind+" "+value]
				seen[kind+" "+value] = clone.Name
				if twice {
					faults = append(faults, Fault{kind, fmt.Sprintf("%s and %s have the same", first, clone.Name)})
				}
			}
		}
	}
	return faults
}
