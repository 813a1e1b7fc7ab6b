package lifecycle

import (
	"context"
	"fmt"
	"sync/atomic"

	"hive-test/pkg/cluster"
	"hive-test/pkg/phase"
	"hive-test/pkg/progress"
)

// Keep says what becomes of the VMs after a run.
type Keep string

// The policies: destroy whatever happened, keep what failed for a look, keep always.
const (
	KeepNever     Keep = "never"
	KeepOnFailure Keep = "on-failure"
	KeepAlways    Keep = "always"
)

// keeps tells whether the VMs stay after a run that failed or did not.
func (k Keep) keeps(failed bool) bool { return k == KeepAlways || k == KeepOnFailure && failed }

// Full is the whole life: up, configure, test and, whatever happened in between, down.
func Full(r *Job, keep Keep) []phase.Entry {
	return withEnd(r, keep, Up(r), Configure(r), Test(r))
}

// withEnd is a list of phases with down at its end, whatever happens before, if the policy wants it.
func withEnd(r *Job, keep Keep, list ...phase.Phase) []phase.Entry {
	ending := &teardown{down: down{Job: r}, keep: keep}
	var entries []phase.Entry
	for _, p := range list {
		entries = append(entries, phase.Entry{Phase: trackFailure{p, ending}})
	}
	return append(entries, phase.Entry{Phase: collectOnFailure{Phase: ending, run: r, outside: true}, Always: true})
}

// FullFrom is Full of a cluster that is there: it is brought back to a snapshot in place of being made. Configure does
// what is left to do: nothing where hive was formed of the same then.
func FullFrom(r *Job, keep Keep, tag string) []phase.Entry {
	restoring := collectOnFailure{Phase: &restore{Job: r, tag: tag, restart: true}, run: r}
	return withEnd(r, keep, restoring, Configure(r), Test(r))
}

// FullSaving is Full that makes a snapshot of the cluster before it is tested.
func FullSaving(r *Job, keep Keep, tag string) []phase.Entry {
	r.SaveAs = tag
	save := phase.New(string(PhaseSnapshot), func(ctx context.Context) error {
		return r.steps(ctx, PhaseSnapshot, step{"make snapshot " + tag, func(ctx context.Context, sink progress.Sink) error {
			return saveForReset(ctx, r, tag, sink)
		}})
	})
	return withEnd(r, keep, Up(r), Configure(r), save, Test(r))
}

// UpOnly is up alone; what it leaves when it fails is destroyed unless the policy keeps it.
func UpOnly(r *Job, keep Keep) []phase.Entry {
	return []phase.Entry{{Phase: rollbackOnFailure{Up(r), r, keep}}}
}

// Only is configure or test alone. An interruption leaves the cluster if the policy keeps it, else destroys it. A
// failure leaves it, for it was there before, unless the policy never was named by the user for this run. One that is
// held stays.
func Only(r *Job, p phase.Phase, keep Keep, named bool) []phase.Entry {
	return []phase.Entry{{Phase: stopped{p, r, keep, named}}}
}

// teardown is down at the end of a list of phases, if the policy wants it.
type teardown struct {
	down
	keep   Keep
	failed atomic.Bool
}

// Skip applies the policy.
func (t *teardown) Skip(context.Context) (string, bool, error) {
	if t.keep.keeps(t.failed.Load()) {
		return fmt.Sprintf("kept (--keep %s): remove it with `hive-test down %s`", t.keep, t.Record.Name), true, nil
	}
	if _, recorded := t.Record.Phases[cluster.PhaseUp]; !recorded {
		return "nothing was created", true, nil
	}
	return "", false, nil
}

// Run says what the policy decides, where it was not to be expected yet, and destroys.
func (t *teardown) Run(ctx context.Context) error {
	if t.Interrupted != nil && t.Interrupted() {
		progress.Warnf(t.sink(cluster.PhaseDown), "interrupted: %s (--keep %s)", t.ends(), t.keep)
	}
	return t.down.Run(ctx)
}

// trackFailure remembers for the teardown whether its phase failed. One that does not return when it is told to has.
type trackFailure struct {
	phase.Phase
	ending *teardown
}

// Run runs the phase.
func (w trackFailure) Run(ctx context.Context) error {
	w.ending.failed.Store(true)
	err := w.Phase.Run(ctx)
	if err == nil {
		w.ending.failed.Store(false)
	}
	return err
}

