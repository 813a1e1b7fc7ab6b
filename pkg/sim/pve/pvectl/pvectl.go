// Package pvectl is the command `hive-sim pve`: it keeps one simulated Proxmox VE per clusters directory running in the
// background, in the directory's subdirectory .sim.
package pvectl

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"hive-test/pkg/sim/host"
	"hive-test/pkg/sim/pve"
)

// Streams are where a command writes: data on Out, narration on Err.
type Streams struct {
	Out, Err io.Writer
}

// errUsage means that the arguments make no sense; what is wrong has been printed.
var errUsage = errors.New("usage")

const usage = `usage: hive-sim pve COMMAND [flags]

  start    start the simulated Proxmox VE of a clusters directory in the background, unless it runs
  stop     stop it and all its VMs; --wipe also removes everything that it knows but its id
  status   tell whether it runs
  env      print shell exports of endpoint, token and CA (--format json: everything about it)
  serve    run it in the foreground

"hive-sim pve COMMAND -h" lists a command's flags.
`

// Main runs `hive-sim pve` with the arguments that follow "pve" and returns an exit code: 0 done, 1 failed, 2 usage, 3
// another simulator than the one that --id names. self is the running executable. A ctx that is done ends serve
// cleanly.
func Main(ctx context.Context, self string, args []string, std Streams) int {
	err := run(ctx, self, args, std)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errUsage):
		return 2
	}
	if errors.Is(err, errAnother) {
		fmt.Fprintln(std.Err, "hive-sim pve:", err)
		return 3
	}
	fmt.Fprintln(std.Err, "hive-sim pve:", err)
	return 1
}

func run(ctx context.Context, self string, args []string, std Streams) error {
	if len(args) == 0 {
		fmt.Fprint(std.Err, usage)
		return errUsage
	}
	o, err := parse(args[0], args[1:], std)
	if err != nil {
		return err
	}
	o.self = self
	switch args[0] {
	case "start":
		return o.start(ctx, std)
	case "stop":
		return o.stop(ctx, std)
	case "status":
		return o.status(ctx, std)
	case "env":
		return o.env(ctx, std)
	}
	return o.serve(ctx, std)
}

// options are the flags of all commands.
type options struct {
	self        string
	clustersDir string
	dir         string // clustersDir/.sim
	format      string
	wipe        bool
	id          string // which simulator start may start

	hosts, version, faults     string
	hypervisors, nodeCores     int
	nodeMemoryGB, nodeStoreGB  int
	taskDuration, bootDelay    time.Duration
	authDelay, idle            time.Duration
	resourcesLag, agentTimeout time.Duration
	haDelay                    time.Duration
	background                 bool // serve was started by start, which waits for it
}

func parse(command string, args []string, std Streams) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet("hive-sim pve "+command, flag.ContinueOnError)
	f.SetOutput(std.Err)
	f.StringVar(
		&o.clustersDir, "clusters-dir", cmp.Or(os.Getenv("HIVE_TEST_CLUSTERS_DIR"), "clusters"),
		"directory of the clusters (HIVE_TEST_CLUSTERS_DIR); the simulator lives in its .sim",
	)
	switch command {
	case "start", "serve":
		o.serverFlags(f)
		f.StringVar(
			&o.id, "id", "",
			"start only the simulator with this id, or any that was here before; without it, one is made where there "+
				"is none",
		)
	case "stop":
		f.BoolVar(
			&o.wipe, "wipe", false, "also remove the simulator's state: its VMs, keys and certificates; its id stays",
		)
	case "status", "env":
		f.StringVar(&o.format, "format", "shell", "shell or json")
	default:
		fmt.Fprint(std.Err, usage)
		if command == "-h" || command == "--help" || command == "help" {
			return nil, flag.ErrHelp
		}
		return nil, errUsage
	}
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil, err
		}
		return nil, errUsage
	}
	if f.NArg() > 0 {
		fmt.Fprintf(std.Err, "hive-sim pve %s takes no arguments, only flags; got %q\n", command, f.Arg(0))
		return nil, errUsage
	}
	return o, o.check(std)
}

