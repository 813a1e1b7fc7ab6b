package ec2

import (
	"context"

	"hive-test/pkg/gateway/wire"
)

func (s *Service) volumeActions() map[string]handler {
	return map[string]handler{
		"CreateVolume": s.createVolume, "DeleteVolume": s.deleteVolume, "ModifyVolume": s.modifyVolume,
		"AttachVolume": s.attachVolume, "DetachVolume": s.detachVolume,
		"DescribeVolumes": func(ctx context.Context, in wire.Object) (wire.Object, error) {
			return s.describe(ctx, volumeKind(), in)
		},
		"DescribeVolumeStatus":         s.describeVolumeStatus,
		"DescribeVolumesModifications": s.describeModifications,
	}
}

// volumeType is what a type of volumes allows: sizes in GiB, and I/O operations per second, which may be asked for, have to
// be, or come with the size.
type volumeType struct {
	least, most           int64
	leastIops, mostIops   int64
	iopsAsked, iopsNeeded bool
	throughput            int64 // in MiB/s, that is given where none is asked for; 0: the type has none
}

func volumeTypes() map[string]volumeType {
	return map[string]volumeType{
		"gp2":      {least: 1, most: 16384, leastIops: 100, mostIops: 16000},
		"gp3":      {least: 1, most: 65536, leastIops: 3000, mostIops: 80000, iopsAsked: true, throughput: 125},
		"io1":      {least: 4, most: 16384, leastIops: 100, mostIops: 64000, iopsAsked: true, iopsNeeded: true},
		"io2":      {least: 4, most: 65536, leastIops: 100, mostIops: 256000, iopsAsked: true, iopsNeeded: true},
		"st1":      {least: 125, most: 16384},
		"sc1":      {least: 125, most: 16384},
		"standard": {least: 1, most: 1024},
	}
}

// performance sets what a volume is to have by a request, whose members are those of CreateVolume: VolumeType, Size, Iops and
// Throughput, of which 0 is none.
func performance(volume, in wire.Object) error {
	name, size := orText(in, "VolumeType", "gp2"), in.Int("Size")
	t, known := volumeTypes()[name]
	if !known {
		return invalid("Invalid value '%s' for volumeType.", name)
	}
	switch {
	case size < t.least:
		return invalid("Volume of %dGiB is too small; minimum is %dGiB.", size, t.least)
	case size > t.most:
		return invalid("Volume of %dGiB is too large for volume type %s; maximum is %dGiB.", size, name, t.most)
	}
	volume["VolumeType"], volume["Size"] = name, size
	if err := setIops(volume, t, in.Int("Iops")); err != nil {
		return err
	}
	return setThroughput(volume, t, in.Int("Throughput"))
}

func setIops(volume wire.Object, t volumeType, asked int64) error {
	name := volume.Text("VolumeType")
	switch {
	case asked != 0 && !t.iopsAsked:
		return wire.Errorf("InvalidParameterCombination", "The parameter iops is not supported for %s volumes.", name)
	case asked == 0 && t.iopsNeeded:
		return wire.Errorf(wire.MissingParameter, "The parameter iops must be specified for %s volumes.", name)
	case asked != 0 && (asked < t.leastIops || asked > t.mostIops):
		return invalid("Volume iops of %d is not supported; it must be from %d to %d for %s volumes.",
			asked, t.leastIops, t.mostIops, name)
	case asked != 0:
		volume["Iops"] = asked
	case name == "gp2":
		const perGiB = 3
		volume["Iops"] = min(max(volume.Int("Size")*perGiB, t.leastIops), t.mostIops)
	case t.iopsAsked:
		volume["Iops"] = t.leastIops
	default:
		delete(volume, "Iops")
	}
	return nil
}

func setThroughput(volume wire.Object, t volumeType, asked int64) error {
	const most = 2000
	switch {
	case asked != 0 && t.throughput == 0:
		return wire.Errorf("InvalidParameterCombination",
			"The parameter throughput is not supported for %s volumes.", volume.Text("VolumeType"))
	case asked != 0 && (asked < t.throughput || asked > most):
		return invalid("Throughput (MiBps) of %d is not supported; it must be from %d to %d.", asked, t.throughput, most)
	case t.throughput == 0:
		delete(volume, "Throughput")
	default:
		volume["Throughput"] = max(asked, t.throughput)
	}
	return nil
}

