package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/phase"
	"hive-test/pkg/progress"
	"hive-test/pkg/wait"
)

// remainingTime bounds the look at what remains after a failure.
const remainingTime = 10 * time.Second

// How long a VM that is locked is waited for: a clone, a move or a VM that is being made ends by itself, and what began
// it may just have been interrupted; a backup takes as long as it takes.
const (
	lockWait    = 10 * time.Second
	makingWait  = 2 * time.Minute
	firstLooked = 100 * time.Millisecond
	lastLooked  = 2 * time.Second
)

// destroyer is the end of every VM of the record's name and owner, in steps: those that its nodes name, and any other
// that shows itself as theirs. It proves that they are gone and removes what they leave behind. With force it takes off
// protections, and goes on where a VM that is not ours has an id of the record. Where some cannot be read, the others
// are destroyed. The error is a *deploy.LeakError that says what remains. It may be repeated; VMs that are gone already
// are no error. Down lets tofu work between the steps.
type destroyer struct {
	deploy deploy.Capable
	record *cluster.Record
	force  bool
	// cut is when tofu was killed while it made VMs, of which some may appear later; zero: it was not.
	cut time.Time
	// aside is what was let pass and tofu must not meet: a VM under an id of the record that is not ours or cannot be
	// read, or a lock.
	aside error
	// unseen are VMs that cannot be read, as they were last looked for; nil: none.
	unseen *deploy.UnseenError
	// seen are the VMs of ours that existed at some time: they are swept up after.
	seen []deploy.VMRef
	// gone are VMs of ours that existed before this began: they are swept up after, too.
	gone []deploy.VMRef
}

// run is all of it where tofu has no part in it.
func (d *destroyer) run(ctx context.Context, sink progress.Sink) error {
	if err := d.check(ctx, sink); err != nil {
		return d.leak(ctx, err)
	}
	return d.verifyGone(ctx, sink)
}

// check refuses, before anything is touched, what must not or cannot be deleted.
func (d *destroyer) check(ctx context.Context, sink progress.Sink) error {
	if err := d.foreign(ctx); err != nil {
		unseen, only := err.(*deploy.UnseenError) // that, and nothing else
		if only && ctx.Err() != nil {             // they had no time to answer
			return unseen.Cause
		}
		if !only && !d.force || ctx.Err() != nil {
			return err
		}
		d.aside = err
	}
	there, err := d.remaining(ctx)
	if err != nil || len(there) == 0 {
		return err
	}
	if err := d.deploy.Remove.Quorum(ctx); err != nil {
		return fmt.Errorf("nothing was deleted: %w", err)
	}
	if err := d.unprotect(ctx, there, sink); err != nil {
		return err
	}
	return d.unlocked(ctx, there, sink)
}

func (d *destroyer) foreign(ctx context.Context) error {
	if d.deploy.Owner == nil {
		return nil
	}
	return d.deploy.Owner.CheckOwnership(ctx, d.record)
}

// remaining lists the VMs of ours that exist now, and notes those that cannot be read.
func (d *destroyer) remaining(ctx context.Context) ([]deploy.VMRef, error) {
	there, err := d.deploy.Remove.Remaining(ctx, d.record)
	var some bool
	if d.unseen, some = errors.AsType[*deploy.UnseenError](err); some && ctx.Err() == nil {
		d.aside, err = cmp.Or(d.aside, error(d.unseen)), nil
	}
	for _, vm := range there {
		if !slices.ContainsFunc(
			d.seen, func(s deploy.VMRef) bool { return s.VMID == vm.VMID && s.Hypervisor == vm.Hypervisor },
		) {
			d.seen = append(d.seen, vm)
		}
	}
	return there, err
}

// unprotect takes protections off with force, and refuses otherwise.
func (d *destroyer) unprotect(ctx context.Context, there []deploy.VMRef, sink progress.Sink) error {
	var failures []error
	for _, vm := range there {
		switch {
		case vm.Guarded && !d.record.Owner.Protected:
			failures = append(failures, progress.WithHint(
				fmt.Errorf("%s is of a protected cluster (tag %s), and nothing was deleted", vm, cluster.ProtectTag),
				"if it shall be, add --i-know "+d.record.Name.String(),
			))
		case !vm.Protected:
		case !d.force:
			failures = append(failures, progress.WithHint(fmt.Errorf("%s is protected, and nothing was deleted", vm),
				fmt.Sprintf("if it may go, on %s: qm set %d --protection 0", vm.Hypervisor, vm.VMID)))
		default:
			progress.Warnf(sink, "%s is protected: taking that off", vm)
			failures = append(failures, d.deploy.Remove.Unprotect(ctx, d.record, vm))
		}
	}
	return errors.Join(failures...)
}

