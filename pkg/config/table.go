package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/progress"
)

// Kind is the type of a setting's value.
type Kind string

// The kinds of values. A path given in the file is relative to the file; ~/ is the home directory everywhere.
const (
	Text        Kind = "string"
	File        Kind = "file"
	Dir         Kind = "dir"
	Int         Kind = "int"
	Bool        Kind = "bool"
	Duration    Kind = "duration"
	List        Kind = "list"
	Hypervisors Kind = "hypervisors"
	Suites      Kind = "suites"
	Date        Kind = "date"     // a day, of which the value is the end
	Word        Kind = "word"     // a name or a number
	Location    Kind = "location" // a directory, or a URL

	QuarantineList Kind = "quarantine"
	Layers         Kind = "layers"
	StateBackend   Kind = "state"
	Credentials    Kind = "credentials"

	EnvironmentList Kind = "environments"
)

// Structured reports whether values have keys of their own: in the file, or as YAML or JSON in the environment.
func (k Kind) Structured() bool {
	return slices.Contains([]Kind{Hypervisors, Suites, QuarantineList, Layers, StateBackend, Credentials, EnvironmentList}, k)
}

// IsPath reports whether values are paths, of files or of directories. A URL is left as it is.
func (k Kind) IsPath() bool { return k == File || k == Dir || k == Location }

// Group is what flags are sorted by in help.
type Group string

// The groups, in the order in which help has them: what is used most is first.
const (
	inCluster Group = "Cluster"
	inNetwork Group = "Network"
	inHive    Group = "Hive"
	inSuites  Group = "Suites"

	inTemplates Group = "Templates"
	inSSH       Group = "SSH to the nodes"
	inProxmox   Group = "Proxmox VE"
	inTofu      Group = "OpenTofu"
	inServer    Group = "State server"
	inLimits    Group = "Time limits"
	inOutput    Group = "Output and settings"
)

// Groups returns all groups in their order.
func Groups() []Group {
	return []Group{inCluster, inNetwork, inHive, inSuites, inTemplates, inSSH, inProxmox, inTofu, inServer, inLimits, inOutput}
}

// The verbs that use a setting, where several settings have the same. doctor takes all that up takes.
const (
	everyVerb  = "*"
	ofClusters = "up full doctor" // of several nodes
	making     = ofClusters + " template"
	destroying = making + " configure test down apply" // or may have to
	reaching   = destroying + " status drift wait logs ssh exec cp env inventory fault restore"
	serving    = "serve"
	asking     = reaching + " extend hold reap save list delete state" // the API of Proxmox VE
	// destructive are the verbs that refuse on what is protected.
	destructive = "up apply full configure down reap restore delete template state"
	sharing     = asking + " unlock attach" // the backend of states
)

// Existing is what a setting of up means for a cluster that exists.
type Existing string

// What settings can mean there.
const (
	ForRun   Existing = "run"       // how this run works: nothing of the cluster
	Reach    Existing = "reach"     // how Proxmox VE and the nodes are reached, as it is said now
	Changed  Existing = "changed"   // the cluster is changed to it
	NewNodes Existing = "new nodes" // nodes that are made now follow it, and others stay as they are
	Fixed    Existing = "fixed"     // what its machines are made of: nothing else can be asked for
	Place    Existing = "place"     // where it is: likewise, but what was made for other clusters names another place
)

// Smoke is the suite that is no command, as pkg/suite has it.
const Smoke = "smoke"

// IaC is the suite of Terraform's AWS provider, as pkg/suite has it.
const IaC = "iac"

// BuiltinSuites are those that are no commands.
func BuiltinSuites() []string { return []string{Smoke, IaC} }

// Setting is one row of the table that flags, environment, file, help and README are made of.
type Setting struct {
	Key     string   // in the file; a dot is one level of nesting
	Flag    string   // without dashes; empty: no flag
	Short   string   // one letter, or empty
	Env     []string // first that is set and not empty wins
	Kind    Kind
	Default any    // of the Go type of Kind, nil: empty
	Value   string // what help calls the value of a Text or a List; empty where OneOf tells
	Group   Group
	Verbs   string // that use it, and so have its flag; everyVerb: all
	Help    string
	OneOf   []string // allowed words, nil: any
	Unit    string   // of an Int; empty: it is counted
	Min     int      // of an Int, together with Max
	Max     int      // 0: no bounds
	Secret  bool
	NoFile  bool // cannot be set in the file

	Existing Existing // of those that up uses; empty: ForRun

	entry func(string) error // what is wrong with a Text that is not empty, or an item of a List; nil: nothing
}

// Table returns every setting, in the order in which they are explained.
func Table() []Setting {
	rows := slices.Concat(globalRows(), clusterRows(), workRows(), proxmoxRows(), serverRows())
	for i := range rows {
		own := "HIVE_TEST_" + strings.ToUpper(strings.ReplaceAll(rows[i].Key, ".", "_"))
		own = strings.Replace(own, "HIVE_TEST_TIMEOUTS_", "HIVE_TEST_TIMEOUT_", 1) // like the flags
		rows[i].Env = append([]string{own}, rows[i].Env...)
		if !rows[i].Global() && (rows[i].UsedBy("up") || rows[i].UsedBy("configure")) {
			rows[i].Verbs += " ensure" // which does what both do
		}
	}
	return rows
}

