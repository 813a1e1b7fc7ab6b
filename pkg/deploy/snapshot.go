package deploy

import (
	"context"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/progress"
)

// Snapshot is a state of a cluster's machines that can be brought back.
type Snapshot struct {
	Tag     string
	Created time.Time // of the first machine's
	Memory  bool      // running machines go on where they were
	// Nodes are the names of the nodes that have it: where one lacks it, it cannot be brought back.
	Nodes []string
}

// Snapshotter keeps states of machines and brings them back, of all machines of a record together. Only snapshots of
// the record's owner are listed, brought back or deleted.
type Snapshotter interface {
	// CheckSnapshots is an error that names every machine of which no snapshot can be made now, with the reason.
	CheckSnapshots(ctx context.Context, r *cluster.Record) error
	// Snapshots lists them, the oldest first.
	Snapshots(ctx context.Context, r *cluster.Record) ([]Snapshot, error)
	// SaveSnapshot makes a snapshot of every machine, or of none: what was made is deleted where one fails, or ctx ends.
	SaveSnapshot(ctx context.Context, r *cluster.Record, tag string, memory bool, sink progress.Sink) error
	// Protected returns the names of the nodes whose machines nothing may delete: a rollback takes that away.
	Protected(ctx context.Context, r *cluster.Record) ([]string, error)
	// RestoreSnapshot brings every machine back and has it running, and waits for that also where ctx ends. Whose the
	// machines are is to be written anew afterwards. Those of the named nodes are protected again.
	RestoreSnapshot(ctx context.Context, r *cluster.Record, tag string, protected []string, sink progress.Sink) error
	// DeleteSnapshot deletes it from every machine that has it.
	DeleteSnapshot(ctx context.Context, r *cluster.Record, tag string) error
}
