package simhive

import (
	"slices"
	"strings"
	"time"
)

// instanceActions are those about instances. Here guests are pretended: each comes up and goes down after a time.
//
//	RunInstances            ec2run.go
//	DescribeInstances       gateway/ec2/instance/DescribeInstances.go:17, daemon/daemon_handlers_instance.go:532. An id
//	                        that there is not is no error; an id that is none neither in pre, in spx it is
//	                        InvalidInstanceID.Malformed if nothing is found. Pre honours no filter. In spx a reservation
//	                        whose instances a filter leaves out is told without them (:784). Terminated instances are
//	                        told of for an hour
//	StartInstances          gateway/ec2/instance/StartInstances.go:22: one that is not stopped is InvalidInstanceID.NotFound
//	                        (daemon_handlers_instance.go:716), whatever it is; the guest runs when the answer comes, which says
//	                        pending; InsufficientInstanceCapacity also for a type that there is not
//	StopInstances           gateway/ec2/instance/StopInstances.go:18: for one that no daemon has, stopped or unknown, the
//	                        answer is 200 and says that it runs (:57). Pending: the same in pre, where daemons listen for an
//	                        instance when its guest runs, IncorrectInstanceState in spx
//	TerminateInstances      gateway/ec2/instance/TerminateInstances.go:23: asks three times, in 3 s; then stopped ones are
//	                        terminated at once, terminated ones are told as such, and unknown ones are InternalError (500, :105)
//	RebootInstances         gateway/ec2/instance/RebootInstances.go:20
//	ModifyInstanceAttribute gateway/ec2/instance/ModifyInstanceAttribute.go:19: exactly one of InstanceType and UserData (spx:
//	                        and SourceDestCheck, which is taken and forgotten, for any id: daemon_handlers_instance.go:1283),
//	                        else InvalidParameterValue, so DisableApiTermination, too; one that is not stopped is
//	                        InvalidInstanceID.NotFound. Any type is taken
//	without ids             InternalError in pre, MissingParameter in spx
func instanceActions(era Era) map[string]ec2Action {
	console := stub
	if era == EraPre {
		console = func(c *ec2Call) item { return c.refuse("InternalError") }
	}
	return map[string]ec2Action{
		"RunInstances": runInstances, "DescribeInstances": describeInstances, "StartInstances": startInstances,
		"StopInstances": stopInstances, "TerminateInstances": terminateInstances, "RebootInstances": rebootInstances,
		"ModifyInstanceAttribute": modifyInstance, "GetConsoleOutput": console,
	}
}

// How long guests take, scaled. Real ones were not measured: nothing here depends on more than their order.
const (
	realBoot     = 5 * time.Second
	realShutdown = 5 * time.Second
	realAsking   = 3 * time.Second // of TerminateInstances, until no daemon is taken to have the instance
)

// stateItem is a state with its code (vm/state.go:28).
func stateItem(name string) item {
	codes := map[string]int{
		"pending": 0, "running": 16, "shutting-down": 32, "terminated": 48, "stopping": 64, "stopped": 80,
	}
	return item{"code": codes[name], "name": name}
}

// become is a change of an instance's state that ends in another after a while.
func (c *ec2Call) become(i item, state, then string, real time.Duration) {
	i["_state"], i["_then"] = state, then
	i["_until"] = time.Now().Add(c.g.program.settings.scaled(real)).UnixMilli()
	c.put(instances, i.text("instanceId"), i)
}

// settle ends all changes of state whose time has come.
func (c *ec2Call) settle() {
	for _, i := range c.all(instances) {
		if i.text("_then") == "" || time.Now().UnixMilli() < i.number("_until") {
			continue
		}
		i["_state"], i["_then"] = i.text("_then"), ""
		switch i.text("_state") {
		case "running":
			c.begun(i)
		case "stopped":
			c.unmount(i)
		case "terminated":
			c.ended(i, false)
		}
		c.put(instances, i.text("instanceId"), i)
	}
}

// ended takes away what goes with an instance (daemon/daemon.go:1354). One that was stopped leaves its network interface
// behind, which spx tells of as in use for ever (daemon/daemon_handlers_instance.go:799; spx :1117, seen).
func (c *ec2Call) ended(i item, stopped bool) {
	c.unmount(i)
	for _, mapping := range i.items("blockDeviceMapping") {
		id := asItem(mapping["ebs"]).text("volumeId")
		if asItem(mapping["ebs"]).flag("deleteOnTermination") && !c.hasSnapshots(id) {
			c.drop(volumes, id)
		}
	}
	if eni := i.text("_interface"); eni != "" && !stopped {
		c.drop(interfaces, eni)
	}
	if group := i.text("_placement"); group != "" {
		c.leaveGroup(group, i.text("instanceId"))
	}
}

