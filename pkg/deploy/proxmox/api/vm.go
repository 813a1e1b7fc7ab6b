package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Version is what the API says of itself.
type Version struct {
	Version string // such as 8.4.21
	Release string // such as 8.4
}

// Major is the first number of the version, 0 if it is not a number.
func (v Version) Major() int {
	first, _, _ := strings.Cut(v.Version, ".")
	major, _ := strconv.Atoi(first)
	return major
}

// Hypervisor is a Proxmox VE host as the cluster sees it. Sizes are bytes; they and CPUs are 0 when the host is
// offline, unknown, or the token may not see them.
type Hypervisor struct {
	Name   string
	Online bool // the others do not miss it
	// it is online, and tells nothing of itself, as for some seconds after its daemons began
	Unknown                 bool
	CPUs                    int
	MemoryTotal, MemoryUsed uint64
}

// VM is a guest. What the listing gives is always set; the second block is set by the live call only.
type VM struct {
	VMID       int
	Name       string // up to 10 s late in the listing, empty for a new VM
	Hypervisor string
	Type       string // qemu or lxc
	Status     string // running, stopped, unknown; up to 10 s late in the listing
	Template   bool
	Tags       []string // sorted
	Pool       string
	CPUs       int
	Memory     uint64 // configured, in bytes

	Created time.Time // zero: it does not say; of a clone it may be when its template was made
	// the UUID of its SMBIOS: a VM that is made anew under the same id has another; empty: it has none
	Machine      string
	Description  string
	Lock         string // empty, or why the VM is locked, such as backup
	Protection   bool
	AgentEnabled bool
	NICs         []NIC
	Disks        []Disk       // the boot disk first; no CD drives
	Static       []netip.Addr // addresses that its cloud-init drive sets
	Storages     []string     // that its volumes are on, sorted
	Snippets     []string     // volumes of its cloud-init data, sorted
	Serial       bool         // it has a serial port, which qm terminal needs
}

// Disk is a virtual disk as configured.
type Disk struct {
	Slot    string // virtio0, scsi0, ...
	Storage string
	Size    uint64 // bytes, 0 if not said
}

// NIC is a virtual network card as configured.
type NIC struct {
	Slot   string // net0, net1, ...
	MAC    string // upper case
	Bridge string
}

// HasTag tells whether the VM carries the tag.
func (v VM) HasTag(tag string) bool { return slices.Contains(v.Tags, tag) }

// Provisioning tells whether the VM is in the making: of one that is made or cloned nothing but that is to be seen, and
// a clone may be moved then.
func (v VM) Provisioning() bool {
	return v.Lock == "create" || v.Lock == "clone" || v.Lock == "migrate"
}

// Version asks the API for its version. It needs a valid token but no privilege, so it is the probe for both.
func (c *Client) Version(ctx context.Context) (Version, error) {
	var v Version
	return v, c.get(ctx, "/version", nil, &v)
}

// Hypervisors lists the hosts of the cluster, sorted by name.
func (c *Client) Hypervisors(ctx context.Context) ([]Hypervisor, error) {
	var rows []struct {
		Node   string `json:"node"`
		Status string `json:"status"`
		MaxCPU number `json:"maxcpu"`
		MaxMem number `json:"maxmem"`
		Mem    number `json:"mem"`
	}
	if err := c.get(ctx, "/nodes", nil, &rows); err != nil {
		return nil, err
	}
	hosts := make([]Hypervisor, len(rows))
	for i, r := range rows {
		hosts[i] = Hypervisor{
			Name: r.Node, Online: r.Status != "offline", Unknown: r.Status == "unknown", CPUs: r.MaxCPU.int(),
			MemoryTotal: r.MaxMem.bytes(), MemoryUsed: r.Mem.bytes(),
		}
	}
	slices.SortFunc(hosts, func(a, b Hypervisor) int { return strings.Compare(a.Name, b.Name) })
	return hosts, nil
}

// VMs lists all guests that the token may see, containers included, sorted by id, in one request. Ids, tags, pools and
// deletions are current; names and power states lag by up to 10 s (observed on PVE 8.4): use VM for those.
func (c *Client) VMs(ctx context.Context) ([]VM, error) {
	var rows []struct {
		VMID     number `json:"vmid"`
		Name     text   `json:"name"`
		Node     string `json:"node"`
		Type     string `json:"type"`
		Status   string `json:"status"`
		Template number `json:"template"`
		Tags     text   `json:"tags"`
		Pool     text   `json:"pool"`
		MaxCPU   number `json:"maxcpu"`
		MaxMem   number `json:"maxmem"`
	}
	if err := c.get(ctx, "/cluster/resources", url.Values{"type": {"vm"}}, &rows); err != nil {
		return nil, err
	}
	vms := make([]VM, len(rows))
	for i, r := range rows {
		vms[i] = VM{
			VMID: r.VMID.int(), Name: string(r.Name), Hypervisor: r.Node, Type: r.Type, Status: r.Status,
			Template: r.Template.bool(),
			Tags:     splitTags(string(r.Tags)), Pool: string(r.Pool), CPUs: r.MaxCPU.int(), Memory: r.MaxMem.bytes(),
		}
	}
	slices.SortFunc(vms, func(a, b VM) int { return a.VMID - b.VMID })
	return vms, nil
}

