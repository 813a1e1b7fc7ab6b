package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/phase"
	"hive-test/pkg/progress"
	"hive-test/pkg/remote"
)

// Prepare checks that up can succeed and chooses what its VMs will be, changing nothing: the record it is given gains
// its nodes in memory only. Nodes that are chosen already keep what was chosen for them. Before is the record as it was
// (nil: the cluster is new): where machines are to be made of something else than then, those that exist may be made
// anew, and what is made is looked at as if they did not.
func Prepare(ctx context.Context, deployer deploy.Capable, r, before *cluster.Record) ([]deploy.Finding, error) {
	warnings, err := reserve(ctx, deployer.Reserve, r)
	if err != nil || deployer.Preflight == nil {
		return warnings, err
	}
	staying := *r
	staying.Nodes = r.Staying()
	findings, err := deployer.Preflight.Preflight(ctx, &staying, before != nil && !r.Spec.SameOrigin(before.Spec))
	if err != nil {
		return nil, err
	}
	var fatal []deploy.Finding
	for _, f := range findings {
		if f.Status == deploy.Warn {
			warnings = append(warnings, f)
		} else {
			fatal = append(fatal, f)
		}
	}
	if len(fatal) > 0 {
		return warnings, &deploy.PreflightError{Findings: fatal}
	}
	return warnings, nil
}

// makeable fails where a plan deletes machines, with what is on their disks, to make them anew, and that could not
// succeed. The preflight has looked at what is new alone.
func (r *Job) makeable(ctx context.Context, plan deploy.Plan) error {
	lost := func(name string) bool {
		return slices.ContainsFunc(plan.Changes, func(c deploy.Change) bool {
			return c.Node == name && c.VM && c.Action == deploy.Replace && !c.Unfinished
		})
	}
	replaced := *r.Record
	replaced.Nodes = slices.DeleteFunc(slices.Clone(r.Record.Nodes), func(n cluster.Node) bool { return !lost(n.Name) })
	if len(replaced.Nodes) == 0 || r.Deploy.Preflight == nil || !r.Allow.Replace {
		return nil
	}
	findings, err := r.Deploy.Preflight.Preflight(ctx, &replaced, true)
	if failed := deploy.Failed(findings); err == nil && len(failed) > 0 {
		return &deploy.PreflightError{Findings: failed}
	}
	return err
}

// reserve chooses what the nodes will be that the record lacks, and tells of those that others have moved.
func reserve(ctx context.Context, reserver deploy.Reserver, r *cluster.Record) ([]deploy.Finding, error) {
	if reserver == nil { // the nodes are those that are named
		return nil, nil
	}
	if len(r.Nodes) < r.Spec.NodeCount {
		nodes, err := reserver.Reserve(ctx, r)
		if err != nil {
			return nil, err
		}
		r.Nodes = append(r.Nodes, nodes...)
	}
	nodes, err := reserver.Assign(ctx, r)
	if err != nil {
		return nil, err
	}
	warnings := migrated(r.Nodes, nodes)
	r.Nodes = nodes
	return warnings, nil
}

// migrated tells of nodes whose VM is on another hypervisor than it was.
func migrated(before, now cluster.Nodes) []deploy.Finding {
	var list []deploy.Finding
	for i, node := range now {
		from, at := placement.Of(before[i]).Hypervisor, placement.Of(node)
		if from != at.Hypervisor {
			list = append(list, deploy.Finding{
				ID: "pve-moved", Title: "VMs are where they were", Status: deploy.Warn,
				Detail: fmt.Sprintf(
					"VM %d of %s was moved from %s to %s by others, and is managed there from now on", at.VMID,
					node.Name, from, at.Hypervisor,
				),
			})
		}
	}
	return list
}

// up makes the VMs of the record exist, ours, reachable and written down.
type up struct {
	*Job
	applied bool // something may differ from before
}

// Up is the phase that provisions.
func Up(r *Job) phase.Phase { return collectOnFailure{Phase: &up{Job: r}, run: r} }

// Name is the phase's name.
func (u *up) Name() string { return string(cluster.PhaseUp) }

// Run provisions; on a cluster that is up and unchanged it changes nothing. Where it fails before anything was changed,
// the record is again what it was: what was refused is not asked for by the next run.
func (u *up) Run(ctx context.Context) error {
	err := u.run(ctx)
	if err == nil || u.applied || u.Before == nil {
		return err
	}
	return errors.Join(err, phase.InTurn(ctx, func() error {
		*u.Record = *u.Before.Clone()
		return u.Store.Save(u.Record)
	}))
}

