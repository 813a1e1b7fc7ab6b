// Package config turns flags, environment, a file and defaults into one typed Settings. It is the only package that
// reads the environment or knows of viper.
package config

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/secret"
)

// Settings are all that a user can set, with paths resolved and values checked. The table of Table says what each is.
type Settings struct {
	ClustersDir string `mapstructure:"clusters_dir"`
	Output      string `mapstructure:"output"`
	LogFormat   string `mapstructure:"log_format"`
	Verbose     bool   `mapstructure:"verbose"`
	Quiet       bool   `mapstructure:"quiet"`
	NoColor     bool   `mapstructure:"no_color"`

	Environment  string        `mapstructure:"environment"` // empty: none
	Environments []Environment `mapstructure:"-"`           // those of the file
	Protected    bool          `mapstructure:"protected"`   // what is made here is destroyed only by who names it
	IKnow        string        `mapstructure:"-"`           // the name of what may be destroyed though it is protected

	NodeCount         int    `mapstructure:"node_count"`
	CPUCores          int    `mapstructure:"cpu_cores"`
	MemoryMB          int    `mapstructure:"memory_mb"`
	DiskSizeGB        int    `mapstructure:"disk_size_gb"`
	Deployer          string `mapstructure:"deployer"`
	OSImage           string `mapstructure:"os_image"`
	Template          string `mapstructure:"template"`   // a name or a VM id; empty or 0: os_image is used
	CloudInit         string `mapstructure:"cloud_init"` // snippet or none
	ManagementBridge  string `mapstructure:"management_bridge"`
	DataBridge        string `mapstructure:"data_bridge"`
	ManagementVLAN    int    `mapstructure:"management_vlan"` // 0: none
	DataVLAN          int    `mapstructure:"data_vlan"`
	ManagementModel   string `mapstructure:"management_model"`
	DataModel         string `mapstructure:"data_model"`
	CPUType           string `mapstructure:"cpu_type"`
	Clone             string `mapstructure:"clone"`     // full or linked
	Placement         string `mapstructure:"placement"` // spread, pack or memory
	SSHUser           string `mapstructure:"ssh_user"`
	SSHPrivateKeyPath string `mapstructure:"ssh_private_key_path"` // empty: a key pair is generated per cluster
	SSHPublicKeyPath  string `mapstructure:"ssh_public_key_path"`
	NodeSSHPort       int    `mapstructure:"node_ssh_port"`
	SSH               SSH    `mapstructure:"ssh"`
	HostsFile         string `mapstructure:"hosts_file"`
	Keep              string `mapstructure:"keep"` // never, on-failure or always

	AvoidHypervisors []string `mapstructure:"avoid_hypervisors"`

	TTL time.Duration `mapstructure:"ttl"` // 0: none, or what the verb has for it

	TofuBin        string `mapstructure:"tofu_bin"`
	Provider       string `mapstructure:"provider"` // auto, registry or a mirror's directory
	ProviderMirror string `mapstructure:"provider_mirror"`
	Parallelism    int    `mapstructure:"parallelism"`
	LockDir        string `mapstructure:"lock_dir"`

	Wait time.Duration `mapstructure:"wait"` // for another run of the same cluster to end; 0: not at all

	SkipPreflight bool `mapstructure:"skip_preflight"`

	Sim      bool   `mapstructure:"sim"`
	SimHosts string `mapstructure:"sim_hosts"` // auto, netns or process

	Binary        string        `mapstructure:"binary"`
	Tarball       string        `mapstructure:"tarball"`
	SourceDir     string        `mapstructure:"source_dir"`
	Repo          string        `mapstructure:"repo"`
	Ref           string        `mapstructure:"ref"`
	Build         string        `mapstructure:"build"` // first, each or local
	ScriptsDir    string        `mapstructure:"scripts_dir"`
	HealthTimeout time.Duration `mapstructure:"health_timeout"`

	Packages []string `mapstructure:"packages"` // each may be several, with commas between

	Suites []string `mapstructure:"suite"`
	JUnit  string   `mapstructure:"junit"`

	EvidenceDir string `mapstructure:"evidence_dir"` // gets a copy of what each run keeps; empty: none does

	SuiteOn string `mapstructure:"suite_on"` // empty: this machine

	Layers []Layer `mapstructure:"-"` // of templates

	State               State  `mapstructure:"-"`
	StatePassphrase     Secret `mapstructure:"-"` // or the content of the file, if only that is set
	StatePassphraseErr  error  `mapstructure:"-"` // why that file cannot be read
	StatePassphraseFile string `mapstructure:"state_passphrase_file"`

	PackerBin            string        `mapstructure:"packer_bin"`
	TemplateMaxAge       time.Duration `mapstructure:"template_max_age"` // 0: whatever it is
	RequireFreshTemplate bool          `mapstructure:"require_fresh_template"`

	NamedSuites []Suite      `mapstructure:"-"` // suites of the file
	Quarantine  []Quarantine `mapstructure:"-"`
	Run         string       `mapstructure:"suite_run"`  // regular expression; empty: all cases
	Skip        string       `mapstructure:"suite_skip"` // regular expression; empty: none
	Retries     int          `mapstructure:"retries"`
	AllowFlaky  bool         `mapstructure:"allow_flaky"`
	Fault       string       `mapstructure:"fault"` // of suites that name none; empty or none: nothing
	RequireAll  bool         `mapstructure:"require_all"`

	SuiteEnv      []string `mapstructure:"suite_env"` // NAME or NAME=value
	KillLeftovers bool     `mapstructure:"kill_leftovers"`

	LostAfter time.Duration `mapstructure:"lost_after"` // 0: never

	ResetBetween string `mapstructure:"reset_between"` // never or suite
	ResetMemory  bool   `mapstructure:"reset_memory"`

	OnDrift []string `mapstructure:"on_drift"` // a program and its arguments; none: nothing is run

	AgeKeyFile  string       `mapstructure:"age_key_file"`
	Credentials []Credential `mapstructure:"-"`

	Timeout  time.Duration `mapstructure:"timeout"` // of the whole run; 0: none
	Timeouts Timeouts      `mapstructure:"timeouts"`

	Hive    Hive    `mapstructure:"hive"`
	Proxmox Proxmox `mapstructure:"proxmox"`
	Network Network `mapstructure:"network"`

	StateServer StateServer `mapstructure:"state_server"`

	// File is the config file that was read, empty if there was none.
	File    string `mapstructure:"-"`
	sources map[string]string
	// programmed has the keys that a program has set.
	programmed map[string]string
	values     map[string]any // by key, without secrets and hypervisors; of references what they name

	references map[string]secret.Reference // by key
	resolver   *secret.Resolver
}

