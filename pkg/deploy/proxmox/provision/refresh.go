package provision

import (
	"context"
	"encoding/json"
	"fmt"

	"hive-test/pkg/deploy"
	"hive-test/pkg/opentofu"
)

// Refresh compares the state with what is there, and what is there with what is asked for. Nothing is written below the
// cluster's directory.
func (p *Provisioner) Refresh(ctx context.Context, request deploy.Request) (deploy.Refreshed, error) {
	v, err := newVariables(request, p.options.Endpoint)
	if err != nil {
		return deploy.Refreshed{}, err
	}
	p.warnOfKeychain()
	drift, err := p.runner(p.ca).Drift(ctx, request.Dir, v)
	if err != nil {
		return deploy.Refreshed{}, contract(err)
	}
	machines, err := machinesOf(drift.Resources)
	return deploy.Refreshed{
		Drifted:  planOf(opentofu.Plan{Changes: drift.Drifted}, nil).Changes,
		Wanted:   planOf(opentofu.Plan{Changes: drift.Wanted}, nil).Changes,
		Machines: machines,
	}, err
}

// machinesOf are the VMs of a state that were made to the end.
func machinesOf(made []opentofu.Resource) ([]deploy.VMRef, error) {
	var list []deploy.VMRef
	for _, resource := range made {
		if resource.Type != vmType || resource.Tainted {
			continue
		}
		var a attributes
		if err := json.Unmarshal(resource.Attributes, &a); err != nil {
			return nil, fmt.Errorf("%w: the state of %s: %w", deploy.ErrUnusable, resource.Key, err)
		}
		list = append(list, deploy.VMRef{VMID: a.VMID, Name: resource.Key, Hypervisor: a.NodeName})
	}
	return list, nil
}
