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

// update is one change of a VM in place.
type update struct {
	form
	ctx     context.Context // lives as long as the one call
	d       data
	c       *clients
	v       vm
	power   *power
	current guest
	drives  map[string]drive
	del     []string
	reboot  bool // some change takes effect with the next start only
	rebuild bool // the cloud-init drive must be written again
	done    bool // ended early, the VM was read back
}

func vmUpdate(ctx context.Context, rd *schema.ResourceData, meta any) diag.Diagnostics {
	d, c := wrap(rd), meta.(*clients)
	ctx = context.WithoutCancel(ctx)
	id, err := strconv.Atoi(d.Id())
	if err != nil {
		return diag.FromErr(err)
	}
	if err := updatePool(ctx, d, c.api, id); err != nil {
		return diag.FromErr(err)
	}
	if d.HasChange("node_name") {
		return diag.Errorf(
			"moving VM %d to another node in place (migrate = true) is beyond this double of the provider", id,
		)
	}
	v := vm{c.api, d.text("node_name"), id}
	u := &update{form: newForm(), ctx: ctx, d: d, c: c, v: v, power: &power{vm: v, d: d}}
	if u.current, err = v.config(ctx); err != nil {
		return diag.FromErr(err)
	}
	if u.drives, err = u.current.drives(); err != nil {
		return diag.FromErr(err)
	}
	ds := u.collect()
	if ds.HasError() || u.done {
		return ds
	}
	u.remove(u.del)
	if len(u.Values) > 0 {
		if err := v.update(ctx, u.form); err != nil {
			return append(ds, diag.FromErr(err)...)
		}
	}
	return append(ds, u.apply()...)
}

// collect puts all changed settings into the form.
func (u *update) collect() diag.Diagnostics {
	u.scalars()
	if err := u.hardware(); err != nil {
		return diag.FromErr(err)
	}
	if ds := u.disks(); ds.HasError() {
		return ds
	}
	if ds := u.cloudInit(); ds.HasError() || u.done {
		return ds
	}
	u.memory()
	if err := u.network(); err != nil {
		return diag.FromErr(err)
	}
	u.devices()
	return nil
}

func (u *update) scalars() {
	d := u.d
	for _, k := range []struct {
		name, key string
		reboot    bool
	}{
		{"kvm_arguments", "args", true},
		{"bios", "bios", true},
		{"description", "description", false},
		{"keyboard_layout", "keyboard", true},
		{"machine", "machine", true},
		{"scsi_hardware", "scsihw", true},
	} {
		if d.HasChange(k.name) {
			u.Set(k.key, d.text(k.name))
			u.reboot = u.reboot || k.reboot
		}
	}
	for _, k := range []struct {
		name, key string
		reboot    bool
	}{{"acpi", "acpi", true}, {"on_boot", "onboot", false}, {"protection", "protection", false}, {"tablet_device", "tablet", true}} {
		if d.HasChange(k.name) {
			u.flag(k.key, d.flag(k.name))
			u.reboot = u.reboot || k.reboot
		}
	}
	u.orDelete("name", "name", true)
	u.orDelete("hotplug", "hotplug", d.HasChange("hotplug"))
	if d.HasChange("tags") {
		u.Set("tags", encodeTags(stringList(d.list("tags"))))
	}
}

// orDelete sets a text, or deletes the setting where the text is empty.
func (u *update) orDelete(name, key string, wanted bool) {
	v := u.d.text(name)
	switch {
	case !wanted:
	case v == "":
		u.del = append(u.del, key)
	default:
		u.Set(key, v)
	}
}

func (u *update) hardware() error {
	d := u.d
	if d.HasChange("agent") {
		u.addAgent(d.or("agent", defaultAgent()))
		u.reboot = true
	}
	if d.HasChange("boot_order") {
		u.text("boot", prefixed("order=", strings.Join(stringList(d.list("boot_order")), ";")))
		u.reboot = true
	}
	if !d.HasChange("cpu") {
		return nil
	}
	b := d.or("cpu", defaultCPU())
	if err := u.addCPU(u.ctx, u.c.api, b); err != nil {
		return err
	}
	if d.HasChange("cpu.0.affinity") {
		if a := b.text("affinity"); a != "" {
			u.Set("affinity", a)
		} else {
			u.del = append(u.del, "affinity")
		}
	}
	if b.num("hotplugged") <= 0 {
		u.del = append(u.del, "vcpus")
	}
	if b.float("limit") <= 0 {
		u.del = append(u.del, "cpulimit")
	}
	onlyVCPUs := d.HasChange("cpu.0.hotplugged") && d.hotpluggable("cpu")
	for _, k := range []string{
		"cores", "sockets", "type", "architecture", "numa", "flags", "affinity", "limit", "units",
	} {
		onlyVCPUs = onlyVCPUs && !d.HasChange("cpu.0."+k)
	}
	u.reboot = u.reboot || !onlyVCPUs
	return nil
}

