package fleet

import (
	"context"
	"errors"
	"fmt"

	"hive-test/pkg/cluster"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/proxmox"
)

// Preflight reports what failed or is doubtful.
func (f *Fleet) Preflight(ctx context.Context, r *cluster.Record) ([]lifecycle.Finding, error) {
	if f.Checks.Skip {
		return nil, ctx.Err()
	}
	var findings []lifecycle.Finding
	for _, found := range f.Findings(ctx, r) {
		if found.Status == proxmox.Pass || found.Status == proxmox.Skip {
			continue
		}
		findings = append(findings, lifecycle.Finding{ID: found.ID, Title: found.Title, Detail: found.Detail, Fix: found.Fix, Warn: found.Status == proxmox.Warn})
	}
	return findings, ctx.Err()
}

// Findings are those of every check there is, for up and doctor alike. VMs of ours that exist already are not in their own way.
// Without a client only what is not Proxmox VE's is checked.
func (f *Fleet) Findings(ctx context.Context, r *cluster.Record) []proxmox.Finding {
	request := proxmox.PreflightRequest{
		Spec: r.Spec, Nodes: r.Nodes, Pool: r.Target.Pool, IDRange: f.IDRange, IDBase: f.IDBase,
		CPUOvercommit: f.Checks.CPUOvercommit, Login: f.Checks.Login, More: f.Checks.More,
	}
	if f.Checks.Healthy != nil && f.Checks.Healthy() {
		request.LiveOnly, request.More = true, nil
	}
	if f.Client == nil {
		return proxmox.Preflight(ctx, nil, request)
	}
	request.TokenID, request.Endpoint = f.Client.TokenID(), f.Client.Endpoint()
	if _, begun := r.Phases[cluster.PhaseUp]; !begun {
		request.Name = r.Name // what else carries the name of one that is there is for reap to judge
		return proxmox.Preflight(ctx, f.Client, request)
	}
	var unread []proxmox.Finding
	for i, state := range f.states(ctx, r) {
		away := errors.Is(state.err, proxmox.ErrUnreachable) || ctx.Err() != nil
		if away && ctx.Err() == nil {
			finding := proxmox.Finding{
				ID: "pve-hypervisors", Title: "hypervisors exist and are online", Status: proxmox.Fail,
				Detail: fmt.Sprintf("%s is on %s, which does not answer: %v", r.Nodes[i].Name, r.Nodes[i].Hypervisor, state.err),
				Fix:    fmt.Sprintf("bring back %s: pvecm status", r.Nodes[i].Hypervisor),
			}
			if proxmox.TimedOut(state.err) {
				finding.Status, finding.Unmade, finding.Fix = proxmox.Warn, true, proxmox.CallTimeoutFix
				finding.Detail = fmt.Sprintf("not checked: %s on %s: %v", r.Nodes[i].Name, r.Nodes[i].Hypervisor, state.err)
			}
			unread = append(unread, finding)
		}
		if away || state.ours || state.err == nil && described(r, state.vm) { // of one that lost its marks, up says how it gets them back
			request.OwnIDs = append(request.OwnIDs, r.Nodes[i].VMID)
		}
	}
	return append(proxmox.Preflight(ctx, f.Client, request), unread...)
}

func fatal(findings []lifecycle.Finding) []lifecycle.Finding {
	var left []lifecycle.Finding
	for _, f := range findings {
		if !f.Warn {
			left = append(left, f)
		}
	}
	return left
}

func hasFatal(findings []lifecycle.Finding) bool { return len(fatal(findings)) > 0 }