func globalRows() []Setting {
	return []Setting{
		{Key: "config", Flag: "config", Kind: File, NoFile: true, Group: inOutput, Verbs: everyVerb, Help: "config file; empty: ./" + FileName + ", else $XDG_CONFIG_HOME/hive-test/config.yaml"},
		{Key: "environment", Flag: "env", Kind: Text, Value: "name", Group: inOutput, Verbs: everyVerb, Help: "which of environments counts; empty: none"},
		{Key: "environments", Kind: EnvironmentList, Value: "environments", Group: inOutput, Verbs: everyVerb, Help: "sets of values by name, of which the one that is chosen counts over the rest of the file"},
		{Key: "protected", Flag: "protected", Kind: Bool, Group: inCluster, Verbs: ofClusters, Help: "refuse what destroys clusters that are made so, unless --i-know names the cluster"},
		{Key: "i_know", Flag: "i-know", Kind: Text, Value: "name", NoFile: true, Group: inCluster, Verbs: destructive, Help: "the name of the protected cluster that may be destroyed; of reap without NAME and of a matrix, that of the environment"},
		{Key: "clusters_dir", Flag: "clusters-dir", Kind: Dir, Default: "./clusters", Group: inOutput, Verbs: everyVerb, Help: "directory of the clusters' state and evidence"},
		{Key: "output", Flag: "output", Short: "o", Kind: Text, Default: "table", OneOf: []string{"table", "wide", "json", "yaml"}, Group: inOutput, Verbs: everyVerb, Help: "form of the data on stdout"},
		{Key: "log_format", Flag: "log-format", Kind: Text, Default: "text", OneOf: []string{"text", "json"}, Group: inOutput, Verbs: everyVerb, Help: "form of the narration on stderr"},
		{Key: "verbose", Flag: "verbose", Short: "v", Kind: Bool, Group: inOutput, Verbs: everyVerb, Help: "show the output of tofu, nodes and suites too"},
		{Key: "quiet", Flag: "quiet", Short: "q", Kind: Bool, Group: inOutput, Verbs: everyVerb, Help: "show warnings and errors only"},
		{Key: "no_color", Flag: "no-color", Env: []string{"NO_COLOR"}, Kind: Bool, Group: inOutput, Verbs: everyVerb, Help: "no colours"},
		{Key: "age_key_file", Flag: "age-key-file", Kind: File, Group: inOutput, Verbs: asking + " secrets", Help: "file of age keys that open secrets, beside those that SOPS looks for: SOPS_AGE_KEY, SOPS_AGE_KEY_FILE, ~/.config/sops/age/keys.txt and SSH keys without a passphrase"},
		{Key: "credentials", Kind: Credentials, Value: "credentials", Group: inTofu, Verbs: destroying + " reap drift state", Help: "variables that one program alone gets, each a value or a reference to one: tofu (OpenTofu that makes the VMs), state (the same, for where its state is), packer"},
		{Key: "timeout", Flag: "timeout", Kind: Duration, Group: inLimits, Verbs: everyVerb, Help: "limit of the whole run, like 1h30m, with a quarter of it (at most 5m) for down; 0 is none"},
		{Key: "timeouts.up", Flag: "timeout-up", Kind: Duration, Default: 20 * time.Minute, Group: inLimits, Verbs: making + " apply", Help: "limit of up, stopping included"},
		{Key: "timeouts.configure", Flag: "timeout-configure", Kind: Duration, Default: 30 * time.Minute, Group: inLimits, Verbs: "template configure full wait", Help: "limit of configure, stopping included"},
		{Key: "timeouts.test", Flag: "timeout-test", Kind: Duration, Default: time.Hour, Group: inLimits, Verbs: "test full", Help: "limit of test, stopping included"},
		{Key: "timeouts.down", Flag: "timeout-down", Kind: Duration, Default: 15 * time.Minute, Group: inLimits, Verbs: destroying + " reap", Help: "limit of down, stopping included"},
	}
}