func (u *update) memory() {
	d := u.d
	if !d.HasChange("memory") {
		return
	}
	b := d.or("memory", defaultMemory())
	old, _ := d.GetChange("memory")
	before, _ := firstBlock(old.([]any))
	u.addMemory(u.v.id, b)
	grown, shrunk := false, false
	for _, k := range []string{"dedicated", "floating", "shared"} {
		grown = grown || b.num(k) > before.num(k)
		shrunk = shrunk || b.num(k) < before.num(k)
	}
	pages, keep := d.HasChange("memory.0.hugepages"), d.HasChange("memory.0.keep_hugepages")
	if pages {
		u.setOrDelete("hugepages", b.text("hugepages"), b.text("hugepages") != "")
	}
	if keep {
		u.setOrDelete("keephugepages", bit(b.flag("keep_hugepages")), b.text("hugepages") != "")
	}
	u.reboot = u.reboot || !(grown && !shrunk && !pages && !keep && d.hotpluggable("memory"))
}

func (u *update) setOrDelete(key, value string, set bool) {
	if set {
		u.Set(key, value)
	} else {
		u.del = append(u.del, key)
	}
}

func (u *update) network() error {
	if !u.d.HasChange("network_device") {
		return nil
	}
	nics, err := u.d.nics()
	if err != nil {
		return err
	}
	u.del = append(u.del, u.addNICs(nics)...)
	for i := len(nics); i < maxNICs; i++ {
		if k := fmt.Sprintf("net%d", i); u.current.has(k) {
			u.del = append(u.del, k)
		}
	}
	return nil
}

func (u *update) devices() {
	d := u.d
	if d.HasChange("operating_system") {
		u.Set("ostype", d.or("operating_system", defaultOS()).text("type"))
		u.reboot = true
	}
	if d.HasChange("serial_device") {
		u.del = append(u.del, u.addSerials(d.list("serial_device"))...)
		u.reboot = true
	}
	if d.HasChange("startup") && !u.addStartup(d.list("startup")) {
		u.del = append(u.del, "startup")
	}
	if d.HasChange("vga") {
		u.addVGA(d.list("vga"))
		u.reboot = true
	}
	u.orDelete("hook_script_file_id", "hookscript", d.HasChange("hook_script_file_id"))
}

// disks sends every disk again once one of them changed, imports new ones and
// deletes those that are no longer written.
func (u *update) disks() diag.Diagnostics {
	if !u.d.HasChange("disk") {
		return nil
	}
	wanted, err := u.d.disks()
	if err != nil {
		return diag.FromErr(err)
	}
	boot := map[string]bool{}
	for _, k := range stringList(u.d.list("boot_order")) {
		boot[k] = true
	}
	for _, iface := range sortedKeys(u.drives) {
		now := u.drives[iface]
		if _, keep := wanted[iface]; keep || now.media == "cdrom" || now.cloudInit(u.v.id) {
			continue
		}
		if boot[iface] {
			return diag.Errorf(
				"cannot delete boot disk %q. Please remove it from boot order first or change "+
					"boot order before deleting",
				iface,
			)
		}
		u.del = append(u.del, iface)
	}
	for _, iface := range sortedKeys(wanted) {
		want := wanted[iface]
		now, exists := u.drives[iface]
		switch {
		case !exists && want.fileID != "":
			if ds := importDisk(u.ctx, u.c.shell, u.v, iface, want); ds.HasError() {
				return ds
			}
		case !exists:
			want.size = 0
			u.Set(iface, want.String())
		default:
			u.reboot = u.reboot || now.options["aio"] != want.options["aio"] ||
				now.options["queues"] != want.options["queues"]
			u.Set(iface, drive{volume: now.volume, options: want.options}.String())
		}
	}
	return nil
}

