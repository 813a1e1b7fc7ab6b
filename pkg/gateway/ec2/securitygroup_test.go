package ec2_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"hive-test/pkg/gateway/wire"
)

// group makes a security group and returns its id.
func (a *account) group(vpc, name string) string {
	a.t.Helper()
	return a.must("CreateSecurityGroup", wire.Object{
		"VpcId": vpc, "GroupName": name, "Description": "of " + name,
	}).Text("GroupId")
}

// described is a group as it is told of.
func (a *account) described(id string) wire.Object {
	a.t.Helper()
	found := a.must("DescribeSecurityGroups", wire.Object{"GroupIds": wire.Strings(id)}).Objects("SecurityGroups")
	if len(found) != 1 {
		a.t.Fatalf("%s: %v", id, found)
	}
	return found[0]
}

// rulesOf are the rules of a group.
func (a *account) rulesOf(id string) []wire.Object {
	a.t.Helper()
	return a.must("DescribeSecurityGroupRules", with("group-id", id)).Objects("SecurityGroupRules")
}

// allow is a request about a group with one permission for IPv4 blocks.
func allow(group, protocol string, from, to int, cidrs ...string) wire.Object {
	var ranges []wire.Object
	for _, cidr := range cidrs {
		ranges = append(ranges, wire.Object{"CidrIp": cidr})
	}
	return about(group, wire.Object{
		"IpProtocol": protocol, "FromPort": from, "ToPort": to, "IpRanges": wire.List(ranges...),
	})
}

func about(group string, permissions ...wire.Object) wire.Object {
	return wire.Object{"GroupId": group, "IpPermissions": wire.List(permissions...)}
}

// pair is a permission for a group.
func pair(protocol string, port int, group string) wire.Object {
	return wire.Object{
		"IpProtocol": protocol, "FromPort": port, "ToPort": port,
		"UserIdGroupPairs": wire.List(wire.Object{"GroupId": group}),
	}
}

// short tells of a group's permissions in a line each, sorted.
func short(permissions []wire.Object) []string {
	lines := []string{}
	for _, p := range permissions {
		var peers []string
		for _, list := range [][2]string{
			{"IpRanges", "CidrIp"},
			{"Ipv6Ranges", "CidrIpv6"},
			{"PrefixListIds", "PrefixListId"},
			{"UserIdGroupPairs", "GroupId"},
		} {
			for _, peer := range p.Objects(list[0]) {
				line := peer.Text(list[1])
				if peer.Has("Description") {
					line += "=" + peer.Text("Description")
				}
				peers = append(peers, line)
			}
		}
		slices.Sort(peers)
		lines = append(lines, fmt.Sprintf("%s %s-%s %v", p.Text("IpProtocol"), p.Text("FromPort"), p.Text("ToPort"), peers))
	}
	slices.Sort(lines)
	return lines
}

