package awsprovider

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-sdk/v2/helper/schema"

	"hive-test/pkg/gateway/wire"
)

func vpc() *schema.Resource {
	return tagged(fields{
		"cidr_block":           text(computed, forceNew),
		"instance_tenancy":     text(byDefault("default"), forceNew),
		"enable_dns_support":   flag(byDefault(true)),
		"enable_dns_hostnames": flag(computed),
		"arn":                  text(readOnly), "owner_id": text(readOnly), "dhcp_options_id": text(readOnly),
		"default_network_acl_id": text(readOnly), "default_route_table_id": text(readOnly), "main_route_table_id": text(readOnly),
		"default_security_group_id":            text(readOnly),
		"enable_network_address_usage_metrics": flag(computed),
	}, createVPC, readVPC, updateVPC, deleteVPC)
}

func (c *client) vpc(ctx context.Context, id string) (wire.Object, error) {
	return c.find(ctx, v2, "reading EC2 VPC ("+id+")", "DescribeVpcs", wire.Chosen("VpcIds", id), "Vpcs", "InvalidVpcID.NotFound")
}

func createVPC(ctx context.Context, c *client, d *schema.ResourceData) error {
	out, err := c.do(ctx, v2, "creating EC2 VPC", "CreateVpc", wire.Object{
		"CidrBlock": textOf(d, "cidr_block"), "InstanceTenancy": textOf(d, "instance_tenancy"), "AmazonProvidedIpv6CidrBlock": false,
		"TagSpecifications": c.tagsFor(d, "vpc"),
	})
	if err != nil {
		return err
	}
	d.SetId(at(out, "Vpc.VpcId"))
	err = until(ctx, "waiting for EC2 VPC ("+d.Id()+") create", 1, func() (bool, error) {
		one, err := c.vpc(ctx, d.Id())
		return one.Text("State") == "available", err
	})
	if err != nil {
		return err
	}
	for name, usual := range map[string]bool{"enable_dns_support": true, "enable_dns_hostnames": false} {
		if on := d.Get(name).(bool); on != usual {
			if err := c.vpcAttribute(ctx, d.Id(), name, on); err != nil {
				return err
			}
		}
	}
	return nil
}

// vpcAttributes are what the API calls the attributes that are asked for one by one.
func vpcAttributes() map[string][2]string {
	return map[string][2]string{
		"enable_dns_support":                   {"enableDnsSupport", "EnableDnsSupport"},
		"enable_dns_hostnames":                 {"enableDnsHostnames", "EnableDnsHostnames"},
		"enable_network_address_usage_metrics": {"enableNetworkAddressUsageMetrics", "EnableNetworkAddressUsageMetrics"},
	}
}

func (c *client) vpcAttribute(ctx context.Context, id, name string, on bool) error {
	names := vpcAttributes()[name]
	what := fmt.Sprintf("setting EC2 VPC (%s) %s", id, names[1])
	if _, err := c.do(ctx, v2, what, "ModifyVpcAttribute", wire.Object{"VpcId": id, names[1]: wire.Value(on)}); err != nil {
		return err
	}
	return until(ctx, what, 1, func() (bool, error) {
		found, err := c.readVPCAttribute(ctx, id, name)
		return found == on, err
	})
}

func (c *client) readVPCAttribute(ctx context.Context, id, name string) (bool, error) {
	names := vpcAttributes()[name]
	what := fmt.Sprintf("reading EC2 VPC (%s) Attribute (%s)", id, names[0])
	out, err := c.do(ctx, v2, what, "DescribeVpcAttribute", wire.Object{"VpcId": id, "Attribute": names[0]})
	if err == nil && at(out, names[1]+".Value") == "" {
		err = fmt.Errorf("%s: empty result", what)
	}
	return out.Object(names[1]).Bool("Value"), err
}

