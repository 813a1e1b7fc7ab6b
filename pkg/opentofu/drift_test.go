package opentofu

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	tfjson "github.com/hashicorp/terraform-json"
)

func TestWhatDiffersIsToldWithoutWhatIsSensitive(t *testing.T) {
	before := map[string]any{"size": 1.0, "password": "canary-1", "login": map[string]any{"key": "canary-2", "user": "a"}, "id": "x", "same": "s"}
	after := map[string]any{"size": 2.0, "password": "canary-3", "login": map[string]any{"key": "canary-4", "user": "b"}, "same": "s"}
	got := changesOf([]*tfjson.ResourceChange{
		{
			Address: "a.b", Type: "a", Mode: tfjson.ManagedResourceMode, Change: &tfjson.Change{
				Actions: tfjson.Actions{tfjson.ActionUpdate}, Before: before, After: after,
				BeforeSensitive: map[string]any{"password": true}, AfterSensitive: map[string]any{"login": map[string]any{"key": true}},
				AfterUnknown: map[string]any{"id": true},
			},
		},
		{Address: "a.same", Mode: tfjson.ManagedResourceMode, Change: &tfjson.Change{Actions: tfjson.Actions{tfjson.ActionNoop}}},
		{Address: "data.b", Mode: tfjson.DataResourceMode, Change: &tfjson.Change{Actions: tfjson.Actions{tfjson.ActionUpdate}}},
	})
	want := []Change{{Address: "a.b", Type: "a", Action: "update", Attributes: []Attribute{
		{"login.key", "(sensitive)", "(sensitive)"},
		{"login.user", "a", "b"},
		{"password", "(sensitive)", "(sensitive)"},
		{"size", "1", "2"},
	}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAPlanThatCannotBeReadIsNotTheSame(t *testing.T) {
	path := t.TempDir() + "/plan.bin"
	write(t, path, "no archive")
	if sameState(path, func(string) bool { return true }) {
		t.Error("the same")
	}
}
