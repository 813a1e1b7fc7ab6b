package engine

import (
	"context"
	"errors"
	"fmt"
	"os"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/lifecycle"
	"hive-test/pkg/phase"
	"hive-test/pkg/progress"
	"hive-test/pkg/state"
	"hive-test/pkg/target"
)

// DownRequest is what Down is asked for.
type DownRequest struct {
	Request
	Force       bool   // take protections off, and where tofu fails, delete the VMs through the API
	KeepResults bool   // keep the last test results beside the evidence of this run
	Owner       string // id of the VMs' owner, for a cluster whose directory is lost
	Leave       Leave  // of hosts of a hosts file
}

// Down destroys the VMs of a cluster, proves that they are gone, and removes its directory.
func (e *Engine) Down(ctx context.Context, request DownRequest) (Outcome, error) {
	return e.do(ctx, "down", request.Request, func(s *session) error {
		find := func() error {
			if err := s.find(request.Owner); err != nil {
				return err
			}
			if err := s.protect(); err != nil {
				return err
			}
			if s.Settings.IKnow == s.Name.String() { // what its VMs say of that is no surprise
				s.Record.Owner.Protected = true
			}
			return s.checkLeave(&request.Leave)
		}
		return s.withCluster(ctx, find, func(r *lifecycle.Job) []phase.Entry {
			r.Force, r.KeepResults, r.Leave = request.Force, request.KeepResults, request.Leave.hive()
			return []phase.Entry{{Phase: lifecycle.Down(r)}}
		})
	})
}

// find reads the cluster's record, or puts together what is needed to destroy it from what is left of the directory,
// or, where there is none, from the owner id that was given.
func (s *session) find(owner string) error {
	err := s.load()
	if err == nil {
		return s.sameOwner(owner)
	}
	switch missing := errors.Is(err, state.ErrNotFound); {
	case missing && owner == "":
		if tidyErr := s.Store.Tidy(s.Name); tidyErr != nil {
			return Error{ExitConfig, tidyErr}
		}
		return progress.WithHint(
			err,
			"if its directory is lost: hive-test doctor "+s.Name.String()+", which gives the command with the owner id "+
				"that destroys its VMs (hive-test down "+s.Name.String()+" --owner ID)",
		)
	case !missing && !errors.Is(err, state.ErrCorrupt):
		return err
	}
	s.Recovered = true
	if record, spareErr := s.Store.Backup(s.Name); spareErr == nil {
		s.Record = record
		s.told(fmt.Sprintf("going by the spare copy of the record: %v", err))
		return errors.Join(s.simulatedAsAsked(), s.sameOwner(owner))
	}
	recorded, recoverErr := target.Recover(s.Store.Dir(s.Name))
	switch {
	case recoverErr == nil && recorded.Name == s.Name:
		s.told(fmt.Sprintf("going by what OpenTofu has left: %v", err))
		return s.rebuild(recorded, owner)
	case owner != "":
		_, gone := os.Stat(s.Store.Dir(s.Name))
		s.unread = gone == nil && errors.Is(err, state.ErrCorrupt)
		return s.rebuild(deploy.Recorded{Name: s.Name, OwnerID: owner}, owner)
	}
	return progress.WithHint(
		err,
		"what OpenTofu has left does not help either; with the owner id, which the VMs' descriptions show in Proxmox "+
			"VE: hive-test down "+s.Name.String()+" --owner ID",
	)
}

// told says once how the record was found, which is looked for twice.
func (s *session) told(how string) {
	if s.lock == nil {
		progress.Warn(s.Sink, how, "")
	}
}

func (s *session) sameOwner(owner string) error {
	if owner == "" || owner == s.Record.Owner.ID {
		return nil
	}
	return usage(progress.WithHint(
		fmt.Errorf("cluster %q here belongs to owner %s, not %s", s.Name, s.Record.Owner.ID, owner),
		"for another cluster of that name, name an empty directory with --clusters-dir"))
}

// rebuild makes a record that is good for nothing but finding and deleting the VMs.
func (s *session) rebuild(from deploy.Recorded, owner string) error {
	s.Record = &cluster.Record{
		Schema: cluster.RecordSchema, Name: s.Name, Owner: cluster.Owner{ID: from.OwnerID}, Nodes: from.Nodes,
		Phases: map[cluster.Phase]cluster.PhaseRecord{},
	}
	if problems := placement.Validate(s.Record); len(problems) > 0 {
		return Error{
			ExitConfig, fmt.Errorf("what is left of cluster %q is damaged: %w", s.Name, errors.Join(problems...)),
		}
	}
	if err := s.sameOwner(owner); err != nil {
		return err
	}
	return s.Rebuild(from)
}

// elsewhere adds to an error of a down that cannot write to the clusters directory how to do without that.
func (s *session) elsewhere(err error) error {
	_, locked := errors.AsType[*state.LockedError](err)
	if s.verb != string(cluster.PhaseDown) || locked || !s.Makes() {
		return err
	}
	return progress.WithHint(
		err,
		"nothing was changed: mend that, or destroy the VMs without that directory: "+lifecycle.Elsewhere(s.Record),
	)
}

// readOnlyStore is a Store that writes no record: what was put together to destroy a cluster is none, and what is
// damaged stays as it is for whoever wants to mend it.
type readOnlyStore struct {
	lifecycle.Store
	unread bool // what is in the directory could not be read: it may tell of other VMs
	sink   progress.Sink
}

// Save keeps nothing.
func (readOnlyStore) Save(*cluster.Record) error { return nil }

// Remove leaves a directory that could not be read.
func (k readOnlyStore) Remove(name cluster.Name) error {
	if !k.unread {
		return k.Store.Remove(name)
	}
	progress.Warn(
		k.sink, fmt.Sprintf("%s cannot be read, and stays: it may tell of VMs of another owner", k.Path(name, "")),
		"look at it, and remove it yourself",
	)
	return nil
}
