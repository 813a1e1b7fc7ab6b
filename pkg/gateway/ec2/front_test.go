package ec2_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"hive-test/pkg/gateway/ec2"
	"hive-test/pkg/gateway/wire"
)

// hive is a cluster as early ones are: it does some actions, keeps no tags, tokens or groups of instances, and ignores
// filters.
type hive struct {
	*account
	does []string

	mu     sync.Mutex
	calls  []string
	failed error    // of every call
	away   []string // instances that are not told of
}

func newHive(t *testing.T, does ...string) *hive {
	return &hive{account: newAccount(t, 0), does: append([]string{
		"RunInstances", "DescribeInstances", "TerminateInstances", "StartInstances", "StopInstances", "CreateVpc",
		"DescribeVpcs", "DeleteVpc", "CreateSubnet", "DescribeSubnets", "DeleteSubnet", "CreateVolume", "DescribeVolumes",
		"DeleteVolume", "AttachVolume", "DetachVolume", "ModifyInstanceAttribute", "CreateNetworkInterface",
		"DescribeNetworkInterfaces", "DeleteNetworkInterface", "DescribeImages",
	}, does...)}
}

func (h *hive) Does(action string) bool { return slices.Contains(h.does, action) }

func (h *hive) Call(ctx context.Context, action string, in wire.Object) (wire.Object, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, action)
	if h.failed != nil {
		return nil, h.failed
	}
	if !h.Does(action) {
		return nil, wire.Errorf(wire.InvalidAction, "")
	}
	in = in.Clone()
	delete(in, "TagSpecifications")
	delete(in, "ClientToken")
	delete(in, "Filters")
	out, err := h.Do(ctx, action, in)
	out = out.Clone()
	for _, r := range out.Objects("Reservations") {
		var told []wire.Object
		for _, o := range r.Objects("Instances") {
			if !slices.Contains(h.away, o.Text("InstanceId")) {
				delete(o, "Tags")
				delete(o, "SecurityGroups")
				told = append(told, o)
			}
		}
		r["Instances"] = wire.List(told...)
	}
	return out, err
}

// asked returns how often an action was called.
func (h *hive) asked(action string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, call := range h.calls {
		if call == action {
			n++
		}
	}
	return n
}

// inFront is an account whose actions are answered in front of a cluster.
func inFront(t *testing.T, h *hive) *account {
	a := newAccount(t, 0)
	a.now = h.now
	front := ec2.NewFront(a.Service, h)
	a.do = front.Do
	return a
}

func firstImage(a *account) string {
	return a.must("DescribeImages", wire.Object{}).At("Images.ImageId")[0]
}

func tagged(kind, value string) []any {
	return wire.List(wire.Object{
		"ResourceType": kind, "Tags": wire.List(wire.Object{"Key": "Name", "Value": value}),
	})
}

