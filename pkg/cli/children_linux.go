package cli

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// endChildren kills the children of this process that lead a group, with their groups: tofu with its providers, suites with
// what they have started. They were told to end before; now this process does, and nobody else would wait for them.
func endChildren() {
	self := strconv.Itoa(os.Getpid())
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, path := range processes {
		pid, err := strconv.Atoi(filepath.Base(path))
		if err != nil {
			continue
		}
		if stat, known := readStat(pid); known && stat.parent == self && stat.group == strconv.Itoa(pid) {
			_ = syscall.Kill(-pid, syscall.SIGKILL)
		}
	}
}
