package simhive

import (
	"slices"
	"strings"
	"time"
)

// volumeActions are those about volumes and snapshots (handlers/ec2/volume/service_impl.go,
// handlers/ec2/snapshot/service_impl.go, daemon/daemon_handlers_volume.go).
//
//	CreateVolume         gateway/ec2/volume/CreateVolume.go:13 needs Size (1 to 16384), even with SnapshotId, and
//	                     AvailabilityZone, else InvalidParameterValue; gp3 only; another zone than the node's is
//	                     InvalidAvailabilityZone; tags, Iops, Throughput and Encrypted are dropped: iops is 3000
//	DescribeVolumes      :228 pre honours no filter; no tags are told, for none are kept
//	ModifyVolume         :657 Size must grow (InvalidParameterValue); attached: IncorrectState; any type and Iops, 0 too,
//	                     are taken; at once "completed"
//	DeleteVolume         :745 VolumeInUse while it is attached or has snapshots
//	AttachVolume         daemon_handlers_volume.go:23 the instance must run: stopped IncorrectInstanceState, else
//	                     InvalidInstanceID.NotFound; the device that is told is the guest's (/dev/vdc), not the one that
//	                     was asked for (:235)
//	DetachVolume         :297 a Device other than the one asked for when it was attached is InvalidParameterValue; the root
//	                     is OperationNotPermitted; not attached is IncorrectState; detached when the answer comes, which
//	                     says detaching
//	DescribeVolumeStatus :285; DescribeVolumesModifications, spx only
//	CreateSnapshot       snapshot/service_impl.go:177 at once "completed"; DescribeSnapshots :300 an id that there is not
//	                     is no error, owners are not looked at; DeleteSnapshot :398; CopySnapshot :465
//
// A stopped instance's volumes are told as available and attached to nothing (daemon/daemon.go:1411).
func volumeActions(era Era) map[string]ec2Action {
	actions := map[string]ec2Action{
		"CreateVolume": createVolume, "DescribeVolumes": describeVolumes, "DescribeVolumeStatus": describeVolumeStatus,
		"ModifyVolume": modifyVolume, "DeleteVolume": deleteVolume, "AttachVolume": attachVolume,
		"DetachVolume": detachVolume, "CreateSnapshot": createSnapshot, "DescribeSnapshots": describeSnapshots,
		"DeleteSnapshot": deleteSnapshot, "CopySnapshot": copySnapshot,
	}
	if era == EraSpx {
		actions["DescribeVolumesModifications"] = describeModifications
	}
	return actions
}

// maxVolume is the largest volume that there can be, in GiB.
const maxVolume = 16384

func createVolume(c *ec2Call) item {
	size, ok := c.number("Size")
	kind := c.text("VolumeType")
	switch {
	case c.malformed:
		return nil
	case !ok || size < 1 || size > maxVolume, c.text("AvailabilityZone") == "", kind != "" && kind != "gp3":
		return c.refuse("InvalidParameterValue")
	case c.text("AvailabilityZone") != c.g.config.self().AZ:
		return c.refuse("InvalidAvailabilityZone")
	}
	volume := item{
		"volumeId": newID("vol"), "size": size, "volumeType": "gp3", "status": "available", "iops": 3000,
		"availabilityZone": c.text("AvailabilityZone"), "createTime": moment(time.Now()), "encrypted": false,
	}
	if id := c.text("SnapshotId"); id != "" {
		snapshot := c.get(snapshots, id)
		switch {
		case snapshot == nil:
			return c.refuse("InvalidSnapshot.NotFound")
		case size < snapshot.number("volumeSize"):
			return c.refuse("InvalidParameterValue")
		}
		volume["snapshotId"] = id
	}
	c.put(volumes, volume.text("volumeId"), volume)
	return volume
}

// volumeIDs are the ids of a call about volumes; false if one is none.
func (c *ec2Call) volumeIDs() bool {
	for _, id := range c.list("VolumeId") {
		if !strings.HasPrefix(id, "vol-") {
			c.refuse("InvalidVolumeID.Malformed")
			return false
		}
	}
	return true
}

