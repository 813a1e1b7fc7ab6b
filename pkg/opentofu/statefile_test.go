package opentofu

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// aState is one with two VMs, of which one is tainted, and secrets that are marked or called so.
const aState = `{"version": 4, "terraform_version": "1.12.6", "serial": 7, "lineage": "l1",
 "outputs": {"a": {"value": [1], "type": "any"}, "b": {"value": "canary", "type": "string", "sensitive": true}},
 "resources": [
  {"mode": "data", "type": "d", "name": "x", "instances": [{"attributes": {"id": "no"}}]},
  {"mode": "managed", "type": "some_vm", "name": "node", "provider": "p", "instances": [
   {"index_key": "n-2", "status": "tainted", "attributes": {"id": "n2", "vm_id": 24001}},
   {"index_key": "n-1", "attributes": {"id": "n1", "vm_id": 12345678901234567, "none": null,
     "disk": [{"size": 8, "key": "canary"}], "login": {"user": "u", "password": "canary"}},
     "sensitive_attributes": [[{"type": "get_attr", "value": "disk"}, {"type": "index", "value": {"value": 0, "type": "number"}},
       {"type": "get_attr", "value": "key"}]]}]},
  {"mode": "managed", "module": "module.m", "type": "t", "name": "one", "instances": [{"index_key": 0, "attributes": {"id": "o"}}]}]}`

func TestParseState(t *testing.T) {
	state, err := ParseState(aState)
	if err != nil {
		t.Fatal(err)
	}
	want := []StateResource{
		{Address: "module.m.t.one[0]", Type: "t", ID: "o", Attributes: map[string]string{"id": "o"}},
		{Address: `some_vm.node["n-1"]`, Type: "some_vm", Key: "n-1", ID: "n1", Attributes: map[string]string{
			"id": "n1", "vm_id": "12345678901234567", "disk.0.size": "8", "disk.0.key": Hidden, "login.user": "u", "login.password": Hidden,
		}},
		{Address: `some_vm.node["n-2"]`, Type: "some_vm", Key: "n-2", ID: "n2", Tainted: true, Attributes: map[string]string{"id": "n2", "vm_id": "24001"}},
	}
	if diff := cmp.Diff(want, state.Resources); diff != "" {
		t.Error(diff)
	}
	if state.Serial != 7 || state.Lineage != "l1" || state.Program != "1.12.6" || !state.Outputs["b"].Sensitive || state.Outputs["a"].Sensitive {
		t.Errorf("%+v", state)
	}
	if empty, err := ParseState(" \n"); err != nil || empty.Serial != 0 || len(empty.Resources) > 0 {
		t.Errorf("of nothing: %+v, %v", empty, err)
	}
	for text, why := range map[string]string{
		"{": "cannot be decoded", `{"version": 3}`: "its version is 3", `{"serial": 1, "encrypted_data": "x"}`: "encrypted", "[]": "decoded",
	} {
		if _, err := ParseState(text); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, want %q", text, err, why)
		}
	}
}

func TestDiffStates(t *testing.T) {
	parse := func(text string) StateFile {
		state, err := ParseState(text)
		if err != nil {
			t.Fatal(err)
		}
		return state
	}
	replaced := func(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(aState) }
	for name, test := range map[string]struct {
		after string
		want  []string
	}{
		"the same":             {aState, nil},
		"a serial":             {replaced(`"serial": 7`, `"serial": 9`), nil},
		"an attribute":         {replaced(`"size": 8`, `"size": 9`), []string{`update some_vm.node["n-1"] disk.size 8 9`}},
		"one that is new":      {replaced(`"vm_id": 24001`, `"vm_id": 24001, "name": "x"`), []string{`update some_vm.node["n-2"] name - x`}},
		"tainted no more":      {replaced(`"status": "tainted", `, ""), []string{`update some_vm.node["n-2"]`}},
		"another key":          {replaced(`"index_key": "n-2"`, `"index_key": "n-3"`), []string{`delete some_vm.node["n-2"]`, `create some_vm.node["n-3"]`}},
		"a secret":             {replaced(`"key": "canary"`, `"key": "other"`), nil},
		"a resource that left": {replaced(`"mode": "managed", "module"`, `"mode": "data", "module"`), []string{"delete module.m.t.one[0]"}},
	} {
		var got []string
		for _, c := range DiffStates(parse(aState), parse(test.after)) {
			text := c.Action + " " + c.Address
			for _, a := range c.Attributes {
				text += " " + a.Name + " " + a.Before + " " + a.After
			}
			got = append(got, text)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
		if same := SameResources(aState, test.after) == nil; same != (test.want == nil) {
			t.Errorf("%s: SameResources says %v", name, same)
		}
	}
}

func TestAStateThatFollowsAnother(t *testing.T) {
	now := StateFile{Serial: 41, Lineage: "l2"}
	for name, test := range map[string]struct {
		now     StateFile
		emptied bool
		lineage string
		serial  uint64
		holds   int
	}{
		"another's": {now, false, "l2", 42, 3}, "emptied": {now, true, "l2", 42, 0}, "the first": {StateFile{}, false, "l1", 1, 3},
	} {
		text, err := following(test.now, aState, test.emptied)
		if err != nil {
			t.Fatal(err)
		}
		state, err := ParseState(text)
		if err != nil || state.Lineage != test.lineage || state.Serial != test.serial || len(state.Resources) != test.holds {
			t.Errorf("%s: %+v, %v", name, state, err)
		}
		if !strings.Contains(text, "12345678901234567") && !test.emptied {
			t.Errorf("%s: a large number was changed: %s", name, text)
		}
	}
	for next, refused := range map[string]bool{
		strings.Replace(aState, `"serial": 7`, `"serial": 8`, 1): false, aState: true, strings.Replace(aState, "l1", "l9", 1): true, "{": true,
	} {
		if err := follows(aState, next); (err != nil) != refused {
			t.Errorf("%.60s: %v", next, err)
		}
	}
}
