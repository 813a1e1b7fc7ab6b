package cluster

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"slices"
	"time"
)

// Phase names one of the four phases of a cluster's life.
type Phase string

// The phases, in order.
const (
	PhaseUp        Phase = "up"
	PhaseConfigure Phase = "configure"
	PhaseTest      Phase = "test"
	PhaseDown      Phase = "down"
)

// PhaseStatus is how far a phase has come.
type PhaseStatus string

// Phase states. A phase found "running" by a later run was interrupted: it is half done.
const (
	PhaseRunning PhaseStatus = "running"
	PhaseDone    PhaseStatus = "done"
	PhaseFailed  PhaseStatus = "failed"
)

// PhaseRecord is what is remembered of a phase. It is written before the act with status running.
type PhaseRecord struct {
	Status  PhaseStatus `json:"status"`
	Started time.Time   `json:"started"`
	Ended   time.Time   `json:"ended,omitzero"`
	// Inputs is a hash of all that the phase depends on: an equal hash and status done mean that nothing is to do.
	Inputs string `json:"inputs,omitempty"`
	Error  string `json:"error,omitempty"`
	// Step is the step that was begun last: under way, or what failed. Empty in a phase that is done.
	Step string `json:"step,omitempty"`
	// Before says that the phase has ended well at an earlier time.
	Before bool `json:"before,omitempty"`
	// Nodes is how far the phase has come on each node, by name.
	Nodes map[string]NodeProgress `json:"nodes,omitempty"`
}

// NodeProgress is how far a phase has come on one node.
type NodeProgress struct {
	// Step is the last one that was begun there, and Status how it stands.
	Step   string      `json:"step,omitempty"`
	Status PhaseStatus `json:"status,omitempty"`
	// Inputs are, by step that is done and need not be done again, a hash of all that it depended on.
	Inputs map[string]string `json:"inputs,omitempty"`
	// Machine tells the machine that this is about from one that takes its place; empty: not known.
	Machine string `json:"machine,omitempty"`
}

// Target is where a cluster's machines live and how that place is reached; credentials are never part of it.
type Target struct {
	// Simulated says that the place is this clusters directory's simulator.
	Simulated bool `json:"simulated,omitempty"`
	// SimulatorID tells that simulator from those of other clusters directories; empty: not known.
	SimulatorID string `json:"simulator_id,omitempty"`
	// Place is the rest, as the deployer knows it. In JSON its members are members of the target.
	Place Document `json:"-"`
}

// bareTarget is a target without its place.
type bareTarget Target

// MarshalJSON returns the target with the members of its place.
func (t Target) MarshalJSON() ([]byte, error) { return join(bareTarget(t), t.Place) }

// UnmarshalJSON reads a target. What is not a target's own is its place.
func (t *Target) UnmarshalJSON(raw []byte) error {
	bare := bareTarget(*t)
	if err := json.Unmarshal(raw, &bare); err != nil {
		return err
	}
	var err error
	*t = Target(bare)
	t.Place, err = others(raw, bare)
	return err
}

// RecordSchema is the version of the shape of cluster.json.
const RecordSchema = 1

