package simhive

import (
	"cmp"
	"encoding/base64"
	"strings"
	"time"
)

// runInstances is RunInstances (gateway/ec2/instance/RunInstances.go:20, daemon/daemon_handlers_instance.go:22,
// handlers/ec2/instance/service_impl.go:206).
//
//   - MinCount, MaxCount, ImageId and InstanceType are needed, in spx KeyName, too (RunInstances.go:61); then the type
//     (InvalidInstanceType, also where it fits nowhere any more), the image (InvalidAMIID.NotFound), the key pair, room for
//     MinCount (InsufficientInstanceCapacity) and the subnet are looked for, in this order; in spx room comes after the
//     type, and a subnet that there is not is InsufficientInstanceCapacity, too (gateway/ec2/instance/placement.go:515)
//   - ClientToken is ignored: the same call again makes other instances. TagSpecification, SecurityGroupId, Placement
//     but GroupName in spx, Monitoring, CreditSpecification, EbsOptimized, UserData in pre and all else are dropped
//   - with a SubnetId (spx: or that of the first NetworkInterface, or else the default subnet's) it gets a network
//     interface, in no security group, and privateIpAddress, subnetId, vpcId and networkInterfaceSet are told; else
//     nothing of a network is. In pre that interface remains "available" and has no attachment
//   - of an instance no more is told than instanceId, instanceType, imageId, keyName, launchTime, instanceState, what is
//     of a network and, once the guest runs, blockDeviceMapping: no tagSet, groupSet, placement (but what is
//     pending or runs in a placement group, in spx), monitoring, architecture, rootDeviceName, sourceDestCheck, metadataOptions, cpuOptions
//   - only the first BlockDeviceMapping is read; the root volume is of 4 GiB unless that says otherwise, has no
//     availability zone, no device and as snapshotId the image's id (service_impl.go:146, :252)
//   - spx answers without ownerId (gateway/ec2/instance/placement.go:289)
func runInstances(c *ec2Call) item {
	low, high, ok := c.counts()
	if !ok || c.missing("ImageId", "InstanceType") {
		return nil
	}
	if c.spx() && c.missing("KeyName") {
		return nil
	}
	if !strings.HasPrefix(c.text("ImageId"), "ami-") {
		return c.refuse("InvalidAMIID.Malformed")
	}
	group, code := c.placement()
	room := c.spread(group, c.room(c.text("InstanceType")))
	switch {
	case code != "":
		return c.refuse(code)
	case group != "" && room < low:
		return c.refuse("InsufficientInstanceCapacity")
	case room < 1:
		return c.refuse("InvalidInstanceType")
	case room < low && c.spx():
		return c.refuse("InsufficientInstanceCapacity")
	case c.image(c.text("ImageId")) == nil:
		return c.refuse("InvalidAMIID.NotFound")
	case c.text("KeyName") != "" && c.keyNamed(c.text("KeyName")) == nil:
		return c.refuse("InvalidKeyPair.NotFound")
	case room < low:
		return c.refuse("InsufficientInstanceCapacity")
	case c.spx() && c.subnetAsked() != "" && c.get(subnets, c.subnetAsked()) == nil:
		return c.refuse("InsufficientInstanceCapacity")
	}
	reservation := item{"reservationId": newID("r")}
	if !c.spx() {
		reservation["ownerId"] = c.account
	}
	var made []any
	for range min(high, room) {
		i := c.newInstance(reservation.text("reservationId"), group)
		if i == nil {
			return nil
		}
		i["instanceState"] = stateItem("pending")
		made = append(made, i)
	}
	reservation["instancesSet"] = made
	return reservation
}

// room is how many more instances of a type fit into the nodes.
func (c *ec2Call) room(kind string) int64 {
	cpus := map[string]int{}
	for _, t := range instanceTypes() {
		cpus[t.Name] = t.VCPUs
	}
	if cpus[kind] == 0 {
		return 0
	}
	var fit, taken int
	for _, node := range c.g.nodeTypes() {
		fit += node.Free / cpus[kind]
	}
	for _, i := range c.all(instances) {
		if state := i.text("_state"); state != "stopped" && state != "terminated" {
			taken += cpus[i.text("instanceType")]
		}
	}
	return int64(fit - (taken+cpus[kind]-1)/cpus[kind])
}

