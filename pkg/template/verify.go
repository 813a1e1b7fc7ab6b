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
	On       string              // the hypervisor that has the copy which it was cloned from
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

// Faults compares clones of a template with one another and with what was recorded when it was built. What only some of several copies
// have is told with the hypervisors that these are on.
func (i Identity) Faults(clones []Clone) []Fault {
	var found []Fault
	on := map[Fault][]string{}
	var hypervisors []string
	for _, clone := range clones {
		hypervisors = add(hypervisors, clone.On)
		for _, f := range i.faultsOf(clone) {
			found, on[f] = add(found, f), add(on[f], clone.On)
		}
	}
	for n, f := range found {
		if len(on[f]) < len(hypervisors) {
			found[n].What += " (the copy on " + strings.Join(on[f], ", ") + ")"
		}
	}
	for _, fault := range shared(clones) {
		if !slices.ContainsFunc(found, func(f Fault) bool { return f.Kind == fault.Kind }) {
			found = append(found, fault)
		}
	}
	return found
}

// add appends what a list does not have.
func add[T comparable](list []T, one T) []T {
	if slices.Contains(list, one) {
		return list
	}
	return append(list, one)
}

// faultsOf are those that one clone tells by itself.
func (i Identity) faultsOf(clone Clone) []Fault {
	var faults []Fault
	for _, left := range clone.Left {
		kind, what, _ := strings.Cut(left, " ")
		faults = append(faults, Fault{kind, what + " is left of the machine that was built"})
	}
	for _, d := range i.Versions.Differences(clone.Versions) {
		if d.Was != "" { // what a clone has besides is its own affair
			faults = append(faults, Fault{"version", d.String()})
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
