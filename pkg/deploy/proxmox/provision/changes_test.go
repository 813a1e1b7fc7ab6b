package provision

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"hive-test/pkg/deploy"
	"hive-test/pkg/opentofu"
)

func planned(action, reason, kind, node string, attributes ...opentofu.Attribute) opentofu.Change {
	return opentofu.Change{
		Address: kind + `.node["` + node + `"]`, Type: kind, Action: action, Reason: reason, Attributes: attributes,
	}
}

func TestWhatAPlanMeansForNodes(t *testing.T) {
	p := planOf(opentofu.Plan{Changes: []opentofu.Change{
		planned("create", "", vmType, "a-1"), planned("create", "", vmType, "a-2"),
		planned("update", "", vmType, "a-3"),
		planned("replace", "tainted", vmType, "a-4"), planned("replace", "cannot_update", fileType, "a-5"),
		planned("delete", "delete_because_each_key", vmType, "a-6"),
	}}, []opentofu.Resource{{Type: vmType, Key: "a-2"}, {Type: vmType, Key: "a-3"}, {Type: fileType, Key: "a-1"}})
	if diff := cmp.Diff([]string{"a-1", "a-2"}, p.Nodes(deploy.Create)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"a-2"}, p.Vanished()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"a-4"}, p.Unfinished()); diff != "" {
		t.Error(diff)
	}
	// Nothing is lost with a file that is made anew.
	want := []deploy.Change{
		{Address: vmType + `.node["a-6"]`, Node: "a-6", Action: deploy.Delete, VM: true, Reason: "delete_because_each_key"},
	}
	if diff := cmp.Diff(want, deploy.Request{}.Refused(p)); diff != "" {
		t.Errorf("refused (-want +got):\n%s", diff)
	}
	if got := (deploy.Request{Leaving: []string{"a-6"}}).Refused(p); len(got) != 0 {
		t.Errorf("refused of a cluster that a-6 leaves: %+v", got)
	}
}

func TestWhatNeedsARestart(t *testing.T) {
	for name, want := range map[string]bool{
		"cpu.cores": true, "numa.device": true, "disk.file_id": true,
		"disk.size": false, "tags.1": false, "started": false, "timeout_create": false,
		"ipv4_addresses": false, // what the guest tells is no change
	} {
		for action, restarts := range map[string]bool{"update": want, "replace": false} {
			p := planOf(
				opentofu.Plan{Changes: []opentofu.Change{planned(action, "", vmType, "a-1", opentofu.Attribute{
					Name: name, Before: "a", After: "b",
				})}},
				nil,
			)
			if got := p.Changes[0].Restarts; got != restarts {
				t.Errorf("%s of %s restarts: %v", action, name, got)
			}
			if shown := len(p.Changes[0].Attributes); name == "ipv4_addresses" && shown != 0 {
				t.Errorf("%s is shown", name)
			}
		}
	}
}
