package provider

import (
	"context"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-sdk/v2/helper/customdiff"
	"github.com/hashicorp/terraform-plugin-sdk/v2/helper/schema"
	"github.com/hashicorp/terraform-plugin-sdk/v2/helper/validation"
)

const (
	maxNICs    = 32
	maxSerials = 4
)

// Settings of blocks that are not written.
func defaultAgent() block {
	return block{"enabled": false, "timeout": "15m", "trim": false, "type": "virtio"}
}
func defaultCPU() block    { return block{"cores": 1, "sockets": 1, "type": "qemu64"} }
func defaultMemory() block { return block{"dedicated": 512} }
func defaultOS() block     { return block{"type": "other"} }

// vmResource declares proxmox_virtual_environment_vm.
func vmResource() *schema.Resource {
	all := fields{}
	for _, part := range []fields{vmScalars(), vmTimeouts(), vmHardware(), vmNetwork()} {
		for k, f := range part {
			all[k] = f
		}
	}
	all["disk"] = diskSchema()
	all["initialization"] = initializationSchema()
	return &schema.Resource{
		Schema:        all,
		CreateContext: vmCreate,
		ReadContext:   vmRead,
		UpdateContext: vmUpdate,
		DeleteContext: vmDelete,
		CustomizeDiff: vmDiff(),
		Importer:      &schema.ResourceImporter{StateContext: vmImport},
	}
}

func vmScalars() fields {
	return fields{
		"name":        text(byDefault(""), dnsName),
		"description": text(byDefault(""), trimmedDescription),
		"tags":        tagsSchema(),
		"node_name":   text(required, notEmpty),
		"vm_id":       number(computed, vmIDRange),
		"pool_id": text(
			byDefault(""),
			suppress(func(_, old, now string, _ *schema.ResourceData) bool { return now == "" && old != "" }),
		),
		"on_boot":    flag(byDefault(true)),
		"boot_order": texts(computed),
		"started": flag(
			byDefault(true),
			suppress(func(_, _, _ string, d *schema.ResourceData) bool { return d.Get("template").(bool) }),
		),
		"template":      flag(byDefault(false)),
		"protection":    flag(byDefault(false)),
		"migrate":       flag(byDefault(false)),
		"reboot":        flag(byDefault(false)),
		"acpi":          flag(byDefault(true)),
		"tablet_device": flag(byDefault(true)),
		"bios":          text(byDefault("seabios"), oneOf("ovmf", "seabios")),
		"machine": text(byDefault(""), matching(`^$|^(pc|pc(-i440fx)?-\d+(\.\d+)+(\+pve\d+)?(\.pxe)?|q35(,viommu=(intel|virtio))?|`+
			`pc-q35-\d+(\.\d+)+(\+pve\d+)?(\.pxe)?|virt(?:-\d+(\.\d+)+)?(\+pve\d+)?)$`, "must be a valid machine type")),
		"scsi_hardware": text(byDefault("virtio-scsi-pci"),
			oneOf("lsi", "lsi53c810", "virtio-scsi-pci", "virtio-scsi-single", "megasas", "pvscsi")),
		"keyboard_layout":     text(byDefault("en-us"), oneOf(keyboards()...)),
		"kvm_arguments":       text(byDefault("")),
		"hook_script_file_id": text(byDefault("")),
		"hotplug":             text(computed, hotplugFeatures, suppress(sameFeatures)),

		"stop_on_destroy":                      flag(byDefault(false)),
		"purge_on_destroy":                     flag(byDefault(true)),
		"delete_unreferenced_disks_on_destroy": flag(byDefault(true)),
		"reboot_after_update":                  flag(byDefault(true)),
	}
}

func vmTimeouts() fields {
	return fields{
		"timeout_clone":       number(byDefault(1800)),
		"timeout_create":      number(byDefault(1800)),
		"timeout_migrate":     number(byDefault(1800)),
		"timeout_reboot":      number(byDefault(1800)),
		"timeout_shutdown_vm": number(byDefault(1800)),
		"timeout_start_vm":    number(byDefault(1800)),
		"timeout_stop_vm":     number(byDefault(300)),
		"timeout_move_disk": number(byDefault(1800), deprecated("This field is deprecated and will be removed in a future release. "+
			"An overall operation timeout (timeout_create / timeout_clone / timeout_migrate) is used instead.")),
	}
}

