package suite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
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

// leftovers tells of what a suite has left running outside its group, which is killed anyway, and ends it where that is asked for.
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
	names := describe(left)
	if !r.KillLeftovers {
		record.warn("it has left running: " + names + "; --kill-leftovers ends such processes")
		return
	}
	patience := r.Grace
	if ctx.Err() != nil {
		patience = min(leftoverHurry, phase.Grace(ctx)/4)
	}
	refused := signal(left, syscall.SIGTERM)
	if left = lasting(find, patience); len(left) > 0 {
		refused = signal(left, syscall.SIGKILL)
		left = lasting(find, leftoverKilled)
	}
	if len(left) > 0 {
		record.warn(fmt.Sprintf("it has left running, and that could not be ended: %s: %v", describe(left), refused))
		return
	}
	record.warn("it had left running, and that was ended: " + names)
}

// lasting are the processes that find still finds when the time is up; none as soon as it finds none.
func lasting(find func() []int, patience time.Duration) []int {
	for end := time.Now().Add(patience); ; time.Sleep(leftoverPoll) {
		if left := find(); len(left) == 0 || time.Now().After(end) {
			return left
		}
	}
}

func signal(pids []int, s syscall.Signal) error {
	var errs []error
	for _, pid := range pids {
		if err := syscall.Kill(pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// leftBehind are the processes of a suite that live on: they have its environment or hold the pipe of its output, or such a one has
// started them. What hides both, and what another user runs, is not found.
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
		own[pid] = slices.Contains(env, "ARTIFACTS="+artifacts) || slices.Contains(env, "ARTIFACT_DIR="+artifacts) || pipe != "" && process.Holds(pid, pipe)
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

// describe names processes for people: "1234 (sleep 60), 1240 (nats-server)".
func describe(pids []int) string {
	const most, width = 10, 80
	var names []string
	for i, pid := range pids {
		if i == most {
			names = append(names, fmt.Sprintf("and %d more", len(pids)-most))
			break
		}
		line := strings.Join(strings.Fields(progress.Clean(strings.Join(process.Arguments(pid), " "))), " ")
		if r := []rune(line); len(r) > width {
			line = string(r[:width]) + "..."
		}
		names = append(names, fmt.Sprintf("%d (%s)", pid, line))
	}
	return strings.Join(names, ", ")
}
