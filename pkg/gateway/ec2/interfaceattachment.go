package ec2

import (
	"context"
	"time"

	"hive-test/pkg/gateway/wire"
)

// detachedFor is how long an attachment that has ended is told of, to who asks for it. The provider looks for "detached"
// each ten seconds, and gives up only after minutes where it finds nothing.
const detachedFor = 30 * time.Second

func missingAttachment(id string) error {
	return wire.Errorf("InvalidAttachmentID.NotFound", "The attachment ID '%s' does not exist", id)
}

// attachmentTo is a network interface's attachment to an instance.
func (s *Service) attachmentTo(id, instance string, index int64, status string, ends bool) wire.Object {
	return wire.Object{
		"AttachmentId": id, "InstanceId": instance, "InstanceOwnerId": s.Account, "DeviceIndex": index,
		"NetworkCardIndex": int64(0), "Status": status, "AttachTime": stamp(s.Now()), "DeleteOnTermination": ends,
	}
}

// attached reports whether a network interface has an attachment that has not ended.
func attached(eni wire.Object) bool {
	status := eni.Object("Attachment").Text("Status")
	return status != "" && status != "detached"
}

// attachInterface attaches a network interface to an instance. The device index is noted in the instance before: of two
// that want one, one is refused.
func (s *Service) attachInterface(ctx context.Context, in wire.Object) (wire.Object, error) {
	if err := require(in, "NetworkInterfaceId", "InstanceId", "DeviceIndex"); err != nil {
		return nil, err
	}
	id, instance, index := in.Text("NetworkInterfaceId"), in.Text("InstanceId"), in.Int("DeviceIndex")
	eni, err := s.get(ctx, interfaceKind(), id)
	if err != nil {
		return nil, err
	}
	if attached(eni) {
		return nil, interfaceInUse(id)
	}
	ref := interfaceKind().ref(id)
	err = s.use(ctx, instanceKind(), instance, ref, index, func(o wire.Object, uses map[string]any) error {
		return takesInterface(o, uses, index)
	})
	if err != nil {
		return nil, err
	}
	attachment := newID(ctx, "eni-attach")
	if err := s.occupy(ctx, id, s.attachmentTo(attachment, instance, index, "attaching", false)); err != nil {
		s.dropDevice(ctx, instance, interfaceKind(), id)
		return nil, err
	}
	if o, err := s.get(ctx, instanceKind(), instance); err != nil || ending(o) { // it was terminated meanwhile
		_ = s.vacate(ctx, id, attachment)
		return nil, incorrectInstance(instance, "running")
	}
	return wire.Object{"AttachmentId": attachment, "NetworkCardIndex": int64(0)}, nil
}

// takesInterface is an error where an instance cannot have a network interface at a device index.
func takesInterface(instance wire.Object, uses map[string]any, index int64) error {
	id := instance.Text("InstanceId")
	switch name := stateOf(instance); {
	case name != "running" && name != "stopped":
		return wire.Errorf("IncorrectInstanceState", "Instance '%s' is not 'running' or 'stopped'.", id)
	case !instance.Has("VpcId"):
		return wire.Errorf("InvalidParameterCombination", "Instance '%s' is not in a VPC", id)
	}
	for ref, with := range uses {
		if isRef(ref, interfaceKind()) && (wire.Object{"I": with}).Int("I") == index {
			return invalid("Instance '%s' already has an interface attached at device index '%d'.", id, index)
		}
	}
	return nil
}

func interfaceInUse(id string) error {
	return wire.Errorf("InvalidNetworkInterface.InUse", "Interface: [%s] in use.", id)
}

// occupy attaches a network interface that is available.
func (s *Service) occupy(ctx context.Context, id string, attachment wire.Object) error {
	_, err := s.change(ctx, interfaceKind(), id, func(o wire.Object) error {
		if attached(o) {
			return interfaceInUse(id)
		}
		o["Status"], o["Attachment"] = "in-use", attachment
		done := attachment.Clone()
		done["Status"] = "attached"
		s.later(o, wire.Object{"Attachment": done})
		return nil
	})
	return err
}

// vacate ends an attachment of a network interface, which is told of as detached for a while.
func (s *Service) vacate(ctx context.Context, id, attachment string) error {
	_, err := s.change(ctx, interfaceKind(), id, func(o wire.Object) error {
		if o.Object("Attachment").Text("AttachmentId") != attachment || !attached(o) {
			return missingAttachment(attachment)
		}
		ended := o.Object("Attachment").Clone()
		o.Object("Attachment")["Status"] = "detaching"
		ended["Status"] = "detached"
		delete(o, partMember)
		s.later(o, wire.Object{
			"Status": "available", "Attachment": ended, "Association": s.withoutAmazons(o),
			dueMember:  s.Now().Add(max(s.Lag, 0) + detachedFor).UnixMicro(),
			thenMember: wire.Object{"Attachment": nil},
		})
		return nil
	})
	return err
}

// withoutAmazons is a network interface's association, but none with an address that is only an instance's while it runs.
func (s *Service) withoutAmazons(eni wire.Object) any {
	if eni.Object("Association").Text("IpOwnerId") == amazon {
		return nil
	}
	return eni["Association"]
}

func (s *Service) detachInterface(ctx context.Context, in wire.Object) (wire.Object, error) {
	if err := require(in, "AttachmentId"); err != nil {
		return nil, err
	}
	id := in.Text("AttachmentId")
	list, err := s.all(ctx, interfaceKind())
	if err != nil {
		return nil, err
	}
	for _, eni := range list {
		attachment := eni.Object("Attachment")
		if attachment.Text("AttachmentId") != id || !attached(eni) {
			continue
		}
		if attachment.Int("DeviceIndex") == 0 {
			return nil, wire.Errorf("OperationNotPermitted",
				"The network interface at device index 0 cannot be detached.")
		}
		if err := s.vacate(ctx, eni.Text("NetworkInterfaceId"), id); err != nil {
			return nil, err
		}
		s.dropDevice(ctx, attachment.Text("InstanceId"), interfaceKind(), eni.Text("NetworkInterfaceId"))
		return returned(), nil
	}
	return nil, missingAttachment(id)
}

// dropDevice takes away the note that a network interface or a volume is in an instance, unless it is.
func (s *Service) dropDevice(ctx context.Context, instance string, k kind, id string) {
	_, _ = s.change(ctx, instanceKind(), instance, func(o wire.Object) error {
		device, err := s.get(ctx, k, id)
		if err == nil && inInstance(device, instance) {
			return nil
		}
		delete(o.Object(usesMember), k.ref(id))
		return nil
	})
}

// inInstance reports whether a network interface or a volume is attached to an instance, and stays so.
func inInstance(device wire.Object, instance string) bool {
	on := func(a wire.Object) bool {
		ends := a.Text("Status") == "detaching" || a.Text("Status") == "detached" || a.Text("State") == "detaching"
		return a.Text("InstanceId") == instance && !ends
	}
	if on(device.Object("Attachment")) {
		return true
	}
	for _, a := range device.Objects("Attachments") {
		if on(a) {
			return true
		}
	}
	return false
}
