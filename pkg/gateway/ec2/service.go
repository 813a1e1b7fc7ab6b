// Package ec2 answers the actions of AWS's EC2 API from resources in a store: what AWS's Terraform provider calls, as it
// expects it (codes of errors, states, filters, tags, what a VPC brings with it). Nothing is behind the resources.
package ec2

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"

	"hive-test/pkg/gateway/store"
	"hive-test/pkg/gateway/wire"
)

// Options are what a Service is made with.
type Options struct {
	Store   *store.Store
	Region  string // like ap-southeast-2
	Account string // 12 digits
	Now     func() time.Time
	// Lag is how long a resource that is made or ended is in the state before the last: pending, shutting-down.
	Lag time.Duration
}

// Service answers actions. It is safe for concurrent use; several may share a store.
type Service struct {
	Options
	handlers map[string]handler
	byPrefix map[string]kind // all kinds, by the prefix of their ids
	noStock  bool            // images are those of a cluster alone
}

// handler does what an action asks for.
type handler func(ctx context.Context, in wire.Object) (wire.Object, error)

// New returns a service. Its store has the buckets that Kinds names.
func New(o Options) *Service {
	s := &Service{Options: o, handlers: map[string]handler{}, byPrefix: map[string]kind{}}
	for _, k := range kinds() {
		s.byPrefix[k.prefix] = k
	}
	for _, actions := range []map[string]handler{
		s.vpcActions(), s.subnetActions(), s.tagActions(),
		s.instanceActions(), s.instanceStateActions(), s.instanceAttributeActions(), s.instanceTypeActions(),
		s.volumeActions(), s.snapshotActions(), s.imageActions(), s.interfaceActions(), s.regionActions(),
		s.gatewayActions(), s.egressActions(), s.tableActions(), s.routeActions(), s.aclActions(), s.addressActions(),
		s.keyActions(), s.placementActions(), s.groupActions(), s.ruleActions(),
	} {
		maps.Copy(s.handlers, actions)
	}
	return s
}

// Actions returns the names of the actions that are answered, sorted.
func (s *Service) Actions() []string { return slices.Sorted(maps.Keys(s.handlers)) }

// Do does an action. Its error is a *wire.Error where it is the client's.
func (s *Service) Do(ctx context.Context, action string, in wire.Object) (wire.Object, error) {
	do, known := s.handlers[action]
	if !known {
		return nil, wire.Unknown(action)
	}
	if in.Bool("DryRun") {
		return nil, &wire.Error{
			Code: "DryRunOperation", Status: http.StatusPreconditionFailed,
			Message: "Request would have succeeded, but DryRun flag is set.",
		}
	}
	return do(s.Store.Begin(ctx), in)
}

// returned is the answer of actions that say nothing but that it was done.
func returned() wire.Object { return wire.Object{"Return": true} }

// require is an error where a member is not set.
func require(in wire.Object, names ...string) error {
	for _, name := range names {
		if !in.Has(name) {
			return wire.Errorf(wire.MissingParameter, "The request must contain the parameter %s", name)
		}
	}
	return nil
}

func invalid(format string, args ...any) error {
	return wire.Errorf(wire.InvalidParameterValue, format, args...)
}

// arn is the name of a resource that is the same nowhere else.
func (s *Service) arn(resource string) string {
	return "arn:aws:ec2:" + s.Region + ":" + s.Account + ":" + resource
}

// orMissing turns the store's error about an id into the kind's.
func (k kind) orMissing(err error, id string) error {
	if errors.Is(err, store.ErrNotFound) {
		return k.missingError(id)
	}
	return err
}
