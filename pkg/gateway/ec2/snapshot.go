package ec2

import (
	"context"
	"slices"

	"hive-test/pkg/gateway/wire"
)

func (s *Service) snapshotActions() map[string]handler {
	return map[string]handler{
		"CreateSnapshot": s.createSnapshot, "CopySnapshot": s.copySnapshot, "DeleteSnapshot": s.deleteSnapshot,
		"DescribeSnapshots": s.describeSnapshots,
	}
}

// snapshot returns one by its id, of the account or of a stock image.
func (s *Service) snapshot(ctx context.Context, id string) (wire.Object, error) {
	for _, image := range s.stockImages() {
		if stock := s.stockSnapshot(image); stock.Text("SnapshotId") == id {
			return stock, nil
		}
	}
	return s.get(ctx, snapshotKind(), id)
}

// snapshotOf is a new snapshot of a volume, or of a snapshot's volume.
func (s *Service) snapshotOf(from wire.Object, id, description string, tags []any) wire.Object {
	snapshot := wire.Object{
		"SnapshotId": id, "VolumeId": from.Text("VolumeId"), "VolumeSize": from.Int("VolumeSize") + from.Int("Size"),
		"Description": description, "Encrypted": from.Bool("Encrypted"), "OwnerId": s.Account, "State": "pending",
		"Progress": "0%", "StartTime": stamp(s.Now()), "StorageTier": "standard", "Tags": tags,
	}
	if from.Has("KmsKeyId") {
		snapshot["KmsKeyId"] = from["KmsKeyId"]
	}
	s.later(snapshot, wire.Object{
		"State": "completed", "Progress": "100%", "CompletionTime": stamp(s.Now().Add(max(s.Lag, 0))),
	})
	return snapshot
}

func (s *Service) createSnapshot(ctx context.Context, in wire.Object) (wire.Object, error) {
	if err := require(in, "VolumeId"); err != nil {
		return nil, err
	}
	tags, err := tagsFor(in, "snapshot")
	if err != nil {
		return nil, err
	}
	volume, err := s.get(ctx, volumeKind(), in.Text("VolumeId"))
	if err != nil {
		return nil, err
	}
	if state := volume.Text("State"); state != "available" && state != "in-use" {
		return nil, incorrectVolume(volume, "available")
	}
	return s.create(ctx, snapshotKind(), in, s.snapshotOf(volume, newID(ctx, "snap"), in.Text("Description"), tags))
}

func (s *Service) copySnapshot(ctx context.Context, in wire.Object) (wire.Object, error) {
	if err := require(in, "SourceRegion", "SourceSnapshotId"); err != nil {
		return nil, err
	}
	if region := in.Text("SourceRegion"); region != s.Region {
		return nil, invalid("Invalid region: %s", region)
	}
	tags, err := tagsFor(in, "snapshot")
	if err != nil {
		return nil, err
	}
	source, err := s.snapshot(ctx, in.Text("SourceSnapshotId"))
	if err != nil {
		return nil, err
	}
	if source.Text("State") != "completed" {
		return nil, wire.Errorf("IncorrectState", "Snapshot '%s' is not 'completed'.", source.Text("SnapshotId"))
	}
	made := s.snapshotOf(source, newID(ctx, "snap"), in.Text("Description"), tags)
	made["VolumeId"] = "vol-ffffffff" // as AWS tells of copies
	made["Encrypted"] = source.Bool("Encrypted") || in.Bool("Encrypted")
	made, err = s.create(ctx, snapshotKind(), in, made)
	return wire.Object{"SnapshotId": made.Text("SnapshotId"), "Tags": tags}, err
}

func (s *Service) deleteSnapshot(ctx context.Context, in wire.Object) (wire.Object, error) {
	if err := require(in, "SnapshotId"); err != nil {
		return nil, err
	}
	id := in.Text("SnapshotId")
	return returned(), s.remove(ctx, snapshotKind(), id, func(o wire.Object) error {
		for ref := range s.uses(ctx, o) {
			return wire.Errorf("InvalidSnapshot.InUse",
				"The snapshot %s is currently in use by %s", id, ref[len(imageKind().bucket+"/"):])
		}
		return nil
	})
}

// describeSnapshots tells of the account's snapshots; of those of stock images only to who asks for them by id or owner.
func (s *Service) describeSnapshots(ctx context.Context, in wire.Object) (wire.Object, error) {
	k := snapshotKind()
	match, err := filter(k.filters, in)
	if err != nil {
		return nil, err
	}
	list, err := s.snapshots(ctx, in.Texts(k.ids))
	if err != nil {
		return nil, err
	}
	owners := in.Texts("OwnerIds")
	if len(owners) == 0 && len(in.Texts(k.ids)) == 0 {
		owners = []string{"self"}
	}
	list = slices.DeleteFunc(list, func(o wire.Object) bool { return !match(o) || !s.ownedBy(o, owners) })
	return page(k.list, list, in, k.id)
}

func (s *Service) snapshots(ctx context.Context, ids []string) ([]wire.Object, error) {
	var list []wire.Object
	for _, id := range ids {
		snapshot, err := s.snapshot(ctx, id)
		if err != nil {
			return nil, err
		}
		list = append(list, snapshot)
	}
	if len(ids) > 0 {
		return list, nil
	}
	for _, image := range s.stockImages() {
		list = append(list, s.stockSnapshot(image))
	}
	own, err := s.all(ctx, snapshotKind())
	return append(list, own...), err
}