// VM reads one QEMU VM live, by its config and its state. It matches ErrNotFound if it is not on that hypervisor.
func (c *Client) VM(ctx context.Context, hypervisor string, vmid int) (VM, error) {
	config := map[string]text{}
	var status struct {
		Status   string `json:"status"`
		Lock     string `json:"lock"`
		Template number `json:"template"`
		CPUs     number `json:"cpus"`
		MaxMem   number `json:"maxmem"`
	}
	err := both(
		func() error { return c.get(ctx, vmPath(hypervisor, vmid, "/config"), nil, &config) },
		func() error { return c.get(ctx, vmPath(hypervisor, vmid, "/status/current"), nil, &status) },
	)
	if err != nil {
		return VM{}, c.unreadVM(ctx, hypervisor, vmid, err)
	}
	vm := configured(hypervisor, vmid, config)
	vm.Status, vm.CPUs, vm.Memory = status.Status, status.CPUs.int(), status.MaxMem.bytes()
	vm.Lock = cmp.Or(vm.Lock, status.Lock)
	return vm, nil
}

// unreadVM is why a VM cannot be read. Where the reason was lost on the way, whether its id is free tells one that does
// not exist: the status of that answer says so alone.
func (c *Client) unreadVM(ctx context.Context, hypervisor string, vmid int, err error) error {
	if api, ok := errors.AsType[*APIError](err); ok && api.Wordless {
		if free, idErr := c.CheckID(ctx, vmid); idErr == nil && free {
			err = fmt.Errorf("%w: its id is free", ErrNotFound)
		}
	}
	return fmt.Errorf("reading VM %d on %s: %w", vmid, hypervisor, err)
}

// Configured reads a VM of the listing live by its configuration alone, in half the requests of Live: all else is as it
// was listed.
func (c *Client) Configured(ctx context.Context, listed VM) (VM, error) {
	config := map[string]text{}
	if err := c.get(ctx, vmPath(listed.Hypervisor, listed.VMID, "/config"), nil, &config); err != nil {
		return VM{}, c.unreadVM(ctx, listed.Hypervisor, listed.VMID, err)
	}
	vm := configured(listed.Hypervisor, listed.VMID, config)
	vm.Status, vm.CPUs, vm.Memory, vm.Pool, vm.Type = listed.Status, listed.CPUs, listed.Memory, listed.Pool, listed.Type
	return vm, nil
}

// configured is what a VM's configuration tells.
func configured(hypervisor string, vmid int, config map[string]text) VM {
	return VM{
		VMID: vmid, Name: string(config["name"]), Hypervisor: hypervisor, Type: "qemu",
		Template: config["template"] == "1", Tags: splitTags(string(config["tags"])), Lock: string(config["lock"]),
		Created: createdOf(string(config["meta"])), Machine: property(string(config["smbios1"]))["uuid"],
		Description: string(config["description"]), Protection: config["protection"] == "1",
		AgentEnabled: agentEnabled(string(config["agent"])), NICs: nics(config), Disks: disks(config),
		Static:   statics(config),
		Storages: storagesOf(config), Snippets: snippetsOf(config), Serial: hasSerial(config),
	}
}

func hasSerial(config map[string]text) bool {
	for i := range 4 {
		if config["serial"+strconv.Itoa(i)] == "socket" {
			return true
		}
	}
	return false
}

// Live reads a VM of the listing live and keeps what only the listing knows: its pool and type.
func (c *Client) Live(ctx context.Context, listed VM) (VM, error) {
	vm, err := c.VM(ctx, listed.Hypervisor, listed.VMID)
	if err != nil {
		return VM{}, err
	}
	vm.Pool, vm.Type = listed.Pool, listed.Type
	return vm, nil
}

// both runs two reads at once. The first of them decides the error, so that it is the same every time.
func both(a, b func() error) error {
	second := make(chan error, 1)
	go func() { second <- b() }()
	first := a()
	if err := <-second; first == nil {
		return err
	}
	return first
}

