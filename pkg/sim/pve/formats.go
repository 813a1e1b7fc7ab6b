package pve

import (
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// contentTypes are the kinds of content a storage can hold.
func contentTypes() []string {
	return []string{"images", "rootdir", "vztmpl", "iso", "backup", "snippets", "import", "none"}
}

// formatRule is a named format that is a pattern. Its message is what is said of text that does not fit; %s stands for
// that text.
type formatRule struct {
	pattern *regexp.Regexp
	message string
}

// formatRules are Proxmox VE's named formats and its words for what does not fit them. Never changed.
var formatRules = map[string]formatRule{
	"pve-vmid": {regexp.MustCompile(`^[1-9][0-9]{2,8}$`), "value does not look like a valid VM ID\n"},
	"pve-node": {
		regexp.MustCompile(`^(?i:[a-z0-9](?:[a-z0-9\-]*[a-z0-9])?)$`), "value does not look like a valid node name\n",
	},
	"dns-name": {
		regexp.MustCompile(`^(?:` + dnsLabel + `\.)*` + dnsLabel + `$`), "value does not look like a valid DNS name\n",
	},
	"pve-tag":      {regexp.MustCompile(`^[a-zA-Z0-9_][a-zA-Z0-9_\-+.]*$`), "invalid characters in tag\n"},
	"pve-configid": {regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_\-]+$`), "invalid configuration ID '%s'\n"},
	"pve-ha-resource-or-vm-id": {
		regexp.MustCompile(`^([a-z]+:\S+|\d+)$`), "value does not look like a valid ha resource id\n",
	},
	"pve-ha-node":       {regexp.MustCompile(haNode), "value does not look like a valid ha node\n"},
	"pve-ha-group-node": {regexp.MustCompile(haNode), "value does not look like a valid ha group node\n"},
	"pve-poolid": {
		regexp.MustCompile(`^[A-Za-z0-9._\-]+(?:/[A-Za-z0-9._\-]+){0,2}$`),
		"value '%s' does not look like a valid pool name\n",
	},
	"pve-storage-id": {
		regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9\-_.]*[a-zA-Z0-9]$`), "invalid storage ID '%s'\n",
	},
	"pve-bridge-id": {regexp.MustCompile(`^[a-zA-Z0-9\-_.]{2,}$`), "invalid bridge ID '%s'\n"},
	"pve-userid": {
		regexp.MustCompile(`^[^\s:/]+@[A-Za-z][A-Za-z0-9.\-_]+$`), "value '%s' does not look like a valid user name\n",
	},
	"pve-realm": {
		regexp.MustCompile(`^[A-Za-z][A-Za-z0-9.\-_]*$`), "value does not look like a valid realm\n",
	},
	"pve-roleid": {
		regexp.MustCompile(`^[A-Za-z][A-Za-z0-9.\-_]*$`), "value does not look like a valid roleid\n",
	},
	"disk-size": {
		regexp.MustCompile(`^\d+(?:\.\d+)?[KMGT]?$`), "value does not look like a valid disk size: %s\n",
	},
	"urlencoded": {
		regexp.MustCompile(`^[-%a-zA-Z0-9_.!~*'()]*$`), "value does not look like a valid urlencoded string: %s\n",
	},
	"pve-volume-id": {
		regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9\-_.]*[a-zA-Z0-9]:.+$`), "unable to parse volume ID '%s'\n",
	},
	"pve-qm-bootdisk": {
		regexp.MustCompile(`^(ide|sata|scsi|virtio|efidisk|tpmstate)\d+$`), "invalid boot disk '%s'\n",
	},
}

const haNode = `^([a-zA-Z0-9]([a-zA-Z0-9\-]*[a-zA-Z0-9])?)(:\d+)?$`

const dnsLabel = `[a-zA-Z0-9](?:[a-zA-Z0-9\-]*[a-zA-Z0-9])?`

// formatError checks a named format and says what is wrong, in PVE's words; unknown formats accept everything.
func formatError(format, s string) string {
	if list, ok := strings.CutSuffix(format, "-list"); ok {
		for _, e := range splitList(s) {
			if msg := formatError(list, e); msg != "" {
				return msg
			}
		}
		return ""
	}
	if rule, ok := formatRules[format]; ok {
		if rule.pattern.MatchString(s) {
			return ""
		}
		return strings.ReplaceAll(rule.message, "%s", s)
	}
	return formatErrorOfValues(format, s)
}

func formatErrorOfValues(format, s string) string {
	switch format {
	case "pve-storage-content":
		if !slices.Contains(contentTypes(), s) {
			return "invalid content type '" + s + "'\n"
		}
	case "mac-addr":
		if m, err := net.ParseMAC(s); err != nil || len(m) != 6 || m[0]&1 == 1 {
			return "value does not look like a valid unicast MAC address\n"
		}
	case "pve-volume-id-or-qm-path":
		if s != "none" && s != "cdrom" && !strings.HasPrefix(s, "/") {
			return formatError("pve-volume-id", s)
		}
	case "pve-volume-id-or-absolute-path":
		if !strings.HasPrefix(s, "/") {
			return formatError("pve-volume-id", s)
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
	case "pve-hotplug-features":
		for _, f := range splitList(s) {
			if !slices.Contains([]string{"0", "1", "network", "disk", "cpu", "memory", "usb", "cloudinit"}, f) {
				return "invalid hotplug feature '" + f + "'\n"
			}
		}
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
	named := map[string]map[string]*property{
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
	for _, keys := range named {
		for _, p := range keys {
			p.compile()
		}
	}
	return named
})
