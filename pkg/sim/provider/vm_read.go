package provider

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-sdk/v2/diag"
	"github.com/hashicorp/terraform-plugin-sdk/v2/helper/schema"
)

// vmRead asks the cluster where the VM is, then its hypervisor for its
// configuration and state, then for its pool, then its agent for addresses.
func vmRead(ctx context.Context, rd *schema.ResourceData, meta any) diag.Diagnostics {
	d, c := wrap(rd), meta.(*clients)
	id, err := strconv.Atoi(d.Id())
	if err != nil {
		return diag.FromErr(err)
	}
	node, err := c.api.nodeOf(ctx, id)
	if errors.Is(err, errNotListed) {
		d.SetId("")
		return nil
	}
	if err != nil {
		return diag.FromErr(err)
	}
	v := vm{c.api, node, id}
	g, err := v.config(ctx)
	if errors.Is(err, errMissing) {
		d.SetId("")
		return nil
	}
	if err != nil {
		return diag.FromErr(err)
	}
	s, err := v.status(ctx)
	if err != nil {
		return diag.FromErr(err)
	}
	return store(ctx, d, v, g, s)
}

// store puts what was read into the state. Of a clone only what is written in
// the resource is stored, so that the source's settings make no difference.
func store(ctx context.Context, d data, v vm, g guest, s vmStatus) diag.Diagnostics {
	values := map[string]any{"node_name": v.node, "vm_id": v.id}
	if !d.flag("template") {
		values["started"] = s.Status == "running"
	}
	isClone := len(d.list("clone")) > 0
	readScalars(d, g, isClone, values)
	readHardware(d, g, isClone, values)
	if err := readCloudInit(d, g, v.id, isClone, values); err != nil {
		return diag.FromErr(err)
	}
	values["network_device"], values["mac_addresses"] = readNICs(g)
	var ds diag.Diagnostics
	disks, err := readDisks(ctx, d, v, g, isClone)
	ds = append(ds, diag.FromErr(err)...)
	if disks != nil {
		values["disk"] = disks
	}
	if pool, err := v.poolOf(ctx, v.id); err != nil {
		ds = append(ds, diag.FromErr(fmt.Errorf("failed to determine pool for VM %d: %w", v.id, err))...)
	} else {
		values["pool_id"] = pool
	}
	if err := d.setAll(values); err != nil {
		return append(ds, diag.FromErr(err)...)
	}
	ds = append(ds, readAddresses(ctx, d, v, g)...)
	return append(ds, diag.FromErr(fillDefaults(d))...)
}

func readScalars(d data, g guest, isClone bool, values map[string]any) {
	for _, k := range [][3]string{
		{"bios", "bios", "seabios"},
		{"description", "description", ""},
		{"hook_script_file_id", "hookscript", ""},
		{"keyboard_layout", "keyboard", "en-us"},
		{"machine", "machine", ""},
		{"name", "name", ""},
	} {
		if !isClone || d.text(k[0]) != k[2] {
			values[k[0]] = g.text(k[1], k[2])
		}
	}
	if !isClone || d.text("kvm_arguments") != "" {
		// PVE returns a blank where the arguments were set to nothing.
		values["kvm_arguments"] = ""
		if a := g.text("args", ""); strings.TrimSpace(a) != "" {
			values["kvm_arguments"] = a
		}
	}
	if g.has("scsihw") && (!isClone || d.text("scsi_hardware") != "virtio-scsi-pci") {
		values["scsi_hardware"] = g["scsihw"]
	}
	for name, k := range map[string]struct {
		key    string
		absent bool
	}{"acpi": {"acpi", true}, "protection": {"protection", false}, "tablet_device": {"tablet", true}, "template": {"template", false}} {
		if !isClone || d.flag(name) != k.absent {
			values[name] = g.flag(k.key, k.absent)
		}
	}
	values["on_boot"] = g.flag("onboot", false)
	values["boot_order"] = nil
	if order := pairs(g.text("boot", ""))["order"]; order != "" {
		values["boot_order"] = strings.Split(order, ";")
	}
	if !isClone || len(d.list("tags")) > 0 {
		values["tags"] = readTags(g.text("tags", ""))
	}
	if g.has("hotplug") {
		values["hotplug"] = g["hotplug"]
	}
}

