package deploy

import (
	"context"

	"hive-test/pkg/cluster"
)

// Seen is what a live look found under the id of a node's machine, or of another machine that carries the owner id.
type Seen struct {
	VMID int
	// Node is the name of the record's node with that id; empty: no node of the record has it.
	Node string
	// Gone says that there is no machine of that id.
	Gone bool
	// Err is why it is not known what there is; else nil.
	Err error
	// Owned says that the description names the record's cluster and owner id. What is below is of the machine then, and
	// otherwise of somebody else's.
	Owned bool

	Name, Hypervisor, Pool, Description string
	// Power is running, stopped or whatever else the hypervisor calls it.
	Power     string
	Tags      []string // sorted
	Snapshots []SeenSnapshot
}

// SeenSnapshot is a snapshot of one machine.
type SeenSnapshot struct {
	Name string
	// Owned says that its description names the record's cluster and owner id.
	Owned bool
}

// Inspector reads live what there is of a record's machines, whatever it was that made them differ. It changes nothing.
type Inspector interface {
	// Inspect returns what is found under the id of every node, in their order, and after them every other machine that
	// carries the record's owner id. What cannot be read of one machine is part of the answer.
	Inspect(ctx context.Context, r *cluster.Record) ([]Seen, error)
}

// Refreshed is what a deployer's own records say, compared with what is there and with what is asked for.
type Refreshed struct {
	// Drifted are resources that are not as they were recorded: Before is what was recorded, After what is there.
	Drifted []Change
	// Wanted is what Up would do to make them as they are asked for: Before is what is there, After what is wanted.
	Wanted []Change
	// Machines are those that are recorded.
	Machines []VMRef
}

// Refresher compares what a deployer has recorded itself with what is there.
type Refresher interface {
	// Refresh writes nothing below r.Dir, keeps nobody from working on the cluster, and reads only. Nodes are to be where
	// their machines are now.
	Refresh(ctx context.Context, r Request) (Refreshed, error)
}
