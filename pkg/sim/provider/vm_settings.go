package provider

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-sdk/v2/helper/schema"
)

// maskedPassword is what PVE returns in the place of a password.
const maskedPassword = "**********"

// disks are the resource's disk blocks by interface.
func (d data) disks() (map[string]drive, error) { return disksOf(d.list("disk")) }

func disksOf(list []any) (map[string]drive, error) {
	found := map[string]drive{}
	for _, v := range list {
		m, ok := v.(map[string]any)
		if !ok {
			continue
		}
		b := block(m)
		iface := b.text("interface")
		if !driveName.MatchString(iface) {
			const text = "Defined disk interface not supported. " +
				"Interface was %s, but only [ide sata scsi virtio] are supported"
			//lint:ignore ST1005 the real provider's text
			return nil, fmt.Errorf(text, iface)
		}
		dr, err := diskOf(iface, b)
		if err != nil {
			return nil, err
		}
		found[iface] = dr
	}
	return found, nil
}

func diskOf(iface string, b block) (drive, error) {
	store, path, size := b.text("datastore_id"), b.text("path_in_datastore"), b.num("size")
	d := drive{
		store: store, fileID: b.text("file_id"), importFrom: b.text("import_from"), format: b.text("file_format"),
		size: int64(size) << 30,
		options: map[string]string{
			"aio": b.text("aio"), "backup": bit(b.flag("backup")), "cache": b.text("cache"),
			"discard":   b.text("discard"),
			"replicate": bit(b.flag("replicate")), "serial": b.text("serial"),
		},
	}
	switch {
	case path != "" && store != "":
		d.volume = store + ":" + path
	case path != "":
		d.volume = path
	default:
		d.volume = fmt.Sprintf("%s:%d", store, size)
	}
	if !strings.HasPrefix(iface, "virtio") {
		d.options["ssd"] = bit(b.flag("ssd"))
	}
	if !strings.HasPrefix(iface, "sata") && !strings.HasPrefix(iface, "ide") {
		d.options["iothread"] = bit(b.flag("iothread"))
	}
	if q := b.num("queues"); q > 0 {
		if !strings.HasPrefix(iface, "scsi") {
			return d, fmt.Errorf("disk queues are only supported for SCSI disks, but disk interface was %s", iface)
		}
		d.options["queues"] = strconv.Itoa(q)
	}
	if speed, ok := b.first("speed"); ok {
		for name, key := range speedKeys() {
			if n := speed.num(name); n > 0 {
				d.options[key] = strconv.Itoa(n)
			}
		}
	}
	return d, nil
}

// speedKeys maps the attributes of a speed block to PVE's names.
func speedKeys() map[string]string {
	return map[string]string{
		"iops_read": "iops_rd", "iops_read_burstable": "iops_rd_max",
		"iops_write": "iops_wr", "iops_write_burstable": "iops_wr_max",
		"read": "mbps_rd", "read_burstable": "mbps_rd_max",
		"write": "mbps_wr", "write_burstable": "mbps_wr_max",
	}
}

// nics are the resource's network devices in order.
func (d data) nics() ([]nic, error) {
	var found []nic
	for _, v := range d.list("network_device") {
		m, _ := v.(map[string]any)
		b := block(m)
		n := nic{
			enabled: b.flag("enabled"), firewall: b.flag("firewall"), down: b.flag("disconnected"),
			model: b.text("model"), bridge: b.text("bridge"), mac: b.text("mac_address"),
			queues: b.num("queues"), vlan: b.num("vlan_id"), mtu: b.num("mtu"), rate: b.float("rate_limit"),
		}
		if t := b.text("trunks"); t != "" {
			n.trunks = strings.Split(t, ";")
		}
		for _, t := range n.trunks {
			if _, err := strconv.Atoi(t); err != nil {
				return nil, fmt.Errorf("error parsing trunks: %w", err)
			}
		}
		found = append(found, n)
	}
	return found, nil
}