// Timeouts bound one phase each.
type Timeouts struct {
	Up        time.Duration `mapstructure:"up"`
	Configure time.Duration `mapstructure:"configure"`
	Test      time.Duration `mapstructure:"test"`
	Down      time.Duration `mapstructure:"down"`
}

// Hive is how hive is formed.
type Hive struct {
	Layout    string   `mapstructure:"layout"`     // dev, systemd or auto
	InitFlags []string `mapstructure:"init_flags"` // of `hive admin init`, beside those that it is given anyway
	JoinFlags []string `mapstructure:"join_flags"`

	ProbeTimeout time.Duration `mapstructure:"probe_timeout"` // of one answer of a service on a node
}

// SSH is how nodes are reached, beside user, key and port.
type SSH struct {
	ProxyJump   string `mapstructure:"proxy_jump"`
	AgentSocket string `mapstructure:"agent_socket"`
	ConfigFile  string `mapstructure:"config_file"`
	// Jumps are what ProxyJump names, with what ConfigFile says of them.
	Jumps cluster.JumpHosts `mapstructure:"-"`
	// Config is the content of ConfigFile.
	Config SSHConfig `mapstructure:"-"`
}

// Network is how nodes get their addresses; all empty: DHCP.
type Network struct {
	Addresses     string `mapstructure:"addresses"` // FIRST-LAST/PREFIX
	DataAddresses string `mapstructure:"data_addresses"`
	Gateway       string `mapstructure:"gateway"`
}

// Proxmox is where Proxmox VE is, who we are there, and what of it is used.
type Proxmox struct {
	Endpoint          string                 `mapstructure:"endpoint"`
	Token             Secret                 `mapstructure:"token"` // the content of TokenFile, if only that is set
	TokenFile         string                 `mapstructure:"token_file"`
	TokenErr          error                  `mapstructure:"-"` // why TokenFile could not be read; else nil
	CAFile            string                 `mapstructure:"ca_file"`
	Fingerprint       string                 `mapstructure:"fingerprint"`
	Insecure          bool                   `mapstructure:"insecure"`
	Pool              string                 `mapstructure:"pool"`
	CallTimeout       time.Duration          `mapstructure:"call_timeout"`   // of one question of doctor's
	VMIDRange         string                 `mapstructure:"vmid_range"`     // FIRST-LAST
	TemplateRange     string                 `mapstructure:"template_range"` // FIRST-LAST
	VMIDBase          int                    `mapstructure:"vmid_base"`      // 0: chosen
	CPUOvercommit     int                    `mapstructure:"cpu_overcommit"` // virtual CPUs for each CPU of a hypervisor
	SSHUsername       string                 `mapstructure:"ssh_username"`
	SSHPrivateKeyPath string                 `mapstructure:"ssh_private_key_path"`
	Hypervisors       []placement.Hypervisor `mapstructure:"hypervisors"` // datastore, snippet store and port filled in
}

