package ec2

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"hive-test/pkg/gateway/wire"
)

// Members that the service keeps in a security group and its rules beside those of the API.
const (
	rulesMember = "_rules" // of a group: its rules, as DescribeSecurityGroupRules tells them
	ofMember    = "_group" // of a rule: the name of its group
	peerMember  = "_peer"  // of a rule: the name of the group that it is about
	noteMember  = "_note"  // of a rule: as what that group has noted it
)

// mostRules is how many a group may have of each direction, for IPv4 and for IPv6.
const mostRules = 60

// Ports of TCP and UDP, and types and codes of ICMP. Any is also that of protocols that have neither.
const (
	mostPort = 65535
	mostICMP = 255
	anyPort  = -1
)

// ruleKind is not a kind of the store's: rules are in their groups.
func ruleKind() kind {
	return kind{
		bucket: "security-group-rule", prefix: "sgr", id: "SecurityGroupRuleId", ids: "SecurityGroupRuleIds",
		list: "SecurityGroupRules", code: "InvalidSecurityGroupRuleId.NotFound", called: "security group rule ID",
		filters: map[string]string{
			"group-id": "GroupId", "group-name": ofMember, "security-group-rule-id": "SecurityGroupRuleId",
		},
	}
}

// setRules gives a group its rules, and the permissions by which groups are described and filtered.
func setRules(group wire.Object, rules []wire.Object) {
	group[rulesMember] = wire.List(rules...)
	group["IpPermissions"] = permissions(rules, false)
	group["IpPermissionsEgress"] = permissions(rules, true)
}

// permissions are the rules of a direction, put together by protocol and ports.
func permissions(rules []wire.Object, egress bool) []any {
	var all []wire.Object
	known := map[string]wire.Object{}
	for _, rule := range rules {
		if rule.Bool("IsEgress") != egress {
			continue
		}
		key := fmt.Sprint(rule.Text("IpProtocol"), " ", rule.Int("FromPort"), " ", rule.Int("ToPort"))
		p := known[key]
		if p == nil {
			p = permission(rule)
			known[key] = p
			all = append(all, p)
		}
		list, peer := peerOf(rule)
		peers, _ := p[list].([]any)
		p[list] = append(peers, peer)
	}
	return wire.List(all...)
}

// permission is that of a rule, without what the rule is about.
func permission(rule wire.Object) wire.Object {
	p := wire.Object{
		"IpProtocol": rule.Text("IpProtocol"),
		"IpRanges":   []any{}, "Ipv6Ranges": []any{}, "PrefixListIds": []any{}, "UserIdGroupPairs": []any{},
	}
	if hasPorts(rule.Text("IpProtocol")) {
		p["FromPort"], p["ToPort"] = rule.Int("FromPort"), rule.Int("ToPort")
	}
	return p
}

// peerOf returns what a rule is about as a permission has it, and the list that it is in there.
func peerOf(rule wire.Object) (list string, peer wire.Object) {
	peer = wire.Object{}
	if rule.Has("Description") {
		peer["Description"] = rule.Text("Description")
	}
	switch {
	case rule.Has("CidrIpv4"):
		peer["CidrIp"], list = rule.Text("CidrIpv4"), "IpRanges"
	case rule.Has("CidrIpv6"):
		peer["CidrIpv6"], list = rule.Text("CidrIpv6"), "Ipv6Ranges"
	case rule.Has("PrefixListId"):
		peer["PrefixListId"], list = rule.Text("PrefixListId"), "PrefixListIds"
	default:
		group := rule.Object("ReferencedGroupInfo")
		peer["GroupId"], peer["UserId"], list = group.Text("GroupId"), group.Text("UserId"), "UserIdGroupPairs"
		peer[peerMember] = rule.Text(peerMember)
	}
	return list, peer
}

// rulesOf are the rules that a permission of a request asks for, one for each that it is about. They have no ids yet.
func rulesOf(p wire.Object) ([]wire.Object, error) {
	protocol, err := protocol(p.Text("IpProtocol"))
	if err != nil {
		return nil, err
	}
	from, to, err := ports(protocol, p)
	if err != nil {
		return nil, err
	}
	var rules []wire.Object
	for _, peers := range []struct {
		list string
		read func(peer, rule wire.Object) error
	}{
		{"IpRanges", readIPv4},
		{"Ipv6Ranges", readIPv6},
		{"PrefixListIds", readPrefixList},
		{"UserIdGroupPairs", readPair},
	} {
		for _, peer := range p.Objects(peers.list) {
			rule := wire.Object{"IpProtocol": protocol, "FromPort": from, "ToPort": to}
			if err := peers.read(peer, rule); err != nil {
				return nil, err
			}
			if err := describeRule(rule, peer.Text("Description")); err != nil {
				return nil, err
			}
			rules = append(rules, rule)
		}
	}
	if rules == nil {
		return nil, wire.Errorf(wire.MissingParameter,
			"The request must contain a CIDR block, a prefix list or a security group for each permission")
	}
	return rules, nil
}