// addNICs writes enabled devices and returns the names of the others.
func (f form) addNICs(nics []nic) (off []string) {
	for i, n := range nics {
		if n.enabled {
			f.Set(fmt.Sprintf("net%d", i), n.String())
		} else {
			off = append(off, fmt.Sprintf("net%d", i))
		}
	}
	return off
}

func (f form) addAgent(b block) {
	f.Set("agent", encodeAgent(b.flag("enabled"), b.flag("trim"), b.text("type")))
}

// addCPU writes the CPU block; the architecture is for root@pam alone.
func (f form) addCPU(ctx context.Context, a *api, b block) error {
	if arch := b.text("architecture"); arch != "" {
		if !a.rootTicket(ctx) {
			return errors.New("the `cpu.architecture` can only be set by the root account. " +
				"Please switch to the root account or remove the `cpu.architecture` from the VM configuration")
		}
		f.Set("arch", arch)
	}
	f.num("cores", b.num("cores"))
	f.num("sockets", b.num("sockets"))
	f.flag("numa", b.flag("numa"))
	f.Set("cpu", encodeCPU(b.text("type"), stringList(b.list("flags"))))
	f.positive("vcpus", b.num("hotplugged"))
	f.positive("cpuunits", b.num("units"))
	if l := b.float("limit"); l > 0 {
		f.Set("cpulimit", strconv.FormatFloat(l, 'f', -1, 64))
	}
	return nil
}

func (f form) addMemory(id int, b block) {
	f.num("memory", b.num("dedicated"))
	f.num("balloon", b.num("floating"))
	if n := b.num("shared"); n > 0 {
		f.Set("ivshmem", fmt.Sprintf("name=vm-%d-ivshmem,size=%d", id, n))
	}
}

func (f form) addHugepages(b block) {
	f.text("hugepages", b.text("hugepages"))
	if b.flag("keep_hugepages") {
		f.flag("keephugepages", true)
	}
}

func (f form) addVGA(list []any) {
	b, ok := firstBlock(list)
	if !ok {
		return
	}
	var parts []string
	if v := b.text("clipboard"); v != "" {
		parts = append(parts, "clipboard="+v)
	}
	if n := b.num("memory"); n > 0 {
		parts = append(parts, "memory="+strconv.Itoa(n))
	}
	if v := b.text("type"); v != "" {
		parts = append(parts, "type="+v)
	}
	f.Set("vga", strings.Join(parts, ","))
}

// addStartup reports whether there is a startup block.
func (f form) addStartup(list []any) bool {
	b, ok := firstBlock(list)
	if !ok {
		return false
	}
	var parts []string
	for _, p := range [][2]string{{"order", "order"}, {"up", "up_delay"}, {"down", "down_delay"}} {
		if n := b.num(p[1]); n >= 0 {
			parts = append(parts, fmt.Sprintf("%s=%d", p[0], n))
		}
	}
	f.text("startup", strings.Join(parts, ","))
	return true
}

// addSerials writes the serial devices and returns the names of unused ones.
func (f form) addSerials(list []any) (unused []string) {
	for i := range maxSerials {
		if i >= len(list) {
			unused = append(unused, fmt.Sprintf("serial%d", i))
			continue
		}
		m, _ := list[i].(map[string]any)
		f.Set(fmt.Sprintf("serial%d", i), block(m).text("device"))
	}
	return unused
}

func (f form) addHotplug(d data) {
	if v, ok := d.GetOk("hotplug"); ok {
		f.Set("hotplug", v.(string))
	}
}

