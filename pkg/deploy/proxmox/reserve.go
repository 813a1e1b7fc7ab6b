package proxmox

import (
	"context"
	"crypto/rand"
	"encoding/binary"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/deploy/proxmox/api"
	"hive-test/pkg/progress"
)

// Reserve chooses free ids. What cannot be chosen because the API cannot be used is left to Preflight to explain.
func (f *Fleet) Reserve(ctx context.Context, r *cluster.Record) (cluster.Nodes, error) {
	request := f.choice(r, r.Nodes)
	request.Count, request.Seed = r.Spec.NodeCount-len(r.Nodes), seed()
	request.Hosts = f.place(ctx, r, request)
	// What others have leased is left alone where there is room elsewhere; else the lease will wait for them.
	avoiding := request
	avoiding.Taken = f.leased(ctx, r)
	nodes, err := api.Choose(ctx, f.Client, avoiding)
	if err != nil && len(avoiding.Taken) > 0 {
		nodes, err = api.Choose(ctx, f.Client, request)
	}
	if err != nil {
		if findings, _ := f.Preflight(ctx, r, false); len(deploy.Failed(findings)) > 0 {
			return nil, &deploy.PreflightError{Findings: deploy.Failed(findings)}
		}
		return nil,
			&deploy.PreflightError{Findings: []deploy.Finding{{
				ID: "pve-ids", Status: deploy.Fail, Title: "free VM ids", Detail: err.Error(),
				Fix: progress.HintOf(err),
			}}}
	}
	return nodes, nil
}

// leased are ids that others have leased. Where no answer comes, leasing finds out.
func (f *Fleet) leased(ctx context.Context, r *cluster.Record) []int {
	ctx, cancel := context.WithTimeout(ctx, CallLimit)
	defer cancel()
	ids, _ := api.LeasedIDs(ctx, f.Client, r.Owner.ID)
	return ids
}

// choice is how ids of nodes beside those that are present are chosen.
func (f *Fleet) choice(r *cluster.Record, present cluster.Nodes) api.ReserveRequest {
	request := api.ReserveRequest{Name: r.Name, Present: present, Range: f.IDRange, Base: f.IDBase}
	for _, h := range placement.Hypervisors(r.Spec) {
		if !h.Avoid {
			request.Hypervisors = append(request.Hypervisors, h.Name)
		}
	}
	return request
}

// place chooses hypervisors by their free memory, where that is asked for. Without an answer nodes go round-robin.
func (f *Fleet) place(ctx context.Context, r *cluster.Record, request api.ReserveRequest) []string {
	if r.Spec.PlaceBy == "" || f.Client == nil {
		return nil
	}
	hosts, err := f.Client.Hypervisors(ctx)
	if err != nil {
		return nil
	}
	return api.Place(r.Spec.PlaceBy, request.Hypervisors, hosts, request.Count, r.Spec.MemoryMB)
}

// Assign fills in templates' places and static addresses. What the API cannot tell is left to Preflight to explain.
func (f *Fleet) Assign(ctx context.Context, r *cluster.Record) (cluster.Nodes, error) {
	taken, err := f.Taken()
	if err != nil {
		return nil, err
	}
	nodes, err := f.located(ctx, r)
	if err == nil {
		nodes, err = api.Assign(ctx, f.Client, api.AssignRequest{Spec: r.Spec, Nodes: nodes, Taken: taken})
	}
	if err != nil {
		if findings, _ := f.Preflight(ctx, r, false); len(deploy.Failed(findings)) > 0 {
			return nil, &deploy.PreflightError{Findings: deploy.Failed(findings)}
		}
		return nil, &deploy.PreflightError{Findings: []deploy.Finding{{
			ID: "pve-addresses", Title: "free addresses", Detail: err.Error(),
			Fix: "widen network.addresses and network.data_addresses, or remove clusters that hold addresses: hive-test status lists them",
		}}}
	}
	return nodes, nil
}

// seed makes two runs that choose ids at the same moment choose different ones.
func seed() uint64 {
	var raw [8]byte
	_, _ = rand.Read(raw[:]) // crypto/rand.Read does not fail
	return binary.LittleEndian.Uint64(raw[:])
}