// protocol returns a protocol as AWS tells it: by name where it has one of its names.
func protocol(text string) (string, error) {
	names := map[int]string{1: "icmp", 6: "tcp", 17: "udp", 58: "icmpv6"}
	switch name := strings.ToLower(text); name {
	case "":
		return "", invalid("Invalid value 'null' for protocol. VPC security group rules must specify protocols explicitly.")
	case "tcp", "udp", "icmp", "icmpv6", "-1":
		return name, nil
	case "all":
		return "-1", nil
	}
	number, err := strconv.Atoi(text)
	if err != nil || number < 0 || number > 255 {
		return "", invalid("Invalid value '%s' for IP protocol. Unknown protocol.", text)
	}
	if name := names[number]; name != "" {
		return name, nil
	}
	return strconv.Itoa(number), nil
}

// hasPorts reports whether rules for a protocol have ports, or types and codes.
func hasPorts(protocol string) bool {
	switch protocol {
	case "tcp", "udp", "icmp", "icmpv6":
		return true
	}
	return false
}

// ports are those of a permission. For a protocol that has none, those that are given count for nothing.
func ports(protocol string, p wire.Object) (from, to int64, err error) {
	from, to = p.Int("FromPort"), p.Int("ToPort")
	both := p.Has("FromPort") && p.Has("ToPort")
	switch {
	case !hasPorts(protocol), !both && protocol == "icmpv6":
		return anyPort, anyPort, nil
	case !both && protocol == "icmp":
		return 0, 0, invalid("Invalid value 'Must specify both type and code with ICMP.' for portRange.")
	case !both:
		return 0, 0, invalid("Invalid value 'Must specify both from and to ports with TCP/UDP.' for portRange.")
	case strings.HasPrefix(protocol, "icmp"):
		return from, to, checkICMP(from, to)
	}
	return from, to, checkPorts(from, to)
}

func checkPorts(from, to int64) error {
	for _, port := range []int64{from, to} {
		if port < 0 || port > mostPort {
			return invalid("TCP/UDP port (%d) out of range", port)
		}
	}
	if from > to {
		return invalid("Invalid TCP/UDP port range (%d:%d)", from, to)
	}
	return nil
}

func checkICMP(kind, code int64) error {
	switch {
	case kind < anyPort || kind > mostICMP:
		return invalid("ICMP type (%d) out of range", kind)
	case code < anyPort || code > mostICMP:
		return invalid("ICMP code (%d) out of range", code)
	case kind == anyPort && code != anyPort:
		return invalid("ICMP code (%d) cannot be specified with all types", code)
	}
	return nil
}

func readIPv4(peer, rule wire.Object) error {
	return readCIDR(rule, "CidrIpv4", peer.Text("CidrIp"), true)
}

func readIPv6(peer, rule wire.Object) error {
	return readCIDR(rule, "CidrIpv6", peer.Text("CidrIpv6"), false)
}

// readCIDR sets a rule's block as AWS keeps it: without the bits after its mask.
func readCIDR(rule wire.Object, member, text string, ipv4 bool) error {
	prefix, err := netip.ParsePrefix(text)
	if err != nil || prefix.Addr().Is4() != ipv4 {
		return invalid("CIDR block %s is malformed", text)
	}
	rule[member] = prefix.Masked().String()
	return nil
}

// readPrefixList takes any list, as there are none here.
func readPrefixList(peer, rule wire.Object) error {
	id := peer.Text("PrefixListId")
	if !strings.HasPrefix(id, "pl-") {
		return wire.Errorf("InvalidPrefixListId.Malformed", `Invalid id: "%s" (expecting "pl-...")`, id)
	}
	rule["PrefixListId"] = id
	return nil
}

// readPair sets the group that a rule is about, by its id, or by its name until that is looked up.
func readPair(peer, rule wire.Object) error {
	if peer.Text("GroupId") == "" && peer.Text("GroupName") == "" {
		return wire.Errorf(wire.MissingParameter, "The request must contain the parameter groupName or groupId")
	}
	rule["ReferencedGroupInfo"] = wire.Object{"GroupId": peer.Text("GroupId"), "UserId": peer.Text("UserId")}
	rule[peerMember] = peer.Text("GroupName")
	return nil
}

// describeRule sets a rule's description; an empty one takes it away.
func describeRule(rule wire.Object, description string) error {
	if !plain(description) {
		return invalid("Invalid rule description. Valid descriptions are strings less than 256 characters from the "+
			"following set: %s", plainSet)
	}
	delete(rule, "Description")
	if description != "" {
		rule["Description"] = description
	}
	return nil
}

// plainSet is what descriptions of groups and rules, and names of groups, are of.
const plainSet = "a-zA-Z0-9. _-:/()#,@[]+=&;{}!$*"

