package lifecycle

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/phase"
	"hive-test/pkg/progress"
)

// failing is a phase that fails, or ends with its context.
func failing(name cluster.Phase) phase.Phase {
	return phase.New(string(name), func(ctx context.Context) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return errors.New("no")
	})
}

// What becomes of a cluster when a verb other than full fails or is interrupted.
func TestPolicyOfSingleVerbs(t *testing.T) {
	for _, tc := range []struct {
		name        string
		verb        cluster.Phase
		keep        Keep
		named       bool
		interrupted bool
		edit        func(*Job)
		destroys    bool
		says        string
	}{
		{name: "up fails, kept", verb: cluster.PhaseUp, keep: KeepOnFailure, says: "are kept (--keep on-failure)", edit: func(r *Job) {
			r.Record.SetProgress(cluster.PhaseUp, "ci-1-1", cluster.NodeProgress{Status: cluster.PhaseRunning})
		}},
		{name: "up fails before it asks for a VM", verb: cluster.PhaseUp, keep: KeepOnFailure, says: "no VM was asked for yet"},
		{name: "up fails, not kept", verb: cluster.PhaseUp, keep: KeepNever, destroys: true, says: "destroying the VMs of ci-1 (--keep never)"},
		{name: "up of hosts that were there fails", verb: cluster.PhaseUp, keep: KeepOnFailure, says: "the hosts stay as they are", edit: func(r *Job) {
			r.Record.Spec.Deployer, r.Deploy = deploy.Existing, hostsOf(r)
		}},
		{name: "up interrupted, kept", verb: cluster.PhaseUp, keep: KeepAlways, interrupted: true, says: "are kept (--keep always)", edit: func(r *Job) {
			r.Record.SetProgress(cluster.PhaseUp, "ci-1-1", cluster.NodeProgress{Status: cluster.PhaseRunning})
		}},
		{name: "up interrupted, not kept", verb: cluster.PhaseUp, keep: KeepNever, interrupted: true, destroys: true, says: "destroying"},
		{name: "up of what was up before", verb: cluster.PhaseUp, keep: KeepNever, named: true, interrupted: true, says: "was there before this run and stays", edit: func(r *Job) {
			r.Before = r.Record.Clone()
			r.Before.Nodes[0].Management = netip.MustParseAddr("10.0.0.1")
		}},
		{name: "configure fails", verb: cluster.PhaseConfigure, keep: KeepNever},
		{name: "configure fails, and never was asked for", verb: cluster.PhaseConfigure, keep: KeepNever, named: true, destroys: true, says: "destroying"},
		{name: "configure interrupted, kept", verb: cluster.PhaseConfigure, keep: KeepOnFailure, interrupted: true, says: "cluster ci-1 stays (--keep on-failure): `hive-test configure ci-1` goes on"},
		{name: "configure interrupted where hive has other members", verb: cluster.PhaseConfigure, keep: KeepOnFailure, interrupted: true, says: "`hive-test configure ci-1 --force` goes on", edit: func(r *Job) {
			r.Record.Formation = &cluster.Formation{Size: 2, Members: []string{"ci-1-1"}}
		}},
		{name: "configure interrupted, not kept", verb: cluster.PhaseConfigure, keep: KeepNever, interrupted: true, destroys: true, says: "destroying"},
		{name: "test fails, always kept", verb: cluster.PhaseTest, keep: KeepAlways, named: true},
		{name: "test interrupted, not kept", verb: cluster.PhaseTest, keep: KeepNever, interrupted: true, destroys: true, says: "destroying"},
		{name: "hosts that are nobody's to destroy", verb: cluster.PhaseTest, keep: KeepNever, named: true, interrupted: true, says: "cluster ci-1 stays", edit: func(r *Job) {
			r.Record.Spec.Deployer, r.Deploy = deploy.Existing, hostsOf(r)
		}},
	} {
		w := &world{vms: []deploy.VMRef{mine}}
		job := w.job(t)
		said := &progress.Memory{}
		job.Sink, job.Interrupted = said, func() bool { return tc.interrupted }
		if tc.edit != nil {
			tc.edit(job)
		}
		ctx, cancel := context.WithCancel(t.Context())
		act := phase.New(string(tc.verb), func(ctx context.Context) error {
			if tc.interrupted {
				cancel()
			}
			return failing(tc.verb).Run(ctx)
		})
		list := Only(job, act, tc.keep, tc.named)
		if tc.verb == cluster.PhaseUp {
			list = []phase.Entry{{Phase: rollbackOnFailure{act, job, tc.keep}}}
		}
		manager := &phase.Manager{Phases: list}
		if _, err := manager.Run(ctx); err == nil {
			t.Errorf("%s: no error", tc.name)
		}
		cancel()
		if destroyed := slices.Contains(w.done, "tofu destroy"); destroyed != tc.destroys || destroyed != w.removed {
			t.Errorf("%s: did %q", tc.name, w.done)
		}
		var lines []string
		for _, e := range said.Events() {
			if e.Kind == progress.Warning {
				lines = append(lines, e.Message)
			}
		}
		if text := strings.Join(lines, "\n"); len(lines) > 1 || (tc.says == "") != (text == "") ||
			!strings.Contains(text, tc.says) {
			t.Errorf("%s: said %q", tc.name, lines)
		}
	}
}
