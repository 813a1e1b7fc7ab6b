package awsprovider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/terraform-plugin-sdk/v2/helper/schema"

	"hive-test/pkg/gateway/wire"
)

// data is a data source.
func data(attributes fields, read work) *schema.Resource {
	return &schema.Resource{Schema: attributes, ReadContext: read.run}
}

func zones() *schema.Resource {
	return data(fields{"state": text(), "names": list(readOnly), "zone_ids": list(readOnly)},
		func(ctx context.Context, c *client, d *schema.ResourceData) error {
			in := wire.Object{}
			if state := textOf(d, "state"); state != "" {
				in = wire.Filtered("state", state)
			}
			out, err := c.do(ctx, v1, "reading EC2 Availability Zones", "DescribeAvailabilityZones", in)
			if err != nil {
				return err
			}
			found := out.Objects("AvailabilityZones")
			slices.SortFunc(found, func(a, b wire.Object) int { return cmp.Compare(a.Text("ZoneName"), b.Text("ZoneName")) })
			var names, ids []string
			for _, zone := range found {
				names, ids = append(names, zone.Text("ZoneName")), append(ids, zone.Text("ZoneId"))
			}
			if len(names) == 0 {
				return errors.New("no matching EC2 Availability Zones found")
			}
			d.SetId(c.Key.Region)
			return assign(d, map[string]any{"names": names, "zone_ids": ids})
		})
}

func image() *schema.Resource {
	return data(fields{
		"most_recent": flag(byDefault(false)), "owners": list(),
		"filter":   set(fields{"name": text(required), "values": {Type: schema.TypeSet, Required: true, Elem: &schema.Schema{Type: schema.TypeString}}}),
		"image_id": text(readOnly), "name": text(readOnly), "architecture": text(readOnly), "owner_id": text(readOnly),
		"root_device_name": text(readOnly), "creation_date": text(readOnly),
	}, readImage)
}

func readImage(ctx context.Context, c *client, d *schema.ResourceData) error {
	in := wire.Object{"IncludeDeprecated": false, "Owners": d.Get("owners").([]any)}
	var filters []wire.Object
	for _, one := range d.Get("filter").(*schema.Set).List() {
		filter := one.(map[string]any)
		filters = append(filters, wire.Object{"Name": filter["name"].(string), "Values": filter["values"].(*schema.Set).List()})
	}
	if len(filters) > 0 {
		in["Filters"] = wire.List(filters...)
	}
	out, err := c.do(ctx, v1, "reading EC2 AMIs", "DescribeImages", in)
	if err != nil {
		return err
	}
	found := out.Objects("Images")
	if len(found) == 0 {
		return errors.New("your query returned no results: change the search criteria")
	}
	if len(found) > 1 && !d.Get("most_recent").(bool) {
		return errors.New("your query returned more than one result: use more specific criteria, or set most_recent")
	}
	newest := slices.MaxFunc(found, func(a, b wire.Object) int { return cmp.Compare(a.Text("CreationDate"), b.Text("CreationDate")) })
	d.SetId(newest.Text("ImageId"))
	return assign(d, map[string]any{
		"image_id": newest.Text("ImageId"), "name": newest.Text("Name"), "architecture": newest.Text("Architecture"),
		"owner_id": newest.Text("OwnerId"), "root_device_name": newest.Text("RootDeviceName"), "creation_date": newest.Text("CreationDate"),
	})
}

func instanceType() *schema.Resource {
	return data(fields{"instance_type": text(required), "default_vcpus": number(readOnly), "memory_size": number(readOnly)},
		func(ctx context.Context, c *client, d *schema.ResourceData) error {
			kind := textOf(d, "instance_type")
			one, err := c.find(ctx, v1, "reading EC2 Instance Type ("+kind+")", "DescribeInstanceTypes", wire.Chosen("InstanceTypes", kind),
				"InstanceTypes", "InvalidInstanceType")
			if err == nil && one == nil {
				err = fmt.Errorf("reading EC2 Instance Type (%s): empty result", kind)
			}
			if err != nil {
				return err
			}
			d.SetId(one.Text("InstanceType"))
			return assign(d, map[string]any{
				"default_vcpus": int(one.Object("VCpuInfo").Int("DefaultVCpus")), "memory_size": int(one.Object("MemoryInfo").Int("SizeInMiB")),
			})
		})
}
