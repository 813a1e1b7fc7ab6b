package ec2

import (
	"context"
	"slices"
	"strings"

	"hive-test/pkg/gateway/wire"
)

// defaultGroup is the name of the security group that comes with a VPC.
const defaultGroup = "default"

func (s *Service) groupActions() map[string]handler {
	return map[string]handler{
		"CreateSecurityGroup": s.createGroup, "DeleteSecurityGroup": s.deleteGroup,
		"DescribeSecurityGroups": func(ctx context.Context, in wire.Object) (wire.Object, error) {
			return s.describeNamed(ctx, groupKind(), in, "GroupNames", "GroupName")
		},
	}
}

// groupFilters are those of a group, and those of its permissions, which are the same for both directions.
func groupFilters() map[string]string {
	filters := map[string]string{
		"description": "Description", "group-id": "GroupId", "group-name": "GroupName", "owner-id": "OwnerId",
		"vpc-id": "VpcId",
	}
	for prefix, member := range map[string]string{
		"ip-permission.": "IpPermissions.", "egress.ip-permission.": "IpPermissionsEgress.",
	} {
		for name, path := range map[string]string{
			"cidr": "IpRanges.CidrIp", "from-port": "FromPort", "group-id": "UserIdGroupPairs.GroupId",
			"group-name": "UserIdGroupPairs." + peerMember, "ipv6-cidr": "Ipv6Ranges.CidrIpv6",
			"prefix-list-id": "PrefixListIds.PrefixListId", "protocol": "IpProtocol", "to-port": "ToPort",
			"user-id": "UserIdGroupPairs.UserId",
		} {
			filters[prefix+name] = member + path
		}
	}
	return filters
}

// createDefaultGroup makes the security group that comes with a VPC: all may leave, and come in from the group itself.
func (s *Service) createDefaultGroup(ctx context.Context, vpc string) error {
	group := s.newGroup(ctx, newID(ctx, "sg"), vpc, defaultGroup, "default VPC security group", []any{})
	group[partMember] = vpc
	inside := wire.Object{
		"IpProtocol": "-1", "FromPort": anyPort, "ToPort": anyPort, peerMember: defaultGroup,
		"ReferencedGroupInfo": wire.Object{"GroupId": group["GroupId"], "UserId": s.Account},
	}
	s.complete(ctx, inside, group, false, []any{})
	setRules(group, append(group.Objects(rulesMember), inside))
	_, err := s.create(ctx, groupKind(), nil, group)
	return err
}

// newGroup is a group with the rule that each has at first: all may leave.
func (s *Service) newGroup(ctx context.Context, id, vpc, name, description string, tags []any) wire.Object {
	group := wire.Object{
		"GroupId": id, "GroupName": name, "Description": description, "VpcId": vpc, "OwnerId": s.Account,
		"SecurityGroupArn": s.arn("security-group/" + id), "Tags": tags,
	}
	outside := wire.Object{"IpProtocol": "-1", "FromPort": anyPort, "ToPort": anyPort, "CidrIpv4": "0.0.0.0/0"}
	s.complete(ctx, outside, group, true, []any{})
	setRules(group, []wire.Object{outside})
	return group
}

// createGroup makes a group in a VPC. Its name is noted there before: of two that are asked for at once by one
// name, one is refused.
func (s *Service) createGroup(ctx context.Context, in wire.Object) (wire.Object, error) {
	name, description := strings.TrimSpace(in.Text("GroupName")), in.Text("Description")
	if err := checkGroup(name, description); err != nil {
		return nil, err
	}
	tags, err := tagsFor(in, groupKind().bucket)
	if err != nil {
		return nil, err
	}
	vpc := in.Text("VpcId")
	if vpc == "" {
		if vpc, err = s.defaultVPC(ctx); err != nil {
			return nil, err
		}
	}
	id := newID(ctx, "sg")
	err = s.use(ctx, vpcKind(), vpc, groupKind().ref(id), wire.Object{"GroupName": name}, nameFree(name))
	if err != nil {
		return nil, err
	}
	group, err := s.create(ctx, groupKind(), in, s.newGroup(ctx, id, vpc, name, description, tags))
	return wire.Object{"GroupId": id, "SecurityGroupArn": group["SecurityGroupArn"], "Tags": tags}, err
}

