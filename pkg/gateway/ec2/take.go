package ec2

import (
	"context"
	"maps"

	"hive-test/pkg/gateway/wire"
)

// take keeps a resource of the cluster that was not made here as if it had been: with what comes with such.
func (f *Front) take(ctx context.Context, l life, told wire.Object) error {
	given := asSeen(ctx, map[string][]string{l.kind.prefix: {told.Text(l.kind.id)}})
	tags := wire.List(wire.Object{"ResourceType": l.kind.bucket, "Tags": told["Tags"]})
	in := wire.Object{"TagSpecifications": tags}
	action := ""
	if len(l.create) > 0 {
		action = l.create[0]
	}
	switch l.kind.bucket {
	case "vpc":
		ids := map[string][]string{"vpc": {told.Text("VpcId")}}
		f.companions(ctx, l, ids)
		given = asSeen(ctx, ids)
		in["CidrBlock"] = told["CidrBlock"]
	case "subnet":
		in["VpcId"], in["CidrBlock"] = told["VpcId"], told["CidrBlock"]
	case "network-interface":
		in["SubnetId"], in["PrivateIpAddress"], in["Description"] = told["SubnetId"], told["PrivateIpAddress"], told["Description"]
	case "egress-only-internet-gateway":
		for _, a := range told.Objects("Attachments") {
			in["VpcId"] = a["VpcId"]
		}
	case "placement-group":
		in["GroupName"], in["Strategy"] = told["GroupName"], told["Strategy"]
	case "elastic-ip":
	case "security-group":
		return f.takeGroup(ctx, l, told)
	case "internet-gateway":
		return f.takeGateway(ctx, l, told)
	case "route-table":
		return f.takeTable(ctx, l, told)
	case "instance":
		return f.takeInstance(ctx, l, told)
	default:
		_, err := f.keepSeen(ctx, l, told)
		return err
	}
	if _, err := f.Service.Do(given, action, in); err != nil {
		return err
	}
	_, err := f.Store.Change(ctx, l.kind.bucket, f.keptID(l, told), func(o wire.Object) error {
		f.takeLive(l, o, told)
		return nil
	})
	return err
}

// keepSeen keeps a resource as the cluster tells it.
func (f *Front) keepSeen(ctx context.Context, l life, told wire.Object) (wire.Object, error) {
	o := f.entire(l, told)
	return o, f.createNamed(asSeen(ctx, nil), l.kind, o, nil) // one that is kept already is no mistake
}

// entire is a resource as the cluster tells it, under the id that it has here, with what such usually have.
func (f *Front) entire(l life, told wire.Object) wire.Object {
	o := told.Clone()
	o[l.kind.id] = f.keptID(l, told)
	for name, usual := range f.usual(l.kind) {
		if empty(o[name]) {
			o[name] = usual
		}
	}
	return o
}

// usual is what resources of a kind have where the cluster does not tell.
func (f *Front) usual(k kind) wire.Object {
	usual := wire.Object{"Tags": []any{}}
	switch k.bucket {
	case "volume":
		maps.Copy(usual, wire.Object{"Encrypted": false, "MultiAttachEnabled": false, "Attachments": []any{}})
	case "snapshot":
		maps.Copy(usual, wire.Object{"OwnerId": f.Account, "Encrypted": false, "Progress": "100%", "StorageTier": "standard"})
	case "image":
		maps.Copy(usual, wire.Object{
			"OwnerId": f.Account, "Public": false, "ImageType": "machine", "VirtualizationType": "hvm", "RootDeviceType": "ebs",
			"RootDeviceName": "/dev/sda1", "State": "available", "Architecture": "x86_64", "CreationDate": stamp(f.Now()),
			"BlockDeviceMappings": []any{}, "EnaSupport": true, "Hypervisor": "xen", "Name": "",
		})
	case "key-pair":
		maps.Copy(usual, wire.Object{"KeyType": "rsa"})
	}
	return usual
}

// keepTold keeps what the cluster has made, where what it tells is all that there is of it but for its tags.
func (f *Front) keepTold(ctx context.Context, l life, action string, in, told wire.Object) (wire.Object, error) {
	tags, err := tagsFor(in, l.kind.bucket)
	if err != nil {
		f.unmakeThere(ctx, l, told)
		return nil, err
	}
	o := f.entire(l, told)
	delete(o, "KeyMaterial")
	for _, name := range []string{"Description", "Size", "VolumeType", "Iops", "Throughput", "VolumeId", "Name"} {
		if empty(o[name]) && in.Has(name) {
			o[name] = in[name]
		}
	}
	if len(tags) > 0 {
		o["Tags"] = tags
	}
	answer := told.Clone()
	answer[l.kind.id] = o[l.kind.id]
	if action != "CreateImage" {
		answer["Tags"] = o["Tags"]
	}
	return answer, f.createNamed(withGiven(ctx, nil), l.kind, o, nil)
}

