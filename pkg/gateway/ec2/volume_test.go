package ec2_test

import (
	"fmt"
	"maps"
	"testing"

	"hive-test/pkg/gateway/wire"
)

const zone = "ap-southeast-2a"

func (a *account) volume(id string) wire.Object {
	a.t.Helper()
	return a.must("DescribeVolumes", ids("VolumeIds", id)).Objects("Volumes")[0]
}

// newVolume makes a volume and returns its id.
func (a *account) newVolume(more wire.Object) string {
	a.t.Helper()
	in := wire.Object{"AvailabilityZone": zone, "Size": 8}
	for name, v := range more {
		in[name] = v
	}
	return a.must("CreateVolume", in).Text("VolumeId")
}

func TestVolumes(t *testing.T) {
	a := newAccount(t, lag)
	id := a.newVolume(wire.Object{"Size": 200, "TagSpecifications": wire.List(
		wire.Object{"ResourceType": "volume", "Tags": wire.List(wire.Object{"Key": "Name", "Value": "data"})})})
	if v := a.volume(id); v.Text("State") != "creating" || v.Text("VolumeType") != "gp2" || v.Int("Iops") != 600 {
		t.Errorf("made: %v", v)
	}
	a.pass(lag)
	a.found("DescribeVolumes", "Volumes", map[string]string{
		"status": "available", "volume-id": id, "size": "200", "tag:Name": "data", "volume-type": "gp2",
		"availability-zone": zone, "encrypted": "false",
	}, 1)
	a.found("DescribeVolumes", "Volumes", map[string]string{"status": "in-use", "attachment.instance-id": "*"}, 0)
	a.refused("InvalidParameterValue", "ModifyVolume", wire.Object{"VolumeId": id, "Size": 100})
	a.refused("InvalidVolumeModification.NotFound", "DescribeVolumesModifications", ids("VolumeIds", id))
	change := a.must("ModifyVolume", wire.Object{"VolumeId": id, "VolumeType": "gp3", "Iops": 0, "Size": 300})
	if m := change.Object("VolumeModification"); m.Text("OriginalVolumeType") != "gp2" || m.Int("TargetIops") != 3000 {
		t.Errorf("modification: %v", m)
	}
	a.refused("IncorrectModificationState", "ModifyVolume", wire.Object{"VolumeId": id, "Size": 400})
	a.pass(lag)
	if v := a.volume(id); v.Text("VolumeType") != "gp3" || v.Int("Size") != 300 || v.Int("Throughput") != 125 {
		t.Errorf("modified: %v", v)
	}
	m := a.must("DescribeVolumesModifications", ids("VolumeIds", id)).Objects("VolumesModifications")
	if len(m) != 1 || m[0].Text("ModificationState") != "completed" {
		t.Errorf("modifications: %v", m)
	}
	status := a.must("DescribeVolumeStatus", ids("VolumeIds", id)).Objects("VolumeStatuses")
	if len(status) != 1 || status[0].Object("VolumeStatus").Text("Status") != "ok" {
		t.Errorf("status: %v", status)
	}
	a.must("DeleteVolume", wire.Object{"VolumeId": id})
	for _, action := range []string{"DeleteVolume", "ModifyVolume", "DetachVolume", "CreateSnapshot"} {
		a.refused("InvalidVolume.NotFound", action, wire.Object{"VolumeId": id})
		a.refused("MissingParameter", action, wire.Object{})
	}
	a.refused("InvalidVolume.NotFound", "DescribeVolumes", ids("VolumeIds", id))
}

