package awsprovider

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-sdk/v2/helper/id"
	"github.com/hashicorp/terraform-plugin-sdk/v2/helper/schema"

	"hive-test/pkg/gateway/wire"
)

func volume() *schema.Resource {
	return tagged(fields{
		"availability_zone": text(required, forceNew), "size": number(computed), "type": text(computed), "iops": number(computed),
		"throughput": number(computed), "encrypted": flag(computed, forceNew), "snapshot_id": text(computed, forceNew), "arn": text(readOnly),
	}, createVolume, readVolume, updateVolume, deleteVolume)
}

func (c *client) volume(ctx context.Context, in wire.Object) (wire.Object, error) {
	return c.find(ctx, v1, "reading EBS Volume", "DescribeVolumes", in, "Volumes", "InvalidVolume.NotFound")
}

func createVolume(ctx context.Context, c *client, d *schema.ResourceData) error {
	in := wire.Object{
		"AvailabilityZone": textOf(d, "availability_zone"), "ClientToken": id.UniqueId(), "TagSpecifications": c.tagsFor(d, "volume"),
	}
	if size := d.Get("size").(int); size > 0 {
		in["Size"] = size
	}
	if kind := textOf(d, "type"); kind != "" {
		in["VolumeType"] = kind
	}
	out, err := c.do(ctx, v1, "creating EBS Volume", "CreateVolume", in)
	if err != nil {
		return err
	}
	d.SetId(at(out, "VolumeId"))
	return until(ctx, "waiting for EBS Volume ("+d.Id()+") create", 1, func() (bool, error) {
		one, err := c.volume(ctx, wire.Chosen("VolumeIds", d.Id()))
		return one.Text("State") == "available", err
	})
}

func readVolume(ctx context.Context, c *client, d *schema.ResourceData) error {
	one, err := c.volume(ctx, wire.Chosen("VolumeIds", d.Id()))
	if err != nil {
		return err
	}
	if one == nil {
		d.SetId("")
		return nil
	}
	err = assign(d, map[string]any{
		"availability_zone": one.Text("AvailabilityZone"), "size": int(one.Int("Size")), "type": one.Text("VolumeType"),
		"iops": int(one.Int("Iops")), "throughput": int(one.Int("Throughput")), "encrypted": one.Bool("Encrypted"),
		"snapshot_id": one.Text("SnapshotId"), "arn": fmt.Sprintf("arn:aws:ec2:%s::volume/%s", c.Key.Region, d.Id()),
	})
	if err != nil {
		return err
	}
	return c.setTags(d, one.Objects("Tags"))
}

func updateVolume(ctx context.Context, c *client, d *schema.ResourceData) error {
	if !d.HasChanges("size", "type") {
		return nil
	}
	in := wire.Object{"VolumeId": d.Id()}
	if d.HasChange("size") {
		in["Size"] = d.Get("size").(int)
	}
	if d.HasChange("type") {
		in["VolumeType"] = textOf(d, "type")
	}
	if throughput := d.Get("throughput").(int); throughput > 0 {
		in["Throughput"] = throughput
	}
	if _, err := c.do(ctx, v1, "modifying EBS Volume ("+d.Id()+")", "ModifyVolume", in); err != nil {
		return err
	}
	return until(ctx, "waiting for EBS Volume ("+d.Id()+") update", 1, func() (bool, error) {
		one, err := c.volume(ctx, wire.Chosen("VolumeIds", d.Id()))
		state := one.Text("State")
		return state == "available" || state == "in-use", err
	})
}

func deleteVolume(ctx context.Context, c *client, d *schema.ResourceData) error {
	what := "deleting EBS Volume (" + d.Id() + ")"
	if err := c.remove(ctx, v1, what, "DeleteVolume", wire.Object{"VolumeId": d.Id()}, "InvalidVolume.NotFound", "VolumeInUse"); err != nil {
		return err
	}
	return until(ctx, what, 1, func() (bool, error) {
		one, err := c.volume(ctx, wire.Chosen("VolumeIds", d.Id()))
		return one == nil, err
	})
}

func attachment() *schema.Resource {
	return resource(fields{
		"device_name": text(required, forceNew), "instance_id": text(required, forceNew), "volume_id": text(required, forceNew),
	}, attachVolume, readAttachment, nil, detachVolume)
}

// attached finds the volume as it is attached; nil: it is not.
func (c *client) attached(ctx context.Context, d *schema.ResourceData) (wire.Object, error) {
	in := wire.Filtered("attachment.device", textOf(d, "device_name"), "attachment.instance-id", textOf(d, "instance_id"))
	in["VolumeIds"] = wire.Strings(textOf(d, "volume_id"))
	one, err := c.volume(ctx, in)
	for _, a := range one.Objects("Attachments") {
		if a.Text("InstanceId") == textOf(d, "instance_id") && a.Text("State") != "detached" {
			return a, err
		}
	}
	return nil, err
}

func attachVolume(ctx context.Context, c *client, d *schema.ResourceData) error {
	volume, instance := textOf(d, "volume_id"), textOf(d, "instance_id")
	found, err := c.attached(ctx, d)
	if err == nil && found == nil {
		if err = c.awaitInstance(ctx, instance, "running"); err == nil {
			_, err = c.do(ctx, v1, fmt.Sprintf("attaching EBS Volume (%s) to EC2 Instance (%s)", volume, instance), "AttachVolume", wire.Object{
				"Device": textOf(d, "device_name"), "InstanceId": instance, "VolumeId": volume,
			})
		}
	}
	if err != nil {
		return err
	}
	d.SetId("vai-" + hashed(textOf(d, "device_name") + instance + volume)[:10])
	return until(ctx, "waiting for EBS Volume ("+volume+") attach", 1, func() (bool, error) {
		one, err := c.attached(ctx, d)
		return one.Text("State") == "attached", err
	})
}

func readAttachment(ctx context.Context, c *client, d *schema.ResourceData) error {
	one, err := c.attached(ctx, d)
	if err == nil && one == nil {
		d.SetId("")
	}
	return err
}

func detachVolume(ctx context.Context, c *client, d *schema.ResourceData) error {
	volume := textOf(d, "volume_id")
	what := fmt.Sprintf("detaching EBS Volume (%s) from EC2 Instance (%s)", volume, textOf(d, "instance_id"))
	if _, err := c.do(ctx, v1, what, "DetachVolume", wire.Object{
		"Device": textOf(d, "device_name"), "Force": false, "InstanceId": textOf(d, "instance_id"), "VolumeId": volume,
	}); err != nil {
		return err
	}
	return until(ctx, what, 1, func() (bool, error) {
		one, err := c.attached(ctx, d)
		return one == nil, err
	})
}
