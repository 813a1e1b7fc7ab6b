package ec2

import (
	"context"
	"errors"
	"slices"
	"sync"

	"hive-test/pkg/gateway/store"
	"hive-test/pkg/gateway/wire"
)

// askedGroupsMember of an instance are the security groups that it was asked for with.
const askedGroupsMember = "_groups"

// run has the cluster launch instances, and keeps what they were asked for with and the cluster does not tell.
func (f *Front) run(ctx context.Context, l life, in wire.Object) (wire.Object, error) {
	defer f.turn(in.Text("ClientToken"))()
	if made, err := f.ranBefore(ctx, in); err != nil || made != nil {
		return made, err
	}
	asked, err := f.launchThere(ctx, in)
	if err != nil {
		return nil, err
	}
	passed, err := f.passable(ctx, hoisted(in))
	if err != nil {
		return nil, err
	}
	told, err := f.cluster.Call(ctx, "RunInstances", passed)
	if err != nil {
		return nil, unreachable(err)
	}
	asked.reservation = told.Text("ReservationId")
	var made []wire.Object
	for n, one := range told.Objects("Instances") {
		instance, err := f.keepInstance(ctx, l, asked, one, n)
		if err != nil {
			f.unmakeThere(ctx, l, told)
			return nil, err
		}
		made = append(made, instance)
	}
	return f.reservationOf(ctx, made)
}

// turn lets one request with a ClientToken at a time be answered by this process, and returns what ends it.
func (f *Front) turn(token string) (end func()) {
	if token == "" {
		return func() {}
	}
	lock, _ := f.turns.LoadOrStore(token, &sync.Mutex{})
	mutex := lock.(*sync.Mutex)
	mutex.Lock()
	return func() {
		mutex.Unlock()
		f.turns.Delete(token)
	}
}

// ranBefore returns the reservation that the same request has made before; nil: there is none.
func (f *Front) ranBefore(ctx context.Context, in wire.Object) (wire.Object, error) {
	if !in.Has("ClientToken") {
		return nil, nil
	}
	all, err := f.all(ctx, instanceKind())
	if err != nil {
		return nil, err
	}
	made := matching(all, func(o wire.Object) bool {
		return o.Text("ClientToken") == in.Text("ClientToken") && o.Has(tokenMember)
	})
	if len(made) == 0 {
		return nil, nil
	}
	if err := sameRequest(made[0], in); err != nil {
		return nil, err
	}
	return f.reservationOf(ctx, made)
}

// hoisted is a request with what its only network interface is asked for in place of that: hive takes no more than a
// subnet (PRE and SPX, RunInstances).
func hoisted(in wire.Object) wire.Object {
	specs := in.Objects("NetworkInterfaces")
	if len(specs) != 1 || specs[0].Has("NetworkInterfaceId") {
		return in
	}
	out := in.Clone()
	delete(out, "NetworkInterfaces")
	for to, from := range map[string]string{
		"SubnetId": "SubnetId", "SecurityGroupIds": "Groups", "PrivateIpAddress": "PrivateIpAddress",
	} {
		if specs[0].Has(from) {
			out[to] = specs[0][from]
		}
	}
	return out
}

// launchThere checks what of a request is not the cluster's to check, and finds what of it is here.
func (f *Front) launchThere(ctx context.Context, in wire.Object) (launch, error) {
	asked, err := newLaunch(in)
	if err != nil {
		return asked, err
	}
	asked.info = f.typeOr(in.Text("InstanceType"))
	if asked.image, _ = f.image(ctx, in.Text("ImageId")); asked.image == nil {
		asked.image = wire.Object{"ImageId": in.Text("ImageId"), "RootDeviceName": "/dev/sda1", "Architecture": "x86_64"}
	}
	place := in.Clone()
	if zone := place.Object("Placement"); zone != nil {
		delete(zone, "AvailabilityZone")
	}
	if !f.home[keyKind().bucket] {
		if err := f.findKey(ctx, &asked); err != nil {
			return asked, err
		}
	}
	forPlace := asked
	forPlace.in = place
	if err := f.findPlacement(ctx, &forPlace); err != nil {
		return asked, err
	}
	asked.placement, asked.groupID = forPlace.placement, forPlace.groupID
	if f.home[interfaceKind().bucket] {
		return asked, nil
	}
	return asked, f.findInterfaces(ctx, &asked)
}

