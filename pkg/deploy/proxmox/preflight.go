package proxmox

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/deploy/proxmox/api"
)

// Preflight reports what failed or is doubtful.
func (f *Fleet) Preflight(ctx context.Context, r *cluster.Record, anew bool) ([]deploy.Finding, error) {
	if f.Checks.Skip {
		return nil, ctx.Err()
	}
	fine := func(f deploy.Finding) bool { return f.Status == deploy.Pass || f.Status == deploy.Skip }
	return slices.DeleteFunc(f.findings(ctx, r, anew), fine), ctx.Err()
}

// Findings are those of every check there is, for up and doctor alike. VMs of ours that exist already are not in their
// own way. Without a client only what is not Proxmox VE's is checked.
func (f *Fleet) Findings(ctx context.Context, r *cluster.Record) []deploy.Finding {
	return f.findings(ctx, r, false)
}

// findings are Findings; anew says that VMs that exist may be made anew.
func (f *Fleet) findings(ctx context.Context, r *cluster.Record, anew bool) []deploy.Finding {
	request := api.PreflightRequest{
		Anew: anew,
		Spec: r.Spec, Nodes: r.Nodes, Pool: placement.TargetOf(r.Target).Pool, IDRange: f.IDRange, IDBase: f.IDBase,
		CPUOvercommit: f.Checks.CPUOvercommit, Login: f.Checks.Login, More: f.Checks.More,
	}
	if f.Checks.Healthy != nil && f.Checks.Healthy() && !anew {
		request.LiveOnly, request.More = true, nil
	}
	if f.Client == nil {
		return api.Preflight(ctx, nil, request)
	}
	request.TokenID, request.Endpoint = f.Client.TokenID(), f.Client.Endpoint()
	request.Name, request.OwnerID, request.Simulated = r.Name, r.Owner.ID, r.Target.Simulated
	if _, begun := r.Phases[cluster.PhaseUp]; !begun {
		return api.Preflight(ctx, f.Client, request)
	}
	var unread []deploy.Finding
	for i, state := range f.states(ctx, r) {
		away := errors.Is(state.err, api.ErrUnreachable) || ctx.Err() != nil
		if away && ctx.Err() == nil {
			finding := deploy.Finding{
				ID: "pve-hypervisors", Title: "hypervisors exist and are online", Status: deploy.Fail,
				Detail: fmt.Sprintf(
					"%s is on %s, which does not answer: %v", r.Nodes[i].Name, placement.Of(r.Nodes[i]).Hypervisor,
					state.err,
				),
				Fix: fmt.Sprintf("bring back %s: pvecm status", placement.Of(r.Nodes[i]).Hypervisor),
			}
			if api.TimedOut(state.err) {
				finding.Status, finding.Unmade, finding.Fix = deploy.Warn, true, api.CallTimeoutFix
				finding.Detail = fmt.Sprintf(
					"not checked: %s on %s: %v", r.Nodes[i].Name, placement.Of(r.Nodes[i]).Hypervisor, state.err,
				)
			}
			unread = append(unread, finding)
		}
		// of one that lost its marks, up says how it gets them back
		if away || state.ours || state.err == nil && hasOwner(r, state.vm) {
			request.OwnIDs = append(request.OwnIDs, placement.Of(r.Nodes[i]).VMID)
		}
	}
	return append(api.Preflight(ctx, f.Client, request), unread...)
}
