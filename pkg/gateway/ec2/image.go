package ec2

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"hive-test/pkg/gateway/wire"
)

// amazon is the alias of the owner of stock images, and of addresses that come and go with instances.
const amazon = "amazon"

// amazonsAccount owns the stock images.
const amazonsAccount = "137112412989"

func (s *Service) imageActions() map[string]handler {
	return map[string]handler{
		"CreateImage": s.createImage, "DescribeImages": s.describeImages, "DeregisterImage": s.deregisterImage,
	}
}

// stockImages are the images that each region has. They are in no store, and their ids are the same each time.
func (s *Service) stockImages() []wire.Object {
	if s.noStock {
		return nil
	}
	return []wire.Object{
		s.stockImage("debian-12-amd64-20260101-1000", "Debian 12 (20260101-1000)", "x86_64", "/dev/xvda"),
		s.stockImage("debian-12-arm64-20260101-1000", "Debian 12 (20260101-1000)", "arm64", "/dev/xvda"),
		s.stockImage("ubuntu/images/hvm-ssd/ubuntu-jammy-22.04-amd64-server-20260101",
			"Canonical, Ubuntu, 22.04 LTS, amd64 jammy image", "x86_64", "/dev/sda1"),
		s.stockImage("ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server-20260101",
			"Canonical, Ubuntu, 24.04, amd64 noble image", "x86_64", "/dev/sda1"),
		s.stockImage("al2023-ami-2023.6.20260101.0-kernel-6.1-x86_64",
			"Amazon Linux 2023 AMI 2023.6.20260101.0 x86_64 HVM kernel-6.1", "x86_64", "/dev/xvda"),
	}
}

func (s *Service) stockImage(name, description, architecture, root string) wire.Object {
	sum := sha256.Sum256([]byte(s.Region + name))
	digits := hex.EncodeToString(sum[:])
	const rootGiB = 8
	return wire.Object{
		"ImageId": "ami-" + digits[:idDigits], "Name": name, "Description": description, "Architecture": architecture,
		"ImageLocation": "amazon/" + name, "ImageOwnerAlias": amazon, "OwnerId": amazonsAccount, "Public": true,
		"CreationDate": "2026-01-01T00:00:00.000Z", "DeprecationTime": "2036-01-01T00:00:00.000Z", "State": "available",
		"ImageType": "machine", "Hypervisor": "xen", "VirtualizationType": "hvm", "RootDeviceType": "ebs",
		"RootDeviceName": root, "EnaSupport": true, "SriovNetSupport": "simple", "PlatformDetails": "Linux/UNIX",
		"UsageOperation": "RunInstances", "BootMode": "uefi-preferred", "ProductCodes": []any{}, "Tags": []any{},
		"BlockDeviceMappings": wire.List(wire.Object{"DeviceName": root, "Ebs": wire.Object{
			"SnapshotId": "snap-" + digits[idDigits:2*idDigits], "VolumeSize": int64(rootGiB), "VolumeType": "gp3",
			"DeleteOnTermination": true, "Encrypted": false,
		}}),
	}
}

// stockSnapshot is the snapshot of a stock image's root volume.
func (s *Service) stockSnapshot(image wire.Object) wire.Object {
	ebs := image.Objects("BlockDeviceMappings")[0].Object("Ebs")
	return wire.Object{
		"SnapshotId": ebs.Text("SnapshotId"), "VolumeId": "vol-ffffffff", "VolumeSize": ebs.Int("VolumeSize"),
		"Description": image.Text("Name"), "Encrypted": false, "OwnerId": amazonsAccount, "OwnerAlias": amazon,
		"State": "completed", "Progress": "100%", "StartTime": image.Text("CreationDate"), "StorageTier": "standard",
		"Tags": []any{},
	}
}

