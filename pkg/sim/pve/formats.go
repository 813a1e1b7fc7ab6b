package pve

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
)

// contentTypes are the kinds of content a storage can hold.
func contentTypes() []string {
	return []string{"images", "rootdir", "vztmpl", "iso", "backup", "snippets", "import", "none"}
}

// formatError checks a named format and says what is wrong, in PVE's words; unknown formats accept everything.
func formatError(format, s string) string {
	if list, ok := strings.CutSuffix(format, "-list"); ok && format != "pve-storage-content-list" {
		for _, e := range splitList(s) {
			if msg := formatError(list, e); msg != "" {
				return msg
			}
		}
		return ""
	}
	switch format {
	case "pve-vmid":
		if !matches(`^[1-9][0-9]{2,8}$`, s) {
			return "value does not look like a valid VM ID\n"
		}
	case "pve-node":
		if !matches(`^(?i:[a-z0-9](?:[a-z0-9\-]*[a-z0-9])?)$`, s) {
			return "value does not look like a valid node name\n"
		}
	case "dns-name":
		if !matches(`^(?:[a-zA-Z0-9](?:[a-zA-Z0-9\-]*[a-zA-Z0-9])?\.)*[a-zA-Z0-9](?:[a-zA-Z0-9\-]*[a-zA-Z0-9])?$`, s) {
			return "value does not look like a valid DNS name\n"
		}
	case "pve-tag":
		if !matches(`^[a-zA-Z0-9_][a-zA-Z0-9_\-+.]*$`, s) {
			return "invalid characters in tag\n"
		}
	case "pve-configid":
		if !matches(`^[a-zA-Z][a-zA-Z0-9_\-]+$`, s) {
			return "invalid configuration ID '" + s + "'\n"
		}
	case "pve-poolid":
		if !matches(`^[A-Za-z0-9._\-]+(?:/[A-Za-z0-9._\-]+){0,2}$`, s) {
			return "value '" + s + "' does not look like a valid pool name\n"
		}
	case "pve-storage-id":
		if !matches(`^[a-zA-Z][a-zA-Z0-9\-_.]*[a-zA-Z0-9]$`, s) {
			return "invalid storage ID '" + s + "'\n"
		}
	case "pve-bridge-id":
		if !matches(`^[a-zA-Z0-9\-_.]{2,}$`, s) {
			return "invalid bridge ID '" + s + "'\n"
		}
	case "mac-addr":
		if m, err := net.ParseMAC(s); err != nil || len(m) != 6 || m[0]&1 == 1 {
			return "value does not look like a valid unicast MAC address\n"
		}
	case "pve-userid":
		if !matches(`^[^\s:/]+@[A-Za-z][A-Za-z0-9.\-_]+$`, s) {
			return "value '" + s + "' does not look like a valid user name\n"
		}
	case "pve-realm", "pve-roleid":
		if !matches(`^[A-Za-z][A-Za-z0-9.\-_]*$`, s) {
			return "value does not look like a valid " + strings.TrimPrefix(format, "pve-") + "\n"
		}
	default:
		return formatErrorOfValues(format, s)
	}
	return ""
}

