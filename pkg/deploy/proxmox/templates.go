package proxmox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/deploy/proxmox/api"
)

var _ deploy.Templater = (*Fleet)(nil)

// Templates lists the templates of hive-test: each is read live, and which clones need it is looked for where its disk is. Of what is on a
// hypervisor that is offline, Proxmox VE's list has the tags alone, and not whether it is a template.
func (f *Fleet) Templates(ctx context.Context) ([]deploy.Template, error) {
	listed, err := f.Client.VMs(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing the templates: %w", err)
	}
	listed = slices.DeleteFunc(listed, func(vm api.VM) bool {
		return !vm.Template && vm.Status != unknownStatus || vm.Type != "qemu" || !vm.HasTag(deploy.TemplateTag)
	})
	offline, err := f.offline(ctx, listed)
	if err != nil {
		return nil, fmt.Errorf("listing the templates: %w", err)
	}
	live, failures := make([]api.VM, len(listed)), make([]error, len(listed))
	f.forEach(len(listed), func(i int) {
		if offline[listed[i].Hypervisor] {
			return
		}
		live[i], failures[i] = f.Client.Configured(ctx, listed[i])
		if errors.Is(failures[i], api.ErrNotFound) { // deleted meanwhile
			live[i], failures[i] = api.VM{}, nil
		}
	})
	if err := errors.Join(failures...); err != nil {
		return nil, err
	}
	disks := diskReader{fleet: f}
	var list []deploy.Template
	for i, vm := range live {
		if offline[listed[i].Hypervisor] {
			list = append(list, deploy.Template{VMRef: refOf(listed[i]), Tags: listed[i].Tags, Away: true})
			continue
		}
		if !vm.Template {
			continue
		}
		t := deploy.Template{VMRef: refOf(vm), Description: vm.Description, Tags: vm.Tags}
		if len(vm.Disks) > 0 {
			t.Shared, t.Clones = disks.of(ctx, vm.Hypervisor, vm.Disks[0].Storage, vm.VMID)
		}
		list = append(list, t)
	}
	return list, nil
}

// unknownStatus is the status of a VM whose hypervisor does not tell the others of it.
const unknownStatus = "unknown"

// offline are the hypervisors of VMs that are, by name. They are asked for only where a VM looks like it.
func (f *Fleet) offline(ctx context.Context, vms []api.VM) (map[string]bool, error) {
	if !slices.ContainsFunc(vms, func(vm api.VM) bool { return vm.Status == unknownStatus }) {
		return nil, nil
	}
	hosts, err := f.Client.Hypervisors(ctx)
	offline := map[string]bool{}
	for _, h := range hosts {
		offline[h.Name] = !h.Online
	}
	return offline, err
}

// diskReader reads each storage of each hypervisor once. It is not safe for concurrent use.
type diskReader struct {
	fleet    *Fleet
	storages map[string][]api.Storage // by hypervisor
	volumes  map[string][]api.Volume  // by hypervisor and storage
}

// of tells whether a storage is shared, and which VMs have disks there that need those of a template. What cannot be read
// tells of none: Proxmox VE refuses to delete what is needed.
func (d *diskReader) of(ctx context.Context, hypervisor, storage string, vmid int) (shared bool, clones []int) {
	if d.storages == nil {
		d.storages, d.volumes = map[string][]api.Storage{}, map[string][]api.Volume{}
	}
	if _, read := d.storages[hypervisor]; !read {
		d.storages[hypervisor], _ = d.fleet.Client.Storages(ctx, hypervisor)
	}
	at := hypervisor + "\n" + storage
	if _, read := d.volumes[at]; !read {
		d.volumes[at], _ = d.fleet.Client.Content(ctx, hypervisor, storage, "images")
	}
	shared = slices.ContainsFunc(d.storages[hypervisor], func(s api.Storage) bool { return s.Name == storage && s.Shared })
	for _, volume := range d.volumes[at] {
		if volume.Base == vmid && !slices.Contains(clones, volume.VMID) {
			clones = append(clones, volume.VMID)
		}
	}
	slices.Sort(clones)
	return shared, clones
}

// ShutDown has the guest of a node's VM, which must be ours, switch it off.
func (f *Fleet) ShutDown(ctx context.Context, r *cluster.Record, node cluster.Node) error {
	vm, err := f.ownVM(ctx, r, node)
	if err != nil || vm.Status == "stopped" {
		return err
	}
	return ofNode(node, vm, f.Client.ShutDown(ctx, vm.Hypervisor, vm.VMID))
}

// ownVM reads a node's VM live, which must be there and ours.
func (f *Fleet) ownVM(ctx context.Context, r *cluster.Record, node cluster.Node) (api.VM, error) {
	one := *r
	one.Nodes = cluster.Nodes{node}
	vms, err := f.ownVMs(ctx, &one)
	return vms[0], err
}

