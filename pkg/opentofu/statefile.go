package opentofu

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// StateFile is what a state says, of all that OpenTofu keeps in it.
type StateFile struct {
	Serial  uint64
	Lineage string
	Program string // version of the program that has written it
	Outputs map[string]StateOutput
	// Resources are the instances of all managed resources, sorted by address.
	Resources []StateResource
}

// StateOutput is an output of the module.
type StateOutput struct {
	Value     any  `json:"value"`
	Sensitive bool `json:"sensitive"`
}

// StateResource is one instance of a resource.
type StateResource struct {
	Address, Type, Key, ID string
	Tainted                bool
	// Attributes are those that are set, by path, as memory.0.dedicated. What is sensitive is Hidden.
	Attributes map[string]string
}

// Hidden stands for a sensitive value.
const Hidden = "(sensitive)"

// ParseState reads a state as it is without encryption; an empty text is an empty state.
func ParseState(text string) (StateFile, error) {
	var raw struct {
		Version   int                    `json:"version"`
		Serial    uint64                 `json:"serial"`
		Lineage   string                 `json:"lineage"`
		Program   string                 `json:"terraform_version"`
		Outputs   map[string]StateOutput `json:"outputs"`
		Encrypted json.RawMessage        `json:"encrypted_data"`
		Resources []stateResource        `json:"resources"`
	}
	state := StateFile{Outputs: map[string]StateOutput{}}
	if strings.TrimSpace(text) == "" {
		return state, nil
	}
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	decoder.UseNumber() // ids are numbers that are to stay as they are
	switch err := decoder.Decode(&raw); {
	case err != nil:
		return state, fmt.Errorf("it cannot be decoded: %w", err)
	case raw.Encrypted != nil:
		return state, errors.New("it is encrypted")
	case raw.Version != 4:
		return state, fmt.Errorf("it is no state of OpenTofu: its version is %d and not 4", raw.Version)
	}
	state.Serial, state.Lineage, state.Program = raw.Serial, raw.Lineage, raw.Program
	maps.Copy(state.Outputs, raw.Outputs)
	for _, resource := range raw.Resources {
		if resource.Mode == "managed" {
			state.Resources = append(state.Resources, resource.instances()...)
		}
	}
	slices.SortFunc(state.Resources, func(a, b StateResource) int { return strings.Compare(a.Address, b.Address) })
	return state, nil
}

// stateResource is a resource as a state has it.
type stateResource struct {
	Module    string `json:"module"`
	Mode      string `json:"mode"`
	Type      string `json:"type"`
	Name      string `json:"name"`
	Instances []struct {
		Key        any            `json:"index_key"`
		Status     string         `json:"status"`
		Attributes map[string]any `json:"attributes"`
		Sensitive  []any          `json:"sensitive_attributes"`
	} `json:"instances"`
}

func (r stateResource) instances() (list []StateResource) {
	address := r.Type + "." + r.Name
	if r.Module != "" {
		address = r.Module + "." + address
	}
	for _, i := range r.Instances {
		one := StateResource{Address: address, Type: r.Type, Tainted: i.Status == "tainted", Attributes: map[string]string{}}
		if i.Key != nil {
			raw, _ := json.Marshal(i.Key) // a string or a number
			one.Address += "[" + string(raw) + "]"
			one.Key, _ = i.Key.(string)
		}
		one.ID, _ = i.Attributes["id"].(string)
		hidden := sensitivePaths(i.Sensitive)
		leaves(nil, i.Attributes, func(path string, leaf any) {
			if one.Attributes[path] = fmt.Sprint(leaf); hidden(path) {
				one.Attributes[path] = Hidden
			}
		})
		list = append(list, one)
	}
	return list
}

// secretAttribute is what attributes of providers are called that hold secrets, whether or not the state marks them.
var secretAttribute = regexp.MustCompile(`(?i)(^|[._])(password|secret|token|private_key|api_key)([._]|$)`)

// sensitivePaths reports of a path whether a state marks it, or what it is part of, as sensitive.
func sensitivePaths(marks []any) func(path string) bool {
	var marked []string
	for _, mark := range marks {
		steps, _ := mark.([]any)
		var parts []string
		for _, step := range steps {
			if s, ok := step.(map[string]any); ok {
				value := s["value"]
				if index, ok := value.(map[string]any); ok { // {"value": 0, "type": "number"}
					value = index["value"]
				}
				parts = append(parts, fmt.Sprint(value))
			}
		}
		marked = append(marked, strings.Join(parts, "."))
	}
	return func(path string) bool {
		return secretAttribute.MatchString(path) || slices.ContainsFunc(marked, func(m string) bool {
			return path == m || strings.HasPrefix(path, m+".")
		})
	}
}

// StateChange is what differs of one resource between two states.
type StateChange struct {
	Address    string
	Action     string // create, update or delete
	Attributes []Attribute
}

// DiffStates returns what a state has otherwise than one before it, sorted by address.
func DiffStates(before, after StateFile) (changes []StateChange) {
	was, is := byAddress(before), byAddress(after)
	all := maps.Clone(was)
	maps.Copy(all, is)
	for _, address := range slices.Sorted(maps.Keys(all)) {
		b, had := was[address]
		a, has := is[address]
		switch {
		case !had:
			changes = append(changes, StateChange{Address: address, Action: actionCreate})
		case !has:
			changes = append(changes, StateChange{Address: address, Action: actionDelete})
		default:
			if attributes := changed(b.Attributes, a.Attributes); len(attributes) > 0 || a.Tainted != b.Tainted {
				changes = append(changes, StateChange{address, actionUpdate, attributes})
			}
		}
	}
	return changes
}

func byAddress(s StateFile) map[string]StateResource {
	list := map[string]StateResource{}
	for _, r := range s.Resources {
		list[r.Address] = r
	}
	return list
}

// changed are the attributes that two sets have otherwise, sorted by name.
func changed(before, after map[string]string) (list []Attribute) {
	all := maps.Clone(before)
	maps.Copy(all, after)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if before[name] != after[name] {
			list = append(list, Attribute{Name: readable(name), Before: dash(before[name]), After: dash(after[name])})
		}
	}
	return list
}

// SameResources is an error unless two states say the same of the same resources.
func SameResources(a, b string) error {
	one, err := ParseState(a)
	if err != nil {
		return err
	}
	other, err := ParseState(b)
	if err != nil {
		return err
	}
	if changes := DiffStates(one, other); len(changes) > 0 {
		first := changes[0]
		if len(first.Attributes) > 0 {
			return fmt.Errorf("%s of %s is otherwise there", first.Attributes[0].Name, first.Address)
		}
		return fmt.Errorf("%s is otherwise there", first.Address)
	}
	return nil
}

// following is a state as it can be written after another one, without resources if emptied says so.
func following(now StateFile, text string, emptied bool) (string, error) {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var all map[string]any
	if err := decoder.Decode(&all); err != nil {
		return "", err
	}
	if all["serial"] = now.Serial + 1; now.Lineage != "" {
		all["lineage"] = now.Lineage
	}
	if emptied {
		all["resources"], all["outputs"] = []any{}, map[string]any{}
		delete(all, "check_results")
	}
	raw, err := json.MarshalIndent(all, "", "  ")
	return string(raw), err
}
