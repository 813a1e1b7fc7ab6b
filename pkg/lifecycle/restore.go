package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/hive"
	"hive-test/pkg/phase"
	"hive-test/pkg/progress"
	"hive-test/pkg/remote"
)

// Phases of snapshots: the one that brings a cluster back to one, and the one of full that makes one.
const (
	PhaseRestore  cluster.Phase = "restore"
	PhaseSnapshot cluster.Phase = "snapshot"
)

// restore brings all nodes back to a snapshot and proves that the cluster is what it was then.
type restore struct {
	*Job
	tag string
	// restart has hive stopped and started where the snapshot has memory: the nodes' snapshots are of moments that differ
	// by up to seconds, and a service may wait for minutes on a connection that lacks what was sent in between.
	restart bool
	memory  bool
}

// Restore is the phase that brings the cluster back to a snapshot: that of the tag, the newest where it is empty.
func Restore(r *Job, tag string) phase.Phase {
	return collectOnFailure{Phase: &restore{Job: r, tag: tag}, run: r}
}

// Name is the phase's name.
func (b *restore) Name() string { return string(PhaseRestore) }

// Run brings the cluster back.
func (b *restore) Run(ctx context.Context) error {
	if err := b.steps(ctx, PhaseRestore, b.parts()...); err != nil {
		return err
	}
	return b.startHive(ctx, b.sink(PhaseRestore))
}

// parts are the steps of a restore but the last, which has steps of its own.
func (b *restore) parts() []step {
	return []step{
		{"check the snapshot", b.check},
		{"roll back the VMs", b.rollBack},
		{"check that the VMs are ours", b.own},
		{"find the addresses", b.find},
		{"reach the nodes", b.reach},
		{"set the clocks", b.setClocks},
	}
}

// check finds the snapshot, and notes before anything is done what a rollback takes away. Where a restore was cut off,
// what it has noted counts.
func (b *restore) check(ctx context.Context, sink progress.Sink) error {
	all, err := Snapshots(ctx, b.Job)
	if err != nil {
		return err
	}
	found, err := FindSnapshot(b.Record.Name, b.Record.Nodes, all, b.tag)
	if err != nil {
		return err
	}
	protected, err := b.Deploy.Snapshots.Protected(ctx, b.Record)
	if err != nil {
		return err
	}
	if before := b.Record.Restoring; before != nil {
		protected = slices.Compact(slices.Sorted(slices.Values(slices.Concat(protected, before.Protected))))
	}
	b.tag, b.memory = found.Tag, found.Memory
	progress.Infof(sink, "%s, made at %s", found.Tag, found.Created.Format(time.RFC3339))
	return b.change(ctx, func() { b.Record.Restoring = &cluster.Restoring{Tag: found.Tag, Protected: protected} })
}

// rollBack brings the disks back, and with them what is known of hive.
func (b *restore) rollBack(ctx context.Context, sink progress.Sink) error {
	group, err := b.group()
	if err != nil {
		return err
	}
	noted := b.Record.Restoring
	err = b.Deploy.Snapshots.RestoreSnapshot(ctx, b.Record, noted.Tag, noted.Protected, sink)
	for _, host := range group {
		host.Drop(errRolledBack)
	}
	if err != nil {
		return progress.WithHint(err, "some nodes may be as in the snapshot and others not: the same command again goes on")
	}
	return b.change(ctx, func() { b.Record.ReturnTo(noted.Tag) })
}

var errRolledBack = errors.New("its VM was rolled back to a snapshot")

// own writes again whose the VMs are, until when, and whether they are held: tags and names are the snapshot's.
func (b *restore) own(ctx context.Context, _ progress.Sink) error {
	if err := b.Deploy.Owner.UpdateMetadata(ctx, b.Record); err != nil {
		return err
	}
	if err := b.Deploy.Owner.Verify(ctx, b.Record); err != nil {
		return err
	}
	return b.change(ctx, func() { b.Record.Restoring = nil })
}

