package provider

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-sdk/v2/diag"
	"github.com/hashicorp/terraform-plugin-sdk/v2/helper/schema"
)

func vmCreate(ctx context.Context, rd *schema.ResourceData, meta any) diag.Diagnostics {
	d, c := wrap(rd), meta.(*clients)
	// The resource's own timeouts replace the SDK's.
	ctx = context.WithoutCancel(ctx)
	limit, build := "timeout_create", buildNew
	if len(d.list("clone")) > 0 {
		limit, build = "timeout_clone", buildClone
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(d.num(limit))*time.Second)
	defer cancel()
	ds := build(ctx, d, c)
	if ds.HasError() || d.Id() == "" {
		return ds
	}
	return append(ds, startCreated(ctx, d, c)...)
}

// newID is the written id, or the next free one.
func newID(ctx context.Context, d data, c *clients) (int, error) {
	if id, ok := d.GetOk("vm_id"); ok {
		return id.(int), nil
	}
	id, err := c.ids.next(ctx)
	if err != nil {
		return 0, err
	}
	return id, d.Set("vm_id", id)
}

// buildNew creates a VM, imports and resizes its disks.
func buildNew(ctx context.Context, d data, c *clients) diag.Diagnostics {
	id, err := newID(ctx, d, c)
	if err != nil {
		return diag.FromErr(err)
	}
	disks, err := d.disks()
	if err != nil {
		return diag.FromErr(err)
	}
	f, err := createForm(ctx, c.api, d, id, disks)
	if err != nil {
		return diag.FromErr(err)
	}
	node := d.text("node_name")
	ds := c.api.create(ctx, node, f).diags("VM create")
	if ds.HasError() {
		return ds
	}
	d.SetId(strconv.Itoa(id))
	v := vm{c.api, node, id}
	for _, iface := range sortedKeys(disks) {
		if disks[iface].fileID != "" {
			ds = append(ds, importDisk(ctx, c.shell, v, iface, disks[iface])...)
		}
		if ds.HasError() {
			return ds
		}
	}
	for _, iface := range sortedKeys(disks) {
		if disks[iface].importFrom != "" {
			ds = append(ds, v.resize(ctx, iface, disks[iface].size).diags("VM disk resize")...)
		}
		if ds.HasError() {
			return ds
		}
	}
	if d.flag("template") {
		ds = append(ds, v.toTemplate(ctx).diags("VM convert to template")...)
	}
	return ds
}

// importDisk imports an image over SSH and grows the disk to its size.
func importDisk(ctx context.Context, sh *shell, v vm, iface string, dr drive) diag.Diagnostics {
	out, err := sh.run(ctx, v.node, diskImport(v.id, iface, dr))
	if err != nil {
		if s := string(out); strings.Contains(s, "pvesm: ") && strings.Contains(s, " not found") {
			err = fmt.Errorf("the SSH user '%s' does not have required permissions. "+
				"Make sure 'sudo' is installed and the user is configured in sudoers file. "+
				"Refer to the documentation for more details", sh.username)
		}
		return diag.FromErr(fmt.Errorf("creating custom disk: %w", err))
	}
	return v.resize(ctx, iface, dr.size).diags("Disk resize")
}

// startCreated starts the VM where asked and reads it back.
func startCreated(ctx context.Context, d data, c *clients) diag.Diagnostics {
	if !d.flag("started") || d.flag("template") {
		return vmRead(ctx, d.ResourceData, c)
	}
	id, err := strconv.Atoi(d.Id())
	if err != nil {
		return diag.FromErr(err)
	}
	p := &power{vm: vm{c.api, d.text("node_name"), id}, d: d}
	ds := p.ensureRunning(ctx)
	if ds.HasError() {
		return ds
	}
	if d.flag("reboot") {
		if ds = append(ds, p.restart(ctx)...); ds.HasError() {
			return ds
		}
	}
	return append(ds, vmRead(ctx, d.ResourceData, c)...)
}

// buildClone copies a VM and then gives it the resource's settings.
func buildClone(ctx context.Context, d data, c *clients) diag.Diagnostics {
	id, err := newID(ctx, d, c)
	if err != nil {
		return diag.FromErr(err)
	}
	b, _ := d.first("clone")
	ds := copySource(ctx, d, c, b, id)
	if ds.HasError() {
		return ds
	}
	d.SetId(strconv.Itoa(id))
	v := vm{c.api, d.text("node_name"), id}
	if err := v.waitUnlocked(ctx); err != nil {
		return append(ds, diag.FromErr(err)...)
	}
	current, err := configureClone(ctx, d, v)
	if errors.Is(err, errMissing) {
		d.SetId("")
		return nil
	}
	if err != nil {
		return append(ds, diag.FromErr(err)...)
	}
	if ds = append(ds, cloneDisks(ctx, d, v, current)...); ds.HasError() {
		return ds
	}
	if d.flag("template") {
		ds = append(ds, v.toTemplate(ctx).diags("VM convert to template")...)
	}
	return ds
}

