// Package cloudinit renders the cloud-init vendor data of a node. It holds the operating system's essentials only.
package cloudinit

import (
	"bytes"
	"embed"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"text/template"
)

//go:embed vendor.yaml.tmpl
var files embed.FS

// MarkerPath exists on a node as soon as cloud-init has done all that the vendor data asks for.
const MarkerPath = "/var/lib/hive-test/cloud-init-done"

// Defaults of Params.
const (
	DefaultTimezone          = "UTC"
	DefaultSocketBufferBytes = 4 << 20
)

// DefaultPackages returns what every node gets: the guest agent, what keeps its clock (hive's gateways refuse calls of
// clocks that differ by five minutes), and what fetching and building hive takes.
func DefaultPackages() []string {
	return []string{"qemu-guest-agent", "ca-certificates", "chrony", "curl", "git", "jq", "make", "net-tools", "rsync"}
}

// Params are the values that vendor data depends on. A zero field means its default.
type Params struct {
	// User joins the group kvm where the image has one. Required: a login name of lower-case letters, digits, - and _.
	User string
	// Packages are installed; nil means DefaultPackages.
	Packages []string
	// Timezone is a name of the tz database; empty means UTC.
	Timezone string
	// SocketBufferBytes is the largest send and receive buffer of a socket; 0 means 4 MiB.
	SocketBufferBytes int
	// NoUpgrade leaves installed packages at the image's versions, which makes the first boot minutes faster.
	NoUpgrade bool
	// KeepHostKeys leaves the SSH host keys that the image has; by default cloud-init makes others.
	KeepHostKeys bool
}

// The patterns admit no character that YAML or a shell treats specially.
var (
	userPattern    = regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,31}$`)
	packagePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9+.:-]*(=[A-Za-z0-9.+:~-]+)?$`)
	zonePattern    = regexp.MustCompile(`^[A-Za-z0-9+_-]+(/[A-Za-z0-9+_-]+)*$`)
)

// VendorData returns the vendor data as YAML that begins with #cloud-config. Equal params give equal bytes. The error
// names the value that may not be used.
func VendorData(p Params) ([]byte, error) {
	p = withDefaults(p)
	if err := validate(p); err != nil {
		return nil, fmt.Errorf("vendor data: %w", err)
	}
	t, err := template.New("vendor.yaml.tmpl").Option("missingkey=error").Funcs(template.FuncMap{
		"quote": strconv.Quote,
	}).ParseFS(files, "vendor.yaml.tmpl")
	if err != nil {
		return nil, fmt.Errorf("vendor data: %w", err)
	}
	var out bytes.Buffer
	err = t.Execute(&out, map[string]any{
		"Upgrade": !p.NoUpgrade, "KeepHostKeys": p.KeepHostKeys, "Packages": p.Packages, "Timezone": p.Timezone, "User": p.User,
		"SocketBufferBytes": p.SocketBufferBytes, "MarkerDir": path.Dir(MarkerPath), "MarkerFile": path.Base(MarkerPath),
	})
	if err != nil {
		return nil, fmt.Errorf("vendor data: %w", err)
	}
	return out.Bytes(), nil
}

// CheckPackage returns an error unless name is one of a Debian package, which may have a version: NAME=VERSION.
func CheckPackage(name string) error {
	if !packagePattern.MatchString(name) {
		return fmt.Errorf("package %q is no name of a Debian package", name)
	}
	return nil
}

func withDefaults(p Params) Params {
	if p.Packages == nil {
		p.Packages = DefaultPackages()
	}
	if p.Timezone == "" {
		p.Timezone = DefaultTimezone
	}
	if p.SocketBufferBytes == 0 {
		p.SocketBufferBytes = DefaultSocketBufferBytes
	}
	return p
}

func validate(p Params) error {
	if !userPattern.MatchString(p.User) {
		return fmt.Errorf("user %q is no login name: use lower-case letters, digits, - and _", p.User)
	}
	for _, name := range p.Packages {
		if err := CheckPackage(name); err != nil {
			return err
		}
	}
	if !zonePattern.MatchString(p.Timezone) {
		return fmt.Errorf("time zone %q is no name of the tz database, like Europe/Berlin", p.Timezone)
	}
	if p.SocketBufferBytes < 4096 {
		return fmt.Errorf("socket buffer of %d bytes: use at least 4096", p.SocketBufferBytes)
	}
	return nil
}