// typeOr is what is told of a type; one that AWS has not is like a small one.
func (f *Front) typeOr(name string) wire.Object {
	info, known := instanceType(name)
	if !known {
		info, _ = instanceType("t3.micro")
		info["InstanceType"] = name
	}
	return info
}

// keepInstance keeps the nth instance of a request as the cluster has launched it, with network interfaces where those are
// here.
func (f *Front) keepInstance(ctx context.Context, l life, asked launch, told wire.Object, n int) (wire.Object, error) {
	id := told.Text("InstanceId")
	given := withGiven(ctx, map[string][]string{"i": {id}})
	instance := f.newInstance(given, asked, int64(n))
	instance[usesMember] = wire.Object{}
	err := f.place(ctx, asked, id)
	for i, spec := range asked.interfaces {
		if err == nil {
			err = f.launchInterface(ctx, asked, spec, instance, n*devicesOf+i)
		}
	}
	if err == nil && f.home[interfaceKind().bucket] {
		err = f.takeInterfaces(ctx, asked, instance, told)
	}
	f.takeLive(l, instance, told)
	if err == nil {
		instance, err = f.create(given, instanceKind(), asked.in, instance)
	}
	if err != nil {
		f.unmake(ctx, instance)
		f.unplace(ctx, instance)
	}
	return instance, err
}

// takeInterfaces keeps of the network interfaces that the cluster has made for an instance what that was asked for with.
func (f *Front) takeInterfaces(ctx context.Context, asked launch, instance, told wire.Object) error {
	in := hoisted(asked.in)
	subnet, err := f.Service.get(ctx, subnetKind(), in.Text("SubnetId"))
	if err != nil { // it is in no subnet that is known
		return nil
	}
	instance["SubnetId"], instance["VpcId"] = subnet.Text("SubnetId"), subnet.Text("VpcId")
	groups, err := f.groupsIn(ctx, subnet, in.Texts("SecurityGroupIds"))
	if err != nil {
		return err
	}
	instance[askedGroupsMember] = wire.List(groups...)
	if err := f.refresh(ctx, interfaceKind().bucket); err != nil {
		return err
	}
	for _, nic := range told.Objects("NetworkInterfaces") {
		id := nic.Text("NetworkInterfaceId")
		if err := f.useGroups(ctx, groups, interfaceKind().ref(id)); err != nil {
			return err
		}
		_, err := f.Store.Change(ctx, interfaceKind().bucket, id, func(o wire.Object) error {
			o["Groups"], o["Status"] = wire.List(groups...), "in-use"
			o["Attachment"] = f.attachmentTo(newID(ctx, "eni-attach"), instance.Text("InstanceId"),
				nic.Object("Attachment").Int("DeviceIndex"), "attached", true)
			if tags := asked.tags["network-interface"]; len(tags) > 0 {
				o["Tags"] = tags
			}
			delete(o, dueMember)
			delete(o, thenMember)
			return nil
		})
		if err != nil && !errors.Is(err, store.ErrNotFound) { // one that is not told of yet is met later
			return err
		}
	}
	return nil
}