// Skip passes on the phase's own wish to be skipped.
func (w trackFailure) Skip(ctx context.Context) (string, bool, error) { return skip(ctx, w.Phase) }

func skip(ctx context.Context, p phase.Phase) (string, bool, error) {
	if skipper, ok := p.(phase.Skipper); ok {
		return skipper.Skip(ctx)
	}
	return "", false, nil
}

// rollbackOnFailure destroys what its phase has left when it failed.
type rollbackOnFailure struct {
	phase.Phase
	run  *Job
	keep Keep
}

// CleanUp is called after a failure only. A cluster that was up before this run is never destroyed because a change of
// it failed.
func (u rollbackOnFailure) CleanUp(ctx context.Context) error {
	r, name := u.run, u.run.Record.Name
	if r.Before != nil && r.Before.Nodes.WereUp() {
		progress.Warnf(
			r.sink(cluster.PhaseUp),
			"cluster %s was there before this run and stays: `hive-test up %s` goes on, `hive-test down %s` removes it",
			name, name, name,
		)
		return nil
	}
	if u.keep.keeps(true) && !r.Deploy.Makes() {
		progress.Warnf(
			r.sink(cluster.PhaseUp),
			"the hosts stay as they are: `hive-test up %s` goes on, `hive-test down %s` releases them", name, name,
		)
		return nil
	}
	if u.keep.keeps(true) && len(r.Record.Phases[cluster.PhaseUp].Nodes) == 0 {
		progress.Warnf(
			r.sink(cluster.PhaseUp),
			"no VM was asked for yet: `hive-test up %s` goes on, `hive-test down %s` removes what is on this machine", name,
			name,
		)
		return nil
	}
	if u.keep.keeps(true) {
		progress.Warnf(
			r.sink(cluster.PhaseUp),
			"VMs may have been made and are kept (--keep %s): `hive-test up %s` goes on, `hive-test "+
				"down %s` removes them",
			u.keep, name, name,
		)
		return nil
	}
	return r.destroyFor(ctx, cluster.PhaseUp, u.keep)
}

// stopped applies the policy to a phase of a cluster that was there before.
type stopped struct {
	phase.Phase
	run   *Job
	keep  Keep
	named bool
}

// Skip passes on the phase's own wish to be skipped.
func (s stopped) Skip(ctx context.Context) (string, bool, error) { return skip(ctx, s.Phase) }

// CleanUp is called after a failure or an interruption only.
func (s stopped) CleanUp(ctx context.Context) error {
	r, name, p := s.run, s.run.Record.Name, cluster.Phase(s.Name())
	interrupted := r.Interrupted != nil && r.Interrupted()
	destroys := s.keep == KeepNever && (interrupted || s.named) && r.Deploy.Makes()
	if destroys && r.Record.Owner.Held {
		progress.Warnf(
			r.sink(p), "cluster %s is held, and stays (--keep %s): `hive-test down %s` removes it", name, s.keep, name,
		)
		return nil
	}
	if destroys && r.Record.Owner.Protected {
		progress.Warnf(
			r.sink(p), "cluster %s is protected, and stays (--keep %s): `hive-test down %s --i-know %s` removes it", name, s.keep, name, name,
		)
		return nil
	}
	if destroys {
		return r.destroyFor(ctx, p, s.keep)
	}
	if interrupted {
		force := ""
		if p == cluster.PhaseConfigure && r.Record.OtherMembers() {
			force = " --force"
		}
		progress.Warnf(
			r.sink(p), "cluster %s stays (--keep %s): `hive-test %s %s%s` goes on, `hive-test down %s` removes it", name,
			s.keep, p, name, force, name,
		)
	}
	return nil
}

// ends says what down does with the cluster.
func (r *Job) ends() string {
	if !r.Deploy.Makes() {
		return "releasing the hosts of " + r.Record.Name.String()
	}
	return "destroying the VMs of " + r.Record.Name.String()
}

// destroyFor says that the policy destroys, and does.
func (r *Job) destroyFor(ctx context.Context, p cluster.Phase, keep Keep) error {
	progress.Warnf(r.sink(p), "%s (--keep %s)", r.ends(), keep)
	return Down(r).Run(ctx)
}