func readVPC(ctx context.Context, c *client, d *schema.ResourceData) error {
	id := d.Id()
	one, err := c.vpc(ctx, id)
	if err != nil {
		return err
	}
	if one == nil {
		d.SetId("")
		return nil
	}
	values := map[string]any{
		"cidr_block": one.Text("CidrBlock"), "instance_tenancy": one.Text("InstanceTenancy"), "owner_id": one.Text("OwnerId"),
		"dhcp_options_id": one.Text("DhcpOptionsId"),
		"arn":             fmt.Sprintf("arn:aws:ec2:%s:%s:vpc/%s", c.Key.Region, one.Text("OwnerId"), id),
	}
	for name := range vpcAttributes() {
		if values[name], err = c.readVPCAttribute(ctx, id, name); err != nil {
			return err
		}
	}
	if out, err := c.do(ctx, v2, "reading NACL", "DescribeNetworkAcls", wire.Filtered("default", "true", "vpc-id", id)); err == nil { // else it is left as it is
		values["default_network_acl_id"] = at(out, "NetworkAcls.NetworkAclId")
	}
	for _, companion := range []struct{ action, list, member, filter, value, attribute string }{
		{"DescribeRouteTables", "RouteTables", "RouteTableId", "association.main", "true", "main_route_table_id"},
		{"DescribeSecurityGroups", "SecurityGroups", "GroupId", "group-name", "default", "default_security_group_id"},
	} {
		in := wire.Filtered(companion.filter, companion.value, "vpc-id", id)
		one, err := c.find(ctx, v2, "reading EC2 VPC ("+id+") "+companion.attribute, companion.action, in, companion.list, "")
		if err != nil {
			return err
		}
		values[companion.attribute] = one.Text(companion.member)
	}
	values["default_route_table_id"] = values["main_route_table_id"]
	if err := assign(d, values); err != nil {
		return err
	}
	return c.setTags(d, one.Objects("Tags"))
}

func updateVPC(ctx context.Context, c *client, d *schema.ResourceData) error {
	for name := range vpcAttributes() {
		if d.HasChange(name) {
			if err := c.vpcAttribute(ctx, d.Id(), name, d.Get(name).(bool)); err != nil {
				return err
			}
		}
	}
	return nil
}

func deleteVPC(ctx context.Context, c *client, d *schema.ResourceData) error {
	what := "deleting EC2 VPC (" + d.Id() + ")"
	if err := c.remove(ctx, v2, what, "DeleteVpc", wire.Object{"VpcId": d.Id()}, "InvalidVpcID.NotFound", "DependencyViolation"); err != nil {
		return err
	}
	return until(ctx, what, 1, func() (bool, error) {
		one, err := c.vpc(ctx, d.Id())
		return one == nil, err
	})
}

func subnet() *schema.Resource {
	return tagged(fields{
		"vpc_id": text(required, forceNew), "cidr_block": text(forceNew), "availability_zone": text(computed, forceNew),
		"map_public_ip_on_launch": flag(byDefault(false)),
		"arn":                     text(readOnly), "owner_id": text(readOnly), "availability_zone_id": text(readOnly),
	}, createSubnet, readSubnet, updateSubnet, deleteSubnet)
}

func (c *client) subnet(ctx context.Context, id string) (wire.Object, error) {
	return c.find(ctx, v1, "reading EC2 Subnet ("+id+")", "DescribeSubnets", wire.Chosen("SubnetIds", id), "Subnets", "InvalidSubnetID.NotFound")
}

func createSubnet(ctx context.Context, c *client, d *schema.ResourceData) error {
	in := wire.Object{
		"VpcId": textOf(d, "vpc_id"), "CidrBlock": textOf(d, "cidr_block"), "TagSpecifications": c.tagsFor(d, "subnet"),
	}
	if zone := textOf(d, "availability_zone"); zone != "" {
		in["AvailabilityZone"] = zone
	}
	out, err := c.do(ctx, v1, "creating EC2 Subnet", "CreateSubnet", in)
	if err != nil {
		return err
	}
	d.SetId(at(out, "Subnet.SubnetId"))
	err = until(ctx, "waiting for EC2 Subnet ("+d.Id()+") create", 1, func() (bool, error) {
		one, err := c.subnet(ctx, d.Id())
		return one.Text("State") == "available", err
	})
	if err != nil || !d.Get("map_public_ip_on_launch").(bool) {
		return err
	}
	return updateSubnet(ctx, c, d)
}

func readSubnet(ctx context.Context, c *client, d *schema.ResourceData) error {
	one, err := c.subnet(ctx, d.Id())
	if err != nil {
		return err
	}
	if one == nil {
		d.SetId("")
		return nil
	}
	err = assign(d, map[string]any{
		"vpc_id": one.Text("VpcId"), "cidr_block": one.Text("CidrBlock"), "availability_zone": one.Text("AvailabilityZone"),
		"map_public_ip_on_launch": one.Bool("MapPublicIpOnLaunch"), "arn": one.Text("SubnetArn"), "owner_id": one.Text("OwnerId"),
		"availability_zone_id": one.Text("AvailabilityZoneId"),
	})
	if err != nil {
		return err
	}
	return c.setTags(d, one.Objects("Tags"))
}