// An instance in the cluster shows the subnet and the groups that it was asked for with, though the cluster knows no groups.
func TestFrontShowsWhatTheClusterDoesNot(t *testing.T) {
	h := newHive(t)
	a := inFront(t, h)
	vpc := a.vpc("10.0.0.0/16")
	subnet := a.subnet(vpc, "10.0.1.0/24")
	group := a.must("CreateSecurityGroup", wire.Object{"GroupName": "web", "Description": "web", "VpcId": vpc}).Text("GroupId")
	run := wire.Object{
		"ImageId": firstImage(a), "InstanceType": "t3.micro", "MinCount": 1, "MaxCount": 1, "SubnetId": subnet,
		"SecurityGroupIds": wire.Strings(group), "TagSpecifications": tagged("instance", "one"), "ClientToken": "token",
	}
	id := a.must("RunInstances", run).At("Instances.InstanceId")[0]
	if again := a.must("RunInstances", run).At("Instances.InstanceId"); !slices.Equal(again, []string{id}) {
		t.Errorf("the same ClientToken has launched %v, and %s before", again, id)
	}
	if n := h.asked("RunInstances"); n != 1 {
		t.Errorf("the cluster has launched %d times", n)
	}
	if there := h.must("DescribeInstances", wire.Object{}).At("Reservations.Instances.InstanceId"); !slices.Equal(there, []string{id}) {
		t.Errorf("the cluster has %v, and the gateway %s", there, id)
	}
	for name, value := range map[string]string{
		"instance.group-id": group, "subnet-id": subnet, "tag:Name": "one", "vpc-id": vpc,
	} {
		if ids := a.must("DescribeInstances", with(name, value)).At("Reservations.Instances.InstanceId"); !slices.Equal(ids, []string{id}) {
			t.Errorf("filter %s=%s finds %v", name, value, ids)
		}
	}
	a.refused("DependencyViolation", "DeleteSecurityGroup", wire.Object{"GroupId": group})
	a.must("ModifyInstanceAttribute", wire.Object{"InstanceId": id, "DisableApiTermination": wire.Object{"Value": true}})
	a.refused("OperationNotPermitted", "TerminateInstances", wire.Object{"InstanceIds": wire.Strings(id)})
	if n := h.asked("TerminateInstances") + h.asked("ModifyInstanceAttribute"); n > 0 {
		t.Errorf("what is forbidden, or not known to it, was passed on %d times", n)
	}
	a.must("ModifyInstanceAttribute", wire.Object{"InstanceId": id, "DisableApiTermination": wire.Object{"Value": false}})
	a.must("TerminateInstances", wire.Object{"InstanceIds": wire.Strings(id)})
	if state := a.must("DescribeInstances", wire.Object{}).At("Reservations.Instances.State.Name"); !slices.Equal(state, []string{"terminated"}) {
		t.Errorf("it is %v", state)
	}
	a.must("DeleteSecurityGroup", wire.Object{"GroupId": group})
	a.must("DeleteSubnet", wire.Object{"SubnetId": subnet})
	a.must("DeleteVpc", wire.Object{"VpcId": vpc})
	if left := h.must("DescribeVpcs", wire.Object{}).Objects("Vpcs"); len(left) > 0 {
		t.Errorf("the cluster still has %v", left)
	}
}

// What is made without the gateway is told of, with all that comes with such, and what is gone there is told of no more.
func TestFrontMeetsWhatItHasNotMade(t *testing.T) {
	h := newHive(t)
	a := inFront(t, h)
	vpc := h.vpc("10.0.0.0/16")
	subnet := h.subnet(vpc, "10.0.1.0/24")
	instance := h.must("RunInstances", wire.Object{
		"ImageId": firstImage(h.account), "InstanceType": "t3.micro", "MinCount": 1, "MaxCount": 1, "SubnetId": subnet,
	}).At("Instances.InstanceId")[0]

	if got := a.must("DescribeSubnets", with("vpc-id", vpc)).At("Subnets.SubnetId"); !slices.Equal(got, []string{subnet}) {
		t.Errorf("subnets %v", got)
	}
	for _, call := range []struct{ action, list string }{
		{"DescribeRouteTables", "RouteTables"},
		{"DescribeNetworkAcls", "NetworkAcls"},
		{"DescribeSecurityGroups", "SecurityGroups"},
	} {
		if got := a.must(call.action, with("vpc-id", vpc)).Objects(call.list); len(got) != 1 {
			t.Errorf("%s finds %d", call.action, len(got))
		}
	}
	a.must("ModifyVpcAttribute", wire.Object{"VpcId": vpc, "EnableDnsHostnames": wire.Object{"Value": true}})
	a.must("CreateTags", wire.Object{
		"Resources": wire.Strings(vpc, instance), "Tags": wire.List(wire.Object{"Key": "Name", "Value": "met"}),
	})
	if got := a.must("DescribeVpcs", with("tag:Name", "met")).At("Vpcs.VpcId"); !slices.Equal(got, []string{vpc}) {
		t.Errorf("VPCs of the tag: %v", got)
	}
	if got := a.must("DescribeInstances", with("tag:Name", "met")).At("Reservations.Instances.InstanceId"); !slices.Equal(got, []string{instance}) {
		t.Errorf("instances of the tag: %v", got)
	}

	h.away = []string{instance} // its node gives no answer for a while
	if got := a.must("DescribeInstances", wire.Object{}).At("Reservations.Instances.InstanceId"); len(got) > 0 {
		t.Errorf("told of %v, which the cluster does not tell of", got)
	}
	h.away = nil
	if got := a.must("DescribeInstances", with("tag:Name", "met")).At("Reservations.Instances.State.Name"); !slices.Equal(got, []string{"running"}) {
		t.Errorf("it has come again, and is %v", got)
	}
	h.must("TerminateInstances", wire.Object{"InstanceIds": wire.Strings(instance)})
	h.must("DeleteSubnet", wire.Object{"SubnetId": subnet})
	a.refused("InvalidSubnetID.NotFound", "DescribeSubnets", wire.Object{"SubnetIds": wire.Strings(subnet)})
	if got := a.must("DescribeInstances", wire.Object{}).At("Reservations.Instances.State.Name"); !slices.Equal(got, []string{"terminated"}) {
		t.Errorf("it was ended there, and is %v", got)
	}
}

