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

	"hive-test/pkg/deploy"
)

// explain adds to the updates and replacements among changes what they are for, from the plan file. The lines that plan
// prints name no attributes.
func (r *run) explain(ctx context.Context, changes []deploy.Change) error {
	if !slices.ContainsFunc(changes, func(c deploy.Change) bool {
		return c.Action == deploy.Update || c.Action == deploy.Replace
	}) {
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
	for i := range changes {
		change := &changes[i]
		if change.Action != deploy.Update && change.Action != deploy.Replace {
			continue
		}
		detail := details[change.Address]
		if detail == nil {
			return fmt.Errorf("the plan lists a change of %s but does not describe it: it cannot be judged", change.Address)
		}
		change.Attributes = attributes(detail)
		change.Restarts = change.VM && change.Action == deploy.Update && slices.ContainsFunc(change.Attributes, restarts)
	}
	return nil
}

// unknownValue stands for a value that only the hypervisor can tell.
const unknownValue = "(known after apply)"

// attributes are the values that a change changes, sorted by name. Of a replacement they are those that force it.
func attributes(change *tfjson.Change) []deploy.Attribute {
	before, after := map[string]string{}, map[string]string{}
	flatten(before, nil, change.Before)
	flatten(after, nil, change.After)
	flattenUnknown(after, nil, change.AfterUnknown)
	for name := range before {
		if _, unknown := unknownAbove(after, name); unknown {
			delete(before, name)
		}
	}
	forcing := forces(change.ReplacePaths)
	var list []deploy.Attribute
	for _, name := range slices.Sorted(maps.Keys(union(before, after))) {
		if before[name] == after[name] || seen(name) || len(forcing) > 0 && !slices.ContainsFunc(forcing, within(name)) {
			continue
		}
		list = append(list, deploy.Attribute{Name: readable(name), Before: dash(before[name]), After: dash(after[name])})
	}
	return list
}

// seen tells of attributes that are only ever read from the guest.
func seen(name string) bool {
	top, _, _ := strings.Cut(name, ".")
	return slices.Contains([]string{"ipv4_addresses", "ipv6_addresses", "network_interface_names", "mac_addresses"}, top)
}

// restarts tells whether a change of the attribute takes effect with a restart only. What is not known to be harmless
// does (bpg/proxmox 0.111.1, vmUpdate).
func restarts(a deploy.Attribute) bool {
	top, _, _ := strings.Cut(a.Name, ".")
	switch top {
	case "name", "description", "tags", "on_boot", "started", "protection", "network_device", "pool_id", "startup",
		"hook_script_file_id", "stop_on_destroy", "reboot_after_update", "purge_on_destroy", "delete_unreferenced_disks_on_destroy":
		return false
	case "disk":
		return !strings.HasSuffix(a.Name, ".size")
	}
	return !strings.HasPrefix(top, "timeout_")
}

// flatten puts every leaf of a JSON value into leaves, by its path with dots.
func flatten(leaves map[string]string, path []string, value any) {
	switch v := value.(type) {
	case nil:
	case map[string]any:
		for key, element := range v {
			flatten(leaves, append(slices.Clone(path), key), element)
		}
	case []any:
		for i, element := range v {
			flatten(leaves, append(slices.Clone(path), strconv.Itoa(i)), element)
		}
	default:
		leaves[strings.Join(path, ".")] = fmt.Sprint(v)
	}
}

// flattenUnknown puts unknownValue at every path that unknown says true of.
func flattenUnknown(leaves map[string]string, path []string, unknown any) {
	switch v := unknown.(type) {
	case bool:
		if v {
			leaves[strings.Join(path, ".")] = unknownValue
		}
	case map[string]any:
		for key, element := range v {
			flattenUnknown(leaves, append(slices.Clone(path), key), element)
		}
	case []any:
		for i, element := range v {
			flattenUnknown(leaves, append(slices.Clone(path), strconv.Itoa(i)), element)
		}
	}
}

// unknownAbove finds a path above name that is not known: what was below it is then told by that path.
func unknownAbove(leaves map[string]string, name string) (string, bool) {
	for {
		cut := strings.LastIndex(name, ".")
		if cut < 0 {
			return "", false
		}
		if name = name[:cut]; leaves[name] == unknownValue {
			return name, true
		}
	}
}

func union(a, b map[string]string) map[string]string {
	both := maps.Clone(a)
	maps.Copy(both, b)
	return both
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
