package pve

import (
	"crypto/rand"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"golang.org/x/crypto/ssh"
)

func newUUID() string { return uuid.NewString() }

// drive is a disk or CD-ROM option, read from its property string.
type drive map[string]string

func (d drive) file() string { return d["file"] }

func (d drive) cdrom() bool {
	return d["media"] == "cdrom" || d.file() == "none" || d.file() == "cdrom"
}

func (d drive) cloudinit() bool {
	return strings.HasSuffix(d.file(), ":cloudinit") || cloudinitPattern.MatchString(d.file())
}

// text is the option as PVE writes it: the volume, then the other keys in order.
func (d drive) text() string {
	out := d.file()
	for _, k := range sortedKeys(d) {
		if k != "file" && k != "import-from" && k != "format" {
			out += "," + k + "=" + d[k]
		}
	}
	return out
}

func isDrive(key string) bool {
	return drivePattern.MatchString(key)
}

func isUnused(key string) bool { return unusedPattern.MatchString(key) }

func isNet(key string) bool { return netPattern.MatchString(key) }

// option is the published description of a VM option, nil if there is none.
func (s *Server) option(key string) *property {
	return s.table["/nodes/{node}/qemu"]["POST"].props[key]
}

func (s *Server) drive(key, text string) drive {
	p := s.option(key)
	if p == nil || p.Keys == nil {
		file, _, _ := strings.Cut(text, ",")
		return drive{"file": file}
	}
	d, _ := parseProps(p.Keys, text, key)
	return d
}

// drives are the keys of a configuration's disks and CD-ROMs, in order.
func drives(c vmConfig) []string {
	var out []string
	for _, k := range sortedKeys(c) {
		if isDrive(k) {
			out = append(out, k)
		}
	}
	return out
}

// nic writes a network card as PVE does: model and MAC first. A MAC is made up if none is given.
func nic(props map[string]string) string {
	mac := strings.ToUpper(props["macaddr"])
	if mac == "" {
		mac = newMAC()
	}
	out := props["model"] + "=" + mac
	for _, k := range sortedKeys(props) {
		if k != "model" && k != "macaddr" {
			out += "," + k + "=" + props[k]
		}
	}
	return out
}

// newMAC is in Proxmox's own range.
func newMAC() string {
	b := make([]byte, 3)
	_, _ = rand.Read(b)
	return fmt.Sprintf("BC:24:11:%02X:%02X:%02X", b[0], b[1], b[2])
}

// formatSize writes a size in the largest unit that divides it.
func formatSize(n int64) string {
	for _, u := range []struct {
		size int64
		name string
	}{{1 << 40, "T"}, {gib, "G"}, {mib, "M"}, {kib, "K"}} {
		if n > 0 && n%u.size == 0 {
			return strconv.FormatInt(n/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}

// parseSize reads "32G", "1.5T" or plain bytes.
func parseSize(s string) int64 {
	unit := int64(1)
	if s == "" {
		return 0
	}
	switch s[len(s)-1] {
	case 'K':
		unit = kib
	case 'M':
		unit = mib
	case 'G':
		unit = gib
	case 'T':
		unit = 1 << 40
	}
	if unit > 1 {
		s = s[:len(s)-1]
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0
	}
	return int64(f * float64(unit))
}

// normalTags is what a change of the configuration makes of tags: lower case, sorted, unique. Creating keeps them as
// they were sent (observed).
func normalTags(s string) string {
	tags := splitList(strings.ToLower(s))
	slices.Sort(tags)
	if tags = slices.Compact(tags); len(tags) == 0 {
		return " "
	}
	return strings.Join(tags, ";")
}

// bootOrder is the default: the first disk or CD, then the first network card; a blank where there is neither.
func (s *Server) bootOrder(c vmConfig) string {
	var order []string
	for _, prefix := range []string{"ide", "scsi", "sata", "virtio"} {
		for _, k := range drives(c) {
			if d := s.drive(k, c[k]); strings.HasPrefix(k, prefix) && !d.cdrom() && !d.cloudinit() && len(order) == 0 {
				order = append(order, k)
			}
		}
	}
	for _, k := range sortedKeys(c) {
		if isNet(k) {
			order = append(order, k)
			break
		}
	}
	if len(order) == 0 {
		return " "
	}
	return "order=" + strings.Join(order, ";")
}

// withoutBoot takes a device out of a boot order.
func withoutBoot(boot, key string) string {
	list, ok := strings.CutPrefix(boot, "order=")
	if !ok {
		return boot
	}
	left := slices.DeleteFunc(strings.Split(list, ";"), func(k string) bool { return k == key })
	if len(left) == 0 {
		return " "
	}
	return "order=" + strings.Join(left, ";")
}

// checkSSHKeys wants what the option promises: URL-encoded authorized_keys lines.
func checkSSHKeys(encoded string) error {
	text, err := url.PathUnescape(encoded)
	if err != nil {
		return failf("SSH public key validation error")
	}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if _, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line)); err != nil {
			return failf("SSH public key validation error")
		}
	}
	return nil
}