// StateServer is how states are served.
type StateServer struct {
	Listen     string   `mapstructure:"listen"`
	Storage    string   `mapstructure:"storage"` // a directory or a URL
	UsersFile  string   `mapstructure:"users_file"`
	TLS        string   `mapstructure:"tls"` // auto, self-signed or off
	TLSCert    string   `mapstructure:"tls_cert"`
	TLSKey     string   `mapstructure:"tls_key"`
	TLSNames   []string `mapstructure:"tls_names"`
	Recipients []string `mapstructure:"age_recipients"`
	Identities string   `mapstructure:"age_identity_file"`
	Passphrase Secret   `mapstructure:"age_passphrase"`
	// PassphraseFile holds the passphrase, where none is set.
	PassphraseFile string `mapstructure:"age_passphrase_file"`
	MaxSize        int    `mapstructure:"max_size"` // MiB
}

// byProgram is the source of LoadOptions.Values that have no place.
const byProgram = "the program"

// Source tells where the value of a key comes from: "flag --x", "the program", "environment X", "FILE:LINE",
// "FILE:LINE, environments.NAME" or "default".
func (s Settings) Source(key string) string {
	if source, found := s.sources[key]; found {
		return source
	}
	return "default"
}

// Given tells whether the user set the key anywhere.
func (s Settings) Given(key string) bool { _, found := s.sources[key]; return found }

// Explicit reports whether the key was set for this run alone, by a flag or a program, and not by what was made for
// other runs, too.
func (s Settings) Explicit(key string) bool {
	_, programmed := s.programmed[key]
	return programmed || strings.HasPrefix(s.Source(key), "flag ")
}

// LineOf reads the file and the line of a source; line is 0 where it names none.
func LineOf(source string) (file string, line int) {
	place, _, _ := strings.Cut(source, inEnvironment)
	at := strings.LastIndexByte(place, ':')
	if at < 0 {
		return place, 0
	}
	line, err := strconv.Atoi(place[at+1:])
	if err != nil {
		return place, 0
	}
	return place[:at], line
}

// Value is a setting as it is in force.
type Value struct{ Key, Value, Source string }

// Values are all settings in force, in the table's order, for people: secrets are hidden.
func (s Settings) Values() []Value {
	var values []Value
	for _, row := range Table() {
		text := fmt.Sprint(s.values[row.Key])
		switch v := s.values[row.Key].(type) {
		case nil:
			text = ""
		case []string:
			text = strings.Join(v, ", ")
		}
		switch row.Key {
		case "config":
			text = s.File
		case "proxmox.token":
			if ref, named := s.references[row.Key]; named {
				text = ref.String()
			} else {
				text = s.Proxmox.Token.String()
			}
		case "state_passphrase":
			if _, named := s.references[row.Key]; !named {
				text = s.StatePassphrase.String()
			}
		case "state":
			text = s.State.Backend
		case "state_server.age_passphrase":
			text = s.StateServer.Passphrase.String()
		case "proxmox.hypervisors":
			text = strings.Join(placement.Names(s.Proxmox.Hypervisors), ", ")
		case "environments":
			text = strings.Join(EnvironmentNames(s.Environments), ", ")
		case "i_know":
			text = s.IKnow
		case "suites":
			text = joinedBy(s.NamedSuites, func(one Suite) string { return one.Name })
		case "templates":
			text = joinedBy(s.Layers, func(one Layer) string { return one.Name })
		case "credentials":
			text = ownersOf(s.Credentials)
		case "quarantine":
			text = joinedBy(s.Quarantine, func(one Quarantine) string { return one.Case })
		}
		values = append(values, Value{row.Key, text, s.Source(row.Key)})
	}
	return values
}

