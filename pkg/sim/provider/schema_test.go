package provider

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// recordedBlock is a block as `terraform providers schema -json` writes it.
type recordedBlock struct {
	Attributes map[string]recordedAttribute `json:"attributes"`
	Blocks     map[string]struct {
		Block    recordedBlock `json:"block"`
		Nesting  string        `json:"nesting_mode"`
		MinItems int64         `json:"min_items"`
		MaxItems int64         `json:"max_items"`
	} `json:"block_types"`
}

type recordedAttribute struct {
	Type       any    `json:"type"`
	Required   bool   `json:"required"`
	Optional   bool   `json:"optional"`
	Computed   bool   `json:"computed"`
	Sensitive  bool   `json:"sensitive"`
	Deprecated bool   `json:"deprecated"`
	Message    string `json:"deprecation_message"`
}

func TestSchemaIsThatOfTheRealProvider(t *testing.T) {
	b, err := os.ReadFile("../../../testdata/provider/schema.json")
	if err != nil {
		t.Fatal(err)
	}
	type entry struct {
		Version int64
		Block   recordedBlock
	}
	var recorded struct {
		Provider  entry
		Resources map[string]entry
	}
	if err := json.Unmarshal(b, &recorded); err != nil {
		t.Fatal(err)
	}
	server, err := NewServer(t.Context(), Environment{Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	own, err := server.GetProviderSchema(t.Context(), &tfprotov6.GetProviderSchemaRequest{})
	if err != nil {
		t.Fatal(err)
	}
	missing := compareBlock(t, "provider", own.Provider.Block, recorded.Provider.Block)
	for name, s := range own.ResourceSchemas {
		r, ok := recorded.Resources[name]
		if !ok {
			t.Errorf("%s is no resource of the real provider", name)
			continue
		}
		if s.Version != r.Version {
			t.Errorf("%s has version %d, recorded %d", name, s.Version, r.Version)
		}
		missing = append(missing, compareBlock(t, name, s.Block, r.Block)...)
	}
	// What the double leaves out is known, so that it is a decision.
	var wanted []string
	for _, k := range []string{
		"amd_sev", "audio_device", "cdrom", "efi_disk", "hostpci", "numa", "rng", "smbios", "tpm_state",
		"usb", "virtiofs", "watchdog",
	} {
		wanted = append(wanted, "proxmox_virtual_environment_vm."+k)
	}
	if diff := cmp.Diff(wanted, sorted(missing)); diff != "" {
		t.Errorf("left out otherwise than decided:\n%s", diff)
	}
}

func sorted(list []string) []string {
	m := map[string]bool{}
	for _, s := range list {
		m[s] = true
	}
	return sortedKeys(m)
}

// compareBlock compares what b declares and returns what it does not declare.
func compareBlock(t *testing.T, path string, b *tfprotov6.SchemaBlock, r recordedBlock) (missing []string) {
	seen := map[string]bool{}
	for _, a := range b.Attributes {
		seen[a.Name] = true
		if a.Name == "description" {
			continue // the recording leaves out whatever has this name
		}
		own := recordedAttribute{
			Type: jsonType(a.Type), Required: a.Required, Optional: a.Optional, Computed: a.Computed,
			Sensitive:  a.Sensitive,
			Deprecated: a.Deprecated, Message: r.Attributes[a.Name].Message,
		}
		if diff := cmp.Diff(r.Attributes[a.Name], own); diff != "" {
			t.Errorf("%s.%s (-recorded +own):\n%s", path, a.Name, diff)
		}
	}
	for _, n := range b.BlockTypes {
		seen[n.TypeName] = true
		rb, ok := r.Blocks[n.TypeName]
		if !ok || rb.Nesting != "list" || n.Nesting != tfprotov6.SchemaNestedBlockNestingModeList {
			t.Errorf("%s.%s is no list of blocks in the real provider", path, n.TypeName)
			continue
		}
		if n.MinItems != rb.MinItems || n.MaxItems != rb.MaxItems {
			t.Errorf(
				"%s.%s occurs %d to %d times, recorded %d to %d", path, n.TypeName, n.MinItems, n.MaxItems, rb.MinItems,
				rb.MaxItems,
			)
		}
		missing = append(missing, compareBlock(t, path+"."+n.TypeName, n.Block, rb.Block)...)
	}
	for _, k := range append(sortedKeys(r.Attributes), sortedKeys(r.Blocks)...) {
		if !seen[k] {
			missing = append(missing, path+"."+k)
		}
	}
	return missing
}

// jsonType writes a type as terraform's JSON does.
func jsonType(t tftypes.Type) any {
	switch t := t.(type) {
	case tftypes.List:
		return []any{"list", jsonType(t.ElementType)}
	case tftypes.Object:
		m := map[string]any{}
		for k, v := range t.AttributeTypes {
			m[k] = jsonType(v)
		}
		return []any{"object", m}
	}
	for name, p := range map[string]tftypes.Type{
		"string": tftypes.String, "number": tftypes.Number, "bool": tftypes.Bool,
	} {
		if t.Is(p) {
			return name
		}
	}
	return fmt.Sprint(t)
}
