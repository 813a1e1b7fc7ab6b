package ec2

import (
	"context"
	"slices"
	"strings"

	"hive-test/pkg/gateway/wire"
)

// Limits of tags.
const (
	mostTags     = 50
	longestKey   = 127
	longestValue = 255
)

func (s *Service) tagActions() map[string]handler {
	return map[string]handler{
		"CreateTags": s.createTags, "DeleteTags": s.deleteTags, "DescribeTags": s.describeTags,
	}
}

// tagsFor returns the tags that a request gives to a resource of a kind that it makes.
func tagsFor(in wire.Object, resource string) ([]any, error) {
	var tags []any
	for _, spec := range in.Objects("TagSpecifications") {
		if spec.Text("ResourceType") != resource {
			continue
		}
		for _, tag := range spec.Objects("Tags") {
			var err error
			if tags, err = setTag(tags, tag); err != nil {
				return nil, err
			}
		}
	}
	if tags == nil {
		tags = []any{}
	}
	return tags, nil
}

// setTag adds a tag, or changes its value.
func setTag(tags []any, tag wire.Object) ([]any, error) {
	key, value := tag.Text("Key"), tag.Text("Value")
	switch {
	case key == "":
		return nil, wire.Errorf(wire.MissingParameter, "The request must contain the parameter tagKey")
	case strings.HasPrefix(strings.ToLower(key), "aws:"):
		return nil, invalid("Tag keys starting with 'aws:' are reserved for internal use")
	case len([]rune(key)) > longestKey:
		return nil, invalid("Tag key exceeds the maximum length of %d characters", longestKey)
	case len([]rune(value)) > longestValue:
		return nil, invalid("Tag value exceeds the maximum length of %d characters", longestValue)
	}
	made := wire.Object{"Key": key, "Value": value}
	i := slices.IndexFunc(tags, func(t any) bool { return wire.AsObject(t).Text("Key") == key })
	if i >= 0 {
		tags[i] = made
		return tags, nil
	}
	if len(tags) >= mostTags {
		return nil, wire.Errorf("TagLimitExceeded", "More than %d tags were given", mostTags)
	}
	return append(tags, made), nil
}

func (s *Service) createTags(ctx context.Context, in wire.Object) (wire.Object, error) {
	return s.onTags(ctx, in, func(tags []any) ([]any, error) {
		for _, tag := range in.Objects("Tags") {
			var err error
			if tags, err = setTag(tags, tag); err != nil {
				return nil, err
			}
		}
		return tags, nil
	})
}

func (s *Service) deleteTags(ctx context.Context, in wire.Object) (wire.Object, error) {
	return s.onTags(ctx, in, func(tags []any) ([]any, error) {
		wanted := in.Objects("Tags")
		if !in.Has("Tags") {
			return []any{}, nil
		}
		return slices.DeleteFunc(tags, func(t any) bool {
			return slices.ContainsFunc(wanted, func(w wire.Object) bool {
				tag := wire.AsObject(t)
				return w.Text("Key") == tag.Text("Key") && (!w.Has("Value") || w.Text("Value") == tag.Text("Value"))
			})
		}), nil
	})
}

// onTags changes the tags of the resources that a request names, of all or of none that it knows before.
func (s *Service) onTags(
	ctx context.Context, in wire.Object, change func(tags []any) ([]any, error),
) (wire.Object, error) {
	ids := in.Texts("Resources")
	if len(ids) == 0 {
		return nil, require(in, "ResourceId")
	}
	for _, id := range ids {
		if err := s.taggable(ctx, id); err != nil {
			return nil, err
		}
	}
	for _, id := range ids {
		if err := s.changeTags(ctx, id, change); err != nil {
			return nil, err
		}
	}
	return returned(), nil
}

// taggable is an error where there is no resource of that id.
func (s *Service) taggable(ctx context.Context, id string) error {
	if isRule(id) {
		_, err := s.groupOf(ctx, id)
		return err
	}
	k, known := s.kindOf(id)
	if !known {
		return wire.Errorf("InvalidID", "The ID '%s' is not valid", id)
	}
	_, err := s.get(ctx, k, id)
	return err
}

func (s *Service) changeTags(ctx context.Context, id string, change func(tags []any) ([]any, error)) error {
	tag := func(o wire.Object) error {
		tags, _ := o["Tags"].([]any)
		tags, err := change(tags)
		o["Tags"] = tags
		return err
	}
	if isRule(id) {
		return s.changeRule(ctx, id, tag)
	}
	k, _ := s.kindOf(id)
	_, err := s.change(ctx, k, id, tag)
	return err
}

// tagged returns the resources of a kind, or of the rules of security groups, which are in those.
func (s *Service) tagged(ctx context.Context, k kind) ([]wire.Object, error) {
	if k.prefix == ruleKind().prefix {
		return s.rules(ctx)
	}
	return s.all(ctx, k)
}

func (s *Service) describeTags(ctx context.Context, in wire.Object) (wire.Object, error) {
	match, err := filter(map[string]string{
		"key": "Key", "value": "Value", "resource-id": "ResourceId", "resource-type": "ResourceType",
	}, in)
	if err != nil {
		return nil, err
	}
	var found []wire.Object
	for _, k := range append(kinds(), ruleKind()) {
		list, err := s.tagged(ctx, k)
		if err != nil {
			return nil, err
		}
		for _, o := range list {
			for _, tag := range o.Objects("Tags") {
				description := wire.Object{
					"Key": tag.Text("Key"), "Value": tag.Text("Value"), "ResourceId": o.Text(k.id), "ResourceType": k.bucket,
				}
				if match(description) {
					found = append(found, description)
				}
			}
		}
	}
	return page("Tags", found, in, "ResourceId", "Key")
}