func readTags(s string) []string {
	var tags []string
	for t := range strings.SplitSeq(s, ";") {
		if t = strings.TrimSpace(t); t != "" {
			tags = append(tags, t)
		}
	}
	slices.Sort(tags)
	return tags
}

// put stores a block if it is written or, but for clones, differs from the
// defaults.
func put(d data, values map[string]any, key string, isClone bool, b, absent map[string]any) {
	differs := false
	for k, v := range absent {
		differs = differs || fmt.Sprint(b[k]) != fmt.Sprint(v)
	}
	if len(d.list(key)) > 0 || !isClone && differs {
		values[key] = []any{b}
	}
}

func readHardware(d data, g guest, isClone bool, values map[string]any) {
	readAgent(d, g, isClone, values)
	cpu := readCPU(g)
	put(d, values, "cpu", isClone, cpu, map[string]any{
		"architecture": "", "cores": 1, "flags": []string{}, "hotplugged": 0,
		"limit": 0.0, "sockets": 1, "type": "qemu64", "units": 0,
	})
	shared, _ := strconv.Atoi(pairs(g.text("ivshmem", ""))["size"])
	put(d, values, "memory", isClone, map[string]any{
		"dedicated": g.num("memory", 0), "floating": g.num("balloon", 0), "shared": shared,
		"hugepages": g.text("hugepages", ""), "keep_hugepages": g.flag("keephugepages", false),
	}, map[string]any{"dedicated": 512, "floating": 0, "shared": 0, "hugepages": "", "keep_hugepages": false})
	put(
		d, values, "operating_system", isClone, map[string]any{"type": g.text("ostype", "")},
		map[string]any{"type": "other"},
	)
	readStartup(d, g, isClone, values)
	readVGA(d, g, values)
	if !isClone || len(d.list("serial_device")) > 0 {
		values["serial_device"] = readSerials(g)
	}
}

func readAgent(d data, g guest, isClone bool, values map[string]any) {
	now, written := d.first("agent")
	if isClone && !written {
		return
	}
	if !g.has("agent") {
		values["agent"] = []any{}
		return
	}
	p := pairs(g["agent"])
	b := map[string]any{
		"enabled": g.agentEnabled(), "trim": p["fstrim_cloned_disks"] == "1", "type": "virtio", "timeout": "15m",
	}
	if p["type"] != "" {
		b["type"] = p["type"]
	}
	if t := now.text("timeout"); t != "" {
		b["timeout"] = t
	}
	if w := now.list("wait_for_ip"); len(w) > 0 {
		b["wait_for_ip"] = w
	}
	absent := defaultAgent()
	put(d, values, "agent", isClone, b, absent)
}

func readCPU(g guest) map[string]any {
	b := map[string]any{
		"architecture": g.text("arch", ""), "cores": g.num("cores", 1), "hotplugged": g.num("vcpus", 0), "limit": 0.0,
		"numa": g.flag("numa", false), "sockets": g.num("sockets", 1), "units": g.num("cpuunits", 0),
		"affinity": g.text("affinity", ""),
		"type":     "qemu64", "flags": []string{},
	}
	if f, err := strconv.ParseFloat(g["cpulimit"], 64); err == nil {
		b["limit"] = f
	}
	if p := pairs(g.text("cpu", "")); g.has("cpu") {
		b["type"] = p[""]
		if p["cputype"] != "" {
			b["type"] = p["cputype"]
		}
		if p["flags"] != "" {
			b["flags"] = strings.Split(p["flags"], ";")
		}
	}
	return b
}