func (u *update) cloudInit() diag.Diagnostics {
	d := u.d
	if !d.HasChange("initialization") {
		return nil
	}
	u.reboot, u.rebuild = true, true
	if !u.addCloudInit(d) {
		return nil
	}
	b, _ := d.first("initialization")
	existing := findCloudInit(u.drives, u.v.id, "")
	iface := b.text("interface")
	switch {
	case iface == "" && existing == "":
		iface = "ide2"
	case iface == "":
		iface = existing
	}
	old, _ := d.GetChange("initialization")
	before, had := firstBlock(old.([]any))
	moved := had &&
		(before.text("datastore_id") != b.text("datastore_id") || before.text("file_format") != b.text("file_format"))
	if existing != "" && iface == existing && !moved {
		return nil
	}
	_, ds, err := u.power.offline(u.ctx, true)
	if errors.Is(err, errBlocked) {
		return u.forbidden("move the Cloud-Init drive")
	}
	if ds.HasError() {
		return ds
	}
	if err := u.v.dropDrives(u.ctx, iface, existing); err != nil {
		return diag.FromErr(err)
	}
	u.Set(iface, cloudInitDrive(b).String())
	return nil
}

// forbidden ends the update with an error and the VM read back.
func (u *update) forbidden(operation string) diag.Diagnostics {
	u.done = true
	return append(rebootForbidden(operation), vmRead(u.ctx, u.d.ResourceData, u.c)...)
}

// apply does what follows the change of settings: template, cloud-init drive,
// moves and sizes of disks, power.
func (u *update) apply() (ds diag.Diagnostics) {
	template := u.d.flag("template")
	if ds = u.template(); ds.HasError() {
		return ds
	}
	if u.rebuild && !template {
		if err := u.v.do(u.ctx, http.MethodPut, u.v.path("cloudinit"), nil, nil); err != nil {
			return diag.FromErr(fmt.Errorf("error rebuilding cloud-init drive: %w", err))
		}
	}
	moves, sizes, ds := u.diskChanges()
	if ds.HasError() {
		return ds
	}
	if len(moves) > 0 {
		_, offDiags, err := u.power.offline(u.ctx, !template)
		if errors.Is(err, errBlocked) {
			return u.forbidden("move disks between datastores")
		}
		if offDiags.HasError() {
			return offDiags
		}
		for _, iface := range sortedKeys(moves) {
			if ds = append(ds, u.v.moveDisk(u.ctx, iface, moves[iface]).diags("VM disk move")...); ds.HasError() {
				return ds
			}
		}
	}
	return u.sizesAndPower(ds, sizes)
}

func (u *update) sizesAndPower(ds diag.Diagnostics, sizes map[string]int64) diag.Diagnostics {
	template := u.d.flag("template")
	handled, offDiags, err := u.power.offline(u.ctx, !template && u.reboot)
	if ds = append(ds, offDiags...); ds.HasError() {
		return ds
	}
	blocked := errors.Is(err, errBlocked)
	if blocked && len(sizes) > 0 {
		return append(ds, u.forbidden("resize disks")...)
	}
	if handled || blocked {
		u.reboot = false
	}
	if !blocked && len(sizes) > 0 {
		if ds = append(ds, u.grow(sizes)...); ds.HasError() {
			return ds
		}
		u.reboot = u.reboot || !template && u.d.flag("started") && !u.d.hotpluggable("disk")
	}
	if ds = append(ds, u.power.finish(u.ctx, !template && u.reboot)...); ds.HasError() {
		return ds
	}
	return append(ds, vmRead(u.ctx, u.d.ResourceData, u.c)...)
}

// grow resizes disks and sends their settings again: a setting that waits for
// a restart carries the old size.
func (u *update) grow(sizes map[string]int64) (ds diag.Diagnostics) {
	again := newForm()
	for _, iface := range sortedKeys(sizes) {
		if ds = append(ds, u.v.resize(u.ctx, iface, sizes[iface]).diags("VM disk resize")...); ds.HasError() {
			return ds
		}
		again.text(iface, u.Get(iface))
	}
	if len(again.Values) > 0 {
		ds = append(ds, diag.FromErr(u.v.update(u.ctx, again))...)
	}
	return ds
}

func (u *update) template() diag.Diagnostics {
	if !u.d.HasChange("template") {
		return nil
	}
	if !u.d.flag("template") {
		return diag.Errorf("Cannot convert a template back to a regular VM")
	}
	_, ds, err := u.power.offline(u.ctx, true)
	if errors.Is(err, errBlocked) {
		return u.forbidden("convert the VM to a template")
	}
	if ds.HasError() {
		return ds
	}
	u.reboot = false
	return u.v.toTemplate(u.ctx).diags("VM convert to template")
}

