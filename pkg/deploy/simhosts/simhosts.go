// Package simhosts makes the VMs of simulated clusters by plain calls of Proxmox VE's API, without OpenTofu: a cluster
// is there in a third of the time. Scripts use it that are not about OpenTofu, and it shows that nothing above deploy
// knows what makes machines. Of a VM that exists it changes nothing but whose it says it is, and it tries nothing
// twice.
package simhosts

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/google/renameio/v2"

	"hive-test/cloudinit"
	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/deploy/proxmox"
	"hive-test/pkg/deploy/proxmox/api"
)

// stateFile is what Up has made of a cluster, in the cluster's directory.
const stateFile = "simhosts.json"

// image is what disks are made of where the cluster's image needs SSH to the hypervisor: the same one as a volume that
// needs none.
const image = "local:import/debian-12-genericcloud-amd64.qcow2"

// Deployer makes VMs on a simulator. All else is asked of Proxmox VE, as for VMs that OpenTofu has made.
type Deployer struct {
	*proxmox.Fleet
	// Upload writes a file of a hypervisor.
	Upload func(ctx context.Context, hypervisor placement.Hypervisor, path string, content []byte) error
}

// machine is a VM that was made, or was about to be.
type machine struct {
	VMID       int    `json:"vmid"`
	Hypervisor string `json:"hypervisor"`
	Snippet    string `json:"snippet,omitempty"` // the volume of its vendor data
	Settings   string `json:"settings"`          // a hash of what it was made of
	Made       bool   `json:"made"`              // to the end
}

// stopped is the status of a VM that is to be started again, which is no restart.
const stopped = "stopped"

// Plan compares what was made with what is asked for.
func (d Deployer) Plan(ctx context.Context, r deploy.Request) (deploy.Plan, error) {
	var plan deploy.Plan
	l, err := open(r.Dir)
	if err != nil {
		return plan, err
	}
	add := func(name string, c deploy.Change) {
		c.Address, c.Node, c.VM = name, name, true
		plan.Changes = append(plan.Changes, c)
	}
	for _, node := range r.Nodes {
		was, known := l.made[node.Name]
		at := placement.Of(node)
		vm, err := d.Client.VM(ctx, at.Hypervisor, at.VMID)
		switch {
		case errors.Is(err, api.ErrNotFound) || err == nil && !known: // where it is somebody else's, creating it fails
			add(node.Name, deploy.Change{Action: deploy.Create, Vanished: was.Made})
		case err != nil:
			return plan, err
		case !was.Made:
			add(node.Name, deploy.Change{Action: deploy.Replace, Unfinished: true})
		case was.Settings != settings(r, node):
			return plan, fmt.Errorf(
				"%s was made with other settings, and deployer %s changes none: use %s", node.Name,
				deploy.SimHosts, deploy.Proxmox,
			)
		case vm.Status == stopped:
			started := deploy.Attribute{Name: "started", Before: "false", After: "true"}
			add(node.Name, deploy.Change{Action: deploy.Update, Attributes: []deploy.Attribute{started}})
		case vm.Description != cluster.Redescribe(vm.Description, r.Name, r.Owner), vm.HasTag(cluster.ProtectTag) != r.Owner.Protected:
			add(node.Name, deploy.Change{Action: deploy.Update})
		}
	}
	for name := range l.made {
		if !slices.ContainsFunc(r.Nodes, func(n cluster.Node) bool { return n.Name == name }) {
			add(name, deploy.Change{Action: deploy.Delete})
		}
	}
	deploy.SortChanges(plan.Changes)
	return plan, nil
}

// Up makes and deletes VMs, all at once. What has begun is brought to its end, as OpenTofu does when it is interrupted.
func (d Deployer) Up(ctx context.Context, r deploy.Request) (deploy.Result, error) {
	var result deploy.Result
	plan, err := d.Plan(ctx, r)
	if err == nil {
		err = r.Admit(ctx, plan)
	}
	if err != nil || len(plan.Changes) == 0 {
		return result, err
	}
	l, err := open(r.Dir)
	if err != nil {
		return result, err
	}
	result.Changed = true
	failures := each(plan.Changes, func(c deploy.Change) error { return d.apply(context.WithoutCancel(ctx), r, c, l) })
	failure := &deploy.Failure{Step: "create", Err: errors.Join(failures...)}
	done := map[deploy.Action]*[]string{
		deploy.Create: &result.Created, deploy.Replace: &result.Created, deploy.Update: &result.Updated,
		deploy.Delete: &result.Deleted,
	}
	for i, change := range plan.Changes {
		if failures[i] == nil {
			*done[change.Action] = append(*done[change.Action], change.Node)
			continue
		}
		failure.Missing = append(failure.Missing, change.Node)
		failure.Problems = append(failure.Problems, deploy.Problem{
			Nodes: []string{change.Node}, Summary: failures[i].Error(),
		})
	}
	if failure.Err != nil && ctx.Err() == nil {
		return result, failure
	}
	return result, context.Cause(ctx)
}

