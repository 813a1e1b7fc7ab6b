package opentofu

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	tfjson "github.com/hashicorp/terraform-json"
)

// Plan is what is to be done. It waits in the working directory to be applied.
type Plan struct {
	// Changes are in the order in which the program lists them.
	Changes []Change
	// Changed is true if applying would change anything, be it only what the state remembers.
	Changed   bool
	variables any
	drifted   bool // something is not as the state has it
}

// Change is what is done to one resource.
type Change struct {
	// Address is all of the resource's name, Type the first part of it.
	Address, Type string
	// Action is create, update, replace or delete.
	Action string
	// Reason is the planner's own word for why, such as cannot_update.
	Reason string
	// Attributes are what a planned update changes, and of a replacement what it is for.
	Attributes []Attribute
}

// Attribute is one value of a resource that a plan changes, as text. Name is a path, like memory.dedicated.
type Attribute struct {
	Name, Before, After string
}

// The actions of changes.
const (
	actionCreate  = "create"
	actionUpdate  = "update"
	actionReplace = "replace"
	actionDelete  = "delete"
)

// describe adds to the updates and replacements among changes what they are for, from the plan file. The lines that
// plan prints name no attributes.
func (r *Run) describe(ctx context.Context, changes []Change) error {
	described := func(c Change) bool { return c.Action == actionUpdate || c.Action == actionReplace }
	if !slices.ContainsFunc(changes, described) {
		return nil
	}
	var shown *tfjson.Plan
	err := r.step(ctx, "show", func(*stream) error {
		r.tofu.SetStdout(io.Discard) // the plan as a whole is no narration
		var err error
		shown, err = r.tofu.ShowPlanFile(ctx, planFile)
		return err
	})
	if err != nil {
		return err
	}
	details := map[string]*tfjson.Change{}
	for _, resource := range shown.ResourceChanges {
		details[resource.Address] = resource.Change
	}
	for i, change := range changes {
		if !described(change) {
			continue
		}
		detail := details[change.Address]
		if detail == nil {
			return fmt.Errorf(
				"the plan lists a change of %s but does not describe it: it cannot be judged", change.Address,
			)
		}
		changes[i].Attributes = attributes(detail)
	}
	return nil
}

// unknownValue stands for a value that only the provider can tell.
const unknownValue = "(known after apply)"

// attributes are the values that a change changes, sorted by name. Of a replacement they are those that force it.
func attributes(change *tfjson.Change) []Attribute {
	before, after := map[string]string{}, map[string]string{}
	leaves(nil, change.Before, func(name string, leaf any) { before[name] = fmt.Sprint(leaf) })
	leaves(nil, change.After, func(name string, leaf any) { after[name] = fmt.Sprint(leaf) })
	leaves(nil, change.AfterUnknown, func(name string, unknown any) {
		if unknown == true {
			after[name] = unknownValue
		}
	})
	maps.DeleteFunc(before, func(name, _ string) bool { return unknownAbove(after, name) })
	forcing := forces(change.ReplacePaths)
	all := maps.Clone(before)
	maps.Copy(all, after)
	var list []Attribute
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if before[name] == after[name] || len(forcing) > 0 && !slices.ContainsFunc(forcing, within(name)) {
			continue
		}
		list = append(list, Attribute{Name: readable(name), Before: dash(before[name]), After: dash(after[name])})
	}
	return list
}

// leaves calls visit with every leaf of a JSON value, and its path with dots.
func leaves(path []string, value any, visit func(path string, leaf any)) {
	switch v := value.(type) {
	case nil:
	case map[string]any:
		for key, element := range v {
			leaves(append(slices.Clone(path), key), element, visit)
		}
	case []any:
		for i, element := range v {
			leaves(append(slices.Clone(path), strconv.Itoa(i)), element, visit)
		}
	default:
		visit(strings.Join(path, "."), v)
	}
}

// unknownAbove tells whether a path above name is not known: what was below it is then told by that path.
func unknownAbove(values map[string]string, name string) bool {
	for {
		cut := strings.LastIndex(name, ".")
		if cut < 0 {
			return false
		}
		if name = name[:cut]; values[name] == unknownValue {
			return true
		}
	}
}

// forces are the paths that make a replacement necessary.
func forces(paths []any) []string {
	var list []string
	for _, path := range paths {
		elements, ok := path.([]any)
		if !ok {
			continue
		}
		var parts []string
		for _, element := range elements {
			parts = append(parts, fmt.Sprint(element))
		}
		list = append(list, strings.Join(parts, "."))
	}
	return list
}

func within(name string) func(path string) bool {
	return func(path string) bool {
		return name == path || strings.HasPrefix(name, path+".") || strings.HasPrefix(path, name+".")
	}
}

// readable drops the index of the first of a list, which mostly is the only one.
func readable(name string) string {
	return strings.TrimSuffix(strings.ReplaceAll(name, ".0.", "."), ".0")
}

func dash(value string) string {
	if value == "" {
		return "-"
	}
	const most = 60
	if runes := []rune(strings.Join(strings.Fields(value), " ")); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return value
}