func TestCreateVolumeRefuses(t *testing.T) {
	a := newAccount(t, 0)
	for _, c := range []struct {
		code string
		in   wire.Object
	}{
		{"MissingParameter", wire.Object{"Size": 1}},
		{"MissingParameter", wire.Object{"AvailabilityZone": zone}},
		{"InvalidZone.NotFound", wire.Object{"AvailabilityZone": "us-east-1a", "Size": 1}},
		{"InvalidParameterValue", wire.Object{"AvailabilityZone": zone, "Size": 1, "VolumeType": "gp9"}},
		{"InvalidParameterValue", wire.Object{"AvailabilityZone": zone, "Size": 20000}},
		{"InvalidParameterValue", wire.Object{"AvailabilityZone": zone, "Size": 1, "VolumeType": "st1"}},
		{"InvalidParameterCombination", wire.Object{"AvailabilityZone": zone, "Size": 1, "Iops": 100}},
		{"InvalidParameterCombination", wire.Object{"AvailabilityZone": zone, "Size": 1, "Throughput": 125}},
		{"MissingParameter", wire.Object{"AvailabilityZone": zone, "Size": 4, "VolumeType": "io1"}},
		{"InvalidParameterValue", wire.Object{"AvailabilityZone": zone, "Size": 4, "VolumeType": "gp3", "Iops": 5}},
		{"InvalidSnapshot.NotFound", wire.Object{"AvailabilityZone": zone, "SnapshotId": "snap-00000000000000000"}},
	} {
		a.refused(c.code, "CreateVolume", c.in)
	}
	token := wire.Object{"AvailabilityZone": zone, "Size": 1, "ClientToken": "once"}
	once := a.must("CreateVolume", token).Text("VolumeId")
	if again := a.must("CreateVolume", token).Text("VolumeId"); again != once {
		t.Error("one token makes two volumes")
	}
}

func TestVolumeAttachment(t *testing.T) {
	a := newAccount(t, lag)
	instance := a.run("", nil).Text("InstanceId")
	id, second := a.newVolume(nil), a.newVolume(nil)
	attach := func(id, device string) wire.Object {
		return wire.Object{"VolumeId": id, "InstanceId": instance, "Device": device}
	}
	a.refused("IncorrectState", "AttachVolume", attach(id, "/dev/sdf"))
	a.pass(lag)
	if made := a.must("AttachVolume", attach(id, "/dev/sdf")); made.Text("State") != "attaching" {
		t.Errorf("attachment: %v", made)
	}
	a.pass(lag)
	filters := wire.Object{"Filters": wire.List(
		wire.Object{"Name": "attachment.device", "Values": wire.Strings("/dev/sdf")},
		wire.Object{"Name": "attachment.instance-id", "Values": wire.Strings(instance)})}
	all := a.must("DescribeVolumes", filters).Objects("Volumes")
	if len(all) != 1 || all[0].Objects("Attachments")[0].Text("State") != "attached" || all[0].Text("State") != "in-use" {
		t.Fatalf("attached: %v", all)
	}
	if m := a.instance(instance).Objects("BlockDeviceMappings"); len(m) != 2 || m[1].Object("Ebs").Text("VolumeId") != id {
		t.Errorf("mappings: %v", m)
	}
	root := a.instance(instance).Objects("BlockDeviceMappings")[0].Object("Ebs").Text("VolumeId")
	for code, in := range map[string]wire.Object{
		"VolumeInUse":                attach(id, "/dev/sdg"),
		"InvalidParameterValue":      attach(second, "/dev/sdf"),
		"InvalidInstanceID.NotFound": {"VolumeId": second, "InstanceId": "i-00000000000000000", "Device": "/dev/sdg"},
		"InvalidVolume.NotFound":     attach("vol-00000000000000000", "/dev/sdg"),
		"MissingParameter":           {"VolumeId": second, "InstanceId": instance},
	} {
		a.refused(code, "AttachVolume", in)
	}
	a.refused("VolumeInUse", "DeleteVolume", wire.Object{"VolumeId": id})
	a.refused("OperationNotPermitted", "DetachVolume", wire.Object{"VolumeId": root})
	a.refused("IncorrectState", "DetachVolume", wire.Object{"VolumeId": second})
	a.refused("InvalidAttachment.NotFound", "DetachVolume", attach(id, "/dev/sdz"))
	if ended := a.must("DetachVolume", attach(id, "/dev/sdf")); ended.Text("State") != "detaching" {
		t.Errorf("detaching: %v", ended)
	}
	a.pass(lag)
	if n := a.count("DescribeVolumes", "Volumes", filters); n != 0 || a.volume(id).Text("State") != "available" {
		t.Errorf("detached: %v", a.volume(id))
	}
	a.must("AttachVolume", attach(second, "/dev/sdf"))
	a.pass(lag)
	a.must("TerminateInstances", ids("InstanceIds", instance))
	a.pass(lag)
	if v := a.volume(second); v.Text("State") != "available" {
		t.Errorf("a volume that its instance leaves: %v", v)
	}
	a.refused("InvalidVolume.NotFound", "DescribeVolumes", ids("VolumeIds", root))
	a.refused("IncorrectInstanceState", "AttachVolume", attach(id, "/dev/sdf"))
}