func (u *up) run(ctx context.Context) error {
	if u.Deploy.Lease != nil {
		if err := u.steps(ctx, cluster.PhaseUp, step{"claim the VM ids", u.claim}); err != nil {
			return err
		}
	}
	return u.recorded(ctx, cluster.PhaseUp, upInputs(u.Record), func(ctx context.Context) error {
		if !u.Deploy.Makes() {
			return u.steps(ctx, cluster.PhaseUp, step{"reach the hosts", u.reach}, step{
				"write the inventory", u.inventory,
			})
		}
		return u.steps(ctx, cluster.PhaseUp, u.wanted(
			step{"make the cluster's SSH key", u.key},
			step{stepForeign, u.foreign},
			step{"create the VMs", u.provision},
			step{stepRetire, u.retire},
			step{stepRestart, u.restart},
			step{"check that the VMs are ours", u.verify},
			step{stepAddresses, u.addresses},
			step{stepReach, u.reach},
			step{stepHostKeys, u.hostKeys},
			step{"write the inventory", u.inventory},
			step{stepSnapshots, func(ctx context.Context, _ progress.Sink) error { return CheckSnapshots(ctx, u.Job) }},
		)...)
	})
}

// wanted drops the steps that are for a change of size only, where there is none, and those that the deployer cannot
// do.
func (u *up) wanted(list ...step) []step {
	needed := map[string]bool{
		stepRetire:    len(u.Record.Leaving()) > 0,
		stepRestart:   u.Allow.Restart && u.Deploy.Restart != nil,
		stepReach:     u.Record.Spec.Network.Static(),
		stepForeign:   u.Deploy.Owner != nil,
		stepAddresses: u.Deploy.Addresses != nil,
		stepHostKeys:  u.Deploy.HostKeys != nil,
		stepSnapshots: u.SaveAs != "" || u.Reset.Between && len(u.Suites.Specs) > 1,
	}
	return slices.DeleteFunc(list, func(s step) bool {
		wanted, asked := needed[s.name]
		return asked && !wanted
	})
}

// Names of the steps that not every up has: only a change of a cluster, one with static addresses (where nobody tells
// that a node has booted with its address, reaching it does), or a deployer that can do it.
const (
	stepForeign   = "check that the ids are free or ours"
	stepAddresses = "find the addresses"
	stepHostKeys  = "pin the host keys"
	stepSnapshots = "check that snapshots can be made"

	stepReach   = "reach the nodes at their static addresses"
	stepRetire  = "verify that nodes that leave are deleted"
	stepRestart = "restart what waits for a restart"
)

// identities is what of nodes is chosen by us; addresses are found later.
func identities(nodes cluster.Nodes) cluster.Nodes {
	chosen := make(cluster.Nodes, len(nodes))
	for i, n := range nodes {
		chosen[i] = cluster.Node{Name: n.Name, Index: n.Index, Placement: placement.Of(n).Chosen().Document()}
	}
	return chosen
}

func (u *up) key(context.Context, progress.Sink) error {
	if _, err := os.Stat(u.Record.SSHKeyPath); err == nil {
		return nil
	}
	if u.Record.SSHKeyPath != u.Store.Path(u.Record.Name, keyFile) {
		return progress.WithHint(
			fmt.Errorf("the SSH key %s cannot be read", u.Record.SSHKeyPath),
			"name a readable key with --ssh-private-key-path, or none: then the cluster gets its own",
		)
	}
	if _, err := os.Stat(u.Store.Path(u.Record.Name, "terraform.tfstate")); err == nil {
		return progress.WithHint(
			fmt.Errorf("the cluster's SSH key %s is gone, and its VMs accept no other", u.Record.SSHKeyPath),
			fmt.Sprintf("put it back, or remove the cluster: hive-test down %s", u.Record.Name),
		)
	}
	if err := remote.GenerateKey(u.Record.SSHKeyPath); err != nil {
		return err
	}
	private, err := os.ReadFile(u.Record.SSHKeyPath)
	u.Secrets.Learn(string(private))
	return err
}

// claim makes the ids of what is to be made this run's own. It may change them: nothing was made or recorded yet.
func (u *up) claim(ctx context.Context, sink progress.Sink) error {
	err := u.Deploy.Lease.Acquire(ctx, u.Record, u.Before, sink)
	if err != nil { // nothing is recorded yet: nobody else would give up what was claimed so far
		ctx, cancel := phase.After(ctx, remainingTime, progress.ErrTimeUp)
		defer cancel()
		u.Deploy.Lease.Release(ctx, u.Record, sink)
	}
	return err
}

