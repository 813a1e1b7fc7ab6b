package provider

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// sortedKeys makes loops over maps repeatable.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

func filter[T any](list []T, keep func(T) bool) func(func(T) bool) {
	return func(yield func(T) bool) {
		for _, v := range list {
			if keep(v) && !yield(v) {
				return
			}
		}
	}
}

// bit is PVE's form of a boolean.
func bit(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// form builds request parameters; its methods skip what PVE should not see.
type form struct{ url.Values }

func newForm() form { return form{url.Values{}} }

func (f form) num(key string, n int)   { f.Set(key, strconv.Itoa(n)) }
func (f form) flag(key string, b bool) { f.Set(key, bit(b)) }

// text sets key unless the text is empty.
func (f form) text(key, s string) {
	if s != "" {
		f.Set(key, s)
	}
}

// positive sets key if the number is above zero.
func (f form) positive(key string, n int) {
	if n > 0 {
		f.num(key, n)
	}
}

// remove sets the list of settings to delete.
func (f form) remove(keys []string) {
	f.text("delete", strings.Join(keys, ","))
}

func encodeAgent(enabled, trim bool, kind string) string {
	return fmt.Sprintf("enabled=%s,fstrim_cloned_disks=%s,type=%s", bit(enabled), bit(trim), kind)
}

// encodeCPU names the type alone, and with a key only where flags follow.
func encodeCPU(kind string, flags []string) string {
	if len(flags) == 0 {
		return kind
	}
	return "cputype=" + kind + ",flags=" + strings.Join(flags, ";")
}

// encodeTags sorts tags. PVE lower-cases them itself.
func encodeTags(tags []string) string {
	var clean []string
	for _, t := range tags {
		if t = strings.TrimSpace(t); t != "" {
			clean = append(clean, t)
		}
	}
	slices.Sort(clean)
	return strings.Join(clean, ";")
}

// encodeKeys percent-encodes SSH keys once; the form encodes them again.
func encodeKeys(keys []string) string {
	return strings.ReplaceAll(url.QueryEscape(strings.Join(keys, "\n")), "+", "%20")
}

// nic is a network device; zero values are left out.
type nic struct {
	enabled, firewall, down bool
	model, bridge, mac      string
	queues, vlan, mtu       int
	rate                    float64
	trunks                  []string
}

func (n nic) String() string {
	parts := []string{"model=" + n.model}
	add := func(ok bool, format string, v any) {
		if ok {
			parts = append(parts, fmt.Sprintf(format, v))
		}
	}
	add(n.bridge != "", "bridge=%s", n.bridge)
	add(true, "firewall=%s", bit(n.firewall))
	add(n.down, "link_down=%s", bit(n.down))
	add(n.mac != "", "macaddr=%s", n.mac)
	add(n.queues != 0, "queues=%d", n.queues)
	add(n.rate != 0, "rate=%f", n.rate)
	add(n.vlan != 0, "tag=%d", n.vlan)
	add(n.mtu != 0, "mtu=%d", n.mtu)
	add(len(n.trunks) > 0, "trunks=%s", strings.Join(n.trunks, ";"))
	return strings.Join(parts, ",")
}

// drive is a disk, a cloud-init drive or a CD-ROM of a VM.
type drive struct {
	volume     string            // "store:path", or "store:SIZE" for a new one
	store      string            // datastore of the resource's disk block
	fileID     string            // image that is imported over SSH
	importFrom string            // image that PVE imports itself
	format     string            // raw, qcow2, vmdk or empty
	media      string            // cdrom or empty
	size       int64             // bytes, 0 if unknown
	options    map[string]string // all else, by PVE's names
}

// optionOrder is the order in which the real provider writes drive options.
func optionOrder() []string {
	return []string{
		"aio", "backup", "iops_rd", "iops_wr", "iops_rd_max", "iops_wr_max", "iothread", "queues", "serial",
		"ssd", "discard", "cache", "mbps_rd_max", "mbps_wr_max", "mbps_rd", "mbps_wr", "replicate",
	}
}

// encodeOptions is also the form in which `qm set` gets them.
func (d drive) encodeOptions() string {
	var parts []string
	for _, k := range optionOrder() {
		if v, ok := d.options[k]; ok && v != "" {
			parts = append(parts, k+"="+v)
		}
	}
	return strings.Join(parts, ",")
}

// String ends in a comma where there are no options: so the real provider
// writes a cloud-init drive, and PVE accepts it.
func (d drive) String() string {
	volume := d.volume
	if d.importFrom != "" {
		volume = d.store + ":0"
	}
	parts := []string{"file=" + volume}
	if d.importFrom != "" {
		parts = append(parts, "import-from="+d.importFrom)
	}
	if d.format != "" {
		parts = append(parts, "format="+d.format)
	}
	if d.media != "" {
		parts = append(parts, "media="+d.media)
	}
	if d.size > 0 {
		parts = append(parts, "size="+strconv.FormatInt(d.size, 10))
	}
	return strings.Join(append(parts, d.encodeOptions()), ",")
}

// ownedBy is true if the drive's volume belongs to the VM by its name.
func (d drive) ownedBy(id int) bool {
	_, p, _ := strings.Cut(d.volume, ":")
	return strings.HasPrefix(p, fmt.Sprintf("vm-%d-", id)) || strings.HasPrefix(p, fmt.Sprintf("%d/vm-%d-", id, id))
}

func (d drive) cloudInit(id int) bool {
	return strings.Contains(d.volume, fmt.Sprintf("vm-%d-cloudinit", id))
}

// diskImport is the script that imports an image as a disk of a VM. It fails at
// `qm set` where the import failed: the pipe hides the import's own exit code.
func diskImport(id int, iface string, d drive) []string {
	format := d.format
	if format == "" {
		format = "qcow2"
	}
	return []string{
		"set -e",
		trySudo,
		"file_id=" + d.fileID,
		"file_format=" + format,
		"datastore_id_target=" + d.store,
		fmt.Sprintf("vm_id=%d", id),
		"disk_options=" + d.encodeOptions(),
		"disk_interface=" + iface,
		"source_image=$(try_sudo /usr/sbin/pvesm path $file_id)",
		`imported_disk=$(try_sudo /usr/sbin/qm disk import $vm_id $source_image $datastore_id_target -format $file_format | grep unused0 | cut -d : -f 3 | cut -d \' -f 1)`,
		"disk_id=${datastore_id_target}:$imported_disk,$disk_options",
		"try_sudo /usr/sbin/qm set $vm_id -${disk_interface} $disk_id",
	}
}
