package cli

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// endChildren kills the children of this process that lead a group, with their groups: tofu with its providers, suites with
// what they have started. They were told to end before; now this process does, and nobody else would wait for them.
func endChildren() {
	self := strconv.Itoa(os.Getpid())
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		raw, err := os.ReadFile(path)
		if err != nil { // it has ended meanwhile
			continue
		}
		// pid (name) state ppid pgrp ...; the name may hold anything, so what follows the last parenthesis counts.
		fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
		pid := filepath.Base(filepath.Dir(path))
		if len(fields) < 3 || fields[1] != self || fields[2] != pid {
			continue
		}
		if group, err := strconv.Atoi(pid); err == nil {
			_ = syscall.Kill(-group, syscall.SIGKILL)
		}
	}
}