func clusterRows() []Setting {
	return []Setting{
		{Key: "node_count", Flag: "node-count", Env: []string{"TF_VAR_node_count"}, Kind: Int, Default: cluster.DefaultNodes, Min: cluster.MinNodes, Max: cluster.MaxNodes, Group: inCluster, Verbs: ofClusters + " init", Existing: Changed, Help: "number of nodes"},
		{Key: "cpu_cores", Flag: "cpu-cores", Env: []string{"TF_VAR_cpu_cores"}, Kind: Int, Default: cluster.DefaultCPUCores, Group: inCluster, Verbs: making + " init", Existing: Changed, Help: "virtual CPUs per node"},
		{Key: "memory_mb", Flag: "memory-mb", Env: []string{"TF_VAR_memory_mb"}, Kind: Int, Unit: "MiB", Default: cluster.DefaultMemoryMB, Group: inCluster, Verbs: making + " init", Existing: Changed, Help: "memory per node in MiB"},
		{Key: "disk_size_gb", Flag: "disk-size-gb", Env: []string{"TF_VAR_disk_size_gb"}, Kind: Int, Unit: "GiB", Default: cluster.DefaultDiskSizeGB, Group: inCluster, Verbs: making + " init", Existing: Changed, Help: "root disk per node in GiB"},
		{Key: "os_image", Flag: "os-image", Env: []string{"TF_VAR_os_image"}, Kind: Text, Default: placement.DefaultImage, Value: "volume", Group: inCluster, Verbs: making + " init", Existing: Changed, Help: "cloud image, a volume on every hypervisor"},
		{Key: "template", Flag: "template", Kind: Word, entry: checkTemplate, Value: "template", Group: inCluster, Verbs: ofClusters + " init", Existing: Fixed, Help: "template to clone nodes from, in place of os_image: the layer or version of one that hive-test has built, or a VM id; hypervisors may have a template_vmid each"},
		{Key: "cloud_init", Flag: "cloud-init", Kind: Text, Default: cluster.CloudInitSnippet, OneOf: []string{cluster.CloudInitSnippet, cluster.CloudInitNone}, Group: inCluster, Verbs: making + " init", Existing: Fixed, Help: "how nodes get the system's essentials: a snippet uploaded over SSH to the hypervisors, or none, then configure installs them"},
		{Key: "network.addresses", Flag: "addresses", Kind: Text, Value: "range", Group: inNetwork, Verbs: making + " init", Existing: Fixed, Help: "static addresses of the first NIC, FIRST-LAST/PREFIX; empty: DHCP"},
		{Key: "network.data_addresses", Flag: "data-addresses", Kind: Text, Value: "range", Group: inNetwork, Verbs: making + " init", Existing: Fixed, Help: "static addresses of the second NIC; empty: DHCP"},
		{Key: "network.gateway", Flag: "gateway", Kind: Text, Value: "address", Group: inNetwork, Verbs: making + " init", Existing: Fixed, Help: "default route of nodes with static addresses"},
		{Key: "management_bridge", Flag: "management-bridge", Kind: Text, Default: "vmbr0", Value: "bridge", Group: inNetwork, Verbs: making + " init", Existing: Fixed, Help: "bridge of the first NIC"},
		{Key: "data_bridge", Flag: "data-bridge", Kind: Text, Default: "vmbr1", Value: "bridge", Group: inNetwork, Verbs: making + " init", Existing: Fixed, Help: "bridge of the second NIC"},
		{Key: "management_vlan", Flag: "management-vlan", Kind: Int, Max: 4094, Group: inNetwork, Verbs: making + " init", Existing: Fixed, Help: "VLAN tag of the first NIC; 0: none"},
		{Key: "data_vlan", Flag: "data-vlan", Kind: Int, Max: 4094, Group: inNetwork, Verbs: making + " init", Existing: Fixed, Help: "VLAN tag of the second NIC; 0: none"},
		{Key: "management_model", Flag: "management-model", Kind: Text, Default: cluster.DefaultNICModel, OneOf: cluster.NICModels(), Group: inNetwork, Verbs: making, Existing: Fixed, Help: "model of the first NIC"},
		{Key: "data_model", Flag: "data-model", Kind: Text, Default: cluster.DefaultNICModel, OneOf: cluster.NICModels(), Group: inNetwork, Verbs: making, Existing: Fixed, Help: "model of the second NIC"},
		{Key: "cpu_type", Flag: "cpu-type", Kind: Text, Default: cluster.DefaultCPUType, Value: "type", Group: inCluster, Verbs: making, Existing: Fixed, Help: "CPU that nodes see, like x86-64-v2-AES; host: that of the hypervisor"},
		{Key: "clone", Flag: "clone", Kind: Text, Default: cluster.CloneFull, OneOf: []string{cluster.CloneFull, cluster.CloneLinked, cluster.CloneAuto}, Group: inCluster, Verbs: making, Existing: Fixed, Help: "how nodes are cloned of a template: in full, or linked to its disk, which is quick and keeps the template from being deleted; auto: linked, where each hypervisor can clone a template of hive-test where its disk is"},
		{Key: "placement", Flag: "placement", Kind: Text, Default: cluster.PlaceSpread, OneOf: []string{cluster.PlaceSpread, cluster.PlacePack, cluster.PlaceMemory}, Group: inCluster, Verbs: making, Existing: Changed, Help: "which hypervisors new nodes go to: to each in turn, to as few as have the memory, or to that with most free memory"},
		{Key: "avoid_hypervisors", Flag: "avoid-hypervisor", Kind: List, Value: "name", Group: inCluster, Verbs: making, Existing: Changed, Help: "hypervisor that no new node goes to; may be repeated; none: none is avoided any longer"},
		{Key: "ssh_user", Flag: "ssh-user", Kind: Text, Default: cluster.DefaultSSHUser, Value: "user", Group: inSSH, Verbs: making + " init", Existing: Fixed, Help: "user that cloud-init makes on the nodes"},
		{Key: "ssh_private_key_path", Flag: "ssh-private-key-path", Env: []string{"TF_VAR_ssh_private_key_path"}, Kind: File, Group: inSSH, Verbs: making + " init", Existing: Fixed, Help: "private key for the nodes; empty: a key pair is made per cluster"},
		{Key: "ssh_public_key_path", Flag: "ssh-public-key-path", Env: []string{"TF_VAR_ssh_public_key_path"}, Kind: File, Group: inSSH, Verbs: making + " init", Existing: Fixed, Help: "its public half; empty: the private key's path with .pub"},
		{Key: "node_ssh_port", Flag: "node-ssh-port", Kind: Int, Default: 22, Min: 1, Max: 65535, Group: inSSH, Verbs: making + " init", Existing: Place, Help: "port of the nodes' SSH servers"},
		{Key: "ssh.proxy_jump", Flag: "proxy-jump", Kind: Text, Value: "hosts", Group: inSSH, Verbs: reaching + " init", Existing: Reach, Help: "bastion that nodes are reached through, user@host:port, several with commas; none: reached directly; empty: as the cluster was made"},
		{Key: "ssh.agent_socket", Flag: "ssh-agent-socket", Env: []string{"SSH_AUTH_SOCK"}, Kind: File, Group: inSSH, Verbs: reaching, Existing: Reach, Help: "SSH agent, for keys of nodes and hypervisors that are protected by a passphrase, and for the bastion"},
		{Key: "ssh.config_file", Flag: "ssh-config-file", Kind: File, Group: inSSH, Verbs: reaching, Existing: Reach, Help: "what it says of hosts counts for those of a hosts file and for the bastion, where nothing else is said; empty: ~/.ssh/config; /dev/null: none"},
		{Key: "deployer", Flag: "deployer", Kind: Text, Default: deploy.Proxmox, OneOf: []string{deploy.Proxmox, deploy.SimHosts}, Group: inCluster, Verbs: making, Existing: Place, Help: "what makes the VMs: OpenTofu on Proxmox VE, or, on a simulator only, plain calls without OpenTofu (for tests)"},
		{Key: "hosts_file", Flag: "hosts-file", Kind: File, Group: inCluster, Verbs: ofClusters, Existing: Place, Help: "make the cluster of the hosts that this file names, without Proxmox"},
		{Key: "keep", Flag: "keep", Kind: Text, OneOf: []string{"never", "on-failure", "always"}, Group: inCluster, Verbs: making + " configure test apply", Help: "whether the VMs stay after the run; empty: full never; up, configure and test on-failure (in CI never)"},
		{Key: "ttl", Flag: "ttl", Kind: Duration, Group: inCluster, Verbs: making + " init", Existing: Changed, Help: "time after which reap may delete the VMs, like 36h, 2d or 1w; 0 is never; empty: up none, full as long as its phases may take and an hour"},
		{Key: "skip_preflight", Flag: "skip-preflight", Kind: Bool, Group: inCluster, Verbs: making, Help: "do not check first whether up can succeed (what doctor checks)"},
		{Key: "sim", Flag: "sim", Kind: Bool, Group: inCluster, Verbs: making + " down reap init", Existing: Place, Help: "use the simulated Proxmox of this clusters directory"},
		{Key: "sim_hosts", Flag: "sim-hosts", Kind: Text, Default: "auto", OneOf: []string{"auto", "netns", "process"}, Group: inCluster, Verbs: asking + " init", Existing: Place, Help: "what the simulator's VMs are"},
	}
}

