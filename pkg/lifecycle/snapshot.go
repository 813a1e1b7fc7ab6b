package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/progress"
)

// snapshotter is what keeps states of the cluster's machines, or why nothing does.
func (r *Job) snapshotter() (deploy.Snapshotter, error) {
	if r.Deploy.Snapshots == nil {
		return nil, fmt.Errorf("cluster %q is made of hosts that were there: no snapshots can be made of them", r.Record.Name)
	}
	if len(r.Record.Nodes) == 0 {
		return nil, progress.WithHint(ErrNotUp, fmt.Sprintf("hive-test up %s", r.Record.Name))
	}
	return r.Deploy.Snapshots, nil
}

// Snapshots lists the cluster's snapshots, the oldest first.
func Snapshots(ctx context.Context, r *Job) ([]deploy.Snapshot, error) {
	keeper, err := r.snapshotter()
	if err != nil {
		return nil, err
	}
	return keeper.Snapshots(ctx, r.Record)
}

// CheckSnapshots is an error unless snapshots can be made of all nodes now.
func CheckSnapshots(ctx context.Context, r *Job) error {
	keeper, err := r.snapshotter()
	if err != nil {
		return err
	}
	return keeper.CheckSnapshots(ctx, r.Record)
}

// SaveSnapshot makes a snapshot of all nodes, or of none, once it is known that it can be made of each. What is known
// of hive is noted with it, before it is made: with the disks it comes back.
func SaveSnapshot(ctx context.Context, r *Job, tag string, memory bool, sink progress.Sink) error {
	if err := CheckSnapshots(ctx, r); err != nil {
		return err
	}
	before := r.Record.Snapshots
	if err := r.change(ctx, func() { r.Record.NoteSnapshot(tag) }); err != nil {
		return err
	}
	err := r.Deploy.Snapshots.SaveSnapshot(ctx, r.Record, tag, memory, sink)
	if err != nil {
		return errors.Join(err, r.change(ctx, func() { r.Record.Snapshots = before }))
	}
	return nil
}

// DeleteSnapshot deletes a snapshot from all nodes that have it.
func DeleteSnapshot(ctx context.Context, r *Job, tag string) error {
	keeper, err := r.snapshotter()
	if err != nil {
		return err
	}
	if err := keeper.DeleteSnapshot(ctx, r.Record, tag); err != nil {
		return err
	}
	return r.change(ctx, func() {
		r.Record.ForgetSnapshot(tag)
		if restoring := r.Record.Restoring; restoring != nil && restoring.Tag == tag { // nothing finishes that now
			r.Record.Restoring = nil
		}
	})
}

// FindSnapshot returns the snapshot of that tag, the newest where none is named, which all nodes have.
func FindSnapshot(name cluster.Name, nodes cluster.Nodes, all []deploy.Snapshot, tag string) (deploy.Snapshot, error) {
	at := len(all) - 1
	if tag != "" {
		at = slices.IndexFunc(all, func(s deploy.Snapshot) bool { return s.Tag == tag })
	}
	if at < 0 {
		what := "cluster " + name.String() + " has no snapshot"
		if tag != "" {
			what += " " + tag
		}
		return deploy.Snapshot{}, progress.WithHint(errors.New(what), snapshotHint(name, all))
	}
	var missing []string
	for _, node := range nodes {
		if !slices.Contains(all[at].Nodes, node.Name) {
			missing = append(missing, node.Name)
		}
	}
	if len(missing) > 0 {
		err := progress.WithNodes(fmt.Errorf(
			"snapshot %s is not of all nodes: %s lack it", all[at].Tag, strings.Join(missing, ", ")), missing...)
		return deploy.Snapshot{}, progress.WithHint(err, snapshotHint(name, all))
	}
	return all[at], nil
}

// snapshotHint names the snapshots that are there, or how one is made.
func snapshotHint(name cluster.Name, all []deploy.Snapshot) string {
	if len(all) > 0 {
		return fmt.Sprintf("hive-test snapshot list %s", name)
	}
	return fmt.Sprintf("hive-test snapshot save %s", name)
}
