// Package placement is what deployers of virtual machines keep in the record of a cluster: where each VM is, what it is made
// on, and how that place is reached. For everybody else these are documents of the deployer's own.
package placement

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"hive-test/pkg/cluster"
)

// firstID is the least id that a VM or a template can have on Proxmox VE.
const firstID = 100

// DefaultImage is the volume that VMs are made of where none is named.
const DefaultImage = "local:iso/debian-12-genericcloud-amd64.img"

// Where disks and snippets go on a hypervisor that does not say: the storages that an installation of Proxmox VE has.
const (
	DefaultDatastore    = "local-lvm"
	DefaultSnippetStore = "local"
)

// Hypervisor is a Proxmox VE host that VMs may land on. Address and Port are how its SSH server is reached by the
// provider; Datastore is where disks go, SnippetStore where cloud-init snippets go. WithDefaults fills in what is
// unset.
type Hypervisor struct {
	Name         string `json:"name" yaml:"name" mapstructure:"name"`
	Address      string `json:"address,omitempty" yaml:"address" mapstructure:"address"`
	Port         int    `json:"port,omitempty" yaml:"port" mapstructure:"port"`
	Datastore    string `json:"datastore_id,omitempty" yaml:"datastore_id" mapstructure:"datastore_id"`
	SnippetStore string `json:"snippet_store,omitempty" yaml:"snippet_store" mapstructure:"snippet_store"`
	// TemplateVMID is the template that VMs on this hypervisor are cloned from, wherever in the cluster it is; 0: that
	// of the specification.
	TemplateVMID int `json:"template_vmid,omitempty" yaml:"template_vmid" mapstructure:"template_vmid"`
	// Avoid keeps new VMs away. Those that are there stay.
	Avoid bool `json:"avoid,omitempty" yaml:"-" mapstructure:"-"`
}

// WithDefaults returns h with its port, Datastore and SnippetStore, where they are not set.
func (h Hypervisor) WithDefaults() Hypervisor {
	h.Port = cmp.Or(h.Port, 22)
	h.Datastore = cmp.Or(h.Datastore, DefaultDatastore)
	h.SnippetStore = cmp.Or(h.SnippetStore, DefaultSnippetStore)
	return h
}

// Hypervisors returns the hypervisors that VMs of the specification may land on. What cannot be read is none: Validate
// says so.
func Hypervisors(s cluster.Spec) []Hypervisor {
	return kept[[]Hypervisor](s.Hosts)
}

// kept returns what a document holds; the zero value where it cannot be read.
func kept[T any](d cluster.Document) T {
	var value, none T
	if d.Read(&value) != nil {
		return none
	}
	return value
}

// Avoid returns the hypervisors with those marked that no new VM goes to, and with a name that none of them has an error,
// too.
func Avoid(list []Hypervisor, names []string) ([]Hypervisor, error) {
	marked := slices.Clone(list)
	for i, h := range marked {
		marked[i].Avoid = slices.Contains(names, h.Name)
	}
	for _, name := range names {
		if !slices.ContainsFunc(list, func(h Hypervisor) bool { return h.Name == name }) {
			return marked, fmt.Errorf("%s is none of the hypervisors %s", cmp.Or(name, `""`), strings.Join(Names(list), ", "))
		}
	}
	return marked, nil
}

// WithTemplates returns the hypervisors with the templates that those of the same names had before.
func WithTemplates(list, before []Hypervisor) []Hypervisor {
	list = slices.Clone(list)
	for i := range list {
		for _, h := range before {
			if h.Name == list[i].Name {
				list[i].TemplateVMID = cmp.Or(list[i].TemplateVMID, h.TemplateVMID)
			}
		}
	}
	return list
}

// Avoided returns the names of the hypervisors that no new VM goes to.
func Avoided(list []Hypervisor) []string {
	return Names(slices.DeleteFunc(slices.Clone(list), func(h Hypervisor) bool { return !h.Avoid }))
}

// Names returns the names of hypervisors, in their order.
func Names(list []Hypervisor) []string {
	var names []string
	for _, h := range list {
		names = append(names, h.Name)
	}
	return names
}

// Hosts returns hypervisors as a specification keeps them.
func Hosts(list []Hypervisor) cluster.Document { return cluster.NewDocument(list) }

// HypervisorNamed returns the hypervisor of that name, with defaults where the specification leaves something open, and
// reports whether the specification has it.
func HypervisorNamed(s cluster.Spec, name string) (Hypervisor, bool) {
	for _, h := range Hypervisors(s) {
		if h.Name == name {
			return h.WithDefaults(), true
		}
	}
	return Hypervisor{Name: name}.WithDefaults(), false
}

// TemplateOf returns the id of the template that VMs on a hypervisor are cloned from, 0 if they are made of an image.
func TemplateOf(s cluster.Spec, hypervisor string) int {
	h, _ := HypervisorNamed(s, hypervisor)
	return cmp.Or(h.TemplateVMID, s.Template)
}

// Clones reports whether VMs are cloned from templates, on any hypervisor.
func Clones(s cluster.Spec) bool {
	return s.Template != 0 || s.TemplateName != "" || slices.ContainsFunc(Hypervisors(s), func(h Hypervisor) bool { return h.TemplateVMID != 0 })
}

// ImportsImage reports whether the image is a volume of content type import, which the API alone can make disks of.
func ImportsImage(s cluster.Spec) bool {
	_, rest, _ := strings.Cut(s.OSImage, ":")
	return strings.HasPrefix(rest, "import/")
}