func updateSubnet(ctx context.Context, c *client, d *schema.ResourceData) error {
	if !d.HasChange("map_public_ip_on_launch") {
		return nil
	}
	on := d.Get("map_public_ip_on_launch").(bool)
	what := "setting EC2 Subnet (" + d.Id() + ") MapPublicIpOnLaunch"
	in := wire.Object{"SubnetId": d.Id(), "MapPublicIpOnLaunch": wire.Value(on)}
	if _, err := c.do(ctx, v1, what, "ModifySubnetAttribute", in); err != nil {
		return err
	}
	return until(ctx, what, 1, func() (bool, error) {
		one, err := c.subnet(ctx, d.Id())
		return one.Bool("MapPublicIpOnLaunch") == on, err
	})
}

func deleteSubnet(ctx context.Context, c *client, d *schema.ResourceData) error {
	what := "deleting EC2 Subnet (" + d.Id() + ")"
	if _, err := c.do(ctx, v1, "reading EC2 Network Interfaces", "DescribeNetworkInterfaces", wire.Filtered("subnet-id", d.Id())); err != nil {
		return err
	}
	return c.remove(ctx, v1, what, "DeleteSubnet", wire.Object{"SubnetId": d.Id()}, "InvalidSubnetID.NotFound", "DependencyViolation")
}

func internetGateway() *schema.Resource {
	return tagged(fields{
		"vpc_id": text(computed, forceNew), "arn": text(readOnly), "owner_id": text(readOnly),
	}, createInternetGateway, readInternetGateway, nil, deleteInternetGateway)
}

func (c *client) internetGateway(ctx context.Context, id string) (wire.Object, error) {
	return c.find(ctx, v1, "reading EC2 Internet Gateway ("+id+")", "DescribeInternetGateways",
		wire.Chosen("InternetGatewayIds", id), "InternetGateways", "InvalidInternetGatewayID.NotFound")
}

func createInternetGateway(ctx context.Context, c *client, d *schema.ResourceData) error {
	out, err := c.do(ctx, v1, "creating EC2 Internet Gateway", "CreateInternetGateway", wire.Object{
		"TagSpecifications": c.tagsFor(d, "internet-gateway"),
	})
	if err != nil {
		return err
	}
	d.SetId(at(out, "InternetGateway.InternetGatewayId"))
	vpc := textOf(d, "vpc_id")
	if vpc == "" {
		return nil
	}
	what := fmt.Sprintf("attaching EC2 Internet Gateway (%s) to VPC (%s)", d.Id(), vpc)
	if _, err := c.do(ctx, v1, what, "AttachInternetGateway", wire.Object{"InternetGatewayId": d.Id(), "VpcId": vpc}); err != nil {
		return err
	}
	return until(ctx, what, 1, func() (bool, error) {
		one, err := c.internetGateway(ctx, d.Id())
		return at(one, "Attachments.State") == "available", err
	})
}

func readInternetGateway(ctx context.Context, c *client, d *schema.ResourceData) error {
	one, err := c.internetGateway(ctx, d.Id())
	if err != nil {
		return err
	}
	if one == nil {
		d.SetId("")
		return nil
	}
	owner := one.Text("OwnerId")
	err = assign(d, map[string]any{
		"vpc_id": at(one, "Attachments.VpcId"), "owner_id": owner,
		"arn": fmt.Sprintf("arn:aws:ec2:%s:%s:internet-gateway/%s", c.Key.Region, owner, d.Id()),
	})
	if err != nil {
		return err
	}
	return c.setTags(d, one.Objects("Tags"))
}

func deleteInternetGateway(ctx context.Context, c *client, d *schema.ResourceData) error {
	vpc := textOf(d, "vpc_id")
	if vpc != "" {
		what := fmt.Sprintf("detaching EC2 Internet Gateway (%s) from VPC (%s)", d.Id(), vpc)
		in := wire.Object{"InternetGatewayId": d.Id(), "VpcId": vpc}
		err := c.remove(ctx, v1, what, "DetachInternetGateway", in, "Gateway.NotAttached", "DependencyViolation")
		if err != nil {
			return err
		}
		err = until(ctx, what, 1, func() (bool, error) {
			one, err := c.internetGateway(ctx, d.Id())
			return len(one.Objects("Attachments")) == 0, err
		})
		if err != nil {
			return err
		}
	}
	what := "deleting EC2 Internet Gateway (" + d.Id() + ")"
	in := wire.Object{"InternetGatewayId": d.Id()}
	return c.remove(ctx, v1, what, "DeleteInternetGateway", in, "InvalidInternetGatewayID.NotFound")
}