// Of many that want a volume, or a device, one gets it.
func TestAttachVolumesAtOnce(t *testing.T) {
	a := newAccount(t, 0)
	instances := []string{a.run("", nil).Text("InstanceId"), a.run("", nil).Text("InstanceId")}
	id := a.newVolume(nil)
	attach := func(volume, instance, device string) error {
		_, err := a.try("AttachVolume", wire.Object{"VolumeId": volume, "InstanceId": instance, "Device": device})
		return err
	}
	if n := atOnce(8, func(i int) error { return attach(id, instances[i%2], "/dev/sdf") }); n != 1 {
		t.Errorf("a volume was attached %d times", n)
	}
	var more []string
	for range 8 {
		more = append(more, a.newVolume(nil))
	}
	if n := atOnce(8, func(i int) error { return attach(more[i], instances[0], "/dev/sdg") }); n != 1 {
		t.Errorf("%d volumes are one device", n)
	}
}

func TestSnapshots(t *testing.T) {
	a := newAccount(t, lag)
	volume := a.newVolume(nil)
	a.pass(lag)
	made := a.must("CreateSnapshot", wire.Object{"VolumeId": volume, "Description": "nightly"})
	id := made.Text("SnapshotId")
	if made.Text("State") != "pending" || made.Int("VolumeSize") != 8 {
		t.Errorf("made: %v", made)
	}
	a.refused("IncorrectState", "CopySnapshot", wire.Object{"SourceRegion": "ap-southeast-2", "SourceSnapshotId": id})
	a.pass(lag)
	a.found("DescribeSnapshots", "Snapshots", map[string]string{
		"status": "completed", "volume-id": volume, "snapshot-id": id, "description": "night*", "owner-id": "000000000000",
	}, 1)
	if n := a.count("DescribeSnapshots", "Snapshots", wire.Object{"OwnerIds": wire.Strings("self")}); n != 1 {
		t.Errorf("%d snapshots are the account's", n)
	}
	copied := a.must("CopySnapshot", wire.Object{"SourceRegion": "ap-southeast-2", "SourceSnapshotId": id}).Text("SnapshotId")
	a.refused("InvalidParameterValue", "CopySnapshot", wire.Object{"SourceRegion": "mars", "SourceSnapshotId": id})
	if v := a.volume(a.newVolume(wire.Object{"SnapshotId": id, "Size": nil})); v.Int("Size") != 8 || v.Text("SnapshotId") != id {
		t.Errorf("volume of a snapshot: %v", v)
	}
	for _, s := range []string{id, copied} {
		a.must("DeleteSnapshot", wire.Object{"SnapshotId": s})
		a.refused("InvalidSnapshot.NotFound", "DeleteSnapshot", wire.Object{"SnapshotId": s})
		a.refused("InvalidSnapshot.NotFound", "DescribeSnapshots", ids("SnapshotIds", s))
	}
	a.must("DeleteVolume", wire.Object{"VolumeId": volume})
}