// image returns one by its id, of the account or of stock.
func (s *Service) image(ctx context.Context, id string) (wire.Object, error) {
	for _, image := range s.stockImages() {
		if image.Text("ImageId") == id {
			return image, nil
		}
	}
	return s.get(ctx, imageKind(), id)
}

func (s *Service) images(ctx context.Context, ids []string) ([]wire.Object, error) {
	var list []wire.Object
	for _, id := range ids {
		image, err := s.image(ctx, id)
		if err != nil {
			return nil, err
		}
		list = append(list, image)
	}
	if len(ids) > 0 {
		return list, nil
	}
	own, err := s.all(ctx, imageKind())
	return append(s.stockImages(), own...), err
}

// ownedBy reports whether an image or a snapshot is of one of the owners: accounts, aliases, or self.
func (s *Service) ownedBy(o wire.Object, owners []string) bool {
	return len(owners) == 0 || slices.ContainsFunc(owners, func(owner string) bool {
		alias := orText(o, "ImageOwnerAlias", o.Text("OwnerAlias"))
		return owner == o.Text("OwnerId") || owner == "self" && o.Text("OwnerId") == s.Account || owner == alias
	})
}

func (s *Service) describeImages(ctx context.Context, in wire.Object) (wire.Object, error) {
	k := imageKind()
	match, err := filter(k.filters, in)
	if err != nil {
		return nil, err
	}
	list, err := s.images(ctx, in.Texts(k.ids))
	if err != nil {
		return nil, err
	}
	owners, users := in.Texts("Owners"), in.Texts("ExecutableUsers")
	list = slices.DeleteFunc(list, func(o wire.Object) bool {
		return !match(o) || !s.ownedBy(o, owners) || len(users) > 0 && slices.Contains(users, "all") != o.Bool("Public")
	})
	return page(k.list, list, in, k.id)
}

// createImage makes an image of an instance, with a snapshot of each of its volumes. Of two with one name that are made at
// once, the later is taken back.
func (s *Service) createImage(ctx context.Context, in wire.Object) (wire.Object, error) {
	if err := require(in, "InstanceId", "Name"); err != nil {
		return nil, err
	}
	instance, err := s.shownInstance(ctx, in.Text("InstanceId"))
	if err != nil {
		return nil, err
	}
	if state := stateOf(instance); state != "running" && state != "stopped" {
		return nil, incorrectInstance(in.Text("InstanceId"), "running")
	}
	tags, err := tagsFor(in, "image")
	if err != nil {
		return nil, err
	}
	if err := s.nameIsFree(ctx, in.Text("Name"), ""); err != nil {
		return nil, err
	}
	id := newID(ctx, "ami")
	mappings, err := s.imageVolumes(ctx, in, instance, id)
	if err != nil {
		return nil, err
	}
	image := s.imageOf(in, instance, id)
	image["Tags"], image["BlockDeviceMappings"] = tags, mappings
	if _, err := s.create(ctx, imageKind(), in, image); err != nil {
		return nil, err
	}
	if err := s.nameIsFree(ctx, in.Text("Name"), id); err != nil {
		s.forgetImage(ctx, image, true)
		return nil, err
	}
	return wire.Object{"ImageId": id}, nil
}

// imageOf is a new image of an instance.
func (s *Service) imageOf(in, instance wire.Object, id string) wire.Object {
	image := wire.Object{
		"ImageId": id, "Name": in.Text("Name"), "Description": in.Text("Description"), "OwnerId": s.Account,
		"ImageLocation": s.Account + "/" + in.Text("Name"), "Public": false, "CreationDate": stamp(s.Now()),
		"State": "pending", "ImageType": "machine", "Architecture": instance.Text("Architecture"), "Hypervisor": "xen",
		"VirtualizationType": "hvm", "RootDeviceType": "ebs", "RootDeviceName": instance.Text("RootDeviceName"),
		"EnaSupport": true, "SriovNetSupport": "simple", "PlatformDetails": "Linux/UNIX", "UsageOperation": "RunInstances",
		"ProductCodes": []any{}, "SourceInstanceId": instance.Text("InstanceId"), "BootMode": "uefi-preferred",
	}
	s.later(image, wire.Object{"State": "available"})
	return image
}