// Flags returns the flags that were given for this run, as arguments, but for suites, secrets and values of variables.
func (s Settings) Flags() []string {
	var flags []string
	for _, row := range Table() {
		if row.Secret || row.Key == "suite" || row.Key == "i_know" || s.Source(row.Key) != "flag --"+row.Flag {
			continue
		}
		switch v := s.values[row.Key].(type) {
		case nil:
		case []string:
			for _, item := range v {
				if row.Key != "suite_env" || !strings.Contains(item, "=") {
					flags = append(flags, "--"+row.Flag+"="+item)
				}
			}
		case bool:
			flags = append(flags, strings.TrimSuffix(fmt.Sprintf("--%s=%t", row.Flag, v), "=true"))
		default:
			flags = append(flags, fmt.Sprintf("--%s=%v", row.Flag, v))
		}
	}
	return flags
}

// joinedBy returns what name says of each item, with commas between.
func joinedBy[T any](list []T, name func(T) string) string {
	names := make([]string, len(list))
	for i, item := range list {
		names[i] = name(item)
	}
	return strings.Join(names, ", ")
}

// ForDoctor returns what is in force of the settings that doctor uses, but for where results go.
func (s Settings) ForDoctor() []Value {
	var used []string
	for _, row := range Table() {
		if row.UsedBy("doctor") && !row.Global() {
			used = append(used, row.Key)
		}
	}
	values := s.Values()
	return slices.DeleteFunc(values, func(v Value) bool { return !slices.Contains(used, v.Key) })
}

// Spec is the cluster that the settings ask for, on Proxmox VE.
func (s Settings) Spec() cluster.Spec {
	return cluster.Spec{
		Deployer: s.Deployer, NodeCount: s.NodeCount, CPUCores: s.CPUCores, MemoryMB: s.MemoryMB,
		DiskSizeGB: s.DiskSizeGB, OSImage: s.OSImage, Template: s.TemplateID(), TemplateName: s.TemplateName(),
		CloudInit: s.CloudInit,
		Hosts:     placement.Hosts(s.Proxmox.Hypervisors), ManagementBridge: s.ManagementBridge, DataBridge: s.DataBridge,
		SSHUser: s.SSHUser, Network: cluster.Network(s.Network),
		ManagementVLAN: s.ManagementVLAN, DataVLAN: s.DataVLAN,
		ManagementModel: unlessDefault(s.ManagementModel, cluster.DefaultNICModel),
		DataModel:       unlessDefault(s.DataModel, cluster.DefaultNICModel),
		CPUType:         unlessDefault(s.CPUType, cluster.DefaultCPUType),
		Clone:           unlessDefault(s.Clone, cluster.CloneFull),
		PlaceBy:         unlessDefault(s.Placement, cluster.PlaceSpread),
	}
}

// TemplateID is the id of the template that nodes are cloned from; 0: it has a name, or there is none.
func (s Settings) TemplateID() int {
	id, _ := strconv.Atoi(s.Template)
	return id
}

// TemplateName is the layer or the version of the template that nodes are cloned from; empty: it has an id, or there is none.
func (s Settings) TemplateName() string {
	if _, err := strconv.Atoi(s.Template); err == nil {
		return ""
	}
	return s.Template
}

// unlessDefault is a value as a specification has it: empty where it is the default.
func unlessDefault(value, standard string) string {
	if value == standard {
		return ""
	}
	return value
}

// PhaseTimeout is the limit of a phase by its name, 0 for a phase that has none.
func (s Settings) PhaseTimeout(phase string) time.Duration {
	return map[string]time.Duration{
		"up": s.Timeouts.Up, "configure": s.Timeouts.Configure, "test": s.Timeouts.Test, "down": s.Timeouts.Down,
	}[phase]
}

const hidden = "***"

// Secret is a value that never shows itself: only Reveal gives it. It is kept behind a pointer, because fmt does not
// ask a value in an unexported field how it wants to be printed but does not follow a pointer there either.
type Secret struct{ value *string }

// NewSecret wraps a value.
func NewSecret(value string) Secret { return Secret{&value} }

// Reveal gives the value, for the one place that must send it.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// Empty tells whether there is no value.
func (s Secret) Empty() bool { return s.Reveal() == "" }

// String hides the value.
func (s Secret) String() string {
	if s.Empty() {
		return ""
	}
	return hidden
}

// Format hides the value whatever the verb, %#v included.
func (s Secret) Format(state fmt.State, _ rune) { _, _ = io.WriteString(state, s.String()) }

// MarshalText hides the value in JSON, YAML and every other encoding.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Absolute is path from the root, as records keep it; where there is no working directory it stays as it is.
func Absolute(path string) string {
	if full, err := filepath.Abs(path); err == nil {
		return full
	}
	return path
}
