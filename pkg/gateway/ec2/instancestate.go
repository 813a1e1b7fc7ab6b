package ec2

import (
	"context"
	"slices"
	"time"

	"hive-test/pkg/gateway/wire"
)

// toldFor is how long an instance that was terminated is told of.
const toldFor = time.Hour

func (s *Service) instanceStateActions() map[string]handler {
	return map[string]handler{
		"StartInstances": s.startInstances, "StopInstances": s.stopInstances, "RebootInstances": s.rebootInstances,
		"TerminateInstances": s.terminateInstances,
		"MonitorInstances":   s.monitorInstances(true), "UnmonitorInstances": s.monitorInstances(false),
	}
}

// instanceState is a state with the code that AWS has for it.
func instanceState(name string) wire.Object {
	code := map[string]int64{
		"pending": 0, "running": 16, "shutting-down": 32, "terminated": 48, "stopping": 64, "stopped": 80,
	}[name]
	return wire.Object{"Code": code, "Name": name}
}

func stateOf(instance wire.Object) string { return instance.Object("State").Text("Name") }

// ending reports whether an instance is terminated, or is about to be.
func ending(instance wire.Object) bool {
	return stateOf(instance) == "shutting-down" || stateOf(instance) == "terminated"
}

func incorrectInstance(id, want string) error {
	return wire.Errorf("IncorrectInstanceState", "The instance '%s' is not in the '%s' state.", id, want)
}

// transition is what an action makes of an instance's state.
type transition struct {
	from    []string // states that it can be done in
	done    []string // states in which there is nothing to do
	now     string
	then    string
	verb    string // in the error of another state
	allowed func(instance wire.Object) error
	with    func(instance wire.Object) // sets what goes with it; may be nil
}