func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSecurityGroups(t *testing.T) {
	a := newAccount(t, 0)
	vpc, other := a.vpc("10.0.0.0/16"), a.vpc("10.1.0.0/16")
	made := a.must("CreateSecurityGroup", wire.Object{
		"VpcId": vpc, "GroupName": "web", "Description": "of web", "TagSpecifications": wire.List(
			wire.Object{"ResourceType": "security-group", "Tags": wire.List(wire.Object{"Key": "Name", "Value": "w"})}),
	})
	id := made.Text("GroupId")
	group := a.described(id)
	if group.Text("Description") != "of web" || group.Text("VpcId") != vpc || group.Text("OwnerId") != "000000000000" ||
		group.Text("SecurityGroupArn") != made.Text("SecurityGroupArn") || group.Objects("Tags")[0].Text("Value") != "w" {
		t.Errorf("group: %v", group)
	}
	expect(t, short(group.Objects("IpPermissions")))
	expect(t, short(group.Objects("IpPermissionsEgress")), "-1 - [0.0.0.0/0]")

	a.refused("InvalidGroup.Duplicate", "CreateSecurityGroup", wire.Object{
		"VpcId": vpc, "GroupName": "web", "Description": "d",
	})
	a.group(other, "web")
	for _, test := range []struct {
		code string
		in   wire.Object
	}{
		{"InvalidVpcID.NotFound", wire.Object{"VpcId": "vpc-1", "GroupName": "a", "Description": "d"}},
		{"VPCIdNotSpecified", wire.Object{"GroupName": "a", "Description": "d"}},
		{"MissingParameter", wire.Object{"VpcId": vpc, "Description": "d"}},
		{"MissingParameter", wire.Object{"VpcId": vpc, "GroupName": "a"}},
		{"InvalidParameterValue", wire.Object{"VpcId": vpc, "GroupName": "default", "Description": "d"}},
		{"InvalidParameterValue", wire.Object{"VpcId": vpc, "GroupName": "sg-a", "Description": "d"}},
		{"InvalidParameterValue", wire.Object{"VpcId": vpc, "GroupName": "a", "Description": "für alle"}},
		{"InvalidParameterValue", wire.Object{"VpcId": vpc, "GroupName": "a|b", "Description": "d"}},
	} {
		a.refused(test.code, "CreateSecurityGroup", test.in)
	}
	a.refused("InvalidGroup.NotFound", "DescribeSecurityGroups", wire.Object{"GroupIds": wire.Strings("sg-1")})
	a.refused("InvalidGroup.NotFound", "DescribeSecurityGroups", wire.Object{"GroupNames": wire.Strings("db")})
	byName := a.must("DescribeSecurityGroups", wire.Object{"GroupNames": wire.Strings("web")}).Objects("SecurityGroups")
	if len(byName) != 2 {
		t.Errorf("by name: %v", byName)
	}

	a.refused("DependencyViolation", "DeleteVpc", wire.Object{"VpcId": vpc})
	if gone := a.must("DeleteSecurityGroup", wire.Object{"GroupId": id}); gone.Text("GroupId") != id {
		t.Errorf("deleted: %v", gone)
	}
	a.refused("InvalidGroup.NotFound", "DeleteSecurityGroup", wire.Object{"GroupId": id})
	a.refused("InvalidGroup.NotFound", "DescribeSecurityGroups", wire.Object{"GroupIds": wire.Strings(id)})
	a.refused("MissingParameter", "DeleteSecurityGroup", wire.Object{})
	a.group(vpc, "web") // its name is free again
	a.refused("InvalidParameterValue", "DeleteSecurityGroup", wire.Object{"GroupName": "web"})
}

func TestDefaultSecurityGroup(t *testing.T) {
	a := newAccount(t, 0)
	vpc := a.vpc("10.0.0.0/16")
	in := with("group-name", "default")
	in["Filters"] = append(in["Filters"].([]any), with("vpc-id", vpc)["Filters"].([]any)...)
	found := a.must("DescribeSecurityGroups", in).Objects("SecurityGroups")
	if len(found) != 1 {
		t.Fatalf("default groups: %v", found)
	}
	id := found[0].Text("GroupId")
	expect(t, short(found[0].Objects("IpPermissions")), "-1 - ["+id+"]")
	expect(t, short(found[0].Objects("IpPermissionsEgress")), "-1 - [0.0.0.0/0]")
	a.refused("CannotDelete", "DeleteSecurityGroup", wire.Object{"GroupId": id})

	// As the provider takes a default group over.
	for _, rule := range a.rulesOf(id) {
		action := "RevokeSecurityGroupIngress"
		if rule.Bool("IsEgress") {
			action = "RevokeSecurityGroupEgress"
		}
		a.must(action, wire.Object{"GroupId": id, "SecurityGroupRuleIds": wire.Strings(rule.Text("SecurityGroupRuleId"))})
	}
	if left := a.rulesOf(id); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	a.must("DeleteVpc", wire.Object{"VpcId": vpc})
	a.refused("InvalidGroup.NotFound", "DescribeSecurityGroups", wire.Object{"GroupIds": wire.Strings(id)})
}

