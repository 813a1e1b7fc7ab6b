package proxmox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/proxmox/api"
	"hive-test/pkg/progress"
)

// InUse is an error if the VM of one of the named nodes, which no up has finished, runs because somebody else has
// started it.
func (f *Fleet) InUse(ctx context.Context, r *cluster.Record, nodes []string) error {
	if len(nodes) == 0 {
		return nil
	}
	there, err := f.Remaining(ctx, r)
	if err != nil {
		return err
	}
	failures := make([]error, len(there))
	f.forEach(len(there), func(i int) {
		if slices.Contains(nodes, there[i].Name) {
			failures[i] = f.inUse(ctx, r, there[i])
		}
	})
	return errors.Join(failures...)
}

func (f *Fleet) inUse(ctx context.Context, r *cluster.Record, ref deploy.VMRef) error {
	vm, err := f.own(ctx, r, ref)
	if err != nil || vm.Status != "running" {
		return err
	}
	tasks, err := f.Client.Tasks(ctx, ref.Hypervisor, ref.VMID, time.Time{}, toldTasks)
	if err != nil {
		return fmt.Errorf("looking who has started %s: %w", ref, err)
	}
	who := starter(tasks, f.Client.TokenID())
	if who == f.Client.TokenID() {
		return nil
	}
	return progress.WithHint(fmt.Errorf(
		"%s was not finished by an earlier up, and would be made anew, but it runs: %s has started it", ref, who,
	),
		fmt.Sprintf("save what is needed from its disks; then %s makes it anew, or `hive-test down %s` begins from nothing", deploy.AllowReplace, r.Name))
}

// starter returns who has started a VM that runs, by its tasks, the newest first. Of two who did in one second, which is
// as exact as Proxmox VE tells, it is the one who is not us: what others use is to be left alone.
func starter(tasks []api.Task, us string) string {
	var last time.Time
	who := "somebody"
	for _, t := range tasks {
		failed := t.Status != "" && t.Status != "OK" && !strings.HasPrefix(t.Status, "WARNINGS")
		if failed || !starts(t) {
			continue
		}
		if last.IsZero() || t.Started.Equal(last) && who == us {
			last, who = t.Started, t.Caller()
		}
	}
	return who
}

func starts(t api.Task) bool {
	return slices.ContainsFunc(
		[]string{"qmstart", "hastart", "qmreboot", "qmreset"},
		func(kind string) bool { return strings.HasPrefix(t.Type, kind) },
	)
}
