package provider

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// guest is a VM's configuration as PVE returns it, every value as text.
type guest map[string]string

// mustBeNumber are settings whose answers the real provider decodes as numbers only.
var mustBeNumber = regexp.MustCompile(`^(cores|sockets|cpuunits|vcpus|shares|bwlimit)$`)

// mustBeText are settings whose answers the real provider decodes as text only.
var mustBeText = regexp.MustCompile(`^(agent|bios|boot|cicustom|ciuser|cpu|description|hotplug|ide\d+|ipconfig\d+|keyboard|` +
	`machine|name|net\d+|ostype|sata\d+|scsi\d+|scsihw|searchdomain|serial\d|sshkeys|startup|tags|vga|virtio\d+)$`)

// UnmarshalJSON accepts numbers, booleans and texts where the real provider does.
func (g *guest) UnmarshalJSON(b []byte) error {
	var raw map[string]any
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	if err := dec.Decode(&raw); err != nil {
		return fmt.Errorf("failed to unmarshal data: %w", err)
	}
	*g = guest{}
	for k, v := range raw {
		_, isText := v.(string)
		if isText && mustBeNumber.MatchString(k) || !isText && v != nil && mustBeText.MatchString(k) {
			return fmt.Errorf("failed to unmarshal data: json: cannot unmarshal %v into field %s", v, k)
		}
		switch v := v.(type) {
		case nil:
		case bool:
			(*g)[k] = bit(v)
		default:
			(*g)[k] = fmt.Sprint(v)
		}
	}
	return nil
}

func (g guest) has(key string) bool { _, ok := g[key]; return ok }

func (g guest) text(key, absent string) string {
	if v, ok := g[key]; ok {
		return v
	}
	return absent
}

func (g guest) flag(key string, absent bool) bool {
	if v, ok := g[key]; ok {
		return v == "1" || v == "true"
	}
	return absent
}

func (g guest) num(key string, absent int) int {
	if f, err := strconv.ParseFloat(g[key], 64); err == nil {
		return int(f)
	}
	return absent
}

// pairs parses "a=b,c=d,e"; parts without "=" come back under the empty key.
func pairs(s string) map[string]string {
	m := map[string]string{}
	for part := range strings.SplitSeq(s, ",") {
		k, v, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok {
			k, v = "", k
		}
		m[k] = v
	}
	return m
}

var driveName = regexp.MustCompile(`^(ide|sata|scsi|virtio)\d+$`)

// drives are the VM's drives by interface.
func (g guest) drives() (map[string]drive, error) {
	found := map[string]drive{}
	for k, v := range g {
		if !driveName.MatchString(k) {
			continue
		}
		d, err := parseDrive(v)
		if err != nil {
			return nil, fmt.Errorf("failed to unmarshal %s: %w", k, err)
		}
		found[k] = d
	}
	return found, nil
}

func parseDrive(s string) (d drive, err error) {
	d.options = map[string]string{}
	for k, v := range pairs(s) {
		switch k {
		case "", "file":
			d.volume = v
			if _, p, ok := strings.Cut(v, ":"); ok && path.Ext(p) != "" && d.format == "" {
				d.format = path.Ext(p)[1:]
			}
		case "format":
			d.format = v
		case "media":
			d.media = v
		case "size":
			if d.size, err = parseSize(v); err != nil {
				return d, err
			}
		default:
			d.options[k] = v
		}
	}
	return d, nil
}

var sizeShape = regexp.MustCompile(`(?i)^(\d+(?:\.\d+)?)([kmgt]?)(i?b)?$`)

// parseSize reads sizes such as 32G; the result is in bytes, rounded up.
func parseSize(s string) (int64, error) {
	m := sizeShape.FindStringSubmatch(s)
	if m == nil {
		return 0, fmt.Errorf("cannot parse disk size %q", s)
	}
	f, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return 0, fmt.Errorf("cannot parse disk size %q: %w", s, err)
	}
	power := strings.Index("kmgt", strings.ToLower(m[2])) + 1
	if m[2] == "" {
		power = 0
	}
	return int64(math.Ceil(f * math.Pow(1024, float64(power)))), nil
}

// parseNIC reads a net setting: "virtio=MAC,bridge=vmbr0,...".
func parseNIC(s string) nic {
	n := nic{enabled: true}
	for part := range strings.SplitSeq(s, ",") {
		k, v, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok {
			continue
		}
		switch k {
		case "bridge":
			n.bridge = v
		case "firewall":
			n.firewall = v == "1"
		case "link_down":
			n.down = v == "1"
		case "macaddr":
			n.mac = v
		case "model":
			n.model = v
		case "queues":
			n.queues, _ = strconv.Atoi(v)
		case "rate":
			n.rate, _ = strconv.ParseFloat(v, 64)
		case "mtu":
			n.mtu, _ = strconv.Atoi(v)
		case "tag":
			n.vlan, _ = strconv.Atoi(v)
		case "trunks":
			n.trunks = strings.Split(v, ";")
		default:
			n.model, n.mac = k, v
		}
	}
	return n
}

// decodeKeys is the reverse of encodeKeys.
func decodeKeys(s string) ([]string, error) {
	plain, err := url.QueryUnescape(s)
	if err != nil {
		return nil, fmt.Errorf("error unescaping CustomCloudInitSSHKeys: %w", err)
	}
	if plain == "" {
		return nil, nil
	}
	return strings.Split(strings.TrimSpace(plain), "\n"), nil
}

// agentEnabled is true if the configuration switches the guest agent on.
func (g guest) agentEnabled() bool {
	p := pairs(g["agent"])
	return p["enabled"] == "1" || p[""] == "1"
}
