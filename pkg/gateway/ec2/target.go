package ec2

import (
	"context"
	"errors"
	"slices"

	"hive-test/pkg/gateway/wire"
)

// Instances and network interfaces as routes and addresses look them up.

// instanceOf returns the id of the instance that an interface is attached to; empty where it is to none.
func instanceOf(eni wire.Object) string {
	if attachment := eni.Object("Attachment"); attachment.Text("Status") != "detached" {
		return attachment.Text("InstanceId")
	}
	return ""
}

// hasAddress reports whether a private address is one of an interface's.
func hasAddress(eni wire.Object, private string) bool {
	return private != "" && (eni.Text("PrivateIpAddress") == private ||
		slices.ContainsFunc(eni.Objects("PrivateIpAddresses"), func(o wire.Object) bool {
			return o.Text("PrivateIpAddress") == private
		}))
}

// onlyInterface returns the network interface of an instance that has one.
func (s *Service) onlyInterface(ctx context.Context, id string) (wire.Object, error) {
	instance, err := s.get(ctx, instanceKind(), id)
	if err != nil {
		return nil, err
	}
	list, err := s.all(ctx, interfaceKind())
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(eni wire.Object) bool { return instanceOf(eni) != id })
	state := instance.Object("State").Text("Name")
	if len(list) == 0 || state == "pending" || state == "shutting-down" || state == "terminated" {
		return nil, wire.Errorf("InvalidInstanceID",
			"The %s instance '%s' is not in a valid state for this operation.", state, id)
	}
	if len(list) > 1 {
		return nil, wire.Errorf("InvalidInstanceID", "There are multiple interfaces attached to instance '%s'. "+
			"Please specify an interface ID for the operation instead.", id)
	}
	return list[0], nil
}

// isMissing reports whether an error is the kind's about an id that is not there.
func (k kind) isMissing(err error) bool {
	failure, ok := errors.AsType[*wire.Error](err)
	return ok && failure.Code == k.code
}