func workRows() []Setting {
	return []Setting{
		{Key: "tofu_bin", Flag: "tofu-bin", Kind: File, Group: inTofu, Verbs: sharing + " version", Help: "tofu or terraform program; empty: looked for"},
		{Key: "parallelism", Flag: "parallelism", Kind: Int, Default: 10, Min: 1, Max: 32, Group: inTofu, Verbs: destroying + " reap drift state", Help: "how many VMs are cloned, started and deleted at a time"},
		{Key: "lock_dir", Flag: "lock-dir", Kind: Dir, Group: inTofu, Verbs: destroying + " reap", Help: "directory of the locks on VM ids, shared by all runs on this machine; empty: this user's own, among the temporary files"},
		{Key: "wait", Flag: "wait", Kind: Duration, Group: inCluster, Verbs: destroying + " extend hold save restore delete", Help: "how long to wait for another run of the same cluster to end, like 10m; 0: exit 8 at once"},
		{Key: "on_drift", Flag: "on-drift", Kind: List, Value: "word", Group: inCluster, Verbs: "drift", Help: "program, and with further ones its arguments, that is run when drift of a cluster was found or has changed: it gets the document on stdin, and no secrets; no shell reads it"},
		{Key: "state", Kind: StateBackend, Value: "backend", Group: inTofu, Verbs: sharing, Help: "where clusters' states are kept, for a team that shares them: backend (http, s3, pg, gcs, azurerm, consul or kubernetes; local: the clusters directory) and the backend's own settings, with {name} for the cluster's name; secrets go by environment"},
		{Key: "state_passphrase", Kind: Text, Secret: true, Value: "passphrase", Group: inTofu, Verbs: sharing, Help: "encrypts what is kept in a backend, 16 characters or more"},
		{Key: "state_passphrase_file", Flag: "state-passphrase-file", Kind: File, Group: inTofu, Verbs: sharing, Help: "file that holds that passphrase, used where none is set otherwise"},
		{Key: "provider", Flag: "provider", Kind: Text, Default: "auto", Value: "source", Group: inTofu, Verbs: destroying + " drift state init", Help: "where tofu takes bpg/proxmox from: auto, registry or the directory of a mirror"},
		{Key: "provider_mirror", Flag: "provider-mirror", Kind: Dir, Group: inTofu, Verbs: destroying + " drift state init", Help: "directory of a provider mirror"},
		{Key: "binary", Flag: "binary", Kind: File, Group: inHive, Verbs: making + " configure", Help: "hive program to install on the nodes"},
		{Key: "tarball", Flag: "tarball", Kind: File, Group: inHive, Verbs: making + " configure", Help: "release of hive (tar.gz) to unpack on the nodes"},
		{Key: "source_dir", Flag: "source-dir", Kind: Dir, Group: inHive, Verbs: making + " configure", Help: "source tree to build hive from, as it is now; the second time, what has changed is sent"},
		{Key: "repo", Flag: "repo", Kind: Text, Value: "URL", Group: inHive, Verbs: "template configure full", Help: "git repository to build hive from"},
		{Key: "ref", Flag: "ref", Kind: Text, Value: "commit", Group: inHive, Verbs: "template configure full", Help: "branch, tag or commit of --repo; empty: its default branch"},
		{Key: "build", Flag: "build", Kind: Text, Default: "first", OneOf: []string{"first", "each", "local"}, Group: inHive, Verbs: "template configure full", Help: "where --source-dir and --repo are built: on the first node, whose build the others get, on each node, or on this machine"},
		{Key: "scripts_dir", Flag: "scripts-dir", Kind: Dir, Group: inHive, Verbs: "template configure full", Help: "directory of node scripts that replace the built-in ones of the same name"},
		{Key: "hive.layout", Flag: "layout", Kind: Text, Default: "auto", OneOf: []string{"dev", "systemd", "auto"}, Group: inHive, Verbs: "template configure full", Help: "how hive is installed: in ~/hive, or by its release's setup.sh with units; auto: as the nodes have it already, else dev"},
		{Key: "hive.init_flags", Flag: "init-flag", Kind: List, Value: "flag", Group: inHive, Verbs: "configure full", Help: "further flag of `hive admin init`, like --region=eu-north-1; may be repeated"},
		{Key: "hive.join_flags", Flag: "join-flag", Kind: List, Value: "flag", Group: inHive, Verbs: "configure full", Help: "further flag of `hive admin join`; may be repeated"},
		{Key: "packages", Flag: "packages", Kind: List, Value: "names", Group: inHive, Verbs: "template configure full", Help: "Debian packages that configure installs on the nodes, for suites that run there, like awscli,jq; may be repeated"},
		{Key: "hive.probe_timeout", Flag: "probe-timeout", Kind: Duration, Default: 10 * time.Second, Group: inHive, Verbs: "configure full test status wait restore", Help: "limit for one answer of hive on a node; what is late is asked once more before it counts as silent"},
		{Key: "health_timeout", Flag: "health-timeout", Kind: Duration, Default: 3 * time.Minute, Group: inHive, Verbs: "configure full restore", Help: "limit for all nodes to become healthy"},
		{Key: "suite", Flag: "suite", Kind: List, Default: []string{Smoke}, Value: "suite", Group: inSuites, Verbs: "test full", Help: "suite to run: smoke, iac, one of suites, or any command; may be repeated"},
		{Key: "suites", Kind: Suites, Value: "suites", Group: inSuites, Verbs: "test full", Help: "suites by name, each with command or path, and as wanted results, on, dir, env, timeout, retries, needs"},
		{Key: "suite_run", Flag: "run", Kind: Text, entry: checkPattern, Value: "regexp", Group: inSuites, Verbs: "test full", Help: "run only cases whose names match, of suites that can choose: smoke, iac, and those of Go tests"},
		{Key: "suite_skip", Flag: "skip", Kind: Text, entry: checkPattern, Value: "regexp", Group: inSuites, Verbs: "test full", Help: "leave out cases whose names match, likewise"},
		{Key: "retries", Flag: "retries", Kind: Int, Max: mostRetries, Group: inSuites, Verbs: "test full", Help: "how often what failed is run again: the cases where a suite can choose, else the suite; what passes then is flaky"},
		{Key: "allow_flaky", Flag: "allow-flaky", Kind: Bool, Group: inSuites, Verbs: "test full", Help: "pass though cases are flaky: failed, and passed when they were run again"},
		{Key: "require_all", Flag: "require-all", Kind: Bool, Group: inSuites, Verbs: "test full", Help: "fail where the cluster has not what a suite needs; else that suite is skipped"},
		{Key: "fault", Flag: "fault", Kind: Text, Value: "fault", Group: inSuites, Verbs: "test full", Help: "what goes wrong on all nodes while a suite runs that names no fault of its own, as fault apply takes it; none: nothing"},
		{Key: "quarantine", Kind: QuarantineList, Value: "cases", Group: inSuites, Verbs: "test full", Help: "cases whose failures are shown and do not decide: list of case (name or pattern), reason, and as wanted suite, until (a date)"},
		{Key: "suite_on", Flag: "on", Kind: Text, Value: "node", Group: inSuites, Verbs: "test full", Help: "node that suites are run on, by name or number, with what they need copied there; empty: this machine"},
		{Key: "suite_env", Flag: "suite-env", Kind: List, entry: checkVariable, Value: "variable", Group: inSuites, Verbs: "test full", Help: "variable of this environment that suites get too, or NAME=value; may be repeated"},
		{Key: "kill_leftovers", Flag: "kill-leftovers", Kind: Bool, Group: inSuites, Verbs: "test full", Help: "end the processes that a suite leaves running; else they are only named"},
		{Key: "reset_between", Flag: "reset-between", Kind: Text, Default: "never", OneOf: []string{"never", "suite"}, Group: inSuites, Verbs: "test full", Help: "suite: bring the nodes back to a snapshot before each suite but the first"},
		{Key: "reset_memory", Flag: "reset-memory", Kind: Bool, Default: true, Group: inSuites, Verbs: "test full", Help: "keep memory in that snapshot, if that is possible: a reset takes no boot"},
		{Key: "lost_after", Flag: "lost-after", Kind: Duration, Default: 2 * time.Minute, Group: inSuites, Verbs: "test full", Help: "how long a node may be lost while suites run, before they are ended; 0: however long"},
		{Key: "evidence_dir", Flag: "evidence-dir", Kind: Dir, Group: inSuites, Verbs: "up apply configure test down full merge template", Help: "directory outside of the clusters directory that gets a copy of what the run keeps, as NAME/RUN, for CI to upload: clusters/.runs is hidden, and often left out there"},
		{Key: "junit", Flag: "junit", Kind: File, Group: inSuites, Verbs: "up apply configure test down full merge", Help: "write the results as JUnit XML to this file too"},
	}
}

