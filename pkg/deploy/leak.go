package deploy

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"hive-test/pkg/cluster"
	"hive-test/pkg/progress"
)

// LeakError means that VMs of the cluster may still exist; they are named.
type LeakError struct {
	Name cluster.Name
	VMs  []VMRef
	// Unseen are VMs that may remain, too: their hypervisors do not answer.
	Unseen []VMRef
	// Known says that VMs and Unseen are all that remains; else the hypervisors could not be asked.
	Known bool
	Cause error
	// Next finishes the job; empty: down with --force, or where that was given already, the same once more.
	Next   string
	Forced bool
}

// Error names what remains.
func (e *LeakError) Error() string {
	what := "VMs of cluster " + string(e.Name) + " may remain"
	switch {
	case len(e.VMs) > 0 && len(e.Unseen) > 0:
		what = "still there: " + listOf(e.VMs) + "; not seen, and may be there: " + listOf(e.Unseen)
	case len(e.VMs) > 0:
		what = "still there: " + listOf(e.VMs)
	case len(e.Unseen) > 0:
		what = "not seen, and may be there: " + listOf(e.Unseen)
	case e.Known && IsUnmarked(e.Cause):
		what = "not all of cluster " + string(e.Name) + " was removed"
	case e.Known:
		what = "no VM of cluster " + string(e.Name) + " is left, but it was not removed to the end"
	}
	if e.Cause == nil {
		return what
	}
	return what + ": " + e.Cause.Error()
}

// IsUnmarked reports whether err is that a machine does not say whose it is.
func IsUnmarked(err error) bool {
	_, ok := errors.AsType[*UnmarkedError](err)
	return ok
}

func listOf(vms []VMRef) string {
	var names []string
	for _, vm := range vms {
		names = append(names, vm.String())
	}
	return strings.Join(names, ", ")
}

// Unwrap returns what went wrong.
func (e *LeakError) Unwrap() error { return e.Cause }

// Code returns the kind of problem.
func (e *LeakError) Code() string { return "vms-left" }

// NodeNames returns the names of the VMs that may remain.
func (e *LeakError) NodeNames() []string {
	var names []string
	for _, vm := range slices.Concat(e.VMs, e.Unseen) {
		names = append(names, vm.Name)
	}
	return names
}

// Hint names the command that finishes the job.
func (e *LeakError) Hint() string {
	hint := cmp.Or(e.Next, "hive-test down "+string(e.Name)+" --force")
	inner := progress.HintOf(e.Cause)
	if inner == "" && e.Forced && e.Next == "" {
		inner = "see in this run's evidence, and in the tasks of Proxmox VE, what stands in the way"
	}
	if inner != "" {
		hint = inner + "\nthen: " + hint
	}
	return hint
}
