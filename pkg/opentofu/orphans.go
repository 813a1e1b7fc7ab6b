package opentofu

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"hive-test/pkg/process"
	"hive-test/pkg/progress"
	"hive-test/pkg/wait"
)

// ownerVariable and runVariable tell, in the environment of a tofu and of all that it starts, whose clusters they work
// on, and which hive-test has started them.
const (
	ownerVariable = "HIVE_TEST_OWNER"
	runVariable   = "HIVE_TEST_PROCESS"
)

// orphanTime is how long a tofu that was told to end may take to write its state, and goneTime how long what was killed
// may take to be gone.
const (
	orphanTime = 10 * time.Second
	goneTime   = time.Second
)

// EndOrphans ends what runs that died have left at work on this machine, on the clusters of one owner id: a tofu whose
// hive-test was killed, which is told first and gets its time, and providers whose tofu is gone, which would stay for
// ever, with credentials in their environment, and go on with what they were told to do. What belongs to a run that
// lives is left alone. Where there is no /proc it does nothing.
func EndOrphans(ctx context.Context, ownerID string, sink progress.Sink) {
	if ownerID == "" {
		return
	}
	all := func() []orphan { return orphans(ownerID) }
	for _, o := range all() {
		progress.Infof(sink, "ending what was left at work: %s (pid %d)", o.name, o.pid)
	}
	endAll(ctx, syscall.SIGINT, orphanTime, func() []orphan { return slices.DeleteFunc(all(), orphan.provider) })
	if ctx.Err() == nil { // else they have been told, and whoever comes next ends what does not listen
		endAll(ctx, syscall.SIGKILL, goneTime, all)
	}
}

// orphan is a process that nobody waits for any more.
type orphan struct {
	pid  int
	name string
}

// provider reports whether it is a provider: one ends when it is killed, and has nothing to write.
func (o orphan) provider() bool { return strings.HasPrefix(o.name, "terraform-provider-") }

// endAll sends a signal to those that are left, and waits until there are none, for that long at most.
func endAll(ctx context.Context, signal syscall.Signal, limit time.Duration, left func() []orphan) {
	for _, o := range left() {
		_ = syscall.Kill(o.pid, signal) // it may have ended meanwhile
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for range (wait.Backoff{First: 5 * time.Millisecond, Max: 100 * time.Millisecond}).Tries(ctx) {
		if len(left()) == 0 {
			return
		}
	}
}

// orphans are the processes on the owner's clusters whose run is dead, and the providers among them whose tofu is.
func orphans(ownerID string) []orphan {
	var found []orphan
	for _, pid := range process.All() {
		o, env, known := owned(pid, ownerID)
		if !known {
			continue
		}
		stat, alive := process.ReadStat(pid)
		if !alive || stat.Dead() {
			continue
		}
		_, _, byTofu := owned(stat.Parent, ownerID)
		if process.Parse(env[runVariable]).Dead() || o.provider() && !byTofu {
			found = append(found, o)
		}
	}
	return found
}

// owned reads a process if it is at work on the owner's clusters. The environment of other users' processes cannot be
// read.
func owned(pid int, ownerID string) (o orphan, env map[string]string, known bool) {
	env = map[string]string{}
	for _, variable := range process.Environment(pid) {
		name, value, _ := strings.Cut(variable, "=")
		env[name] = value
	}
	command := process.Arguments(pid)
	if env[ownerVariable] != ownerID || len(command) == 0 {
		return orphan{}, nil, false
	}
	return orphan{pid, filepath.Base(command[0])}, env, true
}