// unlocked waits for locks to go. With force, one that stays holds up nobody but the VM that it is of.
func (d *destroyer) unlocked(ctx context.Context, there []deploy.VMRef, sink progress.Sink) error {
	started := time.Now()
	pauses := wait.Backoff{First: firstLooked, Max: lastLooked}
	for first := true; ; first = false {
		locked := lockedOf(there)
		waited := time.Since(started)
		switch {
		case len(locked) == 0:
			return nil
		case waited > patience(locked) && d.force:
			d.aside = errors.Join(d.aside, lockedError(locked))
			return nil
		case waited > patience(locked):
			return lockedError(locked)
		case first:
			sink.Emit(progress.Event{
				Kind: progress.Wait, Message: "locks of VMs to be given up", Error: lockedError(locked).Error(),
			})
		}
		if err := pauses.Sleep(ctx); err != nil {
			return errors.Join(err, lockedError(locked))
		}
		var err error
		if there, err = d.remaining(ctx); err != nil {
			return err
		}
	}
}

// lockedOf are the VMs whose lock stands in the way: one that was suspended or half destroyed may be deleted.
func lockedOf(vms []deploy.VMRef) []deploy.VMRef {
	return slices.DeleteFunc(slices.Clone(vms), func(vm deploy.VMRef) bool {
		return slices.Contains([]string{"", "suspended", "destroyed"}, vm.Lock)
	})
}

func patience(locked []deploy.VMRef) time.Duration {
	if slices.ContainsFunc(
		locked, func(vm deploy.VMRef) bool { return !slices.Contains([]string{"create", "clone", "migrate"}, vm.Lock) },
	) {
		return lockWait
	}
	return makingWait
}

func lockedError(locked []deploy.VMRef) error {
	var failures []error
	for _, vm := range locked {
		failures = append(failures, progress.WithHint(fmt.Errorf("%s is locked (%s)", vm, vm.Lock),
			fmt.Sprintf("wait for what holds the lock; if nothing does any more, on %s: qm unlock %d", vm.Hypervisor, vm.VMID)))
	}
	return errors.Join(failures...)
}

// verifyGone asks the hypervisors themselves. What is still there, be it that an interrupted run left it outside tofu's
// state, is deleted; what that leaves behind, too.
func (d *destroyer) verifyGone(ctx context.Context, sink progress.Sink) error {
	if err := d.deleteRest(ctx, sink); err != nil {
		return err
	}
	for {
		appeared, err := d.late(ctx, sink)
		if err != nil {
			return d.leaked(nil, err, true)
		}
		if !appeared {
			break
		}
		if err := d.deleteRest(ctx, sink); err != nil {
			return err
		}
	}
	err := d.deploy.Remove.CleanUp(ctx, d.record, slices.Concat(d.gone, d.seen), sink)
	if d.unseen != nil {
		err = d.unseen // what lies where they are cannot be swept either
	}
	if err != nil {
		return d.leaked(nil, err, true)
	}
	if deploy.IsUnmarked(d.aside) { // whoever says force has done with VMs of others, not with these
		return &deploy.LeakError{
			Name: d.record.Name, Known: true, Cause: d.aside, Next: "hive-test down " + string(d.record.Name),
		}
	}
	return nil
}

// settleTime is how long after tofu was killed Proxmox VE may still begin to make what it was asked for.
const settleTime = time.Minute