// copySource clones to the target hypervisor where the source is there or all
// its storages are shared, else on the source's hypervisor, and migrates.
func copySource(ctx context.Context, d data, c *clients, b block, id int) diag.Diagnostics {
	node := d.text("node_name")
	source := vm{c.api, b.text("node_name"), b.num("vm_id")}
	f := newForm()
	f.num("newid", id)
	f.flag("full", b.flag("full"))
	f.text("storage", b.text("datastore_id"))
	f.text("description", d.text("description"))
	f.text("name", d.text("name"))
	f.text("pool", d.text("pool_id"))
	if source.node == "" || source.node == node {
		source.node = node
		return source.clone(ctx, b.num("retries"), f).diags("VM clone")
	}
	shared, err := source.onlyShared(ctx)
	if err != nil {
		return diag.FromErr(err)
	}
	if shared {
		f.Set("target", node)
		return source.clone(ctx, b.num("retries"), f).diags("VM clone")
	}
	ds := source.clone(ctx, b.num("retries"), f).diags("VM clone")
	if ds.HasError() {
		return ds
	}
	v := vm{c.api, source.node, id}
	if err := v.waitUnlocked(ctx); err != nil {
		return diag.FromErr(err)
	}
	m := newForm()
	m.Set("target", node)
	m.flag("with-local-disks", true)
	m.text("targetstorage", b.text("datastore_id"))
	return append(ds, v.migrate(ctx, m).diags("VM migrate")...)
}

// onlyShared is true if no drive of the VM is on a storage of its hypervisor alone.
func (v vm) onlyShared(ctx context.Context) (bool, error) {
	g, err := v.config(ctx)
	if err != nil {
		return false, err
	}
	drives, err := g.drives()
	if err != nil {
		return false, err
	}
	stores := map[string]bool{}
	for _, dr := range drives {
		if dr.volume != "none" {
			store, _, _ := strings.Cut(dr.volume, ":")
			stores[store] = true
		}
	}
	for _, s := range sortedKeys(stores) {
		var answer struct{ Data *struct{ Shared *int } }
		path := fmt.Sprintf("nodes/%s/storage/%s/status", url.PathEscape(v.node), url.PathEscape(s))
		if err := v.do(ctx, http.MethodGet, path, nil, &answer); err != nil {
			return false, fmt.Errorf("error retrieving status for datastore %s: %w", s, err)
		}
		if answer.Data == nil {
			return false, errNoData
		}
		if answer.Data.Shared != nil && *answer.Data.Shared == 0 {
			return false, nil
		}
	}
	return true, nil
}

// configureClone gives a clone the resource's settings and returns its
// configuration afterwards.
func configureClone(ctx context.Context, d data, v vm) (guest, error) {
	current, err := v.config(ctx)
	if err != nil {
		return nil, err
	}
	iface := ""
	if b, ok := d.first("initialization"); ok {
		drives, err := current.drives()
		if err != nil {
			return nil, err
		}
		existing := findCloudInit(drives, v.id, "ide2")
		if iface = b.text("interface"); iface == "" {
			iface = existing
		}
		if err := v.dropDrives(ctx, iface, existing); err != nil {
			return nil, err
		}
	}
	f, err := cloneForm(ctx, v.api, d, v.id, current, iface)
	if err != nil {
		return nil, err
	}
	if err := v.update(ctx, f); err != nil {
		return nil, err
	}
	return v.config(ctx)
}

// dropDrives frees the interfaces that a cloud-init drive uses or will use.
func (v vm) dropDrives(ctx context.Context, first, second string) error {
	names := []string{first}
	if second != "" && second != first {
		names = append(names, second)
	}
	f := newForm()
	f.remove(names)
	return v.update(ctx, f)
}

// cloneDisks changes, moves and grows the clone's disks as written.
func cloneDisks(ctx context.Context, d data, v vm, current guest) (ds diag.Diagnostics) {
	wanted, err := d.disks()
	if err != nil {
		return diag.FromErr(err)
	}
	have, err := current.drives()
	if err != nil {
		return diag.FromErr(err)
	}
	for _, iface := range sortedKeys(wanted) {
		if ds = append(ds, cloneDisk(ctx, v, iface, wanted[iface], have)...); ds.HasError() {
			return ds
		}
	}
	return ds
}

func cloneDisk(ctx context.Context, v vm, iface string, want drive, have map[string]drive) (ds diag.Diagnostics) {
	now, exists := have[iface]
	f := newForm()
	if !exists {
		f.Set(iface, want.String())
		return diag.FromErr(prefixError("disk update fails", v.update(ctx, f)))
	}
	if want.size>>20 < now.size>>20 {
		return diag.Errorf(
			"disk resize failure: requested size (%s) is lower than current size (%s)", formatSize(want.size),
			formatSize(now.size),
		)
	}
	merged := now
	merged.importFrom = want.importFrom
	merged.store = want.store
	for k, o := range want.options {
		merged.options[k] = o
	}
	f.Set(iface, merged.String())
	if err := v.update(ctx, f); err != nil {
		return diag.FromErr(fmt.Errorf("disk update fails: %w", err))
	}
	if store, _, _ := strings.Cut(now.volume, ":"); want.store != "" && want.store != store {
		if ds = append(ds, v.moveDisk(ctx, iface, want.store).diags("Disk move")...); ds.HasError() {
			return ds
		}
	}
	if want.size>>20 > now.size>>20 {
		ds = append(ds, v.resize(ctx, iface, want.size).diags("Disk resize")...)
	}
	return ds
}

// formatSize is PVE's short form of a number of bytes.
func formatSize(n int64) string {
	f := float64(n)
	unit := 0
	for f >= 1024 && unit < 4 {
		f, unit = f/1024, unit+1
	}
	return strconv.FormatFloat(f, 'f', -1, 64) + []string{"", "K", "M", "G", "T"}[unit]
}
