package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"hive-test/pkg/gateway/wire"
	"hive-test/pkg/iac"
	"hive-test/pkg/wait"
)

// kind is a kind of resource as calls of our own see it.
type kind struct {
	name string // the provider's for it
	noun string // for people

	create, createdID string // the action that makes one, and where its answer has the id
	describe          string // the action that tells of some
	ids, list         string // the member of its request that has ids, and the one of its answer that has them
	id                string // the member of what it tells of that has the id; under list
	notFound          string // the code when there is none
	filter            string // by which those of a name are found

	remove func(ctx context.Context, c client, id string) error
}

// client makes calls of our own.
type client struct{ iac.Endpoint }

// do makes a call as an SDK does that reads errors of either root: what is in the way of the provider is not in ours.
func (c client) do(ctx context.Context, action string, in wire.Object) (wire.Object, error) {
	return c.Call(ctx, iac.SDKv2, action, in)
}

// kinds are those that stacks have, in the order in which they can be deleted.
func kinds() []kind {
	byID := func(action, member string) func(context.Context, client, string) error {
		return func(ctx context.Context, c client, id string) error {
			_, err := c.do(ctx, action, wire.Object{member: id})
			return err
		}
	}
	return []kind{
		{
			name: "aws_instance", noun: "instance", create: "RunInstances", createdID: "Instances.InstanceId", describe: "DescribeInstances",
			ids: "InstanceIds", list: "Reservations", id: "Instances.InstanceId", notFound: "InvalidInstanceID.NotFound",
			filter: "tag:Name", remove: terminate,
		},
		{
			name: "aws_ebs_volume", noun: "volume", create: "CreateVolume", createdID: "VolumeId", describe: "DescribeVolumes",
			ids: "VolumeIds", list: "Volumes", id: "VolumeId", notFound: "InvalidVolume.NotFound", filter: "tag:Name",
			remove: byID("DeleteVolume", "VolumeId"),
		},
		{
			name: "aws_security_group", noun: "security group", create: "CreateSecurityGroup", createdID: "GroupId",
			describe: "DescribeSecurityGroups", ids: "GroupIds", list: "SecurityGroups", id: "GroupId",
			notFound: "InvalidGroup.NotFound", filter: "tag:Name", remove: byID("DeleteSecurityGroup", "GroupId"),
		},
		{
			name: "aws_route_table", noun: "route table", create: "CreateRouteTable", createdID: "RouteTable.RouteTableId",
			describe: "DescribeRouteTables", ids: "RouteTableIds", list: "RouteTables", id: "RouteTableId",
			notFound: "InvalidRouteTableID.NotFound", filter: "tag:Name", remove: removeRouteTable,
		},
		{
			name: "aws_internet_gateway", noun: "internet gateway", create: "CreateInternetGateway",
			createdID: "InternetGateway.InternetGatewayId", describe: "DescribeInternetGateways", ids: "InternetGatewayIds",
			list: "InternetGateways", id: "InternetGatewayId", notFound: "InvalidInternetGatewayID.NotFound", filter: "tag:Name",
			remove: removeGateway,
		},
		{
			name: "aws_subnet", noun: "subnet", create: "CreateSubnet", createdID: "Subnet.SubnetId", describe: "DescribeSubnets",
			ids: "SubnetIds", list: "Subnets", id: "SubnetId", notFound: "InvalidSubnetID.NotFound", filter: "tag:Name",
			remove: byID("DeleteSubnet", "SubnetId"),
		},
		{
			name: "aws_vpc", noun: "VPC", create: "CreateVpc", createdID: "Vpc.VpcId", describe: "DescribeVpcs", ids: "VpcIds",
			list: "Vpcs", id: "VpcId", notFound: "InvalidVpcID.NotFound", filter: "tag:Name", remove: byID("DeleteVpc", "VpcId"),
		},
		{
			name: "aws_key_pair", noun: "key pair", create: "ImportKeyPair", createdID: "KeyName", describe: "DescribeKeyPairs",
			ids: "KeyNames", list: "KeyPairs", id: "KeyName", notFound: "InvalidKeyPair.NotFound", filter: "key-name",
			remove: byID("DeleteKeyPair", "KeyName"),
		},
	}
}

func kindNamed(name string) (kind, bool) {
	all := kinds()
	i := slices.IndexFunc(all, func(k kind) bool { return k.name == name })
	if i < 0 {
		return kind{}, false
	}
	return all[i], true
}

// find returns one by its id; nil: it is gone, or is no more than the memory of an instance.
func (k kind) find(ctx context.Context, c client, id string) (wire.Object, error) {
	out, err := c.do(ctx, k.describe, wire.Object{k.ids: wire.Strings(id)})
	if failure, ok := errors.AsType[*wire.Error](err); ok && failure.Code == k.notFound {
		return nil, nil
	}
	if err != nil {
		return nil, answered(k.describe, err)
	}
	for _, one := range out.Objects(k.list) {
		if slices.Contains(one.At(k.id), id) && !ended(one) {
			return one, nil
		}
	}
	return nil, nil
}

