package awsprovider

import (
	"context"
	"maps"
	"slices"

	"github.com/hashicorp/terraform-plugin-sdk/v2/helper/schema"

	"hive-test/pkg/gateway/wire"
)

// textsOf are the texts of a map as the SDK has it.
func textsOf(v any) map[string]string {
	texts := map[string]string{}
	given, _ := v.(map[string]any)
	for key, value := range given {
		texts[key], _ = value.(string)
	}
	return texts
}

// mergeTags plans tags_all: the provider's own tags, and over them the resource's.
func mergeTags(_ context.Context, d *schema.ResourceDiff, meta any) error {
	c, configured := meta.(*client)
	if !d.GetRawPlan().GetAttr("tags").IsWhollyKnown() || !configured {
		return d.SetNewComputed("tags_all")
	}
	all := c.merged(textsOf(d.Get("tags")))
	old, _ := d.GetChange("tags_all")
	switch {
	case d.Id() != "" && maps.Equal(textsOf(old), all):
		return nil
	case hasEmpty(all):
		return d.SetNewComputed("tags_all")
	}
	return d.SetNew("tags_all", all)
}

// hasEmpty reports whether a tag has no value: what becomes of those is asked for.
func hasEmpty(tags map[string]string) bool {
	for _, value := range tags {
		if value == "" {
			return true
		}
	}
	return false
}

// merged are the provider's tags, and over them those of a resource.
func (c *client) merged(own map[string]string) map[string]string {
	all := maps.Clone(c.defaults)
	maps.Copy(all, own)
	return all
}

// tagsFor are the tags of what is made.
func (c *client) tagsFor(d *schema.ResourceData, kind string) []any {
	tags := listOf(c.merged(textsOf(d.Get("tags"))))
	if len(tags) == 0 {
		return nil
	}
	return wire.List(wire.Object{"ResourceType": kind, "Tags": tags})
}

func listOf(tags map[string]string) []any {
	var list []wire.Object
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		list = append(list, wire.Object{"Key": key, "Value": tags[key]})
	}
	return wire.List(list...)
}

// setTags takes over the tags that were told of a resource.
func (c *client) setTags(d *schema.ResourceData, told []wire.Object) error {
	all, own := map[string]any{}, map[string]any{}
	configured := textsOf(d.Get("tags"))
	for _, tag := range told {
		key, value := tag.Text("Key"), tag.Text("Value")
		all[key] = value
		if _, mine := configured[key]; mine || c.defaults[key] != value || !has(c.defaults, key) {
			own[key] = value
		}
	}
	return assign(d, map[string]any{"tags": own, "tags_all": all})
}

func has(tags map[string]string, key string) bool { _, there := tags[key]; return there }

// retag changes what has changed of a resource's tags: what is gone goes first.
func (c *client) retag(ctx context.Context, d *schema.ResourceData) error {
	if !d.HasChange("tags_all") {
		return nil
	}
	id := d.Id()
	if key, isKey := d.GetOk("key_pair_id"); isKey { // a key's own id is its name
		id = key.(string)
	}
	before, _ := d.GetChange("tags_all")
	old, wanted := textsOf(before), c.merged(textsOf(d.Get("tags")))
	removed, changed := map[string]string{}, map[string]string{}
	for key, value := range old {
		if !has(wanted, key) {
			removed[key] = value
		}
	}
	for key, value := range wanted {
		if !has(old, key) || old[key] != value {
			changed[key] = value
		}
	}
	for _, part := range []struct {
		action string
		tags   map[string]string
	}{{"DeleteTags", removed}, {"CreateTags", changed}} {
		if len(part.tags) == 0 {
			continue
		}
		in := wire.Object{"Resources": wire.Strings(id), "Tags": listOf(part.tags)}
		if _, err := c.do(ctx, v1, "updating tags for EC2 resource ("+id+")", part.action, in); err != nil {
			return err
		}
	}
	if !hasEmpty(wanted) {
		return nil
	}
	_, err := c.do(ctx, v1, "listing tags for resource ("+id+")", "DescribeTags", wire.Filtered("resource-id", id))
	return err
}