// companions adds to ids those of what the cluster makes with a VPC, so that it is not made here, too.
func (f *Front) companions(ctx context.Context, l life, ids map[string][]string) {
	if l.kind.bucket != vpcKind().bucket || len(ids["vpc"]) == 0 {
		return
	}
	vpc := ids["vpc"][0]
	if f.home[tableKind().bucket] {
		list, _ := f.list(ctx, f.lifeOf(tableKind())) // what is not told of is made here
		for _, table := range list {
			for _, a := range table.Objects("Associations") {
				if table.Text("VpcId") == vpc && a.Bool("Main") {
					ids["rtb"], ids["rtbassoc"] = []string{table.Text("RouteTableId")}, a.At("RouteTableAssociationId")
				}
			}
		}
	}
	if f.home[groupKind().bucket] {
		list, _ := f.list(ctx, f.lifeOf(groupKind()))
		for _, group := range list {
			if group.Text("VpcId") == vpc && group.Text("GroupName") == defaultGroup {
				ids["sg"] = []string{group.Text("GroupId")}
			}
		}
	}
}

// withLive is an answer to what has made a resource, with what the cluster knows better of it, which is then kept, too.
func (f *Front) withLive(ctx context.Context, l life, answer, told wire.Object) wire.Object {
	var of wire.Object
	find(told, l.kind.id, func(o wire.Object) { of = o })
	if of == nil {
		return answer
	}
	id := f.keptID(l, of)
	kept, err := f.Store.Change(ctx, l.kind.bucket, id, func(o wire.Object) error {
		f.takeLive(l, o, of)
		return nil
	})
	if err != nil { // it is told when it is described
		return answer
	}
	out := answer.Clone()
	find(out, l.kind.id, func(o wire.Object) {
		if o.Text(l.kind.id) == id {
			for _, name := range l.live {
				if kept.Has(name) && (o.Has(name) || of.Has(name)) {
					o[name] = kept[name]
				}
			}
		}
	})
	return out
}

// find tells of all objects in a value that have a member.
func find(v any, member string, see func(wire.Object)) {
	if list, is := v.([]any); is {
		for _, e := range list {
			find(e, member, see)
		}
		return
	}
	o := wire.AsObject(v)
	if o.Has(member) {
		see(o)
	}
	for _, e := range o {
		find(e, member, see)
	}
}

// takeGroup keeps a security group with the rules that the cluster tells.
func (f *Front) takeGroup(ctx context.Context, l life, told wire.Object) error {
	group := f.newGroup(ctx, told.Text("GroupId"), told.Text("VpcId"), told.Text("GroupName"), told.Text("Description"), nil)
	var rules []wire.Object
	for member, egress := range map[string]bool{"IpPermissions": false, "IpPermissionsEgress": true} {
		for _, p := range told.Objects(member) {
			found, err := rulesOf(p)
			if err != nil {
				continue // hive keeps rules without a source where it does not know that
			}
			for _, rule := range found {
				f.complete(ctx, rule, group, egress, []any{})
				rules = append(rules, rule)
			}
		}
	}
	setRules(group, rules)
	group["Tags"] = told["Tags"]
	_, err := f.keepSeen(ctx, l, group)
	return err
}

// takeGateway keeps an internet gateway with what it is attached to.
func (f *Front) takeGateway(ctx context.Context, l life, told wire.Object) error {
	ref := gatewayKind().ref(told.Text("InternetGatewayId")) + "/" + newID(ctx, "attach")
	if vpc := gatewayVPC(told); vpc != "" {
		if err := f.link(ctx, vpcKind(), vpc, ref, nil); err != nil {
			return err
		}
	}
	o := pick(told, "InternetGatewayId", "Attachments", "Tags")
	o["OwnerId"], o[attachedMember] = f.Account, ref
	if !o.Has("Attachments") {
		o["Attachments"] = []any{}
	}
	_, err := f.keepSeen(ctx, l, o)
	return err
}

// takeTable keeps a route table with its associations.
func (f *Front) takeTable(ctx context.Context, l life, told wire.Object) error {
	id, vpc := told.Text("RouteTableId"), told.Text("VpcId")
	routes, _ := told["Routes"].([]any)
	table := f.newTable(id, vpc, routes, []any{})
	if tags := told.Objects("Tags"); len(tags) > 0 {
		table["Tags"] = wire.List(tags...)
	}
	if err := f.link(ctx, vpcKind(), vpc, tableKind().ref(id), nil); err != nil {
		return err
	}
	if _, err := f.keepSeen(ctx, l, table); err != nil {
		return err
	}
	for _, a := range told.Objects("Associations") {
		user, of := subnetKind(), a.Text("SubnetId")
		if a.Bool("Main") {
			user, of = vpcKind(), vpc
		}
		given := withGiven(ctx, map[string][]string{"rtbassoc": a.At("RouteTableAssociationId")})
		if _, err := f.useTable(given, user, of, id, func(wire.Object) error { return nil }); err != nil && clientError(err) == nil {
			return err
		}
	}
	return nil
}