// Record is all that is known of a cluster: the content of cluster.json, which is written before the act it records.
type Record struct {
	Schema int `json:"schema"`
	// Version is that of the hive-test that has written the record last, for programs that cannot read it.
	Version string `json:"version,omitempty"`

	Name   Name                  `json:"name"`
	Owner  Owner                 `json:"owner"`
	Spec   Spec                  `json:"spec"`
	Target Target                `json:"target"`
	Nodes  Nodes                 `json:"nodes"`
	Phases map[Phase]PhaseRecord `json:"phases"`
	// SSHKeyPath is the private key for the nodes.
	SSHKeyPath string `json:"ssh_key_path"`
	// SSHPublicKeyPath is its public half; empty: the private key's path with .pub.
	SSHPublicKeyPath string `json:"ssh_public_key_path,omitempty"`
	// ProxyJump are the hosts that nodes are reached through; empty: directly.
	ProxyJump JumpHosts `json:"proxy_jump,omitempty"`
	// SSHAgent is the socket of the nodes' own SSH agent; empty: the user's.
	SSHAgent string `json:"ssh_agent,omitempty"`
	// Source is what configure installs when nothing is named; --sim sets it.
	Source
	// Cut is when the deployer was killed while it made machines: some may appear for a while after that. Zero: it was
	// not, or all are there.
	Cut time.Time `json:"cut,omitzero"`
	// Packages are Debian packages that configure puts on the nodes, as they were asked for last.
	Packages []string `json:"packages,omitempty"`
	// Layout is how hive is installed on the nodes, as it was asked for last: dev, systemd or auto, which empty is too.
	Layout string `json:"layout,omitempty"`
	// HostsFile is the file that the nodes were taken from; nil: there is none, or it is not known.
	HostsFile *HostsFile `json:"hosts_file,omitempty"`
	// Formation is the hive that was formed last, of no nodes where it was dropped; nil: none was, or an earlier version
	// has formed it.
	Formation *Formation `json:"formation,omitempty"`
	// AWS is how the API of the hive that was formed is called; its keys are in a file of their own. Nil: not known
	// yet.
	AWS *AWS `json:"aws,omitempty"`
	// Snapshots are, by tag, what was known of hive when each snapshot of the VMs was made.
	Snapshots map[string]SnapshotRecord `json:"snapshots,omitempty"`
	// Restoring is the restore that is under way; nil: none is.
	Restoring *Restoring `json:"restoring,omitempty"`
	// Template is the template that nodes are cloned from; nil: none, or one that hive-test has not built.
	Template *TemplateUsed `json:"template,omitempty"`
	// Environment is that of the config file in which the cluster was made; empty: none.
	Environment string `json:"environment,omitempty"`
	// State is where OpenTofu's state of the cluster is kept; of no type: in the cluster's directory.
	State StateBackend `json:"state,omitzero"`
	// StateBefore is where the state was, while it is taken elsewhere; nil: it is not.
	StateBefore *StateBackend `json:"state_before,omitempty"`
	// Builds is the layer of the template that the one node is to become; empty: it is to become none.
	Builds string `json:"builds,omitempty"`
}

// StateBackend is a backend of OpenTofu's, with its own settings, in which {name} stands for the cluster's name. It holds no secrets.
type StateBackend struct {
	Type   string         `json:"type"`
	Config map[string]any `json:"config,omitempty"`
}

// IsZero reports whether there is none.
func (b StateBackend) IsZero() bool { return b.Type == "" }

// Source is where hive comes from: one of a program, a release and a source tree of this machine, and a repository. Nothing
// is set where hive is on the nodes already.
type Source struct {
	Binary    string `json:"binary,omitempty"`
	Tarball   string `json:"tarball,omitempty"`
	SourceDir string `json:"source_dir,omitempty"`
	Build     string `json:"build,omitempty"` // where a tree or a repository is built: first, each or local; empty: first
	Repo      string `json:"repo,omitempty"`
	Ref       string `json:"ref,omitempty"` // of the repository; empty: its default branch
}

// Named reports whether there is one.
func (s Source) Named() bool { return cmp.Or(s.Binary, s.Tarball, s.SourceDir, s.Repo) != "" }

// Validate returns every problem of the names that the record holds, or nil: they are put into paths and files as they
// are.
func (r *Record) Validate() []error {
	problems := r.Nodes.Validate()
	if _, err := ParseName(r.Name.String()); err != nil {
		problems = append(problems, err)
	}
	if err := CheckUser(r.Spec.SSHUser); err != nil {
		problems = append(problems, fmt.Errorf("ssh_user: %w", err))
	}
	for _, jump := range r.ProxyJump {
		if err := jump.Validate(); err != nil {
			problems = append(problems, fmt.Errorf("proxy_jump: %w", err))
		}
	}
	return problems
}

// TemplateUsed is a template of hive-test as a cluster was cloned from it.
type TemplateUsed struct {
	Layer   string `json:"layer"`
	Version string `json:"version"`
	// Steps are, by step of configure that was done on it, a hash of all that it depended on.
	Steps map[string]string `json:"steps,omitempty"`
}

// HostsFile is a hosts file as it was read.
type HostsFile struct {
	Path string `json:"path"` // from the root
	Hash string `json:"hash"` // of its content
}

// AWS is what is no secret of the way to a cluster's API.
type AWS struct {
	Profile string `json:"profile"` // hive's own name for its keys: hive or spinifex
	Region  string `json:"region"`
}

