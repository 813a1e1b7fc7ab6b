package proxmox

import (
	"context"
	"errors"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy/proxmox/api"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/progress"
)

// Heartbeat tells other machines, on Proxmox VE, that a run lives. The zero value tells nobody.
type Heartbeat struct {
	beat  *api.Heartbeat
	fleet *Fleet
}

// StartHeartbeat begins to tell that the run of the mark lives. It takes no time of the run: before VMs are asked for, Claim
// waits until the mark is there.
func (f *Fleet) StartHeartbeat(ctx context.Context, mark api.RunMark, sink progress.Sink) Heartbeat {
	f.beat = api.StartHeartbeat(ctx, api.HeartbeatOptions{
		Pools: f.Client, Mark: mark, Now: f.Client.Now,
		Warn: func(err error) {
			sink.Emit(progress.Event{Kind: progress.Warning, Message: "other machines may take this run for dead: " + err.Error()})
		},
	})
	return Heartbeat{f.beat, f}
}

// Unseen waits until the mark was tried and warns if the token may not make any: reap on another machine does not see that the run lives,
// and goes by the cluster's expiry alone. Up says so itself when it claims ids.
func (h Heartbeat) Unseen(ctx context.Context, sink progress.Sink) {
	if h.beat == nil || !errors.Is(h.beat.Wait(ctx), api.ErrForbidden) {
		return
	}
	sink.Emit(progress.Event{Kind: progress.Warning, Message: "other machines cannot see that this run is at work: reap there would delete the cluster if it expires meanwhile",
		Hint: poolsHint(h.fleet.Client.TokenID())})
}

// poolsHint is how a token gets to make pools.
func poolsHint(token string) string {
	return "let the token make pools: pveum role add HiveTestClaims --privs Pool.Allocate,Pool.Audit; pveum acl modify /pool --tokens '" + token + "' --roles HiveTestClaims"
}

// Emit watches for the end of up: from then on the cluster is no half-made one.
func (h Heartbeat) Emit(e progress.Event) {
	if h.beat != nil && e.Kind == progress.PhaseEnd && e.Phase == string(cluster.PhaseUp) && e.Status == progress.Passed {
		h.beat.Update(func(m *api.RunMark) { m.Making = false })
	}
}

// End takes the mark away, unless it shall tell reap of what the run has left: VMs that it should have destroyed, or could not
// decide on before it was stopped, or a claim.
func (h Heartbeat) End(ctx context.Context, err error, aborted bool) {
	if h.beat == nil {
		return
	}
	_, leak := errors.AsType[*lifecycle.LeakError](err)
	h.beat.Stop(ctx, leak || aborted || h.fleet.unreleased)
}

// marked waits until other machines can see that this run lives; where they never will, for want of a privilege, the warning
// about claims says so.
func (f *Fleet) marked(ctx context.Context) error {
	if f.beat == nil {
		return nil
	}
	_ = f.beat.Wait(ctx) // a failure was told, and is none of the run
	return context.Cause(ctx)
}