// foreign stops before tofu could take somebody else's VM for ours.
func (u *up) foreign(ctx context.Context, _ progress.Sink) error {
	return u.Deploy.Owner.CheckOwnership(ctx, u.Record)
}

// observeInterval is how often it is asked what is done with machines that are being made.
const observeInterval = 2 * time.Second

// observe tells what is done with the machines, where somebody looks on and it can be known, until ended is called.
func (u *up) observe(ctx context.Context, sink progress.Sink) (ended func()) {
	if !u.Watched || u.Deploy.Observe == nil {
		return func() {}
	}
	record := *u.Record
	record.Nodes = slices.Clone(u.Record.Nodes)
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		ticker := time.NewTicker(observeInterval)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			for name, words := range u.Deploy.Observe.Running(ctx, &record) {
				sink.Emit(progress.Event{Kind: progress.NodeState, Node: name, Message: words})
			}
		}
	})
	return func() {
		cancel()
		done.Wait()
	}
}

func (u *up) provision(ctx context.Context, sink progress.Sink) error {
	request, err := u.request()
	if err != nil {
		return err
	}
	leaving := u.Record.Leaving()
	request.Check = func(ctx context.Context, plan deploy.Plan) error {
		for _, change := range plan.Changes {
			if change.VM {
				progress.Infof(sink, "plan: %s", change)
				sink.Emit(progress.Event{Kind: progress.NodeState, Node: change.Node, Message: "waiting"})
			}
		}
		progress.Infof(sink, "plan: %s", plan.Totals())
		if err := u.ours(ctx, request, plan, sink); err != nil {
			return err
		}
		if err := u.makeable(ctx, plan); err != nil {
			return err
		}
		return u.intend(ctx, plan)
	}
	begun := time.Now()
	ended := u.observe(ctx, sink)
	result, err := u.Deploy.Up(ctx, request)
	ended()
	u.applied = result.Changed || err == nil
	if result.Changed && ctx.Err() == nil && u.Deploy.Diagnose != nil {
		u.Deploy.Diagnose.Warnings(ctx, u.Record, begun)
	}
	if errors.Is(err, deploy.ErrKilled) {
		err = errors.Join(err, phase.InTurn(ctx, func() error {
			u.Record.Cut = u.Now().UTC()
			return nil
		}))
	}
	if err != nil {
		return err
	}
	if !result.Changed && len(leaving) == 0 {
		progress.Infof(sink, "no changes")
	}
	return u.made(ctx, sink, result.Created)
}

// intend notes, before it is asked for, which nodes' VMs are made or changed.
func (u *up) intend(ctx context.Context, plan deploy.Plan) error {
	return u.change(ctx, func() { u.noteChanges(plan) })
}

func (u *up) noteChanges(plan deploy.Plan) {
	step := u.Record.Phases[cluster.PhaseUp].Step
	for _, change := range plan.Changes {
		if !change.VM {
			continue
		}
		noted := u.Record.Phases[cluster.PhaseUp].Nodes[change.Node]
		noted.Step, noted.Status = step, cluster.PhaseRunning
		u.Record.SetProgress(cluster.PhaseUp, change.Node, noted)
		if change.Boots() {
			u.Booted = append(u.Booted, change.Node)
		}
	}
}

// request is what the record asks of the provisioner.
func (r *Job) request() (deploy.Request, error) {
	public, err := os.ReadFile(r.Record.PublicKeyPath())
	if err != nil {
		return deploy.Request{}, fmt.Errorf("reading the public half of the cluster's SSH key: %w", err)
	}
	return deploy.Request{
		Dir: r.Store.Path(r.Record.Name, ""), Name: r.Record.Name, Owner: r.Record.Owner, Spec: r.Record.Spec,
		Nodes: r.Record.Staying(), Leaving: r.Record.Leaving().Names(), Allow: r.Allow,
		SSHPublicKey: strings.TrimSpace(string(public)), Target: r.Record.Target,
	}, nil
}

// made forgets the host keys of machines that were made anew, and says what a formed cluster needs to take new ones in.
func (u *up) made(ctx context.Context, sink progress.Sink, created []string) error {
	err := phase.InTurn(ctx, func() error {
		u.Record.ForgetNodes(created...)
		return nil
	})
	if err != nil {
		return err
	}
	anew := slices.DeleteFunc(
		slices.Clone(u.Record.Nodes), func(n cluster.Node) bool { return !slices.Contains(created, n.Name) },
	)
	failure := remote.ForgetHostKeys(u.Store.Path(u.Record.Name, knownHostsFile), anew...)
	if name := u.Record.Name; u.changesMembers(created) {
		progress.Warn(sink, fmt.Sprintf(othersText, name), othersHint(name))
	}
	return failure
}