// optionPrivs are the privileges that setting or deleting an option takes; "A|B" is one of two.
func (s *Server) optionPrivs(key, value string, creating bool) []string {
	switch {
	case slices.Contains(
		[]string{"cores", "cpu", "sockets", "cpulimit", "cpuunits", "vcpus", "affinity", "smp", "numa"}, key,
	),
		numaPattern.MatchString(key):
		return []string{"VM.Config.CPU"}
	case slices.Contains([]string{"memory", "balloon", "shares", "hugepages", "keephugepages", "allow-ksm"}, key):
		return []string{"VM.Config.Memory"}
	case isNet(key):
		return []string{"VM.Config.Network"}
	case cloudinitOptionPattern.MatchString(key):
		return []string{"VM.Config.Cloudinit|VM.Config.Network"} // either will do (observed)
	case slices.Contains([]string{"boot", "bootdisk", "vmstatestorage"}, key):
		return []string{"VM.Config.Disk"}
	case isUnused(key):
		return []string{"VM.Config.Disk"}
	case isDrive(key):
		if creating {
			return nil // a drive in the create call takes only the storage's privilege (observed)
		}
		d := s.drive(key, value)
		switch {
		case strings.HasSuffix(d.file(), ":cloudinit"):
			return []string{"VM.Config.Cloudinit"}
		case d.cloudinit():
			return []string{"VM.Config.Cloudinit", "VM.Config.CDROM"} // detaching one takes both (observed)
		case d.cdrom():
			return []string{"VM.Config.CDROM"}
		}
		return []string{"VM.Config.Disk"}
	case hardwareOptionPattern.MatchString(key):
		return []string{"VM.Config.HWType"}
	}
	return []string{"VM.Config.Options"}
}

// rootOnly are options that only a real login of root@pam may set; a token of root@pam may not (observed).
func rootOnly(key string) bool {
	return key == "args" || key == "lock" || key == "hookscript" || deviceOptionPattern.MatchString(key)
}

// createOnly are parameters of the create and config calls that are not VM options.
func createOnly(key string) bool {
	return slices.Contains([]string{
		"node", "vmid", "pool", "start", "storage", "archive", "force", "unique", "bwlimit", "live-restore",
		"ha-managed",
		"import-working-storage", "digest", "delete", "revert", "skiplock", "background_delay",
	}, key)
}

// needsRestart are options that a running VM takes over only when it is started again.
func needsRestart(key string) bool {
	return restartOptionPattern.MatchString(key)
}

// configJSON is a configuration as the API shows it: numbers where the option is one, no password.
func (s *Server) configJSON(c vmConfig) map[string]any {
	out := map[string]any{}
	for k, v := range c {
		out[k] = v
		if p := s.option(k); p != nil && (p.Type == "boolean" || p.Type == "integer") {
			if n, err := strconv.ParseInt(v, 10, 64); err == nil {
				out[k] = n
			}
		}
		if k == "cipassword" {
			out[k] = "**********"
		}
	}
	return out
}

// address is the static address of a card's ipconfig, that of IPv4 before that of IPv6, zero for DHCP or none.
func address(c vmConfig, n string) netip.Prefix {
	props, _ := parseProps(namedPropertyStrings()["pve-qm-ipconfig"], c["ipconfig"+n], "ipconfig"+n)
	for _, key := range []string{"ip", "ip6"} {
		if p, err := netip.ParsePrefix(props[key]); err == nil {
			return p
		}
	}
	return netip.Prefix{}
}