// addCloudInit writes the initialization block but for its drive.
func (f form) addCloudInit(d data) bool {
	b, ok := d.first("initialization")
	if !ok {
		return false
	}
	if dns, ok := b.first("dns"); ok {
		f.text("searchdomain", dns.text("domain"))
		f.text("nameserver", strings.Join(stringList(dns.list("servers")), " "))
	}
	f.addAddresses(b.list("ip_config"))
	if u, ok := b.first("user_account"); ok {
		if keys := u.list("keys"); len(keys) > 0 {
			f.Set("sshkeys", encodeKeys(stringList(keys)))
		}
		if p := u.text("password"); p != maskedPassword {
			f.text("cipassword", p)
		}
		f.text("ciuser", u.text("username"))
	}
	f.text("cicustom", strings.Join(dataFiles(b), ","))
	f.text("citype", b.text("type"))
	if v, ok := upgrade(d); ok {
		f.flag("ciupgrade", v)
	}
	return true
}

func (f form) addAddresses(list []any) {
	for i, v := range list {
		m, _ := v.(map[string]any)
		v4, _ := block(m).first("ipv4")
		v6, _ := block(m).first("ipv6")
		var parts []string
		for _, p := range [][2]string{
			{"gw", v4.text("gateway")},
			{"gw6", v6.text("gateway")},
			{"ip", v4.text("address")},
			{"ip6", v6.text("address")},
		} {
			if p[1] != "" {
				parts = append(parts, p[0]+"="+p[1])
			}
		}
		f.text(fmt.Sprintf("ipconfig%d", i), strings.Join(parts, ","))
	}
}

func dataFiles(b block) (parts []string) {
	for _, k := range []string{"meta", "network", "user", "vendor"} {
		if v := b.text(k + "_data_file_id"); v != "" {
			parts = append(parts, k+"="+v)
		}
	}
	return parts
}

// upgrade is sent on creation if it is written, later only if it changed:
// setting it is for root@pam.
func upgrade(d data) (value, send bool) {
	const path = "initialization.0.upgrade"
	if !d.IsNewResource() {
		return d.flag(path), d.HasChange(path)
	}
	//lint:ignore SA1019 the only way to tell false from absent
	v, ok := d.GetOkExists(path)
	value, _ = v.(bool)
	return value, ok
}

// cloudInitDrive is the new cloud-init drive of an initialization block.
func cloudInitDrive(b block) drive {
	return drive{volume: b.text("datastore_id") + ":cloudinit", format: b.text("file_format")}
}

// findCloudInit is the interface of the VM's cloud-init drive, or absent.
func findCloudInit(drives map[string]drive, id int, absent string) string {
	for _, k := range sortedKeys(drives) {
		if drives[k].cloudInit(id) {
			return k
		}
	}
	return absent
}

// bootOrder is the written order, else the first disk of each kind and net0,
// whether there is one or not.
func bootOrder(written []any, disks map[string]drive) []string {
	if len(written) > 0 {
		return stringList(written)
	}
	var order []string
	for _, k := range []string{"ide0", "sata0", "scsi0", "virtio0"} {
		if _, ok := disks[k]; ok {
			order = append(order, k)
		}
	}
	return append(order, "net0")
}