// PublicKeyPath is where the public half of the key for the nodes is.
func (r *Record) PublicKeyPath() string {
	if r.SSHPublicKeyPath != "" {
		return r.SSHPublicKeyPath
	}
	return r.SSHKeyPath + ".pub"
}

// Begin notes that a phase starts with the given inputs. What an earlier run has noted of nodes stays.
func (r *Record) Begin(p Phase, inputs string, now time.Time) {
	earlier := r.Phases[p]
	r.set(p, PhaseRecord{
		Status: PhaseRunning, Started: now, Inputs: inputs, Nodes: earlier.Nodes,
		Before: earlier.Before || earlier.Status == PhaseDone,
	})
}

// End notes how a phase that was begun has ended.
func (r *Record) End(p Phase, err error, now time.Time) {
	entry := r.Phases[p]
	entry.Ended, entry.Status, entry.Error = now, PhaseDone, ""
	if err != nil {
		entry.Status, entry.Error = PhaseFailed, err.Error()
	} else {
		entry.Step = ""
	}
	r.set(p, entry)
}

// SetInputs notes what a phase was done with, where that is known at its end only.
func (r *Record) SetInputs(p Phase, inputs string) {
	entry := r.Phases[p]
	entry.Inputs = inputs
	r.set(p, entry)
}

// BeginStep notes that a step of a phase begins.
func (r *Record) BeginStep(p Phase, step string) {
	entry := r.Phases[p]
	entry.Step = step
	r.set(p, entry)
}

// SetProgress notes how far a phase that was begun has come on a node.
func (r *Record) SetProgress(p Phase, node string, progress NodeProgress) {
	entry := r.Phases[p]
	entry.Nodes = maps.Clone(entry.Nodes)
	if entry.Nodes == nil {
		entry.Nodes = map[string]NodeProgress{}
	}
	entry.Nodes[node] = progress
	r.set(p, entry)
}

// ForgetNodes forgets, for all phases, how far they have come on nodes that are gone or made anew.
func (r *Record) ForgetNodes(names ...string) {
	r.Formation = r.Formation.forget(names)
	for p, entry := range r.Phases {
		entry.Nodes = maps.Clone(entry.Nodes)
		maps.DeleteFunc(entry.Nodes, func(name string, _ NodeProgress) bool { return slices.Contains(names, name) })
		r.set(p, entry)
	}
}

// set replaces what is remembered of a phase. Maps are never changed once they are part of a record: copies of it share
// them.
func (r *Record) set(p Phase, entry PhaseRecord) {
	r.Phases = maps.Clone(r.Phases)
	if r.Phases == nil {
		r.Phases = map[Phase]PhaseRecord{}
	}
	r.Phases[p] = entry
}

// Done tells whether phase p has ended well with these inputs.
func (r *Record) Done(p Phase, inputs string) bool {
	entry, ok := r.Phases[p]
	return ok && entry.Status == PhaseDone && entry.Inputs == inputs
}

// Current is the last phase that was begun and how it stands, as status shows it.
func (r *Record) Current() (Phase, PhaseStatus) {
	var last Phase
	for _, p := range []Phase{PhaseUp, PhaseConfigure, PhaseTest, PhaseDown} {
		if entry, ok := r.Phases[p]; ok && (last == "" || !entry.Started.Before(r.Phases[last].Started)) {
			last = p
		}
	}
	return last, r.Phases[last].Status
}

// Inventory returns the inventory that follows from the record.
func (r *Record) Inventory() Inventory {
	endpoints := map[string]string{}
	if len(r.Nodes) > 0 && r.Nodes.Leader().Management.IsValid() {
		endpoints["hive"] = "https://" + net.JoinHostPort(r.Nodes.Leader().Management.String(), "9999")
	}
	return Inventory{
		Schema: InventorySchema, Cluster: r.Name, ClusterName: r.Name, Nodes: r.Nodes,
		SSHUser: r.Spec.SSHUser, SSHKeyPath: r.SSHKeyPath, ProxyJump: r.ProxyJump, SSHAgent: r.SSHAgent,
		Endpoints: endpoints,
	}
}

// Hash returns a short digest of plain data, for PhaseRecord.Inputs.
func Hash(parts ...any) string {
	raw, err := json.Marshal(parts)
	if err != nil { // plain data always encodes; a value that does not is a programming error
		panic(err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8])
}
