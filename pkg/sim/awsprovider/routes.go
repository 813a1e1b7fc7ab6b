package awsprovider

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-sdk/v2/helper/id"
	"github.com/hashicorp/terraform-plugin-sdk/v2/helper/schema"

	"hive-test/pkg/gateway/wire"
)

func routeTable() *schema.Resource {
	return tagged(fields{
		"vpc_id": text(required, forceNew), "arn": text(readOnly), "owner_id": text(readOnly),
		"route": set(fields{
			"cidr_block": text(), "ipv6_cidr_block": text(), "destination_prefix_list_id": text(), "gateway_id": text(),
			"carrier_gateway_id": text(), "core_network_arn": text(), "egress_only_gateway_id": text(), "local_gateway_id": text(),
			"nat_gateway_id": text(), "network_interface_id": text(), "transit_gateway_id": text(), "vpc_endpoint_id": text(),
			"vpc_peering_connection_id": text(),
		}, computed, asAttribute),
	}, createRouteTable, readRouteTable, updateRouteTable, deleteRouteTable)
}

func (c *client) routeTable(ctx context.Context, id string) (wire.Object, error) {
	return c.find(ctx, v1, "reading EC2 Route Table ("+id+")", "DescribeRouteTables", wire.Chosen("RouteTableIds", id), "RouteTables",
		"InvalidRouteTableID.NotFound")
}

func createRouteTable(ctx context.Context, c *client, d *schema.ResourceData) error {
	out, err := c.do(ctx, v1, "creating EC2 Route Table", "CreateRouteTable", wire.Object{
		"VpcId": textOf(d, "vpc_id"), "ClientToken": id.UniqueId(), "TagSpecifications": c.tagsFor(d, "route-table"),
	})
	if err != nil {
		return err
	}
	d.SetId(at(out, "RouteTable.RouteTableId"))
	err = until(ctx, "waiting for EC2 Route Table ("+d.Id()+") create", 2, func() (bool, error) {
		one, err := c.routeTable(ctx, d.Id())
		return one != nil, err
	})
	if err != nil {
		return err
	}
	for _, route := range d.Get("route").(*schema.Set).List() {
		if err := c.addRoute(ctx, d.Id(), route.(map[string]any)); err != nil {
			return err
		}
	}
	return nil
}

// routeKey checks that a route is one that the double can make, and returns where it leads.
func routeKey(route map[string]any) (destination, gateway string, err error) {
	destination, gateway = route["cidr_block"].(string), route["gateway_id"].(string)
	if destination == "" || gateway == "" {
		err = fmt.Errorf("a route without cidr_block and gateway_id is beyond this double of the provider")
	}
	return destination, gateway, err
}

func (c *client) addRoute(ctx context.Context, table string, route map[string]any) error {
	destination, gateway, err := routeKey(route)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("creating Route in Route Table (%s) with destination (%s)", table, destination)
	_, err = c.do(ctx, v1, what, "CreateRoute", wire.Object{
		"RouteTableId": table, "DestinationCidrBlock": destination, "GatewayId": gateway,
	})
	if err != nil {
		return err
	}
	return c.awaitRoute(ctx, what, table, destination, gateway)
}

// awaitRoute waits until a route leads where it should, twice in a row; gateway empty: until it is gone.
func (c *client) awaitRoute(ctx context.Context, what, table, destination, gateway string) error {
	return until(ctx, what, 2, func() (bool, error) {
		one, err := c.routeTable(ctx, table)
		found := ""
		for _, route := range one.Objects("Routes") {
			if route.Text("DestinationCidrBlock") == destination {
				found = route.Text("GatewayId")
			}
		}
		return found == gateway, err
	})
}

func readRouteTable(ctx context.Context, c *client, d *schema.ResourceData) error {
	one, err := c.routeTable(ctx, d.Id())
	if err != nil {
		return err
	}
	if one == nil {
		d.SetId("")
		return nil
	}
	routes := []any{}
	for _, route := range one.Objects("Routes") {
		if route.Text("GatewayId") != "local" && route.Text("Origin") != "EnableVgwRoutePropagation" {
			routes = append(routes, map[string]any{"cidr_block": route.Text("DestinationCidrBlock"), "gateway_id": route.Text("GatewayId")})
		}
	}
	owner := one.Text("OwnerId")
	err = assign(d, map[string]any{
		"vpc_id": one.Text("VpcId"), "route": routes, "owner_id": owner,
		"arn": fmt.Sprintf("arn:aws:ec2:%s:%s:route-table/%s", c.Key.Region, owner, d.Id()),
	})
	if err != nil {
		return err
	}
	return c.setTags(d, one.Objects("Tags"))
}

