package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/phase"
	"hive-test/pkg/progress"
)

// down destroys the VMs, proves that they are gone and only then removes the cluster's directory.
type down struct {
	*Job
	ending destroyer
}

// Down is the phase that destroys.
func Down(r *Job) phase.Phase { return collectOnFailure{Phase: &down{Job: r}, run: r, outside: true} }

// Name is the phase's name.
func (d *down) Name() string { return string(cluster.PhaseDown) }

// Run destroys. VMs that are gone already are no error.
func (d *down) Run(ctx context.Context) error {
	if !d.Deploy.Makes() {
		return d.release(ctx)
	}
	d.ending = destroyer{deploy: d.Deploy, record: d.Record, force: d.Force, cut: d.Record.Cut}
	err := d.steps(ctx, cluster.PhaseDown,
		step{"record the operation", d.intend},
		step{"check ownership", d.check},
		step{"destroy the VMs", d.destroy},
		step{"verify deletion", d.verifyGone},
	)
	if err != nil {
		return d.end(ctx, cluster.PhaseDown, d.ending.leak(ctx, err)) // the directory stays, for the next down
	}
	return d.steps(ctx, cluster.PhaseDown, step{"remove the cluster's directory", d.remove})
}

// intend notes what is begun. That it cannot be noted, on a disk that is full, must not keep VMs alive: the record that
// is there names them.
func (d *down) intend(ctx context.Context, sink progress.Sink) error {
	if err := d.change(ctx, func() { d.Record.Begin(cluster.PhaseDown, "", d.Now()) }); err != nil {
		progress.Warnf(sink, "what is begun cannot be noted: %v", err)
	}
	return nil
}

// check refuses to let tofu destroy what its state takes for ours and is somebody else's. With Force, only VMs that are
// ours are deleted, through the API.
func (d *down) check(ctx context.Context, sink progress.Sink) error {
	if err := d.ending.check(ctx, sink); err != nil {
		return err
	}
	switch {
	case d.ending.aside != nil:
		progress.Warnf(sink, "leaving tofu out: %v", d.ending.aside)
	case len(d.ending.seen) == 0 && len(d.Record.Nodes) > 0:
		progress.Infof(sink, "no VM of the cluster exists any more")
	case len(d.ending.seen) == 0 && d.Record.Builds != "": // it has become a template
	case len(d.ending.seen) == 0:
		progress.Infof(sink, "there is no VM of cluster %s with the owner id %s", d.Record.Name, d.Record.Owner.ID)
	}
	return nil
}

// How much of down's time is kept, while tofu destroys, for what follows: the proof, a quarter of what there is at
// most, and with Force the deletion through the API, half of it.
const (
	proofTime    = time.Minute
	fallbackTime = 5 * time.Minute
)

// errPart is why tofu's part in down is ended while there is time for the rest.
var errPart = errors.New("its part of --timeout-down was up")

// destroy lets tofu destroy what its state holds; with Force a failure of it is a warning, for verifyGone then deletes
// through the API.
func (d *down) destroy(ctx context.Context, sink progress.Sink) error {
	// What VMs that are gone have left is swept up by the proof; a state that is kept elsewhere does not go with the directory.
	if d.ending.aside != nil || len(d.ending.seen) == 0 && d.Record.State.IsZero() {
		return nil
	}
	keep, share := proofTime, 4
	if d.Force {
		keep, share = fallbackTime, 2
	}
	part, cancel := phase.Part(ctx, keep, share, errPart)
	defer cancel()
	begun := time.Now()
	err := d.Deploy.Down(part, deploy.Request{
		Dir: d.Store.Path(d.Record.Name, ""), Name: d.Record.Name, Owner: d.Record.Owner, Spec: d.Record.Spec,
		Nodes:   d.Record.Nodes,
		Refresh: len(d.ending.seen) < len(d.Record.Nodes),
	})
	if ctx.Err() == nil && d.Deploy.Diagnose != nil {
		d.Deploy.Diagnose.Warnings(ctx, d.Record, begun)
	}
	if err == nil {
		return nil
	}
	if ctx.Err() == nil && (d.Force || errors.Is(err, deploy.ErrUnusable)) {
		progress.Warnf(sink, "destroying with tofu failed, going on through the API: %v", err)
		return nil
	}
	// the proof tells what tofu could not remove, and why
	if ctx.Err() == nil && errors.Is(err, errPart) && d.gone(ctx) {
		progress.Warnf(sink, "the VMs are gone, and removing the rest took tofu too long, going on through the API: %v", err)
		return nil
	}
	return err
}

// gone reports whether it is known that no VM is left.
func (d *down) gone(ctx context.Context) bool {
	there, err := d.ending.remaining(ctx)
	return err == nil && len(there) == 0 && d.ending.aside == nil
}

func (d *down) verifyGone(ctx context.Context, sink progress.Sink) error {
	return d.ending.verifyGone(ctx, sink)
}

func (d *down) remove(ctx context.Context, sink progress.Sink) error {
	if d.Deploy.Lease != nil {
		d.Deploy.Lease.ReleaseAll(ctx, d.Record, sink)
	}
	if err := d.Close(); err != nil {
		sink.Emit(progress.Event{Kind: progress.Debug, Message: "closing connections: " + err.Error()})
	}
	if d.KeepResults {
		if err := d.Evidence.SaveResults(); err != nil {
			return fmt.Errorf("keeping the test results: %w", err)
		}
	}
	if err := d.Store.Remove(d.Record.Name); err != nil {
		done := "the VMs are gone"
		if !d.Deploy.Makes() {
			done = "the hosts are released"
		}
		return progress.WithHint(
			fmt.Errorf("%s: %w", done, err), "remove it once it can be written, or repeat the same command",
		)
	}
	return nil
}

// Elsewhere is the command that destroys the VMs of a cluster without its directory: Proxmox VE shows which they are.
func Elsewhere(r *cluster.Record) string {
	return fmt.Sprintf("hive-test down %s --owner %s --clusters-dir DIR", r.Name, r.Owner.ID)
}