// plain reports whether a text is short enough and of plainSet.
func plain(text string) bool {
	other := func(c rune) bool {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		return !letter && !strings.ContainsRune(". _-:/()#,@[]+=&;{}!$*", c)
	}
	return len(text) <= longestName && !strings.ContainsFunc(text, other)
}

// permissionOf is what ModifySecurityGroupRules wants a rule to be, as a permission.
func permissionOf(asked wire.Object) (wire.Object, error) {
	p := wire.Object{"IpProtocol": asked["IpProtocol"], "FromPort": asked["FromPort"], "ToPort": asked["ToPort"]}
	peers := 0
	for member, in := range map[string]struct{ list, member string }{
		"CidrIpv4": {"IpRanges", "CidrIp"}, "CidrIpv6": {"Ipv6Ranges", "CidrIpv6"},
		"PrefixListId": {"PrefixListIds", "PrefixListId"}, "ReferencedGroupId": {"UserIdGroupPairs", "GroupId"},
	} {
		if asked.Has(member) {
			p[in.list] = wire.List(wire.Object{in.member: asked[member], "Description": asked["Description"]})
			peers++
		}
	}
	if peers > 1 {
		return nil, wire.Errorf("InvalidParameterCombination",
			"Only one of cidrIpv4, cidrIpv6, prefixListId and referencedGroupId can be specified")
	}
	return p, nil
}

// ruleKey is the same for rules that allow the same.
func ruleKey(rule wire.Object) string {
	return strings.Join([]string{
		strconv.FormatBool(rule.Bool("IsEgress")), rule.Text("IpProtocol"), rule.Text("FromPort"), rule.Text("ToPort"),
		rule.Text("CidrIpv4"), rule.Text("CidrIpv6"), rule.Text("PrefixListId"),
		rule.Object("ReferencedGroupInfo").Text("GroupId"),
	}, "|")
}

// findRule returns where a rule is, by its id or by what it allows.
func findRule(rules []wire.Object, wanted wire.Object) (int, error) {
	id := wanted.Text("SecurityGroupRuleId")
	for i, rule := range rules {
		direction := !wanted.Has("IsEgress") || wanted.Bool("IsEgress") == rule.Bool("IsEgress")
		if id != "" && direction && rule.Text("SecurityGroupRuleId") == id || id == "" && ruleKey(rule) == ruleKey(wanted) {
			return i, nil
		}
	}
	if id != "" {
		return 0, ruleKind().missingError(id)
	}
	return 0, wire.Errorf("InvalidPermission.NotFound", "The specified rule does not exist in this security group.")
}

// repeated returns the first rule that allows what one before it does; nil: there is none.
func repeated(rules []wire.Object) wire.Object {
	seen := map[string]bool{}
	for _, rule := range rules {
		key := ruleKey(rule)
		if seen[key] {
			return rule
		}
		seen[key] = true
	}
	return nil
}

// fit is an error where a group cannot have these rules: one is there twice, or there are too many.
func fit(rules []wire.Object) error {
	if rule := repeated(rules); rule != nil {
		return wire.Errorf("InvalidPermission.Duplicate", `the specified rule "%s" already exists`, inWords(rule))
	}
	counts := map[string]int{} // a group or a prefix list counts for both versions of IP
	for _, rule := range rules {
		for other, version := range map[string]string{"CidrIpv4": "6", "CidrIpv6": "4"} {
			if !rule.Has(other) {
				counts[version+rule.Text("IsEgress")]++
			}
		}
	}
	for _, count := range counts {
		if count > mostRules {
			return wire.Errorf("RulesPerSecurityGroupLimitExceeded",
				"The maximum number of rules per security group has been reached.")
		}
	}
	return nil
}

// inWords tells of a rule as AWS does.
func inWords(rule wire.Object) string {
	peer := rule.Text("CidrIpv4") + rule.Text("CidrIpv6") + rule.Text("PrefixListId") +
		rule.Object("ReferencedGroupInfo").Text("GroupId")
	protocol := strings.ToUpper(rule.Text("IpProtocol"))
	port := func(name string) string {
		if rule.Int(name) == anyPort {
			return "ALL"
		}
		return rule.Text(name)
	}
	switch protocol {
	case "-1":
		return fmt.Sprintf("peer: %s, ALL, ALLOW", peer)
	case "TCP", "UDP":
		return fmt.Sprintf("peer: %s, %s, from port: %s, to port: %s, ALLOW",
			peer, protocol, port("FromPort"), port("ToPort"))
	case "ICMP", "ICMPV6":
		return fmt.Sprintf("peer: %s, %s, type: %s, code: %s, ALLOW", peer, protocol, port("FromPort"), port("ToPort"))
	}
	return fmt.Sprintf("peer: %s, protocol: %s, ALLOW", peer, protocol)
}
