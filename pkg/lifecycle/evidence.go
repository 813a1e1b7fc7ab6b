package lifecycle

import (
	"context"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/phase"
	"hive-test/pkg/remote"
)

// evidenceTime bounds the gathering of logs after a failure, so that a node that hangs cannot keep VMs alive.
const evidenceTime = 45 * time.Second

// withEvidence gathers what nodes can tell when a phase has failed, before anything else happens to them.
type withEvidence struct {
	phase.Phase
	run *Job
}

// Run runs the phase; its error is never replaced by a failure to gather.
func (w withEvidence) Run(ctx context.Context) error {
	err := w.Phase.Run(ctx)
	if err == nil {
		return nil
	}
	gather, cancel := context.WithTimeout(context.WithoutCancel(ctx), evidenceTime)
	defer cancel()
	w.run.Gather(gather, cluster.Phase(w.Name()))
	return err
}

// Skip passes on the phase's own wish to be skipped.
func (w withEvidence) Skip(ctx context.Context) (string, bool, error) { return skip(ctx, w.Phase) }

// Gather writes what every node that answers can tell into the run's directory, in parallel, best effort.
func (r *Job) Gather(ctx context.Context, p cluster.Phase) {
	sink := r.sink(p)
	group, err := r.group()
	if err != nil {
		warn(sink, "no logs gathered: %v", err)
		return
	}
	handle, err := r.hive(sink)
	if err != nil {
		warn(sink, "no logs gathered: %v", err)
		return
	}
	reachable := make(remote.Group, 0, len(group))
	for _, host := range group {
		if host.Node().Management.IsValid() {
			reachable = append(reachable, host)
		}
	}
	err = reachable.Each(ctx, func(ctx context.Context, host *remote.Host) error {
		return handle.Collect(ctx, host, r.Evidence.Path("nodes", host.Name()))
	})
	if err != nil {
		warn(sink, "some logs could not be gathered: %v", err)
	}
	if len(reachable) > 0 {
		info(sink, "logs of %d nodes are in %s", len(reachable), r.Evidence.Path("nodes"))
	}
}