func describeInstances(c *ec2Call) item {
	where := map[string]string{
		"instance-state-name": "instanceState.name", "instance-id": "instanceId", "instance-type": "instanceType",
		"vpc-id": "vpcId", "subnet-id": "subnetId", "tag-key": "tagSet.key", "tag-value": "tagSet.value",
	}
	filters := c.known(where)
	if !c.spx() {
		filters = nil
	}
	asked := slices.DeleteFunc(c.list("InstanceId"), func(id string) bool { return id == "" })
	reservations := map[string]item{}
	var order []item
	for _, i := range c.all(instances) {
		if len(asked) > 0 && !slices.Contains(asked, i.text("instanceId")) {
			continue
		}
		id := i.text("_reservation")
		if reservations[id] == nil {
			reservations[id] = item{"reservationId": id, "ownerId": c.account, "instancesSet": []any{}}
			order = append(order, reservations[id])
		}
		i["instanceState"] = stateItem(i.text("_state"))
		if i.text("_placement") != "" && c.heard(i) {
			i["placement"] = item{"groupName": i.text("_placement"), "availabilityZone": c.g.config.self().AZ}
		}
		if c.matches(i, where, filters) {
			list, _ := reservations[id]["instancesSet"].([]any)
			reservations[id]["instancesSet"] = append(list, i)
		}
	}
	none := func(id string) bool { return !strings.HasPrefix(id, "i-") }
	if len(order) == 0 && c.spx() && slices.ContainsFunc(asked, none) {
		return c.refuse("InvalidInstanceID.Malformed")
	}
	return item{"reservationSet": listOf(order)}
}

// askedInstances are the ids of a call about instances; none if it is refused.
func (c *ec2Call) askedInstances() []string {
	ids := c.list("InstanceId")
	if len(ids) == 0 {
		code := "InternalError"
		if c.spx() {
			code = "MissingParameter"
		}
		c.refuse(code)
	}
	return ids
}

func change(id, from, to string) item {
	return item{"instanceId": id, "previousState": stateItem(from), "currentState": stateItem(to)}
}

// heard tells whether a daemon listens for an instance.
func (c *ec2Call) heard(i item) bool {
	switch i.text("_state") {
	case "pending":
		return c.spx()
	case "running", "stopping", "shutting-down":
		return true
	}
	return false
}

func startInstances(c *ec2Call) item {
	var changes []item
	for _, id := range c.askedInstances() {
		i := c.get(instances, id)
		if i == nil || i.text("_state") != "stopped" {
			return c.refuse("InvalidInstanceID.NotFound")
		}
		if c.room(i.text("instanceType")) < 1 {
			return c.refuse("InsufficientInstanceCapacity")
		}
		i["_state"] = "running"
		c.mount(i)
		c.put(instances, id, i)
		changes = append(changes, change(id, "stopped", "pending"))
	}
	return item{"instancesSet": listOf(changes)}
}

func stopInstances(c *ec2Call) item {
	var changes []item
	for _, id := range c.askedInstances() {
		i := c.get(instances, id)
		switch {
		case i == nil || !c.heard(i):
			changes = append(changes, change(id, "running", "running"))
			continue
		case i.text("_state") != "running":
			return c.refuse("IncorrectInstanceState")
		}
		c.become(i, "stopping", "stopped", realShutdown)
		changes = append(changes, change(id, "running", "stopping"))
	}
	return item{"instancesSet": listOf(changes)}
}

func terminateInstances(c *ec2Call) item {
	var changes []item
	for _, id := range c.askedInstances() {
		i := c.get(instances, id)
		if i != nil && c.heard(i) {
			if i.text("_state") != "shutting-down" {
				c.become(i, "shutting-down", "terminated", realShutdown)
			}
			changes = append(changes, change(id, "running", "shutting-down"))
			continue
		}
		time.Sleep(c.g.program.settings.scaled(realAsking))
		switch {
		case i == nil || i.text("_state") == "pending":
			return c.refuse("InternalError")
		case i.text("_state") == "terminated":
			changes = append(changes, change(id, "terminated", "terminated"))
		default:
			i["_state"] = "terminated"
			c.ended(i, true)
			c.put(instances, id, i)
			changes = append(changes, change(id, "stopped", "shutting-down"))
		}
	}
	return item{"instancesSet": listOf(changes)}
}

func rebootInstances(c *ec2Call) item {
	for _, id := range c.askedInstances() {
		i := c.get(instances, id)
		switch {
		case i != nil && i.text("_state") == "stopped", i != nil && c.heard(i) && i.text("_state") != "running":
			return c.refuse("IncorrectInstanceState")
		case i == nil || !c.heard(i):
			return c.refuse("InvalidInstanceID.NotFound")
		}
	}
	return item{}
}

func modifyInstance(c *ec2Call) item {
	id := c.text("InstanceId")
	if !strings.HasPrefix(id, "i-") {
		return c.refuse("InvalidInstanceID.Malformed")
	}
	given := 0
	for _, name := range []string{"InstanceType", "UserData", "SourceDestCheck"} {
		if c.given(name) && (name != "SourceDestCheck" || c.spx()) {
			given++
		}
	}
	if given != 1 {
		return c.refuse("InvalidParameterValue")
	}
	if c.given("InstanceType") && c.text("InstanceType.Value") == "" {
		return c.refuse("InvalidInstanceAttributeValue")
	}
	if c.spx() && c.given("SourceDestCheck") {
		return item{}
	}
	i := c.get(instances, id)
	if i == nil || i.text("_state") != "stopped" {
		return c.refuse("InvalidInstanceID.NotFound")
	}
	if c.given("InstanceType") {
		i["instanceType"] = c.text("InstanceType.Value")
	} else {
		i["_userData"] = decoded(c.text("UserData.Value"))
	}
	c.put(instances, id, i)
	return item{}
}
