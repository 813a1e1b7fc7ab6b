package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/hive"
	"hive-test/pkg/phase"
	"hive-test/pkg/progress"
	"hive-test/pkg/template"
	"hive-test/pkg/wait"
)

// Packer makes the VM of a template, and installs a layer there, over the ways to Proxmox VE and to the VM that it is given.
type Packer interface {
	// Build works in dir, which it fills. Env are secrets. Each line that it writes is handed to line. It returns what was found on
	// the VM, as template.ParseVersions reads it.
	Build(ctx context.Context, dir string, variables map[string]any, env map[string]string, line func(string)) (string, error)
}

// packerDir is where its files are, below the cluster's directory.
const packerDir = "packer"

// BuildTemplateWithPacker is BuildTemplate where Packer makes the VM: it clones that of the parent, or, where from is nil, the one
// node of the cluster, which was made of the image.
func BuildTemplateWithPacker(
	r *Job, keep Keep, packer Packer, layer template.Layer, from *template.Template, identity *template.Identity,
) []phase.Entry {
	p := &packed{build: build{Job: r, layer: layer, identity: identity}, packer: packer, from: from}
	making, keep := collectOnFailure{Phase: p, run: r}, ofBuilder(keep)
	if from != nil {
		return withEnd(r, keep, making)
	}
	return withEnd(r, keep, Up(r), making)
}

// packed has Packer build a layer.
type packed struct {
	build
	packer Packer
	from   *template.Template
	source deploy.VMRef
}

// Run builds.
func (p *packed) Run(ctx context.Context) error {
	if p.Deploy.Relay == nil || p.Deploy.Templates == nil {
		return errors.New("Packer makes no VMs there: use the built-in builder")
	}
	if p.from == nil {
		if err := p.prepare(ctx); err != nil {
			return err
		}
		return p.steps(ctx, PhaseBuild, p.list()...)
	}
	p.source = p.from.VM.VMRef
	return p.recorded(ctx, cluster.PhaseUp, "", func(ctx context.Context) error {
		if err := (&up{Job: p.Job}).key(ctx, p.sink(PhaseBuild)); err != nil {
			return err
		}
		return p.steps(ctx, PhaseBuild, append([]step{{"claim the VM id", p.claim}}, p.list()...)...)
	})
}

func (p *packed) list() []step {
	return []step{
		{"run Packer", p.runPacker},
		{"make a template of what it has made", p.seal},
	}
}

// prepare makes of the one node, which has booted from the image, what can be cloned, and gives Packer an id beside it.
func (p *packed) prepare(ctx context.Context) error {
	if err := p.configure(ctx, "", hive.StepCloudInit); err != nil {
		return err
	}
	return p.steps(
		ctx, PhaseBuild,
		step{"take away what is the node's own", p.generalise},
		step{"shut the node down", p.shutDown},
		step{"claim a second VM id", p.second},
	)
}

// second adds a node beside the first, on the same hypervisor: local disks are cloned nowhere else.
func (p *packed) second(ctx context.Context, sink progress.Sink) error {
	first := p.Record.Nodes.Leader()
	before, at := p.Record.Clone(), placement.Of(first).Hypervisor
	hosts := placement.Hypervisors(p.Record.Spec)
	others := slices.DeleteFunc(placement.Names(hosts), func(name string) bool { return name == at })
	hosts, err := placement.Avoid(hosts, others)
	if err != nil {
		return err
	}
	p.source = deploy.VMRef{VMID: placement.Of(first).VMID, Name: first.Name, Hypervisor: at}
	p.Record.Spec.NodeCount, p.Record.Spec.Hosts = 2, placement.Hosts(hosts)
	if _, err := reserve(ctx, p.Deploy.Reserve, p.Record); err != nil {
		return err
	}
	p.Record.Nodes[1].SSHPort = first.SSHPort
	p.Before = before
	return p.claim(ctx, sink)
}

// claim makes the ids this run's own, and writes down which they are.
func (p *packed) claim(ctx context.Context, sink progress.Sink) error {
	if p.Deploy.Lease != nil {
		if err := p.Deploy.Lease.Acquire(ctx, p.Record, p.Before, sink); err != nil {
			return err
		}
	}
	if p.Deploy.Owner != nil {
		if err := p.Deploy.Owner.CheckOwnership(ctx, p.Record); err != nil {
			return err
		}
	}
	return p.change(ctx, func() {})
}

// made is the node that Packer makes.
func (p *packed) made() cluster.Node { return p.Record.Nodes[len(p.Record.Nodes)-1] }

