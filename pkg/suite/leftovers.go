package suite

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"hive-test/pkg/phase"
	"hive-test/pkg/process"
	"hive-test/pkg/progress"
)

const (
	leftoverPause  = 500 * time.Millisecond // in which what is about to end may do so
	leftoverHurry  = time.Second            // between TERM and KILL where the run was stopped; else it is Options.Grace
	leftoverKilled = 5 * time.Second        // in which what is killed is gone
	leftoverPoll   = 20 * time.Millisecond
)

// leftovers tells of what a suite has left running outside its group, which is killed anyway, and ends it where that is
// asked for.
func (r *runner) leftovers(ctx context.Context, artifacts string, group int, pipe string, record *recorder) {
	if process.Self().Place == "" {
		if r.KillLeftovers {
			record.warn("what it may have left running is not looked for on this system")
		}
		return
	}
	find := func() []int { return leftBehind(artifacts, group, pipe) }
	left := lasting(find, leftoverPause)
	if len(left) == 0 {
		return
	}
	names := withLines(left)
	if r.KillLeftovers {
		signal(left, syscall.SIGTERM)
		if left = lasting(find, r.leftoverGrace(ctx)); len(left) > 0 {
			signal(left, syscall.SIGKILL)
			left = lasting(find, leftoverKilled)
		}
	}
	r.warnOfLeftovers(names, withLines(left), "", record.warn)
}

// leftoverGrace is how long leftovers have to end after TERM, before KILL.
func (r *runner) leftoverGrace(ctx context.Context) time.Duration {
	if ctx.Err() != nil {
		return min(leftoverHurry, phase.Grace(ctx)/4)
	}
	return r.Grace
}

// leftover is a process that a suite has left running.
type leftover struct{ pid, line string }

// warnOfLeftovers tells of what was left running, where something was, and of what of it could not be ended.
func (r *runner) warnOfLeftovers(left, remains []leftover, where string, warn func(string)) {
	switch {
	case len(left) == 0:
	case !r.KillLeftovers:
		warn("it has left running" + where + ": " + describe(left) + "; --kill-leftovers ends such processes")
	case len(remains) > 0:
		warn("it has left running" + where + ", and that could not be ended: " + describe(remains))
	default:
		warn("it had left running" + where + ", and that was ended: " + describe(left))
	}
}

// lasting are the processes that find still finds when the time is up; none as soon as it finds none.
func lasting(find func() []int, patience time.Duration) []int {
	for end := time.Now().Add(patience); ; time.Sleep(leftoverPoll) {
		if left := find(); len(left) == 0 || time.Now().After(end) {
			return left
		}
	}
}

func signal(pids []int, s syscall.Signal) {
	for _, pid := range pids {
		_ = syscall.Kill(pid, s) // whether it has ended is looked for
	}
}

// leftBehind are the processes of a suite that live on: they have its environment or hold the pipe of its output, or
// such a one has started them. What hides both, and what another user runs, is not found.
func leftBehind(artifacts string, group int, pipe string) []int {
	self := os.Getpid()
	stats, own := map[int]process.Stat{}, map[int]bool{}
	for _, pid := range process.All() {
		stat, known := process.ReadStat(pid)
		if !known || stat.Dead() || stat.Group == group || pid == self {
			continue
		}
		stats[pid] = stat
		env := process.Environment(pid)
		own[pid] = slices.Contains(env, "ARTIFACTS="+artifacts) || slices.Contains(env, "ARTIFACT_DIR="+artifacts) ||
			pipe != "" && process.Holds(pid, pipe)
	}
	var left []int
	for pid := range stats {
		for at := pid; at != 0; at = stats[at].Parent {
			if own[at] {
				left = append(left, pid)
				break
			}
		}
	}
	slices.Sort(left)
	return left
}

// withLines are processes with their command lines.
func withLines(pids []int) (left []leftover) {
	for _, pid := range pids {
		left = append(left, leftover{strconv.Itoa(pid), strings.Join(process.Arguments(pid), " ")})
	}
	return left
}

// describe names processes for people: "1234 (sleep 60), 1240 (nats-server)".
func describe(left []leftover) string {
	const most, width = 10, 80
	var names []string
	for i, l := range left {
		if i == most {
			names = append(names, fmt.Sprintf("and %d more", len(left)-most))
			break
		}
		names = append(names, l.pid+" ("+progress.Clip(progress.OneLine(l.line), width)+")")
	}
	return strings.Join(names, ", ")
}
