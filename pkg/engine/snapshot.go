package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/phase"
	"hive-test/pkg/progress"
)

// SnapshotRequest is what verbs of snapshots are asked for.
type SnapshotRequest struct {
	Request
	Tag    string // empty: of SaveSnapshot one made of the time, of RestoreSnapshot the newest
	Memory bool   // of SaveSnapshot: keep running state, too
}

// newTag is the tag of a snapshot that was given none.
func newTag(now time.Time) string { return now.UTC().Format("s20060102-150405") }

// checkTag refuses a tag that Proxmox VE would.
func checkTag(tag string) error {
	if tag == "" {
		return nil
	}
	if err := cluster.CheckSnapshotTag(tag); err != nil {
		return usage(err)
	}
	return nil
}

// SaveSnapshot makes a snapshot of all nodes together, or of none, and returns it.
func (e *Engine) SaveSnapshot(ctx context.Context, request SnapshotRequest) (deploy.Snapshot, error) {
	if err := checkTag(request.Tag); err != nil {
		return deploy.Snapshot{}, err
	}
	if request.Tag == "" {
		request.Tag = newTag(time.Now())
	}
	var made deploy.Snapshot
	err := e.onSnapshots(ctx, request, func(ctx context.Context, r *lifecycle.Job) error {
		if err := lifecycle.CheckSnapshots(ctx, r); err != nil {
			return Error{ExitConfig, err}
		}
		progress.Infof(r.Sink, "making snapshot %s of %s", request.Tag, progress.Count(len(r.Record.Nodes), "node"))
		if err := lifecycle.SaveSnapshot(ctx, r, request.Tag, request.Memory, r.Sink); err != nil {
			return err
		}
		all, err := lifecycle.Snapshots(ctx, r)
		if err == nil {
			made, err = lifecycle.FindSnapshot(r.Record.Name, r.Record.Nodes, all, request.Tag)
		}
		return err
	})
	return made, err
}

// ListSnapshots returns the snapshots of a cluster, the oldest first, and how many nodes the cluster has.
func (e *Engine) ListSnapshots(ctx context.Context, request Request) (list []deploy.Snapshot, nodes int, err error) {
	s, err := e.openForRead(ctx, "snapshot list", request)
	if err != nil {
		return nil, 0, err
	}
	defer s.close()
	deployer, err := s.Deployer()
	if err != nil {
		return nil, 0, err
	}
	list, err = lifecycle.Snapshots(ctx, s.job(ctx, deployer))
	return list, len(s.Record.Nodes), err
}

// DeleteSnapshot deletes a snapshot of a cluster from all nodes that have it, and returns those that are left.
func (e *Engine) DeleteSnapshot(
	ctx context.Context, request SnapshotRequest,
) (left []deploy.Snapshot, nodes int, err error) {
	if request.Tag == "" {
		return nil, 0, usage(errors.New("snapshot delete needs the tag of the snapshot, which snapshot list tells"))
	}
	if err := checkTag(request.Tag); err != nil {
		return nil, 0, err
	}
	if err := e.protect("snapshot delete", request.Request); err != nil {
		return nil, 0, err
	}
	err = e.onSnapshots(ctx, request, func(ctx context.Context, r *lifecycle.Job) (err error) {
		if _, err := findSnapshot(ctx, r, request.Tag, false); err != nil {
			return err
		}
		if err := lifecycle.DeleteSnapshot(ctx, r, request.Tag); err != nil {
			return err
		}
		nodes = len(r.Record.Nodes)
		left, err = lifecycle.Snapshots(ctx, r)
		return err
	})
	return left, nodes, err
}

// findSnapshot returns the snapshot of that tag. With whole, all nodes must have it.
func findSnapshot(ctx context.Context, r *lifecycle.Job, tag string, whole bool) (deploy.Snapshot, error) {
	all, err := lifecycle.Snapshots(ctx, r)
	if err != nil {
		return deploy.Snapshot{}, err
	}
	nodes := r.Record.Nodes
	if !whole {
		nodes = nil
	}
	found, err := lifecycle.FindSnapshot(r.Record.Name, nodes, all, tag)
	if err != nil {
		return found, usage(err)
	}
	return found, nil
}

// RestoreSnapshot brings a cluster back to a snapshot, and proves that it is what it was then.
func (e *Engine) RestoreSnapshot(ctx context.Context, request SnapshotRequest) (Outcome, error) {
	if err := checkTag(request.Tag); err != nil {
		return Outcome{}, err
	}
	return e.do(ctx, "restore", request.Request, func(s *session) error {
		find := func() error {
			if err := s.load(); err != nil {
				return err
			}
			return s.protect()
		}
		known := func(r *lifecycle.Job) error {
			_, err := findSnapshot(ctx, r, request.Tag, true)
			return err
		}
		return s.withJob(ctx, find, known, func(r *lifecycle.Job) []phase.Entry {
			return []phase.Entry{{Phase: lifecycle.Restore(r, request.Tag)}}
		})
	})
}

// onSnapshots locks a cluster that exists and lets work use it.
func (e *Engine) onSnapshots(
	ctx context.Context, request SnapshotRequest, work func(context.Context, *lifecycle.Job) error,
) error {
	s, err := e.open(ctx, "snapshot", request.Request)
	if err != nil {
		return err
	}
	defer s.close()
	root := ctx
	ctx, cancel := s.limited(ctx)
	defer cancel()
	deployer, err := s.take(ctx, s.load)
	if err != nil {
		return err
	}
	if restoring := s.Record.Restoring; restoring != nil {
		progress.Warn(s.Sink, fmt.Sprintf("a restore of snapshot %s did not come to its end", restoring.Tag),
			fmt.Sprintf("hive-test snapshot restore %s %s", s.Name, restoring.Tag))
	}
	return work(ctx, s.job(root, deployer))
}