// ours fails where a plan would touch what is not ours, or what somebody uses.
func (u *up) ours(ctx context.Context, request deploy.Request, plan deploy.Plan, sink progress.Sink) error {
	owner := u.Deploy.Owner
	if owner == nil {
		return nil
	}
	if err := owner.CheckOwnership(ctx, u.Record); err != nil {
		return err
	}
	if !request.Allow.Replace {
		if err := owner.InUse(ctx, u.Record, plan.Unfinished()); err != nil {
			return err
		}
	}
	return owner.EnsureFree(ctx, u.Record, plan.Nodes(deploy.Create), sink)
}

// retire proves by live calls that the nodes that leave are gone, and only then forgets them. What tofu's state did not
// hold is deleted through the API.
func (u *up) retire(ctx context.Context, sink progress.Sink) error {
	leaving := u.Record.Leaving()
	remaining, err := u.remaining(ctx, leaving)
	if err == nil && len(remaining) > 0 {
		progress.Infof(sink, "not in tofu's state: %s, deleted through the API", progress.Count(len(remaining), "VM"))
		destroyErr := u.Deploy.Remove.Destroy(ctx, u.Record, remaining)
		if remaining, err = u.remaining(ctx, leaving); len(remaining) > 0 {
			err = errors.Join(err, destroyErr)
		}
	}
	if err != nil || len(remaining) > 0 {
		return &deploy.LeakError{
			Name: u.Record.Name, VMs: remaining, Known: err == nil, Cause: err, Next: "run the same command again",
		}
	}
	if err := remote.ForgetHostKeys(u.Store.Path(u.Record.Name, knownHostsFile), leaving...); err != nil {
		return err
	}
	progress.Infof(sink, "gone: %s", strings.Join(leaving.Names(), ", "))
	return u.change(ctx, func() {
		u.Record.Nodes = u.Record.Staying()
		u.Record.ForgetNodes(leaving.Names()...)
	})
}

// remaining are the VMs of ours that have an id of these nodes.
func (u *up) remaining(ctx context.Context, nodes cluster.Nodes) ([]deploy.VMRef, error) {
	all, err := u.Deploy.Remove.Remaining(ctx, u.Record)
	return slices.DeleteFunc(all, func(vm deploy.VMRef) bool {
		return !slices.ContainsFunc(nodes, func(n cluster.Node) bool { return placement.Of(n).VMID == vm.VMID })
	}), err
}

// restart brings changes into force that wait for a restart, one node after the other: the next goes down when the one
// before has its addresses again.
func (u *up) restart(ctx context.Context, sink progress.Sink) error {
	for _, node := range u.Record.Nodes {
		one := *u.Record
		one.Nodes = cluster.Nodes{node}
		restarted, err := u.Deploy.Restart.Restart(ctx, u.Record, node)
		if restarted {
			u.Booted = append(u.Booted, node.Name)
		}
		if err == nil && restarted && u.Deploy.Addresses != nil {
			sink.Emit(progress.Event{Kind: progress.Info, Node: node.Name, Message: "restarted"})
			_, err = u.Deploy.Addresses.Addresses(ctx, &one, sink)
		}
		if err != nil {
			return progress.WithNodes(fmt.Errorf("restarting %s: %w", node.Name, err), node.Name)
		}
	}
	return nil
}

// verify proves that what exists is ours; from then on everybody sees who has the ids.
func (u *up) verify(ctx context.Context, sink progress.Sink) error {
	if u.Deploy.Owner != nil {
		if err := u.Deploy.Owner.Verify(ctx, u.Record); err != nil {
			return err
		}
	}
	if u.Deploy.Lease != nil {
		u.Deploy.Lease.ReleaseAll(ctx, u.Record, sink)
	}
	machines := u.machines(ctx)
	return phase.InTurn(ctx, func() error {
		u.Record.Cut = time.Time{} // all are there
		u.noteMachines(machines, sink)
		return nil
	})
}

// noteMachines notes which machine each node is, and tells of those that somebody else has replaced. What is noted is
// on disk with the addresses.
func (u *up) noteMachines(machines []deploy.Machine, sink progress.Sink) {
	for i, machine := range machines {
		node := u.Record.Nodes[i].Name
		noted := u.Record.Phases[cluster.PhaseUp].Nodes[node]
		if replaced(noted.Machine, machine.ID) {
			sink.Emit(progress.Event{
				Kind: progress.Warning, Node: node,
				Message: fmt.Sprintf("the VM of %s was replaced by others since the last up", node),
				Hint:    fmt.Sprintf("hive-test configure %s puts hive on it", u.Record.Name),
			})
		}
		noted.Step, noted.Status = u.Record.Phases[cluster.PhaseUp].Step, cluster.PhaseDone
		noted.Machine = cmp.Or(machine.ID, noted.Machine)
		u.Record.SetProgress(cluster.PhaseUp, node, noted)
	}
}

