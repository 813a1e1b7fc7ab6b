package process

import (
	"os"
	"syscall"
)

// EndChildren kills the children of this process that lead a group, with their groups: tofu with its providers, suites with
// what they have started. They were told to end before; now this process does, and nobody else would wait for them.
func EndChildren() {
	self := os.Getpid()
	for _, pid := range All() {
		if stat, known := ReadStat(pid); known && stat.Parent == self && stat.Group == pid {
			_ = syscall.Kill(-pid, syscall.SIGKILL)
		}
	}
}
