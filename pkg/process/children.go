package process

import (
	"os"
	"slices"
	"syscall"
	"time"
)

// killedTime is how long what was killed may take to be gone.
const killedTime = time.Second

// EndChildren kills the children of this process that lead a group, with their groups: tofu with its providers, suites
// with what they have started. They were told to end before; now this process does, and nobody else would wait for
// them. It returns when they are gone, or after a second.
func EndChildren() {
	self := os.Getpid()
	var groups []int
	for _, pid := range All() {
		if stat, known := ReadStat(pid); known && stat.Parent == self && stat.Group == pid {
			groups = append(groups, pid)
			_ = syscall.Kill(-pid, syscall.SIGKILL)
		}
	}
	for end := time.Now().Add(killedTime); anyOf(groups) && time.Now().Before(end); {
		time.Sleep(2 * time.Millisecond)
	}
}

// anyOf tells whether any process of these groups is left.
func anyOf(groups []int) bool {
	return len(groups) > 0 && slices.ContainsFunc(All(), func(pid int) bool {
		stat, known := ReadStat(pid)
		return known && !stat.Dead() && slices.Contains(groups, stat.Group)
	})
}
