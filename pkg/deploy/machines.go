package deploy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"hive-test/pkg/cluster"
)

// VMRef names one VM that still exists, and what stands in the way of its end.
type VMRef struct {
	VMID       int
	Name       string
	Hypervisor string
	Protected  bool   // nothing may delete it before that is taken off
	Guarded    bool   // it says that it is of a cluster that only who names it may destroy
	Lock       string // why Proxmox VE keeps others away from it, such as backup; empty: it does not
	// Storages are where its disks are, Snippets the volumes of its cloud-init snippets: what may be left when it is
	// gone.
	Storages []string
	Snippets []string
}

// String names the VM for people.
func (v VMRef) String() string { return fmt.Sprintf("VM %d %s on %s", v.VMID, v.Name, v.Hypervisor) }

// Power is a node's live state as its hypervisor reports it.
type Power struct {
	// running, stopped, missing, foreign (the id is somebody else's VM), unmade (up is about to make it), making (up is at
	// it) or unknown
	Power string
	// Unmarked says of one that is foreign that it carries nobody's owner id, as one that is just being made.
	Unmarked bool
	// why Power is unknown; empty: it says itself that it does not know, as it does for a moment after its start
	Why   string
	Agent string // ok, silent, off or unknown
	// Lock is why its hypervisor lets nobody change the machine now, such as backup; empty: it does. Host is that one.
	Lock, Host string
	// Management and Data are the addresses reported now; invalid if unknown.
	Management, Data netip.Addr
}

// Machine tells a node's machine from another one that takes its place.
type Machine struct {
	ID   string // empty: not known
	Gone bool   // there is no such machine any more, and Err says so
	Err  error  // why it is not known
}

// Diagnostic is what a hypervisor tells of a VM. What is kept in a file of that name, ".txt" where it has no other end.
// Err says why it could not, or not all of it.
type Diagnostic struct {
	What string
	Text string
	Err  error
}

// UnseenError says that VMs that may be the cluster's cannot be read; all others were.
type UnseenError struct {
	VMs   []VMRef // with what is known of them without being read: no more than where they are
	Cause error
}

// Error says of each why.
func (e *UnseenError) Error() string { return e.Cause.Error() }

// Unwrap returns why.
func (e *UnseenError) Unwrap() error { return e.Cause }

// Hint names the hypervisors to bring back.
func (e *UnseenError) Hint() string {
	var hosts []string
	for _, vm := range e.VMs {
		if !slices.Contains(hosts, vm.Hypervisor) {
			hosts = append(hosts, vm.Hypervisor)
		}
	}
	slices.Sort(hosts)
	return "bring back " + strings.Join(hosts, ", ")
}

// UnmarkedError is of a VM that carries a cluster's owner id, but not all its marks: somebody has changed it. It counts
// as somebody else's, and is not forgotten.
type UnmarkedError struct {
	VM   VMRef
	Why  string // what it lacks
	Mend string // the command that marks it again
}

// Error names the VM and what it lacks.
func (e *UnmarkedError) Error() string {
	return fmt.Sprintf("%s carries the cluster's owner id, but was changed: %s", e.VM, e.Why)
}

// NodeName returns the name of the VM, which is that of its node.
func (e *UnmarkedError) NodeName() string { return e.VM.Name }

// Hint marks it again, or lets it go.
func (e *UnmarkedError) Hint() string {
	return "if it is the cluster's, mark it again: " + e.Mend +
		"\nif it is not, take the owner id out of its description"
}

// Dead says why the node of a VM in that state cannot be alive; empty where it can.
func (p Power) Dead() string {
	switch p.Power {
	case "running", "unknown", "":
		return ""
	case "missing":
		return "its VM is gone"
	case "unmade":
		return "it is not made yet"
	case "making":
		return "its VM is being made"
	case "foreign":
		return "its VM is gone, and its id is somebody else's VM"
	}
	return "its VM is " + p.Power
}

// WhileMaking is the state where an up is at work that makes what is not there.
func (p Power) WhileMaking() Power {
	switch {
	case p.Power == "missing":
		p.Power = "unmade"
	case p.Power == "foreign" && p.Unmarked:
		p.Power = "making"
	}
	return p
}

// Lost is Dead as an error; nil where the node can be alive.
func (p Power) Lost() error {
	if p.Dead() != "" {
		return DeadError{p.Power}
	}
	return nil
}

// Mendable reports whether up starts the VM, or makes it anew.
func (p Power) Mendable() bool { return p.Power == "stopped" || p.Power == "missing" }

// DeadError says why a node cannot be alive whose VM is in that state.
type DeadError struct{ State string }

// Error says it.
func (e DeadError) Error() string { return Power{Power: e.State}.Dead() }

// Mendable reports whether up starts the VM, or makes it anew.
func (e DeadError) Mendable() bool { return Power{Power: e.State}.Mendable() }

// Run is what a run tells other machines of itself.
type Run struct {
	Cluster cluster.Name
	OwnerID string
	Verb    string
	Who     string // user@host
	// Place, PID and Start tell its process from all others: processes of one place see each other's ids.
	Place string
	PID   int
	Start string
	// Destroys says that it destroys the cluster at its end, whatever happens, Provisioning that the cluster was never
	// up so far.
	Destroys, Provisioning bool
	// Deletes are the VMs that it is about to delete, where it knows no others.
	Deletes []VMRef
}