func readStartup(d data, g guest, isClone bool, values map[string]any) {
	written := len(d.list("startup")) > 0
	if isClone && !written {
		return
	}
	if !g.has("startup") {
		values["startup"] = []any{}
		return
	}
	p := pairs(g["startup"])
	b := map[string]any{"order": -1, "up_delay": -1, "down_delay": -1}
	for k, name := range map[string]string{"order": "order", "up": "up_delay", "down": "down_delay"} {
		if n, err := strconv.Atoi(p[k]); err == nil {
			b[name] = n
		}
	}
	values["startup"] = []any{b}
}

func readVGA(d data, g guest, values map[string]any) {
	b := map[string]any{"clipboard": "", "memory": 16, "type": "std"}
	if g.has("vga") {
		p := pairs(g["vga"])
		b["clipboard"], b["type"] = p["clipboard"], p["type"]
		if p[""] != "" {
			b["type"] = p[""]
		}
		if n, err := strconv.Atoi(p["memory"]); err == nil {
			b["memory"] = n
		}
	}
	values["vga"] = []any{}
	put(d, values, "vga", false, b, map[string]any{"clipboard": "", "memory": 16, "type": "std"})
}

func readSerials(g guest) []any {
	list, last := make([]any, maxSerials), 0
	for i := range list {
		v, ok := g[fmt.Sprintf("serial%d", i)]
		list[i] = map[string]any{"device": v}
		if ok {
			last = i + 1
		}
	}
	return list[:last]
}

func readNICs(g guest) (devices, macs []any) {
	last := -1
	for i := range maxNICs {
		if g.has(fmt.Sprintf("net%d", i)) {
			last = i
		}
	}
	devices, macs = []any{}, []any{}
	for i := range last + 1 {
		s, ok := g[fmt.Sprintf("net%d", i)]
		if !ok {
			devices, macs = append(devices, nil), append(macs, "")
			continue
		}
		n := parseNIC(s)
		macs = append(macs, n.mac)
		devices = append(devices, map[string]any{
			"bridge": n.bridge, "enabled": true, "disconnected": n.down, "firewall": n.firewall, "mac_address": n.mac,
			"model": n.model, "queues": n.queues, "rate_limit": n.rate, "vlan_id": n.vlan, "mtu": n.mtu,
			"trunks": strings.Join(n.trunks, ";"),
		})
	}
	return devices, macs
}

func readCloudInit(d data, g guest, id int, isClone bool, values map[string]any) error {
	b, err := cloudInitBlock(g, id)
	if err != nil {
		return err
	}
	if isClone {
		now, written := d.first("initialization")
		if !written {
			return nil
		}
		for _, k := range []string{"user_account", "dns", "ip_config"} {
			if len(now.list(k)) == 0 {
				delete(b, k)
			}
		}
	}
	values["initialization"] = []any{}
	if len(b) > 0 {
		values["initialization"] = []any{b}
	}
	return nil
}

// cloudInitBlock is empty if the VM has no cloud-init setting at all.
func cloudInitBlock(g guest, id int) (map[string]any, error) {
	drives, err := g.drives()
	if err != nil {
		return nil, err
	}
	b := map[string]any{}
	if iface := findCloudInit(drives, id, ""); iface != "" {
		b["interface"] = iface
		b["datastore_id"], _, _ = strings.Cut(drives[iface].volume, ":")
		if f := drives[iface].format; f != "" {
			b["file_format"] = f
		}
	}
	if g.has("searchdomain") || g.has("nameserver") {
		servers := []string{}
		if g.has("nameserver") {
			servers = strings.Split(g["nameserver"], " ")
		}
		b["dns"] = []any{map[string]any{"domain": g.text("searchdomain", ""), "servers": servers}}
	}
	if list := readIPConfigs(g); len(list) > 0 {
		b["ip_config"] = list
	}
	if g.has("cipassword") || g.has("sshkeys") || g.has("ciuser") {
		keys, err := decodeKeys(g.text("sshkeys", ""))
		if err != nil {
			return nil, err
		}
		b["user_account"] = []any{map[string]any{
			"keys": keys, "password": g.text("cipassword", ""), "username": g.text("ciuser", ""),
		}}
	}
	files := pairs(g.text("cicustom", ""))
	if g.has("cicustom") || len(b) > 0 {
		for _, k := range []string{"user", "vendor", "network", "meta"} {
			b[k+"_data_file_id"] = files[k]
		}
	}
	if g.has("citype") || len(b) > 0 {
		b["type"] = g.text("citype", "")
	}
	if g.has("ciupgrade") || len(b) > 0 {
		b["upgrade"] = g.flag("ciupgrade", true)
	}
	return b, nil
}