// find finds out where the nodes are.
func (b *restore) find(ctx context.Context, sink progress.Sink) error {
	if b.Deploy.Addresses == nil {
		return nil
	}
	nodes, err := b.Deploy.Addresses.Addresses(ctx, b.Record, sink)
	if err != nil {
		return err
	}
	moves := movesBetween(b.Record.Nodes, nodes)
	for _, m := range moves {
		b.sayMoved(m)
	}
	b.located = true
	if len(moves) == 0 {
		return nil
	}
	return b.moveTo(ctx, nodes)
}

// reach waits until a command works on every node, with the host keys that were pinned before.
func (b *restore) reach(ctx context.Context, sink progress.Sink) error {
	group, err := b.group()
	if err != nil {
		return err
	}
	return group.Each(ctx, func(ctx context.Context, host *remote.Host) error {
		sink.Emit(progress.Event{Kind: progress.NodeState, Node: host.Name(), Message: "SSH"})
		return host.WaitReady(ctx, nil)
	})
}

// clockBears is how far a node's clock may be off this machine's before it is set: one that goes on from memory is off
// by the age of the snapshot.
const clockBears = 2 * time.Second

// setClocks sets the clocks that are off.
func (b *restore) setClocks(ctx context.Context, sink progress.Sink) error {
	group, err := b.group()
	if err != nil {
		return err
	}
	return group.Each(ctx, func(ctx context.Context, host *remote.Host) error {
		skew, err := clockOf(ctx, host)
		if err != nil || skew.Abs() <= clockBears {
			return err
		}
		if err := setClock(ctx, host); err != nil {
			return err
		}
		sink.Emit(progress.Event{
			Kind: progress.Info, Node: host.Name(),
			Message: fmt.Sprintf("its clock was off by %s and was set", skew.Round(time.Second)),
		})
		return nil
	})
}

// clockOf is how far a node's clock is before this machine's.
func clockOf(ctx context.Context, host hive.Host) (time.Duration, error) {
	asked := time.Now()
	result, err := host.Run(ctx, remote.Command{Argv: []string{"date", "+%s.%N"}, Timeout: statusTime})
	if err != nil {
		return 0, fmt.Errorf("asking for the clock: %w", err)
	}
	text := strings.TrimSpace(string(result.Stdout))
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, fmt.Errorf("the clock of %s is %q, which is no time", host.Name(), text)
	}
	whole, part := math.Modf(seconds)
	middle := asked.Add(time.Since(asked) / 2)
	return time.Unix(int64(whole), int64(part*1e9)).Sub(middle), nil
}

// setClock sets a node's clock to this machine's.
func setClock(ctx context.Context, host hive.Host) error {
	now := time.Now().Add(time.Second / 2) // what date takes has no parts of a second
	_, err := host.Run(ctx, remote.Command{
		Script:  `admin=; [ "$(id -u)" = 0 ] || admin="sudo -n"; $admin date -u -s "@$NOW" >/dev/null`,
		Env:     map[string]string{"NOW": strconv.FormatInt(now.Unix(), 10)},
		Timeout: statusTime,
	})
	if err != nil {
		return fmt.Errorf("setting the clock: %w", err)
	}
	return nil
}

// startHive starts what is to run on the nodes and waits for health, where hive was formed when the snapshot was made.
func (b *restore) startHive(ctx context.Context, sink progress.Sink) error {
	entry, begun := b.Record.Phases[cluster.PhaseConfigure]
	if !begun || entry.Status != cluster.PhaseDone {
		progress.Infof(sink, "hive was not formed when the snapshot was made: hive-test configure %s forms it", b.Record.Name)
		return nil
	}
	handle, err := b.hive(sink)
	if err != nil {
		return err
	}
	if b.restart && b.memory {
		progress.Infof(sink, "hive is stopped and started: connections between nodes do not outlive a return to memory")
		if err := handle.Stop(ctx); err != nil {
			return err
		}
	}
	if err := handle.Configure(ctx, hive.StepSelection{From: hive.StepStart}); err != nil {
		return err
	}
	access, err := handle.Credentials(ctx)
	if err != nil {
		return fmt.Errorf("reading the cluster's credentials: %w", err)
	}
	return b.keepAccess(ctx, access)
}