func (o *options) serverFlags(f *flag.FlagSet) {
	f.StringVar(
		&o.hosts, "hosts", "auto", "kind of host that a VM becomes: auto, netns (root) or process (no isolation)",
	)
	f.StringVar(&o.version, "pve-version", pve.Version84, "Proxmox VE to be: 8.4 or 9.2")
	f.StringVar(&o.faults, "faults", "", "JSON `file` of faults to make from the start")
	f.IntVar(&o.hypervisors, "hypervisors", 3, "hypervisors of a new simulator")
	f.IntVar(&o.nodeCores, "node-cores", 64, "cores of each")
	f.IntVar(&o.nodeMemoryGB, "node-memory-gb", 256, "memory of each")
	f.IntVar(&o.nodeStoreGB, "node-storage-gb", 2048, "capacity of each storage of each")
	f.DurationVar(&o.taskDuration, "task-duration", 200*time.Millisecond, "least duration of a task")
	f.DurationVar(
		&o.bootDelay, "boot-delay", 300*time.Millisecond, "time from power-on until SSH and guest agent answer",
	)
	f.DurationVar(&o.authDelay, "auth-delay", pve.DefaultAuthDelay, "how long a refused login is held back")
	f.DurationVar(&o.agentTimeout, "agent-timeout", pve.DefaultAgentTimeout, "how long a call waits for a guest agent")
	f.DurationVar(&o.haDelay, "ha-delay", pve.DefaultHADelay, "how long the HA manager takes to do what is asked of it")
	f.DurationVar(&o.resourcesLag, "resources-lag", 0, "how old names and states in /cluster/resources may be")
	f.DurationVar(&o.idle, "idle", 10*time.Minute, "end after so long without a VM and without a request (0: never)")
	f.BoolVar(&o.background, "background", false, "used by start")
}

func (o *options) check(std Streams) error {
	complain := func(format string, args ...any) error {
		fmt.Fprintf(std.Err, "hive-sim pve: "+format+"\n", args...)
		return errUsage
	}
	switch {
	case o.format != "" && o.format != "shell" && o.format != "json":
		return complain("unknown format %q: use shell or json", o.format)
	case o.version != "" && o.version != pve.Version84 && o.version != pve.Version92:
		return complain("unknown Proxmox VE %q: use %s or %s", o.version, pve.Version84, pve.Version92)
	case o.hosts != "" && o.hosts != "auto" && o.hosts != string(host.KindNetns) && o.hosts != string(host.KindProcess):
		return complain("unknown kind of host %q: use auto, %s or %s", o.hosts, host.KindNetns, host.KindProcess)
	case o.version != "" && (o.hypervisors < 1 || o.nodeCores < 1 || o.nodeMemoryGB < 1 || o.nodeStoreGB < 1):
		return complain("hypervisors and their cores, memory and storage must be at least 1")
	}
	dir, err := filepath.Abs(o.clustersDir)
	if err != nil {
		return fmt.Errorf("find the clusters directory: %w", err)
	}
	o.clustersDir, o.dir = dir, filepath.Join(dir, ".sim")
	if o.faults != "" {
		if o.faults, err = filepath.Abs(o.faults); err != nil {
			return fmt.Errorf("find the file of faults: %w", err)
		}
		if _, err := pve.ReadFaults(o.faults); err != nil {
			return complain("%v", err)
		}
	}
	return nil
}

// Info is what `hive-sim pve env --format json` prints. Fields may be added, never renamed within a schema number.
type Info struct {
	Schema int `json:"schema"`
	PID    int `json:"pid"`
	// of the simulator of this clusters directory, for as long as there is one
	ID             string           `json:"id"`
	Endpoint       string           `json:"endpoint"`
	Token          string           `json:"token"`
	CAFile         string           `json:"ca_file"`
	HostsKind      string           `json:"hosts_kind"`
	PVEVersion     string           `json:"pve_version"`
	Hypervisors    []pve.Hypervisor `json:"hypervisors"`
	SSHUser        string           `json:"ssh_user"`
	SSHPrivateKey  string           `json:"ssh_private_key"`
	NodeSSHPort    int              `json:"node_ssh_port"`
	ProviderMirror string           `json:"provider_mirror"`
	HiveBinary     string           `json:"hive_binary"`
	OSImage        string           `json:"os_image"`
	// Networks are those of the bridges. Of the last number, 1 is the simulator's own and 2 to 9 are free for static
	// addresses.
	Networks map[string]netip.Prefix `json:"networks"`
}