func readIPConfigs(g guest) []any {
	last := -1
	for i := range maxNICs {
		if g.has(fmt.Sprintf("ipconfig%d", i)) {
			last = i
		}
	}
	list := make([]any, last+1)
	for i := range list {
		p := pairs(g.text(fmt.Sprintf("ipconfig%d", i), ""))
		item := map[string]any{"ipv4": []any{}, "ipv6": []any{}}
		if p["ip"] != "" || p["gw"] != "" {
			item["ipv4"] = []any{map[string]any{"address": p["ip"], "gateway": p["gw"]}}
		}
		if p["ip6"] != "" || p["gw6"] != "" {
			item["ipv6"] = []any{map[string]any{"address": p["ip6"], "gateway": p["gw6"]}}
		}
		list[i] = item
	}
	return list
}

// readDisks keeps the order of the state and, of each disk, what PVE does not
// return: its image and its size where PVE leaves that out.
func readDisks(ctx context.Context, d data, v vm, g guest, isClone bool) ([]any, error) {
	drives, err := g.drives()
	if err != nil {
		return nil, err
	}
	var order []string
	before := map[string]block{}
	for _, e := range d.list("disk") {
		if m, ok := e.(map[string]any); ok {
			b := block(m)
			order = append(order, b.text("interface"))
			before[b.text("interface")] = b
		}
	}
	found := map[string]any{}
	var errs []error
	for _, iface := range sortedKeys(drives) {
		dr := drives[iface]
		if dr.volume == "none" || dr.media == "cdrom" || dr.cloudInit(v.id) {
			continue
		}
		b, err := readDisk(ctx, v, iface, dr, before[iface])
		if err != nil {
			errs = append(errs, err)
			continue
		}
		found[iface] = b
	}
	if isClone && len(order) == 0 {
		return nil, errors.Join(errs...)
	}
	if len(order) == 0 {
		order = sortedKeys(found)
		slices.SortStableFunc(order, byNumber)
	}
	list := make([]any, len(order))
	for i, iface := range order {
		list[i] = found[iface]
	}
	return list, errors.Join(errs...)
}

// byNumber sorts scsi2 before scsi10.
func byNumber(a, b string) int {
	pa, pb := strings.TrimRight(a, "0123456789"), strings.TrimRight(b, "0123456789")
	if pa != pb {
		return strings.Compare(a, b)
	}
	return len(a) - len(b)
}

func readDisk(ctx context.Context, v vm, iface string, dr drive, before block) (map[string]any, error) {
	store, path, ok := strings.Cut(dr.volume, ":")
	if !ok {
		store, path = "", dr.volume
	}
	b := map[string]any{
		"interface": iface, "datastore_id": store, "path_in_datastore": path, "size": int(dr.size >> 30),
		"aio": "io_uring", "backup": true, "iothread": false, "queues": 0, "replicate": true, "serial": "",
		"ssd":     false,
		"discard": "ignore", "cache": "none", "speed": []any{},
		"file_id": before.text("file_id"), "import_from": before.text("import_from"), "file_format": dr.format,
	}
	if dr.size>>30 == 0 && before.num("size") > 0 {
		b["size"] = before.num("size")
	}
	for _, k := range []string{"aio", "serial", "discard", "cache"} {
		if o, ok := dr.options[k]; ok {
			b[k] = o
		}
	}
	for _, k := range []string{"backup", "iothread", "replicate", "ssd"} {
		if o, ok := dr.options[k]; ok {
			b[k] = o == "1"
		}
	}
	if n, err := strconv.Atoi(dr.options["queues"]); err == nil {
		b["queues"] = n
	}
	if speed := readSpeed(dr.options); speed != nil {
		b["speed"] = []any{speed}
	}
	if dr.format == "" && store != "" {
		format, err := v.volumeFormat(ctx, store, dr.volume)
		if err != nil && !errors.Is(err, errMissing) {
			return nil, err
		}
		b["file_format"] = format
	}
	return b, nil
}