// volumeOf is a new volume by a request in CreateVolume's names. One of a snapshot has its size where none is asked for.
func (s *Service) volumeOf(ctx context.Context, id string, in wire.Object) (wire.Object, error) {
	volume := wire.Object{
		"VolumeId": id, "AvailabilityZone": s.Region + "a", "AvailabilityZoneId": zoneID(s.Region), "State": "available",
		"CreateTime": stamp(s.Now()), "Encrypted": in.Bool("Encrypted"), "MultiAttachEnabled": in.Bool("MultiAttachEnabled"),
		"Attachments": []any{}, "Tags": []any{}, "SnapshotId": in.Text("SnapshotId"),
	}
	if in.Bool("Encrypted") {
		volume["KmsKeyId"] = orText(in, "KmsKeyId", "arn:aws:kms:"+s.Region+":"+s.Account+":alias/aws/ebs")
		volume["SseType"] = "sse-kms"
	}
	if from := in.Text("SnapshotId"); from != "" {
		snapshot, err := s.snapshot(ctx, from)
		if err != nil {
			return nil, err
		}
		in = in.Clone()
		size := snapshot.Int("VolumeSize")
		switch asked := in.Int("Size"); {
		case asked == 0:
			in["Size"] = size
		case asked < size:
			return nil, wire.Errorf("InvalidBlockDeviceMapping",
				"Volume of size %dGB is smaller than snapshot '%s', expect size >= %dGB", asked, from, size)
		}
		volume["Encrypted"] = volume.Bool("Encrypted") || snapshot.Bool("Encrypted")
	} else if in.Int("Size") == 0 {
		return nil, wire.Errorf(wire.MissingParameter, "The request must contain the parameter size/snapshot")
	}
	return volume, performance(volume, in)
}

func (s *Service) createVolume(ctx context.Context, in wire.Object) (wire.Object, error) {
	zone, zoneIs := in.Text("AvailabilityZone"), in.Text("AvailabilityZoneId")
	switch {
	case zone == "" && zoneIs == "":
		return nil, require(in, "AvailabilityZone")
	case zone != "" && zone != s.Region+"a":
		return nil, wire.Errorf("InvalidZone.NotFound", "The zone '%s' does not exist.", zone)
	case zoneIs != "" && zoneIs != zoneID(s.Region):
		return nil, wire.Errorf("InvalidZone.NotFound", "The zone '%s' does not exist.", zoneIs)
	}
	tags, err := tagsFor(in, "volume")
	if err != nil {
		return nil, err
	}
	volume, err := s.volumeOf(ctx, s.idFor(ctx, "vol", in, 0), in)
	if err != nil {
		return nil, err
	}
	volume["Tags"], volume["State"] = tags, "creating"
	s.later(volume, wire.Object{"State": "available"})
	return s.create(ctx, volumeKind(), in, volume)
}

func (s *Service) deleteVolume(ctx context.Context, in wire.Object) (wire.Object, error) {
	if err := require(in, "VolumeId"); err != nil {
		return nil, err
	}
	id := in.Text("VolumeId")
	return returned(), s.remove(ctx, volumeKind(), id, func(volume wire.Object) error {
		if all := volume.Objects("Attachments"); len(all) > 0 {
			return wire.Errorf("VolumeInUse", "Volume %s is currently attached to %s", id, all[0].Text("InstanceId"))
		}
		return nil
	})
}

// changedMember holds the last modification of a volume.
const changedMember = "_modification"

// modifyVolume changes a volume's type, size or performance. It has them at once; the modification is told of as going on
// for a while.
func (s *Service) modifyVolume(ctx context.Context, in wire.Object) (wire.Object, error) {
	if err := require(in, "VolumeId"); err != nil {
		return nil, err
	}
	var modification wire.Object
	_, err := s.change(ctx, volumeKind(), in.Text("VolumeId"), func(volume wire.Object) error {
		if state := volume.Text("State"); state != "available" && state != "in-use" {
			return incorrectVolume(volume, "available")
		}
		if goingOn(s.modification(volume)) {
			return wire.Errorf("IncorrectModificationState",
				"Cannot modify volume %s: it is being modified", volume.Text("VolumeId"))
		}
		was := volume.Clone()
		if err := modified(volume, in); err != nil {
			return err
		}
		modification = wire.Object{
			"VolumeId": volume.Text("VolumeId"), "ModificationState": "modifying", "Progress": int64(0),
			"StartTime": stamp(s.Now()), startedMember: s.Now().UnixMicro(),
		}
		for _, name := range []string{"VolumeType", "Size", "Iops", "Throughput", "MultiAttachEnabled"} {
			modification["Original"+name], modification["Target"+name] = was[name], volume[name]
		}
		volume[changedMember] = modification
		return nil
	})
	return wire.Object{"VolumeModification": modification}, err
}