// ended reports whether a reservation's instances are all terminated.
func ended(one wire.Object) bool {
	states := one.At("Instances.State.Name")
	return len(states) > 0 && !slices.ContainsFunc(states, func(s string) bool { return s != "terminated" })
}

// named returns the ids of those that carry a name.
func (k kind) named(ctx context.Context, c client, name string) ([]string, error) {
	out, err := c.do(ctx, k.describe, wire.Object{"Filters": wire.List(wire.Object{"Name": k.filter, "Values": wire.Strings(name)})})
	if failure, ok := errors.AsType[*wire.Error](err); ok && failure.Code == k.notFound {
		return nil, nil
	}
	if err != nil {
		return nil, answered(k.describe, err)
	}
	var ids []string
	for _, one := range out.Objects(k.list) {
		if carries(one, name) && !ended(one) {
			ids = append(ids, one.At(k.id)...)
		}
	}
	return ids, nil
}

// carries reports whether what was found has the name, for endpoints may not know filters.
func carries(one wire.Object, name string) bool {
	for _, path := range []string{"Tags.Value", "Instances.Tags.Value", "KeyName", "GroupName"} {
		if slices.Contains(one.At(path), name) {
			return true
		}
	}
	return false
}

// answered is an error of a call of our own.
func answered(action string, err error) error {
	if failure, ok := errors.AsType[*wire.Error](err); ok {
		return errors.New(Call{Action: action, Status: failure.Status, Code: failure.Code, Message: failure.Message}.String())
	}
	return fmt.Errorf("%s: %w", action, err)
}

// terminate ends an instance, whose protection goes first.
func terminate(ctx context.Context, c client, id string) error {
	_, _ = c.do(ctx, "ModifyInstanceAttribute", wire.Object{
		"InstanceId": id, "DisableApiTermination": wire.Object{"Value": false},
	}) // an endpoint without it has no protection
	_, err := c.do(ctx, "TerminateInstances", wire.Object{"InstanceIds": wire.Strings(id)})
	return err
}

func removeRouteTable(ctx context.Context, c client, id string) error {
	out, err := c.do(ctx, "DescribeRouteTables", wire.Object{"RouteTableIds": wire.Strings(id)})
	if err != nil {
		return err
	}
	for _, table := range out.Objects("RouteTables") {
		for _, a := range table.Objects("Associations") {
			if association := a.Text("RouteTableAssociationId"); !a.Bool("Main") && association != "" {
				_, err = c.do(ctx, "DisassociateRouteTable", wire.Object{"AssociationId": association})
			}
		}
	}
	if err != nil {
		return err
	}
	_, err = c.do(ctx, "DeleteRouteTable", wire.Object{"RouteTableId": id})
	return err
}

func removeGateway(ctx context.Context, c client, id string) error {
	out, err := c.do(ctx, "DescribeInternetGateways", wire.Object{"InternetGatewayIds": wire.Strings(id)})
	if err != nil {
		return err
	}
	for _, vpc := range out.At("InternetGateways.Attachments.VpcId") {
		if _, err := c.do(ctx, "DetachInternetGateway", wire.Object{"InternetGatewayId": id, "VpcId": vpc}); err != nil {
			return err
		}
	}
	_, err = c.do(ctx, "DeleteInternetGateway", wire.Object{"InternetGatewayId": id})
	return err
}

// delete removes one and waits until it is gone, as long as ctx lasts. What is still in use is tried again.
func (k kind) delete(ctx context.Context, c client, id string) error {
	var last error
	for range (wait.Backoff{First: 50 * time.Millisecond, Max: 2 * time.Second}).Tries(ctx) {
		one, err := k.find(ctx, c, id)
		switch {
		case err == nil && one == nil:
			return nil
		case err == nil:
			err = k.remove(ctx, c, id)
		}
		if ctx.Err() != nil {
			break
		}
		last = err
		if err != nil && !passes(err) {
			return err
		}
	}
	if last == nil {
		last = errors.New("it is still told of")
	}
	return fmt.Errorf("%w: %w", context.Cause(ctx), last)
}

// passes reports whether a resource may be deleted a moment later.
func passes(err error) bool {
	failure, ok := errors.AsType[*wire.Error](err)
	if !ok {
		return true // such as a connection that was cut
	}
	return failure.Status >= 500 || slices.ContainsFunc([]string{
		"DependencyViolation", "InUse", "IncorrectState", "IncorrectInstanceState", "RequestLimitExceeded", "Throttling",
	}, func(code string) bool { return strings.Contains(failure.Code, code) })
}
