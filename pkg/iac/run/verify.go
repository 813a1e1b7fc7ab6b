package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"hive-test/pkg/gateway/wire"
	"hive-test/pkg/opentofu"
)

// attributes are those of a resource in the state, of which calls of our own must tell the same.
type attributes map[string]any

func (a attributes) text(name string) string {
	switch v := a[name].(type) {
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case bool:
		return strconv.FormatBool(v)
	}
	return ""
}

// same are pairs of an attribute and where what is told has it.
type same map[string]string

// checks say for each type what is compared, besides id and tags.
func checks() map[string]same {
	return map[string]same{
		"aws_vpc":              {"cidr_block": "CidrBlock", "@available": "State"},
		"aws_subnet":           {"cidr_block": "CidrBlock", "vpc_id": "VpcId", "map_public_ip_on_launch": "MapPublicIpOnLaunch", "@available": "State"},
		"aws_internet_gateway": {"vpc_id": "Attachments.VpcId"},
		"aws_route_table":      {"vpc_id": "VpcId"},
		"aws_security_group":   {"vpc_id": "VpcId", "name": "GroupName", "description": "Description"},
		"aws_key_pair":         {"key_name": "KeyName"},
		"aws_instance": {
			"ami": "Instances.ImageId", "instance_type": "Instances.InstanceType", "subnet_id": "Instances.SubnetId",
			"@running": "Instances.State.Name",
		},
		"aws_ebs_volume": {"availability_zone": "AvailabilityZone", "size": "Size", "type": "VolumeType"},
	}
}

// verify asks the endpoint about all that the state holds, and says what is not as the state has it.
func (s *stackRun) verify(ctx context.Context) error {
	resources, err := opentofu.ReadState(opentofu.StatePath(s.dir))
	if err != nil {
		return err
	}
	if len(resources) == 0 {
		return errors.New("the state holds nothing")
	}
	var problems []error
	for _, r := range resources {
		var a attributes
		if err := json.Unmarshal(r.Attributes, &a); err != nil {
			return fmt.Errorf("reading the state of %s: %w", r.Type, err)
		}
		if err := s.verifyOne(ctx, r.Type, a); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", r.Type, err))
		}
	}
	return errors.Join(problems...)
}

func (s *stackRun) verifyOne(ctx context.Context, name string, a attributes) error {
	switch name {
	case "aws_volume_attachment":
		return s.linked(ctx, "aws_ebs_volume", a.text("volume_id"), "Attachments.InstanceId", a.text("instance_id"))
	case "aws_route_table_association":
		return s.linked(ctx, "aws_route_table", a.text("route_table_id"), "Associations.SubnetId", a.text("subnet_id"))
	}
	k, known := kindNamed(name)
	if !known {
		return nil
	}
	one, err := k.find(ctx, s.client, a.text("id"))
	switch {
	case err != nil:
		return err
	case one == nil:
		return fmt.Errorf("%s tells of no %s", k.describe, a.text("id"))
	}
	for attribute, path := range checks()[name] {
		want, literal := strings.CutPrefix(attribute, "@")
		if !literal {
			want = a.text(attribute)
		}
		if found := one.At(path); !slices.Contains(found, want) {
			return fmt.Errorf("%s tells that %s is %q, and it should be %q", k.describe, path, strings.Join(found, ", "), want)
		}
	}
	if err := sameTags(a, one); err != nil {
		return fmt.Errorf("%s tells %w", k.describe, err)
	}
	return samePorts(a, one, k.describe)
}

// linked proves that what is told of one resource names another.
func (s *stackRun) linked(ctx context.Context, name, id, path, want string) error {
	k, _ := kindNamed(name)
	one, err := k.find(ctx, s.client, id)
	if err != nil {
		return err
	}
	if found := one.At(path); !slices.Contains(found, want) {
		return fmt.Errorf("%s of %s tells that %s is %q, and it should be %q", k.describe, id, path, strings.Join(found, ", "), want)
	}
	return nil
}

// sameTags compares all tags, of which what was asked for must be the whole.
func sameTags(a attributes, one wire.Object) error {
	wanted, _ := a["tags_all"].(map[string]any)
	tags := one.Objects("Tags")
	if instances := one.Objects("Instances"); len(instances) > 0 {
		tags = instances[0].Objects("Tags")
	}
	found := map[string]string{}
	for _, tag := range tags {
		found[tag.Text("Key")] = tag.Text("Value")
	}
	for _, key := range slices.Sorted(maps.Keys(wanted)) {
		if value, there := found[key]; !there || value != wanted[key] {
			return fmt.Errorf("that tag %q is %q, and it should be %q", key, value, wanted[key])
		}
		delete(found, key)
	}
	for _, key := range slices.Sorted(maps.Keys(found)) {
		if !strings.HasPrefix(key, "aws:") {
			return fmt.Errorf("of a tag %q that nobody asked for", key)
		}
	}
	return nil
}

// samePorts compares the rules of a security group by their ports.
func samePorts(a attributes, one wire.Object, action string) error {
	for attribute, path := range map[string]string{"ingress": "IpPermissions.FromPort", "egress": "IpPermissionsEgress.FromPort"} {
		rules, _ := a[attribute].([]any)
		found := one.At(path)
		for _, rule := range rules {
			fields, _ := rule.(map[string]any)
			port := attributes(fields).text("from_port")
			if attributes(fields).text("protocol") != "-1" && !slices.Contains(found, port) {
				return fmt.Errorf("%s tells of no %s rule of port %s", action, attribute, port)
			}
		}
	}
	return nil
}