// diskChanges are the disks that change storage, and those that grow.
func (u *update) diskChanges() (moves map[string]string, sizes map[string]int64, ds diag.Diagnostics) {
	moves, sizes = map[string]string{}, map[string]int64{}
	if !u.d.HasChange("disk") {
		return moves, sizes, nil
	}
	o, n := u.d.GetChange("disk")
	old, err := disksOf(o.([]any))
	if err != nil {
		return nil, nil, diag.FromErr(err)
	}
	now, err := disksOf(n.([]any))
	if err != nil {
		return nil, nil, diag.FromErr(err)
	}
	for _, iface := range sortedKeys(old) {
		was, is := old[iface], now[iface]
		if _, kept := now[iface]; !kept {
			continue
		}
		_, path, _ := strings.Cut(was.volume, ":")
		switch {
		case was.store != is.store && !was.ownedBy(u.v.id):
			return nil, nil, diag.Errorf(
				"Cannot move %s:%s to datastore %s in VM %d configuration, it is not owned by this VM!", was.store,
				path, is.store, u.v.id,
			)
		case was.store != is.store:
			moves[iface] = is.store
		}
		switch {
		case was.size > is.size:
			return nil, nil, diag.Errorf("Cannot shrink %s:%s in VM %d, it is not supported!", was.store, path, u.v.id)
		case was.size < is.size && !was.ownedBy(u.v.id):
			return nil, nil,
				diag.Errorf("Cannot resize %s:%s in VM %d, it is not owned by this VM!", was.store, path, u.v.id)
		case was.size < is.size:
			sizes[iface] = is.size
		}
	}
	return moves, sizes, u.newSizes(old, now, sizes)
}

// newSizes adds disks that the VM has, but the resource had not.
func (u *update) newSizes(old, now map[string]drive, sizes map[string]int64) diag.Diagnostics {
	g, err := u.v.config(u.ctx)
	if err != nil {
		return diag.FromErr(err)
	}
	drives, err := g.drives()
	if err != nil {
		return diag.FromErr(err)
	}
	for iface, is := range now {
		have, exists := drives[iface]
		if _, known := old[iface]; known || !exists || have.size == 0 || !have.ownedBy(u.v.id) {
			continue
		}
		if have.size>>20 < is.size>>20 {
			sizes[iface] = is.size
		}
	}
	return nil
}

// updatePool moves the VM to another pool. No pool written means: leave it.
func updatePool(ctx context.Context, d data, a *api, id int) error {
	o, n := d.GetChange("pool_id")
	old, now := o.(string), n.(string)
	if old == now || now == "" {
		return nil
	}
	member := strconv.Itoa(id)
	if old != "" {
		params := url.Values{"vms": {member}, "delete": {"1"}}
		if err := a.do(ctx, http.MethodPut, poolPath(old), params, nil); err != nil {
			return fmt.Errorf("while removing VM %d from pool %s: error updating pool: %w", id, old, err)
		}
	}
	if err := a.do(ctx, http.MethodPut, poolPath(now), url.Values{"vms": {member}}, nil); err != nil {
		return fmt.Errorf("while adding VM %d to pool %s: error updating pool: %w", id, now, err)
	}
	return nil
}

func vmDelete(ctx context.Context, rd *schema.ResourceData, meta any) diag.Diagnostics {
	d, c := wrap(rd), meta.(*clients)
	ctx = context.WithoutCancel(ctx)
	seconds := max(d.num("timeout_stop_vm"), d.num("timeout_shutdown_vm"))
	ctx, cancel := context.WithTimeout(ctx, time.Duration(seconds)*time.Second)
	defer cancel()
	id, err := strconv.Atoi(d.Id())
	if err != nil {
		return diag.FromErr(err)
	}
	p := &power{vm: vm{c.api, d.text("node_name"), id}, d: d}
	s, err := p.status(ctx)
	if err != nil {
		return diag.FromErr(err)
	}
	var ds diag.Diagnostics
	switch {
	case s.Status == "stopped":
	case d.flag("stop_on_destroy"):
		ds = p.halt(ctx)
	default:
		ds = p.ensureStopped(ctx)
	}
	if ds.HasError() {
		return ds
	}
	result := p.destroy(ctx, d.flag("purge_on_destroy"), d.flag("delete_unreferenced_disks_on_destroy"))
	if errors.Is(result.err, errMissing) {
		d.SetId("")
		return nil
	}
	if ds = result.diags("VM delete"); ds.HasError() {
		return ds
	}
	// A VM is gone once its state can no longer be read.
	if err := p.waitStatus(ctx, ""); err == nil {
		return diag.Errorf("failed to delete VM \"%d\"", id)
	}
	d.SetId("")
	return ds
}