func vmHardware() fields {
	return fields{
		"agent": blocks(1, fields{
			"enabled": flag(byDefault(false)),
			"timeout": text(byDefault("15m"), duration),
			"trim":    flag(byDefault(false)),
			"type":    text(byDefault("virtio"), oneOf("isa", "virtio")),
			"wait_for_ip": blocks(1, fields{
				"disabled": flag(byDefault(false)),
				"ipv4":     flag(byDefault(false)),
				"ipv6":     flag(byDefault(false)),
			}),
		}),
		"clone": blocks(1, fields{
			"retries":      number(forceNew, byDefault(1)),
			"datastore_id": text(forceNew, byDefault("")),
			"node_name":    text(forceNew, byDefault("")),
			"vm_id":        number(required, forceNew, vmIDRange),
			"full":         flag(forceNew, byDefault(true)),
		}),
		"cpu": blocks(1, fields{
			"architecture": text(byDefault(""), oneOf("", "aarch64", "x86_64")),
			"cores":        number(byDefault(1), between(1, 2304)),
			"flags":        texts(),
			"hotplugged":   number(byDefault(0), between(0, 2304)),
			"limit":        float(byDefault(0.0), check(validation.FloatBetween(0, 128))),
			"numa":         flag(byDefault(false)),
			"sockets":      number(byDefault(1), between(1, 16)),
			"type":         text(byDefault("qemu64"), cpuType),
			"units":        number(computed, between(1, 262144)),
			"affinity": text(
				byDefault(""), matching(`^\d+[\d-,]*$`, "must contain numbers or number ranges separated by ','"),
			),
		}),
		"memory": blocks(1, fields{
			"dedicated":      number(byDefault(512), between(64, 268435456)),
			"floating":       number(byDefault(0), between(0, 268435456)),
			"shared":         number(byDefault(0), between(0, 268435456)),
			"hugepages":      text(byDefault(""), needsNUMA, oneOf("1024", "2", "any")),
			"keep_hugepages": flag(byDefault(false), needsNUMA),
		}),
		"operating_system": blocks(1, fields{
			"type": text(byDefault("other"), oneOf("l24", "l26", "other", "solaris", "w2k", "w2k3", "w2k8",
				"win7", "win8", "win10", "win11", "wvista", "wxp")),
		}),
		"serial_device": blocks(maxSerials, fields{"device": text(byDefault("socket"), serialName)}),
		"startup": blocks(1, fields{
			"order":      number(byDefault(-1)),
			"up_delay":   number(byDefault(-1)),
			"down_delay": number(byDefault(-1)),
		}),
		"vga": blocks(1, fields{
			"clipboard": text(byDefault(""), oneOf("", "vnc")),
			"memory":    number(byDefault(16), between(4, 512)),
			"type": text(byDefault("std"), oneOf("cirrus", "none", "qxl", "qxl2", "qxl3", "qxl4", "serial0", "serial1",
				"serial2", "serial3", "std", "virtio", "virtio-gl", "vmware")),
		}, computed),
	}
}

func diskSchema() field {
	limits := fields{}
	for _, k := range []string{
		"iops_read", "iops_write", "iops_read_burstable", "iops_write_burstable",
		"read", "read_burstable", "write", "write_burstable",
	} {
		limits[k] = number(byDefault(0))
	}
	f := blocks(31, fields{
		"interface":         text(required),
		"datastore_id":      text(byDefault("local-lvm")),
		"path_in_datastore": text(computed),
		"file_format":       text(computed, oneOf("qcow2", "raw", "vmdk")),
		"aio":               text(byDefault("io_uring"), oneOf("io_uring", "native", "threads")),
		"backup":            flag(byDefault(true)),
		"file_id":           text(forceNew, byDefault(""), volumeID),
		"import_from":       text(byDefault(""), volumeID),
		"serial":            text(byDefault(""), check(validation.StringLenBetween(0, 20))),
		"size": number(
			computed, check(validation.IntAtLeast(1)),
			func(f field) { f.DefaultFunc = func() (any, error) { return 8, nil } },
		),
		"iothread": flag(byDefault(false)),
		"queues": number(
			byDefault(0), check(validation.Any(validation.IntInSlice([]int{0}), validation.IntAtLeast(2))),
		),
		"replicate": flag(byDefault(true)),
		"ssd":       flag(byDefault(false)),
		"discard":   text(byDefault("ignore")),
		"cache": text(
			byDefault("none"), oneOf("none", "writethrough", "writeback", "unsafe", "directsync"),
		),
		"speed": blocks(1, limits),
	}, suppress(sameDisks))
	f.DiffSuppressOnRefresh = true
	return f
}

