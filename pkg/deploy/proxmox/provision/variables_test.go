package provision

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hive-test/pkg/deploy/placement"
	module "hive-test/tofu"
)

func TestVariablesGolden(t *testing.T) {
	v, err := newVariables(testRequest(t.TempDir(), 2), "https://pve1.example:8006/")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(v.VendorData, "#cloud-config\n") {
		t.Errorf("vendor data: %s", v.VendorData)
	}
	v.VendorData = "#cloud-config\n" // it has a golden file of its own
	got, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	const golden = "testdata/variables.golden.json"
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("variables changed (-want +got), set UPDATE_GOLDEN=1 if that is meant:\n%s", diff)
	}
}

func TestVariablesNameWhatIsMissing(t *testing.T) {
	r := testRequest(t.TempDir(), 3)
	placement.Change(&r.Nodes[1], func(v *placement.VM) { v.VMID = 0 })
	r.Spec.NodeCount = 4
	_, err := newVariables(r, "")
	if err == nil || !strings.Contains(err.Error(), "ci-1-2") ||
		!strings.Contains(err.Error(), "nodes reserved: 3, asked for: 4") {
		t.Errorf("got %v", err)
	}
}

// The module must declare exactly the variables that are written.
func TestVariablesAreThoseOfTheModule(t *testing.T) {
	source, err := module.Files.ReadFile("variables.tf")
	if err != nil {
		t.Fatal(err)
	}
	var declared, written []string
	for line := range strings.Lines(string(source)) {
		if rest, ok := strings.CutPrefix(line, `variable "`); ok {
			name, _, _ := strings.Cut(rest, `"`)
			declared = append(declared, name)
		}
	}
	raw, err := json.Marshal(variables{})
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(raw, &fields); err != nil {
		t.Fatal(err)
	}
	for name := range fields {
		written = append(written, name)
	}
	slices.Sort(declared)
	slices.Sort(written)
	if diff := cmp.Diff(declared, written); diff != "" {
		t.Errorf("variables of the module and of the program differ (-module +program):\n%s", diff)
	}
}
