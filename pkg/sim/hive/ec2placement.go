package simhive

import "slices"

// placementActions are those about placement groups, which spx has (spinifex/handlers/ec2/placementgroup/service_impl.go).
//
//	CreatePlacementGroup    :75 Strategy is needed, spread or cluster; tags are dropped; InvalidPlacementGroup.Duplicate (409)
//	DeletePlacementGroup    :125 by name; InvalidPlacementGroup.Unknown (400), .InUse (409)
//	DescribePlacementGroups :170 neither groupArn nor tagSet is told; a filter tag:KEY matches nothing
//
// A group to spread in takes one instance for each node; which node an instance is on is not imitated.
func placementActions() map[string]ec2Action {
	return map[string]ec2Action{
		"CreatePlacementGroup": createPlacement, "DeletePlacementGroup": deletePlacement,
		"DescribePlacementGroups": describePlacements,
	}
}

func createPlacement(c *ec2Call) item {
	if c.missing("GroupName", "Strategy") {
		return nil
	}
	name, strategy := c.text("GroupName"), c.text("Strategy")
	switch {
	case strategy != "spread" && strategy != "cluster":
		return c.refuse("InvalidParameterValue")
	case c.get(placements, name) != nil:
		return c.refuse("InvalidPlacementGroup.Duplicate")
	}
	group := item{"groupId": newID("pg"), "groupName": name, "strategy": strategy, "state": "available"}
	if strategy == "spread" {
		group["spreadLevel"] = "host"
	}
	c.put(placements, name, group)
	return item{"placementGroup": group}
}

func deletePlacement(c *ec2Call) item {
	if c.missing("GroupName") {
		return nil
	}
	group := c.get(placements, c.text("GroupName"))
	switch {
	case group == nil:
		return c.refuse("InvalidPlacementGroup.Unknown")
	case len(group.items("_instances")) > 0:
		return c.refuse("InvalidPlacementGroup.InUse")
	}
	c.drop(placements, c.text("GroupName"))
	return item{}
}

func describePlacements(c *ec2Call) item {
	answer := c.describe(described{
		kind: placements, id: "groupName", ids: "GroupName", set: "placementGroupSet",
		missing: "InvalidPlacementGroup.Unknown",
		filters: map[string]string{
			"group-id": "groupId", "strategy": "strategy", "state": "state", "spread-level": "spreadLevel",
			"group-name": "groupName",
		},
	})
	if answer == nil {
		return nil
	}
	found := slices.DeleteFunc(answer.items("placementGroupSet"), func(g item) bool { return !c.among("GroupId", g.text("groupId")) })
	return item{"placementGroupSet": listOf(found)}
}

// placement is the placement group that an instance is to be in, or why it cannot be.
func (c *ec2Call) placement() (group, code string) {
	name := c.text("Placement.GroupName")
	switch {
	case name == "" || !c.spx():
		return "", ""
	case c.get(placements, name) == nil:
		return "", "InvalidPlacementGroup.Unknown"
	}
	return name, ""
}

// spread is what of the room for instances a placement group leaves.
func (c *ec2Call) spread(name string, room int64) int64 {
	group := c.get(placements, name)
	if name == "" || group == nil || group.text("strategy") != "spread" {
		return room
	}
	return min(room, int64(len(c.g.nodeTypes())-len(group.items("_instances"))))
}

func (c *ec2Call) joinGroup(name, instance string) {
	if group := c.get(placements, name); group != nil {
		group["_instances"] = append(present(group.items("_instances")), item{"id": instance})
		c.put(placements, name, group)
	}
}

func (c *ec2Call) leaveGroup(name, instance string) {
	if group := c.get(placements, name); group != nil {
		group["_instances"] = slices.DeleteFunc(present(group.items("_instances")), func(v any) bool {
			return asItem(v).text("id") == instance
		})
		c.put(placements, name, group)
	}
}