// counts are MinCount and MaxCount.
func (c *ec2Call) counts() (low, high int64, ok bool) {
	low, hasLow := c.number("MinCount")
	high, hasHigh := c.number("MaxCount")
	switch {
	case c.malformed:
		c.refuse("InternalError")
	case !hasLow || low != 0 && !hasHigh:
		c.refuse("MissingParameter")
	case low == 0 || high == 0 || low > high:
		c.refuse("InvalidParameterValue")
	default:
		return low, high, true
	}
	return 0, 0, false
}

// subnetAsked is the subnet that an instance is to be in; empty if it is to be in none.
func (c *ec2Call) subnetAsked() string {
	id := c.text("SubnetId")
	if id != "" || !c.spx() {
		return id
	}
	if nics := c.each("NetworkInterface"); len(nics) > 0 && nics[0].text("SubnetId") != "" {
		return nics[0].text("SubnetId")
	}
	for _, subnet := range c.all(subnets) {
		if subnet.flag("defaultForAz") {
			return subnet.text("subnetId")
		}
	}
	return ""
}

func (c *ec2Call) newInstance(reservation, group string) item {
	i := item{
		"instanceId": newID("i"), "instanceType": c.text("InstanceType"), "imageId": c.text("ImageId"),
		"launchTime": moment(time.Now()), "_reservation": reservation, "_placement": group,
		"_cloudInit": c.text("KeyName") != "" || c.text("UserData") != "",
	}
	if c.has("KeyName") {
		i["keyName"] = c.text("KeyName")
	}
	if subnet := c.subnetAsked(); subnet != "" {
		eni := c.newInterface(subnet, "", "Primary network interface for "+i.text("instanceId"), nil)
		if eni == nil {
			return nil
		}
		c.connect(i, eni)
	}
	if group != "" {
		c.joinGroup(group, i.text("instanceId"))
	}
	i["_root"] = c.rootAsked()
	c.become(i, "pending", "running", realBoot)
	return i
}

// connect tells of an instance's interface with it.
func (c *ec2Call) connect(i, eni item) {
	i["_interface"] = eni.text("networkInterfaceId")
	for _, name := range []string{"privateIpAddress", "subnetId", "vpcId"} {
		i[name] = eni[name]
	}
	nic := item{"status": "in-use", "attachment": item{"deviceIndex": 0, "status": "attached"}}
	for _, name := range []string{"networkInterfaceId", "privateIpAddress", "macAddress", "subnetId", "vpcId"} {
		nic[name] = eni[name]
	}
	i["networkInterfaceSet"] = []any{nic}
	if !c.spx() {
		return
	}
	c.attachTo(eni, i.text("instanceId"))
	if public := c.automaticAddress(eni); public != "" {
		i["ipAddress"] = public
	}
}

// rootAsked is what is asked for of the root volume.
func (c *ec2Call) rootAsked() item {
	root := item{"volumeId": newID("vol"), "size": 4, "volumeType": "gp3", "deleteOnTermination": true}
	mappings := c.each("BlockDeviceMapping")
	if len(mappings) == 0 {
		return root
	}
	first := mappings[0]
	if size, ok := first.number("Ebs.VolumeSize"); ok {
		root["size"] = size
	}
	if iops, ok := first.number("Ebs.Iops"); ok {
		root["iops"] = iops
	}
	if keep, ok := first.flag("Ebs.DeleteOnTermination"); ok {
		root["deleteOnTermination"] = keep
	}
	root["volumeType"] = cmp.Or(first.text("Ebs.VolumeType"), "gp3")
	c.malformed = c.malformed || first.malformed
	return root
}

// begun is when an instance's guest runs for the first time.
func (c *ec2Call) begun(i item) {
	root := asItem(i["_root"])
	volume := item{
		"volumeId": root.text("volumeId"), "size": root["size"], "volumeType": root.text("volumeType"),
		"availabilityZone": "", "createTime": moment(time.Now()), "encrypted": false, "snapshotId": i.text("imageId"),
		"iops": root["iops"], "_deleteOnTermination": root.flag("deleteOnTermination"),
	}
	c.put(volumes, volume.text("volumeId"), volume)
	i["blockDeviceMapping"] = []any{item{
		"deviceName": "/dev/vda", "ebs": item{
			"volumeId": volume.text("volumeId"), "attachTime": moment(time.Now()), "status": "attached",
			"deleteOnTermination": root.flag("deleteOnTermination"),
		},
	}}
	c.mount(i)
}

// decoded is what a parameter in base64 says.
func decoded(text string) string {
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil {
		return text
	}
	return string(raw)
}
