package awsprovider

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-sdk/v2/helper/schema"

	"hive-test/pkg/gateway/wire"
)

// rules are those of one direction.
func rules() field {
	return set(fields{
		"from_port": number(required), "to_port": number(required), "protocol": text(required), "description": text(byDefault("")),
		"cidr_blocks": list(), "ipv6_cidr_blocks": list(), "prefix_list_ids": list(), "self": flag(byDefault(false)),
		"security_groups": {Type: schema.TypeSet, Optional: true, Elem: &schema.Schema{Type: schema.TypeString}},
	}, computed, asAttribute)
}

func securityGroup() *schema.Resource {
	return tagged(fields{
		"name": text(computed, forceNew), "description": text(byDefault("Managed by Terraform"), forceNew), "vpc_id": text(computed, forceNew),
		"ingress": rules(), "egress": rules(), "revoke_rules_on_delete": flag(byDefault(false)),
		"arn": text(readOnly), "owner_id": text(readOnly),
	}, createGroup, readGroup, updateGroup, deleteGroup)
}

func (c *client) group(ctx context.Context, id string) (wire.Object, error) {
	return c.find(ctx, v1, "reading Security Group ("+id+")", "DescribeSecurityGroups", wire.Chosen("GroupIds", id), "SecurityGroups",
		"InvalidGroup.NotFound")
}

func createGroup(ctx context.Context, c *client, d *schema.ResourceData) error {
	out, err := c.do(ctx, v1, "creating Security Group ("+textOf(d, "name")+")", "CreateSecurityGroup", wire.Object{
		"GroupName": textOf(d, "name"), "Description": textOf(d, "description"), "VpcId": textOf(d, "vpc_id"),
		"TagSpecifications": c.tagsFor(d, "security-group"),
	})
	if err != nil {
		return err
	}
	d.SetId(at(out, "GroupId"))
	err = until(ctx, "waiting for Security Group ("+d.Id()+") create", 3, func() (bool, error) {
		one, err := c.group(ctx, d.Id())
		return one != nil, err
	})
	if err != nil {
		return err
	}
	if err := c.revokeDefault(ctx, d.Id()); err != nil {
		return err
	}
	return updateGroup(ctx, c, d)
}

// revokeDefault takes away the rules that a group has from the beginning, ports 0 named though the protocol has none.
func (c *client) revokeDefault(ctx context.Context, id string) error {
	for member, anywhere := range map[string]wire.Object{
		"IpRanges": {"CidrIp": "0.0.0.0/0"}, "Ipv6Ranges": {"CidrIpv6": "::/0"},
	} {
		_, err := c.do(ctx, v1, "revoking default egress rule for Security Group ("+id+")", "RevokeSecurityGroupEgress", wire.Object{
			"GroupId": id, "IpPermissions": wire.List(wire.Object{
				"IpProtocol": "-1", "FromPort": 0, "ToPort": 0, member: wire.List(anywhere),
			}),
		})
		if err != nil && (member == "IpRanges" || !is(err, "InvalidPermission.NotFound", "InvalidParameterValue")) {
			return err
		}
	}
	return nil
}

// permission is a rule as the API takes it.
func permission(rule map[string]any) (wire.Object, error) {
	for _, name := range []string{"prefix_list_ids", "ipv6_cidr_blocks"} {
		if list, _ := rule[name].([]any); len(list) > 0 {
			return nil, fmt.Errorf("a rule with %s is beyond this double of the provider", name)
		}
	}
	if groups, _ := rule["security_groups"].(*schema.Set); groups.Len() > 0 || rule["self"].(bool) {
		return nil, fmt.Errorf("a rule of security groups is beyond this double of the provider")
	}
	var ranges []wire.Object
	for _, cidr := range rule["cidr_blocks"].([]any) {
		one := wire.Object{"CidrIp": cidr.(string)}
		if text := rule["description"].(string); text != "" {
			one["Description"] = text
		}
		ranges = append(ranges, one)
	}
	o := wire.Object{"IpProtocol": rule["protocol"].(string), "IpRanges": wire.List(ranges...)}
	if o.Text("IpProtocol") != "-1" {
		o["FromPort"], o["ToPort"] = rule["from_port"].(int), rule["to_port"].(int)
	}
	return o, nil
}

