package placement

import (
	"encoding/json"
	"strings"
	"testing"

	"hive-test/pkg/cluster"
)

func TestParseSnippet(t *testing.T) {
	const id = "01a223b6-0dbf-7137-b0fd-aeb7f27cfc89"
	for file, want := range map[string][2]string{
		SnippetName("ci-1-12", id):        {"ci-1-12", id},
		"ci-1-" + id + "-vendor.yaml":     {"ci-1", id},
		"ci-" + id + "-vendor.yaml":       {}, // no node's name
		"ci-1-" + id + "-vendor.yaml.bak": {},
		"ci-1-01a223b6-vendor.yaml":       {},
		"../ci-1-" + id + "-vendor.yaml":  {},
	} {
		if node, owner, ok := ParseSnippet(file); node != want[0] || owner != want[1] || ok != (want[0] != "") {
			t.Errorf("%s: %q %q %v", file, node, owner, ok)
		}
	}
}

// TestValidate: what a record keeps for deployers of VMs is put into paths and commands.
func TestValidate(t *testing.T) {
	for name, tc := range map[string]struct{ record, problem string }{
		"sound":         {`{"nodes": [{"name": "a-1", "index": 1, "vmid": 100, "hypervisor": "pve1"}]}`, ""},
		"hosts":         {`{"nodes": [{"name": "a-1", "index": 1}]}`, ""},
		"path":          {`{"nodes": [{"name": "a-1", "index": 1, "hypervisor": "../x"}]}`, "node 1: "},
		"number":        {`{"nodes": [{"name": "a-1", "index": 1, "vmid": "100"}]}`, "node 1: "},
		"endpoint":      {`{"target": {"endpoint": 7}}`, "kept"},
		"hypervisors":   {`{"spec": {"hypervisors": {"name": "pve1"}}}`, "kept"},
		"no hypervisor": {`{"spec": {"hypervisors": null}}`, ""},
	} {
		r := cluster.Record{Name: "a"}
		if err := json.Unmarshal([]byte(tc.record), &r); err != nil {
			t.Fatal(name, err)
		}
		problems := Validate(&r)
		if (tc.problem == "") != (len(problems) == 0) {
			t.Errorf("%s: %v", name, problems)
		}
		if tc.problem != "" && !strings.Contains(problems[0].Error(), tc.problem) {
			t.Errorf("%s: %v, want one with %q", name, problems, tc.problem)
		}
	}
}