func proxmoxRows() []Setting {
	return []Setting{
		{Key: "proxmox.endpoint", Flag: "proxmox-endpoint", Env: []string{"PROXMOX_VE_ENDPOINT", "TF_VAR_proxmox_endpoint"}, Kind: Text, Value: "URL", Group: inProxmox, Verbs: making + " down reap init", Existing: Place, Help: "URL of the Proxmox VE API, like https://pve1:8006"},
		{Key: "proxmox.token", Env: []string{"PROXMOX_VE_API_TOKEN"}, Kind: Text, Secret: true, Value: "token", Group: inProxmox, Verbs: asking, Existing: Reach, Help: "API token, user@realm!name=secret; never a flag, so that it is in no process list"},
		{Key: "proxmox.token_file", Flag: "proxmox-token-file", Kind: File, Group: inProxmox, Verbs: asking + " init", Existing: Reach, Help: "file that holds the API token, used where none is set otherwise"},
		{Key: "proxmox.ca_file", Flag: "proxmox-ca-file", Kind: File, Group: inProxmox, Verbs: asking + " init", Existing: Reach, Help: "CA of the API's certificate; empty: the system's"},
		{Key: "proxmox.fingerprint", Flag: "proxmox-fingerprint", Kind: Text, Value: "SHA-256", Group: inProxmox, Verbs: asking + " init", Existing: Reach, Help: "SHA-256 of the API's certificate, in place of a CA"},
		{Key: "proxmox.insecure", Flag: "proxmox-insecure", Env: []string{"PROXMOX_VE_INSECURE"}, Kind: Bool, Group: inProxmox, Verbs: asking + " init", Existing: Reach, Help: "accept any certificate of the API"},
		{Key: "proxmox.call_timeout", Flag: "proxmox-call-timeout", Kind: Duration, Default: 10 * time.Second, Group: inProxmox, Verbs: making + " init", Help: "how long doctor waits for one answer of Proxmox VE, or of a hypervisor's SSH server"},
		{Key: "proxmox.pool", Flag: "pool", Kind: Text, Value: "pool", Group: inProxmox, Verbs: making + " down reap init", Existing: Place, Help: "resource pool of the VMs"},
		{Key: "proxmox.vmid_range", Flag: "vmid-range", Kind: Text, Default: "20000-29999", Value: "range", Group: inProxmox, Verbs: ofClusters + " init", Existing: NewNodes, Help: "range that VM ids are chosen from"},
		{Key: "proxmox.template_range", Flag: "template-range", Kind: Text, Default: "9000-9999", Value: "range", Group: inTemplates, Verbs: "template", Help: "range that the VM ids of templates are chosen from"},
		{Key: "templates", Kind: Layers, Value: "layers", Group: inTemplates, Verbs: "template", Help: "layers of templates by name, each with what it has on top of on (another layer; none: the image): packages, downloads (url or file, and sha256), files (from, to), scripts, and whether hive is installed; base, dev and single are there, and are added to"},
		{Key: "packer_bin", Flag: "packer-bin", Kind: File, Group: inTemplates, Verbs: "template", Help: "packer program of template build --builder packer; empty: looked for"},
		{Key: "template_max_age", Flag: "template-max-age", Kind: Duration, Default: 30 * 24 * time.Hour, Group: inTemplates, Verbs: making, Help: "age from which a template is stale, whatever it was made of; 0: none is"},
		{Key: "require_fresh_template", Flag: "require-fresh-template", Kind: Bool, Group: inTemplates, Verbs: making, Help: "refuse to clone a template that is stale: made of something else than now, or too old; else that is a warning"},
		{Key: "proxmox.vmid_base", Flag: "vmid-base", Kind: Int, Default: 0, Group: inProxmox, Verbs: ofClusters, Existing: NewNodes, Help: "VM id of node 1, the others follow; 0: chosen"},
		{Key: "proxmox.cpu_overcommit", Flag: "cpu-overcommit", Kind: Int, Default: 8, Min: 1, Max: 100, Group: inProxmox, Verbs: making + " init", Help: "virtual CPUs that may run for each CPU of a hypervisor"},
		{Key: "proxmox.ssh_username", Flag: "proxmox-ssh-username", Env: []string{"PROXMOX_VE_SSH_USERNAME", "TF_VAR_proxmox_ssh_username"}, Kind: Text, Default: "root", Value: "user", Group: inProxmox, Verbs: making + " down init", Existing: Reach, Help: "user on the hypervisors, for the provider"},
		{Key: "proxmox.ssh_private_key_path", Flag: "proxmox-ssh-private-key-path", Env: []string{"TF_VAR_ssh_private_key_path"}, Kind: File, Group: inProxmox, Verbs: making + " down init", Existing: Reach, Help: "private key for the hypervisors, for the provider; empty: the SSH agent"},
		{Key: "proxmox.hypervisors", Flag: "hypervisors", Env: []string{"TF_VAR_nodes"}, Kind: Hypervisors, Value: "list", Group: inProxmox, Verbs: making + " init", Existing: Place, Help: "hypervisors: list of name, address, port (22), datastore_id (" + placement.DefaultDatastore + "), snippet_store (" + placement.DefaultSnippetStore + "), template_vmid (template)"},
	}
}

