package tofu

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// endOrphans ends the provider processes that a killed tofu has left in a cluster's working directory: they would stay for
// ever, with credentials in their environment. The caller holds the cluster, so no living tofu can be their parent.
func endOrphans(dir string) {
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, process := range processes {
		cwd, err := os.Readlink(filepath.Join(process, "cwd")) // fails for other users' processes
		if err != nil || strings.TrimSuffix(cwd, " (deleted)") != dir || !orphanedProvider(process) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(process)); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended meanwhile
		}
	}
}

// orphanedProvider tells whether a process is a provider whose parent is gone.
func orphanedProvider(process string) bool {
	command, err := os.ReadFile(filepath.Join(process, "cmdline"))
	if err != nil || !strings.HasPrefix(filepath.Base(strings.TrimRight(string(command), "\x00")), "terraform-provider-") {
		return false
	}
	// stat: pid (name) state ppid ...; the name may hold anything, so what follows the last parenthesis counts.
	stat, err := os.ReadFile(filepath.Join(process, "stat"))
	if err != nil {
		return false
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	return len(fields) > 1 && fields[1] == "1"
}
