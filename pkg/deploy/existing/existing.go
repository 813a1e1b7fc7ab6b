// Package existing is the deployer of hosts that are already there: it makes nothing and removes nothing.
package existing

import (
	"context"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
)

// Hosts are hosts that somebody else runs.
type Hosts struct{}

var _ deploy.Deployer = Hosts{}

// Up has nothing to make.
func (Hosts) Up(context.Context, deploy.Request) (deploy.Result, error) {
	return deploy.Result{}, nil
}

// Plan has nothing to do.
func (Hosts) Plan(context.Context, deploy.Request) (deploy.Plan, error) {
	return deploy.Plan{}, nil
}

// Down releases the hosts: they stay as they are.
func (Hosts) Down(context.Context, deploy.Request) error { return nil }

// Power is not known of a host that somebody else runs; its addresses are those of the hosts file.
func (Hosts) Power(_ context.Context, r *cluster.Record) []deploy.Power {
	powers := make([]deploy.Power, len(r.Nodes))
	for i, node := range r.Nodes {
		powers[i] = deploy.Power{Power: "unknown", Agent: "unknown", Management: node.Management, Data: node.Data}
	}
	return powers
}
