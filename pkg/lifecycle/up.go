package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"hive-test/pkg/cluster"
	"hive-test/pkg/phase"
	"hive-test/pkg/progress"
	"hive-test/pkg/provision"
	"hive-test/pkg/remote"
)

// PreflightError lists all that stands in the way of up. Nothing was changed.
type PreflightError struct{ Findings []Finding }

// Error gives each finding its own line.
func (e *PreflightError) Error() string {
	lines := make([]string, 0, len(e.Findings))
	for _, f := range e.Findings {
		lines = append(lines, f.Detail)
	}
	if len(lines) == 1 {
		return lines[0]
	}
	return fmt.Sprintf("%d things stand in the way:\n  - %s", len(lines), strings.Join(lines, "\n  - "))
}

// Hint gives each finding's fix.
func (e *PreflightError) Hint() string {
	var lines []string
	for _, f := range e.Findings {
		if f.Fix != "" {
			lines = append(lines, f.Fix)
		}
	}
	return strings.Join(lines, "\n")
}

// Prepare checks that up can succeed and chooses what its VMs will be, changing nothing: the record it is given gains
// its nodes in memory only. A cluster whose nodes are chosen already keeps them.
func Prepare(ctx context.Context, fleet Fleet, r *cluster.Record) ([]Finding, error) {
	if len(r.Nodes) == 0 {
		nodes, err := fleet.Reserve(ctx, r)
		if err != nil {
			return nil, err
		}
		r.Nodes = nodes
	}
	findings, err := fleet.Preflight(ctx, r)
	if err != nil {
		return nil, err
	}
	var fatal, warnings []Finding
	for _, f := range findings {
		if f.Warn {
			warnings = append(warnings, f)
		} else {
			fatal = append(fatal, f)
		}
	}
	if len(fatal) > 0 {
		return warnings, &PreflightError{Findings: fatal}
	}
	return warnings, nil
}

// up makes the VMs of the record exist, ours, reachable and written down.
type up struct{ *Job }

// Up is the phase that provisions.
func Up(r *Job) phase.Phase { return up{r} }

// Name is the phase's name.
func (u up) Name() string { return string(cluster.PhaseUp) }

// Run provisions; on a cluster that is up and unchanged it changes nothing.
func (u up) Run(ctx context.Context) error {
	inputs := cluster.Hash(u.Record.Spec, u.Record.Target, identities(u.Record.Nodes))
	return u.recorded(ctx, cluster.PhaseUp, inputs, func(ctx context.Context) error {
		if u.Record.Spec.Deployer == cluster.DeployerExisting {
			return u.steps(ctx, cluster.PhaseUp, step{"reach the hosts", u.reach}, step{"write the inventory", u.inventory})
		}
		return u.steps(ctx, cluster.PhaseUp,
			step{"make the cluster's SSH key", u.key},
			step{"check that the ids are free or ours", u.foreign},
			step{"create the VMs", u.provision},
			step{"check that the VMs are ours", u.verify},
			step{"find the addresses", u.addresses},
			step{"pin the host keys", u.hostKeys},
			step{"write the inventory", u.inventory},
		)
	})
}

// identities is what of nodes is chosen by us; addresses are found later.
func identities(nodes cluster.Nodes) cluster.Nodes {
	chosen := make(cluster.Nodes, len(nodes))
	for i, n := range nodes {
		chosen[i] = cluster.Node{Name: n.Name, Index: n.Index, VMID: n.VMID, Hypervisor: n.Hypervisor, ManagementMAC: n.ManagementMAC, DataMAC: n.DataMAC}
	}
	return chosen
}

func (u up) key(context.Context, progress.Sink) error {
	if _, err := os.Stat(u.Record.SSHKeyPath); err == nil {
		return nil
	}
	if u.Record.SSHKeyPath != u.Store.Path(u.Record.Name, keyFile) {
		return progress.WithHint(fmt.Errorf("the SSH key %s cannot be read", u.Record.SSHKeyPath), "name a readable key with --ssh-private-key-path, or none: then the cluster gets its own")
	}
	if _, err := os.Stat(u.Store.Path(u.Record.Name, "terraform.tfstate")); err == nil {
		return progress.WithHint(fmt.Errorf("the cluster's SSH key %s is gone, and its VMs accept no other", u.Record.SSHKeyPath), fmt.Sprintf("put it back, or remove the cluster: hive-test down %s", u.Record.Name))
	}
	return remote.GenerateKey(u.Record.SSHKeyPath)
}