// What a request names is known, though nobody has asked for it before.
func TestFrontLearnsWhatIsNamed(t *testing.T) {
	h := newHive(t)
	a := inFront(t, h)
	vpc := h.vpc("10.0.0.0/16")
	a.subnet(vpc, "10.0.1.0/24")
	other := h.vpc("10.0.0.0/16")
	a.must("CreateSecurityGroup", wire.Object{"GroupName": "web", "Description": "web", "VpcId": other})
	a.must("DeleteVpc", wire.Object{"VpcId": h.vpc("10.0.0.0/16")})
}

// What cannot be kept here is undone there, and what is refused there is not kept.
func TestFrontMakesBothOrNone(t *testing.T) {
	h := newHive(t)
	a := inFront(t, h)
	a.refused(wire.InvalidParameterValue, "CreateVpc", wire.Object{
		"CidrBlock": "10.0.0.0/16", "TagSpecifications": wire.List(wire.Object{
			"ResourceType": "vpc", "Tags": wire.List(wire.Object{"Key": "aws:name", "Value": ""}),
		}),
	})
	if n := h.asked("CreateVpc"); n != 1 {
		t.Errorf("the cluster was asked %d times", n)
	}
	a.refused("InvalidVpc.Range", "CreateVpc", wire.Object{"CidrBlock": "10.0.0.0/8"})
	for _, of := range []*account{a, h.account} {
		if got := of.must("DescribeVpcs", wire.Object{}).Objects("Vpcs"); len(got) > 0 {
			t.Errorf("there is %v", got)
		}
	}
	vpc := a.vpc("10.0.0.0/16")
	a.must("CreateSecurityGroup", wire.Object{"GroupName": "web", "Description": "web", "VpcId": vpc})
	a.refused("DependencyViolation", "DeleteVpc", wire.Object{"VpcId": vpc})
	if got := h.must("DescribeVpcs", wire.Object{}).Objects("Vpcs"); len(got) != 1 {
		t.Error("a VPC with a group here was deleted there")
	}
	a.refused("InvalidSubnetID.NotFound", "RunInstances", wire.Object{
		"ImageId": firstImage(a), "MinCount": 1, "MaxCount": 1, "SubnetId": "subnet-00000000000000000",
	})
	a.refused("InvalidGroup.NotFound", "RunInstances", wire.Object{
		"ImageId": firstImage(a), "MinCount": 1, "MaxCount": 1, "SecurityGroupIds": wire.Strings("sg-00000000000000000"),
	})
	if got := h.must("DescribeInstances", wire.Object{}).Objects("Reservations"); len(got) > 0 {
		t.Errorf("the cluster has %v", got)
	}
}

// A cluster that gives no answer is told of as such, in a way that clients try again.
func TestFrontOfSilentCluster(t *testing.T) {
	h := newHive(t)
	a := inFront(t, h)
	vpc := a.vpc("10.0.0.0/16")
	h.failed = errors.New("connection refused")
	a.refused("Unavailable", "DescribeVpcs", wire.Object{})
	a.refused("Unavailable", "DeleteVpc", wire.Object{"VpcId": vpc})
	h.failed = nil
	a.must("DeleteVpc", wire.Object{"VpcId": vpc})
}

// A dry run never reaches a cluster, which may do what it is asked for.
func TestFrontKeepsDryRunsHere(t *testing.T) {
	h := newHive(t)
	a := inFront(t, h)
	a.refused("DryRunOperation", "CreateVpc", wire.Object{"CidrBlock": "10.0.0.0/16", "DryRun": true})
	if n := h.asked("CreateVpc"); n > 0 {
		t.Error("it was passed on")
	}
}

