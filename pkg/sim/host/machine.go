// Package host makes the simulator's virtual machines real: each one that is started becomes a host on this machine
// with its own addresses, host name, processes, SSH server and guest agent.
//
// A machine of kind netns sees the real machine's files below its own changes, which are its disk, and nothing of its
// processes, its networks and the simulator's directory. It has no route beyond the simulator's two networks. Its root
// lacks the capabilities that would reach the real kernel (modules, clock, devices, reboot).
//
// A machine of kind process is not isolated at all. Its processes run as the simulator's user and see the real machine;
// sudo, hostname, apt-get and cloud-init are stand-ins in its PATH, and HOME, TMPDIR and SIM_HOST_ROOT point into its
// directory, where cloud-init puts files such as /var/lib/NAME/done. The guest agent reads a file there first, then
// really.
//
// Cloud-init is a subset: user, keys, host name, and of the vendor data write_files and such entries of runcmd as only
// write below /run, /var/lib and /tmp (touch, mkdir -p, echo, printf, true, joined by && or lines, one > or >>, no
// expansion). The rest is logged to /var/log/cloud-init-output.log. Vendor data is applied once per instance.
package host

import (
	"context"
	"errors"
	"net/netip"
	"time"
)

// Kind is how a host is kept apart from the machine that runs it.
type Kind string

// The kinds of host.
const (
	KindNetns   Kind = "netns"   // own network, mount, pid, uts and ipc namespaces, overlay over /; needs root on Linux
	KindProcess Kind = "process" // plain processes on 127.77.0.0/16 addresses; no privileges, no isolation
)

// NIC is a network card as the hypervisor has assigned it. MAC is upper case with colons. Bridge is vmbr0 or vmbr1.
// Address is empty for DHCP (the simulator's own allocation), else a static address with its prefix length.
type NIC struct {
	MAC     string
	Bridge  string
	Address netip.Prefix
}

// CloudInit is what a VM's cloud-init drive holds, as far as the simulator honours it. An empty User is that of
// Debian's cloud image, debian.
type CloudInit struct {
	Hostname   string
	User       string
	SSHKeys    []string // authorized_keys lines
	VendorData []byte   // cloud-config YAML, may be empty
}

// Spec describes one machine. ID is unique and stable ("20001"); it names the machine's directory.
type Spec struct {
	ID        string
	NICs      []NIC
	CloudInit CloudInit
	Agent     bool // the guest agent answers
	// Resumed says that the machine goes on from saved memory, which takes no boot. Its processes start afresh: memory is
	// not kept.
	Resumed bool
	// Unbooted says that there is nothing on the disk: power is on, and nothing boots.
	Unbooted bool
	// Install is the cloud-config that an installer has left for the first boot from the disk that it has just filled: it makes its
	// users, and cloud-init heeds no drive from then on, until what the installer has written to /etc/cloud is taken away.
	Install []byte
}

// PowerState is what the hypervisor's power indicator shows.
type PowerState string

// Power states.
const (
	Running PowerState = "running"
	Stopped PowerState = "stopped"
)

// ErrAgentNotRunning means that the guest has not booted far enough, or has no agent.
var ErrAgentNotRunning = errors.New("guest agent is not running")

// Interface is one network interface as the guest agent reports it (MAC in lower case, loopback included).
type Interface struct {
	Name      string
	MAC       string
	Addresses []netip.Prefix
}

// ExecResult is the outcome of a command run by the guest agent.
type ExecResult struct {
	Exited   bool
	ExitCode int
	Signal   int
	Stdout   []byte
	Stderr   []byte
}

// Machines is what the simulated hypervisor needs of its hosts. All methods are safe for concurrent use; calls about
// different machines do not wait for one another.
type Machines interface {
	// Kind says which kind of host this makes.
	Kind() Kind
	// SSHPort is the port on which every host's SSH server listens (22 where that is allowed).
	SSHPort() int
	// Start powers a machine on and returns once its processes exist; booting goes on in the background. Starting a
	// running machine is an error.
	Start(ctx context.Context, spec Spec) error
	// State tells whether the machine's processes are alive.
	State(id string) PowerState
	// Booted is when the machine was started; zero if it is stopped.
	Booted(id string) time.Time
	// Shutdown asks the guest to power off and waits for it.
	Shutdown(ctx context.Context, id string) error
	// Stop ends all processes of the machine at once. Stopping a stopped machine does nothing.
	Stop(ctx context.Context, id string) error
	// Remove stops the machine if need be and deletes everything of it from this machine.
	Remove(ctx context.Context, id string) error
	// SetIPv6 makes DHCP give addresses of IPv6, and no others, from now on; false: of IPv4 again.
	SetIPv6(on bool) error
	// Renumber gives every card that has its address by DHCP another one, at once if the machine runs, else when it
	// starts.
	Renumber(ctx context.Context, id string) error
	// Clone copies the machine's disk (its file changes) to another id that must not exist. The source is stopped.
	Clone(ctx context.Context, from, to string) error
	// Snapshot is Clone for a machine that may run: the copy is of one moment.
	Snapshot(ctx context.Context, from, to string) error
	// Rollback stops a machine and replaces its disk by the one that Snapshot has copied.
	Rollback(ctx context.Context, snapshot, id string) error
	// Interfaces, Exec, ExecStatus and ReadFile go through the guest agent; they return ErrAgentNotRunning until it is
	// up.
	Interfaces(ctx context.Context, id string) ([]Interface, error)
	Exec(ctx context.Context, id string, argv []string, stdin []byte) (pid int, err error)
	ExecStatus(ctx context.Context, id string, pid int) (ExecResult, error)
	ReadFile(ctx context.Context, id, path string) ([]byte, error)
	// Close ends every machine's processes and removes every namespace, interface and mount; disks stay.
	Close() error
}
