package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"hive-test/pkg/deploy"
	"hive-test/pkg/remote"
)

// Reading is what up would do, as read from its plan.
type Reading struct {
	Request deploy.Request
	Plan    deploy.Plan
}

// DryRun reads what up would do and changes nothing, neither on disk nor on a hypervisor. The record has its nodes
// already, from Prepare.
func DryRun(ctx context.Context, r *Job) (Reading, error) {
	if !r.Deploy.Makes() {
		return Reading{}, nil
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
	return Reading{Request: request, Plan: plan}, err
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
