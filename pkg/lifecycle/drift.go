package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"

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
	// Both are asked at once: the plan takes as long as all else together.
	var refreshing sync.WaitGroup
	var refreshErr error
	planning, cancel := context.WithCancel(ctx)
	defer cancel()
	if r.Deploy.Refresh != nil && r.Record.Nodes.WereUp() {
		refreshing.Go(func() { evidence.Refreshed, refreshErr = r.refreshed(planning, r.Record.Nodes) })
	}
	if evidence.Seen, err = r.inspect(ctx); err != nil {
		cancel()
	}
	nodes, moved := whereTheyAre(r.Record.Nodes, evidence.Seen)
	if moved {
		cancel()
	}
	refreshing.Wait()
	if err != nil {
		return nil, err
	}
	if moved && evidence.Refreshed != nil {
		evidence.Refreshed, refreshErr = r.refreshed(ctx, nodes)
	}
	if refreshErr != nil {
		return nil, refreshErr
	}
	return Differences(evidence), unread(evidence.Seen)
}

// inspect looks at the machines, where that can be done.
func (r *Job) inspect(ctx context.Context) ([]deploy.Seen, error) {
	if r.Deploy.Inspect == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, statusTime)
	defer cancel()
	return r.Deploy.Inspect.Inspect(ctx, r.Record)
}

// whereTheyAre are nodes with the hypervisors that their machines are on now: to a plan that looks elsewhere they are gone.
func whereTheyAre(recorded cluster.Nodes, seen []deploy.Seen) (nodes cluster.Nodes, moved bool) {
	nodes = slices.Clone(recorded)
	for i := range nodes {
		for _, s := range seen {
			if s.Node == nodes[i].Name && s.Owned && s.Hypervisor != placement.Of(nodes[i]).Hypervisor {
				placement.Change(&nodes[i], func(vm *placement.VM) { vm.Hypervisor = s.Hypervisor })
				moved = true
			}
		}
	}
	return nodes, moved
}

// refreshed asks the deployer, with the nodes at these places.
func (r *Job) refreshed(ctx context.Context, nodes cluster.Nodes) (*deploy.Refreshed, error) {
	request, err := r.request()
	if err != nil {
		return nil, err
	}
	request.Nodes = nodes[:len(request.Nodes)]
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
