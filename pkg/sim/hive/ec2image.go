package simhive

import "strings"

// imageActions are those about images (handlers/ec2/image/service_impl.go). There is one, as `admin images import` makes
// them (cmd/hive/cmd/admin.go:399), unless the settings take it away.
//
//	DescribeImages :73 an id that there is not is InvalidAMIID.NotFound (400); pre honours Owner and no filter. Images of
//	               the system belong to owner 000000000000 and to "system"; ExecutableBy is ignored
func imageActions(era Era) map[string]ec2Action {
	actions := map[string]ec2Action{"DescribeImages": describeImages, "CreateImage": stub}
	if era == EraSpx {
		for _, name := range []string{
			"CopyImage", "DeregisterImage", "DescribeImageAttribute", "ModifyImageAttribute", "RegisterImage",
			"ResetImageAttribute",
		} {
			actions[name] = stub
		}
	}
	return actions
}

// image is the one that has an id; nil if there is none.
func (c *ec2Call) image(id string) item {
	if image := c.onlyImage(); image != nil && image.text("imageId") == id {
		return image
	}
	return nil
}

func (c *ec2Call) onlyImage() item {
	if c.g.program.faults().NoImage {
		return nil
	}
	ebs := item{"volumeSize": 3, "volumeType": "gp3", "deleteOnTermination": true, "encrypted": false}
	if c.spx() {
		ebs["snapshotId"] = fixedID("snap", "image")
	}
	name := "ami-debian-12-x86_64"
	return item{
		"imageId": fixedID("ami", "image"), "name": name, "architecture": "x86_64", "platformDetails": "Linux/UNIX",
		"description":  name + " cloud image prepared for " + strings.ToUpper(c.g.program.settings.name()[:1]) + c.g.program.settings.name()[1:],
		"creationDate": "2026-03-01T00:00:00.000Z", "rootDeviceType": "ebs", "virtualizationType": "hvm",
		"imageOwnerAlias": "system", "imageOwnerId": systemAccount, "isPublic": false, "imageState": "available",
		"imageType": "machine", "hypervisor": "xen", "rootDeviceName": "/dev/sda1",
		"blockDeviceMapping": []any{item{"deviceName": "/dev/sda1", "ebs": ebs}},
	}
}

func describeImages(c *ec2Call) item {
	where := map[string]string{
		"name": "name", "state": "imageState", "architecture": "architecture", "image-id": "imageId",
		"is-public": "isPublic", "owner-id": "imageOwnerId", "description": "description", "image-type": "imageType",
		"virtualization-type": "virtualizationType", "root-device-type": "rootDeviceType",
	}
	filters := c.known(where)
	if !c.spx() {
		filters = nil
	}
	for _, id := range c.list("ImageId") {
		if !strings.HasPrefix(id, "ami-") {
			return c.refuse("InvalidAMIID.Malformed")
		}
	}
	var found []item
	if image := c.onlyImage(); image != nil && c.owned() && c.matches(image, where, filters) {
		found = append(found, image)
	}
	for _, id := range c.list("ImageId") {
		if len(found) == 0 || found[0].text("imageId") != id {
			return c.refuse("InvalidAMIID.NotFound")
		}
	}
	return item{"imagesSet": listOf(found)}
}

// owned tells whether the image is of an owner that is asked for (spx :120 takes the system's account for "system").
func (c *ec2Call) owned() bool {
	owners := c.list("Owner")
	for _, owner := range owners {
		if owner == "system" || c.spx() && owner == systemAccount {
			return true
		}
	}
	return len(owners) == 0
}
