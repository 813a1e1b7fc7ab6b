package template

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Layer is what a template is made of, on top of an image or of another template.
type Layer struct {
	Name   string
	Parent string // the layer that it is built on; empty: the image
	// Packages are Debian packages, beside those that every node gets.
	Packages  []string
	Downloads []Download
	// Files are put on the node, then Scripts run there, in order, as the user of the nodes.
	Files   []File
	Scripts []Script
	// Hive is installed, from where the settings say that it comes from.
	Hive bool
	// Upstream says how the system is made ready for hive, beside Packages.
	Upstream Upstream
}

// Download is a file that a node gets from elsewhere, or from this machine. Go and the AWS CLI are installed, images of guests go
// to ~/images: see download.sh.
type Download struct {
	Name   string // of the file
	URL    string // empty: it is Path
	Path   string // on this machine
	SHA256 string // 64 hexadecimal digits
}

// File is a file of this machine that a node gets.
type File struct {
	Path, To string
	SHA256   string
}

// Script is run by bash.
type Script struct{ Name, Text string }

// builtin are the layers that are there without being named in the settings.
var builtin = []Layer{
	{Name: Base, Packages: systemPackages},
	{Name: Dev, Parent: Base, Hive: true},
	{Name: Single, Packages: systemPackages, Hive: true},
}

// systemPackages are those that hive's own Makefile installs (its target install-system).
var systemPackages = []string{
	"file", "gcc", "iproute2", "libvirt-clients", "libvirt-daemon-system", "libvirt-dev", "nbdkit", "nbdkit-plugin-dev",
	"netcat-openbsd", "openssh-client", "openvswitch-switch", "ovn-central", "ovn-host", "pkg-config", "qemu-kvm",
	"qemu-system-x86", "qemu-utils", "sudo", "unzip", "wget", "xz-utils",
}

// Layers returns the layers that can be built: the built-in ones with what is added to those of the same name, then the others.
func Layers(added []Layer) []Layer {
	all := slices.Clone(builtin)
	for _, layer := range added {
		i := slices.IndexFunc(all, func(l Layer) bool { return l.Name == layer.Name })
		if i < 0 {
			all = append(all, layer)
			continue
		}
		own := &all[i]
		own.Packages = slices.Concat(own.Packages, layer.Packages)
		own.Downloads = slices.Concat(own.Downloads, layer.Downloads)
		own.Files, own.Scripts = slices.Concat(own.Files, layer.Files), slices.Concat(own.Scripts, layer.Scripts)
		own.Hive = own.Hive || layer.Hive
	}
	return all
}

// FindLayer returns the layer of that name, with an error that lists them where there is none.
func FindLayer(all []Layer, name string) (Layer, error) {
	var names []string
	for _, layer := range all {
		if layer.Name == name {
			return layer, nil
		}
		names = append(names, layer.Name)
	}
	return Layer{}, fmt.Errorf("there is no layer %q: there are %s", name, strings.Join(names, ", "))
}

// Inputs returns what the layer itself brings into a template.
func (l Layer) Inputs() Inputs {
	inputs := Inputs{}
	if len(l.Packages) > 0 {
		packages := slices.Sorted(slices.Values(l.Packages))
		inputs["packages"] = strings.Join(slices.Compact(packages), " ")
	}
	for _, d := range l.Downloads {
		inputs["download "+d.Name] = d.SHA256
	}
	for _, f := range l.Files {
		inputs["file "+path.Base(f.To)] = f.SHA256
	}
	for _, s := range l.Scripts {
		inputs["script "+s.Name] = HashOf(s.Text)
	}
	return inputs
}

// StepInput is what a step of configure is called among the inputs.
func StepInput(step string) string { return "step " + step }

// Steps returns, by step of configure that was done on the template, a hash of all that it depended on.
func (i Identity) Steps() map[string]string {
	steps := map[string]string{}
	for name, value := range i.Inputs {
		if step, ok := strings.CutPrefix(name, "step "); ok && value != "" {
			steps[step] = value
		}
	}
	return steps
}

// HashOf is the SHA-256 of a text, in hexadecimal.
func HashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
