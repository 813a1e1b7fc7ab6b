package opentofu

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	tfjson "github.com/hashicorp/terraform-json"
)

func TestAttributesOfAChange(t *testing.T) {
	before := map[string]any{
		"name": "ci-1", "cpu": []any{map[string]any{"cores": 2.0, "type": "host"}},
		"disk": []any{map[string]any{"file_id": "a", "size": 8.0}},
		"tags": []any{"x", "y"}, "ipv4_addresses": []any{[]any{"127.0.0.1"}}, "started": true, "id": "9001",
	}
	for _, tc := range []struct {
		name   string
		change func(*tfjson.Change, map[string]any)
		want   []Attribute
	}{
		{"CPUs", func(_ *tfjson.Change, after map[string]any) {
			after["cpu"] = []any{map[string]any{"cores": 4.0, "type": "host"}}
		}, []Attribute{{Name: "cpu.cores", Before: "2", After: "4"}}},
		{"a disk that grows", func(_ *tfjson.Change, after map[string]any) {
			after["disk"] = []any{map[string]any{"file_id": "a", "size": 16.0}}
		}, []Attribute{{Name: "disk.size", Before: "8", After: "16"}}},
		{
			"one tag fewer", func(_ *tfjson.Change, after map[string]any) { after["tags"] = []any{"x"} },
			[]Attribute{{Name: "tags.1", Before: "y", After: "-"}},
		},
		{
			"switched on again",
			func(c *tfjson.Change, _ map[string]any) { c.Before.(map[string]any)["started"] = false },
			[]Attribute{{Name: "started", Before: "false", After: "true"}},
		},
		{"what is not known before", func(c *tfjson.Change, after map[string]any) {
			delete(after, "ipv4_addresses")
			c.AfterUnknown = map[string]any{"ipv4_addresses": true}
		}, []Attribute{{Name: "ipv4_addresses", Before: "-", After: "(known after apply)"}}},
		{
			"something that nobody has thought of",
			func(_ *tfjson.Change, after map[string]any) { after["numa"] = []any{map[string]any{"device": "0"}} },
			[]Attribute{{Name: "numa.device", Before: "-", After: "0"}},
		},
		{"an image, of all that a replacement changes", func(c *tfjson.Change, after map[string]any) {
			after["disk"] = []any{map[string]any{"file_id": "b", "size": 8.0}}
			delete(after, "id")
			c.AfterUnknown = map[string]any{"id": true}
			c.ReplacePaths = []any{[]any{"disk", 0.0, "file_id"}}
		}, []Attribute{{Name: "disk.file_id", Before: "a", After: "b"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			change := &tfjson.Change{Before: clone(before), After: clone(before)}
			tc.change(change, change.After.(map[string]any))
			got := attributes(change)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func clone(m map[string]any) map[string]any {
	copied := map[string]any{}
	for k, v := range m {
		copied[k] = v
	}
	return copied
}
