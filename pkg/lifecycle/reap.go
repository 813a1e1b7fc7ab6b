package lifecycle

import (
	"context"
	"errors"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/progress"
)

// How often reap looks for VMs that appear while it deletes others, and deletes again what it could not.
const (
	reapRounds = 5
	reapAgain  = 2
)

// ReapCluster destroys all VMs of a record that names its owner and VMs that were found, and returns those that it has
// met. VMs that appear meanwhile, because a run that died had asked for them, are destroyed as well. What that run has
// left is taken away last, so that whoever comes after a reap that fails finds it. The error is a *deploy.LeakError if
// something remains, a *deploy.LiveError if nothing was done.
func ReapCluster(
	ctx context.Context, deployer deploy.Capable, reaper deploy.Reaper, r *cluster.Record, unfinished bool,
	sink progress.Sink,
) (met []deploy.VMRef, err error) {
	if err := reaper.Alive(ctx, r); err != nil {
		return nil, err
	}
	release := reaper.Hold(ctx, r, sink)
	defer func() { release(err) }()
	d := destroyer{deploy: deployer, record: r, gone: reaper.Gone(r)}
	for round := range reapRounds {
		// What a dead run has asked for may still begin: the looks after the first one wait for that.
		if err := reaper.Settle(ctx, r, unfinished && round > 0, sink); err != nil {
			return d.seen, d.leak(ctx, err)
		}
		there, err := d.remaining(ctx)
		if err != nil {
			return d.seen, &deploy.LeakError{Name: r.Name, Cause: err}
		}
		if len(there) == 0 && d.unseen == nil && (round > 0 || !unfinished) {
			if deployer.Lease != nil {
				deployer.Lease.ReleaseAll(ctx, r, sink)
			}
			return d.seen, reaper.Clear(ctx, r)
		}
		// Not Destroy: that gives up the claims, by which is found what is in the making.
		err = d.run(ctx, sink)
		// what a dead run has begun may be in the way for a moment
		again := unfinished && round < reapAgain && ctx.Err() == nil && d.unseen == nil
		if err != nil && !again {
			return d.seen, err
		}
	}
	return d.seen, d.leak(ctx, errors.New("VMs of it appear again and again: something still makes them"))
}