// createForm is the body of the call that creates a VM. Disks that are made of
// an image by file_id are not part of it.
func createForm(ctx context.Context, a *api, d data, id int, disks map[string]drive) (form, error) {
	f := newForm()
	nics, err := d.nics()
	if err != nil {
		return f, err
	}
	f.num("vmid", id)
	for _, k := range [][2]string{
		{"acpi", "acpi"}, {"protection", "protection"}, {"onboot", "on_boot"}, {"tablet", "tablet_device"},
	} {
		f.flag(k[0], d.flag(k[1]))
	}
	f.flag("template", false)
	f.text("bios", d.text("bios"))
	f.text("keyboard", d.text("keyboard_layout"))
	f.text("scsihw", d.text("scsi_hardware"))
	f.text("ostype", d.or("operating_system", defaultOS()).text("type"))
	for _, k := range [][2]string{
		{"name", "name"},
		{"description", "description"},
		{"pool", "pool_id"},
		{"machine", "machine"},
		{"args", "kvm_arguments"},
		{"hookscript", "hook_script_file_id"},
	} {
		f.text(k[0], d.text(k[1]))
	}
	f.text("tags", encodeTags(stringList(d.list("tags"))))
	f.addAgent(d.or("agent", defaultAgent()))
	cpu := d.or("cpu", defaultCPU())
	if err := f.addCPU(ctx, a, cpu); err != nil {
		return f, err
	}
	f.text("affinity", cpu.text("affinity"))
	memory := d.or("memory", defaultMemory())
	f.addMemory(id, memory)
	f.addHugepages(memory)
	f.addNICs(nics)
	f.addSerials(d.list("serial_device"))
	f.addVGA(d.list("vga"))
	f.addStartup(d.list("startup"))
	f.addHotplug(d)
	f.text("boot", prefixed("order=", strings.Join(bootOrder(d.list("boot_order"), disks), ";")))
	if f.addCloudInit(d) {
		b, _ := d.first("initialization")
		iface := b.text("interface")
		if iface == "" {
			iface = "ide2"
		}
		f.Set(iface, cloudInitDrive(b).String())
	}
	for k, dr := range disks {
		if dr.fileID == "" {
			f.Set(k, dr.String())
		}
	}
	return f, nil
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

// cloneForm is the second update of a fresh clone; current is its configuration.
func cloneForm(ctx context.Context, a *api, d data, id int, current guest, ciInterface string) (form, error) {
	f := newForm()
	var del []string
	for _, k := range [][3]string{
		{"bios", "bios", "seabios"},
		{"machine", "machine", ""},
		{"scsihw", "scsi_hardware", "virtio-scsi-pci"},
		{"keyboard", "keyboard_layout", "en-us"},
		{"args", "kvm_arguments", ""},
	} {
		if v := d.text(k[1]); v != k[2] {
			f.Set(k[0], v)
		}
	}
	if !d.flag("acpi") {
		f.flag("acpi", false)
	}
	if !d.flag("tablet_device") {
		f.flag("tablet", false)
	}
	if d.flag("protection") {
		f.flag("protection", true)
	}
	f.flag("onboot", d.flag("on_boot"))
	if b, ok := d.first("agent"); ok {
		f.addAgent(b)
	}
	if b, ok := d.first("cpu"); ok {
		if err := f.addCPU(ctx, a, b); err != nil {
			return f, err
		}
		f.text("affinity", b.text("affinity"))
	}
	if b, ok := d.first("memory"); ok {
		f.addMemory(id, b)
		f.addHugepages(b)
	}
	if b, ok := d.first("operating_system"); ok {
		f.text("ostype", b.text("type"))
	}
	if b, ok := d.first("initialization"); ok {
		f.Set(ciInterface, cloudInitDrive(b).String())
		f.addCloudInit(d)
	}
	nics, err := d.nics()
	if err != nil {
		return f, err
	}
	if len(nics) > 0 {
		del = append(del, f.addNICs(nics)...)
		for i := len(nics); i < maxNICs; i++ {
			del = append(del, fmt.Sprintf("net%d", i))
		}
	}
	if serials := d.list("serial_device"); len(serials) > 0 {
		del = append(del, f.addSerials(serials)...)
	}
	if order := d.list("boot_order"); len(order) > 0 {
		f.Set("boot", "order="+strings.Join(stringList(order), ";"))
	}
	f.addHotplug(d)
	f.addVGA(d.list("vga"))
	f.addStartup(d.list("startup"))
	f.text("tags", encodeTags(stringList(d.list("tags"))))
	if hook := d.text("hook_script_file_id"); hook != "" {
		f.Set("hookscript", hook)
	} else if current.has("hookscript") {
		del = append(del, "hookscript")
	}
	f.remove(del)
	return f, nil
}

// hotpluggable is true if the VM takes a change of the feature while it runs.
func (d data) hotpluggable(feature string) bool {
	v, ok := d.Get("hotplug").(string)
	if !ok || v == "" {
		v = "network,disk,usb"
	}
	return v == "1" || slices.Contains(strings.Split(v, ","), feature)
}

func wrap(d *schema.ResourceData) data { return data{d} }
