package ec2

import (
	"context"

	"hive-test/pkg/gateway/wire"
)

// Partitions of a placement group.
const (
	usualPartitions = 2
	mostPartitions  = 7
)

func (s *Service) placementActions() map[string]handler {
	return map[string]handler{
		"CreatePlacementGroup": s.createPlacementGroup, "DeletePlacementGroup": s.deletePlacementGroup,
		"DescribePlacementGroups": func(ctx context.Context, in wire.Object) (wire.Object, error) {
			return s.describeNamed(ctx, placementKind(), in, "GroupNames", "GroupName")
		},
	}
}

func (s *Service) createPlacementGroup(ctx context.Context, in wire.Object) (wire.Object, error) {
	name := in.Text("GroupName")
	if err := named("groupName", name); err != nil {
		return nil, err
	}
	tags, err := tagsFor(in, placementKind().bucket)
	if err != nil {
		return nil, err
	}
	group := wire.Object{
		"GroupId": s.namedID(placementKind(), name), "GroupName": name, "State": "pending", "Tags": tags,
		"GroupArn": s.arn("placement-group/" + name),
	}
	if err := spread(group, in); err != nil {
		return nil, err
	}
	s.later(group, wire.Object{"State": "available"})
	err = s.createNamed(ctx, placementKind(), group, wire.Errorf(
		"InvalidPlacementGroup.Duplicate", "The placement group '%s' already exists.", name))
	return wire.Object{"PlacementGroup": group}, err
}

// spread sets how a placement group spreads instances.
func spread(group, in wire.Object) error {
	strategy := in.Text("Strategy")
	if strategy == "" {
		strategy = "cluster"
	}
	switch strategy {
	case "cluster", "spread", "partition":
	default:
		return invalid("Value (%s) for parameter strategy is invalid.", strategy)
	}
	group["Strategy"] = strategy
	for parameter, of := range map[string]string{"PartitionCount": "partition", "SpreadLevel": "spread"} {
		if in.Has(parameter) && strategy != of {
			return wire.Errorf("InvalidParameterCombination",
				"The parameter %s can only be used with the strategy %s.", parameter, of)
		}
	}
	switch strategy {
	case "partition":
		count := in.Int("PartitionCount")
		if !in.Has("PartitionCount") {
			count = usualPartitions
		}
		if count < 1 || count > mostPartitions {
			return invalid("Value (%d) for parameter partitionCount is invalid. Expecting a value between 1 and %d.",
				count, mostPartitions)
		}
		group["PartitionCount"] = count
	case "spread":
		level := in.Text("SpreadLevel")
		if level == "" {
			level = "rack"
		}
		if level != "rack" && level != "host" {
			return invalid("Value (%s) for parameter spreadLevel is invalid.", level)
		}
		group["SpreadLevel"] = level
	}
	return nil
}

// deletePlacementGroup deletes a group that no instance is in.
func (s *Service) deletePlacementGroup(ctx context.Context, in wire.Object) (wire.Object, error) {
	name := in.Text("GroupName")
	if err := named("groupName", name); err != nil {
		return nil, err
	}
	ids, err := s.idsOf(ctx, placementKind(), "GroupName", name)
	if err != nil {
		return nil, err
	}
	err = s.remove(ctx, placementKind(), ids[0], func(group wire.Object) error {
		if len(s.uses(ctx, group)) > 0 {
			return wire.Errorf(
				"InvalidPlacementGroup.InUse", "The placement group '%s' is in use and may not be deleted.", name)
		}
		return nil
	})
	return returned(), err
}