// createdOf reads the meta property: "creation-qemu=9.2.0,ctime=1700000000".
func createdOf(meta string) time.Time {
	seconds, err := strconv.ParseInt(property(meta)["ctime"], 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.Unix(seconds, 0)
}

// agentEnabled reads the agent property: "1", "enabled=1,type=virtio" and the like.
func agentEnabled(s string) bool {
	fields := property(s)
	return fields["enabled"] == "1" || fields[""] == "1"
}

// nics reads netN properties: "virtio=BC:24:11:00:00:01,bridge=vmbr0" or "model=virtio,macaddr=...,bridge=...".
func nics(config map[string]text) []NIC {
	var cards []NIC
	for _, slot := range slices.Sorted(maps.Keys(config)) {
		if _, err := strconv.Atoi(strings.TrimPrefix(slot, "net")); err != nil || !strings.HasPrefix(slot, "net") {
			continue
		}
		fields := property(string(config[slot]))
		card := NIC{Slot: slot, Bridge: fields["bridge"], MAC: strings.ToUpper(fields["macaddr"])}
		for _, model := range []string{"virtio", "e1000", "e1000e", "rtl8139", "vmxnet3"} {
			if mac, found := fields[model]; found {
				card.MAC = strings.ToUpper(mac)
			}
		}
		cards = append(cards, card)
	}
	return cards
}

var diskSlot = regexp.MustCompile(`^(virtio|scsi|sata|ide)[0-9]+$`)

// disks reads the drives that are disks: "local-lvm:base-9000-disk-0,discard=on,size=3G". What boots first comes first.
func disks(config map[string]text) []Disk {
	var list []Disk
	order := strings.Split(strings.TrimPrefix(string(config["boot"]), "order="), ";")
	rank := func(d Disk) int {
		if i := slices.Index(order, d.Slot); i >= 0 {
			return i
		}
		return len(order)
	}
	for _, slot := range slices.Sorted(maps.Keys(config)) {
		fields := property(string(config[slot]))
		volume := cmp.Or(fields[""], fields["file"])
		store, name, found := strings.Cut(volume, ":")
		if !diskSlot.MatchString(slot) || !found || fields["media"] == "cdrom" || strings.Contains(name, "cloudinit") {
			continue
		}
		list = append(list, Disk{Slot: slot, Storage: store, Size: sizeOf(fields["size"])})
	}
	slices.SortStableFunc(list, func(a, b Disk) int { return rank(a) - rank(b) })
	return list
}

// sizeOf reads "32G"; 0 if it is no size.
func sizeOf(text string) uint64 {
	unit := strings.TrimLeft(text, "0123456789")
	n, err := strconv.ParseUint(strings.TrimSuffix(text, unit), 10, 54)
	shift, known := map[string]int{"": 0, "K": 10, "M": 20, "G": 30, "T": 40}[unit]
	if err != nil || !known {
		return 0
	}
	return n << shift
}

// statics reads the addresses of ipconfigN properties: "ip=10.0.0.10/24,gw=10.0.0.1" and "ip6=fd00::10/64".
func statics(config map[string]text) []netip.Addr {
	var list []netip.Addr
	for _, key := range slices.Sorted(maps.Keys(config)) {
		if !strings.HasPrefix(key, "ipconfig") {
			continue
		}
		fields := property(string(config[key]))
		for _, field := range []string{"ip", "ip6"} {
			if prefix, err := netip.ParsePrefix(fields[field]); err == nil {
				list = append(list, prefix.Addr())
			}
		}
	}
	return list
}

// CheckID tells whether a VM id is free on the whole cluster, ids that the token cannot see included. It reserves
// nothing.
func (c *Client) CheckID(ctx context.Context, vmid int) (free bool, err error) {
	var id text
	err = c.get(ctx, "/cluster/nextid", url.Values{"vmid": {strconv.Itoa(vmid)}}, &id)
	if api, ok := errors.AsType[*APIError](err); ok && api.Status == 400 &&
		strings.Contains(api.Errors["vmid"], "already exists") {
		return false, nil
	}
	return err == nil, err
}

// Permissions are the token's privileges by path; true means that paths below inherit it.
func (c *Client) Permissions(ctx context.Context) (map[string]map[string]bool, error) {
	var raw map[string]map[string]number
	if err := c.get(ctx, "/access/permissions", nil, &raw); err != nil {
		return nil, err
	}
	paths := map[string]map[string]bool{}
	for path, privileges := range raw {
		paths[path] = map[string]bool{}
		for name, propagate := range privileges {
			paths[path][name] = propagate.bool()
		}
	}
	return paths, nil
}

func vmPath(hypervisor string, vmid int, leaf string) string {
	return "/nodes/" + url.PathEscape(hypervisor) + "/qemu/" + strconv.Itoa(vmid) + leaf
}