// Volumes are attached in the cluster, and told of under the device that they were asked for with.
func TestFrontAttachesVolumes(t *testing.T) {
	h := newHive(t)
	a := inFront(t, h)
	id := a.must("RunInstances", wire.Object{
		"ImageId": firstImage(a), "InstanceType": "t3.micro", "MinCount": 1, "MaxCount": 1,
	}).At("Instances.InstanceId")[0]
	volume := a.must("CreateVolume", wire.Object{
		"AvailabilityZone": "ap-southeast-2a", "Size": 1, "TagSpecifications": tagged("volume", "data"),
	}).Text("VolumeId")
	attach := wire.Object{"InstanceId": id, "VolumeId": volume, "Device": "/dev/sdf"}
	a.must("AttachVolume", attach)
	found := a.must("DescribeVolumes", with("attachment.device", "/dev/sdf"))
	if got := found.At("Volumes.Attachments.InstanceId"); !slices.Equal(got, []string{id}) {
		t.Errorf("attached to %v", got)
	}
	if got := found.At("Volumes.Tags.Value"); !slices.Equal(got, []string{"data"}) {
		t.Errorf("tags %v", got)
	}
	a.must("DetachVolume", attach)
	a.must("DeleteVolume", wire.Object{"VolumeId": volume})
	a.refused("InvalidVolume.NotFound", "DescribeVolumes", wire.Object{"VolumeIds": wire.Strings(volume)})
}

// An association that is replaced by one with the same table is made anew: hive would keep both.
func TestFrontAssociatesAnew(t *testing.T) {
	h := newHive(t, "CreateInternetGateway", "DescribeInternetGateways", "DeleteInternetGateway", "AttachInternetGateway",
		"DetachInternetGateway", "CreateRouteTable", "DescribeRouteTables", "DeleteRouteTable", "CreateRoute", "ReplaceRoute",
		"DeleteRoute", "AssociateRouteTable", "DisassociateRouteTable", "ReplaceRouteTableAssociation")
	a := inFront(t, h)
	vpc := a.vpc("10.0.0.0/16")
	subnet := a.subnet(vpc, "10.0.1.0/24")
	newTable := func() string {
		return a.must("CreateRouteTable", wire.Object{"VpcId": vpc}).Object("RouteTable").Text("RouteTableId")
	}
	table, other := newTable(), newTable()
	id := a.must("AssociateRouteTable", wire.Object{"RouteTableId": table, "SubnetId": subnet}).Text("AssociationId")
	for _, next := range []struct {
		table string
		calls int // of the cluster to replace it
	}{{table, 0}, {other, 1}, {other, 1}} {
		id = a.must("ReplaceRouteTableAssociation", wire.Object{"AssociationId": id, "RouteTableId": next.table}).
			Text("NewAssociationId")
		if n := h.asked("ReplaceRouteTableAssociation"); n != next.calls {
			t.Errorf("to %s: replaced there %d times", next.table, n)
		}
		for _, of := range []*account{a, h.account} {
			found := of.must("DescribeRouteTables", with("association.route-table-association-id", id))
			if got := found.At("RouteTables.RouteTableId"); !slices.Equal(got, []string{next.table}) {
				t.Errorf("%s is with %v, and should be with %s", id, got, next.table)
			}
		}
	}
	a.must("DisassociateRouteTable", wire.Object{"AssociationId": id})
	a.must("DeleteRouteTable", wire.Object{"RouteTableId": table})
	a.must("DeleteRouteTable", wire.Object{"RouteTableId": other})
}

// Two gateways in front of one cluster, with one store, tell the same.
func TestTwoFronts(t *testing.T) {
	h := newHive(t)
	one := inFront(t, h)
	two := &account{t: t, now: one.now, Service: one.Service}
	two.do = ec2.NewFront(one.Service, h).Do
	var all sync.WaitGroup
	for _, a := range []*account{one, two} {
		for range 4 {
			all.Go(func() {
				vpc := a.must("CreateVpc", wire.Object{"CidrBlock": "10.0.0.0/16", "TagSpecifications": tagged("vpc", "a")}).
					Object("Vpc").Text("VpcId")
				a.must("DescribeVpcs", wire.Object{})
				a.must("DescribeVpcAttribute", wire.Object{"VpcId": vpc, "Attribute": "enableDnsSupport"})
			})
		}
	}
	all.Wait()
	for _, a := range []*account{one, two} {
		if got := a.must("DescribeVpcs", with("tag:Name", "a")).Objects("Vpcs"); len(got) != 8 {
			t.Errorf("%d of 8 VPCs have their tag", len(got))
		}
	}
}
