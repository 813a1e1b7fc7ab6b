package tofu

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// EndOrphans ends the provider processes that a killed tofu has left on this machine, those of the clusters of one owner id:
// they would stay for ever, with credentials in their environment, and may still be at work. A provider whose tofu lives is
// left alone. Where there is no /proc it does nothing.
func EndOrphans(ownerID string) {
	if ownerID == "" {
		return
	}
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, process := range processes {
		environ, err := os.ReadFile(filepath.Join(process, "environ")) // fails for other users' processes
		if err != nil || !slices.Contains(strings.Split(string(environ), "\x00"), ownerVariable+"="+ownerID) || !orphanedProvider(process) {
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
