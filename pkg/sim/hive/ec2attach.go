package simhive

import (
	"slices"
	"strings"
	"time"
)

// hold tells a volume as attached to an instance.
func (c *ec2Call) hold(volume item, instance, device string, ends bool) {
	volume["status"] = "in-use"
	volume["attachmentSet"] = []any{item{
		"volumeId": volume.text("volumeId"), "instanceId": instance, "device": device, "status": "attached",
		"attachTime": moment(time.Now()), "deleteOnTermination": ends,
	}}
	c.put(volumes, volume.text("volumeId"), volume)
}

// release tells a volume as attached to nothing.
func (c *ec2Call) release(id string) {
	volume := c.get(volumes, id)
	if volume == nil {
		return
	}
	volume["status"] = "available"
	delete(volume, "attachmentSet")
	c.put(volumes, id, volume)
}

// mount tells the root volume of an instance whose guest runs as in use, without a device; others are not told so when
// an instance is started again (daemon/daemon.go:1713).
func (c *ec2Call) mount(i item) {
	if volume := c.get(volumes, asItem(i["_root"]).text("volumeId")); volume != nil {
		c.hold(volume, i.text("instanceId"), "", volume.flag("_deleteOnTermination"))
	}
}

// unmount tells all volumes of an instance as available.
func (c *ec2Call) unmount(i item) {
	for _, mapping := range i.items("blockDeviceMapping") {
		c.release(asItem(mapping["ebs"]).text("volumeId"))
	}
}

// mappingsWithout are the devices of an instance but that of a volume.
func mappingsWithout(i item, volume string) []any {
	return slices.DeleteFunc(present(i.items("blockDeviceMapping")), func(v any) bool {
		return asItem(asItem(v)["ebs"]).text("volumeId") == volume
	})
}

func attachVolume(c *ec2Call) item {
	id, instance := c.text("VolumeId"), c.text("InstanceId")
	if id == "" || instance == "" {
		return c.refuse("InvalidParameterValue")
	}
	i, volume := c.get(instances, instance), c.get(volumes, id)
	switch {
	case i != nil && i.text("_state") == "stopped", i != nil && c.heard(i) && i.text("_state") != "running":
		return c.refuse("IncorrectInstanceState")
	case i == nil || !c.heard(i):
		return c.refuse("InvalidInstanceID.NotFound")
	case volume == nil:
		return c.refuse("InvalidVolume.NotFound")
	case volume.text("status") != "available":
		return c.refuse("VolumeInUse")
	case volume.text("availabilityZone") != "" && volume.text("availabilityZone") != c.g.config.self().AZ:
		return c.refuse("InvalidVolume.ZoneMismatch")
	}
	asked := c.text("Device")
	if asked == "" {
		if asked = freeDevice(i); asked == "" {
			return c.refuse("AttachmentLimitExceeded")
		}
	}
	device := guestDevice(i)
	i["blockDeviceMapping"] = append(present(i.items("blockDeviceMapping")), item{
		"deviceName": device, "_asked": asked, "ebs": item{
			"volumeId": id, "attachTime": moment(time.Now()), "status": "attached", "deleteOnTermination": false,
		},
	})
	c.put(instances, instance, i)
	c.hold(volume, instance, device, volume.flag("_deleteOnTermination"))
	return attachment(id, instance, device, "attached")
}

func attachment(volume, instance, device, state string) item {
	return item{
		"volumeId": volume, "instanceId": instance, "device": device, "status": state,
		"attachTime": moment(time.Now()), "deleteOnTermination": false,
	}
}

// freeDevice is the first of /dev/sdf to /dev/sdp that was not asked for; empty if all were.
func freeDevice(i item) string {
	for letter := 'f'; letter <= 'p'; letter++ {
		device := "/dev/sd" + string(letter)
		if !slices.Contains(i.at("blockDeviceMapping._asked"), device) {
			return device
		}
	}
	return ""
}

// guestDevice is what the guest calls the next volume: its disks are in order the root, what cloud-init reads, if there
// is something, and those that were attached since.
func guestDevice(i item) string {
	letter := 'b'
	if i.flag("_cloudInit") {
		letter++
	}
	taken := i.at("blockDeviceMapping.deviceName")
	for slices.Contains(taken, "/dev/vd"+string(letter)) {
		letter++
	}
	return "/dev/vd" + string(letter)
}

func detachVolume(c *ec2Call) item {
	id := c.text("VolumeId")
	if id == "" {
		return c.refuse("InvalidParameterValue")
	}
	instance := c.text("InstanceId")
	if instance == "" {
		volume := c.get(volumes, id)
		if volume == nil {
			return c.refuse("InvalidVolume.NotFound")
		}
		if instance = strings.Join(volume.at("attachmentSet.instanceId"), ""); instance == "" {
			return c.refuse("IncorrectState")
		}
	}
	i := c.get(instances, instance)
	if i == nil || !c.heard(i) {
		return c.refuse("InvalidInstanceID.NotFound")
	}
	if i.text("_state") != "running" {
		return c.refuse("IncorrectInstanceState")
	}
	if asItem(i["_root"]).text("volumeId") == id {
		return c.refuse("OperationNotPermitted")
	}
	for _, mapping := range i.items("blockDeviceMapping") {
		if asItem(mapping["ebs"]).text("volumeId") != id {
			continue
		}
		asked := mapping.text("_asked")
		if device := c.text("Device"); device != "" && device != asked {
			return c.refuse("InvalidParameterValue")
		}
		i["blockDeviceMapping"] = mappingsWithout(i, id)
		c.put(instances, instance, i)
		c.release(id)
		return attachment(id, instance, asked, "detaching")
	}
	return c.refuse("IncorrectState")
}