func permissions(rules *schema.Set) ([]any, error) {
	var all []wire.Object
	for _, rule := range rules.List() {
		one, err := permission(rule.(map[string]any))
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return wire.List(all...), nil
}

// changeRules revokes what is not wanted any more and authorizes what is new, all rules of a direction in one call.
func (c *client) changeRules(ctx context.Context, d *schema.ResourceData) error {
	for _, direction := range []struct{ attribute, noun string }{{"ingress", "Ingress"}, {"egress", "Egress"}} {
		before, after := d.GetChange(direction.attribute)
		old, wanted := before.(*schema.Set), after.(*schema.Set)
		for _, part := range []struct {
			verb  string
			rules *schema.Set
		}{{"Revoke", old.Difference(wanted)}, {"Authorize", wanted.Difference(old)}} {
			if part.rules.Len() == 0 {
				continue
			}
			list, err := permissions(part.rules)
			if err != nil {
				return err
			}
			what := fmt.Sprintf("updating Security Group (%s) %s rules", d.Id(), direction.attribute)
			in := wire.Object{"GroupId": d.Id(), "IpPermissions": list}
			if _, err := c.do(ctx, v1, what, part.verb+"SecurityGroup"+direction.noun, in); err != nil {
				return err
			}
		}
	}
	return nil
}

func readGroup(ctx context.Context, c *client, d *schema.ResourceData) error {
	one, err := c.group(ctx, d.Id())
	if err != nil {
		return err
	}
	if one == nil {
		d.SetId("")
		return nil
	}
	owner := one.Text("OwnerId")
	err = assign(d, map[string]any{
		"name": one.Text("GroupName"), "description": one.Text("Description"), "vpc_id": one.Text("VpcId"), "owner_id": owner,
		"arn":     fmt.Sprintf("arn:aws:ec2:%s:%s:security-group/%s", c.Key.Region, owner, d.Id()),
		"ingress": told(one.Objects("IpPermissions")), "egress": told(one.Objects("IpPermissionsEgress")),
	})
	if err != nil {
		return err
	}
	return c.setTags(d, one.Objects("Tags"))
}

// told are permissions as rules: one for each description.
func told(permissions []wire.Object) []any {
	rules := []any{}
	for _, p := range permissions {
		byText := map[string][]any{}
		for _, one := range p.Objects("IpRanges") {
			text := one.Text("Description")
			byText[text] = append(byText[text], one.Text("CidrIp"))
		}
		for text, cidrs := range byText {
			rules = append(rules, map[string]any{
				"protocol": p.Text("IpProtocol"), "from_port": int(p.Int("FromPort")), "to_port": int(p.Int("ToPort")),
				"description": text, "cidr_blocks": cidrs, "self": false,
			})
		}
	}
	return rules
}

func updateGroup(ctx context.Context, c *client, d *schema.ResourceData) error {
	if _, err := c.group(ctx, d.Id()); err != nil {
		return err
	}
	return c.changeRules(ctx, d)
}

func deleteGroup(ctx context.Context, c *client, d *schema.ResourceData) error {
	what := "deleting Security Group (" + d.Id() + ")"
	if _, err := c.do(ctx, v1, "reading EC2 Network Interfaces", "DescribeNetworkInterfaces", wire.Filtered("group-id", d.Id())); err != nil {
		return err
	}
	if err := c.remove(ctx, v1, what, "DeleteSecurityGroup", wire.Object{"GroupId": d.Id()}, "InvalidGroup.NotFound", "DependencyViolation", "InvalidGroup.InUse"); err != nil {
		return err
	}
	return until(ctx, what, 1, func() (bool, error) {
		one, err := c.group(ctx, d.Id())
		return one == nil, err
	})
}
