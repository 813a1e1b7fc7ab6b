package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/phase"
	"hive-test/pkg/progress"
	"hive-test/pkg/provision"
)

// LeakError means that VMs of the cluster may still exist; they are named.
type LeakError struct {
	Name cluster.Name
	VMs  []VMRef
	// Known says that VMs is all that remains; else the hypervisors could not be asked.
	Known bool
	Cause error
}

// Error names what remains.
func (e *LeakError) Error() string {
	var left []string
	for _, vm := range e.VMs {
		left = append(left, fmt.Sprintf("VM %d %s on %s", vm.VMID, vm.Name, vm.Hypervisor))
	}
	what := "VMs of cluster " + string(e.Name) + " may remain"
	switch {
	case len(left) > 0:
		what = "still there: " + strings.Join(left, ", ")
	case e.Known:
		what = "no VM of cluster " + string(e.Name) + " is left, but it was not removed to the end"
	}
	if e.Cause == nil {
		return what
	}
	return what + ": " + e.Cause.Error()
}

// Unwrap returns what went wrong.
func (e *LeakError) Unwrap() error { return e.Cause }

// Hint names the command that finishes the job.
func (e *LeakError) Hint() string {
	hint := "hive-test down " + string(e.Name) + " --force"
	if inner := progress.HintOf(e.Cause); inner != "" {
		hint = inner + "\nthen: " + hint
	}
	return hint
}

// remainingTime bounds the look at what remains after a failure.
const remainingTime = 10 * time.Second

// down destroys the VMs, proves that they are gone and only then removes the cluster's directory.
type down struct {
	*Job
	withoutTofu bool
}

// Down is the phase that destroys.
func Down(r *Job) phase.Phase { return &down{Job: r} }

// Name is the phase's name.
func (d *down) Name() string { return string(cluster.PhaseDown) }

// Run destroys. VMs that are gone already are no error.
func (d *down) Run(ctx context.Context) error {
	return d.steps(ctx, cluster.PhaseDown,
		step{"note the intent", d.intend},
		step{"check whose the VMs are", d.foreign},
		step{"destroy the VMs", d.destroy},
		step{"prove that they are gone", d.prove},
		step{"remove the cluster's directory", d.remove},
	)
}

func (d *down) intend(context.Context, progress.Sink) error {
	d.Record.Begin(cluster.PhaseDown, "", d.Now())
	return d.Store.Save(d.Record)
}

// foreign refuses to let tofu destroy what its state takes for ours and is somebody else's. With Force, only VMs that are
// ours are deleted, through the API.
func (d *down) foreign(ctx context.Context, sink progress.Sink) error {
	err := d.Fleet.Foreign(ctx, d.Record)
	if err == nil {
		return nil
	}
	if d.Force && ctx.Err() == nil {
		d.withoutTofu = true
		warn(sink, "leaving tofu out: %v", err)
		return nil
	}
	return d.leak(ctx, err)
}

// leak names what remains, also when the time of what failed is up.
func (d *down) leak(ctx context.Context, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), remainingTime)
	defer cancel()
	remaining, err := d.Fleet.Remaining(ctx, d.Record) // where that fails too, the cause says enough
	return d.fail(&LeakError{Name: d.Record.Name, VMs: remaining, Known: err == nil, Cause: cause})
}

// destroy lets tofu destroy what its state holds; with Force a failure of it is a warning, for prove then deletes
// through the API.
func (d *down) destroy(ctx context.Context, sink progress.Sink) error {
	if d.withoutTofu {
		return nil
	}
	err := d.Provisioner.Down(ctx, provision.Request{
		Dir: d.Store.Path(d.Record.Name, ""), Name: d.Record.Name, Owner: d.Record.Owner, Spec: d.Record.Spec, Nodes: d.Record.Nodes,
	})
	if err == nil {
		return nil
	}
	if d.Force && ctx.Err() == nil {
		warn(sink, "destroying with tofu failed, going on through the API: %v", err)
		return nil
	}
	return d.leak(ctx, err)
}

// prove asks the hypervisors themselves. What an interrupted up left outside tofu's state is deleted here.
func (d *down) prove(ctx context.Context, sink progress.Sink) error {
	remaining, err := d.Fleet.Remaining(ctx, d.Record)
	if err != nil {
		return d.fail(&LeakError{Name: d.Record.Name, Cause: err})
	}
	if len(remaining) == 0 {
		return nil
	}
	info(sink, "%d VMs are not in tofu's state: deleting them through the API", len(remaining))
	destroyErr := d.Fleet.Destroy(ctx, d.Record, remaining)
	remaining, err = d.Fleet.Remaining(ctx, d.Record)
	if err := errors.Join(destroyErr, err); err != nil || len(remaining) > 0 {
		return d.fail(&LeakError{Name: d.Record.Name, VMs: remaining, Known: err == nil, Cause: err})
	}
	return nil
}

// fail records the failure; the directory stays, for the next down.
func (d *down) fail(err error) error {
	d.Record.End(cluster.PhaseDown, err, d.Now())
	return errors.Join(err, d.Store.Save(d.Record))
}

func (d *down) remove(ctx context.Context, sink progress.Sink) error {
	if d.Record.Spec.Deployer != cluster.DeployerExisting {
		d.Fleet.Forget(ctx, d.Record, sink)
	}
	if err := d.Close(); err != nil {
		sink.Emit(progress.Event{Kind: progress.Debug, Message: "closing connections: " + err.Error()})
	}
	if d.KeepResults {
		if err := d.Evidence.SaveResults(); err != nil {
			return fmt.Errorf("keeping the test results: %w", err)
		}
	}
	return d.Store.Remove(d.Record.Name)
}