// checkGroup is an error where a group cannot be called or described so.
func checkGroup(name, description string) error {
	if err := named("GroupName", name); err != nil {
		return err
	}
	if err := named("GroupDescription", description); err != nil {
		return err
	}
	switch {
	case name == defaultGroup:
		return invalid("Cannot use reserved security group name: %s", name)
	case strings.HasPrefix(name, "sg-"):
		return invalid("Invalid group name '%s'. Group names may not be in the format sg-*.", name)
	case !plain(name):
		return invalid("Invalid security group name. Valid names are strings less than 256 characters from the "+
			"following set: %s", plainSet)
	case !plain(description):
		return invalid("Invalid security group description. Valid descriptions are strings less than 256 characters "+
			"from the following set: %s", plainSet)
	}
	return nil
}

// nameFree is an error where a group of that name is noted in a VPC.
func nameFree(name string) func(wire.Object, map[string]any) error {
	return func(vpc wire.Object, uses map[string]any) error {
		for ref, with := range uses {
			if isGroup(ref) && wire.AsObject(with).Text("GroupName") == name {
				return wire.Errorf("InvalidGroup.Duplicate", "The security group '%s' already exists for VPC '%s'",
					name, vpc.Text("VpcId"))
			}
		}
		return nil
	}
}

// isGroup reports whether a note of use is a security group's.
func isGroup(ref string) bool { return strings.HasPrefix(ref, groupKind().ref("")) }

// defaultVPC returns the id of the VPC that is meant where none is named.
func (s *Service) defaultVPC(ctx context.Context) (string, error) {
	list, err := s.all(ctx, vpcKind())
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(list, func(vpc wire.Object) bool { return vpc.Bool("IsDefault") })
	if i < 0 {
		return "", wire.Errorf("VPCIdNotSpecified", "No default VPC for this user")
	}
	return list[i].Text("VpcId"), nil
}

// groupFor returns the group that a request names by its id or its name.
func (s *Service) groupFor(ctx context.Context, in wire.Object) (wire.Object, error) {
	id, name := in.Text("GroupId"), in.Text("GroupName")
	switch {
	case id != "":
	case name == "":
		return nil, wire.Errorf(wire.MissingParameter, "The request must contain the parameter groupName or groupId")
	default:
		ids, err := s.idsOf(ctx, groupKind(), "GroupName", name)
		if err != nil {
			return nil, err
		}
		if len(ids) > 1 {
			return nil, invalid("Value (%s) for parameter groupName is invalid. Several VPCs have a group of that name: "+
				"give the groupId.", name)
		}
		id = ids[0]
	}
	return s.get(ctx, groupKind(), id)
}

// deleteGroup deletes a group that nothing is in and that no other group's rules name.
func (s *Service) deleteGroup(ctx context.Context, in wire.Object) (wire.Object, error) {
	group, err := s.groupFor(ctx, in)
	if err != nil {
		return nil, err
	}
	id := group.Text("GroupId")
	err = s.remove(ctx, groupKind(), id, func(last wire.Object) error {
		group = last
		if last.Has(partMember) {
			return wire.Errorf("CannotDelete", `the specified group: "%s" name: "%s" cannot be deleted by a user`,
				id, last.Text("GroupName"))
		}
		return s.groupUnused(ctx, last)
	})
	if err != nil {
		return nil, err
	}
	s.forgetPeers(ctx, group.Objects(rulesMember))
	s.unuse(ctx, vpcKind(), group.Text("VpcId"), groupKind().ref(id))
	return wire.Object{"Return": true, "GroupId": id}, nil
}

// groupUnused is an error where a group is used. The note of a rule counts only while the rule is there, or may be
// soon.
func (s *Service) groupUnused(ctx context.Context, group wire.Object) error {
	for ref := range s.uses(ctx, group) {
		since := group.Object(usesMember).Object(ref).Int("Since")
		soon := s.Now().UnixMicro()-since < madeSoon.Microseconds()
		if !isGroup(ref) || soon || s.hasRule(ctx, ref) {
			return wire.Errorf("DependencyViolation", "resource %s has a dependent object", group.Text("GroupId"))
		}
	}
	return nil
}

// hasRule reports whether a group has the rule that has made a note of use.
func (s *Service) hasRule(ctx context.Context, note string) bool {
	id, _, _ := strings.Cut(strings.TrimPrefix(note, groupKind().ref("")), "/")
	group, err := s.Store.Get(ctx, groupKind().bucket, id)
	return err != nil || slices.ContainsFunc(group.Objects(rulesMember), func(rule wire.Object) bool {
		return rule.Text(noteMember) == note
	})
}