func serverRows() []Setting {
	return []Setting{
		{Key: "state_server.listen", Flag: "listen", Kind: Text, Default: "127.0.0.1:9980", Value: "address:port", Group: inServer, Verbs: serving, Help: "where to serve; port 0 is any that is free"},
		{Key: "state_server.storage", Flag: "storage", Kind: Location, Group: inServer, Verbs: serving, Help: "directory, or s3://BUCKET/PREFIX (with ?endpoint=URL&region=NAME where it is not AWS's), that keeps the states"},
		{Key: "state_server.users_file", Flag: "users", Kind: File, Group: inServer, Verbs: serving, Help: "file of users, a line each: NAME:BCRYPT-HASH, and where they may not have all states :ci/,dev-*,NAME; read again when it changes"},
		{Key: "state_server.tls", Flag: "tls", Kind: Text, Default: "auto", OneOf: []string{"auto", "self-signed", "off"}, Group: inServer, Verbs: serving, Help: "auto: the certificate that is given, else none on loopback addresses and a self-signed one on others; off: passwords can be read on the way"},
		{Key: "state_server.tls_cert", Flag: "tls-cert", Kind: File, Group: inServer, Verbs: serving, Help: "the server's certificate; read again when it changes"},
		{Key: "state_server.tls_key", Flag: "tls-key", Kind: File, Group: inServer, Verbs: serving, Help: "its key"},
		{Key: "state_server.tls_names", Flag: "tls-name", Kind: List, Value: "name", Group: inServer, Verbs: serving, Help: "name or address that a self-signed certificate is for, beside this machine's; may be repeated"},
		{Key: "state_server.age_recipients", Flag: "age-recipient", Kind: List, Value: "recipient", Group: inServer, Verbs: serving, Help: "recipient of age that all is encrypted for, beside the server's own identity; may be repeated"},
		{Key: "state_server.age_identity_file", Flag: "age-identity-file", Kind: File, Group: inServer, Verbs: serving, Help: "identities of age that what is stored is decrypted with; the recipients of those are encrypted for, too"},
		{Key: "state_server.age_passphrase", Kind: Text, Secret: true, Value: "passphrase", Group: inServer, Verbs: serving, Help: "passphrase in place of an identity file: the identity is kept in the storage, encrypted with it; never a flag"},
		{Key: "state_server.age_passphrase_file", Flag: "age-passphrase-file", Kind: File, Group: inServer, Verbs: serving, Help: "file that holds that passphrase"},
		{Key: "state_server.max_size", Flag: "max-size", Kind: Int, Unit: "MiB", Default: 64, Min: 1, Max: 512, Group: inServer, Verbs: serving, Help: "largest state in MiB"},
	}
}