// apply brings one node's change to its end, and keeps what is there at each moment.
func (d Deployer) apply(ctx context.Context, r deploy.Request, change deploy.Change, l *ledger) error {
	if change.Action == deploy.Delete || change.Action == deploy.Replace {
		if err := d.delete(ctx, change.Node, l); err != nil || change.Action == deploy.Delete {
			return err
		}
	}
	node := r.Nodes[slices.IndexFunc(r.Nodes, func(n cluster.Node) bool { return n.Name == change.Node })]
	at := placement.Of(node)
	if change.Action == deploy.Update {
		text, tags := cluster.Description(r.Name, r.Owner), r.Owner.Tags(r.Name)
		if err := d.Client.UpdateMetadata(ctx, at.Hypervisor, at.VMID, text, tags); err != nil {
			return err
		}
		vm, err := d.Client.VM(ctx, at.Hypervisor, at.VMID)
		if err != nil || vm.Status != stopped {
			return err
		}
		return d.Client.Start(ctx, at.Hypervisor, at.VMID)
	}
	host, _ := placement.HypervisorNamed(r.Spec, at.Hypervisor)
	m := machine{VMID: at.VMID, Hypervisor: at.Hypervisor, Settings: settings(r, node)}
	if r.Spec.CloudInit != cluster.CloudInitNone {
		m.Snippet = host.SnippetStore + ":snippets/" + placement.SnippetName(node.Name, r.Owner.ID)
	}
	for _, step := range []func() error{
		func() error { return l.put(node.Name, m) },
		func() error { return d.upload(ctx, r, host, m) },
		func() error { return d.create(ctx, r, node, host, options(r, node, host, m)) },
		func() error { return d.Client.Start(ctx, at.Hypervisor, at.VMID) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	m.Made = true
	return l.put(node.Name, m)
}

// create makes a VM of an image, or as a clone, with a disk of the size that is asked for.
func (d Deployer) create(
	ctx context.Context, r deploy.Request, node cluster.Node, host placement.Hypervisor, o map[string]string,
) error {
	at := placement.Of(node)
	if at.Template == 0 {
		if err := d.Client.Create(ctx, at.Hypervisor, o); err != nil {
			return err
		}
		return d.Client.Resize(ctx, at.Hypervisor, at.VMID, "virtio0", r.Spec.DiskSizeGB)
	}
	wanted := map[string]string{"newid": o["vmid"], "name": o["name"], "full": "0", "description": o["description"]}
	moved, err := d.moves(ctx, at)
	if err != nil {
		return err
	}
	if !moved {
		wanted["target"] = at.Hypervisor
	}
	if r.Spec.Clone != cluster.CloneLinked {
		wanted["full"], wanted["storage"] = "1", host.Datastore
	}
	if o["pool"] != "" {
		wanted["pool"] = o["pool"]
	}
	if err := d.Client.Clone(ctx, at.TemplateHypervisor, at.Template, wanted); err != nil {
		return err
	}
	made := at.Hypervisor
	if moved {
		made = at.TemplateHypervisor
	}
	// A clone has the tags of its template: it says whose it is before anything else can fail.
	if err := d.Client.UpdateMetadata(ctx, made, at.VMID, o["description"], r.Owner.Tags(r.Name)); err != nil {
		return err
	}
	if moved {
		if err := d.Client.Migrate(ctx, at.TemplateHypervisor, at.VMID, at.Hypervisor, host.Datastore); err != nil {
			return err
		}
	}
	for _, key := range []string{"vmid", "pool", "virtio0", "boot"} { // as the clone has them
		delete(o, key)
	}
	if err := d.Client.Configure(ctx, at.Hypervisor, at.VMID, o); err != nil {
		return err
	}
	vm, err := d.Client.VM(ctx, at.Hypervisor, at.VMID)
	if err != nil || len(vm.Disks) == 0 || vm.Disks[0].Size >= uint64(r.Spec.DiskSizeGB)<<30 {
		return err
	}
	return d.Client.Resize(ctx, at.Hypervisor, at.VMID, vm.Disks[0].Slot, r.Spec.DiskSizeGB)
}

// moves tells whether a clone is made where its template is, and moved then: Proxmox VE clones to another hypervisor from
// shared storage only.
func (d Deployer) moves(ctx context.Context, at placement.VM) (bool, error) {
	if at.Hypervisor == at.TemplateHypervisor {
		return false, nil
	}
	vm, err := d.Client.VM(ctx, at.TemplateHypervisor, at.Template)
	if err != nil {
		return false, err
	}
	storages, err := d.Client.Storages(ctx, at.TemplateHypervisor)
	return !slices.ContainsFunc(storages, func(s api.Storage) bool {
		return s.Shared && len(vm.Disks) > 0 && s.Name == vm.Disks[0].Storage
	}), err
}

// Down deletes all that Up has made.
func (d Deployer) Down(ctx context.Context, r deploy.Request) error {
	l, err := open(r.Dir)
	if err != nil {
		return err
	}
	return errors.Join(
		each(slices.Collect(maps.Keys(l.made)), func(name string) error { return d.delete(ctx, name, l) })...,
	)
}

// each does something with all of a list at once, and returns the error of each.
func each[T any](list []T, do func(T) error) []error {
	failures := make([]error, len(list))
	var wait sync.WaitGroup
	for i, one := range list {
		wait.Go(func() { failures[i] = do(one) })
	}
	wait.Wait()
	return failures
}

// delete deletes a node's VM, if it is there, and its vendor data.
func (d Deployer) delete(ctx context.Context, name string, l *ledger) error {
	l.lock.Lock()
	m := l.made[name]
	l.lock.Unlock()
	err := d.Client.Stop(ctx, m.Hypervisor, m.VMID)
	if err == nil {
		err = d.Client.Delete(ctx, m.Hypervisor, m.VMID)
	}
	if err != nil && !errors.Is(err, api.ErrNotFound) {
		return err
	}
	if m.Snippet != "" {
		if err := d.Client.DeleteVolume(ctx, m.Hypervisor, m.Snippet); err != nil {
			return err
		}
	}
	return l.put(name, machine{})
}

// upload puts a node's vendor data onto its hypervisor.
func (d Deployer) upload(ctx context.Context, r deploy.Request, host placement.Hypervisor, m machine) error {
	if m.Snippet == "" {
		return nil
	}
	data, err := cloudinit.VendorData(cloudinit.Params{
		User: r.Spec.SSHUser, NoUpgrade: r.Spec.TemplateName != "", KeepHostKeys: r.Spec.KeepHostKeys,
	})
	paths, listErr := d.Client.StoragePaths(ctx)
	if err := errors.Join(err, listErr); err != nil {
		return err
	}
	_, file, _ := strings.Cut(m.Snippet, ":")
	return d.Upload(ctx, host, paths[host.SnippetStore]+"/"+file, data)
}

// options are what Proxmox VE is asked for: what the module of tofu/ makes of the same request.
func options(r deploy.Request, node cluster.Node, host placement.Hypervisor, m machine) map[string]string {
	at := placement.Of(node)
	volume := map[bool]string{true: r.Spec.OSImage, false: image}[placement.ImportsImage(r.Spec)]
	o := map[string]string{
		"vmid": strconv.Itoa(at.VMID), "name": node.Name, "description": cluster.Description(r.Name, r.Owner),
		"tags": strings.Join(r.Owner.Tags(r.Name), ";"), "agent": "enabled=1", "ostype": "other", "serial0": "socket",
		"cores": strconv.Itoa(r.Spec.CPUCores), "cpu": cmp.Or(r.Spec.CPUType, cluster.DefaultCPUType), "memory": strconv.Itoa(r.Spec.MemoryMB), "balloon": "0",
		"scsihw": "virtio-scsi-pci", "boot": "order=virtio0;net0",
		"virtio0": host.Datastore + ":0,import-from=" + volume + ",iothread=1,discard=on",
		"ide2":    host.Datastore + ":cloudinit",
		"net0":    placement.NIC(r.Spec.ManagementModel, at.ManagementMAC, r.Spec.ManagementBridge, r.Spec.ManagementVLAN),
		"net1":    placement.NIC(r.Spec.DataModel, at.DataMAC, r.Spec.DataBridge, r.Spec.DataVLAN),
		"ciuser":  r.Spec.SSHUser, "sshkeys": strings.ReplaceAll(url.QueryEscape(r.SSHPublicKey), "+", "%20"),
		"ipconfig0": placement.IPConfig(node.StaticManagement, r.Spec.Network.Gateway), "ipconfig1": placement.IPConfig(node.StaticData, ""),
	}
	if m.Snippet != "" {
		o["cicustom"] = "vendor=" + m.Snippet
	}
	if pool := placement.TargetOf(r.Target).Pool; pool != "" {
		o["pool"] = pool
	}
	return o
}

// settings tells VMs that were made of the same from others. What others may change of a VM that exists is not in it.
func settings(r deploy.Request, node cluster.Node) string {
	s := r.Spec
	return cluster.Hash(
		s.CPUCores, s.MemoryMB, s.DiskSizeGB, s.ManagementBridge, s.DataBridge, placement.Of(node).VMID,
	)
}

// ledger is what was made, as it is on disk at each moment. It is safe for concurrent use.
type ledger struct {
	path string
	lock sync.Mutex
	made map[string]machine
}

func open(dir string) (*ledger, error) {
	l := &ledger{path: filepath.Join(dir, stateFile), made: map[string]machine{}}
	raw, err := os.ReadFile(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &l.made)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", deploy.ErrUnusable, err)
	}
	return l, nil
}

// put keeps a node's machine; the zero machine is none.
func (l *ledger) put(name string, m machine) error {
	l.lock.Lock()
	defer l.lock.Unlock()
	if l.made[name] = m; m == (machine{}) {
		delete(l.made, name)
	}
	raw, err := json.MarshalIndent(l.made, "", "  ")
	return errors.Join(err, renameio.WriteFile(l.path, append(raw, '\n'), 0o600))
}
