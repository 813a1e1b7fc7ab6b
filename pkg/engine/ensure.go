package engine

import (
	"context"
	"errors"

	"hive-test/pkg/cluster"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/state"
)

// Ensured is what came of an Ensure.
type Ensured struct {
	// Reasons are what is not as it is wanted; none: nothing was run.
	Reasons []string
	// Runs are those that were made, in their order.
	Runs []Outcome
}

// Changed reports whether anything was run, or would be.
func (e Ensured) Changed() bool { return len(e.Reasons) > 0 }

// Ensure makes a cluster what is asked for: up and configured. It compares what is wanted with what was applied last; where
// both are the same nothing is run, and neither a hypervisor nor a node is asked. Else it does what Up and Configure do, as
// far as either is needed. With dry it only compares.
func (e *Engine) Ensure(ctx context.Context, request UpRequest, dry bool) (Ensured, error) {
	var done Ensured
	if err := checkHive(request.Settings, request.Settings.Hive.Layout); err != nil {
		return done, err
	}
	up, configure, err := e.lacking(ctx, request.Request)
	for _, reason := range []string{up, configure} {
		if reason != "" {
			done.Reasons = append(done.Reasons, reason)
		}
	}
	if err != nil || dry || !done.Changed() {
		return done, err
	}
	if up != "" {
		outcome, err := e.Up(ctx, request)
		if done.Runs = append(done.Runs, outcome); err != nil {
			return done, err
		}
	}
	outcome, err := e.Configure(ctx, ConfigureRequest{Request: request.Request})
	done.Runs = append(done.Runs, outcome)
	return done, err
}

// lacking returns why up and configure are to be run; empty: they need not.
func (e *Engine) lacking(ctx context.Context, request Request) (up, configure string, err error) {
	s, err := e.open(ctx, "ensure", request)
	if err != nil {
		return "", "", err
	}
	defer s.close()
	if err := s.atWork(); err != nil {
		return "", "", err
	}
	if err := s.catchUp(ctx); err != nil {
		return "", "", err
	}
	err = s.load()
	if errors.Is(err, state.ErrNotFound) {
		return "the cluster does not exist", "hive is not configured on it", nil
	}
	if err != nil {
		return "", "", err
	}
	if err := errors.Join(s.notBuilding(), s.sameAsAsked(ctx)); err != nil {
		return "", "", err
	}
	if err := s.change(); err != nil {
		return "", "", err
	}
	if !lifecycle.UpAsWanted(s.Record) {
		up = whyLacking(s.Record, cluster.PhaseUp, "what its VMs are to be has changed")
	}
	as, err := lifecycle.ConfiguredAsWanted(&lifecycle.Job{Record: s.Record, Hive: s.hiveOptions()})
	if err != nil {
		return "", "", err
	}
	if !as || up != "" {
		configure = whyLacking(s.Record, cluster.PhaseConfigure, "what is to be configured has changed, or only the nodes can tell what it is")
	}
	return up, configure, nil
}

// whyLacking says why a phase is to be run.
func whyLacking(r *cluster.Record, phase cluster.Phase, changed string) string {
	entry, begun := r.Phases[phase]
	switch {
	case !begun:
		return string(phase) + " was not run yet"
	case entry.Status != cluster.PhaseDone:
		return string(phase) + " did not come to a good end"
	}
	return changed
}
