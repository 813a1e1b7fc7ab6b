package lifecycle

import (
	"context"
	"fmt"

	"hive-test/pkg/cluster"
	"hive-test/pkg/progress"
)

// UpdateMetadata changes until when the cluster's VMs are meant to exist, and whether reap leaves them alone: in the
// record first, then on every VM that exists. What could not be changed there is changed by the next UpdateMetadata, or
// by the next up.
func UpdateMetadata(ctx context.Context, r *Job, change func(*cluster.Owner)) error {
	if r.Deploy.Owner == nil {
		return fmt.Errorf("cluster %q is made of hosts that were there: nothing ever deletes them", r.Record.Name)
	}
	change(&r.Record.Owner)
	if err := r.Store.Save(r.Record); err != nil {
		return err
	}
	if err := r.Deploy.Owner.UpdateMetadata(ctx, r.Record); err != nil {
		return progress.WithHint(fmt.Errorf("saved here, but some VMs could not be updated: %w", err),
			"the same command again, or `hive-test up "+string(r.Record.Name)+"`, writes the rest")
	}
	return nil
}