// find returns the row of a key.
func find(table []Setting, key string) (Setting, bool) {
	i := slices.IndexFunc(table, func(s Setting) bool { return s.Key == key })
	if i < 0 {
		return Setting{}, false
	}
	return table[i], true
}

// Takes reports whether a verb uses the setting of a key.
func Takes(verb, key string) bool {
	s, _ := find(Table(), key)
	return s.UsedBy(verb)
}

// GlobalFlags gives flags those of the settings that every verb uses.
func GlobalFlags(flags *pflag.FlagSet) { addFlags(flags, Setting.Global) }

// VerbFlags gives flags those of the settings that a verb uses and others do not.
func VerbFlags(flags *pflag.FlagSet, verb string) {
	addFlags(flags, func(s Setting) bool { return s.UsedBy(verb) && !s.Global() })
}

// OtherFlags gives flags those of all settings that a verb does not use, hidden: it takes them and tells of them only.
func OtherFlags(flags *pflag.FlagSet, verb string) {
	others := pflag.NewFlagSet("", pflag.ContinueOnError)
	addFlags(others, func(s Setting) bool { return !s.UsedBy(verb) })
	others.VisitAll(func(f *pflag.Flag) {
		f.Hidden = true
		flags.AddFlag(f)
	})
}

func addFlags(flags *pflag.FlagSet, chosen func(Setting) bool) {
	for _, s := range Table() {
		if s.Flag != "" && chosen(s) {
			s.addFlag(flags)
		}
	}
}