// runPacker gives Packer a way to Proxmox VE and one to the VM, and lets it work.
func (p *packed) runPacker(ctx context.Context, sink progress.Sink) error {
	request, err := p.request()
	if err != nil {
		return err
	}
	node := p.made()
	relay, err := p.Deploy.Relay.Relay(ctx, p.Record, node, deploy.RelayOptions{Source: p.source, PublicKey: request.SSHPublicKey})
	if err != nil {
		return err
	}
	defer relay.Close()
	p.Secrets.Learn(relay.Password)
	way, err := p.forward(ctx, node)
	if err != nil {
		return err
	}
	defer way.close()
	versions, err := p.packer.Build(
		ctx, p.Store.Path(p.Record.Name, packerDir), p.variables(node, relay, way.port()),
		map[string]string{"PROXMOX_USERNAME": relay.User, "PROXMOX_PASSWORD": relay.Password}, func(line string) {
			sink.Emit(progress.Event{Kind: progress.Output, Node: node.Name, Message: p.Secrets.Mask(line)})
		},
	)
	if err != nil {
		return progress.WithNodes(err, node.Name)
	}
	p.identity.Versions = template.ParseVersions(versions)
	return nil
}

// variables are what Packer's files are told.
func (p *packed) variables(node cluster.Node, relay deploy.Relay, sshPort int) map[string]any {
	s := p.Record.Spec
	host, _ := placement.HypervisorNamed(s, placement.Of(node).Hypervisor)
	return map[string]any{
		"storage":     host.Datastore,
		"proxmox_url": relay.URL + "/api2/json", "proxmox_node": placement.Of(node).Hypervisor, "clone_vm": p.source.Name,
		"vm_id": placement.Of(node).VMID, "vm_name": node.Name, "template_name": p.identity.Version,
		"cores": s.CPUCores, "memory": s.MemoryMB, "cpu_type": cmp.Or(s.CPUType, cluster.DefaultCPUType),
		"ssh_username": s.SSHUser, "ssh_host": "127.0.0.1", "ssh_port": sshPort,
	}
}

// seal makes a hive-test template of what Packer has made, and leaves the node that it was cloned from, if there is one, to down.
func (p *packed) seal(ctx context.Context, sink progress.Sink) error {
	p.identity.Built = p.Now().UTC().Truncate(time.Second)
	node := p.made()
	err := p.Deploy.Templates.ToTemplate(ctx, p.Record, node, marksOf(*p.identity, p.identity.Description()))
	if err != nil {
		return err
	}
	progress.Infof(sink, "template %s is made", p.identity.Version)
	return p.change(ctx, func() {
		p.Record.Nodes = slices.DeleteFunc(p.Record.Nodes, func(n cluster.Node) bool { return n.Name == node.Name })
	})
}

// forwarding is a port of this machine that leads to the SSH server of a node, once it is known where that is.
type forwarding struct {
	listener net.Listener
	address  atomic.Value // string
	end      context.CancelFunc
	work     sync.WaitGroup
}

func (f *forwarding) port() int { return f.listener.Addr().(*net.TCPAddr).Port }

// close ends all that goes on there, and waits for that.
func (f *forwarding) close() {
	f.end()
	_ = f.listener.Close()
	f.work.Wait()
}

// forward opens a port on the loopback interface: Packer knows neither jump hosts nor where DHCP puts a node.
func (p *packed) forward(ctx context.Context, node cluster.Node) (*forwarding, error) {
	way, err := p.open()
	if err != nil {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("a port for SSH: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	f := &forwarding{listener: listener, end: cancel}
	f.address.Store("")
	f.work.Go(func() {
		if address := p.locate(ctx, node); address != "" {
			f.address.Store(net.JoinHostPort(address, strconv.Itoa(cmp.Or(node.SSHPort, 22))))
		}
	})
	f.work.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			f.work.Go(func() { f.pass(ctx, way, client) })
		}
	})
	return f, nil
}

// pass connects a client with the node. Where it is not known where that is, the client is sent away, and comes again.
func (f *forwarding) pass(ctx context.Context, way Remote, client net.Conn) {
	defer func() { _ = client.Close() }()
	address := f.address.Load().(string)
	if address == "" {
		return
	}
	node, err := way.DialContext(ctx, "tcp", address)
	if err != nil {
		return
	}
	defer func() { _ = node.Close() }()
	stop := context.AfterFunc(ctx, func() { _, _ = client.Close(), node.Close() })
	defer stop()
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(client, node)
		_ = client.Close()
	})
	_, _ = io.Copy(node, client)
	_ = node.Close()
	back.Wait()
}

// locate waits until it is known where a node is, writes that down, and returns it; empty: ctx has ended before.
func (p *packed) locate(ctx context.Context, node cluster.Node) string {
	one := *p.Record
	one.Nodes = cluster.Nodes{node}
	for range (wait.Backoff{First: 200 * time.Millisecond, Max: 2 * time.Second}).Tries(ctx) {
		found, err := p.Deploy.Addresses.Addresses(ctx, &one, progress.Discard)
		if err != nil || !found[0].Management.IsValid() {
			continue
		}
		_ = p.change(ctx, func() { // it is for ssh to a node that is kept: nothing fails without it
			p.Record.Nodes[len(p.Record.Nodes)-1] = found[0]
		})
		return found[0].Management.String()
	}
	return ""
}