func TestImages(t *testing.T) {
	a := newAccount(t, lag)
	instance := a.run("", nil).Text("InstanceId")
	in := wire.Object{"InstanceId": instance, "Name": "golden"}
	id := a.must("CreateImage", in).Text("ImageId")
	a.refused("InvalidAMIName.Duplicate", "CreateImage", in)
	a.refused("InvalidAMIID.Unavailable", "RunInstances", a.asked("", wire.Object{"ImageId": id}))
	a.pass(lag)
	a.found("DescribeImages", "Images", map[string]string{"name": "gold*", "image-id": id, "is-public": "false"}, 1)
	if n := a.count("DescribeImages", "Images", wire.Object{"Owners": wire.Strings("self")}); n != 1 {
		t.Errorf("%d images are the account's", n)
	}
	image := a.must("DescribeImages", ids("ImageIds", id)).Objects("Images")[0]
	snapshot := image.Objects("BlockDeviceMappings")[0].Object("Ebs").Text("SnapshotId")
	a.refused("InvalidSnapshot.InUse", "DeleteSnapshot", wire.Object{"SnapshotId": snapshot})
	a.run("", wire.Object{"ImageId": id})
	a.must("DeregisterImage", wire.Object{"ImageId": id})
	a.refused("InvalidAMIID.NotFound", "DescribeImages", ids("ImageIds", id))
	a.refused("InvalidAMIID.NotFound", "DeregisterImage", wire.Object{"ImageId": id})
	a.refused("AuthFailure", "DeregisterImage", wire.Object{"ImageId": a.ami()})
	a.must("DeleteSnapshot", wire.Object{"SnapshotId": snapshot})
	if n := atOnce(4, func(int) error { _, err := a.try("CreateImage", in); return err }); n != 1 {
		t.Errorf("%d images of one name", n)
	}
	if n := a.count("DescribeSnapshots", "Snapshots", wire.Object{"OwnerIds": wire.Strings("self")}); n != 1 {
		t.Errorf("%d snapshots of one image", n)
	}
}

// An instance of an image has volumes like those that the image was made of, whatever their types.
func TestImageOfAllVolumeTypes(t *testing.T) {
	a := newAccount(t, lag)
	var volumes []wire.Object
	for i, ebs := range []wire.Object{
		{"VolumeType": "gp2", "VolumeSize": 8},
		{"VolumeType": "gp3", "VolumeSize": 8, "Iops": 4000, "Throughput": 250},
		{"VolumeType": "io1", "VolumeSize": 8, "Iops": 200},
		{"VolumeType": "io2", "VolumeSize": 8, "Iops": 300},
		{"VolumeType": "st1", "VolumeSize": 125},
		{"VolumeType": "sc1", "VolumeSize": 125},
		{"VolumeType": "standard", "VolumeSize": 1},
	} {
		volumes = append(volumes, wire.Object{"DeviceName": "/dev/sd" + string(rune('f'+i)), "Ebs": ebs})
	}
	first := a.run("", wire.Object{"BlockDeviceMappings": wire.List(volumes...)}).Text("InstanceId")
	image := a.must("CreateImage", wire.Object{"InstanceId": first, "Name": "all"}).Text("ImageId")
	a.pass(lag)
	second := a.run("", wire.Object{"ImageId": image}).Text("InstanceId")
	performance := func(instance string) map[string]string {
		by := map[string]string{}
		for _, v := range a.must("DescribeVolumes", with("attachment.instance-id", instance)).Objects("Volumes") {
			by[v.Objects("Attachments")[0].Text("Device")] = fmt.Sprint(
				v["VolumeType"], v["Size"], v["Iops"], v["Throughput"])
		}
		return by
	}
	if want, got := performance(first), performance(second); len(got) != 8 || !maps.Equal(want, got) {
		t.Errorf("volumes of an image's instance: %v, want %v", got, want)
	}
}
