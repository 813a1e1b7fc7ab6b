// Package process tells one process from all others, and reads what the kernel tells of them. Where there is no /proc,
// nothing is known of any.
package process

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Process tells one process from all others, also from a later one that gets its id.
type Process struct {
	// Place is where process ids mean the same: this host since it was started, and in it this namespace of processes
	// (each container has its own). Empty: it cannot be told.
	Place string
	PID   int
	Start string // when it was started, as the kernel counts
}

// Self is the process that asks.
func Self() Process {
	p := Process{PID: os.Getpid()}
	host, _ := os.Hostname()
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	space, spaceErr := os.Readlink("/proc/self/ns/pid")
	self, known := ReadStat(p.PID)
	if err != nil || spaceErr != nil || !known {
		return p // there are no such files here: others wait until the mark of a dead process lapses
	}
	sum := sha256.Sum256([]byte(host + "\n" + string(boot) + space))
	p.Place, p.Start = hex.EncodeToString(sum[:8]), self.Start
	return p
}

// Dead tells whether the process is known to have ended. Of one in another place nothing is known.
func (p Process) Dead() bool {
	if own := Self().Place; own == "" || p.Place != own || p.PID <= 0 {
		return false
	}
	if errors.Is(syscall.Kill(p.PID, 0), syscall.ESRCH) {
		return true
	}
	now, known := ReadStat(p.PID)
	return known && (now.Start != p.Start || now.Dead())
}

// String is what Parse reads.
func (p Process) String() string { return p.Place + ":" + strconv.Itoa(p.PID) + ":" + p.Start }

// Parse reads what String has written. Of what it cannot read nothing is known: it is never dead.
func Parse(text string) Process {
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		return Process{}
	}
	pid, err := strconv.Atoi(parts[1])
	if err != nil {
		return Process{}
	}
	return Process{Place: parts[0], PID: pid, Start: parts[2]}
}

// Stat is what the kernel tells of a process.
type Stat struct {
	State         string // a letter: R, S, D; Z and X are dead
	Parent, Group int
	Start         string // as the kernel counts
}

// Dead tells whether the process has ended; one that nobody has waited for yet is dead, too.
func (s Stat) Dead() bool { return s.State == "Z" || s.State == "X" }

// ReadStat reads it; known is false of a process that has ended, or where there is no /proc.
func ReadStat(pid int) (stat Stat, known bool) {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return Stat{}, false
	}
	return parseStat(string(raw))
}

// parseStat reads "pid (name) state ppid pgrp ...". The name may hold anything, so what follows the last parenthesis
// counts.
func parseStat(line string) (stat Stat, known bool) {
	fields := strings.Fields(line[strings.LastIndexByte(line, ')')+1:])
	if len(fields) < 20 {
		return Stat{}, false
	}
	parent, parentErr := strconv.Atoi(fields[1])
	group, groupErr := strconv.Atoi(fields[2])
	return Stat{State: fields[0], Parent: parent, Group: group, Start: fields[19]}, parentErr == nil && groupErr == nil
}

// All are the ids of the processes that can be seen from here.
func All() []int {
	paths, _ := filepath.Glob("/proc/[0-9]*")
	var pids []int
	for _, path := range paths {
		if pid, err := strconv.Atoi(filepath.Base(path)); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
