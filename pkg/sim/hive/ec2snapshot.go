package simhive

import (
	"strings"
	"time"
)

func createSnapshot(c *ec2Call) item {
	if c.missing("VolumeId") {
		return nil
	}
	id := c.text("VolumeId")
	if !strings.HasPrefix(id, "vol-") {
		return c.refuse("InvalidVolumeID.Malformed")
	}
	volume := c.get(volumes, id)
	if volume == nil {
		return c.refuse("InvalidVolume.NotFound")
	}
	snapshot := item{
		"snapshotId": newID("snap"), "volumeId": id, "volumeSize": volume.number("size"), "status": "completed",
		"progress": "100%", "startTime": moment(time.Now()), "description": c.text("Description"), "encrypted": false,
		"ownerId": c.account, "tagSet": c.tags("snapshot"),
	}
	c.put(snapshots, snapshot.text("snapshotId"), snapshot)
	return snapshot
}

func describeSnapshots(c *ec2Call) item {
	for _, id := range c.list("SnapshotId") {
		if id != "" && !strings.HasPrefix(id, "snap-") {
			return c.refuse("InvalidSnapshotID.Malformed")
		}
	}
	return c.describe(described{
		kind: snapshots, id: "snapshotId", ids: "SnapshotId", set: "snapshotSet",
		filters: map[string]string{
			"snapshot-id": "snapshotId", "status": "status", "volume-id": "volumeId", "volume-size": "volumeSize",
			"owner-id": "ownerId",
		},
	})
}

// askedSnapshot is the snapshot that a call names; nil if it is refused.
func (c *ec2Call) askedSnapshot(name string) item {
	if c.missing(name) {
		return nil
	}
	if !strings.HasPrefix(c.text(name), "snap-") {
		return c.refuse("InvalidSnapshotID.Malformed")
	}
	snapshot := c.get(snapshots, c.text(name))
	if snapshot == nil {
		return c.refuse("InvalidSnapshot.NotFound")
	}
	return snapshot
}

func deleteSnapshot(c *ec2Call) item {
	snapshot := c.askedSnapshot("SnapshotId")
	if snapshot == nil {
		return nil
	}
	id := snapshot.text("snapshotId")
	for _, volume := range c.all(volumes) {
		if volume.text("snapshotId") == id {
			return c.refuse("InvalidSnapshot.InUse")
		}
	}
	c.drop(snapshots, id)
	return item{}
}

func copySnapshot(c *ec2Call) item {
	if c.text("SourceSnapshotId") != "" && c.missing("SourceRegion") {
		return nil
	}
	snapshot := c.askedSnapshot("SourceSnapshotId")
	if snapshot == nil {
		return nil
	}
	id := newID("snap")
	snapshot["snapshotId"], snapshot["startTime"] = id, moment(time.Now())
	if c.has("Description") {
		snapshot["description"] = c.text("Description")
	}
	c.put(snapshots, id, snapshot)
	return item{"snapshotId": id}
}
