package target

import (
	"context"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/proxmox"
)

// Templates opens the way to the templates on a Proxmox VE. Nothing else is needed: no record, no hypervisors, no
// OpenTofu.
func (t *Target) Templates(ctx context.Context) (deploy.Templater, error) {
	fleet, err := t.withoutCluster(ctx)
	if err != nil {
		return nil, err
	}
	return fleet, nil
}

// withoutCluster opens the way to Proxmox VE for what is about no cluster of this machine.
func (t *Target) withoutCluster(ctx context.Context) (*proxmox.Fleet, error) {
	t.Record = &cluster.Record{Name: t.Name, Spec: cluster.Spec{Deployer: deploy.Proxmox}}
	t.fillTarget()
	if t.Settings.Sim {
		t.Record.Target = simulatedIn(t.Settings.Proxmox.Pool)
		if err := t.Connect(ctx); err != nil {
			return nil, err
		}
		return t.proxmoxFleet()
	}
	t.readToken(ctx)
	if err := t.incompleteError(
		t.missingAccess(), "for the simulator of this clusters directory: add --sim",
	); err != nil {
		return nil, err
	}
	return t.proxmoxFleet()
}