// imageVolumes makes a snapshot of each volume of an instance, which an image uses, and returns that image's mappings.
func (s *Service) imageVolumes(ctx context.Context, in, instance wire.Object, image string) ([]any, error) {
	tags, err := tagsFor(in, "snapshot")
	if err != nil {
		return nil, err
	}
	var mappings []wire.Object
	for _, m := range instance.Objects("BlockDeviceMappings") {
		volume, err := s.get(ctx, volumeKind(), m.Object("Ebs").Text("VolumeId"))
		if err != nil {
			return nil, err
		}
		description := "Created by CreateImage(" + instance.Text("InstanceId") + ") for " + image
		snapshot := s.snapshotOf(volume, newID(ctx, "snap"), description, tags)
		snapshot[usesMember] = wire.Object{imageKind().ref(image): wire.Object{"Since": s.Now().UnixMicro()}}
		if _, err := s.create(ctx, snapshotKind(), nil, snapshot); err != nil {
			return nil, err
		}
		ebs := pick(volume, "VolumeType", "Throughput", "Encrypted")
		if volumeTypes()[volume.Text("VolumeType")].iopsAsked { // other types have them by their size, and take none
			ebs["Iops"] = volume["Iops"]
		}
		ebs["SnapshotId"], ebs["VolumeSize"] = snapshot.Text("SnapshotId"), volume.Int("Size")
		ebs["DeleteOnTermination"] = m.Object("Ebs").Bool("DeleteOnTermination")
		mappings = append(mappings, wire.Object{"DeviceName": m.Text("DeviceName"), "Ebs": ebs})
	}
	return wire.List(mappings...), nil
}

// nameIsFree is an error where an image of the account has a name, and was made before the one with an id.
func (s *Service) nameIsFree(ctx context.Context, name, id string) error {
	all, err := s.all(ctx, imageKind())
	if err != nil {
		return err
	}
	for _, image := range all {
		switch {
		case image.Text("ImageId") == id:
			return nil
		case image.Text("Name") == name:
			return wire.Errorf("InvalidAMIName.Duplicate",
				"AMI name %s is already in use by AMI %s", name, image.Text("ImageId"))
		}
	}
	return nil
}

// forgetImage deletes an image, and its snapshots where asked for; else it uses them no more.
func (s *Service) forgetImage(ctx context.Context, image wire.Object, snapshots bool) []wire.Object {
	_ = s.remove(ctx, imageKind(), image.Text("ImageId"), nil)
	var results []wire.Object
	for _, m := range image.Objects("BlockDeviceMappings") {
		id := m.Object("Ebs").Text("SnapshotId")
		s.unuse(ctx, snapshotKind(), id, imageKind().ref(image.Text("ImageId")))
		if snapshots {
			code := "success"
			if _, err := s.deleteSnapshot(ctx, wire.Object{"SnapshotId": id}); err != nil {
				code = "internal-error"
			}
			results = append(results, wire.Object{"SnapshotId": id, "ReturnCode": code})
		}
	}
	return results
}

func (s *Service) deregisterImage(ctx context.Context, in wire.Object) (wire.Object, error) {
	if err := require(in, "ImageId"); err != nil {
		return nil, err
	}
	id := in.Text("ImageId")
	image, err := s.image(ctx, id)
	if err != nil {
		return nil, err
	}
	if image.Text("OwnerId") != s.Account {
		return nil, wire.Errorf("AuthFailure", "Not authorized for image:%s", id)
	}
	results := s.forgetImage(ctx, image, in.Bool("DeleteAssociatedSnapshots"))
	return wire.Object{"Return": true, "DeleteSnapshotResults": wire.List(results...)}, nil
}
