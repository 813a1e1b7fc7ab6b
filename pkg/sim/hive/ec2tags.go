package simhive

import (
	"maps"
	"slices"
	"strings"
)

// tagActions are those about tags (handlers/ec2/tags/service_impl.go). What they write is what DescribeTags tells; no
// other answer does. Tags that a resource was made with are not among them.
//
//	CreateTags   :152 any id is taken; a key must not be empty (gateway/ec2/tags/CreateTags.go:27)
//	DeleteTags   :302 a value that is given must be the tag's, and an empty one is a value; without tags all go
//	DescribeTags :202 another filter than resource-id, resource-type, key and value is InvalidParameterValue in both eras
//	             (in spx, tag:KEY is taken and ignored)
func tagActions(Era) map[string]ec2Action {
	return map[string]ec2Action{"CreateTags": createTags, "DeleteTags": deleteTags, "DescribeTags": describeTags}
}

// typeOf is a resource's type by its id, as far as hive knows them (:55).
func typeOf(id string) string {
	prefix, _, _ := strings.Cut(id, "-")
	types := map[string]string{
		"i": "instance", "vol": "volume", "ami": "image", "snap": "snapshot", "vpc": "vpc", "subnet": "subnet",
		"sg": "security-group", "rtb": "route-table", "igw": "internet-gateway", "eigw": "egress-only-internet-gateway",
	}
	if known := types[prefix]; known != "" && id != prefix {
		return known
	}
	return "unknown"
}

func createTags(c *ec2Call) item {
	ids, tags := c.list("ResourceId"), c.each("Tag")
	if len(ids) == 0 || len(tags) == 0 {
		return c.refuse("MissingParameter")
	}
	for _, tag := range tags {
		if tag.text("Key") == "" {
			return c.refuse("InvalidParameterValue")
		}
	}
	for _, id := range ids {
		kept := c.tagsKept(id)
		for _, tag := range tags {
			if tag.has("Value") {
				kept[tag.text("Key")] = tag.text("Value")
			}
		}
		c.keepTags(id, kept)
	}
	return item{}
}

func (c *ec2Call) tagsKept(id string) map[string]string {
	if kept := c.get(tagsOf, id); kept != nil {
		return kept.tags()
	}
	return map[string]string{}
}

func (c *ec2Call) keepTags(id string, tags map[string]string) {
	c.put(tagsOf, id, item{"_id": id, "tagSet": tagList(tags)})
}

func deleteTags(c *ec2Call) item {
	ids, tags := c.list("ResourceId"), c.each("Tag")
	if len(ids) == 0 {
		return c.refuse("MissingParameter")
	}
	for _, id := range ids {
		kept := c.tagsKept(id)
		if len(tags) == 0 {
			clear(kept)
		}
		for _, tag := range tags {
			if value, there := kept[tag.text("Key")]; there && (!tag.has("Value") || tag.text("Value") == value) {
				delete(kept, tag.text("Key"))
			}
		}
		c.keepTags(id, kept)
	}
	return item{}
}

func describeTags(c *ec2Call) item {
	filters := c.filters()
	for name := range filters {
		if !slices.Contains([]string{"resource-id", "resource-type", "key", "value"}, name) &&
			(!c.spx() || !strings.HasPrefix(name, "tag:")) {
			return c.refuse("InvalidParameterValue")
		}
	}
	var found []item
	for _, kept := range c.all(tagsOf) {
		tags := kept.tags()
		for _, key := range slices.Sorted(maps.Keys(tags)) {
			id := kept.text("_id")
			if c.anyOf(filters["resource-id"], id) && c.anyOf(filters["resource-type"], typeOf(id)) &&
				c.anyOf(filters["key"], key) && c.anyOf(filters["value"], tags[key]) {
				found = append(found, item{
					"resourceId": id, "resourceType": typeOf(id), "key": key, "value": tags[key],
				})
			}
		}
	}
	return item{"tagSet": listOf(found)}
}