func initializationSchema() field {
	address := func() field {
		return blocks(1, fields{"address": text(byDefault("")), "gateway": text(byDefault(""))})
	}
	dataFile := func() field { return text(computed, forceNew, volumeID) }
	servers := texts()
	servers.Elem = &schema.Schema{Type: schema.TypeString, ValidateFunc: validation.IsIPAddress}
	return blocks(1, fields{
		"datastore_id": text(byDefault("local-lvm")),
		"interface": text(byDefault(""), check(validation.Any(validation.StringIsEmpty, validation.StringMatch(
			regexp.MustCompile(`^ide[0-3]|sata[0-5]|scsi(?:30|[12][0-9]|[0-9])$`), "one of ide0..3|sata0..5|scsi0..30"))),
			suppress(func(_, _, now string, _ *schema.ResourceData) bool { return now == "" })),
		"file_format": text(computed, oneOf("qcow2", "raw", "vmdk")),
		"dns":         blocks(1, fields{"domain": text(byDefault("")), "servers": servers}),
		"ip_config":   blocks(maxNICs, fields{"ipv4": address(), "ipv6": address()}),
		"user_account": blocks(1, fields{
			"keys": texts(),
			"password": text(sensitive, byDefault(""), suppress(func(_, old, _ string, _ *schema.ResourceData) bool {
				return old != "" && strings.Trim(old, "*") == ""
			})),
			"username": text(),
		}),
		"user_data_file_id":    dataFile(),
		"vendor_data_file_id":  dataFile(),
		"network_data_file_id": dataFile(),
		"meta_data_file_id":    dataFile(),
		"type":                 text(computed, forceNew, oneOf("configdrive2", "nocloud")),
		"upgrade":              flag(computed),
	})
}

func vmNetwork() fields {
	lists := &schema.Schema{Type: schema.TypeList, Elem: &schema.Schema{Type: schema.TypeString}}
	addresses := func() field { return &schema.Schema{Type: schema.TypeList, Computed: true, Elem: lists} }
	devices := blocks(maxNICs, fields{
		"bridge":       text(byDefault("vmbr0")),
		"disconnected": flag(),
		"enabled": flag(byDefault(true), deprecated("The `enabled` attribute is deprecated and will be removed in a future release. "+
			"Remove the `network_device` block from your configuration instead of setting `enabled = false`.")),
		"firewall":    flag(byDefault(false)),
		"mac_address": text(computed, macAddress),
		"model":       text(byDefault("virtio"), oneOf("e1000", "e1000e", "rtl8139", "virtio", "vmxnet3")),
		"queues":      number(byDefault(0), between(0, 64)),
		"rate_limit":  float(byDefault(0)),
		"vlan_id":     number(byDefault(0)),
		"trunks":      text(),
		"mtu":         number(byDefault(0)),
	}, computed)
	devices.ConfigMode = schema.SchemaConfigModeAttr
	return fields{
		"network_device":          devices,
		"ipv4_addresses":          addresses(),
		"ipv6_addresses":          addresses(),
		"mac_addresses":           texts(computed),
		"network_interface_names": texts(readOnly),
	}
}

func tagsSchema() field {
	f := texts(suppress(sameSet))
	f.Elem = &schema.Schema{Type: schema.TypeString, ValidateFunc: validation.StringIsNotEmpty}
	f.DiffSuppressOnRefresh = true
	return f
}

func trimmedDescription(f field) {
	f.StateFunc = func(v any) string { return strings.ReplaceAll(strings.TrimSpace(v.(string)), "\r\n", "\n") }
}

func needsNUMA(f field) { f.RequiredWith = []string{"cpu.0.numa"} }

func hotplugFeatures(f field) {
	check(func(v any, key string) ([]string, []error) {
		s := v.(string)
		if s == "" || s == "0" || s == "1" {
			return nil, nil
		}
		seen := map[string]bool{}
		for part := range strings.SplitSeq(s, ",") {
			if !slices.Contains([]string{"cpu", "disk", "memory", "network", "usb"}, part) {
				return nil, []error{fmt.Errorf(
					"%s: %q is not a valid hotplug feature (must be cpu, disk, memory, network, usb, 0, or 1)", key,
					part,
				)}
			}
			if seen[part] {
				return nil, []error{fmt.Errorf("%s: duplicate hotplug feature %q", key, part)}
			}
			seen[part] = true
		}
		return nil, nil
	})(f)
}