func readSpeed(options map[string]string) map[string]any {
	speed, limited := map[string]any{}, false
	for name, key := range speedKeys() {
		n, err := strconv.Atoi(options[key])
		speed[name], limited = n, limited || err == nil
	}
	if !limited {
		return nil
	}
	return speed
}

// volumeFormat asks the storage: volumes of block storages have no extension.
func (v vm) volumeFormat(ctx context.Context, store, volume string) (string, error) {
	var answer struct{ Data *struct{ Format string } }
	path := fmt.Sprintf(
		"nodes/%s/storage/%s/content/%s", url.PathEscape(v.node), url.PathEscape(store), url.PathEscape(volume),
	)
	if err := v.do(ctx, http.MethodGet, path, nil, &answer); err != nil {
		return "", fmt.Errorf("error get file %s from datastore %s: %w", volume, store, err)
	}
	if answer.Data == nil {
		return "", errNoData
	}
	return answer.Data.Format, nil
}

// readAddresses fills the address lists in the guest's own order of
// interfaces. A dead agent costs agent.timeout and leaves a warning and empty
// lists.
func readAddresses(ctx context.Context, d data, v vm, g guest) (ds diag.Diagnostics) {
	values := map[string]any{"ipv4_addresses": nil, "ipv6_addresses": nil, "network_interface_names": nil}
	if d.flag("started") && g.agentEnabled() {
		agent := d.or("agent", defaultAgent())
		timeout, err := time.ParseDuration(agent.text("timeout"))
		if err != nil {
			return diag.FromErr(fmt.Errorf("failed to parse agent timeout: %w", err))
		}
		wait, _ := agent.first("wait_for_ip")
		nics, err := v.agentNICs(ctx, timeout, ipWait{wait.flag("disabled"), wait.flag("ipv4"), wait.flag("ipv6")})
		if err != nil {
			ds = append(ds, diag.Diagnostic{
				Severity: diag.Warning, Summary: "error waiting for network interfaces from QEMU agent",
				Detail: err.Error(),
			})
		}
		addAddresses(values, nics)
	}
	return append(ds, diag.FromErr(d.setAll(values))...)
}

func addAddresses(values map[string]any, nics []agentNIC) {
	var v4, v6, macs, names []any
	for _, n := range nics {
		byType := map[string][]any{}
		for _, a := range n.IPs {
			byType[a.Type] = append(byType[a.Type], a.Address)
		}
		v4, v6 = append(v4, byType["ipv4"]), append(v6, byType["ipv6"])
		macs, names = append(macs, strings.ToUpper(n.MAC)), append(names, n.Name)
	}
	values["ipv4_addresses"], values["ipv6_addresses"] = v4, v6
	values["mac_addresses"], values["network_interface_names"] = macs, names
}

// fillDefaults gives an imported VM the settings that PVE knows nothing of.
func fillDefaults(d data) error {
	values := map[string]any{}
	for k, v := range map[string]any{
		"migrate": false, "reboot": false, "stop_on_destroy": false, "purge_on_destroy": true,
		"reboot_after_update":                  true,
		"delete_unreferenced_disks_on_destroy": true, "timeout_clone": 1800, "timeout_create": 1800,
		"timeout_migrate": 1800,
		"timeout_reboot":  1800, "timeout_shutdown_vm": 1800, "timeout_start_vm": 1800, "timeout_stop_vm": 300,
		"timeout_move_disk": 1800,
	} {
		//lint:ignore SA1019 the only way to tell false from absent
		if _, ok := d.GetOkExists(k); !ok {
			values[k] = v
		}
	}
	return d.setAll(values)
}
