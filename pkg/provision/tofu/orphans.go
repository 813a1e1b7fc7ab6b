package tofu

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"hive-test/pkg/process"
)

// EndOrphans ends the provider processes that a killed tofu has left on this machine, those of the clusters of one owner id:
// they would stay for ever, with credentials in their environment, and may still be at work. A provider whose tofu lives is
// left alone. Where there is no /proc it does nothing.
func EndOrphans(ownerID string) {
	if ownerID == "" {
		return
	}
	for _, pid := range process.All() {
		if orphanedProvider(pid, ownerID) {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended meanwhile
		}
	}
}

// orphanedProvider tells whether a process is a provider of the owner's clusters whose parent is gone.
func orphanedProvider(pid int, ownerID string) bool {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	environ, err := os.ReadFile(filepath.Join(dir, "environ")) // fails for other users' processes
	if err != nil || !slices.Contains(strings.Split(string(environ), "\x00"), ownerVariable+"="+ownerID) {
		return false
	}
	command, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if err != nil || !strings.HasPrefix(filepath.Base(strings.TrimRight(string(command), "\x00")), "terraform-provider-") {
		return false
	}
	stat, known := process.ReadStat(pid)
	return known && stat.Parent == 1
}