func describeVolumes(c *ec2Call) item {
	if !c.volumeIDs() || c.unknown(volumes, "VolumeId", "InvalidVolume.NotFound") {
		return nil
	}
	answer := c.describe(described{
		kind: volumes, id: "volumeId", ids: "VolumeId", set: "volumeSet",
		filters: map[string]string{
			"volume-id": "volumeId", "status": "status", "size": "size", "volume-type": "volumeType",
			"attachment.instance-id": "attachmentSet.instanceId", "attachment.status": "attachmentSet.status",
			"attachment.device": "attachmentSet.device", "availability-zone": "availabilityZone",
		},
	})
	if c.spx() && len(c.list("VolumeId")) > 0 && len(c.filters()) > 0 && answer != nil && answer["volumeSet"] == nil {
		answer["volumeSet"] = []any{}
	}
	return answer
}

// unknown refuses a call that asks for an id that there is not, whatever its filters say.
func (c *ec2Call) unknown(kind, ids, code string) bool {
	for _, id := range c.list(ids) {
		if c.get(kind, id) == nil {
			c.refuse(code)
			return true
		}
	}
	return false
}

func describeVolumeStatus(c *ec2Call) item {
	if !c.volumeIDs() || c.unknown(volumes, "VolumeId", "InvalidVolume.NotFound") {
		return nil
	}
	return c.describe(described{
		kind: volumes, id: "volumeId", ids: "VolumeId", set: "volumeStatusSet",
		filters: map[string]string{
			"volume-id": "volumeId", "volume-status.status": "_health", "availability-zone": "availabilityZone",
		},
		show: func(_ *ec2Call, volume item) item {
			return item{
				"volumeId": volume["volumeId"], "availabilityZone": volume["availabilityZone"],
				"actionsSet": []any{}, "eventsSet": []any{},
				"volumeStatus": item{"status": "ok", "details": []any{
					item{"name": "io-enabled", "status": "passed"}, item{"name": "io-performance", "status": "not-applicable"},
				}},
			}
		},
	})
}

func modifyVolume(c *ec2Call) item {
	id := c.text("VolumeId")
	size, hasSize := c.number("Size")
	iops, hasIOPS := c.number("Iops")
	switch {
	case c.malformed:
		return nil
	case !strings.HasPrefix(id, "vol-"):
		return c.refuse("InvalidVolumeID.Malformed")
	case hasSize && size <= 0:
		return c.refuse("InvalidParameterValue")
	}
	volume := c.get(volumes, id)
	switch {
	case volume == nil:
		return c.refuse("InvalidVolume.NotFound")
	case hasSize && size <= volume.number("size"):
		return c.refuse("InvalidParameterValue")
	case volume.text("status") == "in-use":
		return c.refuse("IncorrectState")
	}
	done := item{
		"volumeId": id, "modificationState": "completed", "progress": 100, "startTime": moment(time.Now()),
		"endTime": moment(time.Now()),
	}
	remember := func(when string) {
		done[when+"Size"], done[when+"VolumeType"] = volume.number("size"), volume.text("volumeType")
		done[when+"Iops"] = volume.number("iops")
	}
	remember("original")
	if hasSize {
		volume["size"] = size
	}
	if c.has("VolumeType") {
		volume["volumeType"] = c.text("VolumeType")
	}
	if hasIOPS {
		volume["iops"] = iops
		if iops == 0 { // is told as none
			delete(volume, "iops")
		}
	}
	remember("target")
	c.put(volumes, id, volume)
	c.put(modifications, id, done)
	return item{"volumeModification": done}
}

func describeModifications(c *ec2Call) item {
	if !c.volumeIDs() || c.unknown(volumes, "VolumeId", "InvalidVolume.NotFound") {
		return nil
	}
	return c.describe(described{
		kind: modifications, id: "volumeId", ids: "VolumeId", set: "volumeModificationSet",
		filters: map[string]string{
			"volume-id": "volumeId", "modification-state": "modificationState", "original-iops": "originalIops",
			"original-size": "originalSize", "original-volume-type": "originalVolumeType", "start-time": "startTime",
			"target-iops": "targetIops", "target-size": "targetSize", "target-volume-type": "targetVolumeType",
		},
	})
}

func deleteVolume(c *ec2Call) item {
	id := c.text("VolumeId")
	if len(id) <= len("vol-") || !strings.HasPrefix(id, "vol-") {
		return c.refuse("InvalidVolumeID.Malformed")
	}
	volume := c.get(volumes, id)
	switch {
	case volume == nil:
		return c.refuse("InvalidVolume.NotFound")
	case volume.text("status") != "available" || c.hasSnapshots(id):
		return c.refuse("VolumeInUse")
	}
	c.drop(volumes, id)
	return item{}
}

func (c *ec2Call) hasSnapshots(volume string) bool {
	return slices.ContainsFunc(c.all(snapshots), func(s item) bool { return s.text("volumeId") == volume })
}
