package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// process tells one process from all others, also from a later one that gets its id.
type process struct {
	// place is where process ids mean the same: this host since it was started, and in it this namespace of processes (each
	// container has its own). Empty: it cannot be told.
	place string
	pid   int
	start string // when it was started, as the kernel counts
}

func thisProcess() process {
	p := process{pid: os.Getpid()}
	host, _ := os.Hostname()
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	space, spaceErr := os.Readlink("/proc/self/ns/pid")
	self, known := readStat(p.pid)
	if err != nil || spaceErr != nil || !known {
		return p // there are no such files here: others wait until the mark of a dead process lapses
	}
	sum := sha256.Sum256([]byte(host + "\n" + string(boot) + space))
	p.place, p.start = hex.EncodeToString(sum[:8]), self.start
	return p
}

// dead tells whether the process is known to have ended. Of one in another place nothing is known.
func (p process) dead() bool {
	if own := thisProcess().place; own == "" || p.place != own || p.pid <= 0 {
		return false
	}
	if errors.Is(syscall.Kill(p.pid, 0), syscall.ESRCH) {
		return true
	}
	now, known := readStat(p.pid)
	return known && (now.start != p.start || now.state == "Z" || now.state == "X") // one that nobody has waited for yet is dead, too
}

// processStat is what the kernel tells of a process, as it writes it.
type processStat struct{ state, parent, group, start string }

// readStat reads it; known is false of a process that has ended, or where there is no /proc.
func readStat(pid int) (stat processStat, known bool) {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return processStat{}, false
	}
	// pid (name) state ppid pgrp ...; the name may hold anything, so what follows the last parenthesis counts.
	fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
	if len(fields) < 20 {
		return processStat{}, false
	}
	return processStat{state: fields[0], parent: fields[1], group: fields[2], start: fields[19]}, true
}