// ToTemplate makes a template of a node's VM, which is the cluster's no longer once it says what it is.
func (f *Fleet) ToTemplate(ctx context.Context, r *cluster.Record, node cluster.Node, marks deploy.Marks) error {
	vm, err := f.ownVM(ctx, r, node)
	if err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx) // one that does not say what it is would be nobody's template
	if !vm.Template {
		if err := f.Client.ToTemplate(ctx, vm.Hypervisor, vm.VMID); err != nil {
			return ofNode(node, vm, err)
		}
	}
	tags := append([]string{deploy.TemplateTag}, marks.Tags...)
	slices.Sort(tags)
	return ofNode(node, vm, f.Client.DescribeTemplate(ctx, vm.Hypervisor, vm.VMID, marks.Name, marks.Description, tags))
}

// CopyTemplate clones a template where it is, and moves the clone where it is to be: Proxmox VE clones to another hypervisor
// from shared storage only.
func (f *Fleet) CopyTemplate(ctx context.Context, r *cluster.Record, node cluster.Node, from deploy.Template) error {
	at := placement.Of(node)
	host, _ := placement.HypervisorNamed(r.Spec, at.Hypervisor)
	options := map[string]string{
		"newid": strconv.Itoa(at.VMID), "name": node.Name, "full": "1", "description": cluster.Description(r.Name, r.Owner),
	}
	if pool := placement.TargetOf(r.Target).Pool; pool != "" {
		options["pool"] = pool
	}
	ctx = context.WithoutCancel(ctx) // a task that was begun goes on without us, and what it makes is ours
	if err := f.Client.Clone(ctx, from.Hypervisor, from.VMID, options); err != nil {
		return fmt.Errorf("copying %s: %w", from, err)
	}
	if err := f.Client.UpdateMetadata(ctx, from.Hypervisor, at.VMID, options["description"], r.Owner.Tags(r.Name)); err != nil {
		return fmt.Errorf("marking VM %d on %s: %w", at.VMID, from.Hypervisor, err)
	}
	if at.Hypervisor == from.Hypervisor {
		return nil
	}
	if err := f.Client.Migrate(ctx, from.Hypervisor, at.VMID, at.Hypervisor, host.Datastore); err != nil {
		return fmt.Errorf("moving VM %d from %s to %s: %w", at.VMID, from.Hypervisor, at.Hypervisor, err)
	}
	return nil
}

// ImageContent tells of an image what Proxmox VE lists of it. It has no checksum of its own.
func (f *Fleet) ImageContent(ctx context.Context, spec cluster.Spec) string {
	hosts := placement.Hypervisors(spec)
	storage, rest, _ := strings.Cut(spec.OSImage, ":")
	kind, _, _ := strings.Cut(rest, "/")
	if len(hosts) == 0 || kind == "" {
		return ""
	}
	volumes, err := f.Client.Content(ctx, hosts[0].Name, storage, kind)
	if err != nil {
		return ""
	}
	for _, v := range volumes {
		if v.ID == spec.OSImage && v.Size > 0 {
			return fmt.Sprintf("size %d, date %s", v.Size, v.Created.Format(time.RFC3339))
		}
	}
	return ""
}

// DescribeTemplate changes what a template says of itself; its tags stay.
func (f *Fleet) DescribeTemplate(ctx context.Context, t deploy.Template, description string) error {
	vm, err := f.template(ctx, t)
	if err != nil {
		return err
	}
	if err := f.Client.UpdateMetadata(ctx, vm.Hypervisor, vm.VMID, description, vm.Tags); err != nil {
		return fmt.Errorf("%s: %w", t, err)
	}
	return nil
}

// DeleteTemplate deletes a template of hive-test.
func (f *Fleet) DeleteTemplate(ctx context.Context, t deploy.Template) error {
	vm, err := f.template(ctx, t)
	if errors.Is(err, api.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := f.Client.Delete(ctx, vm.Hypervisor, vm.VMID); err != nil && !errors.Is(err, api.ErrNotFound) {
		return fmt.Errorf("deleting %s: %w", t, err)
	}
	return nil
}

// template reads a template live, which must be one of ours still.
func (f *Fleet) template(ctx context.Context, t deploy.Template) (api.VM, error) {
	vm, err := f.Client.VM(ctx, t.Hypervisor, t.VMID)
	if err != nil {
		return vm, fmt.Errorf("%s: %w", t, err)
	}
	if !vm.Template || !vm.HasTag(deploy.TemplateTag) || vm.Name != t.Name {
		return vm, fmt.Errorf("%s is another VM by now: nothing was done to it", t)
	}
	return vm, nil
}

// sealed tells whether a VM of the record has become a template: it says so itself, and is the cluster's no longer.
func sealed(r *cluster.Record, vm api.VM) bool {
	return inRecord(r, vm.VMID) && vm.Template && vm.HasTag(deploy.TemplateTag)
}