func updateRouteTable(ctx context.Context, c *client, d *schema.ResourceData) error {
	if !d.HasChange("route") {
		return nil
	}
	before, after := d.GetChange("route")
	old := map[string]string{}
	for _, route := range before.(*schema.Set).List() {
		destination, gateway, err := routeKey(route.(map[string]any))
		if err != nil {
			return err
		}
		old[destination] = gateway
	}
	for _, route := range after.(*schema.Set).List() {
		destination, gateway, err := routeKey(route.(map[string]any))
		if err != nil {
			return err
		}
		was, there := old[destination]
		delete(old, destination)
		switch {
		case !there:
			err = c.addRoute(ctx, d.Id(), route.(map[string]any))
		case was != gateway:
			what := fmt.Sprintf("updating Route in Route Table (%s) with destination (%s)", d.Id(), destination)
			_, err = c.do(ctx, v1, what, "ReplaceRoute", wire.Object{
				"RouteTableId": d.Id(), "DestinationCidrBlock": destination, "GatewayId": gateway,
			})
			if err == nil {
				err = c.awaitRoute(ctx, what, d.Id(), destination, gateway)
			}
		}
		if err != nil {
			return err
		}
	}
	for destination := range old {
		what := fmt.Sprintf("deleting Route in Route Table (%s) with destination (%s)", d.Id(), destination)
		_, err := c.do(ctx, v1, what, "DeleteRoute", wire.Object{"RouteTableId": d.Id(), "DestinationCidrBlock": destination})
		if err == nil {
			err = c.awaitRoute(ctx, what, d.Id(), destination, "")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func deleteRouteTable(ctx context.Context, c *client, d *schema.ResourceData) error {
	one, err := c.routeTable(ctx, d.Id())
	if err != nil || one == nil {
		return err
	}
	for _, a := range one.Objects("Associations") {
		if !a.Bool("Main") {
			if err := c.disassociate(ctx, a.Text("RouteTableAssociationId")); err != nil {
				return err
			}
		}
	}
	what := "deleting EC2 Route Table (" + d.Id() + ")"
	_, err = c.do(ctx, v1, what, "DeleteRouteTable", wire.Object{"RouteTableId": d.Id()})
	if err != nil && !is(err, "InvalidRouteTableID.NotFound") {
		return err
	}
	return until(ctx, what, 2, func() (bool, error) {
		one, err := c.routeTable(ctx, d.Id())
		return one == nil, err
	})
}

func tableAssociation() *schema.Resource {
	return resource(fields{
		"subnet_id": text(forceNew), "route_table_id": text(required),
	}, createAssociation, readAssociation, updateAssociation, deleteAssociation)
}

func (c *client) association(ctx context.Context, id string) (wire.Object, error) {
	table, err := c.find(ctx, v1, "reading Route Table Association ("+id+")", "DescribeRouteTables",
		wire.Filtered("association.route-table-association-id", id), "RouteTables", "InvalidAssociationID.NotFound")
	for _, a := range table.Objects("Associations") {
		if a.Text("RouteTableAssociationId") == id && at(a, "AssociationState.State") != "disassociated" {
			return a, err
		}
	}
	return nil, err
}

func (c *client) awaitAssociation(ctx context.Context, id string) error {
	return until(ctx, "waiting for Route Table Association ("+id+") create", 1, func() (bool, error) {
		one, err := c.association(ctx, id)
		return at(one, "AssociationState.State") == "associated", err
	})
}

func createAssociation(ctx context.Context, c *client, d *schema.ResourceData) error {
	out, err := c.do(ctx, v1, "creating Route Table Association", "AssociateRouteTable", wire.Object{
		"RouteTableId": textOf(d, "route_table_id"), "SubnetId": textOf(d, "subnet_id"),
	})
	if err != nil {
		return err
	}
	d.SetId(at(out, "AssociationId"))
	return c.awaitAssociation(ctx, d.Id())
}

func readAssociation(ctx context.Context, c *client, d *schema.ResourceData) error {
	one, err := c.association(ctx, d.Id())
	if err != nil {
		return err
	}
	if one == nil {
		d.SetId("")
		return nil
	}
	return assign(d, map[string]any{"subnet_id": one.Text("SubnetId"), "route_table_id": one.Text("RouteTableId")})
}

func updateAssociation(ctx context.Context, c *client, d *schema.ResourceData) error {
	out, err := c.do(ctx, v1, "updating Route Table Association ("+d.Id()+")", "ReplaceRouteTableAssociation", wire.Object{
		"AssociationId": d.Id(), "RouteTableId": textOf(d, "route_table_id"),
	})
	if err != nil {
		return err
	}
	d.SetId(at(out, "NewAssociationId"))
	return c.awaitAssociation(ctx, d.Id())
}

func deleteAssociation(ctx context.Context, c *client, d *schema.ResourceData) error {
	return c.disassociate(ctx, d.Id())
}

func (c *client) disassociate(ctx context.Context, id string) error {
	what := "deleting Route Table Association (" + id + ")"
	_, err := c.do(ctx, v1, what, "DisassociateRouteTable", wire.Object{"AssociationId": id})
	if is(err, "InvalidAssociationID.NotFound") {
		return nil
	}
	if err != nil {
		return err
	}
	return until(ctx, what, 1, func() (bool, error) {
		one, err := c.association(ctx, id)
		return one == nil, err
	})
}
