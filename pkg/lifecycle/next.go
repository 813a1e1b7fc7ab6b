package lifecycle

import (
	"errors"
	"fmt"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy"
	"hive-test/pkg/hive"
)

// ConfigureCommand returns the command that puts hive on the cluster as it is now: with --force where hive was formed
// of other nodes, and with a place for the program where none was ever named and none is known to be on the nodes.
func (r *Job) ConfigureCommand() string {
	command := fmt.Sprintf("hive-test configure %s", r.Record.Name)
	if r.Record.OtherMembers() {
		command += " --force"
	}
	if _, formed := r.Record.Formed(); !formed && !r.Hive.Named() && !r.Record.Target.Simulated {
		command += " --binary FILE"
	}
	return command
}

// StartCommand returns the command that starts hive where it has ended.
func StartCommand(name cluster.Name) string {
	return fmt.Sprintf("hive-test configure %s --from start", name)
}

// MendingCommand returns the command that starts the VM of a node that failure is about, or makes it anew; empty: the
// failure is about something else.
func (r *Job) MendingCommand(failure error) string {
	if dead, ok := errors.AsType[deploy.DeadError](failure); ok && dead.Mendable() {
		return fmt.Sprintf("hive-test up %s", r.Record.Name)
	}
	return ""
}

// unconfigured returns why no hive is to be expected: what the last configure has left that did not come to its end, or
// that all nodes it was formed of are gone; nil: it is.
func (r *Job) unconfigured() error {
	last := r.Record.Phases[cluster.PhaseConfigure]
	if last.Status == cluster.PhaseDone {
		if _, formed := r.Record.Formed(); !formed {
			return halfConfigured(fmt.Sprintf("all VMs of %s were made anew since hive was formed on it", r.Record.Name))
		}
		return nil
	}
	how := "failed"
	if last.Status == cluster.PhaseRunning {
		how = "was interrupted"
	}
	if last.Step != "" {
		how += " at its step " + last.Step
	}
	hiveNow := "hive is half done"
	if formed, was := r.Record.Formed(); was && !formed.Half && untouched(last.Step) {
		hiveNow = "the hive of before was not touched, and is not the one that was asked for"
	}
	return halfConfigured(fmt.Sprintf("the last configure of %s %s: %s", r.Record.Name, how, hiveNow))
}

// untouched reports whether a configure that has ended at that step has left the hive of before as it was.
func untouched(step string) bool {
	switch step {
	case "", hive.StepCloudInit, hive.StepOS, hive.StepInstall:
		return true
	}
	return false
}

// halfConfigured says what is left of a configure that did not come to its end, or on VMs that are others by now. It is an ErrNotConfigured.
type halfConfigured string

func (e halfConfigured) Error() string { return string(e) }

// Is makes it one.
func (e halfConfigured) Is(target error) bool { return target == ErrNotConfigured }