// NeedsHypervisorSSH reports whether making VMs there needs SSH to the hypervisor: for a snippet, or for a disk of an
// image that is no import volume.
func NeedsHypervisorSSH(s cluster.Spec, hypervisor string) bool {
	return s.Snippets() || TemplateOf(s, hypervisor) == 0 && !ImportsImage(s)
}

// VM is where a node's VM is and what it is made of, chosen before anything is created.
type VM struct {
	VMID          int    `json:"vmid,omitempty"`
	Hypervisor    string `json:"hypervisor,omitempty"`
	ManagementMAC string `json:"management_mac,omitempty"`
	DataMAC       string `json:"data_mac,omitempty"`
	// Template, the hypervisor that it is on and the slot of its boot disk are what the VM is cloned from, if it is.
	Template           int    `json:"template,omitempty"`
	TemplateHypervisor string `json:"template_hypervisor,omitempty"`
	TemplateDisk       string `json:"template_disk,omitempty"`
}

// Of returns where a node's VM is; zero for a node that has none. What cannot be read is none: Validate says so.
func Of(n cluster.Node) VM {
	return kept[VM](n.Placement)
}

// Document returns the VM as a node keeps it.
func (v VM) Document() cluster.Document { return cluster.NewDocument(v) }

// Chosen returns of the VM what was chosen for it: what it is cloned from is found out.
func (v VM) Chosen() VM {
	v.Template, v.TemplateHypervisor, v.TemplateDisk = 0, "", ""
	return v
}

// Change changes what a node keeps of its VM.
func Change(n *cluster.Node, change func(v *VM)) {
	v := Of(*n)
	change(&v)
	n.Placement = v.Document()
}

// Target is where VMs live and how that place is reached; credentials are never part of it.
type Target struct {
	Endpoint       string `json:"endpoint,omitempty"`
	CAFile         string `json:"ca_file,omitempty"`
	Fingerprint    string `json:"fingerprint,omitempty"`
	Insecure       bool   `json:"insecure,omitempty"`
	Pool           string `json:"pool,omitempty"`
	ProviderMirror string `json:"provider_mirror,omitempty"`
	TofuBinary     string `json:"tofu_binary,omitempty"`
	// HypervisorSSHUser and HypervisorSSHKeyPath are how the provider reaches the hypervisors.
	HypervisorSSHUser    string `json:"hypervisor_ssh_user,omitempty"`
	HypervisorSSHKeyPath string `json:"hypervisor_ssh_key_path,omitempty"`
}

// TargetOf returns where VMs live. What cannot be read is nowhere: Validate says so.
func TargetOf(t cluster.Target) Target {
	return kept[Target](t.Place)
}

// Document returns the target as a cluster keeps it.
func (t Target) Document() cluster.Document { return cluster.NewDocument(t) }

// ChangeTarget changes what a cluster keeps of where its VMs live.
func ChangeTarget(t *cluster.Target, change func(t *Target)) {
	target := TargetOf(*t)
	change(&target)
	t.Place = target.Document()
}

// What a CPU can be called: a model of QEMU's, or one of one's own, custom- and what Proxmox VE takes for a name.
var (
	cpuModel  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	customCPU = regexp.MustCompile(`^custom-[A-Za-z][A-Za-z0-9_-]+$`)
)

// longestCPUType bounds it: the longest model of QEMU has 24 characters.
const longestCPUType = 64

// ValidateSpec returns every problem of what a user asks for, or nil.
func ValidateSpec(s cluster.Spec) []error {
	problems := s.Validate()
	if s.Deployer == cluster.DeployerExisting {
		return problems
	}
	if s.Template != 0 && s.Template < firstID {
		problems = append(problems, fmt.Errorf("template is %d: VM ids begin at %d", s.Template, firstID))
	}
	if s.Clone == cluster.CloneLinked && !Clones(s) {
		problems = append(problems, errors.New("clone is linked, and there is no template to clone: set template"))
	}
	switch name := cmp.Or(s.CPUType, cluster.DefaultCPUType); {
	case len(name) > longestCPUType:
		problems = append(problems, fmt.Errorf(
			"cpu-type has %d characters, and at most %d are a name of a CPU like x86-64-v2-AES", len(name), longestCPUType,
		))
	case !cpuModel.MatchString(name), strings.HasPrefix(name, "custom-") && !customCPU.MatchString(name):
		problems = append(problems, fmt.Errorf("cpu-type %q is no name of a CPU like x86-64-v2-AES", s.CPUType))
	}
	if s.OSImage == "" {
		problems = append(problems, fmt.Errorf("os-image is empty: name a volume such as %s", DefaultImage))
	}
	return problems
}

// Validate returns every problem of a record, what it holds for deployers of VMs included, or nil: names are put into
// paths and commands as they are.
func Validate(r *cluster.Record) []error {
	problems := r.Validate()
	wrong := func(err error) {
		if err != nil {
			problems = append(problems, err)
		}
	}
	var list []Hypervisor
	wrong(r.Spec.Hosts.Read(&list))
	wrong(r.Target.Place.Read(&Target{}))
	for _, node := range r.Nodes {
		var p VM
		if err := node.Placement.Read(&p); err != nil {
			wrong(fmt.Errorf("node %d: %w", node.Index, err))
		}
		if p.Hypervisor != "" {
			if _, err := cluster.ParseHostName(p.Hypervisor); err != nil {
				wrong(fmt.Errorf("node %d: %w", node.Index, err))
			}
		}
	}
	return problems
}