func (u *up) addresses(ctx context.Context, sink progress.Sink) error {
	for _, node := range u.Record.Nodes {
		sink.Emit(progress.Event{Kind: progress.NodeState, Node: node.Name, Message: "booting"})
	}
	nodes, err := u.Deploy.Addresses.Addresses(ctx, u.Record, sink)
	if err != nil {
		return err
	}
	u.located = true
	for _, m := range movesBetween(u.Record.Nodes, nodes) {
		u.sayMoved(m)
	}
	if err := u.keepHostKeys(nodes); err != nil {
		return err
	}
	return u.change(ctx, func() { u.Record.Nodes = nodes })
}

// hostKeys pins what the guest agent tells over the verified API. Without it, the first contact pins.
func (u *up) hostKeys(ctx context.Context, sink progress.Sink) error {
	pins := make([]remote.Pin, len(u.Record.Nodes))
	var wait sync.WaitGroup
	for i, node := range u.Record.Nodes {
		wait.Go(func() {
			keys, err := u.Deploy.HostKeys.HostKeys(ctx, u.Record, node)
			if err != nil {
				keys = nil
			}
			pins[i] = remote.Pin{Node: node, Lines: keys}
		})
	}
	wait.Wait()
	var unread []string
	pins = slices.DeleteFunc(pins, func(p remote.Pin) bool {
		if len(p.Lines) == 0 {
			unread = append(unread, p.Node.Name)
		}
		return len(p.Lines) == 0
	})
	if len(unread) > 0 {
		progress.Infof(
			sink, "host keys of %s cannot be read through the guest agent: the first contact pins them",
			strings.Join(unread, ", "),
		)
	}
	return remote.PinHostKeys(u.Store.Path(u.Record.Name, knownHostsFile), pins...)
}

// reach proves that every host that is said to be there can be logged in to. Hosts that were just made may still boot.
func (u *up) reach(ctx context.Context, sink progress.Sink) error {
	group, err := u.group()
	if err != nil {
		return err
	}
	existing := !u.Deploy.Makes()
	return group.Each(ctx, func(ctx context.Context, host *remote.Host) error {
		if existing {
			_, err := host.Run(ctx, remote.Command{Argv: []string{"true"}})
			return err
		}
		sink.Emit(progress.Event{Kind: progress.NodeState, Node: host.Name(), Message: "SSH"})
		said := false
		return host.WaitReady(ctx, func(err error) {
			if !said {
				sink.Emit(progress.Event{
					Kind: progress.Wait, Node: host.Name(), Message: "SSH on " + host.Name(), Error: err.Error(),
				})
			}
			said = true
		})
	})
}

func (u *up) inventory(context.Context, progress.Sink) error { return u.writeInventory() }

// writeInventory writes the inventory of the record, and what is made of it.
func (r *Job) writeInventory() error {
	inventory := r.Record.Inventory()
	if err := r.Store.SaveInventory(inventory); err != nil {
		return err
	}
	name := r.Record.Name
	config := remote.SSHConfig(inventory, r.Store.Path(name, knownHostsFile))
	if err := r.Store.Write(name, sshConfigFile, config); err != nil {
		return err
	}
	if r.Record.AWS != nil {
		if err := r.Store.Write(name, awsConfigFile, awsProfile(r.Record, r.Store).Config()); err != nil {
			return err
		}
	}
	vars := Environment(r.Record, r.Store)
	exports, err := remote.Environment{Set: vars, Unset: ForeignVariables(vars)}.Bash()
	if err != nil {
		return fmt.Errorf("writing %s: %w", envFile, err)
	}
	return r.Store.Write(name, envFile, []byte(exports))
}

// Files of a cluster's directory that phases write.
const (
	keyFile        = "id_ed25519"
	knownHostsFile = "known_hosts"
	sshConfigFile  = "ssh_config"
	envFile        = "env.sh"
	caFile         = "ca.pem" // the CA of hive's own certificates

	awsConfigFile      = "aws/config"
	awsCredentialsFile = "aws/credentials"
	// NATSTokenFile holds what clients of the cluster's NATS show; it is empty where that asks for nothing.
	NATSTokenFile = "nats-token"
	suiteDir      = "suite" // what suites read, while they run
)

// KeyFile is the name of the private key that a cluster gets when the user names none.
const KeyFile = keyFile