func sameFeatures(_, old, now string, _ *schema.ResourceData) bool {
	a, b := strings.Split(old, ","), strings.Split(now, ",")
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

// sameSet hides a change of order only; it is called for each item of a list.
func sameSet(key, _, _ string, d *schema.ResourceData) bool {
	if i := strings.LastIndex(key, "."); i >= 0 {
		key = key[:i]
	}
	old, now := d.GetChange(key)
	a, b := stringList(old.([]any)), stringList(now.([]any))
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

// sameDisks hides differences of order and of paths, which PVE chooses.
func sameDisks(key, _, _ string, d *schema.ResourceData) bool {
	key, _, _ = strings.Cut(key, ".")
	old, now := d.GetChange(key)
	a, b := old.([]any), now.([]any)
	if len(a) != len(b) {
		return false
	}
	byInterface := func(list []any) map[string]map[string]any {
		m := map[string]map[string]any{}
		for _, v := range list {
			if disk, ok := v.(map[string]any); ok {
				delete(disk, "path_in_datastore")
				m[block(disk).text("interface")] = disk
			}
		}
		return m
	}
	return reflect.DeepEqual(byInterface(a), byInterface(b))
}

func vmDiff() schema.CustomizeDiffFunc {
	restarted := func(_ context.Context, d *schema.ResourceDiff, _ any) bool {
		return d.HasChange("started") || d.HasChange("network_device")
	}
	return customdiff.All(
		emptyNetwork,
		customdiff.ComputedIf("ipv4_addresses", restarted),
		customdiff.ComputedIf("ipv6_addresses", restarted),
		customdiff.ComputedIf("network_interface_names", restarted),
		customdiff.ForceNewIf("vm_id", func(_ context.Context, d *schema.ResourceDiff, _ any) bool {
			return d.HasChange("vm_id") && strconv.Itoa(d.Get("vm_id").(int)) != d.Id()
		}),
		customdiff.ForceNewIf("node_name", func(_ context.Context, d *schema.ResourceDiff, _ any) bool {
			return d.HasChange("node_name") && !d.Get("migrate").(bool)
		}),
	)
}

// emptyNetwork makes `network_device = []` mean none, where leaving it out
// means whatever there is.
func emptyNetwork(_ context.Context, d *schema.ResourceDiff, _ any) error {
	devices := d.GetRawConfig().GetAttr("network_device")
	if !devices.IsNull() && devices.IsKnown() && devices.LengthInt() == 0 {
		return d.SetNew("network_device", []any{})
	}
	return nil
}

func vmImport(_ context.Context, d *schema.ResourceData, _ any) ([]*schema.ResourceData, error) {
	node, id, ok := strings.Cut(d.Id(), "/")
	if !ok {
		return nil, fmt.Errorf("unexpected format of ID (%s), expected node/id", d.Id())
	}
	d.SetId(id)
	if err := d.Set("node_name", node); err != nil {
		return nil, fmt.Errorf("failed setting state during import: %w", err)
	}
	return []*schema.ResourceData{d}, nil
}

func keyboards() []string {
	return strings.Fields(
		"da de de-ch en-gb en-us es fi fr fr-be fr-ca fr-ch hu is it ja lt mk nl no pl pt pt-br sl sv tr",
	)
}

func cpuType(f field) {
	known := strings.Fields(`486 Broadwell Broadwell-IBRS Broadwell-noTSX Broadwell-noTSX-IBRS Cascadelake-Server
		Cascadelake-Server-noTSX Cascadelake-Server-v2 Cascadelake-Server-v4 Cascadelake-Server-v5 Conroe Cooperlake
		Cooperlake-v2 EPYC EPYC-Genoa EPYC-IBPB EPYC-Milan EPYC-Rome EPYC-Rome-v2 EPYC-Rome-v3 EPYC-Rome-v4 EPYC-v3
		EPYC-v4 Haswell Haswell-IBRS Haswell-noTSX Haswell-noTSX-IBRS Icelake-Client Icelake-Client-noTSX Icelake-Server
		Icelake-Server-noTSX Icelake-Server-v3 Icelake-Server-v4 Icelake-Server-v5 Icelake-Server-v6 IvyBridge
		IvyBridge-IBRS KnightsMill Nehalem Nehalem-IBRS Opteron_G1 Opteron_G2 Opteron_G3 Opteron_G4 Opteron_G5 Penryn
		SandyBridge SandyBridge-IBRS SapphireRapids Skylake-Client Skylake-Client-IBRS Skylake-Client-noTSX-IBRS
		Skylake-Client-v4 Skylake-Server Skylake-Server-IBRS Skylake-Server-noTSX-IBRS Skylake-Server-v4
		Skylake-Server-v5 Westmere Westmere-IBRS athlon core2duo coreduo host kvm32 kvm64 max pentium pentium2 pentium3
		phenom qemu32 qemu64 x86-64-v2 x86-64-v2-AES x86-64-v3 x86-64-v4`)
	check(validation.Any(validation.StringInSlice(known, false),
		validation.StringMatch(regexp.MustCompile(`^custom-.+$`), "must be a valid custom CPU type")))(f)
}
