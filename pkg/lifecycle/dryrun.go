package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/remote"
)

// Reading is what up would do, as read from its plan.
type Reading struct {
	Request deploy.Request
	Plan    deploy.Plan
	// Others says that the hive that was formed would have other members: only by force it is formed anew.
	Others bool
	// Stops names the members of the hive that was formed whose VMs would be started or restarted: hive does not start
	// with them.
	Stops []string
	// Taken says that the cluster is new, and made of hosts that are there.
	Taken bool
}

// DryRun reads what up would do and changes nothing, neither on disk nor on a hypervisor. The record has its nodes
// already, from Prepare.
func DryRun(ctx context.Context, r *Job) (Reading, error) {
	if !r.Deploy.Makes() {
		return Reading{Taken: r.Before == nil}, nil
	}
	if r.Deploy.Owner != nil {
		if err := r.Deploy.Owner.CheckOwnership(ctx, r.Record); err != nil {
			return Reading{}, err
		}
	}
	request, err := r.request()
	if errors.Is(err, fs.ErrNotExist) {
		request, err = r.requestWithoutKey()
	}
	if err != nil {
		return Reading{}, err
	}
	plan, err := r.Deploy.Plan(ctx, request)
	if err == nil {
		err = r.makeable(ctx, plan)
	}
	return Reading{
		Request: request, Plan: plan, Others: r.changesMembers(created(plan)), Stops: r.stops(plan),
	}, err
}

// stops returns the members of a formed hive whose VMs a plan starts or restarts.
func (r *Job) stops(plan deploy.Plan) []string {
	formed, _ := r.Record.Formed()
	var names []string
	for _, c := range plan.Changes {
		if c.Boots() && slices.Contains(formed.Members, c.Node) {
			names = append(names, c.Node)
		}
	}
	return names
}

// created returns the nodes whose machines a plan makes, or makes anew.
func created(plan deploy.Plan) []string {
	var names []string
	for _, c := range plan.Changes {
		if c.VM && (c.Action == deploy.Create || c.Action == deploy.Replace) {
			names = append(names, c.Node)
		}
	}
	return names
}

// changesMembers reports whether a hive was formed on the cluster and the nodes that are made, or leave, are others than
// it knows. Where none of its members stays, there is none any more.
func (r *Job) changesMembers(made []string) bool {
	changed := append(r.Record.Leaving().Names(), made...)
	if r.Before == nil || len(changed) == 0 {
		return false
	}
	after := r.Record.Clone()
	after.ForgetNodes(changed...)
	_, formed := after.Formed()
	return formed
}

// othersText and othersHint tell of a hive that was formed of other nodes.
const othersText = "the running hive cluster on %s has other members, and hive cannot add or remove members"

func othersHint(name cluster.Name) string {
	return fmt.Sprintf("hive-test configure %s --force forms it anew of all nodes, and drops what it holds", name)
}

// Notes returns what else up would do, for people.
func (r Reading) Notes(name cluster.Name) []string {
	switch {
	case r.Others:
		return []string{fmt.Sprintf(othersText, name) + ": " + othersHint(name)}
	case len(r.Stops) > 0:
		return []string{fmt.Sprintf(
			"hive does not start with a VM, and would be down on %s until: %s", strings.Join(r.Stops, ", "), StartCommand(name),
		)}
	}
	return nil
}

// requestWithoutKey is request for a cluster whose key pair is still to be made: another one stands in for it.
func (r *Job) requestWithoutKey() (deploy.Request, error) {
	dir, err := os.MkdirTemp("", "hive-test-plan-")
	if err != nil {
		return deploy.Request{}, fmt.Errorf("make a directory for the plan: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	record := *r.Record
	record.SSHKeyPath = filepath.Join(dir, "key")
	standIn := &Job{Record: &record, Store: r.Store, Allow: r.Allow}
	if err := remote.GenerateKey(record.SSHKeyPath); err != nil {
		return deploy.Request{}, err
	}
	return standIn.request()
}