func TestGroupsAsPeers(t *testing.T) {
	a := newAccount(t, 0)
	vpc, other := a.vpc("10.0.0.0/16"), a.vpc("10.1.0.0/16")
	web, db, far := a.group(vpc, "web"), a.group(vpc, "db"), a.group(other, "far")
	a.refused("InvalidGroup.NotFound", "AuthorizeSecurityGroupIngress", about(db, pair("tcp", 5432, "sg-1")))
	a.refused("InvalidGroup.NotFound", "AuthorizeSecurityGroupIngress",
		about(db, pair("tcp", 5432, web), pair("tcp", 1, far)))
	a.refused("InvalidGroup.NotFound", "AuthorizeSecurityGroupIngress", about("sg-1", pair("tcp", 5432, web)))
	theirs := pair("tcp", 1, web)
	theirs.Objects("UserIdGroupPairs")[0]["UserId"] = "111111111111"
	a.refused("InvalidGroup.NotFound", "AuthorizeSecurityGroupIngress", about(db, theirs))
	byName := pair("tcp", 22, "")
	byName["UserIdGroupPairs"] = wire.List(wire.Object{"GroupName": "web"})
	a.must("AuthorizeSecurityGroupIngress", about(db, pair("tcp", 5432, web), pair("udp", 53, db), byName))
	expect(t, short(a.described(db).Objects("IpPermissions")),
		"tcp 22-22 ["+web+"]", "tcp 5432-5432 ["+web+"]", "udp 53-53 ["+db+"]")
	peer := a.described(db).Objects("IpPermissions")[0].Objects("UserIdGroupPairs")[0]
	if peer.Text("UserId") != "000000000000" {
		t.Errorf("peer: %v", peer)
	}
	for name, value := range map[string]string{
		"ip-permission.group-id": web, "ip-permission.group-name": "web", "ip-permission.user-id": "000000000000",
	} {
		found := a.must("DescribeSecurityGroups", with(name, value)).Objects("SecurityGroups")
		if !slices.ContainsFunc(found, func(o wire.Object) bool { return o.Text("GroupId") == db }) {
			t.Errorf("filter %s: %v", name, found)
		}
	}
	a.refused("DependencyViolation", "DeleteSecurityGroup", wire.Object{"GroupId": web})
	a.must("RevokeSecurityGroupIngress", about(db, pair("tcp", 5432, web)))
	a.refused("DependencyViolation", "DeleteSecurityGroup", wire.Object{"GroupId": web})
	a.pass(time.Minute) // notes count for nothing alone
	a.refused("DependencyViolation", "DeleteSecurityGroup", wire.Object{"GroupId": web})
	a.must("RevokeSecurityGroupIngress", about(db, byName))
	a.must("DeleteSecurityGroup", wire.Object{"GroupId": web})

	// A group that is gone names none; rules of its own do not keep it.
	a.must("AuthorizeSecurityGroupEgress", about(far, pair("tcp", 80, a.group(other, "web"))))
	web = a.described(far).Objects("IpPermissionsEgress")[1].Objects("UserIdGroupPairs")[0].Text("GroupId")
	a.refused("DependencyViolation", "DeleteSecurityGroup", wire.Object{"GroupId": web})
	a.must("DeleteSecurityGroup", wire.Object{"GroupId": far})
	a.must("DeleteSecurityGroup", wire.Object{"GroupId": web})
	a.must("DeleteSecurityGroup", wire.Object{"GroupId": db})
	a.must("DeleteVpc", wire.Object{"VpcId": vpc})
	a.must("DeleteVpc", wire.Object{"VpcId": other})
}

func TestOneSecurityGroupOfAName(t *testing.T) {
	both := twoGateways(t)
	vpc := both[0].vpc("10.0.0.0/16")
	oneWins(t, both, "CreateSecurityGroup", wire.Object{"VpcId": vpc, "GroupName": "web", "Description": "d"})
	group := both[1].must("DescribeSecurityGroups", with("group-name", "web")).Objects("SecurityGroups")[0].Text("GroupId")
	oneWins(t, both, "AuthorizeSecurityGroupIngress", allow(group, "tcp", 1, 1, "10.0.0.0/8"))
	oneWins(t, both, "RevokeSecurityGroupIngress", allow(group, "tcp", 1, 1, "10.0.0.0/8"))
}

// While rules that name a group come and go on two gateways, it is never deleted from under one.
func TestPeersAtOnce(t *testing.T) {
	both := twoGateways(t)
	vpc := both[0].vpc("10.0.0.0/16")
	for round := range 5 {
		web, db := both[0].group(vpc, fmt.Sprint("web", round)), both[0].group(vpc, fmt.Sprint("db", round))
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() {
				for range 5 {
					if _, err := both[i%2].try("AuthorizeSecurityGroupIngress", about(db, pair("tcp", i, web))); err == nil && i > 0 {
						both[i%2].must("RevokeSecurityGroupIngress", about(db, pair("tcp", i, web)))
					}
				}
			})
		}
		deleted := false
		all.Go(func() {
			for range 10 {
				_, err := both[1].try("DeleteSecurityGroup", wire.Object{"GroupId": web})
				deleted = deleted || err == nil
			}
		})
		all.Wait()
		if named := len(both[0].described(db).Objects("IpPermissions")) > 0; named == deleted {
			t.Errorf("a rule names the group: %v, it was deleted: %v", named, deleted)
		}
	}
}
