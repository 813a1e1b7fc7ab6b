package awsprovider

import (
	"context"
	"crypto/sha1"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-sdk/v2/helper/id"
	"github.com/hashicorp/terraform-plugin-sdk/v2/helper/schema"

	"hive-test/pkg/gateway/wire"
)

func base64Of(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// hashed is what the state has of user data.
func hashed(v any) string {
	if v.(string) == "" {
		return ""
	}
	sum := sha1.Sum([]byte(v.(string)))
	return hex.EncodeToString(sum[:])
}

func instance() *schema.Resource {
	data := text()
	data.StateFunc = hashed
	return tagged(fields{
		"ami": text(required, forceNew), "instance_type": text(required), "subnet_id": text(computed, forceNew), "user_data": data,
		"availability_zone": text(computed, forceNew), "arn": text(readOnly), "instance_state": text(readOnly),
		"private_ip": text(readOnly), "primary_network_interface_id": text(readOnly), "tenancy": text(readOnly),
		"disable_api_stop": flag(computed), "disable_api_termination": flag(computed), "monitoring": flag(computed),
		"instance_initiated_shutdown_behavior": text(computed), "cpu_credits": text(readOnly),
	}, createInstance, readInstance, updateInstance, deleteInstance)
}

// instance tells of one; nil: there is none, or it is terminated.
func (c *client) instance(ctx context.Context, id string) (wire.Object, error) {
	one, err := c.find(ctx, v1, "reading EC2 Instance ("+id+")", "DescribeInstances", wire.Chosen("InstanceIds", id), "Reservations",
		"InvalidInstanceID.NotFound")
	if err != nil || one == nil {
		return nil, err
	}
	list := one.Objects("Instances")
	if len(list) != 1 {
		return nil, fmt.Errorf("reading EC2 Instance (%s): empty result", id)
	}
	return list[0], nil
}

func (c *client) awaitInstance(ctx context.Context, id, state string) error {
	return until(ctx, "waiting for EC2 Instance ("+id+") "+state, 1, func() (bool, error) {
		one, err := c.instance(ctx, id)
		return at(one, "State.Name") == state, err
	})
}

func createInstance(ctx context.Context, c *client, d *schema.ResourceData) error {
	kind := textOf(d, "instance_type")
	in := wire.Object{
		"ImageId": textOf(d, "ami"), "InstanceType": kind, "MinCount": 1, "MaxCount": 1, "ClientToken": id.UniqueId(),
		"Monitoring": wire.Object{"Enabled": false}, "DisableApiTermination": false, "EbsOptimized": false,
		"Placement":          wire.Object{"AvailabilityZone": textOf(d, "availability_zone")},
		"HibernationOptions": wire.Object{"Configured": false},
		"TagSpecifications":  c.tagsFor(d, "instance"),
	}
	if burstable(kind) {
		in["CreditSpecification"] = wire.Object{"CpuCredits": "unlimited"}
	}
	if subnet := textOf(d, "subnet_id"); subnet != "" {
		in["SubnetId"] = subnet
	}
	if data, given := d.GetOk("user_data"); given {
		in["UserData"] = base64Of(data.(string))
	}
	out, err := c.do(ctx, v1, "creating EC2 Instance", "RunInstances", in)
	if err != nil {
		return err
	}
	d.SetId(at(out, "Instances.InstanceId"))
	return c.awaitInstance(ctx, d.Id(), "running")
}

// burstable reports whether instances of a type have credits.
func burstable(kind string) bool { return strings.HasPrefix(kind, "t") }

func readInstance(ctx context.Context, c *client, d *schema.ResourceData) error {
	one, err := c.instance(ctx, d.Id())
	if err != nil {
		return err
	}
	if one == nil || at(one, "State.Name") == "terminated" {
		d.SetId("")
		return nil
	}
	kind := one.Text("InstanceType")
	types, err := c.find(ctx, v1, "reading EC2 Instance Type ("+kind+")", "DescribeInstanceTypes", wire.Chosen("InstanceTypes", kind), "InstanceTypes", "")
	if err == nil && types == nil {
		err = fmt.Errorf("reading EC2 Instance Type (%s): empty result", kind)
	}
	if err != nil {
		return err
	}
	if _, err := c.do(ctx, v1, "reading EC2 Instance ("+d.Id()+") launch template id", "DescribeTags",
		wire.Filtered("key", "aws:ec2launchtemplate:id", "resource-id", d.Id())); err != nil {
		return err
	}
	if vpc := one.Text("VpcId"); vpc != "" {
		if _, err := c.do(ctx, v1, "reading EC2 VPC ("+vpc+")", "DescribeVpcs", wire.Chosen("VpcIds", vpc)); err != nil {
			return err
		}
	}
	values := map[string]any{
		"ami": one.Text("ImageId"), "instance_type": kind, "subnet_id": one.Text("SubnetId"), "private_ip": one.Text("PrivateIpAddress"),
		"availability_zone": at(one, "Placement.AvailabilityZone"), "tenancy": at(one, "Placement.Tenancy"),
		"instance_state": at(one, "State.Name"), "monitoring": at(one, "Monitoring.State") == "enabled",
		"arn": fmt.Sprintf("arn:aws:ec2:%s::instance/%s", c.Key.Region, d.Id()),
	}
	for _, eni := range one.Objects("NetworkInterfaces") {
		if eni.Object("Attachment").Int("DeviceIndex") == 0 {
			values["primary_network_interface_id"] = eni.Text("NetworkInterfaceId")
		}
	}
	if err := c.instanceAttributes(ctx, d.Id(), values); err != nil {
		return err
	}
	if _, err := c.do(ctx, v1, "reading EC2 Volumes", "DescribeVolumes", wire.Filtered("attachment.instance-id", d.Id())); err != nil {
		return err
	}
	if burstable(kind) {
		credits, err := c.find(ctx, v1, "reading EC2 Instance ("+d.Id()+") credit specification", "DescribeInstanceCreditSpecifications",
			wire.Chosen("InstanceIds", d.Id()), "InstanceCreditSpecifications", "UnsupportedOperation")
		if err == nil && credits == nil {
			err = fmt.Errorf("reading EC2 Instance (%s) credit specification: empty result", d.Id())
		}
		if err != nil {
			return err
		}
		values["cpu_credits"] = credits.Text("CpuCredits")
	}
	if err := assign(d, values); err != nil {
		return err
	}
	return c.setTags(d, one.Objects("Tags"))
}

// instanceAttributes reads what is asked for one by one. The real provider crashes on an attribute without a value.
func (c *client) instanceAttributes(ctx context.Context, instance string, values map[string]any) error {
	for _, a := range []struct{ name, member, attribute string }{
		{"instanceInitiatedShutdownBehavior", "InstanceInitiatedShutdownBehavior", "instance_initiated_shutdown_behavior"},
		{"disableApiStop", "DisableApiStop", "disable_api_stop"},
		{"disableApiTermination", "DisableApiTermination", "disable_api_termination"},
		{"userData", "UserData", "user_data"},
	} {
		what := fmt.Sprintf("reading EC2 Instance (%s) attribute (%s)", instance, a.name)
		out, err := c.do(ctx, v1, what, "DescribeInstanceAttribute", wire.Object{"InstanceId": instance, "Attribute": a.name})
		if err != nil {
			return err
		}
		told := out.Object(a.member)
		switch {
		case a.name == "userData":
			text, err := base64.StdEncoding.DecodeString(told.Text("Value"))
			if err != nil {
				return fmt.Errorf("%s: %w", what, err)
			}
			values[a.attribute] = hashed(string(text))
		case !told.Has("Value"):
			panic(what + ": the answer has no value")
		case a.name == "instanceInitiatedShutdownBehavior":
			values[a.attribute] = told.Text("Value")
		default:
			values[a.attribute] = told.Bool("Value")
		}
	}
	return nil
}

func updateInstance(ctx context.Context, c *client, d *schema.ResourceData) error {
	if d.HasChange("instance_type") {
		in := wire.Chosen("InstanceIds", d.Id())
		if _, err := c.do(ctx, v1, "stopping EC2 Instance ("+d.Id()+")", "StopInstances", in); err != nil {
			return err
		}
		if err := c.awaitInstance(ctx, d.Id(), "stopped"); err != nil {
			return err
		}
		if _, err := c.do(ctx, v1, "updating EC2 Instance ("+d.Id()+") type", "ModifyInstanceAttribute", wire.Object{
			"InstanceId": d.Id(), "InstanceType": wire.Value(textOf(d, "instance_type")),
		}); err != nil {
			return err
		}
		if _, err := c.do(ctx, v1, "starting EC2 Instance ("+d.Id()+")", "StartInstances", in); err != nil {
			return err
		}
		return c.awaitInstance(ctx, d.Id(), "running")
	}
	if d.HasChanges("user_data", "disable_api_stop", "disable_api_termination", "monitoring", "instance_initiated_shutdown_behavior") {
		return fmt.Errorf("of an instance, only its type and tags can be changed by this double of the provider")
	}
	return nil
}

func deleteInstance(ctx context.Context, c *client, d *schema.ResourceData) error {
	if _, err := c.do(ctx, v1, "modifying EC2 Instance ("+d.Id()+") attribute", "ModifyInstanceAttribute", wire.Object{
		"InstanceId": d.Id(), "DisableApiTermination": wire.Value(false),
	}); err != nil {
		return err
	}
	_, err := c.do(ctx, v1, "terminating EC2 Instance ("+d.Id()+")", "TerminateInstances", wire.Chosen("InstanceIds", d.Id()))
	if is(err, "InvalidInstanceID.NotFound") {
		return nil
	}
	if err != nil {
		return err
	}
	return c.awaitInstance(ctx, d.Id(), "terminated")
}
