package engine

import (
	"context"
	"fmt"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/progress"
)

// Extend moves the time at which reap may delete a cluster: to at, where it is given, else to after from now, never to
// an earlier one. It returns what the cluster's VMs say now. The zero at with after 0 means never; one that is past is
// refused: the next reap would destroy the cluster.
func (e *Engine) Extend(
	ctx context.Context, request Request, after time.Duration, at time.Time,
) (cluster.Owner, error) {
	if !at.IsZero() && !at.After(time.Now()) {
		return cluster.Owner{}, usage(progress.WithHint(
			fmt.Errorf("--at %s is past: the next reap would destroy cluster %q", at.Format(time.RFC3339), request.Name),
			fmt.Sprintf("if it shall go: hive-test down %s", request.Name),
		))
	}
	return e.changeOwner(ctx, "extend", request, func(o *cluster.Owner) {
		if after <= 0 {
			o.Expires = at
			return
		}
		later := expiryAfter(time.Now(), after)
		if !o.Expires.IsZero() && later.After(o.Expires) { // without an expiry it runs for ever already
			o.Expires = later
		}
	})
}

// Hold keeps reap away from a cluster, whatever its time, or lets it have it again.
func (e *Engine) Hold(ctx context.Context, request Request, held bool) (cluster.Owner, error) {
	return e.changeOwner(ctx, "hold", request, func(o *cluster.Owner) { o.Held = held })
}

// changeOwner changes what a cluster's VMs say of its time, and returns what they say now.
func (e *Engine) changeOwner(
	ctx context.Context, verb string, request Request, change func(*cluster.Owner),
) (cluster.Owner, error) {
	s, err := e.open(ctx, verb, request)
	if err != nil {
		return cluster.Owner{}, err
	}
	defer s.close()
	root := ctx
	ctx, cancel := s.limited(ctx)
	defer cancel()
	deployer, err := s.take(ctx, s.load)
	if err != nil {
		return cluster.Owner{}, err
	}
	err = lifecycle.UpdateMetadata(ctx, s.job(root, deployer), change)
	return s.Record.Owner, err
}

// Expiry is an owner's expiry as documents have it; nil: none.
func Expiry(o cluster.Owner) *time.Time {
	if o.Expires.IsZero() {
		return nil
	}
	return &o.Expires
}