// late waits for VMs that may still appear because tofu was killed while it made them, and reports whether any has.
// Where there is not the time for that, it is an error.
func (d *destroyer) late(ctx context.Context, sink progress.Sink) (appeared bool, err error) {
	end := d.cut.Add(settleTime)
	if d.cut.IsZero() || len(d.seen) >= len(d.record.Nodes) || time.Now().After(end) || d.unseen != nil {
		return false, nil
	}
	if deadline, limited := ctx.Deadline(); limited && deadline.Before(end) {
		return false, progress.WithHint(
			errors.New("tofu was killed while it made VMs, and those that Proxmox VE was still "+
				"making may appear yet"),
			"wait a minute",
		)
	}
	sink.Emit(progress.Event{
		Kind: progress.Wait,
		Message: "VMs that may still appear, for tofu was killed while it made them, until " +
			end.Local().Format(time.TimeOnly),
	})
	for pauses := (wait.Backoff{First: firstLooked, Max: lastLooked}); time.Now().Before(end); {
		if err := pauses.Sleep(ctx); err != nil {
			return false, err
		}
		there, err := d.remaining(ctx)
		if err != nil || len(there) > 0 {
			return len(there) > 0, err
		}
	}
	return false, nil
}

// deleteRest deletes through the API what is still there.
func (d *destroyer) deleteRest(ctx context.Context, sink progress.Sink) error {
	there, err := d.remaining(ctx)
	if err != nil {
		return d.leaked(nil, err, false)
	}
	for round := 1; len(there) > 0; round++ {
		progress.Infof(sink, "deleting %s through the API", progress.Count(len(there), "VM"))
		tried := there
		failure := d.deploy.Remove.Destroy(ctx, d.record, tried)
		there, err = d.remaining(ctx)
		// an answer may have been lost: what counts is what is there
		if len(there) == 0 && err == nil && d.aside == nil {
			failure = d.foreign(ctx)
		}
		if err == nil && failure == nil && round < appearTries && newSince(there, tried) {
			err = d.unlocked(ctx, there, sink)
		} else if len(there) > 0 && failure == nil && err == nil {
			failure = errors.New("delete succeeded but the VM still exists")
		}
		if err != nil || failure != nil {
			return d.leaked(there, errors.Join(failure, err), err == nil)
		}
	}
	return nil
}

// leaked is the error for what remains, with all that the last look showed.
func (d *destroyer) leaked(there []deploy.VMRef, cause error, known bool) *deploy.LeakError {
	leak := &deploy.LeakError{Name: d.record.Name, VMs: there, Known: known, Cause: cause, Forced: d.force}
	if _, unseen := d.aside.(*deploy.UnseenError); d.aside != nil && !unseen && !errors.Is(cause, d.aside) {
		leak.Cause = errors.Join(cause, d.aside)
	}
	if !d.cut.IsZero() {
		leak.Next = "hive-test down " + string(d.record.Name)
	}
	if d.unseen != nil {
		leak.Unseen, leak.Next = d.unseen.VMs, "hive-test down "+string(d.record.Name) // force does not help
	}
	return leak
}

// appearTries is how often VMs are deleted that appear while others are.
const appearTries = 3

// newSince tells whether any VM was not there, or not on that hypervisor, when others were deleted: a provider whose
// tofu was killed goes on with what it has begun, and may make VMs, or move them.
func newSince(there, tried []deploy.VMRef) bool {
	return slices.ContainsFunc(there, func(vm deploy.VMRef) bool {
		return !slices.ContainsFunc(
			tried, func(t deploy.VMRef) bool { return t.VMID == vm.VMID && t.Hypervisor == vm.Hypervisor },
		)
	})
}

// leak names what remains, also when the time of what failed is up.
func (d *destroyer) leak(ctx context.Context, cause error) error {
	known, ok := errors.AsType[*deploy.LeakError](cause)
	if ok && (known.Known || ctx.Err() == nil) {
		return cause
	}
	if ok { // it was made when the time was up: what is left is looked at once more
		cause = known.Cause
	}
	next := ""
	switch again := "hive-test down " + string(d.record.Name); {
	case errors.Is(cause, errPart) && !d.force:
		next = again + " --force, or the same with a longer --timeout-down"
	case deploy.IsUnmarked(cause) || ctx.Err() != nil && !d.force: // force has nothing to do with it
		next = again
	case ctx.Err() != nil:
		next = again + " --force"
	}
	ctx, cancel := phase.After(ctx, remainingTime, progress.ErrTimeUp)
	defer cancel()
	there, err := d.remaining(ctx) // where that fails too, the cause says enough
	leak := d.leaked(there, cause, err == nil)
	leak.Next = cmp.Or(leak.Next, next)
	return leak
}