func formatErrorOfValues(format, s string) string {
	switch format {
	case "pve-storage-content":
		if !slices.Contains(contentTypes(), s) {
			return "invalid content type '" + s + "'\n"
		}
	case "pve-storage-content-list":
		for _, e := range splitList(s) {
			if !slices.Contains(contentTypes(), e) {
				return "invalid content type '" + e + "'\n"
			}
		}
	case "pve-volume-id":
		return volumeIDError(s)
	case "pve-volume-id-or-qm-path":
		if s == "none" || s == "cdrom" || strings.HasPrefix(s, "/") {
			return ""
		}
		return volumeIDError(s)
	case "pve-volume-id-or-absolute-path":
		if strings.HasPrefix(s, "/") {
			return ""
		}
		return volumeIDError(s)
	case "disk-size":
		if !matches(`^\d+(?:\.\d+)?[KMGT]?$`, s) {
			return "value does not look like a valid disk size: " + s + "\n"
		}
	case "urlencoded":
		if !matches(`^[-%a-zA-Z0-9_.!~*'()]*$`, s) {
			return "value does not look like a valid urlencoded string: " + s + "\n"
		}
	case "pve-ipv4-config":
		if s != "dhcp" && !isCIDR(s, true) {
			return "value does not look like a valid ipv4 network configuration\n"
		}
	case "pve-ipv6-config":
		if s != "dhcp" && s != "auto" && !isCIDR(s, false) {
			return "value does not look like a valid ipv6 network configuration\n"
		}
	case "ipv4", "ipv6":
		if a, err := netip.ParseAddr(s); err != nil || a.Is4() != (format == "ipv4") {
			return "value does not look like a valid " + format + " address\n"
		}
	case "CIDR":
		if !isCIDR(s, true) && !isCIDR(s, false) {
			return "value does not look like a valid CIDR network\n"
		}
	case "pve-qm-bootdisk":
		if !matches(`^(ide|sata|scsi|virtio|efidisk|tpmstate)\d+$`, s) {
			return "invalid boot disk '" + s + "'\n"
		}
	case "pve-hotplug-features":
		for _, f := range splitList(s) {
			if !slices.Contains([]string{"0", "1", "network", "disk", "cpu", "memory", "usb", "cloudinit"}, f) {
				return "invalid hotplug feature '" + f + "'\n"
			}
		}
	}
	return ""
}

func volumeIDError(s string) string {
	if !matches(`^[a-zA-Z][a-zA-Z0-9\-_.]*[a-zA-Z0-9]:.+$`, s) {
		return "unable to parse volume ID '" + s + "'\n"
	}
	return ""
}

func isCIDR(s string, v4 bool) bool {
	p, err := netip.ParsePrefix(s)
	return err == nil && p.Addr().Is4() == v4
}

// splitList splits PVE's lists: commas, semicolons, blanks and NULs all separate.
func splitList(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(",; \t\n\x00", r) })
}

// namedPropertyStrings are the property strings whose keys Proxmox VE does not publish with its API. Built once, never
// changed.
var namedPropertyStrings = sync.OnceValue(func() map[string]map[string]*property {
	opt := func(format string) *property { return &property{Type: "string", Optional: true, Format: format} }
	flag := func() *property { return &property{Type: "boolean", Optional: true} }
	integer := func() *property { return &property{Type: "integer", Optional: true} }
	return map[string]map[string]*property{
		"pve-qm-ipconfig": {
			"ip": opt("pve-ipv4-config"), "gw": opt("ipv4"), "ip6": opt("pve-ipv6-config"), "gw6": opt("ipv6"),
		},
		"pve-qm-cicustom": {
			"meta": opt("pve-volume-id"), "network": opt("pve-volume-id"), "user": opt("pve-volume-id"),
			"vendor": opt("pve-volume-id"),
		},
		"pve-vm-cpu-conf": {
			"cputype": {Type: "string", Optional: true, DefaultKey: true}, "reported-model": opt(""), "hidden": flag(),
			"hv-vendor-id": opt(""), "flags": opt(""), "phys-bits": opt(""), "guest-phys-bits": integer(),
		},
		"pve-qm-boot": {
			"legacy": {Type: "string", Optional: true, DefaultKey: true, Pattern: "[acdn]{1,4}|order"},
			"order":  {Type: "string", Optional: true},
		},
		"pve-startup-order": {
			"order": {Type: "integer", Optional: true, DefaultKey: true}, "up": integer(), "down": integer(),
		},
		"pve-qm-smbios1": {
			"uuid": opt(""), "version": opt(""), "serial": opt(""), "manufacturer": opt(""), "product": opt(""),
			"sku": opt(""), "family": opt(""), "base64": flag(),
		},
		"pve-qm-watchdog": {
			"model":  {Type: "string", Optional: true, DefaultKey: true, Enum: []string{"i6300esb", "ib700"}},
			"action": opt(""),
		},
	}
})