// modified changes a volume as ModifyVolume asks. What it does not name stays, but for what another type does not have.
func modified(volume, in wire.Object) error {
	asked := pick(volume, "VolumeType", "Size")
	if t := in.Text("VolumeType"); t == "" || t == volume.Text("VolumeType") {
		if volumeTypes()[volume.Text("VolumeType")].iopsAsked {
			asked["Iops"] = volume["Iops"]
		}
		asked["Throughput"] = volume["Throughput"]
	}
	for _, name := range []string{"VolumeType", "Size", "Iops", "Throughput"} {
		if in.Has(name) && in.Text(name) != "0" {
			asked[name] = in[name]
		}
	}
	if asked.Int("Size") < volume.Int("Size") {
		return invalid("New size cannot be smaller than existing size")
	}
	if in.Has("MultiAttachEnabled") {
		volume["MultiAttachEnabled"] = in.Bool("MultiAttachEnabled")
	}
	return performance(volume, asked)
}

// startedMember is when a modification began, in microseconds since 1970.
const startedMember = "_started"

// modification is the last one of a volume as it is by now; nil: there was none.
func (s *Service) modification(volume wire.Object) wire.Object {
	m := volume.Object(changedMember)
	end := m.Int(startedMember) + max(s.Lag, 0).Microseconds()
	if m == nil || s.Now().UnixMicro() < end {
		return m
	}
	m = m.Clone()
	m["ModificationState"], m["Progress"], m["EndTime"] = "completed", int64(100), m["StartTime"]
	return m
}

func goingOn(modification wire.Object) bool {
	return modification.Text("ModificationState") == "modifying"
}

func (s *Service) describeModifications(ctx context.Context, in wire.Object) (wire.Object, error) {
	k := volumeKind()
	k.list, k.filters = "VolumesModifications", map[string]string{
		"volume-id": "VolumeId", "modification-state": "ModificationState", "original-iops": "OriginalIops",
		"original-size": "OriginalSize", "original-volume-type": "OriginalVolumeType", "start-time": "StartTime",
		"target-iops": "TargetIops", "target-size": "TargetSize", "target-volume-type": "TargetVolumeType",
	}
	return s.describeAs(ctx, k, in, func(_ context.Context, volumes []wire.Object) (list []wire.Object, err error) {
		for _, volume := range volumes {
			m := s.modification(volume)
			switch {
			case m == nil && in.Has("VolumeIds"):
				return nil, wire.Errorf("InvalidVolumeModification.NotFound",
					"Modification for volume '%s' does not exist.", volume.Text("VolumeId"))
			case m != nil:
				list = append(list, m)
			}
		}
		return list, nil
	})
}

// describeVolumeStatus tells that all volumes are well.
func (s *Service) describeVolumeStatus(ctx context.Context, in wire.Object) (wire.Object, error) {
	k := volumeKind()
	k.list, k.filters = "VolumeStatuses", map[string]string{
		"availability-zone": "AvailabilityZone", "volume-status.status": "VolumeStatus.Status",
		"volume-status.details-name":   "VolumeStatus.Details.Name",
		"volume-status.details-status": "VolumeStatus.Details.Status",
	}
	return s.describeAs(ctx, k, in, func(_ context.Context, volumes []wire.Object) (list []wire.Object, err error) {
		for _, volume := range volumes {
			status := pick(volume, "VolumeId", "AvailabilityZone", "AvailabilityZoneId")
			status["Actions"], status["Events"] = []any{}, []any{}
			status["VolumeStatus"] = wire.Object{"Status": "ok", "Details": wire.List(
				wire.Object{"Name": "io-enabled", "Status": "passed"},
				wire.Object{"Name": "io-performance", "Status": "not-applicable"},
			)}
			list = append(list, status)
		}
		return list, nil
	})
}
