package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/progress"
)

// ReadDrift returns what of a cluster is not as it is recorded. It changes nothing, neither here nor on a hypervisor. What
// cannot be read is the error; the differences are what could.
func ReadDrift(ctx context.Context, r *Job) ([]Difference, error) {
	if p, status := r.Record.Current(); p == cluster.PhaseDown && status != cluster.PhaseDone {
		return nil, progress.WithHint(
			fmt.Errorf("cluster %q is being removed: its down did not come to its end", r.Record.Name),
			fmt.Sprintf("hive-test down %s", r.Record.Name),
		)
	}
	evidence := DriftEvidence{Record: r.Record}
	var err error
	if evidence.Inventory, err = r.inventoryFile(); err != nil {
		return nil, err
	}
	if r.Deploy.Inspect != nil {
		within, cancel := context.WithTimeout(ctx, statusTime)
		evidence.Seen, err = r.Deploy.Inspect.Inspect(within, r.Record)
		cancel()
		if err != nil {
			return nil, err
		}
	}
	if r.Deploy.Refresh != nil && r.Record.Nodes.WereUp() {
		if evidence.Refreshed, err = r.refreshed(ctx, evidence.Seen); err != nil {
			return nil, err
		}
	}
	return Differences(evidence), unread(evidence.Seen)
}

// refreshed asks the deployer, with the nodes where their machines are now: one that was moved is not gone.
func (r *Job) refreshed(ctx context.Context, seen []deploy.Seen) (*deploy.Refreshed, error) {
	request, err := r.request()
	if err != nil {
		return nil, err
	}
	request.Nodes = slices.Clone(request.Nodes)
	for i := range request.Nodes {
		node := &request.Nodes[i]
		for _, s := range seen {
			if s.Node == node.Name && s.Owned {
				placement.Change(node, func(vm *placement.VM) { vm.Hypervisor = s.Hypervisor })
			}
		}
	}
	refreshed, err := r.Deploy.Refresh.Refresh(ctx, request)
	return &refreshed, err
}

// unread is an error that names the machines that cannot be read; nil: all could.
func unread(seen []deploy.Seen) error {
	var failures []error
	for _, s := range seen {
		if s.Err != nil {
			failures = append(failures, progress.WithNodes(fmt.Errorf("%s cannot be looked at: %w", vmWord(s.VMID), s.Err), s.Node))
		}
	}
	return errors.Join(failures...)
}

// inventoryFile reads the inventory; nil: there is none.
func (r *Job) inventoryFile() (*cluster.Inventory, error) {
	raw, err := os.ReadFile(r.Store.Path(r.Record.Name, "inventory.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	inventory := new(cluster.Inventory)
	if err == nil {
		err = json.Unmarshal(raw, inventory)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the inventory: %w", err)
	}
	return inventory, nil
}
