package ec2

import (
	"context"
	"slices"
	"strings"

	"hive-test/pkg/gateway/wire"
)

func incorrectVolume(volume wire.Object, want string) error {
	return wire.Errorf("IncorrectState", "Volume '%s' is in the '%s' state, and not '%s'.",
		volume.Text("VolumeId"), volume.Text("State"), want)
}

// attachmentOf is a volume's attachment to an instance.
func (s *Service) attachmentOf(volume, instance, device, state string, ends bool) wire.Object {
	return wire.Object{
		"VolumeId": volume, "InstanceId": instance, "Device": device, "State": state, "AttachTime": stamp(s.Now()),
		"DeleteOnTermination": ends,
	}
}

// attachVolume attaches a volume to an instance. The device is noted in the instance before: of two that want one, one is
// refused.
func (s *Service) attachVolume(ctx context.Context, in wire.Object) (wire.Object, error) {
	if err := require(in, "VolumeId", "InstanceId", "Device"); err != nil {
		return nil, err
	}
	id, instance, device := in.Text("VolumeId"), in.Text("InstanceId"), in.Text("Device")
	volume, err := s.get(ctx, volumeKind(), id)
	if err == nil {
		err = takesAttachment(volume, instance)
	}
	if err != nil {
		return nil, err
	}
	ref := volumeKind().ref(id)
	err = s.use(ctx, instanceKind(), instance, ref, device, func(o wire.Object, uses map[string]any) error {
		return takesVolume(o, uses, device)
	})
	if err != nil {
		return nil, err
	}
	attachment := s.attachmentOf(id, instance, device, "attaching", false)
	_, err = s.change(ctx, volumeKind(), id, func(o wire.Object) error {
		if err := takesAttachment(o, instance); err != nil {
			return err
		}
		list, _ := o["Attachments"].([]any)
		o["State"], o["Attachments"] = "in-use", append(list, attachment)
		s.later(o, s.afterAttachments(o))
		return nil
	})
	if err != nil {
		s.dropDevice(ctx, instance, volumeKind(), id)
		return nil, err
	}
	if o, err := s.get(ctx, instanceKind(), instance); err != nil || ending(o) { // it was terminated meanwhile
		_, _ = s.leave(ctx, id, instance)
		return nil, incorrectInstance(instance, "running")
	}
	return attachment, nil
}

// takesAttachment is an error where a volume cannot be attached to an instance.
func takesAttachment(volume wire.Object, instance string) error {
	all := volume.Objects("Attachments")
	on := func(a wire.Object) bool { return a.Text("InstanceId") == instance }
	switch {
	case slices.ContainsFunc(all, on) || len(all) > 0 && !volume.Bool("MultiAttachEnabled"):
		return wire.Errorf("VolumeInUse", "%s is already attached to an instance", volume.Text("VolumeId"))
	case volume.Text("State") != "available" && volume.Text("State") != "in-use":
		return incorrectVolume(volume, "available")
	}
	return nil
}

// takesVolume is an error where an instance cannot have a volume as a device.
func takesVolume(instance wire.Object, uses map[string]any, device string) error {
	switch stateOf(instance) {
	case "running", "stopped", "stopping", "pending":
	default:
		return incorrectInstance(instance.Text("InstanceId"), "running")
	}
	for ref, with := range uses {
		if isRef(ref, volumeKind()) && with == device {
			return invalid("Invalid value '%s' for unixDevice. Attachment point %s is already in use", device, device)
		}
	}
	return nil
}

// isRef reports whether a ref is to a resource of a kind.
func isRef(ref string, k kind) bool { return strings.HasPrefix(ref, k.bucket+"/") }

// afterAttachments is what becomes of a volume once all that is being attached or detached is.
func (s *Service) afterAttachments(volume wire.Object) wire.Object {
	var list []wire.Object
	for _, a := range volume.Clone().Objects("Attachments") {
		if a.Text("State") != "detaching" {
			a["State"] = "attached"
			list = append(list, a)
		}
	}
	state := "in-use"
	if len(list) == 0 {
		state = "available"
	}
	return wire.Object{"State": state, "Attachments": wire.List(list...)}
}

// leave detaches a volume from an instance, and returns the attachment that ends.
func (s *Service) leave(ctx context.Context, id, instance string) (ended wire.Object, err error) {
	_, err = s.change(ctx, volumeKind(), id, func(o wire.Object) error {
		i := slices.IndexFunc(o.Objects("Attachments"), func(a wire.Object) bool { return a.Text("InstanceId") == instance })
		if i < 0 {
			return wire.Errorf("IncorrectState", "Volume '%s' is in the '%s' state.", id, o.Text("State"))
		}
		ended = o.Objects("Attachments")[i]
		ended["State"] = "detaching"
		if o.Text(partMember) == instance {
			delete(o, partMember)
		}
		s.later(o, s.afterAttachments(o))
		return nil
	})
	return ended, err
}

func (s *Service) detachVolume(ctx context.Context, in wire.Object) (wire.Object, error) {
	if err := require(in, "VolumeId"); err != nil {
		return nil, err
	}
	id := in.Text("VolumeId")
	volume, err := s.get(ctx, volumeKind(), id)
	if err != nil {
		return nil, err
	}
	all := volume.Objects("Attachments")
	if len(all) == 0 {
		return nil, wire.Errorf("IncorrectState", "Volume '%s' is in the 'available' state.", id)
	}
	instance, device := orText(in, "InstanceId", all[0].Text("InstanceId")), in.Text("Device")
	o, err := s.get(ctx, instanceKind(), instance)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(a wire.Object) bool {
		return a.Text("InstanceId") == instance && (device == "" || a.Text("Device") == device)
	})
	switch {
	case i < 0:
		return nil, wire.Errorf("InvalidAttachment.NotFound",
			"The volume '%s' is not attached to instance '%s' as device '%s'.", id, instance, device)
	case all[i].Text("Device") == o.Text("RootDeviceName") && stateOf(o) != "stopped":
		return nil, wire.Errorf("OperationNotPermitted",
			"Unable to detach root volume '%s' from instance '%s'", id, instance)
	}
	ended, err := s.leave(ctx, id, instance)
	if err != nil {
		return nil, err
	}
	s.dropDevice(ctx, instance, volumeKind(), id)
	return ended, nil
}
