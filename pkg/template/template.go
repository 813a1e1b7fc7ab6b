// Package template says what templates of nodes are: layers, what each was made of, which one a cluster is to be cloned from, and
// which are no longer needed. What a template is stands in its own description, so that there is no other record of it.
package template

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"hive-test/pkg/deploy"
)

// Layers that are always there. Others are those of the settings.
const (
	Base   = "base"   // the system, and what hive is built with
	Dev    = "dev"    // Base, and hive
	Single = "single" // both, made at once
)

// Inputs are what a template is made of, by name: an image, packages, scripts, a program.
type Inputs map[string]string

// Hash is the same for the same inputs, and for no others: 64 hexadecimal digits.
func (in Inputs) Hash() string {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(in)) {
		fmt.Fprintf(sum, "%q=%q\n", name, in[name])
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// Difference is an input that is another now. Was or Now is empty where it is new, or gone.
type Difference struct {
	Input string `json:"input"`
	Was   string `json:"was,omitempty"`
	Now   string `json:"now,omitempty"`
}

func (d Difference) String() string {
	switch {
	case d.Was == "":
		return fmt.Sprintf("%s is new: %s", d.Input, d.Now)
	case d.Now == "":
		return fmt.Sprintf("%s is gone: it was %s", d.Input, d.Was)
	}
	if strings.HasPrefix(d.Input, "step ") || hash.MatchString(d.Was) && hash.MatchString(d.Now) {
		return d.Input + " has changed"
	}
	return fmt.Sprintf("%s was %s and is %s", d.Input, d.Was, d.Now)
}

// hash is what nobody wants to read.
var hash = regexp.MustCompile(`^[0-9a-f]{64}$`)

// Differences returns the inputs that are others in now, by name.
func (in Inputs) Differences(now Inputs) []Difference {
	var list []Difference
	all := maps.Clone(in)
	if all == nil {
		all = Inputs{}
	}
	maps.Copy(all, now)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if in[name] != now[name] {
			list = append(list, Difference{Input: name, Was: in[name], Now: now[name]})
		}
	}
	return list
}

// Identity is what the description of a template tells.
type Identity struct {
	Layer    string    `json:"layer"`
	Version  string    `json:"version"` // its name, too: like hive-base-20261128-3f2a9c1
	Inputs   Inputs    `json:"inputs"`
	Versions Inputs    `json:"versions,omitempty"` // what was found on it when it was built, by name
	Builder  string    `json:"builder"`            // user@host
	Built    time.Time `json:"built"`
	Verified bool      `json:"verified"`
	Promoted time.Time `json:"promoted,omitzero"` // zero: up does not use it unless it is named
}

// NewIdentity returns that of a template which is built now.
func NewIdentity(layer string, inputs Inputs, builder string, now time.Time) Identity {
	now = now.UTC().Truncate(time.Second)
	return Identity{
		Layer: layer, Version: fmt.Sprintf("hive-%s-%s-%s", layer, now.Format("20060102"), inputs.Hash()[:7]), Inputs: inputs,
		Builder: builder, Built: now,
	}
}

// Template is one that is there. A version may be there several times, once on each hypervisor.
type Template struct {
	Identity
	VM deploy.Template
}

// Read returns those of a list that say what they are.
func Read(list []deploy.Template) []Template {
	var known []Template
	for _, vm := range list {
		if identity, ok := ParseDescription(vm.Description); ok {
			known = append(known, Template{identity, vm})
		}
	}
	return known
}

// Newest returns the versions of a layer that are there, the newest first; all layers', where layer is empty.
func Newest(list []Template, layer string) []Template {
	found := slices.DeleteFunc(slices.Clone(list), func(t Template) bool { return layer != "" && t.Layer != layer })
	slices.SortStableFunc(found, func(a, b Template) int {
		return cmp.Or(strings.Compare(a.Layer, b.Layer), b.Built.Compare(a.Built), strings.Compare(b.Version, a.Version),
			strings.Compare(a.VM.Hypervisor, b.VM.Hypervisor), cmp.Compare(a.VM.VMID, b.VM.VMID))
	})
	return found
}

// Find returns the copies of one version: the one that is called so, or the one of a layer that was promoted last, whose name may
// be written with hive- before it. None are returned where there is no such version.
func Find(list []Template, name string) []Template {
	if copies := copiesOf(list, name); len(copies) > 0 {
		return copies
	}
	var last Template
	for _, t := range Newest(list, strings.TrimPrefix(name, "hive-")) {
		if t.Promoted.After(last.Promoted) {
			last = t
		}
	}
	return copiesOf(list, last.Version)
}

func copiesOf(list []Template, version string) []Template {
	return slices.DeleteFunc(Newest(list, ""), func(t Template) bool { return t.Version != version || version == "" })
}

// On returns the copy that a hypervisor can clone: its own, or one that is shared.
func On(copies []Template, hypervisor string) (Template, bool) {
	for _, t := range copies {
		if t.VM.Hypervisor == hypervisor {
			return t, true
		}
	}
	for _, t := range copies {
		if t.VM.Shared {
			return t, true
		}
	}
	return Template{}, false
}

// keptPromoted is how many versions of a layer that were promoted stay: the one in use, and the one to go back to.
const keptPromoted = 2

// Prunable returns the templates that nobody needs: of each layer, those that are older than the version that was promoted last, but
// for the one that was promoted before it, and for those that clones depend on.
func Prunable(list []Template) []Template {
	var prunable []Template
	for _, layer := range layers(list) {
		found := Newest(list, layer)
		promoted := promotedLast(found)
		if len(promoted) == 0 {
			continue
		}
		for _, t := range found {
			if t.Built.Before(built(found, promoted[0])) && !slices.Contains(promoted, t.Version) && len(t.VM.Clones) == 0 {
				prunable = append(prunable, t)
			}
		}
	}
	return prunable
}

func layers(list []Template) []string {
	names := map[string]bool{}
	for _, t := range list {
		names[t.Layer] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// promotedLast returns the versions that were promoted last, the last first.
func promotedLast(list []Template) []string {
	list = slices.DeleteFunc(slices.Clone(list), func(t Template) bool { return t.Promoted.IsZero() })
	slices.SortStableFunc(list, func(a, b Template) int { return b.Promoted.Compare(a.Promoted) })
	var versions []string
	for _, t := range list {
		if !slices.Contains(versions, t.Version) {
			versions = append(versions, t.Version)
		}
	}
	return versions[:min(len(versions), keptPromoted)]
}

func built(list []Template, version string) time.Time {
	return copiesOf(list, version)[0].Built
}