// foreign stops before tofu could take somebody else's VM for ours.
func (u up) foreign(ctx context.Context, _ progress.Sink) error {
	return u.Fleet.Foreign(ctx, u.Record)
}

func (u up) provision(ctx context.Context, sink progress.Sink) error {
	public, err := os.ReadFile(u.Record.SSHKeyPath + ".pub")
	if err != nil {
		return fmt.Errorf("reading the public half of the cluster's SSH key: %w", err)
	}
	result, err := u.Provisioner.Up(ctx, provision.Request{
		Dir: u.Store.Path(u.Record.Name, ""), Name: u.Record.Name, Owner: u.Record.Owner, Spec: u.Record.Spec,
		Nodes: u.Record.Nodes, SSHPublicKey: strings.TrimSpace(string(public)), Pool: u.Record.Target.Pool,
		Check: func(ctx context.Context, _ provision.Plan) error { return u.Fleet.Foreign(ctx, u.Record) },
	})
	if err != nil {
		return err
	}
	if !result.Changed {
		info(sink, "nothing to change: the VMs are as asked")
	}
	return nil
}

func (u up) verify(ctx context.Context, _ progress.Sink) error { return u.Fleet.Verify(ctx, u.Record) }

func (u up) addresses(ctx context.Context, sink progress.Sink) error {
	nodes, err := u.Fleet.Addresses(ctx, u.Record, sink)
	if err != nil {
		return err
	}
	u.Record.Nodes = nodes
	return u.Store.Save(u.Record)
}

// hostKeys pins what the guest agent tells over the verified API. Without it, the first contact pins.
func (u up) hostKeys(ctx context.Context, sink progress.Sink) error {
	path := u.Store.Path(u.Record.Name, knownHostsFile)
	type read struct {
		node cluster.Node
		keys []string
		err  error
	}
	results := make(chan read, len(u.Record.Nodes))
	for _, node := range u.Record.Nodes {
		go func() {
			keys, err := u.Fleet.HostKeys(ctx, u.Record, node)
			results <- read{node, keys, err}
		}()
	}
	var unread []string
	var failure error
	for range u.Record.Nodes {
		r := <-results
		if r.err != nil || len(r.keys) == 0 {
			unread = append(unread, r.node.Name)
			continue
		}
		failure = errors.Join(failure, remote.PinHostKeys(path, r.node, r.keys))
	}
	if len(unread) > 0 {
		info(sink, "host keys of %s cannot be read through the guest agent: the first contact pins them", strings.Join(unread, ", "))
	}
	return failure
}

// reach proves that every host that is said to be there can be logged in to.
func (u up) reach(ctx context.Context, _ progress.Sink) error {
	group, err := u.group()
	if err != nil {
		return err
	}
	return group.Each(ctx, func(ctx context.Context, host *remote.Host) error {
		_, err := host.Run(ctx, remote.Command{Argv: []string{"true"}})
		return err
	})
}

func (u up) inventory(context.Context, progress.Sink) error {
	inventory := u.Record.Inventory()
	if err := u.Store.SaveInventory(inventory); err != nil {
		return err
	}
	name := u.Record.Name
	config := remote.SSHConfig(inventory, u.Store.Path(name, knownHostsFile))
	if err := u.Store.Write(name, sshConfigFile, config); err != nil {
		return err
	}
	return u.Store.Write(name, envFile, []byte(Exports(Environment(u.Record, u.Store))))
}

// Files of a cluster's directory that phases write.
const (
	keyFile        = "id_ed25519"
	knownHostsFile = "known_hosts"
	sshConfigFile  = "ssh_config"
	envFile        = "env.sh"
)

// KeyFile is the name of the private key that a cluster gets when the user names none.
const KeyFile = keyFile