// transit does a transition of the instances of a request: of all, or where one cannot, of none.
func (s *Service) transit(ctx context.Context, in wire.Object, member string, t transition) (wire.Object, error) {
	ids := in.Texts("InstanceIds")
	if len(ids) == 0 {
		return nil, require(in, "InstanceId")
	}
	for _, id := range ids {
		o, err := s.get(ctx, instanceKind(), id)
		if err == nil {
			err = t.check(o)
		}
		if err != nil {
			return nil, err
		}
	}
	var changes []wire.Object
	for _, id := range ids {
		change := wire.Object{"InstanceId": id}
		_, err := s.change(ctx, instanceKind(), id, func(o wire.Object) error {
			if err := t.check(o); err != nil {
				return err
			}
			change["PreviousState"], change["CurrentState"] = o.Object("State"), o.Object("State")
			if slices.Contains(t.done, stateOf(o)) {
				return nil
			}
			o["State"] = instanceState(t.now)
			change["CurrentState"] = o["State"]
			s.later(o, wire.Object{"State": instanceState(t.then)})
			if t.with != nil {
				t.with(o)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		changes = append(changes, change)
	}
	return wire.Object{member: wire.List(changes...)}, nil
}

// check is an error where an instance is not in a state for a transition, or does not allow it.
func (t transition) check(o wire.Object) error {
	state := stateOf(o)
	switch {
	case slices.Contains(t.done, state):
		return nil
	case !slices.Contains(t.from, state):
		return wire.Errorf("IncorrectInstanceState",
			"The instance '%s' is not in a state from which it can be %s.", o.Text("InstanceId"), t.verb)
	case t.allowed != nil:
		return t.allowed(o)
	}
	return nil
}

// guarded is an error where an attribute of an instance forbids what is to be done with it.
func guarded(attribute, name, verb string) func(wire.Object) error {
	return func(o wire.Object) error {
		if !o.Object(attributesMember).Bool(attribute) {
			return nil
		}
		return wire.Errorf("OperationNotPermitted", "The instance '%s' may not be %s. Modify its '%s' instance attribute "+
			"and try again.", o.Text("InstanceId"), verb, name)
	}
}

func (s *Service) startInstances(ctx context.Context, in wire.Object) (wire.Object, error) {
	answer, err := s.transit(ctx, in, "StartingInstances", transition{
		from: []string{"stopped"}, done: []string{"pending", "running"}, now: "pending", then: "running", verb: "started",
		with: func(o wire.Object) {
			o["LaunchTime"], o["StateTransitionReason"] = stamp(s.Now()), ""
			delete(o, "StateReason")
		},
	})
	if err != nil {
		return nil, err
	}
	return answer, s.lend(ctx, in.Texts("InstanceIds"), func(eni wire.Object) wire.Object {
		return s.publicAddress(ctx, eni.Text("VpcId"), eni.Text("NetworkInterfaceId"))
	})
}

func (s *Service) stopInstances(ctx context.Context, in wire.Object) (wire.Object, error) {
	answer, err := s.transit(ctx, in, "StoppingInstances", transition{
		from: []string{"running"}, done: []string{"stopping", "stopped"}, now: "stopping", then: "stopped", verb: "stopped",
		allowed: guarded("DisableApiStop", "disableApiStop", "stopped"),
		with:    func(o wire.Object) { s.endedByUser(o, "Client.UserInitiatedShutdown: User initiated shutdown") },
	})
	if err != nil {
		return nil, err
	}
	return answer, s.lend(ctx, in.Texts("InstanceIds"), nil)
}

// endedByUser sets why an instance does not run.
func (s *Service) endedByUser(o wire.Object, message string) {
	o["StateTransitionReason"] = "User initiated (" + s.Now().UTC().Format("2006-01-02 15:04:05") + " GMT)"
	o["StateReason"] = wire.Object{"Code": "Client.UserInitiatedShutdown", "Message": message}
}

// lend gives the public addresses that AWS lends to instances; nil takes them away. Addresses of the account stay.
func (s *Service) lend(ctx context.Context, ids []string, address func(eni wire.Object) wire.Object) error {
	list, err := s.all(ctx, interfaceKind())
	if err != nil {
		return err
	}
	for _, eni := range list {
		own := eni.Has("Association") && eni.Object("Association").Text("IpOwnerId") != amazon
		if own || !eni.Bool(publicMember) || !slices.Contains(ids, eni.Object("Attachment").Text("InstanceId")) {
			continue
		}
		_, err := s.change(ctx, interfaceKind(), eni.Text("NetworkInterfaceId"), func(o wire.Object) error {
			delete(o, "Association")
			if address != nil {
				o["Association"] = address(o)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) rebootInstances(ctx context.Context, in wire.Object) (wire.Object, error) {
	_, err := s.transit(ctx, in, "", transition{done: []string{"running"}, verb: "rebooted"})
	return returned(), err
}

// terminateInstances ends instances. What is attached to them is deleted or let go; where a gateway has died over that, the
// same request does it again.
func (s *Service) terminateInstances(ctx context.Context, in wire.Object) (wire.Object, error) {
	answer, err := s.transit(ctx, in, "TerminatingInstances", transition{
		from: []string{"pending", "running", "stopping", "stopped"}, done: []string{"shutting-down", "terminated"},
		now: "shutting-down", then: "terminated", verb: "terminated",
		allowed: guarded("DisableApiTermination", "disableApiTermination", "terminated"),
		with: func(o wire.Object) {
			s.endedByUser(o, "Client.UserInitiatedShutdown: User initiated shutdown")
			s.later(o, wire.Object{"State": instanceState("terminated"), endedMember: true})
			o[goneMember] = s.Now().Add(max(s.Lag, 0) + toldFor).UnixMicro()
		},
	})
	if err != nil {
		return nil, err
	}
	for _, id := range in.Texts("InstanceIds") {
		if err := s.release(ctx, id); err != nil {
			return nil, err
		}
	}
	return answer, nil
}

// release lets go what is attached to an instance that ends, or deletes what ends with it, once it is terminated.
func (s *Service) release(ctx context.Context, instance string) error {
	volumes, err := s.all(ctx, volumeKind())
	if err != nil {
		return err
	}
	for _, volume := range volumes {
		for _, a := range volume.Objects("Attachments") {
			if a.Text("InstanceId") == instance && a.Text("State") != "detaching" {
				if err := s.releaseVolume(ctx, volume.Text("VolumeId"), instance, a.Bool("DeleteOnTermination")); err != nil {
					return err
				}
			}
		}
	}
	interfaces, err := s.all(ctx, interfaceKind())
	if err != nil {
		return err
	}
	for _, eni := range interfaces {
		if a := eni.Object("Attachment"); attached(eni) && a.Text("InstanceId") == instance && !eni.Has(goneMember) {
			if err := s.releaseInterface(ctx, eni); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Service) releaseVolume(ctx context.Context, id, instance string, ends bool) error {
	if !ends {
		_, err := s.leave(ctx, id, instance)
		return err
	}
	_, err := s.change(ctx, volumeKind(), id, s.goneSoon)
	return err
}

func (s *Service) releaseInterface(ctx context.Context, eni wire.Object) error {
	id, attachment := eni.Text("NetworkInterfaceId"), eni.Object("Attachment")
	if !attachment.Bool("DeleteOnTermination") {
		return s.vacate(ctx, id, attachment.Text("AttachmentId"))
	}
	_, err := s.change(ctx, interfaceKind(), id, s.goneSoon)
	return err
}

// goneSoon has a resource be gone after the lag. Deleting it then is swept up by who next tells of its kind.
func (s *Service) goneSoon(o wire.Object) error {
	if !o.Has(goneMember) {
		o[goneMember] = s.Now().Add(max(s.Lag, 0)).UnixMicro()
	}
	return nil
}

// monitorInstances switches detailed monitoring, which is told of at once as on the way.
func (s *Service) monitorInstances(enabled bool) handler {
	underWay := map[bool]string{true: "pending", false: "disabling"}[enabled]
	return func(ctx context.Context, in wire.Object) (wire.Object, error) {
		ids := in.Texts("InstanceIds")
		if len(ids) == 0 {
			return nil, require(in, "InstanceId")
		}
		for _, id := range ids {
			if _, err := s.get(ctx, instanceKind(), id); err != nil {
				return nil, err
			}
		}
		var list []wire.Object
		for _, id := range ids {
			_, err := s.change(ctx, instanceKind(), id, func(o wire.Object) error {
				o["Monitoring"] = wire.Object{"State": monitoring(enabled)}
				return nil
			})
			if err != nil {
				return nil, err
			}
			list = append(list, wire.Object{"InstanceId": id, "Monitoring": wire.Object{"State": underWay}})
		}
		return wire.Object{"InstanceMonitorings": wire.List(list...)}, nil
	}
}
