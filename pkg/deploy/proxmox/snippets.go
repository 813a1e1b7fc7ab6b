package proxmox

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/deploy/proxmox/api"
	"hive-test/pkg/progress"
)

// snippet is a cloud-init snippet that hive-test has put on a hypervisor.
type snippet struct {
	volume, hypervisor string
	node, owner        string
	shared             bool // its storage may be that of other Proxmox VEs, too
}

// eachSnippet calls visit with every snippet of hive-test's, one at a time. A place that cannot be looked at is told,
// once.
func (f *Fleet) eachSnippet(ctx context.Context, sink progress.Sink, visit func(snippet)) error {
	hosts, err := f.Client.Hypervisors(ctx)
	if err != nil {
		return fmt.Errorf("listing the hypervisors: %w", err)
	}
	var mu sync.Mutex
	f.forEach(len(hosts), func(i int) {
		found, err := f.snippetsOn(ctx, hosts[i])
		if err != nil {
			f.tellUnlooked(hosts[i], err, sink)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, s := range found {
			visit(s)
		}
	})
	return nil
}

// tellUnlooked tells, once, that nobody could look for snippets on a hypervisor.
func (f *Fleet) tellUnlooked(host api.Hypervisor, why error, sink progress.Sink) {
	kind := progress.Warning
	if !host.Online { // a cluster that had VMs there was told of it already
		kind = progress.Output
	}
	if _, told := f.unlooked.LoadOrStore(host.Name, true); !told {
		sink.Emit(progress.Event{
			Kind: kind, Message: fmt.Sprintf("it was not looked whether snippets are left on %s: %v", host.Name, why),
		})
	}
}

// snippetsOn looks at one hypervisor. One that hangs may have nothing of anybody's, and does not hold up the others for
// long.
func (f *Fleet) snippetsOn(ctx context.Context, host api.Hypervisor) ([]snippet, error) {
	if !host.Online {
		return nil, errors.New("it is offline")
	}
	hypervisor := host.Name
	ctx, cancel := context.WithTimeoutCause(ctx, 2*CallLimit, fmt.Errorf("no answer within %s", 2*CallLimit))
	defer cancel()
	storages, err := f.Client.Storages(ctx, hypervisor)
	if err != nil {
		return nil, err
	}
	var found []snippet
	for _, storage := range storages {
		if !storage.Holds("snippets") || !storage.Active {
			continue
		}
		volumes, err := f.Client.Content(ctx, hypervisor, storage.Name, "snippets")
		if err != nil {
			return found, err
		}
		for _, v := range volumes {
			if node, owner, ok := placement.ParseSnippet(path.Base(v.ID)); ok {
				found = append(found, snippet{
					volume: v.ID, hypervisor: hypervisor, node: node, owner: owner, shared: storage.Shared,
				})
			}
		}
	}
	return found, nil
}

// dropSnippets deletes the snippets whose names carry the owner id, wherever they are.
func (f *Fleet) dropSnippets(ctx context.Context, owner string, sink progress.Sink) error {
	var failures []error
	err := f.eachSnippet(ctx, sink, func(s snippet) {
		if s.owner == owner {
			sink.Emit(progress.Event{
				Kind: progress.Info, Message: "left behind, deleting it: " + s.volume + " on " + s.hypervisor,
			})
			failures = append(failures, f.Client.DeleteVolume(ctx, s.hypervisor, s.volume))
		}
	})
	return errors.Join(append(failures, err)...)
}

// snippetAge is how old a cluster must be for its snippets to count as left behind where nothing else is seen of it: an
// up puts them there before it makes VMs. ReapRule.OlderThan may make that less.
const snippetAge = time.Hour

// snippets are all that have the name of a node and an owner; none for a token that may not see all VMs.
func (p *Reaper) snippets(ctx context.Context) (found []snippet) {
	privileges, err := p.Fleet.Client.Permissions(ctx)
	if err != nil || !privileges["/vms"]["VM.Audit"] {
		return nil
	}
	_ = p.Fleet.eachSnippet(ctx, p.Sink, func(s snippet) { found = append(found, s) })
	return found
}

// lostSnippets are the snippets of clusters of which nothing else is there: no VM, no run lease. Those on storages that
// other Proxmox VEs may use, too, are only told.
func (p *Reaper) lostSnippets(
	found []snippet, listed []api.VM, traces api.Traces, rule deploy.ReapRule,
) []deploy.Trace {
	var lost []deploy.Trace
	age := snippetAge
	if rule.OlderThan > 0 {
		age = min(age, rule.OlderThan)
	}
	for _, s := range found {
		name := cluster.Name(s.node[:strings.LastIndexByte(s.node, '-')])
		made := madeAt(s.owner, time.Time{})
		switch {
		case !rule.Covers(name), made.IsZero(), rule.Now.Sub(made) < age,
			slices.ContainsFunc(listed, func(vm api.VM) bool { return vm.Name == s.node }),
			slices.ContainsFunc(traces.RunLeases, func(m api.RunLease) bool { return m.OwnerID == s.owner }),
			slices.ContainsFunc(lost, func(t deploy.Trace) bool { return t.Owner == s.owner }):
			continue
		}
		if l, known := p.Local(name, s.owner); known && !l.Dead {
			continue
		}
		if s.shared {
			p.Sink.Emit(progress.Event{
				Kind: progress.Output,
				Message: fmt.Sprintf("%s is left alone: no VM here has it, but its storage may be another Proxmox "+
					"VE's, too", s.volume),
			})
			continue
		}
		lost = append(lost, deploy.Trace{
			Cluster: name, Owner: s.owner, Detail: "snippets of VMs that are gone, on " + s.hypervisor,
			Action: deploy.ReapDelete,
			Drop:   func(ctx context.Context) error { return p.Fleet.dropSnippets(ctx, s.owner, p.Sink) },
		})
	}
	return lost
}