// takeInstance keeps an instance that was not launched here.
func (f *Front) takeInstance(ctx context.Context, l life, told wire.Object) error {
	asked := launch{
		in:   pick(told, "ImageId", "InstanceType", "KeyName"),
		info: f.typeOr(told.Text("InstanceType")), tags: map[string][]any{"instance": {}},
		placement:   wire.Object{"AvailabilityZone": f.Region + "a", "Tenancy": "default", "GroupName": ""},
		reservation: told.Text(reservationMember),
	}
	if asked.image, _ = f.image(ctx, told.Text("ImageId")); asked.image == nil {
		asked.image = pick(told, "ImageId", "RootDeviceName", "Architecture")
	}
	if tags := told.Objects("Tags"); len(tags) > 0 {
		asked.tags["instance"] = wire.List(tags...)
	}
	given := withGiven(ctx, map[string][]string{"i": {told.Text("InstanceId")}})
	o := f.newInstance(given, asked, 0)
	for _, name := range []string{"SubnetId", "VpcId"} {
		if told.Has(name) {
			o[name] = told[name]
		}
	}
	o[usesMember] = wire.Object{}
	f.takeLive(l, o, told)
	_, err := f.keepSeen(ctx, l, o)
	return err
}

// ofCluster adds to the devices of an instance those that the cluster tells and nothing else does.
func ofCluster(o wire.Object, mappings, nics []wire.Object) (allMappings, allNICs []wire.Object) {
	if !o.Bool(homeMember) {
		return mappings, nics
	}
	for n, m := range o.Objects("BlockDeviceMappings") {
		i := slices.IndexFunc(mappings, func(own wire.Object) bool {
			return own.Object("Ebs").Text("VolumeId") == m.Object("Ebs").Text("VolumeId")
		})
		if i < 0 {
			i = len(mappings)
			mappings = append(mappings, m.Clone())
		}
		if mappings[i].Text("DeviceName") == "" {
			mappings[i]["DeviceName"] = m["DeviceName"]
		}
		if n == 0 { // hive tells the root's first
			o["RootDeviceName"] = mappings[i]["DeviceName"]
		}
	}
	for _, nic := range o.Objects("NetworkInterfaces") {
		if !slices.ContainsFunc(nics, func(own wire.Object) bool {
			return own.Text("NetworkInterfaceId") == nic.Text("NetworkInterfaceId")
		}) {
			if nic = nic.Clone(); !nic.Has("Groups") {
				nic["Groups"] = o[askedGroupsMember]
			}
			nics = append(nics, nic)
		}
	}
	return mappings, nics
}

// tellTypes tells of the types that the cluster can run, with what AWS tells of them. One that is named and that an instance
// has is told of, too, for hive tells only those that there is room for.
func (f *Front) tellTypes(ctx context.Context, action string, in wire.Object) (wire.Object, error) {
	if !f.cluster.Does("DescribeInstanceTypes") {
		return f.Service.Do(ctx, action, in)
	}
	told, err := f.cluster.Call(ctx, "DescribeInstanceTypes", wire.Object{})
	if err != nil {
		return nil, unreachable(err)
	}
	var list []wire.Object
	add := func(name string) wire.Object {
		i := slices.IndexFunc(list, func(o wire.Object) bool { return o.Text("InstanceType") == name })
		if i < 0 {
			i = len(list)
			list = append(list, f.typeOr(name))
		}
		return list[i]
	}
	for _, t := range told.Objects("InstanceTypes") {
		info := add(t.Text("InstanceType"))
		for name, v := range t {
			if _, whole := v.(wire.Object); !whole && !empty(v) {
				info[name] = v
			}
		}
		for _, part := range []string{"VCpuInfo", "MemoryInfo"} {
			for name, v := range t.Object(part) {
				info.Object(part)[name] = v
			}
		}
	}
	instances, err := f.all(ctx, instanceKind())
	if err != nil {
		return nil, err
	}
	for _, o := range instances {
		if slices.Contains(in.Texts("InstanceTypes"), o.Text("InstanceType")) {
			add(o.Text("InstanceType"))
		}
	}
	if action == "DescribeInstanceTypes" {
		return typesAmong(list, in)
	}
	return f.offeringsOf(list, in)
}