// Meaning is what the setting is, with the values that it can have.
func (s Setting) Meaning() string {
	switch {
	case len(s.OneOf) > 0:
		return s.Help + ": " + strings.Join(s.OneOf, ", ")
	case s.Max != 0 && s.Kind == Int:
		return s.Help + fmt.Sprintf(" (%d-%d)", s.Min, s.Max)
	}
	return s.Help
}

func (s Setting) addFlag(flags *pflag.FlagSet) {
	help := s.Meaning()
	switch s.Kind {
	case Bool:
		flags.BoolP(s.Flag, s.Short, asDefault[bool](s), help)
	case Int:
		flags.IntP(s.Flag, s.Short, asDefault[int](s), help)
	case Duration:
		value := durationValue(asDefault[time.Duration](s))
		flags.VarP(&value, s.Flag, s.Short, help)
	case List:
		flags.StringArrayP(s.Flag, s.Short, asDefault[[]string](s), help)
	default:
		flags.StringP(s.Flag, s.Short, asDefault[string](s), help)
	}
	flag := flags.Lookup(s.Flag)
	flag.Annotations = map[string][]string{groupAnnotation: {string(s.Group)}, valueAnnotation: {s.valueName()}}
}

// What flags of settings are annotated with.
const (
	groupAnnotation = "group"
	valueAnnotation = "value"
)

// OfSetting reports whether a flag is that of a setting.
func OfSetting(flag *pflag.Flag) bool { return flag.Annotations[groupAnnotation] != nil }

// GroupOf is the group of a setting's flag; empty for other flags.
func GroupOf(flag *pflag.Flag) string { return strings.Join(flag.Annotations[groupAnnotation], "") }

// valueName is what help calls the value; empty for those that take none.
func (s Setting) valueName() string {
	switch {
	case s.Value != "":
		return s.Value
	case len(s.OneOf) > 0:
		return "word"
	case s.Kind == Bool:
		return ""
	case s.Kind == Int:
		return "number"
	}
	return string(s.Kind)
}

// FlagValue is what help calls the value of a flag; empty where it takes none.
func FlagValue(flag *pflag.Flag) string {
	if OfSetting(flag) {
		return strings.Join(flag.Annotations[valueAnnotation], "")
	}
	name, _ := pflag.UnquoteUsage(flag)
	return name
}

// UsedBy reports whether a verb uses the setting.
func (s Setting) UsedBy(verb string) bool {
	return s.Verbs == everyVerb || slices.Contains(strings.Fields(s.Verbs), verb)
}

// OfVMs reports whether the setting means something only where VMs are made, and nothing for hosts that are there.
func (s Setting) OfVMs() bool {
	switch {
	case s.Key == "hosts_file":
		return false
	case s.Group == inProxmox, s.Group == inTofu:
		return true
	}
	return s.Existing != "" && s.Existing != ForRun && s.Existing != Reach
}

// OfOwnProxmox reports whether the setting means something only on a Proxmox VE of the user's own, and nothing on a
// simulated one.
func (s Setting) OfOwnProxmox() bool {
	return s.Group == inProxmox && s.Existing == Reach || s.Key == "proxmox.endpoint" || s.Key == "proxmox.hypervisors"
}

// Global reports whether all verbs use the setting.
func (s Setting) Global() bool { return s.Verbs == everyVerb }

func asDefault[T any](s Setting) T {
	v, _ := s.Default.(T)
	return v
}

// DefaultText is the default as a user would write it.
func (s Setting) DefaultText() string {
	switch v := s.Default.(type) {
	case nil:
		return ""
	case []string:
		return strings.Join(v, ",")
	case int:
		if v == 0 {
			return ""
		}
		return strconv.Itoa(v)
	case time.Duration:
		return progress.FormatLimit(v)
	}
	return fmt.Sprint(s.Default)
}
